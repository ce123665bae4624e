//! Seed-OSS: a llama in which the output of attention has a switch of its own for its bias.

use super::{Config, Family, hf};

pub const FAMILY: Family = Family {
    name: "seed_oss",
    hf: hf::Schema {
        model_types: &["seed_oss"],
        config: |settings| {
            let decoder = settings.decoder(settings.windows_alike()?)?;
            Ok(Config { o_bias: settings.flag("attention_out_bias")?, ..decoder })
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};
