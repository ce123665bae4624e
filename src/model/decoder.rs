//! The decoder shared by all architectures: what differs stands in its [`Config`].
//! One call runs one step of any mix of prompt chunks and single tokens; the cache is the caller's.

use std::borrow::Cow;

use candle_core::{Device, Tensor};

use super::{
    BLOCK, Config, Error, KvCache, Weights,
    config::{Arch, Rope},
    cpu::attend::Row,
    layers::{
        activate::Gated,
        attention::Attend,
        linear::{Compute, Embedding, Linear},
        norm::rms_norm,
        residual::add_to,
        rotary::{Angles, HeadNorm, Heads, Queries, Turn, WriteKeys, WriteValues},
    },
};

/// A loaded model.
pub struct Decoder {
    config: Config,
    device: Device,
    compute: Compute,
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    norm: Tensor,
    lm_head: Linear<1>,
}

/// Neighbouring tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Span {
    /// Tokens of this step that belong to the sequence.
    pub n_tokens: usize,
    /// Position of the first of them in the sequence.
    pub position: usize,
    /// The sequence's blocks, in order; they hold at least `position + n_tokens` tokens.
    pub blocks: Vec<u32>,
}

/// One step of work.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Ids, span after span.
    pub tokens: Vec<u32>,
    pub spans: Vec<Span>,
    /// Indices into `tokens` whose next-token logits are wanted.
    pub logit_rows: Vec<u32>,
}

struct Layer {
    input_layernorm: Tensor,
    qkv: Linear<3>,
    q_norm: Option<HeadNorm>,
    k_norm: Option<HeadNorm>,
    o_proj: Linear<1>,
    /// The norm before the feed-forward half.
    mlp_norm: Tensor,
    gate_up: Linear<2>,
    down_proj: Linear<1>,
    /// Gemma's norms of each half's output.
    post_norms: Option<(Tensor, Tensor)>,
    sliding: bool,
}

/// What all layers of a step share.
struct Step<'a> {
    rows: Vec<Row<'a>>,
    slots: Vec<u32>,
    angles: Angles,
    local_angles: Option<Angles>,
}

