//! A test set in slices: by domain, by document, by the length of the source. Statistics treat a slice as a
//! test set of its own.

use super::spans::strings::tokens;
use super::testset::TestSet;
use super::{Error, Result};

/// Criterion that segments are grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Domain,
    Document,
    /// HiMATE's classes: up to 12 source tokens, up to 27, more. A token is a word or an ideograph.
    Length,
    /// Classes that end at these numbers of source tokens, rising, and one beyond them.
    LengthUpTo(Vec<usize>),
}

/// HiMATE, Table 3.
pub const LENGTHS: [usize; 2] = [12, 27];

/// A named set of segments, in order.
pub type Slice = (String, Vec<usize>);

impl By {
    /// The criterion of that name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "domain" => Ok(Self::Domain),
            "doc" | "document" => Ok(Self::Document),
            "length" => Ok(Self::Length),
            _ => match name.strip_prefix("length:") {
                Some(ends) => Self::lengths(name, ends),
                None => Err(Error::Unsuitable(format!(
                    "unknown slice `{name}`; hint: it can be domain, doc, length or length:N,N with the tokens at \
                     which classes end"
                ))),
            },
        }
    }

    fn lengths(name: &str, ends: &str) -> Result<Self> {
        let ends: Option<Vec<usize>> = ends.split(',').map(|end| end.trim().parse().ok()).collect();
        let is_rising = |ends: &Vec<usize>| ends[0] > 0 && ends.windows(2).all(|pair| pair[0] < pair[1]);
        ends.filter(is_rising).map(Self::LengthUpTo).ok_or_else(|| {
            Error::Unsuitable(format!("`{name}` is not a rising list of lengths; hint: length:25,50,100"))
        })
    }

    /// The slices of a test set, in order of their first segment; lengths from short to long.
    ///
    /// # Errors
    /// Sources that cannot be read.
    pub fn slices(&self, testset: &TestSet) -> Result<Vec<Slice>> {
        let names: Vec<String> = match self {
            Self::Domain => testset.places.iter().map(|place| place.domain.clone()).collect(),
            Self::Document => testset.places.iter().map(|place| place.doc.clone()).collect(),
            Self::Length => testset.sources()?.iter().map(|source| length_class(source).to_owned()).collect(),
            Self::LengthUpTo(ends) => {
                let class = |source: &String| class_up_to(ends, tokens(source).len());
                testset.sources()?.iter().map(class).collect()
            }
        };
        let mut slices: Vec<Slice> = match self {
            Self::Length => ["short", "medium", "long"].map(|name| (name.to_owned(), Vec::new())).to_vec(),
            Self::LengthUpTo(ends) => {
                let lengths = ends.iter().copied().chain(ends.last().map(|last| last + 1));
                lengths.map(|length| (class_up_to(ends, length), Vec::new())).collect()
            }
            _ => Vec::new(),
        };
        for (segment, name) in names.into_iter().enumerate() {
            match slices.iter_mut().find(|(known, _)| *known == name) {
                Some((_, segments)) => segments.push(segment),
                None => slices.push((name, vec![segment])),
            }
        }
        Ok(slices)
    }
}

/// The class of a source text by its number of tokens.
///
/// ```
/// use tribunal_meta::slices::length_class;
/// assert_eq!(length_class("Twelve words at most make a source text short here , or so"), "medium");
/// assert_eq!(length_class("测试一下"), "short");
/// ```
pub fn length_class(source: &str) -> &'static str {
    match tokens(source).len() {
        n if n <= LENGTHS[0] => "short",
        n if n <= LENGTHS[1] => "medium",
        _ => "long",
    }
}

/// The name of the class of a number of tokens.
fn class_up_to(ends: &[usize], n: usize) -> String {
    let at = ends.partition_point(|end| *end < n);
    match (at, ends.get(at)) {
        (0, Some(end)) => format!("up to {end}"),
        (at, Some(end)) => format!("{} to {end}", ends[at - 1] + 1),
        (at, None) => format!("over {}", ends[at - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_lengths_are_named_by_their_ends() {
        assert_eq!(By::named("length:25,50").unwrap(), By::LengthUpTo(vec![25, 50]));
        let classes = [1, 25, 26, 50, 51].map(|n| class_up_to(&[25, 50], n));
        assert_eq!(classes, ["up to 25", "up to 25", "26 to 50", "26 to 50", "over 50"]);
        for wrong in ["length:", "length:50,25", "length:0", "length:a", "words"] {
            assert!(By::named(wrong).is_err(), "{wrong}");
        }
    }
}
