//! WMT's general task since 2025: documents with their sources in `wmtYY-genmt.jsonl`, and in `systems/` a
//! JSONL file for each system with its translations, joined by `doc_id`. Segments are paragraphs, as in the
//! task's human evaluation. It reads no ratings.
//!
//! Source: `README.md` of wmt-conference/wmt26-general-mt; `humeval/04-collect_humeval.py` of
//! wmt-conference/wmt25-general-mt: a blank line ends a paragraph.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Error, Input, Result, TestSet, layout, pairs, parallel, table};
use crate::segment::{Lang, Segment, wmt};

/// Separator of the paragraphs of a text.
const BLANK_LINE: &str = "\n\n";

/// Suffix of the file with the sources.
const SOURCES: &str = "genmt.jsonl";

/// The files of a test set.
#[derive(Debug, PartialEq, Eq)]
pub struct Files {
    pub sources: PathBuf,
    /// The folder of the systems' files.
    pub systems: PathBuf,
}

/// The files in a folder or in its `data`, as the repositories have them; `None` for a folder of another
/// kind.
pub fn files(dir: &Path) -> Option<Files> {
    [dir.to_owned(), dir.join("data")].into_iter().find_map(|dir| {
        let systems = dir.join("systems");
        let name = layout::names(&dir).ok()?.into_iter().find(|name| name.ends_with(SOURCES))?;
        systems.is_dir().then(|| Files { sources: dir.join(name), systems })
    })
}

/// The chosen systems' translations of one language pair.
///
/// # Errors
/// A pair, a system or a reference that does not exist; a system that lacks documents of the pair; fields
/// that are missing or of another kind.
pub fn testset(choice: &TestSet, files: &Files) -> Result<Input> {
    let sources = Sources::read(files, choice)?;
    let names = layout::names(&files.systems)?;
    let all: Vec<String> =
        names.iter().filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned())).collect();
    let systems = choice.systems.clone().unwrap_or_else(|| all.clone());
    if let Some(system) = systems.iter().find(|system| !all.contains(system)) {
        let names = all.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        return Err(Error::System { system: system.clone(), dir: files.systems.clone(), listed: names });
    }
    let (mut segments, mut notes) = (Vec::new(), Vec::new());
    for system in systems {
        let path = files.systems.join(format!("{system}.jsonl"));
        let translations = translations(&path, files, &sources)?;
        if translations.is_empty() && choice.systems.is_none() {
            continue;
        }
        sources.lacking(&path, files, &translations)?;
        sources.segments(&system, &path, &translations, &mut segments, &mut notes);
    }
    Input::new(segments, notes, &files.sources)
}

/// A document of the pair.
struct Document {
    id: String,
    line: usize,
    /// The system's name in segments.
    name: String,
    pair: (Lang, Lang),
    /// Its paragraphs, none of them empty.
    source: Vec<String>,
    /// Its paragraphs; `None` where it has no such reference, or one of other paragraphs.
    reference: Option<Vec<String>>,
}

/// The documents of the pair, and the ids of all pairs.
struct Sources {
    documents: Vec<Document>,
    known: BTreeSet<String>,
}

