//! A run's progress: finished groups and answered questions are counted, and the rest is estimated from both.
//! The display is the caller's, behind [`Progress`].

use std::{
    fmt::{self, Write as _},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::json;

use crate::{call::CallLine, llm::Usage, record::Record, summary::Cost};

/// Time between two polls of the computed tokens.
const POLL: Duration = Duration::from_millis(200);

/// Display of a run's progress.
pub trait Progress: fmt::Debug + Send + Sync {
    /// Called after each answer and each group, and several times a second in between.
    fn update(&self, now: &Snapshot<'_>);

    /// Called once, at the end.
    fn finish(&self, last: &Snapshot<'_>);
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _: &Snapshot<'_>) {}

    fn finish(&self, _: &Snapshot<'_>) {}
}

/// Amount of work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Of this process's share of the run, those of earlier processes among them.
    pub units: usize,
    /// Units that earlier processes have judged.
    pub resumed: usize,
    /// Remaining work of this process. Unit: estimated tokens.
    pub work: usize,
}

/// Counts the progress of one process's share of a run.
pub struct Meter {
    start: Instant,
    extent: Extent,
    state: Mutex<State>,
    shown: Arc<dyn Progress>,
}

/// Progress of this process.
#[derive(Default)]
struct State {
    units: usize,
    missing: usize,
    /// Estimated tokens of the groups that are finished.
    work: usize,
    /// Cost of the calls of finished groups.
    cost: Cost,
    /// All answers, those of unfinished groups among them.
    questions: usize,
    usage: Usage,
    /// Token positions computed so far, those of unfinished questions among them.
    read: usize,
    /// The last known progress.
    latest: Option<Milestone>,
}

/// The progress at one moment. Unit: share of the work, 0 to 1; seconds since the start.
#[derive(Clone, Copy, Debug)]
struct Milestone {
    share: f64,
    at: f64,
}

impl Meter {
    /// Starts the clock.
    #[must_use]
    pub fn start(extent: Extent, shown: Arc<dyn Progress>) -> Self {
        Self { start: Instant::now(), extent, state: Mutex::default(), shown }
    }

    /// Reports the progress until `work` ends, also while no question has been answered; `computed` returns
    /// the tokens that the models have computed since they were loaded.
    pub fn watched<R>(&self, computed: &(dyn Fn() -> usize + Sync), work: impl FnOnce() -> R) -> R {
        let (working, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || self.watch(&ended, computed));
            let _working = working; // dropped when the work ends, by a panic too
            work()
        })
    }

    fn watch(&self, ended: &mpsc::Receiver<()>, computed: &dyn Fn() -> usize) {
        let before = computed();
        while ended.recv_timeout(POLL) == Err(mpsc::RecvTimeoutError::Timeout) {
            let mut state = self.state.lock();
            state.read = computed() - before;
            state.record(self.extent, self.seconds());
            self.update(&state);
        }
    }

    /// Counts one answer.
    pub fn answered(&self, usage: &Usage) {
        let mut state = self.state.lock();
        state.questions += 1;
        state.usage += usage;
        state.record(self.extent, self.seconds());
        self.update(&state);
    }

    /// Counts a group that is done, of so many estimated tokens.
    pub fn finished(&self, records: &[Record], calls: &[CallLine], work: usize) {
        let mut state = self.state.lock();
        state.units += records.len();
        state.missing += records.iter().filter(|record| record.score.is_none()).count();
        state.work += work;
        for call in calls.iter().filter(|call| call.error.is_none()) {
            state.cost.add(&call.stage, call.outcome.as_deref(), &call.usage, call.seconds);
        }
        state.record(self.extent, self.seconds());
        self.update(&state);
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Shows how it ended.
    pub fn finish(&self) {
        self.shown.finish(&Snapshot::new(&self.state.lock(), self.extent, self.seconds()));
    }

    fn update(&self, state: &State) {
        self.shown.update(&Snapshot::new(state, self.extent, self.seconds()));
    }
}

/// The progress of a run at one moment.
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// Units that have a verdict or a reason for none.
    pub done: usize,
    /// Units of this process's share.
    pub units: usize,
    /// Units without a verdict.
    pub missing: usize,
    /// Answers.
    pub questions: usize,
    /// Tokens of prompts and answers so far, those of unfinished questions among them.
    pub tokens: usize,
    pub tokens_per_second: f64,
    /// Share of the prompt tokens that came from the prefix cache, 0 to 1.
    pub cached: f64,
    /// `None` until a group is finished.
    pub seconds_left: Option<f64>,
    /// Since the start.
    pub seconds: f64,
    cost: &'a Cost,
}

impl<'a> Snapshot<'a> {
    fn new(state: &'a State, extent: Extent, seconds: f64) -> Self {
        let usage = &state.usage;
        let is_done = extent.resumed + state.units >= extent.units;
        let tokens = (usage.computed + usage.generated).max(state.read);
        Self {
            done: extent.resumed + state.units,
            units: extent.units,
            missing: state.missing,
            questions: state.questions,
            tokens,
            tokens_per_second: tokens as f64 / seconds.max(1e-9),
            cached: usage.cached as f64 / usage.prompt().max(1) as f64,
            seconds_left: if is_done { Some(0.0) } else { state.latest.map(|latest| left(latest, seconds)) },
            seconds,
            cost: &state.cost,
        }
    }

    /// One line of text for display.
    #[must_use]
    pub fn text(&self) -> String {
        let left = match self.seconds_left {
            None => "time left not known yet".to_owned(),
            Some(_) if self.done >= self.units => format!("done in {}", duration(self.seconds)),
            Some(left) => format!("about {} left", duration(left)),
        };
        let mut text = format!(
            "{}/{} verdicts, {} question{}, {} tokens, {:.0} tokens/s, {:.0}% cached, {left}",
            self.done,
            self.units,
            self.questions,
            if self.questions == 1 { "" } else { "s" },
            self.tokens,
            self.tokens_per_second,
            100.0 * self.cached
        );
        if self.missing > 0 {
            let _ = write!(text, ", {} without a verdict", self.missing);
        }
        for (stage, counts) in &self.cost.outcomes {
            let counts: Vec<String> = counts.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
            let _ = write!(text, "; {stage}: {}", counts.join(", "));
        }
        for (stage, rounds) in &self.cost.rounds {
            let counts: Vec<String> = rounds.values().map(ToString::to_string).collect();
            let _ = write!(text, "; {stage} by round: {}", counts.join(", "));
        }
        text
    }

    /// A JSON object for programs.
    #[must_use]
    pub fn json(&self) -> String {
        json!({
            "units": self.done,
            "of": self.units,
            "missing": self.missing,
            "questions": self.questions,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
            "cached": self.cached,
            "seconds": self.seconds,
            "seconds_left": self.seconds_left,
            "outcomes": self.cost.outcomes,
            "rounds": self.cost.rounds,
        })
        .to_string()
    }
}

impl State {
    /// Records the progress, if there was any.
    fn record(&mut self, extent: Extent, at: f64) {
        let Some(share) = share(self, extent) else { return };
        if self.latest.is_none_or(|latest| share > latest.share) {
            self.latest = Some(Milestone { share, at });
        }
    }
}

/// The finished share of the work. Finished groups give the number of questions and tokens of their work; the
/// questions answered and the tokens computed so far, those of unfinished groups among them, give the
/// progress. `None` until a group is finished.
fn share(state: &State, extent: Extent) -> Option<f64> {
    if state.work == 0 {
        return None;
    }
    let by_work = state.work as f64 / extent.work.max(1) as f64;
    let finished = &state.cost.usage;
    let by = |so_far: usize, finished: usize| match finished {
        0 => by_work,
        _ => by_work * so_far as f64 / finished as f64,
    };
    let by_questions = by(state.questions, state.cost.calls);
    let by_tokens = by(state.read, finished.computed + finished.generated);
    // What is not finished takes some time yet, whatever the estimate.
    Some(by_work.max(by_questions).max(by_tokens).min(0.995))
}

/// Share of the estimate that remains when a step takes longer than the estimate of all remaining work.
const LEAST: f64 = 0.1;

/// The remaining time, at the pace until the last known progress: during a step of the model, which may take
/// many seconds, the remaining time does not grow.
fn left(latest: Milestone, seconds: f64) -> f64 {
    let ratio = (1.0 - latest.share) / latest.share;
    (latest.at * ratio - (seconds - latest.at)).max(LEAST * seconds * ratio)
}

fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        _ if minutes < 120 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { units: 12, resumed: 2, work: 1000 };

    fn state(units: usize, work: usize, questions: usize, finished: usize) -> State {
        let usage = Usage { computed: 500, cached: 1500, generated: 300, ..Usage::default() };
        let cost = Cost { calls: finished, ..Cost::default() };
        State { units, work, cost, questions, usage, ..State::default() }
    }

    /// The line when the run has just come as far as this.
    fn text(state: &State, seconds: f64) -> String {
        let state = State {
            latest: share(state, EXTENT).map(|share| Milestone { share, at: seconds }),
            cost: state.cost.clone(),
            ..*state
        };
        Snapshot::new(&state, EXTENT, seconds).text()
    }

    /// The time left when the run has just come as far as this.
    fn left_now(state: &mut State, seconds: f64) -> f64 {
        state.record(EXTENT, seconds);
        Snapshot::new(state, EXTENT, seconds).seconds_left.unwrap()
    }

    #[test]
    fn the_line_says_what_is_done_and_what_is_left() {
        // Half of the work is finished and as many questions again are answered for groups that are not.
        let half = text(&state(5, 500, 30, 20), 10.0);
        assert_eq!(half, "7/12 verdicts, 30 questions, 800 tokens, 80 tokens/s, 75% cached, about 3 s left");
        let early = text(&state(0, 0, 10, 0), 10.0);
        assert_eq!(
            early,
            "2/12 verdicts, 10 questions, 800 tokens, 80 tokens/s, 75% cached, time left not known yet"
        );
        let done = text(&state(10, 1000, 40, 40), 601.0);
        assert_eq!(done, "12/12 verdicts, 40 questions, 800 tokens, 1 tokens/s, 75% cached, done in 11 min");
        let mut slow = state(1, 10, 4, 4);
        slow.missing = 1;
        slow.cost.add("compare/style@2", Some("confirmed"), &Usage::default(), 0.0);
        let slow = text(&slow, 600.0);
        assert!(
            slow.contains("h ") && slow.contains("left, 1 without a verdict; compare: 1 confirmed"),
            "{slow}"
        );
    }

    #[test]
    fn prompts_that_are_being_read_are_progress() {
        let reading = State { read: 3400, ..State::default() };
        let line = text(&reading, 10.0);
        assert_eq!(
            line,
            "2/12 verdicts, 0 questions, 3400 tokens, 340 tokens/s, 0% cached, time left not known yet"
        );
    }

    #[test]
    fn tokens_of_unfinished_groups_shorten_the_estimate() {
        let mut first = state(1, 100, 1, 1);
        first.cost.usage = Usage { computed: 90, generated: 10, ..Usage::default() };
        assert!((left_now(&mut first, 10.0) - 90.0).abs() < 1e-9, "a tenth of the work took 10 s");
        // Half of the tokens that ten such groups take are computed.
        first.read = 500;
        assert!((left_now(&mut first, 10.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_time_left_shrinks_while_a_step_takes_its_time() {
        let mut first = state(1, 100, 1, 1);
        assert!((left_now(&mut first, 10.0) - 90.0).abs() < 1e-9);
        assert!((left_now(&mut first, 40.0) - 60.0).abs() < 1e-9, "30 s later nothing is known but that");
        let overdue = left_now(&mut first, 200.0);
        assert!(overdue > 100.0, "the rest takes some time still: {overdue}");
    }

    #[derive(Debug, Default)]
    struct Last(Mutex<Option<usize>>);

    impl Progress for Last {
        fn update(&self, now: &Snapshot<'_>) {
            *self.0.lock() = Some(now.tokens);
        }

        fn finish(&self, _: &Snapshot<'_>) {}
    }

    #[test]
    fn progress_is_shown_before_any_answer() {
        let last = Arc::new(Last::default());
        let meter = Meter::start(EXTENT, last.clone());
        meter.watched(&|| 7, || {
            while last.0.lock().is_none() {
                std::thread::sleep(POLL);
            }
        });
        assert_eq!(*last.0.lock(), Some(0), "what was computed before the run is not its own");
    }

    #[test]
    fn something_is_left_until_all_is_done() {
        // More questions than expected: the estimate is at its end, the run is not.
        assert!(left_now(&mut state(9, 900, 500, 90), 1000.0) > 1.0);
    }

    #[test]
    fn what_earlier_processes_did_takes_no_time_now() {
        // 2 of 12 units were there; 100 of 1000 estimated tokens took 10 s, so the other 900 take 90 s.
        assert!((left_now(&mut state(1, 100, 1, 1), 10.0) - 90.0).abs() < 1e-9);
    }

    #[test]
    fn programs_read_json() {
        let line = Snapshot::new(&state(5, 500, 30, 20), EXTENT, 10.0).json();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((value["units"].as_u64(), value["of"].as_u64()), (Some(7), Some(12)));
        assert_eq!(value["cached"].as_f64(), Some(0.75));
    }
}
