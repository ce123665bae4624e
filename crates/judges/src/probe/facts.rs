//! Facts of a translation: numbers that count for its score besides the states. They are its length and its
//! source's, and counts of items of the source that can be looked up in it without a model. Nothing is
//! weighed here: a fit has a weight for each fact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{copies, marks, quantities, words};
use crate::segment::Segment;

/// The name of each fact, in order.
pub const NAMES: [&str; 23] = [
    // The translation's tokens, and the square root of their number.
    "tokens",
    "root_tokens",
    // [`source_bytes`], and the square root of their number.
    "source_bytes",
    "root_source_bytes",
    // The natural logarithm of tokens per byte of the source: low where something is missing.
    "log_tokens_per_byte",
    // Sentences, then clauses, by which the translation has fewer and more: [`marks`].
    "sentences_missing",
    "sentences_added",
    "clauses_missing",
    "clauses_added",
    // Quantities of the source that the translation lacks, then of the translation that the source lacks:
    // [`quantities`].
    "numbers_missing",
    "numbers_added",
    "number_words_missing",
    "number_words_added",
    "dates_missing",
    "dates_added",
    // By how many negations the translation has fewer, and more; whether it has none of those of the source,
    // and whether it alone has some.
    "negations_missing",
    "negations_added",
    "all_negations_missing",
    "all_negations_added",
    // Words with a capital inside a sentence of the source that the translation has not, where both are in
    // Latin letters.
    "names_missing",
    // Pairs of words in a row that the translation has from the source, and their share of its words.
    "copied_pairs",
    "share_copied",
    // Letters of the source in a translation most of whose letters are Latin ones.
    "foreign_letters",
];

/// Number of facts.
pub const COUNT: usize = NAMES.len();

/// A number for each of [`NAMES`]: the facts of a translation, or the weights that a fit gives them. In JSON
/// an object by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, f64>", into = "BTreeMap<String, f64>")]
pub struct Facts(pub [f64; COUNT]);

/// The bytes of a source in UTF-8, at least 1. `source` is the judge's text, including trailing blanks.
pub fn source_bytes(source: &str) -> usize {
    source.len().max(1)
}

impl Facts {
    /// The facts of a segment's translation, which has `n_tokens` tokens.
    pub fn new(n_tokens: usize, segment: &Segment) -> Self {
        let n = n_tokens.max(1) as f64;
        let bytes = source_bytes(&segment.source) as f64;
        let lengths = [n, n.sqrt(), bytes, bytes.sqrt(), (n / bytes).ln()];
        let mut facts = [0.0; COUNT];
        let all = [
            &lengths[..],
            &of_marks(segment),
            &of_quantities(segment),
            &of_negations(segment),
            &of_copies(segment),
        ]
        .concat();
        facts.copy_from_slice(&all);
        Self(facts)
    }

    /// The sum of the facts, each times its weight.
    pub fn weighed(&self, weights: &Self) -> f64 {
        self.0.iter().zip(weights.0).map(|(fact, weight)| fact * weight).sum()
    }
}

fn of_marks(segment: &Segment) -> [f64; 4] {
    let (source, target) = (marks::Marks::new(&segment.source), marks::Marks::new(&segment.hypothesis));
    let differ =
        |source: usize, target: usize| [source.saturating_sub(target), target.saturating_sub(source)];
    let [sentences, clauses] =
        [differ(source.sentences, target.sentences), differ(source.clauses, target.clauses)];
    [sentences[0], sentences[1], clauses[0], clauses[1]].map(|n| n as f64)
}

fn of_quantities(segment: &Segment) -> [f64; 6] {
    let [missing, added] = quantities::lacking(
        [&segment.source, segment.src_lang.language()],
        [&segment.hypothesis, segment.tgt_lang.language()],
    );
    let counts =
        [missing.numbers, added.numbers, missing.in_words, added.in_words, missing.dates, added.dates];
    counts.map(|n| n as f64)
}

fn of_negations(segment: &Segment) -> [f64; 4] {
    let negations = |text, lang: &crate::segment::Lang| words::negations(text, lang.language());
    let of_source = negations(&segment.source, &segment.src_lang);
    let (Some(source), Some(target)) = (of_source, negations(&segment.hypothesis, &segment.tgt_lang)) else {
        return [0.0; 4];
    };
    let whether = |is: bool| usize::from(is);
    let (all_missing, all_added) = (whether(source > 0 && target == 0), whether(source == 0 && target > 0));
    [source.saturating_sub(target), target.saturating_sub(source), all_missing, all_added].map(|n| n as f64)
}

