//! The keys of a method's file, and their checks: what can be known before a template is read.

use std::{collections::BTreeMap, io, path::Path};

use serde::Deserialize;
use tribunal_core::files;

use super::{Fault, JUDGE, MethodFile, QUESTION, SYSTEM, schema};
use crate::{
    Direction, Role,
    answers::fields::{ErrorList, FieldPath, Fields, Form, Number, Places, SCHEMA},
    declaration::{Answers, Declaration, Layout},
    mqm::{
        Severity,
        weights::{self, Weights as Penalties},
    },
    prompt::{File, InForce},
    scale::Scale,
};

/// The longest name. Unit: characters.
const MAX_NAME: usize = 64;

/// The longest regular expression. Unit: bytes.
const MAX_PATTERN: usize = 4096;

/// The most tokens of an answer.
const MAX_TOKENS: usize = 16_384;

/// `method.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    name: String,
    summary: String,
    citation: String,
    #[serde(default = "annotator")]
    role: String,
    prompts: Prompts,
    answer: Answer,
    score: Option<Score>,
    errors: Option<Errors>,
    weights: Option<Weights>,
}

fn annotator() -> String {
    Role::Annotator.name().to_owned()
}

/// The templates of the messages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompts {
    system: Option<String>,
    question: String,
}

/// The form of an answer: at most one of `schema`, `choices` and `pattern`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Answer {
    max_tokens: usize,
    schema: Option<String>,
    choices: Option<Vec<String>>,
    pattern: Option<String>,
}

/// The scale of the score, and the places of its number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Score {
    lowest: f64,
    highest: f64,
    #[serde(default)]
    better: Better,
    field: Option<String>,
    mean: Option<BTreeMap<String, f64>>,
    after: Option<String>,
    #[serde(default)]
    values: BTreeMap<String, f64>,
    #[serde(default)]
    missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Better {
    #[default]
    Higher,
    Lower,
}

/// The fields of the errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Errors {
    list: String,
    span: String,
    category: String,
    severity: String,
    explanation: Option<String>,
    #[serde(default)]
    severities: BTreeMap<String, Severity>,
}

/// Penalties of severities, or a preset of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Weights {
    preset: Option<String>,
    critical: Option<f64>,
    major: Option<f64>,
    minor: Option<f64>,
    cap: Option<f64>,
}

/// Reads the files of a method's folder.
struct Reader<R> {
    read: R,
    files: Vec<InForce>,
}

impl<R: Fn(&str) -> io::Result<String>> Reader<R> {
    /// The text of the file that a key names, for its place in the method.
    fn add(&mut self, place: File, key: &str, name: &str) -> Result<String, Fault> {
        let ending = Path::new(place.name).extension();
        if Path::new(name).extension() != ending {
            let ending = ending.unwrap_or_default().display();
            return Err(Fault::new(key, format!("`{name}` does not end in `.{ending}`")));
        }
        if self.files.iter().any(|known| known.name == name) {
            return Err(Fault::new(key, format!("`{name}` is named twice")));
        }
        let text = (self.read)(name);
        let text =
            text.map_err(|e| Fault::new(key, format!("`{name}` cannot be read: {}", files::describe(&e))))?;
        // A copy of the folder has the same names in the same order.
        let parts = Path::new(name).components().map(|part| part.as_os_str().to_string_lossy());
        let plain = parts.collect::<Vec<_>>().join("/");
        if plain != name {
            return Err(Fault::new(key, format!("`{name}` must be written `{plain}`")));
        }
        self.files.push(InForce::of_folder(place, name, text.clone()));
        Ok(text)
    }
}

