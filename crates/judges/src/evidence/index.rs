//! The index over the user's documents: built, opened, searched.

use std::{cmp::Reverse, collections::BTreeSet, fs, path::Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tantivy::{
    DocId, IndexReader, IndexWriter, ReloadPolicy, Score, SegmentReader, TantivyDocument, Term,
    collector::TopDocs,
    doc,
    indexer::NoMergePolicy,
    query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery},
    schema::{FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value as _},
};

use tribunal_core::{digest::hex, files, panics::caught};

use super::{Error, Hit, Passage, Result, read};

pub mod words;

use words::{WORDS, Words};

/// The format of an index folder; one in another format must be rebuilt.
const FORMAT: u32 = 1;

/// The file that makes a folder an index. It is written last, so that an interrupted build does not count as
/// one.
const MANIFEST: &str = "evidence.json";

/// The file that marks a folder as one that a build is filling.
const BEGUN: &str = ".building";

/// Memory that the writer fills before it writes a part of the index.
const WRITER_BYTES: usize = 128 << 20;

/// The most passages that one search finds.
const MAX_HITS: usize = 10_000;

/// The weight of a word in the title relative to one in the text.
const TITLE_BOOST: f32 = 2.0;

/// The manifest of an index folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    pub passages: u64,
    /// Hash of the format and of all passages in order.
    pub sha256: String,
    /// The input that it was built from.
    pub built_from: String,
}

/// An index that can be searched.
pub struct Index {
    manifest: Manifest,
    reader: IndexReader,
    fields: Fields,
}

/// The columns of an index.
#[derive(Clone, Copy)]
struct Fields {
    title: Field,
    text: Field,
    origin: Field,
    /// The passage's position in the input, from 0; it settles ties.
    ordinal: Field,
}

/// Builds an index of a file or of all files below a folder.
///
/// # Errors
/// [`Error::NotEmpty`] if `out` is not empty, [`Error::NoText`] if the input has no passages, and any error
/// of [`read::passages`].
///
/// # Panics
/// Never: everything in the manifest can be serialized.
pub fn build(input: &Path, out: &Path) -> Result<(Manifest, read::Skipped)> {
    let io = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    };
    fs::create_dir_all(out).map_err(io("create", out))?;
    // An interrupted build left these files.
    if out.join(BEGUN).is_file() && !out.join(MANIFEST).exists() {
        clear(out)?;
    }
    if fs::read_dir(out).map_err(io("read", out))?.next().is_some() {
        return Err(Error::NotEmpty(out.into()));
    }
    put(&out.join(BEGUN), &[])?;
    let built = write(input, out);
    if built.is_err() {
        // The folder was empty before; the first error is the one that is returned.
        let _ = clear(out);
    }
    built
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let put = files::replace(path, |file| file.write_all(bytes));
    put.map_err(|files::Error { action, path, source }| Error::Io { action, path, source })
}

/// Empties a folder that a build has filled.
fn clear(out: &Path) -> Result<()> {
    let io = |source| Error::Io { action: "remove", path: out.into(), source };
    for entry in fs::read_dir(out).map_err(io)? {
        fs::remove_file(entry.map_err(io)?.path()).map_err(io)?;
    }
    Ok(())
}

/// Fills an empty folder.
fn write(input: &Path, out: &Path) -> Result<(Manifest, read::Skipped)> {
    let io = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    };
    let (schema, fields) = schema();
    let index = tantivy::Index::create_in_dir(out, schema)?;
    index.tokenizers().register(WORDS, Words::new());
    // One thread and no merging: the same input gives the same parts in the same order.
    let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    let mut sha = Sha256::new();
    sha.update(FORMAT.to_le_bytes());
    let mut ordinal = 0u64;
    let skipped = read::passages(input, &mut |passage| {
        for part in [&passage.title, &passage.text, &passage.origin] {
            sha.update((part.len() as u64).to_le_bytes());
            sha.update(part);
        }
        writer.add_document(doc!(
            fields.title => passage.title,
            fields.text => passage.text,
            fields.origin => passage.origin,
            fields.ordinal => ordinal,
        ))?;
        ordinal += 1;
        Ok(())
    })?;
    if ordinal == 0 {
        return Err(Error::NoText(input.into()));
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    let manifest = Manifest {
        format: FORMAT,
        passages: ordinal,
        sha256: hex(&sha.finalize()),
        built_from: input.display().to_string(),
    };
    let json = serde_json::to_vec_pretty(&manifest).expect("strings and numbers only");
    let path = out.join(MANIFEST);
    put(&path, &json)?;
    fs::remove_file(out.join(BEGUN)).map_err(io("remove", out))?;
    Ok((manifest, skipped))
}

