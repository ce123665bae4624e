//! Memory of a GPU, and page-locked memory of this machine. It computes nothing.

#![expect(unsafe_code, reason = "device memory is the driver's")]

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, result,
    sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUresult},
};

use super::{Error, driver::failed};

/// The purpose of memory, and the remedy where there is too little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    pub name: &'static str,
    pub hint: &'static str,
}

pub(super) const WEIGHTS: Purpose = Purpose {
    name: "the weights",
    hint: "a quantized model takes less (Q8_0 half, Q4_K_M a third of bf16); `nvidia-smi` shows what else is on the GPU",
};
pub(super) const CACHE: Purpose =
    Purpose { name: "the KV cache", hint: "a smaller `--kv-cache`, or a shorter `--context`" };
pub(super) const STATES: Purpose =
    Purpose { name: "the states of sequences", hint: "a smaller `--kv-cache` or `--batch`" };
pub(super) const STEPS: Purpose =
    Purpose { name: "the activations of a step", hint: "a smaller `--kv-cache` or `--batch`" };
pub(super) const MEASURED: Purpose =
    Purpose { name: "a measurement", hint: "`nvidia-smi` shows what else is on the GPU" };

/// Memory that is freed when it is dropped.
pub struct Memory {
    at: u64,
    context: Arc<CudaContext>,
}

impl Memory {
    /// Memory with undefined contents, 256-byte aligned.
    ///
    /// # Errors
    /// The device does not have that much.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize, purpose: Purpose) -> Result<Self, Error> {
        // SAFETY: the context is current on this thread.
        let at = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|error| {
            // Any other error has a message of its own.
            if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                return failed("allocate memory")(error);
            }
            let free = context.mem_get_info().map_or(0, |(free, _)| free);
            Error::memory(purpose.name, bytes, free, purpose.hint)
        })?;
        Ok(Self { at, context: context.clone() })
    }

    /// Its address on the device.
    pub(super) fn at(&self) -> u64 {
        self.at
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A lost device has no memory to free.
        let _ = self.context.bind_to_thread();
        // SAFETY: it came from `malloc_sync` and is freed once; the driver waits for all work that uses it.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// Page-locked memory of this machine, which copies to the device run from at full speed.
pub(super) struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Arc<CudaContext>,
}

// SAFETY: it is `bytes` bytes of host memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: it is written through `&mut` alone.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// # Errors
    /// The system does not have that much memory to lock.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, Error> {
        // SAFETY: the context is current on this thread.
        let at = unsafe { result::malloc_host(bytes.max(1), 0) }.map_err(failed("page-locked memory"))?;
        let at: *mut u8 = at.cast();
        // SAFETY: `malloc_host` has returned at least `bytes` bytes.
        unsafe { at.write_bytes(0, bytes) };
        Ok(Self { at, bytes, context: context.clone() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory has `bytes` bytes, written by `new`, and is freed by `drop` alone.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory has `bytes` bytes, written by `new`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        // SAFETY: it came from `malloc_host`; its owner waits for copies before it is dropped.
        let _ = unsafe { result::free_host(self.at.cast()) };
    }
}

/// Page-locked memory of this machine that kernels of all GPUs reach, at the same address. The host does not
/// touch it.
pub(super) struct Mapped {
    at: u64,
    context: Arc<CudaContext>,
}

impl Mapped {
    /// Memory with undefined contents.
    ///
    /// # Errors
    /// The system does not have that much memory to lock.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, Error> {
        let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the context is current on this thread.
        let at = unsafe { result::malloc_host(bytes, flags) }.map_err(failed("page-locked memory"))?;
        // On every GPU with kernels, addresses are the system's own.
        Ok(Self { at: at as u64, context: context.clone() })
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        // SAFETY: it came from `malloc_host`; its owner waits for kernels before it is dropped.
        let _ = unsafe { result::free_host(self.at as *mut _) };
    }
}
