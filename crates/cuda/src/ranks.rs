//! The decoder's operations on several GPUs that share a model. Each computes its shard of the heads and of
//! every matrix's outputs as one GPU computes all of them; then the other GPUs' columns of each row are
//! copied to every GPU. A sum never crosses GPUs, so the bits are those of one.
//!
//! ```text
//! x -> norm -> qkv -> attention of own heads -> | -> own columns of x += o -> | -> norm -> gate, up, own columns -> |
//!                             all heads' outputs brought together   whole rows of x                 all columns    |
//!                                                                  | <- own columns of x += down <------------------
//! ```
//!
//! A single thread drives all GPUs. A GPU reads another's results after `synchronize`: an event of each, that
//! all others wait for. Memory that another reads is not written again before the next `synchronize`, which
//! follows its reading. `exchange` gathers rows; GPUs without access to each other's memory have a `detour`
//! through this machine's.
//!
//! A recorded step is one graph over all GPUs: the capture begins on the first one and extends to the others
//! by `synchronize`, whose waits become the graph's edges.

mod detour;
mod exchange;
mod experts;
mod operations;

use cudarc::driver::{CudaEvent, sys::CUevent_flags};

use super::{
    Error, Group, Sizes,
    backend::Cuda,
    driver::failed,
    graphs::{Graphs, Run},
    shard::{Shard, SharedHeads},
};
use detour::Detour;
use tribunal_model::{self as model, Config, Result, backend::StepStatus};

/// GPUs with one model's cache and the current step, each with its shard.
pub struct Ranks {
    /// Launched on the first card. `None` where every kernel is launched by itself.
    graphs: Option<Graphs>,
    cards: Vec<Card>,
    /// `None` where each reaches the memory of all others.
    detour: Option<Detour>,
    whole: Config,
}

struct Card {
    cuda: Cuda,
    shard: Shard,
    ordinal: usize,
    /// The values of `--device` without this card, and how many of those GPUs then share the model.
    others: String,
    /// Recorded after its work before the last `synchronize`.
    done: CudaEvent,
}

impl Card {
    fn name<E: Into<model::Error>>(&self) -> impl Fn(E) -> model::Error {
        let (ordinal, others) = (self.ordinal, self.others.clone());
        move |error| {
            let error = error.into();
            match Error::of_model(&error).cloned() {
                Some(failure @ Error::Driver { .. }) => {
                    Error::Lost { ordinal, failure: Box::new(failure), others: others.clone() }.into()
                }
                Some(failure) => failure.on_card(ordinal).into(),
                None => error,
            }
        }
    }
}

/// The most GPUs of a group, without one, that can share the model, in the command line's notation.
fn without(lost: usize, group: &Group, config: &Config) -> String {
    let others = group.gpus().iter().map(super::Gpu::ordinal).filter(|ordinal| *ordinal != lost);
    let others: Vec<String> = others.map(|ordinal| ordinal.to_string()).collect();
    let possible = SharedHeads::from(Sizes::from(config)).possible_cards();
    let n_cards = possible.into_iter().filter(|n| *n <= others.len()).max().unwrap_or(1);
    format!("cuda:{} --tensor-parallel {n_cards}", others[..n_cards].join(","))
}

