//! Compressed files, with a limit on the decompressed size, since a few hundred bytes can expand to
//! gigabytes. The format is detected from the first bytes, not from the name.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// Largest ratio of unpacked to packed size for tables and files of ratings, which usually shrink to between
/// a tenth and a fiftieth.
pub const MAX_RATIO: u64 = 1000;

/// The least [`limit`]. Unit: bytes.
pub const MIN_LIMIT: u64 = 1 << 30;

/// The memory that a decoder of xz may take for its dictionary (`xz -9` needs 65 MiB). Unit: KiB.
const MAX_DICTIONARY: u32 = 256 << 10;

const BUFFER: usize = 1 << 18;

/// Compression format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    /// Also what office programs write.
    Zip,
}

impl Format {
    /// The longest of the marks that begin a compressed file. Unit: bytes.
    const MARK: usize = 6;

    /// Detects the format by a file's first bytes; `None` if it is not compressed.
    pub fn from_bytes(first: &[u8]) -> Option<Self> {
        let marks: [(&[u8], Self); 5] = [
            (b"\x1f\x8b\x08", Self::Gzip),
            (b"\xfd7zXZ\0", Self::Xz),
            (b"\x28\xb5\x2f\xfd", Self::Zstd),
            (b"BZh", Self::Bzip2),
            (b"PK\x03\x04", Self::Zip),
        ];
        let found = marks.iter().find(|(mark, _)| first.starts_with(mark)).map(|(_, format)| *format);
        // `BZh` may begin a text; a digit and the mark of a block follow it.
        found.filter(|format| *format != Self::Bzip2 || first.get(4..6) == Some(b"1A"))
    }

    /// Advice with the command that unpacks this format.
    pub fn unpack_hint(self) -> &'static str {
        match self {
            Self::Gzip => "unpack it first: gunzip -k FILE",
            Self::Xz => "unpack it first: xz -dk FILE",
            Self::Zstd => "unpack it first: zstd -d FILE",
            Self::Bzip2 => "unpack it first: bunzip2 -k FILE",
            Self::Zip => "unpack it first: unzip FILE; save a sheet of a spreadsheet as CSV",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Zip => "zip",
        })
    }
}

/// Opens a file and unpacks gzip, xz and zstd. Bzip2 and ZIP are returned as they are; [`super::text::Lines`]
/// rejects them.
///
/// # Errors
/// A file that cannot be opened. While it is read: a damaged one, and one that unpacks to more than its
/// [`limit`].
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    unpacked(File::open(path)?, MAX_RATIO)
}

/// Reads an open file like [`open`], with another ratio for its [`limit`].
///
/// # Errors
/// The errors of [`open`].
pub fn unpacked(file: File, max_ratio: u64) -> io::Result<Box<dyn BufRead + Send>> {
    let n_bytes = file.metadata()?.len();
    let mut file = BufReader::with_capacity(BUFFER, file);
    let first = file.fill_buf()?;
    let format = Format::from_bytes(&first[..first.len().min(Format::MARK)]);
    let decoder: Box<dyn Read + Send> = match format {
        Some(Format::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Some(Format::Xz) => Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, MAX_DICTIONARY)),
        Some(Format::Zstd) => Box::new(zstd::Decoder::with_buffer(file)?),
        Some(Format::Bzip2 | Format::Zip) | None => return Ok(Box::new(file)),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, Limited::new(decoder, limit(n_bytes, max_ratio)))))
}

/// Largest unpacked size allowed for a packed file of `n_bytes`. Unit: bytes.
pub fn limit(n_bytes: u64, max_ratio: u64) -> u64 {
    n_bytes.saturating_mul(max_ratio).max(MIN_LIMIT)
}

/// Error of a file that unpacks to more than this many bytes, its [`limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackedTooLarge(pub u64);

impl std::error::Error for UnpackedTooLarge {}

impl fmt::Display for UnpackedTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it unpacks to more than {}, the limit for a file of its size\nhint: unpack it with another program if you trust it",
            super::size(self.0)
        )
    }
}

/// The error of a file that unpacks to more than its [`limit`].
pub fn too_much(limit: u64) -> io::Error {
    io::Error::other(UnpackedTooLarge(limit))
}

