//! Sampling requests and results, in the layout of the kernel `tail`.

use tribunal_model::sampler::{SampleRequest, SampledToken};

/// Bytes of a request and of a choice; must equal those in `kernels/tail.cu`.
pub(super) const WANT_BYTES: usize = 32;
pub(super) const CHOICE_BYTES: usize = 24;
/// Bytes of the partial results of a row's 32 warps.
pub(super) const FOUND_BYTES: usize = 32 * 32;

/// Sampling requests, without empty ones, and their masks.
#[derive(Default)]
pub(super) struct Wants<'a> {
    /// `[wants]`
    bytes: Vec<u8>,
    masks: Vec<&'a [u32]>,
    /// The row of each request.
    pub rows: Vec<usize>,
    pub mask_words: usize,
}

impl<'a> Wants<'a> {
    /// The requests of rows in order; masks are cut at the end of the vocabulary.
    pub(super) fn new(wants: &'a [SampleRequest], vocab: usize) -> Self {
        let mut all = Self::default();
        for (row, want) in wants.iter().enumerate() {
            let (kind, id, mask, temperature, top_p, draw) = match want {
                SampleRequest::Nothing => continue,
                SampleRequest::Weigh(id) => (0, id.cast_signed(), -1, 0.0, 1.0, 0.0),
                SampleRequest::Choose(how) => {
                    let mask = how.mask.as_ref().map_or(-1, |mask| {
                        all.masks.push(mask);
                        all.masks.len() as i32 - 1
                    });
                    (1, 0, mask, how.temperature, how.top_p, how.draw)
                }
            };
            all.rows.push(row);
            all.push([row as i32, kind, id, mask], [temperature, top_p], draw);
        }
        let longest = all.masks.iter().map(|mask| mask.len()).max();
        all.mask_words = longest.unwrap_or(0).min(vocab.div_ceil(32));
        all
    }

    /// Bytes of all requests and masks.
    pub(super) fn n_bytes(&self) -> usize {
        self.bytes.len() + 4 * self.masks.len() * self.mask_words
    }

    /// Writes `[wants]`, then `[masks, mask_words]`, to as many bytes. Shorter masks allow nothing beyond
    /// their end.
    pub(super) fn write(&self, to: &mut [u8]) {
        let (wants, masks) = to.split_at_mut(self.bytes.len());
        wants.copy_from_slice(&self.bytes);
        for (mask, to) in self.masks.iter().zip(masks.chunks_exact_mut((4 * self.mask_words).max(1))) {
            let (words, beyond) = to.split_at_mut(4 * mask.len().min(self.mask_words));
            for (bytes, word) in words.as_chunks_mut::<4>().0.iter_mut().zip(*mask) {
                *bytes = word.to_le_bytes();
            }
            beyond.fill(0);
        }
    }

    /// Requests for the log-probabilities of tokens after rows, of which several may be the same.
    pub(super) fn for_logprobs(requested: &[(usize, u32)]) -> Self {
        let mut all = Self::default();
        for &(row, id) in requested {
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

    /// The choices of all requests, in order.
    pub(super) fn choices(bytes: &[u8]) -> Vec<Option<SampledToken>> {
        let choice = |bytes: &[u8]| {
            let eight = |at: usize| bytes[at..].first_chunk::<8>().map_or(0.0, |b| f64::from_le_bytes(*b));
            let id = bytes.first_chunk::<4>().map_or(-1, |b| i32::from_le_bytes(*b));
            u32::try_from(id).ok().map(|id| SampledToken { id, logprob: eight(8), masked_logprob: eight(16) })
        };
        bytes.chunks_exact(CHOICE_BYTES).map(choice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_model::sampler::SamplingParams;

    #[test]
    fn masks_lie_behind_the_wants_each_as_long_as_the_longest() {
        let choose = |mask: Option<Vec<u32>>| {
            SampleRequest::Choose(SamplingParams { mask, temperature: 0.5, top_p: 0.9, draw: 0.25 })
        };
        let wants = [
            SampleRequest::Nothing,
            choose(Some(vec![1, 2, 3])),
            choose(None),
            SampleRequest::Weigh(7),
            choose(Some(vec![9])),
        ];
        let wants = Wants::new(&wants, 64);
        assert_eq!((wants.rows.as_slice(), wants.mask_words), (&[1, 2, 3, 4][..], 2));
        let mut bytes = vec![0xff; wants.n_bytes()];
        wants.write(&mut bytes);
        let words: Vec<i32> = bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|i| &words[8 * i..8 * i + 4]);
        assert_eq!(
            [first, second, third, fourth],
            [&[1, 1, 0, 0], &[2, 1, 0, -1], &[3, 0, 7, -1], &[4, 1, 0, 1]]
        );
        assert_eq!(words[32..], [1, 2, 9, 0], "cut to the vocabulary, or filled up with what allows nothing");
    }
}
