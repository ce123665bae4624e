//! The upper layers' forward pass for training: what [`crate::model::decoder`] computes, in operations that have
//! gradients, over rows that several examples share. It knows no answer and no loss.
//!
//! Candle's fused norms, softmax and rotary embedding have no gradient and say nothing of it: none of them is here.

use std::{ops::Range, sync::Arc};

use candle_core::{D, Device, Result, Tensor};

use super::{
    attend::{Attend, Heads, Sight},
    frozen::Product,
    lora::{Adapters, Dropout},
};
use crate::model::{
    Config, Weights,
    adapter::Module,
    angles::Angles,
    config::{Activation, Arch, Rope},
};

/// Some of the layers, and behind the last one the norm and the output matrix, all frozen.
pub struct Upper {
    config: Config,
    first: usize,
    layers: Vec<Layer>,
    tail: Option<Tail>,
}

/// What stands behind the last layer.
struct Tail {
    norm: Tensor,
    /// Shape: `[vocab, hidden]`.
    head: Product,
}

struct Layer {
    input_layernorm: Tensor,
    mlp_norm: Tensor,
    q_norm: Option<Tensor>,
    k_norm: Option<Tensor>,
    post_norms: Option<(Tensor, Tensor)>,
    /// In the order of [`Module::ALL`].
    products: Vec<(Product, Option<Tensor>)>,
}

/// Rows of several examples: those that all begin with first, then each one's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Rows that all sequences begin with.
    pub n_shared: usize,
    /// Rows of each sequence's own.
    pub n_own: Vec<usize>,
    /// Rows whose next token is wanted, ascending, each sequence's own ones; counted from its first row, shared ones
    /// included.
    pub wanted: Vec<Vec<usize>>,
}

impl Batch {
    /// Positions of all rows.
    fn positions(&self) -> Vec<usize> {
        let own = self.n_own.iter().flat_map(|n| self.n_shared..self.n_shared + n);
        (0..self.n_shared).chain(own).collect()
    }

    /// The first row of each sequence's own.
    fn starts(&self) -> Vec<usize> {
        let start = |start: &mut usize, n: &usize| {
            *start += n;
            Some(*start - n)
        };
        self.n_own.iter().scan(self.n_shared, start).collect()
    }

    /// The wanted rows of the batch.
    fn wanted_rows(&self) -> Vec<u32> {
        let rows = self.starts().into_iter().zip(&self.wanted);
        rows.flat_map(|(start, wanted)| wanted.iter().map(move |at| (start + at - self.n_shared) as u32))
            .collect()
    }

    fn sights(&self) -> Vec<Sight> {
        let shared = 0..self.n_shared;
        let mut sights = Vec::new();
        if self.n_shared > 0 {
            let keys = [shared.clone(), 0..0];
            sights.push(Sight { queries: shared.clone(), positions: shared.clone().collect(), keys });
        }
        for (start, n) in self.starts().into_iter().zip(&self.n_own) {
            let positions = (self.n_shared..self.n_shared + n).collect();
            let own = start..start + n;
            sights.push(Sight { queries: own.clone(), positions, keys: [shared.clone(), own] });
        }
        sights
    }

    /// The same for the wanted rows alone.
    fn wanted_sights(&self) -> Vec<Sight> {
        let mut first = 0;
        let mut sights = Vec::new();
        for ((start, n), wanted) in self.starts().into_iter().zip(&self.n_own).zip(&self.wanted) {
            let queries = first..first + wanted.len();
            first = queries.end;
            sights.push(Sight {
                queries,
                positions: wanted.clone(),
                keys: [0..self.n_shared, start..start + n],
            });
        }
        sights
    }
}

/// The cosines or the sines of a position's.
type Part = fn((&[f32], &[f32])) -> Vec<f32>;

impl Upper {
    /// Loads these layers, with norm and output matrix where the last one is among them.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape than the configuration says, or no memory.
    pub fn load(weights: &Weights, layers: Range<usize>) -> std::result::Result<Self, super::Error> {
        let config = weights.config().clone();
        let name = if config.tied { "model.embed_tokens.weight" } else { "lm_head.weight" };
        let tail = if layers.end == config.n_layers {
            let norm = norm(weights, "model.norm", config.hidden)?;
            Some(Tail { norm, head: Product::load(weights, name, [config.vocab, config.hidden])? })
        } else {
            None
        };
        let first = layers.start;
        let layers =
            layers.map(|idx| Layer::load(weights, idx)).collect::<std::result::Result<_, super::Error>>()?;
        Ok(Self { config, first, layers, tail })
    }

