//! Forecast of a run's cost: calls and tokens are counted, and a few groups judged to measure the time. Where
//! the model is not on this machine, tokens are estimated from characters.

mod pace;
mod target;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    engine::DeviceError,
    error::{Error, Result},
    evaluation::{Evaluation, Invocation, Run},
    files,
    hub::{self, Card},
    judges::Panel,
    llm::{CancellationToken, Chat, Counter, Error as Refusal, Llm, Reply, ResponseFormat, Sampling, Scored},
    models::{ModelLoader, Models, gpu_memory},
    run::{
        self, Plan, RunConfig,
        plan::{Amount, Counting, plan_within},
        trial::Trial,
    },
    signature::Signature,
    spec::Spec,
};

use target::Target;
pub use target::{CONTEXT, ON_A_GPU, shorter};

/// Time limit for counting prompts.
const COUNTING: Duration = Duration::from_secs(8);

/// Time limit for the trial, as far as rounds of groups can be foreseen.
const TRIAL: Duration = Duration::from_secs(10);

/// The most that both take together, once the model is loaded.
const LIMIT: Duration = Duration::from_secs(20);

/// Stage of a forecast.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// Counts the tokens of prompts, by groups.
    Counting { done: usize, of: usize },
    /// Judges a few groups into the run folder.
    Judging,
}

/// Forecast of a run's cost.
#[derive(Debug)]
pub struct Forecast {
    pub plan: Plan,
    pub trial: Trial,
    /// Expected calls and tokens: scaled from the trial, else from recorded runs of the method.
    pub expected: Option<Amount>,
    /// Memory and time, as names and values.
    pub estimates: Vec<(String, String)>,
    pub notes: Vec<String>,
    /// `None` where the model's files, which are part of it, are not here.
    pub signature: Option<Signature>,
}

impl Forecast {
    /// Counts calls and tokens, and judges a few groups where the model can be loaded. `device_memory`: bytes
    /// of the GPU that the model is to fit.
    ///
    /// # Errors
    /// A model that can neither be run nor pulled, and prompts that cannot be counted.
    pub fn new(
        evaluation: &Evaluation,
        invocation: &Invocation,
        (load, device_memory): (ModelLoader, Option<u64>),
        shown: &(dyn Fn(Stage) + Sync),
    ) -> Result<Self> {
        let spec = &evaluation.spec;
        let guess = |card: &Card, why: &str, hint: &str, time: &str| {
            Self::guessed(evaluation, card, [why, hint, time], device_memory, shown)
        };
        match load(&spec.models, &spec.resources, spec.sampling.sampling()) {
            Ok(models) => Self::counted(evaluation, invocation, (&models, device_memory), shown),
            Err(error) => match &error {
                Error::Card(hub::Error::NotPulled { name, .. } | hub::Error::NotCached { name, .. }) => {
                    guess(
                        &hub::find(name)?,
                        &format!("`{name}` is not on this machine"),
                        &format!(
                            "\nhint: `tribunal models pull {name}`, then plan again: tokens are counted, memory is known, and a few groups \
                         say how long the rest takes"
                        ),
                        "not known without the model",
                    )
                }
                // A run for a machine with a GPU is planned on one without.
                Error::Device(DeviceError::NotBuilt(_) | DeviceError::NoDevice { .. }) => {
                    let card = hub::find(&spec.models.model).map_err(|_| error)?;
                    guess(&card, "there is no GPU here to try the run on", "", NOT_HERE)
                }
                _ => Err(error),
            },
        }
    }

