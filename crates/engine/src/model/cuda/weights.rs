//! A checkpoint's matrices on a GPU; quantised ones are laid out as products read them on the way. Neighbouring matrices
//! of one input and one format become one.

use std::sync::Arc;

use super::{
    Error,
    adapter::Adapters,
    memory::{Memory, WEIGHTS},
    products::{self, Kind, Way},
    quant_layout::{QuantLayout, STRIP},
    weight_upload::WeightUpload,
};
use crate::model::{self, Weights, backend::Matrices, cpu::Format, weights::seeded::Fill};

/// Weight matrices of one input.
pub struct Linear {
    pub(super) parts: Vec<Part>,
    /// Outputs of all parts together.
    pub(super) n: usize,
    /// Inputs.
    pub(super) k: usize,
    /// `[n]`, zeros for parts without one.
    pub(super) bias: Option<Memory>,
    pub(super) adapters: Adapters,
}

/// Matrices of one format, as one.
pub struct Part {
    pub(super) memory: Arc<Memory>,
    pub(super) way: Way,
    /// Its first output among those of all parts.
    pub(super) first: usize,
    pub n: usize,
}

/// The embedding table: rows as in the file.
pub struct Table {
    pub(super) memory: Arc<Memory>,
    pub(super) format: Format,
    /// Rows and values of a row.
    pub n: usize,
    pub k: usize,
    /// The same as planes, where products read those.
    planes: Option<Arc<Memory>>,
}

/// Where a matrix's numbers come from.
enum Source<'a> {
    File(std::borrow::Cow<'a, [u8]>),
    /// They are made on the device.
    Seed(Fill),
}

/// One matrix of the checkpoint.
struct Found<'a> {
    from: Source<'a>,
    format: Format,
    n: usize,
    k: usize,
}

impl<'a> Found<'a> {
    fn new(weights: &'a Weights, name: &str, [n, k]: [usize; 2]) -> Result<Self, model::Error> {
        if let Some(fill) = weights.fill(name) {
            products::check(n, k).map_err(|e| weights.bad(name, &format!("is {e}")))?;
            return Ok(Self { from: Source::Seed(fill), format: Format::Bf16, n, k });
        }
        let stored = weights.get(name, &[n, k])?;
        let format = Format::of(stored.dtype);
        let format = format
            .ok_or_else(|| weights.bad(name, &format!("is {:?}, which is not supported", stored.dtype)))?;
        products::check(n, k).map_err(|e| weights.bad(name, &format!("is {e}")))?;
        Ok(Self { from: Source::File(stored.bytes), format, n, k })
    }

    fn planes(&self) -> Option<QuantLayout> {
        QuantLayout::of(self.format, self.k)
    }

    /// Bytes on the device.
    fn device_bytes(&self) -> usize {
        self.planes().map_or(self.n * self.format.row_bytes(self.k), |planes| planes.bytes(self.n))
    }

    /// Sends the matrix to an address, as products read it.
    fn send(&self, to: u64, upload: &mut WeightUpload) -> Result<(), Error> {
        let row_bytes = self.format.row_bytes(self.k);
        let file = match &self.from {
            Source::File(bytes) => bytes,
            Source::Seed(fill) => return upload.fill(to, self.n * self.k, *fill),
        };
        match self.planes() {
            None => upload.send_to(to, self.n, row_bytes, &mut |rows, piece| {
                piece.copy_from_slice(&file[rows.start * row_bytes..rows.end * row_bytes]);
            }),
            Some(planes) => {
                upload.send_to(to, self.n.div_ceil(STRIP), planes.strip_bytes(), &mut |strips, piece| {
                    let rows = strips.start * STRIP..self.n.min(strips.end * STRIP);
                    planes.write(&file[rows.start * row_bytes..rows.end * row_bytes], piece);
                })
            }
        }
    }
}

