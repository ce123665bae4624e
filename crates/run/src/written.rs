//! Output of a run's threads: the journal, and the groups at its end that no step computed twice has
//! confirmed.

use std::collections::VecDeque;

use super::{
    Error, Record, RunConfig,
    call::CallLine,
    calls::Sums,
    journal::{Journal, Pace},
};
use crate::{judges::Panel, llm::Confirmed};

/// Output of a run's threads.
pub struct Written {
    pub journal: Journal,
    pub sums: Sums,
    pace: Pace,
    /// The groups at the end of the journal that no later step has confirmed.
    unconfirmed: VecDeque<Unconfirmed>,
}

/// A group that was complete before the next step was computed a second time.
struct Unconfirmed {
    /// Confirmations of the devices when the group was complete.
    confirmed: Vec<Confirmed>,
    /// Offset of its records in the journal. Unit: bytes.
    offset: u64,
    n_records: usize,
}

impl Written {
    /// A journal that is appended to, and what its calls came to so far.
    #[must_use]
    pub fn new(journal: Journal, sums: Sums) -> Self {
        Self { journal, sums, pace: Pace::default(), unconfirmed: VecDeque::new() }
    }

    /// Appends a group, syncs it to the disk and counts it.
    ///
    /// # Errors
    /// [`Error::Append`], [`Error::Gone`].
    pub fn append(
        &mut self,
        (records, calls): (Vec<Record>, Vec<CallLine>),
        confirmed: Vec<Confirmed>,
        config: &RunConfig,
    ) -> Result<(), Error> {
        let mut written = config.writing.lock();
        self.journal.check()?;
        for call in &calls {
            self.sums.add(call);
        }
        if !confirmed.is_empty() {
            let is_past =
                |group: &Unconfirmed| later(&group.confirmed, &confirmed).all(|(_, is_later)| is_later);
            while self.unconfirmed.front().is_some_and(is_past) {
                self.unconfirmed.pop_front();
            }
            let (offset, n_records) = (self.journal.size()?, records.len());
            self.unconfirmed.push_back(Unconfirmed { confirmed, offset, n_records });
        }
        self.journal.append(&records, calls)?;
        self.pace.sync(&self.journal)?;
        written.done += records.len();
        Ok(())
    }

    /// Takes the groups that no step confirmed out of the journal and returns the error with the reason.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn drop_unconfirmed(
        &mut self,
        reason: String,
        panel: &Panel,
        config: &RunConfig,
    ) -> Result<Error, Error> {
        let now = panel.confirmed();
        // All from the first one on: a group may be appended behind one that was complete a little later.
        let may_be_wrong = |group: &Unconfirmed| {
            later(&group.confirmed, &now).any(|(now, is_later)| now.differs && !is_later)
        };
        let mut from = self.unconfirmed.iter().skip_while(|group| !may_be_wrong(group)).peekable();
        if let Some(first) = from.peek() {
            self.journal.truncate(first.offset)?;
        }
        let dropped = from.map(|group| group.n_records).sum();
        let mut written = config.writing.lock();
        written.done -= dropped;
        Ok(Error::Differs { reason, dropped, retained: written.done })
    }
}

/// Present confirmations of each device, and true for a device with more than `before`.
fn later<'a>(before: &'a [Confirmed], now: &'a [Confirmed]) -> impl Iterator<Item = (&'a Confirmed, bool)> {
    before.iter().zip(now).map(|(before, now)| (now, now.n > before.n))
}
