//! A method in a file: TOML, with templates and a schema beside it, read into the [`Declaration`] that
//! built-in methods of one question are. The files are untrusted: they run no code, and none outside their
//! folder is read.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use tribunal_core::files;

use super::{
    Judge, Method, Role, Stage,
    answers::fields::SCHEMA,
    declaration::{Answers, Declaration, SingleQuestion},
    pair::Texts,
    prompt::{self, File, InForce, Prompts},
    scale::Scale,
    setup::{self, GivenOptions, Granularity, Preset, ReferenceOption, Settings},
};
use crate::{llm::ResponseFormat, signature::Signature};

mod schema;
mod written;

pub use written::check_name;

/// The file in a method's folder.
pub const FILE: &str = "method.toml";

/// The field of the signature with the scale of a method in a file; built-in methods do not have it. The hash
/// of its files is that of its prompts.
pub const FIELD: &str = "scale";

/// Maximum size of a file. Unit: bytes.
const MAX_BYTES: u64 = 256 << 10;

/// The stage of its calls.
const JUDGE: Stage = Stage::new("judge");

/// The places of its files.
const SYSTEM: File = File { name: "system.j2", text: "" };
const QUESTION: File = File { name: "question.j2", text: "" };
const DECLARED: File = File { name: FILE, text: "" };

/// Values of its templates.
const VARIABLES: [&str; 6] = ["source_lang", "source", "target_lang", "target", "reference", "schema"];

/// Functions of every template.
const FUNCTIONS: [&str; 3] = ["dict", "namespace", "range"];

/// The metadata that all methods in files share.
const BASE: Method = Method {
    stages: &[JUDGE],
    granularities: &[Granularity::Seg, Granularity::Doc, Granularity::FiveDoc],
    presets: &[Preset::Strict],
    ..Method::with(|_, _| Err(setup::Error::Conflict("a method in a file is built from its file".into())))
};

/// A method as its files declare it.
#[derive(Clone, Debug)]
pub struct MethodFile {
    name: String,
    summary: String,
    citation: String,
    role: Role,
    scale: Scale,
    /// The name of its weights; `None` where it reads no errors.
    weights: Option<String>,
    question: Declaration,
    /// True if a template has a place for the reference.
    takes_reference: bool,
    /// Its files with their names, the method's own first.
    files: Vec<InForce>,
}

/// A fault of a method's file at one of its keys.
#[derive(Debug)]
struct Fault {
    key: String,
    reason: String,
}

impl Fault {
    fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }
}

/// The path in a request that names a file or a folder instead of a built-in method, and the options behind
/// it. A path ends in `.toml` or has a `/` before the first colon.
pub fn request(request: &str) -> Option<(&Path, &str)> {
    let first = request.split(':').next().unwrap_or_default();
    if !first.contains('/') && Path::new(first).extension() != Some("toml".as_ref()) {
        return None;
    }
    let ends = request.match_indices(".toml").map(|(at, ending)| at + ending.len());
    let of_file = ends.filter(|end| request[*end..].is_empty() || request[*end..].starts_with(':')).last();
    let of_options = || request.rfind(':').filter(|at| request[*at..].contains('='));
    let end = of_file.or_else(of_options).unwrap_or(request.len());
    Some((Path::new(&request[..end]), request[end..].trim_start_matches(':')))
}

/// A method in a file as a run's signature describes it; `None` for other signatures.
pub fn signed(signature: &Signature) -> Option<Method<'_>> {
    let (name, scale) = (signature.get("method")?, signature.get(FIELD)?);
    Some(described(name, Scale::signed_as(scale)?, signature.get("weights")))
}

fn described<'m>(name: &'m str, scale: Scale, weights: Option<&'m str>) -> Method<'m> {
    let is_apart = weights.is_some() && !scale.sums_errors();
    let marks = is_apart.then_some("the score is a number of its own, not the sum of the errors");
    Method { name, scale, marks, weights, ..BASE }
}

impl MethodFile {
    /// Reads a method's file, or the one in its folder, with the files that it names.
    ///
    /// # Errors
    /// [`setup::Error::Read`]; [`setup::Error::Line`] for a file that is no method, or that names files
    /// outside of its folder or values that templates do not have.
    pub fn read(path: &Path) -> setup::Result<Self> {
        let (folder, name) = place(path);
        let text = read_within(&folder, &name)
            .map_err(|source| setup::Error::Read { file: folder.join(&name), source })?;
        let shown = folder.join(&name).display().to_string();
        let written: written::Method = toml::from_str(&text).map_err(|error| setup::Error::Line {
            file: shown.clone(),
            line: line_at(&text, error.span().map_or(0, |span| span.start)),
            reason: error.message().trim_end().replace('\n', ", "),
        })?;
        let mut method =
            written.checked(|file| read_within(&folder, file)).map_err(|Fault { key, reason }| {
                setup::Error::Line { file: shown.clone(), line: line_of(&text, &key), reason }
            })?;
        method.files.insert(0, InForce::of_folder(DECLARED, name, text));
        let templates =
            Prompts::from_files(method.files.clone(), &Settings::default()).map_err(|e| match e {
                setup::Error::Prompt { file, reason } => {
                    setup::Error::Prompt { file: folder.join(file).display().to_string(), reason }
                }
                other => other,
            })?;
        method.takes_reference = method.check_templates(&folder, &templates.refusing_none())?;
        Ok(method)
    }

