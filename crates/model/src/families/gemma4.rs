//! Gemma 4, dense or with experts beside the dense half: full and sliding layers have heads and ropes of
//! their own, values have norms, and each layer's output is multiplied by a number. Embeddings for each layer
//! and shared keys and values (the E models) are refused.

use serde_json::{Map, Value};

use super::{Config, Family, QkNorm, Result, gemma2::gemma, gguf, hf};
use crate::config::{Activation, Attention, Experts, Rope, Routing, Scaling, gguf::Gating};
use gguf::{
    keys::{
        self,
        Key::{Read, Zero},
    },
    tensors::{ATTENTION, DENSE, EXPERTS, GEMMA_NORMS, Group, HEAD_NORMS, ROPE_FACTORS},
};

const LOGITS: &str = "final_logit_softcapping";

/// The default of `global_head_dim`, which is no field of the class.
const GLOBAL_HEAD_DIM: usize = 512;

pub const FAMILY: Family = Family {
    name: "gemma4",
    hf: hf::Schema {
        model_types: &["gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified"],
        keys: &[
            LOGITS,
            "use_bidirectional_attention",
            "global_head_dim",
            "num_global_key_value_heads",
            "per_layer_config",
        ],
        rope: hf::rope::Schema {
            by_layer_type: true,
            keys: &[("proportional", &["factor"])],
            ..hf::rope::Schema::WHOLE
        },
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "gemma4",
        keys: &[
            keys::WINDOWS,
            keys::SLIDING_HEADS,
            keys::EXPERTS,
            keys::ONE_GROUP,
            (Read, LOGITS),
            // Of the E models alone.
            (Zero, "embedding_length_per_layer_input"),
        ],
        tensors: &[ATTENTION, HEAD_NORMS, GEMMA_NORMS, DENSE, EXPERTS, BESIDE_DENSE, ROPE_FACTORS],
        has_images: true,
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

const BESIDE_DENSE: Group = &[
    ("layer_output_scale.weight", "layer_scalar"),
    ("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"),
    ("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"),
    ("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"),
    ("ffn_gate_inp.scale", "mlp.gate.scale"),
    ("ffn_down_exps.scale", "mlp.gate.per_expert_scale"),
];

/// Settings of all Gemma 4 models.
fn gemma4(decoder: Config) -> Config {
    Config {
        qk_norm: QkNorm::Heads,
        value_norm: true,
        layer_scalars: true,
        attention_scale: 1.0,
        ..gemma(decoder)
    }
}

fn beside_dense(experts: Experts) -> Experts {
    let routing = Routing { expert_factors: true, ..experts.routing };
    Experts { beside_dense: true, routing, ..experts }
}

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    check(settings)?;
    let mut windows = settings
        .windows_listed(|_, n_layers| Ok((1..=n_layers).map(|layer| !layer.is_multiple_of(6)).collect()))?;
    // The class makes the last layer a full one, whatever the file has.
    windows.slides.iter_mut().last().into_iter().for_each(|last| *last = false);
    let decoder = settings.decoder(windows)?;
    let sliding = Heads { head_dim: decoder.full.head_dim, n_kv_heads: decoder.full.n_kv_heads };
    let heads = full_heads(settings, &decoder.slides, sliding)?;
    let (full, _) = settings.attention(heads.head_dim, heads.n_kv_heads)?;
    let full = Attention { values_are_keys: settings.flag("attention_k_eq_v")?, ..full };
    let experts = if settings.flag("enable_moe_block")? {
        let n = settings.needed_size("num_experts")?;
        let routing = Routing::softmax(settings.top_k("top_k_experts", n)?, true);
        let width = settings.needed_size("moe_intermediate_size")?;
        Some(beside_dense(Experts::new(n, width, routing, decoder.n_layers)))
    } else {
        None
    };
    let logit_softcap = settings.positive(LOGITS)?.map(|cap| cap as f32);
    Ok(gemma4(Config { full, logit_softcap, experts, ..decoder }))
}

/// Rejects embeddings for each layer, shared keys and values, and attention to later tokens.
fn check(settings: &hf::Settings<'_>) -> Result<()> {
    let per_layer = "hidden_size_per_layer_input";
    if settings.class.defaults.contains_key(per_layer) && settings.size(per_layer)?.unwrap_or(0) != 0 {
        let reason = "is not 0: embeddings for each layer (Gemma 4 E2B and E4B) are not supported; hint: take Gemma 4 \
                      12B, 26B-A4B or 31B";
        return Err(settings.bad(per_layer, reason));
    }
    if settings.size("num_kv_shared_layers")?.unwrap_or(0) != 0 {
        let reason = "is not 0: layers that share keys and values (Gemma 4 E2B and E4B) are not supported";
        return Err(settings.bad("num_kv_shared_layers", reason));
    }
    match settings.text("use_bidirectional_attention")? {
        // Only for tokens of images.
        None | Some("vision") => Ok(()),
        Some(other) => Err(settings.bad(
            "use_bidirectional_attention",
            format!("is `{other}`; a decoder sees earlier tokens only (null or `vision`)"),
        )),
    }
}

/// The heads of one kind of layer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Heads {
    head_dim: usize,
    n_kv_heads: usize,
}

