//! Experts from a `config.json`.

use super::{
    super::{Arch, Experts, Routing, Scoring, SharedExpert},
    settings::{Settings, shown},
};
use crate::Error;

/// The experts of a class that has them.
pub fn experts(s: &Settings<'_>, arch: Arch, n_layers: usize) -> Result<Option<Experts>, Error> {
    match arch {
        Arch::Qwen3Moe => qwen3(s, n_layers).map(Some),
        Arch::Glm4Moe => glm4(s, n_layers).map(Some),
        Arch::Qwen35Moe | Arch::Qwen3Next => hybrid(s, arch, n_layers).map(Some),
        Arch::Gemma4 if s.flag("enable_moe_block")? => gemma4(s, n_layers).map(Some),
        Arch::GptOss => gpt_oss(s, n_layers).map(Some),
        _ => Ok(None),
    }
}

/// Gemma 4: experts beside every layer's dense half.
fn gemma4(s: &Settings<'_>, n_layers: usize) -> Result<Experts, Error> {
    let (n, top_k) = (s.needed_size("num_experts")?, s.needed_size("top_k_experts")?);
    check_choice(s, "top_k_experts", top_k, n)?;
    Ok(Experts {
        n,
        width: s.needed_size("moe_intermediate_size")?,
        routing: Routing { expert_factors: true, ..Routing::softmax(top_k, true) },
        shared: None,
        biases: false,
        beside_dense: true,
        layers: vec![true; n_layers],
    })
}

/// gpt-oss: biases everywhere. A softmax over the chosen logits equals one over all that is normalised.
fn gpt_oss(s: &Settings<'_>, n_layers: usize) -> Result<Experts, Error> {
    let n = number_of(s, "num_local_experts", "num_experts")?;
    let top_k = s.needed_size("num_experts_per_tok")?;
    check_choice(s, "num_experts_per_tok", top_k, n)?;
    let other = "experts_per_token";
    if s.size(other)?.is_some_and(|other| other != top_k) {
        let reason = format!("is not {top_k}, as `num_experts_per_tok` is; hint: remove one of them");
        return Err(s.bad(other, reason));
    }
    Ok(Experts {
        n,
        width: s.needed_size("intermediate_size")?,
        routing: Routing { logit_bias: true, ..Routing::softmax(top_k, true) },
        shared: None,
        biases: true,
        beside_dense: false,
        layers: vec![true; n_layers],
    })
}

fn qwen3(s: &Settings<'_>, n_layers: usize) -> Result<Experts, Error> {
    let n = number_of(s, "num_experts", "num_local_experts")?;
    let top_k = s.needed_size("num_experts_per_tok")?;
    check_choice(s, "num_experts_per_tok", top_k, n)?;
    Ok(Experts {
        n,
        width: s.needed_size("moe_intermediate_size")?,
        routing: Routing::softmax(top_k, s.flag("norm_topk_prob")?),
        shared: None,
        biases: false,
        beside_dense: false,
        layers: sparse_layers(s, n_layers)?,
    })
}

/// Columns of a dense feed-forward half. A class of experts alone has none.
pub fn intermediate(s: &Settings<'_>, arch: Arch) -> Result<usize, Error> {
    match s.size("intermediate_size")? {
        None if arch == Arch::Qwen35Moe => s.needed_size("moe_intermediate_size"),
        _ => s.needed_size("intermediate_size"),
    }
}

/// Qwen's hybrids: a shared expert with a gate beside the others.
fn hybrid(s: &Settings<'_>, arch: Arch, n_layers: usize) -> Result<Experts, Error> {
    let n = number_of(s, "num_experts", "num_local_experts")?;
    let top_k = s.needed_size("num_experts_per_tok")?;
    check_choice(s, "num_experts_per_tok", top_k, n)?;
    // The weights of Qwen3.5's experts always add up to one, and every layer has them.
    let (is_normalised, layers) = match arch {
        Arch::Qwen3Next => (s.flag("norm_topk_prob")?, sparse_layers(s, n_layers)?),
        _ => (true, vec![true; n_layers]),
    };
    Ok(Experts {
        n,
        width: s.needed_size("moe_intermediate_size")?,
        routing: Routing::softmax(top_k, is_normalised),
        shared: Some(SharedExpert {
            width: s.needed_size("shared_expert_intermediate_size")?,
            is_gated: true,
        }),
        biases: false,
        beside_dense: false,
        layers,
    })
}

fn glm4(s: &Settings<'_>, n_layers: usize) -> Result<Experts, Error> {
    let n = number_of(s, "n_routed_experts", "num_local_experts")?;
    let (width, top_k) = (s.needed_size("moe_intermediate_size")?, s.needed_size("num_experts_per_tok")?);
    check_choice(s, "num_experts_per_tok", top_k, n)?;
    let (n_shared, first) = (s.needed_size("n_shared_experts")?, s.needed_size("first_k_dense_replace")?);
    let shared_width =
        n_shared.checked_mul(width).ok_or_else(|| s.bad("n_shared_experts", "is too large"))?;
    Ok(Experts {
        n,
        width,
        routing: Routing {
            scoring: Scoring::Sigmoid,
            top_k,
            has_bias: true,
            n_groups: s.needed_size("n_group")?,
            top_groups: s.needed_size("topk_group")?,
            normalised: s.flag("norm_topk_prob")?.then_some(1e-20),
            scale: s.needed_positive("routed_scaling_factor")? as f32,
            logit_bias: false,
            expert_factors: false,
        },
        shared: (n_shared > 0).then_some(SharedExpert { width: shared_width, is_gated: false }),
        biases: false,
        beside_dense: false,
        layers: (0..n_layers).map(|layer| layer >= first).collect(),
    })
}

/// The number of experts, under the class's name for it or the one that newer versions write.
fn number_of(s: &Settings<'_>, key: &str, other: &str) -> Result<usize, Error> {
    let n = match (s.given(key), s.given(other)) {
        (None, Some(_)) => s.needed_size(other)?,
        _ => s.needed_size(key)?,
    };
    if s.given(other).is_some() && s.needed_size(other)? != n {
        return Err(s.bad(other, format!("is not {n}, as `{key}` is; hint: remove one of them")));
    }
    Ok(n)
}

fn check_choice(s: &Settings<'_>, key: &str, top_k: usize, n: usize) -> Result<(), Error> {
    if (1..=n).contains(&top_k) {
        return Ok(());
    }
    Err(s.bad(key, format!("is {top_k}; a number from 1 to {n}, that of the experts, was expected")))
}

/// Every layer of a step has experts, unless it is listed as dense.
fn sparse_layers(s: &Settings<'_>, n_layers: usize) -> Result<Vec<bool>, Error> {
    let step = s.needed_size("decoder_sparse_step")?;
    if step == 0 {
        return Err(s.bad("decoder_sparse_step", "is 0; a number from 1 was expected"));
    }
    let key = "mlp_only_layers";
    let dense = match s.value(key) {
        None => Vec::new(),
        Some(value) => {
            let list = value.as_array().and_then(|list| list.iter().map(serde_json::Value::as_u64).collect());
            let list: Option<Vec<u64>> = list;
            list.ok_or_else(|| s.bad(key, format!("is {}, not a list of layers", shown(value))))?
        }
    };
    Ok((0..n_layers)
        .map(|layer| (layer + 1).is_multiple_of(step) && !dense.contains(&(layer as u64)))
        .collect())
}