impl Linear {
    /// # Errors
    /// A missing tensor, another shape, a type that is not supported, or no memory.
    pub(super) fn load(
        weights: &Weights,
        matrices: Matrices<'_>,
        upload: &mut WeightUpload,
    ) -> Result<Self, model::Error> {
        let name = |part: &(String, usize)| format!("{}.weight", part.0);
        let find = |part| Found::new(weights, &name(part), [part.1, matrices.k]);
        let found = matrices.parts.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let mut parts = Vec::new();
        let mut first = 0;
        for group in found.chunk_by(|a, b| a.format == b.format && a.n.is_multiple_of(STRIP)) {
            let bytes = group.iter().map(Found::device_bytes).sum();
            let memory = upload.memory(bytes)?;
            let mut at = memory.at();
            for found in group {
                found.send(at, upload)?;
                at += found.device_bytes() as u64;
            }
            let n = group.iter().map(|found| found.n).sum();
            parts.push(Part { memory: Arc::new(memory), way: Way::of(group[0].format), first, n });
            first += n;
        }
        upload.finish()?;
        for part in matrices.parts {
            weights.used(&name(part));
        }
        let bias = bias(weights, matrices, first, upload)?;
        let adapters = Adapters::new(matrices.parts.iter().map(|part| part.1).collect());
        Ok(Self { parts, n: first, k: matrices.k, bias, adapters })
    }

    /// The product with the embedding table.
    pub(super) fn tied(table: &Table) -> Self {
        let way = Way::of(table.format);
        let memory = table.planes.as_ref().unwrap_or(&table.memory).clone();
        let part = Part { memory, way, first: 0, n: table.n };
        Self { parts: vec![part], n: table.n, k: table.k, bias: None, adapters: Adapters::default() }
    }
}

fn bias(
    weights: &Weights,
    matrices: Matrices<'_>,
    n: usize,
    upload: &mut WeightUpload,
) -> Result<Option<Memory>, model::Error> {
    let name = |part: &(String, usize)| format!("{}.bias", part.0);
    if !matrices.parts.iter().any(|part| weights.contains(&name(part))) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(n);
    for part in matrices.parts {
        let known = weights.contains(&name(part));
        all.extend(if known { weights.floats(&name(part), part.1)? } else { vec![0.0; part.1] });
    }
    let bytes: Vec<u8> = all.iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
    let memory = upload.bytes(&bytes, WEIGHTS)?;
    upload.finish()?;
    Ok(Some(memory))
}

impl Table {
    /// # Errors
    /// As [`Linear::load`].
    pub(super) fn load(
        weights: &Weights,
        name: &str,
        shape: [usize; 2],
        upload: &mut WeightUpload,
    ) -> Result<Self, model::Error> {
        let found = Found::new(weights, name, shape)?;
        let memory = Arc::new(match &found.from {
            Source::File(bytes) => upload.bytes(bytes, WEIGHTS)?,
            Source::Seed(_) => {
                let memory = upload.memory(found.device_bytes())?;
                found.send(memory.at(), upload)?;
                memory
            }
        });
        // Only where the output matrix is the table does a product read it.
        let planes = if weights.config().tied && found.planes().is_some() {
            let planes = upload.memory(found.device_bytes())?;
            found.send(planes.at(), upload)?;
            Some(Arc::new(planes))
        } else {
            None
        };
        upload.finish()?;
        weights.used(name);
        Ok(Self { memory, format: found.format, n: found.n, k: found.k, planes })
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
        Format::Q4K => "embed_q4_k",
        Format::Q5K => "embed_q5_k",
        Format::Q6K => "embed_q6_k",
    }
}

/// The module of a kind's kernels.
pub(super) fn module(kind: Kind) -> &'static str {
    match kind {
        Kind::Bf16 => "gemm_bf16",
        Kind::Q8_0 => "gemm_q8_0",
        Kind::Q4K => "gemm_q4_k",
        Kind::Q6K => "gemm_q6_k",
    }
}
