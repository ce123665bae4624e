//! The scoring of judges on errors that are known to be right: the raters' own, on WMT23. The data is read
//! from `TRIBUNAL_DATA`; without it the tests print a note and pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use tribunal::{
    judges::{Granularity, Settings, fsp::sentences, probe::checks},
    mqm::{ErrorSpan, Repeats, Side, weights},
    segment::{Segment, lang::parse_pair},
    tune::rated::{self, Document, Rated},
};

use crate::fakes::{Script, judge, published_data, run};

/// The rated translations of a language pair; several raters' of one translation: the first's.
fn rated(pair: &str) -> Option<Vec<Document>> {
    let (from, to) = parse_pair(pair).unwrap();
    Some(rated::testset(&published_data()?.join("wmt23"), &[(pair.to_owned(), from, to)]).unwrap())
}

/// Errors as a judge names them: without places.
fn named(errors: &[ErrorSpan]) -> Vec<ErrorSpan> {
    let unplaced = |error: &ErrorSpan| ErrorSpan { start: None, end: None, ..error.clone() };
    errors.iter().map(unplaced).collect()
}

/// Number of errors that remain if one span and one type are one error wherever the span stands.
fn distinct(errors: &[ErrorSpan]) -> usize {
    let spans = errors.iter().filter(|error| !error.span.is_empty());
    let keys: BTreeSet<_> = spans.map(|error| (error.side, &error.span, &error.category)).collect();
    keys.len() + errors.iter().filter(|error| error.span.is_empty()).count()
}

/// Numbers of errors that remain of units of this length.
#[derive(Debug, Default, PartialEq)]
struct Left {
    n_errors: usize,
    by_text: usize,
    by_occurrence: usize,
    /// Of these, those that stand in a text.
    placed: usize,
    /// Of these, those that differ in place or type.
    apart: usize,
}

impl Left {
    fn add(&mut self, source: &str, target: &str, errors: &[ErrorSpan]) {
        let settled = Repeats::Merged.settled(named(errors), source, target);
        let is_placed = |error: &&ErrorSpan| error.start.is_some();
        self.n_errors += errors.len();
        self.by_text += distinct(errors);
        self.by_occurrence += settled.len();
        self.placed += settled.iter().filter(is_placed).count();
        let places: BTreeSet<_> = (settled.iter().filter(is_placed))
            .map(|error| (error.side, error.start, error.end, &error.category))
            .collect();
        self.apart += places.len();
    }

    fn lost(&self) -> [String; 2] {
        let share = |left: usize| 100.0 * (self.n_errors - left) as f64 / self.n_errors as f64;
        [share(self.by_text), share(self.by_occurrence)].map(|share| format!("{share:.1}"))
    }
}

/// A document's translation as one text, with the errors of its segments.
fn whole(document: &Document) -> (String, String, Vec<ErrorSpan>) {
    let join = |text: fn(&Segment) -> &str| {
        document.segments.iter().map(|rated| text(&rated.segment)).collect::<Vec<_>>().join("\n")
    };
    let errors = document.segments.iter().filter_map(|rated| rated.errors().cloned()).flatten().collect();
    (join(|segment| &segment.source), join(|segment| &segment.hypothesis), errors)
}

