//! The bytes of vocabulary entries: the byte-level alphabet of GPT-2 and the pieces of SentencePiece.

use std::collections::HashMap;

/// The word-boundary mark of SentencePiece.
pub(super) const SPACE_MARK: char = '\u{2581}';

/// Maps the characters of the byte-level alphabet to the bytes they stand for: printable Latin-1 characters
/// stand for themselves, the other bytes are numbered upwards from U+0100.
///
/// Source: `bytes_to_unicode` of GPT-2.
pub(super) fn byte_level_alphabet() -> HashMap<char, u8> {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut alphabet = HashMap::with_capacity(256);
    let mut next = 0x100_u32;
    for byte in 0..=u8::MAX {
        if printable(byte) {
            alphabet.insert(char::from(byte), byte);
        } else {
            alphabet.insert(char::from_u32(next).expect("U+0100 to U+0143 are characters"), byte);
            next += 1;
        }
    }
    alphabet
}

/// The bytes of a byte-level piece; a piece with a character outside the alphabet stands for itself.
pub(super) fn byte_level_bytes(piece: &str, alphabet: &HashMap<char, u8>) -> Box<[u8]> {
    let bytes: Option<Box<[u8]>> = piece.chars().map(|c| alphabet.get(&c).copied()).collect();
    bytes.unwrap_or_else(|| piece.as_bytes().into())
}

/// The bytes of a SentencePiece piece: `<0x0A>` is one byte, the mark U+2581 is a space.
pub(super) fn sentencepiece_bytes(piece: &str) -> Box<[u8]> {
    if let Some(byte) = fallback_byte(piece) {
        return Box::new([byte]);
    }
    piece.replace(SPACE_MARK, " ").into_bytes().into()
}

/// The byte of a byte-fallback piece, `<0x00>` to `<0xFF>`.
pub(super) fn fallback_byte(piece: &str) -> Option<u8> {
    let hex = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2).then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}
