//! AMX tiles: their configuration and one product. In assembly, because the intrinsics are not stable.

use std::{arch::asm, marker::PhantomData};

/// Lines of one tile of integers: one for each row.
pub(super) const INTEGERS: usize = 16;

/// The division of a block's 32 values among products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// All in one product.
    Whole,
    /// The first and the last 16 apart.
    Halves,
}

impl Shape {
    /// Tiles of integers of one block of one panel.
    pub(super) const fn parts(self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Halves => 2,
        }
    }

    /// Bytes of a row of activations in a tile.
    const fn depth(self) -> u8 {
        match self {
            Self::Whole => 32,
            Self::Halves => 16,
        }
    }
}

/// The tiles of this thread, configured for one of the two shapes; released when dropped.
pub(super) struct Configured {
    shape: Shape,
    of_this_thread: PhantomData<*const ()>,
}

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    /// Bytes of a row of each tile.
    columns: [u16; 16],
    rows: [u8; 16],
}

impl Configured {
    /// Tiles 0 to 3 for integers, 4 and 5 for activations, 6 and 7 for codes.
    ///
    /// # Safety
    /// The machine has the instructions of the AMX instruction set, and this thread has no other tiles.
    pub(super) unsafe fn new(shape: Shape) -> Self {
        let depth = shape.depth();
        let mut this =
            Configuration { palette: 1, start: 0, reserved: [0; 14], columns: [0; 16], rows: [0; 16] };
        this.columns[..8].copy_from_slice(&[64, 64, 64, 64, depth.into(), depth.into(), 64, 64]);
        this.rows[..8].copy_from_slice(&[16, 16, 16, 16, 16, 16, depth / 4, depth / 4]);
        // SAFETY: the machine has AMX; `this` is 64 readable bytes, aligned to 64, for the duration of the
        // instruction.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const this, options(nostack, readonly, preserves_flags));
        };
        Self { shape, of_this_thread: PhantomData }
    }

    /// One block of sixteen rows at `x`, 32 bytes each, with `N` panels, whose codes follow each other; `out`
    /// gets the integers of each panel's parts in turn.
    ///
    /// # Safety
    /// The tiles have this shape; 512 bytes can be read at `x`, 512 for each panel at `codes`, and 1,024 for
    /// each part of each panel be written at `out`.
    #[inline]
    pub(super) unsafe fn multiply<const N: usize>(
        &self,
        shape: Shape,
        x: *const u8,
        codes: *const u8,
        out: *mut u8,
    ) {
        debug_assert_eq!(self.shape, shape, "the tiles' shape");
        // SAFETY: the tiles are configured for `shape`. They read 512 bytes at `x` and 512 for each panel at
        // `codes`, and write 1,024 for each part of each panel at `out`, which this function requires to be
        // valid during the call; tile loads and stores need no alignment.
        unsafe {
            match (shape, N) {
                (Shape::Whole, 1) => asm!(
                    "tilezero tmm0",
                    "tileloadd tmm4, [{x} + {short}]",
                    "tileloadd tmm6, [{codes} + {line}]",
                    "tdpbssd tmm0, tmm4, tmm6",
                    "tilestored [{out} + {line}], tmm0",
                    x = in(reg) x, codes = in(reg) codes, out = in(reg) out,
                    short = in(reg) 32_usize, line = in(reg) 64_usize,
                    out("tmm0") _, out("tmm4") _, out("tmm6") _,
                    options(nostack, preserves_flags),
                ),
                (Shape::Whole, _) => asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tileloadd tmm4, [{x} + {short}]",
                    "tileloadd tmm6, [{codes} + {line}]",
                    "tdpbssd tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{codes} + {line} + 512]",
                    "tdpbssd tmm1, tmm4, tmm7",
                    "tilestored [{out} + {line}], tmm0",
                    "tilestored [{out} + {line} + 1024], tmm1",
                    x = in(reg) x, codes = in(reg) codes, out = in(reg) out,
                    short = in(reg) 32_usize, line = in(reg) 64_usize,
                    out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, preserves_flags),
                ),
                (Shape::Halves, _) => {
                    for panel in 0..N {
                        asm!(
                            "tilezero tmm0",
                            "tilezero tmm1",
                            "tileloadd tmm4, [{x} + {short}]",
                            "tileloadd tmm6, [{codes} + {line}]",
                            "tdpbssd tmm0, tmm4, tmm6",
                            "tileloadd tmm5, [{x} + {short} + 16]",
                            "tileloadd tmm7, [{codes} + {line} + 256]",
                            "tdpbssd tmm1, tmm5, tmm7",
                            "tilestored [{out} + {line}], tmm0",
                            "tilestored [{out} + {line} + 1024], tmm1",
                            x = in(reg) x, codes = in(reg) codes.add(512 * panel), out = in(reg) out.add(2048 * panel),
                            short = in(reg) 32_usize, line = in(reg) 64_usize,
                            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                            options(nostack, preserves_flags),
                        );
                    }
                }
            }
        }
    }

    /// Products of a block on four tiles in turn, without any loads. Returns those of a round.
    pub(super) fn run(&self, rounds: usize) -> usize {
        debug_assert_eq!(self.shape, Shape::Whole, "the tiles' shape");
        for _ in 0..rounds {
            // SAFETY: the thread has tiles, whose values do not matter.
            unsafe {
                asm!(
                    "tdpbssd tmm0, tmm4, tmm6",
                    "tdpbssd tmm1, tmm4, tmm7",
                    "tdpbssd tmm2, tmm5, tmm6",
                    "tdpbssd tmm3, tmm5, tmm7",
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(nostack, nomem, preserves_flags),
                );
            }
        }
        4 * 16 * 16 * 32
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: the thread has tiles.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
