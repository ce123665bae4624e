//! Human annotations as JSON: WMT25's `humeval.jsonl`, and the log of a Pearmut campaign (ESA, cESA, MQM),
//! also of several campaigns in one file, as WMT26 publishes them. It computes no score.
//!
//! Source: `humeval/04-collect_humeval.py` of wmt-conference/wmt25-general-mt;
//! `humeval/01-prepare_campaigns.py` and `02-analyze_results.py` of wmt-conference/wmt26-general-mt;
//! zouharvi/pearmut, `server/utils.py` and `web/src/annotate.ts`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::{Map, Value};

use super::{Annotation, Counted, Error, Result};
use crate::{
    files::{self, json, text},
    mqm::{ErrorSpan, Severity, Side},
    segment::{
        Lang, Segment, numbers,
        read::is_meant,
        wmt::{self, Id},
    },
};

type Pair = (Lang, Lang);

/// The marker of a reset: annotations before it do not count.
const RESET: &str = "__RESET__";

/// WMT25's position of an error in text that is missing from the translation.
const MISSING: &str = "missing";

/// The name of the reference among WMT25's translations.
const REFERENCE: &str = "refA";

/// Categories of the tags behind a translation, in their order: `[missing]`, `[instructions fault]`.
const TAGS: [&str; 2] = ["accuracy/omission", "instruction fault"];

/// The names that annotations, raters and texts have in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A line for each segment, with `scores` by system.
    Segments,
    /// A line for each document that a user submitted.
    Log,
    /// An object of logs by campaign.
    Campaigns,
}

impl Kind {
    fn from_path(path: &Path) -> Option<Self> {
        if path.extension().is_some_and(|ending| ending == "json") {
            let campaigns: Map<String, Value> = serde_json::from_str(&text::read(path).ok()?).ok()?;
            let log = campaigns.values().find_map(|log| log.as_array()?.first())?;
            return is_entry(log.as_object()?).then_some(Self::Campaigns);
        }
        let mut lines = text::lines(path).ok()?;
        while let Some((_, line)) = lines.next_line().ok()? {
            if line.trim().is_empty() {
                continue;
            }
            let row: Map<String, Value> = serde_json::from_str(line).ok()?;
            let is_segment = row.get("scores").is_some_and(Value::is_object) && row.contains_key("tgt_text");
            return if is_segment { Some(Self::Segments) } else { is_entry(&row).then_some(Self::Log) };
        }
        None
    }
}

fn is_entry(row: &Map<String, Value>) -> bool {
    ["annotation", "user_id"].iter().all(|name| row.contains_key(*name))
}

/// Returns true if a file holds such annotations, by its first line.
pub fn is_annotations(path: &Path) -> bool {
    Kind::from_path(path).is_some()
}

/// Reads a file: the annotations in its order. Languages are those of the ids or of the campaign's name;
/// `pair` selects them, and holds for a log without. Tutorials, attention checks and what a reset undid are
/// left out. Of one user's annotations of one translation that have no score, the last counts.
///
/// # Errors
/// [`Error`], naming the file, the line, the field.
pub fn read(path: &Path, pair: Option<&Pair>, counted: Counted) -> Result<Vec<Annotation>> {
    let mut found = Found { path, chosen: pair, counted, all: Vec::new(), others: BTreeMap::new() };
    let io = |source| Error::Io { path: path.into(), source };
    match Kind::from_path(path) {
        Some(Kind::Campaigns) => {
            let document = text::read(path).map_err(io)?;
            let wrong = |error: serde_json::Error| Error::Line {
                path: path.into(),
                line: error.line(),
                reason: json::syntax(&document, &error),
            };
            let campaigns: Map<String, Value> = serde_json::from_str(&document).map_err(wrong)?;
            for (name, log) in &campaigns {
                let entries = log.as_array().map_or(&[][..], Vec::as_slice);
                let entries =
                    entries.iter().enumerate().map(|(idx, entry)| (Place::Entry(name, idx + 1), entry));
                found.log(wmt::campaign_pair(name).as_ref(), entries)?;
            }
        }
        kind => {
            let mut rows = Vec::new();
            let mut lines = text::lines(path).map_err(io)?;
            while let Some((number, line)) = lines.next_line().map_err(io)? {
                if line.trim().is_empty() {
                    continue;
                }
                let wrong = |reason| Error::Line { path: path.into(), line: number, reason };
                let row = files::json::parse(line).map_err(wrong)?;
                match kind {
                    Some(Kind::Segments) => found.segment(Place::Line(number), &row)?,
                    _ => rows.push((number, row)),
                }
            }
            let stem = files::stem(path);
            let entries = rows.iter().map(|(number, row)| (Place::Line(*number), row));
            found.log(wmt::campaign_pair(&stem).as_ref(), entries)?;
        }
    }
    found.complete()
}

