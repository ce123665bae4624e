//! Facts of a translation: what counts for its score besides the states. How likely the model finds it, and how long it and
//! its source are. Nothing is weighed here: a fit has a weight for each fact.

use serde::{Deserialize, Serialize};

/// A log-probability below this is unlikely.
const UNLIKELY: f64 = -4.0;

/// A number for each fact: the fact of a translation, or the weight that a fit gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Of the tokens' log-probabilities: mean, sum, the least, the mean of the three least, the share below -4.
    pub mean_logprob: f64,
    pub sum_logprob: f64,
    pub least_logprob: f64,
    pub least_three_logprobs: f64,
    pub unlikely: f64,
    /// The translation's tokens, and the square root of their number.
    pub tokens: f64,
    pub root_tokens: f64,
    /// [`source_bytes`], and the square root of their number.
    pub source_bytes: f64,
    pub root_source_bytes: f64,
    /// The natural logarithm of tokens per byte of the source: low where something is missing.
    pub log_tokens_per_byte: f64,
}

/// The bytes of a source in UTF-8, at least 1. `source` is the text that the judge is given, to the last blank.
#[must_use]
pub fn source_bytes(source: &str) -> usize {
    source.len().max(1)
}

impl Facts {
    /// How many there are.
    pub const COUNT: usize = 10;

    /// Of a translation with these log-probabilities.
    #[must_use]
    pub fn of(logprobs: &[f64], source: &str) -> Self {
        let n = logprobs.len().max(1) as f64;
        let bytes = source_bytes(source) as f64;
        let sum: f64 = logprobs.iter().sum();
        let mut sorted = logprobs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let least = &sorted[..sorted.len().min(3)];
        Self {
            mean_logprob: sum / n,
            sum_logprob: sum,
            least_logprob: sorted.first().copied().unwrap_or(0.0),
            least_three_logprobs: least.iter().sum::<f64>() / least.len().max(1) as f64,
            unlikely: logprobs.iter().filter(|&&logprob| logprob < UNLIKELY).count() as f64 / n,
            tokens: n,
            root_tokens: n.sqrt(),
            source_bytes: bytes,
            root_source_bytes: bytes.sqrt(),
            log_tokens_per_byte: (n / bytes).ln(),
        }
    }

    /// The numbers in the order of the fields.
    #[must_use]
    pub fn values(&self) -> [f64; Self::COUNT] {
        [
            self.mean_logprob,
            self.sum_logprob,
            self.least_logprob,
            self.least_three_logprobs,
            self.unlikely,
            self.tokens,
            self.root_tokens,
            self.source_bytes,
            self.root_source_bytes,
            self.log_tokens_per_byte,
        ]
    }

    /// The sum of the facts, each times its weight.
    #[must_use]
    pub fn weighed(&self, weights: &Self) -> f64 {
        self.values().iter().zip(weights.values()).map(|(fact, weight)| fact * weight).sum()
    }
}

impl From<[f64; Facts::COUNT]> for Facts {
    /// From numbers in the order of the fields.
    fn from(values: [f64; Facts::COUNT]) -> Self {
        let [
            mean_logprob,
            sum_logprob,
            least_logprob,
            least_three_logprobs,
            unlikely,
            tokens,
            root_tokens,
            source_bytes,
            root_source_bytes,
            log_tokens_per_byte,
        ] = values;
        Self {
            mean_logprob,
            sum_logprob,
            least_logprob,
            least_three_logprobs,
            unlikely,
            tokens,
            root_tokens,
            source_bytes,
            root_source_bytes,
            log_tokens_per_byte,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(logprobs: &[f64], source: &str, expected: [f64; Facts::COUNT]) {
        let facts = Facts::of(logprobs, source).values();
        for (i, (fact, expected)) in facts.iter().zip(expected).enumerate() {
            assert!((fact - expected).abs() < 1e-12, "number {i}: {fact}, not {expected}");
        }
    }

    #[test]
    fn likelihoods_and_lengths_are_counted() {
        let of_tokens = [-3.0, -12.0, -7.0, -12.5 / 3.0, 0.5, 4.0, 2.0];
        let with = |of_source: [f64; 3]| [&of_tokens[..], &of_source].concat().try_into().unwrap();
        check(&[-1.0, -4.5, -7.0, 0.5], "Ein Ei, süß, bitte", with([20.0, 20_f64.sqrt(), 0.2_f64.ln()]));
    }

    #[test]
    fn blanks_of_the_source_count_and_an_empty_one_has_a_byte() {
        let bytes = |source: &str| Facts::of(&[-1.0], source).source_bytes.to_bits();
        assert_eq!(bytes(" a\n"), 3_f64.to_bits());
        assert_eq!(bytes("汉字"), 6_f64.to_bits());
        let facts = Facts::of(&[-1.0], "");
        assert_eq!(facts.source_bytes.to_bits(), 1_f64.to_bits());
        assert_eq!(facts.log_tokens_per_byte.to_bits(), 0_f64.to_bits());
        assert!(Facts::of(&[], "").values().iter().all(|fact| fact.is_finite()));
    }

    #[test]
    fn numbers_and_names_are_in_one_order() {
        let values: [f64; Facts::COUNT] = std::array::from_fn(|i| i as f64);
        let facts = Facts::from(values);
        assert_eq!(facts.values().map(f64::to_bits), values.map(f64::to_bits));
        let names = "mean_logprob sum_logprob least_logprob least_three_logprobs unlikely tokens root_tokens source_bytes \
                     root_source_bytes log_tokens_per_byte";
        let written = serde_json::to_string(&facts).unwrap();
        let fields: Vec<String> =
            names.split(' ').enumerate().map(|(i, name)| format!("\"{name}\":{i}.0")).collect();
        assert_eq!(written, format!("{{{}}}", fields.join(",")));
        assert!((facts.weighed(&facts) - 285.0).abs() < 1e-12);
    }
}