/// The heads of full layers; `sliding` are those of the others.
fn full_heads(settings: &hf::Settings<'_>, slides: &[bool], sliding: Heads) -> Result<Heads> {
    if let Some(layers) = settings.object("per_layer_config")? {
        return heads_of_layers(settings, slides, sliding, layers);
    }
    let n_kv_heads = match settings.size("num_global_key_value_heads")? {
        Some(n) if settings.flag("attention_k_eq_v")? => n,
        _ => sliding.n_kv_heads,
    };
    Ok(Heads { head_dim: settings.size("global_head_dim")?.unwrap_or(GLOBAL_HEAD_DIM), n_kv_heads })
}

/// The heads of full layers from settings by layer: all full layers have the same ones, sliding layers none.
fn heads_of_layers(
    settings: &hf::Settings<'_>,
    slides: &[bool],
    sliding: Heads,
    layers: &Map<String, Value>,
) -> Result<Heads> {
    let key = "per_layer_config";
    let place = |layer: &str| layer.parse::<usize>().ok().filter(|layer| *layer < slides.len());
    if let Some(layer) = layers.keys().find(|layer| place(layer).is_none()) {
        let reason = format!("has `{layer}`, which is none of {} layers", slides.len());
        return Err(settings.bad(key, reason));
    }
    let mut full: Option<Heads> = None;
    for (layer, slides) in slides.iter().enumerate() {
        let heads = match layers.get(&layer.to_string()) {
            None => sliding,
            Some(object) => heads_of_layer(settings, layer, sliding, object)?,
        };
        let expected = if *slides { sliding } else { *full.get_or_insert(heads) };
        if heads != expected {
            let reason = format!("gives layer {layer} other heads than the layers of its type have");
            return Err(settings.bad(key, reason));
        }
    }
    Ok(full.unwrap_or(sliding))
}

fn heads_of_layer(
    settings: &hf::Settings<'_>,
    layer: usize,
    sliding: Heads,
    object: &Value,
) -> Result<Heads> {
    let bad = |reason: String| settings.bad(&format!("per_layer_config.{layer}"), reason);
    let object = object.as_object().ok_or_else(|| bad(format!("is {}, not an object", hf::shown(object))))?;
    let mut heads = sliding;
    for (key, value) in object {
        let size = value.as_u64().and_then(|n| usize::try_from(n).ok());
        let size =
            size.ok_or_else(|| bad(format!("has `{key}` {}, not a whole number", hf::shown(value))))?;
        match key.as_str() {
            "head_dim" => heads.head_dim = size,
            "num_key_value_heads" => heads.n_kv_heads = size,
            _ => return Err(bad(format!("has `{key}`, a setting that is not known"))),
        }
    }
    Ok(heads)
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    let decoder = reader.decoder(reader.windows(Some(reader.needed_window()?), None)?)?;
    let first_full = decoder.slides.iter().position(|slides| !slides);
    let values_are_keys = first_full.is_some_and(|first| reader.tensors.without_values.contains(&first));
    let full = Attention { rope: full_rope(reader)?, values_are_keys, ..decoder.full };
    let head_dim = reader.size("attention.key_length_swa")?;
    for key in ["attention.value_length_swa", "rope.dimension_count_swa"] {
        if reader.optional_size(key)?.is_some_and(|size| size != head_dim) {
            let reason = format!("is not {head_dim}, the head size of sliding layers");
            return Err(reader.bad(key, reason));
        }
    }
    let rope = reader.local_rope()?;
    let sliding =
        decoder.sliding.map(|sliding| Attention { head_dim, rotary_dim: head_dim, rope, ..sliding });
    let experts = match reader.optional_size("expert_count")?.unwrap_or(0) {
        0 => None,
        _ => Some(beside_dense(reader.experts(Gating::Softmax)?)),
    };
    let logit_softcap = reader.above_zero(LOGITS)?.map(|cap| cap as f32);
    let activation = Activation::GeluTanh;
    let config = gemma4(Config { full, sliding, logit_softcap, activation, experts, ..decoder });
    Ok(Config { embedding_scale: reader.embedding_scale(config.embedding_scale)?, ..config })
}

/// The rope of full layers: divisors of the first frequencies are 1, those of all others so large that these
/// pairs are not rotated.
fn full_rope(reader: &gguf::Reader<'_>) -> Result<Rope> {
    const NEVER: f32 = 1e20;
    let rope = reader.rope(1e6)?;
    let Some(factors) = &reader.tensors.factors else { return Err(reader.bad_factors("is missing")) };
    if reader.rope_type()? != "linear" {
        return Ok(rope);
    }
    let pairs = factors.iter().take_while(|by| by.to_bits() == 1_f32.to_bits()).count();
    if factors[pairs..].iter().any(|by| *by < NEVER) {
        return Err(reader.bad_factors("is not a run of ones followed by values of at least 1e20"));
    }
    let scaling = Scaling::Proportional { pairs, factor: reader.rope_factor()? };
    Ok(Rope { scaling, ..rope })
}

#[cfg(test)]
mod tests;