    /// Counted with the models themselves, and tried out on a few groups.
    fn counted(
        evaluation: &Evaluation,
        invocation: &Invocation,
        (models, device_memory): (&Models, Option<u64>),
        shown: &(dyn Fn(Stage) + Sync),
    ) -> Result<Self> {
        let start = Instant::now();
        let spec = &evaluation.spec;
        let run = evaluation.with(models, invocation)?;
        let mut plan = plan_with(evaluation, &models.panel, shown)?;
        shown(Stage::Judging);
        let mut trial = tried(&run, invocation, &plan, LIMIT.saturating_sub(start.elapsed()))?;
        trial.expected = trial.expected.map(|scaled| plan.expect(scaled));
        let mut estimates = (models.memory)();
        let card = hub::find(&spec.models.model).ok();
        let target = card.as_ref().and_then(|card| Target::new(card, spec, device_memory, plan.longest_call));
        if device_memory.is_some() {
            estimates.extend(target.as_ref().map(Target::memory).unwrap_or_default());
        }
        match trial.seconds_left {
            Some(seconds) if trial.n_kept < trial.groups => {
                estimates.push(("time".to_owned(), time(seconds)));
            }
            Some(_) => estimates.push(("time".to_owned(), "everything is judged already".to_owned())),
            None if trial.is_cut => estimates.push(("time".to_owned(), format!("not known: {CUT}"))),
            None => {}
        }
        let expected = trial.expected.or_else(|| usual(evaluation, &plan));
        let elsewhere = target.zip(expected).map(|(target, expected)| target.times(work(&plan, expected)));
        estimates.extend(elsewhere.unwrap_or_default());
        estimates.push(disk(spec, &plan, expected));
        let mut notes = plan.notes();
        notes.extend(evaluation.small_model());
        notes.extend(evaluation.warnings(models));
        match expected {
            Some(_) if trial.expected.is_none() => notes.push(USUAL.into()),
            Some(_) => {
                notes.push(format!("expected: {} of {} groups, scaled to all", trial.n_kept, trial.groups));
            }
            None => {}
        }
        if trial.is_cut && trial.judged > 0 {
            notes.push(format!(
                "stopped after {} s, with {} of {} groups judged: the time is extrapolated from these",
                LIMIT.as_secs(),
                trial.judged,
                trial.groups
            ));
        }
        notes.push(format!(
            "what was judged is kept in `{}`, and the run goes on from there",
            run.config.out.display()
        ));
        Ok(Self { plan, trial, expected, estimates, notes, signature: Some(run.signature) })
    }

    /// Estimates tokens from characters. `why` there is no model, a hint on a line of its own or nothing, and
    /// why the time is unknown.
    fn guessed(
        evaluation: &Evaluation,
        card: &Card,
        [why, hint, time]: [&str; 3],
        device_memory: Option<u64>,
        shown: &(dyn Fn(Stage) + Sync),
    ) -> Result<Self> {
        let spec = &evaluation.spec;
        let panel = Panel::new(Arc::new(Characters), spec.sampling.sampling());
        let plan = plan_with(evaluation, &panel, shown)?;
        let mut notes = plan.notes();
        notes.extend(evaluation.small_model());
        notes.push(format!(
            "{why}: tokens are guessed from the characters of the prompts, for most languages to within a third{hint}"
        ));
        let expected = usual(evaluation, &plan);
        notes.extend(expected.map(|_| USUAL.into()));
        let mut estimates: Vec<_> = weights(card).into_iter().collect();
        let target = Target::new(card, spec, device_memory, plan.longest_call);
        estimates.extend(target.as_ref().map(Target::memory).unwrap_or_default());
        let times = target.zip(expected).map(|(target, expected)| target.times(work(&plan, expected)));
        estimates.extend(times.unwrap_or_else(|| vec![("time".to_owned(), time.to_owned())]));
        estimates.push(disk(spec, &plan, expected));
        Ok(Self { plan, trial: Trial::default(), expected, estimates, notes, signature: None })
    }
}

/// Origin of the usual cost.
const USUAL: &str = "expected: as many calls as usual, with answers as long as those of Qwen2.5-Coder 1.5B on WMT23 about \
                     texts of these lengths; those of other models and languages can be half or twice as long";

