//! Errors in JSON, as in the FSP paper's prompts: the schema that is shown, the form that is enforced, shots
//! written as answers, and the reader of answers. No model is called here.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    chances::{GivenAnswer, Scoring},
    form_about,
};
use crate::{
    Result, Verdict, confidence,
    llm::{Reply, ResponseFormat},
    mqm::{self, ErrorSpan, Repeats, Severity, typology, weights::Weights},
    pair::Texts,
    prompt::{File, Prompts, file},
    reading,
    shots::{Shot, ShotError},
};

const SCHEMA_PAPER: File = file!("answers/schema.paper.j2");
const FORM_PAPER: File = file!("answers/form.paper.j2");
/// Shown and enforced.
const SCHEMA_STRICT: File = file!("answers/schema.strict.j2");
const QUALITY_LEVELS: File = file!("answers/quality_levels.j2");
const SHOTS_PAPER: File = file!("answers/shots.paper.jsonl");
const SHOTS_STRICT: File = file!("answers/shots.strict.jsonl");

/// The fields of an answer and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerFormat {
    /// Category first and one line, as in our schema; else the span first and indented, as printed.
    pub is_strict: bool,
    pub explain: bool,
    /// True if a `quality_score` follows the errors.
    pub quality: bool,
    pub target: Target,
}

/// The tag of the prompt around the judged text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Translation,
    Segment,
}

impl Target {
    fn tag(self) -> &'static str {
        match self {
            Self::Translation => "translation",
            Self::Segment => "target_segment",
        }
    }
}

/// A shot in the form that templates use: its texts, and its answer in the layout.
#[derive(Serialize)]
pub struct ShownShot<'a> {
    #[serde(flatten)]
    shot: &'a Shot,
    answer: String,
}

impl AnswerFormat {
    /// The files that the layout needs, shots apart.
    pub fn files(self) -> Vec<File> {
        let mut files = if self.is_strict { vec![SCHEMA_STRICT] } else { vec![SCHEMA_PAPER, FORM_PAPER] };
        files.extend(self.quality.then_some(QUALITY_LEVELS));
        files
    }

    /// The layout's own shots.
    pub fn shots_file(self) -> File {
        if self.is_strict { SHOTS_STRICT } else { SHOTS_PAPER }
    }

    /// The schema as the prompt shows it.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when a replaced template cannot be filled in.
    pub fn schema(self, prompts: &Prompts, max_errors: usize) -> Result<String> {
        let file = if self.is_strict { SCHEMA_STRICT } else { SCHEMA_PAPER };
        prompts.render(file, self.values(prompts, max_errors)?)
    }

    /// The form that an answer about these texts must have. Spans of an empty text are taken out of it.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when a replaced schema is no JSON.
    pub fn form(self, prompts: &Prompts, texts: &Texts) -> Result<ResponseFormat> {
        self.form_of(prompts, texts.max_errors(), &texts.source, &texts.target)
    }

    /// [`AnswerFormat::form`] for texts that are not a unit's.
    ///
    /// # Errors
    /// Those of [`AnswerFormat::form`].
    pub fn form_of(
        self,
        prompts: &Prompts,
        max_errors: usize,
        source: &str,
        target: &str,
    ) -> Result<ResponseFormat> {
        let file = if self.is_strict { SCHEMA_STRICT } else { FORM_PAPER };
        let schema = prompts.json(file, self.values(prompts, max_errors)?)?;
        Ok(form_about(schema, [("source", source), (self.target.tag(), target)]))
    }

    fn values(self, prompts: &Prompts, max_errors: usize) -> Result<Value> {
        let quality_levels = if self.quality { prompts.render(QUALITY_LEVELS, ())? } else { String::new() };
        Ok(json!({
            "explain": self.explain,
            "quality": self.quality,
            "target_text": self.target.tag(),
            "max_errors": max_errors,
            "quality_levels": quality_levels,
        }))
    }

