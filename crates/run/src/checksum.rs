//! The checksum at the end of each line of a journal, which detects edits and disk faults.

use sha2::{Digest, Sha256};

use crate::digest;

/// The text before and after a line's checksum, which replaces the record's last brace.
const BEFORE: &str = ",\"check\":\"";
const AFTER: &str = "\"}";
/// Digits of a checksum: the first of the record's SHA-256.
const N_DIGITS: usize = 8;

/// A record's line in the journal.
pub fn with_checksum(json: &str) -> String {
    let open = json.strip_suffix('}').unwrap_or(json);
    format!("{open}{BEFORE}{}{AFTER}", checksum(json.as_bytes()))
}

/// Makes a journal's line the JSON of its record.
///
/// # Errors
/// The reason why the line is damaged.
pub fn strip_checksum(line: &mut Vec<u8>) -> Result<(), &'static str> {
    let split =
        line.strip_suffix(AFTER.as_bytes()).and_then(|checked| checked.split_last_chunk::<N_DIGITS>());
    let parts = split.and_then(|(open, digits)| Some((open.strip_suffix(BEFORE.as_bytes())?.len(), *digits)));
    let (len, digits) = parts.ok_or("it has no checksum")?;
    line.truncate(len);
    line.push(b'}');
    if checksum(line).as_bytes() == digits {
        Ok(())
    } else {
        Err("its checksum is that of another line: it was changed")
    }
}

fn checksum(json: &[u8]) -> String {
    digest::hex(&Sha256::digest(json)[..N_DIGITS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_line_shows() {
        let json = r#"{"system":"a","score":-5.0,"reason":null}"#;
        let line = with_checksum(json).into_bytes();
        let stripped = |mut line: Vec<u8>| strip_checksum(&mut line).map(|()| line);
        assert_eq!(stripped(line.clone()).as_deref(), Ok(json.as_bytes()));
        for at in 0..line.len() {
            for other in [b'0', b'1', b' ', b'"', b'}'] {
                let mut changed = line.clone();
                if std::mem::replace(&mut changed[at], other) != other {
                    assert!(stripped(changed).is_err(), "{at}");
                }
            }
            assert!(stripped(line[..at].to_vec()).is_err());
        }
    }
}
