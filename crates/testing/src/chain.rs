//! A judge of two roles whose questions depend on answers, and a model for it that counts tokens in two ways.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tribunal_core::{
    llm::{self, Chat, Counter, Llm, Reply, ResponseFormat, Sampling, Scored},
    segment::Segment,
};
use tribunal_judges::{Error, Judge, Panel, Protocol, Provenance, Question, Role, Stage, Verdict};

/// Asks one question of the annotator, and as many of the judge as the answer has letters.
pub struct Chain;

impl Protocol for Chain {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        let of = |(at, segment): (usize, &Segment)| {
            let panel = panel.about(at);
            let first = Chat::new().user(format!("What of {}?", segment.source));
            let reply = panel.ask(Role::Annotator, Stage::new("first"), &free(&panel, &first))?;
            for letter in reply.text.chars() {
                let next = Chat::new().user(format!("And {letter} of {}?", segment.source));
                panel.ask(Role::Judge, Stage::new("next"), &free(&panel, &next))?;
            }
            Ok(Verdict::new(0.0, Vec::new()))
        };
        group.iter().enumerate().map(of).collect()
    }
}

/// A question with an answer in any words.
fn free<'q>(panel: &Panel, chat: &'q Chat) -> Question<'q> {
    panel.question(chat, &ResponseFormat::Text, panel.sampling.max_tokens)
}

impl Chain {
    pub fn judge() -> Judge {
        Judge::new(Provenance::default(), Self)
    }
}

/// Answers with one word, and counts characters or words as tokens.
pub struct Word {
    says: &'static str,
    by_words: bool,
    pub n_asked: AtomicUsize,
}

impl Word {
    pub fn new(says: &'static str, by_words: bool) -> Arc<Self> {
        Arc::new(Self { says, by_words, n_asked: AtomicUsize::new(0) })
    }
}

impl Llm for Word {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, llm::Error> {
        self.n_asked.fetch_add(1, Ordering::SeqCst);
        let usage = llm::Usage { generated: self.says.len(), ..llm::Usage::default() };
        Ok(Reply { text: self.says.into(), usage, ..Reply::default() })
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, llm::Error> {
        Ok(Vec::new())
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Word {
    fn count(&self, chat: &Chat) -> Result<usize, llm::Error> {
        Ok(self.prompt_ids(chat)?.unwrap_or_default().len())
    }

    fn prompt_ids(&self, chat: &Chat) -> Result<Option<Vec<u32>>, llm::Error> {
        let text = &chat.messages()[0].content;
        let word =
            |word: &str| word.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte));
        let ids = if self.by_words {
            text.split(' ').map(word).collect()
        } else {
            text.chars().map(u32::from).collect()
        };
        Ok(Some(ids))
    }
}
