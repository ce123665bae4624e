//! Runs requests through the engine as fast as it can take them, and reports their cost and their answers.

use std::{collections::BTreeSet, time::Instant};

use serde::Serialize;

use super::{Error, requests::Request};
use crate::{
    engine::Engine,
    judges::in_parallel,
    llm::{Finish, Llm, Reply, Sampling},
};

/// Cost of a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    pub segments: usize,
    pub seconds: f64,
    pub segments_per_s: f64,
    /// Prompt tokens: all of them, the distinct ones (a shared prefix counts once), and those that were
    /// computed.
    pub prompt_tokens: usize,
    pub distinct_prompt_tokens: usize,
    pub computed_prompt_tokens: usize,
    pub generated_tokens: usize,
    pub forced_tokens: usize,
    pub drafted_tokens: usize,
    pub accepted_tokens: usize,
    /// Answers that are complete JSON.
    pub valid: usize,
    /// Objects in the answers' `errors`.
    pub error_spans: usize,
    pub error_spans_per_s: f64,
}

/// Sends all requests at once and returns the replies in the order of the requests.
///
/// # Errors
/// If the engine cannot answer a request: the first such.
pub fn run(engine: &Engine, requests: &[Request]) -> Result<(Measured, Vec<Reply>), Error> {
    if requests.is_empty() {
        return Err(Error::Nothing);
    }
    let start = Instant::now();
    let ask = |_: usize, request: &Request| {
        let sampling = Sampling { max_tokens: request.max_tokens, ..Sampling::default() };
        let reply = engine.ask(&request.chat, &request.form(), &sampling);
        reply.map_err(|source| Error::Llm { id: request.id.clone(), source })
    };
    let replies: Result<Vec<Reply>, Error> = in_parallel(requests, ask).into_iter().collect();
    let seconds = start.elapsed().as_secs_f64();
    let replies = replies?;
    Ok((measured(requests, &replies, seconds), replies))
}

fn measured(requests: &[Request], replies: &[Reply], seconds: f64) -> Measured {
    let sum = |part: fn(&Reply) -> usize| replies.iter().map(part).sum::<usize>();
    let errors: Vec<Option<usize>> = replies.iter().map(n_errors).collect();
    let error_spans = errors.iter().flatten().sum();
    Measured {
        segments: requests.len(),
        seconds,
        segments_per_s: requests.len() as f64 / seconds,
        prompt_tokens: sum(|r| r.usage.prompt()),
        distinct_prompt_tokens: distinct(replies.iter().map(|reply| reply.prompt_ids.as_slice())),
        computed_prompt_tokens: sum(|r| r.usage.computed),
        generated_tokens: sum(|r| r.usage.generated),
        forced_tokens: sum(|r| r.usage.forced),
        drafted_tokens: sum(|r| r.usage.drafted),
        accepted_tokens: sum(|r| r.usage.accepted),
        valid: replies.iter().zip(&errors).filter(|(r, n)| r.finish != Finish::Length && n.is_some()).count(),
        error_spans,
        error_spans_per_s: error_spans as f64 / seconds,
    }
}

/// Number of objects in an answer's `errors`; `None` if it is not JSON.
fn n_errors(reply: &Reply) -> Option<usize> {
    let value: serde_json::Value = serde_json::from_str(&reply.text).ok()?;
    Some(value["errors"].as_array().map_or(0, Vec::len))
}

/// Number of tokens of the prompts when a shared prefix is counted once: with the prompts sorted, the tokens
/// that each adds to the prefix that it shares with the one before.
#[must_use]
pub fn distinct<'a>(prompts: impl Iterator<Item = &'a [u32]>) -> usize {
    let prompts: BTreeSet<&[u32]> = prompts.collect();
    let mut before: &[u32] = &[];
    let mut total = 0;
    for prompt in prompts {
        total += prompt.len() - before.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        before = prompt;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_prefixes_count_once() {
        let prompts: [&[u32]; 5] = [&[1, 2, 3], &[1, 2, 4, 5], &[1, 2, 3], &[9], &[1, 2]];
        assert_eq!(distinct(prompts.into_iter()), 3 + 2 + 1);
    }
}
