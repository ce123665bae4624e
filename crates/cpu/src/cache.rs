//! The paged KV cache in this machine's memory: storage only.

use half::{bf16, f16, vec::HalfBitsVecExt};

use tribunal_model::{BLOCK, Config, KvType};

/// Keys and values of every layer in blocks of [`BLOCK`] tokens.
///
/// Shape: for each layer `[n_blocks, n_kv_heads]` blocks of keys, in the layout of [`super::attend::key_at`],
/// and as many of values, in that of [`super::attend::value_at`].
pub(super) enum Cache {
    Bf16(Halves<bf16>),
    F16(Halves<f16>),
    F32(Halves<f32>),
}

/// The keys and the values of each layer.
pub(super) struct Halves<S> {
    pub keys: Vec<Vec<S>>,
    pub values: Vec<Vec<S>>,
    /// Numbers that a block takes in each layer's keys and in its values; 0 for a layer without any.
    blocks: Vec<[usize; 2]>,
}

/// Runs one expression with a cache of any type.
macro_rules! with_halves {
    ($cache:expr, $halves:ident => $what:expr) => {
        match $cache {
            $crate::cache::Cache::Bf16($halves) => $what,
            $crate::cache::Cache::F16($halves) => $what,
            $crate::cache::Cache::F32($halves) => $what,
        }
    };
}
pub(super) use with_halves;

impl Cache {
    /// Zeros that take no memory until they are written to: the system hands out such pages lazily.
    pub(super) fn new(config: &Config, n_blocks: usize, kv: KvType) -> Self {
        let block = |layer| {
            if config.delta_net_of(layer).is_some() {
                return [0; 2];
            }
            let attention = config.attention_of(layer);
            let keys = attention.kv_width();
            [keys * BLOCK, (attention.cached() - keys) * BLOCK]
        };
        let blocks: Vec<[usize; 2]> = (0..config.n_cached_layers()).map(block).collect();
        match kv {
            KvType::Bf16 => {
                Self::Bf16(Halves::new(blocks, |block| vec![0_u16; n_blocks * block].reinterpret_into()))
            }
            KvType::F16 => {
                Self::F16(Halves::new(blocks, |block| vec![0_u16; n_blocks * block].reinterpret_into()))
            }
            KvType::F32 => Self::F32(Halves::new(blocks, |block| vec![0.0; n_blocks * block])),
        }
    }

    /// Copies one block over another, in every layer.
    pub(super) fn copy_block(&mut self, from: u32, to: u32) {
        with_halves!(self, halves => halves.copy_block(from as usize, to as usize));
    }

    /// The bytes of these blocks, in order: each one's keys and values, layer after layer.
    pub(super) fn read_blocks(&self, blocks: &[u32]) -> Vec<u8> {
        with_halves!(self, halves => halves.read_blocks(blocks))
    }

    /// Writes the bytes from [`Cache::read_blocks`] to as many blocks.
    ///
    /// # Panics
    /// The bytes are those of another number of blocks.
    pub(super) fn write_blocks(&mut self, blocks: &[u32], bytes: &[u8]) {
        with_halves!(self, halves => halves.write_blocks(blocks, bytes));
    }
}

/// A number of the cache as bytes, little-endian.
pub(super) trait Number: Copy {
    const BYTES: usize;

    fn to(self, bytes: &mut [u8]);

