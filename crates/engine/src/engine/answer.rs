//! An answer while it is being generated: its form, its budget, its tokens. It knows nothing of blocks or batches.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak, mpsc::SyncSender},
};

use crate::{
    llm::{self, Finish, Reply, Sampling, Token, TokenSource, Usage},
    model::tail::{Choice, Want},
};

use super::{draft, grammar::Grammar, lookahead, sequence::Sequence, stream::Stream, tokenizer::Tokenizer};

/// What a request wants of the model.
pub enum Task {
    /// Generate an answer.
    Generate { grammar: Option<Grammar>, sampling: Sampling },
    /// Weigh tokens of given texts, one or more after each of these rows.
    Weigh { rows: Vec<Vec<u32>> },
    /// Give the hidden states of so many tokens after each of these numbers of layers.
    Read { n_tokens: usize, depths: Vec<u32> },
}

/// What a request comes back with.
pub struct Outcome {
    pub reply: Reply,
    /// Hidden states, an entry for each of the task's depths, the tokens' vectors one after the other.
    pub states: Vec<Vec<f32>>,
}

/// A request's answer as far as it has come.
pub struct Answer {
    task: Task,
    stream: Stream,
    /// Prompt and noted tokens.
    context: Vec<u32>,
    n_prompt: usize,
    tokens: Vec<Token>,
    /// What is expected after the noted tokens: forced ones, which the grammar has taken already, then guesses.
    drafts: VecDeque<u32>,
    n_forced: usize,
    draft_budget: draft::DraftBudget,
    usage: Usage,
    bytes: Vec<u8>,
    tokenizer: Arc<Tokenizer>,
    states: Vec<Vec<f32>>,
    /// Rows of given texts that have been weighed, or tokens whose states have been noted.
    n_weighed: usize,
    n_read: usize,
    reply: SyncSender<Result<Outcome, llm::Error>>,
    /// Gone when nobody waits for the reply any more.
    asker: Option<Weak<()>>,
    finish: Option<Finish>,
    failed: Option<llm::Error>,
}

impl Answer {
    #[must_use]
    pub fn new(
        task: Task,
        prompt: &[u32],
        tokenizer: Arc<Tokenizer>,
        reply: SyncSender<Result<Outcome, llm::Error>>,
    ) -> Self {
        let seed = if let Task::Generate { sampling, .. } = &task { sampling.seed } else { 0 };
        let mut answer = Self {
            task,
            stream: Stream::new(seed, prompt),
            context: prompt.to_vec(),
            n_prompt: prompt.len(),
            tokens: Vec::new(),
            drafts: VecDeque::new(),
            n_forced: 0,
            draft_budget: draft::DraftBudget::default(),
            usage: Usage::default(),
            bytes: Vec::new(),
            tokenizer,
            states: Vec::new(),
            n_weighed: 0,
            n_read: 0,
            reply,
            asker: None,
            finish: None,
            failed: None,
        };
        if let Err(error) = answer.force() {
            answer.fail(error);
        }
        answer
    }

    /// Records how many tokens of the prompt no earlier prompt shares.
    pub fn set_distinct(&mut self, n: usize) {
        self.usage.distinct = n;
    }

    /// Records who waits for the reply.
    pub fn set_asker(&mut self, asker: Weak<()>) {
        self.asker = Some(asker);
    }

