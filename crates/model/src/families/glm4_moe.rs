//! GLM 4.5 and 4.6: a sigmoid router with a bias for the choice, shared experts, dense first layers, half of
//! each head rotated. Layers that predict further tokens are left out.

use super::{Config, Error, Family, QkNorm, Result, gguf, hf};
use crate::config::{Experts, Routing, Scoring, SharedExpert, gguf::Gating};
use gguf::{
    keys::{self, Key::Read},
    tensors::{
        ATTENTION, DENSE, EXPERTS, HEAD_NORMS, POST_ATTENTION_NORM, PREDICTING, ROPE_FACTORS, SHARED_EXPERTS,
    },
};

pub const FAMILY: Family = Family {
    name: "glm4_moe",
    hf: hf::Schema {
        model_types: &["glm4_moe"],
        keys: &["num_local_experts"],
        rope: hf::rope::Schema { part: Some(0.5), ..hf::rope::Schema::WHOLE },
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "glm4moe",
        keys: &[
            keys::EXPERTS,
            (
                Read,
                "expert_shared_count expert_group_count expert_group_used_count leading_dense_block_count \
                 nextn_predict_layers",
            ),
        ],
        tensors: &[
            ATTENTION,
            HEAD_NORMS,
            POST_ATTENTION_NORM,
            DENSE,
            EXPERTS,
            SHARED_EXPERTS,
            ROUTER_BIAS,
            PREDICTING,
            ROPE_FACTORS,
        ],
        rotates_in_part: true,
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

pub const ROUTER_BIAS: gguf::tensors::Group = &[("exp_probs_b.bias", "mlp.gate.e_score_correction_bias")];

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let decoder = settings.decoder(settings.windows_alike()?)?;
    let n_dense = settings.needed_size("first_k_dense_replace")?;
    Ok(Config {
        qk_norm: QkNorm::of_heads(settings.flag("use_qk_norm")?),
        o_bias: false,
        experts: Some(experts_from_json(settings, n_dense)?),
        ..decoder
    })
}

/// A sigmoid router with a correction bias, and groups of experts, in all layers but the first `n_dense`.
pub fn experts_from_json(settings: &hf::Settings<'_>, n_dense: usize) -> Result<Experts> {
    let is_normalised = settings.flag("norm_topk_prob")?;
    let experts = settings.experts(["n_routed_experts", "num_local_experts"], is_normalised)?;
    let routing = Routing {
        n_groups: settings.needed_size("n_group")?,
        top_groups: settings.needed_size("topk_group")?,
        scale: settings.needed_positive("routed_scaling_factor")? as f32,
        ..sigmoid(experts.routing)
    };
    let n_shared = settings.needed_size("n_shared_experts")?;
    if n_shared.checked_mul(experts.width).is_none() {
        return Err(settings.bad("n_shared_experts", "is too large"));
    }
    Ok(behind_dense_layers(Experts { routing, ..experts }, n_dense, n_shared))
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    Ok(Config {
        qk_norm: QkNorm::of_heads(reader.tensors.has_head_norms),
        qkv_bias: reader.tensors.has_query_bias,
        experts: Some(experts_from_gguf(reader)?),
        ..reader.decoder(reader.without_windows()?)?
    })
}

/// The experts of [`experts_from_json`].
pub fn experts_from_gguf(reader: &gguf::Reader<'_>) -> Result<Experts> {
    reader.check_gating(Gating::Sigmoid)?;
    let groups = |key| Ok::<_, Error>(reader.optional_size(key)?.filter(|n| *n > 0).unwrap_or(1));
    let top_k = reader.size("expert_used_count")?;
    let experts = reader.experts_routed(Routing {
        n_groups: groups("expert_group_count")?,
        top_groups: groups("expert_group_used_count")?,
        scale: reader.expert_scale()?,
        ..sigmoid(Routing::softmax(top_k, reader.are_weights_normalised()?))
    })?;
    let n_shared = reader.optional_size("expert_shared_count")?.unwrap_or(0);
    let n_dense = reader.optional_size("leading_dense_block_count")?.unwrap_or(0);
    Ok(behind_dense_layers(experts, n_dense, n_shared))
}

fn sigmoid(softmax: Routing) -> Routing {
    let normalised = softmax.normalised.map(|_| 1e-20);
    Routing { scoring: Scoring::Sigmoid, has_bias: true, normalised, ..softmax }
}

/// All layers but the first `n_dense` have experts; shared ones are one of their summed width.
pub fn behind_dense_layers(mut experts: Experts, n_dense: usize, n_shared: usize) -> Experts {
    let shared = SharedExpert { width: n_shared.saturating_mul(experts.width), is_gated: false };
    experts.layers = (0..experts.layers.len()).map(|layer| layer >= n_dense).collect();
    Experts { shared: (n_shared > 0).then_some(shared), ..experts }
}
