//! The tensors of a decoder by their names in GGUF, with their names in a Hugging Face checkpoint, in groups
//! that families share.
//!
//! Source: `MODEL_TENSORS` and `TENSOR_NAMES` of the package `gguf`.

use super::Schema;

/// Names in GGUF, without the layer, and in the checkpoint; the second is `UNUSED` for tensors that are not
/// read. A name that ends in `*` stands for all that begin like it.
pub type Group = &'static [(&'static str, &'static str)];

/// Without effect on the computation for text.
pub const UNUSED: &str = "";

/// Tensors outside of layers.
const GLOBAL: Group = &[
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
    ("output.bias", "lm_head.bias"),
];

/// Divisors of the frequencies.
pub const ROPE_FACTORS: Group = &[("rope_freqs.weight", "rope_freqs.weight")];

/// The image encoder, and its projection to the decoder.
const IMAGES: [&str; 2] = ["v.", "mm."];

pub const ATTENTION: Group = &[
    ("attn_norm.weight", "input_layernorm.weight"),
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_q.bias", "self_attn.q_proj.bias"),
    ("attn_k.weight", "self_attn.k_proj.weight"),
    ("attn_k.bias", "self_attn.k_proj.bias"),
    ("attn_v.weight", "self_attn.v_proj.weight"),
    ("attn_v.bias", "self_attn.v_proj.bias"),
    ("attn_output.weight", "self_attn.o_proj.weight"),
    ("attn_output.bias", "self_attn.o_proj.bias"),
    // Frequencies that follow from the settings.
    ("attn_rot_embd.*", UNUSED),
];

pub const HEAD_NORMS: Group =
    &[("attn_q_norm.weight", "self_attn.q_norm.weight"), ("attn_k_norm.weight", "self_attn.k_norm.weight")];

/// The norm before the feed-forward half, by its usual name.
pub const FFN_NORM: Group = &[("ffn_norm.weight", "post_attention_layernorm.weight")];

/// The norm before the feed-forward half, by its name in later families.
pub const POST_ATTENTION_NORM: Group = &[("post_attention_norm.weight", "post_attention_layernorm.weight")];

/// The norms around the feed-forward half of Gemma.
pub const GEMMA_NORMS: Group = &[
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
    ("ffn_norm.weight", "pre_feedforward_layernorm.weight"),
    ("post_ffw_norm.weight", "post_feedforward_layernorm.weight"),
];

/// A dense feed-forward half.
pub const DENSE: Group = &[
    ("ffn_gate.weight", "mlp.gate_proj.weight"),
    ("ffn_gate.bias", "mlp.gate_proj.bias"),
    ("ffn_up.weight", "mlp.up_proj.weight"),
    ("ffn_up.bias", "mlp.up_proj.bias"),
    ("ffn_down.weight", "mlp.down_proj.weight"),
    ("ffn_down.bias", "mlp.down_proj.bias"),
];

/// Fused projections, in place of [`DENSE`]'s: `ffn_up` holds gate and up.
pub const GATE_AND_UP: Group =
    &[("attn_qkv.weight", "self_attn.qkv_proj.weight"), ("ffn_up.weight", "mlp.gate_up_proj.weight")];

pub const EXPERTS: Group = &[
    ("ffn_gate_inp.weight", "mlp.gate.weight"),
    ("ffn_gate_exps.weight", "mlp.experts.gate_proj.weight"),
    ("ffn_up_exps.weight", "mlp.experts.up_proj.weight"),
    ("ffn_down_exps.weight", "mlp.experts.down_proj.weight"),
    ("ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj.weight"),
];

pub const SHARED_EXPERTS: Group = &[
    ("ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"),
    ("ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"),
    ("ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"),
];

/// The gate of Qwen's shared expert.
pub const SHARED_EXPERT_GATE: Group = &[("ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight")];

/// The head of a model that scores texts.
pub const SCORE_HEAD: Group = &[("cls.output.weight", "score.weight"), ("cls.output.bias", "score.bias")];

/// Layers that predict further tokens.
pub const PREDICTING: Group = &[("nextn.*", UNUSED)];

/// Layers of Gated DeltaNet.
pub const DELTA_NET: Group = &[
    ("ssm_a", "linear_attn.decay"),
    // The bias of the times has no module of its own.
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("attn_qkv.weight", "linear_attn.in_proj_qkv.weight"),
    ("attn_gate.weight", "linear_attn.in_proj_z.weight"),
    // The two above in one tensor, and the two below in another (Qwen3-Next).
    ("ssm_in.weight", "linear_attn.in_proj_qkvz.weight"),
    ("ssm_ba.weight", "linear_attn.in_proj_ba.weight"),
    ("ssm_beta.weight", "linear_attn.in_proj_b.weight"),
    ("ssm_alpha.weight", "linear_attn.in_proj_a.weight"),
    ("ssm_conv1d.weight", "linear_attn.conv1d.weight"),
    ("ssm_norm.weight", "linear_attn.norm.weight"),
    ("ssm_out.weight", "linear_attn.out_proj.weight"),
];

impl Schema {
    /// The name in a checkpoint of the tensor with this name in GGUF: [`UNUSED`] for one that is not read,
    /// `None` for one that this family does not have.
    pub fn tensor_name(&self, name: &str) -> Option<String> {
        if self.has_images && IMAGES.iter().any(|part| name.starts_with(part)) {
            return Some(UNUSED.into());
        }
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        let of_layer = name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
        let (prefix, part) = match of_layer.filter(|(layer, _)| is_number(layer)) {
            Some((layer, part)) => (format!("model.layers.{layer}."), part),
            None => (String::new(), name),
        };
        let matches = |known: &str| match known.strip_suffix('*') {
            Some(start) => part.starts_with(start),
            None => part == known,
        };
        let is_global =
            |known: &str| [ROPE_FACTORS, SCORE_HEAD].concat().iter().any(|(name, _)| *name == known);
        let groups = self.tensors.iter().copied().flatten();
        let groups = groups.filter(|(known, _)| prefix.is_empty() == is_global(known));
        let mut names = groups.chain(GLOBAL.iter().filter(|_| prefix.is_empty()));
        let (_, target) = names.find(|(known, _)| matches(known))?;
        Some(if *target == UNUSED { UNUSED.into() } else { format!("{prefix}{target}") })
    }
}
