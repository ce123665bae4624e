//! What training takes in memory, by arithmetic, and whether this machine has it. It allocates nothing.

use super::Error;
use crate::model::Config;

/// Numbers that the graph keeps for each row and layer: in widths of the residual stream, and of the feed-forward half.
const KEPT_HIDDEN: usize = 22;
const KEPT_INTERMEDIATE: usize = 9;

/// Room for logits, for files that are read, and for what is not counted.
const SPARE: usize = 512 << 20;

/// What is trained, as far as memory goes.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Layers that gradients go through.
    pub layers: usize,
    /// Whether the output matrix is among what is loaded.
    pub has_head: bool,
    /// The most tokens that go through them together.
    pub rows: usize,
    /// Values of all adapters.
    pub n_adapted: usize,
}

/// Bytes that training takes at its height.
#[must_use]
pub fn bytes(c: &Config, size: Size) -> usize {
    let heads = c.n_heads + 2 * c.n_kv_heads;
    let layer = c.hidden * (heads + c.n_heads) * c.head_dim + 3 * c.hidden * c.intermediate;
    // Every matrix is there twice: as it is, and transposed.
    let head = if size.has_head { c.vocab * c.hidden } else { 0 };
    let frozen = 2 * (size.layers * layer + head);
    let graph = size.rows * size.layers * (KEPT_HIDDEN * c.hidden + KEPT_INTERMEDIATE * c.intermediate);
    4 * (frozen + graph + 6 * size.n_adapted) + SPARE
}

/// Refuses what does not fit into `free` bytes.
///
/// # Errors
/// [`Error::Memory`].
pub fn check(needed: usize, free: usize) -> Result<(), Error> {
    if needed <= free {
        return Ok(());
    }
    Err(Error::Memory {
        needed: gib(needed),
        free: gib(free),
        hint: "fewer `--layers`, shorter texts (`--max-tokens`), or a smaller model".into(),
    })
}

/// A size in GiB.
#[must_use]
pub fn gib(bytes: usize) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Bytes that programs can still allocate; `None` where the system does not say.
#[must_use]
pub fn free() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_sizes() {
        assert!(check(1 << 30, 2 << 30).is_ok());
        let error = check(3 << 30, 1 << 30).unwrap_err().to_string();
        assert!(
            error.starts_with("too little memory: training takes about 3.0 GiB, but 1.0 GiB are free; hint:")
        );
    }
}
