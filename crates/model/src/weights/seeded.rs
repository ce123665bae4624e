//! A checkpoint without files: a configuration's tensors with seeded numbers, for measuring shapes without
//! their weights. The kernel `fill_bf16` makes the same numbers, so that a GPU makes its own.

mod blocks;

use std::{collections::BTreeMap, path::PathBuf};

use super::{Entry, Format, Source, Weights};
use tribunal_core::random;

pub use blocks::blocks;

use crate::{
    Config,
    config::{Attention, DeltaNet, EncoderConfig, Latent, QkNorm, ScoreHead},
};

/// Parameters of one tensor's seeded numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    pub seed: u32,
    /// Their standard deviation.
    pub scale: f32,
}

/// The tensors of `config` with numbers drawn from `seed`, each in the format that `format` returns.
pub fn weights(config: Config, seed: u32, format: impl Fn(&str) -> Format) -> Weights {
    let mut index = BTreeMap::new();
    for (name, shape) in tensors(&config) {
        let dtype = format(&name);
        let end = shape.iter().product::<usize>() / dtype.block() * dtype.block_bytes();
        index.insert(name, Entry { file: 0, start: 0, end, dtype, shape, rows: None, source: Source::Plain });
    }
    let path = PathBuf::from(format!("seeded weights ({seed})"));
    let (files, seed) = (Vec::new(), Some(seed));
    Weights { path, files, index, config, metric: None, metadata: None, seed, remarks: Vec::new() }
}

/// Every tensor that the decoder reads, by its name in checkpoints of this architecture, with its shape.
pub(super) fn tensors(c: &Config) -> Vec<(String, Vec<usize>)> {
    let embeddings = vec![c.vocab, c.hidden];
    let mut all = present(
        "",
        [
            (true, "model.embed_tokens.weight", embeddings.clone()),
            (c.encoder.is_none(), "model.norm.weight", vec![c.hidden]),
            (!c.tied && c.score_head.is_none() && c.encoder.is_none(), "lm_head.weight", embeddings),
        ],
    );
    all.extend(c.encoder.into_iter().flat_map(|encoder| around_layers(c, encoder)));
    all.extend(c.score_head.map(|head| (ScoreHead::WEIGHT.to_owned(), vec![head.n_outputs, c.hidden])));
    for i in 0..c.n_layers {
        let layer = format!("model.layers.{i}.");
        let norms = c.norms.names().into_iter().flatten();
        for part in std::iter::once("weight").chain(c.encoder.map(|_| "bias")) {
            all.extend(norms.clone().map(|norm| (format!("{layer}{norm}.{part}"), vec![c.hidden])));
        }
        all.extend(present(&layer, beside_norms(c, i)));
        all.extend(match c.delta_net_of(i) {
            Some(delta_net) => present(&layer, linear_attention(c, delta_net)),
            None => match &c.attention_of(i).latent {
                Some(latent) => present(&layer, latent_attention(c, c.attention_of(i), latent)),
                None => present(&layer, attention(c, i)),
            },
        });
        all.extend(feed_forward(c, i, &format!("{layer}mlp.")));
    }
    all
}

/// The tensors of an encoder outside of its layers, but for the words.
fn around_layers(c: &Config, encoder: EncoderConfig) -> Vec<(String, Vec<usize>)> {
    let norm = EncoderConfig::outer_norm(c.norms);
    let positions = vec![c.context + encoder.first_position, c.hidden];
    let tensors = [
        (EncoderConfig::POSITIONS.to_owned(), positions),
        (EncoderConfig::TYPES.to_owned(), vec![encoder.n_types, c.hidden]),
        (format!("{norm}.weight"), vec![c.hidden]),
        (format!("{norm}.bias"), vec![c.hidden]),
    ];
    tensors.into()
}

