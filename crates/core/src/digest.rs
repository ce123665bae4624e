//! SHA-256 in lower-case hexadecimal digits, and a fast hash of numbers. It opens no file.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Digits of [`short`].
const SHORT: usize = 8;

/// Bytes in lower-case hexadecimal.
///
/// ```
/// assert_eq!(tribunal_core::digest::hex(&[0, 10, 255]), "000aff");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
        text
    })
}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// The first eight digits of the SHA-256 of some bytes, as signatures name prompts and files.
///
/// ```
/// assert_eq!(tribunal_core::digest::short("abc"), "ba7816bf");
/// ```
pub fn short(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes)[..SHORT / 2])
}

/// FNV-1a of the bits of some numbers: another one where a single number has other bits. Not against people
/// who look for collisions.
pub fn hash_of_bits(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