fn of_copies(segment: &Segment) -> [f64; 4] {
    let copies::Copied { pairs, of_words } = copies::copied(segment);
    let names_missing = copies::names_missing(segment) as f64;
    let share = pairs as f64 / of_words.max(1) as f64;
    [names_missing, pairs as f64, share, copies::foreign_letters(segment) as f64]
}

impl From<Facts> for BTreeMap<String, f64> {
    fn from(facts: Facts) -> Self {
        NAMES.iter().zip(facts.0).map(|(name, value)| ((*name).to_owned(), value)).collect()
    }
}

impl TryFrom<BTreeMap<String, f64>> for Facts {
    type Error = String;

    fn try_from(mut values: BTreeMap<String, f64>) -> Result<Self, String> {
        let mut facts = [0.0; COUNT];
        for (fact, name) in facts.iter_mut().zip(NAMES) {
            *fact = values.remove(name).ok_or_else(|| format!("the fact `{name}` is missing"))?;
        }
        match values.pop_first() {
            Some((name, _)) => Err(format!("`{name}` is not a fact")),
            None => Ok(Self(facts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tribunal_testing::translation;

    use super::*;

    fn check(pair: (&str, &str), source: &str, hypothesis: &str, n_tokens: usize, expected: &[(&str, f64)]) {
        let facts: BTreeMap<String, f64> =
            Facts::new(n_tokens, &translation(pair, source, hypothesis)).into();
        for (name, expected) in expected {
            assert!((facts[*name] - expected).abs() < 1e-12, "{name}: {}, not {expected}", facts[*name]);
        }
        let is_length = |name: &str| name.contains("tokens") || name.contains("bytes");
        for (name, value) in facts.iter().filter(|(name, _)| !is_length(name)) {
            let is_expected = expected.iter().any(|(known, _)| known == name);
            assert!(is_expected || value.to_bits() == 0, "{name} is {value}");
        }
    }

    #[test]
    fn lengths_are_counted_to_the_last_blank() {
        let bytes = 20.0_f64;
        let lengths = [
            ("tokens", 4.0),
            ("root_tokens", 2.0),
            ("source_bytes", bytes),
            ("root_source_bytes", bytes.sqrt()),
            ("log_tokens_per_byte", (4.0 / bytes).ln()),
            ("clauses_missing", 2.0),
        ];
        check(("en", "de"), "Ein Ei, süß, bitte", "Ein Ei", 4, &lengths);
        check(("zh", "en"), "汉字", "Hanzi", 1, &[("source_bytes", 6.0)]);
        check(
            ("en", "de"),
            "",
            "",
            0,
            &[("source_bytes", 1.0), ("tokens", 1.0), ("log_tokens_per_byte", 0.0)],
        );
    }

    #[test]
    fn what_does_not_agree_is_counted() {
        check(("en", "de"), "I have 3 cats, not 5.", "Ich habe 3 Katzen, nicht 5.", 8, &[]);
        let other = [("numbers_missing", 1.0), ("numbers_added", 1.0)];
        check(("en", "de"), "I have 3 cats.", "Ich habe 4 Katzen.", 8, &other);
        let dropped = [("negations_missing", 1.0), ("all_negations_missing", 1.0)];
        check(("en", "de"), "I am not here.", "Ich bin hier.", 5, &dropped);
        let added = [("negations_added", 1.0), ("all_negations_added", 1.0)];
        check(("zh", "en"), "我在这里。", "I am not here.", 5, &added);
        check(("en", "et"), "I am not here.", "Ma olen siin.", 5, &[]);
        let copied = [("copied_pairs", 1.0), ("share_copied", 0.25)];
        check(("en", "de"), "I am here now.", "Ich bin here now.", 5, &copied);
        check(("zh", "en"), "集市开张了", "The 集市 opened", 5, &[("foreign_letters", 2.0)]);
    }

    #[test]
    fn numbers_go_by_their_names() {
        let facts = Facts(std::array::from_fn(|i| i as f64));
        let written = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&written).unwrap(), facts);
        let error = |from: &str, to: &str| {
            serde_json::from_str::<Facts>(&written.replace(from, to)).unwrap_err().to_string()
        };
        assert_eq!(error("\"tokens\"", "\"words\""), "the fact `tokens` is missing");
        assert_eq!(error("{", "{\"words\":1.0,"), "`words` is not a fact");
        let squares: f64 = (0..COUNT).map(|i| (i * i) as f64).sum();
        assert!((facts.weighed(&facts) - squares).abs() < 1e-12);
    }
}
