//! Reads user input and untrusted folders, and writes results atomically; contents are not interpreted.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read as _, Write},
    path::{Component, Path, PathBuf},
};

mod descriptor;
mod explain;
pub mod json;
mod owner;
pub mod packed;
mod size;
mod stamp;
pub mod text;

pub use explain::{describe, explain};
pub use owner::{check_private, make_private, open_private};
pub use size::size;
pub use stamp::{Stamp, UnixTime};

/// Error of writing or reading a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {}", path.display(), explain(path, source))]
pub struct Error {
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl Error {
    fn of(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { action, path: path.into(), source }
    }
}

/// The endings of formats. Other endings belong to a name: `Llama-3.1-8B`.
const ENDINGS: [&str; 22] = [
    "txt", "text", "jsonl", "ndjson", "json", "tsv", "tab", "csv", "parquet", "pq", "xml", "sgm", "hyp",
    "out", "score", "scores", "seg", "sys", "gz", "xz", "zst", "bz2",
];

/// The name of a file or folder without the endings of its format: `en-de.2020` of `en-de.2020.jsonl.xz`.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut stem = &*name;
    while let Some((base, ending)) = stem.rsplit_once('.')
        && !base.is_empty()
        && ENDINGS.contains(&&*ending.to_lowercase())
    {
        stem = base;
    }
    stem.to_owned()
}

/// The suffix of temporary files.
const TEMPORARY: &str = ".new";

/// Random letters and digits in the name of a temporary file.
const RANDOM: usize = 6;

/// The destination of a file's bytes.
pub type Fill<'a> = &'a mut dyn Write;

