//! What is wanted of a step's logits, as the kernel `tail` reads and answers it.

use crate::model::tail::{Choice, Want};

/// Bytes of a want and of a choice, as `kernels/tail.cu` has them.
pub(super) const WANT_BYTES: usize = 32;
pub(super) const CHOICE_BYTES: usize = 24;

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
    pub(super) fn new(wants: &[Want]) -> Self {
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
            for number in [row as i32, kind, id, mask] {
                all.bytes.extend(number.to_le_bytes());
            }
            all.bytes.extend([temperature, top_p].into_iter().flat_map(f32::to_le_bytes));
            all.bytes.extend(f64::to_le_bytes(draw));
        }
        all.mask_words = masks.iter().map(|mask| mask.len()).max().unwrap_or(0);
        for mask in masks {
            let words = mask.iter().copied().chain(std::iter::repeat(0)).take(all.mask_words);
            all.bytes.extend(words.flat_map(u32::to_le_bytes));
        }
        all
    }

    /// The choices, one for each of `n` wants that were asked.
    pub(super) fn choices(&self, bytes: &[u8], n: usize) -> Vec<Option<Choice>> {
        let mut choices = vec![None; n];
        for (&row, bytes) in self.rows.iter().zip(bytes.chunks_exact(CHOICE_BYTES)) {
            let eight = |at: usize| bytes[at..].first_chunk::<8>().map_or(0.0, |b| f64::from_le_bytes(*b));
            let id = bytes.first_chunk::<4>().map_or(-1, |b| i32::from_le_bytes(*b));
            choices[row] =
                u32::try_from(id).ok().map(|id| Choice { id, logprob: eight(8), masked_logprob: eight(16) });
        }
        choices
    }
}
