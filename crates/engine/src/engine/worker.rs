//! The engine's thread on one device: takes in requests, runs steps, answers.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::Receiver,
    },
};

use rayon::prelude::*;

use crate::{
    llm,
    model::{
        self, Model, Part,
        tail::{Choice, Want},
    },
};

use super::{
    answer::Answer,
    draft,
    scheduler::{Scheduler, Step},
    sequence::{Ask, SeqId},
    spin_workers::spin_workers,
};

/// A question on its way to the worker; the worker names it.
pub struct Request {
    pub ask: Ask,
    pub answer: Box<Answer>,
}

/// Everything that the engine's thread owns.
pub struct Worker {
    model: Box<dyn Model>,
    scheduler: Scheduler,
    inbox: Receiver<Request>,
    answers: HashMap<SeqId, Box<Answer>>,
    /// Whether answers guess ahead.
    drafts: bool,
    n_named: SeqId,
    /// Token positions so far, for whoever watches.
    computed: Arc<AtomicUsize>,
}

/// An answer that has rows in the step at hand.
struct Asked {
    id: SeqId,
    answer: Box<Answer>,
    /// The first of its rows among the step's wanted ones.
    first: usize,
    wants: Vec<Want>,
    /// Those of its rows after which several tokens are weighed, with these.
    more: Vec<(usize, Vec<u32>)>,
    /// Its rows among those whose hidden states are noted.
    noted: Range<usize>,
}

/// Log-probabilities after one row.
type Weighed = Result<Vec<f64>, llm::Error>;

impl Worker {
    /// A worker over a loaded model; the scheduler knows the blocks of its cache.
    #[must_use]
    pub fn new(model: Box<dyn Model>, scheduler: Scheduler, inbox: Receiver<Request>, drafts: bool) -> Self {
        let computed = Arc::default();
        Self { model, scheduler, inbox, answers: HashMap::new(), drafts, n_named: 0, computed }
    }

    /// The number of token positions that it has computed, as it grows.
    #[must_use]
    pub fn computed(&self) -> Arc<AtomicUsize> {
        self.computed.clone()
    }

    /// Runs until all senders are dropped.
    pub fn run(mut self) {
        while self.receive() {
            let step =
                if self.model.computes_on_threads() { spin_workers(|| self.step()) } else { self.step() };
            if let Err(error) = step {
                return self.give_up(&llm::Error::Stopped(error.to_string()));
            }
        }
    }

    /// One step, from the scheduler's choice to the answers' next tokens. While a GPU runs the model, the answers
    /// say what they want of its logits.
    fn step(&mut self) -> Result<(), model::Error> {
        let step = self.scheduler.next_step();
        let depths = self.depths(&step);
        self.model.run(described(&step).at_depths(depths.iter().copied()))?;
        let mut asked = self.ask(&step);
        self.hand_over_states(&mut asked, &depths);
        let wants: Vec<Want> = asked.iter().flat_map(|asked| asked.wants.iter().cloned()).collect();
        match self.model.take(&wants) {
            Ok(choices) => {
                self.scheduler.computed(&step);
                let n_tokens = step.chunks.iter().map(|chunk| chunk.tokens.len()).sum();
                self.computed.fetch_add(n_tokens, Ordering::Relaxed);
                self.finish(asked, &choices);
                Ok(())
            }
            Err(error) => {
                // They are told with all the others.
                self.answers.extend(asked.into_iter().map(|asked| (asked.id, asked.answer)));
                Err(error)
            }
        }
    }

    /// Takes in new requests and drops those that nobody waits for; waits when there is nothing to do. False when none
    /// can come any more.
    fn receive(&mut self) -> bool {
        loop {
            while let Ok(request) = self.inbox.try_recv() {
                self.enqueue(request);
            }
            self.drop_abandoned();
            if !self.scheduler.is_idle() {
                return true;
            }
            let Ok(request) = self.inbox.recv() else { return false };
            self.enqueue(request);
        }
    }

    /// Drops the answers that nobody waits for, the latest first: what an earlier one computes may be what they wait for.
    fn drop_abandoned(&mut self) {
        let abandoned = self.answers.iter().filter(|(_, answer)| answer.is_abandoned());
        let mut ids: Vec<SeqId> = abandoned.map(|(id, _)| *id).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        for id in ids {
            if self.scheduler.cancel(id) {
                self.answers.remove(&id);
            }
        }
    }

    fn enqueue(&mut self, mut request: Request) {
        self.n_named += 1;
        request.ask.id = self.n_named;
        self.answers.insert(self.n_named, request.answer);
        self.scheduler.add(request.ask);
    }

    /// The answers that have rows in the step, in its order, with what they want of them.
    fn ask(&mut self, step: &Step) -> Vec<Asked> {
        let (mut first, mut first_noted) = (0, 0);
        let mut waiting = Vec::new();
        for chunk in &step.chunks {
            let (n_logits, n_states) = (chunk.n_logits(), chunk.n_states());
            let noted = first_noted..first_noted + n_states;
            if n_logits + n_states > 0 {
                let answer = self.answers.remove(&chunk.id).expect("a running row has an answer");
                waiting.push((chunk.id, answer, first, n_logits, noted));
            }
            first += n_logits;
            first_noted += n_states;
        }
        let asked =
            |(id, mut answer, first, n_logits, noted): (SeqId, Box<Answer>, usize, usize, Range<usize>)| {
                let more = answer.more(n_logits);
                let wants = answer.wants(n_logits);
                Asked { id, answer, first, wants, more, noted }
            };
        if is_light(waiting.iter().map(|(_, answer, ..)| &**answer), first) {
            waiting.into_iter().map(asked).collect()
        } else {
            waiting.into_par_iter().map(asked).collect()
        }
    }