/// Tokens of the longest prompt and its answer in a run of a specification, from the characters of its
/// prompts.
///
/// # Errors
/// Bad input, a method that cannot judge it.
pub fn longest_call(spec: Spec) -> Result<usize> {
    let evaluation = Evaluation::new(spec)?;
    let panel = Panel::new(Arc::new(Characters), evaluation.spec.sampling.sampling());
    Ok(plan_with(&evaluation, &panel, &|_| {})?.longest_call)
}

/// The size of the finished run folder, as name and value.
fn disk(spec: &Spec, plan: &Plan, expected: Option<Amount>) -> (String, String) {
    let of = |amount| files::size(plan.disk(amount, spec.output.calls));
    let value = match expected {
        Some(expected) => format!("about {}", of(expected)),
        None => format!("{} to {}", of(plan.least), of(plan.most)),
    };
    ("run folder on disk".to_owned(), value)
}

/// Usual cost of a run, by recorded runs of its method; `None` where none was recorded.
fn usual(evaluation: &Evaluation, plan: &Plan) -> Option<Amount> {
    let judge = &evaluation.judge;
    Some(plan.usual(judge.calls().typical, judge.method().answer_tokens?))
}

/// The computed part of the expected tokens: prompts that share their beginnings are read once.
fn work(plan: &Plan, expected: Amount) -> pace::Work {
    let distinct = expected.distinct_tokens.or_else(|| {
        // The calls of a trial are scaled without it; the calls that are certain share as much.
        let share = plan.least.distinct_tokens? as f64 / plan.least.prompt_tokens.max(1) as f64;
        Some((share * expected.prompt_tokens as f64) as usize)
    });
    pace::Work {
        prompt_tokens: distinct.unwrap_or(expected.prompt_tokens),
        answer_tokens: expected.answer_tokens,
    }
}

/// Judges a few groups, for so long at the most.
fn tried(run: &Run<'_>, invocation: &Invocation, plan: &Plan, time: Duration) -> Result<Trial> {
    let is_counted = plan.counted == plan.groups;
    let distinct = plan.least.distinct_tokens.filter(|_| plan.is_fixed && is_counted);
    let stop = CancellationToken::default();
    let config = RunConfig { stop: stop.clone(), ..run.config.clone() };
    let trial =
        limited(time, [&invocation.stop, &stop], || run.task().trial(&config, TRIAL.min(time), distinct))?;
    if invocation.stop.is_cancelled() {
        return Err(run::Error::Interrupted(invocation.writing.lock().clone()).into());
    }
    Ok(trial)
}

/// Reason for a trial without an estimate of the time.
const CUT: &str = "no group was finished within 20 s";

/// Runs `work`, which polls the inner token. The inner token is cancelled after `time`, or when the outer one
/// is cancelled.
fn limited<T>(time: Duration, [outer, inner]: [&CancellationToken; 2], work: impl FnOnce() -> T) -> T {
    let (start, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if start.elapsed() >= time || outer.is_cancelled() {
                    return inner.cancel();
                }
                std::thread::park_timeout(WATCH);
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        done
    })
}

/// Polling interval of the time limit.
const WATCH: Duration = Duration::from_millis(100);

/// A time in words, exact enough to be compared with a clock.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 600.0 => format!("about {s:.0} s"),
        s if s < 6.0 * 3600.0 => format!("about {:.0} min", s / 60.0),
        s => format!("about {:.1} hours", s / 3600.0),
    }
}

/// The time of a run for a GPU, where there is none.
const NOT_HERE: &str = "not known for this device; there, a dry run tries a few groups, and `tribunal-bench fsp` measures \
                        segments a second";

/// The plan of a run with the models of this panel, without one request to them.
fn plan_with(evaluation: &Evaluation, panel: &Panel, shown: &(dyn Fn(Stage) + Sync)) -> Result<Plan> {
    let config = &evaluation.config(PathBuf::new());
    let shown = |done: usize, of: usize| shown(Stage::Counting { done, of });
    let counting = Counting { config, time: Some(COUNTING), shown: &shown };
    let Evaluation { input, judge, .. } = evaluation;
    Ok(plan_within(panel, &judge.judge, judge.calls(), &input.segments, &counting)?)
}

