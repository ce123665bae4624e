//! `quantization_config`: the library that quantised the weights, and its settings. Group sizes and the
//! modules that stay floats follow from the tensors. Settings for activations are ignored: activations are
//! not quantised by them.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::settings::{is_same, shown};
use crate::{Error, Result};

/// The quantisation of the weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// Integers of 4 or 8 bits; `stored` is the difference between the zero points that are meant and those
    /// in the file. Modules whose names begin with a match of `skips` (regular expressions) are floats.
    Gptq { bits: u32, stored: u32, is_symmetric: bool, skips: Vec<String> },
    /// Integers of 4 bits with zero points.
    Awq,
    /// Integers of 4 or 8 bits, or 8-bit floats with scales of such tiles.
    Compressed { bits: u32, tile: Option<[usize; 2]> },
    /// 8-bit floats with scales of such tiles; without tiles, of rows or of the tensor.
    Float { tile: Option<[usize; 2]> },
    /// Experts in 4-bit floats, with a power of two as the scale of 32 of them (gpt-oss).
    Mxfp4,
}

/// An object of settings; each is read, has one of the supported values, or does not concern the weights.
struct Object<'a> {
    path: &'a str,
    key: String,
    map: &'a Map<String, Value>,
}

/// The key of the settings.
pub const NAME: &str = "quantization_config";

const HINT: &str = "hint: take the model's bf16 checkpoint, or a GGUF file of it";

// Settings without effect on the numbers, separated by spaces.
const GPTQ: &str = "\
    quant_method group_size damp_percent damp_auto_increment static_groups true_sequential \
    model_name_or_path model_file_base_name meta dataset tokenizer backend batch_size pad_token_id \
    version use_exllama disable_exllama use_cuda_fp16 exllama_config max_input_length \
    cache_block_outputs model_seqlen block_name_to_quantize module_name_preceding_first_block \
    modules_in_block_to_quantize lm_head";
const AWQ: &str = "\
    quant_method group_size q_group_size modules_to_not_convert backend do_fuse fuse_max_seq_len \
    modules_to_fuse exllama_config pre_quantized";
const FLOAT: &str =
    "quant_method activation_scheme scale_fmt modules_to_not_convert ignored_layers dequantize";
const MXFP4: &str = "quant_method modules_to_not_convert dequantize";
const COMPRESSED: &str = "quant_method ignore global_compression_ratio version";
const COMPRESSED_WEIGHTS: &str =
    "strategy group_size symmetric actorder observer observer_kwargs scale_dtype zp_dtype";

/// Reads the settings of the file: those beside `text_config`, where `transformers` looks for them, and those
/// inside.
///
/// # Errors
/// A library, or a setting of one, that is not supported; settings in both places that contradict each other.
pub fn read(
    path: &str,
    outside: &Map<String, Value>,
    text: Option<&Map<String, Value>>,
) -> Result<Option<Quantization>> {
    let mut found: Option<(String, Quantization)> = None;
    for (prefix, map) in [("", Some(outside)), ("text_config.", text)] {
        for name in [NAME, "compression_config", "quantization"] {
            let value = map.and_then(|map| map.get(name)).filter(|value| !value.is_null());
            let Some(value) = value else { continue };
            let key = format!("{prefix}{name}");
            let read = of_value(path, &key, value)?;
            if let Some((other, _)) = found.as_ref().filter(|(_, other)| *other != read) {
                let reason =
                    format!("contradicts `{other}`; hint: remove the one that is not of these tensors");
                return Err(Error::Config { path: path.into(), key, reason });
            }
            found = Some((key, read));
        }
    }
    Ok(found.map(|(_, read)| read))
}

fn of_value(path: &str, key: &str, value: &Value) -> Result<Quantization> {
    let bad = |reason: String| Error::Config { path: path.into(), key: key.into(), reason };
    let method = ["quant_method", "quantization_method"].iter().find_map(|method| value[*method].as_str());
    let (Some(map), Some(method)) = (value.as_object().filter(|_| key.ends_with(NAME)), method) else {
        return Err(bad(format!("names weights that are quantised, in a format that is not read; {HINT}")));
    };
    let object = Object { path, key: key.into(), map };
    match method {
        "gptq" => object.gptq(),
        "awq" => object.awq(),
        "fp8" => object.float(),
        "compressed-tensors" => object.compressed(),
        "mxfp4" => object.check(&[], MXFP4, &json!({})).map(|()| Quantization::Mxfp4),
        _ => Err(bad(format!("names `{method}`, a format that is not read; {HINT}"))),
    }
}

impl<'a> Object<'a> {
    fn bad(&self, key: &str, reason: &str) -> Error {
        let key = format!("{}.{key}", self.key);
        Error::Config { path: self.path.into(), key, reason: format!("{reason}; {HINT}") }
    }

    /// Rejects settings that are not read, not in `harmless`, and not of one of the values in `only`.
    fn check(&self, read: &[&str], harmless: &str, only: &Value) -> Result<()> {
        for (key, value) in self.map.iter().filter(|(_, value)| !value.is_null()) {
            if read.contains(&key.as_str()) || harmless.split(' ').any(|harmless| harmless == key) {
                continue;
            }
            let supported = only.get(key).and_then(Value::as_array);
            if !supported.is_some_and(|values| values.iter().any(|one| is_same(one, value))) {
                let adjective = if supported.is_some() { "supported" } else { "known" };
                return Err(self.bad(key, &format!("is {}, which is not {adjective}", shown(value))));
            }
        }
        Ok(())
    }