    /// The output matrix, where the last layer is there.
    ///
    /// Shape: `[vocab, hidden]`.
    #[must_use]
    pub fn head(&self) -> Option<&Product> {
        self.tail.as_ref().map(|tail| &tail.head)
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What leaves the last of the layers, of the wanted rows: normed, where the output matrix comes next.
    ///
    /// Shape: `[rows, hidden]` -> `[wanted, hidden]`.
    ///
    /// # Errors
    /// A batch of another number of rows.
    pub fn forward(
        &self,
        mut x: Tensor,
        batch: &Batch,
        adapters: &Adapters,
        dropout: Option<Dropout>,
    ) -> Result<Tensor> {
        let positions = batch.positions();
        let global = self.turning(&self.config.rope, &positions)?;
        let local = self.config.local_rope.as_ref().map(|rope| self.turning(rope, &positions)).transpose()?;
        let wanted = Tensor::new(batch.wanted_rows(), &Device::Cpu)?;
        let (all, few) = (Arc::new(batch.sights()), Arc::new(batch.wanted_sights()));
        for (idx, layer) in self.layers.iter().enumerate() {
            let at = self.first + idx;
            let is_last = idx + 1 == self.layers.len();
            let turning = local.as_ref().filter(|_| self.config.sliding[at]).unwrap_or(&global);
            let pass = Pass { config: &self.config, layer, at, adapters, dropout };
            let h = pass.normed(&x, &layer.input_layernorm)?;
            let [k, v] = [Module::K, Module::V].map(|module| pass.product(module, &h));
            let k = pass.turned(&k?, layer.k_norm.as_ref(), turning)?;
            // Behind the last keys and values, only wanted rows go on.
            let (mut turning, mut h, mut sights) = (turning.clone(), h, &all);
            if is_last {
                x = x.index_select(&wanted, 0)?;
                h = h.index_select(&wanted, 0)?;
                turning = turning.rows(&wanted)?;
                sights = &few;
            }
            let q = pass.turned(&pass.product(Module::Q, &h)?, layer.q_norm.as_ref(), &turning)?;
            let attend = Attend { heads: pass.heads(), sights: Arc::clone(sights) };
            x = pass.rest(x, &attend.apply(&q, &k, &v?)?)?;
        }
        match &self.tail {
            Some(tail) => normed(&x, &tail.norm, self.config.norm_eps),
            None => Ok(x),
        }
    }

    fn turning(&self, rope: &Rope, positions: &[usize]) -> Result<Turning> {
        let mut angles = Angles::new(rope, self.config.head_dim);
        angles.reach(positions.iter().max().map_or(0, |position| position + 1));
        let half = self.config.head_dim / 2;
        let table = |part: Part| {
            let values: Vec<f32> = positions.iter().flat_map(|&at| part(angles.at(at as u32))).collect();
            Tensor::from_vec(values, (positions.len(), 1, half), &Device::Cpu)
        };
        Ok(Turning { cos: table(|(cos, _)| cos.to_vec())?, sin: table(|(_, sin)| sin.to_vec())? })
    }
}

/// Cosines and sines of each row.
#[derive(Clone)]
struct Turning {
    /// Shape: `[rows, 1, head_dim / 2]`.
    cos: Tensor,
    sin: Tensor,
}

impl Turning {
    fn rows(&self, rows: &Tensor) -> Result<Self> {
        Ok(Self { cos: self.cos.index_select(rows, 0)?, sin: self.sin.index_select(rows, 0)? })
    }
}

/// One layer in one pass.
struct Pass<'a> {
    config: &'a Config,
    layer: &'a Layer,
    at: usize,
    adapters: &'a Adapters,
    dropout: Option<Dropout>,
}

