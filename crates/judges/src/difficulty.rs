//! Difficulty of translating a source, from 1 to 10: the filter by which MENT's sentences were chosen. Tian
//! et al., "Beyond Literal Mapping", Appendix A.1, Figure 8. No translation is judged: there is one call per
//! source, and all its translations get the same verdict.
//!
//! Differs:
//! - Language. The figure says "English text"; ours says the source's language. All other words are the
//!   figure's.
//! - Where the text stands is not printed; ours puts it last, after `Text:`.
//! - Answers. `paper` reads the JSON that the prompt requests; `strict` constrains it, its reasons to 800
//!   characters.
//! - The paper does not say which scores are high enough to be kept; `--keep` takes a threshold or a share.
//! - `raw` is the difficulty; `score` is its negative, for everywhere a higher score promises better
//!   translations.
//! - The reasoning is in `calls.jsonl`.

use serde::Deserialize;

use super::{
    Error, Grouping, Judge, Method, Panel, Protocol, Provenance, Reads, Role, Stage, Verdict,
    method::Calls,
    prompt::{File, Prompts},
    reading,
    scale::{Scale, Unit},
    setup::{self, Preset, Settings},
};
use crate::{
    llm::{Chat, ResponseFormat, Sampling},
    segment::Segment,
};

const PROMPT: File =
    File { name: "difficulty/difficulty.j2", text: include_str!("difficulty/difficulty.j2") };
const FORM: File = File { name: "difficulty/form.json", text: include_str!("difficulty/form.json") };

/// Answer tokens of one question.
const BUDGET: usize = 512;

/// The stages of its calls.
const RATE: Stage = Stage::new("rate");

/// Metadata shown by `tribunal methods show difficulty`.
pub const METHOD: Method = Method {
    name: "difficulty",
    summary: "how hard a source is to translate, 1 to 10; no translation is read",
    citation: "Tian et al., Beyond Literal Mapping (MENT): Appendix A.1, Figure 8",
    stages: &[RATE],
    // One for all translations of a source.
    calls: Calls::exactly(1),
    answer_tokens: Some(106),
    scale: Scale::between(Unit::Difficulty, [-10.0, -1.0]).negated(),
    presets: &[Preset::Paper, Preset::Strict],
    options: &[],
    reads: Reads::SourcesOnly,
    ..Method::with(|settings, _| Ok(Difficulty::new(settings)?.into()))
};

/// A configured judge of difficulty.
pub struct Difficulty {
    prompts: Prompts,
    form: ResponseFormat,
    budget: usize,
}

impl Protocol for Difficulty {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        let Some(first) = group.first() else { return Vec::new() };
        let verdict = self
            .rate(panel, first)
            .map(|difficulty| Verdict { raw: difficulty, ..Verdict::new(-difficulty, Vec::new()) });
        vec![verdict; group.len()]
    }
}

impl From<Difficulty> for Judge {
    fn from(judge: Difficulty) -> Self {
        Self { grouping: Grouping::Source, ..Self::new(Provenance::of(&judge.prompts), judge) }
    }
}

impl Difficulty {
    /// Reads the settings and the prompt.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; weights and shots, which the method does not have.
    pub fn new(settings: &Settings) -> Result<Self, setup::Error> {
        if settings.weights.is_some() || settings.shots.is_some() {
            let reason =
                "difficulty has neither severity weights nor shots; hint: leave weights and shots out";
            return Err(setup::Error::Conflict(reason.into()));
        }
        let files = if settings.preset == Preset::Strict { vec![PROMPT, FORM] } else { vec![PROMPT] };
        let prompts = Prompts::load(&files, settings)?;
        let form = if settings.preset == Preset::Strict {
            let schema = prompts.render(FORM, ()).map_err(setup::Error::from_prompt)?;
            let unfit =
                |e: serde_json::Error| setup::Error::Prompt { file: FORM.name.into(), reason: e.to_string() };
            ResponseFormat::json(serde_json::from_str(&schema).map_err(unfit)?)
        } else {
            ResponseFormat::Text
        };
        let budget = settings.max_tokens.unwrap_or(BUDGET);
        let judge = Self { prompts, form, budget };
        judge.render("", "").map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn rate(&self, panel: &Panel, segment: &Segment) -> Result<f64, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Answer {
            score: i64,
            #[serde(rename = "reasoning")]
            _reasoning: String,
        }
        if segment.source.trim().is_empty() {
            return Err(Error::Empty("the source is empty".into()));
        }
        let sampling = Sampling { max_tokens: self.budget, ..panel.sampling.clone() };
        let reply = panel.ask_with(Role::Annotator, RATE, &self.chat(segment)?, &self.form, &sampling)?;
        let text = reading::whole(&reply, self.budget)?;
        let Answer { score, .. } = reading::json(text)?;
        if (1..=10).contains(&score) {
            return Ok(score as f64);
        }
        Err(reading::unusable(text, &format!("score `{score}` is not in 1 to 10")))
    }

    fn chat(&self, segment: &Segment) -> Result<Chat, Error> {
        self.render(segment.src_lang.name(), &segment.source)
    }

    fn render(&self, source_lang: &str, source: &str) -> Result<Chat, Error> {
        let values = serde_json::json!({ "source_lang": source_lang, "source": source });
        Ok(Chat::new().user(self.prompts.render(PROMPT, values)?))
    }
}
