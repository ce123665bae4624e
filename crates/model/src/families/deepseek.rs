//! Latent attention with experts behind dense layers: DeepSeek-V2, DeepSeek-V3 (V3.1, R1, Kimi-K2), GLM 4.7
//! Flash. Layers that predict further tokens are left out.

use super::{
    Config, Error, Family, Result, gguf,
    glm4_moe::{ROUTER_BIAS, behind_dense_layers, experts_from_gguf, experts_from_json},
    hf,
};
use crate::config::{Attention, Experts, Latent, Routing, Scaling, gguf::Gating};
use gguf::{
    keys::{self, Key::Read},
    tensors::{DENSE, EXPERTS, FFN_NORM, Group, PREDICTING, SHARED_EXPERTS},
};

/// The norms of compressed rows have it whatever the other norms have, as in transformers.
const NORM_EPS: f64 = 1e-6;

/// Settings of training and of experts on several devices.
const HARMLESS: &str = "aux_loss_alpha seq_aux ep_size";

pub const V2: Family = Family {
    name: "deepseek_v2",
    hf: hf::Schema {
        model_types: &["deepseek_v2"],
        keys: &["num_experts", "qk_head_dim"],
        harmless: HARMLESS,
        only: r#"{"scoring_func": "softmax", "moe_layer_freq": 1}"#,
        config: |settings| Ok(Config { experts: Some(softmax_experts(settings)?), ..decoder(settings)? }),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "deepseek2",
        keys: &[
            keys::EXPERTS,
            (
                Read,
                "expert_shared_count expert_group_count expert_group_used_count leading_dense_block_count \
                 nextn_predict_layers attention.q_lora_rank attention.kv_lora_rank \
                 attention.key_length_mla attention.value_length_mla rope.scaling.yarn_log_multiplier",
            ),
        ],
        tensors: &[LATENT, FFN_NORM, DENSE, EXPERTS, SHARED_EXPERTS, ROUTER_BIAS, PREDICTING],
        rotates_in_part: true,
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

pub const V3: Family = Family {
    name: "deepseek_v3",
    hf: hf::Schema {
        model_types: &["deepseek_v3", "kimi_k2"],
        keys: &["num_local_experts", "qk_head_dim"],
        harmless: HARMLESS,
        only: r#"{"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}"#,
        config: |settings| {
            let n_dense = settings.needed_size("first_k_dense_replace")?;
            Ok(Config { experts: Some(experts_from_json(settings, n_dense)?), ..decoder(settings)? })
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};

pub const GLM_LITE: Family = Family {
    name: "glm4_moe_lite",
    hf: hf::Schema {
        model_types: &["glm4_moe_lite"],
        keys: &["num_local_experts", "qk_head_dim"],
        only: r#"{"topk_method": "noaux_tc", "first_k_dense_replace": 1}"#,
        config: |settings| Ok(Config { experts: Some(listed_experts(settings)?), ..decoder(settings)? }),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};

const LATENT: Group = &[
    ("attn_norm.weight", "input_layernorm.weight"),
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_q_a.weight", "self_attn.q_a_proj.weight"),
    ("attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"),
    ("attn_q_b.weight", "self_attn.q_b_proj.weight"),
    ("attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"),
    ("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"),
    ("attn_kv_b.weight", "self_attn.kv_b_proj.weight"),
    ("attn_k_b.weight", "self_attn.k_b_proj.weight"),
    ("attn_v_b.weight", "self_attn.v_b_proj.weight"),
    ("attn_output.weight", "self_attn.o_proj.weight"),
];

/// Latent attention with dense feed-forward halves.
fn decoder(settings: &hf::Settings<'_>) -> Result<Config> {
    let decoder = settings.decoder(settings.windows_alike()?)?;
    let [rank, plain_dim, rotary_dim, value_dim] =
        ["kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"]
            .map(|key| settings.needed_size(key));
    let (plain_dim, rotary_dim) = (plain_dim?, rotary_dim?);
    for (key, size) in [
        ("num_key_value_heads", decoder.n_heads),
        // As transformers writes them.
        ("head_dim", rotary_dim),
        ("qk_head_dim", plain_dim.saturating_add(rotary_dim)),
    ] {
        if let Some(other) = settings.size(key)?.filter(|other| *other != size) {
            let reason = format!("is {other}, and the other sizes of its heads give {size}");
            return Err(settings.bad(key, reason));
        }
    }
    let has_switch = settings.class.defaults.contains_key("rope_interleave");
    let latent = Latent {
        rank: rank?,
        query_rank: settings.size("q_lora_rank")?,
        plain_dim,
        value_dim: value_dim?,
        is_interleaved: !has_switch || settings.flag("rope_interleave")?,
        norm_eps: NORM_EPS,
    };
    let score_factor = hf::rope::Stated::full(settings)?.score_factor()?;
    Ok(with_latent(decoder, latent, rotary_dim, score_factor))
}

fn with_latent(decoder: Config, latent: Latent, rotary_dim: usize, score_factor: f64) -> Config {
    let dims = (latent.plain_dim.saturating_add(rotary_dim)) as f64;
    Config {
        attention_scale: (dims.powf(-0.5) * score_factor) as f32,
        full: Attention {
            head_dim: latent.rank.saturating_add(rotary_dim),
            n_kv_heads: 1,
            rotary_dim,
            latent: Some(latent),
            ..decoder.full
        },
        ..decoder
    }
}

/// A softmax router, whose groups are chosen by their best expert.
///
/// Source: DeepSeek-AI (2024), DeepSeek-V2, section 2.2.2.
fn softmax_experts(settings: &hf::Settings<'_>) -> Result<Experts> {
    if settings.flag("norm_topk_prob")? {
        return Err(settings.bad("norm_topk_prob", "is `true`; only `false` is supported for this class"));
    }
    let experts = settings.experts(["n_routed_experts", "num_experts"], false)?;
    let method = settings.text("topk_method")?.unwrap_or("greedy");
    let (n_groups, top_groups) = match method {
        "greedy" => (1, 1),
        "group_limited_greedy" => (settings.needed_size("n_group")?, settings.needed_size("topk_group")?),
        _ => {
            let reason = format!("is `{method}`; `greedy` and `group_limited_greedy` are supported");
            return Err(settings.bad("topk_method", reason));
        }
    };
    let scale = settings.needed_positive("routed_scaling_factor")? as f32;
    let routing = Routing { n_groups, top_groups, best_of_group: 1, scale, ..experts.routing };
    let n_dense = settings.needed_size("first_k_dense_replace")?;
    let n_shared = settings.needed_size("n_shared_experts")?;
    Ok(behind_dense_layers(Experts { routing, ..experts }, n_dense, n_shared))
}

/// Experts in the layers that `mlp_layer_types` lists as sparse; by default, in all but the first.
fn listed_experts(settings: &hf::Settings<'_>) -> Result<Experts> {
    let experts = experts_from_json(settings, 1)?;
    let key = "mlp_layer_types";
    let Some(listed) = settings.value(key) else { return Ok(experts) };
    let is_sparse = |kind: &serde_json::Value| match kind.as_str() {
        Some("sparse") => Some(true),
        Some("dense") => Some(false),
        _ => None,
    };
    let layers: Option<Vec<bool>> =
        listed.as_array().and_then(|listed| listed.iter().map(is_sparse).collect());
    let layers = layers.filter(|layers| layers.len() == experts.layers.len());
    let n = experts.layers.len();
    let bad = || settings.bad(key, format!("is not a list of `dense` or `sparse` for each of {n} layers"));
    Ok(Experts { layers: layers.ok_or_else(bad)?, ..experts })
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    let mut decoder = reader.decoder(reader.without_windows()?)?;
    // Files that llama.cpp wrote before it had a latent cache have the sizes of expanded heads alone.
    let of_heads = |key: &str| match reader.optional_size(&format!("{key}_mla"))? {
        Some(size) => Ok(size),
        None => reader.size(key),
    };
    let (query_dim, rotary_dim) = (of_heads("attention.key_length")?, decoder.full.rotary_dim);
    let Some(plain_dim) = query_dim.checked_sub(rotary_dim) else {
        return Err(reader.bad("rope.dimension_count", format!("is {rotary_dim} of a head's {query_dim}")));
    };
    let latent = Latent {
        rank: reader.size("attention.kv_lora_rank")?,
        query_rank: reader.optional_size("attention.q_lora_rank")?.filter(|rank| *rank > 0),
        plain_dim,
        value_dim: of_heads("attention.value_length")?,
        is_interleaved: true,
        norm_eps: NORM_EPS,
    };
    // A tenth of `mscale_all_dim`; that and `mscale` are equal in all models of this architecture.
    let multiplier = reader.optional("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
    let mut score_factor = 1.0;
    if let Scaling::Yarn { factor, attention, .. } = &mut decoder.full.rope.scaling
        && multiplier.abs() > 0.0
    {
        score_factor = (1.0 + multiplier * factor.max(1.0).ln()).powi(2);
        *attention = Some(1.0);
    }
    let experts = Some(routed_experts(reader)?);
    Ok(Config { experts, ..with_latent(decoder, latent, rotary_dim, score_factor) })
}

fn routed_experts(reader: &gguf::Reader<'_>) -> Result<Experts> {
    let (groups, n) = ("expert_group_count", reader.size("expert_count")?);
    // DeepSeek-V2 and V3, in files of before llama.cpp wrote the groups that they have.
    if [160, 256].contains(&n) && reader.optional_size(groups)?.is_none() {
        let reason = format!("is missing, and models with {n} experts have groups; hint: take a newer file");
        return Err(reader.bad(groups, reason));
    }
    if reader.optional_size("expert_gating_func")? == Some(Gating::Sigmoid as usize) {
        return experts_from_gguf(reader);
    }
    reader.check_gating(Gating::Softmax)?;
    let key = "expert_weights_norm";
    if reader.value(key).is_some() && reader.are_weights_normalised()? {
        return Err(reader.bad(key, "is true, which is not supported with a softmax"));
    }
    let size = |key: &str| Ok::<_, Error>(reader.optional_size(key)?.filter(|n| *n > 0));
    let routing = Routing {
        n_groups: size(groups)?.unwrap_or(1),
        top_groups: size("expert_group_used_count")?.unwrap_or(1),
        best_of_group: 1,
        scale: reader.expert_scale()?,
        ..Routing::softmax(reader.size("expert_used_count")?, false)
    };
    let n_dense = size("leading_dense_block_count")?.unwrap_or(0);
    let n_shared = size("expert_shared_count")?.unwrap_or(0);
    Ok(behind_dense_layers(reader.experts_routed(routing)?, n_dense, n_shared))
}
