//! The header of one file: its keys and values, and the positions of its tensors. Every length is checked
//! against the remaining bytes of the file before memory is allocated for it.
//!
//! Source: `docs/gguf.md` of ggml, versions 1 to 3.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use super::{Error, Kind, Metadata, Result, Value, shown, whole};

/// The first bytes of every file.
pub const MAGIC: &[u8] = b"GGUF";

/// The most bytes of a string: no chat template and no embedded tokenizer has more.
const MAX_STRING: u64 = 1 << 30;

/// The most items of a list: no vocabulary has more.
const MAX_ITEMS: u64 = 1 << 24;

/// The most lists within lists.
const MAX_DEPTH: usize = 8;

/// The most dimensions of a tensor.
const MAX_DIMS: u32 = 4;

/// The alignment of tensors in files without a key for it. Unit: bytes.
const ALIGNMENT: u64 = 32;

/// The header of a file: everything before the tensors' values.
#[derive(Debug)]
pub struct Header {
    pub metadata: Metadata,
    /// In the order of the file.
    pub tensors: Vec<TensorInfo>,
    /// The start of the tensors' values. Unit: bytes from the start of the file.
    pub data: u64,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    /// Rows first: `[n, k]` for a matrix.
    pub shape: Vec<usize>,
    pub kind: Kind,
    /// Unit: bytes from [`Header::data`].
    pub offset: u64,
}

impl Header {
    /// Reads the header of a file that is in memory; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Other`] and [`Error::Header`].
    pub fn of_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        Self::read(path, bytes, bytes.len() as u64)
    }

    /// Reads the header of a file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Other`] and [`Error::Header`].
    pub fn of_file(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.into(), source };
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        Self::read(path, BufReader::new(file), length)
    }

    fn read(path: &Path, bytes: impl Read, length: u64) -> Result<Self> {
        let bad = |reason: Bad| match reason {
            Bad::Other => Error::Other(path.into()),
            Bad::Header(reason) => Error::Header { path: path.into(), reason },
        };
        let mut reader = Reader { bytes, at: 0, length, is_v1: false };
        reader.header().map_err(bad)
    }
}

/// The fault of a header.
enum Bad {
    /// The file is of another format.
    Other,
    Header(String),
}

impl From<String> for Bad {
    fn from(reason: String) -> Self {
        Self::Header(reason)
    }
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Self {
        Self::Header(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends in it".into(),
            _ => error.to_string(),
        })
    }
}

struct Reader<R> {
    bytes: R,
    at: u64,
    length: u64,
    /// Version 1 has lengths of 32 bits.
    is_v1: bool,
}

impl<R: Read> Reader<R> {
    fn header(&mut self) -> Result<Header, Bad> {
        let magic: [u8; 4] = self.array().map_err(|_| Bad::Other)?;
        if magic != MAGIC {
            return Err(Bad::Other);
        }
        match self.u32()? {
            1 => self.is_v1 = true,
            2 | 3 => {}
            version if matches!(version.swap_bytes(), 1..=3) => {
                return Err("it is for machines that are big-endian".to_owned().into());
            }
            version => return Err(format!("version {version} of the format is not known").into()),
        }
        let (n_tensors, n_keys) = (self.long()?, self.long()?);
        let metadata = self.metadata(n_keys)?;
        let tensors = self.tensors(n_tensors)?;
        let alignment = match metadata.get("general.alignment").map(whole) {
            None => ALIGNMENT,
            Some(Some(alignment)) if alignment > 0 => alignment as u64,
            Some(_) => return Err("`general.alignment` is not a number above 0".to_owned().into()),
        };
        let data = self.at.checked_next_multiple_of(alignment);
        Ok(Header { metadata, tensors, data: data.ok_or_else(|| "it is too large".to_owned())? })
    }

    fn metadata(&mut self, n_keys: u64) -> Result<Metadata, Bad> {
        // A key's length, a type and a byte.
        self.room("keys", n_keys, self.length_bytes() + 5)?;
        let mut metadata = Metadata::new();
        for _ in 0..n_keys {
            let key = self.string()?;
            let kind = self.u32()?;
            let value = self.value(kind, 0)?;
            if metadata.contains_key(&key) {
                return Err(format!("the key `{}` stands in it twice", shown(&key)).into());
            }
            metadata.insert(key, value);
        }
        Ok(metadata)
    }