impl Ranks {
    /// GPUs without a cache.
    ///
    /// # Errors
    /// A number of GPUs that the model cannot be sharded over; one of them fails.
    pub(super) fn new(group: &Group, config: &Config) -> Result<Self> {
        group.config(config)?;
        let n_cards = group.gpus().len();
        let open = |(card, gpu): (usize, &super::Gpu)| {
            let shard = Shard { card, n_cards };
            let cuda = Cuda::sharded(gpu, config, shard)?;
            let done = gpu.context().new_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING));
            let done = done.map_err(failed("an event"))?;
            let others = without(gpu.ordinal(), group, config);
            Ok(Card { cuda, shard, ordinal: gpu.ordinal(), others, done })
        };
        let name = |(card, gpu): (usize, &super::Gpu)| {
            open((card, gpu)).map_err(|error: Error| error.on_card(gpu.ordinal()))
        };
        let cards = group.gpus().iter().enumerate().map(name).collect::<Result<Vec<Card>, Error>>()?;
        let records = group.gpus().iter().all(|gpu| gpu.graphs);
        let graphs = cards.first().filter(|_| records).map(|first| Graphs::new(first.cuda.stream()));
        let detour = (!group.has_peers()).then(|| Detour::new(&group.gpus()[0])).transpose()?;
        Ok(Self { cards, whole: config.clone(), graphs, detour })
    }

    /// Runs a closure on every card.
    fn each<T, E: Into<model::Error>>(&self, work: impl Fn(usize, &Cuda) -> Result<T, E>) -> Result<Vec<T>> {
        let on_card = |(i, card): (usize, &Card)| {
            card.cuda.here().map_err(card.name())?;
            work(i, &card.cuda).map_err(card.name())
        };
        self.cards.iter().enumerate().map(on_card).collect()
    }

    /// Runs a closure that changes the card's state on every card.
    fn each_mut<T, E: Into<model::Error>>(
        &mut self,
        mut work: impl FnMut(usize, &mut Cuda) -> Result<T, E>,
    ) -> Result<Vec<T>> {
        let on_card = |(i, card): (usize, &mut Card)| {
            card.cuda.here().map_err(card.name())?;
            work(i, &mut card.cuda).map_err(card.name())
        };
        self.cards.iter_mut().enumerate().map(on_card).collect()
    }

    /// Later work of any card waits for all earlier work of every card.
    fn synchronize(&self) -> Result<()> {
        for card in &self.cards {
            card.done.record(card.cuda.stream()).map_err(failed("an event")).map_err(card.name())?;
        }
        for (i, card) in self.cards.iter().enumerate() {
            for (_, other) in self.cards.iter().enumerate().filter(|(j, _)| *j != i) {
                let waits = card.cuda.stream().wait(&other.done);
                waits.map_err(failed("wait for another GPU")).map_err(card.name())?;
            }
        }
        Ok(())
    }

    /// Launches the current step as a whole, where it was recorded; else begins to record it, if it may be.
    fn begin_recorded(&mut self) -> Result<StepStatus> {
        let mut moved = false;
        for card in &mut self.cards {
            moved |= card.cuda.take_moved();
        }
        if let Some(graphs) = self.graphs.as_mut().filter(|_| moved) {
            graphs.forget();
        }
        let layout = self.cards[0].cuda.layout().cloned();
        let (Some(graphs), Some(layout)) = (&mut self.graphs, layout) else { return Ok(StepStatus::Execute) };
        if graphs.knows(&layout) {
            // A graph is launched on the first card alone: the numbers of all must have arrived by then.
            self.synchronize()?;
        }
        let (first, Some(graphs)) = (&mut self.cards[0], &mut self.graphs) else {
            return Ok(StepStatus::Execute);
        };
        first.cuda.here().map_err(first.name())?;
        match graphs.begin(&layout) {
            Ok(Run::Whole(at)) => {
                first.cuda.set_whole(at);
                return Ok(StepStatus::Replayed);
            }
            Ok(Run::Launches) if graphs.is_recording() => self.extend_capture()?,
            Ok(Run::Launches) => {}
            Err(error) => return Err(self.attribute(error)),
        }
        Ok(StepStatus::Execute)
    }

    /// Extends a capture that has begun on the first card to the others, which wait for an event of it.
    fn extend_capture(&self) -> Result<()> {
        let (first, others) = self.cards.split_first().expect("a group has cards");
        first.done.record(first.cuda.stream()).map_err(failed("an event")).map_err(first.name())?;
        for card in others {
            let waits = card.cuda.stream().wait(&first.done);
            waits.map_err(failed("wait for another GPU")).map_err(card.name())?;
        }
        Ok(())
    }

    /// Joins the other cards to the capture on the first one, which cannot end before: since the last
    /// `synchronize` they are part of it, even without work of their own.
    fn join_capture(&self) -> Result<()> {
        let (first, others) = self.cards.split_first().expect("a group has cards");
        for card in others {
            card.done.record(card.cuda.stream()).map_err(failed("an event")).map_err(card.name())?;
            let waits = first.cuda.stream().wait(&card.done);
            waits.map_err(failed("wait for another GPU")).map_err(first.name())?;
        }
        Ok(())
    }

    /// Attributes an error to the card that fails, if one does.
    fn attribute(&self, error: Error) -> model::Error {
        let fails = |card: &Card| card.cuda.finish().map_err(card.name()).err();
        // The first one waits for the others, and may fail because of them.
        self.cards.iter().rev().find_map(fails).unwrap_or_else(|| error.into())
    }

    /// Waits until all cards have finished: before memory that another may read is freed.
    fn finish(&mut self) -> Result<()> {
        if let Some(graphs) = &mut self.graphs {
            graphs.abandon();
        }
        self.each(|_, cuda| cuda.finish()).map(|_| ())
    }

    /// The end of each card's shard of `n` outputs, in bytes of `size` each.
    fn ends(&self, n: usize, size: usize) -> Vec<usize> {
        self.cards.iter().map(|card| size * card.shard.outputs(n, 1).end).collect()
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // The error of a lost GPU has been returned already.
        let _ = self.finish();
    }
}
