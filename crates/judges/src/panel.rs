//! Maps each role to its model and records calls. No method is named here.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use serde::Serialize;

use super::{
    Error, Result, Verdict,
    method::{Role, Step},
    reading,
};
use crate::{
    llm::{
        self, Chat, Confirmed, Estimate, LinearProbe, Llm, MetricTexts, ReasoningOptions, Reply,
        ResponseFormat, Sampling, Scored,
    },
    parallel,
    segment::Segment,
};

pub mod reasoning;
pub mod rehearsal;

pub use reasoning::REASONING;

/// The models of a method's roles, and the sampling of their calls.
#[derive(Clone)]
pub struct Panel {
    default: Arc<dyn Llm>,
    assigned: BTreeMap<Role, Arc<dyn Llm>>,
    /// Sampling of every question. Judges replace its `max_tokens` by their own budget
    /// ([`super::Settings::max_tokens`] sets it).
    pub sampling: Sampling,
    /// The reasoning before every answer; `None` for answers without it.
    reasoning: Option<ReasoningOptions>,
    unit: Option<usize>,
    /// The members of the group whose verdicts are needed; `None` for all.
    wanted: Option<Arc<[usize]>>,
    record: Arc<Mutex<Vec<Call>>>,
}

/// One question and its answer, as recorded in `calls.jsonl`.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The unit of the group that the question is about, by its position in the answer of
    /// [`super::Judge::judge`]; `None` when it is about the whole group.
    pub unit: Option<usize>,
    pub role: Role,
    pub step: Step,
    /// 0 for the first attempt; then the number of earlier attempts, whose answers were unusable.
    pub attempt: usize,
    pub chat: Chat,
    #[serde(skip)]
    pub wanted: Wanted,
    /// The sampling of the answer. Continuations that are scored have a budget of 0.
    pub sampling: Sampling,
    pub reply: Reply,
    /// The given continuations, where they were scored and nothing was generated.
    pub scored: Vec<Scored>,
    /// The reason why there is no answer.
    pub error: Option<llm::Error>,
    /// The outcome of the answer, where the method counts outcomes: see [`Panel::mark`].
    pub outcome: Option<&'static str>,
    pub seconds: f64,
}

/// The request to a model about a chat.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// An answer of this form.
    Answer(ResponseFormat),
    /// The log-probabilities of these continuations.
    Scores(Vec<String>),
    /// A reading of this text.
    Reading(String),
}

/// A question to a model: the chat, the form of its answer, and the sampling with its budget.
#[derive(Clone)]
pub struct Question<'q> {
    pub chat: &'q Chat,
    pub form: &'q ResponseFormat,
    pub sampling: Sampling,
}

impl Question<'_> {
    /// The answer, provided that its budget did not cut it.
    fn whole(&self, reply: Reply) -> Result<Reply> {
        reading::whole(&reply, self.sampling.max_tokens)?;
        Ok(reply)
    }
}

/// The place of a question in a method, and the number of earlier tries.
#[derive(Clone)]
struct Attempt {
    role: Role,
    step: Step,
    number: usize,
}

/// Rule for retries when an answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Maximum number of tries.
    pub tries: usize,
    /// Added to the temperature at each further try: at temperature 0 another seed changes nothing.
    pub warmer: f32,
}

impl Retry {
    /// For pipelines of many questions, where one bad answer would void all the others: three tries, each 0.3
    /// warmer than the one before. The numbers are ours.
    pub const AGENT: Self = Self { tries: 3, warmer: 0.3 };
}

impl Panel {
    /// Its models, each once unless it plays several assigned roles.
    fn models(&self) -> impl Iterator<Item = &Arc<dyn Llm>> {
        let others = self.assigned.values().filter(|model| !Arc::ptr_eq(model, &self.default));
        std::iter::once(&self.default).chain(others)
    }

    /// Number of token positions that its models have computed so far.
    pub fn computed(&self) -> usize {
        self.models().map(|model| model.computed()).sum()
    }

    /// Results of the steps that its models' devices computed a second time, always in the same order.
    pub fn confirmed(&self) -> Vec<Confirmed> {
        self.models().flat_map(|model| model.confirmed()).collect()
    }

    /// A panel where one model plays every role.
    pub fn new(default: Arc<dyn Llm>, sampling: Sampling) -> Self {
        let (assigned, record) = (BTreeMap::new(), Arc::default());
        Self { default, assigned, sampling, reasoning: None, unit: None, wanted: None, record }
    }

