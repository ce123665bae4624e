//! Gold sets: segments with one marked error each, from CSV or JSONL. Labels are checked and normalised here,
//! so that all sets have the same form.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tribunal_core::files;

use super::labels;
use tribunal_meta::scores::{line_error, read_text};
use tribunal_meta::{Error, Result};

/// One segment of a set: the text with the error marked by `<v>` and `</v>`, and the error's labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cue {
    pub id: usize,
    pub source: String,
    #[serde(default)]
    pub reference: String,
    pub target: String,
    pub error_span: String,
    /// One of [`labels::ERRORS`] or [`labels::NO_ERROR`].
    pub category: String,
    /// `major`, `minor` or [`labels::NO_ERROR`].
    pub severity: String,
    #[serde(default)]
    pub source_lang: String,
    #[serde(default)]
    pub target_lang: String,
}

/// Reads a set: `.csv` with a header line, anything else as JSONL. Categories may be labels or paths of MQM's
/// typology (`Accuracy/Mistranslation`), in any case.
///
/// # Errors
/// An unreadable file; with its line, a row that lacks a field or has a category or severity that PROMPTCUE
/// does not have; an id that occurs twice.
pub fn read(path: &Path) -> Result<Vec<Cue>> {
    let text = read_text(path)?;
    let is_csv = path.extension().is_some_and(|extension| extension == "csv");
    let rows = if is_csv { csv_rows(&text) } else { jsonl_rows(&text) };
    let row = |(line, row): (usize, Result<Cue, String>)| {
        row.and_then(labelled).map_err(|reason| line_error(path, line, reason))
    };
    let cues: Vec<Cue> = rows.into_iter().map(row).collect::<Result<_, _>>()?;
    if cues.is_empty() {
        return Err(Error::Empty(path.into()));
    }
    let mut ids: Vec<usize> = cues.iter().map(|cue| cue.id).collect();
    ids.sort_unstable();
    if let Some([id, _]) = ids.array_windows().find(|[id, next]| id == next) {
        return Err(Error::Unsuitable(format!("`{}` has id `{id}` twice", path.display())));
    }
    Ok(cues)
}

/// A row with the number of its line, or the reason why it is not a cue.
type Row = (usize, Result<Cue, String>);

fn csv_rows(text: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().cloned();
    let mut rows = Vec::new();
    for record in reader.records() {
        let line = record.as_ref().ok().and_then(csv::StringRecord::position);
        let line = line.map_or(1, |position| usize::try_from(position.line()).unwrap_or(usize::MAX));
        let cue = match (&headers, record) {
            (Ok(headers), Ok(record)) => record.deserialize(Some(headers)).map_err(|e| e.to_string()),
            (Err(error), _) => Err(error.to_string()),
            (_, Err(error)) => Err(error.to_string()),
        };
        rows.push((line, cue));
    }
    rows
}

fn jsonl_rows(text: &str) -> Vec<Row> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| (index + 1, files::json::parse(line))).collect()
}

/// The cue with its labels in PROMPTCUE's spelling.
fn labelled(cue: Cue) -> Result<Cue, String> {
    let Some(category) = labels::from_gold(&cue.category) else {
        return Err(format!(
            "PROMPTCUE has no category `{}`; hint: it has {}, {} and MQM's names for them, such as \
             `Accuracy/Mistranslation`",
            cue.category,
            labels::ERRORS.join(", "),
            labels::NO_ERROR
        ));
    };
    let Some(severity) = labels::severity(&cue.severity) else {
        return Err(format!(
            "PROMPTCUE has no severity `{}`; hint: it has major, minor and {}",
            cue.severity,
            labels::NO_ERROR
        ));
    };
    Ok(Cue { category: category.to_owned(), severity: severity.to_owned(), ..cue })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "id,source,reference,target,error_span,category,severity,source_lang,target_lang";

    fn read_text(name: &str, text: &str) -> Result<Vec<Cue>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let shown = format!("{}/", dir.path().display());
        read(&path).map_err(|error| error.to_string().replace(&shown, ""))
    }

    #[test]
    fn labels_of_every_set_are_read_as_their_type() {
        let row = |category: &str, severity: &str| {
            let cues = read_text("x.csv", &format!("{HEADER}\n0,s,r,<v>t</v>,t,{category},{severity},a,b\n"));
            let cue = cues.unwrap().remove(0);
            (cue.category, cue.severity)
        };
        let check = |category: &str, severity: &str, expected: (&str, &str)| {
            assert_eq!(row(category, severity), (expected.0.to_owned(), expected.1.to_owned()), "{category}");
        };
        // MIS as published, in other cases, and with the paths that E.1 maps.
        check("Accuracy/Mistranslation", "Major", ("mistranslation", "major"));
        check("accuracy/mistranslation", "minor", ("mistranslation", "minor"));
        check(" ACCURACY/MISTRANSLATION ", "MINOR", ("mistranslation", "minor"));
        check("Accuracy/Source language fragment", "Major", ("untranslated", "major"));
        check("Accuracy/Untranslated text", "Major", ("untranslated", "major"));
        check("Style/Bad sentence structure", "Critical", ("word order", "major"));
        check("Source Issue", "minor", ("source", "minor"));
        check("Terminology/Inconsistent", "minor", ("terminology", "minor"));
        // GEN and PTB.
        check("source", "minor", ("source", "minor"));
        check("non-translation", "major", ("mistranslation", "major"));
        check("no-error", "no-error", ("no-error", "no-error"));
        check("No-error", "No-error", ("no-error", "no-error"));
    }

    #[test]
    fn bad_rows_are_named_by_their_line() {
        let check = |name: &str, text: &str, expected: &str| {
            let error = read_text(name, text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        let csv = |row: &str| format!("{HEADER}\n0,\"two\nlines\",r,t,t,grammar,minor,a,b\n{row}\n");
        check(
            "x.csv",
            &csv("1,s,r,t,t,Style/Awkward,minor,a,b"),
            "x.csv:4: PROMPTCUE has no category `Style/Awkward`",
        );
        check("x.csv", &csv("1,s,r,t,t,grammar,neutral,a,b"), "x.csv:4: PROMPTCUE has no severity `neutral`");
        check("x.csv", &csv("x,s,r,t,t,grammar,minor,a,b"), "x.csv:4: ");
        check("x.csv", &csv("0,s,r,t,t,grammar,minor,a,b"), "`x.csv` has id `0` twice");
        check("x.csv", HEADER, "`x.csv` is empty");
        let json = r#"{"id":1,"source":"s","target":"t","error_span":"t","category":"C","severity":"minor"}"#;
        check("x.jsonl", &format!("\n{json}\n"), "x.jsonl:2: PROMPTCUE has no category `C`");
    }
}
