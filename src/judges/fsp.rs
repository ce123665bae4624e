//! Focus Sentence Prompting (FSP): the whole document is context, one segment of it is judged at a time. "FSP"
//! paper, Figure 13 (the prompt), Figures 10 to 12 (the shots). One verdict for every segment; the granularity
//! is how much a prompt shows: its segment, its document, or five documents. It aligns nothing: the model
//! finds the source of the focus by itself.
//!
//! Differs:
//! - No code is published; there is no preset `code`.
//! - Weights and aggregation. Paper: never given. Ours: weights `gemba` by default; a segment's score is the
//!   sum of its errors under them, a system's is the mean over segments. `score=da` takes the quality score.
//! - Shots. Figures 10 to 12 show neither `target_segment` nor `quality_score`. `paper` keeps that; `strict`
//!   makes each shot's translation its target segment and says that the quality score is to be added.
//! - Answers. As in [`super::gemba_mqm`]'s JSON form: `paper` enforces the printed schema (the span first,
//!   optional, possibly empty, from the focus or the source document); `strict` puts the category first, takes
//!   spans from the focus segment and those of omissions from the source segment that the input pairs with
//!   it, verbatim and not empty, at most 10 errors.
//! - A focus whose text occurs more than once in the document. Paper: silent. `strict` says which occurrence
//!   is meant, after the shared prefix; `paper` keeps the prompt as printed.
//! - Explanations can be left out (`explain=off`), which the paper tries on the GEMBA prompt only (B.2).
//! - Documents and segments are joined by a newline.
//! - A segment whose source and hypothesis are both empty is not asked about: it has no verdict. An empty
//!   hypothesis can only have omissions, an empty source none (`strict`).

use serde::Serialize;

use self::answer::{Layout, ShownShot, Target};
use super::{
    Error, Grouping, Judge, Method, Panel, Verdict, in_parallel,
    prompt::{File, Prompts},
    reading,
    registry::Calls,
    setup::{self, Choice, Granularity, Options, Preset, Settings},
    shots::{self, Shot},
};
use crate::{
    llm::{Chat, Sampling},
    mqm::{self, weights::Weights},
    segment::Segment,
};

pub mod answer;

const PROMPT: File = File { name: "fsp/fsp.j2", text: include_str!("fsp/fsp.j2") };

/// Answer tokens of one question.
const BUDGET: usize = 1024;

/// The most errors that `strict` lets an answer name: twice what WMT's annotators mark in a segment.
const MAX_ERRORS: usize = 10;

/// What `tribunal methods show fsp` says.
pub const METHOD: Method = Method {
    name: "fsp",
    summary: "the whole document as context, one focus segment judged at a time",
    citation: "Focus Sentence Prompting, Figure 13 (prompt) and Figures 10 to 12 (shots)",
    stages: &["focus"],
    roles: &["annotator"],
    calls: Calls::exactly(1),
    scale: "negative penalty, 0 is best and higher is better; with score=da 0 to 100, higher is better",
    granularities: &[Granularity::Doc, Granularity::Seg, Granularity::FiveDoc],
    presets: &[Preset::Paper, Preset::Strict],
    weights: Some("gemba"),
    options: &[
        Choice { name: "shots", values: &["3", "0"], meaning: "worked examples before the question" },
        Choice { name: "explain", values: &["on", "off"], meaning: "ask why each span is an error" },
        Choice { name: "score", values: &["errors", "da"], meaning: "what the score is made of" },
    ],
    build: |settings, options| Ok(Box::new(Fsp::new(settings, options)?)),
};

/// FSP as it was asked for.
pub struct Fsp {
    prompts: Prompts,
    preset: Preset,
    granularity: Granularity,
    weights: &'static Weights,
    shots: Vec<Shot>,
    layout: Layout,
    scores_by_quality: bool,
    budget: usize,
}

/// All that a prompt shows besides its focus: the shared prefix of a group's prompts.
struct Document<'a> {
    source_lang: &'a str,
    source: String,
    target_lang: &'a str,
    target: String,
}

/// Which segment is judged, and which occurrence of its text in the document it is (both from 1).
struct Focus<'a> {
    text: &'a str,
    occurrence: usize,
    occurrences: usize,
}

