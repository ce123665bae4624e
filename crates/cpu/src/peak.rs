//! Loops that run the machine at its limits, as the reference for measured kernels. The caller takes the
//! time.

use std::hint::black_box;

use memmap2::MmapMut;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::isa::Instructions;
use super::isa::Isa;

/// A limit of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peak {
    /// 8-bit integer products with 32-bit sums.
    Int8,
    /// `bf16` products with `f32` sums: those of pairs, or of `f32` without an instruction for pairs.
    Bf16,
    /// `f32` products.
    F32,
}

/// Accumulators: more than the latency of any instruction here.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CHAINS: usize = 16;

impl Peak {
    /// Runs `rounds` rounds of an instruction set's instructions on this thread. Returns the arithmetic
    /// operations done (a product and a sum count two).
    pub fn run(self, rounds: usize, isa: Isa) -> u64 {
        // SAFETY: an instruction set exists only on machines that have its instructions.
        #[cfg(target_arch = "x86_64")]
        let products = unsafe {
            match (isa.instructions(), self) {
                (Instructions::Avx512, Self::Int8) => x86::int8(rounds),
                (Instructions::Avx512, Self::Bf16) => x86::bf16(rounds),
                (Instructions::Amx, Self::Int8) => super::amx::peak(rounds),
                (Instructions::Avx512 | Instructions::Amx, _) => x86::f32(rounds),
                (Instructions::AvxVnni, Self::Int8) => x86::int8_vnni(rounds),
                (Instructions::Avx2, Self::Int8) => x86::int8_avx2(rounds),
                (Instructions::AvxVnni | Instructions::Avx2, _) => x86::f32_avx2(rounds),
                _ => self.plain(rounds),
            }
        };
        #[cfg(target_arch = "aarch64")]
        // SAFETY: an instruction set exists only on machines that have its instructions.
        let products = unsafe {
            match (isa.instructions(), self) {
                (Instructions::NeonI8mm, Self::Int8) => arm::int8_i8mm(rounds),
                (Instructions::NeonDotprod, Self::Int8) => arm::int8_dotprod(rounds),
                (Instructions::Neon, Self::Int8) => arm::int8(rounds),
                (Instructions::NeonI8mm | Instructions::NeonDotprod | Instructions::Neon, _) => {
                    arm::f32(rounds)
                }
                _ => self.plain(rounds),
            }
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let (products, _) = (self.plain(rounds), isa);
        2 * (products * rounds) as u64
    }

    /// Plain Rust. Returns the products of a round.
    fn plain(self, rounds: usize) -> usize {
        const LANES: usize = 16;
        match self {
            Self::Int8 => {
                let (a, b) = (black_box([3_i8; LANES]), black_box([5_i8; LANES]));
                let mut sums = [0_i32; LANES];
                for _ in 0..rounds {
                    for ((sum, a), b) in sums.iter_mut().zip(black_box(&a)).zip(&b) {
                        *sum += i32::from(*a) * i32::from(*b);
                    }
                }
                black_box(sums);
            }
            Self::Bf16 | Self::F32 => {
                let one = black_box([1_f32; LANES]);
                let mut sums = [0_f32; LANES];
                for _ in 0..rounds {
                    for (sum, one) in sums.iter_mut().zip(&one) {
                        *sum = one.mul_add(*one, *sum);
                    }
                }
                black_box(sums);
            }
        }
        LANES
    }
}

/// Memory to be read, in huge pages as packed weights are.
#[derive(Debug)]
pub struct Memory(MmapMut);

impl Memory {
    /// Fills `bytes` bytes.
    ///
    /// # Errors
    /// When there is too little memory.
    pub fn new(bytes: usize) -> std::io::Result<Self> {
        let mut memory = MmapMut::map_anon(bytes)?;
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage); // only a hint
        memory.fill(1);
        Ok(Self(memory))
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads part `i` of `n` once, as fast as one thread can. Returns a value that depends on each byte.
    ///
    /// # Panics
    /// When `i >= n`.
    pub fn read(&self, i: usize, n: usize) -> u64 {
        assert!(i < n, "part {i} of {n}");
        let part = self.0.len() / n;
        let part = &self.0[i * part..][..part];
        #[cfg(target_arch = "x86_64")]
        if Isa::detect().instructions() >= Instructions::Avx512 {
            // SAFETY: the machine has the AVX-512 instruction set.
            return unsafe { x86::read(part) };
        }
        #[cfg(target_arch = "x86_64")]
        if Isa::detect().instructions() >= Instructions::Avx2 {
            // SAFETY: the machine has the AVX2 instruction set.
            return unsafe { x86::read_avx2(part) };
        }
        part.as_chunks::<8>().0.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word))
    }
}

/// Rounds of one product for each of some chains of sums; `$products` in a round.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! chains {
    ($rounds:expr, $products:expr, $sums:expr, |$sum:ident| $product:expr) => {{
        let mut sums = $sums;
        for _ in 0..$rounds {
            for chain in &mut sums {
                let $sum = *chain;
                *chain = $product;
            }
        }
        black_box(sums);
        $products
    }};
}