    /// Its metadata.
    pub fn method(&self) -> Method<'_> {
        let Self { name, summary, citation, role, scale, weights, .. } = self;
        // A document has no reference of its own.
        let (options, granularities) = if self.takes_reference {
            (ReferenceOption::CHOICES, &BASE.granularities[..1])
        } else {
            (BASE.options, BASE.granularities)
        };
        let roles = std::slice::from_ref(role);
        let described = described(name, *scale, weights.as_deref());
        Method { summary, citation, roles, granularities, options, ..described }
    }

    /// Its files: their names in the folder and their texts.
    pub fn files(&self) -> &[InForce] {
        &self.files
    }

    /// The form of its answers, about texts of a letter each.
    pub fn form(&self) -> Option<ResponseFormat> {
        match &self.question.answers {
            Answers::Fields(fields) => Some(fields.form(&Texts::sample())),
            _ => None,
        }
    }

    /// The judge with these settings and options.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] for a folder of other prompts, and those of
    /// [`SingleQuestion::with_prompts`].
    pub fn judge(&self, settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
        setup::reject(&[(
            settings.prompts.is_some(),
            "a method in a file has its prompts beside it; hint: change those of a copy of its folder",
        )])?;
        let shows_reference =
            self.takes_reference && ReferenceOption::read(options).reference.is_shown(settings);
        let question = Declaration { shows_reference, ..self.question.clone() };
        let prompts = Prompts::from_files(self.files.clone(), settings)?;
        let mut judge: Judge =
            SingleQuestion::with_prompts(&self.method(), question, prompts, settings)?.into();
        judge.provenance = judge.provenance.with(FIELD, self.scale.signature());
        Ok(judge)
    }

    /// Checks that templates use no values but those that exist, and that they can be rendered with and
    /// without a reference; returns true if one shows it.
    fn check_templates(&self, folder: &Path, templates: &Prompts) -> setup::Result<bool> {
        let mut takes_reference = false;
        for template in [SYSTEM, QUESTION] {
            let Some(file) = self.files.iter().find(|file| file.is_at(template)) else { continue };
            let at = |line: usize, reason: String| setup::Error::Line {
                file: folder.join(&*file.name).display().to_string(),
                line,
                reason,
            };
            let used = templates.variables(template);
            takes_reference |= used.contains("reference");
            if let Some((unknown, reason)) = self.unknown_variable(&used) {
                return Err(at(line_with(&file.text, unknown), reason));
            }
            let render = |reference: Value| {
                let texts = json!({ "source_lang": "", "source": "a", "target_lang": "", "target": "b", "schema": "",
                                    "reference": reference });
                templates.try_render(template, texts)
            };
            let line = |error: &minijinja::Error| error.line().unwrap_or(1);
            render(json!("c")).map_err(|e| at(line(&e), prompt::detail(&e)))?;
            render(Value::Null).map_err(|e| {
                let hint = "hint: {% if reference %} ... {% endif %}";
                at(line(&e), format!("without a reference, {}; {hint}", prompt::detail(&e)))
            })?;
        }
        Ok(takes_reference)
    }

    /// A variable that templates do not have, with the reason for its refusal.
    fn unknown_variable<'u>(&self, used: &'u BTreeSet<String>) -> Option<(&'u str, String)> {
        let has_schema = self.files.iter().any(|file| file.is_at(SCHEMA));
        let known: Vec<&str> = VARIABLES.into_iter().filter(|name| has_schema || *name != "schema").collect();
        let unknown = used.iter().find(|name| !known.iter().chain(&FUNCTIONS).any(|known| known == name))?;
        let (nearest, known) = (setup::nearest(unknown, known.iter().copied()), known.join(", "));
        Some((unknown, format!("unknown variable `{unknown}`\nhint: {nearest}available variables: {known}")))
    }
}

/// The folder of a method, and the name of its file there. A path that ends in `.toml` is that of a file.
pub fn place(path: &Path) -> (PathBuf, String) {
    if path.extension().is_none_or(|ending| ending != "toml") {
        return (path.to_owned(), FILE.to_owned());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().map_or_else(|| FILE.into(), |name| name.to_string_lossy().into_owned());
    (folder.to_owned(), name)
}

/// The text of a file in a folder, over no link.
fn read_within(folder: &Path, name: &str) -> std::io::Result<String> {
    files::text::of_bytes(files::read_at_most(&files::within(folder, name)?, MAX_BYTES)?)
}

/// The number of the line of a byte.
fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The number of the line of a key in TOML, else of this text among the values; or 1.
fn line_of(text: &str, key: &str) -> usize {
    let table = DeTable::parse(text).ok();
    line_at(text, table.and_then(|table| place_in(table.get_ref(), key)).map_or(0, |(_, at)| at))
}

/// The first byte of a key in a table, else of this text among the values: false, then true.
fn place_in(table: &DeTable<'_>, key: &str) -> Option<(bool, usize)> {
    let places = table.iter().flat_map(|(name, value)| {
        let of_key = (*name.get_ref() == key).then(|| (false, name.span().start));
        of_key.into_iter().chain(place_of(value, key))
    });
    places.min()
}

fn place_of(value: &Spanned<DeValue<'_>>, key: &str) -> Option<(bool, usize)> {
    match value.get_ref() {
        DeValue::Table(table) => place_in(table, key),
        DeValue::Array(items) => items.iter().filter_map(|item| place_of(item, key)).min(),
        other => (other.as_str() == Some(key)).then(|| (true, value.span().start)),
    }
}

/// The number of the first line of a template with this word, or 1.
fn line_with(text: &str, word: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let has = |line: &str| {
        line.match_indices(word)
            .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
    };
    text.lines().position(has).map_or(1, |idx| idx + 1)
}

#[cfg(test)]
mod tests;
