//! The differences between decoders: sizes, rope, norms, windows. Read from a Hugging Face `config.json` or
//! from GGUF metadata; it loads no weights.

mod attention;
mod delta_net;
mod encoder;
mod experts;
pub mod gguf;
pub(super) mod hf;
mod norms;

use crate::{Error, Result};

pub(crate) use attention::neighbouring_row;
pub use attention::{Attention, AttentionKind, Latent, Windows};
pub use delta_net::DeltaNet;
pub use encoder::EncoderConfig;
pub use experts::{Experts, MAX_EXPERTS, Routing, Scoring, SharedExpert};
pub use norms::{LayerNorms, QkNorm};

/// Sizes and switches of one decoder. The default is a Llama-like one without sizes.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "switches that families of checkpoints set independently")]
pub struct Config {
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    pub intermediate: usize,
    pub n_layers: usize,
    /// Heads of queries.
    pub n_heads: usize,
    /// The attention of layers that see all keys.
    pub full: Attention,
    /// The attention of layers of a second kind, where there are any: with a window, or without positions
    /// (SmolLM3).
    pub sliding: Option<Attention>,
    /// For each layer, true if it is of the second kind.
    pub slides: Vec<bool>,
    pub norm_eps: f64,
    /// Norms multiply by 1 more than the weights in the file (safetensors of Gemma and of Qwen's hybrids;
    /// GGUF files have the 1 added already).
    pub norm_plus_one: bool,
    /// Norms subtract the mean of their inputs first (Cohere).
    pub norm_centred: bool,
    pub norms: LayerNorms,
    pub qk_norm: QkNorm,
    /// Each head of v has a norm without weights (Gemma 4).
    pub value_norm: bool,
    /// Each head has a learnt logit without a value that joins the softmax (gpt-oss).
    pub sinks: bool,
    /// Each layer's output is multiplied by a number of its own (Gemma 4).
    pub layer_scalars: bool,
    /// q, k and v have biases (Qwen2).
    pub qkv_bias: bool,
    /// The attention's output has a bias.
    pub o_bias: bool,
    /// Gate, up and down have biases.
    pub mlp_bias: bool,
    /// The norms of q and k come after their rotation (Hunyuan).
    pub norm_after_rotation: bool,
    /// In a checkpoint's rows of q and k, and an adapter's, the two values of a rotated pair are neighbours
    /// (GLM-4, Cohere). In memory they are half of the rotated values apart.
    pub neighbours_rotate: bool,
    /// Scores are multiplied by this factor before the softmax.
    pub attention_scale: f32,
    /// Queries are multiplied by a factor that grows with their position (Ministral 3).
    pub query_growth: Option<QueryGrowth>,
    /// Scores become `c tanh(score / c)` before the softmax (Gemma 2).
    pub score_softcap: Option<f32>,
    /// Logits become `c tanh(logit / c)` (Gemma 2).
    pub logit_softcap: Option<f32>,
    /// Logits are multiplied by this (Cohere, Granite).
    pub logit_scale: Option<f32>,
    pub activation: Activation,
    /// The feed-forward half is `down(xielu(up x))`, without a gate, and [`Config::activation`] has no
    /// meaning (Apertus).
    pub xielu: bool,
    /// Queries have a gate beside them: attended values are multiplied by its logistic function (Qwen's
    /// hybrids).
    pub gated_attention: bool,
    /// Gated DeltaNet instead of attention in some layers.
    pub delta_net: Option<DeltaNet>,
    /// Experts instead of some or all dense feed-forward halves.
    pub experts: Option<Experts>,
    /// Embeddings are multiplied by this (in Gemma the square root of the width).
    pub embedding_scale: Option<f32>,
    /// The output matrix is the embedding matrix.
    pub tied: bool,
    /// The head of a model that scores texts, in place of the output matrix.
    pub score_head: Option<ScoreHead>,
    /// A bidirectional encoder in place of a decoder (XLM-R, BERT).
    pub encoder: Option<EncoderConfig>,
    /// Positions that the model supports.
    pub context: usize,
    /// Tokens that end an answer, by their ids in the model's files.
    pub stop_ids: Vec<u32>,
}

/// The head of a model that scores texts: a linear map of the last token's hidden state after the last norm
/// (`*ForSequenceClassification`, reward models).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreHead {
    pub n_outputs: usize,
    /// The padding token: the state of the last other token counts.
    pub padding: Option<u32>,
}

