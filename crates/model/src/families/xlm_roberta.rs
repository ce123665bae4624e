//! Bidirectional encoders: XLM-R (and InfoXLM), XLM-R XL and XXL, and BERT (and multilingual E5). XL has its
//! norms before each half and a last one, the others behind each half and behind the embeddings. A
//! checkpoint's pooler and its heads for pretraining are not read.

use super::{Config, Family, LayerNorms, Result, hf};
use crate::config::{Attention, EncoderConfig, Rope, Scaling};

pub const FAMILY: Family = Family {
    name: "xlm-roberta",
    hf: hf::Schema {
        model_types: &["xlm-roberta"],
        config: |settings| behind_padding(settings, LayerNorms::Behind),
        ..SCHEMA
    },
    gguf: None,
};

pub const XL: Family = Family {
    name: "xlm-roberta-xl",
    hf: hf::Schema {
        model_types: &["xlm-roberta-xl"],
        config: |settings| behind_padding(settings, LayerNorms::Before),
        ..SCHEMA
    },
    gguf: None,
};

pub const BERT: Family = Family {
    name: "bert",
    hf: hf::Schema {
        model_types: &["bert"],
        config: |settings| encoder(settings, LayerNorms::Behind, 0),
        ..SCHEMA
    },
    gguf: None,
};

const SCHEMA: hf::Schema = hf::Schema {
    harmless: "directionality embedding_size pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers \
        pooler_size_per_head pooler_type",
    only: r#"{"position_embedding_type": "absolute"}"#,
    names: &[
        ("xlm-roberta.", ""),
        ("xlm_roberta.", ""),
        ("roberta.", ""),
        ("bert.", ""),
        // In files of old versions.
        (".gamma", ".weight"),
        (".beta", ".bias"),
        ("embeddings.word_embeddings.", "model.embed_tokens."),
        ("embeddings.position_embeddings.", "model.embed_positions."),
        ("embeddings.token_type_embeddings.", "model.embed_types."),
        ("embeddings.LayerNorm.", "model.embed_norm."),
        ("encoder.LayerNorm.", "model.norm."),
        ("encoder.layer.", "model.layers."),
        (".attention.self.query.", ".self_attn.q_proj."),
        (".attention.self.key.", ".self_attn.k_proj."),
        (".attention.self.value.", ".self_attn.v_proj."),
        (".attention.self_attn_layer_norm.", ".input_layernorm."),
        (".attention.output.dense.", ".self_attn.o_proj."),
        (".attention.output.LayerNorm.", ".post_attention_layernorm."),
        (".intermediate.dense.", ".mlp.up_proj."),
        (".output.dense.", ".mlp.down_proj."),
        (".output.LayerNorm.", ".post_feedforward_layernorm."),
        (".LayerNorm.", ".post_attention_layernorm."),
    ],
    ..hf::Schema::LLAMA_LIKE
};

/// Settings that are read of decoders alone.
const OF_DECODERS: [&str; 8] = [
    "head_dim",
    "hidden_activation",
    "layer_types",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
];

/// An encoder whose positions come behind the row of the padding token.
fn behind_padding(settings: &hf::Settings<'_>, norms: LayerNorms) -> Result<Config> {
    encoder(settings, norms, settings.needed_size("pad_token_id")? + 1)
}

fn encoder(s: &hf::Settings<'_>, norms: LayerNorms, first_position: usize) -> Result<Config> {
    if let Some(key) = OF_DECODERS.into_iter().find(|key| s.given(key).is_some()) {
        return Err(s.bad(key, "is not a setting of an encoder; hint: remove it"));
    }
    for key in ["is_decoder", "add_cross_attention"] {
        if s.flag(key)? {
            return Err(s.bad(key, "is true; only encoders of this class are supported"));
        }
    }
    if s.text("hidden_act")? != Some("gelu") {
        return Err(s.bad("hidden_act", "is not `gelu`, the only one that is supported for this class"));
    }
    let (hidden, n_heads) = (s.needed_size("hidden_size")?, s.needed_size("num_attention_heads")?);
    let positions = s.needed_size("max_position_embeddings")?;
    let Some(context) = positions.checked_sub(first_position).filter(|context| *context > 0) else {
        let reason = format!("is {positions}, but the first {first_position} positions are no text's");
        return Err(s.bad("max_position_embeddings", reason));
    };
    if n_heads == 0 || !hidden.is_multiple_of(n_heads) {
        return Err(s.bad("num_attention_heads", format!("is {n_heads}, which does not divide {hidden}")));
    }
    let head_dim = hidden / n_heads;
    let rope = Rope { theta: 1.0, scaling: Scaling::Unrotated };
    Ok(Config {
        vocab: s.needed_size("vocab_size")?,
        hidden,
        intermediate: s.needed_size("intermediate_size")?,
        n_layers: s.n_layers()?,
        n_heads,
        full: Attention { head_dim, n_kv_heads: n_heads, rope, rotary_dim: head_dim, ..Attention::default() },
        norm_eps: s.needed_positive("layer_norm_eps")?,
        norm_centred: true,
        norms,
        qkv_bias: true,
        o_bias: true,
        mlp_bias: true,
        attention_scale: (head_dim as f64).powf(-0.5) as f32,
        encoder: Some(EncoderConfig { first_position, n_types: s.needed_size("type_vocab_size")? }),
        context,
        ..Config::default()
    })
}
