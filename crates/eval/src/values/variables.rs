//! Environment variables that set no option of the command line: numbers and a size.

use super::bytes;

/// Seconds after which a step on the GPU may count as hung, and the number of steps between two that are
/// computed twice.
const STEP_LIMIT: &str = "TRIBUNAL_STEP_LIMIT";
const STEP_CHECK: &str = "TRIBUNAL_STEP_CHECK";

/// The size of all saved prefixes.
const SAVED_PREFIXES: &str = "TRIBUNAL_SAVED_PREFIXES";

/// Disk space of all saved prefixes where no variable sets it. Unit: bytes.
pub const DISK: u64 = 4 << 30;

/// Time after which a step on the GPU may count as hung, where no variable sets it. Unit: seconds.
pub const HUNG_AFTER: f64 = 30.0;

/// Number of steps between two that are computed twice, where no variable sets it.
pub const RECHECK_EVERY: usize = 4096;

/// Checks the environment variables that are numbers or sizes.
///
/// # Errors
/// The first one that is neither, nor `off`.
pub fn check() -> Result<(), String> {
    for name in [STEP_LIMIT, STEP_CHECK, "TRIBUNAL_GPU_CHECK"] {
        if let Some(value) = value_of(name).filter(|value| number(value).is_none()) {
            return Err(format!("`{name}={value}`: it must be a whole number or `off`"));
        }
    }
    let Some(value) = value_of(SAVED_PREFIXES) else { return Ok(()) };
    let reason = |reason| format!("`{SAVED_PREFIXES}={value}`: {reason}, or `off`");
    prefix_size(&value).map(drop).map_err(reason)
}

/// The value of an environment variable. An empty value counts as unset.
fn value_of(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(value: &str) -> Option<u32> {
    if value == "off" { Some(0) } else { value.parse().ok() }
}

/// Disk space of all saved prefixes. Unit: bytes.
pub fn saved_prefixes() -> u64 {
    value_of(SAVED_PREFIXES).and_then(|value| prefix_size(&value).ok()).unwrap_or(DISK)
}

/// Time after which a step on the GPU may count as hung. Unit: seconds.
pub fn step_limit() -> f64 {
    value_of(STEP_LIMIT).and_then(|value| number(&value)).map_or(HUNG_AFTER, f64::from)
}

/// Number of steps between two that are computed twice.
pub fn step_check() -> usize {
    value_of(STEP_CHECK).and_then(|value| number(&value)).map_or(RECHECK_EVERY, |n| n as usize)
}

/// A size as [`bytes`] reads it, 0 where it is `off`. A small number alone is one of GiB.
fn prefix_size(value: &str) -> Result<u64, String> {
    match number(value) {
        Some(gib @ 0..1024) => Ok(u64::from(gib) << 30),
        _ => bytes(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_saved_prefixes() {
        for (size, n_bytes) in [("off", 0), ("0", 0), ("2", 2 << 30), ("2GiB", 2 << 30), ("800m", 800 << 20)]
        {
            assert_eq!(prefix_size(size), Ok(n_bytes), "{size}");
        }
        assert!(prefix_size("much").is_err() && prefix_size("-1").is_err());
    }
}
