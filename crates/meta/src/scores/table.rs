//! WMT25's scored files, such as `segments.tsv`: a header, then one line a translation, of any number of
//! language pairs. It reads segment scores, no system scores.
//!
//! Source: wmt25-mteval, `testset_jsonl_to_tsv_task1.py`: segments are numbered within a language pair.

use std::collections::BTreeMap;
use std::path::Path;

use super::numbering::Numbered;
use super::{check_pairs, line_error, lines, parse_score};
use crate::Result;

const COLUMNS: [&str; 5] = ["segment_id", "source_lang", "target_lang", "system_id", "overall"];

/// Positions of the columns; `None` where a line is not the header of such a file.
fn places(header: &str) -> Option<[usize; 5]> {
    let place = |name: &str| header.split('\t').position(|field| field.trim() == name);
    let places: Vec<usize> = COLUMNS.into_iter().map(place).collect::<Option<_>>()?;
    places.try_into().ok()
}

/// True if a line is the header of such a file.
pub(super) fn is_header(line: &str) -> bool {
    places(line).is_some()
}

/// The scores of one language pair; where `lp` is `None`, of the only one.
///
/// # Errors
/// Lines without one of the fields, a translation with two scores, and files of other or several pairs.
pub(super) fn read(path: &Path, text: &str, lp: Option<&str>) -> Result<Numbered> {
    let mut lines = lines(text);
    let header = lines.next().map_or("", |(_, line)| line);
    let (places, n_fields) = (places(header).unwrap_or_default(), header.split('\t').count());
    let mut scores: BTreeMap<String, BTreeMap<usize, Option<f64>>> = BTreeMap::new();
    let (mut pairs, mut first) = (BTreeMap::new(), 0);
    for (number, line) in lines {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        if fields.len() != n_fields {
            let reason = format!("the line has {} fields, the header {n_fields}", fields.len());
            return Err(line_error(path, number, reason));
        }
        let [segment, source, target, system, score] = places.map(|place| fields[place]);
        let pair = format!("{source}-{target}");
        pairs.entry(pair.clone()).or_insert(number);
        if lp.is_some_and(|lp| lp != pair) {
            continue;
        }
        first = if first == 0 { number } else { first };
        let segment: usize = segment.parse().map_err(|_| {
            line_error(path, number, format!("the segment number `{segment}` is not a whole number from 0"))
        })?;
        let score = if score.is_empty() { None } else { parse_score(path, number, score)? };
        if scores.entry(system.to_owned()).or_default().insert(segment, score).is_some()
            && (lp.is_some() || pairs.len() == 1)
        {
            let reason = format!("segment `{segment}` of `{system}` has a second score");
            return Err(line_error(path, number, reason));
        }
    }
    check_pairs(path, lp, &pairs)?;
    Ok(Numbered::new(first, scores))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "doc_id\tsegment_id\tsource_lang\ttarget_lang\tset_id\tsystem_id\tdomain_name\tmethod\toverall\n";

    fn line(segment: &str, target: &str, score: &str) -> String {
        format!("d\t{segment}\ten\t{target}\tofficial\tA\tnews\tESA\t{score}\n")
    }

    fn check(lines: &[String], lp: Option<&str>, expected: Result<&[(usize, Option<f64>)], &str>) {
        let text = format!("{HEADER}{}", lines.concat());
        match (read(Path::new("x.tsv"), &text, lp), expected) {
            (Ok(found), Ok(expected)) => {
                let scores = [("A".to_owned(), expected.iter().copied().collect())];
                assert_eq!(found, Numbered::new(2, scores.into()));
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "`{error}` lacks `{part}`"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn wmt25_files_are_read_by_language_pair() {
        let two = [line("1", "cs_CZ", "93"), line("2", "cs_CZ", "None")];
        check(&two, None, Ok(&[(1, Some(93.0)), (2, None)]));
        let pairs = [line("1", "cs_CZ", "93"), line("1", "de_DE", "9")];
        check(&pairs, Some("en-cs_CZ"), Ok(&[(1, Some(93.0))]));
        check(
            &pairs,
            None,
            Err("x.tsv:3: the file has scores of several language pairs: en-cs_CZ, en-de_DE"),
        );
        check(&two, Some("en-de"), Err("x.tsv:2: the file has no score of `en-de`, only of en-cs_CZ"));
        check(&[two[0].clone(), two[0].clone()], None, Err("x.tsv:3: segment `1` of `A` has a second score"));
        check(&[line("x", "cs_CZ", "1")], None, Err("x.tsv:2: the segment number `x`"));
        check(&[line("1", "cs_CZ", "good")], None, Err("x.tsv:2: `good` is not a score"));
        check(&["d\t1\n".to_owned()], None, Err("x.tsv:2: the line has 2 fields, the header 9"));
    }
}