impl Method {
    /// The method, with the files that it names, read by `read`.
    ///
    /// # Errors
    /// A fault at one of its keys.
    pub fn checked(self, read: impl Fn(&str) -> io::Result<String>) -> Result<MethodFile, Fault> {
        self.check_words()?;
        let role = self.role.parse::<Role>().map_err(|e| Fault::new("role", e.to_string()))?;
        let mut reader = Reader { read, files: Vec::new() };
        let prompt = match &self.prompts.system {
            None => Layout::Message(QUESTION),
            Some(system) => {
                reader.add(SYSTEM, "system", system)?;
                Layout::Turns { system: SYSTEM, question: QUESTION, answer: None }
            }
        };
        reader.add(QUESTION, "question", &self.prompts.question)?;
        let form = self.answer.form(|name| reader.add(SCHEMA, "schema", name))?;
        let (scale, number) = match self.score {
            None => (Scale::PENALTY, None),
            Some(score) => score.checked(&form).map(|(scale, number)| (scale, Some(number)))?,
        };
        let weights = match (&self.errors, self.weights) {
            (None, None) if number.is_none() => {
                return Err(Fault::new("answer", "add `[score]`, `[errors]` or both"));
            }
            (None, Some(_)) => return Err(Fault::new("weights", "`[weights]` needs `[errors]`")),
            (None, None) => None,
            (Some(_), _) if !matches!(form, Form::Schema(_)) => {
                return Err(Fault::new("errors", "errors are read from JSON; hint: give a `schema`"));
            }
            (Some(_), weights) => Some(weights.map_or_else(|| Ok("wmt".to_owned()), Weights::checked)?),
        };
        let fields = Fields { form, number, errors: self.errors.map(ErrorList::from) };
        schema::check(&fields)?;
        let question = Declaration {
            stage: JUDGE,
            role,
            prompt,
            shows_reference: false,
            shots: None,
            thought: None,
            answers: Answers::Fields(Box::new(fields)),
            budget: self.answer.max_tokens,
        };
        Ok(MethodFile {
            name: self.name,
            summary: self.summary,
            citation: self.citation,
            role,
            scale,
            weights,
            question,
            takes_reference: false,
            files: reader.files,
        })
    }

    /// Checks the name and the budget, and that no word controls a terminal.
    fn check_words(&self) -> Result<(), Fault> {
        check_name(&self.name).map_err(|reason| Fault::new("name", reason))?;
        for (key, text) in [("summary", &self.summary), ("citation", &self.citation)] {
            if text.trim().is_empty() || text.chars().any(char::is_control) {
                let reason = format!("`{key}` must be one line of text without control characters");
                return Err(Fault::new(key, reason));
            }
        }
        match self.answer.max_tokens {
            1..=MAX_TOKENS => Ok(()),
            _ => Err(Fault::new("max-tokens", format!("`max-tokens` must be 1 to {MAX_TOKENS}"))),
        }
    }
}

/// Checks the name of a method.
///
/// # Errors
/// The rule, for a name that breaks it.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    let rule = || format!("a name consists of 1 to {MAX_NAME} lower-case letters, digits, hyphens and dots");
    is_name.then_some(()).ok_or_else(rule)
}

impl Answer {
    fn form(&self, schema: impl FnOnce(&str) -> Result<String, Fault>) -> Result<Form, Fault> {
        match (&self.schema, &self.choices, &self.pattern) {
            (Some(name), None, None) => {
                let fault = |reason: &str| Fault::new("schema", format!("`{name}` {reason}"));
                let schema: serde_json::Value =
                    serde_json::from_str(&schema(name)?).map_err(|e| fault(&format!("is not JSON: {e}")))?;
                let is_object = schema.is_object();
                is_object.then_some(Form::Schema(schema)).ok_or_else(|| fault("must contain a JSON object"))
            }
            (None, Some(choices), None)
                if choices.iter().all(|choice| !choice.trim().is_empty()) && !choices.is_empty() =>
            {
                Ok(Form::Choices(choices.clone()))
            }
            (None, Some(_), None) => {
                Err(Fault::new("choices", "`choices` must be one text or more, none of them empty"))
            }
            (None, None, Some(pattern)) if pattern.len() > MAX_PATTERN => {
                Err(Fault::new("pattern", format!("`pattern` has more than {MAX_PATTERN} bytes")))
            }
            (None, None, Some(pattern)) => match regex::Regex::new(pattern) {
                Ok(_) => Ok(Form::Pattern(pattern.clone())),
                Err(error) => {
                    let error = error.to_string();
                    let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    Err(Fault::new(
                        "pattern",
                        format!("`pattern` cannot be compiled: {}", last.trim_end_matches('.')),
                    ))
                }
            },
            (None, None, None) => Ok(Form::Text),
            _ => Err(Fault::new("answer", "an answer has one form: `schema`, `choices` or `pattern`")),
        }
    }
}

