//! Rows with named fields, from JSONL, TSV and the readers of CSV and Parquet, as segments: one translation
//! in each row, or those of several systems. Unknown fields are ignored.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde_json::{Map, Value};

use super::{
    Error, Result,
    pairs::{Named, Pair, Wanted},
    parallel, text,
};
use crate::{
    files,
    segment::{Segment, corpus::Names, numbers, wmt},
};

/// One row: its line in the file (in Parquet its number, from 1) and its fields.
pub struct Row {
    pub line: usize,
    pub fields: Map<String, Value>,
}

/// The names that a field may have: ours, then those of COMET, `MetricX` and mt-metrics-eval.
const SOURCE: &[&str] = &["source", "src", "src_text"];
const HYPOTHESIS: &[&str] = &["hypothesis", "target", "mt", "translation"];
/// An object `{SYSTEM: TRANSLATION}`: the rows of WMT's tasks since 2025, and of subset2evaluate.
const HYPOTHESES: &[&str] = &["hyps", "tgt_text", "tgt"];
/// WMT's evaluation task since 2026: language pair, domain, document and segment in one id.
const ITEM: &[&str] = &["item_id"];
const REFERENCE: &[&str] = &["reference", "ref"];
const SYSTEM: &[&str] = &["system", "system_id"];
const DOC: &[&str] = &["doc", "document_id", "doc_id"];
const SRC_LANG: &[&str] = &["src_lang", "source_lang"];
const TGT_LANG: &[&str] = &["tgt_lang", "target_lang"];
/// Both languages, as in COMET's training data and the quality estimation tasks of WMT.
const PAIR: &[&str] = &["lp", "language_pair", "lang_pair"];
const SEG: &[&str] = &["seg_id", "segment_id", "seg"];

/// The form of an item's id, for messages.
const ITEM_ID: &str = "an id `SRC_###_TGT_###_DOMAIN_###_DOCUMENT_###_SEGMENT` with codes such as `eng_Latn`";

/// Callback that takes rows one by one.
pub type Visit<'a> = &'a mut dyn FnMut(Row) -> Result<()>;

/// Reads JSONL row by row.
pub fn jsonl(path: &Path, visit: Visit<'_>) -> Result<()> {
    text::each(path, |number, line| {
        if line.trim().is_empty() {
            return Ok(());
        }
        let wrong = |reason| Error::Json { path: path.into(), line: number, reason };
        let value: Value = files::json::parse(line).map_err(wrong)?;
        let Value::Object(fields) = value else {
            return Err(Error::NoObject { path: path.into(), line: number, found: describe(&value) });
        };
        visit(Row { line: number, fields })
    })
}

