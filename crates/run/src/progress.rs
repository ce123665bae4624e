//! A run's progress: answers are counted, weighted by the tokens of their groups, and the rest is estimated
//! from them. The display is the caller's, behind [`Progress`].

use std::{
    collections::BTreeMap,
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
    /// Answers for a unit that its method usually takes.
    pub answers: usize,
}

/// The part of a group in the work of a run, and the answers about it so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupShare {
    pub units: usize,
    /// Unit: estimated tokens.
    pub work: usize,
    pub answers: usize,
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
    missing: usize,
    /// Groups that are being judged, by their ranks.
    open: BTreeMap<usize, GroupShare>,
    /// All finished groups together.
    finished: GroupShare,
    /// Cost of the calls of finished groups.
    cost: Cost,
    /// All answers, those of unfinished groups among them.
    questions: usize,
    usage: Usage,
    /// Token positions computed so far, those of unfinished questions among them.
    read: usize,
    /// The progress at the last answer.
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
            self.update(&state);
        }
    }

    /// Registers a group that is about to be judged.
    pub fn begun(&self, rank: usize, group: GroupShare) {
        self.state.lock().open.insert(rank, group);
    }

    /// Counts one answer about the group of this rank.
    pub fn answered(&self, rank: usize, usage: &Usage) {
        let mut state = self.state.lock();
        state.questions += 1;
        state.usage += usage;
        state.open.entry(rank).or_default().answers += 1;
        state.record(self.extent, self.seconds());
        self.update(&state);
    }

    /// Counts a group that is done.
    pub fn finished(&self, rank: usize, records: &[Record], calls: &[CallLine]) {
        let mut state = self.state.lock();
        state.close(rank);
        state.missing += records.iter().filter(|record| record.score.is_none()).count();
        for call in calls.iter().filter(|call| call.error.is_none()) {
            state.cost.add(&call.stage, call.outcome.as_deref(), &call.usage, call.seconds);
        }
        state.record(self.extent, self.seconds());
        self.update(&state);
    }

    /// Seconds since the start.
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
    /// `None` until there is an answer, or a group without one is finished.
    pub seconds_left: Option<f64>,
    /// Since the start.
    pub seconds: f64,
    cost: &'a Cost,
}

impl<'a> Snapshot<'a> {
    fn new(state: &'a State, extent: Extent, seconds: f64) -> Self {
        let usage = &state.usage;
        let done = extent.resumed + state.finished.units;
        let tokens = (usage.computed + usage.generated).max(state.read);
        Self {
            done,
            units: extent.units,
            missing: state.missing,
            questions: state.questions,
            tokens,
            tokens_per_second: tokens as f64 / seconds.max(1e-9),
            cached: usage.cached as f64 / usage.prompt().max(1) as f64,
            seconds_left: if done >= extent.units {
                Some(0.0)
            } else {
                state.latest.map(|latest| left(latest, seconds))
            },
            seconds,
            cost: &state.cost,
        }
    }

    /// One line of text for display.
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
    /// Moves a group to those that are finished.
    fn close(&mut self, rank: usize) {
        let GroupShare { units, work, answers } = self.open.remove(&rank).unwrap_or_default();
        self.finished.units += units;
        self.finished.work += work;
        self.finished.answers += answers;
    }

    /// Records the progress at an answer or the end of a group.
    fn record(&mut self, extent: Extent, at: f64) {
        self.latest = share(self, extent).map(|share| Milestone { share, at });
    }
}

/// The finished share of the work: of each group, the answers among those that it is expected to take. They
/// are as many for a unit as finished groups took, and the method's usual number counts as one more unit.
/// `None` at the beginning.
fn share(state: &State, extent: Extent) -> Option<f64> {
    let State { open, finished, .. } = state;
    let each = (extent.answers + finished.answers) as f64 / (1 + finished.units) as f64;
    let of_open = |group: &GroupShare| {
        let answers = group.answers as f64;
        group.work as f64 * answers / (each * group.units as f64).max(answers).max(1.0)
    };
    let done = finished.work as f64 + open.values().map(of_open).sum::<f64>();
    // What is not finished takes some time yet, whatever the estimate.
    let most = 1.0 - 0.1 / extent.units.max(1) as f64;
    (done > 0.0).then(|| (done / extent.work.max(1) as f64).min(most))
}

/// Share of the estimate that remains when a step takes longer than the estimate of all remaining work.
const LEAST: f64 = 0.1;

