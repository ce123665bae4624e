//! Text input: UTF-8 with or without a byte-order mark, with Unix or Windows line ends, from a file or a
//! pipe. Errors name the cause: UTF-16, UTF-32, another encoding with the line, a compressed file. It does
//! not interpret the text.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use super::packed::Format;

/// The byte-order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The longest line that is read. Unit: bytes.
const MAX_LINE: u64 = 64 << 20;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// Error of bytes that are not text, as the inner error of an [`io::Error`]: the caller adds the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotText {
    /// Not UTF-8. Lines and bytes are counted from 1, bytes within the line.
    Utf8 {
        line: usize,
        byte: usize,
        hint: &'static str,
    },
    /// UTF-16 without a byte-order mark, which is UTF-8 as well.
    Utf16,
    /// UTF-32, with or without one.
    Utf32,
    Packed(Format),
    /// A line of more than [`MAX_LINE`].
    Line(usize),
}

impl std::error::Error for NotText {}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8 { line, byte, hint } => {
                write!(f, "line {line} is not UTF-8 at byte {byte} of the line{hint}")
            }
            Self::Utf16 => write!(f, "it is not UTF-8{UTF_16}"),
            Self::Utf32 => write!(f, "it is not UTF-8{UTF_32}"),
            Self::Packed(format) => {
                write!(f, "it is compressed with {format}\nhint: {}", format.unpack_hint())
            }
            Self::Line(line) => write!(f, "line {line} has more than {} MiB", MAX_LINE >> 20),
        }
    }
}

impl From<NotText> for io::Error {
    fn from(error: NotText) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl NotText {
    /// The reason within an error of this module's functions.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

const UTF_16: &str = "\nhint: the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW";
const UTF_32: &str = "\nhint: the file is UTF-32; convert it: iconv -f UTF-32 -t UTF-8 FILE > NEW";
const OTHER: &str = "\nhint: convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW";

/// The whole text of a file without its byte-order mark; line ends stay as they are.
///
/// # Errors
/// A file that cannot be read; [`NotText`].
pub fn read(path: &Path) -> io::Result<String> {
    of_bytes(std::fs::read(path)?)
}

/// Checks and decodes bytes that were already read.
///
/// # Errors
/// [`NotText`].
pub fn of_bytes(mut bytes: Vec<u8>) -> io::Result<String> {
    check_start(&bytes)?;
    if bytes.starts_with(BOM) {
        bytes.drain(..BOM.len());
    }
    String::from_utf8(bytes).map_err(|error| not_utf8(&error).into())
}

/// Returns true if a file begins with a byte-order mark; false if it cannot be read.
pub fn is_marked(path: &Path) -> bool {
    let mut first = [0; BOM.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == BOM
}

/// The lines of a file.
///
/// # Errors
/// A file that cannot be opened; [`NotText`] of its first bytes.
pub fn lines(path: &Path) -> io::Result<Lines> {
    Lines::new(Box::new(BufReader::with_capacity(BUFFER, File::open(path)?)))
}

/// Lines with their numbers from 1, without their ends and the byte-order mark. Only one of them is in
/// memory.
pub struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: usize,
    is_utf16: bool,
}

impl Lines {
    /// # Errors
    /// A reader that fails; [`NotText`] of its first bytes.
    pub fn new(mut reader: Box<dyn BufRead>) -> io::Result<Self> {
        let first = reader.fill_buf()?;
        check_start(first)?;
        let is_utf16 = is_marked_utf16(first);
        if first.starts_with(BOM) {
            reader.consume(BOM.len());
        }
        Ok(Self { reader, line: Vec::new(), number: 0, is_utf16 })
    }

    /// The next line; `None` at the end. A last line without an end counts.
    ///
    /// # Errors
    /// A file that cannot be read; [`NotText`].
    pub fn next_line(&mut self) -> io::Result<Option<(usize, &str)>> {
        if read_line(&mut self.reader, &mut self.line, self.number + 1)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) => Ok(Some((self.number, text))),
            Err(error) => {
                let byte = error.valid_up_to() + 1;
                let hint = if self.is_utf16 { UTF_16 } else { OTHER };
                Err(NotText::Utf8 { line: self.number, byte, hint }.into())
            }
        }
    }
}

impl Iterator for Lines {
    type Item = io::Result<(usize, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.next_line().transpose()?;
        Some(line.map(|(number, line)| (number, line.to_owned())))
    }
}

