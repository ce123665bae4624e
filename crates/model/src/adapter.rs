//! LoRA adapters in PEFT's layout: a folder with `adapter_config.json` and `adapter_model.safetensors`. They
//! are read, checked against their base model, and written; backends apply them. It trains none
//! (`scripts/tune/` does).
//!
//! Source: Hu et al. (2021), `LoRA`, equation 3: `y = W x + scale B (A x)`. The layout is that of PEFT 0.18:
//! its files are read here, and it loads the files written here.

mod peft;

use std::{collections::BTreeMap, path::Path};

use super::{Config, Error, Result, config::neighbouring_row};

pub use peft::{CONFIG_FILE, WEIGHTS_FILE, is_adapter};

/// An adapter: for some of a decoder's matrices, the product of two narrow ones, which is added to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    pub config: AdapterConfig,
    /// By the decoder's layers, from the first to the last that has a part; a layer may have none.
    pub layers: Vec<AdapterLayer>,
}

/// One layer's pairs of matrices.
pub type AdapterLayer = BTreeMap<Module, LowRank>;

/// Settings of `adapter_config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// Name of the model that it was trained on; empty where no name is given.
    pub base: String,
    /// Rows of every `A` and columns of every `B`.
    pub rank: usize,
    pub alpha: f64,
    /// `alpha / sqrt(rank)` in place of `alpha / rank`. Source: Kalajdzievski (2023), A Rank Stabilization
    /// Scaling Factor for Fine-Tuning with `LoRA`, equation 4.
    pub rslora: bool,
    /// The dropout in training; nothing is dropped when the adapter is applied.
    pub dropout: f64,
    /// The type of its numbers in the file.
    pub numbers: Numbers,
}

/// The type of an adapter's numbers in its file; in memory they are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    #[default]
    F32,
    F16,
    Bf16,
}

/// A matrix of a decoder layer that an adapter can add to.
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

/// The two matrices whose product is added to one of the model's: `B A`.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// Shape: `[rank, n_in]`, row by row.
    pub a: Vec<f32>,
    /// Shape: `[n_out, rank]`, row by row.
    pub b: Vec<f32>,
    pub n_in: usize,
    pub n_out: usize,
}

impl LowRank {
    /// This update of queries or keys whose rotated pairs are neighbours, with the two values of a pair half
    /// of `rotary_dim` apart.
    #[must_use]
    pub fn apart(&self, head_dim: usize, rotary_dim: usize) -> Self {
        let rank = self.b.len() / self.n_out.max(1);
        let rows = (0..self.n_out).map(|row| neighbouring_row(row, head_dim, rotary_dim) * rank);
        Self { b: rows.flat_map(|at| &self.b[at..at + rank]).copied().collect(), ..self.clone() }
    }

    /// The parts of a matrix whose rows belong, `n` after `n`, to one of two matrices and to the other.
    pub fn halves(&self, n: usize) -> [Self; 2] {
        let rank = self.b.len() / self.n_out.max(1);
        let half = |first: usize| {
            let turns = self.b.chunks_exact(n * rank).skip(first).step_by(2);
            Self {
                a: self.a.clone(),
                b: turns.flatten().copied().collect(),
                n_in: self.n_in,
                n_out: self.n_out / 2,
            }
        };
        [half(0), half(1)]
    }
}

impl Adapter {
    /// Reads a folder.
    ///
    /// # Errors
    /// A file that is missing or broken, a kind of adapter or a setting that is not supported, each named.
    pub fn read(dir: &Path) -> Result<Self> {
        peft::read(dir)
    }

    /// The factor of the product `B A x`.
    pub fn scale(&self) -> f64 {
        let rank = self.config.rank as f64;
        self.config.alpha / if self.config.rslora { rank.sqrt() } else { rank }
    }

    /// The layers that have parts, in order.
    pub fn adapted_layers(&self) -> Vec<usize> {
        (0..self.layers.len()).filter(|&layer| !self.layers[layer].is_empty()).collect()
    }

