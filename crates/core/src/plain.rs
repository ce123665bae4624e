//! Escapes text for a terminal: names and answers must not move the cursor or change the writing direction.

use std::{
    borrow::Cow,
    io::{self, Write},
};

/// A text whose control characters (other than line ends and tabs) and changes of writing direction are shown
/// as `\u{..}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    shown(text, |c| c.escape_unicode().to_string())
}

/// JSON in which the same characters are escaped as JSON escapes them.
pub fn plain_json(json: &str) -> Cow<'_, str> {
    shown(json, |c| format!("\\u{:04x}", u32::from(c)))
}

fn shown(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_terminal_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_terminal_control(c) { escape(c) } else { c.to_string() }).collect())
}

/// True if a terminal interprets a character instead of showing it.
pub fn is_terminal_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A writer whose text reaches a terminal with these characters shown, as in [`plain_json`], so that JSON
/// stays JSON.
pub struct EscapeControls<W> {
    inner: W,
    /// The first bytes of a character whose last bytes have not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> EscapeControls<W> {
    /// Writes to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, begun: Vec::new() }
    }
}

impl<W: Write> Write for EscapeControls<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let joined = [&self.begun, bytes].concat();
        let mut tail = joined.as_slice();
        self.begun.clear();
        loop {
            let (text, bad) = match str::from_utf8(tail) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (text, bad) = tail.split_at(error.valid_up_to());
                    (str::from_utf8(text).map_err(io::Error::other)?, Some((bad, error.error_len())))
                }
            };
            self.inner.write_all(plain_json(text).as_bytes())?;
            match bad {
                None => return Ok(bytes.len()),
                Some((bad, None)) => {
                    self.begun = bad.to_vec();
                    return Ok(bytes.len());
                }
                Some((bad, Some(n))) => {
                    self.inner.write_all("\u{fffd}".as_bytes())?;
                    tail = &bad[n..];
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("\u{1b}[31mred\r\u{9b}2J\u{7}"), "\\u{1b}[31mred\\u{d}\\u{9b}2J\\u{7}");
        assert_eq!(plain("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(plain("tab\tline\nשלום 高"), "tab\tline\nשלום 高");
    }

    #[test]
    fn json_stays_json() {
        let json = serde_json::to_string("a\u{1b}\u{9b}\u{202e}b").unwrap();
        let shown = plain_json(&json);
        assert_eq!(shown, "\"a\\u001b\\u009b\\u202eb\"");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), "a\u{1b}\u{9b}\u{202e}b");
    }

    #[test]
    fn a_writer_shows_them_wherever_its_bytes_are_cut() {
        let text = "é\u{1b}[2J\u{9b}高\u{202e}\n";
        for size in 1..=text.len() {
            let mut out = Vec::new();
            let mut writer = EscapeControls::new(&mut out);
            text.as_bytes().chunks(size).for_each(|chunk| writer.write_all(chunk).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), "é\\u001b[2J\\u009b高\\u202e\n", "{size}");
        }
        let mut out = Vec::new();
        EscapeControls::new(&mut out).write_all(b"a\xff\xfeb").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}\u{fffd}b");
    }
}
