//! Judges: one file per paper, each beside its folder of prompts, schemas and shots.
//! A judge sees text and an [`Llm`]; it never sees tokens.
//!
//! [`registry`] makes one from its name; [`setup`] is what it can be told.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::{Deserialize, Serialize};

use crate::{
    llm::{self, Chat, Form, Llm, Reply, Sampling, Weighed},
    mqm::ErrorSpan,
    segment::Segment,
};

pub mod registry;

pub mod setup;

pub mod gemba_mqm;

pub mod gemba_da;

pub mod gemba_scales;

pub mod gemba_esa;

pub mod eaprompt;

pub mod rubric_mqm;

pub mod fsp;

pub mod m_mad;

pub mod himate;
pub mod rate;

pub mod difficulty;

pub mod gmicl;
pub mod thinking;

pub mod pair;

pub mod prompt;

pub mod shots;

pub mod pairwise;

pub mod expected;

pub mod confidence;

pub mod samples;

mod reading;

pub use registry::Method;
pub use setup::{Granularity, Preset, Settings};

/// A published way of judging translations.
pub trait Judge: Sync + Send {
    /// Judges one group. The answer has one entry per unit: per segment, or one for the whole group when the
    /// granularity is a document or more (see [`Judge::unit`]).
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>>;

    /// What must be judged together, in order; `run` plans, shards and resumes by these groups.
    fn group(&self) -> Grouping {
        Grouping::Segment
    }

    /// What one verdict is about.
    fn unit(&self) -> Unit {
        Unit::Segment
    }

    /// The direction of [`Verdict::raw`]; [`Verdict::score`] is always higher for the better.
    fn direction(&self) -> Direction {
        Direction::Higher
    }

    /// The method's part of the signature, in order: `[("method", "fsp"), ("shots", "3"), ...]`.
    fn signature(&self) -> Vec<(&'static str, String)>;

    /// Checks the models that have been seated against what the judge was set up for; `fields` is their part of the
    /// signature.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] when a setting holds for another model.
    fn check_models(&self, _fields: &[(String, String)]) -> Result<(), setup::Error> {
        Ok(())
    }

    /// The chats that the group will surely cause, each with the most tokens that its answer may take: what
    /// `judge` asks, so that plans and dry runs count what a run will do. A chat that cannot be made is left
    /// out; `judge` says why.
    fn preview(&self, group: &[Segment]) -> Vec<(Chat, usize)>;
}

/// What a judge must see together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    Segment,
    /// All segments of one document of one system.
    Document,
    /// Five documents of one system, drawn by the run's seed.
    FiveDocuments,
    /// All translations of one source segment.
    Source,
}

/// What one verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Segment,
    Group,
}

/// Which way a scale points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Higher,
    Lower,
}

/// What a judge says of one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Higher is better.
    pub score: f64,
    /// The method's own scale and sign.
    pub raw: f64,
    /// Direct assessment 0..=100 where the method asks for one; higher is better.
    pub quality_score: Option<f64>,
    pub errors: Vec<ErrorSpan>,
}

/// Why a unit has no verdict.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Unparsable(String),
    #[error("the model declined: {0}")]
    Refused(String),
    #[error("the answer ended at its budget of {0} tokens")]
    Truncated(usize),
    #[error("{0}")]
    TooLong(String),
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Of a segment that [`Segment::is_blank`].
    #[must_use]
    pub fn nothing_to_judge() -> Self {
        Self::Failed("source and hypothesis are both empty".into())
    }
}

