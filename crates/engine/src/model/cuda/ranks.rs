//! The decoder's operations on several GPUs that have a model together. Each computes its share of the heads and of every
//! matrix's outputs as one GPU computes all of them; then what the others have of each row is brought to every GPU. A sum
//! never crosses GPUs, so the bits are those of one.
//!
//! ```text
//! x -> norm -> qkv -> attention of own heads -> | -> own columns of x += o -> | -> norm -> gate, up, own columns -> |
//!                             all heads' outputs brought together   whole rows of x                 all columns    |
//!                                                                  | <- own columns of x += down <------------------
//! ```
//!
//! One thread tells all GPUs what to do. A GPU reads what another has computed after a `meet`: an event of each, that all
//! others wait for. What another reads is not written again before the next `meet`, which comes after its reading.
//! `exchange` brings rows together; GPUs that do not reach each other's memory have a `detour` through this machine's.
//!
//! A recorded step is one graph over all GPUs: the recording begins on the first one and spreads to the others by `meet`,
//! whose waits become its edges.

mod detour;
mod exchange;
mod operations;

use cudarc::driver::{CudaEvent, sys::CUevent_flags};

use super::{
    Error, Group,
    backend::Cuda,
    driver::failed,
    graphs::{Graphs, Run},
    possible_cards,
    share::Share,
};
use crate::model::{self, Config, backend::Begun};
use detour::Detour;

/// GPUs with one model's cache and the step at hand, each with its share.
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
    share: Share,
    ordinal: usize,
    /// What `--device` may name without it, and how many of those have the model then.
    others: String,
    /// When it had done what it was told before the last `meet`.
    met: CudaEvent,
}

impl Card {
    fn name<E: Into<model::Error>>(&self) -> impl Fn(E) -> model::Error {
        let (ordinal, others) = (self.ordinal, self.others.clone());
        move |error| match error.into() {
            model::Error::Gpu(failure @ Error::Driver { .. }) => {
                Error::Lost { ordinal, failure: Box::new(failure), others: others.clone() }.into()
            }
            model::Error::Gpu(error) => error.on_card(ordinal).into(),
            error => error,
        }
    }
}

/// The most GPUs of a group but one that can have the model together, as the command line has it.
fn without(lost: usize, group: &Group, whole: &Config) -> String {
    let others = group.gpus().iter().map(super::Gpu::ordinal).filter(|ordinal| *ordinal != lost);
    let others: Vec<String> = others.map(|ordinal| ordinal.to_string()).collect();
    let possible = possible_cards(whole.n_heads, whole.n_kv_heads);
    let n_cards = possible.into_iter().filter(|n| *n <= others.len()).max().unwrap_or(1);
    format!("cuda:{} --tensor-parallel {n_cards}", others[..n_cards].join(","))
}

