//! Error spans of baselines that read no text: the value of a span measure for chance, for the length of a
//! text, and for marking everything. They use statistics of all raters' spans, but not the spans of the
//! translation that they mark.

use std::collections::BTreeMap;

use tribunal_core::random::SplitMix;

use super::rated::Rated;
use crate::baselines::{CONSTANT, LENGTH, RANDOM};
use crate::mqm::ratings::{RatedError, Ratings};
use crate::units::Unit;
use crate::verdicts::{JudgedError, Verdict};

/// A baseline's name, and its verdicts with the unit that each covers.
pub type Marks = (&'static str, Vec<Verdict>, Vec<Unit>);

/// The baselines on the rated translations of some systems; none where no error is marked in a translation.
///
/// - `length`: as many errors as a text of that length has on average, each of average length, at equal
///   distances.
/// - `random`: the errors of a rated translation that is drawn at random, each with its length and severity,
///   at a place drawn at random.
/// - `constant`: the whole translation is one error.
///
/// Severities of `length` and `constant` are the raters' most frequent one.
pub fn marks(
    outputs: &BTreeMap<String, Vec<String>>,
    ratings: &[Ratings],
    lp: &str,
    seed: u64,
) -> Vec<Marks> {
    let rated: Vec<(&String, usize, &String, Vec<&RatedError>)> = outputs
        .iter()
        .flat_map(|(system, texts)| texts.iter().enumerate().map(move |(seg, text)| (system, seg, text)))
        .filter_map(|(system, seg, text)| {
            let errors = Rated::errors_of(ratings, system, seg)?;
            let placed = errors.iter().filter(|error| !error.is_source_error && error.start < error.end);
            Some((system, seg, text, placed.collect()))
        })
        .collect();
    let all: Vec<&RatedError> = rated.iter().flat_map(|(.., errors)| errors.iter().copied()).collect();
    let Some(severity) = most_frequent(&all) else { return Vec::new() };
    let n_characters: usize = rated.iter().map(|(_, _, text, _)| text.chars().count()).sum();
    let n_marked: usize = all.iter().map(|error| error.end - error.start).sum();
    let (per_error, length) = (n_characters as f64 / all.len() as f64, (n_marked / all.len()).max(1));
    let mut random = SplitMix(seed);
    let mut spans = |name: &str, n: usize| -> Vec<(usize, usize, String)> {
        match name {
            CONSTANT => vec![(0, n, severity.clone())],
            LENGTH => {
                let count = (n as f64 / per_error).round() as usize;
                let start = |nth: usize| (2 * nth + 1) * n / (2 * count);
                (0..count).map(|nth| (start(nth), start(nth) + length, severity.clone())).collect()
            }
            _ => {
                let (.., drawn) = &rated[random.below(rated.len())];
                let place = |error: &&RatedError| {
                    let length = error.end - error.start;
                    let start = random.below(n.saturating_sub(length) + 1);
                    (start, start + length, error.severity.clone())
                };
                drawn.iter().map(place).collect()
            }
        }
    };
    let mut marked = |name: &'static str| {
        let verdicts = rated.iter().map(|(system, seg, text, _)| {
            let n = text.chars().count();
            verdict(lp, (system, *seg, text), spans(name, n).into_iter().filter(|_| n > 0))
        });
        let verdicts: Vec<Verdict> = verdicts.collect();
        let unit = |verdict: &Verdict| Unit {
            segs: verdict.seg.into_iter().collect(),
            source_starts: vec![0],
            target_starts: vec![0],
        };
        let units = verdicts.iter().map(unit).collect();
        (name, verdicts, units)
    };
    [LENGTH, RANDOM, CONSTANT].into_iter().map(&mut marked).collect()
}

fn most_frequent(errors: &[&RatedError]) -> Option<String> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for error in errors {
        *counts.entry(&error.severity).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, n)| *n).map(|(severity, _)| severity.clone())
}

fn verdict(
    lp: &str,
    (system, seg, text): (&str, usize, &str),
    spans: impl Iterator<Item = (usize, usize, String)>,
) -> Verdict {
    let chars: Vec<char> = text.chars().collect();
    let error = |(start, end, severity): (usize, usize, String)| {
        let (start, end) = (start.min(chars.len()), end.min(chars.len()));
        JudgedError {
            span: chars[start..end].iter().collect(),
            side: "target".into(),
            start: Some(start),
            end: Some(end),
            category: String::new(),
            severity: severity.to_lowercase(),
        }
    };
    let (src, tgt) = lp.split_once('-').unwrap_or((lp, ""));
    Verdict {
        system: system.to_owned(),
        doc: String::new(),
        seg: Some(seg),
        segs: Vec::new(),
        src_lang: src.to_owned(),
        tgt_lang: tgt.to_owned(),
        source: String::new(),
        hypothesis: text.to_owned(),
        score: None,
        raw: None,
        errors: spans.map(error).filter(|error| !error.span.is_empty()).collect(),
        status: "ok".into(),
        warning: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(start: usize, end: usize) -> RatedError {
        let (category, severity) = (String::new(), "Major".to_owned());
        RatedError { start, end, category, severity, score: None, is_source_error: false }
    }

    #[test]
    fn each_marks_by_its_rule() {
        let text = "a text of twenty six chars".to_owned();
        let outputs = BTreeMap::from([("A".to_owned(), vec![text.clone(), text, "not rated".to_owned()])]);
        let column = vec![Some(vec![marked(0, 4), marked(6, 10)]), Some(vec![]), None];
        let ratings = [Ratings::from([("A".to_owned(), column)])];
        let all = marks(&outputs, &ratings, "en-de", 1);
        let names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["length", "random", "constant"]);
        let places = |at: usize| -> Vec<Vec<(usize, usize)>> {
            let of = |verdict: &Verdict| {
                verdict.errors.iter().map(|e| (e.start.unwrap(), e.end.unwrap())).collect::<Vec<_>>()
            };
            all[at].1.iter().map(of).collect()
        };
        // Two errors of four characters in 52 characters: one in each text, in its middle.
        assert_eq!(places(0), [[(13, 17)], [(13, 17)]]);
        assert!(places(1).iter().flatten().all(|(start, end)| end - start == 4 && *end <= 26));
        assert_eq!(places(2), [[(0, 26)], [(0, 26)]]);
        assert!(marks(&outputs, &[Ratings::new()], "en-de", 1).is_empty());
    }
}
