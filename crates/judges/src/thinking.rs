//! A judge that thinks before it answers, for reasoning models: first the thought, within a budget of tokens, then
//! the errors in a form. `ThinMQM` (Zhan et al. 2025) as the RATE paper runs it (Appendix F.2.3). It
//! scores no thought: thoughts are kept in `calls.jsonl` alone.
//!
//! Differs:
//! - `ThinMQM`'s template is printed in no paper at hand; the prompt is ours, and there is no other preset.
//! - Sampling. RATE: temperature 0.6, top-p 0.95. Ours the same by default, for thought and answer, with the
//!   run's seed: the same seed gives the same verdict.
//! - Budget. `ThinMQM` trains its models to think about 35 times less; any model is held to `budget` tokens here:
//!   a thought that is longer is closed where it stands, and the answer follows.
//! - Answer. After the thought it is constrained as in [`super::gemba_mqm`]'s strict JSON form, at most 10 errors.
//! - Weights are printed nowhere; ours are `gemba` by default.
//! - A segment whose source and hypothesis are both empty is not asked about: it has no verdict.

use super::{
    Error, Judge, Materials, Method, Panel, Role, Stage, Verdict,
    answers::errors::{Layout, Target},
    in_parallel,
    method::Calls,
    prompt::{File, Prompts},
    reading,
    setup::{self, Choice, Granularity, Options, Preset, Settings},
};
use crate::{
    llm::{Chat, Form, Sampling, Thought},
    mqm::{self, weights::Weights},
    segment::Segment,
};

const PROMPT: File = File { name: "thinking/thinking.j2", text: include_str!("thinking/thinking.j2") };

/// Answer tokens after the thought.
const BUDGET: usize = 1024;

/// The most errors that an answer may name.
const MAX_ERRORS: usize = 10;

/// The questions that it asks.
const ANSWER: Stage = Stage::new("answer");
const THINK: Stage = Stage::new("think");

/// What `tribunal methods show thinking` says.
pub const METHOD: Method = Method {
    name: "thinking",
    summary: "a reasoning model thinks within a budget, then names the errors",
    citation: "ThinMQM as in RATE, Appendix F.2.3 (sampling); the prompt is ours",
    stages: &[THINK, ANSWER],
    roles: &[Role::Annotator],
    calls: Calls::exactly(2),
    scale: "negative penalty, 0 is best and higher is better; with da=on 0 to 100, higher is better",
    granularities: &[Granularity::Seg],
    presets: &[Preset::Strict],
    weights: Some("gemba"),
    options: &[
        Choice { name: "budget", values: &["2048", "<number>"], meaning: "tokens of a thought, at most" },
        Choice { name: "temperature", values: &["0.6", "<number>"], meaning: "of thought and answer" },
        Choice { name: "top-p", values: &["0.95", "<number>"], meaning: "of thought and answer" },
        Choice { name: "da", values: &["off", "on"], meaning: "ask for a score of 0 to 100 and use it" },
    ],
    build: |settings, options| Ok(Box::new(Thinking::new(settings, options)?)),
};

/// The judge as it was asked for.
pub struct Thinking {
    prompts: Prompts,
    weights: &'static Weights,
    layout: Layout,
    thought_budget: usize,
    temperature: f32,
    top_p: f32,
    budget: usize,
}

impl Judge for Thinking {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| self.judge_segment(&panel.about(idx), segment))
    }

    fn materials(&self) -> Materials {
        Materials::of(&self.prompts)
    }

    fn sampling(&self, asked: &Sampling) -> Sampling {
        let Self { temperature, top_p, .. } = *self;
        Sampling { temperature, top_p, ..asked.clone() }
    }
}

impl Thinking {
    /// Reads the settings and the prompt.
    ///
    /// # Errors
    /// What [`super::registry::build`] names; shots, which the method does not have; numbers out of range.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let conflict = |reason: &str| setup::Error::Conflict(reason.into());
        if settings.shots.is_some() {
            return Err(conflict("thinking has no shots; hint: leave them out"));
        }
        // The descriptor takes numbers only.
        let number = |name: &str| options.number(name).unwrap_or(0.0);
        let (budget, top_p) = (number("budget"), number("top-p"));
        if budget.fract() != 0.0 || budget < 1.0 {
            return Err(conflict("`budget` is a whole number of tokens from 1"));
        }
        if top_p <= 0.0 || top_p > 1.0 {
            return Err(conflict("`top-p` is a number above 0, at most 1"));
        }
        let layout = Layout {
            is_strict: true,
            explain: true,
            quality: options.is_on("da"),
            target: Target::Translation,
        };
        let judge = Self {
            prompts: Prompts::load(&[&[PROMPT], layout.files().as_slice()].concat(), settings)?,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
            layout,
            thought_budget: budget as usize,
            temperature: number("temperature") as f32,
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
        let thought = self.think(panel, chat.clone())?;
        self.answer(panel, chat, thought, segment)
    }

    /// The thought, whole or cut at its budget.
    fn think(&self, panel: &Panel, chat: Chat) -> Result<String, Error> {
        let stop = vec!["</think>".into()];
        let max_tokens = self.thought_budget;
        let sampling = Sampling { max_tokens, stop, ..self.sampling(&panel.sampling) };
        let reply = panel.ask_with(Role::Annotator, THINK, &open(chat), &Form::Text, &sampling)?;
        Ok(reply.text.trim().to_owned())
    }

    fn answer(
        &self,
        panel: &Panel,
        chat: Chat,
        thought: String,
        segment: &Segment,
    ) -> Result<Verdict, Error> {
        let chat = Chat { thought: Some(Thought::Closed(thought)), ..chat };
        let form = self.layout.form(&self.prompts, MAX_ERRORS, &segment.source, &segment.hypothesis)?;
        let sampling = Sampling { max_tokens: self.budget, ..self.sampling(&panel.sampling) };
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

/// The same chat where the reply is the thought.
fn open(chat: Chat) -> Chat {
    Chat { thought: Some(Thought::Open), ..chat }
}
