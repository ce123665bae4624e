//! Prompt files: embedded, replaced by those of a folder on request, rendered, and hashed for the signature.
//! Each judge lists the files that it uses.

use std::{borrow::Cow, collections::BTreeSet, fs, path::Path};

use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value, value::Serde};
use serde::Serialize;
use tribunal_core::{digest, files};

use super::{Error, Result, setup, setup::Settings};
use crate::jinja;

/// Maximum size of a file that replaces a prompt. Unit: bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A file beside a judge: a template (`.j2`), a schema (`.json`) or shots (`.jsonl`).
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Relative to the judges' folder; a file of the same name in the user's folder of prompts replaces it.
    pub name: &'static str,
    pub text: &'static str,
}

/// A [`File`] of the judges' folder.
macro_rules! file {
    ($name:literal) => {
        $crate::prompt::File {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/", $name)),
        }
    };
}
pub(crate) use file;

/// A file with the text that is in force, its own or the one that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The name by which its method renders it ([`File::name`]).
    key: &'static str,
    pub name: Cow<'static, str>,
    pub text: String,
}

impl From<&File> for InForce {
    fn from(file: &File) -> Self {
        Self { key: file.name, name: file.name.into(), text: file.text.into() }
    }
}

impl InForce {
    /// A file of a method's folder, instead of a file that the method renders.
    pub fn of_folder(place: File, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: place.name, name: Cow::Owned(name.into()), text: text.into() }
    }

    /// True if it replaces this file.
    pub fn is_at(&self, place: File) -> bool {
        self.key == place.name
    }

    /// The SHA-256 of the text, in hexadecimal digits.
    pub fn sha256(&self) -> String {
        digest::sha256(&self.text)
    }
}

/// The files of one method in force.
pub struct Prompts {
    /// The templates, by their file's name.
    environment: Environment<'static>,
    hash: String,
    files: Vec<InForce>,
}

impl Prompts {
    /// Loads a method's files. The one named `.jsonl` is replaced by the settings' shots, any by a file of
    /// the same name in the settings' folder.
    ///
    /// # Errors
    /// [`setup::Error::Read`], [`setup::Error::Prompt`] for a template with a syntax error, and
    /// [`setup::Error::NoPrompts`] when the folder replaces nothing.
    pub fn load(files: &[File], settings: &Settings) -> setup::Result<Self> {
        Self::from_files(files.iter().map(InForce::from).collect(), settings)
    }

    /// [`Prompts::load`], of files of any origin.
    ///
    /// # Errors
    /// Those of [`Prompts::load`].
    pub fn from_files(mut files: Vec<InForce>, settings: &Settings) -> setup::Result<Self> {
        let mut environment = jinja::environment();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let mut n_replaced = 0;
        for file in &mut files {
            if let Some(text) = replacement(&file.name, settings)? {
                n_replaced += 1;
                file.text = text;
            }
            if is_template(file.key) {
                jinja::add(&mut environment, file.key, file.text.clone())
                    .map_err(|e| setup::Error::Prompt { file: file.name.to_string(), reason: reason(&e) })?;
            }
        }
        if let Some(dir) = settings.prompts.as_ref().filter(|_| n_replaced == 0) {
            if !dir.is_dir() {
                let source = std::io::ErrorKind::NotFound.into();
                return Err(setup::Error::Read { file: dir.clone(), source });
            }
            let known = files.iter().map(|f| &*f.name).collect::<Vec<_>>().join(", ");
            return Err(setup::Error::NoPrompts { dir: dir.clone(), known });
        }
        Ok(Self { environment, hash: hash(files.iter().flat_map(|file| [&*file.name, &file.text])), files })
    }

    /// The files in force.
    pub fn files(&self) -> &[InForce] {
        &self.files
    }

    /// The first eight hexadecimal digits of the SHA-256 of all files in force.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// A schema without values to fill in.
    ///
    /// # Errors
    /// [`setup::Error::Prompt`] when the file is not JSON.
    pub fn schema(&self, file: File) -> setup::Result<serde_json::Value> {
        let text = self.render(file, ()).map_err(setup::Error::from_prompt)?;
        serde_json::from_str(&text)
            .map_err(|e| setup::Error::Prompt { file: file.name.into(), reason: e.to_string() })
    }

    /// These files, of which a template that prints `none` cannot be rendered.
    #[must_use]
    pub fn refusing_none(mut self) -> Self {
        jinja::refuse_none(&mut self.environment);
        self
    }

    /// A template with its values filled in, without the file's last newline.
    ///
    /// # Errors
    /// [`Error::Failed`] when the template uses a value that the method does not provide.
    pub fn render(&self, file: File, values: impl Serialize) -> Result<String> {
        self.try_render(file, values).map_err(|e| {
            let name = self.find(file).map_or(file.name, |known| &known.name);
            Error::Failed(format!("prompt `{name}`: {}", reason(&e)))
        })
    }

