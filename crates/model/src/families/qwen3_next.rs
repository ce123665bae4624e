//! Qwen3-Next, the predecessor of Qwen3.5: one tensor has the projections of several parts of Gated DeltaNet,
//! and its settings of experts are read.

use super::{
    Config, Family, Result, gguf, hf,
    qwen3_5::{GGUF_WITH_EXPERTS, KEYS, ROPE, gguf_with_experts, shared_experts},
};
use crate::config::Experts;

pub const FAMILY: Family = Family {
    name: "qwen3_next",
    hf: hf::Schema {
        model_types: &["qwen3_next"],
        keys: KEYS,
        only: r#"{"attn_output_gate": true, "mamba_ssm_dtype": "float32"}"#,
        rope: ROPE,
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema { architecture: "qwen3next", config: from_gguf, ..GGUF_WITH_EXPERTS }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let hybrid = settings.hybrid()?;
    let experts = shared_experts(settings, settings.flag("norm_topk_prob")?)?;
    let experts = Experts { layers: settings.sparse_layers()?, ..experts };
    Ok(Config { experts: Some(experts), ..hybrid })
}

/// Value heads that take one key head are side by side.
fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    let mut config = gguf_with_experts(reader)?;
    config.delta_net.iter_mut().for_each(|delta_net| delta_net.is_tiled = false);
    Ok(config)
}
