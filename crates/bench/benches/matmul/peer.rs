//! A quantised layer in candle: the benchmark's peer, which is not part of the engine.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module, Tensor};
use tribunal_model::weights::Format;

/// One quantised layer.
pub struct Layer(QMatMul);

impl Layer {
    /// `None` where candle cannot hold the format.
    pub fn new(format: Format, n: usize, k: usize, blocks: &[u8]) -> Option<Self> {
        let dtype = match format {
            Format::F32 => GgmlDType::F32,
            Format::F16 => GgmlDType::F16,
            Format::Bf16 => GgmlDType::BF16,
            Format::Q8_0 => GgmlDType::Q8_0,
            Format::Q4_0 => GgmlDType::Q4_0,
            Format::Q4_1 => GgmlDType::Q4_1,
            Format::Q5_0 => GgmlDType::Q5_0,
            Format::Q5_1 => GgmlDType::Q5_1,
            Format::Q2K => GgmlDType::Q2K,
            Format::Q3K => GgmlDType::Q3K,
            Format::Q4K => GgmlDType::Q4K,
            Format::Q5K => GgmlDType::Q5K,
            Format::Q6K => GgmlDType::Q6K,
            Format::Iq4Nl | Format::Iq4Xs | Format::Mxfp4 | Format::U4 | Format::F8E4M3 => return None,
        };
        let storage = QStorage::from_data(Cow::Borrowed(blocks), &Device::Cpu, dtype).ok()?;
        let tensor = QTensor::new(storage, (n, k)).ok()?;
        Some(Self(QMatMul::from_arc(tensor.into()).ok()?))
    }

    /// One product; `x` is copied into a tensor, as candle needs.
    pub fn forward(&self, x: &[f32], m: usize) {
        let x = Tensor::from_slice(x, (m, x.len() / m), &Device::Cpu).expect("a tensor of its own shape");
        std::hint::black_box(self.0.forward(&x).expect("candle multiplies this shape"));
    }
}
