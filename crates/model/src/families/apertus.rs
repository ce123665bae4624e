//! Apertus: norms of heads, and a feed-forward half of xIELU without a gate.

use super::{Config, Family, QkNorm, Result, hf};

pub const FAMILY: Family = Family {
    name: "apertus",
    hf: hf::Schema {
        model_types: &["apertus"],
        names: &[
            (".attention_layernorm.", ".input_layernorm."),
            (".feedforward_layernorm.", ".post_attention_layernorm."),
        ],
        only: r#"{"mlp_bias": false, "post_norm": false, "qk_norm": true}"#,
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let key = "hidden_act";
    if settings.text(key)? != Some("xielu") {
        return Err(settings.bad(key, "is not `xielu`, the only one that is supported for this class"));
    }
    let decoder = settings.decoder(settings.windows_alike()?)?;
    Ok(Config { qk_norm: QkNorm::Heads, xielu: true, ..decoder })
}
