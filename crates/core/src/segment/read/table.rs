//! Rows with named fields, from JSONL, TSV and the readers of CSV and Parquet, as segments: one translation in each
//! row, or those of several systems. Unknown fields are ignored.

use std::{collections::HashMap, path::Path};

use serde_json::{Map, Value};

use super::{Error, parallel, text};
use crate::segment::{Lang, Segment, corpus::Names};

/// One row: its line in the file (in Parquet its number, from 1) and its fields.
pub struct Row {
    pub line: usize,
    pub fields: Map<String, Value>,
}

/// The names that a field may have: ours, then those of COMET, `MetricX` and mt-metrics-eval.
const SOURCE: &[&str] = &["source", "src", "src_text"];
const HYPOTHESIS: &[&str] = &["hypothesis", "target", "mt", "translation"];
/// An object `{SYSTEM: TRANSLATION}`: the rows of WMT's general task since 2025, and of subset2evaluate.
const HYPOTHESES: &[&str] = &["tgt_text", "tgt"];
const REFERENCE: &[&str] = &["reference", "ref"];
const SYSTEM: &[&str] = &["system", "system_id"];
const DOC: &[&str] = &["doc", "document_id", "doc_id"];
const SEG: &[&str] = &["seg_id", "segment_id", "seg"];
const SRC_LANG: &[&str] = &["src_lang"];
const TGT_LANG: &[&str] = &["tgt_lang"];

/// What takes rows one by one.
pub type Visit<'a> = &'a mut dyn FnMut(Row) -> Result<(), Error>;

/// Reads JSONL row by row.
pub fn jsonl(path: &Path, visit: Visit<'_>) -> Result<(), Error> {
    text::each(path, |number, line| {
        if line.trim().is_empty() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(line).map_err(|source| Error::Json {
            path: path.into(),
            line: number,
            reason: super::not_json(&source),
        })?;
        let Value::Object(fields) = value else {
            return Err(Error::NoObject { path: path.into(), line: number, found: describe(&value) });
        };
        visit(Row { line: number, fields })
    })
}

/// Reads TSV row by row.
pub fn tsv(path: &Path, visit: Visit<'_>) -> Result<(), Error> {
    let mut header: Option<Vec<String>> = None;
    text::each(path, |number, line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let Some(names) = &header else {
            let names: Vec<&str> = line.split('\t').map(str::trim).collect();
            needed(path, &names, "separated by tabs")?;
            header = Some(names.into_iter().map(str::to_owned).collect());
            return Ok(());
        };
        if line.is_empty() {
            return Ok(());
        }
        let values: Vec<&str> = line.split('\t').collect();
        if values.len() != names.len() {
            let (found, wanted) = (values.len(), names.len());
            return Err(Error::Columns { path: path.into(), line: number, found, wanted });
        }
        let fields = names.iter().zip(values).map(|(k, v)| (k.clone(), Value::from(v))).collect();
        visit(Row { line: number, fields })
    })?;
    // An empty file has no header.
    if header.is_none() { needed(path, &[""], "separated by tabs") } else { Ok(()) }
}

/// Checks that a header has a column for sources and one for translations.
pub fn needed(path: &Path, header: &[&str], form: &str) -> Result<(), Error> {
    for names in [SOURCE, HYPOTHESIS] {
        if !names.iter().any(|name| header.contains(name)) {
            let there = header.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let hint = format!("\nhint: the first line must name the columns, {form}; it has {there}");
            return Err(Error::Missing { path: path.into(), line: 1, field: names[0], hint });
        }
    }
    // Another column's texts would stand in its place, without a word.
    let is_twice = |name: &&&str| !name.is_empty() && header.iter().filter(|other| other == name).count() > 1;
    match header.iter().find(is_twice) {
        Some(column) => Err(Error::Column { path: path.into(), line: 1, column: (*column).to_owned() }),
        None => Ok(()),
    }
}