impl Ranks {
    /// GPUs without a cache yet.
    ///
    /// # Errors
    /// A number of GPUs that the model cannot be spread over; one of them fails.
    pub(super) fn new(group: &Group, whole: &Config) -> Result<Self, model::Error> {
        group.config(whole)?;
        let n_cards = group.gpus().len();
        let open = |(card, gpu): (usize, &super::Gpu)| {
            let share = Share { card, n_cards };
            let cuda = Cuda::sharing(gpu, whole, share)?;
            let met = gpu.context().new_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING));
            let met = met.map_err(failed("an event"))?;
            let others = without(gpu.ordinal(), group, whole);
            Ok(Card { cuda, share, ordinal: gpu.ordinal(), others, met })
        };
        let name = |(card, gpu): (usize, &super::Gpu)| {
            open((card, gpu)).map_err(|error: Error| error.on_card(gpu.ordinal()))
        };
        let cards = group.gpus().iter().enumerate().map(name).collect::<Result<Vec<Card>, Error>>()?;
        let records = group.gpus().iter().all(super::Gpu::records);
        let graphs = cards.first().filter(|_| records).map(|first| Graphs::new(first.cuda.stream()));
        let detour = (!group.has_peers()).then(|| Detour::new(&group.gpus()[0])).transpose()?;
        Ok(Self { cards, whole: whole.clone(), graphs, detour })
    }

    /// Does the same on every card.
    fn each<T, E: Into<model::Error>>(
        &self,
        work: impl Fn(usize, &Cuda) -> Result<T, E>,
    ) -> Result<Vec<T>, model::Error> {
        let on_card = |(i, card): (usize, &Card)| {
            card.cuda.here().map_err(card.name())?;
            work(i, &card.cuda).map_err(card.name())
        };
        self.cards.iter().enumerate().map(on_card).collect()
    }

    /// The same for what changes the card's state.
    fn each_mut<T, E: Into<model::Error>>(
        &mut self,
        mut work: impl FnMut(usize, &mut Cuda) -> Result<T, E>,
    ) -> Result<Vec<T>, model::Error> {
        let on_card = |(i, card): (usize, &mut Card)| {
            card.cuda.here().map_err(card.name())?;
            work(i, &mut card.cuda).map_err(card.name())
        };
        self.cards.iter_mut().enumerate().map(on_card).collect()
    }

    /// What is told to any card from here on waits until all have done what they were told before.
    fn meet(&self) -> Result<(), model::Error> {
        for card in &self.cards {
            card.met.record(card.cuda.stream()).map_err(failed("an event")).map_err(card.name())?;
        }
        for (i, card) in self.cards.iter().enumerate() {
            for (_, other) in self.cards.iter().enumerate().filter(|(j, _)| *j != i) {
                let waits = card.cuda.stream().wait(&other.met);
                waits.map_err(failed("wait for another GPU")).map_err(card.name())?;
            }
        }
        Ok(())
    }

    /// Launches the step at hand whole, where it was recorded; else it may be recorded from here on.
    fn begin_recorded(&mut self) -> Result<Begun, model::Error> {
        let mut moved = false;
        for card in &mut self.cards {
            moved |= card.cuda.take_moved();
        }
        if let Some(graphs) = self.graphs.as_mut().filter(|_| moved) {
            graphs.forget();
        }
        let layout = self.cards[0].cuda.layout().cloned();
        let (Some(graphs), Some(layout)) = (&mut self.graphs, layout) else { return Ok(Begun::Operations) };
        if graphs.knows(&layout) {
            // A graph is launched on the first card alone: all must have their numbers by then.
            self.meet()?;
        }
        let (first, Some(graphs)) = (&mut self.cards[0], &mut self.graphs) else {
            return Ok(Begun::Operations);
        };
        first.cuda.here().map_err(first.name())?;
        match graphs.begin(&layout) {
            Ok(Run::Whole(at)) => {
                first.cuda.set_whole(at);
                return Ok(Begun::Nothing);
            }
            Ok(Run::Launches) if graphs.is_recording() => self.spread()?,
            Ok(Run::Launches) => {}
            Err(error) => return Err(self.whose(error)),
        }
        Ok(Begun::Operations)
    }

    /// A recording that has begun on the first card takes in the others, since they wait for an event of it.
    fn spread(&self) -> Result<(), model::Error> {
        let (first, others) = self.cards.split_first().expect("a group has cards");
        first.met.record(first.cuda.stream()).map_err(failed("an event")).map_err(first.name())?;
        for card in others {
            let waits = card.cuda.stream().wait(&first.met);
            waits.map_err(failed("wait for another GPU")).map_err(card.name())?;
        }
        Ok(())
    }

    /// The error of all cards together, or of the one that fails.
    fn whose(&self, error: Error) -> model::Error {
        let fails = |card: &Card| card.cuda.finish().map_err(card.name()).err();
        // The first one waits for the others, and may fail for want of them.
        self.cards.iter().rev().find_map(fails).unwrap_or_else(|| error.into())
    }

    /// Waits until all cards have done everything: before memory that another may read is given back.
    fn finish(&mut self) -> Result<(), model::Error> {
        if let Some(graphs) = &mut self.graphs {
            graphs.abandon();
        }
        self.each(|_, cuda| cuda.finish()).map(|_| ())
    }

    /// Where each card's share of `n` outputs ends, in bytes of `size` each.
    fn ends(&self, n: usize, size: usize) -> Vec<usize> {
        self.cards.iter().map(|card| size * card.share.outputs(n, 1).end).collect()
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // A GPU that is lost has said so already.
        let _ = self.finish();
    }
}
