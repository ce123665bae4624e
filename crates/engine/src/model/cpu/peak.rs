//! Work that does nothing but run the machine at its limits: what kernels are measured against. It reads no
//! clock; who calls it does.

use memmap2::MmapMut;

use super::tier::{Instructions, Tier};

/// A limit of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peak {
    /// 8-bit integer products.
    Int8,
    /// `bf16` products.
    Bf16,
    /// `f32` products.
    F32,
}

/// Accumulators: more than the latency of any instruction here.
const CHAINS: usize = 16;

impl Peak {
    /// Runs `rounds` rounds on this thread. Returns the arithmetic operations done (a product and a sum count
    /// two), or `None` where the machine has no instruction of that kind.
    #[must_use]
    pub fn run(self, rounds: usize) -> Option<u64> {
        let width = match (Tier::detect().instructions(), self) {
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx512, _) => {
                // SAFETY: the machine has the AVX-512 tier.
                unsafe {
                    match self {
                        Self::Int8 => x86::int8(rounds),
                        Self::Bf16 => x86::bf16(rounds),
                        Self::F32 => x86::f32(rounds),
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx2, Self::F32) => {
                // SAFETY: the machine has the AVX2 tier.
                unsafe { x86::f32_avx2(rounds) }
            }
            _ => return None,
        };
        Some(2 * (width * CHAINS * rounds) as u64)
    }
}

/// Memory to be read, in huge pages as packed weights are.
#[derive(Debug)]
pub struct Memory(MmapMut);

impl Memory {
    /// Fills `bytes` bytes.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn new(bytes: usize) -> std::io::Result<Self> {
        let mut memory = MmapMut::map_anon(bytes)?;
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage); // only a hint
        memory.fill(1);
        Ok(Self(memory))
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads part `i` of `n` once, as fast as one thread can. Returns a value that depends on each byte.
    ///
    /// # Panics
    /// When `i >= n`.
    #[must_use]
    pub fn read(&self, i: usize, n: usize) -> u64 {
        assert!(i < n, "part {i} of {n}");
        let part = self.0.len() / n;
        let part = &self.0[i * part..][..part];
        #[cfg(target_arch = "x86_64")]
        if Tier::detect().instructions() == Instructions::Avx512 {
            // SAFETY: the machine has the AVX-512 tier.
            return unsafe { x86::read(part) };
        }
        part.as_chunks::<8>().0.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512bh, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_dpbf16_ps,
        _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_reduce_add_epi64, _mm512_set1_epi32,
        _mm512_set1_ps, _mm512_xor_si512,
    };
    use std::hint::black_box;

    use super::CHAINS;

    /// Four streams side by side, each line asked for ahead of its use.
    #[target_feature(enable = "avx512f")]
    pub(super) fn read(memory: &[u8]) -> u64 {
        const STREAMS: usize = 4;
        let lines = memory.len() / STREAMS / 64;
        let mut sums = [_mm512_set1_epi32(0); STREAMS];
        for line in 0..lines {
            for (stream, sum) in sums.iter_mut().enumerate() {
                let at = memory[(stream * lines + line) * 64..][..64].as_ptr();
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2048).cast());
                // SAFETY: 64 bytes were sliced.
                *sum = _mm512_xor_si512(*sum, unsafe { _mm512_loadu_si512(at.cast()) });
            }
        }
        sums.into_iter().fold(0, |sum, lanes| sum ^ _mm512_reduce_add_epi64(lanes) as u64)
    }

    /// Products of one register.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn int8(rounds: usize) -> usize {
        let (a, b) = (black_box(_mm512_set1_epi32(0x0101_0101)), black_box(_mm512_set1_epi32(0x0102_0304)));
        let mut sums = [_mm512_set1_epi32(0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        black_box(sums);
        64
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn bf16(rounds: usize) -> usize {
        // SAFETY: any bits are a vector of `bf16`; these are ones.
        let one: __m512bh = unsafe { std::mem::transmute(black_box(_mm512_set1_epi32(0x3f80_3f80))) };
        let mut sums = [_mm512_set1_ps(0.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, one, one);
            }
        }
        black_box(sums);
        32
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn f32(rounds: usize) -> usize {
        let one = black_box(_mm512_set1_ps(1.0));
        let mut sums = [_mm512_set1_ps(0.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(one, one, *sum);
            }
        }
        black_box(sums);
        16
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn f32_avx2(rounds: usize) -> usize {
        let one = black_box(_mm256_set1_ps(1.0));
        let mut sums = [_mm256_set1_ps(0.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(one, one, *sum);
            }
        }
        black_box(sums);
        8
    }
}
