//! Answers of a method in a file: their form, and the number and the errors at the places that the file
//! names. Files are read in [`crate::method_file`].

use std::collections::BTreeMap;

use serde_json::Value;

use super::form_about;
use crate::{
    Result,
    llm::ResponseFormat,
    mqm::{ErrorSpan, Severity},
    pair::Texts,
    prompt::{File, Prompts},
    reading,
};

/// The schema of JSON answers.
pub const SCHEMA: File = File { name: "schema.json", text: "" };

/// The texts that `substringOf` in a schema can name.
pub const TEXTS: [&str; 2] = ["source", "translation"];

/// The answers of a method in a file. At least one of number and errors is read.
#[derive(Clone, Debug)]
pub struct Fields {
    pub form: Form,
    pub number: Option<Number>,
    pub errors: Option<ErrorList>,
}

/// The form of an answer, enforced while the model writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    Schema(Value),
    /// One of these texts.
    Choices(Vec<String>),
    /// A text that this regular expression matches as a whole.
    Pattern(String),
    Text,
}

/// A number and its places in an answer.
#[derive(Clone, Debug)]
pub struct Number {
    pub places: Places,
    /// The lowest and the highest number; any other makes an answer unusable.
    pub ends: [f64; 2],
    /// The numbers that words stand for.
    pub values: BTreeMap<String, f64>,
    /// Words instead of a number that leave it out, as does `null`.
    pub missing: Vec<String>,
}

/// The places of a number.
#[derive(Clone, Debug)]
pub enum Places {
    Answer,
    /// The rest of the answer behind the last occurrence of this text.
    After(String),
    /// Fields of a JSON answer with their weights in the mean; those left out do not count.
    Mean(Vec<(FieldPath, f64)>),
}

/// A path to a field of a JSON answer: `scores.accuracy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(pub String);

impl FieldPath {
    /// The names on the path, from the root.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    fn find<'a>(&self, answer: &'a Value) -> Option<&'a Value> {
        self.names().try_fold(answer, |value, name| value.get(name))
    }
}

/// The place of the errors in a JSON answer, and the names of their fields.
#[derive(Clone, Debug)]
pub struct ErrorList {
    pub list: FieldPath,
    pub span: String,
    pub category: String,
    pub severity: String,
    pub explanation: Option<String>,
    /// The severities that other words stand for.
    pub severities: BTreeMap<String, Severity>,
}

impl Fields {
    /// The form of an answer about these texts.
    pub fn form(&self, texts: &Texts) -> ResponseFormat {
        match &self.form {
            Form::Schema(schema) => {
                let [source, translation] = TEXTS;
                form_about(schema.clone(), [(source, &texts.source), (translation, &texts.target)])
            }
            Form::Choices(choices) => ResponseFormat::Choice(choices.clone()),
            Form::Pattern(pattern) => ResponseFormat::Regex(pattern.clone()),
            Form::Text => ResponseFormat::Text,
        }
    }

    /// The schema as templates show it; `None` without one.
    ///
    /// # Errors
    /// Those of [`Prompts::render`].
    pub fn shown_schema(&self, prompts: &Prompts) -> Result<Option<String>> {
        let is_json = matches!(self.form, Form::Schema(_));
        is_json.then(|| Ok(prompts.render(SCHEMA, ())?.trim_end().to_owned())).transpose()
    }

    /// The name of the field with an error's span.
    pub fn span_key(&self) -> &str {
        self.errors.as_ref().map_or("", |errors| &errors.span)
    }

    /// The number of an answer, if one is read, and its errors, not yet located and weighed.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] or [`crate::Error::Unparsable`].
    pub fn read(&self, answer: &str) -> Result<(Option<f64>, Vec<ErrorSpan>)> {
        let json = match self.form {
            Form::Schema(_) => reading::json(answer)?,
            _ => Value::Null,
        };
        let number = self.number.as_ref().map(|number| number.read(answer, &json)).transpose();
        let number = number.map_err(|reason| reading::unusable(answer, &reason))?;
        let errors = self.errors.as_ref().map_or_else(|| Ok(Vec::new()), |errors| errors.read(&json));
        Ok((number, errors.map_err(|reason| reading::unusable(answer, &reason))?))
    }
}

impl Number {
    /// The number of an answer, or the reason why it has none.
    fn read(&self, answer: &str, json: &Value) -> Result<f64, String> {
        let left_out = || "the answer leaves the score out".to_owned();
        match &self.places {
            Places::Answer => self.of_text(answer)?.ok_or_else(left_out),
            Places::After(mark) => {
                let behind = answer.rsplit_once(mark).map(|(_, behind)| behind);
                self.of_text(behind.ok_or_else(|| format!("no `{mark}`"))?)?.ok_or_else(left_out)
            }
            Places::Mean(fields) => {
                let (mut sum, mut weights) = (0.0, 0.0);
                for (path, weight) in fields {
                    let value = path.find(json).ok_or_else(|| format!("no field `{}`", path.0))?;
                    if let Some(number) = self.of_value(value).map_err(|e| format!("`{}`: {e}", path.0))? {
                        sum += weight * number;
                        weights += weight;
                    }
                }
                if weights > 0.0 { Ok(sum / weights) } else { Err(left_out()) }
            }
        }
    }

