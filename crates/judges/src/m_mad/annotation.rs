//! Data passed between M-MAD's agents: annotations, their dimensions, and their JSON form with its reader. No
//! model is called here.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Preset, Result,
    llm::ResponseFormat,
    mqm::{ErrorSpan, Severity, Side, typology},
    prompt::{File, Prompts, file},
    reading,
    segment::Segment,
    shots::Shot,
};

const FORM: File = file!("m_mad/form.j2");

/// The files that every set of M-MAD's prompts has.
pub(super) const FILES: &[File] = &[FORM];

/// Maximum number of annotations of a `strict` answer: twice that of WMT's annotators in a segment.
const MAX_ANNOTATIONS: usize = 10;

const NON_TRANSLATION: &str = "non-translation";

/// One dimension of Stage 1, or all of them coupled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub name: &'static str,
    /// Its paths in the typology; except for omissions, they are marked in the translation.
    types: &'static [&'static str],
    has_omission: bool,
}

/// The dimensions in the order of Stage 3's prompt.
pub const DIMENSIONS: [Dimension; 4] = [
    Dimension {
        name: "accuracy",
        types: &["accuracy/addition", "accuracy/mistranslation", "accuracy/untranslated text"],
        has_omission: true,
    },
    Dimension {
        name: "fluency",
        types: &[
            "fluency/punctuation",
            "fluency/spelling",
            "fluency/grammar",
            "fluency/register",
            "fluency/inconsistency",
            "fluency/character encoding",
        ],
        has_omission: false,
    },
    Dimension {
        name: "terminology",
        types: &["terminology/inappropriate for context", "terminology/inconsistent use"],
        has_omission: false,
    },
    Dimension { name: "style", types: &["style/awkward"], has_omission: false },
];

/// All dimensions as one: Stage 1 left out, a coupled start, and the final judge.
pub(super) const COUPLED: Dimension = Dimension { name: "all", types: &[], has_omission: true };

impl Dimension {
    /// Its types in the form of the schema.
    fn listed(&self) -> String {
        let all = DIMENSIONS.iter().flat_map(|dimension| dimension.types);
        let types: Vec<_> = if self.types.is_empty() { all.collect() } else { self.types.iter().collect() };
        types.iter().map(|path| format!("\"{path}\"")).collect::<Vec<_>>().join(", ")
    }

    fn holds(&self, category: &str) -> bool {
        let path = typology::normalise(category);
        let top = path.split('/').next().unwrap_or_default();
        self.types.is_empty() || top == self.name || top == NON_TRANSLATION
    }
}

/// Severity of an annotated error: M-MAD has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    #[serde(alias = "Major")]
    Major,
    #[serde(alias = "Minor")]
    Minor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum YesNo {
    #[serde(alias = "Yes")]
    Yes,
    #[serde(alias = "No")]
    No,
}

/// One annotated error.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Annotation {
    error_span: String,
    category: String,
    pub severity: Level,
    /// Requested by the prompts; it changes no score.
    is_source_error: Option<YesNo>,
}

/// The annotations of an answer; its other text is not read.
#[derive(Deserialize)]
struct Answer {
    annotations: Vec<Annotation>,
}

impl Annotation {
    pub fn is_non_translation(&self) -> bool {
        typology::normalise(&self.category) == NON_TRANSLATION
    }

    /// An error that another method found, in M-MAD's two severities.
    pub fn new(error: &ErrorSpan) -> Self {
        let is_non_translation = error.category == NON_TRANSLATION;
        let severity = match error.severity {
            Severity::Critical | Severity::Major => Level::Major,
            Severity::Minor | Severity::Neutral => Level::Minor,
        };
        Self {
            error_span: if is_non_translation { "all".into() } else { error.span.clone() },
            category: error.category.clone(),
            severity: if is_non_translation { Level::Major } else { severity },
            is_source_error: Some(YesNo::No),
        }
    }

    /// The annotation with minor severity.
    #[must_use]
    pub fn minor(&self) -> Self {
        Self { severity: Level::Minor, ..self.clone() }
    }

    /// The error for a verdict; a non-translation spans the whole translation.
    pub fn to_error(&self, segment: &Segment) -> ErrorSpan {
        let severity = match self.severity {
            Level::Major => Severity::Major,
            Level::Minor => Severity::Minor,
        };
        let span = if self.is_non_translation() { &segment.hypothesis } else { &self.error_span };
        ErrorSpan::new(&self.category, span.as_str(), severity)
    }

    fn written(&self, is_strict: bool) -> String {
        let text = |text: &str| json!(text).to_string();
        let (span, category) = (text(&self.error_span), text(&self.category));
        let mut fields = vec![format!("\"error_span\": {span}"), format!("\"category\": {category}")];
        if is_strict {
            fields.reverse();
        }
        fields.push(format!("\"severity\": {}", json!(self.severity)));
        fields.extend(self.is_source_error.map(|yes_no| format!("\"is_source_error\": {}", json!(yes_no))));
        format!("{{{}}}", fields.join(", "))
    }
}

