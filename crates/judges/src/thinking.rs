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
    Judge, Method, Role, Stage,
    answers::{
        chances::Scoring,
        errors::{AnswerFormat, Target},
    },
    declaration::{self, Answers, Declaration, Layout},
    method::Calls,
    panel::reasoning::Thought,
    prompt::{File, file},
    scale::Scale,
    setup::{self, GivenOptions, Preset, Settings, options},
};

const PROMPT: File = file!("thinking/thinking.j2");

/// The stages of its calls.
const ANSWER: Stage = Stage::new("answer");
const THINK: Stage = Stage::new("think");

/// Metadata shown by `tribunal methods show thinking`.
pub const METHOD: Method = Method {
    name: "thinking",
    summary: "a reasoning model thinks within a budget, then names the errors",
    citation: "ThinMQM as in RATE, Appendix F.2.3 (sampling); the prompt is ours",
    papers: &["zhan-etal-2025-large", "tian-etal-2026-beyond"],
    stages: &[THINK, ANSWER],
    calls: Calls::exactly(2),
    scale: Scale::PENALTY,
    scales: &[(&[("da", &["on"])], Scale::PERCENT)],
    presets: &[Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    common: &[],
    ..Method::with(build)
};

const FORMAT: AnswerFormat =
    AnswerFormat { is_strict: true, explain: true, quality: false, target: Target::Translation };

const QUESTION: Declaration = Declaration {
    stage: ANSWER,
    role: Role::Annotator,
    prompt: Layout::Message(PROMPT),
    shows_reference: false,
    shots: None,
    thought: Some((THINK, Thought { max_tokens: 2048, temperature: 0.6, top_p: 0.95 })),
    answers: Answers::Errors { format: FORMAT, scoring: Scoring::Errors },
    budget: 1024,
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

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let options = Options::read(options);
    let (budget, top_p) = (*options.budget, *options.top_p);
    setup::reject(&[
        (budget.fract() != 0.0 || budget < 1.0, "`budget` is a whole number of tokens from 1"),
        (top_p <= 0.0 || top_p > 1.0, "`top-p` is a number above 0, at most 1"),
    ])?;
    let temperature = *options.temperature as f32;
    let thought = Thought { max_tokens: budget as usize, temperature, top_p: top_p as f32 };
    let question = Declaration { thought: Some((THINK, thought)), ..QUESTION };
    if !*options.quality {
        return declaration::judge(&METHOD, question, settings);
    }
    let format = AnswerFormat { quality: true, ..FORMAT };
    let answers = Answers::Errors { format, scoring: Scoring::Quality };
    declaration::judge(&METHOD, Declaration { answers, ..question }, settings)
}
