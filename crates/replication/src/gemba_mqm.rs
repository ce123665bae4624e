//! GEMBA-MQM as its published program runs it (`gemba/gemba_mqm_utils.py`): its loop, its reader and its
//! score. [`tribunal_judges::gemba_mqm`] lists what differs.

use tribunal_core::{mqm, segment::Segment};
use tribunal_judges::{
    Judge, Panel, Preset, Protocol, Result, Settings, Verdict,
    answers::blocks::printed,
    confidence,
    declaration::{Answers, Declaration, SingleQuestion},
    gemba_mqm::{METHOD, NO_SHOTS, Options, THREE_SHOT, check_options},
    in_parallel,
    method::Calls,
    pair::Texts,
    prompt::File,
    setup::{self, GivenOptions},
};

use crate::gemba_api::{self, TokenBudget};

pub const SHOTS: File =
    File { name: "gemba_mqm/shots.code.jsonl", text: include_str!("gemba_mqm/shots.code.jsonl") };

/// GEMBA-MQM as published.
struct Published {
    question: SingleQuestion,
    budget: TokenBudget,
}

/// The judge of preset `code`.
///
/// # Errors
/// Options for which nothing is published, and prompts or shots that cannot be used.
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let options = Options::read(options);
    let no_code = "the JSON form has no published code; hint: use preset `paper` or `strict`";
    setup::reject(&[(*options.is_json, no_code)])?;
    check_options(&options)?;
    let has_weights = settings.weights.as_deref().is_some_and(|weights| weights != "gemba");
    setup::reject(&[(has_weights, "preset `code` has GEMBA's own weights; hint: leave the weights out")])?;
    // Nothing is published without examples: the question is then the paper's.
    let (text, preset) = if settings.has_shots(*options.has_shots)? {
        (Declaration { shots: Some(SHOTS), ..THREE_SHOT }, Preset::Code)
    } else {
        (NO_SHOTS, Preset::Paper)
    };
    let question = Declaration { answers: Answers::FreeBlocks, ..text };
    let question = SingleQuestion::load(&METHOD, question, &Settings { preset, ..settings.clone() })?;
    let (granularity, budget) = (question.granularity(), TokenBudget::budgeted(settings.max_tokens));
    let calls = Calls { most: budget.most_calls(), ..Calls::exactly(1) };
    let mut judge = Judge::new(question.provenance(), Published { question, budget }).with_calls(calls);
    (judge.grouping, judge.unit) = (granularity.grouping(), granularity.unit());
    Ok(judge)
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        in_parallel(&Texts::units(self.question.granularity(), group), |idx, texts| {
            self.judge_unit(&panel.about(idx), texts)
        })
    }
}

impl Published {
    /// The errors are located in addition.
    fn judge_unit(&self, panel: &Panel, texts: &Texts) -> Result<Verdict> {
        let chat = self.question.about(texts)?;
        gemba_api::ask(panel, self.question.stage(), &chat, self.budget, |answer, reply| {
            let blocks = printed::read(answer);
            let mut errors = blocks.errors();
            confidence::note(reply, "error_span", &mut errors);
            mqm::locate::place(&mut errors, &texts.source, &texts.target);
            Some(Verdict::new(blocks.score(), errors))
        })
    }
}
