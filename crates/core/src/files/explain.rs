//! Turns I/O errors into messages that name the problem and suggest an alternative.

use std::{fs, io, path::Path};

/// The least similarity (0 to 1) of an existing name to a missing one for a suggestion.
const LIKE: f64 = 0.7;

/// Describes an error, without the system's error number.
pub fn describe(error: &io::Error) -> String {
    // Errors of this program have their own message.
    let is_ours = error.get_ref().is_some();
    match error.kind() {
        _ if is_ours => error.to_string(),
        io::ErrorKind::NotFound => "there is no such file or folder".into(),
        io::ErrorKind::IsADirectory => "it is a folder, not a file".into(),
        io::ErrorKind::NotADirectory => "what should be a folder is a file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => {
            let text = error.to_string();
            text.split_once(" (os error").map_or_else(|| text.clone(), |(text, _)| text.to_owned())
        }
    }
}

/// Describes an error on a path, with a hint where there is a similar name or a missing parent folder.
pub fn explain(path: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        _ if error.get_ref().is_some() => None,
        io::ErrorKind::NotFound => instead(path),
        io::ErrorKind::IsADirectory => Some("give a file in it".into()),
        _ => None,
    };
    describe(error) + &hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"))
}

/// A suggestion for a path that does not exist.
fn instead(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Some(format!("there is no folder `{}`", folder.display()));
    }
    let file_name = path.file_name()?.to_string_lossy().to_lowercase();
    let names = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names = names.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    let likeness = |name: &String| strsim::normalized_damerau_levenshtein(&file_name, &name.to_lowercase());
    let (like, name) =
        names.map(|name| (likeness(&name), name)).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    (like >= LIKE).then(|| format!("did you mean `{}`?", path.with_file_name(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(path: &Path) -> String {
        explain(path, &fs::read_to_string(path).unwrap_err())
    }

    #[test]
    fn a_name_that_is_like_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("source.txt"), "").unwrap();
        let there = dir.path().join("source.txt").display().to_string();
        let said = "there is no such file or folder";
        assert_eq!(reading(&dir.path().join("Sorce.txt")), format!("{said}\nhint: did you mean `{there}`?"));
        assert_eq!(reading(&dir.path().join("other.csv")), said);
        let folder = dir.path().join("x");
        assert_eq!(
            reading(&folder.join("a")),
            format!("{said}\nhint: there is no folder `{}`", folder.display())
        );
    }

    #[test]
    fn a_folder_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(reading(dir.path()), "it is a folder, not a file\nhint: give a file in it");
        let other = io::Error::from_raw_os_error(28);
        assert!(!describe(&other).contains("os error"), "{}", describe(&other));
    }
}
