//! A limit for long texts that are tokenized at the same time, each of which takes hundreds of times its
//! bytes meanwhile.

use parking_lot::{Condvar, Mutex};

/// Bytes of long texts at a time. A text longer than this is tokenized alone.
const MOST: usize = 4 << 20;

/// Shorter texts are not counted.
const LONG: usize = 32 << 10;

/// Bytes in use.
#[derive(Default)]
pub(super) struct Budget {
    used: Mutex<usize>,
    released: Condvar,
}

/// A share of the budget, released when it is dropped.
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    /// Waits until there is room for a text of so many bytes.
    pub(super) fn share(&self, bytes: usize) -> Option<Share<'_>> {
        let bytes = if bytes < LONG { return None } else { bytes.min(MOST) };
        let mut used = self.used.lock();
        self.released.wait_while(&mut used, |used| *used + bytes > MOST);
        *used += bytes;
        Some(Share { budget: self, bytes })
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock() -= self.bytes;
        self.budget.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn long_texts_share_what_there_is_and_short_ones_do_not_wait() {
        let (budget, at_once, most) = (Budget::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for bytes in [MOST / 2, MOST / 2 - 1, MOST, 3 * MOST, MOST / 3, LONG, MOST / 4].repeat(4) {
                let (budget, at_once, most) = (&budget, &at_once, &most);
                scope.spawn(move || {
                    let share = budget.share(bytes).unwrap();
                    let now = at_once.fetch_add(share.bytes, Ordering::SeqCst) + share.bytes;
                    most.fetch_max(now, Ordering::SeqCst);
                    assert!(budget.share(LONG - 1).is_none());
                    at_once.fetch_sub(share.bytes, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((most.into_inner(), budget.used.into_inner()), (MOST, 0));
    }
}