    fn bits(&self, key: &str) -> Result<u32> {
        match self.map.get(key).and_then(Value::as_u64) {
            Some(4) => Ok(4),
            Some(8) => Ok(8),
            _ => Err(self.bad(key, "is neither 4 nor 8")),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.map.get(key).filter(|value| !value.is_null()) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.bad(key, "is not true or false")),
        }
    }

    /// Rows and columns of a tile.
    fn tile(&self, key: &str) -> Result<Option<[usize; 2]>> {
        let Some(value) = self.map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let sizes: Option<Vec<usize>> = value.as_array().and_then(|sizes| {
            sizes
                .iter()
                .map(|n| n.as_u64().filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok()))
                .collect()
        });
        match sizes.as_deref() {
            Some(&[rows, columns]) => Ok(Some([rows, columns])),
            _ => Err(self.bad(key, &format!("is {}, not two sizes above 0", shown(value)))),
        }
    }

    fn gptq(&self) -> Result<Quantization> {
        let only = json!({
            "pack_dtype": ["int32"], "is_marlin_format": [false], "checkpoint_format": ["gptq", "gptq_v2"],
            "format": ["gptq", "gptq_v2"], "desc_act": [false],
        });
        self.check(&["bits", "sym", "dynamic"], GPTQ, &only)?;
        let is_second = ["checkpoint_format", "format"]
            .iter()
            .any(|key| self.map.get(*key).and_then(Value::as_str) == Some("gptq_v2"));
        Ok(Quantization::Gptq {
            bits: self.bits("bits")?,
            stored: u32::from(!is_second),
            is_symmetric: self.flag("sym", true)?,
            skips: self.skips()?,
        })
    }

    /// The patterns of `dynamic`, which all have to be of modules that stay floats.
    fn skips(&self) -> Result<Vec<String>> {
        let key = "dynamic";
        let Some(value) = self.map.get(key).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
        let patterns = value.as_object().ok_or_else(|| self.bad(key, "is not an object"))?;
        let skipped = |pattern: &String| {
            let skipped = pattern.strip_prefix("-:").filter(|skipped| Regex::new(skipped).is_ok());
            skipped.map(str::to_owned).ok_or_else(|| {
                let of = shown(&pattern.as_str().into());
                self.bad(key, &format!("has settings of {of}; modules that stay floats (`-:`) are supported"))
            })
        };
        patterns.keys().map(skipped).collect()
    }

    fn awq(&self) -> Result<Quantization> {
        let only = json!({
            "bits": [4], "w_bit": [4], "zero_point": [true], "version": ["gemm", "GEMM"], "format": ["gemm", "GEMM"],
        });
        self.check(&[], AWQ, &only)?;
        Ok(Quantization::Awq)
    }

    fn float(&self) -> Result<Quantization> {
        let only = json!({"fmt": ["e4m3", "float8_e4m3fn"], "is_checkpoint_fp8_serialized": [true]});
        self.check(&["weight_block_size"], FLOAT, &only)?;
        Ok(Quantization::Float { tile: self.tile("weight_block_size")? })
    }

    fn compressed(&self) -> Result<Quantization> {
        let only = json!({
            "format": ["pack-quantized", "float-quantized", "naive-quantized"],
            "quantization_status": ["compressed", "frozen"], "sparsity_config": [{}], "transform_config": [{}],
        });
        self.check(&["config_groups"], COMPRESSED, &only)?;
        let groups = self.map.get("config_groups").and_then(Value::as_object);
        let groups = groups.filter(|groups| !groups.is_empty());
        let groups = groups.ok_or_else(|| self.bad("config_groups", "has no groups"))?;
        let mut found = None;
        for (name, group) in groups {
            let read = self.group(name, group)?;
            if found.as_ref().is_some_and(|other| *other != read) {
                return Err(
                    self.bad("config_groups", "has groups of different formats, which is not supported")
                );
            }
            found = Some(read);
        }
        found.ok_or_else(|| self.bad("config_groups", "has no groups"))
    }

    fn group(&self, name: &str, group: &'a Value) -> Result<Quantization> {
        let object = |key: String, value: &'a Value| match value.as_object() {
            Some(map) => Ok(Object { path: self.path, key: format!("{}.{key}", self.key), map }),
            None => Err(self.bad(&key, "is not an object")),
        };
        let key = format!("config_groups.{name}");
        let of_group = object(key.clone(), group)?;
        let weights = object(format!("{key}.weights"), &group["weights"])?;
        let only = json!({"format": ["pack-quantized", "float-quantized", "naive-quantized"]});
        of_group.check(&["weights"], "targets input_activations", &only)?;
        let only = json!({"type": ["int", "float"], "dynamic": [false]});
        weights.check(&["num_bits", "block_structure"], COMPRESSED_WEIGHTS, &only)?;
        let (bits, tile) = (weights.bits("num_bits")?, weights.tile("block_structure")?);
        match weights.map.get("type").and_then(Value::as_str) {
            Some("float") if bits == 4 => Err(weights.bad("num_bits", "is 4, of floats")),
            _ => Ok(Quantization::Compressed { bits, tile }),
        }
    }
}

#[cfg(test)]
mod tests;
