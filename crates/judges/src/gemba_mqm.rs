//! GEMBA-MQM: one prompt asks for all errors of a translation, by severity. Kocmi and Federmann, "GEMBA-MQM:
//! Detecting Translation Quality Error Spans with GPT-4" (WMT 2023). Text form: M-MAD Figures 4 and 5; its
//! zero-shot variant: RATE Figure 23; JSON form: "FSP" Figures 9 to 12, without explanations B.2, with direct
//! assessment Figure 5. Single sentences of a document are judged by [`super::fsp`].
//!
//! Differs:
//! - Answers in text. Code: reads anything, and an answer without a readable error is perfect (0); see
//!   [`code`]. Papers: silent. Ours: `code` does the same; `paper` reads as the code does, but an answer
//!   without a single block gives no verdict; `strict` allows only the printed layout, with spans copied from
//!   the text; see [`blocks`].
//! - Non-translation. Code: a line with the word is critical in any block, unless it also contains
//!   `no-error`. `code` and `paper` follow it. In `strict` only `Critical:` can name one, with a span of the
//!   translation.
//! - Wording. The code has "technically errors" where M-MAD's Figure 4 has "technical errors"; its third
//!   example has 卖场 where Figure 5 has 商场; its example answers end in a newline; it strips its input lines.
//!   `code` sends the code's bytes, `paper` and `strict` the figures' text.
//! - `locale convention`. The code's parser accepts it although no prompt offers it. `code` and `paper`
//!   accept it; `strict` has the prompt's categories only.
//! - Cut answers. Code: asks again with 200 more tokens. `code` follows it (see [`super::code::gemba_api`]);
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

use serde::Serialize;

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    answers::{
        chances::{EXPECT, GivenAnswer, Scoring},
        errors::{AnswerFormat, Target},
    },
    confidence, in_parallel,
    method::Calls,
    pair::{Pair, Texts},
    prompt::{File, Prompts},
    reading,
    scale::Scale,
    setup::{self, Granularity, Preset, Settings, options},
    shots::{self, Shot},
};
use crate::{
    code::gemba_api::{self, TokenBudget},
    llm::{Chat, Reply, ResponseFormat},
    mqm::{self, weights::Weights},
    segment::Segment,
};

pub mod blocks;

pub mod code;

pub mod parse;

const SYSTEM: File = File { name: "gemba_mqm/system.j2", text: include_str!("gemba_mqm/system.j2") };
const TEXT: File = File { name: "gemba_mqm/text.j2", text: include_str!("gemba_mqm/text.j2") };
const ZERO_SHOT: File = File { name: "gemba_mqm/zero_shot.j2", text: include_str!("gemba_mqm/zero_shot.j2") };
const ANSWER: File = File { name: "gemba_mqm/answer.j2", text: include_str!("gemba_mqm/answer.j2") };
const SHOTS: File = File { name: "gemba_mqm/shots.jsonl", text: include_str!("gemba_mqm/shots.jsonl") };
const SHOTS_CODE: File =
    File { name: "gemba_mqm/shots.code.jsonl", text: include_str!("gemba_mqm/shots.code.jsonl") };
const JSON: File = File { name: "gemba_mqm/json.j2", text: include_str!("gemba_mqm/json.j2") };

/// The stages of its calls.
const ANNOTATE: Stage = Stage::new("annotate");

/// Metadata shown by `tribunal methods show gemba-mqm`.
pub const METHOD: Method = Method {
    name: "gemba-mqm",
    summary: "all errors of a translation from one prompt, as text or as JSON",
    citation: "Kocmi and Federmann 2023, GEMBA-MQM (text); FSP paper, Figures 9 to 12 (JSON); RATE, Figure 23 \
               (zero-shot text)",
    stages: &[ANNOTATE, EXPECT],
    // As `code`, a cut answer is requested again.
    calls: Calls { least: 1, typical: 1, most: 6 },
    answer_tokens: Some(49),
    scale: Scale::PENALTY,
    scales: &[(&[("da", &["on"])], Scale::PERCENT)],
    granularities: &[Granularity::Seg, Granularity::Doc, Granularity::FiveDoc],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(|settings, options| Ok(GembaMqm::new(settings, &Options::read(options))?.into()))
};

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

