//! How fast a model reads and writes here and now, measured for a few seconds on questions of the very run: what a dry run
//! makes of its tokens. It counts nothing of the run itself.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    judges::{Panel, Question},
    llm::{Chat, Form, Llm, Sampling},
    run::plan::Load,
};

/// How long reading is measured, and how long writing.
const TIME: Duration = Duration::from_secs(3);

/// The most tokens of an answer that is only asked for to measure.
const ANSWER: usize = 256;

/// Tokens a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Of prompts, where nothing is cached.
    pub reads: f64,
    /// Of answers, all that are written side by side together; `None` where nothing is to be written.
    pub writes: Option<f64>,
}

impl Pace {
    /// Seconds that so many tokens take.
    #[must_use]
    pub fn seconds(&self, prompt_tokens: usize, answer_tokens: usize) -> f64 {
        prompt_tokens as f64 / self.reads + self.writes.map_or(0.0, |writes| answer_tokens as f64 / writes)
    }

    /// Measures the model of a load with so many questions side by side. `None` when it does not answer.
    #[must_use]
    pub fn of(load: &Load, panel: &Panel, rows: usize) -> Option<Self> {
        let llm = panel.llm(load.role);
        let (reads, read) = reads(llm, &load.examples)?;
        let answered: Vec<&Question> = load.examples[..read].iter().filter(|q| q.max_tokens > 0).collect();
        if answered.is_empty() {
            return Some(Self { reads, writes: None });
        }
        let writes = writes(llm, &answered, &panel.sampling, rows)?;
        Some(Self { reads, writes: Some(writes) })
    }
}

/// Prompt tokens a second, and how many of the examples have been read for it. The first is read alone, to see how many
/// there is time for. What is known from before is not counted.
fn reads(llm: &dyn Llm, examples: &[Question]) -> Option<(f64, usize)> {
    let read = |some: &[Question]| -> Option<(usize, f64)> {
        let start = Instant::now();
        let computed: Option<Vec<usize>> = side_by_side(some.len(), |at| {
            let question = &some[at];
            if !question.given().is_empty() {
                let weighed = llm.weigh(&question.chat, question.given()).ok()?;
                return Some(weighed.iter().map(|weighed| weighed.usage.computed).sum());
            }
            let sampling = Sampling { max_tokens: 1, ..Sampling::default() };
            Some(llm.ask(&question.chat, &Form::Text, &sampling).ok()?.usage.computed)
        });
        Some((computed?.iter().sum(), start.elapsed().as_secs_f64()))
    };
    let (first, others) = examples.split_first()?;
    let (n_first, seconds) = read(std::slice::from_ref(first))?;
    let room = (TIME.as_secs_f64() / seconds.max(1e-3)) as usize;
    let others = &others[..others.len().min(room.max(1))];
    let (n_others, more) = read(others)?;
    let n_read = 1 + others.len();
    // Where everything was known already, there is nothing to measure but a text of our own.
    let (n, seconds) = match (n_others, n_first) {
        (n, _) if n >= LEAST => (n, more),
        (_, n) if n >= LEAST => (n, seconds),
        _ => {
            let words: Vec<String> = (0..600).map(|i| (i * 7919 % 1009).to_string()).collect();
            let start = Instant::now();
            let sampling = Sampling { max_tokens: 1, ..Sampling::default() };
            let reply = llm.ask(&Chat::raw(words.join(" ")), &Form::Text, &sampling).ok()?;
            (reply.usage.computed, start.elapsed().as_secs_f64())
        }
    };
    (n > 0).then(|| (n as f64 / seconds.max(1e-6), n_read))
}

/// Fewer tokens say nothing of the pace.
const LEAST: usize = 64;

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
        llm::{Error, Finish, Reply, Token, TokenSource, Usage, Weighed},
    };

    /// Takes a millisecond for each new token of a prompt, and two for each of an answer.
    struct Slow;

    impl Llm for Slow {
        fn ask(&self, chat: &Chat, _: &Form, sampling: &Sampling) -> Result<Reply, Error> {
            let token = Token {
                id: 0,
                text: "x".into(),
                logprob: -1.0,
                masked_logprob: -1.0,
                source: TokenSource::Sampled,
            };
            let n = sampling.max_tokens.min(20);
            let computed = if n == 1 { chat.turns[0].content.len() } else { 1 };
            std::thread::sleep(Duration::from_millis((computed + 2 * n) as u64));
            let usage = Usage { computed, generated: n, ..Usage::default() };
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
    fn reading_and_writing_are_measured_on_the_questions_of_the_run() {
        let question = Question {
            unit: None,
            role: Role::Judge,
            step: Stage::new("score").into(),
            chat: Chat::new().user("x".repeat(100)),
            form: Form::Text,
            max_tokens: 50,
            shortest: None,
            is_read: false,
        };
        let examples = vec![question; 4];
        let load = Load { role: Role::Judge, calls: 4, prompt_tokens: 0, answer_tokens: 0, examples };
        let panel = Panel::new(Arc::new(Slow), Sampling::default());
        let pace = Pace::of(&load, &panel, 3).unwrap();
        // Sleeping takes longer on a busy machine, never shorter; three read side by side, and three write.
        assert!(pace.reads > 0.0 && pace.reads < 3_000.0, "{pace:?}");
        assert!(pace.writes.is_some_and(|writes| writes > 0.0 && writes < 1_500.0), "{pace:?}");
        assert!((Pace { reads: 100.0, writes: Some(10.0) }.seconds(50, 20) - 2.5).abs() < 1e-9);
        let silent = Load { examples: Vec::new(), ..load };
        assert_eq!(Pace::of(&silent, &panel, 3), None);
    }
}
