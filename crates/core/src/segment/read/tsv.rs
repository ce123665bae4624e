//! TSV: a header, then a row on each line, with fields between tabs. It separates fields and leaves their
//! meaning to `table`.
//!
//! Two kinds of TSV are in use. In one, which WMT's files are, a quotation mark is text. Data frames and
//! spreadsheets write the other, with CSV's quotes: a field that holds a tab, a quotation mark or a line end
//! stands in quotation marks, and a quotation mark in it is doubled. A file is of the second kind if
//!
//! 1. all of it follows those rules: a field that begins with a quotation mark is closed by one before the
//!    next tab or line end, marks within are doubled, no other field holds any, and every row has as many
//!    fields as the header; and
//! 2. something in it is of the second kind only: a doubled mark within quotes, a column's name in quotes, or
//!    a row that has another number of fields without the quotes.
//!
//! A row may also stand in quotes as a whole, tabs included: spreadsheets write a row this way that was
//! pasted into one cell.

use std::{borrow::Cow, path::Path};

use serde_json::Value;

use super::{
    Error, Result,
    table::{self, Row, Visit},
    text,
};

/// Reads the rows of a file.
pub fn rows(path: &Path, visit: Visit<'_>) -> Result<()> {
    let is_quoted = Evidence::from_file(path)?.is_quoted();
    let mut header: Option<Vec<String>> = None;
    let mut take = |number: usize, record: &str| {
        let Some(names) = &header else {
            let names: Vec<String> =
                fields(record, usize::MAX, is_quoted).iter().map(|name| name.trim().to_owned()).collect();
            table::needed(path, &names.iter().map(String::as_str).collect::<Vec<_>>(), "separated by tabs")?;
            header = Some(names);
            return Ok(());
        };
        if record.is_empty() {
            return Ok(());
        }
        let values = fields(record, names.len(), is_quoted);
        if values.len() != names.len() {
            let (found, expected) = (values.len(), names.len());
            return Err(Error::Columns { path: path.into(), line: number, found, expected });
        }
        let fields = names.iter().zip(values).map(|(k, v)| (k.clone(), Value::from(v))).collect();
        visit(Row { line: number, fields })
    };
    if is_quoted {
        let mut open = Open::default();
        text::each(path, |number, line| match open.add(number, line) {
            Some((number, record)) => take(number, &record),
            None => Ok(()),
        })?;
    } else {
        text::each(path, &mut take)?;
    }
    // An empty file has no header.
    if header.is_none() { table::needed(path, &[""], "separated by tabs") } else { Ok(()) }
}

/// A row's fields.
fn fields(record: &str, n_columns: usize, is_quoted: bool) -> Vec<Cow<'_, str>> {
    if !is_quoted || !record.contains('"') {
        return record.split('\t').map(Cow::from).collect();
    }
    let parsed = Fields::new(record).map(|field| Cow::from(field.text)).collect::<Vec<_>>();
    match &parsed[..] {
        // The row stands in quotes as a whole.
        [whole] if n_columns > 1 => whole.split('\t').map(|field| Cow::from(field.to_owned())).collect(),
        _ => parsed,
    }
}

/// Lines that are put together to a row while a quotation mark is open.
#[derive(Default)]
struct Open {
    record: String,
    /// Number of the row's first line.
    number: usize,
}

impl Open {
    /// Adds a line; the row, with the number of its first line, when it is whole.
    fn add(&mut self, number: usize, line: &str) -> Option<(usize, String)> {
        let is_open = if self.number == 0 {
            self.number = number;
            Fields::new(line).any(|field| field.ends == Ends::Open)
        } else {
            self.record.push('\n');
            Fields::within(line).any(|field| field.ends == Ends::Open)
        };
        self.record.push_str(line);
        (!is_open).then(|| (std::mem::take(&mut self.number), std::mem::take(&mut self.record)))
    }
}

/// Evidence of a file's kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Evidence {
    /// Something breaks the rules for quotes.
    breaks: bool,
    /// Something needs them.
    needs: bool,
}

impl Evidence {
    fn is_quoted(self) -> bool {
        self.needs && !self.breaks
    }

    /// Scans a file up to the first violation of the rules.
    fn from_file(path: &Path) -> Result<Self> {
        let (mut found, mut n_columns) = (Self::default(), None);
        let mut open = Open::default();
        text::each(path, |number, line| {
            if !found.breaks && (open.number > 0 || n_columns.is_none() || line.contains('"')) {
                found.breaks = open.record.len() > MAX_ROW;
                if let Some((first, record)) = open.add(number, line) {
                    let n = *n_columns.get_or_insert_with(|| fields(&record, usize::MAX, true).len());
                    found.row(&Fields::new(&record).collect::<Vec<_>>(), n, &record, first == 1);
                }
            }
            Ok(())
        })?;
        found.breaks |= open.number > 0;
        Ok(found)
    }

