//! The plan of a set: its source, its kind and its size, as [`super::build`] and [`super::perturb`] use them.

use tribunal_core::mqm::ratings::RatedError;

/// A rated translation.
#[derive(Clone, Debug)]
pub struct Rated<'a> {
    pub source: &'a str,
    pub reference: &'a str,
    pub target: &'a str,
    pub errors: &'a [RatedError],
}

/// The kind of the set, its size, and the languages' names.
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
