//! Focus Sentence Prompting (FSP): the whole document is context, one segment of it is judged at a time.
//! "FSP" paper, Figure 13 (the prompt), Figures 10 to 12 (the shots). One verdict for every segment; the
//! granularity is how much a prompt shows: its segment, its document, or five documents. It aligns nothing:
//! the model finds the source of the focus by itself.
//!
//! Differs:
//! - No code is published; there is no preset `code`.
//! - Weights and aggregation. Paper: never given; errors are "summed". Ours: by default `gemba` at `seg`, and
//!   `gemba-sum`, which has no limits, at `doc` and `5doc`, as in [`super::gemba_mqm`], whatever a
//!   translation's length; a segment's score is the sum of its errors under them, a system's is the mean over
//!   segments. `score=da` takes the quality score.
//! - Repeats. Paper: silent. `paper` charges every naming of an error; `strict` as many namings of one span
//!   and type as the span occurs in its focus (or in the source), each at its own occurrence.
//! - Shots. Figures 10 to 12 show neither `target_segment` nor `quality_score`. `paper` keeps that; `strict`
//!   makes each shot's translation its target segment and says that the quality score is to be added.
//! - Answers. As in [`super::gemba_mqm`]'s JSON form: `paper` enforces the printed schema (the span first,
//!   optional, and any string: one that is not in the text hurts precision); `strict` puts the category
//!   first, takes spans from the focus segment and those of omissions from the source segment that the input
//!   pairs with it, verbatim and not empty, at most 10 errors.
//! - A focus whose text occurs more than once in the document. Paper: silent. `strict` numbers the
//!   occurrence, after the shared prefix; `paper` keeps the prompt as printed.
//! - Explanations can be left out (`explain=off`), which the paper tries on the GEMBA prompt only (B.2).
//! - Documents and segments are joined by a newline.
//! - Whole documents. Paper: assumes segments (Limitations). `strict` cuts a segment that is a document by
//!   itself into sentences, each a focus ([`sentences`]; `sentences=on` cuts every segment, `off` none),
//!   where its translation has more than five: the verdict is still the segment's, with the errors of its
//!   sentences and the mean of their quality scores.
//! - Beyond the paper, in `strict`: `omissions=on` asks one more question about each group, for source
//!   sentences that are left out ([`omissions`]), which become errors of their segments; when it fails, no
//!   segment of the group has a verdict. `window=on` shows less and less of a document around the focus while
//!   the prompt is longer than the context; the question for omissions is not cut.
//! - Beyond the paper, in `strict`: `score=expected-da` takes the mean of the quality score's distribution
//!   ([`super::answers::chances`]); `raw` stays what is written.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict. An empty
//!   hypothesis can only have omissions, an empty source none (`strict`).

use std::ops::Range;

use serde_json::json;

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Result, Role, Stage, Verdict,
    answers::{
        chances::{EXPECT, GivenAnswer, Scoring},
        errors::{AnswerFormat, Target},
    },
    in_parallel,
    method::Calls,
    prompt::{File, Prompts, file},
    scale::Scale,
    setup::{self, Granularity, Preset, Settings, options},
    shots::{self, Shot},
};
use crate::{
    llm::Chat,
    mqm::{ErrorSpan, Side, weights::Weights},
    segment::Segment,
};

pub mod sentences;

mod focus;
mod omissions;

use focus::{Document, Focus};

const PROMPT: File = file!("fsp/fsp.j2");

/// Answer tokens of one question.
const BUDGET: usize = 1024;

/// Maximum number of errors of a `strict` answer: twice that of WMT's annotators in a segment.
const MAX_ERRORS: usize = 10;

/// The stages of its calls.
const FOCUS: Stage = Stage::new("focus");
const OMISSIONS: Stage = Stage::new("omissions");

/// Metadata shown by `tribunal methods show fsp`.
pub const METHOD: Method = Method {
    name: "fsp",
    summary: "the whole document as context, one focus segment judged at a time",
    citation: "Focus Sentence Prompting, Figure 13 (prompt) and Figures 10 to 12 (shots)",
    papers: &["domhan-zhu-2025-evaluation"],
    stages: &[FOCUS, OMISSIONS, EXPECT],
    // More where a segment is a document, omissions are looked for, or a distribution is weighed.
    calls: Calls::exactly(1),
    answer_tokens: Some([80, 6]),
    scale: Scale::PENALTY_AND_ASSESSMENT,
    scales: &[(&[("score", &["da", "expected-da"])], Scale::PERCENT)],
    granularities: &[Granularity::Doc, Granularity::Seg, Granularity::FiveDoc],
    presets: &[Preset::Paper, Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(|settings, options| Fsp::new(settings, &Options::read(options)).map(built))
};

options! {
    /// Options of FSP.
    pub struct Options {
        "shots" has_shots: bool = { "3" => true, "0" => false }, "worked examples before the question";
        "explain" explain: bool = { "on" => true, "off" => false }, "ask why each span is an error";
        "score" scoring: Scoring = {
            "errors" => Scoring::Errors, "da" => Scoring::Quality, "expected-da" => Scoring::ExpectedQuality
        }, Scoring::MEANING;
        "sentences" sentences: Sentences = {
            "auto" => Sentences::Auto, "on" => Sentences::On, "off" => Sentences::Off
        }, "judge sentence by sentence; auto: in segments that are whole documents";
        "omissions" seeks_omissions: bool = { "off" => false, "on" => true },
            "one more question for source sentences that are left out";
        "window" has_window: bool = { "off" => false, "on" => true },
            "show part of a document that is longer than the context";
    }
}

/// A configured FSP judge.
pub struct Fsp {
    prompts: Prompts,
    granularity: Granularity,
    weights: &'static Weights,
    shots: Vec<Shot>,
    layout: AnswerFormat,
    scoring: Scoring,
    sentences: Sentences,
    seeks_omissions: bool,
    has_window: bool,
    budget: usize,
}

/// Selection of the segments that are cut into sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sentences {
    /// Those that are a whole document.
    Auto,
    On,
    Off,
}

