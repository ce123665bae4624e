//! Uploads to memory that a model keeps on a GPU: in pieces, through page-locked memory.

#![expect(unsafe_code, reason = "copies to the device")]

use std::{ops::Range, sync::Arc};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result};

use super::{
    Error, Gpu,
    driver::failed,
    launch::{Argument, Shape},
    memory::{Memory, Pinned, Purpose, WEIGHTS},
};
use tribunal_model::weights::seeded::Fill;

/// Bytes of a piece of an upload.
const PIECE: usize = 16 << 20;

/// Uploads bytes to the device in pieces: one is filled while the other is copied.
pub(super) struct WeightUpload {
    gpu: Gpu,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    pieces: [(Pinned, CudaEvent); 2],
}

impl WeightUpload {
    /// # Errors
    /// The system has no memory to lock.
    pub(super) fn new(gpu: &Gpu, stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let context = gpu.context();
        let piece = || {
            let event = context.new_event(None).map_err(failed("an event"))?;
            event.record(stream).map_err(failed("an event"))?;
            Ok::<_, Error>((Pinned::new(context, PIECE)?, event))
        };
        let pieces = [piece()?, piece()?];
        Ok(Self { gpu: gpu.clone(), context: context.clone(), stream: stream.clone(), pieces })
    }

    /// The GPU that gets the weights.
    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Memory for weights with undefined contents.
    ///
    /// # Errors
    /// The device does not have that much.
    pub(super) fn memory(&self, bytes: usize) -> Result<Memory, Error> {
        self.memory_for(bytes, WEIGHTS)
    }

    fn memory_for(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error> {
        self.context.bind_to_thread().map_err(failed("use the device"))?;
        Memory::new(&self.context, bytes, purpose)
    }

    /// Writes to memory that has room for the units.
    ///
    /// # Errors
    /// The system has no memory to lock, or the device fails.
    pub(super) fn send_to(
        &mut self,
        at: u64,
        n: usize,
        unit: usize,
        fill: &mut impl FnMut(Range<usize>, &mut [u8]),
    ) -> Result<(), Error> {
        // A unit larger than a piece has a piece of its own size.
        let units = (PIECE / unit.max(1)).max(1);
        if unit > PIECE && self.pieces[0].0.bytes().len() < unit {
            for piece in &mut self.pieces {
                piece.0 = Pinned::new(&self.context, unit)?;
            }
        }
        for (i, first) in (0..n).step_by(units).enumerate() {
            let units = first..n.min(first + units);
            let (pinned, sent) = &mut self.pieces[i % 2];
            sent.synchronize().map_err(failed("send weights"))?;
            let bytes = &mut pinned.bytes_mut()[..units.len() * unit];
            fill(units, bytes);
            // SAFETY: the destination has `n` units of `unit` bytes; the pinned piece has as many, and is
            // neither moved nor written before its event has been waited for.
            unsafe { result::memcpy_htod_async(at + (first * unit) as u64, bytes, self.stream.cu_stream()) }
                .map_err(failed("send weights"))?;
            sent.record(&self.stream).map_err(failed("send weights"))?;
        }
        Ok(())
    }

    /// Uploads a slice unchanged.
    ///
    /// # Errors
    /// The device has no memory for it, or fails.
    pub(super) fn bytes(&mut self, bytes: &[u8], purpose: Purpose) -> Result<Memory, Error> {
        let memory = self.memory_for(bytes.len(), purpose)?;
        self.send_to(memory.at(), bytes.len(), 1, &mut |range, piece| piece.copy_from_slice(&bytes[range]))?;
        Ok(memory)
    }

    /// Uploads small numbers in f32, and waits for them.
    ///
    /// # Errors
    /// Those of [`WeightUpload::bytes`].
    pub(super) fn floats(&mut self, values: &[f32]) -> Result<Memory, Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let memory = self.bytes(&bytes, WEIGHTS)?;
        self.finish()?;
        Ok(memory)
    }

    /// Makes seeded numbers in bf16 on the device: this range of their stream.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn fill(&self, at: u64, numbers: Range<usize>, fill: Fill) -> Result<(), Error> {
        let n = numbers.len();
        let blocks = n.div_ceil(256).min(32 * self.gpu.multiprocessors());
        let arguments = [
            Argument::At(at),
            Argument::size(n & 0x7fff_ffff),
            Argument::size(n >> 31),
            Argument::size(numbers.start & 0x7fff_ffff),
            Argument::size(numbers.start >> 31),
            Argument::Int(fill.seed.cast_signed()),
            Argument::Float(fill.scale),
        ];
        let (names, shape) = (("fill", "fill_bf16"), Shape::new([blocks, 1], 256));
        // SAFETY: `at` is the address of `numbers.len()` bf16 values, aligned to 2 bytes; they are freed only
        // after `finish` has synchronised the stream.
        unsafe { self.gpu.kernels().launch(self.stream.cu_stream(), names, shape, &arguments) }
    }

    /// Waits until everything is uploaded.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn finish(&self) -> Result<(), Error> {
        self.stream.synchronize().map_err(failed("send weights"))
    }
}
