//! GGUF files: header parsed by candle, tensors served from the map under Hugging Face names.

use std::{collections::BTreeMap, io::Cursor, path::Path};

use candle_core::quantized::gguf_file::{Content, TensorInfo};

use super::{Entry, Mapped, RowOrder, Weights, floats};
use crate::{
    model::{
        Error,
        config::{from_gguf, gguf::Tensors},
    },
    panics,
};

/// How every GGUF file begins.
const MAGIC: &[u8] = b"GGUF";

/// Opens a GGUF file.
pub fn open(path: &Path) -> Result<Weights, Error> {
    let mapped = Mapped::open(path)?;
    let file = &mapped.map;
    let bad = |reason: String| Error::File {
        path: path.display().to_string(),
        reason,
        hint: "is it a whole GGUF file? `tribunal models verify` checks a pulled one".into(),
    };
    if !file.starts_with(MAGIC) {
        return Err(Error::File {
            path: path.display().to_string(),
            reason: "it is not a GGUF file".into(),
            hint: "a model is a GGUF file, or a folder with `config.json`, `tokenizer.json` and safetensors"
                .into(),
        });
    }
    // Some damaged headers make the reader panic, an alignment of 0 for one.
    let read = panics::caught(|| Content::read(&mut Cursor::new(&file[..])));
    let content = read.ok_or_else(|| bad("its header is damaged".into()))?.map_err(|e| bad(reason(&e)))?;
    let base =
        usize::try_from(content.tensor_data_offset).map_err(|_| bad("its header is too large".into()))?;
    let arch = content.metadata.get("general.architecture").and_then(|v| v.to_string().ok()).cloned();
    let mut index = BTreeMap::new();
    for (name, info) in &content.tensor_infos {
        let (start, end) = range(name, info, base, file.len()).map_err(&bad)?;
        let (name, dtype) = (canonical(name, arch.as_deref()), info.ggml_dtype);
        let shape = info.shape.dims().to_vec();
        index.insert(name, Entry { file: 0, start, end, dtype, shape, order: RowOrder::Plain });
    }
    let factors = index.get("rope_freqs.weight").and_then(|e| floats(e.dtype, &file[e.start..e.end]));
    let rows = |entry: &Entry| entry.shape.first().copied().unwrap_or(0);
    let vocab = index.get("model.embed_tokens.weight").map_or(0, rows);
    let tied = !index.contains_key("lm_head.weight");
    let config = from_gguf(&path.display().to_string(), &content.metadata, Tensors { vocab, tied, factors })?;
    if arch.as_deref() == Some("llama") {
        interleaved(&mut index, config.n_heads, config.n_kv_heads);
    }
    Ok(Weights {
        path: path.into(),
        files: vec![mapped],
        index,
        config,
        metadata: Some(content.metadata),
        seed: None,
    })
}

/// The first sentence of candle's error, which otherwise carries a backtrace.
fn reason(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().trim().to_owned()
}

/// A tensor's bytes, checked to lie within the file.
fn range(name: &str, info: &TensorInfo, base: usize, len: usize) -> Result<(usize, usize), String> {
    let block = info.ggml_dtype.block_size();
    let row = info.shape.dims().last().copied().unwrap_or(0);
    if row == 0 || !row.is_multiple_of(block) {
        return Err(format!("tensor `{name}` has rows of {row}, not a multiple of its block of {block}"));
    }
    let elements = info.shape.dims().iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    let size = elements.and_then(|n| (n / block).checked_mul(info.ggml_dtype.type_size()));
    let start = usize::try_from(info.offset).ok().and_then(|offset| base.checked_add(offset));
    let end = start.zip(size).and_then(|(start, size)| start.checked_add(size));
    match start.zip(end) {
        Some((start, end)) if end <= len => Ok((start, end)),
        _ => Err(format!("tensor `{name}` reaches past the end of the file ({len} bytes): it is cut short")),
    }
}

/// The Hugging Face name of a GGUF tensor.
fn canonical(name: &str, arch: Option<&str>) -> String {
    let plain = match name {
        "token_embd.weight" => "model.embed_tokens.weight",
        "output_norm.weight" => "model.norm.weight",
        "output.weight" => "lm_head.weight",
        _ => "",
    };
    if !plain.is_empty() {
        return plain.into();
    }
    let Some((layer, part)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        return name.into();
    };
    let (stem, kind) = part.rsplit_once('.').unwrap_or((part, ""));
    let gemma = arch == Some("gemma3");
    let stem = match stem {
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_norm" => "input_layernorm",
        "ffn_norm" if gemma => "pre_feedforward_layernorm",
        "post_attention_norm" | "ffn_norm" => "post_attention_layernorm",
        "post_ffw_norm" => "post_feedforward_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        other => other,
    };
    format!("model.layers.{layer}.{stem}.{kind}")
}

/// Marks q and k of a llama file, whose rotary halves are interleaved.
fn interleaved(index: &mut BTreeMap<String, Entry>, n_heads: usize, n_kv_heads: usize) {
    for (name, entry) in index {
        if name.contains("self_attn.q_proj.") {
            entry.order = RowOrder::Interleaved(n_heads);
        } else if name.contains("self_attn.k_proj.") {
            entry.order = RowOrder::Interleaved(n_kv_heads);
        }
    }
}
