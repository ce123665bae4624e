//! A checkpoint's matrices on a GPU. During the upload, quantised ones are arranged in the layout for
//! products, and f32, f16 and formats without such a layout are rounded to bf16. Neighbouring matrices of one
//! input and one format become one.

use std::{ops::Range, sync::Arc};

use half::bf16;
use rayon::prelude::*;

use super::{
    Error, Gpu,
    adapter::Adapters,
    memory::{Memory, WEIGHTS},
    products::{self, Kind, Way},
    quant_layout::{QuantLayout, STRIP},
    shard::{Section, Shard},
    weight_upload::WeightUpload,
};
use tribunal_model::{
    Result, Weights,
    backend::Matrices,
    config::DeltaNet,
    weights::{Format, seeded::Fill, values},
};

/// Weight matrices of one input.
pub struct Linear {
    pub(super) parts: Vec<Part>,
    /// Outputs of all parts together that this card computes.
    pub(super) n: usize,
    /// Inputs.
    pub(super) k: usize,
    /// `[n]`, zeros for parts without one.
    pub(super) bias: Option<Memory>,
    /// The outputs of each matrix that these are: all, where a card has the whole model. Those of several
    /// sections, which are not neighbours, are counted from the first one on.
    pub(super) outputs: Vec<Range<usize>>,
    pub(super) adapters: Adapters,
}

/// Matrices of one format, as one.
pub struct Part {
    pub(super) memory: Arc<Memory>,
    /// Bytes of the memory before it.
    pub(super) offset: usize,
    pub(super) way: Way,
    /// Its first output among those of all parts.
    pub(super) first: usize,
    pub n: usize,
    /// The length of the slices of its sums ([`Gpu::k_slice`] of the whole weight).
    pub(super) k_slice: usize,
}

impl Part {
    /// Its address on the device.
    pub(super) fn at(&self) -> u64 {
        self.memory.at() + self.offset as u64
    }
}

/// The embedding table, with the rows of the file.
pub struct Table {
    pub(super) memory: Arc<Memory>,
    pub(super) format: Format,
    way: Way,
    /// Rows and values of a row.
    pub n: usize,
    pub k: usize,
    /// The rows that this card multiplies by, where the output matrix is the table.
    outputs: Range<usize>,
    /// The table's rows in the layout for products, where it differs from the file's.
    converted: Option<Arc<Memory>>,
}

/// The source of a matrix's numbers.
enum Source<'a> {
    File(std::borrow::Cow<'a, [u8]>),
    /// They are made on the device.
    Seed(Fill),
}

/// One matrix of the checkpoint.
struct Found<'a> {
    from: Source<'a>,
    format: Format,
    way: Way,
    /// Rows of the whole matrix, or of one of its sections, and the range of them that is uploaded.
    n: usize,
    rows: Range<usize>,
    k: usize,
}

impl<'a> Found<'a> {
    fn new(
        weights: &'a Weights,
        name: &str,
        [n, k]: [usize; 2],
        rows: Range<usize>,
        packs: bool,
    ) -> Result<Self> {
        let (from, format) = if let Some(fill) = weights.fill(name) {
            (Source::Seed(fill), Format::Bf16)
        } else {
            let stored = weights.get(name, &[n, k])?;
            (Source::File(stored.bytes), stored.dtype)
        };
        products::check(n, k).map_err(|e| weights.bad(name, &format!("is {e}")))?;
        let way = Way::new(format, packs);
        if let Source::File(bytes) = &from {
            way.check(format, bytes).map_err(|e| weights.bad(name, &format!("is {e}")))?;
        }
        Ok(Self { from, format, way, n, rows, k })
    }

    fn planes(&self) -> Option<QuantLayout> {
        self.way.layout(self.format, self.k)
    }

    /// Returns true if the layout for products differs from the file's: planes, or values rounded to `bf16`.
    fn is_converted(&self) -> bool {
        self.planes().is_some() || self.way.stored(self.format) != self.format
    }

    /// Bytes on the device.
    fn device_bytes(&self) -> usize {
        let (n, format) = (self.rows.len(), self.way.stored(self.format));
        self.planes().map_or(n * format.row_bytes(self.k), |planes| planes.bytes(n))
    }

