//! GEMBA-ESA as its published programs run it: Microsoft's submission of WMT 2024 (`gemba/gemba_esa.py`), and
//! the baseline of WMT 2026 ([`wmt26`]). [`tribunal_judges::gemba_esa`] lists what differs.

use tribunal_core::{
    mqm::{self, ErrorSpan, Repeats, weights::Weights},
    segment::Segment,
};
use tribunal_judges::{
    Error, Judge, Panel, Protocol, Result, Settings, Verdict,
    answers::blocks::printed,
    confidence,
    gemba_esa::{Edition, Options, Questions, SCORE_STAGE, SPANS_STAGE, check_options},
    method::Calls,
    setup::{self, GivenOptions},
};

use crate::{
    gemba_api::{self, TokenBudget},
    gemba_ratings::number,
};

mod wmt26;

/// The submission of WMT 2024.
struct Published {
    questions: Questions,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// The judge of preset `code`, in either edition.
///
/// # Errors
/// Options for which nothing is published, and prompts or shots that cannot be used.
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let gemba_options = options;
    let options = Options::read(gemba_options);
    check_options(settings, &options, gemba_options)?;
    if *options.edition == Edition::Wmt26 {
        return wmt26::build(settings, &options);
    }
    if *options.is_expected {
        let reason = "preset `code` has its own score; hint: leave `score` out, or use preset `strict`";
        return Err(setup::Error::Conflict(reason.into()));
    }
    let judge = Published {
        questions: Questions::new(settings, &options)?,
        weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
        max_tokens: settings.max_tokens,
    };
    // Errors may be in any words; a score must be a number.
    let most = 2 * judge.room().most_calls() + usize::from(gemba_api::HOTTER);
    let calls = Calls { most, ..Calls::exactly(2) };
    Ok(Judge::new(judge.questions.provenance(), judge).with_calls(calls))
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

impl Published {
    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let (answer, errors) = self.spans(panel, segment)?;
        let chat = self.questions.score(segment, &answer)?;
        let score = gemba_api::ask(panel, SCORE_STAGE, &chat, self.room(), |answer, _| number(answer))?;
        let (source, target) = (&segment.source, &segment.hypothesis);
        let (errors, _) = mqm::assess(errors, source, target, Repeats::Charged, self.weights);
        Ok(Verdict { quality_score: Some(score), ..Verdict::new(score, errors) })
    }

    /// Any answer is accepted, even a missing one.
    fn spans(&self, panel: &Panel, segment: &Segment) -> Result<(String, Vec<ErrorSpan>)> {
        let chat = self.questions.spans(segment)?;
        let answer = gemba_api::ask(panel, SPANS_STAGE, &chat, self.room(), |answer, reply| {
            let mut errors = printed::read(answer).errors();
            confidence::note(reply, "span", &mut errors);
            Some((answer.to_owned(), errors))
        });
        match answer {
            // Python's `format` of a missing answer.
            Err(Error::Truncated(_)) => Ok(("None".into(), Vec::new())),
            answer => answer,
        }
    }

    fn room(&self) -> TokenBudget {
        TokenBudget::free(self.max_tokens)
    }
}
