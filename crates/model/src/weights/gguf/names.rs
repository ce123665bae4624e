//! The tensors of each architecture by their names in GGUF, with their names in a Hugging Face checkpoint.
//!
//! Source: `MODEL_TENSORS` and `TENSOR_NAMES` of the package `gguf`.

/// The use of a tensor in the decoder.
#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    /// Read, under this name.
    Read(String),
    /// Without effect on the computation for text.
    Unused,
    /// Not used by the decoder.
    Unknown,
}

/// A tensor that belongs to no layer.
fn outside_layers(arch: &str, name: &str) -> Option<Named> {
    let has_ropes = !matches!(arch, "gemma2" | "gemma3");
    Some(match name {
        "token_embd.weight" => Named::Read("model.embed_tokens.weight".into()),
        "output_norm.weight" => Named::Read("model.norm.weight".into()),
        "output.weight" => Named::Read("lm_head.weight".into()),
        "output.bias" => Named::Read("lm_head.bias".into()),
        "rope_freqs.weight" if has_ropes => Named::Read(name.into()),
        // The vision tower, and its projection to the text model.
        _ if matches!(arch, "gemma3" | "gemma4") && (name.starts_with("v.") || name.starts_with("mm.")) => {
            Named::Unused
        }
        _ => return None,
    })
}

/// The use of a tensor of this name in a model of an architecture.
pub fn named(arch: &str, name: &str) -> Named {
    let gemma4 = arch == "gemma4";
    let gemma = gemma4 || matches!(arch, "gemma2" | "gemma3");
    let oss = arch == "gpt-oss";
    if let Some(named) = outside_layers(arch, name) {
        return named;
    }
    let part = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let Some((layer, part)) = part.filter(|(layer, _)| layer.parse::<u32>().is_ok()) else {
        return Named::Unknown;
    };
    if part == "ssm_a" && is_hybrid(arch) {
        return Named::Read(format!("model.layers.{layer}.linear_attn.decay"));
    }
    let Some((stem, kind)) = part.rsplit_once('.') else { return Named::Unknown };
    let hybrid = is_hybrid(arch);
    let glm = arch == "glm4moe";
    let has_head_norms =
        glm || hybrid || gemma4 || matches!(arch, "qwen3" | "qwen3moe" | "gemma3" | "hunyuan-dense");
    let has_experts = glm || gemma4 || oss || matches!(arch, "qwen3moe" | "qwen35moe" | "qwen3next");
    let has_shared = glm || matches!(arch, "qwen35moe" | "qwen3next");
    if let Some(stem) = of_linear_attention(arch, stem, kind) {
        // The bias of the times has no module of its own.
        let kind = if stem == "dt_bias" { "" } else { ".weight" };
        return Named::Read(format!("model.layers.{layer}.linear_attn.{stem}{kind}"));
    }
    if let Some(name) = of_parallel_experts(arch, stem, kind) {
        return Named::Read(format!("model.layers.{layer}.{name}"));
    }
    let stem = match (stem, kind) {
        ("ffn_gate_inp_shexp", "weight") if hybrid && has_shared => "mlp.shared_expert_gate",
        // Frequencies that follow from the settings.
        ("attn_rot_embd", _) => return Named::Unused,
        // Layers that predict further tokens.
        (predicting, _) if (glm || hybrid) && predicting.starts_with("nextn.") => return Named::Unused,
        ("exp_probs_b", "bias") if glm => {
            return Named::Read(format!("model.layers.{layer}.mlp.gate.e_score_correction_bias"));
        }
        ("attn_q", "weight" | "bias") => "self_attn.q_proj",
        ("attn_k", "weight" | "bias") => "self_attn.k_proj",
        ("attn_v", "weight" | "bias") => "self_attn.v_proj",
        ("attn_output", "weight" | "bias") => "self_attn.o_proj",
        ("attn_q_norm", "weight") if has_head_norms => "self_attn.q_norm",
        ("attn_k_norm", "weight") if has_head_norms => "self_attn.k_norm",
        ("attn_norm", "weight") => "input_layernorm",
        ("ffn_norm", "weight") if gemma => "pre_feedforward_layernorm",
        ("ffn_norm", "weight") if !glm && !hybrid && !oss => "post_attention_layernorm",
        ("post_attention_norm", "weight") if gemma || glm || hybrid || oss => "post_attention_layernorm",
        ("post_ffw_norm", "weight") if gemma => "post_feedforward_layernorm",
        ("ffn_gate_inp", "weight") if has_experts => "mlp.gate",
        ("ffn_gate_exps", "weight") if has_experts => "mlp.experts.gate_proj",
        ("ffn_up_exps", "weight") if has_experts => "mlp.experts.up_proj",
        ("ffn_down_exps", "weight") if has_experts => "mlp.experts.down_proj",
        ("ffn_gate_up_exps", "weight") if has_experts => "mlp.experts.gate_up_proj",
        ("ffn_gate_shexp", "weight") if has_shared => "mlp.shared_experts.gate_proj",
        ("ffn_up_shexp", "weight") if has_shared => "mlp.shared_experts.up_proj",
        ("ffn_down_shexp", "weight") if has_shared => "mlp.shared_experts.down_proj",
        ("ffn_gate", "weight" | "bias") if !oss => "mlp.gate_proj",
        ("ffn_up", "weight" | "bias") if !oss => "mlp.up_proj",
        ("ffn_down", "weight" | "bias") if !oss => "mlp.down_proj",
        _ => return Named::Unknown,
    };
    Named::Read(format!("model.layers.{layer}.{stem}.{kind}"))
}

