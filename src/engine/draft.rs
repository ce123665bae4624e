//! Guesses at the next tokens of an answer: the text that a span is being copied from, or what followed the
//! last few tokens when they stood somewhere before. The model confirms each guess or replaces it in the same
//! step, so a guess can save time and never changes an answer. It reads no logits.

use super::grammar::Grammar;

/// Tokens of a step up to which reading the weights costs more than computing with them.
const CHEAP_TOKENS: usize = 8;

/// The longest guess.
const MOST: usize = 8;

/// Tokens whose earlier occurrence is looked for, longest first.
const NGRAMS: [usize; 2] = [3, 2];

/// How many tokens each of so many rows may guess ahead so that the step stays cheap.
#[must_use]
pub fn share(n_rows: usize) -> usize {
    (CHEAP_TOKENS / n_rows.max(1)).saturating_sub(1).min(MOST)
}

/// What may follow `tokens` (prompt and answer so far), at most `n` tokens; empty where nothing suggests itself.
#[must_use]
pub fn guess(tokens: &[u32], grammar: Option<&Grammar>, n: usize) -> Vec<u32> {
    if n == 0 {
        return Vec::new();
    }
    let copied = grammar.map(|grammar| grammar.copied(n)).unwrap_or_default();
    if copied.is_empty() { repeated(tokens, n).to_vec() } else { copied }
}

/// What followed the last tokens where they stood most recently before.
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
    fn many_rows_guess_nothing() {
        assert_eq!([1, 2, 4, 5, 64].map(share), [7, 3, 1, 0, 0]);
    }
}
