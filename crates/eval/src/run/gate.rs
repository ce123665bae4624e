//! A priority semaphore for the questions of a run: as many as the engine answers at once, those of earlier groups
//! first, so that groups finish one after the other and not all at the end. It changes no answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use super::progress::Meter;
use crate::llm::{
    CancellationToken, Chat, Error, LinearProbe, Llm, Reply, ResponseFormat, Sampling, Scored, States, Token,
    Usage,
};

/// A number of places, and who waits for one.
pub struct Gate {
    state: Mutex<State>,
}

struct State {
    free: usize,
    n_tickets: u64,
    /// By rank, then by arrival.
    waiting: BTreeMap<(usize, u64), Arc<Ticket>>,
}

#[derive(Default)]
struct Ticket {
    is_called: Mutex<bool>,
    called: Condvar,
}

/// A place at the gate, given back when it is dropped.
struct Entry<'a>(&'a Gate);

impl Gate {
    /// A gate that lets in `places` questions at a time.
    #[must_use]
    pub fn new(places: usize) -> Arc<Self> {
        let state = State { free: places.max(1), n_tickets: 0, waiting: BTreeMap::new() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Waits for a place; lower ranks go first.
    fn enter(&self, rank: usize) -> Entry<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free > 0 {
            state.free -= 1;
            return Entry(self);
        }
        let ticket = Arc::new(Ticket::default());
        let number = state.n_tickets;
        state.n_tickets += 1;
        state.waiting.insert((rank, number), ticket.clone());
        drop(state);
        let mut is_called = ticket.is_called.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_called {
            is_called = ticket.called.wait(is_called).unwrap_or_else(PoisonError::into_inner);
        }
        Entry(self)
    }
}

impl Drop for Entry<'_> {
    /// Releases the permit to the next waiter.
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.waiting.pop_first() {
            Some((_, ticket)) => {
                *ticket.is_called.lock().unwrap_or_else(PoisonError::into_inner) = true;
                ticket.called.notify_one();
            }
            None => state.free += 1,
        }
    }
}

/// A model behind the gate.
pub struct Gated {
    llm: Arc<dyn Llm>,
    gate: Arc<Gate>,
    /// Until when answers are wanted.
    stop: CancellationToken,
    progress: Arc<Meter>,
    /// Of the group that asks.
    rank: usize,
}

impl Gated {
    /// A model behind the gate, whose answers are wanted until `stop` says otherwise.
    pub fn new(
        llm: Arc<dyn Llm>,
        gate: &Arc<Gate>,
        stop: &CancellationToken,
        progress: &Arc<Meter>,
        rank: usize,
    ) -> Self {
        let llm = llm.until(stop).unwrap_or(llm);
        Self { llm, gate: gate.clone(), stop: stop.clone(), progress: progress.clone(), rank }
    }

    /// Waits for a place.
    fn enter(&self) -> Result<Entry<'_>, Error> {
        let entry = self.gate.enter(self.rank);
        self.stop.check()?;
        Ok(entry)
    }
}

impl Llm for Gated {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        let entry = self.enter()?;
        let reply = self.llm.ask(chat, form, sampling)?;
        drop(entry);
        numbers(&reply.tokens)?;
        self.progress.answered(&reply.usage);
        Ok(reply)
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, Error> {
        let entry = self.enter()?;
        let scored = self.llm.score_continuations(chat, continuations)?;
        drop(entry);
        scored.iter().try_for_each(|w| numbers(&w.tokens))?;
        let mut usage = Usage::default();
        for scored in &scored {
            usage += &scored.usage;
        }
        self.progress.answered(&usage);
        Ok(scored)
    }

    fn read(&self, chat: &Chat, text: &str, probe: &LinearProbe) -> Result<Scored, Error> {
        let entry = self.enter()?;
        let scored = self.llm.read(chat, text, probe)?;
        drop(entry);
        self.progress.answered(&scored.usage);
        Ok(scored)
    }

    fn states(&self, chat: &Chat, text: &str, depths: &[usize]) -> Result<States, Error> {
        let entry = self.enter()?;
        let states = self.llm.states(chat, text, depths)?;
        drop(entry);
        self.progress.answered(&states.usage);
        Ok(states)
    }
}

/// Rejects answers whose log-probabilities are not numbers: such a model is broken.
fn numbers(tokens: &[Token]) -> Result<(), Error> {
    if tokens.iter().any(|token| token.logprob.is_nan() || token.masked_logprob.is_nan()) {
        let reason =
            "the model's log-probabilities are not numbers; its weights are damaged or overflow their format";
        return Err(Error::Engine(reason.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn earlier_groups_go_first() {
        let gate = Gate::new(1);
        let first = gate.enter(5);
        let (sender, order) = mpsc::channel();
        std::thread::scope(|scope| {
            for rank in [9, 2, 7] {
                let (sender, gate) = (sender.clone(), &gate);
                scope.spawn(move || {
                    let _entry = gate.enter(rank);
                    sender.send(rank).unwrap();
                });
            }
            while gate.state.lock().unwrap().waiting.len() < 3 {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(first);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [2, 7, 9]);
        assert_eq!(gate.state.lock().unwrap().free, 1);
    }

    #[test]
    fn no_number_is_no_answer() {
        let token = |logprob| Token {
            id: 0,
            text: String::new(),
            logprob,
            masked_logprob: logprob,
            source: crate::llm::TokenSource::Sampled,
        };
        assert!(numbers(&[token(-0.5), token(f64::NEG_INFINITY)]).is_ok());
        let said = numbers(&[token(-0.5), token(f64::NAN)]).unwrap_err().to_string();
        assert!(said.contains("not numbers"), "{said}");
    }
}
