//! GGUF files of a published model's width with seeded weights, which other engines read too: speeds are then
//! compared on the same file. The mix of formats is that of `Q4_K_M`. Tokens are bytes and a few words;
//! nothing is judged with them.

use std::{
    borrow::Cow,
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use candle_core::{
    Device,
    quantized::{
        GgmlDType, QStorage, QTensor,
        gguf_file::{self, Value},
    },
};

use super::{Error, Result, shapes::Shape};
use crate::{
    files,
    model::{Config, config::QkNorm},
    random::SplitMix,
};

/// Bytes of the scales in a block of `Q4_K`: `d`, `dmin`, and 12 bytes of 6-bit scales and minima.
const Q4_K_HEAD: usize = 16;
/// Offsets in a block of `Q6_K`: of the scales, and of `d`.
const Q6_K_SCALES: usize = 192;
const Q6_K_D: usize = 208;

/// A GGUF file with a shape's width and seeded weights.
pub struct Seeded {
    shape: Shape,
    n_layers: usize,
    seed: u64,
}

/// A stream that counts the bytes written.
struct Counted<W> {
    out: W,
    at: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.at += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The writer only asks for its position.
impl<W> Seek for Counted<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if to == SeekFrom::Current(0) { Ok(self.at) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

/// One tensor: its name, its shape (rows first) and its format.
struct Planned {
    name: String,
    shape: Vec<usize>,
    format: GgmlDType,
}

impl Seeded {
    /// The first `n_layers` layers of a shape, of a hybrid whole periods of them; all of them if it has
    /// fewer.
    pub fn new(shape: Shape, n_layers: usize, seed: u64) -> Self {
        let n_layers = n_layers.min(shape.config.n_layers);
        // A hybrid ends in a layer of attention.
        let period = period(&shape.config);
        let n_layers = if period > 1 { (n_layers / period).max(1) * period } else { n_layers };
        Self { shape, n_layers, seed }
    }

    /// Writes the file; all tensors are in memory meanwhile. Returns its bytes.
    ///
    /// # Errors
    /// A shape without a GGUF format, too little memory, or a file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<u64> {
        let shown = path.display().to_string();
        let failed = |reason: String| Error::Seeded { file: shown.clone(), reason };
        let arch = self.architecture()?;
        let tensors = self.planned().into_iter().map(|planned| {
            let tensor = self.tensor(&planned).map_err(|error| failed(error.to_string()))?;
            Ok((planned.name, tensor))
        });
        let tensors = tensors.collect::<Result<Vec<_>>>()?;
        let metadata = self.metadata(arch);
        let mut size = 0;
        let metadata: Vec<(&str, &Value)> =
            metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<(&str, &QTensor)> =
            tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let written = files::write(path, |out| {
            let mut out = Counted { out, at: 0 };
            gguf_file::write(&mut out, &metadata, &tensors).map_err(io::Error::other)?;
            size = out.at;
            Ok(())
        });
        written.map_err(|error| failed(error.to_string()))?;
        Ok(size)
    }

    fn architecture(&self) -> Result<&'static str> {
        match self.config() {
            Config { delta_net: Some(_), experts: Some(_), .. } => Ok("qwen35moe"),
            Config { delta_net: Some(_), experts: None, .. } => Ok("qwen35"),
            Config { experts: Some(_), qk_norm: QkNorm::Heads, qkv_bias: false, .. } => Ok("qwen3moe"),
            Config { experts: None, qk_norm: QkNorm::Heads, qkv_bias: false, .. } => Ok("qwen3"),
            _ => Err(Error::Seeded {
                file: self.shape.name.clone(),
                reason: "only the shapes of Qwen3 and Qwen3.5 are written as GGUF files".into(),
            }),
        }
    }

    fn config(&self) -> &Config {
        &self.shape.config
    }

    /// The tensors, with the formats that llama.cpp's `Q4_K_M` gives them.
    fn planned(&self) -> Vec<Planned> {
        let c = self.config();
        let planned = |name: String, shape: &[usize], format| Planned { name, shape: shape.to_vec(), format };
        let mut all = vec![
            planned("token_embd.weight".into(), &[c.vocab, c.hidden], GgmlDType::Q4K),
            planned("output_norm.weight".into(), &[c.hidden], GgmlDType::F32),
        ];
        if !c.tied {
            all.push(planned("output.weight".into(), &[c.vocab, c.hidden], GgmlDType::Q6K));
        }
        for i in 0..self.n_layers {
            // The first and last eighth, and every third in between.
            let n = self.n_layers;
            let is_finer = i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
            let finer = if is_finer { GgmlDType::Q6K } else { GgmlDType::Q4K };
            let mut add = |part: &str, shape: &[usize], format| {
                let kind = if part == "ssm_a" {
                    ""
                } else if part == "ssm_dt" {
                    ".bias"
                } else {
                    ".weight"
                };
                all.push(planned(format!("blk.{i}.{part}{kind}"), shape, format));
            };
            add("attn_norm", &[c.hidden], GgmlDType::F32);
            let mlp_norm = if c.delta_net.is_some() { "post_attention_norm" } else { "ffn_norm" };
            add(mlp_norm, &[c.hidden], GgmlDType::F32);
            mixer(c, i, finer, &mut add);
            if let Some(shared) = c.experts_of(i).and_then(|experts| experts.shared) {
                add("ffn_gate_inp_shexp", &[c.hidden], GgmlDType::F32);
                add("ffn_gate_shexp", &[shared.width, c.hidden], GgmlDType::Q4K);
                add("ffn_up_shexp", &[shared.width, c.hidden], GgmlDType::Q4K);
                add("ffn_down_shexp", &[c.hidden, shared.width], finer);
            }
            if let Some(experts) = c.experts_of(i) {
                let (n, width) = (experts.n, experts.width);
                add("ffn_gate_inp", &[n, c.hidden], GgmlDType::F32);
                add("ffn_gate_exps", &[n, width, c.hidden], GgmlDType::Q4K);
                add("ffn_up_exps", &[n, width, c.hidden], GgmlDType::Q4K);
                add("ffn_down_exps", &[n, c.hidden, width], finer);
            } else {
                add("ffn_gate", &[c.intermediate, c.hidden], GgmlDType::Q4K);
                add("ffn_up", &[c.intermediate, c.hidden], GgmlDType::Q4K);
                add("ffn_down", &[c.hidden, c.intermediate], finer);
            }
        }
        all
    }

    /// Blocks whose values have a standard deviation of about `1 / sqrt(k)`, so that a product keeps the
    /// spread of its input; ones for norms.
    fn tensor(&self, planned: &Planned) -> candle_core::Result<QTensor> {
        let n: usize = planned.shape.iter().product();
        let k = planned.shape.last().copied().unwrap_or(1);
        let seed = planned
            .name
            .bytes()
            .fold(self.seed, |seed, byte| seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        let mut random = SplitMix(seed);
        let spread = 1.0 / (k as f32).sqrt();
        let bytes = match planned.format {
            // Times of decay: some states outlast a text, some do not.
            GgmlDType::F32 if planned.name.ends_with("ssm_a") => {
                (0..n).flat_map(|_| (-0.01 - unit(&mut random).powi(4)).to_le_bytes()).collect()
            }
            GgmlDType::F32 if planned.shape.len() == 1 && planned.name.ends_with("norm.weight") => {
                vec![1_f32; n].iter().flat_map(|x| x.to_le_bytes()).collect()
            }
            // Uniform, with that standard deviation.
            GgmlDType::F32 => (0..n)
                .flat_map(|_| (2.0 * 3_f32.sqrt() * spread * (unit(&mut random) - 0.5)).to_le_bytes())
                .collect(),
            format => blocks(format, n, spread, &mut random),
        };
        let storage = QStorage::from_data(Cow::Owned(bytes), &Device::Cpu, planned.format)?;
        QTensor::new(storage, planned.shape.clone())
    }

    fn metadata(&self, arch: &str) -> Vec<(String, Value)> {
        let c = self.config();
        let size = |n: usize| Value::U32(n as u32);
        let mut all = vec![
            ("general.architecture".to_owned(), Value::String(arch.into())),
            ("general.name".into(), Value::String(format!("{} with seeded weights", self.shape.name))),
            // Q4_K_M.
            ("general.file_type".into(), Value::U32(15)),
        ];
        let mut add = |key: &str, value| all.push((format!("{arch}.{key}"), value));
        add("block_count", size(self.n_layers));
        add("context_length", size(c.context));
        add("embedding_length", size(c.hidden));
        add("feed_forward_length", size(c.intermediate));
        add("attention.head_count", size(c.n_heads));
        add("attention.head_count_kv", size(c.full.n_kv_heads));
        add("attention.key_length", size(c.full.head_dim));
        add("attention.value_length", size(c.full.head_dim));
        add("attention.layer_norm_rms_epsilon", Value::F32(c.norm_eps as f32));
        add("rope.freq_base", Value::F32(c.full.rope.theta as f32));
        if let Some(delta) = &c.delta_net {
            add("rope.dimension_count", size(c.full.rotary_dim));
            add("rope.dimension_sections", Value::Array([11, 11, 10, 0].map(Value::I32).to_vec()));
            add("full_attention_interval", size(period(c)));
            add("ssm.conv_kernel", size(delta.conv));
            add("ssm.state_size", size(delta.key_dim));
            add("ssm.group_count", size(delta.n_key_heads));
            add("ssm.time_step_rank", size(delta.n_value_heads));
            add("ssm.inner_size", size(delta.widths()[2]));
        }
        if let Some(shared) = c.experts.as_ref().and_then(|experts| experts.shared) {
            add("expert_shared_feed_forward_length", size(shared.width));
        }
        if let Some(experts) = &c.experts {
            add("expert_count", size(experts.n));
            add("expert_used_count", size(experts.routing.top_k));
            add("expert_feed_forward_length", size(experts.width));
        }
        all.extend(tokenizer(c.vocab));
        all
    }
}

/// The distance of layers of attention; 1 where all layers have it.
fn period(c: &Config) -> usize {
    (0..c.n_layers).position(|layer| c.delta_net_of(layer).is_none()).unwrap_or(0) + 1
}

/// Adds the tensors of a layer's token mixer.
fn mixer(c: &Config, layer: usize, finer: GgmlDType, add: &mut impl FnMut(&str, &[usize], GgmlDType)) {
    if let Some(delta) = c.delta_net_of(layer) {
        let (channels, values, n) = (delta.channels(), delta.widths()[2], delta.n_value_heads);
        add("attn_qkv", &[channels, c.hidden], GgmlDType::Q4K);
        add("attn_gate", &[values, c.hidden], GgmlDType::Q4K);
        add("ssm_beta", &[n, c.hidden], GgmlDType::Q4K);
        add("ssm_alpha", &[n, c.hidden], GgmlDType::Q4K);
        add("ssm_conv1d", &[channels, delta.conv], GgmlDType::F32);
        add("ssm_a", &[n], GgmlDType::F32);
        add("ssm_dt", &[n], GgmlDType::F32);
        add("ssm_norm", &[delta.value_dim], GgmlDType::F32);
        return add("ssm_out", &[c.hidden, values], GgmlDType::Q4K);
    }
    let (q, kv) = (c.n_heads * c.full.head_dim, c.full.kv_width());
    add("attn_q_norm", &[c.full.head_dim], GgmlDType::F32);
    add("attn_k_norm", &[c.full.head_dim], GgmlDType::F32);
    add("attn_q", &[if c.gated_attention { 2 * q } else { q }, c.hidden], GgmlDType::Q4K);
    add("attn_k", &[kv, c.hidden], GgmlDType::Q4K);
    add("attn_v", &[kv, c.hidden], finer);
    add("attn_output", &[c.hidden, q], GgmlDType::Q4K);
}

/// The tokenizer of the tiny Qwen2, and unused tokens up to the size of the vocabulary.
fn tokenizer(vocab: usize) -> Vec<(String, Value)> {
    let json: serde_json::Value =
        serde_json::from_slice(include_bytes!("../../../models/tiny/qwen2/tokenizer.json"))
            .unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut tokens: Vec<(String, i32)> = (0..vocab).map(|id| (format!("[unused {id}]"), 5)).collect();
    let mut set = |id: Option<u64>, token: String, kind| {
        if let Some(place) = id.and_then(|id| tokens.get_mut(id as usize)) {
            *place = (token, kind);
        }
    };
    for (token, id) in json["model"]["vocab"].as_object().into_iter().flatten() {
        set(id.as_u64(), token.clone(), 1);
    }
    for added in json["added_tokens"].as_array().into_iter().flatten() {
        set(added["id"].as_u64(), text(&added["content"]), 3);
    }
    let merges = json["model"]["merges"].as_array().into_iter().flatten();
    let merges = merges.map(|pair| Value::String(format!("{} {}", text(&pair[0]), text(&pair[1]))));
    let key = |key: &str| format!("tokenizer.ggml.{key}");
    vec![
        (key("model"), Value::String("gpt2".into())),
        (key("pre"), Value::String("qwen2".into())),
        (key("merges"), Value::Array(merges.collect())),
        (key("token_type"), Value::Array(tokens.iter().map(|(_, kind)| Value::I32(*kind)).collect())),
        (key("tokens"), Value::Array(tokens.into_iter().map(|(token, _)| Value::String(token)).collect())),
        (key("eos_token_id"), Value::U32(319)),
        (key("padding_token_id"), Value::U32(317)),
        (key("add_bos_token"), Value::Bool(false)),
    ]
}

/// In 0..1.
fn unit(random: &mut SplitMix) -> f32 {
    (random.draw() >> 40) as f32 / (1_u64 << 24) as f32
}

/// Random blocks of `Q4_K` or `Q6_K` whose values have about this standard deviation and a mean of 0.
fn blocks(format: GgmlDType, n: usize, spread: f32, random: &mut SplitMix) -> Vec<u8> {
    let mut bytes = vec![0; n / format.block_size() * format.type_size()];
    for eight in bytes.chunks_mut(8) {
        eight.copy_from_slice(&random.draw().to_le_bytes()[..eight.len()]);
    }
    let half = |value: f32| half::f16::from_f32(value).to_le_bytes();
    for block in bytes.chunks_exact_mut(format.type_size()) {
        if format == GgmlDType::Q4K {
            // `d scale (code - 7.5)`: minima are the scales, and `dmin` is 7.5 `d`. Scales of 6 bits have a
            // root mean square of 36.4, codes 4.6.
            let d = spread / 168.0;
            block[..2].copy_from_slice(&half(d));
            block[2..4].copy_from_slice(&half(7.5 * d));
            block.copy_within(4..8, 8);
            block[12..Q4_K_HEAD].iter_mut().for_each(|both| *both = *both & 15 | *both << 4);
        } else {
            // `d scale (code - 32)`: scales of 8 bits have a root mean square of 73.9, codes 18.5. Each scale
            // has its negative beside it, so that the half that codes stand below 32 adds up to nothing.
            let pairs = block[Q6_K_SCALES..Q6_K_D].as_chunks_mut::<2>().0;
            for [one, other] in pairs {
                *other = (*one as i8).saturating_neg() as u8;
            }
            block[Q6_K_D..].copy_from_slice(&half(spread / 1367.0));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Weights;

    /// A written file can be read as a model, with weights of the spread that products keep.
    #[test]
    fn a_seeded_file_is_read_with_its_shape() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seeded.gguf");
        let shape = Shape::named("tiny-moe").unwrap();
        let bytes = Seeded::new(shape.clone(), 3, 7).write(&path).unwrap();
        assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
        let weights = Weights::open(&path).unwrap_or_else(|error| panic!("{error}"));
        let config = weights.config();
        assert_eq!(
            (config.n_layers, config.hidden, config.vocab),
            (2, shape.config.hidden, shape.config.vocab)
        );
        assert_eq!(config.experts, shape.config.experts);
        for (name, k) in [("self_attn.q_proj", 256), ("mlp.experts.3.down_proj", 256)] {
            let name = format!("model.layers.0.{name}.weight");
            let n = if name.contains("down") { config.hidden } else { config.n_heads * config.full.head_dim };
            let stored = weights.get(&name, &[n, k]).unwrap();
            let packed = crate::cpu::Packed::pack(stored.dtype, n, k, &stored.bytes).unwrap();
            let (mut sum, mut squares, mut row) = (0.0_f64, 0.0_f64, vec![0.0; k]);
            for i in 0..n {
                packed.dequantize_row(i, &mut row);
                sum += row.iter().map(|&x| f64::from(x)).sum::<f64>();
                squares += row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            }
            let (mean, spread) = (sum / (n * k) as f64, (squares / (n * k) as f64).sqrt());
            assert!(mean.abs() < 0.1 / 16.0 && (spread * 16.0 - 1.0).abs() < 0.1, "{name}: {mean} {spread}");
        }
        // The same file again.
        let again = folder.path().join("again.gguf");
        Seeded::new(shape, 3, 7).write(&again).unwrap();
        assert!(std::fs::read(&path).unwrap() == std::fs::read(&again).unwrap());
        let hybrid = Seeded::new(Shape::named("tiny-hybrid").unwrap(), 4, 7);
        hybrid.write(&again).unwrap();
        let weights = Weights::open(&again).unwrap_or_else(|error| panic!("{error}"));
        let (config, of_shape) = (weights.config(), &hybrid.shape.config);
        let is_tiled =
            crate::model::config::DeltaNet { is_tiled: true, ..of_shape.delta_net.clone().unwrap() };
        assert_eq!((&config.delta_net, &config.experts), (&Some(is_tiled), &of_shape.experts));
        assert_eq!(config.full.rotary_dim, of_shape.full.rotary_dim);
        let refused = Seeded::new(Shape::named("tiny").unwrap(), 2, 7).write(&again).unwrap_err();
        assert!(refused.to_string().contains("Qwen3"), "{refused}");
    }
}
