//! An answer while it is being generated: its form, its budget, its tokens. It knows no block and no batch.

use std::sync::{Arc, mpsc::SyncSender};

use crate::{
    llm::{self, Finish, Reply, Sampling, Token, TokenSource, Usage},
    model::cpu::Tier,
};

use super::{
    grammar::Grammar,
    sampler::{self, Choice, Stream},
    sequence::Sequence,
    tokenizer::Tokenizer,
};

/// What a request wants of the model.
pub enum Task {
    /// Generate an answer.
    Generate { grammar: Option<Grammar>, sampling: Sampling },
    /// Weigh these tokens after the prompt.
    Weigh { ids: Vec<u32> },
}

/// A request's answer as far as it has come.
pub struct Answer {
    task: Task,
    stream: Stream,
    tokens: Vec<Token>,
    bytes: Vec<u8>,
    tokenizer: Arc<Tokenizer>,
    reply: SyncSender<Result<Reply, llm::Error>>,
    finish: Option<Finish>,
    failed: Option<llm::Error>,
}

impl Answer {
    #[must_use]
    pub fn new(
        task: Task,
        prompt: &[u32],
        tokenizer: Arc<Tokenizer>,
        reply: SyncSender<Result<Reply, llm::Error>>,
    ) -> Self {
        let seed = if let Task::Generate { sampling, .. } = &task { sampling.seed } else { 0 };
        let stream = Stream::new(seed, prompt);
        let (tokens, bytes) = (Vec::new(), Vec::new());
        Self { task, stream, tokens, bytes, tokenizer, reply, finish: None, failed: None }
    }

    /// Takes one row of logits. Gives the token to append, if the answer goes on.
    pub fn take(&mut self, logits: &[f32], tier: Tier) -> Option<u32> {
        match self.choose(logits, tier) {
            Ok(Some(id)) => self.go_on(id),
            Ok(None) => None,
            Err(error) => {
                self.failed = Some(error);
                self.finish = Some(Finish::Stop);
                None
            }
        }
    }

    /// Notes the next token. `None` when the model ended its turn or all given tokens are weighed.
    fn choose(&mut self, logits: &[f32], tier: Tier) -> Result<Option<u32>, llm::Error> {
        let index = self.tokens.len();
        let (grammar, sampling) = match &mut self.task {
            Task::Generate { grammar, sampling } => (grammar, sampling),
            Task::Weigh { ids } => {
                let (id, is_last) = (ids[index], index + 1 == ids.len());
                let logprob = sampler::weigh(logits, id, tier);
                self.note(Choice { id, logprob, masked_logprob: logprob });
                self.finish = is_last.then_some(Finish::Stop);
                return Ok(None);
            }
        };
        let left = sampling.max_tokens.saturating_sub(index);
        let mask = match grammar {
            Some(grammar) => Some(grammar.mask()?),
            None => None,
        };
        let mut choice =
            sampler::choose(logits, mask, sampling, self.stream, index, tier).ok_or_else(|| {
                llm::Error::Engine("the form allows no token, or the logits are not numbers".into())
            })?;
        let id = grammar.as_mut().map_or(choice.id, |grammar| grammar.within(choice.id, left));
        if id != choice.id {
            // The budget leaves room for the shortest end alone, and this is its next token.
            choice = Choice { id, logprob: sampler::weigh(logits, id, tier), masked_logprob: 0.0 };
        }
        let stops = self.tokenizer.stops().contains(&choice.id);
        if let (Some(grammar), false) = (grammar, stops) {
            grammar.advance(choice.id)?;
        }
        self.note(choice);
        if stops {
            self.finish = Some(Finish::Stop);
        }
        Ok((!stops).then_some(choice.id))
    }

    /// Ends the answer where it must end; else gives the token on to the next step.
    fn go_on(&mut self, id: u32) -> Option<u32> {
        let Task::Generate { grammar, sampling } = &mut self.task else { return None };
        if grammar.as_ref().is_some_and(Grammar::must_stop) {
            self.finish = Some(Finish::Form);
        } else if let Some(at) = stop_at(&self.bytes, &sampling.stop) {
            self.bytes.truncate(at);
            self.finish = Some(Finish::Stop);
        } else if self.tokens.len() >= sampling.max_tokens {
            let whole = grammar.as_mut().is_some_and(Grammar::may_stop);
            self.finish = Some(if whole { Finish::Form } else { Finish::Length });
        }
        self.finish.is_none().then_some(id)
    }

    fn note(&mut self, choice: Choice) {
        let Choice { id, logprob, masked_logprob } = choice;
        if !self.tokenizer.stops().contains(&id) {
            self.bytes.extend_from_slice(self.tokenizer.bytes(id));
        }
        let (text, source) = (self.tokenizer.decode(&[id]), TokenSource::Sampled);
        self.tokens.push(Token { id, text, logprob, masked_logprob, source });
    }

    /// Whether the answer has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.finish.is_some()
    }

    /// Sends the reply to whoever waits for it.
    pub fn send(self, sequence: &Sequence) {
        let usage = Usage {
            computed: sequence.n_prompt - sequence.n_cached.min(sequence.n_prompt),
            cached: sequence.n_cached.min(sequence.n_prompt),
            generated: if matches!(self.task, Task::Weigh { .. }) { 0 } else { self.tokens.len() },
            ..Usage::default()
        };
        let reply = Reply {
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            tokens: self.tokens,
            finish: self.finish.unwrap_or_default(),
            usage,
            prompt_ids: sequence.tokens[..sequence.n_prompt].to_vec(),
        };
        // The asker may have gone; nobody is left to tell.
        let _ = self.reply.send(self.failed.map_or(Ok(reply), Err));
    }

    /// Tells the asker that the engine failed.
    pub fn send_error(self, error: &llm::Error) {
        let _ = self.reply.send(Err(error.clone()));
    }
}

/// Where the first stop string begins.
fn stop_at(bytes: &[u8], stops: &[String]) -> Option<usize> {
    let find = |stop: &String| bytes.windows(stop.len().max(1)).position(|w| w == stop.as_bytes());
    stops.iter().filter(|stop| !stop.is_empty()).filter_map(find).min()
}
