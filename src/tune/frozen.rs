//! Products with frozen matrices, as an operation of candle that has a gradient towards its input and none towards the
//! matrix. Candle's own product would compute that too and throw it away: half as much work again.
//!
//! Both directions run on the CPU kernels of [`crate::model::cpu`], whose sums have one order whatever the threads.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use crate::model::{
    Error, Weights,
    cpu::{Activations, Format, Packed, Tier},
};

/// A frozen matrix, and its transpose for the way back. Cheap to clone.
#[derive(Clone)]
pub struct Product {
    /// Shape: `[n, k]`.
    forth: Arc<Packed>,
    /// Shape: `[k, n]`.
    back: Arc<Packed>,
    tier: Tier,
}

impl Product {
    /// A checkpoint's matrix, whatever its format, as f32.
    ///
    /// # Errors
    /// A missing tensor, another shape, a format that is not supported, no memory.
    pub fn load(weights: &Weights, name: &str, shape: [usize; 2]) -> std::result::Result<Self, Error> {
        Self::new(&values(weights, name, shape)?, shape).map_err(|e| Error::Tensor {
            path: weights.path().display().to_string(),
            name: name.into(),
            reason: e,
        })
    }

    /// A matrix of these values, row by row.
    ///
    /// Shape: `[n, k]`.
    ///
    /// # Errors
    /// No memory.
    pub fn new(values: &[f32], [n, k]: [usize; 2]) -> std::result::Result<Self, String> {
        let packed = |n, k, bytes: &[u8]| Packed::pack(Format::F32, n, k, bytes).map_err(|e| e.to_string());
        let forth: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let forth = Arc::new(packed(n, k, &forth)?);
        let mut transposed = vec![0_u8; 4 * n * k];
        for (row, values) in values.chunks_exact(k).enumerate() {
            for (column, x) in values.iter().enumerate() {
                transposed[4 * (column * n + row)..][..4].copy_from_slice(&x.to_le_bytes());
            }
        }
        Ok(Self { forth, back: Arc::new(packed(k, n, &transposed)?), tier: Tier::detect() })
    }

    /// `x w^T`.
    ///
    /// Shape: `[m, k]` -> `[m, n]`.
    #[must_use]
    pub fn forward(&self, x: &[f32]) -> Vec<f32> {
        times(&self.forth, x, self.tier)
    }

    /// `y w`, which is the gradient of the input for a gradient `y` of the product.
    ///
    /// Shape: `[m, n]` -> `[m, k]`.
    #[must_use]
    pub fn backward(&self, y: &[f32]) -> Vec<f32> {
        times(&self.back, y, self.tier)
    }

    /// `x w^T` in the graph.
    ///
    /// Shape: `[m, k]` -> `[m, n]`.
    ///
    /// # Errors
    /// Another shape, or not f32 on a CPU.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()?.apply_op1(self.clone())
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.forth.bytes() + self.back.bytes()
    }
}

fn times(w: &Packed, x: &[f32], tier: Tier) -> Vec<f32> {
    let m = x.len() / w.k();
    let mut out = vec![0.0; m * w.n()];
    w.matmul(x, m, &mut out, Activations::Float, tier);
    out
}

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "frozen product"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = contiguous(storage, layout)?;
        let (n, k) = (self.forth.n(), self.forth.k());
        if layout.dims().last() != Some(&k) {
            bail!("a product of rows of {k} was given the shape {:?}", layout.dims());
        }
        let out = self.forward(x);
        let m = out.len() / n;
        Ok((CpuStorage::F32(out), Shape::from((m, n))))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let back = Self { forth: self.back.clone(), back: self.forth.clone(), tier: self.tier };
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(&back)?))
    }
}

/// The values of a tensor that lies in one piece.
///
/// # Errors
/// It does not, or its numbers are not f32.
pub fn contiguous<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else { bail!("rows that lie apart") };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// A checkpoint's matrix as f32.
///
/// Shape: `[n, k]`.
fn values(weights: &Weights, name: &str, [n, k]: [usize; 2]) -> std::result::Result<Vec<f32>, Error> {
    let bad = |reason: String| Error::Tensor {
        path: weights.path().display().to_string(),
        name: name.into(),
        reason,
    };
    let stored = weights.get(name, &[n, k])?;
    let format = Format::of(stored.dtype);
    let format = format.ok_or_else(|| bad(format!("is {:?}, which is not supported", stored.dtype)))?;
    let packed = Packed::pack(format, n, k, &stored.bytes).map_err(|e| bad(e.to_string()))?;
    let mut values = vec![0.0; n * k];
    for (row, out) in values.chunks_exact_mut(k).enumerate() {
        packed.dequantize_row(row, out);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::tune::draw;

    #[test]
    fn the_product_and_its_gradient_are_candles() {
        let numbers = |stream, n| -> Vec<f32> { (0..n).map(|i| draw::unit(1, stream, i) - 0.5).collect() };
        let (m, n, k) = (5, 40, 24);
        let w = numbers(1, (n * k) as u64);
        let cpu = &Device::Cpu;
        let x = Var::from_vec(numbers(2, (m * k) as u64), (m, k), cpu).unwrap();
        let g = Tensor::from_vec(numbers(3, (m * n) as u64), (m, n), cpu).unwrap();
        let product = Product::new(&w, [n, k]).unwrap();
        let plain = Tensor::from_vec(w, (n, k), cpu).unwrap();
        let both = [product.apply(&x).unwrap(), x.matmul(&plain.t().unwrap()).unwrap()];
        let grads = both.each_ref().map(|y| {
            let loss = (y * &g).unwrap().sum_all().unwrap();
            let grads = loss.backward().unwrap();
            grads.get(&x).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        });
        let values = both.map(|y| y.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        for [ours, candles] in [&values, &grads] {
            assert!(ours.iter().zip(candles).all(|(a, b)| (a - b).abs() < 1e-5));
        }
        assert!(product.apply(&g).is_err(), "rows of another length");
    }
}