/// Reads a line with its end, over the contents of `line`; its length, 0 at the end of the file.
///
/// # Errors
/// A reader that fails; [`NotText::Line`], of which this is the number.
pub fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>, number: usize) -> io::Result<usize> {
    line.clear();
    let n = reader.take(MAX_LINE + 1).read_until(b'\n', line)?;
    if n as u64 > MAX_LINE { Err(NotText::Line(number).into()) } else { Ok(n) }
}

/// Detects encodings and compression that show in the first bytes.
fn check_start(bytes: &[u8]) -> Result<(), NotText> {
    if let Some(format) = Format::from_bytes(bytes) {
        return Err(NotText::Packed(format));
    }
    match bytes {
        // The mark of UTF-32, or a first character below U+10000.
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err(NotText::Utf32),
        [a, b, 0, 0, ..] | [0, 0, a, b, ..] if (*a, *b) != (0, 0) => Err(NotText::Utf32),
        [a, b, c, d, ..]
            if (*a == 0 && *c == 0 && *b != 0 && *d != 0) || (*b == 0 && *d == 0 && *a != 0 && *c != 0) =>
        {
            Err(NotText::Utf16)
        }
        _ => Ok(()),
    }
}

fn is_marked_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

fn not_utf8(error: &std::string::FromUtf8Error) -> NotText {
    let bytes = error.as_bytes();
    let before = &bytes[..error.utf8_error().valid_up_to()];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    NotText::Utf8 {
        line: before.split(|&byte| byte == b'\n').count(),
        byte: before.len() - line_start + 1,
        hint: if is_marked_utf16(bytes) { UTF_16 } else { OTHER },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that both readers give the same result for the same bytes: the lines, or the error.
    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&[&str], &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        std::fs::write(&path, bytes).unwrap();
        let streamed: Result<Vec<String>, String> = lines(&path)
            .and_then(|lines| lines.map(|line| line.map(|(_, text)| text)).collect())
            .map_err(|error| error.to_string());
        let whole = read(&path).map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let whole = whole.map_err(|error| error.to_string());
        let expected = expected.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(streamed, expected.map_err(str::to_owned), "line by line");
        assert_eq!(whole, streamed, "at once");
    }

    #[test]
    fn a_mark_and_windows_line_ends_are_no_text() {
        check("\u{feff}One\r\nTwo\n\nThree".as_bytes(), Ok(&["One", "Two", "", "Three"]));
        check(b"", Ok(&[]));
        check("\u{feff}".as_bytes(), Ok(&[]));
    }

    #[test]
    fn what_is_not_utf8_is_named() {
        let latin = "line 2 is not UTF-8 at byte 3 of the line\nhint: convert the file, for example: \
                     iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW";
        check(b"\xef\xbb\xbfOne\nGr\xfc\xdfe\n", Err(latin).map_err(|e: &str| e));
        let utf16 = "\nhint: the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW";
        check(b"\xff\xfeA\0\n\0", Err(&format!("line 1 is not UTF-8 at byte 1 of the line{utf16}")));
        check(b"A\0B\0\n\0", Err(&format!("it is not UTF-8{utf16}")));
        check(b"\0A\0B\0\n", Err(&format!("it is not UTF-8{utf16}")));
        let utf32 =
            "it is not UTF-8\nhint: the file is UTF-32; convert it: iconv -f UTF-32 -t UTF-8 FILE > NEW";
        for bytes in [b"\xff\xfe\0\0A\0\0\0", b"\0\0\xfe\xff\0\0\0A", b"A\0\0\0B\0\0\0", b"\0\0\0A\0\0\0B"] {
            check(bytes, Err(utf32));
        }
    }

    #[test]
    fn compressed_files_are_named() {
        check(b"\x1f\x8b\x08rest", Err("it is compressed with gzip\nhint: unpack it first: gunzip -k FILE"));
        check(b"\xfd7zXZ\0rest", Err("it is compressed with xz\nhint: unpack it first: xz -dk FILE"));
        check(
            b"\x28\xb5\x2f\xfdrest",
            Err("it is compressed with zstd\nhint: unpack it first: zstd -d FILE"),
        );
    }

    #[test]
    fn a_line_has_a_limit() {
        let endless = BufReader::new(io::repeat(b'x'));
        let error = Lines::new(Box::new(endless)).unwrap().next_line().unwrap_err();
        assert_eq!(error.to_string(), "line 1 has more than 64 MiB");
    }
}
