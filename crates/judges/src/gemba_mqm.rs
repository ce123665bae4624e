//! GEMBA-MQM: one prompt asks for all errors of a translation, by severity. Kocmi and Federmann, "GEMBA-MQM:
//! Detecting Translation Quality Error Spans with GPT-4" (WMT 2023). Text form: M-MAD Figures 4 and 5; its
//! zero-shot variant: RATE Figure 23; JSON form: "FSP" Figures 9 to 12, without explanations B.2, with direct
//! assessment Figure 5. Single sentences of a document are judged by [`super::fsp`].
//!
//! Differs:
//! - Answers in text. Code: reads anything, and an answer without a readable error is perfect (0); see
//!   [`super::answers::blocks::printed`]. Papers: silent. Ours: `code` does the same; `paper` reads as the
//!   code does, but an answer without a single block gives no verdict; `strict` allows only the printed
//!   layout, with spans copied from the text; see [`super::answers::blocks`].
//! - Non-translation. Code: a line with the word is critical in any block, unless it also contains
//!   `no-error`. `code` and `paper` follow it. In `strict` only `Critical:` can name one, with a span of the
//!   translation.
//! - Wording. The code has "technically errors" where M-MAD's Figure 4 has "technical errors"; its third
//!   example has 卖场 where Figure 5 has 商场; its example answers end in a newline; it strips its input lines.
//!   `code` sends the code's bytes, `paper` and `strict` the figures' text.
//! - `locale convention`. The code's parser accepts it although no prompt offers it. `code` and `paper`
//!   accept it; `strict` has the prompt's categories only.
//! - Cut answers. Code: asks again with 200 more tokens. `code` follows it;
//!   under the other presets the verdict is `truncated`.
//! - RATE's zero-shot prompt has no system message, so ours has none.
//! - JSON form. Printed: free JSON, the span before category and severity, optional and possibly empty.
//!   `paper` enforces that schema. `strict` puts the category first, so that an omission takes its span from
//!   the source and everything else from the translation, verbatim and not empty; it takes types from the
//!   list in the prompt, explanations of at most 200 characters, at most 10 errors for a segment (5 a
//!   segment, up to 100, in longer texts), and answers on one line. The omission spans of its examples come
//!   from the text form's examples. Figure 9 misplaces `required`; `paper` shows it as printed.
//! - Direct assessment (`da=on`) is not printed for this prompt; ours adds Figure 13's `quality_score`.
//! - Beyond the papers: `da=on,score=expected` takes, in `strict`, the mean of the quality score's
//!   distribution ([`super::answers::chances`]); `raw` stays what is written.
//! - Spans. In `code` and `paper` they are free text, as in the papers: a span that is in neither text still
//!   costs its weight; it keeps its words and has no offsets.
//! - Weights of the JSON form are printed nowhere; ours default to `gemba`, and to `gemba-sum`, without its
//!   limits, at `doc` and `5doc`.
//! - Repeats. Neither papers nor code merge errors, and `paper` and `code` charge every naming. `strict`
//!   charges as many namings of one span and type as the span has occurrences, each at its own; further ones
//!   are only counted.
//! - Longer texts (`doc`, `5doc`): segments are joined by newlines; one verdict, with offsets in the joined
//!   text.
//! - A unit whose source and hypothesis are both empty has no model call and no verdict. If one of them is
//!   empty, `strict` can name no span of it.

use super::{
    Judge, Method, Role, Stage,
    answers::{
        blocks,
        chances::{EXPECT, Scoring},
        errors::{AnswerFormat, Target},
    },
    declaration::{Answers, Declaration, Layout, SingleQuestion},
    method::Calls,
    prompt::{File, file},
    scale::Scale,
    setup::{self, GivenOptions, Granularity, Preset, Settings, options},
};

const SYSTEM: File = file!("gemba_mqm/system.j2");
const TEXT: File = file!("gemba_mqm/text.j2");
const ANSWER: File = file!("gemba_mqm/answer.j2");
const ZERO_SHOT: File = file!("gemba_mqm/zero_shot.j2");
const SHOTS: File = file!("gemba_mqm/shots.jsonl");
const JSON: File = file!("gemba_mqm/json.j2");

/// The stages of its calls.
pub const ANNOTATE: Stage = Stage::new("annotate");