    /// The modules that any layer has parts for, in the order of a layer.
    pub fn modules(&self) -> Vec<Module> {
        Module::ALL.into_iter().filter(|m| self.layers.iter().any(|layer| layer.contains_key(m))).collect()
    }

    /// Numbers in all matrices.
    pub fn n_parameters(&self) -> usize {
        self.layers.iter().flat_map(BTreeMap::values).map(|part| part.a.len() + part.b.len()).sum()
    }

    /// Bytes beside a model, on any device.
    pub fn n_bytes(&self) -> usize {
        size_of::<f32>() * self.n_parameters()
    }

    /// Checks that the adapter fits a model of this shape.
    ///
    /// # Errors
    /// A layer that the model lacks, or matrices of another size: both sizes are named.
    pub fn check(&self, model: &Config) -> Result<()> {
        let bad = |reason: String| Error::Adapter {
            reason,
            base: if self.config.base.is_empty() { "unknown".into() } else { self.config.base.clone() },
        };
        if self.layers.len() > model.n_layers {
            let (ours, theirs) = (self.layers.len(), model.n_layers);
            return Err(bad(format!("it has weights for layer {}, the model has {theirs} layers", ours - 1)));
        }
        for (idx, layer) in self.layers.iter().enumerate() {
            for (module, part) in layer {
                if let Some(what) = module.absent(model, idx) {
                    let name = module.path();
                    return Err(bad(format!("it has weights for layer {idx}'s `{name}`, where {what}")));
                }
                let [n_out, n_in] = module.shape(model, idx);
                if (part.n_out, part.n_in) != (n_out, n_in) {
                    let name = module.path();
                    let ours = format!("[{}, {}]", part.n_out, part.n_in);
                    return Err(bad(format!(
                        "layer {idx}'s `{name}` is {ours} in the adapter and [{n_out}, {n_in}] in the model"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Module {
    /// All modules, in the order of a layer.
    pub const ALL: [Self; 7] = [Self::Q, Self::K, Self::V, Self::O, Self::Gate, Self::Up, Self::Down];

    /// The name in `target_modules`: `q_proj`.
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

    /// The module with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|module| module.name() == name)
    }

    /// Its name below a layer: `self_attn.q_proj`.
    pub fn path(self) -> String {
        let half = if self.is_of_attention() { "self_attn" } else { "mlp" };
        format!("{half}.{}", self.name())
    }

    fn is_of_attention(self) -> bool {
        matches!(self, Self::Q | Self::K | Self::V | Self::O)
    }

    /// The reason why a layer has no such matrix; `None` where it has one.
    fn absent(self, model: &Config, layer: usize) -> Option<&'static str> {
        if !self.is_of_attention() {
            let has_dense = model.experts_of(layer).is_none_or(|experts| experts.beside_dense);
            let has_no_gate = self == Self::Gate && !model.has_gate();
            return has_no_gate
                .then_some("the model has no gate")
                .or((!has_dense).then_some("the model has experts"));
        }
        if model.delta_net_of(layer).is_some() {
            return Some("the model has linear attention");
        }
        if model.attention_of(layer).latent.is_some() {
            return Some("the model has latent attention");
        }
        (self == Self::V && model.attention_of(layer).values_are_keys).then_some("the keys are the values")
    }

    /// Outputs and inputs of the model's matrix: `[n_out, n_in]`.
    pub fn shape(self, model: &Config, layer: usize) -> [usize; 2] {
        let kind = model.kind_of(layer);
        let (q, kv) = (model.query_width(kind), model.attention(kind).kv_width());
        match self {
            // A gate beside the queries.
            Self::Q if model.gated_attention => [2 * q, model.hidden],
            Self::Q => [q, model.hidden],
            Self::K | Self::V => [kv, model.hidden],
            Self::O => [model.hidden, q],
            Self::Gate | Self::Up => [model.intermediate, model.hidden],
            Self::Down => [model.hidden, model.intermediate],
        }
    }
}

#[cfg(test)]
mod tests;
