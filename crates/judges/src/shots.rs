//! Shots: worked examples before the question. One JSON object a line:
//! `{"source_lang","source","target_lang","target","errors":[{"category","span","severity","explanation"}]}`,
//! with languages by their English names, and a `"reference"` for methods that show one. Each method writes
//! them into its prompt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    prompt::{File, Prompts},
    setup::{self, Settings},
};
use crate::mqm::Severity;

/// One example and the errors that its answer names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shot {
    pub source_lang: String,
    pub source: String,
    pub target_lang: String,
    pub target: String,
    pub errors: Vec<ShotError>,
    /// The reference translation, for methods that show one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl AsRef<Shot> for Shot {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// One error of an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShotError {
    /// The typology's path: `accuracy/omission`.
    pub category: String,
    pub span: String,
    pub severity: Severity,
    #[serde(default)]
    pub explanation: String,
    /// Severity as points, by the greatest of their scale (`{"100": 73}`), for methods that ask for points.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub points: BTreeMap<String, u32>,
}

/// The shots of a file in force; none without a file.
///
/// # Errors
/// Those of [`read`].
pub fn load(prompts: &Prompts, file: Option<File>, settings: &Settings) -> setup::Result<Vec<Shot>> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let text = prompts.render(file, ()).map_err(setup::Error::from_prompt)?;
    let name = settings.shots.as_ref().map_or(file.name.into(), |path| path.display().to_string());
    read(&name, &text)
}

/// Reads shots, one a line; empty lines are skipped.
///
/// # Errors
/// [`setup::Error::Line`] with the line that is not a shot.
pub fn read(file: &str, text: &str) -> setup::Result<Vec<Shot>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(idx, line)| {
            serde_json::from_str(line).map_err(|e| setup::Error::Line {
                file: file.into(),
                line: idx + 1,
                reason: e.to_string(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_line_that_is_not_a_shot() {
        let good = r#"{"source_lang":"a","source":"b","target_lang":"c","target":"d","errors":[]}"#;
        assert_eq!(read("f", &format!("{good}\n\n{good}\n")).unwrap().len(), 2);
        let error = read("f.jsonl", &format!("{good}\n{{}}\n")).unwrap_err().to_string();
        assert!(error.starts_with("`f.jsonl` line 2: missing field"), "{error}");
    }
}
