//! The engine's part of the signature: for every option the value in effect, or the reason why it cannot
//! change a byte of an answer. A new option does not compile without a line here.

use std::collections::BTreeMap;

use tribunal_core::digest;
use tribunal_cpu::{Activations, Compute};

use crate::{
    cuda::Gpu,
    device::Device,
    model::{Weights, weights::Format},
    signature::Signature,
};

use super::{Options, chat::TEMPLATE_DATE};

/// The inputs of an engine beside its options.
pub(super) struct Built<'a> {
    pub weights: &'a Weights,
    /// Positions of one sequence.
    pub context: usize,
    /// The chat template in force.
    pub template: Option<&'a str>,
    /// The variables of the template in force.
    pub chat_options: serde_json::Value,
    /// Tokens that end a turn by an option, not by the model.
    pub stops: Vec<String>,
}

/// The engine's fields. Two engines with the same weights and the same fields give the same bytes.
pub(super) fn signature(options: &Options, built: &Built<'_>) -> Signature {
    let Options {
        device,
        // Further devices are like the first, and a reply has the same bytes from any of them.
        more_devices: _more_devices,
        compute: Compute { tier, activations, floats },
        kv,
        // It affects scheduling and recomputation, not the bits of results.
        kv_bytes: _kv_bytes,
        // A row of a product depends on that row alone, whatever else is in the step.
        n_rows: _n_rows,
        most_rows: _most_rows,
        step_tokens: _step_tokens,
        // The context in force is in `built`.
        context: _context,
        // A cached prefix has the bits of a computed one.
        prefix_cache: _prefix_cache,
        // A prefix read from a file has the same bits: its build, model and signature are equal.
        saved_prefixes: _saved_prefixes,
        // A guess stands only where the model would have chosen the same token.
        drafts: _drafts,
        // Both can only end a run.
        hung_after: _hung_after,
        recheck_every: _recheck_every,
        // Threads share out rows and columns; each sum is one thread's.
        threads: _threads,
        // The template in force and its variables are in `built`.
        chat_template: _chat_template,
        chat_options: _chat_options,
        // Stop tokens that the model does not name itself are in `built`.
        stop_tokens: _stop_tokens,
        // The caller adds the hashes of the model's and the adapter's files, on any device.
        adapters: _adapters,
        // The weights' own hash is signed.
        // Signed by the judge, as its fit.
        estimator: _estimator,
        hashed: _hashed,
    } = options;
    let mut signature = Signature::new();
    match device {
        Device::Cpu => {
            signature = signature
                .with("dtype", dtype(built.weights, *floats))
                .with("act", if *activations == Activations::Q8 { "q8" } else { "float" })
                .with("kv", kv.name())
                .with("device", "cpu");
            if isa_matters(built.weights, *floats, *activations) {
                signature = signature.with("tier", tier.name());
            }
        }
        // A GPU has neither tiers nor other activations; its generation determines how tensor cores round.
        // The number of cards that share the model moves no bit.
        Device::Cuda(_) | Device::Group(_) => {
            let generation = device.gpus().first().map_or_else(String::new, Gpu::generation);
            let is_new = device.gpus().iter().any(Gpu::packs);
            let rounds = is_new && matrices(built.weights).any(Format::is_multiplied_on_gpus);
            let dtype = dtype(built.weights, None) + if rounds { "-as-bf16" } else { "" };
            signature = signature
                .with("dtype", dtype)
                .with("act", "bf16")
                .with("kv", kv.name())
                .with("device", "cuda")
                .with("sm", generation);
            if is_new {
                signature = signature.with("split-k", "128");
            }
        }
    }
    signature = signature.with("context", built.context.to_string());
    let hashed = |source: &str| template(source, &built.chat_options);
    let template = built.template.map_or_else(|| "none".into(), hashed);
    signature = signature.with("template", template);
    if built.stops.is_empty() { signature } else { signature.with("stop", built.stops.join(",")) }
}

/// Returns true if a format of the weights in memory lets the tier move a bit.
fn isa_matters(weights: &Weights, floats: Option<Format>, activations: Activations) -> bool {
    let held = |stored| float(stored).map(|format| floats.unwrap_or(format));
    activations == Activations::Q8 && matrices(weights).filter_map(held).any(tribunal_cpu::isa_matters)
}

/// The types of the stored matrices; other tensors are floats of 32 bits in every engine.
fn matrices(weights: &Weights) -> impl Iterator<Item = Format> {
    weights.tensors().filter(|(_, _, shape)| shape.len() > 1).map(|(_, dtype, _)| dtype)
}

/// The format of a type that is not quantised.
fn float(format: Format) -> Option<Format> {
    format.is_float().then_some(format)
}

/// The type of the stored weights, and the type of their floats in memory where it differs: `q4_k_m`, `bf16`,
/// `bf16-as-q8_0`.
fn dtype(weights: &Weights, floats: Option<Format>) -> String {
    let stored = stored_dtype(weights);
    let other = floats.filter(|held| matrices(weights).filter_map(float).any(|format| format != *held));
    match other {
        Some(held) => format!("{stored}-as-{}", held.name().to_lowercase()),
        None => stored,
    }
}

/// GGUF's own name for the mix of types; else the type with the most bytes.
fn stored_dtype(weights: &Weights) -> String {
    let kind = weights
        .metadata()
        .and_then(|m| m.get("general.file_type"))
        .and_then(crate::model::config::gguf::whole);
    let mut mixes = (14..).zip(["q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m"]);
    if let Some((_, mix)) = mixes.find(|(number, _)| kind == Some(*number)) {
        return mix.into();
    }
    let mut bytes = BTreeMap::<String, usize>::new();
    for (_, dtype, shape) in weights.tensors() {
        let n = shape.iter().product::<usize>() / dtype.block() * dtype.block_bytes();
        *bytes.entry(dtype.name().to_lowercase()).or_default() += n;
    }
    let most = bytes.into_iter().max_by_key(|(_, n)| *n);
    most.map_or_else(|| "none".into(), |(name, _)| name)
}

/// The first digits of a template's sha256 with its options, and the date that it gets as today's if it
/// prints one.
fn template(source: &str, options: &serde_json::Value) -> String {
    let hash = digest::short(format!("{source}{options}"));
    if source.contains("strftime_now") { format!("{hash}@{TEMPLATE_DATE}") } else { hash }
}
