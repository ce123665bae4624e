//! Numbers of the segments in a file of annotations. Other programs may leave `globalSegId` at one constant
//! or write ids there that are not numbers. Rows are parsed elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{Error, Result, Row};

/// Sets each row's segment number, from 0: `globalSegId`, less one where no id is 0. Where that is one
/// constant, or no id of a file with `docSegId` is a number, the segment's position by document and
/// `docSegId`.
///
/// # Errors
/// [`Error::Line`] for an id that is no number where others are or `docSegId` is missing, and for a constant
/// id without `docSegId` in a document of several sources.
pub fn number(path: &Path, rows: &mut [Row]) -> Result<()> {
    let places: BTreeSet<(&str, &str)> = rows.iter().map(place).collect();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let numbers: BTreeMap<String, usize> =
        ids.iter().filter_map(|id| Some(((*id).to_owned(), id.parse().ok()?))).collect();
    let is_constant = ids.len() == 1;
    if let Some(row) = unnumbered(rows).filter(|_| is_constant) {
        let reason = format!(
            "`{}` has several sources, but `globalSegId` is `{}` in all rows and `docSegId` is empty\nhint: number the \
             segments in one of the two columns",
            row.segment.doc, row.id
        );
        return Err(Error::Line { path: path.into(), line: row.line, reason });
    }
    let has_places = rows.iter().all(|row| !row.doc_seg.is_empty());
    if (is_constant && places.len() > 1) || (has_places && numbers.is_empty()) {
        let numbers = by_place(rows);
        for row in rows {
            row.segment.seg = numbers[&(row.segment.doc.clone(), row.doc_seg.clone())];
        }
        return Ok(());
    }
    let first = usize::from(!numbers.values().any(|number| *number == 0));
    for row in rows {
        let number = numbers.get(&row.id).ok_or_else(|| Error::Line {
            path: path.into(),
            line: row.line,
            reason: format!("the segment's number is `{}`, but it must be a whole number, from 1", row.id),
        })?;
        row.segment.seg = number - first;
    }
    Ok(())
}

/// The first row without `docSegId` whose source is not that of the earlier ones of its document.
fn unnumbered(rows: &[Row]) -> Option<&Row> {
    let mut sources: BTreeMap<&str, &str> = BTreeMap::new();
    rows.iter().filter(|row| row.doc_seg.is_empty()).find(|row| {
        let source = row.segment.source.trim_end();
        *sources.entry(&row.segment.doc).or_insert(source) != source
    })
}

fn place(row: &Row) -> (&str, &str) {
    (&row.segment.doc, &row.doc_seg)
}

/// Numbers the segments: documents in the order of the file, their segments by `docSegId`, or in the order of
/// the file where some of these are no numbers.
fn by_place(rows: &[Row]) -> BTreeMap<(String, String), usize> {
    let mut docs: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (doc, seg) in rows.iter().map(place).filter(|place| seen.insert(*place)) {
        let doc_at = *at.entry(doc).or_insert_with(|| {
            docs.push((doc, Vec::new()));
            docs.len() - 1
        });
        docs[doc_at].1.push(seg);
    }
    for (_, segs) in &mut docs {
        let number = |seg: &&str| seg.parse::<u64>().ok();
        if segs.iter().all(|seg| number(seg).is_some()) {
            segs.sort_by_key(number);
        }
    }
    let places = docs.iter().flat_map(|(doc, segs)| segs.iter().map(|seg| ((*doc).into(), (*seg).into())));
    places.enumerate().map(|(number, place)| (place, number)).collect()
}
