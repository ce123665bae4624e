//! What tests put in the place of real things: models and judges, and builders of what is judged.

mod cast;
mod chain;
mod gguf;
mod judging;
mod moody;
mod noise;
mod real;
mod rule;
mod script;
mod segments;
mod small_run;
mod tiny_judge;
mod weighing;

use tribunal::llm::{Chat, Reply};

pub use self::{
    cast::Cast,
    chain::{Chain, Word},
    gguf::gguf,
    judging::{
        PAPER_ANSWER, Preview, STRICT_ANSWER, TEXT_ANSWER, conversation, dialogue, judge, judged, run,
        settings, show, show_question, strict_answer, verdict,
    },
    moody::Moody,
    noise::{Babble, Collector, Within, tiny_engine},
    real::{not_checked, published_data},
    rule::{Rule, Sampled},
    script::{Script, Short},
    segments::{bank, document, segment, segments, translation},
    small_run::{SmallRun, said},
    tiny_judge::{Numbers, TinyJudge, models, options, panel},
    weighing::{Halves, Words},
};

/// Answers one after the other; the last one again and again.
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
    chat.turns.iter().map(|turn| turn.content.split_whitespace().count()).sum()
}