    fn from(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($type:ty, $n:literal) => {
        impl Number for $type {
            const BYTES: usize = $n;

            fn to(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn from(bytes: &[u8]) -> Self {
                let mut le_bytes = [0; $n];
                le_bytes.copy_from_slice(bytes);
                Self::from_le_bytes(le_bytes)
            }
        }
    };
}
number!(bf16, 2);
number!(f16, 2);
number!(f32, 4);

impl<S: Number> Halves<S> {
    fn read_blocks(&self, blocks: &[u32]) -> Vec<u8> {
        let n_bytes = S::BYTES * self.blocks.as_flattened().iter().sum::<usize>();
        let mut bytes = vec![0; blocks.len() * n_bytes];
        for (&block, bytes) in blocks.iter().zip(bytes.chunks_exact_mut(n_bytes.max(1))) {
            let mut tail = bytes;
            for (i, sizes) in self.blocks.iter().enumerate() {
                for (half, &size) in [&self.keys, &self.values].into_iter().zip(sizes) {
                    let numbers = &half[i][block as usize * size..][..size];
                    let (half_bytes, after) = tail.split_at_mut(size * S::BYTES);
                    half_bytes
                        .chunks_exact_mut(S::BYTES)
                        .zip(numbers)
                        .for_each(|(bytes, number)| number.to(bytes));
                    tail = after;
                }
            }
        }
        bytes
    }

    fn write_blocks(&mut self, blocks: &[u32], bytes: &[u8]) {
        let n_bytes = S::BYTES * self.blocks.as_flattened().iter().sum::<usize>();
        assert_eq!(bytes.len(), blocks.len() * n_bytes, "the bytes of as many blocks");
        for (&block, bytes) in blocks.iter().zip(bytes.chunks_exact(n_bytes.max(1))) {
            let mut tail = bytes;
            for (i, sizes) in self.blocks.iter().enumerate() {
                for (half, &size) in [&mut self.keys, &mut self.values].into_iter().zip(sizes) {
                    let numbers = &mut half[i][block as usize * size..][..size];
                    let (half_bytes, after) = tail.split_at(size * S::BYTES);
                    let read = half_bytes.chunks_exact(S::BYTES).map(S::from);
                    numbers.iter_mut().zip(read).for_each(|(number, read)| *number = read);
                    tail = after;
                }
            }
        }
    }
}

impl<S: Copy> Halves<S> {
    fn new(blocks: Vec<[usize; 2]>, zeros: impl Fn(usize) -> Vec<S>) -> Self {
        let layers = |half: usize| blocks.iter().map(|sizes| zeros(sizes[half])).collect();
        Self { keys: layers(0), values: layers(1), blocks }
    }

    fn copy_block(&mut self, from: usize, to: usize) {
        for (i, half) in [&mut self.keys, &mut self.values].into_iter().enumerate() {
            for (layer, block) in half.iter_mut().zip(self.blocks.iter().map(|sizes| sizes[i])) {
                layer.copy_within(from * block..(from + 1) * block, to * block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers with keys and values, one without: three blocks of 4 and of 2 numbers, all different.
    fn filled<S: Number>(number: impl Fn(f32) -> S) -> Halves<S> {
        let halves = Halves::new([4, 0, 2].map(|n| [n; 2]).to_vec(), |block| vec![number(0.0); 3 * block]);
        let (mut keys, mut values, mut next) = (halves.keys, halves.values, 0.0);
        for x in keys.iter_mut().chain(&mut values).flatten() {
            next += 1.0;
            *x = number(next);
        }
        Halves { keys, values, blocks: halves.blocks }
    }

    fn moves<S: Number + PartialEq + std::fmt::Debug>(number: impl Fn(f32) -> S + Copy) {
        let (from, mut to) = (
            filled(number),
            Halves::new([4, 0, 2].map(|n| [n; 2]).to_vec(), |block| vec![number(0.0); 3 * block]),
        );
        let bytes = from.read_blocks(&[2, 0]);
        assert_eq!(bytes.len(), 2 * 2 * (4 + 2) * S::BYTES);
        to.write_blocks(&[1, 2], &bytes);
        assert_eq!(to.read_blocks(&[1, 2]), bytes);
        for (from, to) in [(&from.keys, &to.keys), (&from.values, &to.values)] {
            assert_eq!((&from[0][8..], &from[0][..4]), (&to[0][4..8], &to[0][8..]));
            assert_eq!((&from[2][4..], &from[2][..2]), (&to[2][2..4], &to[2][4..]));
            assert!(to[0][..4].iter().chain(&to[2][..2]).all(|x| *x == number(0.0)), "others are untouched");
        }
    }

    #[test]
    fn blocks_are_written_to_other_places_as_they_were_read() {
        moves(bf16::from_f32);
        moves(f16::from_f32);
        moves(|x| x);
    }
}
