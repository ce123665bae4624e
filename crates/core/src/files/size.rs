//! Formatting of byte counts.

/// Formats a number of bytes with two decimals in the largest unit of which it is at least one, after
/// rounding: `1.50 GiB`; below 1 KiB without decimals.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut amount, mut unit) = (bytes as f64 / 1024.0, 0);
    while (amount * 100.0).round() >= 102_400.0 && unit + 1 < UNITS.len() {
        (amount, unit) = (amount / 1024.0, unit + 1);
    }
    format!("{amount:.2} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn the_unit_is_that_of_the_rounded_amount() {
        assert_eq!([0, 1023, 1024].map(size), ["0 B", "1023 B", "1.00 KiB"]);
        assert_eq!(
            [(1 << 20) - 6, (1 << 20) - 1, 1 << 20].map(size),
            ["1023.99 KiB", "1.00 MiB", "1.00 MiB"]
        );
        assert_eq!([(1 << 30) - 1, 3 << 29, 1 << 52].map(size), ["1.00 GiB", "1.50 GiB", "4096.00 TiB"]);
    }
}