    /// After how many layers the step's answers want hidden states.
    fn depths(&self, step: &Step) -> Vec<u32> {
        let noting = step.chunks.iter().filter(|chunk| chunk.n_states() > 0);
        let depths =
            noting.filter_map(|chunk| self.answers.get(&chunk.id)).flat_map(|answer| answer.depths());
        depths.copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Gives every answer the hidden states of its rows. `depths` are the step's, which are those of all answers.
    fn hand_over_states(&self, asked: &mut [Asked], depths: &[u32]) {
        let width = self.model.config().hidden;
        let states = self.model.noted();
        for Asked { answer, noted, .. } in asked.iter_mut().filter(|asked| !asked.noted.is_empty()) {
            let wanted = answer.depths().to_vec();
            let at = |depth: &u32| depths.iter().position(|known| known == depth);
            let rows =
                wanted.iter().filter_map(at).map(|i| &states[i][noted.start * width..noted.end * width]);
            answer.note_states(noted.len(), rows);
        }
    }

    /// Lets every answer take its rows, and sends those that are complete.
    fn finish(&mut self, asked: Vec<Asked>, choices: &[Option<Choice>]) {
        let n_drafts = if self.drafts { draft::share(asked.len(), self.model.cheap_rows()) } else { 0 };
        let model = &*self.model;
        let weighed = weigh(model, &asked);
        let take = |Asked { id, mut answer, first, wants, .. }: Asked| {
            // One token beside those that were weighed together is what the budget asks for in a choice's place.
            let logprobs = |row: usize, ids: &[u32]| match weighed.get(&(first + row)) {
                Some(weighed) if ids.len() > 1 => weighed.clone(),
                _ => logprobs_of(model, &[(first + row, ids)]).remove(0),
            };
            answer.take(&choices[first..first + wants.len()], n_drafts, logprobs);
            (id, answer)
        };
        let light = n_drafts == 0 && is_light(asked.iter().map(|asked| &*asked.answer), choices.len());
        let outcomes: Vec<(SeqId, Box<Answer>)> = if light {
            asked.into_iter().map(take).collect()
        } else {
            asked.into_par_iter().map(take).collect()
        };
        for (id, answer) in outcomes {
            if answer.is_generated() {
                let further = answer.ids(self.scheduler.n_settled(id));
                self.scheduler.set_answer(id, &further, answer.n_noted());
            }
            if answer.is_over() {
                answer.send(&self.scheduler.finish(id));
            } else {
                self.answers.insert(id, answer);
            }
        }
    }

    /// Tells everyone who is waiting, or asks later, that the engine has failed.
    fn give_up(mut self, error: &llm::Error) {
        for (_, answer) in self.answers.drain() {
            answer.send_error(error);
        }
        while let Ok(request) = self.inbox.recv() {
            request.answer.send_error(error);
        }
    }
}

/// Whether answers that have so many rows in a step take less time than it takes to wake other threads for them: none
/// has a form to follow, and none more than a token.
fn is_light<'a>(mut answers: impl ExactSizeIterator<Item = &'a Answer>, n_rows: usize) -> bool {
    n_rows <= answers.len() && !answers.any(Answer::has_form)
}

/// Weighs all that is weighed together after one row, of all rows at once; by row.
fn weigh(model: &dyn Model, asked: &[Asked]) -> HashMap<usize, Weighed> {
    let rows = asked.iter().flat_map(|Asked { first, more, .. }| more.iter().map(move |more| (first, more)));
    let rows: Vec<(usize, &[u32])> = rows.map(|(first, (row, ids))| (first + row, &ids[..])).collect();
    if rows.is_empty() {
        return HashMap::new();
    }
    rows.iter().map(|(row, _)| *row).zip(logprobs_of(model, &rows)).collect()
}

/// The log-probabilities of tokens after some rows, an entry for each row.
fn logprobs_of(model: &dyn Model, rows: &[(usize, &[u32])]) -> Vec<Weighed> {
    let failed = |error: model::Error| llm::Error::Engine(error.to_string());
    let none = || failed(model::Error::Step("the logits are not numbers".into()));
    match model.logprobs(rows) {
        Ok(logprobs) => logprobs.into_iter().map(|logprobs| logprobs.ok_or_else(none)).collect(),
        Err(error) => vec![Err(failed(error)); rows.len()],
    }
}

/// The scheduler's step as the model takes it.
fn described(step: &Step) -> model::Step {
    let parts = step.chunks.iter().map(|chunk| Part {
        tokens: &chunk.tokens,
        position: chunk.position,
        blocks: &chunk.blocks,
        logits_from: chunk.logits_from,
        states_from: chunk.states_from,
        adapter: chunk.variant.adapter,
    });
    let described = model::Step::new(parts, step.copies.iter().map(|copy| (copy.from, copy.to)).collect());
    let n_layers: Option<Vec<u32>> = step.chunks.iter().map(|chunk| chunk.variant.n_layers).collect();
    described.up_to_layer(n_layers.and_then(|each| each.into_iter().max()))
}
