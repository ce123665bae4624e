//! Tokens per second of a loaded model: prompts one at a time, and answers in parallel; texts per second of
//! an encoder.

use std::time::Instant;

use serde::Serialize;

use super::{Error, Result};
use crate::{
    engine::Engine,
    llm::{Chat, Llm, Reply, ResponseFormat, Sampling},
    parallel,
};

/// Result of one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// Sequences in parallel.
    pub batch: usize,
    /// Prompt tokens of each sequence.
    pub prompt: usize,
    /// Answer tokens of each sequence.
    pub answer: usize,
    /// Seconds for all of them together.
    pub seconds: f64,
    /// Tokens per second: of prompts in [`prefill`], of answers in [`decode`].
    pub tokens_per_s: f64,
}

/// Reads prompts of `n` tokens that share nothing, one at a time; the best of `repeats`.
///
/// # Errors
/// An error of the engine.
pub fn prefill(engine: &Engine, n: usize, repeats: usize) -> Result<Throughput> {
    let mut best = f64::INFINITY;
    for repeat in 0..repeats {
        let (seconds, _) = together(engine, &[prompt(engine, n, repeat * 131 + n)], 1)?;
        best = best.min(seconds);
    }
    Ok(Throughput { batch: 1, prompt: n, answer: 1, seconds: best, tokens_per_s: n as f64 / best })
}

/// Writes `answer` tokens after each of `batch` prompts of `n` tokens that are already in the prefix cache;
/// the best of `repeats`.
///
/// # Errors
/// An error of the engine.
pub fn decode(engine: &Engine, batch: usize, n: usize, answer: usize, repeats: usize) -> Result<Throughput> {
    let prompts: Vec<String> = (0..batch).map(|row| prompt(engine, n, 7 + row * 977)).collect();
    // A model with recurrent states saves a snapshot before the last token of a prompt that it has seen
    // before.
    together(engine, &prompts, 1)?;
    together(engine, &prompts, 1)?;
    let (mut best, mut written) = (f64::INFINITY, 0);
    for _ in 0..repeats {
        // Only tokens after the first are counted: the first comes with the end of the prompt.
        let (first, _) = together(engine, &prompts, 1)?;
        let (all, replies) = together(engine, &prompts, 1 + answer)?;
        let tokens: usize = replies.iter().map(|reply| reply.tokens.len() - 1).sum();
        if (all - first) / (tokens as f64) < best / (written.max(1) as f64) || written == 0 {
            (best, written) = (all - first, tokens);
        }
    }
    let tokens_per_s = written as f64 / best;
    Ok(Throughput { batch, prompt: n, answer, seconds: best, tokens_per_s })
}

/// Result of an encoder.
#[derive(Clone, Debug, Serialize)]
pub struct Encoding {
    /// Texts in parallel.
    pub batch: usize,
    pub texts: usize,
    pub tokens: usize,
    pub seconds: f64,
    pub texts_per_s: f64,
}

/// Encodes `n` texts of 10 to 100 tokens, `batch` in parallel; the best of `repeats`.
///
/// # Errors
/// An error of the engine, such as a model that is not an encoder.
pub fn encode(engine: &Engine, n: usize, batch: usize, repeats: usize) -> Result<Encoding> {
    let vocab = engine.facts().sizes.vocab;
    let texts: Vec<Vec<u32>> = (0..n).map(|text| encoded(text, vocab)).collect();
    let tokens = texts.iter().map(Vec::len).sum();
    let depth = [engine.facts().n_layers];
    let mut seconds = f64::INFINITY;
    for _ in 0..repeats {
        let start = Instant::now();
        let done =
            parallel::map(&texts, batch, |_, ids: &Vec<u32>| engine.encode(ids.clone(), &depth).map(drop));
        let done: Result<(), _> = done.into_iter().collect();
        done.map_err(|source| Error::Llm { id: "bench".into(), source })?;
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    Ok(Encoding { batch, texts: n, tokens, seconds, texts_per_s: n as f64 / seconds })
}

/// The ids of a text, which `scripts/peers/torch_encoder.py` computes alike.
fn encoded(text: usize, vocab: usize) -> Vec<u32> {
    (0..10 + text * 37 % 91).map(|at| (5 + (at * 7919 + text * 104_729) % (vocab - 10)) as u32).collect()
}

/// Requests all answers at once, as free text at temperature 1, so that no answer repeats another or itself.
pub(crate) fn together(engine: &Engine, prompts: &[String], max_tokens: usize) -> Result<(f64, Vec<Reply>)> {
    let start = Instant::now();
    let ask = |row: usize, prompt: &String| {
        let sampling = Sampling { max_tokens, temperature: 1.0, seed: row as u64, ..Sampling::default() };
        engine.ask(&Chat::raw(prompt.as_str()), &ResponseFormat::Text, &sampling)
    };
    let replies: Result<Vec<Reply>, _> = parallel::map(prompts, prompts.len(), ask).into_iter().collect();
    let replies = replies.map_err(|source| Error::Llm { id: "bench".into(), source })?;
    Ok((start.elapsed().as_secs_f64(), replies))
}

/// Numbers as text, at most `n` tokens; prompts with different seeds share no beginning.
pub(crate) fn prompt(engine: &Engine, n: usize, seed: usize) -> String {
    let words = |count: usize| {
        let number = |i: usize| ((i + 1) * 7919 * (seed + 1) % 99_991).to_string();
        (0..count).map(number).collect::<Vec<_>>().join(" ")
    };
    let fits = |count: usize| engine.prompt_ids(&Chat::raw(words(count))).is_ok_and(|ids| ids.len() <= n);
    // The largest number of words that fits: a word has one to six tokens.
    let (mut low, mut high) = (1, n);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    words(low)
}
