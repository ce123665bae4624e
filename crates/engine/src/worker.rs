//! The engine's thread on one device: it receives requests, runs steps and sends replies.

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
use tribunal_core::digest::hash_of_bits;

use crate::{
    llm,
    model::{
        self, Model, Part,
        backend::Recheck,
        sampler::{SampleRequest, SampledToken},
    },
};

use super::{
    answer::Answer,
    draft,
    generate::Generate,
    radix::Prefix,
    saved::Saving,
    scheduler::{Batch, Chunk, Scheduler, Stored},
    sequence::{Request, SeqId},
    spin_workers::spin_workers,
    watch::StepWatch,
};

/// One recheck in so many has plain attention.
const PLAIN_ATTENTION_EVERY: usize = 32;

/// The most pairs of a row and a key that plain attention computes: 256 answers of 16,384 tokens, or a prompt
/// of 2,048.
const MOST_PAIRS: usize = 1 << 22;

/// A request with its answer; the worker assigns the sequence's id.
pub struct Submission {
    pub request: Request,
    pub answer: Box<Answer>,
}

/// A message to the engine's thread.
pub enum Message {
    Ask(Submission),
    /// Prompts will begin with this prefix.
    Announce(Prefix),
}

/// The state of the engine's thread.
pub struct Worker {
    model: Box<dyn Model>,
    scheduler: Scheduler,
    inbox: Receiver<Message>,
    answers: HashMap<SeqId, Box<Answer>>,
    /// True if answers draft tokens.
    drafts: bool,
    last_id: SeqId,
    /// Token positions computed so far.
    computed: Arc<AtomicUsize>,
    watch: Arc<StepWatch>,
    /// One step in so many is computed a second time; 0: none.
    recheck_every: usize,
    /// Rechecks before one with plain attention is due.
    until_plain: usize,
    /// Steps since the last one that was computed a second time.
    unchecked: usize,
    /// Rows of prompts in the last step.
    prompt_rows: usize,
    /// `None` where prefixes are not saved.
    saving: Option<Saving>,
}

/// An answer that has rows in the current step.
struct Scheduled {
    id: SeqId,
    answer: Box<Answer>,
    /// Its rows among those whose logits are computed.
    rows: Range<usize>,
    /// One for each of these rows, until the step takes them.
    requests: Vec<SampleRequest>,
    /// The rows after which several tokens are scored, with these tokens.
    several: Vec<(usize, Vec<u32>)>,
    /// The answer's rows among those whose hidden states are captured.
    states: Range<usize>,
}

/// Log-probabilities of tokens after one row.
type Logprobs = llm::Result<Vec<f64>>;

impl Worker {
    /// A worker over a loaded model; the scheduler manages the blocks of its cache.
    pub fn new(model: Box<dyn Model>, scheduler: Scheduler, inbox: Receiver<Message>, drafts: bool) -> Self {
        Self {
            model,
            scheduler,
            inbox,
            answers: HashMap::new(),
            drafts,
            last_id: 0,
            computed: Arc::default(),
            watch: Arc::new(StepWatch::new(String::new(), None)),
            recheck_every: 0,
            until_plain: 0,
            unchecked: 0,
            prompt_rows: 0,
            saving: None,
        }
    }

    /// This worker with steps that others can watch, of which one in `recheck_every` is computed a second
    /// time; 0: none.
    #[must_use]
    pub fn watched(self, watch: Arc<StepWatch>, recheck_every: usize) -> Self {
        Self { watch, recheck_every, ..self }
    }

    /// This worker, which saves prefixes in files.
    #[must_use]
    pub fn saving(self, saving: Option<Saving>) -> Self {
        Self { saving, ..self }
    }

    /// A counter of the token positions computed so far.
    pub fn computed(&self) -> Arc<AtomicUsize> {
        self.computed.clone()
    }

    /// Runs until all senders are dropped.
    pub fn run(mut self) {
        while self.receive() {
            let step = if self.model.runtime().computes_on_threads() {
                spin_workers(|| self.step())
            } else {
                self.step()
            };
            if let Err(error) = step {
                return self.fail(&error);
            }
        }
    }

    /// One step, from the scheduler's choice to the answers' next tokens. While a GPU runs the model, the
    /// sampling requests are made.
    fn step(&mut self) -> llm::Result<()> {
        let batch = self.scheduler.next_batch();
        self.watch.begin(batch.chunks.len(), batch.chunks.iter().map(|chunk| chunk.tokens.len()).sum());
        let step = self.compute(&batch);
        self.watch.end();
        step
    }

