//! Runs requests through the engine with every row busy, and reports their cost and their answers.

use std::{collections::BTreeSet, time::Instant};

use serde::Serialize;

use super::{Error, Result, requests::Request};
use crate::{
    engine::Engine,
    llm::{Finish, Llm, Reply, Sampling},
    parallel,
};

/// Cost of a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkloadStats {
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

/// Sends the requests to an engine; the replies are in the order of the requests.
///
/// # Errors
/// No request, and the error of the first request without an answer.
pub fn run_requests(engine: &Engine, requests: &[Request]) -> Result<(WorkloadStats, Vec<Reply>)> {
    if requests.is_empty() {
        return Err(Error::Nothing);
    }
    let ask = |_: usize, request: &Request| {
        let sampling = Sampling { max_tokens: request.max_tokens, ..Sampling::default() };
        let reply = engine.ask(&request.chat, &request.form(), &sampling);
        reply.map_err(|source| Error::Llm { id: request.id.clone(), source })
    };
    let (replies, seconds) = send_all(requests, engine.facts().n_rows, ask)?;
    Ok((summarise(requests, &replies, seconds), replies))
}

/// Sends items in order, a quarter more at a time than an engine has rows, so that every row is busy. Returns
/// the replies in the order of the items, and the seconds that all took.
///
/// # Errors
/// The error of the first item without a reply.
pub fn send_all<T: Sync>(
    items: &[T],
    n_rows: usize,
    ask: impl Fn(usize, &T) -> Result<Reply> + Sync,
) -> Result<(Vec<Reply>, f64)> {
    let start = Instant::now();
    let replies = parallel::map(items, n_rows + n_rows / 4 + 1, ask);
    let seconds = start.elapsed().as_secs_f64();
    Ok((replies.into_iter().collect::<Result<_, _>>()?, seconds))
}

fn summarise(requests: &[Request], replies: &[Reply], seconds: f64) -> WorkloadStats {
    let sum = |part: fn(&Reply) -> usize| replies.iter().map(part).sum::<usize>();
    let errors: Vec<Option<usize>> = replies.iter().map(n_errors).collect();
    let error_spans = errors.iter().flatten().sum();
    WorkloadStats {
        segments: requests.len(),
        seconds,
        segments_per_s: requests.len() as f64 / seconds,
        prompt_tokens: sum(|r| r.usage.prompt()),
        distinct_prompt_tokens: n_distinct_tokens(replies.iter().map(|reply| reply.prompt_ids.as_slice())),
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
pub fn n_distinct_tokens<'a>(prompts: impl Iterator<Item = &'a [u32]>) -> usize {
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
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn more_requests_are_sent_than_the_engine_has_rows() {
        // No reply comes before 321 requests were sent.
        let (items, all_sent) = (vec![(); 321], Barrier::new(321));
        let ask = |_: usize, (): &()| {
            all_sent.wait();
            Ok(Reply::default())
        };
        assert_eq!(send_all(&items, 256, ask).unwrap().0.len(), 321);
    }

    #[test]
    fn shared_prefixes_count_once() {
        let prompts: [&[u32]; 5] = [&[1, 2, 3], &[1, 2, 4, 5], &[1, 2, 3], &[9], &[1, 2]];
        assert_eq!(n_distinct_tokens(prompts.into_iter()), 3 + 2 + 1);
    }
}
