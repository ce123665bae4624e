//! SIGINT and SIGTERM: what is being written is finished, the way to go on is said, and the process ends.

use std::process;

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::run::{Writing, interrupt::Written};

/// Ends the process at the first of these signals, as soon as nothing is being written. Where signals cannot be caught,
/// they end the process at once, which loses no more than what was in flight.
pub fn watch(writing: &Writing) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let writing = writing.clone();
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            let written = writing.hold();
            say!("{}", farewell(&written));
            process::exit(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    // Without the thread, a signal would be caught and never answered.
    if thread.spawn(wait).is_err() {
        process::exit(2);
    }
}

fn farewell(written: &Written) -> String {
    match &written.dir {
        None => "\ninterrupted".into(),
        Some(dir) => format!(
            "\ninterrupted: {} of {} verdicts are safe in `{}`; the same command goes on from there",
            written.done,
            written.units,
            dir.display()
        ),
    }
}