/// Location of an annotation, for messages.
#[derive(Clone, Copy)]
enum Place<'a> {
    Line(usize),
    /// Entry of a campaign, from 1.
    Entry(&'a str, usize),
}

impl Place<'_> {
    fn line(self) -> Option<usize> {
        match self {
            Self::Line(line) => Some(line),
            Self::Entry(..) => None,
        }
    }

    fn error(self, path: &Path, reason: String) -> Error {
        match self {
            Self::Line(line) => Error::Line { path: path.into(), line, reason },
            Self::Entry(campaign, entry) => {
                Error::Entry { path: path.into(), campaign: campaign.to_owned(), entry, reason }
            }
        }
    }
}

/// The annotations read so far.
struct Found<'a> {
    path: &'a Path,
    chosen: Option<&'a Pair>,
    counted: Counted,
    all: Vec<Annotation>,
    /// Annotations of other language pairs.
    others: BTreeMap<String, usize>,
}

impl Found<'_> {
    fn complete(mut self) -> Result<Vec<Annotation>> {
        if let Some((src, tgt)) = self.chosen.filter(|_| self.all.is_empty() && !self.others.is_empty()) {
            let pairs =
                self.others.iter().map(|(pair, n)| format!("{pair} {n}")).collect::<Vec<_>>().join(", ");
            return Err(Error::OtherPairs {
                path: self.path.into(),
                pair: format!("{src}-{tgt}"),
                listed: pairs,
            });
        }
        // Where others gave scores, a translation without one was skipped, and is not free of errors.
        let pair = |it: &Annotation| (it.segment.src_lang.clone(), it.segment.tgt_lang.clone());
        let assessed: BTreeSet<Pair> = self.all.iter().filter(|it| it.score.is_some()).map(pair).collect();
        self.all.retain(|it| it.score.is_some() || !assessed.contains(&pair(it)));
        if self.all.is_empty() { Err(Error::Nothing(self.path.into())) } else { Ok(self.all) }
    }

    /// Returns true if a pair is read; others are counted.
    fn takes(&mut self, pair: &Pair) -> bool {
        let is_meant = self.chosen.is_none_or(|(src, tgt)| is_meant(pair, (src, tgt)));
        if !is_meant {
            *self.others.entry(format!("{}-{}", pair.0, pair.1)).or_default() += 1;
        }
        is_meant
    }

    /// A line of `humeval.jsonl`: a segment with the annotations of all systems.
    fn segment(&mut self, place: Place<'_>, row: &Value) -> Result<()> {
        let wrong = |reason: String| place.error(self.path, reason);
        let id =
            row["doc_id"].as_str().ok_or_else(|| wrong("`doc_id` is missing, or not a string".into()))?;
        let Some(Id { pair: Some(pair), doc, seg: Some(seg) }) = Id::of_rated(id) else {
            return Err(wrong(format!(
                "`doc_id` is `{id}` but must be an id `SRC-TGT_#_DOMAIN_#_DOCUMENT_#_SEGMENT`"
            )));
        };
        if !self.takes(&pair) {
            return Ok(());
        }
        let wrong = |reason: String| place.error(self.path, reason);
        let source =
            row["src_text"].as_str().ok_or_else(|| wrong("`src_text` is missing, or not a string".into()))?;
        let scores =
            row["scores"].as_object().ok_or_else(|| wrong("`scores` is missing, or not an object".into()))?;
        let mut found = Vec::new();
        for (system, entries) in scores {
            let hypothesis = row["tgt_text"][system].as_str().ok_or_else(|| {
                wrong(format!("`scores.{system}` rates a translation that `tgt_text` does not have"))
            })?;
            let reference = row["tgt_text"][REFERENCE].as_str().map(str::to_owned);
            let segment = Segment { reference, ..segment(system, (&doc, seg), &pair, source, hypothesis) };
            let chars: Vec<usize> = (0..=hypothesis.chars().count()).collect();
            for (idx, annotation) in annotations(entries).into_iter().enumerate() {
                let field = format!("scores.{system}[{idx}]");
                let errors = errors(&annotation.errors, &format!("{field}.errors"), &chars, hypothesis)
                    .map_err(wrong)?;
                let score = score(&annotation.score, &format!("{field}.score")).map_err(wrong)?;
                let (rater, line) = (annotation.rater, place.line());
                found.push(Annotation { segment: segment.clone(), rater, score, errors, line });
            }
        }
        self.all.extend(found);
        Ok(())
    }

    /// The entries of one campaign.
    fn log<'v>(
        &mut self,
        campaign: Option<&Pair>,
        entries: impl Iterator<Item = (Place<'v>, &'v Value)>,
    ) -> Result<()> {
        let mut log: Vec<(Place<'_>, &Value)> = Vec::new();
        for (place, entry) in entries {
            if entry["annotation"] == RESET && self.counted == Counted::Official {
                log.clear();
            } else if entry["annotation"] == RESET {
                let (user, item) = (&entry["user_id"], entry.get("item_i").filter(|item| !item.is_null()));
                log.retain(|(_, old)| {
                    old["user_id"] != *user || item.is_some_and(|item| old["item_i"] != *item)
                });
            } else {
                log.push((place, entry));
            }
        }
        let begin = self.all.len();
        for (place, entry) in log {
            // Greetings, attention checks and farewells are not numbered.
            if !entry["item_i"].is_string() {
                self.entry(campaign, place, entry)?;
            }
        }
        self.keep_last(begin);
        Ok(())
    }

    /// A document that a user submitted: items, and the user's annotations of each.
    fn entry(&mut self, campaign: Option<&Pair>, place: Place<'_>, entry: &Value) -> Result<()> {
        let path = self.path;
        let wrong = |reason: String| place.error(path, reason);
        let list = |name: &str| {
            let values = entry[name].as_array();
            values.ok_or_else(|| wrong(format!("`{name}` is missing, or not a list")))
        };
        let (entries, items) = (list("annotation")?, list("item")?);
        let user = numbers::name(&entry["user_id"]).ok_or_else(|| wrong("`user_id` is not a name".into()))?;
        for (idx, (entries, item)) in entries.iter().zip(items).enumerate() {
            let Some(id) = item["item_id"].as_str().filter(|id| !is_of_training(id)) else { continue };
            let Some(entries) = entries.as_object() else { continue };
            let (pair, doc, seg) = self.place(campaign, id, idx).map_err(wrong)?;
            if !self.takes(&pair) {
                continue;
            }
            // Where the page shows a video, the text stands beside it.
            let source = item["src_text"].as_str().or_else(|| item["src"].as_str()).unwrap_or_default();
            // Campaigns with sliders of their own store other values than a score and errors.
            let is_other = |it: &Value| {
                it["score"].is_null() && it["sliders"].as_object().is_some_and(|all| !all.is_empty())
            };
            for (system, annotation) in entries.iter().filter(|(_, it)| !is_other(it)) {
                let hypothesis = item["tgt"][system].as_str().ok_or_else(|| {
                    wrong(format!("`annotation[{idx}].{system}` rates a translation that `item[{idx}].tgt` does not have"))
                })?;
                let field = format!("annotation[{idx}].{system}");
                let elements = elements(hypothesis);
                let spans = annotation["error_spans"].as_array().map_or(&[][..], Vec::as_slice);
                let errors =
                    errors(spans, &format!("{field}.error_spans"), &elements, hypothesis).map_err(wrong)?;
                let score = score(&annotation["score"], &format!("{field}.score")).map_err(wrong)?;
                let segment = segment(system, (&doc, seg), &pair, source, hypothesis);
                let line = place.line();
                self.all.push(Annotation { segment, rater: user.clone(), score, errors, line });
            }
        }
        Ok(())
    }

    /// The languages, the document and the number of an item. Ids of other campaigns than WMT's name a
    /// document each.
    fn place(&self, campaign: Option<&Pair>, id: &str, idx: usize) -> Result<(Pair, String, usize), String> {
        let known = Id::of_rated(id);
        let expected = known.as_ref().and_then(|id| id.pair.as_ref()).or(campaign).or(self.chosen);
        let pair = expected.cloned().ok_or("the languages are missing\nhint: name them, as `en-de`")?;
        let (doc, seg) = match known {
            Some(Id { doc, seg: Some(seg), .. }) => (doc, seg),
            _ => (id.to_owned(), idx),
        };
        Ok((pair, doc, seg))
    }

    /// Of several annotations of one translation by one rater only the last stays, unless all scores count.
    fn keep_last(&mut self, begin: usize) {
        let mut seen = BTreeSet::new();
        let mut group = self.all.split_off(begin);
        group.reverse();
        group.retain(|annotation| {
            if self.counted == Counted::Official && annotation.score.is_some() {
                return true;
            }
            let Segment { system, doc, seg, src_lang, tgt_lang, hypothesis, .. } = &annotation.segment;
            let key = (annotation.rater.clone(), system.clone(), doc.clone(), *seg);
            seen.insert((key, (src_lang.clone(), tgt_lang.clone()), hypothesis.clone()))
        });
        group.reverse();
        self.all.extend(group);
    }
}

