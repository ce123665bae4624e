//! Access of one GPU to another's memory. The driver reports whether it is possible; the bytes are checked by
//! a trial, because a machine whose IOMMU or `PCIe` switch redirects transfers between GPUs reports access
//! and then reads other bytes.

#![expect(unsafe_code, reason = "the driver is a C library")]

use cudarc::driver::{
    result,
    sys::{self, CUresult},
};

use super::{
    Error, Gpu,
    driver::failed,
    launch::{Argument, Shape},
    memory::{MEASURED, Memory},
    shard::MOST_CARDS,
};
use tribunal_core::random::SplitMix;

/// The access of one GPU to the memory of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Its kernels read it.
    Direct,
    /// The driver allows none.
    Refused,
    /// The driver allows it, and kernels read other bytes than were written.
    Wrong,
}

/// Rows of the pattern, and bytes of a row.
const PATTERN: [usize; 2] = [64, 4096];

/// Enables access of kernels on `from` to the memory of `to`, and tries it with two patterns.
///
/// # Errors
/// The driver fails.
pub(super) fn access(from: &Gpu, to: &Gpu) -> Result<Access, Error> {
    if !enable(from, to)? {
        return Ok(Access::Refused);
    }
    let mut draw = SplitMix(from.ordinal() as u64 * 256 + to.ordinal() as u64);
    let pattern: Vec<u8> = (0..PATTERN[0] * PATTERN[1] / 8).flat_map(|_| draw.draw().to_le_bytes()).collect();
    let complement: Vec<u8> = pattern.iter().map(|byte| !byte).collect();
    // The second pattern distinguishes new reads from cached ones.
    for pattern in [pattern, complement] {
        if read_through(from, to, &pattern)? != pattern {
            return Ok(Access::Wrong);
        }
    }
    Ok(Access::Direct)
}

fn enable(from: &Gpu, to: &Gpu) -> Result<bool, Error> {
    let mut can = 0;
    let devices = [from, to].map(|gpu| gpu.context().cu_device());
    // SAFETY: the driver writes one number.
    unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, devices[0], devices[1]) }
        .result()
        .map_err(failed("ask for peers"))?;
    if can == 0 {
        return Ok(false);
    }
    from.here()?;
    // SAFETY: both contexts are alive, as long as their GPUs are.
    match unsafe { sys::cuCtxEnablePeerAccess(to.context().cu_ctx(), 0) } {
        CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
        // The last is the error of a GPU that has eight peers already.
        CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED | CUresult::CUDA_ERROR_TOO_MANY_PEERS => Ok(false),
        error => error.result().map(|()| true).map_err(failed("reach another GPU's memory")),
    }
}

/// The bytes that a kernel on `from` reads in the memory of `to` after the pattern was written.
fn read_through(from: &Gpu, to: &Gpu, pattern: &[u8]) -> Result<Vec<u8>, Error> {
    let send = |gpu: &Gpu, bytes: &[u8]| {
        gpu.here()?;
        let memory = Memory::new(gpu.context(), bytes.len(), MEASURED)?;
        // SAFETY: the memory has `bytes.len()` bytes; the copy is complete on return.
        unsafe { result::memcpy_htod_sync(memory.at(), bytes) }.map_err(failed("write a pattern"))?;
        Ok::<_, Error>(memory)
    };
    let theirs = send(to, pattern)?;
    let ours = send(from, &vec![0_u8; pattern.len()])?;
    let stream = from.context().new_stream().map_err(failed("a stream"))?;
    let [rows, width] = [PATTERN[0], PATTERN[1] / 16];
    let mut arguments = vec![Argument::At(theirs.at())];
    arguments.extend([Argument::At(0); MOST_CARDS - 1]);
    arguments.extend([Argument::size(width); MOST_CARDS]);
    arguments.extend([
        Argument::At(ours.at()),
        Argument::size(rows),
        Argument::size(width),
        Argument::Int(0),
    ]);
    // SAFETY: both places have `rows` rows of `width` times 16 bytes, are 256-byte aligned, and are freed
    // after the stream has been synchronised; `from` has access to both.
    unsafe {
        let shape = Shape::new([rows, width.div_ceil(256)], 256);
        from.kernels().launch(stream.cu_stream(), ("gather", "gather_16"), shape, &arguments)?;
    }
    stream.synchronize().map_err(failed("read another GPU's memory"))?;
    let mut read = vec![0_u8; pattern.len()];
    // SAFETY: the memory has `read.len()` bytes; the copy is complete on return.
    unsafe { result::memcpy_dtoh_sync(&mut read, ours.at()) }.map_err(failed("fetch a pattern"))?;
    Ok(read)
}