    /// Uploads the matrix to an address, in the layout for products.
    fn send(&self, to: u64, upload: &mut WeightUpload) -> Result<(), Error> {
        let row_bytes = self.format.row_bytes(self.k);
        let file = match &self.from {
            Source::File(bytes) => &bytes[self.rows.start * row_bytes..self.rows.end * row_bytes],
            Source::Seed(fill) => {
                return upload.fill(to, self.rows.start * self.k..self.rows.end * self.k, *fill);
            }
        };
        let n = self.rows.len();
        if self.way.stored(self.format) != self.format {
            return upload.send_to(to, n, 2 * self.k, &mut |rows, piece| {
                round_to_bf16(self.format, &file[rows.start * row_bytes..rows.end * row_bytes], piece);
            });
        }
        match self.planes() {
            None => upload.send_to(to, n, row_bytes, &mut |rows, piece| {
                piece.copy_from_slice(&file[rows.start * row_bytes..rows.end * row_bytes]);
            }),
            Some(planes) => {
                upload.send_to(to, n.div_ceil(STRIP), planes.strip_bytes(), &mut |strips, piece| {
                    let rows = strips.start * STRIP..n.min(strips.end * STRIP);
                    planes.write(&file[rows.start * row_bytes..rows.end * row_bytes], piece);
                })
            }
        }
    }
}

/// Rounds rows of a file, in whole blocks, to `bf16`.
pub(super) fn round_to_bf16(format: Format, from: &[u8], to: &mut [u8]) {
    const PIECE: usize = 1 << 14;
    let pieces = to.par_chunks_mut(2 * PIECE).zip(from.par_chunks(format.row_bytes(PIECE)));
    pieces.for_each(|(to, from)| {
        for (to, value) in to.as_chunks_mut::<2>().0.iter_mut().zip(values(format, from)) {
            *to = bf16::from_f32(value).to_le_bytes();
        }
    });
}

impl Linear {
    /// Loads a card's shard of each matrix; `delta_net` are the heads of this card's layers of Gated
    /// DeltaNet.
    ///
    /// # Errors
    /// A missing tensor, another shape, a type that is not supported, or no memory.
    pub(super) fn load(
        weights: &Weights,
        matrices: Matrices<'_>,
        shard: Shard,
        delta_net: Option<&DeltaNet>,
        upload: &mut WeightUpload,
    ) -> Result<Self> {
        let name = |part: &(String, usize)| format!("{}.weight", part.0);
        let sections = shard.sections(matrices, delta_net);
        let find = |(part, sections): (&(String, usize), &Vec<Section>)| {
            let find = |section: &Section| {
                let shape = [part.1, matrices.k];
                let rows = section.outputs.clone();
                let found = Found::new(weights, &name(part), shape, rows, upload.gpu().packs())?;
                Ok(Found { n: section.whole, ..found })
            };
            sections.iter().map(find).collect::<Result<Vec<_>>>()
        };
        let found = matrices.parts.iter().zip(&sections).map(find).collect::<Result<Vec<_>, _>>()?;
        let found: Vec<Found<'_>> = found.into_iter().flatten().collect();
        let mut parts = Vec::new();
        let mut first = 0;
        // A weight that is one on one card has the slices of one on every card.
        for aligned in found.chunk_by(|a, b| a.format == b.format && a.n.is_multiple_of(STRIP)) {
            let k_slice = upload.gpu().k_slice(aligned.iter().map(|found| found.n).sum(), matrices.k);
            for group in aligned.chunk_by(|a, _| a.rows.len().is_multiple_of(STRIP)) {
                let memory = Arc::new(upload.memory(group.iter().map(Found::device_bytes).sum())?);
                let mut at = memory.at();
                for found in group {
                    found.send(at, upload)?;
                    at += found.device_bytes() as u64;
                }
                let n = group.iter().map(|found| found.rows.len()).sum();
                parts.push(Part { memory, offset: 0, way: group[0].way, first, n, k_slice });
                first += n;
            }
        }
        upload.finish()?;
        for part in matrices.parts {
            weights.used(&name(part));
        }
        let outputs: Vec<Range<usize>> = sections.iter().map(|sections| Section::hull(sections)).collect();
        let bias = bias(weights, matrices, &sections, upload)?;
        let adapters = Adapters::new(outputs.iter().map(Range::len).collect());
        Ok(Self { parts, n: first, k: matrices.k, bias, outputs, adapters })
    }

