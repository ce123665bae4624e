//! Metadata by which a change of a file is detected without reading it.

use std::{fs::File, io};

use serde::{Deserialize, Serialize};

/// Size, times and inode of an open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub size: u64,
    pub modified: UnixTime,
    /// The last change to the file or its metadata, which no program can set; where the platform has it.
    pub changed: Option<UnixTime>,
    /// Device and inode, where the platform has them; the name is that of the record of hashes.
    pub place: Option<(u64, u64)>,
}

/// Seconds and nanoseconds since 1970.
pub type UnixTime = (i64, u32);

impl Stamp {
    /// The stamp of an open file.
    ///
    /// # Errors
    /// If the platform does not provide it.
    #[cfg(unix)]
    pub fn from_file(file: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;

        let metadata = file.metadata()?;
        let time = |seconds, nanoseconds| (seconds, u32::try_from(nanoseconds).unwrap_or(0));
        Ok(Self {
            size: metadata.len(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: Some(time(metadata.ctime(), metadata.ctime_nsec())),
            place: Some((metadata.dev(), metadata.ino())),
        })
    }

    /// The stamp of an open file.
    ///
    /// # Errors
    /// If the platform does not provide it.
    #[cfg(not(unix))]
    pub fn from_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let since = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).map_err(io::Error::other)?;
        let modified = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos());
        Ok(Self { size: metadata.len(), modified, changed: None, place: None })
    }
}
