//! THINKING: a judge for reasoning models: first the thought, within a budget of tokens, then the errors in a
//! form. `ThinMQM` (Zhan et al. 2025) as the RATE paper runs it (Appendix F.2.3). Thoughts are not scored:
//! they are kept in `calls.jsonl` alone.
//!
//! Differs:
//! - `ThinMQM`'s template is not printed in a paper: RATE's appendix names the model (ThinMQM-32B), the
//!   sampling, and for the template github.com/NLP2CT/ThinMQM, which was not read. The prompt is ours, and
//!   there are no presets `paper` and `code`.
//! - Sampling. RATE: temperature 0.6, top-p 0.95. Ours the same by default, for thought and answer, with the
//!   run's seed: the same seed gives the same verdict.
//! - Budget. `ThinMQM` trains its models to think about 35 times less; any model is held to `budget` tokens
//!   here: a thought that is longer is closed where it stands, and the answer follows.
//! - Answer. After the thought it is constrained as in [`super::gemba_mqm`]'s strict JSON form, at most 10
//!   errors.
//! - Weights are printed nowhere; ours are `gemba` by default.
//! - Repeats: as many namings of one span and type are charged as the span has occurrences.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    answers::errors::{AnswerFormat, Target},
    in_parallel,
    method::Calls,
    panel::reasoning,
    prompt::{File, Prompts},
    reading,
    scale::Scale,
    setup::{self, Preset, Settings, options},
};
use crate::{
    llm::{Chat, Effort, Sampling},
    mqm::{self, weights::Weights},
    segment::Segment,
};

const PROMPT: File = File { name: "thinking/thinking.j2", text: include_str!("thinking/thinking.j2") };

/// Answer tokens after the thought.
const BUDGET: usize = 1024;

/// Maximum number of errors of an answer.
const MAX_ERRORS: usize = 10;

/// The stages of its calls.
const ANSWER: Stage = Stage::new("answer");
const THINK: Stage = Stage::new("think");

/// Metadata shown by `tribunal methods show thinking`.
pub const METHOD: Method = Method {
    name: "thinking",
    summary: "a reasoning model thinks within a budget, then names the errors",
    citation: "ThinMQM as in RATE, Appendix F.2.3 (sampling); the prompt is ours",
    stages: &[THINK, ANSWER],
    calls: Calls::exactly(2),
    scale: Scale::PENALTY,
    scales: &[(&[("da", &["on"])], Scale::PERCENT)],
    presets: &[Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    common: &[],
    ..Method::with(|settings, options| Ok(Thinking::new(settings, &Options::read(options))?.into()))
};

options! {
    /// Options of THINKING.
    pub struct Options {
        "budget" budget: f64 = { "2048" => 2048.0, <number> |n| n }, "tokens of a thought, at most";
        "temperature" temperature: f64 = { "0.6" => 0.6, <number> |n| n }, "of thought and answer";
        "top-p" top_p: f64 = { "0.95" => 0.95, <number> |n| n }, "of thought and answer";
        "da" quality: bool = { "off" => false, "on" => true }, "ask for a score of 0 to 100 and use it";
    }
}

/// A configured THINKING judge.
pub struct Thinking {
    prompts: Prompts,
    weights: &'static Weights,
    layout: AnswerFormat,
    thought_budget: usize,
    temperature: f32,
    top_p: f32,
    budget: usize,
}

impl Protocol for Thinking {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| self.judge_segment(&panel.about(idx), segment))
    }
}

impl From<Thinking> for Judge {
    fn from(judge: Thinking) -> Self {
        let sampled_at = Some([judge.temperature, judge.top_p]);
        Self { sampled_at, ..Self::new(Provenance::of(&judge.prompts), judge) }
    }
}

impl Thinking {
    /// Reads the settings and the prompt.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; shots, which the method does not have; numbers out of range.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let conflict = |reason: &str| setup::Error::Conflict(reason.into());
        if settings.shots.is_some() {
            return Err(conflict("thinking has no shots; hint: leave them out"));
        }
        let (budget, top_p) = (*options.budget, *options.top_p);
        if budget.fract() != 0.0 || budget < 1.0 {
            return Err(conflict("`budget` is a whole number of tokens from 1"));
        }
        if top_p <= 0.0 || top_p > 1.0 {
            return Err(conflict("`top-p` is a number above 0, at most 1"));
        }
        let layout = AnswerFormat {
            is_strict: true,
            explain: true,
            quality: *options.quality,
            target: Target::Translation,
        };
        let judge = Self {
            prompts: Prompts::load(&[&[PROMPT], layout.files().as_slice()].concat(), settings)?,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
            layout,
            thought_budget: budget as usize,
            temperature: *options.temperature as f32,
            top_p: top_p as f32,
            budget: settings.max_tokens.unwrap_or(BUDGET),
        };
        judge.render(["", "a", "", "b"]).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict, Error> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.chat(segment)?;
        let thought = self.think(panel, &chat)?;
        self.answer(panel, &chat, &thought, segment)
    }

    fn sampling(&self, panel: &Panel) -> Sampling {
        Sampling { temperature: self.temperature, top_p: self.top_p, ..panel.sampling.clone() }
    }

    /// The thought, whole or cut at its budget.
    fn think(&self, panel: &Panel, chat: &Chat) -> Result<String, Error> {
        let sampling = Sampling { max_tokens: self.thought_budget, ..self.sampling(panel) };
        Ok(panel.reason(Role::Annotator, THINK, (chat, Effort::default(), &sampling), 0)?.text)
    }

    fn answer(&self, panel: &Panel, chat: &Chat, thought: &str, segment: &Segment) -> Result<Verdict, Error> {
        let chat = reasoning::answering(chat, Effort::default(), thought);
        let form = self.layout.form(&self.prompts, MAX_ERRORS, &segment.source, &segment.hypothesis)?;
        let sampling = Sampling { max_tokens: self.budget, ..self.sampling(panel) };
        let reply = panel.ask_with(Role::Annotator, ANSWER, &chat, &form, &sampling)?;
        let answer = self.layout.read(reading::whole(&reply, self.budget)?)?.weighed(&reply);
        Ok(answer.verdict(&segment.source, &segment.hypothesis, self.weights, self.layout.quality))
    }

    fn chat(&self, segment: &Segment) -> Result<Chat, Error> {
        self.render([segment.src_lang.name(), &segment.source, segment.tgt_lang.name(), &segment.hypothesis])
    }

    fn render(&self, [source_lang, source, target_lang, target]: [&str; 4]) -> Result<Chat, Error> {
        let values = serde_json::json!({
            "schema": self.layout.schema(&self.prompts, MAX_ERRORS)?,
            "source_lang": source_lang, "source": source, "target_lang": target_lang, "target": target,
        });
        Ok(Chat::new().user(self.prompts.render(PROMPT, values)?))
    }
}
