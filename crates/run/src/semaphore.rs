//! A priority semaphore for the questions of a run: as many as the engine answers at once, earlier groups
//! first, so that groups finish one after the other and not all at the end. It changes no answer.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Condvar, Mutex};

use crate::{
    llm::{
        CancellationToken, Chat, Error, Estimate, LinearProbe, Llm, MetricTexts, Reply, ResponseFormat,
        Sampling, Scored, States, Token, Usage,
    },
    progress::Meter,
};

/// A semaphore whose permits go to the waiter of the lowest rank.
pub struct PrioritySemaphore {
    state: Mutex<State>,
}

struct State {
    free: usize,
    n_waiters: u64,
    /// By rank, then by arrival.
    waiting: BTreeMap<(usize, u64), Arc<Waiter>>,
}

#[derive(Default)]
struct Waiter {
    is_released: Mutex<bool>,
    released: Condvar,
}

/// A permit, released when it is dropped.
struct Permit<'a>(&'a PrioritySemaphore);

impl PrioritySemaphore {
    /// A semaphore of `permits` permits, at least one.
    pub fn new(permits: usize) -> Arc<Self> {
        let state = State { free: permits.max(1), n_waiters: 0, waiting: BTreeMap::new() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Waits for a permit; lower ranks go first.
    fn acquire(&self, rank: usize) -> Permit<'_> {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            return Permit(self);
        }
        let waiter = Arc::new(Waiter::default());
        let number = state.n_waiters;
        state.n_waiters += 1;
        state.waiting.insert((rank, number), waiter.clone());
        drop(state);
        let mut is_released = waiter.is_released.lock();
        waiter.released.wait_while(&mut is_released, |is_released| !*is_released);
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    /// Releases the permit to the next waiter.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        match state.waiting.pop_first() {
            Some((_, waiter)) => {
                *waiter.is_released.lock() = true;
                waiter.released.notify_one();
            }
            None => state.free += 1,
        }
    }
}

/// A model whose requests need a permit.
pub struct Limited {
    llm: Arc<dyn Llm>,
    semaphore: Arc<PrioritySemaphore>,
    /// Cancels requests.
    stop: CancellationToken,
    progress: Arc<Meter>,
    /// Rank of the group that the question belongs to.
    rank: usize,
}

impl Limited {
    /// A model whose requests need a permit, until they are cancelled.
    pub fn new(
        llm: Arc<dyn Llm>,
        semaphore: &Arc<PrioritySemaphore>,
        stop: &CancellationToken,
        progress: &Arc<Meter>,
        rank: usize,
    ) -> Self {
        let llm = llm.until(stop, rank).unwrap_or(llm);
        Self { llm, semaphore: semaphore.clone(), stop: stop.clone(), progress: progress.clone(), rank }
    }

    /// Asks the model with a permit, and counts the tokens that the answer took.
    fn with_permit<T>(
        &self,
        ask: impl FnOnce(&dyn Llm) -> Result<T, Error>,
        usage: impl FnOnce(&T) -> Result<Usage, Error>,
    ) -> Result<T, Error> {
        let permit = self.semaphore.acquire(self.rank);
        self.stop.check()?;
        let answer = ask(&*self.llm)?;
        drop(permit);
        self.progress.answered(self.rank, &usage(&answer)?);
        Ok(answer)
    }
}

impl Llm for Limited {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        let usage = |reply: &Reply| check_numbers(&reply.tokens).map(|()| reply.usage);
        self.with_permit(|llm| llm.ask(chat, form, sampling), usage)
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, Error> {
        let usage = |all: &Vec<Scored>| {
            let mut usage = Usage::default();
            for scored in all {
                check_numbers(&scored.tokens)?;
                usage += &scored.usage;
            }
            Ok(usage)
        };
        self.with_permit(|llm| llm.score_continuations(chat, continuations), usage)
    }

    fn score(&self, chat: &Chat) -> Result<Scored, Error> {
        self.with_permit(|llm| llm.score(chat), |scored| Ok(scored.usage))
    }

    fn estimate(&self, texts: &MetricTexts<'_>) -> Result<Estimate, Error> {
        self.with_permit(|llm| llm.estimate(texts), |estimate| Ok(estimate.usage))
    }

    fn read(&self, chat: &Chat, text: &str, probe: &LinearProbe) -> Result<Scored, Error> {
        self.with_permit(|llm| llm.read(chat, text, probe), |scored| Ok(scored.usage))
    }

    fn states(&self, chat: &Chat, text: &str, depths: &[usize]) -> Result<States, Error> {
        self.with_permit(|llm| llm.states(chat, text, depths), |states| Ok(states.usage))
    }
}

/// Rejects answers whose log-probabilities are not numbers: such a model is broken.
fn check_numbers(tokens: &[Token]) -> Result<(), Error> {
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
        let semaphore = PrioritySemaphore::new(1);
        let first = semaphore.acquire(5);
        let (sender, order) = mpsc::channel();
        std::thread::scope(|scope| {
            for rank in [9, 2, 7] {
                let (sender, semaphore) = (sender.clone(), &semaphore);
                scope.spawn(move || {
                    let _entry = semaphore.acquire(rank);
                    sender.send(rank).unwrap();
                });
            }
            while semaphore.state.lock().waiting.len() < 3 {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(first);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [2, 7, 9]);
        assert_eq!(semaphore.state.lock().free, 1);
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
        assert!(check_numbers(&[token(-0.5), token(f64::NEG_INFINITY)]).is_ok());
        let said = check_numbers(&[token(-0.5), token(f64::NAN)]).unwrap_err().to_string();
        assert!(said.contains("not numbers"), "{said}");
    }
}
