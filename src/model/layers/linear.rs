//! Matrix products with packed weights, and the embedding that shares their storage.

use std::sync::Arc;

use candle_core::{Storage, Tensor, quantized::GgmlDType};

use crate::model::{
    Error, Weights,
    cpu::{Activations, Format, Input, Packed, Tier, products},
    weights,
};

use super::floats;

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    pub tier: Tier,
    pub activations: Activations,
    /// Holds weights that are stored as floats in another float format.
    pub floats: Option<Format>,
}

impl Default for Compute {
    fn default() -> Self {
        Self { tier: Tier::detect(), activations: Activations::Q8, floats: None }
    }
}

/// `N` weight matrices of one input: `x W_i^T + b_i` for each.
///
/// Shape: `[tokens, k]` -> `[tokens, n_i]`.
pub struct Linear<const N: usize> {
    parts: [Part; N],
    compute: Compute,
}

struct Part {
    weights: Arc<Packed>,
    bias: Option<Vec<f32>>,
}

impl<const N: usize> Linear<N> {
    /// Loads matrices of `k` columns, each named without `.weight` and with its rows, with their biases where
    /// the checkpoint has them.
    ///
    /// # Errors
    /// A missing tensor, another shape, or a type that cannot be packed.
    pub fn load(
        weights: &Weights,
        parts: [(&str, usize); N],
        k: usize,
        compute: Compute,
    ) -> Result<Self, Error> {
        let mut loaded = Vec::with_capacity(N);
        for (name, n) in parts {
            let bias_name = format!("{name}.bias");
            let bias = if weights.contains(&bias_name) { Some(weights.floats(&bias_name, n)?) } else { None };
            loaded.push(Part {
                weights: Arc::new(packed(weights, &format!("{name}.weight"), [n, k], compute.floats)?),
                bias,
            });
        }
        let Ok(parts) = loaded.try_into() else { unreachable!("one part was loaded for each name") };
        Ok(Self { parts, compute })
    }

    /// # Errors
    /// As candle's.
    pub fn forward(&self, x: &Tensor) -> candle_core::Result<[Tensor; N]> {
        let (m, k) = x.dims2()?;
        let (storage, layout) = x.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { candle_core::bail!("packed weights are on the CPU") };
        let mut outs = self.multiply(floats(storage, layout)?, m, k);
        for (part, out) in self.parts.iter().zip(&mut outs) {
            if let Some(bias) = &part.bias {
                out.chunks_exact_mut(bias.len())
                    .flat_map(|row| row.iter_mut().zip(bias))
                    .for_each(|(y, b)| *y += b);
            }
        }
        let mut tensors = Vec::with_capacity(N);
        for (part, out) in self.parts.iter().zip(outs) {
            tensors.push(Tensor::from_vec(out, (m, part.weights.n()), x.device())?);
        }
        let Ok(tensors) = tensors.try_into() else { unreachable!("one product was computed for each part") };
        Ok(tensors)
    }

    /// The products, the input coded once for all parts that want it coded alike.
    fn multiply(&self, x: &[f32], m: usize, k: usize) -> [Vec<f32>; N] {
        let Compute { tier, activations, .. } = self.compute;
        let coding = |part: &Part| part.weights.format().coding(activations);
        let mut outs: [Vec<f32>; N] = std::array::from_fn(|_| Vec::new());
        let mut waiting: Vec<usize> = (0..N).collect();
        while let Some(&first) = waiting.first() {
            let wanted = coding(&self.parts[first]);
            let (now, later): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|&i| coding(&self.parts[i]) == wanted);
            waiting = later;
            let layers: Vec<&Packed> = now.iter().map(|&i| &*self.parts[i].weights).collect();
            let products = products(&layers, &Input::new(x, m, k, wanted, tier), tier);
            now.into_iter().zip(products).for_each(|(i, product)| outs[i] = product);
        }
        outs
    }
}

impl Linear<1> {
    /// The product with an embedding table, for models whose output matrix is the embedding.
    #[must_use]
    pub fn tied(embedding: &Embedding, compute: Compute) -> Self {
        Self { parts: [Part { weights: embedding.table.clone(), bias: None }], compute }
    }
}

/// Rows of a stored matrix by index.
pub struct Embedding {
    table: Arc<Packed>,
}

impl Embedding {
    /// # Errors
    /// A missing tensor or another shape than `[n, k]`.
    pub fn load(weights: &Weights, name: &str, shape: [usize; 2], compute: Compute) -> Result<Self, Error> {
        Ok(Self { table: Arc::new(packed(weights, name, shape, compute.floats)?) })
    }

    /// Shape: `[tokens]` -> `[tokens, k]`.
    ///
    /// # Errors
    /// An id past the table.
    pub fn forward(&self, ids: &[u32]) -> candle_core::Result<Tensor> {
        let k = self.table.k();
        let mut out = vec![0.0; ids.len() * k];
        for (&id, row) in ids.iter().zip(out.chunks_exact_mut(k)) {
            if id as usize >= self.table.n() {
                candle_core::bail!("token id {id} is past the vocabulary of {}", self.table.n());
            }
            self.table.dequantize_row(id as usize, row);
        }
        Tensor::from_vec(out, (ids.len(), k), &candle_core::Device::Cpu)
    }
}

fn packed(
    weights: &Weights,
    name: &str,
    [n, k]: [usize; 2],
    floats: Option<Format>,
) -> Result<Packed, Error> {
    let stored = weights.get(name, &[n, k])?;
    let bad = |reason: String| weights.bad(name, &reason);
    let format = format(stored.dtype);
    let format = format.ok_or_else(|| bad(format!("is {:?}, which is not supported", stored.dtype)))?;
    let (format, bytes) = match (floats, weights::floats(stored.dtype, &stored.bytes)) {
        (Some(wanted), Some(values)) if wanted != format => (wanted, encode(wanted, &values).into()),
        _ => (format, stored.bytes),
    };
    let packed = Packed::pack(format, n, k, &bytes).map_err(|e| bad(e.to_string()))?;
    weights.used(name);
    Ok(packed)
}

/// Little-endian bytes of values in a float format.
fn encode(format: Format, values: &[f32]) -> Vec<u8> {
    match format {
        Format::Bf16 => values.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
        Format::F16 => values.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn format(dtype: GgmlDType) -> Option<Format> {
    Some(match dtype {
        GgmlDType::F32 => Format::F32,
        GgmlDType::F16 => Format::F16,
        GgmlDType::BF16 => Format::Bf16,
        GgmlDType::Q4_0 => Format::Q4_0,
        GgmlDType::Q4_1 => Format::Q4_1,
        GgmlDType::Q5_0 => Format::Q5_0,
        GgmlDType::Q5_1 => Format::Q5_1,
        GgmlDType::Q8_0 => Format::Q8_0,
        GgmlDType::Q4K => Format::Q4K,
        GgmlDType::Q5K => Format::Q5K,
        GgmlDType::Q6K => Format::Q6K,
        _ => return None,
    })
}
