//! Prefixes of recent prompts, to report how many prompt tokens no earlier prompt shares. It stores hashes,
//! no tokens.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// The least distinct prefixes that are kept.
const LEAST: usize = 1 << 20;

/// Hashes of recent prompt prefixes: at least the last million distinct prefixes are kept, and at most twice
/// as many (40 MB). A prefix that occurs again later than that counts as new.
#[derive(Debug)]
pub struct PrefixTracker {
    recent: HashSet<u64>,
    /// The previous generation; prefixes that do not occur again are dropped with it.
    older: HashSet<u64>,
    least: usize,
}

impl Default for PrefixTracker {
    fn default() -> Self {
        Self::keeping(LEAST)
    }
}

impl PrefixTracker {
    fn keeping(least: usize) -> Self {
        Self { recent: HashSet::new(), older: HashSet::new(), least }
    }

    /// Adds a prompt and returns how many of its prefixes are new: its tokens that no earlier prompt shares.
    pub fn add(&mut self, prompt: &[u32]) -> usize {
        let mut prefix = DefaultHasher::new();
        let mut n = 0;
        for id in prompt {
            id.hash(&mut prefix);
            n += usize::from(self.is_new(prefix.finish()));
        }
        n
    }

    fn is_new(&mut self, prefix: u64) -> bool {
        if !self.recent.insert(prefix) {
            return false;
        }
        let is_new = !self.older.contains(&prefix);
        if self.recent.len() > self.least {
            std::mem::swap(&mut self.recent, &mut self.older);
            self.recent.clear();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_beginnings_count_once() {
        let mut tracker = PrefixTracker::default();
        let prompts: [&[u32]; 6] = [&[1, 2, 3], &[1, 2, 4, 5], &[1, 2, 3], &[9, 1, 2], &[1, 2], &[2, 1]];
        assert_eq!(prompts.map(|prompt| tracker.add(prompt)), [3, 2, 0, 3, 0, 2]);
    }

    #[test]
    fn it_stays_small_and_remembers_what_all_prompts_share() {
        let mut tracker = PrefixTracker::keeping(100);
        assert_eq!(tracker.add(&[1, 2, 3, 4]), 4);
        for other in 10..10_000 {
            assert_eq!(tracker.add(&[1, 2, 3, other]), 1, "{other}");
            assert!(tracker.recent.len() + tracker.older.len() <= 202);
        }
        assert_eq!(tracker.add(&[1, 2, 3, 9_999]), 0);
        assert_eq!(tracker.add(&[1, 2, 3, 10]), 1, "that was long ago");
    }
}
