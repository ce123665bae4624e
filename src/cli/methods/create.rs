//! `tribunal methods new`: a folder with a method, to be changed. It is the example of five criteria under
//! another name.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{
    files,
    judges::{method_file, registry},
};

/// The files of the example, by their names in the folder.
const FILES: [(&str, &str); 3] = [
    (method_file::FILE, include_str!("../../../examples/methods/five-criteria/method.toml")),
    ("question.j2", include_str!("../../../examples/methods/five-criteria/question.j2")),
    ("answer.json", include_str!("../../../examples/methods/five-criteria/answer.json")),
];

/// Its name, and its path in comments.
const NAME: &str = "five-criteria";
const PATH: &str = "./five-criteria";

/// Writes the folder of a method that is called as the folder.
///
/// # Errors
/// A folder that exists and is not empty, that cannot be written, or whose name no method can have.
pub fn create(folder: &Path) -> Result<()> {
    let shown = folder.display().to_string();
    let another = "hint: choose another folder name";
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file() {
        bail!("`{shown}` exists already\n{another}");
    }
    let name = std::path::absolute(folder)?.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let name = name.unwrap_or_default().replace([' ', '_'], "-");
    if let Err(rule) = method_file::check_name(&name) {
        bail!("a method cannot be called `{name}`: {rule}\n{another}");
    }
    if registry::find(&name).is_ok() {
        bail!("`{name}` is a built-in method\n{another}");
    }
    if folder.extension().is_some_and(|ending| ending == "toml") {
        bail!("a path that ends in `.toml` is that of a method's file, not of its folder\n{another}");
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{shown}`"))?;
    let path = if shown.contains('/') { shown } else { format!("./{shown}") };
    // It stands in comments, each on one line.
    let path = path.replace(char::is_control, "?");
    for (file, text) in FILES {
        let parts = text.split(PATH).map(|part| part.replace(NAME, &name));
        let text = parts.collect::<Vec<_>>().join(&path);
        files::write(&folder.join(file), |out| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}
