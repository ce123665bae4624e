//! Compares the replies to the same requests under one setting after another: they must agree bit for bit.

use std::path::Path;

use serde::Serialize;

use super::{
    Error,
    requests::Request,
    workload::{WorkloadStats, run_requests},
};
use crate::{
    engine::{self, Engine, Isa, Options},
    llm::Reply,
};

/// A setting that must not change a single bit, and whether it did.
#[derive(Clone, Debug, Serialize)]
pub struct Variant {
    pub name: String,
    pub seconds: f64,
    pub computed_prompt_tokens: usize,
    /// The first request whose reply differs from the first setting's, if any.
    pub differs: Option<String>,
}

/// Why settings cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error(transparent)]
    Bench(#[from] Error),
}

/// Runs the requests under every setting. One row at a time without cache and drafts comes first; the others
/// are 1, 2, 7 and 64 rows, the cache cold, warm, small and off, drafts off, one and two threads, short
/// steps, reverse order, three shards, and on a CPU its other tiers.
///
/// # Errors
/// If the model cannot be loaded or a request cannot be answered.
pub fn compare(path: &Path, base: &Options, requests: &[Request]) -> Result<Vec<Variant>, Failed> {
    let base = &Options { most_rows: 0, ..base.clone() };
    let plain = Options { n_rows: 1, prefix_cache: false, drafts: false, threads: Some(1), ..base.clone() };
    let reference = ask(path, &plain, &[requests], 1)?;
    let expected = bits(&reference[0].1);
    let mut variants =
        vec![variant("1 row, no cache, no drafts, 1 thread", requests, &expected, &reference[0])];
    let backward: Vec<Request> = requests.iter().rev().cloned().collect();
    let thirds: Vec<&[Request]> = requests.chunks(requests.len().div_ceil(3)).collect();
    let lengths =
        requests.iter().zip(&reference[0].1).map(|(r, reply)| reply.prompt_ids.len() + r.max_tokens);
    let longest = lengths.max().unwrap_or(1);
    for (name, options) in settings(base, requests.len(), longest) {
        let runs = ask(path, &options, &[requests], 2)?;
        for (run, again) in runs.iter().zip(["", ", warm"]) {
            variants.push(variant(&format!("{name}{again}"), requests, &expected, run));
        }
    }
    let (measured, mut replies) = ask(path, base, &[&backward], 1)?.remove(0);
    replies.reverse();
    variants.push(variant("backward", requests, &expected, &(measured, replies)));
    let mut joined = (WorkloadStats::default(), Vec::new());
    for third in thirds {
        let (measured, replies) = ask(path, base, &[third], 1)?.remove(0);
        joined.0.seconds += measured.seconds;
        joined.0.computed_prompt_tokens += measured.computed_prompt_tokens;
        joined.1.extend(replies);
    }
    variants.push(variant("3 shards, each its own engine", requests, &expected, &joined));
    Ok(variants)
}

fn settings(base: &Options, n_requests: usize, longest: usize) -> Vec<(String, Options)> {
    let rows = |n_rows: usize| {
        let plural = if n_rows == 1 { "" } else { "s" };
        (format!("{n_rows} row{plural}"), Options { n_rows, ..base.clone() })
    };
    // A cache has at most the blocks that its rows can fill.
    let small = |n_rows: usize| Options { n_rows, context: Some(longest), ..base.clone() };
    let with = |name: &str, options: Options| (name.to_owned(), options);
    let mut all = vec![
        rows(1),
        rows(2),
        rows(7),
        rows(64),
        with(
            "64 rows, no cache",
            Options { n_rows: 64.min(n_requests), prefix_cache: false, ..base.clone() },
        ),
        with("a cache of one question", small(1)),
        with("a cache of two questions", small(2)),
        with("no drafts", Options { drafts: false, ..base.clone() }),
        with("1 thread", Options { threads: Some(1), ..base.clone() }),
        with("2 threads", Options { threads: Some(2), ..base.clone() }),
        with("37 tokens a step", Options { step_tokens: 37, ..base.clone() }),
    ];
    let base_tier = base.compute.tier;
    // A GPU has no tiers.
    for tier in Isa::available().filter(|&tier| base.device.is_cpu() && tier != base_tier) {
        let compute = engine::Compute { tier, ..base.compute };
        all.push((format!("tier {}", tier.name()), Options { compute, ..base.clone() }));
    }
    all
}

type Run = (WorkloadStats, Vec<Reply>);

/// Sends all parts to a fresh engine, `times` times.
fn ask(path: &Path, options: &Options, parts: &[&[Request]], times: usize) -> Result<Vec<Run>, Failed> {
    let engine = Engine::open(path, options)?;
    // The adapter that is loaded is the one that is meant.
    let engine = engine.with_adapter((!options.adapters.is_empty()).then_some(0));
    let cycled = parts.iter().cycle().take(parts.len() * times);
    cycled.map(|part| Ok(run_requests(&engine, part)?)).collect()
}

fn variant(name: &str, requests: &[Request], expected: &[Bits], (measured, replies): &Run) -> Variant {
    let found = bits(replies);
    let differs = requests.iter().zip(expected.iter().zip(&found)).find(|(_, (a, b))| a != b);
    Variant {
        name: name.into(),
        seconds: measured.seconds,
        computed_prompt_tokens: measured.computed_prompt_tokens,
        differs: differs.map(|(request, _)| request.id.clone()),
    }
}

/// Text, and each token with the bits of its log-probabilities.
type Bits = (String, Vec<(u32, u64, u64)>);

fn bits(replies: &[Reply]) -> Vec<Bits> {
    let tokens = |reply: &Reply| {
        let bits = |t: &crate::llm::Token| (t.id, t.logprob.to_bits(), t.masked_logprob.to_bits());
        reply.tokens.iter().map(bits).collect()
    };
    replies.iter().map(|reply| (reply.text.clone(), tokens(reply))).collect()
}