impl Decoder {
    /// Loads a checkpoint onto a device.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape than the configuration says.
    pub fn load(weights: &Weights, device: &Device, compute: Compute) -> Result<Self, Error> {
        let config = weights.config().clone();
        let (vocab, hidden) = (config.vocab, config.hidden);
        let embed_tokens = Embedding::load(weights, "model.embed_tokens.weight", [vocab, hidden], compute)?;
        let lm_head = if config.tied {
            Linear::tied(&embed_tokens, compute)
        } else {
            Linear::load(weights, [("lm_head", vocab)], hidden, compute)?
        };
        let load = Load { weights, config: &config, device, compute };
        let layers = (0..config.n_layers).map(|layer| load.layer(layer)).collect::<Result<_, _>>()?;
        let norm = load.norm("model.norm")?;
        Ok(Self { device: device.clone(), compute, embed_tokens, layers, norm, lm_head, config })
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs one step: writes the tokens' keys and values to the cache and gives the wanted logits.
    ///
    /// Shape: `[logit_rows, vocab]`, f32.
    ///
    /// # Errors
    /// As candle's.
    pub fn forward(&self, input: &Input, cache: &mut KvCache) -> Result<Tensor, Error> {
        let step = self.step(input);
        let mut x = self.embed_tokens.forward(&input.tokens)?; // [tokens, hidden]
        if let Some(scale) = self.config.embedding_scale {
            x = (x * f64::from(scale))?;
        }
        let last = self.layers.len() - 1;
        for idx in 0..self.layers.len() {
            // Above the last layer's keys and values, only rows whose logits are wanted go on.
            let wanted = (idx == last).then_some(input.logit_rows.as_slice());
            x = self.layer(idx, x, &step, wanted, cache)?;
        }
        if input.logit_rows.is_empty() {
            return Ok(Tensor::zeros((0, self.config.vocab), candle_core::DType::F32, &self.device)?);
        }
        let [logits] = self.lm_head.forward(&rms_norm(&x, &self.norm, self.config.norm_eps)?)?;
        Ok(logits)
    }

    fn step<'a>(&self, input: &'a Input) -> Step<'a> {
        let mut rows = Vec::with_capacity(input.tokens.len());
        let mut slots = Vec::with_capacity(input.tokens.len());
        for span in &input.spans {
            for position in span.position..span.position + span.n_tokens {
                rows.push(Row { position, blocks: &span.blocks });
                slots.push(span.blocks[position / BLOCK] * BLOCK as u32 + (position % BLOCK) as u32);
            }
        }
        let positions: Vec<u32> = rows.iter().map(|row| row.position as u32).collect();
        let angles = |rope: &Rope| {
            let (frequencies, scale) = rope.frequencies(self.config.head_dim);
            Angles::new(&positions, &frequencies, scale)
        };
        let local_angles = self.config.local_rope.as_ref().map(angles);
        Step { angles: angles(&self.config.rope), local_angles, rows, slots }
    }

    /// Takes the residual stream `x` through one layer; behind its attention only the `wanted` rows, if some are
    /// named.
    ///
    /// Shape: `[tokens, hidden]` -> `[wanted, hidden]`.
    fn layer(
        &self,
        idx: usize,
        mut x: Tensor,
        step: &Step<'_>,
        wanted: Option<&[u32]>,
        cache: &mut KvCache,
    ) -> Result<Tensor, Error> {
        let (layer, eps) = (&self.layers[idx], self.config.norm_eps);
        let mut q = self.project(idx, &rms_norm(&x, &layer.input_layernorm, eps)?, step, cache)?;
        let mut rows = Cow::Borrowed(&step.rows);
        if let Some(wanted) = wanted.filter(|wanted| wanted.len() < step.rows.len()) {
            let ids = Tensor::new(wanted, &self.device)?;
            (x, q) = (x.index_select(&ids, 0)?, q.index_select(&ids, 0)?);
            rows = Cow::Owned(wanted.iter().map(|&row| step.rows[row as usize]).collect());
            if wanted.is_empty() {
                return Ok(x);
            }
        }
        let mut h = self.attend(idx, &q, &rows, cache)?; // [rows, hidden]
        if let Some((after_attention, _)) = &layer.post_norms {
            h = rms_norm(&h, after_attention, eps)?;
        }
        add_to(&x, &h)?;
        let h = rms_norm(&x, &layer.mlp_norm, eps)?;
        let [gate, up] = layer.gate_up.forward(&h)?; // [rows, intermediate]
        gate.inplace_op2(&up, &Gated { activation: self.config.activation, tier: self.compute.tier })?;
        let [mut h] = layer.down_proj.forward(&gate)?; // [rows, hidden]
        if let Some((_, after_mlp)) = &layer.post_norms {
            h = rms_norm(&h, after_mlp, eps)?;
        }
        add_to(&x, &h)?;
        Ok(x)
    }

    /// Writes the step's keys and values to the cache and gives its queries.
    ///
    /// Shape: `[tokens, hidden]` -> `[tokens, heads head_dim]`.
    fn project(&self, idx: usize, h: &Tensor, step: &Step<'_>, cache: &mut KvCache) -> Result<Tensor, Error> {
        let layer = &self.layers[idx];
        let heads = self.config.heads();
        let angles = if layer.sliding { step.local_angles.as_ref() } else { None }.unwrap_or(&step.angles);
        let turn = |norm| Turn { heads, norm, angles };
        let [q, k, v] = layer.qkv.forward(h)?; // [tokens, heads head_dim]
        cache.keys[idx]
            .inplace_op2(&k, &WriteKeys { turn: turn(layer.k_norm.as_ref()), slots: &step.slots })?;
        cache.values[idx].inplace_op2(&v, &WriteValues { heads, slots: &step.slots })?;
        let queries = Queries { turn: turn(layer.q_norm.as_ref()), scale: self.config.attention_scale };
        Ok(q.apply_op1_no_bwd(&queries)?)
    }

    /// Shape: `[rows, heads head_dim]` -> `[rows, hidden]`.
    fn attend(&self, idx: usize, q: &Tensor, rows: &[Row<'_>], cache: &KvCache) -> Result<Tensor, Error> {
        let layer = &self.layers[idx];
        let window = self.config.window.filter(|_| layer.sliding);
        let attend = Attend { heads: self.config.heads(), window, rows, tier: self.compute.tier };
        let attended = q.apply_op3_no_bwd(&cache.keys[idx], &cache.values[idx], &attend)?;
        let [out] = layer.o_proj.forward(&attended)?;
        Ok(out)
    }
}

