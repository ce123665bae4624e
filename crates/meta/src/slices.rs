//! A test set in slices: by domain, by document, by the length of the source. Statistics treat a slice as a
//! test set of its own.

use super::Error;
use super::spans::strings::tokens;
use super::testset::TestSet;

/// What segments are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Domain,
    Document,
    /// HiMATE's classes: up to 12 source tokens, up to 27, more. A token is a word or an ideograph.
    Length,
}

/// HiMATE, Table 3.
pub const LENGTHS: [usize; 2] = [12, 27];

/// A named set of segments, in order.
pub type Slice = (String, Vec<usize>);

impl By {
    /// The cut of that name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name {
            "domain" => Ok(Self::Domain),
            "doc" | "document" => Ok(Self::Document),
            "length" => Ok(Self::Length),
            _ => Err(Error::Unsuitable(format!(
                "unknown slice `{name}`; hint: it can be domain, doc or length"
            ))),
        }
    }

    /// The slices of a test set, in order of their first segment; lengths from short to long.
    ///
    /// # Errors
    /// Sources that cannot be read.
    pub fn slices(self, testset: &TestSet) -> Result<Vec<Slice>, Error> {
        let names: Vec<String> = match self {
            Self::Domain => testset.places.iter().map(|place| place.domain.clone()).collect(),
            Self::Document => testset.places.iter().map(|place| place.doc.clone()).collect(),
            Self::Length => testset.sources()?.iter().map(|source| length_class(source).to_owned()).collect(),
        };
        let mut slices: Vec<Slice> = match self {
            Self::Length => ["short", "medium", "long"].map(|name| (name.to_owned(), Vec::new())).to_vec(),
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
#[must_use]
pub fn length_class(source: &str) -> &'static str {
    match tokens(source).len() {
        n if n <= LENGTHS[0] => "short",
        n if n <= LENGTHS[1] => "medium",
        _ => "long",
    }
}
