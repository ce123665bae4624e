//! LoRA adapters on a CPU: two narrow f32 products for the rows that have one. The kernels are those of f32
//! weights, whose bits depend neither on the instruction set nor on the other rows.

use super::{Coding, Format, Input, Isa, Job, Packed, add_multiply, gemm};
use tribunal_model::{Error, Result, backend::Added, step::Adapted};

/// One adapter's matrices for the parts of a [`super::linear::Linear`].
pub(super) struct Narrow {
    /// Shape: `[parts]`.
    parts: Vec<Option<Pair>>,
}

/// `scale B (A x)`.
struct Pair {
    /// Shape: `[rank, k]`.
    a: Packed,
    /// Shape: `[n, rank]`.
    b: Packed,
    scale: f32,
}

/// The rows of a step's products, and the outputs that their adapters add to.
pub(super) struct Sums<'a> {
    /// The inputs.
    ///
    /// Shape: `[m, k]`.
    pub x: &'a [f32],
    pub m: usize,
    /// For each part, `[m, n]`.
    pub outs: &'a mut [Vec<f32>],
}

impl Narrow {
    /// # Errors
    /// No memory.
    pub(super) fn pack(parts: &[Option<Added<'_>>]) -> Result<Self> {
        Ok(Self {
            parts: parts.iter().map(|part| part.map(Pair::pack).transpose()).collect::<Result<_, _>>()?,
        })
    }

    /// Adds to the rows that take this adapter.
    pub(super) fn add(&self, sums: &mut Sums<'_>, adapted: &Adapted, isa: Isa) {
        let (places, pairs): (Vec<usize>, Vec<&Pair>) =
            self.parts.iter().enumerate().filter_map(|(i, pair)| Some((i, pair.as_ref()?))).unzip();
        let Some(first) = pairs.first() else { return };
        let (rows, k) = (&adapted.rows, first.a.k());
        let all = rows.len() == sums.m;
        let narrowed: Vec<&Packed> = pairs.iter().map(|pair| &pair.a).collect();
        let input = if all { coded(sums.x, k, isa) } else { coded(&gathered(sums.x, k, rows), k, isa) };
        let hidden = gemm(&narrowed, &input); // for each pair [rows, rank]
        for ((pair, mut hidden), place) in pairs.into_iter().zip(hidden).zip(places) {
            for h in &mut hidden {
                *h *= pair.scale;
            }
            let (hidden, out) = (coded(&hidden, pair.b.k(), isa), &mut sums.outs[place]);
            if all {
                add_multiply(&mut [Job { weights: &pair.b, out }], &hidden);
            } else {
                let n = pair.b.n();
                let mut some = gathered(out, n, rows);
                add_multiply(&mut [Job { weights: &pair.b, out: &mut some }], &hidden);
                for (&row, some) in rows.iter().zip(some.chunks_exact(n)) {
                    out[row as usize * n..][..n].copy_from_slice(some);
                }
            }
        }
    }
}

impl Pair {
    fn pack(added: Added<'_>) -> Result<Self> {
        let Added { matrices, scale } = added;
        let rank = matrices.a.len() / matrices.n_in.max(1);
        let packed = |n, k, values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let wrong = |e: super::Error| Error::Step(format!("an adapter's matrix: {e}"));
            Packed::pack(Format::F32, n, k, &bytes).map_err(wrong)
        };
        let (a, b) = (packed(rank, matrices.n_in, &matrices.a)?, packed(matrices.n_out, rank, &matrices.b)?);
        Ok(Self { a, b, scale })
    }
}

fn coded(x: &[f32], k: usize, isa: Isa) -> Input {
    Input::new(x, x.len() / k, k, Coding::F32, isa)
}

/// Some rows, side by side.
fn gathered(x: &[f32], width: usize, rows: &[u32]) -> Vec<f32> {
    rows.iter().flat_map(|&row| &x[row as usize * width..][..width]).copied().collect()
}
