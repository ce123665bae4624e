//! The run folder's copies of files that its command names: their paths, and the check of their hashes
//! against `run.json`.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    description::{Material, RUN, RunFile},
    digest,
    error::Error,
    files, folder,
    task::Copy,
};

/// The folder of the copies.
pub const MATERIALS: &str = "materials";

/// A folder of more files than this is hashed and not copied.
pub const MOST_FILES: usize = 2000;

/// Path of a material's copy; `None` where the folder keeps none, as in shards other than the first.
///
/// # Errors
/// [`Error::Io`] for a copy that would be elsewhere than in the folder of copies.
pub fn place(dir: &Path, material: &Material) -> Result<Option<PathBuf>, Error> {
    let Some(name) = &material.kept else { return Ok(None) };
    let path = within(dir, name)?;
    Ok(path.exists().then_some(path))
}

/// The copy of what a flag or an option names; `None` where the folder keeps none.
///
/// # Errors
/// The errors of [`place`].
pub fn copy_of(dir: &Path, run: &RunFile, flag: &str) -> Result<Option<PathBuf>, Error> {
    let material = run.origin.materials.iter().find(|material| material.flag == flag);
    Ok(material.map(|material| place(dir, material)).transpose()?.flatten())
}

/// Writes copies into a run folder. An existing copy is left alone, and unfinished files of a killed process
/// are removed: they would count as files of the material.
///
/// # Errors
/// The errors of [`place`], and files that cannot be written.
pub fn keep(dir: &Path, copies: &[Copy]) -> Result<(), Error> {
    discard_unfinished(dir)?;
    for Copy { name, bytes } in copies {
        let path = made(dir, name)?;
        if !files::read_own(&path).is_ok_and(|existing| existing == *bytes) {
            folder::replace(&path, |file| file.write_all(bytes))?;
        }
    }
    Ok(())
}

fn discard_unfinished(dir: &Path) -> Result<(), Error> {
    let path = within(dir, MATERIALS)?;
    if path.is_dir() { files::discard_unfinished(&path, 8 * MOST_FILES).map_err(Error::from) } else { Ok(()) }
}

/// The path of a copy, with the folders that it needs.
///
/// # Errors
/// The errors of [`place`], and folders that cannot be made.
fn made(dir: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = within(dir, name)?;
    if let Some(parent) = Path::new(name).parent().and_then(Path::to_str) {
        files::make_within(dir, parent)?;
    }
    Ok(path)
}

fn within(dir: &Path, name: &str) -> Result<PathBuf, Error> {
    let wrong = |source| Error::Io { action: "use the copy that is named in", path: dir.join(RUN), source };
    if !Path::new(name).starts_with(MATERIALS) {
        let reason = format!("`{name}` is not in `{MATERIALS}`");
        return Err(wrong(io::Error::new(io::ErrorKind::InvalidInput, reason)));
    }
    files::within(dir, name).map_err(wrong)
}

/// The files of a material, by their paths in it, with the SHA-256 of each; a file has the empty path.
///
/// # Errors
/// [`Error::Io`]: links and other files that are not plain.
fn hashed(path: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let names = if path.is_dir() { files::list(path, 2 * MOST_FILES)? } else { vec![PathBuf::new()] };
    let sha256 = |name: PathBuf| {
        let file = if name.as_os_str().is_empty() { path.to_path_buf() } else { path.join(&name) };
        let hash = files::open(&file).and_then(hash);
        Ok((name, hash.map_err(Error::reading(&file))?))
    };
    names.into_iter().map(sha256).collect()
}

fn hash(mut file: File) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest::hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// The SHA-256 that `run.json` has of a material: that of a file, or of the list of a folder's files with
/// theirs.
pub fn sha256(files: &[(PathBuf, String)]) -> String {
    if let [(name, sha256)] = files
        && name.as_os_str().is_empty()
    {
        return sha256.clone();
    }
    let lines = files.iter().fold(String::new(), |mut lines, (name, sha256)| {
        let _ = writeln!(lines, "{sha256}  {}", name.display()); // a string takes everything
        lines
    });
    digest::sha256(lines)
}

/// The SHA-256 of a file, or of a folder, as it is now.
///
/// # Errors
/// The errors of [`place`].
pub fn sha256_now(path: &Path) -> Result<String, Error> {
    Ok(sha256(&hashed(path)?))
}

/// Copies the materials of one run folder into another.
///
/// # Errors
/// [`Error::Io`]; [`Error::Changed`] for a copy whose hash differs from that in `run.json`.
pub fn carry_over(from: &Path, materials: &[Material], to: &Path) -> Result<(), Error> {
    discard_unfinished(to)?;
    for material in materials {
        let (Some(path), Some(kept_name)) = (place(from, material)?, &material.kept) else { continue };
        let list = hashed(&path)?;
        if sha256(&list) != material.sha256 {
            return Err(Error::Changed { path, recorded: material.sha256.clone(), present: sha256(&list) });
        }
        for (name, _) in list {
            let file = if name.as_os_str().is_empty() { path.clone() } else { path.join(&name) };
            let name = Path::new(kept_name).join(&name);
            let target = made(to, name.to_str().unwrap_or(kept_name))?;
            let mut opened = files::open(&file).map_err(Error::reading(&file))?;
            folder::replace(&target, |copy| io::copy(&mut opened, copy).map(drop))?;
        }
    }
    Ok(())
}
