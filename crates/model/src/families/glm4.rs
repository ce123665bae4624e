//! GLM-4, dense: norms around each half layer, half of each head rotated in neighbouring pairs, gate and up
//! in one matrix.

use super::{Config, Family, LayerNorms, gguf, hf};
use gguf::tensors::{ATTENTION, DENSE, GATE_AND_UP, GEMMA_NORMS};

pub const FAMILY: Family = Family {
    name: "glm4",
    hf: hf::Schema {
        model_types: &["glm4"],
        rope: hf::rope::Schema { part: Some(0.5), ..hf::rope::Schema::WHOLE },
        names: &[
            (".post_attention_layernorm.", ".pre_feedforward_layernorm."),
            (".post_self_attn_layernorm.", ".post_attention_layernorm."),
            (".post_mlp_layernorm.", ".post_feedforward_layernorm."),
        ],
        config: |settings| Ok(Config { o_bias: false, ..glm4(settings.decoder(settings.windows_alike()?)?) }),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "glm4",
        tensors: &[GATE_AND_UP, ATTENTION, GEMMA_NORMS, DENSE],
        rotates_in_part: true,
        config: |reader| {
            let decoder = glm4(reader.decoder(reader.without_windows()?)?);
            Ok(Config { qkv_bias: reader.tensors.has_query_bias, ..decoder })
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn glm4(decoder: Config) -> Config {
    Config { norms: LayerNorms::Around, neighbours_rotate: true, ..decoder }
}