    fn compute(&mut self, batch: &Batch) -> llm::Result<()> {
        let depths = self.depths(batch);
        self.model
            .run(model_step(batch).at_depths(depths.iter().copied()))
            .map_err(|error| stopped(&error))?;
        self.recheck(batch, &depths)?;
        let mut scheduled = self.scheduled(batch);
        self.append_states(&mut scheduled, &depths);
        let requests: Vec<SampleRequest> =
            scheduled.iter_mut().flat_map(|one| std::mem::take(&mut one.requests)).collect();
        match self.model.runtime().take(&requests) {
            Ok(sampled) => {
                self.scheduler.computed(batch);
                self.save_prefixes();
                let of_prompts = batch.chunks.iter().filter(|chunk| chunk.n_logits() == 0);
                self.prompt_rows = of_prompts.map(|chunk| chunk.tokens.len()).sum();
                let n_tokens = batch.chunks.iter().map(|chunk| chunk.tokens.len()).sum();
                self.computed.fetch_add(n_tokens, Ordering::Relaxed);
                self.finish(scheduled, &sampled);
                Ok(())
            }
            Err(error) => {
                // They get the error with all the others.
                self.answers.extend(scheduled.into_iter().map(|scheduled| (scheduled.id, scheduled.answer)));
                Err(stopped(&error))
            }
        }
    }

    /// Computes one step in so many a second time, by the kernels with the longest record, each launched by
    /// itself. No other check would detect a wrong kernel, or a missing wait.
    fn recheck(&mut self, batch: &Batch, depths: &[u32]) -> llm::Result<()> {
        self.unchecked += 1;
        let has_results = batch.chunks.iter().any(|chunk| chunk.n_logits() + chunk.n_states() > 0);
        if self.recheck_every == 0 || self.unchecked < self.recheck_every || !has_results {
            return Ok(());
        }
        self.unchecked = 0;
        let recheck = self.kernels_of_recheck(batch);
        let first = self.hashes_of_results()?;
        self.model
            .run_again(model_step(batch).at_depths(depths.iter().copied()), recheck)
            .map_err(|error| stopped(&error))?;
        let second = self.hashes_of_results()?;
        for (idx, (first, second)) in first.iter().zip(&second).enumerate() {
            let Some(row) = first.iter().zip(second).position(|(first, second)| first != second) else {
                continue;
            };
            self.watch.differ();
            let kernels = match recheck {
                Recheck::Proven => "the proven kernels",
                Recheck::PlainAttention => "the proven kernels with plain attention",
            };
            let results = match idx.checked_sub(1) {
                None => "logits".to_owned(),
                Some(depth) => format!("hidden states after layer {}", depths[depth]),
            };
            let n_rows = second.len();
            return Err(llm::Error::Differs(format!(
                "{kernels} give other {results} in row {row} of {n_rows}"
            )));
        }
        self.watch.confirm();
        Ok(())
    }

    /// The kernels of the next recheck: the first one and every [`PLAIN_ATTENTION_EVERY`]th after it has
    /// plain attention, if the step has few enough pairs of rows and keys; it is then due at a later one.
    fn kernels_of_recheck(&mut self, batch: &Batch) -> Recheck {
        let pairs = |chunk: &Chunk| chunk.tokens.len() * (chunk.position + chunk.tokens.len());
        if self.until_plain == 0 && batch.chunks.iter().map(pairs).sum::<usize>() <= MOST_PAIRS {
            self.until_plain = PLAIN_ATTENTION_EVERY - 1;
            return Recheck::PlainAttention;
        }
        self.until_plain = self.until_plain.saturating_sub(1);
        Recheck::Proven
    }

    /// A hash of each row of the step's logits, then of its hidden states at each depth: rows that differ in
    /// one bit have different ones. The logits of two computations are gigabytes where every row has some.
    fn hashes_of_results(&self) -> llm::Result<Vec<Vec<u64>>> {
        let mut of_logits = Vec::new();
        let visit = &mut |row: &[f32]| of_logits.push(hash_of_bits(row));
        self.model.runtime().each_logits(visit).map_err(|error| stopped(&error))?;
        let hidden = self.model.config().hidden;
        let states = self.model.hidden_states().iter();
        let of_states = states.map(|states| states.chunks_exact(hidden).map(hash_of_bits).collect());
        Ok(std::iter::once(of_logits).chain(of_states).collect())
    }

