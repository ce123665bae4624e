//! Files and folders that belong to the user and that only the user may write to. Contents are read
//! elsewhere.

use std::{
    fs::{self, File, Metadata},
    io,
    path::Path,
};

/// Opens a file that belongs to the user and that only the user may write to; otherwise as
/// [`super::open_own`].
///
/// # Errors
/// The errors of [`super::open_own`], and a file of another user or with write access for others.
pub fn open_private(path: &Path) -> io::Result<File> {
    let file = super::open_own(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Checks that a file or folder is the user's, and that no one else may write to it. A link is neither.
///
/// # Errors
/// One that is missing or a link, of another user, or with write access for others.
pub fn check_private(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() { Err(io::Error::other("it is a link")) } else { check(&metadata) }
}

/// Creates a folder that only the user may write to, or checks the existing one; missing parents get the
/// umask's permissions.
///
/// # Errors
/// A folder that cannot be created, and an existing one that is a file or fails [`check_private`].
pub fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    let mut maker = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    match maker.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if !folder.is_dir() => Err(io::Error::other("it is not a folder")),
        _ => check_private(folder),
    }
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library does not name the user")]
fn check(metadata: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    // SAFETY: the call has no conditions, and cannot fail.
    let user = unsafe { libc::geteuid() };
    let others = 0o022;
    match (metadata.uid() == user, metadata.mode() & others == 0) {
        (true, true) => Ok(()),
        (false, _) => Err(io::Error::other("it belongs to another user")),
        (true, false) => Err(io::Error::other("other users may write to it")),
    }
}

#[cfg(not(unix))]
fn check(_: &Metadata) -> io::Result<()> {
    Ok(()) // folders of a user's profile are private there
}
