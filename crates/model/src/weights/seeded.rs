//! A checkpoint without files: a configuration's tensors with seeded numbers, for measuring shapes without
//! their weights. The kernel `fill_bf16` makes the same numbers, so that a GPU makes its own.

mod blocks;

use std::{collections::BTreeMap, path::PathBuf};

use super::{Entry, Format, Source, Weights};
use tribunal_core::random;

pub use blocks::blocks;

use crate::Config;

/// Parameters of one tensor's seeded numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    pub seed: u32,
    /// Their standard deviation.
    pub scale: f32,
}

/// The tensors of `config` with numbers drawn from `seed`, each in the format that `format` returns.
#[must_use]
pub fn weights(config: Config, seed: u32, format: impl Fn(&str) -> Format) -> Weights {
    let mut index = BTreeMap::new();
    for (name, shape) in tensors(&config) {
        let dtype = format(&name);
        let end = shape.iter().product::<usize>() / dtype.block() * dtype.block_bytes();
        index.insert(name, Entry { file: 0, start: 0, end, dtype, shape, rows: None, source: Source::Plain });
    }
    let path = PathBuf::from(format!("seeded weights ({seed})"));
    Weights { path, files: Vec::new(), index, config, metadata: None, seed: Some(seed), remarks: Vec::new() }
}

/// Every tensor that the decoder reads, by its name in checkpoints of this architecture.
pub(super) fn tensors(c: &Config) -> Vec<(String, Vec<usize>)> {
    let mut all = vec![
        ("model.embed_tokens".to_owned(), vec![c.vocab, c.hidden]),
        ("model.norm".to_owned(), vec![c.hidden]),
    ];
    if !c.tied {
        all.push(("lm_head".into(), vec![c.vocab, c.hidden]));
    }
    let mut layer = vec![("input_layernorm", vec![c.hidden]), ("post_attention_layernorm", vec![c.hidden])];
    if c.post_norms {
        layer.push(("pre_feedforward_layernorm", vec![c.hidden]));
        layer.push(("post_feedforward_layernorm", vec![c.hidden]));
    }
    for i in 0..c.n_layers {
        all.extend(
            feed(c, i).into_iter().map(|(part, shape)| (format!("model.layers.{i}.mlp.{part}"), shape)),
        );
        let of_layer = layer.iter().cloned().chain(mixer(c, i));
        all.extend(of_layer.map(|(part, shape)| (format!("model.layers.{i}.{part}"), shape)));
        let beside = BESIDE.into_iter().filter(|_| is_beside(c, i));
        all.extend(beside.map(|part| (format!("model.layers.{i}.{part}"), vec![c.hidden])));
    }
    let mut named: Vec<_> = all.into_iter().map(|(part, shape)| (format!("{part}.weight"), shape)).collect();
    named.extend((0..c.n_layers).filter_map(|i| {
        let experts = c.experts_of(i).filter(|experts| experts.routing.has_bias)?;
        Some((format!("model.layers.{i}.mlp.gate.e_score_correction_bias"), vec![experts.n]))
    }));
    for i in 0..c.n_layers {
        named.extend(
            unsuffixed(c, i).into_iter().map(|(part, shape)| (format!("model.layers.{i}.{part}"), shape)),
        );
    }
    named.extend((0..c.n_layers).flat_map(|i| {
        let part = move |part: &str| format!("model.layers.{i}.linear_attn.{part}");
        let n = c.delta_net_of(i).map(|delta| delta.n_value_heads);
        n.into_iter().flat_map(move |n| [(part("A_log"), vec![n]), (part("dt_bias"), vec![n])])
    }));
    for i in 0..c.n_layers {
        let kind = c.kind_of(i);
        let (q, kv) = (c.query_width(kind), c.attention(kind).kv_width());
        let biases = [
            (c.qkv_bias, "self_attn.q", q),
            (c.qkv_bias, "self_attn.k", kv),
            (c.qkv_bias, "self_attn.v", kv),
            (c.qkv_bias && c.gated_attention, "self_attn.gate", q),
            (c.o_bias, "self_attn.o", c.hidden),
            (c.mlp_bias, "mlp.gate", c.intermediate),
            (c.mlp_bias, "mlp.up", c.intermediate),
            (c.mlp_bias, "mlp.down", c.hidden),
        ];
        let there = biases.into_iter().filter(|(there, ..)| *there);
        named.extend(there.map(|(_, part, n)| (format!("model.layers.{i}.{part}_proj.bias"), vec![n])));
    }
    named
}

/// Norms of a dense half and the experts beside it.
const BESIDE: [&str; 3] =
    ["post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"];

fn is_beside(c: &Config, layer: usize) -> bool {
    c.experts_of(layer).is_some_and(|experts| experts.beside_dense)
}