    /// Receives new requests and drops cancelled ones; blocks when there is nothing to do. Returns false once
    /// all senders are dropped.
    fn receive(&mut self) -> bool {
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.enter(message);
            }
            self.drop_cancelled();
            if !self.scheduler.is_idle() {
                return true;
            }
            let Ok(message) = self.inbox.recv() else { return false };
            self.enter(message);
        }
    }

    fn enter(&mut self, message: Message) {
        match message {
            Message::Ask(submission) => self.enqueue(submission),
            Message::Announce(prefix) => self.restore(&prefix),
        }
    }

    /// Reads a prefix from its file, where there is one, unless the cache has it.
    fn restore(&mut self, prefix: &Prefix) {
        let Some(saving) = &mut self.saving else { return };
        if self.scheduler.stored(prefix).is_some() {
            return;
        }
        let Some(bytes) = saving.find(prefix) else { return self.scheduler.keep_state_after(prefix) };
        if let Some((n_known, Stored { blocks, state })) = self.scheduler.restore(prefix) {
            self.model.runtime_mut().write_prefix(&blocks, state, &bytes[n_known * saving.block_bytes()..]);
        }
    }

    /// Saves the prefixes that have been computed.
    fn save_prefixes(&mut self) {
        let Self { saving: Some(saving), scheduler, model, .. } = self else { return };
        saving.save(|prefix| {
            let Stored { blocks, state } = scheduler.stored(prefix)?;
            model.runtime().read_prefix(&blocks, state)
        });
    }

    /// Drops cancelled answers.
    fn drop_cancelled(&mut self) {
        let cancelled = self.answers.iter().filter(|(_, answer)| answer.is_cancelled());
        for id in self.scheduler.cancel_all(cancelled.map(|(id, _)| *id)) {
            self.answers.remove(&id);
        }
    }

    fn enqueue(&mut self, Submission { mut request, answer }: Submission) {
        self.last_id += 1;
        request.id = self.last_id;
        self.answers.insert(self.last_id, answer);
        self.scheduler.add(request);
    }

    /// The answers that have rows in the step, in its order, with their sampling requests.
    fn scheduled(&mut self, batch: &Batch) -> Vec<Scheduled> {
        let (mut rows, mut states) = (0..0, 0..0);
        let mut waiting = Vec::new();
        for chunk in &batch.chunks {
            rows = rows.end..rows.end + chunk.n_logits();
            states = states.end..states.end + chunk.n_states();
            if rows.len() + states.len() > 0 {
                let answer = self.answers.remove(&chunk.id).expect("a running row has an answer");
                let (rows, states, requests, several) = (rows.clone(), states.clone(), vec![], vec![]);
                waiting.push(Scheduled { id: chunk.id, answer, rows, requests, several, states });
            }
        }
        let scheduled = |one: Scheduled| {
            let mut answer = one.answer;
            let several = answer.rows_of_several(one.rows.len());
            let requests = answer.requests(one.rows.len());
            Scheduled { answer, requests, several, ..one }
        };
        if is_light(waiting.iter().map(|one| &*one.answer), rows.end) {
            waiting.into_iter().map(scheduled).collect()
        } else {
            waiting.into_par_iter().map(scheduled).collect()
        }
    }

    /// The numbers of layers after which hidden states are captured in the step, ascending.
    fn depths(&self, batch: &Batch) -> Vec<u32> {
        let captured = batch.chunks.iter().filter(|chunk| chunk.n_states() > 0);
        let depths =
            captured.filter_map(|chunk| self.answers.get(&chunk.id)).flat_map(|answer| answer.depths());
        depths.copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Appends to every answer the hidden states of its rows. `depths` are the step's, which include those of
    /// all answers.
    fn append_states(&self, scheduled: &mut [Scheduled], depths: &[u32]) {
        let width = self.model.config().hidden;
        let all = self.model.hidden_states();
        for Scheduled { answer, states, .. } in scheduled.iter_mut().filter(|one| !one.states.is_empty()) {
            let of_answer = answer.depths().to_vec();
            let at = |depth: &u32| depths.iter().position(|known| known == depth);
            let rows =
                of_answer.iter().filter_map(at).map(|i| &all[i][states.start * width..states.end * width]);
            answer.append_states(states.len(), rows);
        }
    }

    /// Passes every answer its rows, and sends those that are complete.
    fn finish(&mut self, scheduled: Vec<Scheduled>, sampled: &[Option<SampledToken>]) {
        // Beside prompts no row is cheap.
        let n_rows = scheduled.len() + self.prompt_rows;
        let n_drafts = if self.drafts { draft::share(n_rows, self.model.runtime().cheap_rows()) } else { 0 };
        let model = &*self.model;
        let of_several = score_rows(model, &scheduled);
        let take = |Scheduled { id, mut answer, rows, .. }: Scheduled| {
            // A single token is the one that a generated answer's budget requires instead of the sampled one.
            let logprobs = |row: usize, ids: &[u32]| match of_several.get(&(rows.start + row)) {
                Some(logprobs) if ids.len() > 1 => logprobs.clone(),
                _ => logprobs_of(model, &[(rows.start + row, ids)]).remove(0),
            };
            answer.take(&sampled[rows.clone()], n_drafts, logprobs);
            (id, answer)
        };
        let light = n_drafts == 0 && is_light(scheduled.iter().map(|one| &*one.answer), sampled.len());
        let taken: Vec<(SeqId, Box<Answer>)> = if light {
            scheduled.into_iter().map(take).collect()
        } else {
            scheduled.into_par_iter().map(take).collect()
        };
        for (id, answer) in taken {
            if let Some(generated) = answer.generated() {
                let further = generated.ids(self.scheduler.n_settled(id));
                self.scheduler.set_answer(id, &further, generated.n_settled());
            }
            if answer.is_over() {
                answer.send(&self.scheduler.finish(id));
            } else {
                self.answers.insert(id, answer);
            }
        }
    }

    /// Sends an error to all waiting callers, and to those of later requests.
    fn fail(mut self, error: &llm::Error) {
        for (_, answer) in self.answers.drain() {
            answer.send_error(error);
        }
        while let Ok(message) = self.inbox.recv() {
            if let Message::Ask(submission) = message {
                submission.answer.send_error(error);
            }
        }
    }
}

