//! Memory for the KV cache: the system's free memory, and other needs for it. It allocates nothing.

use std::path::Path;

use super::{Error, MAX_CONTEXT, Options, Result};
use crate::files;
use crate::model::{BLOCK, KvType, StepLimits, Weights};
use crate::{
    cuda::{self, products::Way},
    device::Device,
};

pub use crate::cuda::{AttentionSizes, DeltaNetSizes, ExpertSizes, Sizes};

/// Bytes that programs can still allocate without swapping; `None` where the system does not report them.
pub fn available() -> Option<usize> {
    let free = kib_of("/proc/meminfo", "MemAvailable:");
    [free, limited()].into_iter().flatten().min()
}

/// Bytes that this process may still take under a limit of its own (`ulimit -v`); `None` without one.
pub fn limited() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kib_of("/proc/self/status", "VmSize:")?))
}

fn kib_of(file: &str, name: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Checks an allocation against the limit of this process; a failed allocation would abort it without a
/// message.
///
/// # Errors
/// [`Error::Limit`].
pub fn check_limit(bytes: usize) -> Result<()> {
    /// Threads' stacks, activations, and the reserve of the system's allocator.
    const SPARE: usize = 128 << 20;
    let needed = bytes.saturating_add(SPARE);
    match limited().filter(|left| *left < needed) {
        Some(left) => Err(Error::Limit { needed: in_words(needed), left: in_words(left) }),
        None => Ok(()),
    }
}

/// Checks that a cache fits beside the weights: otherwise the system would kill the run once the cache is
/// partly full.
///
/// # Errors
/// [`Error::TooMuchCache`].
pub fn check_free(kv_bytes: usize, loaded_bytes: usize, available: Option<usize>) -> Result<()> {
    let free = available.map(|free| free.saturating_sub(loaded_bytes));
    match free.filter(|free| *free < kv_bytes) {
        Some(free) => Err(Error::TooMuchCache { asked: size(kv_bytes), free: in_words(free) }),
        None => Ok(()),
    }
}

/// Checks that a model's weights fit into memory.
///
/// # Errors
/// [`Error::TooMuchWeight`], with the number of weights that would fit.
pub fn check_weights(loaded_bytes: usize, n_weights: usize, available: Option<usize>) -> Result<()> {
    /// Bits of a weight in a GGUF file in `Q4_K_M`, in thousandths.
    const BITS: usize = 4850;
    let Some(free) = available.filter(|free| *free < loaded_bytes) else { return Ok(()) };
    let in_four_bits = n_weights / 8000 * BITS;
    let hint = if in_four_bits < loaded_bytes.min(free) {
        format!("take a GGUF file of the model in Q4_K_M, about {}", in_words(in_four_bits))
    } else {
        let billions = free / BITS * 8 / 1_000_000;
        format!(
            "take a model of at most {billions} billion weights as a GGUF file in Q4_K_M, or a larger machine"
        )
    };
    Err(Error::TooMuchWeight { needed: in_words(loaded_bytes), free: in_words(free), hint })
}

/// The default size of the cache: half of the memory that is free once weights and adapters are loaded, at
/// most 4 GiB.
pub fn default_cache(loaded_bytes: usize) -> usize {
    const MOST: usize = 4 << 30;
    let free = available().map_or(MOST, |free| free.saturating_sub(loaded_bytes) / 2);
    free.min(MOST)
}

/// The GPU memory that a model needs for one sequence of the full context.
///
/// Unit: bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The adapters' bytes are included.
    pub weights: usize,
    /// The keys and values of one sequence of `context` positions.
    pub cache: usize,
    /// The recurrent state of one sequence and a snapshot of it; 0 for a model of attention alone.
    pub states: usize,
    /// Buffers of a step.
    pub steps: usize,
    /// Unit: positions.
    pub context: usize,
    /// The most that each card needs where 1, 2, .. cards share the model; `None` where so many cannot.
    pub on_each: [Option<usize>; cuda::MOST_CARDS],
    /// The part of `on_each` for the cache of one sequence.
    pub cache_on_each: [Option<usize>; cuda::MOST_CARDS],
}

