//! Sampled tokens and log-probabilities of a step's logits, and its hidden states: one launch and one copy
//! each.

#![expect(unsafe_code, reason = "kernel launches and copies trust their arguments")]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result};

use super::{
    super::{
        Error,
        arena::Slot,
        driver::failed,
        launch::{Argument, Shape},
        memory::Pinned,
        tail::{CHOICE_BYTES, FOUND_BYTES, WANT_BYTES, Wants},
    },
    Cuda, Values,
};
use tribunal_model::sampler::SampledToken;

/// Hidden states of a step on their way to the host.
#[derive(Default)]
pub(super) struct Noted {
    /// Rows that have been gathered and not fetched.
    n_gathered: usize,
    fetched: Vec<f32>,
}

/// Page-locked staging of sampling requests and results, for one caller at a time. Masks of many rows are
/// megabytes, so they are copied on a stream of their own while the device executes the step: their slot
/// belongs to no other operation.
pub(super) struct Staging {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Recorded after the upload of the requests.
    sent: CudaEvent,
    /// Page-locked; as long as the longest so far.
    wants: Pinned,
    choices: Pinned,
}

impl Staging {
    /// # Errors
    /// The device fails, or the system has no memory to lock.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let pinned = || Pinned::new(context, 1 << 14);
        Ok(Self {
            context: context.clone(),
            stream: context.new_stream().map_err(failed("a stream"))?,
            sent: context.new_event(None).map_err(failed("an event"))?,
            wants: pinned()?,
            choices: pinned()?,
        })
    }

    /// Ensures room for so many bytes, once the last ones have been copied.
    fn reserve(&mut self, wants: usize, choices: usize) -> Result<(), Error> {
        self.sent.synchronize().map_err(failed("send what is wanted"))?;
        for (pinned, bytes) in [(&mut self.wants, wants), (&mut self.choices, choices)] {
            if pinned.bytes().len() < bytes {
                *pinned = Pinned::new(&self.context, bytes.next_power_of_two())?;
            }
        }
        Ok(())
    }
}

impl Cuda {
    /// Copies bytes from the device, and waits for them.
    pub(super) fn fetch(&self, at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut fetched = vec![0_u8; bytes];
        // SAFETY: callers pass the address of at least `bytes` bytes of the arena; the stream is synchronised
        // before `fetched` is read or dropped.
        unsafe { result::memcpy_dtoh_async(&mut fetched, at, self.stream.cu_stream()) }
            .map_err(failed("fetch results"))?;
        self.stream.synchronize().map_err(failed("run a step"))?;
        Ok(fetched)
    }

    /// The model's softcap on logits, in place.
    pub(crate) fn cap_logits(&self, logits: &Values) -> Result<(), Error> {
        let Some(cap) = self.config.logit_softcap else { return Ok(()) };
        let (rows, vocab) = (logits.n_rows, self.config.vocab);
        let sizes = [rows, vocab].map(Argument::size);
        let floats = [cap, -2.0 / cap].map(Argument::Float);
        let shape = Shape::new([rows, vocab.div_ceil(256)], 256);
        // SAFETY: the logits are rows of `vocab` f32 in the arena.
        unsafe {
            let arguments = [&[Argument::At(logits.at())][..], &sizes, &floats].concat();
            self.launch(("softcap", "softcap"), shape, &arguments)
        }
    }

