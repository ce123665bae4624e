//! The frozen lower layers: run once, on the engine's own kernels, and what they give for every token kept on disk in
//! bf16. What prompts have in common is computed and kept once. It trains nothing.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};

use super::{Error, forward::Batch, io};
use crate::{
    files,
    model::{BLOCK, KvType, Model, Part, Step},
};

/// Tokens of one step.
const CHUNK: usize = 512;

/// What the layers read of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    pub tokens: &'a [u32],
    /// Rows from this one on are wanted of the upper layers.
    pub wanted_from: usize,
}

/// Rows of a text that lie side by side in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first_row: usize,
    n: usize,
}

/// Where the rows of all texts lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Each text's runs.
    runs: Vec<Vec<Run>>,
    /// Texts in the order in which they are computed, each with the tokens that it shares with the one before.
    order: Vec<(usize, usize)>,
    pub n_rows: usize,
}

impl Places {
    /// Sorts texts so that those that begin alike stand side by side.
    #[must_use]
    pub fn new(texts: &[Text<'_>]) -> Self {
        let mut sorted: Vec<usize> = (0..texts.len()).collect();
        sorted.sort_by(|&a, &b| texts[a].tokens.cmp(texts[b].tokens));
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); texts.len()];
        let (mut order, mut n_rows) = (Vec::new(), 0);
        let mut before: Option<usize> = None;
        for idx in sorted {
            let read = texts[idx].tokens;
            let shared = before.map_or(0, |before| common(texts[before].tokens, read));
            runs[idx] = before.map(|before| cut(&runs[before], shared)).unwrap_or_default();
            if read.len() > shared {
                runs[idx].push(Run { first_row: n_rows, n: read.len() - shared });
            }
            n_rows += read.len() - shared;
            order.push((idx, shared));
            before = Some(idx);
        }
        Self { runs, order, n_rows }
    }
}

/// Tokens that two texts begin with alike.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first `n` rows of runs.
fn cut(runs: &[Run], mut n: usize) -> Vec<Run> {
    let mut kept = Vec::new();
    for run in runs {
        let part = run.n.min(n);
        if part == 0 {
            break;
        }
        kept.push(Run { n: part, ..*run });
        n -= part;
    }
    kept
}

/// What the lower layers give for all texts.
pub struct Lower {
    file: File,
    path: PathBuf,
    hidden: usize,
    places: Places,
}

impl Lower {
    /// Opens the file, or makes it with the model; one that was left half done is finished. `name` must tell whatever
    /// the rows depend on. `progress` hears how many rows of all are done;
    /// of the model's layers so many are run, and a row has `hidden` numbers.
    ///
    /// # Errors
    /// A file that cannot be written, a model that fails.
    pub fn open(
        folder: &Path,
        name: &str,
        texts: &[Text<'_>],
        (layers, hidden): (usize, usize),
        model: impl FnOnce() -> Result<Box<dyn Model>, Error>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, Error> {
        let places = Places::new(texts);
        let path = folder.join(format!("states-{name}.bf16"));
        let part = folder.join(format!("states-{name}.part"));
        if !path.exists() {
            let file = files::update(&part).map_err(|error| io(&part)(error.source))?;
            let mut making = Making { model: model()?, file, path: &part, places: &places, layers, hidden };
            making.rest(texts, progress)?;
            std::fs::rename(&part, &path).map_err(io(&path))?;
        }
        let file = File::open(&path).map_err(io(&path))?;
        let bytes = file.metadata().map_err(io(&path))?.len();
        if bytes != (places.n_rows * hidden * 2) as u64 {
            return Err(Error::Unsuitable(format!(
                "`{}` has {bytes} bytes, but {} rows of {hidden} were expected; hint: delete it, it is made again",
                path.display(),
                places.n_rows
            )));
        }
        Ok(Self { file, path, hidden, places })
    }

    /// The rows of some texts, those that all of them begin with once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn batch(&mut self, texts: &[Text<'_>], idxs: &[usize]) -> Result<(Tensor, Batch), Error> {
        let chosen: Vec<Text<'_>> = idxs.iter().map(|&idx| texts[idx]).collect();
        let n_shared = if let [first, rest @ ..] = &chosen[..] {
            let shared = rest.iter().map(|other| common(first.tokens, other.tokens)).min();
            // Wanted rows are each text's own.
            chosen.iter().map(|text| text.wanted_from).fold(shared.unwrap_or(0), usize::min)
        } else {
            0
        };
        let mut values = Vec::new();
        if let Some(&first) = idxs.first() {
            self.read(first, 0..n_shared, &mut values)?;
        }
        for (&idx, text) in idxs.iter().zip(&chosen) {
            self.read(idx, n_shared..text.tokens.len(), &mut values)?;
        }
        let rows = values.len() / self.hidden;
        let batch = Batch {
            n_shared,
            n_own: chosen.iter().map(|text| text.tokens.len() - n_shared).collect(),
            wanted: chosen.iter().map(|text| (text.wanted_from..text.tokens.len()).collect()).collect(),
        };
        Ok((Tensor::from_vec(values, (rows, self.hidden), &Device::Cpu)?, batch))
    }

    /// Some positions of a text.
    fn read(
        &mut self,
        idx: usize,
        wanted: std::ops::Range<usize>,
        values: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let mut position = 0;
        for run in &self.places.runs[idx] {
            let (from, to) = (wanted.start.max(position), wanted.end.min(position + run.n));
            if from < to {
                let mut bytes = vec![0_u8; (to - from) * self.hidden * 2];
                let row = run.first_row + from - position;
                let at = SeekFrom::Start((row * self.hidden * 2) as u64);
                let read = self.file.seek(at).and_then(|_| self.file.read_exact(&mut bytes));
                read.map_err(io(&self.path))?;
                let value = |pair: &[u8; 2]| half::bf16::from_le_bytes(*pair).to_f32();
                values.extend(bytes.as_chunks::<2>().0.iter().map(value));
            }
            position += run.n;
        }
        Ok(())
    }
}

/// A file that is being made.
struct Making<'a> {
    model: Box<dyn Model>,
    file: File,
    path: &'a Path,
    places: &'a Places,
    layers: usize,
    hidden: usize,
}