/// The remaining time, at the pace until the last answer: during a step of the model, which may take many
/// seconds, the remaining time does not grow.
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
    use proptest::prelude::*;

    use super::*;

    const EXTENT: Extent = Extent { units: 12, resumed: 2, work: 1000, answers: 1 };

    /// Some finished groups, and so many answers for one of eight units that is not.
    fn state(units: usize, work: usize, answers: usize, open: usize) -> State {
        let usage = Usage { computed: 500, cached: 1500, generated: 300, ..Usage::default() };
        let cost = Cost { calls: answers, ..Cost::default() };
        State {
            open: BTreeMap::from([(9, GroupShare { units: 5, work: 500, answers: open })]),
            finished: GroupShare { units, work, answers },
            cost,
            questions: answers + open,
            usage,
            ..State::default()
        }
    }

    /// The line when the run has just come as far as this.
    fn text(mut state: State, seconds: f64) -> String {
        state.record(EXTENT, seconds);
        Snapshot::new(&state, EXTENT, seconds).text()
    }

    /// The time left when the run has just come as far as this.
    fn left_now(state: &mut State, seconds: f64) -> f64 {
        state.record(EXTENT, seconds);
        Snapshot::new(state, EXTENT, seconds).seconds_left.unwrap()
    }

    #[test]
    fn the_line_says_what_is_done_and_what_is_left() {
        // Half of the work is finished and three of five answers are there for the rest.
        let half = text(state(5, 500, 5, 3), 10.0);
        assert_eq!(half, "7/12 verdicts, 8 questions, 800 tokens, 80 tokens/s, 75% cached, about 2 s left");
        let early = text(state(0, 0, 0, 0), 10.0);
        assert_eq!(
            early,
            "2/12 verdicts, 0 questions, 800 tokens, 80 tokens/s, 75% cached, time left not known yet"
        );
        let done = text(state(10, 1000, 40, 0), 601.0);
        assert_eq!(done, "12/12 verdicts, 40 questions, 800 tokens, 1 tokens/s, 75% cached, done in 11 min");
        let mut slow = state(1, 10, 4, 0);
        slow.missing = 1;
        slow.cost.add("compare/style@2", Some("confirmed"), &Usage::default(), 0.0);
        let slow = text(slow, 600.0);
        assert!(
            slow.contains("h ") && slow.contains("left, 1 without a verdict; compare: 1 confirmed"),
            "{slow}"
        );
    }

    #[test]
    fn prompts_that_are_being_read_are_progress() {
        let reading = State { read: 3400, ..State::default() };
        let line = text(reading, 10.0);
        assert_eq!(
            line,
            "2/12 verdicts, 0 questions, 3400 tokens, 340 tokens/s, 0% cached, time left not known yet"
        );
    }

    #[test]
    fn answers_of_unfinished_groups_shorten_the_estimate() {
        // One of five answers about half of the work.
        assert!((left_now(&mut state(0, 0, 0, 1), 10.0) - 90.0).abs() < 1e-9);
        // A tenth took two answers a unit, so five units may take (1 + 2) / 2 each.
        let seen = left_now(&mut state(1, 100, 2, 3), 30.0);
        assert!((seen - 30.0 * (1000.0 / 300.0 - 1.0)).abs() < 1e-9, "{seen}");
    }

    #[test]
    fn the_time_left_shrinks_while_a_step_takes_its_time() {
        let mut first = state(1, 100, 1, 0);
        assert!((left_now(&mut first, 10.0) - 90.0).abs() < 1e-9);
        let left_at = |seconds| Snapshot::new(&first, EXTENT, seconds).seconds_left.unwrap();
        assert!((left_at(40.0) - 60.0).abs() < 1e-9, "30 s later nothing is known but that");
        let overdue = left_at(200.0);
        assert!(overdue > 100.0, "the rest takes some time still: {overdue}");
    }

    /// Answers at one pace, as in a run of FSP: documents of several segments, the longest first, `jobs` at a
    /// time, and the answers about them in some order. Returns the time left after each answer and each
    /// group, and between two answers.
    fn times_left(sizes: &[usize], jobs: usize, order: &[usize]) -> Vec<f64> {
        const WORK: usize = 150;
        let n: usize = sizes.iter().sum();
        let extent = Extent { units: n, resumed: 0, work: WORK * n, answers: 1 };
        let (mut state, mut waiting, mut open, mut left) =
            (State::default(), sizes.iter().enumerate(), Vec::new(), Vec::new());
        for at in 1..=n {
            while open.len() < jobs
                && let Some((rank, &units)) = waiting.next()
            {
                state.open.insert(rank, GroupShare { units, work: WORK * units, answers: 0 });
                open.push(rank);
            }
            let seconds = 8.0 * at as f64;
            let chosen = order[at % order.len()] % open.len();
            let rank = open[chosen];
            let group = state.open.get_mut(&rank).unwrap();
            group.answers += 1;
            let is_complete = group.answers == group.units;
            let mut show = |state: &State, seconds| {
                left.push(Snapshot::new(state, extent, seconds).seconds_left.unwrap());
            };
            state.record(extent, seconds);
            show(&state, seconds);
            if is_complete {
                state.close(rank);
                open.remove(chosen);
                state.record(extent, seconds);
                show(&state, seconds);
            }
            show(&state, seconds + 4.0);
        }
        left
    }

    proptest! {
        #[test]
        fn the_time_left_falls_with_every_answer(
            mut sizes in prop::collection::vec(1usize..20, 2..8),
            jobs in 1usize..6,
            order in prop::collection::vec(0usize..100, 1..60),
        ) {
            sizes.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
            let n = sizes.iter().sum::<usize>() as f64;
            let left = times_left(&sizes, jobs, &order);
            prop_assert!(left.windows(2).all(|pair| pair[1] <= pair[0] + 1e-6), "{left:?}");
            // Answers come every eight seconds, so the first one tells how long the others take.
            prop_assert!((left[0] - 8.0 * (n - 1.0)).abs() < 1e-6, "{} of {n}", left[0]);
            prop_assert_eq!(left.last(), Some(&0.0));
        }
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
        // More answers than expected: the estimate is at its end, the run is not.
        assert!(left_now(&mut state(5, 500, 5, 90), 1000.0) > 1.0);
    }

    #[test]
    fn what_earlier_processes_did_takes_no_time_now() {
        // 2 of 12 units were there; 100 of 1000 estimated tokens took 10 s, so the other 900 take 90 s.
        assert!((left_now(&mut state(1, 100, 1, 0), 10.0) - 90.0).abs() < 1e-9);
    }

    #[test]
    fn programs_read_json() {
        let line = Snapshot::new(&state(5, 500, 5, 3), EXTENT, 10.0).json();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((value["units"].as_u64(), value["of"].as_u64()), (Some(7), Some(12)));
        assert_eq!(value["cached"].as_f64(), Some(0.75));
    }
}
