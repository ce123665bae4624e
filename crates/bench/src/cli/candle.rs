//! `tribunal-bench candle`: arguments and JSON.

use std::{
    collections::HashMap,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;

use super::print;
use crate::{
    candle::Model,
    engine::n_threads,
    requests::{self, Request},
};

/// Options of `tribunal-bench candle`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A GGUF file of Qwen2 or Qwen3
    #[arg(long, value_name = "FILE.gguf")]
    model: PathBuf,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 512)]
    prompt: usize,
    /// Answers written in parallel
    #[arg(long, value_name = "B,B", value_delimiter = ',', default_value = "1,8,16")]
    rows: Vec<usize>,
    /// Tokens per answer
    #[arg(long, value_name = "N", default_value_t = 64)]
    answer: usize,
    /// Repetitions; the fastest counts
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: usize,
    /// Answer the requests that `fsp --write` wrote, instead, one after the other
    #[arg(long, value_name = "FILE.jsonl", requires = "replies")]
    requests: Option<PathBuf>,
    /// The engine's replies to them: each answer has as many tokens
    #[arg(long, value_name = "FILE.jsonl", requires = "requests")]
    replies: Option<PathBuf>,
    /// CPU threads; default: one for each performance core
    #[arg(long)]
    threads: Option<usize>,
}

/// The fields of a reply of `fsp --replies` that are read.
#[derive(Deserialize)]
struct Reply {
    id: String,
    usage: Usage,
}

#[derive(Deserialize)]
struct Usage {
    generated: usize,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let all = [args.prompt, args.answer, args.repeats].into_iter().chain(args.rows.iter().copied());
    ensure!(all.min() != Some(0), "prompts, rows, answers and repeats must be at least 1");
    // candle takes its threads from the global pool.
    rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or_else(n_threads)).build_global()?;
    let paths = args.requests.as_ref().zip(args.replies.as_ref());
    let replayed = paths.map(|(requests, replies)| read_replay(requests, replies)).transpose()?;
    let mut model = Model::load(&args.model)?;
    if let Some(replayed) = replayed {
        return print(&json!({"candle": args.model, "answered": model.answer(&replayed)?}), out);
    }
    let prefill = model.prefill(args.prompt, args.repeats)?;
    // Measurements that candle does not support are `null`, with the reason.
    let mut decode = Vec::new();
    for &rows in &args.rows {
        decode.push(match model.decode(rows, args.prompt, args.answer, args.repeats) {
            Ok(pace) => json!(pace),
            Err(error) => json!({"batch": rows, "tokens_per_s": null, "reason": error.to_string()}),
        });
    }
    print(&json!({"candle": args.model, "prefill": [prefill], "decode": decode}), out)
}

/// Reads requests, each with the number of tokens of its reply.
fn read_replay(requests: &Path, replies: &Path) -> Result<Vec<(Request, usize)>> {
    let text =
        std::fs::read_to_string(replies).with_context(|| format!("cannot read `{}`", replies.display()))?;
    let mut lengths = HashMap::new();
    for (i, line) in text.lines().enumerate() {
        let wrong = || format!("`{}` line {}: not a reply", replies.display(), i + 1);
        let reply: Reply = serde_json::from_str(line).with_context(wrong)?;
        lengths.insert(reply.id, reply.usage.generated);
    }
    let length = |request: Request| {
        if request.prompt_ids.is_empty() {
            bail!("request `{}` has no `prompt_ids`; hint: `fsp --write` writes them", request.id);
        }
        let missing = || format!("request `{}` has no reply in `{}`", request.id, replies.display());
        let tokens = *lengths.get(&request.id).with_context(missing)?;
        Ok((request, tokens))
    };
    requests::read(requests)?.into_iter().map(length).collect()
}