/// A tensor that only layers of Gemma 4 or of gpt-oss have.
fn of_parallel_experts(arch: &str, stem: &str, kind: &str) -> Option<&'static str> {
    Some(match (arch, stem, kind) {
        ("gemma4", "layer_output_scale", "weight") => "layer_scalar",
        ("gemma4", "pre_ffw_norm_2", "weight") => "pre_feedforward_layernorm_2.weight",
        ("gemma4", "post_ffw_norm_1", "weight") => "post_feedforward_layernorm_1.weight",
        ("gemma4", "post_ffw_norm_2", "weight") => "post_feedforward_layernorm_2.weight",
        ("gemma4", "ffn_gate_inp", "scale") => "mlp.gate.scale",
        ("gemma4", "ffn_down_exps", "scale") => "mlp.gate.per_expert_scale",
        ("gpt-oss", "attn_sinks", "weight") => "self_attn.sinks",
        ("gpt-oss", "ffn_gate_inp", "bias") => "mlp.gate.bias",
        ("gpt-oss", "ffn_gate_exps", "bias") => "mlp.experts.gate_proj.bias",
        ("gpt-oss", "ffn_up_exps", "bias") => "mlp.experts.up_proj.bias",
        ("gpt-oss", "ffn_down_exps", "bias") => "mlp.experts.down_proj.bias",
        _ => return None,
    })
}

/// A tensor of a layer of linear attention.
fn of_linear_attention(arch: &str, stem: &str, kind: &str) -> Option<&'static str> {
    Some(match (stem, kind) {
        _ if !is_hybrid(arch) => return None,
        ("ssm_dt", "bias") => "dt_bias",
        ("attn_qkv", "weight") => "in_proj_qkv",
        ("attn_gate", "weight") => "in_proj_z",
        ("ssm_in", "weight") if arch == "qwen3next" => "in_proj_qkvz",
        ("ssm_ba", "weight") if arch == "qwen3next" => "in_proj_ba",
        ("ssm_beta", "weight") => "in_proj_b",
        ("ssm_alpha", "weight") => "in_proj_a",
        ("ssm_conv1d", "weight") => "conv1d",
        ("ssm_norm", "weight") => "norm",
        ("ssm_out", "weight") => "out_proj",
        _ => return None,
    })
}

/// Returns true if an architecture has layers of Gated DeltaNet.
fn is_hybrid(arch: &str) -> bool {
    matches!(arch, "qwen35" | "qwen35moe" | "qwen3next")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_has_its_own_tensors() {
        let read = |arch, name| match named(arch, name) {
            Named::Read(name) => name,
            other => panic!("{arch} {name}: {other:?}"),
        };
        assert_eq!(read("llama", "blk.3.attn_q.bias"), "model.layers.3.self_attn.q_proj.bias");
        assert_eq!(read("qwen2", "blk.0.ffn_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
        assert_eq!(
            read("gemma3", "blk.0.ffn_norm.weight"),
            "model.layers.0.pre_feedforward_layernorm.weight"
        );
        assert_eq!(
            read("qwen3moe", "blk.1.ffn_gate_exps.weight"),
            "model.layers.1.mlp.experts.gate_proj.weight"
        );
        assert_eq!(read("qwen3", "blk.0.attn_k_norm.weight"), "model.layers.0.self_attn.k_norm.weight");
        assert_eq!(named("llama", "blk.0.attn_rot_embd.inv_freq"), Named::Unused);
        assert_eq!(named("gemma3", "v.blk.0.attn_q.weight"), Named::Unused);
        for (arch, name) in [
            ("llama", "blk.0.attn_q_norm.weight"),
            ("llama", "blk.0.post_attention_norm.weight"),
            ("llama", "blk.0.ffn_gate_exps.weight"),
            ("llama", "blk.0.ffn_gate_inp.weight"),
            ("llama", "blk.0.attn_qkv.weight"),
            ("llama", "blk.0.attn_q.scale"),
            ("qwen2", "blk.0.attn_norm.bias"),
            ("qwen2", "blk.x.attn_norm.weight"),
            ("qwen3", "cls.output.weight"),
            ("gemma3", "rope_freqs.weight"),
        ] {
            assert_eq!(named(arch, name), Named::Unknown, "{arch} {name}");
        }
    }
}
