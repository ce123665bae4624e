//! The progress of a run on standard error: a line that renews itself on a terminal, a line a minute
//! elsewhere, or JSON for programs.

use std::{io::Write as _, sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use crate::{
    console::wrap,
    run::{Progress, Silent, Snapshot},
};

/// Time between two plain lines. Unit: seconds.
const PLAIN_EVERY: f64 = 60.0;

/// Time between two JSON lines. Unit: seconds.
const JSON_EVERY: f64 = 1.0;

/// Delay of the first plain line, which reports that the run has begun. Unit: seconds.
const FIRST: f64 = 0.9;

/// Progress display of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressMode {
    /// A line that renews itself on a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// A line a minute.
    Plain,
    /// A JSON object a line, at most one a second.
    Json,
    /// Nothing.
    Off,
}

impl ProgressMode {
    /// The progress display of a run.
    pub fn progress(self) -> Arc<dyn Progress> {
        match self {
            Self::Off => Arc::new(Silent),
            Self::Json => Arc::new(Lines::every(JSON_EVERY, true)),
            Self::Auto if wrap::stderr_redraws() => Arc::new(Bar::default()),
            Self::Auto | Self::Plain => Arc::new(Lines::every(PLAIN_EVERY, false)),
        }
    }
}

/// A line of a terminal, from the first report on.
#[derive(Debug, Default)]
struct Bar(Mutex<Option<ProgressBar>>);

impl Progress for Bar {
    fn update(&self, now: &Snapshot<'_>) {
        let mut bar = self.0.lock();
        bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{wide_msg}").expect("the template is well-formed");
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        })
        .set_message(now.text());
    }

    fn finish(&self, _: &Snapshot<'_>) {
        if let Some(bar) = self.0.lock().take() {
            bar.finish_and_clear();
        }
    }
}

/// Lines at a distance in time.
#[derive(Debug)]
struct Lines {
    every: f64,
    is_json: bool,
    /// Time of the next line, in seconds since the start.
    next: Mutex<f64>,
}

impl Lines {
    fn every(every: f64, is_json: bool) -> Self {
        Self { every, is_json, next: Mutex::new(FIRST.min(every)) }
    }

    fn is_due(&self, seconds: f64) -> bool {
        let mut next = self.next.lock();
        let is_due = seconds >= *next;
        if is_due {
            *next = seconds + self.every;
        }
        is_due
    }

    fn line(&self, now: &Snapshot<'_>) {
        let line = if self.is_json { now.json() } else { now.text() };
        let _ = writeln!(std::io::stderr(), "{line}"); // a closed stderr must not end a run
    }
}

impl Progress for Lines {
    fn update(&self, now: &Snapshot<'_>) {
        if self.is_due(now.seconds) {
            self.line(now);
        }
    }

    fn finish(&self, last: &Snapshot<'_>) {
        self.line(last);
        *self.next.lock() = FIRST.min(self.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_early_once_and_then_at_their_distance() {
        let lines = Lines::every(PLAIN_EVERY, false);
        let due: Vec<bool> = [0.2, 1.0, 30.0, 60.9, 61.1, 100.0].map(|at| lines.is_due(at)).into();
        assert_eq!(due, [false, true, false, false, true, false]);
    }
}