impl Index {
    /// Opens an index folder.
    ///
    /// # Errors
    /// [`Error::NoIndex`] if the folder has none that this version reads.
    pub fn open(dir: &Path) -> Result<Self> {
        let no_index = |reason: String| Error::NoIndex { dir: dir.into(), reason };
        let text = fs::read_to_string(dir.join(MANIFEST))
            .map_err(|e| no_index(format!("`{MANIFEST}`: {}", files::describe(&e))))?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|e| no_index(e.to_string()))?;
        if manifest.format != FORMAT {
            return Err(no_index(format!(
                "it has format {}, but this version reads {FORMAT}",
                manifest.format
            )));
        }
        caught(|| Self::opened(dir, manifest))
            .unwrap_or_else(|| Err(no_index("its files are damaged".into())))
    }

    fn opened(dir: &Path, manifest: Manifest) -> Result<Self> {
        let index = tantivy::Index::open_in_dir(dir)?;
        index.tokenizers().register(WORDS, Words::new());
        let field = |name: &str| index.schema().get_field(name);
        let fields = Fields {
            title: field("title")?,
            text: field("text")?,
            origin: field("origin")?,
            ordinal: field("ordinal")?,
        };
        // The folder does not change, so nothing needs to watch it.
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { manifest, reader, fields })
    }

    /// The manifest of the folder.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The first eight digits of the hash of all passages, as in signatures.
    pub fn fingerprint(&self) -> &str {
        &self.manifest.sha256[..8]
    }

    /// The best passages for a few words, at most `limit`; equally good ones in the order of the input. A
    /// passage need not contain every word.
    ///
    /// # Errors
    /// [`Error::Tantivy`] if the folder's files are damaged.
    pub fn search(&self, text: &str, limit: usize) -> Result<Vec<Hit>> {
        let clauses = self.clauses(text);
        if clauses.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        // At most as many as there are passages, since memory is allocated for each.
        let n_passages = usize::try_from(self.manifest.passages).unwrap_or(usize::MAX).min(MAX_HITS);
        let limit = limit.min(n_passages.max(1));
        caught(|| self.found(clauses, limit)).unwrap_or_else(|| {
            let reason = "its files are damaged".into();
            Err(Error::NoIndex { dir: self.manifest.built_from.clone().into(), reason })
        })
    }

    fn found(&self, clauses: Vec<(Occur, Box<dyn Query>)>, limit: usize) -> Result<Vec<Hit>> {
        let searcher = self.reader.searcher();
        let ranked = TopDocs::with_limit(limit).tweak_score(|segment: &SegmentReader| {
            let ordinals = segment.fast_fields().u64("ordinal").map(|column| column.first_or_default_col(0));
            move |doc: DocId, score: Score| {
                let ordinal = ordinals.as_ref().map_or(u64::MAX, |column| column.get_val(doc));
                (score, Reverse(ordinal))
            }
        });
        let found = searcher.search(&BooleanQuery::new(clauses), &ranked)?;
        let hits = found.into_iter().map(|((score, _), address)| {
            let document: TantivyDocument = searcher.doc(address)?;
            let text =
                |field| document.get_first(field).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
            let passage = Passage {
                title: text(self.fields.title),
                text: text(self.fields.text),
                origin: text(self.fields.origin),
            };
            Ok(Hit { passage, score })
        });
        hits.collect()
    }

    /// A clause for each distinct word in the title, and one in the text.
    fn clauses(&self, text: &str) -> Vec<(Occur, Box<dyn Query>)> {
        let words: BTreeSet<String> = words::split(text).into_iter().map(|token| token.text).collect();
        let clause = |field, word: &str| -> Box<dyn Query> {
            Box::new(TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::WithFreqs))
        };
        let both = |word: &String| {
            let title = Box::new(BoostQuery::new(clause(self.fields.title, word), TITLE_BOOST));
            [(Occur::Should, title as Box<dyn Query>), (Occur::Should, clause(self.fields.text, word))]
        };
        words.iter().flat_map(both).collect()
    }
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let indexing =
        TextFieldIndexing::default().set_tokenizer(WORDS).set_index_option(IndexRecordOption::WithFreqs);
    let words = TextOptions::default().set_indexing_options(indexing).set_stored();
    let fields = Fields {
        title: schema.add_text_field("title", words.clone()),
        text: schema.add_text_field("text", words),
        origin: schema.add_text_field("origin", STORED),
        ordinal: schema.add_u64_field("ordinal", FAST),
    };
    (schema.build(), fields)
}

#[cfg(test)]
mod tests;
