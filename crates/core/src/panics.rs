//! Turns panics of third-party readers on damaged files into errors, without a printed message. Panics of our
//! own code are not caught.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    /// True if a panic on this thread is about to be caught.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Set once: the hook that passes on every panic but those.
static HOOK: Once = Once::new();

/// Calls `work` and returns its result; `None` if it panicked, without a printed message. Threads that it
/// starts are not covered.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    done.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_nothing() {
        assert_eq!(caught(|| 1), Some(1));
        assert_eq!(caught(|| -> u8 { panic!("damaged") }), None);
        assert_eq!(caught(|| caught(|| -> u8 { panic!("inner") })), Some(None));
        assert!(!IS_CAUGHT.get(), "later panics are printed again");
    }
}