impl Making<'_> {
    /// Computes what is not there yet.
    fn rest(&mut self, texts: &[Text<'_>], progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        let longest = texts.iter().map(|text| text.tokens.len()).max().unwrap_or(0);
        let n_blocks = longest.div_ceil(BLOCK);
        self.model.reserve(n_blocks, KvType::Bf16)?;
        let blocks: Vec<u32> = (0..n_blocks as u32).collect();
        let row_bytes = self.hidden * 2;
        let there = self.file.metadata().map_err(io(self.path))?.len() as usize / row_bytes;
        let (mut done, mut is_cached) = (0, false);
        for &(idx, shared) in &self.places.order {
            let read = texts[idx].tokens;
            if done + read.len() - shared <= there && !is_cached {
                done += read.len() - shared;
                continue;
            }
            // After a pause the cache is empty, and the shared tokens are computed again.
            let from = if is_cached { shared } else { 0 };
            is_cached = true;
            let values = self.states(read, from, &blocks)?;
            let new = &values[(shared - from) * self.hidden..];
            let bytes: Vec<u8> = new.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
            let at = SeekFrom::Start((done * row_bytes) as u64);
            let written = self.file.seek(at).and_then(|_| self.file.write_all(&bytes));
            written.map_err(io(self.path))?;
            done += read.len() - shared;
            progress(done, self.places.n_rows);
        }
        self.file.set_len((done * row_bytes) as u64).map_err(io(self.path))?;
        self.file.sync_all().map_err(io(self.path))
    }

    /// The rows of a text from one position on, after those before it, which are cached.
    fn states(&mut self, read: &[u32], from: usize, blocks: &[u32]) -> Result<Vec<f32>, Error> {
        let mut values = Vec::new();
        for (i, tokens) in read[from..].chunks(CHUNK).enumerate() {
            let position = from + i * CHUNK;
            let blocks = &blocks[..(position + tokens.len()).div_ceil(BLOCK)];
            let n = tokens.len();
            let part = Part { tokens, position, blocks, logits_from: n, states_from: n, adapter: None };
            values.extend(self.model.states(Step::new([part], Vec::new()), self.layers)?);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_examples_begin_with_alike_is_kept_once() {
        let texts = [&[1, 2, 3, 4][..], &[1, 2, 3], &[1, 2, 5], &[1, 2, 3, 4, 5]];
        let places = Places::new(&texts.map(|tokens| Text { tokens, wanted_from: 1 }));
        assert_eq!(places.n_rows, 6, "1 2 3 4 5, and another 5");
        let rows = |idx: usize| -> Vec<usize> {
            places.runs[idx].iter().flat_map(|run| run.first_row..run.first_row + run.n).collect()
        };
        assert_eq!(rows(3), [0, 1, 2, 3, 4]);
        assert_eq!(rows(0), [0, 1, 2, 3]);
        assert_eq!(rows(1), [0, 1, 2]);
        assert_eq!(rows(2), [0, 1, 5]);
    }
}
