//! A campaign for Pearmut in which annotators start from the judge's error spans (ESA-AI). Its spans are of
//! the translation only. Offsets count the elements of its page: one for each UTF-16 unit but line feeds;
//! both ends are inclusive.
//!
//! Source: zouharvi/pearmut, `README.md`, "Pre-filled Error Spans"; `web/src/utils.ts`, `contentToCharSpans`
//! and `isMediaContent`; `server/cli.py`, `_validate_item_structure` and `_validate_document_models`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::{Error, Export, Job, counted, names::Names};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::Record,
};

/// The segments of a document.
type Items = Vec<Value>;

/// The first and the last of the elements that an error covers; `None` for one of the source, without a
/// place, or of line feeds alone.
type Place = Option<(usize, usize)>;

/// Beginnings of texts that the page treats as media; no span is shown on them.
const MEDIA: [&str; 4] = ["<audio ", "<video ", "<img ", "<iframe "];

/// One task: the documents in the run's order, in each its segments with the translations of all systems.
pub fn export(job: &Job<'_>) -> Result<Export, Error> {
    let mut systems = Names::new("system", named);
    let mut documents: Vec<Items> = Vec::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut versions: HashMap<(usize, Option<usize>, &str), Vec<usize>> = HashMap::new();
    let mut losses = Losses::default();
    for record in job.records {
        let system = systems.written(&record.system)?;
        let n = documents.len();
        let at = *numbers.entry(document(record)).or_insert(n);
        if at == n {
            documents.push(Items::new());
        }
        let items = &mut documents[at];
        // A second version of a translation has an item of its own.
        let versions = versions.entry((at, record.seg, &record.source)).or_default();
        let place = versions.iter().copied().find(|place| items[*place]["tgt"].get(&system).is_none());
        let place = place.unwrap_or_else(|| {
            items.push(item(record));
            versions.push(items.len() - 1);
            items.len() - 1
        });
        let places = places(record);
        losses.add(record, &places);
        add(&mut items[place], &system, record, &places);
    }
    let uneven = documents.iter().filter(|items| is_uneven(items)).count();
    let mut info = json!({ "assignment": "task-based", "protocol": "ESA" });
    if uneven > 0 {
        info["shuffle"] = json!(false);
    }
    if let Some(signature) = job.origin.signature {
        info["signature"] = json!(signature);
    }
    let campaign = json!({ "info": info, "campaign_id": job.name, "data": [documents] });
    let mut notes = systems.notes("Pearmut refuses names of digits alone");
    if uneven > 0 {
        notes.push(format!(
            "in {} some system has no translation of some segment: Pearmut takes such a campaign only with `\"shuffle\": false`, \
             which is set, so that annotators see the systems in one order",
            counted(uneven, "document")
        ));
    }
    notes.extend(losses.notes());
    Ok(Export::single(format!("{campaign:#}\n").into_bytes(), notes))
}

/// A name that has more than digits.
fn named(system: &str) -> String {
    let is_digits = !system.is_empty() && system.chars().all(char::is_numeric);
    if is_digits { format!("system-{system}") } else { system.to_owned() }
}

/// Returns true if the items of a document have translations of different systems.
fn is_uneven(items: &Items) -> bool {
    let systems = |item: &Value| -> BTreeSet<String> {
        item["tgt"].as_object().map_or_else(BTreeSet::new, |systems| systems.keys().cloned().collect())
    };
    items.windows(2).any(|pair| systems(&pair[0]) != systems(&pair[1]))
}

/// The key by which segments are grouped: pair and document, or the segment if there are no documents.
fn document(record: &Record) -> String {
    let name = if record.doc.is_empty() { format!("{:?}", record.seg) } else { record.doc.clone() };
    format!("{} {name}", record.pair())
}

fn item(record: &Record) -> Value {
    let seg = record.seg.map_or_else(String::new, |seg| format!(" {seg}"));
    json!({
        "instructions": format!(
            "Evaluate the translation from {} to {}.", record.src_lang.name(), record.tgt_lang.name()
        ),
        "item_id": format!("{}{seg}", record.doc).trim(),
        "src": record.source,
        "tgt": Map::new(),
        "error_spans": Map::new(),
    })
}

fn add(item: &mut Value, system: &str, record: &Record, places: &[Place]) {
    item["tgt"][system] = json!(record.hypothesis);
    item["error_spans"][system] =
        record.errors.iter().zip(places).filter_map(|(error, place)| Some(span(error, (*place)?))).collect();
}

fn span(error: &ErrorSpan, (start, end): (usize, usize)) -> Value {
    let severity = if error.severity == Severity::Critical { Severity::Major } else { error.severity };
    json!({ "start_i": start, "end_i": end, "severity": severity, "category": error.category })
}

/// The place of each error of a record.
fn places(record: &Record) -> Vec<Place> {
    if record.errors.is_empty() {
        return Vec::new();
    }
    // The number of elements before each character, and of all.
    let mut elements = vec![0];
    for c in record.hypothesis.chars() {
        elements.push(elements[elements.len() - 1] + if c == '\n' { 0 } else { c.len_utf16() });
    }
    let place = |error: &ErrorSpan| {
        let (start, end) = error.start.zip(error.end).filter(|_| error.side == Side::Target)?;
        let (start, end) = (*elements.get(start)?, *elements.get(end)?);
        (start < end).then(|| (start, end - 1))
    };
    record.errors.iter().map(place).collect()
}

/// Losses in the format.
#[derive(Default)]
struct Losses {
    left_out: usize,
    critical: usize,
    overlapping: usize,
    media: usize,
}

impl Losses {
    fn add(&mut self, record: &Record, places: &[Place]) {
        for (error, place) in record.errors.iter().zip(places) {
            self.left_out += usize::from(place.is_none());
            self.critical += usize::from(place.is_some() && error.severity == Severity::Critical);
        }
        self.overlapping += usize::from(overlap(places));
        self.media += usize::from(MEDIA.iter().any(|tag| record.hypothesis.starts_with(tag)));
    }

    fn notes(&self) -> Vec<String> {
        let counts = [
            (self.left_out, "error", "left out: {}, of the source or without a place in the translation"),
            (self.critical, "critical error", "written as major, the worst that Pearmut knows: {}"),
            (
                self.overlapping,
                "translation",
                "errors overlap in {}: where they do, Pearmut shows the last one",
            ),
            (
                self.media,
                "translation",
                "Pearmut takes {} for a picture or a sound, by its first tag, and shows no errors on it",
            ),
        ];
        let counted_notes = counts.into_iter().filter(|(n, ..)| *n > 0);
        counted_notes.map(|(n, noun, text)| text.replace("{}", &counted(n, noun))).collect()
    }
}

fn overlap(places: &[Place]) -> bool {
    let mut places: Vec<_> = places.iter().flatten().collect();
    places.sort_unstable();
    places.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}