    /// Whether nobody waits for the reply any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.strong_count() == 0)
    }

    /// The answer's ids as they should stand in the sequence, from the one at `first` on: noted, forced and guessed ones.
    #[must_use]
    pub fn ids(&self, first: usize) -> Vec<u32> {
        self.context[self.n_prompt + first..].iter().chain(&self.drafts).copied().collect()
    }

    /// Tokens that are settled.
    #[must_use]
    pub fn n_noted(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the model writes the answer; otherwise it weighs given texts.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        matches!(self.task, Task::Generate { .. })
    }

    /// Whether it has a form to follow.
    #[must_use]
    pub fn has_form(&self) -> bool {
        matches!(self.task, Task::Generate { grammar: Some(_), .. })
    }

    /// What is wanted of the logits of `n_rows` consecutive positions: those after the noted tokens and after as many
    /// of the expected ones as were computed. It follows the form along the expected tokens, so that it can be asked
    /// before the logits are there.
    pub fn wants(&mut self, n_rows: usize) -> Vec<Want> {
        let n_noted = self.tokens.len();
        let wants = match &mut self.task {
            // What else is weighed after a row is in `more`.
            Task::Read { .. } => Ok(Vec::new()),
            Task::Weigh { rows } => Ok(rows[self.n_weighed..]
                .iter()
                .filter_map(|ids| ids.first())
                .map(|&id| Want::Weigh(id))
                .collect()),
            Task::Generate { grammar, sampling } => {
                let place = lookahead::Place { n_noted, n_forced: self.n_forced, stream: self.stream };
                lookahead::wants(grammar.as_mut(), sampling, self.drafts.make_contiguous(), &place, n_rows)
            }
        };
        let mut wants = wants.unwrap_or_else(|error| {
            self.fail(error);
            Vec::new()
        });
        wants.resize(n_rows, Want::Nothing);
        wants
    }

    /// Those of the next `n_rows` rows after which several tokens are weighed, each with its tokens.
    #[must_use]
    pub fn more(&self, n_rows: usize) -> Vec<(usize, Vec<u32>)> {
        let Task::Weigh { rows } = &self.task else { return Vec::new() };
        let rows = rows[self.n_weighed..].iter().take(n_rows).enumerate();
        rows.filter(|(_, ids)| ids.len() > 1).map(|(row, ids)| (row, ids.clone())).collect()
    }

    /// Takes what came of the wanted rows, then guesses up to `n_drafts` tokens. Rows after a wrong guess are
    /// ignored. `logprobs` gives the log-probabilities of other tokens after one of the rows.
    pub fn take(
        &mut self,
        choices: &[Option<Choice>],
        n_drafts: usize,
        logprobs: impl Fn(usize, &[u32]) -> Result<Vec<f64>, llm::Error>,
    ) {
        if !self.is_generated() {
            return self.take_given(choices, logprobs);
        }
        for (row, choice) in choices.iter().enumerate() {
            if self.is_over() {
                break;
            }
            let one = |id| logprobs(row, &[id]).map(|logprobs| logprobs.first().copied().unwrap_or(f64::NAN));
            let as_expected = choice.ok_or_else(no_choice).and_then(|choice| self.take_row(choice, one));
            let as_expected = as_expected.unwrap_or_else(|error| {
                self.fail(error);
                false
            });
            if !as_expected {
                break;
            }
        }
        if self.is_over() {
            self.drafts.clear();
        } else if self.drafts.is_empty() {
            self.draft(n_drafts);
        }
    }

    /// Takes rows of given texts. It goes on to the last one even if one fails: others wait for the tokens of these rows
    /// to be computed.
    fn take_given(
        &mut self,
        choices: &[Option<Choice>],
        logprobs: impl Fn(usize, &[u32]) -> Result<Vec<f64>, llm::Error>,
    ) {
        let Task::Weigh { rows } = &self.task else { return };
        let left: Vec<Vec<u32>> = rows[self.n_weighed..].iter().take(choices.len()).cloned().collect();
        for (row, (ids, choice)) in left.iter().zip(choices).enumerate() {
            let logprobs = match choice {
                None => Err(no_choice()),
                Some(choice) if ids.len() == 1 => Ok(vec![choice.logprob]),
                Some(_) => logprobs(row, ids),
            };
            self.n_weighed += 1;
            match logprobs {
                Err(error) => drop(self.failed.get_or_insert(error)),
                Ok(logprobs) => {
                    for (&id, logprob) in ids.iter().zip(logprobs) {
                        self.note(Choice { id, logprob, masked_logprob: logprob }, TokenSource::Sampled);
                    }
                }
            }
        }
        if let Task::Weigh { rows } = &self.task
            && self.n_weighed == rows.len()
        {
            self.finish = Some(Finish::Stop);
        }
    }

    /// Takes one row. False when the next row was computed after a token that is not in the answer.
    fn take_row(
        &mut self,
        choice: Choice,
        logprobs: impl Fn(u32) -> Result<f64, llm::Error>,
    ) -> Result<bool, llm::Error> {
        let expected = self.drafts.pop_front();
        if self.n_forced > 0 {
            self.n_forced -= 1;
            self.usage.forced += 1;
            self.note(Choice { masked_logprob: 0.0, ..choice }, TokenSource::Forced);
            self.check_end();
            return Ok(true);
        }
        let Some(choice) = self.accept(choice, logprobs)? else { return Ok(false) };
        let guessed = expected == Some(choice.id);
        self.draft_budget.observe(choice.id, expected);
        self.usage.accepted += usize::from(guessed);
        self.note(choice, if guessed { TokenSource::Drafted } else { TokenSource::Sampled });
        if !guessed {
            self.drafts.clear();
        }
        let still = self.force()?;
        self.check_end();
        Ok(guessed && still)
    }

    /// The depths at which its hidden states are wanted.
    #[must_use]
    pub fn depths(&self) -> &[u32] {
        if let Task::Read { depths, .. } = &self.task { depths } else { &[] }
    }

    /// Notes the hidden states of the next `n` tokens: `states` has an entry for each of its depths.
    pub fn note_states<'a>(&mut self, n: usize, states: impl Iterator<Item = &'a [f32]>) {
        self.states.resize(self.depths().len(), Vec::new());
        for (noted, new) in self.states.iter_mut().zip(states) {
            noted.extend_from_slice(new);
        }
        self.n_read += n;
        if let Task::Read { n_tokens, .. } = self.task
            && self.n_read == n_tokens
        {
            self.finish = Some(Finish::Stop);
        }
    }

    /// Makes a choice the next token, or what the budget asks for in its place. `None` when the model ended its turn.
    fn accept(
        &mut self,
        mut choice: Choice,
        logprobs: impl Fn(u32) -> Result<f64, llm::Error>,
    ) -> Result<Option<Choice>, llm::Error> {
        let Task::Generate { grammar, sampling } = &mut self.task else { return Ok(None) };
        let left = sampling.max_tokens.saturating_sub(self.tokens.len());
        let id = grammar.as_mut().map_or(choice.id, |grammar| grammar.within(choice.id, left));
        if id != choice.id {
            // The budget leaves room for the shortest end alone, and this is its next token.
            choice = Choice { id, logprob: logprobs(id)?, masked_logprob: 0.0 };
        }
        if self.tokenizer.stops().contains(&id) {
            self.note(choice, TokenSource::Sampled);
            self.end(Finish::Stop);
            return Ok(None);
        }
        if let Some(grammar) = grammar {
            grammar.advance(id)?;
        }
        Ok(Some(choice))
    }

    /// Puts what the form forces at the front of the expected tokens. False when the guess was something else.
    fn force(&mut self) -> Result<bool, llm::Error> {
        let Task::Generate { grammar: Some(grammar), sampling } = &mut self.task else { return Ok(true) };
        let forced = grammar.force(sampling.max_tokens.saturating_sub(self.tokens.len()))?;
        self.n_forced = forced.len();
        let same = self.drafts.iter().zip(&forced).take_while(|(guess, forced)| guess == forced).count();
        if same < forced.len() {
            self.drafts = forced.into();
        }
        Ok(same == self.n_forced)
    }

    /// Guesses further tokens when none are expected.
    fn draft(&mut self, n: usize) {
        let Task::Generate { grammar, sampling } = &self.task else { return };
        let left = sampling.max_tokens.saturating_sub(self.tokens.len() + 1);
        let n = n.min(left).min(self.draft_budget.length());
        self.drafts = self.draft_budget.propose(draft::guess(&self.context, grammar.as_ref(), n)).into();
        self.usage.drafted += self.drafts.len();
    }

    /// Ends the answer where it must end, unless forced tokens are still to come.
    fn check_end(&mut self) {
        let Task::Generate { grammar, sampling } = &self.task else { return };
        if self.n_forced > 0 {
            return;
        }
        if grammar.as_ref().is_some_and(Grammar::must_stop) {
            self.end(Finish::Form);
        } else if let Some(at) = stop_at(&self.bytes, &sampling.stop) {
            self.bytes.truncate(at);
            self.end(Finish::Stop);
        } else if self.tokens.len() >= sampling.max_tokens {
            self.end(Finish::Length);
        }
    }

    /// Ends the answer. If the budget shaped it, the budget ended it, even where the text reads as complete.
    fn end(&mut self, finish: Finish) {
        let grammar = if let Task::Generate { grammar, .. } = &self.task { grammar.as_ref() } else { None };
        let curbed = grammar.is_some_and(Grammar::is_curbed);
        self.finish = Some(if curbed { Finish::Length } else { finish });
    }

    fn note(&mut self, choice: Choice, source: TokenSource) {
        let Choice { id, logprob, masked_logprob } = choice;
        if !self.tokenizer.stops().contains(&id) {
            self.bytes.extend_from_slice(self.tokenizer.bytes(id));
        }
        let text = self.tokenizer.decode(&[id]);
        self.context.push(id);
        self.tokens.push(Token { id, text, logprob, masked_logprob, source });
    }

    fn fail(&mut self, error: llm::Error) {
        self.failed = Some(error);
        self.finish = Some(Finish::Stop);
    }

    /// Whether the answer has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.finish.is_some()
    }

    /// Sends the reply to whoever waits for it.
    pub fn send(self, sequence: &Sequence) {
        let n_cached = sequence.n_cached.min(sequence.n_prompt);
        let usage = Usage {
            computed: sequence.n_prompt - n_cached,
            cached: n_cached,
            generated: if self.is_generated() { self.tokens.len() } else { 0 },
            ..self.usage
        };
        let reply = Reply {
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            tokens: self.tokens,
            finish: self.finish.unwrap_or_default(),
            usage,
            is_chance: false,
            prompt_ids: sequence.tokens[..sequence.n_prompt].to_vec(),
        };
        // The asker may have gone; nobody is left to tell.
        let _ = self.reply.send(self.failed.map_or(Ok(Outcome { reply, states: self.states }), Err));
    }

    /// Tells the asker that the engine failed.
    pub fn send_error(self, error: &llm::Error) {
        let _ = self.reply.send(Err(error.clone()));
    }
}

fn no_choice() -> llm::Error {
    llm::Error::Engine("the form allows no token, or the logits are not numbers".into())
}

/// Where the first stop string begins.
fn stop_at(bytes: &[u8], stops: &[String]) -> Option<usize> {
    let find = |stop: &String| bytes.windows(stop.len().max(1)).position(|w| w == stop.as_bytes());
    stops.iter().filter(|stop| !stop.is_empty()).filter_map(find).min()
}
