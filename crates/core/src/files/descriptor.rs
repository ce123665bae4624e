//! Names of the process's open files, `/dev/stdout` and `/dev/fd/3`. Their descriptors are duplicated,
//! because opening such a name again would start at a file offset of its own.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Links that are followed from a name to a descriptor.
const MOST_LINKS: usize = 16;

/// The number of the descriptor that a path names, over links too; `None` for any other file, and for those
/// of another process.
pub fn number(path: &Path) -> Option<i32> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        if let Some(number) = named(&path) {
            return Some(number);
        }
        path = target(&path)?;
    }
    None
}

fn target(link: &Path) -> Option<PathBuf> {
    let target = fs::read_link(link).ok()?;
    Some(link.parent().map_or_else(|| target.clone(), |folder| folder.join(&target)))
}

fn named(path: &Path) -> Option<i32> {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let pid = std::process::id().to_string();
    match parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>()[..] {
        ["/", "dev", "stdin"] => Some(0),
        ["/", "dev", "stdout"] => Some(1),
        ["/", "dev", "stderr"] => Some(2),
        ["/", "dev", "fd", number] => number.parse().ok(),
        ["/", "proc", process, "fd", number] if ["self", "thread-self", &pid].contains(&process) => {
            number.parse().ok()
        }
        _ => None,
    }
}

/// The open file behind a descriptor, at the place where it is.
///
/// # Errors
/// A descriptor that is not open.
#[cfg(unix)]
#[expect(unsafe_code, reason = "descriptors by number are unsafe by nature")]
pub fn duplicate(number: i32) -> io::Result<File> {
    use std::os::fd::FromRawFd as _;

    // SAFETY: the call takes any number, and fails for one that is not open.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made in the call above, and nothing else has it.
    Ok(unsafe { File::from_raw_fd(copy) })
}

#[cfg(not(unix))]
pub fn duplicate(_: i32) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