/// Annotations in the form of the prompts: one line, the category first in `strict`.
pub(super) fn written(annotations: &[Annotation], preset: Preset) -> String {
    let all: Vec<_> = annotations.iter().map(|a| a.written(preset == Preset::Strict)).collect();
    format!("{{\"annotations\": [{}]}}", all.join(", "))
}

/// The annotations of a shot's answer. `strict` leaves out those that are not verbatim in its text or of
/// another dimension, and every annotation has the field for source errors; in the Chinese figures only
/// non-translations have it.
pub(super) fn shot_annotations(shot: &Shot, dimension: &Dimension, preset: Preset) -> Vec<Annotation> {
    let is_strict = preset == Preset::Strict;
    let annotations = shot.errors.iter().map(|error| {
        let annotation = Annotation::new(&ErrorSpan::new(&error.category, &error.span, error.severity));
        let says = is_strict || annotation.is_non_translation() || shot.source_lang != "Chinese";
        Annotation { is_source_error: annotation.is_source_error.filter(|_| says), ..annotation }
    });
    let fits = |annotation: &Annotation| {
        let text = match typology::side(&annotation.category) {
            Side::Source => &shot.source,
            Side::Target => &shot.target,
        };
        dimension.holds(&annotation.category)
            && (annotation.is_non_translation() || text.contains(&annotation.error_span))
    };
    annotations.filter(|annotation| !is_strict || fits(annotation)).collect()
}

/// The form that `strict` enforces; `thoughts` names a text that comes before the annotations.
///
/// # Errors
/// [`crate::Error::Failed`] when a replaced form is not JSON.
pub(super) fn form(
    prompts: &Prompts,
    dimension: &Dimension,
    thoughts: Option<&str>,
    segment: &Segment,
) -> Result<ResponseFormat> {
    let values = json!({
        "thoughts": thoughts,
        "types": dimension.listed(),
        "omission": dimension.has_omission,
        "max_annotations": MAX_ANNOTATIONS,
    });
    let texts = [("source", &*segment.source), ("target", &*segment.hypothesis)];
    Ok(ResponseFormat::about(prompts.json(FORM, values)?, texts))
}

/// Reads an answer: all of it in `strict`, else its last object with annotations.
///
/// # Errors
/// [`crate::Error::Refused`] or [`crate::Error::Unparsable`].
pub(super) fn read(text: &str, preset: Preset) -> Result<Vec<Annotation>> {
    if preset != Preset::Strict {
        let answer = last_object(text).ok_or_else(|| reading::unusable(text, "no annotations"))?;
        return Ok(answer.annotations);
    }
    let Answer { annotations } = reading::json(text)?;
    if annotations.iter().any(|a| a.error_span.is_empty()) {
        return Err(reading::unusable(text, "an annotation has no span"));
    }
    Ok(annotations)
}

/// The last object with annotations.
fn last_object(text: &str) -> Option<Answer> {
    let object = |(at, _)| serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok();
    text.rmatch_indices('{').find_map(object)
}

/// The answer of a shot with all its annotations.
pub fn answer_of(shot: &Shot) -> String {
    written(&shot_annotations(shot, &COUPLED, Preset::Paper), Preset::Paper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"error_span": "Bank", "category": "style/awkward", "severity": "Minor"}"#;

    /// Checks the numbers of annotations that `strict` and `paper` find; `None` when the answer cannot be
    /// read.
    #[track_caller]
    fn check(answer: &str, expected: [Option<usize>; 2]) {
        let found = [Preset::Strict, Preset::Paper].map(|p| read(answer, p).ok().map(|a| a.len()));
        assert_eq!(found, expected, "strict, paper: {answer}");
    }

    #[test]
    fn two_ways_to_read() {
        check(r#"{"annotations": []}"#, [Some(0); 2]);
        check(&format!(r#"{{"annotations": [{ONE}]}}"#), [Some(1); 2]);
        check(&format!("I think:\n```json\n{{\"annotations\": [{ONE}]}}\n```"), [None, Some(1)]);
        // The last object counts.
        let two = format!(r#"{{"annotations": [{ONE}, {ONE}]}} no: {{"annotations": [{ONE}]}}"#);
        check(&two, [None, Some(1)]);
        check(r#"{"annotations": [{"error_span": "x"}]}"#, [None; 2]);
        check(r#"{"annotations": [{"error_span": x}]}"#, [None; 2]);
        check(r#"{"annotations": }"#, [None; 2]);
        check("I see no errors.", [None; 2]);
        check("", [None; 2]);
        let bare =
            r#"{"annotations": [{"error_span": "", "category": "style/awkward", "severity": "minor"}]}"#;
        check(bare, [None, Some(1)]);
        assert!(matches!(read("I'm sorry, I cannot do that.", Preset::Paper), Err(crate::Error::Refused(_))));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let answer = r#"{"annotations": [{"error_span": "a \"b\"", "category": "style/awkward", "severity": "major", "is_source_error": "no"}]}"#;
        for preset in [Preset::Strict, Preset::Paper] {
            let annotations = read(answer, preset).unwrap();
            assert_eq!(read(&written(&annotations, preset), preset).unwrap(), annotations);
        }
        assert_eq!(written(&read(answer, Preset::Paper).unwrap(), Preset::Paper), answer);
    }
}