impl Need {
    /// The need of a model under some options, whatever their device and cache size.
    pub fn new(sizes: Sizes, weights: usize, options: &Options) -> Self {
        let context = options.context.unwrap_or_else(|| sizes.context.min(MAX_CONTEXT));
        let of_position = |cached: usize| cached * KvType::Bf16.bytes() * context.next_multiple_of(BLOCK);
        let limits = step_limits(sizes, LEAST_TOKENS.min(options.step_tokens), options.n_rows, context);
        let steps = cuda::step_bytes(sizes, limits) + SPARE;
        let cache = of_position(sizes.cached());
        let states = LEAST_SLOTS * sizes.delta_net.map_or(0, |delta_net| delta_net.state_bytes);
        // Each card has the whole table of embeddings, and whole rows of a product's input.
        let table = 2 * sizes.vocab * sizes.hidden;
        let of_experts = sizes.experts.map_or(0, |experts| experts.top_k * experts.width);
        let of_delta_net = sizes.delta_net.map_or(0, |delta_net| delta_net.values);
        let widest = sizes.intermediate.max(sizes.query_width()).max(of_experts).max(of_delta_net);
        let rows = 2 * limits.rows * widest;
        let (mut on_each, mut cache_on_each) = ([None; cuda::MOST_CARDS], [None; cuda::MOST_CARDS]);
        for n in cuda::SharedHeads::from(sizes).possible_cards() {
            let share = |attention: AttentionSizes| {
                attention.cached() / attention.n_kv_heads.max(1) * (attention.n_kv_heads / n).max(1)
            };
            let own_cache = of_position(sizes.attentions().map(share).sum());
            let beside = if n == 1 { 0 } else { table - table / n + rows };
            on_each[n - 1] = Some(weights / n + own_cache + states / n + steps + beside);
            cache_on_each[n - 1] = Some(own_cache);
        }
        Self { weights, cache, states, steps, context, on_each, cache_on_each }
    }

    /// The need of the model in a GGUF file or a safetensors folder; `packs` as in
    /// [`Weights::n_bytes_on_gpus`].
    ///
    /// # Errors
    /// A model that is not supported.
    pub fn of(path: &Path, options: &Options, packs: bool) -> Result<Self> {
        let weights = Weights::open(path)?;
        let sizes = Sizes::from(weights.config());
        let mut need = Self::new(sizes, weights.n_bytes_on_gpus(packs), options);
        // A matrix that is rounded in steps becomes a panel of bf16, which the cards share.
        let is_rounded = |format| Way::new(format, packs).panel(usize::MAX).is_some();
        if weights.tensors().any(|(_, format, shape)| shape.len() > 1 && is_rounded(format)) {
            let of_experts = sizes.experts.map_or(0, |experts| 2 * experts.n * experts.width);
            let panel = 2 * sizes.hidden * of_experts.max(2 * sizes.intermediate).max(sizes.vocab);
            need.steps += panel;
            (1..).zip(&mut need.on_each).for_each(|(n, each)| *each = each.map(|bytes| bytes + panel / n));
        }
        Ok(need)
    }

    pub fn total(&self) -> usize {
        self.weights + self.cache + self.states + self.steps
    }

    /// The longest context that fits into so much memory on each of some cards, at most the model's own;
    /// `None` if not even one block fits, or so many cannot share the model.
    #[must_use]
    pub fn context_in(&self, memory: usize, n_cards: usize) -> Option<usize> {
        let at = n_cards.checked_sub(1)?;
        let (all, cache) = ((*self.on_each.get(at)?)?, (*self.cache_on_each.get(at)?)?);
        let left = memory.checked_sub(all - cache)?;
        let blocks = left / (cache / self.context.div_ceil(BLOCK).max(1)).max(1);
        Some((blocks * BLOCK).min(self.context)).filter(|&context| context > 0)
    }
}

/// The first GPU's name and its free memory, in bytes; `None` without a GPU.
pub fn free_on_gpu() -> Option<(String, usize)> {
    let Device::Cuda(gpu) = Device::named("cuda").ok()?.pop()? else { return None };
    let (free, _) = gpu.memory().ok()?;
    Some((gpu.name().to_owned(), free))
}

/// The fewest slots for a run: the state of a running sequence, and a snapshot.
pub const LEAST_SLOTS: usize = 2;

/// Bytes of a GPU that are left unplanned: recorded steps, which are discarded where memory runs out, and
/// kernels that the driver loads when they are first launched.
pub const SPARE: usize = 512 << 20;

/// The fewest prompt tokens of a step on a GPU; with fewer, reading weights dominates.
const LEAST_TOKENS: usize = 512;

/// Prompt tokens of a step on a GPU, to be tried in order: the most first.
pub fn step_tokens(options: &Options) -> impl Iterator<Item = usize> {
    let most = options.step_tokens.max(1);
    std::iter::successors(Some(most), |&n| (n > LEAST_TOKENS).then(|| (n / 2).max(LEAST_TOKENS)))
}

