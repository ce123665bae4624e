//! Sentences of the source that no translation renders: a focus on the translation cannot show them, so one
//! question about the whole document looks for them from the source's side. The paper only names the gap
//! (Limitations); prompt and method are ours.

use serde::Deserialize;
use serde_json::json;

use super::{Document, sentences};
use crate::{
    Panel, Result, Role,
    llm::{Chat, ResponseFormat},
    mqm::{ErrorSpan, Severity, Side},
    prompt::{File, Prompts, file},
    reading,
    segment::Segment,
};

/// The question.
pub const PROMPT: File = file!("fsp/omissions.j2");

/// Maximum number of omissions of an answer.
const MAX: usize = 50;

/// The question about a document, and the segment and text of each sentence of its source.
///
/// # Errors
/// [`crate::Error::Failed`] when a replaced prompt cannot be filled in.
pub fn question<'a>(
    prompts: &Prompts,
    document: &Document,
    group: &'a [Segment],
) -> Result<(Chat, Vec<Sentence<'a>>)> {
    let segment_sentences = |(segment, text): (usize, &'a Segment)| {
        let source = text.source.as_str();
        let sentences = sentences::split(source).into_iter().filter(|range| !range.is_empty());
        sentences.map(move |range| Sentence {
            segment,
            start: source[..range.start].chars().count(),
            text: &source[range],
        })
    };
    let sentences: Vec<Sentence> = group.iter().enumerate().flat_map(segment_sentences).collect();
    let values = json!({
        "source_lang": document.source_lang,
        "target_lang": document.target_lang,
        "target": document.target,
        "sentences": sentences.iter().map(|s| s.text).collect::<Vec<_>>(),
    });
    Ok((Chat::new().user(prompts.render(PROMPT, values)?), sentences))
}

/// A sentence of a segment's source.
pub struct Sentence<'a> {
    pub segment: usize,
    /// In Unicode code points.
    start: usize,
    text: &'a str,
}

/// Asks the question, and returns the omitted sentences of each segment as errors.
///
/// # Errors
/// The reason why the answer cannot be used.
pub fn find(
    panel: &Panel,
    chat: &Chat,
    sentences: &[Sentence],
    budget: usize,
) -> Result<Vec<(usize, ErrorSpan)>> {
    if sentences.is_empty() {
        return Ok(Vec::new());
    }
    let form = form(sentences.len());
    let question = panel.question(chat, &form, budget);
    read(&panel.answer(Role::Annotator, super::OMISSIONS, &question)?.text, sentences)
}

fn form(n: usize) -> ResponseFormat {
    ResponseFormat::json(json!({
        "type": "object",
        "properties": {"omissions": {"type": "array", "maxItems": n.min(MAX), "items": {
            "type": "object",
            "properties": {
                "sentence": {"type": "integer", "minimum": 1, "maximum": n},
                "severity": {"enum": ["critical", "major", "minor"]},
            },
            "required": ["sentence", "severity"],
        }}},
        "required": ["omissions"],
    }))
}

fn read(answer: &str, sentences: &[Sentence]) -> Result<Vec<(usize, ErrorSpan)>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        omissions: Vec<Omission>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Omission {
        sentence: usize,
        severity: Severity,
    }
    let Answer { omissions } = reading::json(answer)?;
    let mut seen = vec![false; sentences.len()];
    let mut found = Vec::new();
    for Omission { sentence, severity } in omissions {
        let Some(omitted) = sentence.checked_sub(1).and_then(|at| sentences.get(at)) else {
            return Err(reading::unusable(answer, &format!("there is no sentence `{sentence}`")));
        };
        // A sentence that is named twice counts as one omission.
        if !std::mem::replace(&mut seen[sentence - 1], true) {
            found.push((omitted.segment, omitted.error(severity)));
        }
    }
    Ok(found)
}

impl Sentence<'_> {
    fn error(&self, severity: Severity) -> ErrorSpan {
        let end = self.start + self.text.chars().count();
        let error = ErrorSpan::new("accuracy/omission", self.text, severity);
        ErrorSpan { side: Side::Source, start: Some(self.start), end: Some(end), ..error }
    }
}

/// Adds omitted sentences to a segment's errors; they replace omissions that a focus marked inside such a
/// sentence.
pub fn add(errors: &mut Vec<ErrorSpan>, omitted: Vec<ErrorSpan>) {
    for sentence in omitted {
        let inside = |error: &ErrorSpan| {
            error.side == Side::Source
                && error.category == sentence.category
                && error.start.is_some_and(|start| Some(start) >= sentence.start)
                && error.end.is_some_and(|end| Some(end) <= sentence.end)
        };
        errors.retain(|error| !inside(error));
        errors.push(sentence);
    }
}