/// Returns true if an item teaches or tests a user.
fn is_of_training(id: &str) -> bool {
    id.contains("_#_tutorial_#_") || id.starts_with("attention_check")
}

fn segment(system: &str, (doc, seg): (&str, usize), pair: &Pair, source: &str, hypothesis: &str) -> Segment {
    Segment {
        system: system.to_owned(),
        doc: doc.to_owned(),
        seg,
        domain: wmt::domain(doc).map(str::to_owned),
        ..Segment::new(pair.clone(), source, hypothesis)
    }
}

/// One annotation of WMT25's file.
struct Given {
    rater: String,
    score: Value,
    errors: Vec<Value>,
}

/// The annotations of a system: a list, or the fields `human1`, `errors1`, `annotator1` of each wave.
fn annotations(entry: &Value) -> Vec<Given> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value, n: usize| numbers::name(value).unwrap_or_else(|| format!("rater{n}"));
    if let Some(all) = entry.as_array() {
        let one = |(idx, it): (usize, &Value)| Given {
            rater: name(&it["annotator"], idx + 1),
            score: it["score"].clone(),
            errors: list(&it["errors"]),
        };
        return all.iter().enumerate().map(one).collect();
    }
    let waves = (1..).take_while(|n| entry.get(format!("human{n}")).is_some() || *n == 1);
    let numbers = waves.filter(|n| entry.get(format!("human{n}")).is_some());
    let one = |n: usize| Given {
        rater: name(&entry[format!("annotator{n}")], n),
        score: entry[format!("human{n}")].clone(),
        errors: list(&entry[format!("errors{n}")]),
    };
    numbers.map(one).collect()
}

