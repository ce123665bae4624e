//! GMICL-5: five worked examples as long as the text under judgement, drawn from rated translations, and one
//! prompt over the whole text. "FSP" paper, Figure 14; examples: Section 3 and Appendix B.3. Judging sentence
//! by sentence is [`super::fsp`].
//!
//! Differs:
//! - No code is published; there is no preset `code`.
//! - Examples, printed. Paper (C.3): six documents, from which those of `doc` and `5doc` are made; it does
//!   not define which one `doc` leaves out, nor how `5doc` groups them, nor those of `seg`. Ours
//!   (`documents=auto`): where the test set of `--shots` has all six, the first five in their order at `doc`;
//!   at `5doc` five at a time, beginning again after the sixth.
//! - Examples, drawn. Paper: five of its own collection of WMT 2023 at the same granularity, at random. Ours,
//!   at `seg`, for other test sets and with `documents=drawn`: five by the run's seed from `--shots`, a test
//!   set in mt-metrics-eval's layout with MQM ratings, or a JSONL file of rated segments. Documents are those
//!   with any rated segment, and five are drawn from all systems of a pair, in agreement with the paper's
//!   numbers of examples.
//! - Examples, text. The paper does not state whether segments without ratings are shown; ours leave them
//!   out. Neutral errors are left out; categories that the prompt does not have are `other`. All prompts of a
//!   run have the same five; the signature has their hash. Examples from documents under judgement are an
//!   error (`overlap=allow` permits them): the paper does not state that it kept them apart.
//! - Direct assessment. Figure 14 always asks for it; `da=off` does not. `score=da` takes it as the score,
//!   which is else the sum of the errors, weighed as in [`super::fsp`].
//! - Beyond the paper, in `strict`: `score=expected-da` takes the mean of the quality score's distribution
//!   ([`super::answers::chances`]); `raw` stays what is written.
//! - Answers, repeats, long texts and empty ones: as the JSON form of [`super::gemba_mqm`].

use serde_json::json;
use tribunal_core::digest;

use super::{
    Judge, Method, Panel, Protocol, Result, Stage, Verdict,
    answers::{
        chances::{EXPECT, Scoring},
        errors::{AnswerFormat, Target},
    },
    declaration::{Answers, Declaration, SingleQuestion},
    method::Calls,
    prompt::{File, file},
    scale::Scale,
    setup::{self, GivenOptions, Granularity, Preset, Settings, options},
    shots::Shot,
};
use crate::segment::Segment;

mod examples;

use examples::{Choice, Documents};

const PROMPT: File = file!("gmicl/gmicl.j2");

/// The five of GMICL-5.
const N_EXAMPLES: usize = 5;

/// The stages of its calls.
const ANNOTATE: Stage = Stage::new("annotate");

/// Metadata shown by `tribunal methods show gmicl`.
pub const METHOD: Method = Method {
    name: "gmicl",
    summary: "one prompt over the whole text, after five rated examples of the same length",
    citation: "Focus Sentence Prompting, Figure 14 (GMICL-5)",
    papers: &["domhan-zhu-2025-evaluation"],
    stages: &[ANNOTATE, EXPECT],
    calls: Calls::exactly(1),
    scale: Scale::PENALTY_AND_ASSESSMENT,
    scales: &[(&[("score", &["da", "expected-da"])], Scale::PERCENT), (&[("da", &["off"])], Scale::PENALTY)],
    granularities: &[Granularity::Doc, Granularity::Seg, Granularity::FiveDoc],
    presets: &[Preset::Paper, Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(build)
};

/// Fields of an answer in `strict`.
const FORMAT: AnswerFormat =
    AnswerFormat { is_strict: true, explain: true, quality: true, target: Target::Translation };

const ERRORS: Answers = Answers::Errors { format: FORMAT, scoring: Scoring::Errors };
const QUESTION: Declaration = Declaration::message(ANNOTATE, PROMPT, ERRORS, 2048);

options! {
    /// Options of GMICL.
    pub struct Options {
        "da" quality: bool = { "on" => true, "off" => false }, "ask for a score of 0 to 100";
        "score" scoring: Scoring = {
            "errors" => Scoring::Errors, "da" => Scoring::Quality, "expected-da" => Scoring::ExpectedQuality
        }, Scoring::MEANING;
        "explain" explain: bool = { "on" => true, "off" => false }, "ask why each span is an error";
        "overlap" may_overlap: bool = { "refuse" => false, "allow" => true },
            "what to do about examples that come from documents under judgement";
        "documents" documents: Documents = {
            "auto" => Documents::Printed, "drawn" => Documents::Drawn, <list> Documents::Named
        }, "the examples' documents, PAIR:DOC:SYSTEM+...; auto: the paper's where the test set has them, else drawn";
    }
}

/// The question after five examples.
struct Gmicl {
    question: Box<dyn Protocol>,
    /// Errors only: the examples have neither explanations nor quality scores. Empty without shots.
    examples: Vec<Shot>,
    /// Examples may come from documents under judgement.
    may_overlap: bool,
}

impl Protocol for Gmicl {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        self.question.judge(panel, group)
    }

    fn check_input(&self, segments: &[Segment]) -> setup::Result<()> {
        // `methods show` prints the prompts without examples.
        if self.examples.is_empty() {
            return Err(setup::Error::NoExamples);
        }
        match examples::overlapping(&self.examples, segments).filter(|_| !self.may_overlap) {
            None => Ok(()),
            Some(segment) => Err(setup::Error::Conflict(format!(
                "an example has the source of {} of document `{}`, which is to be judged; hint: other rated \
                 translations as shots, another seed with `documents=drawn`, or `overlap=allow`",
                crate::segment::numbered(segment.seg),
                segment.doc
            ))),
        }
    }
}

/// The judge. Without shots it has prompts and no examples, and accepts no input.
fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let options = Options::read(options);
    let (scoring, quality) = (*options.scoring, *options.quality);
    setup::reject(&[(
        scoring.by_quality() && !quality,
        "`score=da` needs the score that `da=off` does not ask for; hint: leave one out",
    )])?;
    scoring.check(settings)?;
    let is_strict = settings.preset == Preset::Strict;
    let format = AnswerFormat { is_strict, explain: *options.explain, quality, ..FORMAT };
    let question = Declaration { answers: Answers::Errors { format, scoring }, ..QUESTION };
    // Its shots are rated translations, and no file of the prompt.
    let question = SingleQuestion::load(&METHOD, question, &Settings { shots: None, ..settings.clone() })?;
    let choice = Choice { granularity: question.granularity(), n: N_EXAMPLES, seed: settings.seed };
    let choose = |rated| examples::choose(rated, &options.documents, choice);
    let examples = settings.shots.as_deref().map_or_else(|| Ok(Vec::new()), choose)?;
    let shown = AnswerFormat { explain: false, quality: false, ..format };
    let judge = Judge::from(question.with_shots(json!(shown.shown(&examples))));
    let signed = serde_json::to_vec(&examples).expect("examples are strings and can be written");
    Ok(Judge {
        provenance: judge.provenance.with("examples", digest::short(signed)),
        protocol: Box::new(Gmicl { question: judge.protocol, examples, may_overlap: *options.may_overlap }),
        ..judge
    })
}
