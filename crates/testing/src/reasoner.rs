//! A model that reasons before it answers.

use std::sync::{Arc, Mutex};

use tribunal_core::llm::{
    self, Chat, Counter, Finish, Llm, Reasoning, Reply, ResponseFormat, Sampling, Scored, Usage,
};

/// A model that reasons: the seed of its reasoning is in the answer's reasoning text, and its answer is
/// always the same.
pub struct Reasoner {
    answer: &'static str,
    /// The finish reasons of its reasonings, in order; all later ones end normally.
    finishes: Mutex<Vec<Finish>>,
    reasons: bool,
}

impl Reasoner {
    pub fn new(answer: &'static str, finishes: &[Finish]) -> Arc<Self> {
        let finishes = Mutex::new(finishes.iter().rev().copied().collect());
        Arc::new(Self { answer, finishes, reasons: true })
    }

    /// One whose chat template marks no reasoning.
    pub fn without_reasoning(answer: &'static str) -> Arc<Self> {
        Arc::new(Self { answer, finishes: Mutex::default(), reasons: false })
    }
}

impl Llm for Reasoner {
    fn ask(&self, chat: &Chat, _: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        if chat.thought != Some(Reasoning::Open) {
            return Ok(Reply { text: self.answer.into(), ..Reply::default() });
        }
        let finish = self.finishes.lock().unwrap().pop().unwrap_or_default();
        let text = format!(" {{\"score\": {}}} ", sampling.seed >> 32);
        Ok(Reply { text, finish, ..Reply::default() })
    }

    fn score_continuations(&self, _: &Chat, texts: &[String]) -> Result<Vec<Scored>, llm::Error> {
        let scored = |text: &String| Scored {
            text: text.clone(),
            tokens: Vec::new(),
            reading: None,
            estimate: None,
            is_chance: false,
            usage: Usage::default(),
        };
        Ok(texts.iter().map(scored).collect())
    }

    fn reasons(&self) -> bool {
        self.reasons
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Reasoner {
    fn count(&self, _: &Chat) -> Result<usize, llm::Error> {
        Ok(1)
    }

    fn shortest(&self, form: &ResponseFormat) -> Result<Option<String>, llm::Error> {
        Ok((*form != ResponseFormat::Text).then(|| self.answer.to_owned()))
    }
}
