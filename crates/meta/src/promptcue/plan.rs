//! What a set is built from, and which set: the nouns that [`super::build`] and [`super::perturb`] share.

use crate::mqm::ratings::Marked;

/// A rated translation.
#[derive(Clone, Debug)]
pub struct Rated<'a> {
    pub source: &'a str,
    pub reference: &'a str,
    pub target: &'a str,
    pub errors: &'a [Marked],
}

/// Which set, how large, and the languages' names.
#[derive(Clone, Debug)]
pub struct Plan {
    pub set: Set,
    /// Cues of each label (GEN), or of the whole set: half of them major (GEN, MIS) or perturbed (PTB). Even.
    pub size: usize,
    pub seed: u64,
    pub source_lang: String,
    pub target_lang: String,
}

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Gen,
    Ptb,
    Mis,
}
