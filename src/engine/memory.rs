//! How much memory the KV cache may take, and what must be left. It asks the system and does arithmetic; it allocates nothing.

use crate::model::Config;

/// Bytes that programs can still allocate without swapping; `None` where the system does not say.
pub fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The size of the cache when none is asked for: half of what is free once the weights are loaded, at
/// most 4 GiB.
pub fn default_cache(weight_bytes: usize) -> usize {
    const MOST: usize = 4 << 30;
    let free = available().map_or(MOST, |free| free.saturating_sub(weight_bytes) / 2);
    free.min(MOST)
}

/// Bytes of a GPU that a step takes beside weights and cache: its activations, its logits, and some to spare.
pub fn step(config: &Config, n_tokens: usize, n_rows: usize) -> usize {
    const SPARE: usize = 512 << 20;
    let heads = config.n_heads + 2 * config.n_kv_heads;
    let numbers = 4 * config.hidden + 2 * heads * config.head_dim + 4 * config.intermediate;
    4 * ((n_tokens + n_rows) * numbers + n_rows * config.vocab) + SPARE
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
