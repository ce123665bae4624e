//! Sizes in words.

/// `1.50 GiB`: with two decimals in the largest unit that is at most the number.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{:.2} {name}", bytes as f64 / unit as f64),
    )
}
