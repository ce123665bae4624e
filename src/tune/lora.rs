//! Low-rank adapters: which matrices have them, their values, their names. How they are trained is not known here.
//!
//! Source: Hu et al. 2021, "LoRA", equation 3: `y = w x + (alpha / rank) b a x`, `b` starting at 0.

use std::{collections::BTreeMap, ops::Range};

use candle_core::{Device, Result, Tensor, Var};
use rayon::prelude::*;

use super::draw;
use crate::model::{
    Adapter, Config,
    adapter::{AdapterConfig, AdapterLayer, LowRank, Module, Numbers},
};

/// Which adapters there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub rank: usize,
    pub alpha: f64,
    /// Sorted.
    pub modules: Vec<Module>,
    /// The share of an adapter's inputs that a training step leaves out.
    pub dropout: f32,
    /// Layers with adapters.
    pub layers: Range<usize>,
}

/// The adapters of a model.
pub struct Adapters {
    pub spec: Spec,
    /// By layer and module: `a` `[rank, k]`, `b` `[n, rank]`.
    pairs: BTreeMap<(usize, Module), (Var, Var)>,
}

/// Which inputs a step leaves out; `None` in judgement.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    pub seed: u64,
    /// The step and its part.
    pub step: u64,
}

/// The module of this name, with `_proj` or without.
///
/// # Errors
/// No such module; the message names those that there are.
pub fn module(text: &str) -> std::result::Result<Module, String> {
    let plain = text.trim().trim_end_matches("_proj");
    let found = Module::named(&format!("{plain}_proj"));
    found.ok_or_else(|| format!("no module is called `{text}`; hint: q, k, v, o, gate, up, down"))
}

impl Adapters {
    /// New adapters, which change nothing yet: `a` is drawn evenly from within 1 / sqrt(k), `b` is 0.
    ///
    /// # Errors
    /// No memory.
    pub fn new(spec: Spec, config: &Config, seed: u64) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for layer in spec.layers.clone() {
            for &module in &spec.modules {
                let [n, k] = module.shape(config);
                let (stream, bound) = (stream(layer, module), 1.0 / (k as f32).sqrt());
                let a =
                    (0..(spec.rank * k) as u64).map(|i| (2.0 * draw::unit(seed, stream, i) - 1.0) * bound);
                let a = Var::from_vec(a.collect(), (spec.rank, k), &Device::Cpu)?;
                pairs.insert(
                    (layer, module),
                    (a, Var::zeros((n, spec.rank), candle_core::DType::F32, &Device::Cpu)?),
                );
            }
        }
        Ok(Self { spec, pairs })
    }

    /// What an adapter adds to its matrix's product; `None` where there is no adapter.
    ///
    /// Shape: `[m, k]` -> `[m, n]`.
    ///
    /// # Errors
    /// Another shape.
    pub fn added(
        &self,
        (layer, module): (usize, Module),
        x: &Tensor,
        dropout: Option<Dropout>,
    ) -> Result<Option<Tensor>> {
        let Some((a, b)) = self.pairs.get(&(layer, module)) else { return Ok(None) };
        let kept = match dropout.filter(|_| self.spec.dropout > 0.0) {
            Some(dropout) => (x * self.mask(x, stream(layer, module), dropout)?)?,
            None => x.clone(),
        };
        let low = kept.matmul(&a.t()?)?; // [m, rank]
        Ok(Some((low.matmul(&b.t()?)? * (self.spec.alpha / self.spec.rank as f64))?))
    }

    /// 0 for what is left out, and what makes up for it elsewhere.
    fn mask(&self, x: &Tensor, stream: u64, dropout: Dropout) -> Result<Tensor> {
        let Dropout { seed, step } = dropout;
        let rate = self.spec.dropout;
        let seed = draw::bits(seed, step, stream);
        let value =
            |i: usize| if draw::unit(seed, stream, i as u64) < rate { 0.0 } else { 1.0 / (1.0 - rate) };
        let values: Vec<f32> = (0..x.elem_count()).into_par_iter().map(value).collect();
        Tensor::from_vec(values, x.shape(), &Device::Cpu)
    }

    /// Every tensor with its name as PEFT writes it, in one order.
    #[must_use]
    pub fn tensors(&self) -> Vec<(String, &Var)> {
        let mut tensors = Vec::new();
        for ((layer, module), (a, b)) in &self.pairs {
            let path = format!("base_model.model.model.layers.{layer}.{}", module.path());
            tensors.push((format!("{path}.lora_A.weight"), a));
            tensors.push((format!("{path}.lora_B.weight"), b));
        }
        tensors
    }

    /// Adapters that were written to a folder, to go on with.
    ///
    /// # Errors
    /// None that candle does not know of.
    pub fn import(adapter: &Adapter) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for (layer, parts) in adapter.layers.iter().enumerate() {
            for (&module, part) in parts {
                let rank = adapter.config.rank;
                let a = Var::from_vec(part.a.clone(), (rank, part.n_in), &Device::Cpu)?;
                pairs.insert(
                    (layer, module),
                    (a, Var::from_vec(part.b.clone(), (part.n_out, rank), &Device::Cpu)?),
                );
            }
        }
        let spec = Spec {
            rank: adapter.config.rank,
            // As `added` divides by the rank, whatever the adapter does.
            alpha: adapter.scale() * adapter.config.rank as f64,
            modules: adapter.modules(),
            dropout: adapter.config.dropout as f32,
            layers: adapter.adapted_layers().first().copied().unwrap_or(0)..adapter.layers.len(),
        };
        Ok(Self { spec, pairs })
    }

    /// The adapters as they are written to a folder; `base` names their model.
    ///
    /// # Errors
    /// None that candle does not know of.
    pub fn export(&self, base: &str) -> Result<Adapter> {
        let mut layers: Vec<AdapterLayer> = Vec::new();
        for (&(layer, module), (a, b)) in &self.pairs {
            layers.resize(layers.len().max(layer + 1), AdapterLayer::new());
            let values = |var: &Var| var.flatten_all()?.to_vec1::<f32>();
            let part = LowRank { a: values(a)?, b: values(b)?, n_in: a.dim(1)?, n_out: b.dim(0)? };
            layers[layer].insert(module, part);
        }
        let config = AdapterConfig {
            base: base.to_owned(),
            rank: self.spec.rank,
            alpha: self.spec.alpha,
            rslora: false,
            dropout: f64::from(self.spec.dropout),
            numbers: Numbers::F32,
        };
        Ok(Adapter { config, layers })
    }

    /// The number of values.
    #[must_use]
    pub fn n_values(&self) -> usize {
        self.pairs.values().map(|(a, b)| a.elem_count() + b.elem_count()).sum()
    }
}

/// What draws numbers for an adapter.
fn stream(layer: usize, module: Module) -> u64 {
    0x10_4a00 + 8 * layer as u64 + module as u64
}