    /// The shots with their answers in this layout. They have no `quality_score`: the paper gives none.
    pub fn shown(self, shots: &[Shot]) -> Vec<ShownShot<'_>> {
        shots.iter().map(|shot| ShownShot { shot, answer: self.written(&shot.errors) }).collect()
    }

    /// Errors as an answer of this layout, without a quality score.
    ///
    /// # Panics
    /// Never: the errors are strings.
    pub fn written(self, errors: &[ShotError]) -> String {
        let errors: Vec<Value> = errors.iter().map(|error| self.entry(error)).collect();
        let answer = json!({ "errors": errors });
        let text = if self.is_strict {
            serde_json::to_string(&answer)
        } else {
            serde_json::to_string_pretty(&answer)
        };
        text.expect("JSON values with string keys can be written")
    }

    fn entry(self, error: &ShotError) -> Value {
        let path = typology::normalise(&error.category);
        let (category, kind) = path.split_once('/').unwrap_or((&path, &path));
        let span = ("error_span", json!(error.span));
        let explanation = self.explain.then(|| ("explanation", json!(error.explanation)));
        let names = [("error_category", json!(category)), ("error_type", json!(kind))];
        let severity = ("severity", json!(error.severity));
        let properties: Vec<(&str, Value)> = if self.is_strict {
            names.into_iter().chain([span]).chain(explanation).chain([severity]).collect()
        } else {
            [span].into_iter().chain(explanation).chain(names).chain([severity]).collect()
        };
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] or [`crate::Error::Unparsable`]: not this JSON, an empty span in
    /// strict, a quality score that is missing, not requested, or not in 0..=100.
    pub fn read(self, text: &str) -> Result<Answer> {
        let answer: Answer = reading::json(text)?;
        if self.is_strict
            && answer.errors.iter().any(|e| e.error_span.as_deref().unwrap_or_default().is_empty())
        {
            return Err(reading::unusable(text, "an error has no span"));
        }
        match answer.quality_score {
            Some(score) if !(0..=100).contains(&score) => {
                Err(reading::unusable(text, &format!("quality_score `{score}` is not in 0 to 100")))
            }
            None if self.quality => Err(reading::unusable(text, "no quality_score")),
            Some(_) if !self.quality => {
                Err(reading::unusable(text, "a quality_score that was not asked for"))
            }
            _ => Ok(Answer { repeats: self.repeats(), ..answer }),
        }
    }

    /// Treatment of errors that are named more than once.
    pub fn repeats(self) -> Repeats {
        if self.is_strict { Repeats::Merged } else { Repeats::Charged }
    }
}

/// A parsed answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    errors: Vec<ErrorEntry>,
    quality_score: Option<i64>,
    /// Rule of the layout that it was read in.
    #[serde(skip)]
    repeats: Repeats,
}

/// One error of an answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorEntry {
    /// Optional in the printed schema.
    error_span: Option<String>,
    #[serde(default)]
    explanation: String,
    error_category: Category,
    error_type: String,
    severity: Level,
    #[serde(skip)]
    confidence: Option<f64>,
}

/// The categories of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Category {
    Accuracy,
    Fluency,
    Style,
    Terminology,
    Other,
}

/// The severities of the prompt, which has no neutral errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Critical,
    Major,
    Minor,
}

impl Category {
    fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Fluency => "fluency",
            Self::Style => "style",
            Self::Terminology => "terminology",
            Self::Other => "other",
        }
    }
}

impl From<Level> for Severity {
    fn from(level: Level) -> Self {
        match level {
            Level::Critical => Self::Critical,
            Level::Major => Self::Major,
            Level::Minor => Self::Minor,
        }
    }
}

impl Answer {
    /// The answer with the model's confidence in each span.
    #[must_use]
    pub fn weighed(mut self, reply: &Reply) -> Self {
        let named = self.errors.iter_mut().filter(|entry| entry.error_span.is_some());
        for (entry, confidence) in named.zip(confidence::value_confidences(reply, "error_span")) {
            entry.confidence = confidence;
        }
        self
    }

    /// The verdict about these texts: the quality score or its mean, or the weighed errors. `raw` is the
    /// written number.
    ///
    /// # Errors
    /// The errors of [`GivenAnswer::quality`].
    pub fn scored(
        self,
        texts: &Texts,
        weights: &Weights,
        scoring: Scoring,
        written: &GivenAnswer<'_>,
    ) -> Result<Verdict> {
        let repeats = self.repeats;
        let (errors, quality_score) = self.into_parts();
        let (errors, penalty) = mqm::assess(errors, &texts.source, &texts.target, repeats, weights);
        let raw = quality_score.filter(|_| scoring.by_quality()).unwrap_or(penalty);
        let score = if scoring == Scoring::ExpectedQuality { written.quality()? } else { raw };
        Ok(Verdict { raw, quality_score, ..Verdict::new(score, errors) })
    }