impl Pass<'_> {
    fn heads(&self) -> Heads {
        let c = self.config;
        Heads {
            n_heads: c.n_heads,
            n_kv_heads: c.n_kv_heads,
            head_dim: c.head_dim,
            scale: c.attention_scale,
            window: c.window.filter(|_| c.sliding[self.at]),
        }
    }

    fn normed(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        normed(x, weight, self.config.norm_eps)
    }

    /// A frozen matrix with its adapter.
    fn product(&self, module: Module, x: &Tensor) -> Result<Tensor> {
        let (product, bias) = &self.layer.products[module as usize];
        let mut y = product.apply(x)?;
        if let Some(bias) = bias {
            y = y.broadcast_add(bias)?;
        }
        match self.adapters.added((self.at, module), x, self.dropout)? {
            Some(added) => y + added,
            None => Ok(y),
        }
    }

    /// Norms and turns heads: of `(a, b)`, the two halves of a head, `(a cos - b sin, b cos + a sin)`.
    fn turned(&self, x: &Tensor, norm: Option<&Tensor>, turning: &Turning) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let dim = self.config.head_dim;
        let mut x = x.reshape((rows, width / dim, dim))?;
        if let Some(weight) = norm {
            x = self.normed(&x, weight)?;
        }
        let (a, b) = (x.narrow(D::Minus1, 0, dim / 2)?, x.narrow(D::Minus1, dim / 2, dim / 2)?);
        let Turning { cos, sin } = turning;
        let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
        let second = (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?;
        Tensor::cat(&[first, second], D::Minus1)?.reshape((rows, width))
    }

    /// What follows attention.
    fn rest(&self, x: Tensor, attended: &Tensor) -> Result<Tensor> {
        let post =
            |y: Tensor, norm: Option<&Tensor>| norm.map_or(Ok(y.clone()), |norm| self.normed(&y, norm));
        let norms = self.layer.post_norms.as_ref();
        let x = (x + post(self.product(Module::O, attended)?, norms.map(|norms| &norms.0))?)?;
        let h = self.normed(&x, &self.layer.mlp_norm)?;
        let gate = self.product(Module::Gate, &h)?;
        let gate = match self.config.activation {
            Activation::Silu => gate.silu()?,
            Activation::GeluTanh => gate.gelu()?,
        };
        let gated = (gate * self.product(Module::Up, &h)?)?;
        let down = self.product(Module::Down, &gated)?;
        x + post(down, norms.map(|norms| &norms.1))?
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight`, along the last dimension.
fn normed(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean + eps)?.sqrt()?)?.broadcast_mul(weight)
}

impl Layer {
    fn load(weights: &Weights, idx: usize) -> std::result::Result<Self, super::Error> {
        let c = weights.config();
        let at = |part: &str| format!("model.layers.{idx}.{part}");
        let gemma = c.arch == Arch::Gemma3;
        let head_norm = |part: &str| {
            let name = at(part);
            let there = weights.contains(&format!("{name}.weight"));
            there.then(|| norm(weights, &name, c.head_dim)).transpose()
        };
        let product = |module: Module| {
            let name = at(&module.path());
            let [n, k] = module.shape(c);
            let bias = format!("{name}.bias");
            let bias = if weights.contains(&bias) {
                Some(Tensor::from_vec(weights.floats(&bias, n)?, n, &Device::Cpu)?)
            } else {
                None
            };
            Ok((Product::load(weights, &format!("{name}.weight"), [n, k])?, bias))
        };
        let after = "post_attention_layernorm";
        let post_norms = if gemma {
            let after_mlp = norm(weights, &at("post_feedforward_layernorm"), c.hidden)?;
            Some((norm(weights, &at(after), c.hidden)?, after_mlp))
        } else {
            None
        };
        let mlp_norm = if gemma { "pre_feedforward_layernorm" } else { after };
        Ok(Self {
            input_layernorm: norm(weights, &at("input_layernorm"), c.hidden)?,
            mlp_norm: norm(weights, &at(mlp_norm), c.hidden)?,
            q_norm: head_norm("self_attn.q_norm")?,
            k_norm: head_norm("self_attn.k_norm")?,
            post_norms,
            products: Module::ALL
                .into_iter()
                .map(product)
                .collect::<std::result::Result<_, super::Error>>()?,
        })
    }
}

/// Norm weights. Gemma's safetensors hold w of (1 + w).
fn norm(weights: &Weights, name: &str, n: usize) -> std::result::Result<Tensor, super::Error> {
    let mut values = weights.floats(&format!("{name}.weight"), n)?;
    if weights.config().arch == Arch::Gemma3 && weights.metadata().is_none() {
        for w in &mut values {
            *w += 1.0;
        }
    }
    Ok(Tensor::from_vec(values, n, &Device::Cpu)?)
}