impl Score {
    /// The scale and the number.
    fn checked(self, form: &Form) -> Result<(Scale, Number), Fault> {
        let ends = [self.lowest, self.highest];
        if !(ends.iter().all(|end| end.is_finite()) && self.lowest < self.highest) {
            return Err(Fault::new(
                "lowest",
                format!("`lowest` {} is not below `highest` {}", ends[0], ends[1]),
            ));
        }
        let is_json = matches!(form, Form::Schema(_));
        let places = match (self.field, self.mean, self.after) {
            (Some(field), None, None) if is_json => Places::Mean(vec![(FieldPath(field), 1.0)]),
            (None, Some(mean), None) if is_json && !mean.is_empty() => {
                if let Some((name, _)) =
                    mean.iter().find(|(_, weight)| !(weight.is_finite() && **weight > 0.0))
                {
                    return Err(Fault::new(name, format!("the weight of `{name}` must be above 0")));
                }
                Places::Mean(mean.into_iter().map(|(name, weight)| (FieldPath(name), weight)).collect())
            }
            (None, None, Some(mark)) if !is_json && !mark.trim().is_empty() => Places::After(mark),
            (None, None, None) if !is_json => Places::Answer,
            _ => {
                let reason = "with `schema`, `[score]` needs `field` or `mean`; without it, the score is the whole answer \
                              or the text `after` a mark";
                return Err(Fault::new("score", reason));
            }
        };
        let Self { values, missing, .. } = self;
        let number = Number { places, ends, values, missing };
        for (word, value) in &number.values {
            if !(ends[0]..=ends[1]).contains(value) {
                let [lowest, highest] = ends;
                let reason = format!("`{word}` stands for {value}, which is outside {lowest} to {highest}");
                return Err(Fault::new(word, reason));
            }
        }
        if let (Form::Choices(choices), Places::Answer) = (form, &number.places) {
            for choice in choices {
                number.of_value(&choice.as_str().into()).map_err(|reason| Fault::new(choice, reason))?;
            }
        }
        let direction = match self.better {
            Better::Higher => Direction::Higher,
            Better::Lower => Direction::Lower,
        };
        Ok((Scale::of_rating(ends, direction), number))
    }
}

impl From<Errors> for ErrorList {
    fn from(errors: Errors) -> Self {
        let Errors { list, span, category, severity, explanation, severities } = errors;
        Self { list: FieldPath(list), span, category, severity, explanation, severities }
    }
}

impl Weights {
    /// Their name.
    fn checked(self) -> Result<String, Fault> {
        match self {
            Self { preset: Some(name), critical: None, major: None, minor: None, cap: None } => {
                weights::find(&name).map_err(|e| Fault::new("preset", e.to_string()))?;
                Ok(name)
            }
            Self { preset: None, critical: Some(critical), major: Some(major), minor: Some(minor), cap } => {
                let reason = "penalties must be at least 0, `critical` above 0 and not below `major`, `major` not below \
                              `minor`; a `cap` must be above 0";
                let weights = Penalties::by_severity([critical, major, minor], cap);
                Ok(weights.ok_or_else(|| Fault::new("weights", reason))?.name.into_owned())
            }
            _ => Err(Fault::new("weights", "weights are a `preset`, or `critical`, `major` and `minor`")),
        }
    }
}
