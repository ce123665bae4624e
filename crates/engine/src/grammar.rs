//! Constrained decoding: token masks, fast-forward tokens, and an end within the token budget.
//!
//! It samples nothing and sees no logits. llguidance tracks the grammar, and [`closing`] computes the
//! shortest complete answer, so that a token budget never truncates one.

use std::collections::BTreeMap;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use toktrie::TokEnv;

use crate::llm::{Error, ResponseFormat};
use crate::tokenizer::Tokenizer;

mod closing;
mod environment;
mod lark;
mod layout;
mod outcomes;
mod regex;
mod schema;
mod span;

use closing::Closer;
use regex::Pattern;
use schema::Refusal;
use span::SpanText;

/// A tokenizer's vocabulary, ready to be constrained: it compiles forms.
pub struct Vocabulary {
    factory: ParserFactory,
    environment: TokEnv,
    tokenizer: Arc<Tokenizer>,
    n_logits: usize,
}

impl Vocabulary {
    /// Builds the tree of the tokenizer's vocabulary, once for each model. `n_logits` is the length of a row
    /// of logits, which may exceed the tokenizer's vocabulary.
    ///
    /// # Errors
    /// [`Error::Engine`] when llguidance rejects the vocabulary or it has no stop token.
    pub fn new(tokenizer: &Arc<Tokenizer>, n_logits: usize) -> Result<Self, Error> {
        let environment = environment::environment(Arc::clone(tokenizer))?;
        let mut factory =
            ParserFactory::new_simple(&environment).map_err(|e| Error::Engine(e.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        // A span's text may be a whole document.
        limits.initial_lexer_fuel = 20_000_000;
        limits.step_lexer_fuel = 2_000_000;
        Ok(Self { factory, environment, tokenizer: Arc::clone(tokenizer), n_logits })
    }

    /// The length of a row of logits: the number of tokens that a probability is spread over.
    #[must_use]
    pub fn n_logits(&self) -> usize {
        self.n_logits
    }

    /// The constraint of a form; `None` for free text. It may be compiled ahead of its use, on any thread.
    ///
    /// # Errors
    /// [`Error::Form`] names the part of the form that is invalid or not supported.
    pub fn grammar(&self, form: &ResponseFormat) -> Result<Option<Grammar>, Error> {
        let Some(Compiled { grammar, closer, texts }) = compile(form)? else { return Ok(None) };
        let parser = self.factory.create_parser(grammar).map_err(|e| Error::Form(first_line(&e)))?;
        Ok(Some(Grammar {
            matcher: Box::new(Matcher::new(Ok(parser))),
            closer: Arc::new(closer),
            texts: texts.into(),
            environment: Arc::clone(&self.environment),
            tokenizer: Arc::clone(&self.tokenizer),
            mask: vec![0; self.n_logits.max(self.tokenizer.vocab_size()).div_ceil(32)],
            answer: Vec::new(),
            starts: Vec::new(),
            plan: None,
            truncated: false,
        }))
    }
}

/// The shortest answer of a form, as text; `None` for free text and where the form's end is not known.
///
/// # Errors
/// [`Error::Form`] names the part of the form that is invalid or not supported.
pub fn shortest(form: &ResponseFormat) -> Result<Option<String>, Error> {
    let bytes = compile(form)?.and_then(|compiled| compiled.closer.shortest_end(&[]));
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// A form without a vocabulary.
struct Compiled {
    grammar: TopLevelGrammar,
    closer: Closer,
    /// The texts that spans are copied from.
    texts: Vec<Arc<SpanText>>,
}

/// Reads a form; `None` for free text.
fn compile(form: &ResponseFormat) -> Result<Option<Compiled>, Error> {
    let whole = |pattern: Pattern| Compiled {
        grammar: TopLevelGrammar::from_lark(lark::whole(&pattern)),
        closer: Closer::whole(pattern),
        texts: Vec::new(),
    };
    Ok(Some(match form {
        ResponseFormat::Text => return Ok(None),
        ResponseFormat::Json { schema, texts } => json(schema, texts)?,
        ResponseFormat::Regex(source) => whole(Pattern::new(source).map_err(Error::Form)?),
        ResponseFormat::Choice(choices) if choices.is_empty() => {
            return Err(Error::Form("there is nothing to choose from".into()));
        }
        ResponseFormat::Choice(choices) => whole(Pattern::literals(choices).map_err(Error::Form)?),
        ResponseFormat::Layout { layout, texts } => {
            let part = layout::part(layout, texts).map_err(Error::Form)?;
            let grammar = TopLevelGrammar::from_lark(lark::layout(&part));
            Compiled { grammar, texts: part.texts(), closer: Closer::layout(part) }
        }
    }))
}

fn json(schema: &serde_json::Value, texts: &BTreeMap<String, String>) -> Result<Compiled, Error> {
    match schema::shape(schema, texts) {
        Ok(shape) => Ok(Compiled {
            grammar: TopLevelGrammar::from_lark(lark::json(&shape)),
            texts: shape.texts(),
            closer: Closer::json(shape),
        }),
        Err(Refusal::Unknown(what)) => Ok(Compiled {
            grammar: general_json(schema, &what)?,
            closer: Closer::unknown(),
            texts: Vec::new(),
        }),
        Err(Refusal::Wrong(what)) => Err(Error::Form(what)),
    }
}

/// A schema beyond the compiler in `schema`, compiled by llguidance: no spans, and no guarantee to finish
/// within a budget.
fn general_json(schema: &serde_json::Value, beyond: &str) -> Result<TopLevelGrammar, Error> {
    if mentions(schema, "substringOf") {
        return Err(Error::Form(format!("`substringOf` cannot be combined with {beyond} in one schema")));
    }
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        let style = serde_json::json!({
            "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ",
            // As in the compiler in `schema`.
            "coerce_one_of": true,
        });
        root.insert("x-guidance".into(), style);
    }
    Ok(TopLevelGrammar::from_json_schema(schema))
}

fn mentions(value: &serde_json::Value, key: &str) -> bool {
    match value {
        serde_json::Value::Object(map) => map.iter().any(|(k, v)| k == key || mentions(v, key)),
        serde_json::Value::Array(list) => list.iter().any(|v| mentions(v, key)),
        _ => false,
    }
}

/// A form and one answer's progress in it. A clone continues independently.
#[derive(Clone)]
pub struct Grammar {
    matcher: Box<Matcher>,
    closer: Arc<Closer>,
    /// The texts that spans are copied from.
    texts: Arc<[Arc<SpanText>]>,
    environment: TokEnv,
    tokenizer: Arc<Tokenizer>,
    mask: Vec<u32>,
    /// The answer so far, and where each of its tokens begins.
    answer: Vec<u8>,
    starts: Vec<usize>,
    /// The remaining tokens of a shortest end already begun.
    plan: Option<Vec<u32>>,
    /// True if the budget has changed the answer.
    truncated: bool,
}

/// A position in an answer, to return to.
#[derive(Clone, Debug)]
pub struct Mark {
    n_tokens: usize,
    plan: Option<Vec<u32>>,
    truncated: bool,
}

impl Grammar {
    /// The tokens that may come next, one bit for each logit (bit `id % 32` of word `id / 32`). Stop tokens
    /// are among them only where the answer may end; padding and control tokens never are.
    ///
    /// # Errors
    /// [`Error::Engine`] when llguidance exceeds its limits on work for one token.
    pub fn mask(&mut self) -> Result<&[u32], Error> {
        let allowed = self.matcher.compute_mask_or_eos().map_err(|e| failed(&e))?;
        let words = allowed.as_slice();
        let n = words.len().min(self.mask.len());
        self.mask[..n].copy_from_slice(&words[..n]);
        Ok(&self.mask)
    }

    /// Takes the next token of the answer.
    ///
    /// # Errors
    /// [`Error::Engine`] for a token that the form does not allow.
    pub fn advance(&mut self, token: u32) -> Result<(), Error> {
        self.matcher.consume_token(token).map_err(|e| failed(&e))?;
        self.starts.push(self.answer.len());
        if !self.tokenizer.stops().contains(&token) {
            self.answer.extend_from_slice(self.tokenizer.bytes(token));
        }
        self.plan = match self.plan.take() {
            Some(plan) if plan.first() == Some(&token) => Some(plan[1..].to_vec()),
            _ => None,
        };
        Ok(())
    }

    /// Takes back the last `n` tokens.
    ///
    /// # Errors
    /// [`Error::Engine`] when there are fewer.
    pub fn rollback(&mut self, n: usize) -> Result<(), Error> {
        if n == 0 {
            return Ok(());
        }
        self.matcher.rollback(n).map_err(|e| failed(&e))?;
        let kept = self.starts.len() - n;
        self.answer.truncate(self.starts[kept]);
        self.starts.truncate(kept);
        self.plan = None;
        Ok(())
    }

    /// The current position in the answer.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { n_tokens: self.starts.len(), plan: self.plan.clone(), truncated: self.truncated }
    }

    /// Goes back to an earlier position.
    ///
    /// # Errors
    /// Those of [`Grammar::rollback`].
    pub fn return_to(&mut self, mark: Mark) -> Result<(), Error> {
        self.rollback(self.starts.len().saturating_sub(mark.n_tokens))?;
        (self.plan, self.truncated) = (mark.plan, mark.truncated);
        Ok(())
    }

    /// Returns true if this token ends the model's turn.
    #[must_use]
    pub fn stops_at(&self, token: u32) -> bool {
        self.tokenizer.stops().contains(&token)
    }

    /// Returns true if the answer is complete and nothing may follow.
    #[must_use]
    pub fn must_stop(&self) -> bool {
        self.matcher.is_stopped() && !self.matcher.is_error()
    }

    /// Returns true if the answer may end here: it already conforms.
    pub fn may_stop(&mut self) -> bool {
        self.must_stop() || self.matcher.is_accepting().unwrap_or(false)
    }

    /// Takes the tokens that must come next and returns them, in the model's own tokenization: of several
    /// spellings of the same forced bytes, the tokenizer's. Empty when there is a choice, when the tokens
    /// exceed the budget, or when they would leave too little of it for the shortest end; the latter two make
    /// the answer [truncated](Grammar::is_truncated).
    ///
    /// # Errors
    /// Those of [`Grammar::advance`].
    pub fn fast_forward(&mut self, budget: usize) -> Result<Vec<u32>, Error> {
        let forced = if self.must_stop() { Vec::new() } else { self.matcher.compute_ff_tokens() };
        if forced.is_empty() || forced.len() > budget {
            self.truncated |= !forced.is_empty();
            return Ok(Vec::new());
        }
        let plan = self.plan.clone();
        for &token in &forced {
            self.advance(token)?;
        }
        let left = budget - forced.len();
        if left < self.closer.most() && self.least_tokens().is_some_and(|least| least > left) {
            self.rollback(forced.len())?;
            self.plan = plan;
            self.truncated = true;
            return Ok(Vec::new());
        }
        Ok(forced)
    }

    /// Returns true if the budget has changed the answer so far: with a larger one it might read otherwise.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// At most `n` tokens of the text that the answer seems to be copying a span from, after the copied part.
    /// A guess; the form may allow other tokens.
    #[must_use]
    pub fn copied(&self, n: usize) -> Vec<u32> {
        let Some(content) = self.closer.copying(&self.answer) else { return Vec::new() };
        let Some(rest) = self.texts.iter().find_map(|text| text.following(content)) else {
            return Vec::new();
        };
        // A token is seldom longer; the text beyond is not guessed.
        let mut tokens = self.tokens(&rest[..rest.len().min(n * 12)]);
        tokens.truncate(n);
        tokens
    }

    /// The fewest tokens that the answer needs from here, without a stop token: the smallest budget that
    /// [`Grammar::enforce_budget`] can keep. `None` when the form's end is not known (a schema beyond the
    /// compiler in `schema`) or cannot be reached.
    #[must_use]
    pub fn least_tokens(&self) -> Option<usize> {
        self.shortest_end().map(|tokens| tokens.len())
    }

    /// Checks a sampled token against the budget: the token itself when the answer can still be completed
    /// after it, else the next token of the shortest end (a stop token where the answer is already complete),
    /// which makes the answer [truncated](Grammar::is_truncated). `budget` counts the tokens that may still
    /// come, this one included.
    ///
    /// An answer whose budget is at least [`Grammar::least_tokens`] at its start is always complete within
    /// it. With a smaller budget, or where that number is unknown, the token passes unchanged.
    #[must_use]
    pub fn enforce_budget(&mut self, token: u32, budget: usize) -> u32 {
        let planned = self.plan.as_ref().is_some_and(|plan| plan.first() == Some(&token));
        // No token is shorter than a byte, so a budget above this bound holds every end.
        if planned || budget > self.closer.most() || self.tokenizer.stops().contains(&token) {
            return token;
        }
        let mut after = self.answer.clone();
        after.extend_from_slice(self.tokenizer.bytes(token));
        let rest = self.closer.shortest_end(&after);
        if rest.as_ref().is_some_and(|rest| rest.len() < budget || self.tokens(rest).len() < budget) {
            return token;
        }
        let Some(end) = self.shortest_end().filter(|end| end.len() <= budget) else { return token };
        if end.is_empty() && rest.is_none() && budget > 1 {
            // Complete, and the length of an answer with the token is not known.
            return token;
        }
        let stop = self.tokenizer.stops().first().copied();
        let Some(next) = end.first().copied().or(stop) else { return token };
        self.plan = Some(end);
        self.truncated |= next != token;
        next
    }

    fn shortest_end(&self) -> Option<Vec<u32>> {
        let fresh = self.closer.shortest_end(&self.answer).map(|bytes| self.tokens(&bytes));
        match (&self.plan, fresh) {
            (Some(plan), Some(fresh)) if plan.len() <= fresh.len() => Some(plan.clone()),
            (_, fresh) => fresh,
        }
    }

    fn tokens(&self, bytes: &[u8]) -> Vec<u32> {
        if bytes.is_empty() { Vec::new() } else { self.environment.tokenize_bytes(bytes) }
    }
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::Engine(format!("the form's grammar: {}", first_line(error)))
}

/// llguidance's message without the dump of its state, which can follow.
fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