impl From<llm::Error> for Error {
    fn from(error: llm::Error) -> Self {
        match error {
            llm::Error::TooLong { .. } => Self::TooLong(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Who sits in judgement: the model of each role, and the record of what they were asked.
#[derive(Clone)]
pub struct Panel {
    default: Arc<dyn Llm>,
    seats: BTreeMap<String, Arc<dyn Llm>>,
    /// How every question is sampled. Judges put their own budget in the place of its `max_tokens`
    /// ([`Settings::max_tokens`] sets it).
    pub sampling: Sampling,
    unit: Option<usize>,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// One question and its answer, as it goes to `calls.jsonl`.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The unit of the group that the question is about, by its position in the answer of [`Judge::judge`];
    /// `None` when it is about the whole group.
    pub unit: Option<usize>,
    pub role: String,
    pub stage: String,
    pub chat: Chat,
    pub reply: Reply,
    pub seconds: f64,
}

impl Panel {
    /// A panel where one model plays every role.
    #[must_use]
    pub fn new(default: Arc<dyn Llm>, sampling: Sampling) -> Self {
        Self { default, seats: BTreeMap::new(), sampling, unit: None, calls: Arc::default() }
    }

    /// The same panel with another model in one role.
    #[must_use]
    pub fn seat(mut self, role: impl Into<String>, llm: Arc<dyn Llm>) -> Self {
        self.seats.insert(role.into(), llm);
        self
    }

    /// The same seats with an empty record, for one group.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self { calls: Arc::default(), ..self.clone() }
    }

    /// The same panel and record, for questions about one unit of the group.
    #[must_use]
    pub fn about(&self, unit: usize) -> Self {
        Self { unit: Some(unit), ..self.clone() }
    }

    /// The model that plays a role.
    #[must_use]
    pub fn llm(&self, role: &str) -> &dyn Llm {
        self.seats.get(role).unwrap_or(&self.default).as_ref()
    }

    /// Asks a role one question and records it.
    ///
    /// # Errors
    /// What the model's [`Llm::ask`] returns.
    pub fn ask(&self, role: &str, stage: &str, chat: &Chat, form: &Form) -> Result<Reply, llm::Error> {
        self.ask_with(role, stage, chat, form, &self.sampling)
    }

    /// As [`Panel::ask`], with a sampling of the judge's own.
    ///
    /// # Errors
    /// What the model's [`Llm::ask`] returns.
    pub fn ask_with(
        &self,
        role: &str,
        stage: &str,
        chat: &Chat,
        form: &Form,
        sampling: &Sampling,
    ) -> Result<Reply, llm::Error> {
        let start = std::time::Instant::now();
        let reply = self.llm(role).ask(chat, form, sampling)?;
        let call = Call {
            unit: self.unit,
            role: role.into(),
            stage: stage.into(),
            chat: chat.clone(),
            reply: reply.clone(),
            seconds: start.elapsed().as_secs_f64(),
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Ok(reply)
    }

    /// Log-probabilities of given continuations under the model of a role, recorded as one call whose reply is
    /// `{"TEXT": LOGPROB, ...}`.
    ///
    /// # Errors
    /// What the model's [`Llm::weigh`] returns.
    pub fn weigh(
        &self,
        role: &str,
        stage: &str,
        chat: &Chat,
        continuations: &[String],
    ) -> Result<Vec<Weighed>, llm::Error> {
        let start = std::time::Instant::now();
        let weighed = self.llm(role).weigh(chat, continuations)?;
        let said = weighed.iter().map(|w| (w.text.clone(), serde_json::json!(w.logprob())));
        let text = serde_json::Value::Object(said.collect()).to_string();
        let call = Call {
            unit: self.unit,
            role: role.into(),
            stage: stage.into(),
            chat: chat.clone(),
            reply: Reply { text, ..Reply::default() },
            seconds: start.elapsed().as_secs_f64(),
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Ok(weighed)
    }

    /// What has been asked since [`Panel::fresh`], by unit; questions about one unit stay in their order.
    #[must_use]
    pub fn take_calls(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        calls.sort_by_key(|call| call.unit);
        calls
    }
}

/// The most threads that [`in_parallel`] starts for one group.
const MAX_THREADS: usize = 64;

/// Does independent work for every item, on up to [`MAX_THREADS`] threads, and keeps the order. The work is
/// waiting for answers, so the threads cost nothing and the engine sees the questions together.
///
/// # Panics
/// When the work on an item panics.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let idxs =
            std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < items.len()));
        idxs.map(|idx| (idx, work(idx, &items[idx]))).collect::<Vec<_>>()
    };
    if items.len() < 2 {
        return take_turns().into_iter().map(|(_, result)| result).collect();
    }
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..items.len().min(MAX_THREADS)).map(|_| scope.spawn(take_turns)).collect();
        let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.flatten().collect()
    });
    results.sort_by_key(|(idx, _)| *idx);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_work_keeps_its_order() {
        let items: Vec<usize> = (0..40).collect();
        // Nobody can finish before all have started: the questions are in flight together.
        let all_started = std::sync::Barrier::new(items.len());
        let doubled = in_parallel(&items, |idx, item| {
            all_started.wait();
            assert_eq!(idx, *item);
            item * 2
        });
        assert_eq!(doubled, items.iter().map(|i| i * 2).collect::<Vec<_>>());
        let many: Vec<usize> = (0..1000).collect();
        assert_eq!(in_parallel(&many, |_, item| *item), many);
        assert_eq!(in_parallel(&[] as &[u8], |_, _| 1), Vec::<i32>::new());
    }
}