    /// The errors, not yet located and weighed, and the quality score.
    pub fn into_parts(self) -> (Vec<ErrorSpan>, Option<f64>) {
        let to_error = |entry: ErrorEntry| {
            let category = typology::join(entry.error_category.name(), &entry.error_type);
            let span = entry.error_span.unwrap_or_default();
            let error = ErrorSpan::new(&category, span, entry.severity.into()).explained(entry.explanation);
            ErrorSpan { confidence: entry.confidence, ..error }
        };
        let errors = self.errors.into_iter().map(to_error).collect();
        (errors, self.quality_score.map(|score| score as f64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Settings, shots};

    fn layouts() -> impl Iterator<Item = AnswerFormat> {
        let both = [false, true];
        both.into_iter().flat_map(move |is_strict| {
            both.into_iter().flat_map(move |explain| {
                both.into_iter().flat_map(move |quality| {
                    [Target::Translation, Target::Segment].map(|target| AnswerFormat {
                        is_strict,
                        explain,
                        quality,
                        target,
                    })
                })
            })
        })
    }

    /// True if an object has the schema's properties in the schema's order, each with an allowed value.
    fn fits(schema: &Value, object: &Value, texts: &BTreeMap<String, String>) -> bool {
        let properties = schema["properties"].as_object().unwrap();
        let object = object.as_object().unwrap();
        properties.keys().eq(object.keys())
            && properties.iter().all(|(key, schema)| {
                let value = object[key].as_str().unwrap();
                let allowed = schema["enum"].as_array().is_none_or(|list| list.iter().any(|v| v == value));
                let constant = schema.get("const").is_none_or(|v| v == value);
                let short =
                    schema["maxLength"].as_u64().is_none_or(|max| value.chars().count() as u64 <= max);
                let verbatim = match &schema["substringOf"] {
                    Value::String(name) => !value.is_empty() && texts[name].contains(value),
                    _ => true,
                };
                allowed && constant && short && verbatim
            })
    }

    #[test]
    fn shots_fit_the_form_that_is_enforced() {
        for layout in layouts() {
            let files = [layout.files(), vec![layout.shots_file()]].concat();
            let prompts = Prompts::load(&files, &Settings::default()).unwrap();
            let shots = shots::load(&prompts, Some(layout.shots_file()), &Settings::default()).unwrap();
            assert_eq!(shots.len(), 3);
            for (shot, shown) in shots.iter().zip(layout.shown(&shots)) {
                let form = layout.form_of(&prompts, 10, &shot.source, &shot.target).unwrap();
                let ResponseFormat::Json { schema, texts } = form else { panic!("{form:?}") };
                let items = &schema["properties"]["errors"]["items"];
                let answer: Value = serde_json::from_str(&shown.answer).unwrap();
                for error in answer["errors"].as_array().unwrap() {
                    let fitting = match items["anyOf"].as_array() {
                        Some(kinds) => kinds.iter().filter(|kind| fits(kind, error, &texts)).count(),
                        None => usize::from(fits(items, error, &texts)),
                    };
                    assert_eq!(fitting, 1, "{layout:?}: {error}");
                }
                let read = AnswerFormat { quality: false, ..layout }.read(&shown.answer).unwrap();
                assert_eq!(read.errors.len(), shot.errors.len());
            }
        }
    }

    #[test]
    fn strict_shows_what_it_enforces() {
        for layout in layouts().filter(|layout| layout.is_strict) {
            let prompts = Prompts::load(&layout.files(), &Settings::default()).unwrap();
            let shown: Value = serde_json::from_str(&layout.schema(&prompts, 10).unwrap()).unwrap();
            let ResponseFormat::Json { schema, .. } = layout.form_of(&prompts, 10, "a", "b").unwrap() else {
                panic!("JSON")
            };
            assert_eq!(shown, schema);
        }
    }
}
