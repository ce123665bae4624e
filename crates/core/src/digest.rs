//! SHA-256 in lower-case hexadecimal digits. It opens no file.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Digits of [`short`].
const SHORT: usize = 8;

/// Bytes in lower-case hexadecimal.
///
/// ```
/// assert_eq!(tribunal_core::digest::hex(&[0, 10, 255]), "000aff");
/// ```
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
        text
    })
}

/// The SHA-256 of some bytes.
#[must_use]
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// The first eight digits of the SHA-256 of some bytes, as signatures name prompts and files.
///
/// ```
/// assert_eq!(tribunal_core::digest::short("abc"), "ba7816bf");
/// ```
#[must_use]
pub fn short(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes)[..SHORT / 2])
}
