//! gpt-oss: learnt sinks in the softmax, every other layer slides, experts with biases and a clamped
//! nonlinearity.

use super::{Config, Family, Result, gguf, hf};
use crate::config::{Activation, Experts, Routing, Scaling, gguf::Gating};
use gguf::{
    keys,
    tensors::{ATTENTION, EXPERTS, Group, POST_ATTENTION_NORM, ROPE_FACTORS},
};

pub const FAMILY: Family = Family {
    name: "gpt_oss",
    hf: hf::Schema {
        model_types: &["gpt_oss"],
        keys: &["num_experts", "experts_per_token", "initial_context_length"],
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "gpt-oss",
        keys: &[keys::WINDOWS, keys::EXPERTS, keys::ONE_GROUP],
        tensors: &[ATTENTION, POST_ATTENTION_NORM, EXPERTS, SINKS_AND_BIASES, ROPE_FACTORS],
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

const SINKS_AND_BIASES: Group = &[
    ("attn_sinks.weight", "self_attn.sinks"),
    ("ffn_gate_inp.bias", "mlp.gate.bias"),
    ("ffn_gate_exps.bias", "mlp.experts.gate_proj.bias"),
    ("ffn_up_exps.bias", "mlp.experts.up_proj.bias"),
    ("ffn_down_exps.bias", "mlp.experts.down_proj.bias"),
];

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let windows = settings
        .windows_listed(|_, n_layers| Ok((0..n_layers).map(|layer| layer.is_multiple_of(2)).collect()))?;
    let decoder = settings.decoder(windows)?;
    if decoder.activation != Activation::Silu {
        let reason = "is not `silu`, the only one that is supported for this class";
        return Err(settings.bad("hidden_act", reason));
    }
    let (key, original) = ("initial_context_length", hf::rope::Stated::full(settings)?.original()?);
    let is_other = |initial: &usize| (*initial as f64).total_cmp(&original).is_ne();
    if let Some(initial) = settings.size(key)?.filter(is_other) {
        let reason = format!("is {initial}, not the positions of pretraining that the rope has");
        return Err(settings.bad(key, reason));
    }
    let n = settings.either_size("num_local_experts", "num_experts")?;
    let top_k = settings.top_k("num_experts_per_tok", n)?;
    let other = "experts_per_token";
    if settings.size(other)?.is_some_and(|other| other != top_k) {
        let reason = format!("is not {top_k}, as `num_experts_per_tok` is; hint: remove one of them");
        return Err(settings.bad(other, reason));
    }
    let (alpha, limit) =
        (settings.needed_positive("swiglu_alpha")?, settings.needed_positive("swiglu_limit")?);
    let routing = Routing::softmax(top_k, true);
    let experts = Experts::new(n, decoder.intermediate, routing, decoder.n_layers);
    let activation = Activation::ClampedSilu { alpha: alpha as f32, limit: limit as f32 };
    Ok(with_sinks(Config { activation, ..decoder }, experts))
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    reader.needed_window()?;
    let mut decoder = reader.decoder(reader.windows(reader.window(None)?, Some(2))?)?;
    for attention in std::iter::once(&mut decoder.full).chain(&mut decoder.sliding) {
        if let Scaling::Yarn { truncate, .. } = &mut attention.rope.scaling {
            // The format has no key for it.
            *truncate = false;
        }
    }
    // llama.cpp's constants.
    let activation = Activation::ClampedSilu { alpha: 1.702, limit: 7.0 };
    let decoder = Config { activation, qkv_bias: true, o_bias: true, ..decoder };
    Ok(with_sinks(decoder, reader.experts(Gating::SoftmaxOfChosen)?))
}

fn with_sinks(decoder: Config, experts: Experts) -> Config {
    let routing = Routing { logit_bias: true, ..experts.routing };
    Config { sinks: true, experts: Some(Experts { biases: true, routing, ..experts }), ..decoder }
}
