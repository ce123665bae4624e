//! Given texts: the log-probabilities of their tokens ([`Score`]) and their hidden states ([`HiddenStates`]).
//! It generates nothing.

use std::sync::Arc;

use crate::{
    llm::{self, Finish, Reply, Token, TokenSource},
    model::sampler::{SampleRequest, SampledToken},
};

use super::{
    generate::{no_token, token},
    tokenizer::Tokenizer,
};

/// Log-probabilities of given tokens, one or more after each row.
pub struct Score {
    /// The tokens of each row.
    rows: Vec<Vec<u32>>,
    n_done: usize,
    tokens: Vec<Token>,
    tokenizer: Arc<Tokenizer>,
    /// The first error. The later rows are still computed, because other sequences wait for their blocks.
    failed: Option<llm::Error>,
}

impl Score {
    /// A task with no row scored. No row is empty.
    pub fn new(rows: Vec<Vec<u32>>, tokenizer: Arc<Tokenizer>) -> Self {
        Self { rows, n_done: 0, tokens: Vec::new(), tokenizer, failed: None }
    }

    /// Returns true if all rows are scored.
    pub fn is_over(&self) -> bool {
        self.n_done == self.rows.len()
    }

    /// The first token of each remaining row; the other tokens are in [`Score::rows_of_several`].
    pub fn requests(&self) -> Vec<SampleRequest> {
        let first = |ids: &Vec<u32>| ids.first().map(|&id| SampleRequest::Weigh(id));
        self.rows[self.n_done..].iter().filter_map(first).collect()
    }

    /// The rows among the next `n_rows` after which several tokens are scored, each with its tokens.
    pub fn rows_of_several(&self, n_rows: usize) -> Vec<(usize, Vec<u32>)> {
        let rows = self.rows[self.n_done..].iter().take(n_rows).enumerate();
        rows.filter(|(_, ids)| ids.len() > 1).map(|(row, ids)| (row, ids.clone())).collect()
    }

    /// Takes the next rows. `logprobs` gives those of a row with several tokens.
    pub fn take(
        &mut self,
        sampled: &[Option<SampledToken>],
        logprobs: impl Fn(usize, &[u32]) -> llm::Result<Vec<f64>>,
    ) {
        let rows = self.rows[self.n_done..].iter().zip(sampled).enumerate();
        for (row, (ids, sampled)) in rows {
            let logprobs = match sampled {
                None => Err(no_token()),
                Some(sampled) if ids.len() == 1 => Ok(vec![sampled.logprob]),
                Some(_) => logprobs(row, ids),
            };
            self.n_done += 1;
            match logprobs {
                Err(error) => drop(self.failed.get_or_insert(error)),
                Ok(logprobs) => self.tokens.extend(ids.iter().zip(logprobs).map(|(&id, logprob)| {
                    let sampled = SampledToken { id, logprob, masked_logprob: logprob };
                    token(&self.tokenizer, sampled, TokenSource::Sampled)
                })),
            }
        }
    }

    /// The tokens of all rows as a reply.
    ///
    /// # Errors
    /// The error of the first row that could not be scored.
    pub(super) fn reply(self) -> llm::Result<Reply> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(Reply { tokens: self.tokens, finish: Finish::Stop, ..Reply::default() }),
        }
    }
}

/// Hidden states of given tokens.
pub struct HiddenStates {
    n_tokens: usize,
    n_done: usize,
    /// The numbers of layers after which states are captured.
    depths: Vec<u32>,
    /// An entry for each of `depths`, the tokens' vectors one after the other.
    states: Vec<Vec<f32>>,
}

impl HiddenStates {
    /// A task with no state captured.
    pub fn new(n_tokens: usize, depths: Vec<u32>) -> Self {
        Self { n_tokens, n_done: 0, states: vec![Vec::new(); depths.len()], depths }
    }

    /// The numbers of layers after which states are captured.
    pub fn depths(&self) -> &[u32] {
        &self.depths
    }

    /// Returns true if all tokens' states are captured.
    pub fn is_over(&self) -> bool {
        self.n_done == self.n_tokens
    }

    /// Appends the states of the next `n` tokens, an entry for each of the depths.
    pub fn append<'a>(&mut self, n: usize, states: impl Iterator<Item = &'a [f32]>) {
        for (all, new) in self.states.iter_mut().zip(states) {
            all.extend_from_slice(new);
        }
        self.n_done += n;
    }

    pub(super) fn into_states(self) -> Vec<Vec<f32>> {
        self.states
    }
}
