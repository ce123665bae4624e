//! chrF and chrF++ from counts that add up over segments.

use super::ngrams;
use super::tokenize::{is_space, words};

/// chrF2 with sacreBLEU's defaults; orders of words make it chrF++.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chrf {
    pub word_order: usize,
}

/// The longest n-gram of characters, spaces left out.
const CHAR_ORDER: usize = 6;

/// Weight of recall against precision.
const BETA: f64 = 2.0;

/// N-grams of the hypothesis, of the reference and in both, for each order; segments add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChrfCounts(Vec<[u64; 3]>);

impl Chrf {
    /// Score of one segment. Range: 0 to 100.
    ///
    /// ```
    /// use tribunal_meta::lexical::Chrf;
    /// assert_eq!(Chrf::default().sentence("abc", "abc"), 100.0);
    /// // One of two characters, no pair: precision and recall are both (1/2 + 0) / 2.
    /// assert!((Chrf::default().sentence("ab", "ac") - 25.0).abs() < 1e-9);
    /// ```
    pub fn sentence(self, hypothesis: &str, reference: &str) -> f64 {
        self.count(hypothesis, reference).score()
    }

    /// Score of a system: counts are summed before the F-score is taken.
    pub fn corpus<'a>(self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> f64 {
        let mut sum = ChrfCounts(vec![[0; 3]; CHAR_ORDER + self.word_order]);
        for (hypothesis, reference) in pairs {
            for (sum, counts) in sum.0.iter_mut().zip(self.count(hypothesis, reference).0) {
                *sum = std::array::from_fn(|side| sum[side] + counts[side]);
            }
        }
        sum.score()
    }

    /// The counts of one segment.
    pub fn count(self, hypothesis: &str, reference: &str) -> ChrfCounts {
        let (characters, ref_characters) = (chars(hypothesis), chars(reference));
        let (tokens, ref_tokens) = (split_words(hypothesis), split_words(reference));
        let char_counts = (1..=CHAR_ORDER).map(|order| overlap(&characters, &ref_characters, order));
        let word_counts = (1..=self.word_order).map(|order| overlap(&tokens, &ref_tokens, order));
        ChrfCounts(char_counts.chain(word_counts).collect())
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().filter(|c| !is_space(*c)).collect()
}

impl ChrfCounts {
    /// F-score of the mean precision and mean recall over the orders that both sides reach.
    fn score(&self) -> f64 {
        let reached: Vec<[f64; 3]> = self
            .0
            .iter()
            .filter(|[hypothesis, reference, _]| *hypothesis > 0 && *reference > 0)
            .map(|counts| counts.map(|count| count as f64))
            .collect();
        let orders = reached.len().max(1) as f64;
        let precision = reached.iter().map(|[hypothesis, _, both]| both / hypothesis).sum::<f64>() / orders;
        let recall = reached.iter().map(|[_, reference, both]| both / reference).sum::<f64>() / orders;
        if precision + recall == 0.0 {
            return 0.0;
        }
        let factor = BETA * BETA;
        100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
    }
}

fn overlap<T: Eq + std::hash::Hash>(hypothesis: &[T], reference: &[T], order: usize) -> [u64; 3] {
    let reference_ngrams = ngrams(reference, order);
    let mut both = 0;
    let mut total = 0;
    for (ngram, count) in ngrams(hypothesis, order) {
        total += count;
        both += reference_ngrams.get(ngram).map_or(0, |limit| count.min(*limit));
    }
    // An order that the reference does not reach does not count against the hypothesis.
    [if reference_ngrams.is_empty() { 0 } else { total }, reference_ngrams.values().sum(), both]
}

/// Words with one punctuation mark split off at the end, or else at the start.
fn split_words(text: &str) -> Vec<String> {
    let mut split = Vec::new();
    for word in words(text) {
        let mut chars = word.chars();
        match (chars.next(), chars.next_back()) {
            (Some(_), Some(last)) if last.is_ascii_punctuation() => {
                split.push(word[..word.len() - 1].to_owned());
                split.push(last.to_string());
            }
            (Some(first), Some(_)) if first.is_ascii_punctuation() => {
                split.push(first.to_string());
                split.push(word[1..].to_owned());
            }
            _ => split.push(word.to_owned()),
        }
    }
    split
}