    /// The number that a value stands for; `None` where it is left out.
    ///
    /// # Errors
    /// The reason why it is not a number of the scale.
    pub fn of_value(&self, value: &Value) -> Result<Option<f64>, String> {
        match value {
            Value::Null => Ok(None),
            Value::Number(number) => self.within(number.as_f64().unwrap_or(f64::NAN)).map(Some),
            Value::String(text) => self.of_text(text),
            other => Err(format!("{other} is not a number")),
        }
    }

    /// [`Number::of_value`] of a text, or of it without brackets, quotes and a full stop around it.
    fn of_text(&self, text: &str) -> Result<Option<f64>, String> {
        let is_around = |c: char| c.is_whitespace() || "\"'`*“”[]()".contains(c);
        let bare = text.trim_matches(is_around);
        let bare = bare.strip_suffix('.').unwrap_or(bare).trim_matches(is_around);
        for word in [text.trim(), bare] {
            if self.missing.iter().any(|missing| missing == word) {
                return Ok(None);
            }
            if let Some(number) = self.values.get(word) {
                return Ok(Some(*number));
            }
            if let Ok(number) = word.parse::<f64>() {
                return self.within(number).map(Some);
            }
        }
        Err(format!("`{bare}` is not a number"))
    }

    fn within(&self, number: f64) -> Result<f64, String> {
        let [lowest, highest] = self.ends;
        let is_in = (lowest..=highest).contains(&number);
        is_in.then_some(number).ok_or_else(|| format!("{number} is outside {lowest} to {highest}"))
    }
}

impl ErrorList {
    fn read(&self, answer: &Value) -> Result<Vec<ErrorSpan>, String> {
        let list = self.list.find(answer).and_then(Value::as_array);
        list.ok_or_else(|| format!("no list `{}`", self.list.0))?
            .iter()
            .map(|entry| self.entry(entry))
            .collect()
    }

    fn entry(&self, entry: &Value) -> Result<ErrorSpan, String> {
        let text = |key: &str| entry[key].as_str().ok_or_else(|| format!("an error without `{key}`"));
        let severity = self.severity_of(text(&self.severity)?)?;
        let explanation =
            self.explanation.as_deref().map_or("", |key| entry[key].as_str().unwrap_or_default());
        Ok(ErrorSpan::new(text(&self.category)?, text(&self.span)?, severity).explained(explanation))
    }

    /// The severity that a word stands for.
    ///
    /// # Errors
    /// The reason why it stands for none.
    pub fn severity_of(&self, word: &str) -> Result<Severity, String> {
        let known = self.severities.get(word).copied();
        known.map_or_else(|| word.parse(), Ok).map_err(|e: crate::mqm::Error| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn number(places: Places) -> Number {
        let values = BTreeMap::from([("good".to_owned(), 5.0)]);
        Number { places, ends: [1.0, 5.0], values, missing: vec!["n/a".into()] }
    }

    #[test]
    fn numbers_of_text_answers() {
        let check = |mark: Option<&str>, answer: &str, expected: Result<f64, &str>| {
            let places = mark.map_or(Places::Answer, |mark| Places::After(mark.into()));
            let read = number(places).read(answer, &Value::Null);
            assert_eq!(read.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e), "{answer}");
        };
        check(None, " 4\n", Ok(4.0));
        check(None, "\"good\".", Ok(5.0));
        check(None, "n/a", Err("the answer leaves the score out"));
        check(None, "6", Err("6 is outside 1 to 5"));
        check(None, "nan", Err("NaN is outside 1 to 5"));
        check(None, "Good", Err("`Good` is not a number"));
        check(Some("[RESULT]"), "The [RESULT] 2 is wrong. [RESULT] (3)", Ok(3.0));
        check(Some("[RESULT]"), "fine [RESULT] 3 of 5", Err("`3 of 5` is not a number"));
        check(Some("[RESULT]"), "3", Err("no `[RESULT]`"));
        check(Some("[RESULT]"), "Poor. [RESULT] .5", Err("0.5 is outside 1 to 5"));
        let unit = Number { ends: [0.0, 1.0], ..number(Places::Answer) };
        for (answer, expected) in
            [(".5", 0.5), ("0.5.", 0.5), (" (.5). ", 0.5), ("\"1.\"", 1.0), ("**0**.", 0.0)]
        {
            assert_eq!(unit.read(answer, &Value::Null), Ok(expected), "{answer}");
        }
    }

    #[test]
    fn a_weighted_mean_leaves_out_what_is_missing() {
        let path = |name: &str| FieldPath(name.into());
        let mean = number(Places::Mean(vec![(path("a.score"), 3.0), (path("b"), 1.0)]));
        let check = |answer: Value, expected: Result<f64, &str>| {
            let read = mean.read("", &answer);
            assert_eq!(read.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e), "{answer}");
        };
        check(json!({"a": {"score": 5}, "b": 1}), Ok(4.0));
        check(json!({"a": {"score": "good"}, "b": "n/a"}), Ok(5.0));
        check(json!({"a": {"score": null}, "b": "n/a"}), Err("the answer leaves the score out"));
        check(json!({"a": {}, "b": 1}), Err("no field `a.score`"));
        check(json!({"a": {"score": 0}, "b": 1}), Err("`a.score`: 0 is outside 1 to 5"));
        check(json!({"a": {"score": true}, "b": 1}), Err("`a.score`: true is not a number"));
    }
}