impl Judge for Fsp {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        let Some(document) = Document::join(group) else { return Vec::new() };
        in_parallel(group, |idx, segment| {
            self.judge_focus(&panel.about(idx), &document, segment, &Focus::of(group, idx))
        })
    }

    fn group(&self) -> Grouping {
        self.granularity.grouping()
    }

    fn signature(&self) -> Vec<(&'static str, String)> {
        vec![
            ("method", METHOD.name.into()),
            ("shots", self.shots.len().to_string()),
            ("explain", if self.layout.explain { "on" } else { "off" }.into()),
            ("score", if self.scores_by_quality { "da" } else { "errors" }.into()),
            ("preset", self.preset.to_string()),
            ("granularity", self.granularity.to_string()),
            ("prompts", self.prompts.hash().to_owned()),
            ("weights", self.weights.name.into()),
        ]
    }

    fn preview(&self, group: &[Segment]) -> Vec<(Chat, usize)> {
        let Some(document) = Document::join(group) else { return Vec::new() };
        let asked = group.iter().enumerate().filter(|(_, segment)| !is_empty(segment));
        let chat = |(idx, _)| Some((self.chat(&document, &Focus::of(group, idx)).ok()?, self.budget));
        asked.filter_map(chat).collect()
    }
}

impl Fsp {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// What [`super::registry::build`] names.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let layout = Layout {
            is_strict: settings.preset == Preset::Strict,
            explain: options.is_on("explain"),
            quality: true,
            target: Target::Segment,
        };
        let shots_file = options.has_shots(settings)?.then(|| layout.shots_file());
        let mut files = [&[PROMPT], layout.files().as_slice()].concat();
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let judge = Self {
            shots: shots::load(&prompts, shots_file, settings)?,
            prompts,
            preset: settings.preset,
            granularity: settings.granularity.unwrap_or(METHOD.granularities[0]),
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
            layout,
            scores_by_quality: options.get("score") == "da",
            budget: settings.max_tokens.unwrap_or(BUDGET),
        };
        let sample = Document { source_lang: "", source: "a".into(), target_lang: "", target: "b".into() };
        let focus = Focus { text: "b", occurrence: 1, occurrences: 1 };
        judge.chat(&sample, &focus).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn judge_focus(
        &self,
        panel: &Panel,
        document: &Document,
        segment: &Segment,
        focus: &Focus,
    ) -> Result<Verdict, Error> {
        if is_empty(segment) {
            return Err(Error::Failed("source and hypothesis are both empty".into()));
        }
        let chat = self.chat(document, focus)?;
        let source = if self.layout.is_strict { &segment.source } else { &document.source };
        let form = self.layout.form(&self.prompts, MAX_ERRORS, source, &segment.hypothesis)?;
        let sampling = Sampling { max_tokens: self.budget, ..panel.sampling.clone() };
        let reply = panel.ask_with("annotator", "focus", &chat, &form, &sampling)?;
        let answer = self.layout.read(reading::whole(&reply, self.budget)?)?.weighed(&reply);
        Ok(answer.verdict(&segment.source, &segment.hypothesis, self.weights, self.scores_by_quality))
    }

    /// The question about one focus; all questions of a group begin with the same bytes, up to the focus.
    fn chat(&self, document: &Document, focus: &Focus) -> Result<Chat, Error> {
        #[derive(Serialize)]
        struct Query<'a> {
            strict: bool,
            schema: String,
            shots: Vec<ShownShot<'a>>,
            source_lang: &'a str,
            source: &'a str,
            target_lang: &'a str,
            target: &'a str,
            focus: &'a str,
            occurrence: usize,
            occurrences: usize,
        }
        let query = Query {
            strict: self.layout.is_strict,
            schema: self.layout.schema(&self.prompts, MAX_ERRORS)?,
            shots: self.layout.shown(&self.shots),
            source_lang: document.source_lang,
            source: &document.source,
            target_lang: document.target_lang,
            target: &document.target,
            focus: focus.text,
            occurrence: focus.occurrence,
            occurrences: focus.occurrences,
        };
        Ok(Chat::new().user(self.prompts.render(PROMPT, query)?))
    }
}

fn is_empty(segment: &Segment) -> bool {
    segment.source.trim().is_empty() && segment.hypothesis.trim().is_empty()
}

impl<'a> Document<'a> {
    fn join(group: &'a [Segment]) -> Option<Self> {
        let first = group.first()?;
        let join = |text: fn(&Segment) -> &str| group.iter().map(text).collect::<Vec<_>>().join("\n");
        Some(Self {
            source_lang: first.src_lang.name(),
            source: join(|s| &s.source),
            target_lang: first.tgt_lang.name(),
            target: join(|s| &s.hypothesis),
        })
    }
}

impl<'a> Focus<'a> {
    /// Counts the focus's text in all hypotheses of the group, within longer ones too.
    fn of(group: &'a [Segment], idx: usize) -> Self {
        let text = group[idx].hypothesis.as_str();
        if text.is_empty() {
            return Self { text, occurrence: 1, occurrences: 1 };
        }
        let count = |segments: &[Segment]| -> usize {
            segments.iter().map(|s| s.hypothesis.matches(text).count()).sum()
        };
        Self { text, occurrence: count(&group[..idx]) + 1, occurrences: count(group) }
    }
}
