//! SIGINT and SIGTERM: writes in progress are finished, the way to go on is printed, and the process ends. A
//! second signal ends it at once.

use std::{
    process,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    iterator::Signals,
};

use crate::run::Writing;

/// Ends the process at the first of these signals, as soon as no write is in progress, and at the second at
/// once. Where signals cannot be caught, they end the process at once, which loses no more than the work in
/// flight.
pub fn watch(writing: &Writing) {
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that the first signal finds the flag down. Without them a second signal changes
        // nothing.
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, is_second.clone());
        let _ = flag::register(signal, is_second.clone());
    }
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let writing = writing.clone();
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            let written = writing.lock();
            say!("\n{}", *written);
            process::exit(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    // Without the thread, a signal would be caught and never answered.
    if thread.spawn(wait).is_err() {
        process::exit(2);
    }
}