impl ScoreHead {
    /// Its tensors in checkpoints.
    pub const WEIGHT: &str = "score.weight";
    pub const BIAS: &str = "score.bias";
}

/// The nonlinearity of the feed-forward half.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    #[default]
    Silu,
    /// GELU in its tanh approximation.
    GeluTanh,
    /// `(up + 1) gate / (1 + e^(-alpha gate))`, with `gate` cut at `limit` and `up` at `-limit` and `limit`
    /// (gpt-oss).
    ClampedSilu { alpha: f32, limit: f32 },
}

/// Queries at `position` are multiplied by `1 + beta ln(1 + floor(position / original))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryGrowth {
    pub beta: f64,
    /// Positions of pretraining.
    pub original: f64,
}

impl QueryGrowth {
    /// The factor at a position.
    pub fn at(self, position: u32) -> f32 {
        (1.0 + self.beta * (f64::from(position) / self.original).floor().ln_1p()) as f32
    }
}

/// Rotary position embedding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rope {
    pub theta: f64,
    pub scaling: Scaling,
}

/// Extension of rope past the positions of pretraining.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scaling {
    #[default]
    None,
    /// Positions divided by a factor.
    Linear(f64),
    /// Dynamic NTK: none up to the model's own positions; past them, angles would depend on the length of the
    /// text, which is not supported.
    Dynamic,
    /// NTK with a constant factor: the base is multiplied by `alpha ^ (d / (d - 2))`, for a head of d values.
    NtkAlpha(f64),
    /// Llama 3: high frequencies kept, low ones divided, a smooth step between.
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
    /// `YaRN`: interpolated and extrapolated frequencies blended, attention scaled.
    Yarn {
        factor: f64,
        original: f64,
        beta_fast: f64,
        beta_slow: f64,
        attention: Option<f64>,
        truncate: bool,
    },
    /// A divisor per frequency (GGUF's `rope_freqs.weight`).
    Factors(Vec<f32>),
    /// The first pairs of a head are rotated, with frequencies that are divided by a factor; the others are
    /// not rotated (full layers of Gemma 4).
    Proportional { pairs: usize, factor: f64 },
    /// `LongRoPE` up to the positions of pretraining: a divisor per frequency, and a factor on cos and sin.
    /// Past them other divisors are in force for the whole text, which is not supported.
    ///
    /// Source: Ding et al. (2024), `LongRoPE`, algorithm 1; the factor is that of Phi-3.
    Long { short: Vec<f32>, attention: f64, original: usize },
    /// No value is rotated: attention without positions.
    Unrotated,
}

impl Rope {
    /// Angular frequencies and the factor on cos and sin.
    ///
    /// Shape: `[rotary_dim / 2]`.
    pub fn frequencies(&self, rotary_dim: usize) -> (Vec<f32>, f32) {
        let plain = |i: usize| 1.0 / self.theta.powf((2 * i) as f64 / rotary_dim as f64);
        let half = rotary_dim / 2;
        let all = |f: &dyn Fn(usize) -> f64| (0..half).map(|i| f(i) as f32).collect::<Vec<f32>>();
        match &self.scaling {
            Scaling::None | Scaling::Dynamic => (all(&plain), 1.0),
            Scaling::NtkAlpha(alpha) => {
                let dim = rotary_dim as f64;
                let theta = self.theta * alpha.powf(dim / (dim - 2.0));
                (all(&|i| 1.0 / theta.powf((2 * i) as f64 / dim)), 1.0)
            }
            Scaling::Linear(factor) => (all(&|i| plain(i) / factor), 1.0),
            Scaling::Long { short, attention, .. } => {
                (all(&|i| plain(i) / f64::from(short[i])), *attention as f32)
            }
            Scaling::Unrotated => (all(&|_| 0.0), 1.0),
            Scaling::Factors(by) => (all(&|i| plain(i) / f64::from(by[i])), 1.0),
            Scaling::Proportional { pairs, factor } => {
                (all(&|i| if i < *pairs { plain(i) / factor } else { 0.0 }), 1.0)
            }
            Scaling::Llama3 { factor, low, high, original } => {
                (all(&|i| llama3(plain(i), *factor, *low, *high, *original)), 1.0)
            }
            Scaling::Yarn { factor, attention, .. } => {
                let ramp = self.yarn_ramp(rotary_dim);
                let blend = |i: usize| {
                    let keep = 1.0 - ramp(i);
                    plain(i) / factor * (1.0 - keep) + plain(i) * keep
                };
                let scale = attention.unwrap_or_else(|| yarn_attention(*factor));
                (all(&blend), scale as f32)
            }
        }
    }

