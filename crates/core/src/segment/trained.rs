//! Contamination check: source texts of training data, recognised by their hashes. It trains nothing and
//! scores nothing.
//!
//! Hashed are the normal form (NFKC, lower case, without white space) of a whole source and of each of its
//! distinctive sentences, so that sources that were joined or split are recognised.

use std::{collections::BTreeSet, fmt};

use icu_normalizer::ComposingNormalizerBorrowed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;

/// The file beside an adapter that lists the hashes of the sources that it was trained on, one on a line.
pub const FILE: &str = "trained.sha256";

/// The prefix of a hash, which names the rule for what is hashed.
pub const VERSION: &str = "v2:";

/// Digits of a short hash: too many for two texts to share by chance.
pub const SHORT: usize = 16;

/// The least characters of a distinctive sentence; ideographs and syllables count twice.
const DISTINCTIVE: usize = 20;

/// Marks that end a sentence where a blank follows; NFKC has made these of the full-width ones.
const ENDS: [char; 6] = ['.', '!', '?', '؟', '।', '۔'];

/// Marks that end a sentence whatever follows.
const FULL_STOPS: [char; 2] = ['。', '｡'];

/// Closing marks that may follow the end of a sentence.
const CLOSERS: [char; 12] = ['"', '\'', ')', ']', '}', '”', '’', '»', '」', '』', '）', '›'];

/// The SHA-256 of a source text without the white space around it, in hexadecimal digits.
pub fn source_hash(source: &str) -> String {
    digest::sha256(source.trim())
}

/// The hashes of a source: of the whole and of each distinctive sentence; none of an empty one.
///
/// ```
/// use tribunal_core::segment::trained::hashes;
/// let one = hashes("The first sentence of this text. And here is the second one.");
/// assert_eq!(one.len(), 3);
/// // The same sentences, cut and written otherwise.
/// let two = hashes("the  first sentence of this text.\nAnd here is the second one. A third, which is new.");
/// assert_eq!(one.intersection(&two).count(), 2);
/// assert!(hashes(" ").is_empty());
/// ```
pub fn hashes(source: &str) -> BTreeSet<String> {
    let hash = |text: &String| VERSION.to_owned() + &source_hash(text);
    let normalised = normal(source);
    distinctive(source)
        .iter()
        .chain([&normalised].into_iter().filter(|text| !text.is_empty()))
        .map(hash)
        .collect()
}

/// The hashes of a source, cut to [`SHORT`] digits.
pub fn short_hashes(source: &str) -> BTreeSet<String> {
    hashes(source).iter().map(|hash| hash[..VERSION.len() + SHORT].to_owned()).collect()
}

/// The normal forms of the distinctive sentences of a source: those that are long enough not to recur by
/// chance.
pub fn distinctive(source: &str) -> BTreeSet<String> {
    let width = |text: &String| text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum::<usize>();
    let nfkc = ComposingNormalizerBorrowed::new_nfkc().normalize(source);
    sentences(&nfkc).into_iter().map(normal).filter(|sentence| width(sentence) >= DISTINCTIVE).collect()
}

/// NFKC, lower case, without white space and invisible marks.
fn normal(text: &str) -> String {
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let lower = nfkc.normalize(text).to_lowercase();
    let is_visible = |c: &char| {
        !c.is_whitespace() && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
    };
    nfkc.normalize(&lower).chars().filter(is_visible).collect()
}

/// The sentences of a text, regardless of case: a line ends one, and so does a mark with a blank behind it.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let (mut start, mut has_ended) = (0, false);
        for (at, c) in line.char_indices() {
            let is_full_stop = FULL_STOPS.contains(&c);
            if has_ended && !is_full_stop && !ENDS.contains(&c) && !CLOSERS.contains(&c) {
                let before = line[..at].trim_end_matches(CLOSERS);
                if c.is_whitespace() || is_wide(c) || before.ends_with(FULL_STOPS) {
                    sentences.push(&line[start..at]);
                    start = at;
                }
                has_ended = false;
            }
            has_ended |= is_full_stop || ENDS.contains(&c);
        }
        sentences.push(&line[start..]);
    }
    sentences
}

/// Ideographs, kana and Hangul, which stand for more than a letter and are written without spaces.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Hashes of the sources that something was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedOn {
    /// Description of the trained object: the adapter and its name, the fit and its hash.
    what: String,
    /// Whole hashes or their first digits, without [`VERSION`], sorted.
    hashes: Vec<String>,
}

impl TrainedOn {
    /// Hashes with [`VERSION`], whole or at least [`SHORT`] digits of each; others are ignored.
    pub fn new(name: impl Into<String>, hashes: impl IntoIterator<Item = String>) -> Self {
        let digits = hashes.into_iter().filter_map(|hash| hash.strip_prefix(VERSION).map(str::to_owned));
        let mut hashes: Vec<String> = digits.collect();
        hashes.sort_unstable();
        Self { what: name.into(), hashes }
    }