/// Turns rows into segments, and checks that ids are unique and documents contiguous.
pub struct Segmenter<'a> {
    path: &'a Path,
    pair: Option<&'a (Lang, Lang)>,
    stem: String,
    next_seg: HashMap<String, usize>,
    order: Order,
    /// The lines with an empty translation.
    empty: Vec<usize>,
    /// The first line that names other languages than the pair that was given, and which.
    other: Option<(usize, String)>,
}

impl<'a> Segmenter<'a> {
    /// For the rows of a file; `pair` applies to those that name no languages.
    pub fn new(path: &'a Path, pair: Option<&'a (Lang, Lang)>) -> Self {
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let (next_seg, order, empty) = (HashMap::new(), Order::default(), Vec::new());
        Self { path, pair, stem, next_seg, order, empty, other: None }
    }

    /// The segments of a row: one, or those of several systems.
    pub fn take(&mut self, row: &Row) -> Result<Vec<Segment>, Error> {
        let path = self.path;
        let row = In { path, row };
        let source = row.required(SOURCE)?;
        if source.trim().is_empty() {
            return Err(Error::EmptySource { path: path.into(), line: row.row.line, more: String::new() });
        }
        let translations = row.translations(&self.stem)?;
        let given = row.seg()?;
        let (src_lang, tgt_lang) = row.languages(self.pair)?;
        if self.other.is_none() && self.pair.is_some_and(|pair| (&pair.0, &pair.1) != (&src_lang, &tgt_lang))
        {
            self.other = Some((row.row.line, format!("{src_lang}-{tgt_lang}")));
        }
        let mut segments = Vec::with_capacity(translations.len());
        for (system, hypothesis) in translations {
            if hypothesis.trim().is_empty() {
                self.empty.push(row.row.line - 1);
            }
            if !self.next_seg.contains_key(&system) {
                self.next_seg.insert(system.clone(), 0);
            }
            let position =
                self.next_seg.get_mut(&system).map_or(0, |next| std::mem::replace(next, *next + 1));
            let segment = Segment {
                system,
                doc: row.text(DOC)?.unwrap_or_default(),
                seg: given.unwrap_or(position),
                src_lang: src_lang.clone(),
                tgt_lang: tgt_lang.clone(),
                source: source.clone(),
                hypothesis,
                reference: row.text(REFERENCE)?.filter(|r| !r.trim().is_empty()),
            };
            self.order.check(&segment, path, row.row.line)?;
            segments.push(segment);
        }
        Ok(segments)
    }

    /// What the user should know of the rows.
    pub fn notes(&self) -> Vec<String> {
        let (path, mut notes) = (self.path.display(), Vec::new());
        if !self.empty.is_empty() {
            let lines = parallel::line_list(&self.empty);
            notes.push(format!("`{path}` has an empty translation on {lines}"));
        }
        if let (Some((line, found)), Some((src, tgt))) = (&self.other, self.pair) {
            notes.push(format!(
                "`{path}` line {line} names the languages `{found}`, which hold there, not `{src}-{tgt}`"
            ));
        }
        notes
    }
}

/// What has been read of each system so far, to find duplicates and scattered documents. Names stand for themselves only
/// once.
#[derive(Default)]
struct Order {
    names: Names,
    /// (system, languages, doc, seg) -> line.
    lines: HashMap<(u32, u32, u32, usize), usize>,
    docs: HashMap<(u32, u32), Docs>,
}

/// The documents of a system: the line of each one's last segment, and which one is open.
#[derive(Default)]
struct Docs {
    ended: HashMap<u32, usize>,
    open: Option<u32>,
}