    fn row(&mut self, fields: &[Field], n_columns: usize, record: &str, is_header: bool) {
        self.breaks |= fields.iter().any(|field| field.ends != Ends::Well);
        let is_whole = matches!(fields, [one] if one.text.split('\t').count() == n_columns);
        self.breaks |= fields.len() != n_columns && !is_whole;
        let is_quoted = fields.iter().any(|field| field.is_quoted);
        let is_doubled = fields.iter().any(|field| field.is_quoted && field.text.contains('"'));
        let is_otherwise_torn = record.split('\t').count() != n_columns || record.contains('\n');
        self.needs |= is_doubled || (is_quoted && (is_header || is_otherwise_torn));
    }
}

/// The longest row with quotes. Unit: bytes.
const MAX_ROW: usize = 16 << 20;

/// A field by CSV's rules.
struct Field {
    /// Without quotes.
    text: String,
    is_quoted: bool,
    ends: Ends,
}

/// Delimiter that ends a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Before a tab or at the end of the row.
    Well,
    /// With an open quotation mark.
    Open,
    /// A mark stands where none may.
    Stray,
}

/// The fields of a row by CSV's rules.
struct Fields<'a> {
    tail: Option<&'a str>,
    /// True if the rest begins within quotes.
    is_within: bool,
}

impl<'a> Fields<'a> {
    fn new(row: &'a str) -> Self {
        Self { tail: Some(row), is_within: false }
    }

    /// The fields of a line that continues a quoted field.
    fn within(line: &'a str) -> Self {
        Self { tail: Some(line), is_within: true }
    }
}

impl Iterator for Fields<'_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        let tail = self.tail.take()?;
        let within = if std::mem::take(&mut self.is_within) { Some(tail) } else { tail.strip_prefix('"') };
        let Some(mut inner) = within else {
            let (text, after) =
                tail.split_once('\t').map_or((tail, None), |(text, after)| (text, Some(after)));
            self.tail = after;
            let ends = if text.contains('"') { Ends::Stray } else { Ends::Well };
            return Some(Field { text: text.to_owned(), is_quoted: false, ends });
        };
        let mut text = String::new();
        let field = |text, ends| Some(Field { text, is_quoted: true, ends });
        loop {
            let Some((part, after)) = inner.split_once('"') else {
                text.push_str(inner);
                return field(text, Ends::Open);
            };
            text.push_str(part);
            if let Some(after) = after.strip_prefix('"') {
                text.push('"');
                inner = after;
            } else if let Some(after) = after.strip_prefix('\t') {
                self.tail = Some(after);
                return field(text, Ends::Well);
            } else {
                return field(text, if after.is_empty() { Ends::Well } else { Ends::Stray });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&[&str]]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.tsv");
        std::fs::write(&path, text).unwrap();
        let mut found: Vec<Vec<String>> = Vec::new();
        rows(&path, &mut |row| {
            found.push(row.fields.values().map(|value| value.as_str().unwrap().to_owned()).collect());
            Ok(())
        })
        .unwrap();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn quotes_of_data_frames_are_no_text() {
        // As pandas writes it, and Python's csv.
        check(
            "source\ttarget\n\"Good \"\"day\"\".\"\tGuten Tag.\nYes.\t\"\"\"Ja.\"\"\"\n",
            &[&["Good \"day\".", "Guten Tag."], &["Yes.", "\"Ja.\""]],
        );
        // With quotes around everything.
        check(
            "\"source\"\t\"target\"\r\n\"One\"\t\"Eins\"\r\n\"\"\t\"\"\r\n",
            &[&["One", "Eins"], &["", ""]],
        );
        check("\"source\ttarget\"\n\"One\tEins\"\n", &[&["One", "Eins"]]);
        // A tab and a line end within a field.
        check("source\ttarget\na\t\"b\tc\"\n\"d\ne\"\tf\n", &[&["a", "b\tc"], &["d\ne", "f"]]);
        // A row that was pasted into one cell of a sheet.
        check(
            "source\ttarget\n\"Good \"\"day\"\".\tGuten Tag.\"\nOne\tEins\n",
            &[&["Good \"day\".", "Guten Tag."], &["One", "Eins"]],
        );
    }

    #[test]
    fn quotes_of_texts_are_text() {
        for (source, target) in [
            ("\"Yes.\"", "\"Ja.\""),            // two quotations
            ("\"Yes", "\"Ja"),                  // that go on in the next segment
            ("He said \"yes\".", "Er: \"Ja\""), // within a text
            ("\"Yes\", he said.", "\"Ja\", sagte er."),
            ("\"\"", "5\""),
            ("\"\"Yes\"\"", "x"),
        ] {
            check(&format!("source\ttarget\n{source}\t{target}\n"), &[&[source, target]]);
        }
        // One stray mark anywhere, as in WMT's files of ratings, and nothing is taken for quotes.
        check(
            "source\ttarget\n\"\"\"Yes\"\"\"\tJa\n5\" wide\tbreit\n",
            &[&["\"\"\"Yes\"\"\"", "Ja"], &["5\" wide", "breit"]],
        );
        check(
            "source\ttarget\n\"\"\"Yes\"\"\"\tJa\n\"open\tx\n",
            &[&["\"\"\"Yes\"\"\"", "Ja"], &["\"open", "x"]],
        );
    }
}