    /// This panel with another model in one role.
    #[must_use]
    pub fn assign(mut self, role: Role, llm: Arc<dyn Llm>) -> Self {
        self.assigned.insert(role, llm);
        self
    }

    /// This panel with every model wrapped, such as in a gate. A model that plays several roles is wrapped
    /// once.
    #[must_use]
    pub fn wrapped(&self, wrap: impl Fn(Arc<dyn Llm>) -> Arc<dyn Llm>) -> Self {
        let mut known = vec![(self.default.clone(), wrap(self.default.clone()))];
        let mut wrapped = |llm: &Arc<dyn Llm>| {
            if let Some((_, wrapped)) = known.iter().find(|(inner, _)| Arc::ptr_eq(inner, llm)) {
                return wrapped.clone();
            }
            let new = wrap(llm.clone());
            known.push((llm.clone(), new.clone()));
            new
        };
        let assigned = self.assigned.iter().map(|(role, llm)| (*role, wrapped(llm))).collect();
        let default = wrapped(&self.default);
        Self { default, assigned, ..self.clone() }
    }

    /// This panel with an empty record, for one group.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self { record: Arc::default(), ..self.clone() }
    }

    /// This panel and record, for questions about one unit of the group.
    #[must_use]
    pub fn about(&self, unit: usize) -> Self {
        Self { unit: Some(unit), ..self.clone() }
    }

    /// This panel and record, for verdicts on these members of the group only.
    #[must_use]
    pub fn wanting(&self, members: &[usize]) -> Self {
        Self { wanted: Some(members.into()), ..self.clone() }
    }

    /// True if a verdict is needed on this member of the group. A judge that shows the whole group but has
    /// questions about each member need not ask about the others; their verdicts are dropped.
    pub fn wants(&self, member: usize) -> bool {
        self.wanted.as_ref().is_none_or(|members| members.contains(&member))
    }

    /// This panel and record, for questions at another seed.
    #[must_use]
    pub fn at_seed(&self, seed: u64) -> Self {
        Self { sampling: Sampling { seed, ..self.sampling.clone() }, ..self.clone() }
    }

    /// The model that plays a role.
    pub fn llm(&self, role: Role) -> &Arc<dyn Llm> {
        self.assigned.get(&role).unwrap_or(&self.default)
    }

    /// True if one model plays both roles, so that their prompts share a prefix.
    pub fn is_one_model(&self, a: Role, b: Role) -> bool {
        Arc::ptr_eq(self.llm(a), self.llm(b))
    }

    /// A question at the panel's sampling, with a budget of the judge's own.
    pub fn question<'q>(&self, chat: &'q Chat, form: &'q ResponseFormat, max_tokens: usize) -> Question<'q> {
        Question { chat, form, sampling: Sampling { max_tokens, ..self.sampling.clone() } }
    }

    /// Asks a role one question and records it. The answer may be cut by its budget.
    ///
    /// # Errors
    /// The errors of the model's [`Llm::ask`]; [`llm::Error::NoSignal`].
    pub fn ask(&self, role: Role, step: impl Into<Step>, question: &Question) -> llm::Result<Reply> {
        self.attempt(Attempt { role, step: step.into(), number: 0 }, question)
    }

    /// [`Panel::ask`], for an answer that is whole.
    ///
    /// # Errors
    /// Those of [`Panel::ask`], and [`Error::Truncated`].
    pub fn answer(&self, role: Role, step: impl Into<Step>, question: &Question) -> Result<Reply> {
        question.whole(self.ask(role, step, question)?)
    }

    /// Asks until `read` accepts the whole answer, as often as `retry` allows, each time at another seed. The
    /// error of the last try is returned.
    ///
    /// # Errors
    /// The errors of the model's [`Llm::ask`], after which there is no retry, [`Error::NoSignal`],
    /// [`Error::Truncated`], and the errors of `read`.
    pub fn ask_until<T>(
        &self,
        role: Role,
        step: impl Into<Step>,
        question: &Question,
        retry: Retry,
        read: impl Fn(&Reply) -> Result<T>,
    ) -> Result<T> {
        let again = |attempt: usize, _: &Sampling, _: &Error| {
            let temperature = question.sampling.temperature + retry.warmer * attempt as f32;
            (attempt < retry.tries).then(|| Sampling { temperature, ..question.sampling.clone() })
        };
        self.ask_by(role, step, question, again, read)
    }

    /// [`Panel::ask_until`] with a rule of the method's own: `again` gives the sampling of the n-th retry
    /// (from 1), from the last sampling and the last error; `None` ends it. The seed changes with every try.
    ///
    /// # Errors
    /// Those of [`Panel::ask_until`].
    pub fn ask_by<T>(
        &self,
        role: Role,
        step: impl Into<Step>,
        question: &Question,
        again: impl Fn(usize, &Sampling, &Error) -> Option<Sampling>,
        read: impl Fn(&Reply) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = Attempt { role, step: step.into(), number: 0 };
        let mut question = question.clone();
        let seed = question.sampling.seed;
        loop {
            // Far from the seeds of samples, which are consecutive.
            question.sampling.seed = seed.wrapping_add((attempt.number as u64) << 32);
            let answered = self.attempt(attempt.clone(), &question).map_err(Error::from);
            attempt.number += 1;
            let error = match answered.and_then(|reply| read(&question.whole(reply)?)) {
                Err(error) if error.is_of_the_answer() => error,
                result => return result,
            };
            match again(attempt.number, &question.sampling, &error) {
                Some(next) => question.sampling = next,
                None => return Err(error),
            }
            // Without an end of the reasoning there was no answer.
            if !matches!(error, Error::Reasoning(_)) {
                self.mark(&attempt.step, "unusable");
            }
        }
    }

    /// Asks and records a question, after the reasoning before its answer.
    fn attempt(&self, attempt: Attempt, question: &Question) -> llm::Result<Reply> {
        let chat = self.reasoned(&attempt, question.chat, &question.sampling)?;
        self.record_answer(attempt, &Question { chat: &chat, ..question.clone() })
    }

    fn record_answer(&self, attempt: Attempt, question: &Question) -> llm::Result<Reply> {
        let Question { chat, form, sampling } = question;
        let start = Instant::now();
        let answered = self.llm(attempt.role).ask(chat, form, sampling);
        let (reply, error) = answer_and_error(&answered);
        let outcome = reply.is_chance.then_some("no_signal");
        let call = self.call(attempt, chat, Wanted::Answer((*form).clone()), sampling, start);
        self.note_call(Call { reply, error, outcome, ..call });
        answered.and_then(|reply| if reply.is_chance { Err(llm::Error::NoSignal) } else { Ok(reply) })
    }

    /// Log-probabilities of given continuations under the model of a role, recorded as one call with the
    /// continuations and a reply that sums them up: `{"TEXT": LOGPROB, ...}`.
    ///
    /// # Errors
    /// The errors of the model's [`Llm::score_continuations`].
    pub fn score_continuations(
        &self,
        role: Role,
        step: impl Into<Step>,
        chat: &Chat,
        continuations: &[String],
    ) -> llm::Result<Vec<Scored>> {
        let attempt = Attempt { role, step: step.into(), number: 0 };
        let chat = self.reasoned_as_before(&attempt, chat)?;
        let start = Instant::now();
        let scored = self.llm(role).score_continuations(&chat, continuations);
        let request = Wanted::Scores(continuations.to_vec());
        self.record_scores(self.call(attempt, &chat, request, &self.sampling, start), &scored);
        scored
    }

    /// Scores a text under the model of a role and reads it by a probe, recorded as in
    /// [`Panel::score_continuations`].
    ///
    /// # Errors
    /// The errors of the model's [`Llm::read`].
    pub fn read(
        &self,
        role: Role,
        step: impl Into<Step>,
        chat: &Chat,
        text: &str,
        probe: &LinearProbe,
    ) -> llm::Result<Scored> {
        self.read_by(role, step.into(), chat, text, |llm| llm.read(chat, text, probe))
    }

    /// The outputs of the score head of a role's model after a chat, recorded as in [`Panel::read`].
    ///
    /// # Errors
    /// The errors of the model's [`Llm::score`].
    pub fn score(&self, role: Role, step: impl Into<Step>, chat: &Chat) -> llm::Result<Vec<f64>> {
        let scored = self.read_by(role, step.into(), chat, "", |llm| llm.score(chat))?;
        let outputs = scored.reading.and_then(|mut reading| reading.values.pop());
        outputs.ok_or_else(|| llm::Error::Engine("the record has no outputs of a score head".into()))
    }

    /// The estimate of a role's model, which is a metric, recorded as in [`Panel::read`].
    ///
    /// # Errors
    /// The errors of the model's [`Llm::estimate`].
    pub fn estimate(
        &self,
        role: Role,
        step: impl Into<Step>,
        texts: &MetricTexts<'_>,
    ) -> llm::Result<Estimate> {
        let estimate = |llm: &dyn Llm| llm.estimate(texts).map(Scored::from);
        let scored = self.read_by(role, step.into(), &texts.chat(), "", estimate)?;
        scored.estimate.ok_or_else(|| llm::Error::Engine("the record has no estimate of a metric".into()))
    }

    /// Has a model read a text after a chat, and records it.
    fn read_by(
        &self,
        role: Role,
        step: Step,
        chat: &Chat,
        text: &str,
        read: impl FnOnce(&dyn Llm) -> llm::Result<Scored>,
    ) -> llm::Result<Scored> {
        let start = Instant::now();
        let states = read(&**self.llm(role));
        let attempt = Attempt { role, step, number: 0 };
        let call = self.call(attempt, chat, Wanted::Reading(text.to_owned()), &self.sampling, start);
        self.record_scores(call, &states.clone().map(|scored| vec![scored]));
        states
    }

    /// Records texts that were scored, with a reply that sums them up.
    fn record_scores(&self, mut call: Call, scored: &llm::Result<Vec<Scored>>) {
        (call.scored, call.error) = answer_and_error(scored);
        let weighed =
            call.scored.iter().filter(|scored| scored.reading.is_none() && scored.estimate.is_none());
        let sums = weighed.map(|w| (w.text.clone(), serde_json::json!(w.logprob())));
        call.reply.text = serde_json::Value::Object(sums.collect()).to_string();
        for scored in &call.scored {
            call.reply.usage += &scored.usage;
        }
        call.sampling.max_tokens = 0;
        self.note_call(call);
    }

    /// Records the outcome of the last answer at a step about this panel's unit. Outcomes are counted by
    /// stage in `summary.json`.
    pub fn mark(&self, step: &Step, outcome: &'static str) {
        let mut calls = self.record.lock();
        let last = calls
            .iter_mut()
            .rev()
            .find(|call| call.unit == self.unit && call.step == *step && call.error.is_none());
        if let Some(call) = last {
            call.outcome = Some(outcome);
        }
    }

    /// A call that began at `start`, still without its answer.
    fn call(
        &self,
        attempt: Attempt,
        chat: &Chat,
        wanted: Wanted,
        sampling: &Sampling,
        start: Instant,
    ) -> Call {
        Call {
            unit: self.unit,
            role: attempt.role,
            step: attempt.step,
            attempt: attempt.number,
            chat: chat.clone(),
            wanted,
            sampling: sampling.clone(),
            reply: Reply::default(),
            scored: Vec::new(),
            error: None,
            outcome: None,
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    fn note_call(&self, call: Call) {
        self.record.lock().push(call);
    }

    /// Verdicts of a judge that judges each segment apart, all at once. One whose source and translation are
    /// both empty gets none.
    pub fn each_segment(
        &self,
        group: &[Segment],
        judge: impl Fn(&Self, &Segment) -> Result<Verdict> + Sync,
    ) -> Vec<Result<Verdict>> {
        in_parallel(group, |idx, segment| {
            if segment.is_blank() { Err(Error::nothing_to_judge()) } else { judge(&self.about(idx), segment) }
        })
    }

    /// The calls since [`Panel::fresh`], by unit; calls about one unit stay in their order.
    pub fn take_calls(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut *self.record.lock());
        calls.sort_by_key(|call| call.unit);
        calls
    }
}

/// The answer, or an empty one and the error.
fn answer_and_error<T: Clone + Default>(result: &llm::Result<T>) -> (T, Option<llm::Error>) {
    match result {
        Ok(answer) => (answer.clone(), None),
        Err(error) => (T::default(), Some(error.clone())),
    }
}

/// The most threads that [`in_parallel`] starts for one group.
const MAX_THREADS: usize = 64;

/// Applies `work` to every item, on up to 64 threads, and keeps the order. The work is waiting for answers,
/// so that the engine gets all questions at once.
///
/// # Panics
/// When the work on an item panics.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    parallel::map(items, MAX_THREADS, work)
}
