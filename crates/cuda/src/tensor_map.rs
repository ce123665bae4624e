//! TMA tensor maps of matrices: address, sizes, and the tile of one copy.

#![expect(unsafe_code, reason = "the driver writes the map")]

use cudarc::driver::{DriverError, sys};

use super::{Error, driver::failed};

/// Values of a row of a tile: 128 bytes of `bf16`, which lie in shared memory under the swizzle of 128 bytes.
const ROW: u32 = 64;

/// A matrix of `bf16`, as an argument of a kernel.
#[derive(Clone, Copy)]
pub(super) struct TensorMap(sys::CUtensorMap);

impl TensorMap {
    /// Bytes of the argument.
    pub(super) const BYTES: usize = size_of::<sys::CUtensorMap>();

    /// A matrix `[rows, k]` without gaps, in tiles of `tall` rows. Outside of the matrix a tile has zeros.
    ///
    /// # Errors
    /// The driver rejects an address that is not a multiple of 16, a `k` that is not one of 8, or a tile of
    /// more than 256 rows.
    pub(super) fn rows(at: u64, rows: usize, k: usize, tall: usize) -> Result<Self, Error> {
        Self::encode(at, [k, rows], [2 * k], [ROW, tall as u32])
    }

    /// Gates `[n, k]` and their ups `[n, k]` behind them, as `[n / 8, 2, 8, k]`: a tile has eight gates,
    /// their eight ups, the next eight gates, `tall` rows in all. `n` is a multiple of 8, `tall` of 16.
    ///
    /// # Errors
    /// Those of [`Self::rows`].
    pub(super) fn gates(at: u64, n: usize, k: usize, tall: usize) -> Result<Self, Error> {
        Self::encode(at, [k, 8, 2, n / 8], [2 * k, 2 * k * n, 16 * k], [ROW, 8, 2, tall as u32 / 16])
    }

    /// Heads `[n, k]` of `dim` rows each, as `[n / dim, dim / 16, 2, 8, k]`: a tile has eight rows of a
    /// head's first half, the eight of its second half that they are rotated with, the next eight, `tall`
    /// rows in all. `dim` divides `n` and `tall`.
    ///
    /// # Errors
    /// Those of [`Self::rows`].
    pub(super) fn heads(at: u64, n: usize, k: usize, dim: usize, tall: usize) -> Result<Self, Error> {
        let strips = dim / 16;
        let tile = [ROW, 8, 2, strips as u32, (tall / dim) as u32];
        Self::encode(at, [k, 8, 2, strips, n / dim], [2 * k, k * dim, 16 * k, 2 * k * dim], tile)
    }

    /// Matrices `[n, k]` of experts, one after another, as `[1, experts, n, k]`: a tile has `tall` rows of
    /// one expert.
    ///
    /// # Errors
    /// Those of [`Self::rows`].
    pub(super) fn experts(at: u64, n_experts: usize, [n, k]: [usize; 2], tall: usize) -> Result<Self, Error> {
        let matrix = 2 * k * n;
        Self::encode(at, [k, n, n_experts, 1], [2 * k, matrix, matrix * n_experts], [ROW, tall as u32, 1, 1])
    }

    fn encode<const RANK: usize, const OUTER: usize>(
        at: u64,
        sizes: [usize; RANK],
        strides: [usize; OUTER],
        tile: [u32; RANK],
    ) -> Result<Self, Error> {
        let (sizes, strides) = (sizes.map(|n| n as u64), strides.map(|n| n as u64));
        let steps = [1_u32; RANK];
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: the arrays have RANK sizes, steps and tile edges, and RANK - 1 strides, which the driver
        // reads during the call; it writes the map, which has the alignment of `CUtensorMap`.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                RANK as u32,
                at as *mut _,
                sizes.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        match result {
            sys::CUresult::CUDA_SUCCESS => Ok(Self(map)),
            error => Err(failed("describe a matrix")(DriverError(error))),
        }
    }

    /// A pointer to the map, for a launch.
    pub(super) fn pointer(&mut self) -> *mut std::ffi::c_void {
        (&raw mut self.0).cast()
    }
}
