//! Mistakes in collected ratings: errors outside the text, low scores that no error explains, annotators who never mark
//! or who agree with no other one, equal translations that are rated differently.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Finding, Kind};
use crate::annotators::several::{Annotator, Several};
use crate::error_free::LEAST_SCORE;
use crate::scores::SegmentScores;

/// Ratings of an annotator at the least, to be told that something never happens.
const FEWEST: usize = 10;

/// A difference between two scores on the scale of 0 to 100 that is one of quality.
///
/// Source: WMT20's relative ranking takes it for that.
const APART: f64 = 25.0;

/// What mt-metrics-eval calls the ratings of several annotators in one file; they need not agree with each other.
const MERGED: &str = "merged";

/// A marked error. Half-open, in Unicode code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub in_source: bool,
    pub start: usize,
    pub end: usize,
}

/// What one annotator said of one translation.
#[derive(Clone, Debug, PartialEq)]
pub struct Rating {
    pub file: PathBuf,
    /// From 1; `None` where the file does not tell.
    pub line: Option<usize>,
    pub system: String,
    pub doc: String,
    pub seg: usize,
    /// As the annotator saw it.
    pub source: String,
    pub translation: String,
    pub annotator: String,
    /// On a scale where higher is better; `None` where there is none.
    pub score: Option<f64>,
    /// Errors that have a place.
    pub errors: Vec<Place>,
    /// Errors with or without a place; `None` where the annotator was not asked for errors.
    pub n_errors: Option<usize>,
}

/// Checks the ratings of a language pair.
#[must_use]
pub fn check(lp: &str, ratings: &[Rating]) -> Vec<Finding> {
    let mut annotators: BTreeMap<&str, Vec<&Rating>> = BTreeMap::new();
    for rating in ratings {
        annotators.entry(&rating.annotator).or_default().push(rating);
    }
    let is_graded = is_graded(ratings);
    let mut findings: Vec<Finding> = ratings.iter().flat_map(|rating| spans(lp, rating)).collect();
    for (name, own) in &annotators {
        let marks = own.iter().any(|rating| rating.n_errors.is_some_and(|n| n > 0));
        if marks && is_graded {
            findings.extend(own.iter().filter_map(|rating| low_without_span(lp, rating)));
        }
        findings.extend(never_marks(lp, own).filter(|_| !marks));
        if *name != MERGED {
            findings.extend(rated_apart(lp, own, is_graded));
        }
    }
    findings.extend(agree_with_none(lp, &annotators));
    findings
}

/// Whether scores are grades, 0 to 100, and not penalties.
fn is_graded(ratings: &[Rating]) -> bool {
    ratings.iter().filter_map(|rating| rating.score).any(|score| score > 0.0)
}

fn spans(lp: &str, rating: &Rating) -> Vec<Finding> {
    let finding = |Place { in_source, start, end }: &Place| {
        let (text, side) =
            if *in_source { (&rating.source, "source") } else { (&rating.translation, "translation") };
        let n = text.chars().count();
        if start == end && *end <= n {
            let message = format!("an error of the {side} at {start} marks no character");
            return Some(at(Finding::new(Kind::EmptySpan, lp, message), rating));
        }
        let message =
            format!("the error {start}..{end} does not lie in the {side}, which has {n} characters");
        (start > end || *end > n).then(|| at(Finding::new(Kind::SpanOutside, lp, message), rating))
    };
    rating.errors.iter().filter_map(finding).collect()
}

fn low_without_span(lp: &str, rating: &Rating) -> Option<Finding> {
    let score = rating.score.filter(|score| *score < LEAST_SCORE && rating.n_errors == Some(0))?;
    let message =
        format!("a score of {score} without an error, below the {LEAST_SCORE} of an error-free translation");
    Some(at(Finding::new(Kind::LowWithoutSpan, lp, message), rating))
}

fn never_marks(lp: &str, own: &[&Rating]) -> Option<Finding> {
    let asked: Vec<&&Rating> = own.iter().filter(|rating| rating.n_errors.is_some()).collect();
    let first = asked.first().filter(|_| asked.len() >= FEWEST)?;
    let message = format!("no error in {} translations", asked.len());
    let finding = Finding::new(Kind::NeverMarks, lp, message);
    Some(Finding { file: Some(first.file.clone()), annotator: Some(first.annotator.clone()), ..finding })
}

/// Equal translations of one segment that an annotator scores far apart, or finds errors in only one of.
fn rated_apart(lp: &str, own: &[&Rating], is_graded: bool) -> Vec<Finding> {
    let mut groups: BTreeMap<(&str, usize, &str), Vec<&Rating>> = BTreeMap::new();
    for rating in own {
        groups.entry((&rating.doc, rating.seg, rating.translation.trim())).or_default().push(rating);
    }
    let finding = |ratings: &Vec<&Rating>| {
        let each = |at: usize| ratings[at + 1..].iter().map(move |other| (ratings[at], *other));
        let mut two = (0..ratings.len()).flat_map(each).filter(|(first, other)| other.system != first.system);
        let (first, other, what) = two.find_map(|(first, other)| {
            let scores = first.score.zip(other.score).filter(|_| is_graded);
            let errors = first.n_errors.zip(other.n_errors);
            match (scores, errors) {
                (Some((a, b)), _) => {
                    ((a - b).abs() >= APART).then(|| (first, other, format!("{b}, here {a}")))
                }
                (None, Some((a, b))) if (a == 0) != (b == 0) => {
                    Some((first, other, format!("{b} errors, here {a}")))
                }
                _ => None,
            }
        })?;
        let message = format!("the same translation by `{}` has {what}", other.system);
        Some(at(Finding::new(Kind::RatedApart, lp, message), first))
    };
    groups.values().filter_map(finding).collect()
}

