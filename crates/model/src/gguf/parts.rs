//! Models in several files: the grouping of files by their names, and the agreement of their headers. It
//! opens no file.
//!
//! Source: `llama_split_path` of llama.cpp for the names, `gguf-split` for the keys.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use super::{Error, Header, Result, Value, is_same, shown, whole};

/// The most names that a message lists.
const MAX_LISTED: usize = 5;

/// A name like `MODEL-00002-of-00003.gguf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name<'a> {
    stem: &'a str,
    /// Number of the part, from 1.
    part: usize,
    n_parts: usize,
}

impl<'a> Name<'a> {
    /// `None` for another name.
    fn of(path: &'a Path) -> Option<Self> {
        let (stem, n_parts) = path.file_name()?.to_str()?.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, part) = stem.rsplit_once('-')?;
        let number = |digits: &str| {
            let is_number = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse().ok().filter(|n| is_number && *n > 0)
        };
        let (part, n_parts) = (number(part)?, number(n_parts)?);
        (part <= n_parts).then_some(Self { stem, part, n_parts })
    }

    fn other(self, part: usize) -> String {
        format!("{}-{part:05}-of-{:05}.gguf", self.stem, self.n_parts)
    }
}

/// All files of the model that a file belongs to, in the order of the parts; the file alone where its name is
/// not that of a part.
///
/// # Errors
/// [`Error::Part`] names the parts that are missing.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let Some(name) = Name::of(path).filter(|_| path.exists()) else { return Ok(vec![path.into()]) };
    let all = siblings(path);
    let missing: Vec<String> =
        (1..=name.n_parts).filter(|part| !all[part - 1].is_file()).map(|part| name.other(part)).collect();
    if missing.is_empty() {
        return Ok(all);
    }
    let (n, more) = (missing.len(), if missing.len() > MAX_LISTED { ", ..." } else { "" });
    let listed = missing[..n.min(MAX_LISTED)].join("`, `");
    let are = if n == 1 { "is" } else { "are" };
    let reason = format!("{n} of the model's {} parts {are} missing: `{listed}`{more}", name.n_parts);
    Err(bad(path, reason, "all parts belong in one folder"))
}

/// All files of the model that a file belongs to, by name alone, whether or not they exist.
pub fn siblings(path: &Path) -> Vec<PathBuf> {
    let Some(name) = Name::of(path) else { return vec![path.into()] };
    (1..=name.n_parts).map(|part| path.with_file_name(name.other(part))).collect()
}

/// The first of a model's files.
fn first(path: &Path) -> PathBuf {
    Name::of(path).map_or_else(|| path.into(), |name| path.with_file_name(name.other(1)))
}

/// A model's name by that of one of its files: without the ending, and without the number of a part.
pub fn stem(path: &Path) -> Option<String> {
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Name::of(path).map(|name| name.stem.to_owned()).or_else(stem)
}

/// A part's name within its model, whatever the model's name: `00002-of-00003.gguf`; `None` for a file that
/// is not a part.
pub fn number(path: &Path) -> Option<String> {
    Name::of(path).map(|name| Name { stem: "", ..name }.other(name.part)[1..].to_owned())
}

/// The models in a folder, in order of their names, each by its first part. Hidden files are left out, and,
/// if there are several files, those that are not models by their `general.type`.
///
/// # Errors
/// [`Error::Io`].
pub fn models(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |source| Error::Io { path: folder.into(), source };
    let paths = fs::read_dir(folder).map_err(io)?.map(|entry| entry.map(|entry| entry.path()));
    Ok(model_files(paths.collect::<Result<_, _>>().map_err(io)?))
}

/// The models among listed files, in any folders.
pub fn model_files(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut models: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_gguf = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
        if is_gguf && !is_hidden && path.is_file() {
            let least = models.entry(first(&path)).or_insert_with(|| path.clone());
            if path < *least {
                *least = path;
            }
        }
    }
    let all: Vec<PathBuf> = models.into_values().collect();
    let is_model = |path: &&PathBuf| {
        // A file that cannot be read is named when it is opened.
        let Ok(Header { metadata, .. }) = Header::of_file(path) else { return true };
        // Older projectors do not have the key.
        let is_clip = metadata
            .get("general.architecture")
            .is_some_and(|arch| is_same(arch, &Value::String("clip".into())));
        super::other_type(&metadata).is_none() && !is_clip
    };
    let models: Vec<PathBuf> =
        if all.len() > 1 { all.iter().filter(is_model).cloned().collect() } else { Vec::new() };
    if models.is_empty() { all } else { models }
}