impl Config {
    /// How many heads, and how wide.
    #[must_use]
    pub fn heads(&self) -> Heads {
        Heads { n_heads: self.n_heads, n_kv_heads: self.n_kv_heads, head_dim: self.head_dim }
    }
}

/// What every tensor is loaded with.
struct Load<'a> {
    weights: &'a Weights,
    config: &'a Config,
    device: &'a Device,
    compute: Compute,
}

impl Load<'_> {
    fn layer(&self, layer: usize) -> Result<Layer, Error> {
        let c = self.config;
        let at = |part: &str| format!("model.layers.{layer}.{part}");
        let (q, kv) = (c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim);
        let gemma = c.arch == Arch::Gemma3;
        let mlp_norm = if gemma { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
        let post_norms = if gemma {
            let after_attention = self.norm(&at("post_attention_layernorm"))?;
            Some((after_attention, self.norm(&at("post_feedforward_layernorm"))?))
        } else {
            None
        };
        let qkv = [(at("self_attn.q_proj"), q), (at("self_attn.k_proj"), kv), (at("self_attn.v_proj"), kv)];
        let gate_up = [(at("mlp.gate_proj"), c.intermediate), (at("mlp.up_proj"), c.intermediate)];
        Ok(Layer {
            input_layernorm: self.norm(&at("input_layernorm"))?,
            qkv: self.linear(&qkv, c.hidden)?,
            q_norm: self.head_norm(&at("self_attn.q_norm"))?,
            k_norm: self.head_norm(&at("self_attn.k_norm"))?,
            o_proj: self.linear(&[(at("self_attn.o_proj"), c.hidden)], q)?,
            mlp_norm: self.norm(&at(mlp_norm))?,
            gate_up: self.linear(&gate_up, c.hidden)?,
            down_proj: self.linear(&[(at("mlp.down_proj"), c.hidden)], c.intermediate)?,
            post_norms,
            sliding: c.sliding[layer],
        })
    }

    fn linear<const N: usize>(&self, parts: &[(String, usize); N], k: usize) -> Result<Linear<N>, Error> {
        let parts = std::array::from_fn(|i| (parts[i].0.as_str(), parts[i].1));
        Linear::load(self.weights, parts, k, self.compute)
    }

    fn norm(&self, name: &str) -> Result<Tensor, Error> {
        let n = self.config.hidden;
        Ok(Tensor::from_vec(self.norm_weight(name, n)?, n, self.device)?)
    }

    fn head_norm(&self, name: &str) -> Result<Option<HeadNorm>, Error> {
        if !self.weights.contains(&format!("{name}.weight")) {
            return Ok(None);
        }
        let weight = self.norm_weight(name, self.config.head_dim)?;
        Ok(Some(HeadNorm { weight, eps: self.config.norm_eps as f32 }))
    }

    /// Norm weights in f32. Gemma's safetensors hold w of (1 + w); its GGUF files have the 1 added already.
    fn norm_weight(&self, name: &str, n: usize) -> Result<Vec<f32>, Error> {
        let mut values = self.weights.floats(&format!("{name}.weight"), n)?;
        if self.config.arch == Arch::Gemma3 && self.weights.metadata().is_none() {
            for w in &mut values {
                *w += 1.0;
            }
        }
        Ok(values)
    }
}
