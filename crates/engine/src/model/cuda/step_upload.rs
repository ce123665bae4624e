//! A step's numbers on their way to the device, where they always lie in the same place.

#![expect(unsafe_code, reason = "a copy to the device")]

use cudarc::driver::{CudaEvent, CudaStream, result};

use super::{
    Error, Gpu,
    driver::failed,
    memory::{Memory, Pinned},
};

/// The least bytes that are reserved for a step.
const LEAST: usize = 1 << 16;

/// Page-locked memory that a step's numbers are written to, and the device's that they are sent to.
pub(super) struct StepUpload {
    gpu: Gpu,
    pinned: Option<Pinned>,
    /// When the last numbers were sent.
    sent: CudaEvent,
    numbers: Option<Memory>,
}

impl StepUpload {
    /// # Errors
    /// The device fails.
    pub(super) fn new(gpu: &Gpu) -> Result<Self, Error> {
        let sent = gpu.context().new_event(None).map_err(failed("an event"))?;
        Ok(Self { gpu: gpu.clone(), pinned: None, sent, numbers: None })
    }

    /// Where the numbers of the step are.
    pub(super) fn at(&self) -> u64 {
        self.numbers.as_ref().map_or(0, Memory::at)
    }

    /// Makes room for `n` numbers; whether they will lie in another place than the last ones.
    ///
    /// # Errors
    /// The device has no memory for them, or the system none to lock.
    pub(super) fn reserve(&mut self, n: usize) -> Result<bool, Error> {
        if self.numbers.as_ref().is_some_and(|numbers| numbers.bytes() >= 4 * n) {
            return Ok(false);
        }
        let bytes = (4 * n).next_power_of_two().max(LEAST);
        self.sent.synchronize().map_err(failed("send a step"))?;
        self.pinned = Some(Pinned::new(self.gpu.context(), bytes)?);
        self.numbers = Some(Memory::new(self.gpu.context(), bytes, "the numbers of a step")?);
        Ok(true)
    }

    /// Sends numbers that there is room for. What the stream does before still reads the last ones.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn send(&mut self, numbers: &[i32], stream: &CudaStream) -> Result<(), Error> {
        let (at, bytes) = (self.at(), 4 * numbers.len());
        self.sent.synchronize().map_err(failed("send a step"))?;
        let Some(pinned) = &mut self.pinned else { return Ok(()) };
        let pinned = &mut pinned.bytes_mut()[..bytes];
        for (bytes, number) in pinned.chunks_exact_mut(4).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        // SAFETY: `reserve` made room, and the pinned bytes are not touched before the event.
        unsafe { result::memcpy_htod_async(at, pinned, stream.cu_stream()) }
            .map_err(failed("send a step"))?;
        self.sent.record(stream).map_err(failed("send a step"))
    }
}