/// The errors and the quality score of one answer.
struct Answer {
    /// The errors, located in their segment.
    errors: Vec<ErrorSpan>,
    /// The quality score as written, and as it counts.
    quality: Option<[f64; 2]>,
}

impl Protocol for Fsp {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        let Some(document) = Document::join(group) else { return Vec::new() };
        let foci = self.foci(panel, group);
        let found = in_parallel(&foci, |_, focus| {
            self.ask_focus(&panel.about(focus.segment), &document, group, focus)
        });
        let mut by_segment: Vec<Vec<Result<Answer>>> = group.iter().map(|_| Vec::new()).collect();
        for (focus, found) in foci.iter().zip(found) {
            by_segment[focus.segment].push(found);
        }
        let omitted = match self.omissions(panel, &document, group) {
            Ok(omitted) => omitted,
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let verdict = |(idx, found): (usize, Vec<_>)| {
            let omitted =
                omitted.iter().filter(|(segment, _)| *segment == idx).map(|(_, error)| error.clone());
            self.verdict(found, omitted.collect())
        };
        by_segment.into_iter().enumerate().map(verdict).collect()
    }
}

fn built(judge: Fsp) -> Judge {
    Judge {
        grouping: judge.granularity.grouping(),
        // The question for omissions is about the whole group.
        asks_apart: !judge.seeks_omissions,
        calls: Some(judge.scoring.calls()),
        ..Judge::new(Provenance::of(&judge.prompts), judge)
    }
}

