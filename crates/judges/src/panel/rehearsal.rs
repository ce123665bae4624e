//! The questions of a judge without a model: a stand-in for each of the panel's models gives the shortest
//! answer of a form, or none. No tokens are counted.

use std::{sync::Arc, time::Instant};

use super::{Call, Panel, Wanted};
use crate::{
    Judge, Role, Step,
    llm::{Chat, Counter, Error, Finish, Llm, Reasoning, Reply, ResponseFormat, Result, Sampling, Scored},
    segment::Segment,
};

/// The shortest answer of a form, where one is known.
type Shortest = dyn Fn(&ResponseFormat) -> Result<Option<String>> + Send + Sync;

/// A model that gives each form its shortest answer, and otherwise none.
pub struct Rehearsal {
    shortest: Box<Shortest>,
    /// True for a stand-in with empty reasoning: the questions after the reasoning are then recorded.
    reasons: bool,
}

/// A question that a judge would ask ([`rehearse`]).
#[derive(Clone, Debug)]
pub struct RehearsedQuestion {
    /// The unit, as in [`Call`].
    pub unit: Option<usize>,
    pub role: Role,
    pub step: Step,
    pub chat: Chat,
    pub form: ResponseFormat,
    /// Maximum number of tokens of the answer; 0 when given continuations are scored.
    pub max_tokens: usize,
    /// The shortest answer that the form allows, where one is known.
    pub shortest: Option<String>,
    /// True if a given text's last token goes through the model too, since its hidden states are read.
    pub is_read: bool,
}

/// The questions that judging a group asks when every form gets its shortest answer: exactly the calls of a
/// method with one question a unit, and the fewest calls of a pipeline of agents. Where a form has no known
/// shortest answer, free text above all, questions that depend on the answer are left out. Shortest answers
/// are sought until `end`. No model is run.
pub fn rehearse(
    judge: &Judge,
    panel: &Panel,
    group: &[Segment],
    end: Option<Instant>,
) -> Vec<RehearsedQuestion> {
    rehearsed(judge, panel, group, |model| Rehearsal::instead_of(model, end))
}

/// The questions that judging a group asks in every case: those that do not depend on an answer. Shortest
/// answers are sought until `end`. No model is run.
pub fn rehearse_unanswered(
    judge: &Judge,
    panel: &Panel,
    group: &[Segment],
    end: Option<Instant>,
) -> Vec<RehearsedQuestion> {
    let mut questions = rehearsed(judge, panel, group, |_| Rehearsal::default());
    questions.retain_mut(|question| {
        if !question.given().is_empty() || is_over(end) {
            return true;
        }
        let counter = panel.llm(question.role).counter();
        match counter.map_or(Ok(None), |counter| counter.shortest(&question.form)) {
            Ok(shortest) => {
                question.shortest = shortest;
                true
            }
            // A form that cannot be compiled is no question.
            Err(_) => false,
        }
    });
    questions
}

fn rehearsed(
    judge: &Judge,
    panel: &Panel,
    group: &[Segment],
    model: impl Fn(Arc<dyn Llm>) -> Rehearsal,
) -> Vec<RehearsedQuestion> {
    let panel = panel.fresh().wrapped(|inner| Arc::new(model(inner)));
    // Verdicts of a rehearsal are meaningless.
    drop(judge.judge(&panel, group));
    // A form that cannot be compiled is no question.
    let calls = panel.take_calls().into_iter().filter(|call| !matches!(call.error, Some(Error::Form(_))));
    let mut questions: Vec<RehearsedQuestion> = calls.map(RehearsedQuestion::from).collect();
    // RehearsedQuestions run side by side; this order does not depend on that.
    questions.sort_by(|a, b| {
        let place = |question: &RehearsedQuestion| (question.unit, question.step.to_string());
        place(a).cmp(&place(b)).then_with(|| a.chat.texts().cmp(b.chat.texts()))
    });
    questions
}

fn is_over(end: Option<Instant>) -> bool {
    end.is_some_and(|end| Instant::now() >= end)
}

impl Rehearsal {
    /// A stand-in with a function for the shortest answers of forms.
    pub fn with(
        shortest: impl Fn(&ResponseFormat) -> Result<Option<String>> + Send + Sync + 'static,
    ) -> Self {
        Self { shortest: Box::new(shortest), reasons: true }
    }

    /// A stand-in that takes the shortest answers of forms from this model, until a time.
    fn instead_of(model: Arc<dyn Llm>, end: Option<Instant>) -> Self {
        Self::with(move |form| match model.counter() {
            Some(counter) if !is_over(end) => counter.shortest(form),
            _ => Ok(None),
        })
    }
}

/// A stand-in that answers nothing at all.
impl Default for Rehearsal {
    fn default() -> Self {
        Self { reasons: false, ..Self::with(|_| Ok(None)) }
    }
}

fn unanswered() -> Error {
    Error::Engine("a rehearsal asks no model".into())
}

impl Llm for Rehearsal {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, _: &Sampling) -> Result<Reply> {
        let text = match (self.shortest)(form)? {
            None if self.reasons && chat.thought == Some(Reasoning::Open) => String::new(),
            shortest => shortest.ok_or_else(unanswered)?,
        };
        Ok(Reply { text, finish: Finish::Form, ..Reply::default() })
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>> {
        Err(unanswered())
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Rehearsal {
    fn count(&self, _: &Chat) -> Result<usize> {
        Err(unanswered())
    }

    fn shortest(&self, form: &ResponseFormat) -> Result<Option<String>> {
        (self.shortest)(form)
    }
}

impl From<Call> for RehearsedQuestion {
    fn from(call: Call) -> Self {
        let Call { unit, role, step, chat, wanted, sampling, reply, error, .. } = call;
        let shortest = error.is_none().then_some(reply.text);
        let is_read = matches!(wanted, Wanted::Reading(_));
        let form = match wanted {
            Wanted::Answer(form) => form,
            Wanted::Scores(texts) => ResponseFormat::Choice(texts),
            Wanted::Reading(text) => ResponseFormat::Choice(vec![text]),
        };
        Self { unit, role, step, chat, form, max_tokens: sampling.max_tokens, shortest, is_read }
    }
}

impl RehearsedQuestion {
    /// The texts that are scored, where no answer is generated.
    pub fn given(&self) -> &[String] {
        match &self.form {
            ResponseFormat::Choice(texts) if self.max_tokens == 0 => texts,
            _ => &[],
        }
    }
}
