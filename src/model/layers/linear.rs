//! Matrix products with stored weights, and the embedding that shares their storage.

use std::sync::Arc;

use candle_core::{
    Device, Module, Tensor,
    quantized::{QMatMul, QTensor, ggml_file::qtensor_from_ggml},
};

use crate::model::{Error, Weights};

/// Several weight matrices of one input, their outputs side by side: `x W^T + b`.
///
/// Shape: `[tokens, k]` -> `[tokens, n_1 + n_2 + ...]`.
pub struct Linear {
    parts: Vec<QMatMul>,
    bias: Option<Tensor>,
}

/// One weight matrix: its name without `.weight`, and its rows.
pub type Part<'a> = (&'a str, usize);

impl Linear {
    /// Loads the parts, all of `k` columns, with their biases where the checkpoint has them.
    ///
    /// # Errors
    /// A missing tensor or another shape.
    pub fn load(weights: &Weights, parts: &[Part<'_>], k: usize, device: &Device) -> Result<Self, Error> {
        let mut matrices = Vec::with_capacity(parts.len());
        let mut bias = Vec::new();
        for &(name, n) in parts {
            matrices.push(QMatMul::from_arc(table(weights, &format!("{name}.weight"), &[n, k], device)?)?);
            let bias_name = format!("{name}.bias");
            if weights.contains(&bias_name) {
                bias.extend(weights.floats(&bias_name, n)?);
            }
        }
        let n: usize = parts.iter().map(|part| part.1).sum();
        let bias = if bias.is_empty() { None } else { Some(Tensor::from_vec(bias, n, device)?) };
        Ok(Self { parts: matrices, bias })
    }

    /// The product with an embedding table, for models whose output matrix is the embedding.
    ///
    /// # Errors
    /// As candle's.
    pub fn tied(embedding: &Embedding) -> Result<Self, Error> {
        Ok(Self { parts: vec![QMatMul::from_arc(embedding.table.clone())?], bias: None })
    }

    /// # Errors
    /// As candle's.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        // candle's kernels take another path for one row; a second row keeps every row's bits the same.
        let single = x.dim(0)? == 1;
        let x = if single { Tensor::cat(&[x, x], 0)? } else { x.clone() };
        let mut outs = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            outs.push(part.forward(&x)?);
        }
        let mut y = if outs.len() == 1 { outs.remove(0) } else { Tensor::cat(&outs, 1)? };
        if single {
            y = y.narrow(0, 0, 1)?.contiguous()?;
        }
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }
}

/// Rows of a stored matrix by index.
pub struct Embedding {
    table: Arc<QTensor>,
}

impl Embedding {
    /// # Errors
    /// A missing tensor or another shape.
    pub fn load(weights: &Weights, name: &str, shape: [usize; 2], device: &Device) -> Result<Self, Error> {
        Ok(Self { table: table(weights, name, &shape, device)? })
    }

    /// Shape: `[tokens]` -> `[tokens, k]`.
    ///
    /// # Errors
    /// An id past the table.
    pub fn forward(&self, ids: &[u32]) -> Result<Tensor, Error> {
        let ids = Tensor::new(ids, &self.table.device())?;
        Ok(self.table.embedding(&ids)?)
    }
}

fn table(weights: &Weights, name: &str, shape: &[usize], device: &Device) -> Result<Arc<QTensor>, Error> {
    let stored = weights.get(name, shape)?;
    Ok(Arc::new(qtensor_from_ggml(stored.dtype, &stored.bytes, shape.to_vec(), device)?))
}
