//! A corpus of segments. Only their ids and lengths are in memory; unless they are few, their texts are in a
//! temporary file and are read back one by one. It does not parse input files.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use super::{Lang, Segment};

/// Bytes of texts that stay in memory; beyond these all of them go to a file.
const IN_MEMORY: usize = 16 << 20;

/// The identity of a segment, without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    pub system: &'a str,
    pub doc: &'a str,
    pub seg: usize,
    pub src_lang: &'a Lang,
    pub tgt_lang: &'a Lang,
    /// Bytes of source and hypothesis together.
    pub n_bytes: usize,
}

/// A sequence of segments, in memory or not.
pub trait Segments: Sync {
    fn n_segments(&self) -> usize;

    /// # Panics
    /// Past the end.
    fn outline(&self, idx: usize) -> Outline<'_>;

    /// The segment with its texts.
    ///
    /// # Errors
    /// When the temporary file cannot be read.
    ///
    /// # Panics
    /// Past the end.
    fn segment(&self, idx: usize) -> io::Result<Segment>;

    /// Equal for segments of equal sources, and for no others.
    ///
    /// # Panics
    /// Past the end.
    fn source_id(&self, idx: usize) -> u128;

    /// The segment as a line of JSON with its end.
    ///
    /// # Errors
    /// The errors of [`Segments::segment`].
    ///
    /// # Panics
    /// Past the end.
    fn line(&self, idx: usize) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&self.segment(idx)?)?;
        line.push(b'\n');
        Ok(line)
    }
}

impl<T: AsRef<[Segment]> + Sync + ?Sized> Segments for T {
    fn n_segments(&self) -> usize {
        self.as_ref().len()
    }

    fn outline(&self, idx: usize) -> Outline<'_> {
        self.as_ref()[idx].outline()
    }

    fn segment(&self, idx: usize) -> io::Result<Segment> {
        Ok(self.as_ref()[idx].clone())
    }

    fn source_id(&self, idx: usize) -> u128 {
        source_id(&self.as_ref()[idx].source)
    }
}

fn source_id(source: &str) -> u128 {
    let digest = Sha256::digest(source);
    digest[..16].iter().fold(0, |id, &byte| id << 8 | u128::from(byte))
}

/// Segments with their texts in a file: about 60 bytes of memory each, and the names of systems and
/// documents.
#[derive(Debug, Default)]
pub struct Corpus {
    names: Names,
    pairs: Vec<(Lang, Lang)>,
    rows: Vec<Row>,
    texts: Texts,
    n_references: usize,
}

/// The part of a segment that is kept in memory.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Offset of its line among the texts.
    offset: u64,
    length: u32,
    n_bytes: u32,
    source_id: u128,
    seg: usize,
    system: u32,
    doc: u32,
    pair: u32,
}

/// One JSON object a line.
#[derive(Debug)]
enum Texts {
    Here(Vec<u8>),
    There { file: Arc<File>, pending: Vec<u8>, written: u64 },
}

impl Default for Texts {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

/// Bytes that are collected before they are written.
const BLOCK: usize = 1 << 20;

impl Corpus {
    /// These segments, in their order.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn from_segments(segments: impl IntoIterator<Item = Segment>) -> io::Result<Self> {
        let mut corpus = Self::default();
        for segment in segments {
            corpus.push(&segment)?;
        }
        corpus.complete()?;
        Ok(corpus)
    }

    /// Adds a segment at the end.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn push(&mut self, segment: &Segment) -> io::Result<()> {
        let mut line = serde_json::to_vec(segment)?;
        line.push(b'\n');
        let length =
            u32::try_from(line.len()).map_err(|_| io::Error::other("a segment of more than 4 GiB"))?;
        let pair = (segment.src_lang.clone(), segment.tgt_lang.clone());
        let known = self.pairs.iter().position(|known| *known == pair);
        let row = Row {
            offset: self.texts.end(),
            length,
            n_bytes: (segment.source.len() + segment.hypothesis.len()).try_into().unwrap_or(u32::MAX),
            source_id: source_id(&segment.source),
            seg: segment.seg,
            system: self.names.enter(&segment.system),
            doc: self.names.enter(&segment.doc),
            pair: known.unwrap_or(self.pairs.len()) as u32,
        };
        if known.is_none() {
            self.pairs.push(pair);
        }
        self.n_references += usize::from(segment.reference.is_some());
        self.rows.push(row);
        self.texts.write(&line)
    }

    /// Puts the systems one after the other, in the order of their first segments, and writes what is still
    /// buffered.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn complete(&mut self) -> io::Result<()> {
        let mut rank: HashMap<u32, usize> = HashMap::new();
        for row in &self.rows {
            let next = rank.len();
            rank.entry(row.system).or_insert(next);
        }
        self.rows.sort_by_key(|row| rank[&row.system]); // stable: a system's own order stays
        self.rows.shrink_to_fit();
        self.texts.flush()
    }

    /// Returns true if every segment has a reference.
    pub fn has_references(&self) -> bool {
        self.n_references == self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All segments, so many at a time.
    pub fn chunks(&self, n: usize) -> impl Iterator<Item = io::Result<Vec<Segment>>> {
        let starts = (0..self.rows.len()).step_by(n.max(1));
        starts.map(move |from| (from..(from + n).min(self.rows.len())).map(|idx| self.segment(idx)).collect())
    }

    /// All segments at once, with their texts in memory.
    ///
    /// # Errors
    /// When the temporary file cannot be read.
    pub fn to_vec(&self) -> io::Result<Vec<Segment>> {
        (0..self.rows.len()).map(|idx| self.segment(idx)).collect()
    }
}

