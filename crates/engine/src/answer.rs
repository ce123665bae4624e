//! The computation of a request, and the destination of its reply. Generated answers are in
//! [`super::generate`], scores of given texts in [`super::score`].

use std::sync::{Weak, mpsc::SyncSender};

use crate::{
    llm::{self, Finish, Reply, Usage},
    model::sampler::{SampleRequest, SampledToken},
};

use super::{
    generate::Generate,
    score::{HiddenStates, Score},
    sequence::Sequence,
};

/// The computation of a request.
pub enum Task {
    Generate(Box<Generate>),
    Score(Score),
    HiddenStates(HiddenStates),
}

/// The result of a request.
pub struct Outcome {
    pub reply: Reply,
    /// Hidden states, an entry for each of the task's depths, the tokens' vectors one after the other.
    pub states: Vec<Vec<f32>>,
}

/// A request's task and the caller that waits for its outcome.
pub struct Answer {
    task: Task,
    /// Tokens of the prompt that no earlier prompt shares.
    distinct: usize,
    reply: SyncSender<llm::Result<Outcome>>,
    /// Dropped when the caller stops waiting.
    caller: Weak<()>,
}

impl Answer {
    pub fn new(task: Task, reply: SyncSender<llm::Result<Outcome>>, caller: Weak<()>) -> Self {
        Self { task, distinct: 0, reply, caller }
    }

    /// Records how many tokens of the prompt no earlier prompt shares.
    pub fn set_distinct(&mut self, n: usize) {
        self.distinct = n;
    }

    /// Returns true if the caller has stopped waiting.
    pub fn is_cancelled(&self) -> bool {
        self.caller.strong_count() == 0
    }

    /// The generated answer; `None` for given texts.
    pub fn generated(&self) -> Option<&Generate> {
        if let Task::Generate(generate) = &self.task { Some(generate) } else { None }
    }

    /// The sampling requests for the logits of `n_rows` consecutive positions.
    pub fn requests(&mut self, n_rows: usize) -> Vec<SampleRequest> {
        let mut requests = match &mut self.task {
            Task::Generate(generate) => generate.requests(n_rows),
            Task::Score(score) => score.requests(),
            Task::HiddenStates(_) => Vec::new(),
        };
        requests.resize(n_rows, SampleRequest::Nothing);
        requests
    }

    /// The rows among the next `n_rows` after which several tokens are scored, each with its tokens.
    pub fn rows_of_several(&self, n_rows: usize) -> Vec<(usize, Vec<u32>)> {
        if let Task::Score(score) = &self.task { score.rows_of_several(n_rows) } else { Vec::new() }
    }

    /// Takes the results of the requested rows; a generated answer then guesses up to `n_drafts` tokens.
    /// `logprobs` gives the log-probabilities of scored tokens after one of the rows.
    pub fn take(
        &mut self,
        sampled: &[Option<SampledToken>],
        n_drafts: usize,
        logprobs: impl Fn(usize, &[u32]) -> llm::Result<Vec<f64>>,
    ) {
        match &mut self.task {
            Task::Generate(generate) => generate.take(sampled, n_drafts),
            Task::Score(score) => score.take(sampled, logprobs),
            Task::HiddenStates(_) => {}
        }
    }

    /// The numbers of layers after which its hidden states are captured; empty for other tasks.
    pub fn depths(&self) -> &[u32] {
        if let Task::HiddenStates(states) = &self.task { states.depths() } else { &[] }
    }

    /// Appends the hidden states of the next `n` tokens, an entry for each of its depths.
    pub fn append_states<'a>(&mut self, n: usize, states: impl Iterator<Item = &'a [f32]>) {
        if let Task::HiddenStates(all) = &mut self.task {
            all.append(n, states);
        }
    }

    /// Returns true if the task is complete.
    pub fn is_over(&self) -> bool {
        match &self.task {
            Task::Generate(generate) => generate.is_over(),
            Task::Score(score) => score.is_over(),
            Task::HiddenStates(states) => states.is_over(),
        }
    }

    /// Sends the outcome to the caller, if it still waits.
    pub fn send(self, sequence: &Sequence) {
        let outcome = match self.task {
            Task::Generate(generate) => generate.reply().map(|reply| (reply, Vec::new())),
            Task::Score(score) => score.reply().map(|reply| (reply, Vec::new())),
            Task::HiddenStates(states) => {
                Ok((Reply { finish: Finish::Stop, ..Reply::default() }, states.into_states()))
            }
        };
        let outcome = outcome.map(|(mut reply, states)| {
            let n_cached = sequence.n_cached.min(sequence.n_prompt);
            let computed = sequence.n_prompt - n_cached;
            reply.usage = Usage { computed, cached: n_cached, distinct: self.distinct, ..reply.usage };
            reply.prompt_ids = sequence.tokens[..sequence.n_prompt].to_vec();
            Outcome { reply, states }
        });
        let _ = self.reply.send(outcome);
    }

    /// Sends an error to the caller, if it still waits.
    pub fn send_error(self, error: &llm::Error) {
        let _ = self.reply.send(Err(error.clone()));
    }
}
