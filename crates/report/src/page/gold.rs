//! The human scores of a folder in the layout of mt-metrics-eval, with the errors that raters marked: one
//! more judge of the translations that a run judged.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
};

use crate::{
    meta::{Error, testset::TestSet},
    mqm::{
        ErrorSpan, Side,
        ratings::{self, RatedError, Ratings},
    },
    run::Record,
    segment::{Lang, numbered},
};

/// Human scores as verdicts.
#[derive(Debug)]
pub struct Gold {
    pub records: Vec<Record>,
    /// True if the folder has the ratings behind them, with the errors; some have scores alone.
    pub has_ratings: bool,
}

/// A verdict with the human score on each judged segment of two languages that has one; errors are those of
/// all raters. `given`: the pair's name where the folder has no such pair.
///
/// # Errors
/// A folder without such scores, and one whose translations are not those that were judged.
pub fn records(
    dir: &Path,
    (src, tgt): (&Lang, &Lang),
    lp: &str,
    gold: &str,
    judged: &[Record],
) -> Result<Gold, Error> {
    let testset = TestSet::of_languages(dir, (src, tgt), lp)?;
    let dir = dir.display();
    let Some(scores) = testset.human(gold)?.segments else {
        return unsuitable(format!(
            "`{dir}` has scores `{gold}` of systems only; the page shows scores of segments"
        ));
    };
    let raters: Vec<Ratings> = testset
        .rating_files(gold)?
        .iter()
        .map(|(_, path)| Ok(ratings::read(path)?))
        .collect::<Result<_, Error>>()?;
    let mut outputs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for record in judged.iter().filter(|record| (&record.src_lang, &record.tgt_lang) == (src, tgt)) {
        let Some(seg) = record.seg else { continue };
        let Some(score) = scores.get(&record.system).and_then(|column| *column.get(seg)?) else { continue };
        let output = match outputs.entry(&record.system) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(testset.output(&record.system)?),
        };
        if output.get(seg).map(|text| text.trim()) != Some(record.hypothesis.trim()) {
            return unsuitable(format!(
                "{} of `{}` is another translation in `{dir}`\nhint: judge with `--testset`, which numbers segments as the \
                 folder does",
                numbered(seg),
                record.system,
            ));
        }
        let rated = raters.iter().filter_map(|rater| rater.get(&record.system)?.get(seg)?.as_ref()).flatten();
        let errors = rated.map(|error| span(error, record)).collect::<Result<_, _>>()?;
        found.insert((&record.system, seg), verdict(record, score, errors));
    }
    if found.is_empty() {
        return unsuitable(format!(
            "none of the segments that were judged has a score `{gold}` in `{dir}`\nhint: `--testset` is for runs on that \
             folder's own translations: `tribunal score --testset {dir}`"
        ));
    }
    Ok(Gold { records: found.into_values().collect(), has_ratings: !raters.is_empty() })
}

fn unsuitable<T>(reason: String) -> Result<T, Error> {
    Err(Error::Unsuitable(reason))
}

fn span(error: &RatedError, record: &Record) -> Result<ErrorSpan, Error> {
    let RatedError { start, end, category, severity, score, is_source_error } = error;
    let (side, text) =
        if *is_source_error { (Side::Source, &record.source) } else { (Side::Target, &record.hypothesis) };
    let severity = severity.parse().or_else(|reason| {
        let seg = numbered(record.seg.unwrap_or_default());
        unsuitable(format!("an error in {seg} of `{}`: {reason}", record.system))
    })?;
    let marked: String = text.chars().skip(*start).take(end.saturating_sub(*start)).collect();
    let place = Some((*start, *end)).filter(|_| start < end && *end <= text.chars().count());
    let weight = score.unwrap_or_default().abs();
    Ok(ErrorSpan {
        side,
        start: place.map(|(start, _)| start),
        end: place.map(|(_, end)| end),
        weight,
        ..ErrorSpan::new(category, marked, severity)
    })
}