impl Fsp {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`], and options beyond the paper with its preset.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let layout = AnswerFormat {
            is_strict: settings.preset == Preset::Strict,
            explain: *options.explain,
            quality: true,
            target: Target::Segment,
        };
        let (seeks_omissions, has_window) = (*options.seeks_omissions, *options.has_window);
        let is_beyond = seeks_omissions || has_window || *options.sentences == Sentences::On;
        setup::reject(&[(
            !layout.is_strict && is_beyond,
            "`sentences`, `omissions` and `window` go beyond the paper; hint: use preset `strict`",
        )])?;
        let scoring = *options.scoring;
        scoring.check(settings)?;
        let shots_file = settings.has_shots(*options.has_shots)?.then(|| layout.shots_file());
        let mut files = [&[PROMPT], layout.files().as_slice()].concat();
        files.extend(seeks_omissions.then_some(omissions::PROMPT));
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let granularity = settings.granularity.unwrap_or(METHOD.granularities[0]);
        let judge = Self {
            shots: shots::load(&prompts, shots_file, settings)?,
            prompts,
            granularity,
            weights: settings.weights("gemba", granularity)?,
            layout,
            scoring,
            sentences: match *options.sentences {
                Sentences::Auto if !layout.is_strict => Sentences::Off,
                sentences => sentences,
            },
            seeks_omissions,
            has_window,
            budget: settings.max_tokens.unwrap_or(BUDGET),
        };
        let sample = Document { source_lang: "", source: "a".into(), target_lang: "", target: "b".into() };
        judge.render(&sample, "b", 0).map_err(setup::Error::from_prompt)?;
        if seeks_omissions {
            omissions::question(&judge.prompts, &sample, &[]).map_err(setup::Error::from_prompt)?;
        }
        Ok(judge)
    }

    /// The foci in order; none for a segment that is empty on both sides, or only context.
    fn foci<'a>(&self, panel: &Panel, group: &'a [Segment]) -> Vec<Focus<'a>> {
        let foci =
            (group.iter().enumerate()).filter(|(idx, segment)| panel.wants(*idx) && !segment.is_blank());
        let segment_foci = |(idx, segment): (usize, &'a Segment)| {
            let text = segment.hypothesis.as_str();
            let full_range = || std::iter::once(0..text.len()).collect();
            let ranges: Vec<Range<usize>> =
                if self.cuts(group, idx) { sentences::split(text) } else { full_range() };
            let focus = move |(sentence, range): (usize, Range<usize>)| Focus {
                segment: idx,
                sentence,
                text: &text[range.clone()],
                range,
            };
            ranges.into_iter().enumerate().map(focus)
        };
        foci.flat_map(segment_foci).collect()
    }

    /// True if a segment is judged sentence by sentence.
    fn cuts(&self, group: &[Segment], idx: usize) -> bool {
        let segment = &group[idx];
        let is_alone = || {
            let others = group.iter().enumerate().filter(|(other, _)| *other != idx);
            segment.doc.is_empty() || others.into_iter().all(|(_, other)| other.doc != segment.doc)
        };
        match self.sentences {
            Sentences::On => true,
            Sentences::Off => false,
            Sentences::Auto => {
                self.granularity != Granularity::Seg
                    && is_alone()
                    && sentences::is_document(&segment.hypothesis)
            }
        }
    }

    /// Asks about one focus, with less and less of the document where the context does not hold it.
    fn ask_focus(
        &self,
        panel: &Panel,
        document: &Document,
        group: &[Segment],
        focus: &Focus,
    ) -> Result<Answer> {
        let segment = &group[focus.segment];
        let source = if self.layout.is_strict { &segment.source } else { &document.source };
        let mut parts = 1;
        let (chat, reply) = loop {
            let chat = self.chat(group, focus, parts)?;
            let form = self.layout.form_of(&self.prompts, MAX_ERRORS, source, focus.text)?;
            match panel.answer(Role::Annotator, FOCUS, &panel.question(&chat, &form, self.budget)) {
                Err(Error::TooLong(_)) if self.has_window && focus.window(group, parts).len() > 1 => {
                    parts *= 2;
                }
                answer => break (chat, answer?),
            }
        };
        let (mut errors, quality) = self.layout.read(&reply.text)?.weighed(&reply).into_parts();
        let written = GivenAnswer { panel, chat: &chat, text: &reply.text };
        let quality = match (self.scoring, quality) {
            (Scoring::ExpectedQuality, Some(raw)) => Some([raw, written.quality()?]),
            (_, quality) => quality.map(|raw| [raw, raw]),
        };
        errors = self.layout.repeats().settled(errors, &segment.source, focus.text);
        let before = segment.hypothesis[..focus.range.start].chars().count();
        for error in errors.iter_mut().filter(|error| error.side == Side::Target) {
            error.start = error.start.map(|at| at + before);
            error.end = error.end.map(|at| at + before);
        }
        Ok(Answer { errors, quality })
    }

    /// Source sentences that are left out, each with its segment.
    fn omissions(
        &self,
        panel: &Panel,
        document: &Document,
        group: &[Segment],
    ) -> Result<Vec<(usize, ErrorSpan)>> {
        if !self.seeks_omissions {
            return Ok(Vec::new());
        }
        let (chat, sentences) = omissions::question(&self.prompts, document, group)?;
        omissions::find(panel, &chat, &sentences, self.budget)
    }

    /// The verdict about one segment from the answers about its foci.
    fn verdict(&self, found: Vec<Result<Answer>>, omitted: Vec<ErrorSpan>) -> Result<Verdict> {
        let weights = self.weights;
        let found = found.into_iter().collect::<Result<Vec<Answer>>>()?;
        if found.is_empty() {
            return Err(Error::nothing_to_judge());
        }
        let quality: Vec<[f64; 2]> = found.iter().filter_map(|found| found.quality).collect();
        let mean = |at: usize| quality.iter().map(|quality| quality[at]).sum::<f64>() / quality.len() as f64;
        let quality_score = (!quality.is_empty()).then(|| mean(0));
        let mut errors: Vec<ErrorSpan> = found.into_iter().flat_map(|found| found.errors).collect();
        omissions::add(&mut errors, omitted);
        let errors = weights.weighed(errors);
        let sum = weights.score(&errors);
        let by_quality = quality_score.filter(|_| self.scoring.by_quality());
        let (score, raw) = by_quality.map_or((sum, sum), |raw| (mean(1), raw));
        Ok(Verdict { raw, quality_score, ..Verdict::new(score, errors) })
    }

    /// The question about one focus; all questions of a group (of a window) begin with the same bytes, up to
    /// the focus.
    fn chat(&self, group: &[Segment], focus: &Focus, parts: usize) -> Result<Chat> {
        let (document, at) = focus.shown(group, parts);
        self.render(&document, focus.text, at)
    }

    /// The focus stands at byte `at` of the document's translation.
    fn render(&self, document: &Document, focus: &str, at: usize) -> Result<Chat> {
        let count = |text: &str| if focus.is_empty() { 0 } else { text.matches(focus).count() };
        // `occurrence`: which one of its text in the translation it is, from 1, also within longer texts.
        let query = json!({
            "strict": self.layout.is_strict,
            "schema": self.layout.schema(&self.prompts, MAX_ERRORS)?,
            "shots": self.layout.shown(&self.shots),
            "source_lang": document.source_lang,
            "source": document.source,
            "target_lang": document.target_lang,
            "target": document.target,
            "focus": focus,
            "occurrence": count(&document.target[..at]) + 1,
            "occurrences": count(&document.target).max(1),
        });
        Ok(Chat::new().user(self.prompts.render(PROMPT, query)?))
    }
}