/// The shares of the raters' errors, in percent, that are lost in segments and in documents: if one span and
/// one type are one error, and if as many stay as the span has occurrences.
#[test]
fn hardly_any_of_the_raters_errors_is_lost_as_a_repeat() {
    let mut table = String::new();
    for pair in ["en-de", "zh-en"] {
        let Some(documents) = rated(pair) else { return };
        let (mut segments, mut wholes) = (Left::default(), Left::default());
        for document in &documents {
            for rated in &document.segments {
                let Rated { segment, .. } = rated;
                let errors = rated.errors().map(Vec::as_slice).unwrap_or_default();
                segments.add(&segment.source, &segment.hypothesis, errors);
            }
            let (source, target, errors) = whole(document);
            wholes.add(&source, &target, &errors);
        }
        for (unit, left) in [("segments", segments), ("documents", wholes)] {
            let Left { n_errors, by_occurrence, placed, apart, .. } = left;
            assert_eq!(apart, placed, "{pair} {unit}: each at its own occurrence");
            let [before, now] = left.lost();
            let lost = n_errors - by_occurrence;
            writeln!(table, "{pair} {unit}: of {n_errors} errors {before}%, now {now}% ({lost})").unwrap();
        }
    }
    insta::assert_snapshot!(table, @"
    en-de segments: of 19569 errors 9.1%, now 0.0% (3)
    en-de documents: of 19569 errors 12.2%, now 0.0% (3)
    zh-en segments: of 44985 errors 5.1%, now 0.0% (15)
    zh-en documents: of 44985 errors 10.9%, now 0.0% (12)
    ");
}

/// Sources whose translations are partly longer than a segment, by the rule that once chose their weights.
fn of_both_lengths(documents: &[Document]) -> (usize, Vec<Vec<&Segment>>) {
    let mut sources: BTreeMap<usize, Vec<&Segment>> = BTreeMap::new();
    for rated in documents.iter().flat_map(|document| &document.segments) {
        sources.entry(rated.segment.seg).or_default().push(&rated.segment);
    }
    let n = sources.len();
    let is_mixed = |translations: &Vec<&Segment>| {
        let lengths: BTreeSet<bool> =
            translations.iter().map(|segment| sentences::is_document(&segment.hypothesis)).collect();
        lengths.len() == 2
    };
    (n, sources.into_values().filter(is_mixed).collect())
}

/// Pairs of translations of one source of which only one is longer than a segment; and of these, pairs that
/// the old weights ordered as neither weighting does, the raters' errors judged.
fn reordered(documents: &[Document], mixed: &[Vec<&Segment>]) -> (usize, usize) {
    let segments = documents.iter().flat_map(|document| &document.segments);
    let errors: BTreeMap<(&str, usize), &[ErrorSpan]> = segments
        .filter_map(|rated| {
            Some(((rated.segment.system.as_str(), rated.segment.seg), rated.errors()?.as_slice()))
        })
        .collect();
    let [gemba, sum] = ["gemba", "gemba-sum"].map(|name| weights::find(name).unwrap());
    let scores = |segment: &&Segment| {
        let errors = *errors.get(&(segment.system.as_str(), segment.seg))?;
        let is_long = sentences::is_document(&segment.hypothesis);
        let [capped, summed] = [gemba, sum].map(|weights| weights.score(&weights.weighed(errors.to_vec())));
        Some((is_long, [if is_long { summed } else { capped }, capped, summed]))
    };
    let (mut n_pairs, mut n_neither) = (0, 0);
    for translations in mixed {
        let rated: Vec<_> = translations.iter().filter_map(scores).collect();
        for (i, a) in rated.iter().enumerate() {
            for b in rated[i + 1..].iter().filter(|b| b.0 != a.0) {
                let [old, capped, summed] = [0, 1, 2].map(|at: usize| a.1[at].total_cmp(&b.1[at]));
                n_pairs += 1;
                n_neither += usize::from(old != capped && old != summed);
            }
        }
    }
    (n_pairs, n_neither)
}

/// Six major errors cost as much in every translation of a source, however long it is.
#[test]
fn fsp_weighs_all_translations_of_a_source_alike() {
    let entry = |i: usize| {
        format!(
            r#"{{"error_category": "accuracy", "error_type": "mistranslation", "error_span": "[{i}]", "explanation": "", "severity": "major"}}"#
        )
    };
    let entries: Vec<String> = (0..6).map(entry).collect();
    let said = format!(r#"{{"errors": [{}], "quality_score": 0}}"#, entries.join(", "));
    let Some(mut documents) = rated("en-de") else { return };
    documents.retain(|document| !document.system.contains("ref"));
    let (n_sources, mixed) = of_both_lengths(&documents);
    let measured = (n_sources, mixed.len(), reordered(&documents, &mixed));
    assert_eq!(measured, (557, 81, (1156, 137)), "by the rule that looked at the hypothesis");
    for (granularity, expected) in [(Granularity::Seg, -25.0_f64), (Granularity::Doc, -30.0)] {
        let settings = Settings { granularity: Some(granularity), ..Settings::default() };
        let fsp = judge("fsp:sentences=off", &settings);
        for segment in mixed.iter().flatten() {
            let verdict = run(&fsp, &Script::says(&said), std::slice::from_ref(*segment)).remove(0).unwrap();
            assert_eq!(verdict.score.to_bits(), expected.to_bits(), "{granularity} {}", segment.hypothesis);
        }
    }
}

/// Marks of `probe` without a model agree with the raters': at least nine of ten, by pair.
#[test]
fn what_rule_based_checks_mark_raters_marked_too() {
    let mut table = String::new();
    for pair in ["en-de", "zh-en"] {
        let Some(documents) = rated(pair) else { return };
        let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for rated in documents.iter().flat_map(|document| &document.segments) {
            let Some(errors) = rated.errors() else { continue };
            for mark in checks::errors(&rated.segment) {
                let overlaps = |error: &&ErrorSpan| error.start < mark.end && mark.start < error.end;
                let of_target = errors.iter().filter(|error| error.side == Side::Target);
                let (marks, right) = found.entry(mark.category.clone()).or_default();
                *marks += 1;
                *right += usize::from(of_target.filter(overlaps).count() > 0);
            }
        }
        for (category, (marks, right)) in found {
            assert!(10 * right >= 9 * marks, "{pair} {category}: {right} of {marks}");
            writeln!(table, "{pair} {category}: {right} of {marks}").unwrap();
        }
    }
    insta::assert_snapshot!(table, @"
    en-de accuracy/addition: 4 of 4
    zh-en accuracy/addition: 17 of 17
    zh-en accuracy/untranslated text: 26 of 28
    ");
}
