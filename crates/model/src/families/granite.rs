//! Granite 3 and dense Granite 4: a llama with factors on embeddings, scores, the outputs of half layers, and
//! logits. Layers of Mamba and experts are refused.
//!
//! The factor r on outputs is no operation of its own: `x + r y` is `r (x / r + y)`, and a norm has the same
//! output for `x / r` where its epsilon is divided by r squared. The residual stream, and with it the hidden
//! states, are those of the reference over r.

use super::{Config, Error, Family, Result, gguf, hf};
use gguf::keys::Key::Read;

pub const FAMILY: Family = Family {
    name: "granite",
    hf: hf::Schema {
        model_types: &["granite"],
        config: |settings| multiplied(settings, settings.decoder(settings.windows_alike()?)?),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "granite",
        keys: &[(Read, "logit_scale residual_scale")],
        is_interleaved: true,
        config: |reader| {
            let number = |key| Ok::<_, Error>(reader.above_zero(key)?.unwrap_or(1.0));
            let factors = [number("embedding_scale")?, number("residual_scale")?, number("logit_scale")?];
            Ok(with_factors(reader.decoder(reader.without_windows()?)?, factors))
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

pub const HYBRID: Family = Family {
    name: "granitemoehybrid",
    hf: hf::Schema {
        model_types: &["granitemoehybrid"],
        names: &[
            (".shared_mlp.input_linear.", ".mlp.gate_up_proj."),
            (".shared_mlp.output_linear.", ".mlp.down_proj."),
        ],
        harmless: "init_method",
        only: r#"{"normalization_function": "rmsnorm"}"#,
        config: of_attention_alone,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};

fn of_attention_alone(settings: &hf::Settings<'_>) -> Result<Config> {
    if settings.given("layer_types").is_none() {
        let reason = "is missing: all layers are then of Mamba, which is not supported";
        return Err(settings.bad("layer_types", reason));
    }
    if settings.size("num_local_experts")?.unwrap_or(0) != 0 {
        return Err(
            settings.bad("num_local_experts", "is not 0: only dense models of this class are supported")
        );
    }
    let decoder = settings.decoder(settings.windows_listed(|_, _| Ok(Vec::new()))?)?;
    let full = match settings.text("position_embedding_type")? {
        Some("rope") => decoder.full,
        None | Some("nope") => decoder.full.unrotated(),
        Some(other) => {
            let reason = format!("is `{other}`; `rope` and `nope` are supported");
            return Err(settings.bad("position_embedding_type", reason));
        }
    };
    let intermediate = settings.needed_size("shared_intermediate_size")?;
    multiplied(settings, Config { intermediate, full, ..decoder })
}

fn multiplied(settings: &hf::Settings<'_>, decoder: Config) -> Result<Config> {
    let factors = ["embedding_multiplier", "residual_multiplier", "logits_scaling"];
    let [embedding, residual, logits] = factors.map(|key| settings.needed_positive(key));
    let attention_scale = settings.needed_positive("attention_multiplier")? as f32;
    Ok(with_factors(Config { attention_scale, ..decoder }, [embedding?, residual?, logits?]))
}

/// Factors on embeddings and on the outputs of half layers, and the divisor of logits.
fn with_factors(decoder: Config, [embedding, residual, logits]: [f64; 3]) -> Config {
    Config {
        embedding_scale: Some((embedding / residual) as f32),
        norm_eps: decoder.norm_eps / (residual * residual),
        logit_scale: Some((1.0 / logits) as f32),
        ..decoder
    }
}