fn agree_with_none(lp: &str, annotators: &BTreeMap<&str, Vec<&Rating>>) -> Vec<Finding> {
    // Segments of all documents in one order, so that annotators can be compared cell by cell.
    let segments: BTreeMap<(&str, usize), usize> = {
        let all = annotators.values().flatten().map(|rating| (rating.doc.as_str(), rating.seg));
        let distinct: std::collections::BTreeSet<_> = all.collect();
        distinct.into_iter().enumerate().map(|(idx, segment)| (segment, idx)).collect()
    };
    let scores = |own: &[&Rating]| {
        let mut scores = SegmentScores::new();
        for rating in own {
            let column = scores.entry(rating.system.clone()).or_insert_with(|| vec![None; segments.len()]);
            column[segments[&(rating.doc.as_str(), rating.seg)]] = rating.score;
        }
        scores
    };
    let all: Vec<Annotator> = annotators
        .iter()
        .map(|(name, own)| Annotator { name: (*name).to_owned(), scores: scores(own) })
        .collect();
    let several = Several::of(&all);
    let finding = |(name, own): (&&str, &Vec<&Rating>)| {
        let pairs = several.pairs.iter().filter(|pair| pair.first == **name || pair.second == **name);
        let shared: usize = pairs.map(|pair| pair.shared).sum();
        let message = format!("agrees with no other annotator, over {shared} shared ratings");
        let finding = Finding::new(Kind::AgreesWithNone, lp, message);
        let file = own.first().map(|rating| rating.file.clone());
        several.disagrees(name).then(|| Finding { file, annotator: Some((*name).to_owned()), ..finding })
    };
    annotators.iter().filter_map(finding).collect()
}

/// The finding, at a rating.
fn at(finding: Finding, rating: &Rating) -> Finding {
    Finding {
        file: Some(rating.file.clone()),
        line: rating.line,
        system: Some(rating.system.clone()),
        document: Some(rating.doc.clone()),
        segment: Some(rating.seg),
        annotator: Some(rating.annotator.clone()),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rating(seg: usize, annotator: &str, score: f64, errors: &[(usize, usize)]) -> Rating {
        let place = |(start, end): &(usize, usize)| Place { in_source: false, start: *start, end: *end };
        Rating {
            file: "ratings.jsonl".into(),
            line: Some(seg + 1),
            system: "A".into(),
            doc: "d".into(),
            seg,
            source: "source".into(),
            translation: format!("Übersetzung {seg}"),
            annotator: annotator.into(),
            score: Some(score),
            errors: errors.iter().map(place).collect(),
            n_errors: Some(errors.len()),
        }
    }

    fn kinds(ratings: &[Rating]) -> Vec<(Kind, Option<usize>)> {
        check("en-de", ratings).into_iter().map(|finding| (finding.kind, finding.line)).collect()
    }

    #[test]
    fn errors_must_lie_in_the_text_that_was_seen() {
        let spans = [(0, 3), (12, 13), (12, 14), (5, 4), (6, 6)];
        let found = check("en-de", &[rating(0, "a", 50.0, &spans)]);
        let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "the error 12..14 does not lie in the translation, which has 13 characters",
                "the error 5..4 does not lie in the translation, which has 13 characters",
                "an error of the translation at 6 marks no character",
            ]
        );
    }

    #[test]
    fn a_low_score_needs_an_error_where_errors_are_marked() {
        let ratings = [rating(0, "a", 84.0, &[]), rating(1, "a", 85.0, &[]), rating(2, "a", 10.0, &[(0, 2)])];
        assert_eq!(kinds(&ratings), [(Kind::LowWithoutSpan, Some(1))]);
        // Penalties have no such scale, and annotators who never mark are another finding.
        let penalties = [rating(0, "a", -1.0, &[]), rating(1, "a", -5.0, &[(0, 2)])];
        assert!(kinds(&penalties).is_empty());
        let never: Vec<Rating> = (0..10).map(|seg| rating(seg, "b", 60.0, &[])).collect();
        assert_eq!(kinds(&never), [(Kind::NeverMarks, None)]);
        let not_asked: Vec<Rating> = never.iter().map(|r| Rating { n_errors: None, ..r.clone() }).collect();
        assert!(kinds(&not_asked).is_empty());
    }

    #[test]
    fn equal_translations_far_apart_are_told() {
        let other = |score, errors: &[(usize, usize)]| Rating {
            system: "B".into(),
            line: Some(9),
            ..rating(0, "a", score, errors)
        };
        let first = rating(0, "a", 90.0, &[]);
        let found = check("en-de", &[first.clone(), other(60.0, &[(0, 1)])]);
        assert_eq!(found[0].kind, Kind::RatedApart);
        assert_eq!(found[0].message, "the same translation by `B` has 60, here 90");
        assert!(kinds(&[first.clone(), other(80.0, &[(0, 1)])]).is_empty());
        // None is far from the first.
        let third = Rating { system: "C".into(), ..other(75.0, &[(0, 1)]) };
        let found = check("en-de", &[first, other(100.0, &[(0, 1)]), third]);
        assert_eq!(found[0].message, "the same translation by `C` has 75, here 100");
    }

    #[test]
    fn an_annotator_at_chance_is_told_from_those_who_agree() {
        let score = |annotator: &str, seg: usize| match annotator {
            "c" => (seg * 13 % 20) as f64 * 5.0,
            _ => seg as f64 * 5.0,
        };
        let ratings: Vec<Rating> = ["a", "b", "c"]
            .into_iter()
            .flat_map(|name| (0..20).map(move |seg| rating(seg, name, score(name, seg), &[(0, 1)])))
            .collect();
        let found = check("en-de", &ratings);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].annotator.as_deref()), (Kind::AgreesWithNone, Some("c")));
    }
}