    fn tensors(&mut self, n_tensors: u64) -> Result<Vec<TensorInfo>, Bad> {
        // A name's length, the number of dimensions, a type and an offset.
        self.room("tensors", n_tensors, self.length_bytes() + 16)?;
        let (mut tensors, mut names) = (Vec::new(), HashSet::new());
        for _ in 0..n_tensors {
            let name = self.string()?;
            if !names.insert(name.clone()) {
                return Err(format!("the tensor `{}` stands in it twice", shown(&name)).into());
            }
            let n_dims = self.u32()?;
            if n_dims > MAX_DIMS {
                let name = shown(&name);
                return Err(
                    format!("the tensor `{name}` has {n_dims} dimensions, at most {MAX_DIMS} are").into()
                );
            }
            let mut shape = Vec::new();
            for _ in 0..n_dims {
                let dim = usize::try_from(self.long()?);
                shape.push(dim.map_err(|_| format!("the tensor `{}` is too large", shown(&name)))?);
            }
            shape.reverse();
            let (kind, offset) = (Kind(self.u32()?), self.u64()?);
            tensors.push(TensorInfo { name, shape, kind, offset });
        }
        Ok(tensors)
    }

    /// One value of a type, given by its number.
    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, Bad> {
        Ok(match kind {
            0 => Value::U8(u8::from_le_bytes(self.array()?)),
            1 => Value::I8(i8::from_le_bytes(self.array()?)),
            2 => Value::U16(u16::from_le_bytes(self.array()?)),
            3 => Value::I16(i16::from_le_bytes(self.array()?)),
            4 => Value::U32(self.u32()?),
            5 => Value::I32(i32::from_le_bytes(self.array()?)),
            6 => Value::F32(f32::from_le_bytes(self.array()?)),
            7 => match u8::from_le_bytes(self.array()?) {
                byte @ (0 | 1) => Value::Bool(byte == 1),
                byte => return Err(format!("a value of true or false is {byte}").into()),
            },
            8 => Value::String(self.string()?),
            9 => self.list(depth)?,
            10 => Value::U64(self.u64()?),
            11 => Value::I64(i64::from_le_bytes(self.array()?)),
            12 => Value::F64(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("a value has type {other}, which is not known").into()),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Bad> {
        let (kind, n) = (self.u32()?, self.long()?);
        let least = match kind {
            2 | 3 => 2,
            4..=6 => 4,
            8 => self.length_bytes(),
            9 => self.length_bytes() + 4,
            10..=12 => 8,
            _ => 1,
        };
        self.room("items of a list", n, least)?;
        if n > MAX_ITEMS || depth > MAX_DEPTH {
            return Err(format!("a list has {n} items, {depth} lists deep").into());
        }
        (0..n).map(|_| self.value(kind, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
    }

    /// A string; zeros at its end are not part of it, and bytes that are not UTF-8 become U+FFFD.
    fn string(&mut self) -> Result<String, Bad> {
        let n = self.long()?;
        self.room("bytes of a string", n, 1)?;
        if n > MAX_STRING {
            return Err(format!("a string has {n} bytes").into());
        }
        // No more than the file has.
        let mut bytes = vec![0; n as usize];
        self.bytes.read_exact(&mut bytes)?;
        self.at += n;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// Checks that the remaining bytes of the file can hold so many entries.
    fn room(&self, items: &str, n: u64, least_bytes: u64) -> Result<(), String> {
        let left = self.length.saturating_sub(self.at);
        if n.saturating_mul(least_bytes) > left {
            return Err(format!("it counts {n} {items}, and {left} bytes are left of the file"));
        }
        Ok(())
    }

    /// Unit: bytes of a length.
    fn length_bytes(&self) -> u64 {
        if self.is_v1 { 4 } else { 8 }
    }

    fn long(&mut self) -> io::Result<u64> {
        if self.is_v1 { self.u32().map(u64::from) } else { self.u64() }
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.bytes.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }
}
