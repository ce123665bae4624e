//! Source texts that something was trained on, known again by their hashes: this is the one rule for what is hashed. It
//! trains nothing and scores nothing.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The file beside an adapter that lists the hashes of the sources that it was trained on, one on a line.
pub const FILE: &str = "trained.sha256";

/// Digits of a hash where room is dear: too many for two texts to share by chance.
pub const SHORT: usize = 16;

/// The SHA-256 of a source text without the blanks around it, in hexadecimal digits.
#[must_use]
pub fn source_hash(source: &str) -> String {
    Sha256::digest(source.trim()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes of the sources that something was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedOn {
    /// What was trained, in words: the adapter and its name, the fit and its hash.
    what: String,
    /// Whole hashes or their first digits, sorted.
    hashes: Vec<String>,
}

impl TrainedOn {
    /// Hashes of [`source_hash`], whole or at least [`SHORT`] digits of each.
    #[must_use]
    pub fn new(what: impl Into<String>, mut hashes: Vec<String>) -> Self {
        hashes.sort_unstable();
        Self { what: what.into(), hashes }
    }

    /// Reads a list of hashes, one on a line.
    ///
    /// # Errors
    /// The number of the first line that is not a hash.
    pub fn parse(what: impl Into<String>, text: &str) -> Result<Self, usize> {
        let is_hash =
            |line: &str| line.len() >= SHORT && line.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let lines = text.lines().map(str::trim_end).collect::<Vec<_>>();
        match lines.iter().position(|line| !is_hash(line)) {
            Some(at) => Err(at + 1),
            None => Ok(Self::new(what, lines.into_iter().map(str::to_owned).collect())),
        }
    }

    /// Whether it was trained on this source.
    #[must_use]
    pub fn knows(&self, source: &str) -> bool {
        let hash = source_hash(source);
        let after = self.hashes.partition_point(|known| *known <= hash);
        after > 0 && hash.starts_with(&self.hashes[after - 1])
    }

    /// An overlap that nothing has been counted for yet.
    #[must_use]
    pub fn overlap(&self) -> Overlap {
        Overlap { what: self.what.clone(), segments: 0, of: 0 }
    }
}

/// How much of an input something was trained on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// What was trained.
    pub what: String,
    /// Segments whose source it was trained on.
    pub segments: usize,
    /// All segments of the input.
    pub of: usize,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, segments, of } = self;
        write!(
            f,
            "{what} was trained on the sources of {segments} of these {of} segments: scores there say nothing about how \
             good it is"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_known_by_its_hash_or_the_first_digits_of_it() {
        let all = ["One.", "Two.", "Three."].map(source_hash);
        let short = all.clone().map(|hash| hash[..SHORT].to_owned());
        for hashes in [all.to_vec(), short.to_vec()] {
            let trained = TrainedOn::new("it", hashes);
            let known = ["One.", " Two.\n", "Three.", "Four.", ""].map(|source| trained.knows(source));
            assert_eq!(known, [true, true, true, false, false], "blanks around a text are no part of it");
        }
        assert!(!TrainedOn::new("it", Vec::new()).knows("One."));
    }

    #[test]
    fn a_list_of_hashes_is_checked() {
        let text = ["One.", "Two."].map(source_hash).join("\n") + "\n";
        assert!(TrainedOn::parse("it", &text).unwrap().knows("Two."));
        assert_eq!(TrainedOn::parse("it", &format!("{text}Two.\n")), Err(3));
        assert_eq!(TrainedOn::parse("it", "\n"), Err(1));
        // The value of `sha256sum`, so that the rule cannot change unnoticed.
        assert_eq!(source_hash(" abc ")[..SHORT], *"ba7816bf8f01cfea");
    }
}
