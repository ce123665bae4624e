//! What the threads of a run write to: the journal, and which groups at its end no step that was computed twice has confirmed.

use std::collections::VecDeque;

use super::{
    Error, Record, RunConfig,
    call::CallLine,
    calls::Sums,
    journal::{Journal, Pace},
};
use crate::{judges::Panel, llm::Confirmed};

/// What the threads of a run write to.
pub struct Written {
    pub journal: Journal,
    pub sums: Sums,
    pace: Pace,
    /// The groups at the end of the journal that no later step has confirmed.
    unconfirmed: VecDeque<Unconfirmed>,
}

/// A group that was complete before the next step was computed a second time.
struct Unconfirmed {
    /// [`Confirmed::most`] when it was complete.
    confirmed: usize,
    /// Where its records begin in the journal. Unit: bytes.
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
        confirmed: Option<Confirmed>,
        config: &RunConfig,
    ) -> Result<(), Error> {
        let mut written = config.writing.lock();
        self.journal.check()?;
        for call in &calls {
            self.sums.add(call);
        }
        if let Some(Confirmed { least, most }) = confirmed {
            while self.unconfirmed.front().is_some_and(|group| group.confirmed < least) {
                self.unconfirmed.pop_front();
            }
            let (offset, n_records) = (self.journal.size()?, records.len());
            self.unconfirmed.push_back(Unconfirmed { confirmed: most, offset, n_records });
        }
        self.journal.append(&records, calls)?;
        self.pace.sync(&self.journal)?;
        written.done += records.len();
        Ok(())
    }

    /// Takes the groups that no step confirmed out of the journal; the error that says why.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn drop_unconfirmed(
        &mut self,
        reason: String,
        panel: &Panel,
        config: &RunConfig,
    ) -> Result<Error, Error> {
        let least = panel.confirmed().map_or(0, |confirmed| confirmed.least);
        // All from the first one on: a group may be appended behind one that was complete a little later.
        let mut from = self.unconfirmed.iter().skip_while(|group| group.confirmed < least).peekable();
        if let Some(first) = from.peek() {
            self.journal.truncate(first.offset)?;
        }
        let dropped = from.map(|group| group.n_records).sum();
        let mut written = config.writing.lock();
        written.done -= dropped;
        Ok(Error::Differs { reason, dropped, retained: written.done })
    }
}
