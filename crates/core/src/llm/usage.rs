//! Counts of the tokens of requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Prompt tokens that were computed, and those of given continuations.
    pub computed: usize,
    /// Prompt tokens taken from the prefix cache.
    pub cached: usize,
    /// Prompt tokens after the longest prefix shared with any earlier prompt. Their sum over all prompts is a
    /// lower bound on the computed ones.
    #[serde(default)]
    pub distinct: usize,
    /// Answer tokens.
    pub generated: usize,
    /// Answer tokens that the form forced.
    pub forced: usize,
    /// Draft tokens, and how many of them were accepted.
    pub drafted: usize,
    pub accepted: usize,
}

impl std::ops::AddAssign<&Self> for Usage {
    fn add_assign(&mut self, other: &Self) {
        // No `..`: a new count is added here.
        let Self { computed, cached, distinct, generated, forced, drafted, accepted } = other;
        self.computed += computed;
        self.cached += cached;
        self.distinct += distinct;
        self.generated += generated;
        self.forced += forced;
        self.drafted += drafted;
        self.accepted += accepted;
    }
}

impl Usage {
    /// Prompt tokens, computed and cached.
    pub fn prompt(&self) -> usize {
        self.computed + self.cached
    }
}
