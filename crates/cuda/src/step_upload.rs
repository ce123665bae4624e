//! The upload of a step's numbers to the device, always to the same memory.

#![expect(unsafe_code, reason = "a copy to the device")]

use cudarc::driver::{CudaEvent, CudaStream, result};

use super::{Error, Gpu, driver::failed, memory::Pinned};

/// The least bytes that are reserved for a step.
const LEAST: usize = 1 << 16;

/// Page-locked memory that a step's numbers are written to.
pub(super) struct StepUpload {
    gpu: Gpu,
    pinned: Option<Pinned>,
    /// Recorded after the last upload.
    sent: CudaEvent,
}

impl StepUpload {
    /// # Errors
    /// The device fails.
    pub(super) fn new(gpu: &Gpu) -> Result<Self, Error> {
        let sent = gpu.context().new_event(None).map_err(failed("an event"))?;
        Ok(Self { gpu: gpu.clone(), pinned: None, sent })
    }

    /// Ensures room for `n` numbers.
    ///
    /// # Errors
    /// The system has no memory to lock.
    pub(super) fn reserve(&mut self, n: usize) -> Result<(), Error> {
        if self.pinned.as_ref().is_some_and(|pinned| pinned.bytes().len() >= 4 * n) {
            return Ok(());
        }
        self.sent.synchronize().map_err(failed("send a step"))?;
        self.pinned = Some(Pinned::new(self.gpu.context(), (4 * n).max(LEAST))?);
        Ok(())
    }

    /// Uploads numbers to an address. Earlier work of the stream still reads the last ones.
    ///
    /// # Errors
    /// The device fails, or the system has no memory to lock.
    pub(super) fn send(&mut self, numbers: &[i32], to: u64, stream: &CudaStream) -> Result<(), Error> {
        self.reserve(numbers.len())?;
        self.sent.synchronize().map_err(failed("send a step"))?;
        let Some(pinned) = &mut self.pinned else { return Ok(()) };
        let pinned = &mut pinned.bytes_mut()[..4 * numbers.len()];
        for (bytes, number) in pinned.chunks_exact_mut(4).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        // SAFETY: `to` is a slot of at least `4 * numbers.len()` bytes of the arena, 256-byte aligned; the
        // pinned bytes are as many, and neither moved nor written before `sent` has been waited for.
        unsafe { result::memcpy_htod_async(to, pinned, stream.cu_stream()) }
            .map_err(failed("send a step"))?;
        self.sent.record(stream).map_err(failed("send a step"))
    }
}