impl Sources {
    fn read(files: &Files, choice: &TestSet) -> Result<Self> {
        let path = files.sources.as_path();
        let languages = (&choice.pair.1, &choice.pair.2);
        let (mut documents, mut known, mut others) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let mut references = BTreeSet::new();
        table::jsonl(path, &mut |row| {
            let row = table::In { path, row: &row };
            let id = row.required(&["doc_id"])?;
            let Some(wmt::Id { pair: Some(pair), doc, .. }) = wmt::Id::of_document(&id) else {
                return Err(row.wrong("doc_id".into(), &Value::String(id), DOC_ID));
            };
            known.insert(id.clone());
            if !pairs::is_meant(&pair, languages) {
                *others.entry(format!("{}-{}", pair.0, pair.1)).or_insert(0_usize) += 1;
                return Ok(());
            }
            let source = paragraphs(&row.required(&["src_text"])?);
            if source.iter().any(|paragraph| paragraph.trim().is_empty()) {
                return Err(Error::EmptySource {
                    path: path.into(),
                    line: row.row.line,
                    more: String::new(),
                });
            }
            let reference = reference(&row, choice, &mut references, source.len())?;
            documents.push(Document { id, line: row.row.line, name: doc, pair, source, reference });
            Ok(())
        })?;
        if documents.is_empty() {
            let names = others.iter().map(|(pair, n)| format!("{pair} {n}")).collect::<Vec<_>>().join(", ");
            let pair = format!("{}-{}", languages.0, languages.1);
            return Err(Error::OtherPairs { path: path.into(), pair, listed: names });
        }
        if let Some(name) = choice.reference.as_ref().filter(|name| !references.contains(*name)) {
            let names = references.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "none".to_owned() } else { names };
            let (name, pair) = (name.clone(), choice.pair.0.clone());
            return Err(Error::Reference { name, pair, dir: path.into(), listed: names });
        }
        Ok(Self { documents, known })
    }

    /// Rejects a system that has no line for a document.
    fn lacking(&self, path: &Path, files: &Files, translations: &HashMap<String, String>) -> Result<()> {
        let lacking: Vec<_> =
            self.documents.iter().filter(|doc| !translations.contains_key(&doc.id)).collect();
        let Some(first) = lacking.first() else { return Ok(()) };
        Err(Error::LacksDocuments {
            path: path.into(),
            n: lacking.len(),
            of: self.documents.len(),
            id: first.id.clone(),
            sources: files.sources.clone(),
            line: first.line,
        })
    }

    /// The segments of a system. Documents whose paragraphs are not those of the source are left out.
    fn segments(
        &self,
        system: &str,
        path: &Path,
        translations: &HashMap<String, String>,
        segments: &mut Vec<Segment>,
        notes: &mut Vec<String>,
    ) {
        let (mut uneven, mut empty) = (Vec::new(), Vec::new());
        for document in &self.documents {
            let Some(text) = translations.get(&document.id) else { continue };
            let hypotheses = paragraphs(text);
            if hypotheses.len() != document.source.len() {
                uneven.push((document, hypotheses.len()));
                continue;
            }
            for (seg, (source, hypothesis)) in document.source.iter().zip(hypotheses).enumerate() {
                if hypothesis.trim().is_empty() {
                    empty.push(document.line - 1);
                }
                segments.push(Segment {
                    system: system.to_owned(),
                    doc: document.name.clone(),
                    seg,
                    src_lang: document.pair.0.clone(),
                    tgt_lang: document.pair.1.clone(),
                    source: source.clone(),
                    hypothesis,
                    reference: document.reference.as_ref().map(|paragraphs| paragraphs[seg].clone()),
                    domain: wmt::domain(&document.name).map(str::to_owned),
                    reference_kind: None,
                });
            }
        }
        let path = path.display();
        if let Some((document, found)) = uneven.first() {
            notes.push(format!(
                "`{path}`: {} of {} documents are left out, since blank lines divide them into other paragraphs than \
                 their sources; the first is `{}`, {found} and {}",
                uneven.len(),
                self.documents.len(),
                document.id,
                document.source.len()
            ));
        }
        if !empty.is_empty() {
            let lines = parallel::line_list(&empty);
            notes.push(format!(
                "`{path}` has an empty translation of a paragraph of the documents on {lines} of the sources"
            ));
        }
    }
}

/// The form of a document's id, for messages.
const DOC_ID: &str = "an id `SET_###_DOMAIN_###_SRC_###_TGT_###_DOCUMENT` or `SRC-TGT_#_DOMAIN_#_DOCUMENT`";

/// The paragraphs of the chosen reference: `{NAME: TEXT}`, or `{NAME: {"ref": TEXT}}`.
fn reference(
    row: &table::In<'_>,
    choice: &TestSet,
    names: &mut BTreeSet<String>,
    n: usize,
) -> Result<Option<Vec<String>>> {
    let Some(Value::Object(references)) = row.row.fields.get("refs") else { return Ok(None) };
    names.extend(references.keys().cloned());
    let Some(name) = &choice.reference else { return Ok(None) };
    let text = match references.get(name).map(|value| value.get("ref").unwrap_or(value)) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(other) => return Err(row.wrong(format!("refs.{name}"), other, "a string")),
    };
    Ok(Some(paragraphs(text)).filter(|paragraphs| paragraphs.len() == n))
}

/// A system's translations by document; those of other pairs are left out.
fn translations(path: &Path, files: &Files, sources: &Sources) -> Result<HashMap<String, String>> {
    let documents: BTreeSet<&str> = sources.documents.iter().map(|document| document.id.as_str()).collect();
    let (mut found, mut first, mut is_any_known) = (HashMap::new(), None, false);
    table::jsonl(path, &mut |row| {
        let row = table::In { path, row: &row };
        let id = row.required(&["doc_id"])?;
        first.get_or_insert_with(|| (row.row.line, id.clone()));
        is_any_known |= sources.known.contains(&id);
        if !documents.contains(id.as_str()) {
            return Ok(());
        }
        let text = row.required(&["hypothesis"])?;
        match found.insert(id.clone(), text) {
            None => Ok(()),
            Some(_) => Err(Error::Document { path: path.into(), line: row.row.line, id }),
        }
    })?;
    match first.filter(|_| !is_any_known) {
        None => Ok(found),
        Some((line, id)) => {
            Err(Error::OtherTestSet { path: path.into(), line, id, sources: files.sources.clone() })
        }
    }
}

/// The paragraphs of a text, without white space around it.
fn paragraphs(text: &str) -> Vec<String> {
    text.trim().split(BLANK_LINE).map(|paragraph| paragraph.trim_end().to_owned()).collect()
}
