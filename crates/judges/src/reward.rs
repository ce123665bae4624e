//! REWARD: the output of a reward model's score head after a chat whose last turn is the translation. One
//! chat, nothing is generated, and no errors are named. The scale is that of the model. The method is ours;
//! models with a published prompt of their own have a method of their own ([`super::remedy`]).

use serde_json::json;

use super::{
    Error, Judge, Method, Panel, Preset, Protocol, Provenance, Result, Role, Stage, Verdict,
    method::Output,
    prompt::{File, Prompts, file},
    scale::{Scale, Unit},
    setup::{self, GivenOptions, Settings, options},
};
use crate::{llm::Chat, segment::Segment};

const PROMPT: File = file!("reward/reward.j2");

/// The stage of its calls.
pub(super) const SCORE: Stage = Stage::new("score");

/// Outputs of a score head.
pub(super) const OUTPUTS: Scale = Scale::between(Unit::HeadOutput, [f64::NEG_INFINITY, f64::INFINITY]);

/// Their logistic function.
pub(super) const SIGMOID: Scale = Scale::between(Unit::HeadOutput, [0.0, 1.0]);

/// The option `score` in words.
pub(super) const SCORE_MEANING: &str = "the head's output, or its logistic function, 0 to 1";

/// Metadata shown by `tribunal methods show reward`.
pub const METHOD: Method = Method {
    name: "reward",
    summary: "the score head of a reward model, after a request for a translation and the translation",
    citation: "ours; for reward models such as Skywork-Reward and Seed-X-RM",
    stages: &[SCORE],
    answer_tokens: Some([0, 0]),
    scale: OUTPUTS,
    scales: &[(&[("score", &["sigmoid"])], SIGMOID)],
    presets: &[Preset::Strict],
    options: RewardOptions::CHOICES,
    common: &[],
    output: Output::Head,
    ..Method::with(build)
};

options! {
    /// Options of REWARD.
    pub struct RewardOptions {
        "score" is_raw: bool = { "raw" => true, "sigmoid" => false },
            SCORE_MEANING;
        "output" output: Option<f64> = { "auto" => None, <number> Some },
            "the output that is read, from 1; auto: the only one";
    }
}

/// A configured REWARD judge.
struct Reward {
    prompts: Prompts,
    is_raw: bool,
    output: Option<usize>,
}

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    settings.check_neither_weights_nor_shots(METHOD.name)?;
    let options = RewardOptions::read(options);
    setup::reject(&[(
        options.output.is_some_and(|output| output.fract() != 0.0 || output < 1.0),
        "`output` is the number of one of the head's outputs, from 1",
    )])?;
    let output = options.output.map(|output| output as usize);
    let judge = Reward { prompts: Prompts::load(&[PROMPT], settings)?, is_raw: *options.is_raw, output };
    judge.rendered(["", "", ""]).map_err(setup::Error::from_prompt)?;
    let provenance = Provenance::of(&judge.prompts);
    Ok(Judge::new(provenance, judge).of_head(output))
}

impl Protocol for Reward {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        score_each(panel, group, self.output, self.is_raw, |segment| {
            let texts = [segment.src_lang.name(), segment.tgt_lang.name(), &segment.source];
            Ok(Chat::new().user(self.rendered(texts)?).assistant(&*segment.hypothesis))
        })
    }
}

impl Reward {
    fn rendered(&self, [source_lang, target_lang, source]: [&str; 3]) -> Result<String> {
        let values = json!({"source_lang": source_lang, "target_lang": target_lang, "source": source});
        self.prompts.render(PROMPT, values)
    }
}

/// Verdicts on segments by one output of a score head, from 1, or by its only one.
pub(super) fn score_each(
    panel: &Panel,
    group: &[Segment],
    output: Option<usize>,
    is_raw: bool,
    chat: impl Fn(&Segment) -> Result<Chat> + Sync,
) -> Vec<Result<Verdict>> {
    panel.each_segment(group, |panel, segment| {
        let outputs = panel.score(Role::Annotator, SCORE, &chat(segment)?)?;
        let raw = outputs.get(output.unwrap_or(1) - 1).filter(|_| output.is_some() || outputs.len() == 1);
        let raw = *raw.ok_or_else(|| Error::Failed(format!("the head has {} outputs", outputs.len())))?;
        let score = if is_raw { raw } else { 1.0 / (1.0 + (-raw).exp()) };
        Ok(Verdict { raw, ..Verdict::new(score, Vec::new()) })
    })
}
