//! Scripted models, helpers that run a judge, and builders of segments, for the tests of the program and of
//! the judges. The crate is built for tests alone and imports no engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::missing_errors_doc,
    reason = "only tests call it, and they want to panic"
)]

mod cast;
mod chain;
mod judging;
mod real;
mod reasoner;
mod reports;
mod rule;
mod script;
mod seeded_answers;
mod segments;
mod weighing;

use tribunal_core::llm::{Chat, Reply};

pub use self::{
    cast::Cast,
    chain::{Chain, Word},
    judging::{
        PAPER_ANSWER, Preview, STRICT_ANSWER, TEXT_ANSWER, conversation, dialogue, judge, judged, run,
        settings, show, show_question, strict_answer, verdict,
    },
    real::{not_checked, published_data},
    reasoner::Reasoner,
    reports::report,
    rule::{Rule, Sampled},
    script::{Script, Short},
    seeded_answers::SeededAnswers,
    segments::{bank, document, segment, segments, translation},
    weighing::{Estimates, Halves, Outputs, Words},
};

/// Scripted answers in order; the last one repeats.
struct Lines {
    replies: Vec<Reply>,
    n_said: usize,
}

impl Lines {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: replies.into_iter().collect(), n_said: 0 }
    }

    fn next(&mut self) -> Reply {
        let reply = self.replies[self.n_said.min(self.replies.len() - 1)].clone();
        self.n_said += 1;
        reply
    }
}

/// The tokens of a chat for models that have no tokenizer: its words.
fn words(chat: &Chat) -> usize {
    chat.messages().iter().map(|turn| turn.content.split_whitespace().count()).sum()
}
