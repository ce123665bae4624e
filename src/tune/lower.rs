//! The frozen lower layers: run once, on the engine's own kernels, and what they give for every token kept on disk in
//! bf16. What prompts have in common is computed and kept once. It trains nothing.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};

use super::{Error, encoded::Encoded, forward::Batch, io};
use crate::model::{BLOCK, KvType, Model, Part, Step};

/// Tokens of one step.
const CHUNK: usize = 512;

/// Rows of an example that lie side by side in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first_row: usize,
    n: usize,
}

/// Where the rows of all examples lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Each example's runs.
    runs: Vec<Vec<Run>>,
    /// Examples in the order in which they are computed, each with the tokens that it shares with the one before.
    order: Vec<(usize, usize)>,
    pub n_rows: usize,
}

impl Places {
    /// Sorts examples so that those that begin alike stand side by side.
    #[must_use]
    pub fn new(examples: &[&Encoded]) -> Self {
        let mut sorted: Vec<usize> = (0..examples.len()).collect();
        sorted.sort_by(|&a, &b| examples[a].ids.cmp(&examples[b].ids));
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); examples.len()];
        let (mut order, mut n_rows) = (Vec::new(), 0);
        let mut before: Option<usize> = None;
        for idx in sorted {
            let read = examples[idx].read();
            let shared = before.map_or(0, |before| common(examples[before].read(), read));
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

/// What the lower layers give for all examples.
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
        examples: &[&Encoded],
        (layers, hidden): (usize, usize),
        model: impl FnOnce() -> Result<Box<dyn Model>, Error>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, Error> {
        let places = Places::new(examples);
        let path = folder.join(format!("states-{name}.bf16"));
        let part = folder.join(format!("states-{name}.part"));
        if !path.exists() {
            let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&part);
            let file = file.map_err(io(&part))?;
            let mut making = Making { model: model()?, file, path: &part, places: &places, layers, hidden };
            making.rest(examples, progress)?;
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

    /// The rows of some examples, those that all of them begin with once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn batch(&mut self, examples: &[&Encoded], idxs: &[usize]) -> Result<(Tensor, Batch), Error> {
        let chosen: Vec<&Encoded> = idxs.iter().map(|&idx| examples[idx]).collect();
        let n_shared = if let [first, rest @ ..] = &chosen[..] {
            let shared = rest.iter().map(|other| common(&first.ids, &other.ids)).min().unwrap_or(0);
            // Rows whose next token is wanted are each example's own.
            chosen.iter().map(|example| example.n_prompt - 1).fold(shared, usize::min)
        } else {
            0
        };
        let mut values = Vec::new();
        if let Some(&first) = idxs.first() {
            self.read(first, 0..n_shared, &mut values)?;
        }
        for (&idx, example) in idxs.iter().zip(&chosen) {
            self.read(idx, n_shared..example.read().len(), &mut values)?;
        }
        let rows = values.len() / self.hidden;
        let batch = Batch {
            n_shared,
            n_own: chosen.iter().map(|example| example.read().len() - n_shared).collect(),
            wanted: chosen.iter().map(|e| (e.n_prompt - 1..e.read().len()).collect()).collect(),
        };
        Ok((Tensor::from_vec(values, (rows, self.hidden), &Device::Cpu)?, batch))
    }

    /// Some positions of an example.
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
    fn rest(&mut self, examples: &[&Encoded], progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        let longest = examples.iter().map(|example| example.ids.len()).max().unwrap_or(0);
        let n_blocks = longest.div_ceil(BLOCK);
        self.model.reserve(n_blocks, KvType::Bf16)?;
        let blocks: Vec<u32> = (0..n_blocks as u32).collect();
        let row_bytes = self.hidden * 2;
        let there = self.file.metadata().map_err(io(self.path))?.len() as usize / row_bytes;
        let (mut done, mut is_cached) = (0, false);
        for &(idx, shared) in &self.places.order {
            let read = examples[idx].read();
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
    use crate::judges::Granularity;

    fn example(ids: &[u32]) -> Encoded {
        Encoded { ids: ids.to_vec(), n_prompt: 2, granularity: Granularity::Seg }
    }

    #[test]
    fn what_examples_begin_with_alike_is_kept_once() {
        let examples = [&[1, 2, 3, 4, 9][..], &[1, 2, 3, 9], &[1, 2, 5, 9], &[1, 2, 3, 4, 5, 9]].map(example);
        let places = Places::new(&examples.iter().collect::<Vec<_>>());
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