/// Tensors of a layer whose names do not end in `.weight`.
fn unsuffixed(c: &Config, layer: usize) -> Vec<(String, Vec<usize>)> {
    let mut all = Vec::new();
    if c.layer_scalars {
        all.push(("layer_scalar".to_owned(), vec![1]));
    }
    if c.sinks {
        all.push(("self_attn.sinks".to_owned(), vec![c.n_heads]));
    }
    let Some(experts) = c.experts_of(layer) else { return all };
    let of_router = [
        (experts.routing.logit_bias, "bias", experts.n),
        (experts.routing.expert_factors, "per_expert_scale", experts.n),
        (experts.beside_dense, "scale", c.hidden),
    ];
    let there = of_router.into_iter().filter(|(there, ..)| *there);
    all.extend(there.map(|(_, part, n)| (format!("mlp.gate.{part}"), vec![n])));
    if experts.biases {
        let parts = [("gate", experts.width), ("up", experts.width), ("down", c.hidden)];
        all.extend(parts.map(|(part, n)| (format!("mlp.experts.{part}_proj.bias"), vec![experts.n * n, 1])));
    }
    all
}

/// The tensors of a layer's token mixer.
fn mixer(c: &Config, layer: usize) -> Vec<(&'static str, Vec<usize>)> {
    if let Some(delta) = c.delta_net_of(layer) {
        let (channels, values) = (delta.channels(), delta.widths()[2]);
        return vec![
            ("linear_attn.in_proj_qkv", vec![channels, c.hidden]),
            ("linear_attn.in_proj_z", vec![values, c.hidden]),
            ("linear_attn.in_proj_b", vec![delta.n_value_heads, c.hidden]),
            ("linear_attn.in_proj_a", vec![delta.n_value_heads, c.hidden]),
            ("linear_attn.conv1d", vec![channels, delta.conv]),
            ("linear_attn.norm", vec![delta.value_dim]),
            ("linear_attn.out_proj", vec![c.hidden, values]),
        ];
    }
    let attention = c.attention_of(layer);
    let (q, kv) = (c.n_heads * attention.head_dim, attention.kv_width());
    let mut all = vec![
        ("self_attn.q_proj", vec![q, c.hidden]),
        ("self_attn.k_proj", vec![kv, c.hidden]),
        ("self_attn.o_proj", vec![c.hidden, q]),
    ];
    if !attention.values_are_keys {
        all.push(("self_attn.v_proj", vec![kv, c.hidden]));
    }
    if c.gated_attention {
        all.push(("self_attn.gate_proj", vec![q, c.hidden]));
    }
    if c.qk_norm {
        all.push(("self_attn.q_norm", vec![attention.head_dim]));
        all.push(("self_attn.k_norm", vec![attention.head_dim]));
    }
    all
}

/// The matrices of a layer's feed-forward half.
fn feed(c: &Config, layer: usize) -> Vec<(String, Vec<usize>)> {
    let gated = |module: &str, width| {
        ["gate_proj", "up_proj", "down_proj"].map(|part| {
            let shape = if part == "down_proj" { vec![c.hidden, width] } else { vec![width, c.hidden] };
            (format!("{module}{part}"), shape)
        })
    };
    let Some(experts) = c.experts_of(layer) else { return gated("", c.intermediate).into() };
    let mut all = vec![("gate".to_owned(), vec![experts.n, c.hidden])];
    if experts.beside_dense {
        all.extend(gated("", c.intermediate));
    }
    all.extend((0..experts.n).flat_map(|expert| gated(&format!("experts.{expert}."), experts.width)));
    if let Some(shared) = experts.shared {
        all.extend(gated("shared_experts.", shared.width));
        all.extend(shared.is_gated.then(|| ("shared_expert_gate".to_owned(), vec![1, c.hidden])));
    }
    all
}

/// The parameters of one tensor's numbers: matrices so that a product keeps the spread of its input; `None`
/// for the weights of norms and for factors, which are ones.
#[must_use]
pub fn fill(seed: u32, name: &str, shape: &[usize]) -> Option<Fill> {
    let factors = ["norm.weight", "layer_scalar", "per_expert_scale", "gate.scale"];
    if factors.into_iter().any(|factor| name.ends_with(factor)) || name.contains("layernorm_") {
        return None;
    }
    // FNV-1a, 32 bits: each tensor has numbers of its own.
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let seed = name.bytes().fold(0x811c_9dc5 ^ seed, hash);
    let scale = shape.get(1).filter(|&&k| k > 1).map_or(0.02, |&k| 1.0 / (k as f32).sqrt());
    Some(Fill { seed, scale })
}

/// A tensor's bytes.
#[must_use]
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
    #[must_use]
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
    use crate::config::from_json;

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