#[cfg(target_arch = "aarch64")]
mod arm;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512bh, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_fmadd_ps,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
        _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
        _mm512_dpbf16_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_reduce_add_epi64,
        _mm512_set1_epi32, _mm512_set1_ps, _mm512_xor_si512,
    };
    use std::hint::black_box;

    use super::CHAINS;

    /// Accumulators where there are 16 registers in all.
    const WIDE_CHAINS: usize = 12;

    /// Reads four streams side by side, prefetching each line.
    #[target_feature(enable = "avx512f")]
    pub(super) fn read(memory: &[u8]) -> u64 {
        const STREAMS: usize = 4;
        let lines = memory.len() / STREAMS / 64;
        let mut sums = [_mm512_set1_epi32(0); STREAMS];
        for line in 0..lines {
            for (stream, sum) in sums.iter_mut().enumerate() {
                let at = memory[(stream * lines + line) * 64..][..64].as_ptr();
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2048).cast());
                // SAFETY: 64 bytes were sliced, and the load needs no alignment.
                *sum = _mm512_xor_si512(*sum, unsafe { _mm512_loadu_si512(at.cast()) });
            }
        }
        sums.into_iter().fold(0, |sum, lanes| sum ^ _mm512_reduce_add_epi64(lanes) as u64)
    }

    /// Reads four streams side by side in registers of 256 bits.
    #[target_feature(enable = "avx2")]
    pub(super) fn read_avx2(memory: &[u8]) -> u64 {
        const STREAMS: usize = 4;
        let lines = memory.len() / STREAMS / 64;
        let mut sums = [[_mm256_setzero_si256(); 2]; STREAMS];
        for line in 0..lines {
            for (stream, sums) in sums.iter_mut().enumerate() {
                let at = memory[(stream * lines + line) * 64..][..64].as_ptr();
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2048).cast());
                for (half, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: 64 bytes were sliced, and the load needs no alignment.
                    *sum = _mm256_xor_si256(*sum, unsafe { _mm256_loadu_si256(at.add(32 * half).cast()) });
                }
            }
        }
        let mut lanes = [0_u64; 4];
        let mut fold = 0;
        for sum in sums.as_flattened() {
            // SAFETY: `lanes` is 32 bytes; the store needs no alignment.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *sum) };
            fold ^= lanes.into_iter().fold(0, |fold, lane| fold ^ lane);
        }
        fold
    }

    /// The equivalent of `vpdpbusd` in three instructions: products of bytes added in pairs, pairs of pairs,
    /// then the sums. Returns the products of a round.
    #[target_feature(enable = "avx2")]
    pub(super) fn int8_avx2(rounds: usize) -> usize {
        let (a, ones) = (black_box(_mm256_set1_epi8(1)), black_box(_mm256_set1_epi16(1)));
        let b = _mm256_set1_epi32(0x0102_0304);
        chains!(rounds, WIDE_CHAINS * 32, [_mm256_setzero_si256(); WIDE_CHAINS], |sum| {
            // SAFETY: a reference is read. The volatile read keeps the compiler from reusing one product for
            // all rounds.
            let pairs = _mm256_maddubs_epi16(a, unsafe { std::ptr::read_volatile(&raw const b) });
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones))
        })
    }

    #[target_feature(enable = "avx2,avxvnni")]
    pub(super) fn int8_vnni(rounds: usize) -> usize {
        let (a, b) = (black_box(_mm256_set1_epi32(0x0101_0101)), black_box(_mm256_set1_epi32(0x0102_0304)));
        chains!(rounds, WIDE_CHAINS * 32, [_mm256_setzero_si256(); WIDE_CHAINS], |sum| {
            _mm256_dpbusd_avx_epi32(sum, a, b)
        })
    }

    /// Products of a round.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn int8(rounds: usize) -> usize {
        let (a, b) = (black_box(_mm512_set1_epi32(0x0101_0101)), black_box(_mm512_set1_epi32(0x0102_0304)));
        chains!(rounds, CHAINS * 64, [_mm512_set1_epi32(0); CHAINS], |sum| _mm512_dpbusd_epi32(sum, a, b))
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn bf16(rounds: usize) -> usize {
        // SAFETY: any bits are a vector of `bf16`; these are ones.
        let one: __m512bh = unsafe { std::mem::transmute(black_box(_mm512_set1_epi32(0x3f80_3f80))) };
        chains!(rounds, CHAINS * 32, [_mm512_set1_ps(0.0); CHAINS], |sum| _mm512_dpbf16_ps(sum, one, one))
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn f32(rounds: usize) -> usize {
        let one = black_box(_mm512_set1_ps(1.0));
        chains!(rounds, CHAINS * 16, [_mm512_set1_ps(0.0); CHAINS], |sum| _mm512_fmadd_ps(one, one, sum))
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn f32_avx2(rounds: usize) -> usize {
        let one = black_box(_mm256_set1_ps(1.0));
        chains!(rounds, WIDE_CHAINS * 8, [_mm256_set1_ps(0.0); WIDE_CHAINS], |sum| {
            _mm256_fmadd_ps(one, one, sum)
        })
    }
}
