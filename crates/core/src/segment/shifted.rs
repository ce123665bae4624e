//! Detects files whose lines are shifted against each other, by names and numbers that occur in a single
//! source and a single translation. It is independent of the language.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// So many segments of a system are looked at.
const MOST: usize = 300;

/// Largest shift that is detected. Unit: lines.
const FURTHEST: i64 = 3;

/// Number of agreeing lines for a shift to be certain.
pub const CERTAIN: usize = 3;
pub const DOUBTFUL: usize = 2;

/// Least ratio of lines that agree on the shift to lines that show no shift.
const TIMES: usize = 4;

/// Letters of a word that may stand in both languages by chance, and so does not count.
const SHORT: usize = 3;

/// The line of each word of the sources and of the translations, as long as it is in a single one.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    n: usize,
    sources: HashMap<String, Option<usize>>,
    translations: HashMap<String, Option<usize>>,
}

impl Lines {
    /// Adds the next line of a system.
    pub fn add(&mut self, source: &str, translation: &str) {
        if self.n >= MOST {
            return;
        }
        for (places, text) in [(&mut self.sources, source), (&mut self.translations, translation)] {
            for word in words(text) {
                places.entry(word).and_modify(|place| *place = None).or_insert(Some(self.n));
            }
        }
        self.n += 1;
    }

    /// Number of lines by which the translations are below their sources, where at least `least` lines agree
    /// on it; never 0.
    pub fn shift(&self, least: usize) -> Option<i64> {
        let mut lines: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
        for (word, place) in &self.sources {
            let position = self.translations.get(word).copied().flatten();
            let (Some(source), Some(translation)) = (*place, position) else { continue };
            lines.entry(translation as i64 - source as i64).or_default().insert(source);
        }
        let n = |shift: i64| lines.get(&shift).map_or(0, BTreeSet::len);
        let near = (-FURTHEST..=FURTHEST).filter(|shift| *shift != 0);
        near.max_by_key(|shift| n(*shift)).filter(|shift| n(*shift) >= least && n(*shift) > TIMES * n(0))
    }
}

/// Runs of digits and of letters: Chinese writes no blank between them.
fn runs(piece: &str) -> impl Iterator<Item = &str> {
    let mut tail = piece;
    std::iter::from_fn(move || {
        let is_number = tail.chars().next()?.is_numeric();
        let end = tail.find(|c: char| c.is_numeric() != is_number).unwrap_or(tail.len());
        let (run, behind) = tail.split_at(end);
        tail = behind;
        Some(run)
    })
}

/// Numbers and words of a text, each once.
fn words(text: &str) -> BTreeSet<String> {
    let pieces = text.split(|c: char| !c.is_alphanumeric());
    let counts = |word: &&str| {
        let is_number = word.chars().all(char::is_numeric);
        if is_number { word.len() > 1 } else { word.chars().count() > SHORT }
    };
    pieces.flat_map(runs).filter(counts).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift(lines: &[(&str, &str)]) -> Option<i64> {
        let mut all = Lines::default();
        for (source, translation) in lines {
            all.add(source, translation);
        }
        all.shift(CERTAIN)
    }

    #[test]
    fn lines_that_are_one_too_low_or_high_are_seen() {
        let source = ["In 1987", "Helen Carter said", "14 cracks", "the Hotel Miramar", "nothing here"];
        let target =
            ["Im Jahr 1987", "Helen Carter sagte", "14 Risse", "das Hotel Miramar", "hier ist nichts"];
        let with = |by: usize| {
            let pairs = (0..5).map(|at| (source[at], target[(at + by) % 5]));
            shift(&pairs.collect::<Vec<_>>())
        };
        assert_eq!((with(0), with(1), with(4)), (None, Some(-1), Some(1)));
    }

    #[test]
    fn few_or_contradictory_lines_say_nothing() {
        assert_eq!(shift(&[]), None);
        assert_eq!(shift(&[("1987", "x"), ("14", "1987"), ("y", "14")]), None);
        let moved =
            [("1987 Carter", "Carter"), ("14 Miramar", "Miramar 1987"), ("30 Lane", "Lane 14"), ("z", "30")];
        assert_eq!(shift(&moved), None);
    }
}
