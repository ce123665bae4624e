//! Mixtral: a mistral with experts, whose GGUF files are those of llama.

use super::{Config, Family, Result, hf};
use crate::config::{Experts, Routing};

pub const FAMILY: Family = Family {
    name: "mixtral",
    hf: hf::Schema {
        model_types: &["mixtral"],
        keys: &["num_experts"],
        names: &[
            (".block_sparse_moe.", ".mlp."),
            (".w1.", ".gate_proj."),
            (".w2.", ".down_proj."),
            (".w3.", ".up_proj."),
        ],
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let decoder = settings.decoder(settings.windows_alike()?)?;
    let n = settings.either_size("num_local_experts", "num_experts")?;
    let routing = Routing::softmax(settings.top_k("num_experts_per_tok", n)?, true);
    let experts = Some(Experts::new(n, decoder.intermediate, routing, decoder.n_layers));
    Ok(Config { experts, ..decoder })
}
