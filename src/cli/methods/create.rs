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

/// Its name, which its comments have too.
const NAME: &str = "five-criteria";

/// Writes the folder of a method that is called as the folder.
///
/// # Errors
/// A folder that exists and is not empty, or that cannot be written.
pub fn create(folder: &Path) -> Result<()> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file() {
        bail!("`{}` exists already\nhint: name a new folder", folder.display());
    }
    let name = std::path::absolute(folder)?.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.unwrap_or_default().chars().map(plain).collect();
    if name.is_empty() || registry::find(&name).is_ok() {
        bail!("a method cannot be called `{name}`\nhint: name the folder otherwise");
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    for (file, text) in FILES {
        let text = text.replace(NAME, &name);
        files::write(&folder.join(file), |out| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}
