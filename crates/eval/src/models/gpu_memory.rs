//! Check that a model fits a GPU: its weights, one sequence of the full context and the workspace of a step,
//! against the free memory of this machine's GPU or a given size. The arithmetic is the engine's.

use std::collections::BTreeMap;

use tribunal_model::weights::Format;

use crate::{
    engine::{AttentionSizes, DeltaNetSizes, ExpertSizes, Need, Options, Sizes, free_on_gpu},
    files::size,
    hub::{Card, Shape, ShapeDeltaNet},
};

/// Usable memory of a card sold as one of 80 GB. Unit: bytes.
const EIGHTY: usize = 79 << 30;

/// Memory that a model may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    bytes: usize,
    /// Origin of the figure, in words.
    of: String,
}

impl GpuMemory {
    /// So much memory where it is given, else what is free of the first GPU, else an 80 GB card's.
    pub fn find(bytes: Option<u64>) -> Self {
        let free = || free_on_gpu().map(|(name, bytes)| Self { bytes, of: format!("free on {name}") });
        bytes.is_none().then(free).flatten().unwrap_or_else(|| Self::elsewhere(bytes))
    }

    /// So much memory of another machine's GPUs, or an 80 GB card's.
    pub fn elsewhere(bytes: Option<u64>) -> Self {
        bytes.map_or_else(
            || Self { bytes: EIGHTY, of: "of an 80 GB card".into() },
            |bytes| Self {
                bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
                of: "of the GPU that is planned for".into(),
            },
        )
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if it holds the model, on each of so many GPUs that share it.
    pub fn fits(&self, need: &Need, n_cards: usize) -> bool {
        need.context_in(self.bytes, n_cards) == Some(need.context)
    }

    /// `79.00 GiB of an 80 GB card`.
    pub fn in_words(&self) -> String {
        format!("{} {}", size(self.bytes as u64), self.of)
    }

    /// Describes whether a model fits on each of so many GPUs that hold it together; if not, the context that
    /// would, or the number of GPUs.
    pub fn verdict(&self, need: &Need, n_cards: usize) -> String {
        let Some(bytes) = need.on_each.get(n_cards - 1).copied().flatten() else {
            return format!("the model's heads cannot be shared by {n_cards} GPUs");
        };
        let room = self.in_words();
        match (self.bytes.checked_sub(bytes), need.context_in(self.bytes, n_cards)) {
            (Some(_), _) if n_cards == 1 => format!("fits into {room}"),
            (Some(left), _) => {
                let of_context = need.cache_on_each[n_cards - 1].unwrap_or(need.cache).max(1);
                let tokens = (left as f64 / of_context as f64 + 1.0) * need.context as f64;
                format!("fits into {room}, with a cache of {tokens:.0} tokens over all of them")
            }
            (None, Some(context)) => {
                format!("fits into {room} with a context of {context} tokens, not with {}", need.context)
            }
            (None, None) => {
                let together = (1..=need.on_each.len()).find(|&n| self.fits(need, n));
                let together = together.map(|n| format!("; {n} such GPUs hold it together"));
                let too_much = size((bytes - self.bytes) as u64);
                format!("does not fit into {room}: {too_much} too much{}", together.unwrap_or_default())
            }
        }
    }
}

/// `61.03 GiB weights + 8.00 GiB cache (32768 tokens) + 881.50 MiB for steps = 69.89 GiB`.
pub fn sum(need: &Need) -> String {
    let [weights, cache, states, steps, total] =
        [need.weights, need.cache, need.states, need.steps, need.total()].map(|bytes| size(bytes as u64));
    let states = if need.states > 0 { format!(" + {states} recurrent states") } else { String::new() };
    format!(
        "{weights} weights + {cache} cache ({} tokens){states} + {steps} for steps = {total}",
        need.context
    )
}

/// Describes the quantised weights of a file that are rounded to bf16 on a GPU: in each step, with the extra
/// cost over products in their own format, and when they are loaded. `tensors`: their number and weights by
/// data type.
pub fn rounded(tensors: &BTreeMap<String, (usize, u64)>) -> Vec<String> {
    let (mut names, mut bytes, mut moved) = (Vec::new(), 0.0, 0.0);
    for format in Format::ALL.into_iter().filter(|format| format.is_rounded_on_gpus()) {
        let Some(&(_, n)) = tensors.get(&format.name()) else { continue };
        let of_format = n as f64 * format.block_bytes() as f64 / format.block() as f64;
        names.push(format.name());
        bytes += of_format;
        moved += of_format + 4.0 * n as f64; // written in bf16, and read again
    }
    let of_steps = (!names.is_empty()).then(|| {
        format!(
            "{} in {}: every step rounds them to bf16 before their products, which moves {:.1} times their bytes \
             (calculated, not measured)",
            size(bytes as u64),
            names.join(", "),
            moved / bytes
        )
    });
    let is_loaded = |format: &Format| !format.is_float() && format.on_gpus() == Format::Bf16;
    let loaded = Format::ALL.into_iter().filter(is_loaded).map(Format::name);
    let loaded: Vec<_> = loaded.filter(|name| tensors.contains_key(name)).collect();
    let of_loading = format!("{}: bf16 once loaded, 2 bytes a weight", loaded.join(", "));
    of_steps.into_iter().chain((!loaded.is_empty()).then_some(of_loading)).collect()
}

/// Memory that a card's model needs on a GPU, with its whole context; `None` where the card does not state
/// its sizes.
pub fn of_card(card: &Card) -> Option<Need> {
    within(card, card.context)
}

/// The sizes of layers of Gated DeltaNet.
fn delta_net_sizes(shape: ShapeDeltaNet) -> DeltaNetSizes {
    let ShapeDeltaNet { layers, key_heads, value_heads, key_dim, value_dim, conv } = shape;
    let values = value_heads * value_dim;
    let channels = 2 * key_heads * key_dim + values;
    let state = (conv - 1) * channels + values * key_dim;
    DeltaNetSizes {
        channels,
        n_value_heads: value_heads,
        values,
        state_bytes: layers * state * size_of::<f32>(),
        shared_key_heads: key_heads,
    }
}

/// Memory that a card's model needs with at most this context; `None` where the card does not state its
/// sizes.
pub fn within(card: &Card, context: usize) -> Option<Need> {
    let shape = card.shape?;
    let Shape { layers, hidden, intermediate, heads, kv_heads, head_dim, vocab, experts, delta_net, .. } =
        shape;
    let is_dense = experts.is_none_or(|experts| experts.dense_layers > 0);
    let attention = |n_layers, n_kv_heads, head_dim| AttentionSizes {
        n_layers,
        n_kv_heads,
        head_dim,
        rotary_dim: head_dim,
        cached_parts: 2,
    };
    let n_attending = layers - delta_net.map_or(0, |delta_net| delta_net.layers.min(layers));
    // Other layers than those of full attention have a window.
    let (full, sliding) = match shape.full_attention {
        None => (attention(n_attending, kv_heads, head_dim), None),
        Some(full) => (
            attention(full.layers, full.kv_heads, full.head_dim),
            Some(attention(n_attending.saturating_sub(full.layers), kv_heads, head_dim)),
        ),
    };
    // Gemma 4 has a dense half beside the experts, as wide as others' shared expert.
    let beside_dense = shape.full_attention.is_some() && experts.is_some();
    let beside = experts.filter(|_| beside_dense).map_or(0, |experts| experts.shared_width);
    let experts = experts.map(|experts| ExpertSizes {
        n: experts.count,
        top_k: experts.per_token,
        width: experts.width,
        shared_width: if beside_dense { 0 } else { experts.shared_width },
        beside_dense,
    });
    let sizes = Sizes {
        hidden,
        intermediate: if is_dense { intermediate } else { beside },
        n_heads: heads,
        full,
        sliding,
        vocab,
        context: card.context.min(context),
        experts,
        gated_attention: delta_net.is_some(),
        on_one_card: None,
        delta_net: delta_net.map(delta_net_sizes),
    };
    Some(Need::new(sizes, usize::try_from(card.weight_bytes()?).ok()?, &Options::for_gpu()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub;

    fn verdict(name: &str, gib: f64) -> String {
        let need = of_card(&hub::find(name).unwrap()).unwrap();
        let room = GpuMemory { bytes: (gib * f64::from(1 << 30)) as usize, of: "of a test".into() };
        room.verdict(&need, 1)
    }

    #[test]
    fn a_model_fits_fits_with_a_shorter_context_or_does_not() {
        assert_eq!(verdict("qwen2.5-32b-instruct", 79.0), "fits into 79.00 GiB of a test");
        let shorter = "fits into 65.00 GiB of a test with a context of 14592 tokens, not with 32768";
        assert_eq!(verdict("qwen2.5-32b-instruct", 65.0), shorter);
        let asked = within(&hub::find("qwen2.5-32b-instruct").unwrap(), 8192).unwrap();
        let room = GpuMemory { bytes: 65 << 30, of: "of a test".into() };
        assert_eq!(room.verdict(&asked, 1), "fits into 65.00 GiB of a test");
        let not = "does not fit into 79.00 GiB of a test: 67.32 GiB too much; 2 such GPUs hold it \
                   together";
        assert_eq!(verdict("qwen2.5-72b-instruct", 79.0), not);
    }

    #[test]
    fn weights_that_are_rounded_at_every_step_are_named() {
        let tensors = |all: &[(&str, u64)]| {
            all.iter().map(|&(name, n)| (name.to_owned(), (1, n))).collect::<BTreeMap<_, _>>()
        };
        assert!(rounded(&tensors(&[("F32", 64), ("Q4_K", 256 << 20), ("Q6_K", 256)])).is_empty());
        // 176 bytes of 256 weights, and 4 more bytes of each.
        let [said] = &rounded(&tensors(&[("Q5_K", 256 << 20), ("Q6_K", 256)]))[..] else { panic!() };
        assert!(said.starts_with("176.00 MiB in Q5_K: every step rounds them to bf16"), "{said}");
        assert!(said.contains("moves 6.8 times their bytes"), "{said}");
        let loaded = rounded(&tensors(&[("Q6_K", 256), ("IQ4_NL", 32), ("Q3_K", 256)]));
        assert_eq!(loaded, ["Q3_K, IQ4_NL: bf16 once loaded, 2 bytes a weight"]);
    }

    #[test]
    fn memory_that_is_given_comes_before_what_is_here() {
        assert_eq!(GpuMemory::find(Some(24 << 30)).in_words(), "24.00 GiB of the GPU that is planned for");
    }
}
