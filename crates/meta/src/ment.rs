//! Scores in `MENT.jsonl`: the average of each translation, and those of its annotators where a line has
//! them.
//!
//! Source: `meta_eval/extract_metaeval_data.py` of BITHLP/RATE at 8efee2e3, for the averages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Error;
use super::scores::SegmentScores;
use crate::segment::read::ment::Ment;

/// The name of the human scores.
pub const GOLD: &str = "ment";

/// Greatest difference between an average and the mean of the ratings that it was rounded from.
const ROUNDING: f64 = 0.01;

/// The mean of the annotators' ratings, `avg_trans_N_score`, from 0 to 4; higher is better.
///
/// # Errors
/// A score that is not a number.
pub fn averages(ment: &Ment) -> Result<SegmentScores, Error> {
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
        let column: Result<Vec<Option<f64>>, Error> = ment.rows.iter().map(score).collect();
        scores.insert(system.clone(), column?);
    }
    Ok(scores)
}

/// The ratings of each annotator; none where the lines have averages alone. A line names annotators in a list
/// `annotators`, and their ratings of translation N in a list whose field has `trans_N` in its name and whose
/// mean is the average.
#[must_use]
pub fn annotators(ment: &Ment) -> BTreeMap<String, SegmentScores> {
    let mut all: BTreeMap<String, SegmentScores> = BTreeMap::new();
    for (seg, (_, row)) in ment.rows.iter().enumerate() {
        for system in ment.outputs.keys() {
            for (name, rating) in ratings(row, number(system)) {
                let scores = all.entry(name).or_default();
                let column = scores.entry(system.clone()).or_insert_with(|| vec![None; ment.rows.len()]);
                column[seg] = Some(rating);
            }
        }
    }
    all
}

fn ratings(row: &Map<String, Value>, number: &str) -> Vec<(String, f64)> {
    let names = row.get("annotators").and_then(list(Value::as_str));
    let average = row.get(&average_of(number)).and_then(Value::as_f64);
    let (Some(names), Some(average)) = (names, average) else { return Vec::new() };
    let part = format!("trans_{number}");
    let is_about = |field: &str| {
        let suffix = field.split_once(&part).map(|(_, suffix)| suffix);
        suffix.is_some_and(|suffix| !suffix.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_meant = |ratings: &Vec<f64>| {
        let mean = ratings.iter().sum::<f64>() / ratings.len() as f64;
        ratings.len() == names.len() && (mean - average).abs() < ROUNDING
    };
    let mut lists = row.iter().filter(|(field, _)| is_about(field)).map(|(_, value)| value);
    let ratings = lists.find_map(|value| list(Value::as_f64)(value).filter(is_meant)).unwrap_or_default();
    names.into_iter().map(str::to_owned).zip(ratings).collect()
}

/// A list, all of whose items are of one kind.
fn list<'a, T>(item: impl Fn(&'a Value) -> Option<T>) -> impl Fn(&'a Value) -> Option<Vec<T>> {
    move |value| value.as_array()?.iter().map(&item).collect()
}

fn average_of(number: &str) -> String {
    format!("avg_trans_{number}_score")
}

fn number(system: &str) -> &str {
    system.trim_start_matches("system_")
}