    /// A JSON file, such as a schema, with these values filled in.
    ///
    /// # Errors
    /// [`Error::Failed`] for a replaced file that is not JSON, and those of [`Prompts::render`].
    pub fn json(&self, file: File, values: impl Serialize) -> Result<serde_json::Value> {
        serde_json::from_str(&self.render(file, values)?)
            .map_err(|e| Error::Failed(format!("prompt `{}` is not JSON: {e}", file.name)))
    }

    /// [`Prompts::render`], with the error of the template engine.
    pub(super) fn try_render(&self, file: File, values: impl Serialize) -> Result<String, minijinja::Error> {
        match self.find(file).filter(|_| !is_template(file.name)) {
            // Nothing is filled into schemas and shots.
            Some(plain) => Ok(plain.text.clone()),
            None => jinja::render(&self.environment, file.name, Value::from(Serde(values)), jinja::MAX_BYTES),
        }
    }

    fn find(&self, file: File) -> Option<&InForce> {
        self.files.iter().find(|known| known.is_at(file))
    }

    /// The variables of a template that it does not define itself, with their attributes (`segment.source`).
    pub fn variables(&self, file: File) -> BTreeSet<String> {
        let template = self.environment.get_template(file.name);
        template
            .map_or_else(|_| BTreeSet::new(), |known| known.undeclared_variables(true).into_iter().collect())
    }
}

/// The first eight hexadecimal digits of the SHA-256 of these texts, each after its length.
pub fn hash<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    digest::short(bytes)
}

/// The replacement of a file, if there is one.
fn replacement(name: &str, settings: &Settings) -> setup::Result<Option<String>> {
    let is_shots = Path::new(name).extension().is_some_and(|e| e == "jsonl");
    let path = match (&settings.shots, &settings.prompts) {
        (Some(shots), _) if is_shots => shots.clone(),
        (_, Some(dir)) if dir.join(name).exists() => dir.join(name),
        _ => return Ok(None),
    };
    if let Ok(metadata) = fs::metadata(&path)
        && (!metadata.is_file() || metadata.len() > MAX_FILE_BYTES)
    {
        let reason = format!("it is not a plain file of at most {MAX_FILE_BYTES} bytes");
        return Err(setup::Error::Prompt { file: path.display().to_string(), reason });
    }
    files::text::read(&path).map(Some).map_err(|source| setup::Error::Read { file: path, source })
}

fn is_template(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "j2")
}

/// The template engine's error on one line, with the line number.
fn reason(error: &minijinja::Error) -> String {
    let at = error.line().map_or(String::new(), |line| format!(" (line {line})"));
    let hint = "; hint: a template may only use the values that the method gives";
    detail(error) + &at + if error.kind() == ErrorKind::UndefinedError { hint } else { "" }
}

/// The template engine's error without its place.
pub(super) fn detail(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: File = File { name: "x/hello.j2", text: "Hello {{ name }}!\n" };
    const SHOTS: File = File { name: "x/shots.jsonl", text: "{{ not a template }}\n" };

    #[test]
    fn embedded_files() {
        let prompts = Prompts::load(&[HELLO, SHOTS], &Settings::default()).unwrap();
        let name = serde_json::json!({ "name": "<b>" });
        assert_eq!(prompts.render(HELLO, &name).unwrap(), "Hello <b>!", "nothing is escaped");
        assert_eq!(prompts.render(SHOTS, ()).unwrap().trim(), "{{ not a template }}");
        let missing = prompts.render(HELLO, serde_json::json!({})).unwrap_err().to_string();
        assert!(missing.contains("x/hello.j2"), "{missing}");
    }

    #[test]
    fn a_folder_and_a_file_of_shots_replace_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Settings { prompts: Some(dir.path().into()), ..Settings::default() };
        let load = |settings: &Settings| Prompts::load(&[HELLO, SHOTS], settings);
        assert!(load(&folder).err().unwrap().to_string().contains("x/hello.j2, x/shots.jsonl"));

        fs::create_dir(dir.path().join("x")).unwrap();
        fs::write(dir.path().join("x/hello.j2"), "Hi {{ name }}").unwrap();
        let ours = load(&folder).unwrap();
        assert_eq!(ours.render(HELLO, serde_json::json!({ "name": "A" })).unwrap(), "Hi A");
        assert_ne!(ours.hash(), load(&Settings::default()).unwrap().hash());

        let shots = dir.path().join("mine.jsonl");
        fs::write(&shots, "{}").unwrap();
        let theirs = load(&Settings { shots: Some(shots), ..Settings::default() }).unwrap();
        assert_eq!(theirs.render(SHOTS, ()).unwrap(), "{}");

        fs::write(dir.path().join("x/hello.j2"), "\u{feff}Hi {{ name }}\r\nyou").unwrap();
        let marked = load(&folder).unwrap();
        assert_eq!(marked.render(HELLO, serde_json::json!({ "name": "A" })).unwrap(), "Hi A\nyou");
        assert!(!marked.files()[0].text.contains('\u{feff}'));

        fs::write(dir.path().join("x/hello.j2"), "Hi {{ name").unwrap();
        assert!(load(&folder).err().unwrap().to_string().starts_with("prompt `x/hello.j2` cannot be used"));
    }
}
