//! The decoder shared by all architectures: what differs stands in its [`Config`].
//! One call runs one step of any mix of prompt chunks and single tokens; the cache is the caller's.

use candle_core::{Device, Tensor};

use super::{
    BLOCK, Config, Error, KvCache, Weights,
    config::{Arch, Rope},
    cpu::{Tier, attend::Row},
    layers::{
        activate::Gated,
        attention::Attend,
        linear::{Embedding, Linear},
        norm::rms_norm,
        rotary::{Angles, HeadNorm, Heads, Queries, Turn, WriteKeys, WriteValues},
    },
};

/// A loaded model.
pub struct Decoder {
    config: Config,
    device: Device,
    tier: Tier,
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    norm: Tensor,
    lm_head: Linear,
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
    qkv: Linear,
    q_norm: Option<HeadNorm>,
    k_norm: Option<HeadNorm>,
    o_proj: Linear,
    /// The norm before the feed-forward half.
    mlp_norm: Tensor,
    gate_up: Linear,
    down_proj: Linear,
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
    pub fn load(weights: &Weights, device: &Device, tier: Tier) -> Result<Self, Error> {
        let config = weights.config().clone();
        let embed_tokens =
            Embedding::load(weights, "model.embed_tokens.weight", [config.vocab, config.hidden], device)?;
        let lm_head = if config.tied {
            Linear::tied(&embed_tokens)?
        } else {
            Linear::load(weights, &[("lm_head", config.vocab)], config.hidden, device)?
        };
        let layers = (0..config.n_layers)
            .map(|layer| Layer::load(weights, &config, layer, device))
            .collect::<Result<_, _>>()?;
        let norm = norm(weights, "model.norm", &config, device)?;
        Ok(Self { device: device.clone(), tier, embed_tokens, layers, norm, lm_head, config })
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
        for (idx, layer) in self.layers.iter().enumerate() {
            x = self.layer(idx, layer, &x, &step, cache)?;
        }
        let wanted = Tensor::new(input.logit_rows.as_slice(), &self.device)?;
        let x = x.index_select(&wanted, 0)?; // [logit_rows, hidden]
        if input.logit_rows.is_empty() {
            return Ok(Tensor::zeros((0, self.config.vocab), candle_core::DType::F32, &self.device)?);
        }
        self.lm_head.forward(&rms_norm(&x, &self.norm, self.config.norm_eps)?)
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

    fn layer(
        &self,
        idx: usize,
        layer: &Layer,
        x: &Tensor,
        step: &Step<'_>,
        cache: &mut KvCache,
    ) -> Result<Tensor, Error> {
        let eps = self.config.norm_eps;
        let h = rms_norm(x, &layer.input_layernorm, eps)?;
        let mut h = self.attend(idx, layer, &h, step, cache)?; // [tokens, hidden]
        if let Some((after_attention, _)) = &layer.post_norms {
            h = rms_norm(&h, after_attention, eps)?;
        }
        let x = (x + h)?;
        let h = rms_norm(&x, &layer.mlp_norm, eps)?;
        let h = layer.gate_up.forward(&h)?; // [tokens, 2 intermediate]
        let h = h.apply_op1_no_bwd(&Gated { activation: self.config.activation, tier: self.tier })?;
        let mut h = layer.down_proj.forward(&h)?; // [tokens, hidden]
        if let Some((_, after_mlp)) = &layer.post_norms {
            h = rms_norm(&h, after_mlp, eps)?;
        }
        Ok((x + h)?)
    }

    fn attend(
        &self,
        idx: usize,
        layer: &Layer,
        h: &Tensor,
        step: &Step<'_>,
        cache: &mut KvCache,
    ) -> Result<Tensor, Error> {
        let config = &self.config;
        let heads = config.heads();
        let angles = if layer.sliding { step.local_angles.as_ref() } else { None }.unwrap_or(&step.angles);
        let turn = |norm| Turn { heads, norm, angles };
        let qkv = layer.qkv.forward(h)?; // [tokens, (H + 2 KV) head_dim]
        let (keys, values) = (&cache.keys[idx], &cache.values[idx]);
        keys.inplace_op2(&qkv, &WriteKeys { turn: turn(layer.k_norm.as_ref()), slots: &step.slots })?;
        values.inplace_op2(&qkv, &WriteValues { heads, slots: &step.slots })?;
        let queries = Queries { turn: turn(layer.q_norm.as_ref()), scale: config.attention_scale };
        let q = qkv.apply_op1_no_bwd(&queries)?; // [tokens, H head_dim]
        let window = config.window.filter(|_| layer.sliding);
        let attend = Attend { heads, window, rows: &step.rows, tier: self.tier };
        layer.o_proj.forward(&q.apply_op3_no_bwd(keys, values, &attend)?)
    }
}

impl Config {
    /// How the heads lie in a row of `[q | k | v]`.
    #[must_use]
    pub fn heads(&self) -> Heads {
        Heads { n_heads: self.n_heads, n_kv_heads: self.n_kv_heads, head_dim: self.head_dim }
    }
}

impl Layer {
    fn load(weights: &Weights, c: &Config, layer: usize, device: &Device) -> Result<Self, Error> {
        let at = |part: &str| format!("model.layers.{layer}.{part}");
        let linear = |parts: &[(&str, usize)], k: usize| {
            let named: Vec<(String, usize)> = parts.iter().map(|&(name, n)| (at(name), n)).collect();
            let parts: Vec<(&str, usize)> = named.iter().map(|(name, n)| (name.as_str(), *n)).collect();
            Linear::load(weights, &parts, k, device)
        };
        let norm_at = |part: &str| norm(weights, &at(part), c, device);
        let (q, kv) = (c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim);
        let gemma = c.arch == Arch::Gemma3;
        let mlp_norm = if gemma { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
        let post_norms = if gemma {
            Some((norm_at("post_attention_layernorm")?, norm_at("post_feedforward_layernorm")?))
        } else {
            None
        };
        Ok(Self {
            input_layernorm: norm_at("input_layernorm")?,
            qkv: linear(
                &[("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)],
                c.hidden,
            )?,
            q_norm: head_norm(weights, &at("self_attn.q_norm"), c)?,
            k_norm: head_norm(weights, &at("self_attn.k_norm"), c)?,
            o_proj: linear(&[("self_attn.o_proj", c.hidden)], q)?,
            mlp_norm: norm_at(mlp_norm)?,
            gate_up: linear(
                &[("mlp.gate_proj", c.intermediate), ("mlp.up_proj", c.intermediate)],
                c.hidden,
            )?,
            down_proj: linear(&[("mlp.down_proj", c.hidden)], c.intermediate)?,
            post_norms,
            sliding: c.sliding[layer],
        })
    }
}

fn norm(weights: &Weights, name: &str, config: &Config, device: &Device) -> Result<Tensor, Error> {
    let values = norm_weight(weights, name, config, config.hidden)?;
    Ok(Tensor::from_vec(values, config.hidden, device)?)
}

fn head_norm(weights: &Weights, name: &str, config: &Config) -> Result<Option<HeadNorm>, Error> {
    if !weights.contains(&format!("{name}.weight")) {
        return Ok(None);
    }
    let weight = norm_weight(weights, name, config, config.head_dim)?;
    Ok(Some(HeadNorm { weight, eps: config.norm_eps as f32 }))
}

/// Norm weights in f32. Gemma's safetensors hold w of (1 + w); its GGUF files have the 1 added already.
fn norm_weight(weights: &Weights, name: &str, config: &Config, n: usize) -> Result<Vec<f32>, Error> {
    let mut values = weights.floats(&format!("{name}.weight"), n)?;
    if config.arch == Arch::Gemma3 && weights.metadata().is_none() {
        values.iter_mut().for_each(|w| *w += 1.0);
    }
    Ok(values)
}
