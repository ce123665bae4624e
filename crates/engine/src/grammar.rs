//! Constrained decoding: token masks and fast-forward tokens. llguidance tracks the grammar.
//!
//! It samples nothing and sees no logits.

use std::collections::BTreeMap;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use toktrie::TokEnv;

use crate::llm::{Error, ResponseFormat, Result};
use crate::tokenizer::Tokenizer;

mod environment;
mod lark;
mod layout;
mod regex;
mod schema;
mod span;

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
    pub fn new(tokenizer: &Arc<Tokenizer>, n_logits: usize) -> Result<Self> {
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
    pub fn n_logits(&self) -> usize {
        self.n_logits
    }

    /// The constraint of a form; `None` for free text. It may be compiled ahead of its use, on any thread.
    ///
    /// # Errors
    /// [`Error::Form`] names the part of the form that is invalid or not supported.
    pub fn grammar(&self, form: &ResponseFormat) -> Result<Option<Grammar>> {
        let Some(Compiled { grammar, texts, .. }) = compile(form)? else { return Ok(None) };
        let parser = self.factory.create_parser(grammar).map_err(|e| Error::Form(first_line(&e)))?;
        Ok(Some(Grammar {
            matcher: Box::new(Matcher::new(Ok(parser))),
            texts: texts.into(),
            environment: Arc::clone(&self.environment),
            tokenizer: Arc::clone(&self.tokenizer),
            n_words: self.n_logits.max(self.tokenizer.vocab_size()).div_ceil(32),
            answer: Vec::new(),
            starts: Vec::new(),
        }))
    }
}

