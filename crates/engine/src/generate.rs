//! A generated answer: its form, budget, tokens and drafts. It does not handle blocks or batches.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    llm::{self, Finish, Reply, Sampling, Token, TokenSource, Usage},
    model::sampler::{SampleRequest, SampledToken},
};

use super::{
    draft::{self, DraftBudget},
    grammar::Grammar,
    lookahead,
    stream::Stream,
    tokenizer::Tokenizer,
};

/// An answer while it is being generated.
pub struct Generate {
    grammar: Option<Grammar>,
    sampling: Sampling,
    stream: Stream,
    answer: Settled,
    expected: Expected,
    usage: Usage,
    /// The finish of the answer; `None` while it goes on.
    end: Option<llm::Result<Finish>>,
}

/// The part of the answer that is settled.
struct Settled {
    tokenizer: Arc<Tokenizer>,
    /// Ids of the prompt and of `tokens`.
    context: Vec<u32>,
    n_prompt: usize,
    tokens: Vec<Token>,
    /// The text of `tokens`, without those that end a turn.
    bytes: Vec<u8>,
}

/// The tokens that are expected to follow the settled ones.
#[derive(Default)]
struct Expected {
    /// Forced tokens, which the grammar has already accepted, then guesses.
    ids: VecDeque<u32>,
    n_forced: usize,
    budget: DraftBudget,
}

impl Generate {
    /// An empty answer to a prompt.
    pub fn new(
        grammar: Option<Grammar>,
        sampling: Sampling,
        prompt: &[u32],
        tokenizer: Arc<Tokenizer>,
    ) -> Self {
        let stream = Stream::new(sampling.seed, prompt);
        let answer = Settled {
            tokenizer,
            context: prompt.to_vec(),
            n_prompt: prompt.len(),
            tokens: Vec::new(),
            bytes: Vec::new(),
        };
        let (expected, usage) = (Expected::default(), Usage::default());
        let mut generate = Self { grammar, sampling, stream, answer, expected, usage, end: None };
        if let Err(error) = generate.force() {
            generate.end = Some(Err(error));
        }
        generate
    }

    /// The answer's ids from the one at `first` on: settled, forced and guessed ones.
    pub fn ids(&self, first: usize) -> Vec<u32> {
        let settled = &self.answer.context[self.answer.n_prompt + first..];
        settled.iter().chain(&self.expected.ids).copied().collect()
    }

    /// Tokens that are settled.
    pub fn n_settled(&self) -> usize {
        self.answer.tokens.len()
    }

    /// Returns true if it has a form to follow.
    pub fn has_form(&self) -> bool {
        self.grammar.is_some()
    }

    /// Returns true if it has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// The sampling requests for the logits of at most `n_rows` consecutive positions: those after the
    /// settled tokens and after as many of the expected ones as were computed. It follows the form along the
    /// expected tokens, so that it can be called before the logits are computed. After an error there are no
    /// requests.
    pub fn requests(&mut self, n_rows: usize) -> Vec<SampleRequest> {
        let place = lookahead::Place {
            n_settled: self.n_settled(),
            n_forced: self.expected.n_forced,
            stream: self.stream,
        };
        let expected = self.expected.ids.make_contiguous();
        let requests = lookahead::requests(self.grammar.as_mut(), &self.sampling, expected, &place, n_rows);
        requests.unwrap_or_else(|error| {
            self.end = Some(Err(error));
            Vec::new()
        })
    }

    /// Takes the sampled tokens of the requested rows, then guesses up to `n_drafts` tokens. Rows after a
    /// wrong guess are ignored.
    pub fn take(&mut self, sampled: &[Option<SampledToken>], n_drafts: usize) {
        for token in sampled {
            if self.is_over() {
                break;
            }
            match token.ok_or_else(no_token).and_then(|token| self.take_row(token)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.end = Some(Err(error)),
            }
        }
        if self.is_over() {
            self.expected.ids.clear();
        } else if self.expected.ids.is_empty() {
            self.draft(n_drafts);
        }
    }

