//! Speculative decoding without a draft model: drafts are taken from the text that a span is being copied
//! from, or from the last occurrence of the same n-gram (prompt lookup). The model verifies them in the same
//! step, so that a draft saves time but never changes an answer.

use super::grammar::Grammar;

/// The longest draft.
const MOST: usize = 8;

/// Sizes of the n-grams to look up, longest first.
const NGRAMS: [usize; 2] = [3, 2];

/// The number of tokens that each of `n_rows` rows may draft, so that the step has at most `cheap` rows;
/// beyond that a drafted row costs as much as any other.
pub fn share(n_rows: usize, cheap: usize) -> usize {
    (cheap / n_rows.max(1)).saturating_sub(1).min(MOST)
}

/// The draft length of an answer, adapted to its acceptance rate: twice the last accepted length, since a
/// rejected token costs a row of the step.
#[derive(Clone, Copy, Debug)]
pub struct DraftBudget {
    n: usize,
    n_right: usize,
    /// A draft that was not tried, for comparison with the token that follows.
    untried: Option<u32>,
}

impl Default for DraftBudget {
    fn default() -> Self {
        Self { n: 2, n_right: 0, untried: None }
    }
}

impl DraftBudget {
    /// The length of the next draft, at least 1.
    pub fn length(&self) -> usize {
        self.n.max(1)
    }

    /// Takes a new draft and returns the part to try.
    pub fn propose(&mut self, mut guess: Vec<u32>) -> Vec<u32> {
        self.n_right = 0;
        self.untried = guess.first().copied().filter(|_| self.n == 0);
        guess.truncate(self.n);
        guess
    }

    /// Records the accepted token, and the drafted one.
    pub fn observe(&mut self, id: u32, believed: Option<u32>) {
        if self.untried.take() == Some(id) {
            self.n = 1;
        }
        if believed == Some(id) {
            self.n_right += 1;
            self.n = self.n.max(2 * self.n_right).min(MOST);
        } else if believed.is_some() {
            self.n = self.n_right;
        }
    }
}

/// A draft of at most `n` tokens after `tokens` (prompt and answer so far); empty if there is none.
pub fn guess(tokens: &[u32], grammar: Option<&Grammar>, n: usize) -> Vec<u32> {
    if n == 0 {
        return Vec::new();
    }
    let copied = grammar.map(|grammar| grammar.copied(n)).unwrap_or_default();
    if copied.is_empty() { repeated(tokens, n).to_vec() } else { copied }
}

/// The continuation of the last n-gram at its most recent earlier occurrence.
fn repeated(tokens: &[u32], n: usize) -> &[u32] {
    for length in NGRAMS {
        let Some(from) = tokens.len().checked_sub(length) else { continue };
        let (before, last) = (&tokens[..tokens.len() - 1], &tokens[from..]);
        if let Some(at) = before.windows(length).rposition(|window| window == last) {
            let follows = &tokens[at + length..];
            return &follows[..n.min(follows.len())];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_recent_continuation_of_the_longest_ngram() {
        assert_eq!(repeated(&[1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], 2), [4, 9], "three tokens before two");
        assert_eq!(repeated(&[2, 3, 5, 2, 3, 6, 7, 2, 3], 9), [6, 7, 2, 3], "the later of two places");
        assert_eq!(repeated(&[7, 7, 7], 4), [7], "a place may overlap the end");
        assert!(repeated(&[1, 2, 3, 4], 4).is_empty() && repeated(&[], 4).is_empty());
    }

    #[test]
    fn trust_follows_what_went_right() {
        let mut draft_budget = DraftBudget::default();
        assert_eq!(draft_budget.propose(vec![1, 2, 3]), [1, 2]);
        draft_budget.observe(1, Some(1));
        draft_budget.observe(2, Some(2));
        assert_eq!(draft_budget.length(), 4, "two went right");
        assert_eq!(draft_budget.propose(vec![1, 2, 3]), [1, 2, 3]);
        draft_budget.observe(1, Some(1));
        draft_budget.observe(9, Some(2));
        assert_eq!(draft_budget.propose(vec![1, 2]), [1], "one went right");
        draft_budget.observe(9, Some(1));
        assert!(draft_budget.propose(vec![7]).is_empty(), "none went right");
        draft_budget.observe(8, None);
        assert!(draft_budget.propose(vec![7]).is_empty(), "nor would this one have");
        draft_budget.observe(7, None);
        assert_eq!(draft_budget.propose(vec![5, 6]), [5], "this one would have");
    }

    #[test]
    fn many_rows_guess_nothing() {
        assert_eq!([1, 2, 4, 5, 64].map(|n| share(n, 8)), [7, 3, 1, 0, 0]);
    }
}
