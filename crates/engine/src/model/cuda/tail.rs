//! What is wanted of a step's logits, as the kernel `tail` reads and answers it.

use crate::model::tail::{Choice, Want};

/// Bytes of a want and of a choice, as `kernels/tail.cu` has them.
pub(super) const WANT_BYTES: usize = 32;
pub(super) const CHOICE_BYTES: usize = 24;
/// Bytes of what the 32 warps of a row have found.
pub(super) const FOUND_BYTES: usize = 32 * 32;

/// Wants that are something, and their masks.
#[derive(Default)]
pub(super) struct Wants {
    /// `[wants]`, then `[masks, mask_words]`.
    pub bytes: Vec<u8>,
    /// The row of each want.
    pub rows: Vec<usize>,
    pub mask_words: usize,
}

impl Wants {
    /// The wants of rows in order; masks are read as far as the vocabulary goes.
    pub(super) fn new(wants: &[Want], vocab: usize) -> Self {
        let mut all = Self::default();
        let mut masks: Vec<&[u32]> = Vec::new();
        for (row, want) in wants.iter().enumerate() {
            let (kind, id, mask, temperature, top_p, draw) = match want {
                Want::Nothing => continue,
                Want::Weigh(id) => (0, id.cast_signed(), -1, 0.0, 1.0, 0.0),
                Want::Choose(how) => {
                    let mask = how.mask.as_ref().map_or(-1, |mask| {
                        masks.push(mask);
                        masks.len() as i32 - 1
                    });
                    (1, 0, mask, how.temperature, how.top_p, how.draw)
                }
            };
            all.rows.push(row);
            all.push([row as i32, kind, id, mask], [temperature, top_p], draw);
        }
        all.mask_words = masks.iter().map(|mask| mask.len()).max().unwrap_or(0).min(vocab.div_ceil(32));
        for mask in masks {
            let words = mask.iter().copied().chain(std::iter::repeat(0)).take(all.mask_words);
            all.bytes.extend(words.flat_map(u32::to_le_bytes));
        }
        all
    }

    /// Tokens to weigh after rows, of which several may be the same.
    pub(super) fn weighing(asked: &[(usize, u32)]) -> Self {
        let mut all = Self::default();
        for &(row, id) in asked {
            all.rows.push(row);
            all.push([row as i32, 0, id.cast_signed(), -1], [0.0, 1.0], 0.0);
        }
        all
    }

    fn push(&mut self, numbers: [i32; 4], singles: [f32; 2], draw: f64) {
        self.bytes.extend(numbers.into_iter().flat_map(i32::to_le_bytes));
        self.bytes.extend(singles.into_iter().flat_map(f32::to_le_bytes));
        self.bytes.extend(draw.to_le_bytes());
    }

    /// The choices of all wants, in order.
    pub(super) fn choices(bytes: &[u8]) -> Vec<Option<Choice>> {
        let choice = |bytes: &[u8]| {
            let eight = |at: usize| bytes[at..].first_chunk::<8>().map_or(0.0, |b| f64::from_le_bytes(*b));
            let id = bytes.first_chunk::<4>().map_or(-1, |b| i32::from_le_bytes(*b));
            u32::try_from(id).ok().map(|id| Choice { id, logprob: eight(8), masked_logprob: eight(16) })
        };
        bytes.chunks_exact(CHOICE_BYTES).map(choice).collect()
    }
}