    /// Takes one row. Returns false if the following row was drafted on a rejected token.
    fn take_row(&mut self, sampled: SampledToken) -> llm::Result<bool> {
        let expected = self.expected.ids.pop_front();
        if self.expected.n_forced > 0 {
            self.expected.n_forced -= 1;
            self.usage.forced += 1;
            self.answer.push(SampledToken { masked_logprob: 0.0, ..sampled }, TokenSource::Forced);
            self.check_end();
            return Ok(true);
        }
        if self.answer.tokenizer.stops().contains(&sampled.id) {
            self.answer.push(sampled, TokenSource::Sampled);
            self.end = Some(Ok(Finish::Stop));
            return Ok(false);
        }
        if let Some(grammar) = &mut self.grammar {
            grammar.advance(sampled.id)?;
        }
        let guessed = expected == Some(sampled.id);
        self.expected.budget.observe(sampled.id, expected);
        self.usage.accepted += usize::from(guessed);
        self.answer.push(sampled, if guessed { TokenSource::Drafted } else { TokenSource::Sampled });
        if !guessed {
            self.expected.ids.clear();
        }
        let still = self.force()?;
        self.check_end();
        Ok(guessed && still)
    }

    /// Puts the tokens that the form forces before all other expected ones. Returns false if other tokens
    /// were guessed.
    fn force(&mut self) -> llm::Result<bool> {
        let left = self.sampling.max_tokens.saturating_sub(self.n_settled());
        let Some(grammar) = &mut self.grammar else { return Ok(true) };
        let forced = grammar.fast_forward(left)?;
        let Expected { ids, n_forced, .. } = &mut self.expected;
        *n_forced = forced.len();
        let same = ids.iter().zip(&forced).take_while(|(guess, forced)| guess == forced).count();
        if same < forced.len() {
            *ids = forced.into();
        }
        Ok(same == *n_forced)
    }

    /// Guesses up to `n` further tokens when none are expected.
    fn draft(&mut self, n: usize) {
        let left = self.sampling.max_tokens.saturating_sub(self.n_settled() + 1);
        let Expected { ids, budget, .. } = &mut self.expected;
        let n = n.min(left).min(budget.length());
        *ids = budget.propose(draft::guess(&self.answer.context, self.grammar.as_ref(), n)).into();
        self.usage.drafted += ids.len();
    }

    /// Ends the answer where it must end, unless forced tokens are still to come.
    fn check_end(&mut self) {
        if self.expected.n_forced > 0 {
            return;
        }
        let finish = if self.grammar.as_ref().is_some_and(Grammar::must_stop) {
            Finish::Form
        } else if let Some(at) = stop_at(&self.answer.bytes, &self.sampling.stop) {
            self.answer.bytes.truncate(at);
            Finish::Stop
        } else if self.n_settled() >= self.sampling.max_tokens {
            Finish::Length
        } else {
            return;
        };
        self.end = Some(Ok(finish));
    }

    /// The answer as a reply, without its prompt's usage.
    ///
    /// # Errors
    /// The error that ended the answer.
    pub(super) fn reply(self) -> llm::Result<Reply> {
        let Settled { tokens, bytes, .. } = self.answer;
        Ok(Reply {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            finish: self.end.transpose()?.unwrap_or_default(),
            usage: Usage { generated: tokens.len(), ..self.usage },
            tokens,
            ..Reply::default()
        })
    }
}

impl Settled {
    fn push(&mut self, sampled: SampledToken, source: TokenSource) {
        if !self.tokenizer.stops().contains(&sampled.id) {
            self.bytes.extend_from_slice(self.tokenizer.bytes(sampled.id));
        }
        self.context.push(sampled.id);
        self.tokens.push(token(&self.tokenizer, sampled, source));
    }
}

/// A sampled token with its text.
pub(super) fn token(tokenizer: &Tokenizer, sampled: SampledToken, source: TokenSource) -> Token {
    let SampledToken { id, logprob, masked_logprob } = sampled;
    Token { id, text: tokenizer.decode(&[id]), logprob, masked_logprob, source }
}

/// The error of a row without a token.
pub(super) fn no_token() -> llm::Error {
    llm::Error::Engine("the form allows no token, or the logits are not numbers".into())
}

/// The position of the first stop string.
fn stop_at(bytes: &[u8], stops: &[String]) -> Option<usize> {
    let find = |stop: &String| bytes.windows(stop.len().max(1)).position(|w| w == stop.as_bytes());
    stops.iter().filter(|stop| !stop.is_empty()).filter_map(find).min()
}