    /// The results of the requests, one after the other.
    pub(super) fn choose(&self, logits: u64, wants: &Wants<'_>) -> Result<Vec<Option<SampledToken>>, Error> {
        let n = wants.rows.len();
        // The slots belong to one caller at a time.
        let mut staging = self.staging.lock();
        self.here()?;
        let input = self.slot(Slot::Wants, wants.n_bytes())?;
        let output = self.slot(Slot::Choices, n * CHOICE_BYTES)?;
        staging.reserve(wants.n_bytes(), n * CHOICE_BYTES)?;
        let Staging { stream, sent, wants: pinned, choices, .. } = &mut *staging;
        let pinned = &mut pinned.bytes_mut()[..wants.n_bytes()];
        wants.write(pinned);
        // SAFETY: the slot has `n_bytes` bytes; the pinned memory is as long, and neither moved nor written
        // before `sent` has been waited for.
        unsafe { result::memcpy_htod_async(input, pinned, stream.cu_stream()) }
            .map_err(failed("send what is wanted"))?;
        sent.record(stream).map_err(failed("send what is wanted"))?;
        self.stream.wait(sent).map_err(failed("send what is wanted"))?;
        let masks = input + (n * WANT_BYTES) as u64;
        let found = self.slot(Slot::Found, n * FOUND_BYTES)?;
        let pointers = [logits, input, masks, found].map(Argument::At);
        let sizes = [n, self.config.vocab, wants.mask_words].map(Argument::size);
        let of_parts = [&pointers[..], &sizes].concat();
        let arguments = [&pointers[..], &[Argument::At(output)], &sizes].concat();
        // SAFETY: the logits have a row of `vocab` f32 for each request, the slots a request, a mask where it
        // has one, a choice and the partial results of 32 warps for each; all are 256-byte aligned places of
        // the arena.
        unsafe {
            self.launch(("tail", "tail_peaks"), Shape::new([8 * n, 1], 128), &of_parts)?;
            self.launch(("tail", "tail_sums"), Shape::new([8 * n, 1], 128), &of_parts)?;
            self.launch(("tail", "tail"), Shape::new([n, 1], 1024), &arguments)?;
        }
        let choices = &mut choices.bytes_mut()[..n * CHOICE_BYTES];
        // SAFETY: both have the bytes of n choices; the stream is synchronised before they are read.
        unsafe { result::memcpy_dtoh_async(choices, output, self.stream.cu_stream()) }
            .map_err(failed("fetch results"))?;
        self.stream.synchronize().map_err(failed("run a step"))?;
        Ok(Wants::choices(choices))
    }

    /// The most log-probabilities of one launch.
    pub(super) fn logprobs_at_once(&self) -> usize {
        let slots = [(Slot::Wants, WANT_BYTES), (Slot::Choices, CHOICE_BYTES), (Slot::Found, FOUND_BYTES)];
        let least = slots.into_iter().map(|(slot, bytes)| self.slot_bytes(slot) / bytes).min();
        least.unwrap_or(0).max(1)
    }

    /// Gathers the captured rows of the stream. Without room for more, the gathered ones are fetched first.
    pub(super) fn gather(&mut self, x: &Values) -> Result<(), Error> {
        let row_bytes = 4 * self.config.hidden;
        let most = self.slot_bytes(Slot::Noted) / row_bytes;
        let mut first = 0;
        while first < self.plan.n_noted {
            if self.noted.n_gathered == most {
                self.fetch_gathered()?;
            }
            let n = (self.plan.n_noted - first).min(most - self.noted.n_gathered);
            let to = self.slot(Slot::Noted, most * row_bytes)? + (self.noted.n_gathered * row_bytes) as u64;
            let rows = self.plan.noted.from(self.numbers()?) + 4 * first as u64;
            self.take_rows(x, rows, &Values::new(to, n), self.config.hidden, 4)?;
            self.noted.n_gathered += n;
            first += n;
        }
        Ok(())
    }

    /// Copies some rows of a matrix, whose numbers are at `rows`, by the kernel for its type.
    pub(super) fn take_rows(
        &self,
        x: &Values,
        rows: u64,
        to: &Values,
        width: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let n = to.n_rows;
        let kernel = if bytes == 4 { "take_rows_f32" } else { "take_rows_bf16" };
        let pointers = [x.at(), rows, to.at()].map(Argument::At);
        let sizes = [n, width].map(Argument::size);
        let shape = Shape::new([n, 1], 256);
        // SAFETY: x has a row of `width` values for each row of the step, `rows` has n indices of them, and
        // `to` room for n rows.
        unsafe { self.launch(("take_rows", kernel), shape, &[&pointers[..], &sizes].concat()) }
    }

    /// The captured rows, an entry for each capture.
    pub(super) fn gathered(&mut self) -> Result<Vec<Vec<f32>>, Error> {
        self.fetch_gathered()?;
        let all = std::mem::take(&mut self.noted).fetched;
        let of_one = (self.plan.n_noted * self.config.hidden).max(1);
        Ok(all.chunks_exact(of_one).map(<[f32]>::to_vec).collect())
    }

    fn fetch_gathered(&mut self) -> Result<(), Error> {
        let n = std::mem::take(&mut self.noted.n_gathered);
        if n > 0 {
            let bytes = 4 * n * self.config.hidden;
            let bytes = self.fetch(self.slot(Slot::Noted, bytes)?, bytes)?;
            self.noted.fetched.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        }
        Ok(())
    }
}