impl Order {
    fn check(&mut self, segment: &Segment, path: &Path, line: usize) -> Result<(), Error> {
        let languages = format!("{}-{}", segment.src_lang, segment.tgt_lang);
        let mut number = |name: &str| self.names.enter(name);
        let (system, languages, doc) = (number(&segment.system), number(&languages), number(&segment.doc));
        if let Some(first) = self.lines.insert((system, languages, doc, segment.seg), line) {
            let (system, doc) = (segment.system.clone(), segment.doc.clone());
            return Err(Error::Duplicate { path: path.into(), line, first, system, doc, seg: segment.seg });
        }
        if segment.doc.is_empty() {
            return Ok(());
        }
        let docs = self.docs.entry((system, languages)).or_default();
        match docs.ended.insert(doc, line) {
            Some(ended) if docs.open != Some(doc) => {
                Err(Error::Scattered { path: path.into(), line, doc: segment.doc.clone(), ended })
            }
            _ => {
                docs.open = Some(doc);
                Ok(())
            }
        }
    }
}

/// A row and its file, for messages.
struct In<'a> {
    path: &'a Path,
    row: &'a Row,
}

impl In<'_> {
    fn find(&self, names: &[&str]) -> Option<(String, &Value)> {
        names.iter().find_map(|name| Some(((*name).to_string(), self.row.fields.get(*name)?)))
    }

    fn wrong(&self, field: String, found: &Value, wanted: &'static str) -> Error {
        let (path, line) = (self.path.into(), self.row.line);
        Error::Field { path, line, field, found: describe(found), wanted }
    }

    fn required(&self, names: &'static [&'static str]) -> Result<String, Error> {
        let (path, line) = (self.path.to_path_buf(), self.row.line);
        if let Some((field, null @ Value::Null)) = self.find(names) {
            return Err(self.wrong(field, null, "a string"));
        }
        let hint = || format!("\nhint: it may also be called `{}`", names[1..].join("`, `"));
        self.text(names)?.ok_or_else(|| Error::Missing { path, line, field: names[0], hint: hint() })
    }

    /// The systems with their translations: those that the row names, or the one that it is about.
    fn translations(&self, stem: &str) -> Result<Vec<(String, String)>, Error> {
        if let Some((field, Value::Object(given))) = self.find(HYPOTHESES) {
            let text = |(system, value): (&String, &Value)| match value {
                Value::Null => None,
                Value::String(text) => Some(Ok((system.clone(), text.clone()))),
                other => Some(Err(self.wrong(format!("{field}.{system}"), other, "a string"))),
            };
            return given.iter().filter_map(text).collect();
        }
        let hypothesis = self.required(HYPOTHESIS)?;
        let system = self.text(SYSTEM)?.filter(|s| !s.is_empty()).unwrap_or_else(|| stem.to_owned());
        Ok(vec![(system, hypothesis)])
    }

    fn text(&self, names: &[&str]) -> Result<Option<String>, Error> {
        match self.find(names) {
            None | Some((_, Value::Null)) => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text.clone())),
            Some((field, other)) => Err(self.wrong(field, other, "a string")),
        }
    }

    fn seg(&self) -> Result<Option<usize>, Error> {
        let wanted = "a whole number from 0";
        match self.find(SEG) {
            None | Some((_, Value::Null)) => Ok(None),
            Some((field, value)) => {
                let number = match value {
                    Value::String(text) => text.trim().parse().ok(),
                    other => other.as_u64().map(|n| n as usize),
                };
                number.map(Some).ok_or_else(|| self.wrong(field, value, wanted))
            }
        }
    }

    fn languages(&self, pair: Option<&(Lang, Lang)>) -> Result<(Lang, Lang), Error> {
        let (path, line) = (self.path.to_path_buf(), self.row.line);
        let read = |names, default: Option<&Lang>| -> Result<Lang, Error> {
            match self.text(names)?.filter(|code| !code.is_empty()) {
                Some(code) => {
                    Lang::parse(&code).map_err(|source| Error::Lang { path: path.clone(), line, source })
                }
                None => default.cloned().ok_or(Error::NoPair { path: path.clone(), line }),
            }
        };
        Ok((read(SRC_LANG, pair.map(|p| &p.0))?, read(TGT_LANG, pair.map(|p| &p.1))?))
    }
}

/// A JSON value in words, for messages.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => format!("`{b}`"),
        Value::Number(n) => format!("the number `{n}`"),
        Value::String(s) => format!("the text `{s}`"),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