fn verdict(judged: &Record, score: f64, errors: Vec<ErrorSpan>) -> Record {
    Record {
        score: Some(score),
        raw: Some(score),
        direction: crate::run::record::Direction::Higher,
        quality_score: None,
        interval: None,
        warning: None,
        errors,
        status: crate::run::Status::Ok,
        reason: None,
        n_calls: 0,
        ..judged.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Three segments of one system: scored with a marked error, scored, and not rated.
    fn testset() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "documents/en-de.docs", &"news\td1\n".repeat(3));
        write(root.path(), "sources/en-de.txt", "One.\nTwo.\nThree.\n");
        write(root.path(), "references/en-de.refA.txt", "1\n2\n3\n");
        write(root.path(), "system-outputs/en-de/a.txt", "Éins Bank.\nZwei.\nDrei.\n");
        write(root.path(), "human-scores/en-de.mqm.seg.score", "a\t-5\na\t0\na\tNone\n");
        let error = json!({ "errors": [
            { "start": 5, "end": 9, "category": "accuracy/mistranslation", "severity": "major", "score": 5 }
        ]});
        let ratings = format!("a\t{error}\na\t{{\"errors\": []}}\na\tNone\n");
        write(root.path(), "human-scores/en-de.mqm.merged.seg.rating", &ratings);
        root
    }

    fn of(root: &tempfile::TempDir, gold: &str, judged: &[Record]) -> Result<Gold, Error> {
        let (src, tgt) = crate::segment::lang::parse_pair("en-de").unwrap();
        records(root.path(), (&src, &tgt), "en-de", gold, judged)
    }

    fn judged(texts: [&str; 3]) -> Vec<Record> {
        let record = |(seg, text): (usize, &&str)| {
            serde_json::from_value(json!({
                "system": "a", "doc": "d1", "seg": seg, "src_lang": "en", "tgt_lang": "de", "source": "One.",
                "hypothesis": text, "score": -1.0, "raw": -1.0, "direction": "higher", "quality_score": 90.0,
                "errors": [], "status": "ok", "reason": null, "n_calls": 1,
            }))
            .unwrap()
        };
        texts.iter().enumerate().map(record).collect()
    }

    #[test]
    fn raters_are_one_more_judge() {
        let root = testset();
        let gold = of(&root, "mqm", &judged(["Éins Bank.", "Zwei.", "Drei."])).unwrap();
        assert!(gold.has_ratings);
        let found = gold.records;
        assert_eq!(
            found.iter().map(|r| (r.seg, r.score)).collect::<Vec<_>>(),
            [(Some(0), Some(-5.0)), (Some(1), Some(0.0))]
        );
        let error = &found[0].errors[0];
        assert_eq!(
            (error.span.as_str(), error.start, error.end, error.weight),
            ("Bank", Some(5), Some(9), 5.0)
        );
        assert_eq!((found[0].quality_score, found[0].n_calls), (None, 0), "nothing of the judge is left");
    }

    #[test]
    fn scores_without_ratings_do_not_say_that_there_are_no_errors() {
        let root = testset();
        std::fs::remove_file(root.path().join("human-scores/en-de.mqm.merged.seg.rating")).unwrap();
        let gold = of(&root, "mqm", &judged(["Éins Bank.", "Zwei.", "Drei."])).unwrap();
        assert_eq!((gold.records.len(), gold.has_ratings), (2, false));
    }

    #[test]
    fn a_byte_order_mark_is_no_other_translation() {
        let root = testset();
        write(root.path(), "system-outputs/en-de/a.txt", "\u{feff}Éins Bank.\nZwei.\nDrei.\n");
        let gold = of(&root, "mqm", &judged(["Éins Bank.", "Zwei.", "Drei."])).unwrap();
        assert_eq!(gold.records.len(), 2);
    }

    #[test]
    fn other_translations_are_refused() {
        let root = testset();
        let refused = |gold: &str, texts| of(&root, gold, &judged(texts)).unwrap_err().to_string();
        let told = refused("mqm", ["Zwei.", "Éins Bank.", "Drei."])
            .replace(&root.path().display().to_string(), "DIR");
        assert!(
            told.starts_with("segment 1 (id 0) of `a` is another translation in `DIR`\nhint: "),
            "{told}"
        );
        assert!(
            refused("da", ["Éins Bank.", "Zwei.", "Drei."]).contains("mqm"),
            "the scores that there are are named"
        );
    }
}
