//! Low-rank adapters: which matrices have them, their values, their names. How they are trained is not known here.
//!
//! Source: Hu et al. 2021, "LoRA", equation 3: `y = w x + (alpha / rank) b a x`, `b` starting at 0.

use std::{collections::BTreeMap, str::FromStr};

use candle_core::{Device, Result, Tensor, Var};
use rayon::prelude::*;

use super::draw;
use crate::model::Config;

/// A matrix of a layer that can have an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Module {
    Q,
    K,
    V,
    O,
    Gate,
    Up,
    Down,
}

/// Which adapters there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub rank: usize,
    pub alpha: f64,
    /// Sorted.
    pub modules: Vec<Module>,
    /// The share of an adapter's inputs that a training step leaves out.
    pub dropout: f32,
    /// Layers with adapters: from this one to the last.
    pub first_layer: usize,
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

impl Module {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Q, Self::K, Self::V, Self::O, Self::Gate, Self::Up, Self::Down];

    /// As checkpoints and PEFT's `target_modules` name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Q => "q_proj",
            Self::K => "k_proj",
            Self::V => "v_proj",
            Self::O => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// Its place in a layer.
    #[must_use]
    pub fn path(self) -> String {
        let half = if matches!(self, Self::Q | Self::K | Self::V | Self::O) { "self_attn" } else { "mlp" };
        format!("{half}.{}", self.name())
    }

    /// Outputs and inputs.
    #[must_use]
    pub fn shape(self, c: &Config) -> [usize; 2] {
        let (q, kv) = (c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim);
        match self {
            Self::Q => [q, c.hidden],
            Self::K | Self::V => [kv, c.hidden],
            Self::O => [c.hidden, q],
            Self::Gate | Self::Up => [c.intermediate, c.hidden],
            Self::Down => [c.hidden, c.intermediate],
        }
    }
}

impl FromStr for Module {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let plain = text.trim().trim_end_matches("_proj");
        let found = Self::ALL.into_iter().find(|module| module.name().trim_end_matches("_proj") == plain);
        found.ok_or_else(|| format!("no module is called `{text}`; hint: q, k, v, o, gate, up, down"))
    }
}

impl Adapters {
    /// New adapters, which change nothing yet: `a` is drawn evenly from within 1 / sqrt(k), `b` is 0.
    ///
    /// # Errors
    /// No memory.
    pub fn new(spec: Spec, config: &Config, seed: u64) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for layer in spec.first_layer..config.n_layers {
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