impl Segments for Corpus {
    fn n_segments(&self) -> usize {
        self.rows.len()
    }

    fn outline(&self, idx: usize) -> Outline<'_> {
        let row = &self.rows[idx];
        let (src_lang, tgt_lang) = &self.pairs[row.pair as usize];
        Outline {
            system: self.names.name(row.system),
            doc: self.names.name(row.doc),
            seg: row.seg,
            src_lang,
            tgt_lang,
            n_bytes: row.n_bytes as usize,
        }
    }

    fn segment(&self, idx: usize) -> io::Result<Segment> {
        Ok(serde_json::from_slice(&self.line(idx)?)?)
    }

    fn line(&self, idx: usize) -> io::Result<Vec<u8>> {
        let Row { offset, length, .. } = self.rows[idx];
        self.texts.read(offset, length as usize)
    }

    fn source_id(&self, idx: usize) -> u128 {
        self.rows[idx].source_id
    }
}

impl Texts {
    fn end(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::There { pending, written, .. } => written + pending.len() as u64,
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Here(bytes) => {
                bytes.extend_from_slice(line);
                if bytes.len() > IN_MEMORY {
                    let file = Arc::new(tempfile::tempfile()?);
                    *self = Self::There { file, pending: std::mem::take(bytes), written: 0 };
                    self.flush()?;
                }
                Ok(())
            }
            Self::There { pending, .. } => {
                pending.extend_from_slice(line);
                if pending.len() >= BLOCK { self.flush() } else { Ok(()) }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Self::There { file, pending, written } = self {
            let mut file: &File = file;
            file.seek(SeekFrom::Start(*written))?;
            file.write_all(pending)?;
            *written += pending.len() as u64;
            // Not `clear`: the first block was as large as what had been in memory.
            *pending = Vec::new();
        }
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(bytes) => Ok(bytes[offset as usize..][..length].to_vec()),
            Self::There { file, .. } => read_at(file, offset, length),
        }
    }
}

/// Reads a part of a file, from any thread.
///
/// # Errors
/// A file that cannot be read or ends before.
#[cfg(unix)]
pub fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;

    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Reads a part of a file, from any thread.
///
/// # Errors
/// A file that cannot be read or ends before.
#[cfg(windows)]
pub fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    use std::os::windows::fs::FileExt as _;

    let mut bytes = vec![0; length];
    let mut n = 0;
    while n < length {
        match file.seek_read(&mut bytes[n..], offset + n as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => n += more,
        }
    }
    Ok(bytes)
}

/// Names by number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Names {
    /// The number of a name, a new one for a new name.
    pub fn enter(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let (name, number): (Arc<str>, u32) = (name.into(), self.names.len() as u32);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// The number of a name that was entered.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// # Panics
    /// For a number that no name has.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(system: &str, seg: usize, source: String) -> Segment {
        let lang = |code| Lang::parse(code).unwrap();
        Segment {
            system: system.into(),
            doc: format!("d{}", seg / 3),
            seg,
            src_lang: lang("en"),
            tgt_lang: lang(if seg.is_multiple_of(2) { "de" } else { "sr_Cyrl_RS" }),
            source,
            hypothesis: "\"x\"\n\u{1f600}".into(),
            reference: (seg > 0).then(|| "r".into()),
            domain: None,
            reference_kind: None,
        }
    }

    /// Checks that the same segments come back, system by system, from memory and from a file.
    #[track_caller]
    fn check(given: &[Segment]) -> Corpus {
        let corpus = Corpus::from_segments(given.iter().cloned()).unwrap();
        let mut sorted = given.to_vec();
        let first = |system: &str| given.iter().position(|s| s.system == system);
        sorted.sort_by_key(|segment| first(&segment.system));
        assert_eq!(corpus.to_vec().unwrap(), sorted);
        let chunks: Vec<Segment> = corpus.chunks(7).flat_map(Result::unwrap).collect();
        assert_eq!(chunks, sorted);
        for (idx, segment) in sorted.iter().enumerate() {
            assert_eq!(corpus.outline(idx), segment.outline());
            assert_eq!(corpus.source_id(idx), sorted.source_id(idx));
        }
        corpus
    }

    #[test]
    fn few_segments_stay_in_memory_and_many_go_to_a_file() {
        let few: Vec<Segment> = (0..20).map(|i| segment(["b", "a"][i % 2], i, format!("s{i}"))).collect();
        let corpus = check(&few);
        assert!(matches!(corpus.texts, Texts::Here(_)) && !corpus.has_references());
        let long = "x".repeat(IN_MEMORY / 16);
        let many: Vec<Segment> =
            (1..40).map(|i| segment(["b", "a"][i % 2], i, format!("{i}{long}"))).collect();
        let corpus = check(&many);
        assert!(matches!(&corpus.texts, Texts::There { pending, .. } if pending.is_empty()));
        assert!(corpus.has_references());
    }
}
