//! A scripted model that computes the shortest answers of forms, as engines do. Its answers are those of its
//! script.

use tribunal::{
    engine::grammar,
    llm::{self, Chat, Counter, Llm, Reply, ResponseFormat, Sampling, Scored},
};

use super::Cast;

/// A cast with a grammar.
pub struct WithShortest(pub Cast);

impl Llm for WithShortest {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        self.0.ask(chat, form, sampling)
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        self.0.score_continuations(chat, continuations)
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for WithShortest {
    fn count(&self, chat: &Chat) -> Result<usize, llm::Error> {
        self.0.count(chat)
    }

    fn shortest(&self, form: &ResponseFormat) -> Result<Option<String>, llm::Error> {
        grammar::shortest(form)
    }
}