    /// The hashes of the given sources.
    pub fn from_sources<'a>(name: impl Into<String>, sources: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(name, sources.into_iter().flat_map(hashes).collect::<BTreeSet<_>>())
    }

    /// Reads a list of hashes, one on a line.
    ///
    /// # Errors
    /// The number of the first line that is not a hash.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, usize> {
        let is_hash = |line: &str| {
            let digits = line.strip_prefix(VERSION).unwrap_or_default();
            digits.len() >= SHORT && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let lines = text.lines().map(str::trim_end).collect::<Vec<_>>();
        match lines.iter().position(|line| !is_hash(line)) {
            Some(at) => Err(at + 1),
            None => Ok(Self::new(name, lines.into_iter().map(str::to_owned))),
        }
    }

    /// Returns true if the training data contains this source, or a distinctive sentence of it.
    pub fn knows(&self, source: &str) -> bool {
        !self.hashes.is_empty()
            && hashes(source).iter().any(|hash| is_among(&self.hashes, &hash[VERSION.len()..]))
    }

    /// An overlap of no segments yet.
    pub fn overlap(&self) -> Overlap {
        Overlap { what: self.what.clone(), segments: 0, of: 0 }
    }
}

/// Returns true if a hash, or its first digits, are in a sorted list.
fn is_among(list: &[String], hash: &str) -> bool {
    let after = list.partition_point(|known| known.as_str() <= hash);
    after > 0 && hash.starts_with(&list[after - 1])
}

/// Overlap of the judged segments with training data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overlap {
    /// Description of the trained object.
    pub what: String,
    /// Segments whose source, or a sentence of it, it was trained on.
    pub segments: usize,
    /// All segments that are judged.
    pub of: usize,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what: name, segments, of } = self;
        write!(
            f,
            "{name} was trained on the sources of {segments} of these {of} segments: scores there say nothing about how \
             good it is"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(trained: &[&str], source: &str) -> bool {
        TrainedOn::from_sources("it", trained.iter().copied()).knows(source)
    }

    #[test]
    fn a_source_is_known_by_its_hashes_or_the_first_digits_of_them() {
        let sources = ["One.", "Two.", "Three."];
        let whole: Vec<String> = sources.into_iter().flat_map(hashes).collect();
        let short: Vec<String> = sources.into_iter().flat_map(short_hashes).collect();
        for hashes in [whole, short] {
            let trained = TrainedOn::new("it", hashes);
            let known = ["One.", " Two.\n", "Three.", "Four.", ""].map(|source| trained.knows(source));
            assert_eq!(known, [true, true, true, false, false], "blanks around a text are no part of it");
        }
        assert!(!TrainedOn::new("it", Vec::new()).knows("One."));
    }

    #[test]
    fn the_way_of_writing_makes_no_other_text() {
        let source = "The ﬁrst Café of all";
        for same in
            ["the first cafe\u{301}  of\tall", "THE FIRST CAFÉ\u{a0}OF ALL", "Ｔｈｅ ﬁrst Ca\u{ad}fé of all"]
        {
            assert!(knows(&[source], same), "{same}");
        }
        assert!(!knows(&[source], "The first cafés of all"));
    }

    #[test]
    fn sources_that_are_joined_or_cut_otherwise_are_known() {
        let (one, two) = ("She went to the market early. It rained.", "Nobody had expected such a crowd!");
        let joined = format!("{one}\n{two}");
        for cut in [&joined, "It rained. Nobody had expected such a crowd!", "she went to the market early."]
        {
            assert!(knows(&[one, two], cut), "{cut}");
            assert!(knows(&[&joined], cut), "{cut}");
        }
        assert!(!knows(&[one, two], "It rained. That was all."), "short sentences may recur");
        let (first, second) = ("他昨天一大早就去了附近的市场。", "没有人想到会有这么多的人！");
        assert!(knows(&[&format!("{first}{second}")], &format!("是的。{second}")));
        assert!(knows(&[&format!("“{first}”{second}")], second));
        assert!(!knows(&[first], second));
    }

    #[test]
    fn a_list_of_hashes_is_checked() {
        let text = ["One.", "Two."].into_iter().flat_map(hashes).map(|hash| hash + "\n").collect::<String>();
        assert!(TrainedOn::parse("it", &text).unwrap().knows("two."));
        assert_eq!(TrainedOn::parse("it", &source_hash("One.")), Err(1), "without the version");
        assert_eq!(TrainedOn::parse("it", &format!("{text}Two.\n")), Err(3));
        assert_eq!(TrainedOn::parse("it", &format!("{text}v3:{}\n", source_hash("x"))), Err(3));
        assert_eq!(TrainedOn::parse("it", "\n"), Err(1));
        // The value of `sha256sum`, so that the rule cannot change unnoticed.
        assert_eq!(source_hash(" abc ")[..SHORT], *"ba7816bf8f01cfea");
        assert_eq!(short_hashes(" A\u{a0}bc "), BTreeSet::from(["v2:ba7816bf8f01cfea".to_owned()]));
    }
}