/// The model of a folder without safetensors; `None` where it has no GGUF file.
///
/// # Errors
/// [`Error::Several`] names them; [`Error::Io`].
pub fn only_model(folder: &Path) -> Result<Option<PathBuf>> {
    let has = |name: &str| folder.join(name).exists();
    if has("model.safetensors") || has("model.safetensors.index.json") {
        return Ok(None);
    }
    let mut models = models(folder)?;
    if models.len() > 1 {
        let name = |path: &PathBuf| shown(&path.file_name().unwrap_or_default().to_string_lossy());
        return Err(Error::Several { folder: folder.into(), names: models.iter().map(name).collect() });
    }
    Ok(models.pop())
}

fn bad(path: &Path, reason: String, hint: &str) -> Error {
    Error::Part { path: path.into(), reason, hint: hint.into() }
}

const REPLACE: &str = "take all parts from one place, under the names that they have there";

/// Checks that files are the parts of one model, each once: by their numbers, by the keys that they share and
/// by their tensors. Returns a note if all parts agree but declare more tensors than they contain; a missing
/// tensor that a decoder needs is reported on loading.
///
/// # Errors
/// [`Error::Part`] with the part that does not belong.
pub fn check(parts: &[(&Path, &Header)]) -> Result<Option<String>> {
    for (i, (path, header)) in parts.iter().enumerate() {
        check_numbers(path, header, (i + 1, parts.len()))?;
    }
    let Some(((first_path, first), others)) = parts.split_first() else { return Ok(None) };
    for (path, header) in others {
        check_keys(first, path, header)?;
    }
    let mut seen: HashMap<&str, &Path> = HashMap::new();
    for (path, header) in parts {
        for tensor in &header.tensors {
            if let Some(other) = seen.insert(&tensor.name, path) {
                let reason = format!("the tensor `{}` is also in `{}`", shown(&tensor.name), other.display());
                return Err(bad(path, reason, REPLACE));
            }
        }
    }
    let Some(counted) = first.metadata.get("split.tensors.count") else { return Ok(None) };
    match whole(counted) {
        Some(n) if n == seen.len() => Ok(None),
        Some(n) if n > seen.len() => Ok(Some(format!(
            "`{}`: `split.tensors.count` is {n}, and the model's parts have {} tensors",
            first_path.display(),
            seen.len()
        ))),
        _ => {
            let counted = super::in_words(counted);
            let reason =
                format!("`split.tensors.count` is {counted}, and its parts have {} tensors", seen.len());
            Err(bad(first_path, reason, REPLACE))
        }
    }
}

/// Checks that a file's own header has the number `part` of `n_parts` in its name.
fn check_numbers(path: &Path, header: &Header, (part, n_parts): (usize, usize)) -> Result<()> {
    let number = |key: &str| match header.metadata.get(key) {
        None => Ok(None),
        Some(value) => whole(value).map(Some).ok_or_else(|| {
            bad(path, format!("`{key}` is {}, not a number from 0", super::in_words(value)), REPLACE)
        }),
    };
    let (count, no) = (number("split.count")?, number("split.no")?);
    if n_parts == 1 && count.is_none_or(|count| count <= 1) && no.is_none_or(|no| no == 0) {
        return Ok(());
    }
    let reason = match (count, no) {
        (Some(count), no) if n_parts == 1 && count > 1 => {
            let no = no.unwrap_or(0).saturating_add(1);
            let hint = format!(
                "the parts of a model are named `MODEL-00001-of-{count:05}.gguf` and so on, in one folder"
            );
            let reason =
                format!("it is part {no} of the {count} parts of a model, which its name does not say");
            return Err(bad(path, reason, &hint));
        }
        (None, _) => "its header has no `split.count`, and its name is that of a part".into(),
        (Some(count), _) if count != n_parts => {
            format!("its `split.count` is {count}, and its name says {n_parts}")
        }
        (_, None) => "its header has no `split.no`, and its name is that of a part".into(),
        (_, Some(no)) if no != part - 1 => format!(
            "its name says part {part}, and its `split.no` is {no}, which is part {}",
            no.saturating_add(1)
        ),
        _ => return Ok(()),
    };
    Err(bad(path, reason, REPLACE))
}

/// Checks that a part has no key or value that the first part does not have.
fn check_keys(first: &Header, path: &Path, header: &Header) -> Result<()> {
    let is_own = |key: &str| key == "split.no" || key == "general.alignment";
    let describes = |key: &str| key.starts_with("general.") && key != "general.architecture";
    let mut keys: Vec<_> =
        header.metadata.iter().filter(|(key, _)| !is_own(key) && !describes(key)).collect();
    keys.sort_by_key(|(key, _)| *key);
    for (key, value) in keys {
        let reason = match first.metadata.get(key) {
            Some(other) if is_same(other, value) => continue,
            Some(other) => format!(
                "its `{}` is {}, and {} in the first part: it is of another model",
                shown(key),
                super::in_words(value),
                super::in_words(other)
            ),
            None => format!("its key `{}` is not in the first part", shown(key)),
        };
        return Err(bad(path, reason, REPLACE));
    }
    Ok(())
}