    /// The product with the embedding table.
    pub(super) fn tied(table: &Table, gpu: &Gpu) -> Self {
        let way = table.way;
        let (memory, offset) = match &table.converted {
            Some(converted) => (converted.clone(), 0),
            None => (table.memory.clone(), table.outputs.start * table.format.row_bytes(table.k)),
        };
        let (n, k_slice) = (table.outputs.len(), gpu.k_slice(table.n, table.k));
        let part = Part { memory, offset, way, first: 0, n, k_slice };
        let (outputs, adapters) = (vec![table.outputs.clone()], Adapters::default());
        Self { parts: vec![part], n, k: table.k, bias: None, outputs, adapters }
    }
}

fn bias(
    weights: &Weights,
    matrices: Matrices<'_>,
    sections: &[Vec<Section>],
    upload: &mut WeightUpload,
) -> Result<Option<Memory>> {
    let name = |part: &(String, usize)| format!("{}.bias", part.0);
    if !matrices.parts.iter().any(|part| weights.contains(&name(part))) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for (part, sections) in matrices.parts.iter().zip(sections) {
        let known = weights.contains(&name(part));
        let values = if known { weights.floats(&name(part), part.1)? } else { vec![0.0; part.1] };
        for section in sections {
            all.extend_from_slice(&values[section.outputs.clone()]);
        }
    }
    Ok(Some(upload.floats(&all)?))
}

impl Table {
    /// # Errors
    /// Those of [`Linear::load`].
    pub(super) fn load(
        weights: &Weights,
        name: &str,
        shape: [usize; 2],
        shard: Shard,
        upload: &mut WeightUpload,
    ) -> Result<Self> {
        let mut found = Found::new(weights, name, shape, 0..shape[0], upload.gpu().packs())?;
        let outputs = shard.outputs(shape[0], 1);
        let is_held = found.format.is_float() || found.format.on_gpus() == found.format;
        if !is_held {
            found.way = Way::Direct(Kind::Bf16); // no kernel reads the table's rows
        }
        let (memory, format) = match &found.from {
            Source::File(bytes) if is_held => (upload.bytes(bytes, WEIGHTS)?, found.format),
            _ => {
                let memory = upload.memory(found.device_bytes())?;
                found.send(memory.at(), upload)?;
                (memory, Format::Bf16)
            }
        };
        let memory = Arc::new(memory);
        let way = found.way;
        // Products read the table only where it is the output matrix.
        let converted = if weights.config().tied && is_held && found.is_converted() {
            let multiplied = Found { rows: outputs.clone(), ..found };
            let memory = upload.memory(multiplied.device_bytes())?;
            multiplied.send(memory.at(), upload)?;
            Some(Arc::new(memory))
        } else {
            None
        };
        upload.finish()?;
        weights.used(name);
        Ok(Self { memory, format, way, n: shape[0], k: shape[1], outputs, converted })
    }
}

/// The kernel that reads rows of a table in this format.
pub(super) fn embed_kernel(format: Format) -> &'static str {
    match format {
        Format::F32 => "embed_f32",
        Format::F16 => "embed_f16",
        Format::Bf16 => "embed_bf16",
        Format::Q4_0 => "embed_q4_0",
        Format::Q4_1 => "embed_q4_1",
        Format::Q5_0 => "embed_q5_0",
        Format::Q5_1 => "embed_q5_1",
        Format::Q8_0 => "embed_q8_0",
        Format::Mxfp4 => "embed_mxfp4",
        Format::Q4K => "embed_q4_k",
        Format::Q5K => "embed_q5_k",
        Format::Q6K => "embed_q6_k",
        Format::Q2K | Format::Q3K | Format::Iq4Nl | Format::Iq4Xs | Format::U4 | Format::F8E4M3 => {
            unreachable!("rounded to bf16 when it is loaded")
        }
    }
}