/// A configured GEMBA-MQM judge.
pub struct GembaMqm {
    prompts: Prompts,
    preset: Preset,
    granularity: Granularity,
    weights: &'static Weights,
    shots: Vec<Shot>,
    /// `None` is the text form.
    json: Option<AnswerFormat>,
    scoring: Scoring,
    max_tokens: Option<usize>,
}

impl Protocol for GembaMqm {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(&Texts::units(self.granularity, group), |idx, texts| {
            self.judge_unit(&panel.about(idx), texts)
        })
    }
}

impl From<GembaMqm> for Judge {
    fn from(judge: GembaMqm) -> Self {
        let (granularity, scoring) = (judge.granularity, judge.scoring);
        Self {
            grouping: granularity.grouping(),
            unit: granularity.unit(),
            calls: Some(match judge.preset {
                Preset::Code => {
                    let most = TokenBudget::budgeted(judge.max_tokens).most_calls();
                    Calls { most, ..Calls::exactly(1) }
                }
                Preset::Paper | Preset::Strict => scoring.calls(),
            }),
            ..Self::new(Provenance::of(&judge.prompts), judge)
        }
    }
}

impl GembaMqm {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`], and options that do not go together.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        check_options(settings, options)?;
        let scoring = match (*options.is_expected, *options.quality) {
            (true, _) => Scoring::ExpectedQuality,
            (_, true) => Scoring::Quality,
            _ => Scoring::Errors,
        };
        scoring.check(settings)?;
        let json = options.is_json.then(|| AnswerFormat {
            is_strict: settings.preset == Preset::Strict,
            explain: *options.explain,
            quality: *options.quality,
            target: Target::Translation,
        });
        let shots_file = match (&json, settings.preset) {
            _ if !settings.has_shots(*options.has_shots)? => None,
            (Some(layout), _) => Some(layout.shots_file()),
            (None, Preset::Code) => Some(SHOTS_CODE),
            (None, _) => Some(SHOTS),
        };
        let mut files = match &json {
            Some(layout) => [&[JSON], layout.files().as_slice()].concat(),
            None if shots_file.is_none() => vec![ZERO_SHOT],
            None => vec![SYSTEM, TEXT, ANSWER],
        };
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let judge = Self {
            shots: shots::load(&prompts, shots_file, settings)?,
            prompts,
            preset: settings.preset,
            granularity: settings.granularity.unwrap_or_default(),
            weights: settings.weights("gemba", settings.granularity.unwrap_or_default())?,
            json,
            scoring,
            max_tokens: settings.max_tokens,
        };
        judge.chat(&Texts::sample()).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// Judges one segment for another method; calls are recorded by the panel.
    pub(super) fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict, Error> {
        self.judge_unit(panel, &Texts::of(segment))
    }

    fn judge_unit(&self, panel: &Panel, texts: &Texts) -> Result<Verdict, Error> {
        if texts.is_empty() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.chat(texts)?;
        let Some(layout) = self.json else { return self.judge_text(panel, texts, &chat) };
        let form = layout.form(&self.prompts, texts)?;
        let reply = self.ask(panel, &chat, &form)?;
        let answer = layout.read(&reply.text)?.weighed(&reply);
        let written = GivenAnswer { panel, chat: &chat, text: &reply.text };
        answer.scored(texts, self.weights, self.scoring, &written)
    }

    fn judge_text(&self, panel: &Panel, texts: &Texts, chat: &Chat) -> Result<Verdict, Error> {
        let (source, target) = (&texts.source, &texts.target);
        let form = match self.preset {
            Preset::Code => return self.judge_as_code(panel, texts, chat),
            Preset::Paper => ResponseFormat::Text,
            Preset::Strict => blocks::form(blocks::MQM, texts.errors_in_a_block(), source, target),
        };
        let reply = self.ask(panel, chat, &form)?;
        let answer = &reply.text;
        let mut errors = match self.preset {
            Preset::Strict => blocks::read(blocks::MQM, answer, source, target)?,
            Preset::Paper | Preset::Code => {
                let blocks = code::read(answer);
                if blocks.n_headers == 0 && blocks.entries.is_empty() {
                    return Err(reading::unusable(answer, "no block of critical, major or minor errors"));
                }
                blocks.errors()
            }
        };
        confidence::note(&reply, "error_span", &mut errors);
        let (errors, score) = mqm::assess(errors, source, target, self.preset.repeats(), self.weights);
        Ok(Verdict::new(score, errors))
    }

    /// GEMBA's own loop, reader and score; the errors are located in addition.
    fn judge_as_code(&self, panel: &Panel, texts: &Texts, chat: &Chat) -> Result<Verdict, Error> {
        let room = TokenBudget::budgeted(self.max_tokens);
        gemba_api::ask(panel, ANNOTATE, chat, room, |answer, reply| {
            let blocks = code::read(answer);
            let mut errors = blocks.errors();
            confidence::note(reply, "error_span", &mut errors);
            mqm::locate::place(&mut errors, &texts.source, &texts.target);
            Some(Verdict::new(blocks.score(), errors))
        })
    }

    /// The question about one unit.
    fn chat(&self, texts: &Texts) -> Result<Chat, Error> {
        if let Some(layout) = self.json {
            return self.json_chat(layout, texts);
        }
        if self.shots.is_empty() {
            return Ok(Chat::new().user(self.prompts.render(ZERO_SHOT, texts.query())?));
        }
        let mut chat = Chat::new().system(self.prompts.render(SYSTEM, ())?);
        for shot in &self.shots {
            let answer = self.prompts.render(ANSWER, shot)?;
            let answer = if self.preset == Preset::Code { &answer } else { answer.trim_end() };
            chat = chat
                .user(self.prompts.render(TEXT, Pair::from_shot(shot).shown(self.preset))?)
                .assistant(answer);
        }
        Ok(chat.user(self.prompts.render(TEXT, texts.query().shown(self.preset))?))
    }

    fn json_chat(&self, layout: AnswerFormat, texts: &Texts) -> Result<Chat, Error> {
        #[derive(Serialize)]
        struct JsonQuery<'a> {
            #[serde(flatten)]
            query: Pair<'a>,
            strict: bool,
            quality: bool,
            schema: String,
            shots: Vec<super::answers::errors::ShownShot<'a>>,
        }
        let query = JsonQuery {
            query: texts.query(),
            strict: layout.is_strict,
            quality: layout.quality,
            schema: layout.schema(&self.prompts, texts.max_errors())?,
            shots: layout.shown(&self.shots),
        };
        Ok(Chat::new().user(self.prompts.render(JSON, query)?))
    }

    fn ask(&self, panel: &Panel, chat: &Chat, form: &ResponseFormat) -> Result<Reply, Error> {
        panel.answer(Role::Annotator, ANNOTATE, &panel.question(chat, form, self.budget()))
    }

    /// Maximum number of tokens of an answer.
    fn budget(&self) -> usize {
        let own = match (&self.json, self.granularity) {
            (None, Granularity::Seg) if self.preset == Preset::Paper => 512,
            (None, Granularity::Seg) => 1024,
            (_, Granularity::Seg | Granularity::Doc) => 2048,
            (_, Granularity::FiveDoc) => 4096,
        };
        self.max_tokens.unwrap_or(own)
    }

    /// The hash of its prompts.
    pub(super) fn prompts_hash(&self) -> &str {
        self.prompts.hash()
    }
}

/// Options that do not go together.
fn check_options(settings: &Settings, options: &Options) -> Result<(), setup::Error> {
    let conflict = |text: &str| Err(setup::Error::Conflict(text.into()));
    if *options.is_json && settings.preset == Preset::Code {
        return conflict("the JSON form has no published code; hint: use preset `paper` or `strict`");
    }
    if !*options.is_json && (options.explain.is_given || *options.quality) {
        return conflict("`explain` and `da` are options of the JSON form; hint: add form=json");
    }
    if *options.is_expected && !*options.quality {
        return conflict(
            "`score=expected` is the mean of the quality score, which only `da=on` asks for; hint: \
             form=json,da=on,score=expected",
        );
    }
    if settings.preset == Preset::Code && settings.weights.as_deref().is_some_and(|w| w != "gemba") {
        return conflict("preset `code` has GEMBA's own weights; hint: leave the weights out");
    }
    Ok(())
}
