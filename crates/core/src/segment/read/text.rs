//! Lines of a text file: checked to be UTF-8, without byte-order mark and line ends. No line is joined or skipped.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use super::Error;

/// The lines of a file, without their ends and trailing white space (as mt-metrics-eval reads them). A last
/// line without a line end counts; nothing after the last line end does not.
///
/// # Errors
/// [`Error::Io`], and [`Error::Utf8`] with the place of the first bad byte.
pub fn lines(path: &Path) -> Result<Vec<String>, Error> {
    let text = whole(path)?;
    let mut lines: Vec<String> = text.split('\n').map(|line| line.trim_end().to_string()).collect();
    if text.is_empty() || text.ends_with('\n') {
        lines.pop();
    }
    Ok(lines)
}

/// The whole text of a file without its byte-order mark.
///
/// # Errors
/// As [`lines`].
pub fn whole(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text))
}

/// Whether a file begins with a byte-order mark; not one that cannot be read.
pub fn is_marked(path: &Path) -> bool {
    let mut first = [0; 3];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *b"\xef\xbb\xbf"
}

/// Goes through the lines of a file with their numbers, without their ends and the byte-order mark. Only one line is in
/// memory at a time.
///
/// # Errors
/// As [`lines`], and what `visit` returns.
pub fn each(path: &Path, mut visit: impl FnMut(usize, &str) -> Result<(), Error>) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.into(), source };
    let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(io)?);
    let (mut line, mut number) = (Vec::new(), 0);
    let mut is_utf16 = false;
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(io)? == 0 {
            return Ok(());
        }
        number += 1;
        is_utf16 |= number == 1 && is_marked_utf16(&line);
        let whole = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = std::str::from_utf8(whole).map_err(|error| Error::Utf8 {
            path: path.into(),
            line: number,
            byte: error.valid_up_to() + 1,
            hint: hint(is_utf16),
        })?;
        let text = text.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(text);
        visit(number, text)?;
    }
}

fn is_marked_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

fn hint(is_utf16: bool) -> &'static str {
    if is_utf16 {
        "\nhint: the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"
    } else {
        "\nhint: convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW"
    }
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Error {
    let bytes = error.as_bytes();
    let before = &bytes[..error.utf8_error().valid_up_to()];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    Error::Utf8 {
        path: path.into(),
        line: before.split(|&byte| byte == b'\n').count(),
        byte: before.len() - line_start + 1,
        hint: hint(is_marked_utf16(bytes)),
    }
}
