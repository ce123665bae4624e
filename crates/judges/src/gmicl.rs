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

use serde::Serialize;
use tribunal_core::digest;

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    answers::{
        chances::{EXPECT, GivenAnswer, Scoring},
        errors::{AnswerFormat, ShownShot, Target},
    },
    in_parallel,
    method::Calls,
    pair::{Pair, Texts},
    prompt::{File, Prompts},
    scale::Scale,
    setup::{self, Granularity, Preset, Settings, options},
    shots::Shot,
};
use crate::{llm::Chat, mqm::weights::Weights, segment::Segment};

mod examples;

use examples::Documents;

const PROMPT: File = File { name: "gmicl/gmicl.j2", text: include_str!("gmicl/gmicl.j2") };

/// The five of GMICL-5.
const N_EXAMPLES: usize = 5;

/// The stages of its calls.
const ANNOTATE: Stage = Stage::new("annotate");

/// Metadata shown by `tribunal methods show gmicl`.
pub const METHOD: Method = Method {
    name: "gmicl",
    summary: "one prompt over the whole text, after five rated examples of the same length",
    citation: "Focus Sentence Prompting, Figure 14 (GMICL-5)",
    stages: &[ANNOTATE, EXPECT],
    calls: Calls::exactly(1),
    scale: Scale::PENALTY_AND_ASSESSMENT,
    scales: &[(&[("score", &["da", "expected-da"])], Scale::PERCENT), (&[("da", &["off"])], Scale::PENALTY)],
    granularities: &[Granularity::Doc, Granularity::Seg, Granularity::FiveDoc],
    presets: &[Preset::Paper, Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(|settings, options| Ok(Gmicl::new(settings, &Options::read(options))?.into()))
};

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

/// A configured GMICL-5 judge.
pub struct Gmicl {
    prompts: Prompts,
    granularity: Granularity,
    weights: &'static Weights,
    /// Errors only: the examples have neither explanations nor quality scores. Empty without shots.
    examples: Vec<Shot>,
    layout: AnswerFormat,
    scoring: Scoring,
    /// Examples may come from documents under judgement.
    may_overlap: bool,
    max_tokens: Option<usize>,
}

impl Protocol for Gmicl {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(&Texts::units(self.granularity, group), |idx, texts| {
            self.judge_unit(&panel.about(idx), texts)
        })
    }

    fn check_input(&self, segments: &[Segment]) -> Result<(), setup::Error> {
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

impl From<Gmicl> for Judge {
    fn from(judge: Gmicl) -> Self {
        let examples = serde_json::to_vec(&judge.examples).expect("examples are strings and can be written");
        let provenance = Provenance::of(&judge.prompts).with("examples", digest::short(examples));
        Self {
            grouping: judge.granularity.grouping(),
            unit: judge.granularity.unit(),
            calls: Some(judge.scoring.calls()),
            ..Self::new(provenance, judge)
        }
    }
}

impl Gmicl {
    /// Reads the settings, the prompts and the examples.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`], options that do not go together, and examples that are too
    /// few or cannot be read. Without shots the judge has prompts and no examples, and accepts no input.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let layout = AnswerFormat {
            is_strict: settings.preset == Preset::Strict,
            explain: *options.explain,
            quality: *options.quality,
            target: Target::Translation,
        };
        let scoring = *options.scoring;
        let conflict = |reason: &str| Err(setup::Error::Conflict(reason.into()));
        if scoring.by_quality() && !layout.quality {
            return conflict(
                "`score=da` needs the score that `da=off` does not ask for; hint: leave one out",
            );
        }
        scoring.check(settings)?;
        let granularity = settings.granularity.unwrap_or(METHOD.granularities[0]);
        let choose =
            |rated| examples::choose(rated, &options.documents, (granularity, N_EXAMPLES), settings.seed);
        let judge = Self {
            examples: settings.shots.as_deref().map_or_else(|| Ok(Vec::new()), choose)?,
            prompts: Prompts::load(&[&[PROMPT], layout.files().as_slice()].concat(), settings)?,
            granularity,
            weights: settings.weights("gemba", granularity)?,
            layout,
            scoring,
            may_overlap: *options.may_overlap,
            max_tokens: settings.max_tokens,
        };
        judge.chat(&Texts::sample()).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn judge_unit(&self, panel: &Panel, texts: &Texts) -> Result<Verdict, Error> {
        if texts.is_empty() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.chat(texts)?;
        let form = self.layout.form(&self.prompts, texts)?;
        let question = panel.question(&chat, &form, self.budget());
        let reply = panel.answer(Role::Annotator, ANNOTATE, &question)?;
        let answer = self.layout.read(&reply.text)?.weighed(&reply);
        let written = GivenAnswer { panel, chat: &chat, text: &reply.text };
        answer.scored(texts, self.weights, self.scoring, &written)
    }

    fn chat(&self, texts: &Texts) -> Result<Chat, Error> {
        #[derive(Serialize)]
        struct Values<'a> {
            #[serde(flatten)]
            query: Pair<'a>,
            strict: bool,
            explain: bool,
            quality: bool,
            schema: String,
            shots: Vec<ShownShot<'a>>,
        }
        let bare = AnswerFormat { explain: false, quality: false, ..self.layout };
        let values = Values {
            query: texts.query(),
            strict: self.layout.is_strict,
            explain: self.layout.explain,
            quality: self.layout.quality,
            schema: self.layout.schema(&self.prompts, texts.max_errors())?,
            shots: bare.shown(&self.examples),
        };
        Ok(Chat::new().user(self.prompts.render(PROMPT, values)?))
    }

    /// Maximum number of tokens of an answer.
    fn budget(&self) -> usize {
        let own = if self.granularity == Granularity::FiveDoc { 4096 } else { 2048 };
        self.max_tokens.unwrap_or(own)
    }
}