/// Reader that fails past `limit` bytes.
struct Limited<R> {
    reader: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Limited<R> {
    fn new(reader: R, limit: u64) -> Self {
        Self { reader, limit, left: limit }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(into)?;
        self.left = self.left.checked_sub(n as u64).ok_or_else(|| too_much(self.limit))?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// `one`, `two`, each with a line end, and 5,000 zeros, as packed by Python's
    /// `lzma.compress(.., check=CHECK_CRC32, preset=0)`.
    const XZ_ONE: &[u8] =
        b"\xfd\x37\x7a\x58\x5a\x00\x00\x01\x69\x22\xde\x36\x02\x00\x21\x01\x0c\x00\x00\x00\x8f\x98\x41\x9c\
        \x01\x00\x03\x6f\x6e\x65\x0a\x00\x9f\xa8\x17\xf8\x00\x01\x18\x04\x6b\xe9\xf0\xa5\x90\x42\x99\x0d\
        \x01\x00\x00\x00\x00\x01\x59\x5a";
    const XZ_TWO: &[u8] =
        b"\xfd\x37\x7a\x58\x5a\x00\x00\x01\x69\x22\xde\x36\x02\x00\x21\x01\x0c\x00\x00\x00\x8f\x98\x41\x9c\
        \x01\x00\x03\x74\x77\x6f\x0a\x00\x74\x08\x17\x96\x00\x01\x18\x04\x6b\xe9\xf0\xa5\x90\x42\x99\x0d\
        \x01\x00\x00\x00\x00\x01\x59\x5a";
    const XZ_ZEROS: &[u8] =
        b"\xfd\x37\x7a\x58\x5a\x00\x00\x01\x69\x22\xde\x36\x02\x00\x21\x01\x0c\x00\x00\x00\x8f\x98\x41\x9c\
        \xe0\x13\x87\x00\x1e\x5d\x00\x00\x6f\xfd\xff\xff\xa3\xb7\xff\x47\x3e\x48\x15\x72\x39\x61\x51\xb8\
        \x92\x28\xe6\xa3\x86\x07\xf9\xee\xcd\xce\x05\xef\x00\x00\x00\x00\xa8\x0e\xe5\xd8\x00\x01\x36\x88\
        \x27\x00\x00\x00\xb9\x5c\x05\xad\x3e\x30\x0d\x8b\x02\x00\x00\x00\x00\x01\x59\x5a";

    fn compressed(format: Format, bytes: &[u8]) -> Vec<u8> {
        match (format, bytes) {
            (Format::Gzip, _) => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            (Format::Xz, b"one\n") => XZ_ONE.into(),
            (Format::Xz, b"two\n") => XZ_TWO.into(),
            (Format::Xz, _) => XZ_ZEROS.into(),
            _ => zstd::encode_all(bytes, 1).unwrap(),
        }
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        file
    }

    #[test]
    fn every_format_is_told_by_its_bytes_and_read_to_the_end() {
        for format in [Format::Gzip, Format::Xz, Format::Zstd] {
            let mut bytes = compressed(format, b"one\n");
            assert_eq!(Format::from_bytes(&bytes), Some(format));
            bytes.extend(compressed(format, b"two\n")); // files may be put together from several
            let mut text = String::new();
            unpacked(file(&bytes), MAX_RATIO).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "one\ntwo\n", "{format}");
        }
        let mut text = String::new();
        unpacked(file(b"BZhang\n"), MAX_RATIO).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), Format::from_bytes(b"BZh91AY")), ("BZhang\n", Some(Format::Bzip2)));
    }

    #[test]
    fn what_unpacks_to_more_than_its_limit_is_refused() {
        let zeros = vec![0; 5000];
        for format in [Format::Gzip, Format::Xz, Format::Zstd] {
            let bytes = compressed(format, &zeros);
            let all = |limit| {
                let mut limited = Limited::new(unpacked(file(&bytes), MAX_RATIO).unwrap(), limit);
                io::copy(&mut limited, &mut io::sink()).map_err(|error| error.to_string())
            };
            assert_eq!(all(5000), Ok(5000));
            let error = all(4999).unwrap_err();
            assert!(error.starts_with("it unpacks to more than"), "{error}");
        }
        assert_eq!((limit(844, 1000), limit(10 << 20, 1000)), (1 << 30, 10_000 << 20));
    }
}