    /// 0 where a frequency is kept, 1 where it is interpolated, linear between.
    ///
    /// Source: Peng et al. 2023, `YaRN`, section 3.2.
    fn yarn_ramp(&self, rotary_dim: usize) -> impl Fn(usize) -> f64 + use<> {
        let Scaling::Yarn { original, beta_fast, beta_slow, truncate, .. } = self.scaling else {
            unreachable!("called for yarn only")
        };
        let dim = |rotations: f64| {
            let turns = original / (rotations * 2.0 * std::f64::consts::PI);
            rotary_dim as f64 * turns.ln() / (2.0 * self.theta.ln())
        };
        let (mut low, mut high) = (dim(beta_fast), dim(beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(rotary_dim as f64 - 1.0));
        let width = if high.total_cmp(&low).is_eq() { 0.001 } else { high - low };
        move |i| ((i as f64 - low) / width).clamp(0.0, 1.0)
    }
}

impl Config {
    /// Returns true if the feed-forward half has a gate.
    pub fn has_gate(&self) -> bool {
        !self.xielu && self.encoder.is_none()
    }

    /// Checks that the model has positions, or angles, for a context.
    ///
    /// # Errors
    /// An encoder of fewer positions, and a rope whose angles change with the length of a text past
    /// [`Config::context`]; `path` is for the message.
    pub fn check_context(&self, path: &str, context: usize) -> Result<()> {
        if self.encoder.is_some() && context > self.context {
            let reason = format!("leaves {0} positions for a text; hint: `--context {0}`", self.context);
            return Err(Error::Config { path: path.into(), key: "max_position_embeddings".into(), reason });
        }
        let changing = |attention: &Attention| match attention.rope.scaling {
            Scaling::Dynamic => Some("dynamic"),
            Scaling::Long { .. } => Some("longrope"),
            _ => None,
        };
        let Some(kind) = self.attentions().find_map(changing).filter(|_| context > self.context) else {
            return Ok(());
        };
        let reason = format!(
            "is `{kind}`: past {0} positions its angles change with the length of the text; hint: `--context {0}`",
            self.context
        );
        Err(Error::Config { path: path.into(), key: "rope_type".into(), reason })
    }
}

/// The factor that `YaRN` puts on cos and sin when the checkpoint names none.
fn yarn_attention(factor: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 }
}

/// Source: the Llama 3.1 release, `rope_scaling` of type `llama3`.
fn llama3(frequency: f64, factor: f64, low: f64, high: f64, original: f64) -> f64 {
    let wavelength = 2.0 * std::f64::consts::PI / frequency;
    if wavelength < original / high {
        return frequency;
    }
    if wavelength > original / low {
        return frequency / factor;
    }
    let smooth = (original / wavelength - low) / (high - low);
    (1.0 - smooth) * frequency / factor + smooth * frequency
}

/// The most layers, above those of any checkpoint: checked before memory is allocated for them.
pub(super) const MAX_LAYERS: usize = 1 << 10;

/// The most outputs of a score head, above those of any checkpoint.
const MAX_OUTPUTS: usize = 1 << 16;

/// Checks that a number is from 1 to `limit`.
fn limited(path: &str, key: &str, n: usize, limit: usize) -> Result<usize> {
    if (1..=limit).contains(&n) {
        return Ok(n);
    }
    let reason = format!("is {n}; a number from 1 to {limit} was expected");
    Err(Error::Config { path: path.into(), key: key.into(), reason })
}

/// Rejects sizes that no checkpoint has, before memory is allocated for them.
fn check(path: &str, config: Config) -> Result<Config> {
    let c = &config;
    for (key, size, limit) in [
        ("hidden size", c.hidden, 1 << 20),
        ("intermediate size", c.intermediate, 1 << 22),
        ("number of layers", c.n_layers, MAX_LAYERS),
        ("number of heads", c.n_heads, 1 << 12),
        ("vocabulary size", c.vocab, 1 << 24),
        ("context length", c.context, 1 << 30),
    ] {
        limited(path, key, size, limit)?;
    }
    if c.encoder.is_some() && c.score_head.is_some() {
        let reason = "is a classifier on an encoder, whose head is not supported";
        return Err(Error::Config { path: path.into(), key: "architectures".into(), reason: reason.into() });
    }
    attention::check(path, c)?;
    experts::check(path, c)?;
    delta_net::check(path, c)?;
    Ok(config)
}