/// Metadata shown by `tribunal methods show gemba-mqm`.
pub const METHOD: Method = Method {
    name: "gemba-mqm",
    summary: "all errors of a translation from one prompt, as text or as JSON",
    citation: "Kocmi and Federmann 2023, GEMBA-MQM (text); FSP paper, Figures 9 to 12 (JSON); RATE, Figure 23 \
               (zero-shot text)",
    papers: &["kocmi-federmann-2023-gemba-mqm", "domhan-zhu-2025-evaluation", "tian-etal-2026-beyond"],
    stages: &[ANNOTATE, EXPECT],
    // As `code`, a cut answer is requested again.
    calls: Calls { least: 1, typical: 1, most: 6 },
    answer_tokens: Some([35, 14]),
    scale: Scale::PENALTY,
    scales: &[(&[("da", &["on"])], Scale::PERCENT)],
    granularities: &[Granularity::Seg, Granularity::Doc, Granularity::FiveDoc],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(build)
};

/// The text form, with its examples as turns.
pub const THREE_SHOT: Declaration = Declaration {
    stage: ANNOTATE,
    role: Role::Annotator,
    prompt: Layout::Turns { system: SYSTEM, question: TEXT, answer: Some(ANSWER) },
    shows_reference: false,
    shots: Some(SHOTS),
    thought: None,
    answers: Answers::Blocks(blocks::MQM),
    budget: 1024,
};

/// The text form without examples.
pub const NO_SHOTS: Declaration =
    Declaration { prompt: Layout::Message(ZERO_SHOT), shots: None, ..THREE_SHOT };

options! {
    /// Options of GEMBA-MQM.
    pub struct Options {
        "form" is_json: bool = { "text" => false, "json" => true }, "layout of prompt and answer";
        "shots" has_shots: bool = { "3" => true, "0" => false }, "worked examples before the question";
        "explain" explain: bool = { "on" => true, "off" => false }, "JSON: ask why each span is an error";
        "da" quality: bool = { "off" => false, "on" => true }, "JSON: ask for a score of 0 to 100 and use it";
        "score" is_expected: bool = { "greedy" => false, "expected" => true },
            "JSON with da=on: the score as written, or the mean of its distribution";
    }
}

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    Ok(question(settings, &Options::read(options))?.into())
}

/// The question in the form of these options.
///
/// # Errors
/// Options that do not go together, and those of [`SingleQuestion::load`].
pub fn question(settings: &Settings, options: &Options) -> setup::Result<SingleQuestion> {
    check_options(options)?;
    let has_shots = settings.has_shots(*options.has_shots)?;
    let is_strict = settings.preset == Preset::Strict;
    let question = if *options.is_json {
        json(settings, options, has_shots)?
    } else {
        let text = if has_shots { THREE_SHOT } else { NO_SHOTS };
        let budget = match settings.granularity.unwrap_or_default() {
            Granularity::Seg if !is_strict => 512,
            Granularity::Seg => text.budget,
            Granularity::Doc | Granularity::FiveDoc => 2048,
        };
        let answers = if is_strict { text.answers } else { Answers::FreeBlocks };
        Declaration { answers, budget, ..text }
    };
    SingleQuestion::load(&METHOD, question, settings)
}

/// The JSON form.
fn json(settings: &Settings, options: &Options, has_shots: bool) -> setup::Result<Declaration> {
    let scoring = match (*options.is_expected, *options.quality) {
        (true, _) => Scoring::ExpectedQuality,
        (_, true) => Scoring::Quality,
        _ => Scoring::Errors,
    };
    scoring.check(settings)?;
    let format = AnswerFormat {
        is_strict: settings.preset == Preset::Strict,
        explain: *options.explain,
        quality: *options.quality,
        target: Target::Translation,
    };
    Ok(Declaration {
        prompt: Layout::Message(JSON),
        shots: has_shots.then(|| format.shots_file()),
        answers: Answers::Errors { format, scoring },
        budget: 2048,
        ..THREE_SHOT
    })
}

/// Rejects options that do not go together.
///
/// # Errors
/// [`setup::Error::Conflict`].
pub fn check_options(options: &Options) -> setup::Result<()> {
    setup::reject(&[
        (
            !*options.is_json && (options.explain.is_given || *options.quality),
            "`explain` and `da` are options of the JSON form; hint: add form=json",
        ),
        (
            *options.is_expected && !*options.quality,
            "`score=expected` is the mean of the quality score, which only `da=on` asks for; hint: \
             form=json,da=on,score=expected",
        ),
    ])
}
