//! Human scores in `MENT.jsonl`: the average of each translation, and the ratings of single annotators where
//! a line has them.
//!
//! Source: `meta_eval/extract_metaeval_data.py` of BITHLP/RATE at 8efee2e3, for the averages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::scores::SegmentScores;
use super::{Error, Result};
use crate::segment::read::ment::Ment;

/// The name of the human scores.
pub const GOLD: &str = "ment";

/// Greatest difference between an average and the mean of the ratings that it was rounded from.
const ROUNDING: f64 = 0.01;

/// The mean of the annotators' ratings, `avg_trans_N_score`, from 0 to 4; higher is better.
///
/// # Errors
/// A score that is not a number.
pub fn averages(ment: &Ment) -> Result<SegmentScores> {
    let mut scores = SegmentScores::new();
    for system in ment.outputs.keys() {
        let field = average_of(number(system));
        let score = |(line, row): &(usize, Map<String, Value>)| match row.get(&field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| Error::Line {
                path: ment.path.clone(),
                line: *line,
                reason: format!("`{field}` is `{value}`, not a number"),
            }),
        };
        let column: Result<Vec<Option<f64>>> = ment.rows.iter().map(score).collect();
        scores.insert(system.clone(), column?);
    }
    Ok(scores)
}

/// The ratings of each annotator; none where the lines have averages alone. A line names annotators in a list
/// `annotators`, and their ratings of translation N in a list whose field has `trans_N` in its name and whose
/// mean is the average.
///
/// # Errors
/// [`Error::Line`] where several such lists differ.
pub fn annotators(ment: &Ment) -> Result<BTreeMap<String, SegmentScores>> {
    let mut all: BTreeMap<String, SegmentScores> = BTreeMap::new();
    for (seg, (line, row)) in ment.rows.iter().enumerate() {
        for system in ment.outputs.keys() {
            let wrong = |reason| Error::Line { path: ment.path.clone(), line: *line, reason };
            for (name, rating) in ratings(row, number(system)).map_err(wrong)? {
                let scores = all.entry(name).or_default();
                let column = scores.entry(system.clone()).or_insert_with(|| vec![None; ment.rows.len()]);
                column[seg] = Some(rating);
            }
        }
    }
    Ok(all)
}

/// The annotators of a line and their ratings of one translation.
fn ratings(row: &Map<String, Value>, number: &str) -> Result<Vec<(String, f64)>, String> {
    let names = row.get("annotators").and_then(list(Value::as_str));
    let average = row.get(&average_of(number)).and_then(Value::as_f64);
    let (Some(names), Some(average)) = (names, average) else { return Ok(Vec::new()) };
    let part = format!("trans_{number}");
    let is_about = |field: &str| {
        let suffix = field.split_once(&part).map(|(_, suffix)| suffix);
        suffix.is_some_and(|suffix| !suffix.starts_with(|c: char| c.is_ascii_digit()))
    };
    let averages_to_score = |ratings: &Vec<f64>| {
        let mean = ratings.iter().sum::<f64>() / ratings.len() as f64;
        ratings.len() == names.len() && (mean - average).abs() < ROUNDING
    };
    let mut lists = row
        .iter()
        .filter(|(field, _)| is_about(field))
        .filter_map(|(field, value)| Some((field, list(Value::as_f64)(value).filter(averages_to_score)?)));
    let Some((field, ratings)) = lists.next() else { return Ok(Vec::new()) };
    if let Some((other, _)) = lists.find(|(_, others)| *others != ratings) {
        return Err(format!("`{field}` and `{other}` differ, and both have the average of `{part}`"));
    }
    Ok(names.into_iter().map(str::to_owned).zip(ratings).collect())
}

/// A reader of lists; `None` where the value is no list, or an item is not of the kind.
fn list<'a, T>(item: impl Fn(&'a Value) -> Option<T>) -> impl Fn(&'a Value) -> Option<Vec<T>> {
    move |value| value.as_array()?.iter().map(&item).collect()
}

fn average_of(number: &str) -> String {
    format!("avg_trans_{number}_score")
}

fn number(system: &str) -> &str {
    system.trim_start_matches("system_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_row(row: &Value) -> Result<Vec<(String, f64)>, String> {
        ratings(row.as_object().unwrap(), "1")
    }

    #[test]
    fn the_ratings_are_the_list_with_the_average() {
        let mut row = serde_json::json!({
            "annotators": ["A", "B"], "avg_trans_1_score": 2.5,
            "trans_1_scores": [1.0, 4.0], "trans_1_seconds": [30, 50], "trans_10_scores": [2.0, 3.0],
        });
        let expected = vec![("A".to_owned(), 1.0), ("B".to_owned(), 4.0)];
        assert_eq!(of_row(&row), Ok(expected.clone()));
        row["copy_of_trans_1"] = serde_json::json!([1, 4]);
        assert_eq!(of_row(&row), Ok(expected), "the same numbers");
        row["trans_1_fluency"] = serde_json::json!([2, 3]);
        let error = of_row(&row).unwrap_err();
        assert!(error.contains("`trans_1_fluency`") && error.contains("`trans_1`"), "{error}");
    }
}