fn stopped(error: &model::Error) -> llm::Error {
    llm::Error::Stopped(error.to_string())
}

/// Returns true if the work on a step's answers takes less time than waking other threads for it: none has a
/// form to follow, and none has more than one row.
fn is_light<'a>(mut answers: impl ExactSizeIterator<Item = &'a Answer>, n_rows: usize) -> bool {
    n_rows <= answers.len() && !answers.any(|answer| answer.generated().is_some_and(Generate::has_form))
}

/// Scores the rows with several tokens, all at once; by row.
fn score_rows(model: &dyn Model, scheduled: &[Scheduled]) -> HashMap<usize, Logprobs> {
    let rows = scheduled.iter().flat_map(|one| one.several.iter().map(move |row| (one.rows.start, row)));
    let rows: Vec<(usize, &[u32])> = rows.map(|(first, (row, ids))| (first + row, &ids[..])).collect();
    if rows.is_empty() {
        return HashMap::new();
    }
    rows.iter().map(|(row, _)| *row).zip(logprobs_of(model, &rows)).collect()
}

/// The log-probabilities of tokens after some rows, an entry for each row.
fn logprobs_of(model: &dyn Model, rows: &[(usize, &[u32])]) -> Vec<Logprobs> {
    let failed = |error: model::Error| llm::Error::Engine(error.to_string());
    let none = || failed(model::Error::Step("the logits are not numbers".into()));
    match model.runtime().logprobs(rows) {
        Ok(logprobs) => logprobs.into_iter().map(|logprobs| logprobs.ok_or_else(none)).collect(),
        Err(error) => vec![Err(failed(error)); rows.len()],
    }
}

/// The scheduler's step in the terms of the model.
fn model_step(batch: &Batch) -> model::Step {
    let parts = batch.chunks.iter().map(|chunk| Part {
        tokens: &chunk.tokens,
        position: chunk.position,
        blocks: &chunk.blocks,
        logits_from: chunk.logits_from,
        states_from: chunk.states_from,
        adapter: chunk.variant.adapter,
        state: chunk.state,
    });
    let model_step = model::Step::new(parts, batch.copies.iter().map(|copy| (copy.from, copy.to)).collect());
    let n_layers: Option<Vec<u32>> = batch.chunks.iter().map(|chunk| chunk.variant.n_layers).collect();
    let model_step = model_step.with_state_copies(batch.state_copies.clone());
    model_step.up_to_layer(n_layers.and_then(|each| each.into_iter().max()))
}
