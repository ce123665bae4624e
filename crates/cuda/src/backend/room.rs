//! The memory of steps: allocated once for the largest step, or as needed where its size is not known.

#![expect(unsafe_code, reason = "the driver is a C library")]

use cudarc::driver::result;

use super::{
    super::{
        Error, Sizes,
        arena::{Arena, Extent, Extra, Places, Slot},
        driver::failed,
        experts::Experts,
        products::SplitK,
        weights::Linear,
    },
    Cuda, Values,
};

impl Cuda {
    /// Rows of `row_bytes` each, in a slot.
    pub(crate) fn values(&self, slot: Slot, n_rows: usize, row_bytes: usize) -> Result<Values, Error> {
        Ok(Values::new(self.slot(slot, n_rows * row_bytes)?, n_rows))
    }

    /// The address of a slot, of which so many bytes are used.
    pub(super) fn slot(&self, slot: Slot, bytes: usize) -> Result<u64, Error> {
        let none = || Error::Room("there is none".into());
        self.arena.as_ref().ok_or_else(none)?.at(slot, bytes)
    }

    /// Bytes of a slot.
    pub(super) fn slot_bytes(&self, slot: Slot) -> usize {
        self.arena.as_ref().map_or(0, |arena| arena.len(slot))
    }

    pub(super) fn sizes(&self) -> Sizes {
        (&self.config).into()
    }

    pub(super) fn extra(&self) -> Extra {
        *self.extra.lock()
    }

    /// The most KV splits of attention in a step.
    pub(super) fn most_splits(&self) -> usize {
        let prepared = self.arena.as_ref().filter(|_| self.prepared);
        prepared.map_or_else(|| self.sizes().most_splits(), |arena| arena.extent.splits)
    }

    /// Adds products with these weights to the needed memory.
    pub(super) fn add_linear(&self, linear: &Linear) {
        let mut extra = self.extra.lock();
        for part in &linear.parts {
            extra.add_weight(part.n, linear.k, part.k_slice);
            if part.way.panel(usize::MAX).is_some() {
                extra.panel = extra.panel.max(2 * part.n * linear.k);
            }
        }
    }

    /// Adds products with these experts to the needed memory.
    pub(super) fn add_experts(&self, experts: &Experts) {
        self.add_linear(&experts.router);
        if let Some(shared) = &experts.shared {
            self.add_linear(&shared.gate_up);
            self.add_linear(&shared.down);
        }
        let mut extra = self.extra.lock();
        for stack in [&experts.gate_up, &experts.down] {
            if stack.way.panel(usize::MAX).is_some() {
                extra.panel = extra.panel.max(2 * experts.n * stack.n * stack.k);
            }
        }
    }

    /// Adds an adapter to the needed memory; the arena is allocated anew.
    pub(super) fn adapts(&mut self, linear: &Linear) {
        let extra = self.extra.get_mut();
        extra.n_adapters = extra.n_adapters.max(linear.adapters.len());
        if let Some(table) = linear.adapters.table() {
            extra.ranks = extra.ranks.max(table.n_matrices * table.max_rank);
        }
        self.forget_recordings();
        (self.arena, self.prepared) = (None, false);
    }

    /// Returns true if a step of this extent fits without a new allocation.
    pub(crate) fn holds(&self, extent: Extent) -> bool {
        self.arena.as_ref().is_some_and(|arena| arena.extent.holds(extent))
    }

    /// Ensures that a step of this extent fits.
    pub(super) fn hold(&mut self, extent: Extent) -> Result<(), Error> {
        if self.holds(extent) {
            return Ok(());
        }
        let now = self.arena.as_ref().map_or_else(Extent::default, |arena| arena.extent);
        if self.prepared {
            return Err(Error::Room(format!("{extent:?} in {now:?}")));
        }
        self.make(now.with(extent))
    }

    /// Ensures that products of so many rows with a weight fit.
    pub(crate) fn hold_products(&mut self, rows: usize, weight: &Linear) -> Result<(), Error> {
        self.add_linear(weight);
        self.hold(Extent { rows, ..Extent::default() })
    }

    pub(super) fn make(&mut self, extent: Extent) -> Result<(), Error> {
        self.stream.synchronize().map_err(failed("run a step"))?;
        self.forget_recordings();
        self.arena = None;
        let places = Places::new(extent, self.sizes(), self.extra());
        self.arena = Some(Arena::new(self.gpu.context(), extent, places, self.gpu.apart)?);
        let semaphores = self.slot(Slot::Semaphores, SplitK::SEMAPHORE_BYTES)?;
        // SAFETY: the slot has `SEMAPHORE_BYTES` bytes of the arena that was allocated above.
        unsafe { result::memset_d8_async(semaphores, 0, SplitK::SEMAPHORE_BYTES, self.stream.cu_stream()) }
            .map_err(failed("write memory"))
    }
}
