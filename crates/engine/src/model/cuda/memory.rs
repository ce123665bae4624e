//! Memory of a GPU: what a model keeps, and buffers that one operation after another uses. It computes nothing.

#![expect(unsafe_code, reason = "device memory is the driver's")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::{CudaContext, result};

use super::{Error, driver::failed};

/// Memory that is given back when it is dropped.
pub struct Memory {
    at: u64,
    bytes: usize,
    context: Arc<CudaContext>,
}

impl Memory {
    /// Memory with undefined contents, 256-byte aligned.
    ///
    /// # Errors
    /// The device has not that much.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize, what: &'static str) -> Result<Self, Error> {
        // SAFETY: the context is current on this thread.
        let at = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|_| {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            let free = context.mem_get_info().map_or(0, |(free, _)| free);
            Error::Memory { what, wanted: mib(bytes), free: mib(free) }
        })?;
        Ok(Self { at, bytes, context: context.clone() })
    }

    /// Its address on the device.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A device that is lost has no memory to give back.
        let _ = self.context.bind_to_thread();
        // SAFETY: it came from `malloc_sync`, and whoever still uses it on the device is waited for by the driver.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// Buffers that are used again: every layer of every step asks for the same few. All work is on one stream, so a
/// buffer may be given to the next operation while the last one still runs.
pub(super) struct Pool {
    context: Arc<CudaContext>,
    free: Mutex<BTreeMap<usize, Vec<Memory>>>,
}

/// A buffer of a pool, which goes back to it when it is dropped.
pub(super) struct Buffer {
    memory: Option<Memory>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(context: &Arc<CudaContext>) -> Arc<Self> {
        Arc::new(Self { context: context.clone(), free: Mutex::default() })
    }

    /// A buffer of at least so many bytes, with undefined contents.
    ///
    /// # Errors
    /// The device has not that much memory.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Result<Buffer, Error> {
        let size = size_class(bytes);
        let known =
            self.free.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&size).and_then(Vec::pop);
        let memory = match known {
            Some(memory) => memory,
            None => Memory::new(&self.context, size, "the activations of a step")?,
        };
        Ok(Buffer { memory: Some(memory), pool: self.clone() })
    }
}

/// Sizes that buffers have: four between two powers of two.
fn size_class(bytes: usize) -> usize {
    let step = (bytes.max(4096).next_power_of_two() / 8).max(512);
    bytes.max(1).next_multiple_of(step)
}

impl Buffer {
    /// Its address on the device.
    pub(super) fn at(&self) -> u64 {
        self.memory.as_ref().map_or(0, Memory::at)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.entry(memory.bytes()).or_default().push(memory);
        }
    }
}

/// Page-locked memory of this machine, which copies to the device run from at full speed.
pub(super) struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Arc<CudaContext>,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: as above; it is changed through `&mut` alone.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// # Errors
    /// The system has not that much memory to lock.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, Error> {
        // SAFETY: the context is current on this thread.
        let at = unsafe { result::malloc_host(bytes.max(1), 0) }.map_err(failed("page-locked memory"))?;
        let at: *mut u8 = at.cast();
        // SAFETY: the driver has just given these bytes.
        unsafe { at.write_bytes(0, bytes) };
        Ok(Self { at, bytes, context: context.clone() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is ours, and was written when it was made.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        // SAFETY: it came from `malloc_host`; its owner waits for copies before it lets go.
        let _ = unsafe { result::free_host(self.at.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn buffers_waste_less_than_a_quarter_beyond_the_smallest() {
        for bytes in [1, 511, 512, 513, 5000, 70_000, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let size = size_class(bytes);
            assert!(size >= bytes && size.is_multiple_of(512), "{bytes} in {size}");
            assert!(bytes < 4096 || size < bytes + bytes / 4 + 512, "{bytes} in {size}");
        }
    }
}
