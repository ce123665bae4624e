//! Output of a run's threads: the journal, and the groups at its end that no step computed twice has
//! confirmed.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::{
    error::Error,
    interrupt::Writing,
    journal::{Pace, resume::Resumed},
    layout::Judged,
    llm::Confirmed,
};

/// Output of a run's threads.
pub struct Output<'a> {
    state: Mutex<State<'a>>,
    writing: &'a Writing,
}

struct State<'a> {
    resumed: &'a mut Resumed,
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

impl<'a> Output<'a> {
    /// Appends to a journal and its sums; files are written only while `writing` is locked.
    pub fn new(resumed: &'a mut Resumed, writing: &'a Writing) -> Self {
        let state = State { resumed, pace: Pace::default(), unconfirmed: VecDeque::new() };
        Self { state: Mutex::new(state), writing }
    }

    /// Appends a group, syncs it to the disk and counts it; `confirmed` are the devices' confirmations when
    /// it was complete.
    ///
    /// # Errors
    /// [`Error::Append`], [`Error::Gone`].
    pub fn append(&self, judged: Judged, confirmed: Vec<Confirmed>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let mut status = self.writing.lock();
        let State { resumed, pace, unconfirmed } = &mut *state;
        let Judged { records, calls } = judged;
        resumed.journal.check()?;
        for call in &calls {
            resumed.sums.add(call);
        }
        if !confirmed.is_empty() {
            let is_past =
                |group: &Unconfirmed| later(&group.confirmed, &confirmed).all(|(_, is_later)| is_later);
            while unconfirmed.front().is_some_and(is_past) {
                unconfirmed.pop_front();
            }
            let (offset, n_records) = (resumed.journal.size()?, records.len());
            unconfirmed.push_back(Unconfirmed { confirmed, offset, n_records });
        }
        resumed.journal.append(&records, calls)?;
        pace.sync(&resumed.journal)?;
        status.done += records.len();
        Ok(())
    }

    /// Syncs all that was appended.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn finish(self) -> Result<(), Error> {
        self.state.into_inner().resumed.journal.sync()
    }

    /// Takes the groups that no step confirmed out of the journal, by the devices' present confirmations, and
    /// returns the error with the reason.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn drop_unconfirmed(self, reason: String, confirmed: &[Confirmed]) -> Result<Error, Error> {
        let State { resumed, unconfirmed, .. } = self.state.into_inner();
        // All from the first one on: a group may be appended behind one that was complete a little later.
        let may_be_wrong = |group: &&Unconfirmed| {
            later(&group.confirmed, confirmed).any(|(now, is_later)| now.differs && !is_later)
        };
        let mut wrong = unconfirmed.iter().skip_while(|group| !may_be_wrong(group)).peekable();
        if let Some(first) = wrong.peek() {
            resumed.journal.truncate(first.offset)?;
        }
        let dropped = wrong.map(|group| group.n_records).sum();
        let mut status = self.writing.lock();
        status.done -= dropped;
        Ok(Error::Differs { reason, dropped, retained: status.done })
    }
}

/// Present confirmations of each device, and true for a device with more than `before`.
fn later<'a>(before: &'a [Confirmed], now: &'a [Confirmed]) -> impl Iterator<Item = (&'a Confirmed, bool)> {
    before.iter().zip(now).map(|(before, now)| (now, now.n > before.n))
}