/// A rater's score. Range: 0 to 100, higher is better; `None` where the protocol has none.
fn score(value: &Value, field: &str) -> Result<Option<f64>, String> {
    match value {
        Value::Null => Ok(None),
        _ => match value.as_f64().filter(|score| (0.0..=100.0).contains(score)) {
            Some(score) => Ok(Some(score)),
            None => Err(format!("`{field}` is {value} but must be a number from 0 to 100")),
        },
    }
}

/// Number of characters before each element of Pearmut's page, and in all: an element is a UTF-16 unit other
/// than a line feed.
fn elements(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    for (idx, c) in text.chars().enumerate().filter(|(_, c)| *c != '\n') {
        starts.extend(std::iter::repeat_n(idx, c.len_utf16()));
    }
    starts.push(text.chars().count());
    starts
}

/// The errors of one annotation, whose offsets are elements, both inclusive. The elements behind the text are
/// tags.
fn errors(spans: &[Value], field: &str, elements: &[usize], text: &str) -> Result<Vec<ErrorSpan>, String> {
    let n = elements.len() - 1;
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::with_capacity(spans.len());
    for (idx, span) in spans.iter().enumerate() {
        let field = format!("{field}[{idx}]");
        let severity: Severity = span["severity"].as_str().unwrap_or_default().parse().map_err(|_| {
            format!("`{field}.severity` is {} but must be a severity, such as \"minor\"", span["severity"])
        })?;
        let category = span["category"].as_str().unwrap_or_default();
        let offset = |name: &str| match &span[name] {
            Value::String(tag) if tag == MISSING => Ok(n),
            value => match numbers::whole(value) {
                Some(offset) => Ok(offset),
                None => Err(format!("`{field}.{name}` is {value} but must be a whole number from 0")),
            },
        };
        let (start, last) = (offset("start_i")?, offset("end_i")?);
        if let Some(tag) = start.checked_sub(n) {
            let tag = TAGS.get(tag).ok_or_else(|| {
                format!(
                    "`{field}.start_i` is {start}, but the translation has {n} characters and {} tags",
                    TAGS.len()
                )
            })?;
            found.push(ErrorSpan::new(tag, "", severity));
            continue;
        }
        if last < start {
            return Err(format!("`{field}.end_i` is {last}, but the span begins at {start}"));
        }
        // A selection may reach over the tags.
        let last = last.min(n - 1);
        let (begin, end) = (elements[start], elements[last] + 1);
        let inside: String = chars[begin..end].iter().collect();
        let mut error = ErrorSpan::new(category, inside, severity);
        (error.side, error.start, error.end) = (Side::Target, Some(begin), Some(end));
        found.push(error);
    }
    Ok(found)
}