/// Checks that a header has a column for sources and one for translations.
pub fn needed(path: &Path, header: &[&str], form: &str) -> Result<()> {
    for names in [SOURCE, HYPOTHESIS] {
        if !names.iter().any(|name| header.contains(name)) {
            let columns = header.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let hint = format!("\nhint: the first line must name the columns, {form}; it has {columns}");
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
    pair_filter: Wanted<'a>,
    stem: String,
    next_seg: HashMap<String, usize>,
    order: Order,
    /// The lines with an empty translation.
    empty: Vec<usize>,
    /// Numbers of rows by the type of their reference, where rows have one.
    references: BTreeMap<String, usize>,
}

impl<'a> Segmenter<'a> {
    /// A reader for the rows of a file; `pair` applies to those without languages, and leaves out those of
    /// other pairs.
    pub fn new(path: &'a Path, pair: Option<&'a Pair>) -> Self {
        Self {
            path,
            pair_filter: Wanted::new(pair),
            stem: files::stem(path),
            next_seg: HashMap::new(),
            order: Order::default(),
            empty: Vec::new(),
            references: BTreeMap::new(),
        }
    }

    /// The segments of a row: one, or those of several systems; none of a row of another language pair.
    pub fn take(&mut self, row: &Row) -> Result<Vec<Segment>> {
        let path = self.path;
        let row = In { path, row };
        let item = row.item()?;
        let doc = match &item {
            Some(item) => item.doc.clone(),
            None => row.name(DOC)?.unwrap_or_default(),
        };
        let [src, tgt, both] = [row.text(SRC_LANG)?, row.text(TGT_LANG)?, row.text(PAIR)?];
        let domain = item.as_ref().and_then(|item| wmt::domain(&item.doc)).map(str::to_owned);
        let both =
            item.as_ref().and_then(|item| item.pair.as_ref()).map_or(both, |(s, t)| Some(format!("{s}-{t}")));
        let named = Named { line: row.row.line, src, tgt, both, doc: &doc };
        let pair = self.pair_filter.pair(path, &named);
        if matches!(pair, Ok(None)) {
            return Ok(Vec::new());
        }
        let source = row.required(SOURCE)?;
        if source.trim().is_empty() {
            return Err(Error::EmptySource { path: path.into(), line: row.row.line, more: String::new() });
        }
        let translations = row.translations(&self.stem)?;
        // An item whose id ends in no number is a separate document.
        let seg = item.map_or_else(|| row.seg(), |item| Ok(Some(item.seg.unwrap_or(0))))?;
        let Some((src_lang, tgt_lang)) = pair? else { return Ok(Vec::new()) };
        let reference = row.reference()?;
        if let Some((_, Some(kind))) = &reference {
            *self.references.entry(kind.clone()).or_default() += 1;
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
                doc: doc.clone(),
                seg: seg.unwrap_or(position),
                src_lang: src_lang.clone(),
                tgt_lang: tgt_lang.clone(),
                source: source.clone(),
                hypothesis,
                reference: reference.as_ref().map(|(text, _)| text.clone()),
                domain: domain.clone(),
                reference_kind: reference.as_ref().and_then(|(_, kind)| kind.clone()),
            };
            self.order.check(&segment, path, row.row.line)?;
            segments.push(segment);
        }
        Ok(segments)
    }

    /// Notes for the user about the rows.
    ///
    /// # Errors
    /// [`Error::OtherPairs`] if all rows were of other pairs.
    pub fn complete(&self) -> Result<Vec<String>> {
        if self.next_seg.is_empty() {
            self.pair_filter.check(self.path)?;
        }
        let mut notes = Vec::new();
        if !self.empty.is_empty() {
            let lines = parallel::line_list(&self.empty);
            notes.push(format!("`{}` has an empty translation on {lines}", self.path.display()));
        }
        if !self.references.is_empty() {
            let listed =
                self.references.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ");
            notes.push(format!("`{}` has references of these types: {listed}", self.path.display()));
        }
        notes.extend(self.pair_filter.notes(self.path));
        Ok(notes)
    }
}

/// The segments read of each system so far, to find duplicates and scattered documents. Names stand for
/// themselves only once.
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
    fn check(&mut self, segment: &Segment, path: &Path, line: usize) -> Result<()> {
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
pub struct In<'a> {
    pub path: &'a Path,
    pub row: &'a Row,
}

impl In<'_> {
    fn find(&self, names: &[&str]) -> Option<(String, &Value)> {
        names.iter().find_map(|name| Some(((*name).to_string(), self.row.fields.get(*name)?)))
    }

    pub fn wrong(&self, field: String, found: &Value, expected: &'static str) -> Error {
        let (path, line) = (self.path.into(), self.row.line);
        Error::Field { path, line, field, found: describe(found), expected }
    }

    pub fn required(&self, names: &'static [&'static str]) -> Result<String> {
        let (path, line) = (self.path.to_path_buf(), self.row.line);
        if let Some((field, null @ Value::Null)) = self.find(names) {
            return Err(self.wrong(field, null, "a string"));
        }
        let hint = || match &names[1..] {
            [] => String::new(),
            others => format!("\nhint: it may also be called `{}`", others.join("`, `")),
        };
        self.text(names)?.ok_or_else(|| Error::Missing { path, line, field: names[0], hint: hint() })
    }

    /// The systems with their translations: those that the row names, or the one that it is about.
    pub fn translations(&self, stem: &str) -> Result<Vec<(String, String)>> {
        if let Some((field, Value::Object(by_system))) = self.find(HYPOTHESES) {
            let text = |(system, value): (&String, &Value)| match value {
                Value::Null => None,
                Value::String(text) => Some(Ok((system.clone(), text.clone()))),
                other => Some(Err(self.wrong(format!("{field}.{system}"), other, "a string"))),
            };
            return by_system.iter().filter_map(text).collect();
        }
        let hypothesis = self.required(HYPOTHESIS)?;
        let system = self.name(SYSTEM)?.filter(|s| !s.is_empty()).unwrap_or_else(|| stem.to_owned());
        Ok(vec![(system, hypothesis)])
    }

    /// The parsed id of an item of WMT's evaluation task, where the row has one.
    pub fn item(&self) -> Result<Option<wmt::Id>> {
        let of_a_task = self.row.fields.get(HYPOTHESES[0]).is_some_and(Value::is_object);
        match self.find(ITEM).filter(|_| of_a_task) {
            None => Ok(None),
            Some((field, value)) => match value.as_str().and_then(wmt::Id::of_item) {
                Some(id) => Ok(Some(id)),
                None => Err(self.wrong(field, value, ITEM_ID)),
            },
        }
    }

    /// The reference and its type, where it has one: a text, or WMT's `{"text": .., "type": ..}`.
    pub(super) fn reference(&self) -> Result<Option<(String, Option<String>)>> {
        let Some((field, Value::Object(by_name))) = self.find(REFERENCE) else {
            return Ok(self.text(REFERENCE)?.filter(|text| !text.trim().is_empty()).map(|text| (text, None)));
        };
        let part = |name: &str| match by_name.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(other) => Err(self.wrong(format!("{field}.{name}"), other, "a string")),
        };
        let kind = part("type")?;
        Ok(part("text")?.map(|text| (text, kind)))
    }

    pub fn text(&self, names: &[&str]) -> Result<Option<String>> {
        match self.find(names) {
            None | Some((_, Value::Null)) => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text.clone())),
            Some((field, other)) => Err(self.wrong(field, other, "a string")),
        }
    }

    /// A field that names something, perhaps by a number.
    pub fn name(&self, names: &[&str]) -> Result<Option<String>> {
        match self.find(names) {
            None | Some((_, Value::Null)) => Ok(None),
            Some((field, value)) => match numbers::name(value) {
                Some(name) => Ok(Some(name)),
                None => Err(self.wrong(field, value, "a string")),
            },
        }
    }

    fn seg(&self) -> Result<Option<usize>> {
        match self.find(SEG) {
            None | Some((_, Value::Null)) => Ok(None),
            Some((field, value)) => match numbers::whole(value) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(field, value, "a whole number from 0")),
            },
        }
    }
}

/// A JSON value in words, for messages.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => format!("`{b}`"),
        Value::Number(n) => format!("the number `{n}`"),
        Value::String(s) => format!("the text `{s}`"),
        value if files::json::is_no_number(value) => "`NaN`".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