/// The shortest answer of a form, as text; `None` for free text and where it is not known.
///
/// # Errors
/// [`Error::Form`] names the part of the form that is invalid or not supported.
pub fn shortest(form: &ResponseFormat) -> Result<Option<String>> {
    let bytes = compile(form)?.and_then(|compiled| compiled.shortest);
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// A form without a vocabulary.
struct Compiled {
    grammar: TopLevelGrammar,
    shortest: Option<Vec<u8>>,
    /// The texts that spans are copied from.
    texts: Vec<Arc<SpanText>>,
}

/// Reads a form; `None` for free text.
fn compile(form: &ResponseFormat) -> Result<Option<Compiled>> {
    let of_pattern = |pattern: Pattern| Compiled {
        grammar: TopLevelGrammar::from_lark(lark::whole(&pattern)),
        shortest: pattern.shortest(),
        texts: Vec::new(),
    };
    Ok(Some(match form {
        ResponseFormat::Text => return Ok(None),
        ResponseFormat::Json { schema, texts } => json(schema, texts)?,
        ResponseFormat::Regex(source) => of_pattern(Pattern::new(source).map_err(Error::Form)?),
        ResponseFormat::Choice(choices) if choices.is_empty() => {
            return Err(Error::Form("there is nothing to choose from".into()));
        }
        ResponseFormat::Choice(choices) => of_pattern(Pattern::literals(choices).map_err(Error::Form)?),
        ResponseFormat::Layout { layout, texts } => {
            let part = layout::part(layout, texts).map_err(Error::Form)?;
            let grammar = TopLevelGrammar::from_lark(lark::layout(&part));
            Compiled { grammar, texts: part.texts(), shortest: part.shortest() }
        }
    }))
}

fn json(schema: &serde_json::Value, texts: &BTreeMap<String, String>) -> Result<Compiled> {
    match schema::shape(schema, texts) {
        Ok(shape) => Ok(Compiled {
            grammar: TopLevelGrammar::from_lark(lark::json(&shape)),
            texts: shape.texts(),
            shortest: shape.shortest(),
        }),
        Err(Refusal::Unknown(what)) => {
            Ok(Compiled { grammar: general_json(schema, &what)?, shortest: None, texts: Vec::new() })
        }
        Err(Refusal::Wrong(what)) => Err(Error::Form(what)),
    }
}

/// A schema beyond the compiler in `schema`, compiled by llguidance: no spans.
fn general_json(schema: &serde_json::Value, beyond: &str) -> Result<TopLevelGrammar> {
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
    /// The texts that spans are copied from.
    texts: Arc<[Arc<SpanText>]>,
    environment: TokEnv,
    tokenizer: Arc<Tokenizer>,
    /// Words of a mask.
    n_words: usize,
    /// The answer so far, and where each of its tokens begins.
    answer: Vec<u8>,
    starts: Vec<usize>,
}

impl Grammar {
    /// The tokens that may come next, one bit for each logit (bit `id % 32` of word `id / 32`). Stop tokens
    /// are among them only where the answer may end; padding and control tokens never are.
    ///
    /// # Errors
    /// [`Error::Engine`] when llguidance exceeds its limits on work for one token.
    pub fn mask(&mut self) -> Result<Vec<u32>> {
        let mut mask = self.matcher.compute_mask_or_eos().map_err(|e| failed(&e))?.as_slice().to_vec();
        mask.resize(self.n_words, 0);
        Ok(mask)
    }

    /// Takes the next token of the answer.
    ///
    /// # Errors
    /// [`Error::Engine`] for a token that the form does not allow.
    pub fn advance(&mut self, token: u32) -> Result<()> {
        self.matcher.consume_token(token).map_err(|e| failed(&e))?;
        self.starts.push(self.answer.len());
        if !self.tokenizer.stops().contains(&token) {
            self.answer.extend_from_slice(self.tokenizer.bytes(token));
        }
        Ok(())
    }

    /// Takes back the last `n` tokens.
    ///
    /// # Errors
    /// [`Error::Engine`] when there are fewer.
    pub fn rollback(&mut self, n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        self.matcher.rollback(n).map_err(|e| failed(&e))?;
        let n_left = self.starts.len() - n;
        self.answer.truncate(self.starts[n_left]);
        self.starts.truncate(n_left);
        Ok(())
    }

    /// The number of tokens of the answer so far.
    pub fn n_tokens(&self) -> usize {
        self.starts.len()
    }

    /// Returns true if this token ends the model's turn.
    pub fn stops_at(&self, token: u32) -> bool {
        self.tokenizer.stops().contains(&token)
    }

    /// Returns true if the answer is complete and nothing may follow.
    pub fn must_stop(&self) -> bool {
        self.matcher.is_stopped() && !self.matcher.is_error()
    }

    /// Returns true if the answer may end here: it already conforms.
    pub fn may_stop(&mut self) -> bool {
        self.must_stop() || self.matcher.is_accepting().unwrap_or(false)
    }

    /// Takes the tokens that must come next and returns them, in the model's own tokenization: of several
    /// spellings of the same forced bytes, the tokenizer's. Empty when there is a choice, or when they exceed
    /// the budget.
    ///
    /// # Errors
    /// Those of [`Grammar::advance`].
    pub fn fast_forward(&mut self, budget: usize) -> Result<Vec<u32>> {
        let mut forced = if self.must_stop() { Vec::new() } else { self.matcher.compute_ff_tokens() };
        if forced.len() > budget {
            forced.clear();
        }
        for &token in &forced {
            self.advance(token)?;
        }
        Ok(forced)
    }

    /// At most `n` tokens of the text that the answer seems to be copying a span from, after the copied part.
    /// A guess; the form may allow other tokens.
    pub fn copied(&self, n: usize) -> Vec<u32> {
        let Some(content) = open_string(&self.answer) else { return Vec::new() };
        let Some(tail) = self.texts.iter().find_map(|text| text.following(content)) else {
            return Vec::new();
        };
        // A token is seldom longer; the text beyond is not guessed.
        let mut tokens = self.tokens(&tail[..tail.len().min(n * 12)]);
        tokens.truncate(n);
        tokens
    }

    fn tokens(&self, bytes: &[u8]) -> Vec<u32> {
        if bytes.is_empty() { Vec::new() } else { self.environment.tokenize_bytes(bytes) }
    }
}

/// The content so far of the quoted text that an unfinished answer ends in.
fn open_string(answer: &[u8]) -> Option<&[u8]> {
    let mut tail = answer;
    loop {
        let quote = tail.iter().position(|&byte| byte == b'"')?;
        let content = &tail[quote + 1..];
        let mut is_escaped = false;
        let end = content.iter().position(|&byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let Some(end) = end else { return Some(content) };
        tail = &content[end + 1..];
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
