//! How much of prompts a model computes. Seconds are for whoever has measured the model.

use std::{iter::Sum, ops::AddAssign};

/// Tokens that a model computes. Attention compares each of them with all tokens before it, so one at the end of a long
/// prompt takes longer than one at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    pub tokens: usize,
    /// The tokens before each of them, added up.
    pub pairs: usize,
}

impl Computed {
    /// The last `tokens` of a prompt of `length` tokens, what is before them being cached.
    ///
    /// ```
    /// # use tribunal::run::plan::Computed;
    /// // The last two tokens of five: one has three tokens before it, the other four.
    /// assert_eq!(Computed::last(2, 5), Computed { tokens: 2, pairs: 7 });
    /// ```
    #[must_use]
    pub fn last(tokens: usize, length: usize) -> Self {
        let cached = length.saturating_sub(tokens);
        Self { tokens, pairs: tokens * cached + tokens * tokens.saturating_sub(1) / 2 }
    }

    /// What all groups compute beyond what was counted already, from what some of them do: the first one's holds what all
    /// groups share, the others' do not.
    #[must_use]
    pub fn of_all(of_some: &[Self], n_groups: usize) -> Self {
        let Some((first, rest)) = of_some.split_first() else { return Self::default() };
        let others = if rest.is_empty() { of_some } else { rest };
        let all: Self = others.iter().copied().sum();
        let scaled = |sum: usize| {
            (sum as f64 / others.len() as f64 * n_groups.saturating_sub(1) as f64).round() as usize
        };
        Self { tokens: first.tokens + scaled(all.tokens), pairs: first.pairs + scaled(all.pairs) }
    }
}

impl AddAssign for Computed {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.pairs += other.pairs;
    }
}

impl Sum for Computed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_prompt_add_up_to_the_whole() {
        let whole = Computed::last(700, 700);
        assert_eq!(whole.pairs, (0..700).sum::<usize>());
        let parts = [Computed::last(512, 512), Computed::last(188, 700), Computed::last(0, 700)];
        assert_eq!(parts.into_iter().sum::<Computed>(), whole);
    }

    #[test]
    fn what_groups_share_counts_once() {
        let of = |tokens| Computed { tokens, pairs: tokens * 100 };
        assert_eq!(Computed::of_all(&[of(50), of(10), of(20)], 11), of(50 + 15 * 10));
        assert_eq!(Computed::of_all(&[of(50)], 3), of(150));
        assert_eq!(Computed::of_all(&[], 3), of(0));
    }
}
