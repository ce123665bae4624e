//! Which beginnings of prompts have been seen, to report how much of the prompt work was unavoidable. It holds no
//! token and decides nothing.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// How many beginnings are remembered for certain: those of the last million distinct tokens.
const LEAST: usize = 1 << 20;

/// The beginnings of prompts, by hash. It remembers those that came among the last million distinct ones, and at most
/// twice as many (40 MB), so that it stays small however long a run is. What all prompts share is never forgotten; a
/// beginning that comes again after so long counts as new.
#[derive(Debug)]
pub struct Seen {
    recent: HashSet<u64>,
    /// The generation before: what is not met again goes with it.
    older: HashSet<u64>,
    least: usize,
}

impl Default for Seen {
    fn default() -> Self {
        Self::remembering(LEAST)
    }
}

impl Seen {
    fn remembering(least: usize) -> Self {
        Self { recent: HashSet::new(), older: HashSet::new(), least }
    }

    /// Enters a prompt and returns how many of its tokens come after a beginning seen for the first time.
    pub fn enter(&mut self, prompt: &[u32]) -> usize {
        let mut beginning = DefaultHasher::new();
        let mut n = 0;
        for id in prompt {
            id.hash(&mut beginning);
            n += usize::from(self.is_new(beginning.finish()));
        }
        n
    }

    fn is_new(&mut self, beginning: u64) -> bool {
        if !self.recent.insert(beginning) {
            return false;
        }
        let is_new = !self.older.contains(&beginning);
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
        let mut seen = Seen::default();
        let prompts: [&[u32]; 6] = [&[1, 2, 3], &[1, 2, 4, 5], &[1, 2, 3], &[9, 1, 2], &[1, 2], &[2, 1]];
        assert_eq!(prompts.map(|prompt| seen.enter(prompt)), [3, 2, 0, 3, 0, 2]);
    }

    #[test]
    fn it_stays_small_and_remembers_what_all_prompts_share() {
        let mut seen = Seen::remembering(100);
        assert_eq!(seen.enter(&[1, 2, 3, 4]), 4);
        for other in 10..10_000 {
            assert_eq!(seen.enter(&[1, 2, 3, other]), 1, "{other}");
            assert!(seen.recent.len() + seen.older.len() <= 202);
        }
        assert_eq!(seen.enter(&[1, 2, 3, 9_999]), 0);
        assert_eq!(seen.enter(&[1, 2, 3, 10]), 1, "that was long ago");
    }
}
