//! SHA-256 of streams, of bytes in memory and of files. Expected hashes are checked elsewhere.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use sha2::{Digest, Sha256};
use tribunal_core::digest::hex;
pub(super) use tribunal_core::digest::sha256 as sha256_of;

use super::{Error, Result};

/// A writer that hashes the bytes it passes on to another one.
pub(super) struct Hashing<W> {
    inner: W,
    hasher: Sha256,
    n_bytes: u64,
}

impl<W: Write> Hashing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new(), n_bytes: 0 }
    }

    /// Bytes so far.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Hashes bytes that are already in place without writing them again.
    pub(super) fn hash_only(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.n_bytes += bytes.len() as u64;
    }

    /// The inner writer and the hash of all bytes, in digits.
    pub(super) fn finish(self) -> (W, String) {
        (self.inner, hex(&self.hasher.finalize()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(super) fn sha256_watched(path: &Path, watch: &mut dyn FnMut(u64)) -> Result<String> {
    sha256_of_file(&mut fs::File::open(path).map_err(Error::io("open", path))?, path, watch)
}

/// The SHA-256 of a file that is open.
pub(super) fn sha256_of_file(file: &mut fs::File, path: &Path, watch: &mut dyn FnMut(u64)) -> Result<String> {
    let mut hashing = Hashing::new(io::sink());
    each_chunk(file, &mut |chunk| {
        hashing.hash_only(chunk);
        watch(chunk.len() as u64);
    })
    .map_err(Error::io("read", path))?;
    Ok(hashing.finish().1)
}

/// Reads to the end, a mebibyte at a time.
pub(super) fn each_chunk(from: &mut dyn Read, seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => seen(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
}
