//! The text folders of WMT's general task. Since 2024 they are laid out as mt-metrics-eval is (`txt-ts/`);
//! those of 2022 and 2023 name their files `TEST.LP.src.SRC`, `TEST.LP.ref.NAME.TGT` and
//! `TEST.LP.hyp.SYSTEM.TGT`, without documents. This module finds the files; `parallel` reads them.
//!
//! Source: wmt22-news-systems, wmt23-news-systems and wmt24-news-systems of wmt-conference.

use std::path::{Path, PathBuf};

use super::{Error, Result, layout};

/// The folder that holds a test set: the one given, or `txt-ts`, `txt` inside of it, as the repositories have
/// them.
pub fn root(dir: &Path) -> PathBuf {
    if dir.join("sources").is_dir() {
        return dir.into();
    }
    let inside = ["txt-ts", "txt"].map(|name| dir.join(name));
    inside.into_iter().find(|inside| inside.join("sources").is_dir()).unwrap_or_else(|| dir.into())
}

/// The files of one language pair in the folders of 2022 and 2023.
#[derive(Debug, PartialEq, Eq)]
pub struct Files {
    pub source: PathBuf,
    /// By name (`refA`, `A`), sorted.
    pub references: Vec<(String, PathBuf)>,
    /// By system, sorted.
    pub outputs: Vec<(String, PathBuf)>,
}

/// Finds the files of a pair; `None` where the folder does not name its files in this way.
///
/// # Errors
/// A folder that cannot be listed, and sources of several test sets for one pair.
pub fn files(root: &Path, lp: &str) -> Result<Option<Files>> {
    let Some((src, tgt)) = lp.split_once('-') else { return Ok(None) };
    let sources = matching(&root.join("sources"), &format!(".{lp}.src."), src)?;
    let (test, source) = match sources.as_slice() {
        [] => return Ok(None),
        [(_, one)] => (test_name(one, lp), one.clone()),
        several => match several.iter().find(|(_, path)| test_name(path, lp).starts_with("general")) {
            Some((_, general)) => (test_name(general, lp), general.clone()),
            None => return Err(several_tests(root, lp, several)),
        },
    };
    let named = |folder: &str, kind: &str| -> Result<Vec<(String, PathBuf)>> {
        let found = matching(&root.join(folder), &format!(".{lp}.{kind}."), tgt)?;
        Ok(found.into_iter().filter(|(_, path)| test_name(path, lp) == test).collect())
    };
    let (references, outputs) = (named("references", "ref")?, named("system-outputs", "hyp")?);
    Ok(Some(Files { source, references, outputs }))
}

fn several_tests(root: &Path, lp: &str, several: &[(String, PathBuf)]) -> Error {
    let tests: Vec<String> = several.iter().map(|(_, path)| format!("`{}`", test_name(path, lp))).collect();
    Error::SeveralTests { dir: root.into(), pair: lp.into(), tests: tests.join(", ") }
}

/// `generaltest2023` of `generaltest2023.en-de.src.en`.
fn test_name(path: &Path, lp: &str) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    name.split(&format!(".{lp}.")).next().unwrap_or_default().to_owned()
}

/// The files of a folder that hold `marker` and end in the language, with what stands between; sorted.
fn matching(dir: &Path, marker: &str, language: &str) -> Result<Vec<(String, PathBuf)>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for name in layout::names(dir)? {
        let path = dir.join(&name);
        let Some((_, suffix)) = name.split_once(marker) else { continue };
        if suffix == language {
            found.push((String::new(), path));
        } else if let Some(middle) = suffix.strip_suffix(&format!(".{language}")) {
            found.push((middle.to_owned(), path));
        }
    }
    found.sort();
    Ok(found)
}
