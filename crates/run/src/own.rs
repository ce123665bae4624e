//! The run's own files in a run folder: other commands' results do not overwrite them, and temporary files of
//! killed processes beside them are removed.

use std::path::{Path, PathBuf};

use crate::{
    calls,
    description::RUN,
    error::Error,
    files,
    finish::{SUMMARY, VERDICTS},
    folder::{Folder, JOURNAL},
    input::INPUT,
    keep,
    lock::LOCK,
    materials::MATERIALS,
};

/// The files of a run, but for the copies in its folder of materials.
const NAMES: [&str; 10] = [
    RUN,
    JOURNAL,
    calls::NAMES[0],
    calls::NAMES[1],
    VERDICTS,
    SUMMARY,
    INPUT,
    LOCK,
    keep::SOURCES[0],
    keep::SOURCES[1],
];

/// Returns true if a run writes a file or folder of this name into its folder.
pub fn is_name(name: &str) -> bool {
    NAMES.contains(&name) || name == MATERIALS || name.starts_with('.')
}

/// The run folder of which a path names a file that the run writes or reads; `None` for any other path. Links
/// are followed.
pub fn run_of(path: &Path) -> Option<PathBuf> {
    let path = real(path);
    let is_run = |dir: &&Path| dir.join(RUN).symlink_metadata().is_ok();
    let name = path.file_name()?.to_str()?;
    let in_materials = path.ancestors().skip(1).filter(|dir| dir.file_name().is_some_and(|n| n == MATERIALS));
    let beside = path.parent().filter(|_| NAMES.contains(&name));
    let mut folders = beside.into_iter().chain(in_materials.filter_map(Path::parent));
    folders.find(is_run).map(Path::to_path_buf)
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let resolved = || std::fs::canonicalize(path).ok();
    let by_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.into());
    resolved().or_else(by_folder).unwrap_or_else(absolute)
}

/// Removes what processes that were killed in the middle of a file left in a run's folder.
///
/// # Errors
/// [`Error::Io`].
pub fn discard_unfinished(folder: &Folder) -> Result<(), Error> {
    Ok(files::discard_unfinished_of(folder.dir(), &NAMES)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_of_a_run_is_known_by_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("out/materials/prompts")).unwrap();
        fs::write(at("out/run.json"), "{}").unwrap();
        let of = |name: &str| run_of(&at(name));
        let out = fs::canonicalize(at("out")).unwrap();
        for own in
            ["out/journal.jsonl", "out/run.json", "out/../out/calls.jsonl", "out/materials/prompts/a.j2"]
        {
            assert_eq!(of(own), Some(out.clone()), "{own}");
        }
        for other in ["out/page.html", "journal.jsonl", "new/journal.jsonl", "materials/a"] {
            assert_eq!(of(other), None, "{other}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("out"), at("link")).unwrap();
            assert_eq!(of("link/summary.json"), Some(out));
        }
    }

    #[test]
    fn half_written_files_of_a_run_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        for name in [".verdicts.jsonl.aB3dE6.new", ".notes.aB3dE6.new", "verdicts.jsonl", ".run.json.new"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let folder = Folder::open(root.path()).unwrap();
        discard_unfinished(&folder).unwrap();
        let there = |name: &str| root.path().join(name).exists();
        assert!(!there(".verdicts.jsonl.aB3dE6.new"));
        assert!(there(".notes.aB3dE6.new") && there("verdicts.jsonl") && there(".run.json.new"));
    }
}