/// Presence in the model, name and shape of a tensor.
type Part = (bool, &'static str, Vec<usize>);

fn present<const N: usize>(prefix: &str, parts: [Part; N]) -> Vec<(String, Vec<usize>)> {
    let present = parts.into_iter().filter(|(is_present, ..)| *is_present);
    present.map(|(_, name, shape)| (format!("{prefix}{name}"), shape)).collect()
}

/// The norms of a dense half and the experts beside it, and the factor on a layer's output.
fn beside_norms(c: &Config, layer: usize) -> [Part; 4] {
    let is_beside = c.experts_of(layer).is_some_and(|experts| experts.beside_dense);
    let norm = || vec![c.hidden];
    [
        (is_beside, "post_feedforward_layernorm_1.weight", norm()),
        (is_beside, "pre_feedforward_layernorm_2.weight", norm()),
        (is_beside, "post_feedforward_layernorm_2.weight", norm()),
        (c.layer_scalars, "layer_scalar", vec![1]),
    ]
}

fn attention(c: &Config, layer: usize) -> [Part; 13] {
    let attention = c.attention_of(layer);
    let (d, h, q, kv) = (attention.head_dim, c.hidden, c.n_heads * attention.head_dim, attention.kv_width());
    let (has_norms, weights) = (c.qk_norm != QkNorm::None, |heads| vec![c.qk_norm.n_weights(heads, d)]);
    [
        (true, "self_attn.q_proj.weight", vec![q, h]),
        (true, "self_attn.k_proj.weight", vec![kv, h]),
        (!attention.values_are_keys, "self_attn.v_proj.weight", vec![kv, h]),
        (true, "self_attn.o_proj.weight", vec![h, q]),
        (c.gated_attention, "self_attn.gate_proj.weight", vec![q, h]),
        (has_norms, "self_attn.q_norm.weight", weights(c.n_heads)),
        (has_norms, "self_attn.k_norm.weight", weights(attention.n_kv_heads)),
        (c.sinks, "self_attn.sinks", vec![c.n_heads]),
        (c.qkv_bias, "self_attn.q_proj.bias", vec![q]),
        (c.qkv_bias, "self_attn.k_proj.bias", vec![kv]),
        (c.qkv_bias, "self_attn.v_proj.bias", vec![kv]),
        (c.qkv_bias && c.gated_attention, "self_attn.gate_proj.bias", vec![q]),
        (c.o_bias, "self_attn.o_proj.bias", vec![h]),
    ]
}

fn latent_attention(c: &Config, attention: &Attention, latent: &Latent) -> [Part; 11] {
    let (h, row, q_rank) = (c.hidden, attention.head_dim, latent.query_rank.unwrap_or(0));
    let (q, out) = (c.n_heads * attention.query_dim(), c.n_heads * latent.value_dim);
    let both = c.n_heads * (latent.plain_dim + latent.value_dim);
    [
        (q_rank == 0, "self_attn.q_proj.weight", vec![q, h]),
        (q_rank > 0, "self_attn.q_a_proj.weight", vec![q_rank, h]),
        (q_rank > 0, "self_attn.q_a_layernorm.weight", vec![q_rank]),
        (q_rank > 0, "self_attn.q_b_proj.weight", vec![q, q_rank]),
        (true, "self_attn.kv_a_proj_with_mqa.weight", vec![row, h]),
        (true, "self_attn.kv_a_layernorm.weight", vec![latent.rank]),
        (true, "self_attn.kv_b_proj.weight", vec![both, latent.rank]),
        (true, "self_attn.o_proj.weight", vec![h, out]),
        (q_rank > 0 && c.qkv_bias, "self_attn.q_a_proj.bias", vec![q_rank]),
        (c.qkv_bias, "self_attn.kv_a_proj_with_mqa.bias", vec![row]),
        (c.o_bias, "self_attn.o_proj.bias", vec![h]),
    ]
}

fn linear_attention(c: &Config, delta_net: &DeltaNet) -> [Part; 9] {
    let (channels, values, n) = (delta_net.channels(), delta_net.widths()[2], delta_net.n_value_heads);
    [
        (true, "linear_attn.in_proj_qkv.weight", vec![channels, c.hidden]),
        (true, "linear_attn.in_proj_z.weight", vec![values, c.hidden]),
        (true, "linear_attn.in_proj_b.weight", vec![n, c.hidden]),
        (true, "linear_attn.in_proj_a.weight", vec![n, c.hidden]),
        (true, "linear_attn.conv1d.weight", vec![channels, delta_net.conv]),
        (true, "linear_attn.norm.weight", vec![delta_net.value_dim]),
        (true, "linear_attn.out_proj.weight", vec![c.hidden, values]),
        (true, "linear_attn.A_log", vec![n]),
        (true, "linear_attn.dt_bias", vec![n]),
    ]
}

fn feed_forward(c: &Config, layer: usize, prefix: &str) -> Vec<(String, Vec<usize>)> {
    let (h, experts) = (c.hidden, c.experts_of(layer));
    let gated = |module: &str, width: usize| {
        let of = |part, shape| (format!("{prefix}{module}{part}_proj.weight"), shape);
        [of("gate", vec![width, h]), of("up", vec![width, h]), of("down", vec![h, width])]
    };
    let mut all = Vec::new();
    if experts.is_none_or(|experts| experts.beside_dense) {
        let (has_biases, width) = (c.mlp_bias, c.intermediate);
        let [gate, up, down] = gated("", width);
        all.extend(c.has_gate().then_some(gate).into_iter().chain([up, down]));
        all.extend(XIELU.into_iter().filter(|_| c.xielu).map(|part| (format!("{prefix}{part}"), vec![1])));
        all.extend(present(
            prefix,
            [
                (has_biases && c.has_gate(), "gate_proj.bias", vec![width]),
                (has_biases, "up_proj.bias", vec![width]),
                (has_biases, "down_proj.bias", vec![h]),
            ],
        ));
    }
    let Some(experts) = experts else { return all };
    let (n, width, routing) = (experts.n, experts.width, &experts.routing);
    all.extend((0..n).flat_map(|expert| gated(&format!("experts.{expert}."), width)));
    all.extend(experts.shared.into_iter().flat_map(|shared| gated("shared_experts.", shared.width)));
    let has_gate = experts.shared.is_some_and(|shared| shared.is_gated);
    all.extend(present(
        prefix,
        [
            (true, "gate.weight", vec![n, h]),
            (routing.has_bias, "gate.e_score_correction_bias", vec![n]),
            (routing.logit_bias, "gate.bias", vec![n]),
            (routing.expert_factors, "gate.per_expert_scale", vec![n]),
            (experts.beside_dense, "gate.scale", vec![h]),
            (experts.biases, "experts.gate_proj.bias", vec![n * width, 1]),
            (experts.biases, "experts.up_proj.bias", vec![n * width, 1]),
            (experts.biases, "experts.down_proj.bias", vec![n * h, 1]),
            (has_gate, "shared_expert_gate.weight", vec![1, h]),
        ],
    ));
    all
}

/// The parameters of xIELU, below the feed-forward half.
const XIELU: [&str; 4] = ["act_fn.alpha_p", "act_fn.alpha_n", "act_fn.beta", "act_fn.eps"];

/// The parameters of one tensor's numbers: matrices so that a product keeps the spread of its input; `None`
/// for the weights of norms and for factors, which are ones.
pub fn fill(seed: u32, name: &str, shape: &[usize]) -> Option<Fill> {
    let factors = ["norm.weight", "layer_scalar", "per_expert_scale", "gate.scale"];
    if factors.into_iter().chain(XIELU).any(|factor| name.ends_with(factor)) || name.contains("layernorm_") {
        return None;
    }
    // FNV-1a, 32 bits: each tensor has numbers of its own.
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let seed = name.bytes().fold(0x811c_9dc5 ^ seed, hash);
    let scale = shape.get(1).filter(|&&k| k > 1).map_or(0.02, |&k| 1.0 / (k as f32).sqrt());
    Some(Fill { seed, scale })
}

/// A tensor's bytes.
pub fn bytes(seed: u32, name: &str, shape: &[usize], format: Format) -> Vec<u8> {
    let n: usize = shape.iter().product();
    let fill = fill(seed, name, shape);
    if let Some(fill) = fill
        && !format.is_float()
    {
        return blocks(format, fill.seed, n / format.block(), fill.scale);
    }
    // Norms and factors are ones. Gemma's files store the number added to 1; ones again, so that its rows
    // only grow by a factor.
    let values = (0..n).map(|i| fill.map_or(half::bf16::ONE, |fill| fill.value(i)));
    match format {
        Format::F32 => values.flat_map(|value| value.to_f32().to_le_bytes()).collect(),
        Format::F16 => values.flat_map(|value| half::f16::from_f32(value.to_f32()).to_le_bytes()).collect(),
        _ => values.flat_map(half::bf16::to_le_bytes).collect(),
    }
}

impl Fill {
    /// Number `i`, equal to that of `kernels/fill.cu`.
    pub fn value(&self, i: usize) -> half::bf16 {
        let bits = random::at(random::mix(u64::from(self.seed) + 1), i as u64 + 1);
        let sum: i32 = (0..4).map(|part| (bits >> (16 * part) & 0xffff) as i32).sum();
        let normal = (sum - 131_070) as f32 * 2.642_899_8e-5;
        half::bf16::from_f32(normal * self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::from_json;

    fn config() -> Config {
        let json = include_str!("../../../../models/tiny/qwen2/config.json");
        from_json("config.json", &serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn numbers_have_the_spread_that_was_asked_for() {
        let fill = Fill { seed: 5, scale: 0.02 };
        let values: Vec<f32> = (0..50_000).map(|i| fill.value(i).to_f32()).collect();
        let mean = values.iter().sum::<f32>() / 50_000.0;
        let spread = (values.iter().map(|v| v * v).sum::<f32>() / 50_000.0).sqrt();
        assert!(mean.abs() < 5e-4 && (spread - 0.02).abs() < 3e-4, "{mean} {spread}");
        // The values in kernels/tests/fill.cpp.
        assert_eq!([0, 1, 2, 3].map(|i| fill.value(i).to_bits()), [0x3bea, 0xbc1f, 0xbcc8, 0x3b99]);
        assert_ne!(fill.value(0), Fill { seed: 6, ..fill }.value(0));
    }

    #[test]
    fn a_checkpoint_without_files_has_the_tensors_of_one_with_files() {
        let seeded = Weights::seeded(config(), 7);
        let folder =
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("models/tiny/qwen2");
        let real = Weights::open(&folder).unwrap();
        let names = |weights: &Weights| -> Vec<(String, Vec<usize>)> {
            weights.tensors().map(|(name, _, shape)| (name.to_owned(), shape.to_vec())).collect()
        };
        assert_eq!(names(&seeded), names(&real));
        assert_eq!(seeded.floats("model.norm.weight", 64).unwrap(), [1.0; 64]);
        let [a, b] = ["q", "k"].map(|part| {
            let name = format!("model.layers.0.self_attn.{part}_proj.weight");
            let n = if part == "q" { 64 } else { 32 };
            seeded.get(&name, &[n, 64]).unwrap().bytes[..64].to_vec()
        });
        assert_ne!(a, b, "each tensor has numbers of its own");
    }
}
