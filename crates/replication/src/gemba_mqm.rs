//! GEMBA-MQM as its published program runs it (`gemba/gemba_mqm_utils.py`): its loop, its reader and its score.
//! [`tribunal_judges::gemba_mqm`] lists what differs.

use tribunal_core::{mqm, segment::Segment};
use tribunal_judges::{
    Error, Granularity, Judge, Panel, Preset, Protocol, Provenance, Settings, Verdict, confidence,
    gemba_mqm::{ANNOTATE, ANSWER, Options, SYSTEM, TEXT, ZERO_SHOT, check_options, printed, text_chat},
    in_parallel,
    method::Calls,
    pair::Texts,
    prompt::{File, Prompts},
    setup::{self, GivenOptions},
    shots::{self, Shot},
};

use crate::gemba_api::{self, TokenBudget};

const SHOTS: File =
    File { name: "gemba_mqm/shots.code.jsonl", text: include_str!("gemba_mqm/shots.code.jsonl") };

/// GEMBA-MQM as published.
struct Published {
    prompts: Prompts,
    shots: Vec<Shot>,
    granularity: Granularity,
    max_tokens: Option<usize>,
}

/// The judge of preset `code`.
///
/// # Errors
/// Options for which nothing is published, and prompts or shots that cannot be used.
pub fn build(settings: &Settings, options: &GivenOptions) -> Result<Judge, setup::Error> {
    let published = Published::new(settings, &Options::read(options))?;
    let granularity = published.granularity;
    let calls = Calls { most: published.room().most_calls(), ..Calls::exactly(1) };
    let mut judge = Judge::new(Provenance::of(&published.prompts), published).with_calls(calls);
    (judge.grouping, judge.unit) = (granularity.grouping(), granularity.unit());
    Ok(judge)
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(&Texts::units(self.granularity, group), |idx, texts| {
            self.judge_unit(&panel.about(idx), texts)
        })
    }
}

impl Published {
    fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let conflict = |text: &str| Err(setup::Error::Conflict(text.into()));
        if *options.is_json {
            return conflict("the JSON form has no published code; hint: use preset `paper` or `strict`");
        }
        check_options(options)?;
        if settings.weights.as_deref().is_some_and(|weights| weights != "gemba") {
            return conflict("preset `code` has GEMBA's own weights; hint: leave the weights out");
        }
        let shots_file = settings.has_shots(*options.has_shots)?.then_some(SHOTS);
        let files = shots_file.map_or_else(|| vec![ZERO_SHOT], |shots| vec![SYSTEM, TEXT, ANSWER, shots]);
        let prompts = Prompts::load(&files, settings)?;
        let judge = Self {
            shots: shots::load(&prompts, shots_file, settings)?,
            prompts,
            granularity: settings.granularity.unwrap_or_default(),
            max_tokens: settings.max_tokens,
        };
        judge.chat(&Texts::sample()).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// The errors are located in addition.
    fn judge_unit(&self, panel: &Panel, texts: &Texts) -> Result<Verdict, Error> {
        if texts.is_empty() {
            return Err(Error::nothing_to_judge());
        }
        gemba_api::ask(panel, ANNOTATE, &self.chat(texts)?, self.room(), |answer, reply| {
            let blocks = printed::read(answer);
            let mut errors = blocks.errors();
            confidence::note(reply, "error_span", &mut errors);
            mqm::locate::place(&mut errors, &texts.source, &texts.target);
            Some(Verdict::new(blocks.score(), errors))
        })
    }

    fn chat(&self, texts: &Texts) -> Result<tribunal_core::llm::Chat, Error> {
        text_chat(&self.prompts, &self.shots, texts, Preset::Code)
    }

    fn room(&self) -> TokenBudget {
        TokenBudget::budgeted(self.max_tokens)
    }
}
