//! How fast a model reads and writes here and now, measured for a few seconds at the lengths and on the questions of the
//! very run: what a dry run makes of its tokens. It counts nothing of the run itself.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    judges::{Panel, Question},
    llm::{Llm, Sampling},
    run::plan::{Computed, Load},
};

mod reading;

/// How long reading is measured, and how long writing.
const TIME: Duration = Duration::from_secs(3);

/// The most tokens of an answer that is only asked for to measure.
const ANSWER: usize = 256;

/// How fast a model is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub reads: Reads,
    /// Answer tokens a second, all that are written side by side together; `None` where nothing is to be written.
    pub writes: Option<f64>,
}

/// How long reading takes. Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    /// For a token, wherever it stands.
    pub token: f64,
    /// For each token before it: what attention takes.
    pub pair: f64,
}

impl Reads {
    /// Seconds that reading takes.
    #[must_use]
    pub fn seconds(&self, of: Computed) -> f64 {
        of.tokens as f64 * self.token + of.pairs as f64 * self.pair
    }
}

impl Pace {
    /// Seconds that a load takes.
    #[must_use]
    pub fn seconds(&self, load: &Load) -> f64 {
        let writing = self.writes.map_or(0.0, |writes| load.answer_tokens as f64 / writes);
        self.reads.seconds(load.prompts) + writing
    }

    /// Prompt tokens a second, at the lengths of a load.
    #[must_use]
    pub fn prompt_tokens(&self, load: &Load) -> f64 {
        load.prompts.tokens as f64 / self.reads.seconds(load.prompts).max(1e-9)
    }

    /// Measures the model of a load with so many questions side by side. `None` when it does not answer.
    #[must_use]
    pub fn of(load: &Load, panel: &Panel, rows: usize) -> Option<Self> {
        let llm = panel.llm(load.role);
        let reads = reading::measured(llm, &load.examples)?;
        let answered: Vec<&Question> = load.examples.iter().filter(|q| q.max_tokens > 0).collect();
        if answered.is_empty() {
            return Some(Self { reads, writes: None });
        }
        let writes = writes(llm, &answered, &panel.sampling, rows)?;
        Some(Self { reads, writes: Some(writes) })
    }
}

/// Answer tokens a second with so many answers side by side at all times: whoever is done asks the next question, until the
/// time is up. Of answers that end later, the part before counts.
fn writes(llm: &dyn Llm, examples: &[&Question], sampling: &Sampling, rows: usize) -> Option<f64> {
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let written = Mutex::new(0.0);
    let rows = rows.clamp(1, 512);
    let done: Option<Vec<()>> = side_by_side(rows, |_| {
        while start.elapsed() < TIME {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Question { chat, form, max_tokens, .. } = examples[at % examples.len()];
            let seed = sampling.seed.wrapping_add(at as u64);
            let sampling = Sampling { max_tokens: ANSWER.min(*max_tokens), seed, ..sampling.clone() };
            let from = start.elapsed();
            let reply = llm.ask(chat, form, &sampling).ok()?;
            let to = start.elapsed();
            let within = to.min(TIME).saturating_sub(from).as_secs_f64()
                / to.saturating_sub(from).as_secs_f64().max(1e-9);
            let n = reply.usage.generated.max(reply.tokens.len()) as f64;
            *written.lock().unwrap_or_else(PoisonError::into_inner) += n * within;
        }
        Some(())
    });
    done?;
    let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    (written > 0.0).then(|| written / TIME.as_secs_f64())
}

/// Does something so many times at once; `None` as soon as one of them fails.
fn side_by_side<T: Send>(n: usize, work: impl Fn(usize) -> Option<T> + Sync) -> Option<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..n).map(|at| scope.spawn(move || work(at))).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        judges::{Role, Stage},
        llm::{Chat, Error, Finish, Form, Reply, Token, TokenSource, Usage, Weighed},
    };

    /// What is asked, again and again; the model knows it.
    fn question() -> String {
        "x".repeat(2_000)
    }

    /// Does one thing after the other, and takes ten microseconds for each new character of a prompt, a fiftieth of one
    /// for each character before it, and two milliseconds for each token of an answer.
    #[derive(Default)]
    struct Slow(Mutex<()>);

    impl Llm for Slow {
        fn ask(&self, chat: &Chat, _: &Form, sampling: &Sampling) -> Result<Reply, Error> {
            let _only_one = self.0.lock().unwrap();
            let token = Token {
                id: 0,
                text: "x".into(),
                logprob: -1.0,
                masked_logprob: -1.0,
                source: TokenSource::Sampled,
            };
            let n = sampling.max_tokens.min(20);
            let prompt = chat.raw.clone().unwrap_or_else(|| chat.turns[0].content.clone());
            let cached = if prompt.starts_with(&question()) { question().len() } else { 0 };
            let read = Computed::last(prompt.len() - cached, prompt.len());
            let micros = 10.0 * read.tokens as f64 + 0.02 * read.pairs as f64 + 2_000.0 * (n - 1) as f64;
            std::thread::sleep(Duration::from_micros(micros as u64));
            let usage = Usage { computed: read.tokens, cached, generated: n, ..Usage::default() };
            Ok(Reply { tokens: vec![token; n], finish: Finish::Stop, usage, ..Reply::default() })
        }

        fn weigh(&self, _: &Chat, _: &[String]) -> Result<Vec<Weighed>, Error> {
            Ok(Vec::new())
        }

        fn count(&self, _: &Chat) -> Result<usize, Error> {
            Ok(1)
        }
    }

    #[test]
    fn reading_and_writing_are_measured_at_the_lengths_of_the_run() {
        let question = Question {
            unit: None,
            role: Role::Judge,
            step: Stage::new("score").into(),
            chat: Chat::new().user(question()),
            form: Form::Text,
            max_tokens: 50,
            shortest: None,
            is_read: false,
        };
        let examples = vec![question; 4];
        let prompts = Computed::last(1_000, 3_000);
        let load =
            Load { role: Role::Judge, calls: 4, prompts, answer_tokens: 20, side_by_side: 1.0, examples };
        let panel = Panel::new(Arc::new(Slow::default()), Sampling::default());
        let pace = Pace::of(&load, &panel, 3).unwrap();
        // Sleeping takes longer on a busy machine, never shorter.
        assert!(pace.writes.is_some_and(|writes| writes > 0.0 && writes < 600.0), "{pace:?}");
        let seconds = pace.reads.seconds(prompts);
        assert!(seconds > 0.9 * (1_000.0 * 10e-6 + prompts.pairs as f64 * 0.02e-6), "{pace:?}");
        assert!(pace.reads.pair > 0.2 * 0.02e-6, "what stands deep in a prompt takes longer: {pace:?}");
        assert!((pace.prompt_tokens(&load) - 1_000.0 / seconds).abs() < 1e-6);
        let known = Pace { reads: Reads { token: 0.01, pair: 1e-6 }, writes: Some(10.0) };
        let by_hand = 10.0 + prompts.pairs as f64 * 1e-6 + 2.0;
        assert!((known.seconds(&load) - by_hand).abs() < 1e-9);
        let silent = Load { examples: Vec::new(), ..load };
        assert_eq!(Pace::of(&silent, &panel, 3), None);
    }
}