/// The memory for the weights: their files' size, or two bytes for each of the parameters that the card
/// states.
fn weights(card: &Card) -> Option<(String, String)> {
    let billions = || card.parameters.strip_suffix('B')?.parse::<f64>().ok();
    let bytes = card.size().map(|bytes| bytes as f64).or_else(|| Some(billions()? * 2e9))?;
    Some(("weights, as the model card says".into(), files::size(bytes as u64)))
}

/// Counts tokens by what a character of each script takes, and answers nothing.
struct Characters;

impl Characters {
    /// Stand for the tokens that the chat template puts around a turn.
    const AROUND_A_TURN: [&str; 5] = ["\u{0}", "\u{1}", "\u{2}", "\u{3}", "\u{4}"];

    /// Tokens per character with the tokenizers of Qwen 2.5 and Gemma 3, on WMT 2023's texts and our prompts.
    /// Those of Qwen are right to a quarter for English, German, Chinese, Japanese, Russian, Arabic and Thai,
    /// and a third too low for Hindi.
    fn tokens_of(c: char) -> f64 {
        match u32::from(c) {
            0..0x80 => 0.24,
            // Letters with accents, and punctuation.
            0x80..0x370 | 0x1e00..0x2070 => 0.7,
            // Greek, Cyrillic, Armenian, Hebrew, Arabic.
            0x370..0x700 => 0.38,
            _ => 0.72,
        }
    }

    /// Dummy ids, as many as a chat has tokens, each of the characters that it stands for.
    fn ids(chat: &Chat) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut push = |text: &str| {
            let (mut hasher, mut tokens) = (DefaultHasher::new(), 0.0);
            for c in text.chars() {
                c.hash(&mut hasher);
                tokens += Self::tokens_of(c);
                if tokens >= 1.0 {
                    ids.push(hasher.finish() as u32);
                    (hasher, tokens) = (DefaultHasher::new(), tokens - 1.0);
                }
            }
            if tokens > 0.0 {
                ids.push(hasher.finish() as u32);
            }
        };
        match chat.untemplated() {
            Some(text) => push(text),
            None => {
                for turn in chat.messages() {
                    Self::AROUND_A_TURN.into_iter().for_each(&mut push);
                    push(&turn.content);
                }
            }
        }
        push(&chat.prefill);
        ids
    }

    fn refusal() -> Refusal {
        Refusal::Engine("the model is not on this machine".into())
    }
}

impl Llm for Characters {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Refusal> {
        Err(Self::refusal())
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Refusal> {
        Err(Self::refusal())
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Characters {
    fn count(&self, chat: &Chat) -> Result<usize, Refusal> {
        Ok(Self::ids(chat).len())
    }

    /// Ids that are equal where the texts before them are, so that common beginnings count once.
    fn prompt_ids(&self, chat: &Chat) -> Result<Option<Vec<u32>>, Refusal> {
        Ok(Some(Self::ids(chat)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_scripts() {
        // Beside each: what Qwen 2.5's tokenizer makes of it.
        for (text, tokens) in [
            ("The town council voted on Tuesday to close the old bridge for repairs until spring.", 16),
            ("议会星期二投票决定关闭旧桥进行维修。", 12),
            ("Городской совет проголосовал во вторник за закрытие старого моста на ремонт до весны.", 27),
        ] {
            let guessed = Characters::ids(&Chat::raw(text)).len() as f64 / f64::from(tokens);
            assert!((0.67..1.5).contains(&guessed), "{text}: {guessed}");
        }
    }

    #[test]
    fn weights_by_the_card() {
        let of = |name: &str| weights(&hub::find(name).unwrap()).map(|(_, size)| size);
        assert_eq!(of("qwen2.5-7b-instruct").as_deref(), Some("14.17 GiB"));
        assert_eq!(of("smollm2-135m-instruct").as_deref(), Some("93.81 MiB"));
    }
}