/// The largest step with so many prompt tokens: each sequence adds one token of an answer at least, and
/// logits may take as much memory as the widest product.
pub fn step_limits(sizes: Sizes, n_tokens: usize, n_rows: usize, context: usize) -> StepLimits {
    let (n_rows, rows) = (n_rows.max(1), n_tokens.max(1) + n_rows.max(1));
    StepLimits { rows, wanted: sizes.logits_of(rows).clamp(n_rows, rows), sequences: n_rows, context }
}

fn in_words(bytes: usize) -> String {
    files::size(bytes as u64)
}

/// A size in a readable unit, rounded up so that it can be passed back as an option.
pub fn size(bytes: usize) -> String {
    const MIB: usize = 1 << 20;
    if bytes >= 10 << 30 {
        format!("{}GiB", bytes.div_ceil(1 << 30))
    } else {
        format!("{}MiB", bytes.div_ceil(MIB))
    }
}

/// A size in a readable unit, rounded down so that it fits.
pub fn whole_size(bytes: usize) -> String {
    format!("{}MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published sizes of Qwen2.5.
    const QWEN_72B: Sizes = Sizes {
        hidden: 8192,
        intermediate: 29568,
        n_heads: 64,
        full: AttentionSizes { n_layers: 80, n_kv_heads: 8, head_dim: 128, rotary_dim: 128, cached_parts: 2 },
        sliding: None,
        vocab: 152_064,
        context: 32_768,
        experts: None,
        delta_net: None,
        gated_attention: false,
        on_one_card: None,
    };
    const QWEN_32B: Sizes = Sizes {
        hidden: 5120,
        intermediate: 27648,
        n_heads: 40,
        full: AttentionSizes { n_layers: 64, ..QWEN_72B.full },
        ..QWEN_72B
    };
    /// Memory of an 80 GB card available to programs.
    const CARD: usize = 79 << 30;

    #[test]
    fn a_72b_in_q4_k_m_and_a_32b_in_bf16_fit_one_80_gb_card() {
        let quantised = Need::new(QWEN_72B, 47_415_715_104, &Options::for_gpu());
        assert_eq!(
            quantised.cache,
            32_768 * 327_680,
            "80 layers of 8 heads of 128, keys and values, 2 bytes"
        );
        assert!(quantised.total() < CARD, "{quantised:?}");
        let full = Need::new(QWEN_32B, 65_527_752_704, &Options::for_gpu());
        assert_eq!(full.cache, 8 << 30);
        assert!(full.total() < CARD, "{full:?}");
        assert_eq!(full.context_in(CARD, 1), Some(32_768));
        let too_large = Need::new(QWEN_72B, 145_412_407_296, &Options::for_gpu());
        assert!(too_large.total() > CARD && too_large.context_in(CARD, 1).is_none());
        assert_eq!(too_large.context_in(CARD, 2), Some(32_768));
    }

    #[test]
    fn a_cache_larger_than_the_memory_is_refused() {
        const GIB: usize = 1 << 30;
        let error = |bytes, weights| check_weights(bytes, weights, Some(23 * GIB)).unwrap_err().to_string();
        let large = error(57 * GIB, 30_500_000_000);
        assert!(
            large.contains("23.00 GiB of memory are free") && large.contains("Q4_K_M, about 17.22 GiB"),
            "{large}"
        );
        let huge = error(300 * GIB, 235_000_000_000);
        assert!(huge.contains("at most 40 billion weights"), "{huge}");
        assert!(
            check_weights(22 * GIB, 1 << 30, Some(23 * GIB)).is_ok()
                && check_weights(400 * GIB, 1, None).is_ok()
        );
        let told = check_free(400 * GIB, GIB, Some(23 * GIB)).unwrap_err().to_string();
        assert_eq!(
            told,
            "a KV cache of 400GiB is more than the memory that is free beside the weights, 22.00 GiB"
        );
        assert!(check_free(22 * GIB, GIB, Some(23 * GIB)).is_ok() && check_free(400 * GIB, 0, None).is_ok());
    }

    #[test]
    fn a_card_too_small_for_the_full_context_has_room_for_a_shorter_one() {
        let need = Need::new(QWEN_32B, 65_527_752_704, &Options::for_gpu());
        let short = need.total() - need.cache + 100 * (need.cache / 2048) + 5;
        assert_eq!(need.context_in(short, 1), Some(1600));
        assert_eq!(need.context_in(need.total() - need.cache, 1), None);
        let asked = Options { context: Some(100), ..Options::for_gpu() };
        assert_eq!(Need::new(QWEN_32B, 0, &asked).cache, 112 * 262_144);
    }
}