/// Writes a result to the user's path. A pipe or terminal is written to; for an open file of the process
/// (`/dev/stdout`, `/dev/fd/3`) its descriptor is used; a link is followed; a plain file is created, or
/// replaced as by [`replace`].
///
/// # Errors
/// A place that cannot be written to, a folder, a dangling link, and the errors of `fill`. A plain file is
/// then unchanged.
pub fn write(path: &Path, fill: impl FnOnce(Fill<'_>) -> io::Result<()>) -> Result<(), Error> {
    let wrong = Error::of("write", path);
    match place(path).map_err(&wrong)? {
        Place::Plain(place) => {
            discard_abandoned(folder_of(&place), |name| place.file_name().is_some_and(|of| of == name));
            put(&place, fill).map_err(wrong)
        }
        Place::Stream => {
            // Never cut off: what a shell has redirected there before stays.
            stream(File::options().append(true).open(path), fill).map_err(wrong)
        }
        // What has been written there stays before these bytes, and what comes later after them.
        Place::Open(number) => stream(descriptor::duplicate(number), fill).map_err(wrong),
    }
}

fn stream(opened: io::Result<File>, fill: impl FnOnce(Fill<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut stream = BufWriter::new(opened?);
    fill(&mut stream)?;
    stream.flush()
}

/// Returns true if [`write`] writes to a stream, so that nothing else should be printed to it.
pub fn is_stream(path: &Path) -> bool {
    matches!(place(path), Ok(Place::Stream | Place::Open(_)))
}

/// Replaces a file of the program's own folder atomically: the content is either the old or the new one. A
/// link is replaced, not followed. Data is first written to a freshly created temporary file with an
/// unpredictable name.
///
/// # Errors
/// A folder that cannot be written to, and the errors of `fill`; the old file then remains.
pub fn replace(path: &Path, fill: impl FnOnce(Fill<'_>) -> io::Result<()>) -> Result<(), Error> {
    put(path, fill).map_err(Error::of("write", path))
}

/// Removes the temporary files that processes killed during [`replace`] left in a folder and its subfolders.
/// No other process may be writing there.
///
/// # Errors
/// The errors of [`list`], and a file that cannot be removed.
pub fn discard_unfinished(folder: &Path, most: usize) -> Result<(), Error> {
    let is_unfinished = |name: &&PathBuf| {
        let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with('.') && name.ends_with(TEMPORARY)
    };
    for path in list(folder, most)?.iter().filter(is_unfinished).map(|name| folder.join(name)) {
        fs::remove_file(&path).map_err(Error::of("remove", &path))?;
    }
    Ok(())
}

/// Removes such temporary files of the given names only, in the folder itself.
///
/// # Errors
/// A folder that cannot be read, and a file that cannot be removed.
pub fn discard_unfinished_of(folder: &Path, names: &[&str]) -> Result<(), Error> {
    for path in unfinished(folder, |name| names.contains(&name)).map_err(Error::of("read", folder))? {
        fs::remove_file(&path).map_err(Error::of("remove", &path))?;
    }
    Ok(())
}

/// The temporary files in a folder for files of such names: `.NAME.RANDOM.new`.
fn unfinished(folder: &Path, is_name: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(TEMPORARY));
        let is_of = |(of, random): (&str, &str)| {
            is_name(of) && random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        if name.and_then(|name| name.rsplit_once('.')).is_some_and(is_of) && entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes the temporary files of a folder's files of such names that no process has locked, left by killed
/// processes. Failures are ignored.
pub fn discard_abandoned(folder: &Path, is_name: impl Fn(&str) -> bool) {
    for left in unfinished(folder, is_name).unwrap_or_default() {
        if let Ok(file) = own(&left, OpenOptions::new().read(true).write(true))
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&left); // one that stays is removed next time
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file of such a folder for appending, and makes it where it is missing. Links are not followed.
///
/// # Errors
/// A link, a pipe or a device in its place; a folder that cannot be written to.
pub fn append(path: &Path) -> Result<File, Error> {
    let opened = own(path, OpenOptions::new().append(true).create(true));
    opened.map_err(Error::of("append to", path))
}

/// Opens a file of such a folder for reading and writing as it is, and makes it where it is missing. Links
/// are not followed.
///
/// # Errors
/// The errors of [`append`].
pub fn update(path: &Path) -> Result<File, Error> {
    let opened = own(path, OpenOptions::new().read(true).write(true).create(true).truncate(false));
    opened.map_err(Error::of("write", path))
}

/// Opens a file of an untrusted folder. A pipe or a device is an error, because reading it may block.
///
/// # Errors
/// A file that is missing, cannot be read or is not plain.
pub fn open(path: &Path) -> io::Result<File> {
    plain(unblocked(OpenOptions::new().read(true)).open(path)?)
}

/// Opens a file of a folder of the program's own, which another user may have made. A link in its place is
/// rejected: its target is not in the folder.
///
/// # Errors
/// The errors of [`open`], and a link.
pub fn open_own(path: &Path) -> io::Result<File> {
    own(path, OpenOptions::new().read(true))
}

/// All bytes of such a file.
///
/// # Errors
/// The errors of [`open_own`].
pub fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_own(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of such a file.
///
/// # Errors
/// The errors of [`open_own`], and a file that is not UTF-8.
pub fn read_own_to_string(path: &Path) -> io::Result<String> {
    text(read_own(path)?)
}

/// All bytes of such a file.
///
/// # Errors
/// The errors of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All bytes of such a file, which has at most `most`; links are followed.
///
/// # Errors
/// The errors of [`open`], and a larger file: nothing of it is read.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let refused = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() {
        let kind = if kind.is_dir() { "a folder" } else { "a pipe or a device" };
        return Err(refused(format!("it is {kind}; a plain file was expected")));
    }
    let too_large = |bytes: u64| refused(format!("it has {bytes} bytes; at most {most} were expected"));
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > most {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

/// The text of such a file.
///
/// # Errors
/// The errors of [`open`], and a file that is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    text(read(path)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Waits until the names in a folder are on the disk, where the system supports it.
///
/// # Errors
/// A disk that fails.
pub fn sync_folder(folder: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all())
        && !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
    {
        return Err(Error::of("write", folder)(error));
    }
    #[cfg(not(unix))]
    let _ = folder; // folders cannot be opened there
    Ok(())
}

/// Joins an untrusted name to a folder; the file need not exist.
///
/// # Errors
/// A name that leads out of the folder: by `..`, as an absolute path, or by a link on the way.
pub fn within(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let refused = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` {reason}"));
    let mut path = folder.to_path_buf();
    let mut parts = Path::new(name).components().peekable();
    if parts.peek().is_none() {
        return Err(refused("names nothing"));
    }
    for part in parts {
        let Component::Normal(part) = part else { return Err(refused("leads out of the folder")) };
        path.push(part);
        if path.is_symlink() {
            return Err(refused("leads over a link, which may point anywhere"));
        }
    }
    Ok(path)
}

/// Makes a folder inside another with all those between, as private as that one.
///
/// # Errors
/// The errors of [`within`], and folders that cannot be made.
pub fn make_within(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = within(folder, name).map_err(Error::of("create", &folder.join(name)))?;
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true);
    #[cfg(unix)]
    if is_private(folder) {
        std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    }
    maker.create(&path).map_err(Error::of("create", &path))?;
    Ok(path)
}

/// The plain files below an untrusted folder, by their path in it.
///
/// # Errors
/// A link, a pipe or a device among them, and more than `most` files or folders.
pub fn list(folder: &Path, most: usize) -> Result<Vec<PathBuf>, Error> {
    let (mut files, mut open) = (Vec::new(), vec![PathBuf::new()]);
    let mut n_seen = 0;
    while let Some(at) = open.pop() {
        let place = folder.join(&at);
        let wrong = Error::of("read", &place);
        for entry in fs::read_dir(&place).map_err(&wrong)? {
            let entry = entry.map_err(&wrong)?;
            let (name, kind) = (at.join(entry.file_name()), entry.file_type().map_err(&wrong)?);
            n_seen += 1;
            if n_seen > most {
                let reason = format!("there are more than {most} files in `{}`", folder.display());
                return Err(wrong(io::Error::other(reason)));
            }
            if kind.is_dir() {
                open.push(name);
            } else if kind.is_file() {
                files.push(name);
            } else {
                return Err(Error::of("read", &entry.path())(not_plain()));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The destination that a result's path leads to.
enum Place {
    /// A plain file, or where one can be made.
    Plain(PathBuf),
    Stream,
    /// An open file of this process, by descriptor number.
    Open(i32),
}

fn place(path: &Path) -> io::Result<Place> {
    if let Some(number) = descriptor::number(path) {
        return Ok(Place::Open(number));
    }
    if is_of_a_process(path) {
        return Ok(Place::Stream);
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"))
        }
        Ok(metadata) if metadata.is_file() => Ok(Place::Plain(fs::canonicalize(path)?)),
        Ok(_) => Ok(Place::Stream),
        Err(_) if path.is_symlink() => {
            Err(io::Error::new(io::ErrorKind::NotFound, "it is a link to nothing"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Place::Plain(path.into())),
        Err(error) => Err(error),
    }
}

/// Returns true if a path names an open file of another process: replacing its target would cut that process
/// off.
fn is_of_a_process(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    matches!(parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>()[..], ["/", "proc", _, "fd", _])
}

/// Gathers a file's bytes beside its place, then puts it there.
fn put(path: &Path, fill: impl FnOnce(Fill<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut new = gathering(path)?;
    let mut file = BufWriter::new(new.as_file_mut());
    fill(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    #[cfg(unix)]
    if let Ok(metadata) = fs::symlink_metadata(path)
        .and_then(|metadata| if metadata.is_file() { Ok(metadata) } else { Err(not_plain()) })
    {
        new.as_file().set_permissions(metadata.permissions())?;
    }
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// A new file beside a place, for its bytes. It is locked as long as this process has it, so that another one
/// that writes to the same place does not take it for one that was abandoned.
fn gathering(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = folder_of(path);
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let prefix = format!(".{}.", name.to_string_lossy());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(TEMPORARY).rand_bytes(RANDOM);
    loop {
        let new = builder.make_in(folder, |temporary| {
            fresh(folder, OpenOptions::new().read(true).write(true).create_new(true)).open(temporary)
        })?;
        let is_ours = match new.as_file().try_lock() {
            Ok(()) => new.path().exists(),
            Err(fs::TryLockError::WouldBlock) => false,
            // Where there are no locks, nothing is taken for abandoned.
            Err(fs::TryLockError::Error(_)) => true,
        };
        if is_ours {
            return Ok(new);
        }
    }
}

/// Opens a file of a folder of the program's own, which is never a link.
fn own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => return Err(io::Error::other(LINK)),
        Ok(metadata) if !metadata.is_file() => return Err(not_plain()),
        _ => {}
    }
    let folder = path.parent().unwrap_or(path);
    plain(unfollowed(unblocked(fresh(folder, options))).open(path)?)
}

fn plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain()) }
}

/// Error message for a link in a folder of the program's own.
const LINK: &str =
    "it is a link and not a plain file, and may lead anywhere; put the file itself in its place";

fn not_plain() -> io::Error {
    io::Error::other("it is not a plain file; delete it")
}

/// Returns true if only its owner can read a folder.
#[cfg(unix)]
fn is_private(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let others = 0o077;
    fs::metadata(folder).is_ok_and(|metadata| !metadata.permissions().mode() & others == others)
}

/// A file created in a private folder stays private if the folder is moved; elsewhere the umask applies.
#[cfg(unix)]
fn fresh<'a>(folder: &Path, options: &'a mut OpenOptions) -> &'a mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, if is_private(folder) { 0o600 } else { 0o666 })
}

#[cfg(not(unix))]
fn fresh<'a>(_: &Path, options: &'a mut OpenOptions) -> &'a mut OpenOptions {
    options
}

/// Makes opening a pipe non-blocking.
#[cfg(unix)]
fn unblocked(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK)
}

#[cfg(unix)]
fn unfollowed(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK | libc::O_NOFOLLOW)
}

#[cfg(not(unix))]
fn unblocked(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(not(unix))]
fn unfollowed(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(test)]
mod tests;
