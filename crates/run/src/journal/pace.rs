//! Frequency of syncs of a journal to disk.

use std::time::{Duration, Instant};

use super::Journal;
use crate::error::Error;

/// Ratio of the pause after a sync to the time that it took.
const PAUSE: u32 = 20;

/// Syncs a journal after each group, but for groups that finish so fast that syncing would take more than
/// about a twentieth of the time: those share one.
#[derive(Debug, Default)]
pub struct Pace {
    next: Option<Instant>,
}

impl Pace {
    /// Syncs the journal, unless it was synced only just before.
    ///
    /// # Errors
    /// The errors of [`Journal::sync`].
    pub fn sync(&mut self, journal: &Journal) -> Result<(), Error> {
        self.after(Instant::now, || journal.sync())
    }

    fn after(
        &mut self,
        now: impl Fn() -> Instant,
        sync: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begun = now();
        if self.next.is_some_and(|next| begun < next) {
            return Ok(());
        }
        sync()?;
        let end = now();
        let pause = end.saturating_duration_since(begun).saturating_mul(PAUSE);
        self.next = end.checked_add(pause.min(Duration::from_mins(1)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn slow_groups_are_synced_one_by_one_and_fast_ones_together() {
        let (start, passed, n_synced) = (Instant::now(), Cell::new(0), Cell::new(0));
        let now = || start + Duration::from_millis(passed.get());
        let mut pace = Pace::default();
        // A sync takes 10 ms, a group so many.
        let mut group = |ms: u64| {
            passed.set(passed.get() + ms);
            pace.after(now, || {
                passed.set(passed.get() + 10);
                n_synced.set(n_synced.get() + 1);
                Ok(())
            })
            .unwrap();
            n_synced.get()
        };
        assert_eq!([500, 500, 500].map(&mut group), [1, 2, 3]);
        let n = (0..1000).map(|_| group(1)).last().unwrap();
        assert!((4..=8).contains(&n), "{n} syncs in a second");
    }
}
