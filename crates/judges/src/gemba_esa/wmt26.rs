//! Content of the prompts of WMT 2026 besides a translation: instructions by domain, and a reference with its
//! kind. The calls are in [`super`].

use std::collections::BTreeSet;

use serde_json::json;

use super::SYSTEM;
use crate::{
    Error, Result,
    llm::Chat,
    pair::Pair,
    panel::reasoning::Thought,
    prompt::{File, Prompts, file},
    segment::Segment,
};

const SPANS: File = file!("gemba_esa/wmt26/spans.j2");
const SCORE: File = file!("gemba_esa/wmt26/score.j2");
const DOMAINS: File = file!("gemba_esa/wmt26/domains.j2");
const REFERENCE: File = file!("gemba_esa/wmt26/reference.j2");

/// The prompts' files.
pub const FILES: [File; 5] = [SYSTEM, SPANS, SCORE, DOMAINS, REFERENCE];

/// The thought before an answer of a thinking model. Source: the baseline's `run_qe_local.py`.
pub const THOUGHT: Thought = Thought { max_tokens: 8192, temperature: 0.6, top_p: 0.95 };

/// The domain that stands for all others.
pub const GENERAL: &str = "general";

/// The domains that have instructions.
const KNOWN: [&str; 7] = ["news", "factchecking", "speech", "social", "software", "edu", GENERAL];

/// Selection of the domain whose instructions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Those of its own domain.
    OfSegment,
    /// Those of this domain, for all segments.
    Given(&'static str),
    /// None.
    Hidden,
}

impl Domain {
    /// The domain whose instructions a segment is shown; the general one if its own has none.
    fn of(self, segment: &Segment) -> Option<&str> {
        let domain = segment.domain.as_deref().filter(|domain| KNOWN.contains(domain));
        match self {
            Self::OfSegment => Some(domain.unwrap_or(GENERAL)),
            Self::Given(domain) => Some(domain),
            Self::Hidden => None,
        }
    }

    /// Notes on segments whose domains have no instructions.
    pub fn notes(self, segments: &[Segment]) -> Vec<String> {
        if self != Self::OfSegment {
            return Vec::new();
        }
        let known = KNOWN.join(", ");
        let hint = format!("hint: `domain=off` shows none, `domain=NAME` those of {known}");
        let named = segments.iter().filter_map(|segment| segment.domain.as_deref());
        let named: BTreeSet<&str> = named.collect();
        if named.is_empty() {
            return vec![format!(
                "the input names no domains, so `gemba-esa` shows the general instructions\n{hint}"
            )];
        }
        let unknown = named.into_iter().filter(|domain| !KNOWN.contains(domain));
        let note = |domain| {
            format!(
                "`gemba-esa` has no instructions for the domain `{domain}` and shows the general ones\n{hint}"
            )
        };
        unknown.map(note).collect()
    }
}

/// Content of a prompt besides source and translation.
pub struct Shown {
    pub domain: Domain,
    pub reference: bool,
}

impl Shown {
    /// The question for the error spans of a segment.
    ///
    /// # Errors
    /// [`Error::Failed`] if the reference is to be shown and the segment has none, or for a template that
    /// cannot be filled in.
    pub fn spans(&self, prompts: &Prompts, segment: &Segment) -> Result<Chat> {
        self.chat(prompts, SPANS, segment, "")
    }

    /// The question for the score, with the answer to the first one.
    ///
    /// # Errors
    /// Those of [`Shown::spans`].
    pub fn score(&self, prompts: &Prompts, segment: &Segment, spans: &str) -> Result<Chat> {
        self.chat(prompts, SCORE, segment, spans)
    }

    fn chat(&self, prompts: &Prompts, file: File, segment: &Segment, spans: &str) -> Result<Chat> {
        let reference = segment.reference.as_deref().filter(|_| self.reference);
        if self.reference && reference.is_none() {
            return Err(Error::no_reference());
        }
        let instructions = self.domain.of(segment).map(|domain| {
            let values = json!({
                "domain": domain, "source_lang": segment.src_lang.name(), "target_lang": segment.tgt_lang.name(),
            });
            prompts.render(DOMAINS, values)
        });
        let kind = segment.reference_kind.as_deref().unwrap_or_default();
        let mut values = json!(Pair::of(segment));
        values["instructions"] = json!(instructions.transpose()?);
        values["reference"] = json!(reference);
        values["reference_kind"] = json!(prompts.render(REFERENCE, json!({ "kind": kind }))?);
        values["spans"] = json!(spans);
        Ok(Chat::new().system(prompts.render(SYSTEM, ())?).user(prompts.render(file, values)?))
    }
}
