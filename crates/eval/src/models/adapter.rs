//! LoRA adapters: which roles have one, their files, their description, and what they were trained on.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    engine::{
        Adapter,
        adapter::{CONFIG_FILE, Module, Numbers, WEIGHTS_FILE, is_adapter},
    },
    error::{Error, Result},
    files,
    hub::Identity,
    judges::Role,
    run::description::{AdapterFiles, NamedHash},
    segment::trained::{self, TrainedOn},
    spec::ModelSpec,
};

/// Training record beside an adapter.
const TRAINING: &str = "training.json";

/// An adapter's files, before any of them is read as one.
#[derive(Clone, Debug)]
pub struct AdapterFolder {
    pub dir: PathBuf,
    /// The folder's name.
    pub name: String,
    /// The first digits of the SHA-256 of both files' list.
    pub sha256: String,
    pub files: AdapterFiles,
}

/// Hashes an adapter's files.
///
/// # Errors
/// A folder that is not there or not an adapter.
pub fn find(dir: &Path) -> Result<AdapterFolder> {
    let typed = dir.display().to_string();
    if !dir.exists() {
        return Err(Error::NoFolder(typed));
    }
    if !is_adapter(dir) {
        return Err(Error::NotAnAdapter { folder: typed, file: CONFIG_FILE });
    }
    for path in [CONFIG_FILE, WEIGHTS_FILE].map(|name| dir.join(name)) {
        // Before it is hashed: to read a pipe may wait for ever.
        if let Err(source) = files::open(&path) {
            return Err(Error::Read { path, source });
        }
    }
    let identity = Identity::from_files(dir, &[CONFIG_FILE, WEIGHTS_FILE])?;
    let canonical = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.into());
    let name =
        canonical.file_name().map_or_else(|| typed.clone(), |name| name.to_string_lossy().into_owned());
    let named = |(name, sha256): &(String, String)| NamedHash { name: name.clone(), sha256: sha256.clone() };
    let sha256 = identity.fingerprint();
    let files = identity.files.iter().map(named).collect();
    let files = AdapterFiles { given: typed, name: name.clone(), sha256: identity.sha256, files };
    Ok(AdapterFolder { dir: dir.into(), name, sha256, files })
}

/// `MODEL` or `MODEL+ADAPTER`; a path that is there is taken whole, so that its name may have a plus.
pub fn split(named: &str) -> (&str, Option<&str>) {
    match named.rsplit_once('+') {
        Some((model, adapter)) if !Path::new(named).exists() && !model.is_empty() && !adapter.is_empty() => {
            (model, Some(adapter))
        }
        _ => (named, None),
    }
}

/// The annotating model as given, without its adapter.
pub fn annotator(spec: &ModelSpec) -> &str {
    let annotator = spec.roles.iter().find(|(of, _)| *of == Role::Annotator);
    annotator.map_or(&spec.model, |(_, model)| split(model).0)
}

/// Refuses an adapter's folder where a model is wanted, and names its base.
///
/// # Errors
/// When it is one.
pub fn refuse_as_model(dir: &Path) -> Result<()> {
    if !is_adapter(dir) || dir.join("config.json").exists() {
        return Ok(());
    }
    let base = Adapter::read(dir).map_or_else(|_| String::new(), |adapter| adapter.config.base);
    Err(Error::AdapterAsModel { folder: dir.display().to_string(), base })
}

/// Describes an adapter.
///
/// # Errors
/// One that cannot be read or applied here.
pub fn fields(dir: &Path) -> Result<Vec<(String, String)>> {
    let (found, adapter) = (find(dir)?, Adapter::read(dir)?);
    let config = &adapter.config;
    let size = std::fs::metadata(dir.join(WEIGHTS_FILE)).map_or(0, |file| file.len());
    let mut fields = Vec::new();
    let mut line = |key: &str, value: &str| fields.push((key.to_owned(), value.to_owned()));
    line("folder", &dir.display().to_string());
    line("format", "LoRA adapter");
    line("size", &files::size(size));
    line("base", if config.base.is_empty() { "not named" } else { &config.base });
    let way = if config.rslora { ", rank-stabilized" } else { "" };
    line("rank", &format!("{} (alpha {}, scale {}{way})", config.rank, config.alpha, adapter.scale()));
    line("modules", &adapter.modules().into_iter().map(Module::name).collect::<Vec<_>>().join(", "));
    line("layers", &ranges(&adapter.adapted_layers()));
    let numbers = match config.numbers {
        Numbers::F32 => "f32",
        Numbers::F16 => "f16",
        Numbers::Bf16 => "bf16",
    };
    line("weights", &format!("{} of {numbers}", adapter.n_parameters()));
    found.files.files.iter().for_each(|file| line("file", &format!("{}  sha256 {}", file.name, file.sha256)));
    line("fingerprint", &found.sha256);
    for (key, value) in training(dir)? {
        line(&key, &value);
    }
    Ok(fields)
}

/// The adapters that the arguments name, each once.
pub fn named(model: &ModelSpec) -> BTreeSet<PathBuf> {
    let of_roles = model.roles.iter().filter_map(|(_, model)| split(model).1.map(PathBuf::from));
    model.adapter.iter().cloned().chain(of_roles).collect()
}

/// The source texts that an adapter was trained on, where its training left a list of their hashes.
///
/// # Errors
/// A list that is not one.
pub fn trained_on(dir: &Path) -> Result<Option<TrainedOn>> {
    let path = dir.join(trained::FILE);
    let text = match files::text::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path, source }),
    };
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    match TrainedOn::parse(format!("the adapter `{name}`"), &text) {
        Ok(trained) => Ok(Some(trained)),
        Err(line) => Err(Error::TrainedOn { file: path, line }),
    }
}

/// The values of the training record.
fn training(dir: &Path) -> Result<Vec<(String, String)>> {
    let path = dir.join(TRAINING);
    let Ok(text) = files::read_to_string(&path) else { return Ok(Vec::new()) };
    let Ok(serde_json::Value::Object(record)) = serde_json::from_str(&text) else {
        return Err(Error::Training(path));
    };
    let in_words = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => {
            let text = other.to_string();
            let cut: String = text.chars().take(100).collect();
            if cut.len() < text.len() { format!("{cut}...") } else { text }
        }
    };
    Ok(record.into_iter().map(|(key, value)| (format!("{key} "), in_words(value))).collect())
}

/// `0-3, 7`.
fn ranges(layers: &[usize]) -> String {
    let runs = layers.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3, 7, 9-10");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_role_may_name_an_adapter() {
        assert_eq!(split("qwen3-4b"), ("qwen3-4b", None));
        assert_eq!(split("qwen3-4b+runs/a"), ("qwen3-4b", Some("runs/a")));
        assert_eq!(split("+a"), ("+a", None));
        assert_eq!(split("a+"), ("a+", None));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c++");
        std::fs::create_dir(&path).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(split(path), (path, None));
        let with = format!("{path}+a");
        assert_eq!(split(&with), (path, Some("a")));
    }
}
