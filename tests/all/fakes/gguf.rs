//! A small GGUF file made on the spot: a llama of two layers with a tokenizer of single bytes.

use std::path::Path;

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};

/// Writes a small llama GGUF file whose matrices have the given type.
pub fn gguf(path: &Path, dtype: GgmlDType) {
    gguf_of_sizes(path, dtype, [4, 128, 272]);
}

/// Writes a small llama GGUF file with so many heads, half as many of keys and values, and so many positions.
pub fn gguf_of_heads(path: &Path, dtype: GgmlDType, heads: usize, context: usize) {
    gguf_of_sizes(path, dtype, [heads, context, 272]);
}

/// Writes a small llama GGUF file with so many heads, positions and tokens.
pub fn gguf_of_sizes(path: &Path, dtype: GgmlDType, [heads, context, vocab]: [usize; 3]) {
    let (hidden, ff, layers) = (256, 512, 2);
    let noise = |shape: &[usize], scale: f64| {
        let n: usize = shape.iter().product();
        let wave = (0..n).map(|i| ((i * 7919 % 10_007) as f64 / 5_003.5 - 1.0) * scale).map(|x| x as f32);
        Tensor::from_vec(wave.collect::<Vec<f32>>(), shape, &Device::Cpu).unwrap()
    };
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let (values, dtype) = if shape.len() == 1 {
            ((noise(shape, 0.1) + 1.0).unwrap(), GgmlDType::F32)
        } else {
            (noise(shape, 0.2), dtype)
        };
        tensors.push((name, QTensor::quantize(&values, dtype).unwrap()));
    };
    add("token_embd.weight".into(), &[vocab, hidden]);
    add("output_norm.weight".into(), &[hidden]);
    for layer in 0..layers {
        for (part, shape) in [
            ("attn_norm", vec![hidden]),
            ("ffn_norm", vec![hidden]),
            ("attn_q", vec![hidden, hidden]),
            ("attn_k", vec![hidden / 2, hidden]),
            ("attn_v", vec![hidden / 2, hidden]),
            ("attn_output", vec![hidden, hidden]),
            ("ffn_gate", vec![ff, hidden]),
            ("ffn_up", vec![ff, hidden]),
            ("ffn_down", vec![hidden, ff]),
        ] {
            add(format!("blk.{layer}.{part}.weight"), &shape);
        }
    }
    let size = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("general.architecture", Value::String("llama".into())),
        ("llama.embedding_length", size(hidden)),
        ("llama.block_count", size(layers)),
        ("llama.feed_forward_length", size(ff)),
        ("llama.attention.head_count", size(heads)),
        ("llama.attention.head_count_kv", size(heads / 2)),
        ("llama.rope.dimension_count", size(hidden / heads)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.context_length", size(context)),
    ];
    let metadata: Vec<_> = metadata.into_iter().chain(tokenizer(vocab)).collect();
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(name, value)| (*name, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    gguf_file::write(&mut std::fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

/// A byte-level vocabulary: 256 bytes, one token that ends a turn, one that acts and does not, and unused
/// ones.
fn tokenizer(vocab: usize) -> [(&'static str, Value); 6] {
    let printed = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let unprinted: Vec<u32> = (0..256).filter(|&byte| !printed(byte)).collect();
    let letter = |byte: u32| {
        let moved = unprinted.iter().position(|&other| other == byte).map(|at| 256 + at as u32);
        char::from_u32(moved.unwrap_or(byte)).unwrap().to_string()
    };
    let others = (256..vocab).map(|id| match id {
        256 => "<|end|>".to_owned(),
        257 => "<|other|>".to_owned(),
        id => format!("<|unused{id}|>"),
    });
    let tokens = (0..256).map(letter).chain(others).map(Value::String).collect();
    let kinds = (0..vocab).map(|id| Value::I32(if id < 256 { 1 } else { 3 })).collect();
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}assistant:";
    [
        ("tokenizer.ggml.model", Value::String("gpt2".into())),
        ("tokenizer.ggml.pre", Value::String("llama-bpe".into())),
        ("tokenizer.ggml.tokens", Value::Array(tokens)),
        ("tokenizer.ggml.token_type", Value::Array(kinds)),
        ("tokenizer.ggml.eos_token_id", Value::U32(256)),
        ("tokenizer.chat_template", Value::String(template.into())),
    ]
}
