//! COMET: a multilingual encoder that was trained on human scores reads source, translation and reference,
//! and a small head on its states gives a score; XCOMET and other models with word tags mark errors too.
//! Nothing is generated. Rei et al., "COMET: A Neural Framework for MT Evaluation" (EMNLP 2020), "COMET-22"
//! and "CometKiwi" (WMT 2022); Guerreiro et al., "xCOMET: Transparent Machine Translation Evaluation through
//! Fine-grained Error Detection" (TACL 2024); for sources alone Perrella et al., "Guardians of the Machine
//! Translation Meta-Evaluation" (ACL 2024). Code: <https://github.com/Unbabel/COMET>, 2.2.7.
//!
//! Differs:
//! - Settings. Code: those stored in the checkpoint, but the class, and `layer_transformation` where it is
//!   `sparsemax_patch`. Here: all of `hparams.yaml`.
//! - Numbers. Code: f32 or f16, padded in batches. Here the head is computed in f64, each text by itself.
//! - Control tokens. In the code `</s>` or `<pad>` in a text acts; here none does.
//! - Length. As in the code a text is cut four tokens before the encoder's context (512 tokens of XLM-R), and
//!   what joined texts have beyond it is cut with the last `</s>`; here the verdict has a warning.
//! - Spans. Code: decoded from tokens. Here: the same characters, verbatim from the translation.
//! - A segment whose source and translation are both empty has no verdict.

use super::{
    Error, Judge, Method, Panel, Preset, Protocol, Provenance, Result, Role, Stage, Verdict,
    method::Output,
    scale::{Scale, Unit},
    setup::{self, GivenOptions, ReferenceOption, Settings},
};
use crate::{
    llm::{EstimatedSpan, MetricTexts},
    mqm::{ErrorSpan, Severity},
    segment::Segment,
};

/// The stage of its calls.
const ESTIMATE: Stage = Stage::new("estimate");

/// The warning on a verdict whose texts were cut.
pub const CUT: &str = "a text is longer than the model's context and was cut";

/// Metadata shown by `tribunal methods show comet`.
pub const METHOD: Method = Method {
    name: "comet",
    summary: "a metric of the COMET family; models with word tags (XCOMET) mark errors",
    citation: "Rei et al. 2020, 2022; Guerreiro et al. 2024",
    papers: &["rei-etal-2020-comet", "rei-etal-2022-comet", "guerreiro-etal-2024-xcomet"],
    stages: &[ESTIMATE],
    answer_tokens: Some([0, 0]),
    scale: Scale::between(Unit::Metric, [f64::NEG_INFINITY, f64::INFINITY]),
    marks: Some(
        "XCOMET's score counts its marks for 0.22, other metrics' not at all; `confidence` is the mean probability of \
         the likeliest tag of a mark's tokens",
    ),
    presets: &[Preset::Strict],
    options: ReferenceOption::CHOICES,
    common: &[],
    output: Output::Estimate,
    ..Method::with(build)
};

/// A configured COMET judge.
struct Comet {
    shows_reference: bool,
}

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    settings.check_neither_weights_nor_shots(METHOD.name)?;
    if settings.prompts.is_some() {
        return Err(setup::Error::Conflict("`comet` has no prompts to replace".into()));
    }
    let shows_reference = ReferenceOption::read(options).reference.is_shown(settings);
    let judge =
        Judge::new(Provenance { prompts: "none".into(), ..Provenance::default() }, Comet { shows_reference });
    Ok(judge.of_metric(shows_reference))
}

impl Protocol for Comet {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.estimate(panel, segment))
    }
}

impl Comet {
    fn estimate(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let reference = match (&segment.reference, self.shows_reference) {
            (None, true) => return Err(Error::no_reference()),
            (reference, shown) => reference.as_deref().filter(|_| shown),
        };
        let (source, translation) = (Some(&*segment.source), &*segment.hypothesis);
        let estimate =
            panel.estimate(Role::Annotator, ESTIMATE, &MetricTexts { source, translation, reference })?;
        let errors = estimate.spans.iter().map(|span| marked(span, translation));
        let verdict = Verdict::new(estimate.score, errors.collect::<Result<_>>()?);
        Ok(Verdict { warning: estimate.is_cut.then(|| CUT.to_owned()), ..verdict })
    }
}

/// The error that a span marks; one of special tokens alone has no text.
fn marked(span: &EstimatedSpan, translation: &str) -> Result<ErrorSpan> {
    let failed =
        |reason: String| Error::Failed(format!("the metric's span {}..{} {reason}", span.start, span.end));
    let severity: Severity = span.severity.parse().map_err(|error| failed(format!("has an {error}")))?;
    let text = translation.get(span.start..span.end);
    let text = text.ok_or_else(|| failed("is no part of the translation".into()))?;
    let start = translation[..span.start].chars().count();
    let is_placed = !text.is_empty();
    Ok(ErrorSpan {
        start: is_placed.then_some(start),
        end: is_placed.then(|| start + text.chars().count()),
        weight: points(severity),
        confidence: Some(span.confidence),
        ..ErrorSpan::new("other", text, severity)
    })
}

/// Points of an error in XCOMET's score.
fn points(severity: Severity) -> f64 {
    match severity {
        Severity::Critical => 10.0,
        Severity::Major => 5.0,
        Severity::Minor => 1.0,
        Severity::Neutral => 0.0,
    }
}
