//! MQM-APE: GEMBA-MQM's errors, each weighed by whether a translation without it is better. Lu et al.,
//! "MQM-APE: Toward High-Quality Error Annotation Predictors with Automatic Post-Editing in LLM Translation
//! Evaluators" (COLING 2025). The published program is preset `code`.
//!
//! Differs:
//! - Errors. Code: GEMBA-MQM's question, its answer read line by line. `strict` asks [`super::gemba_mqm`]'s
//!   strict question: spans are verbatim, repeated errors are merged.
//! - Correction. Code: the line behind `Corrected Translation`, or the first line of any other answer.
//!   `strict` enforces `Corrected Translation:` and asks up to three times for one that is not empty.
//! - A correction that changes nothing. Code: compared as any other. `strict`: a tie, without a question.
//! - Comparison, in both orders. Code: a reader that takes any answer, at worst as B; no answer ends the
//!   program (here: no verdict). `strict` allows A and B only.
//! - Outcome. Paper: errors whose correction is not better are dropped. Code and ours: the correction wins in
//!   both orders, 1; the translation wins in both, 0; else one half. Errors that count 0 stay, without a
//!   penalty.
//! - Score. Code: 25, 5 and 1 for each error, at most 25 (weights `mqm-ape`).
//! - Beyond the paper: the correction that won is the error's suggestion.

use serde_json::json;

use super::{
    Judge, Method, Panel, Protocol, Result, Role, Stage, Step, Verdict,
    declaration::{Declaration, SingleQuestion},
    gemba_mqm::{ANNOTATE, THREE_SHOT},
    in_parallel,
    method::Calls,
    pair::Texts,
    pairwise::{Order, both_orders},
    panel::Retry,
    prompt::{File, Prompts, file},
    reading,
    scale::Scale,
    setup::{self, Preset, Settings},
};
use crate::{
    llm::{Chat, ResponseFormat},
    mqm::{ErrorSpan, weights::Weights},
    segment::Segment,
};

const CORRECTION: File = file!("mqm_ape/correct.j2");
const COMPARISON: File = file!("mqm_ape/compare.j2");

/// The stages of its calls, after that of GEMBA-MQM.
pub const CORRECT: Stage = Stage::new("correct");
pub const COMPARE: Stage = Stage::new("compare");

/// Answer tokens of a correction and of a comparison.
pub const BUDGETS: [usize; 2] = [512, 256];

/// The beginning of a correction.
const LEAD: &str = "Corrected Translation:";

/// Metadata shown by `tribunal methods show mqm-ape`.
pub const METHOD: Method = Method {
    name: "mqm-ape",
    summary: "the errors of gemba-mqm, each weighed by whether its correction is better",
    citation: "Lu et al. 2025, MQM-APE (COLING); the authors' repository (code)",
    papers: &["lu-etal-2025-mqm"],
    stages: &[ANNOTATE, CORRECT, COMPARE],
    roles: &[Role::Annotator, Role::Editor, Role::Comparer],
    // One for the errors, and three for each of them: in `strict` at most five of each of three severities.
    calls: Calls { least: 1, typical: 7, most: 46 },
    marks: Some(
        "an error counts in full if its correction was better in both orders, half if the orders disagree, and \
         not at all if the translation was better",
    ),
    presets: &[Preset::Code, Preset::Strict],
    weights: Some("mqm-ape"),
    scale: Scale::PENALTY,
    ..Method::with(|settings, _| MqmApe::new(settings).map(built))
};

/// Result of comparing a translation with its correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Correction,
    Translation,
    Tie,
}

impl Outcome {
    /// From the winners in both orders; `true` is the correction.
    pub fn from_winners(is_better: [bool; 2]) -> Self {
        match is_better {
            [true, true] => Self::Correction,
            [false, false] => Self::Translation,
            _ => Self::Tie,
        }
    }

    /// From a comparison in both orders. `is_a_better` returns true if translation A is better in an order;
    /// its question is this step.
    ///
    /// # Errors
    /// Those of `is_a_better`.
    pub fn of_both_orders(
        part: &str,
        is_a_better: impl Fn(Order, Step) -> Result<bool> + Sync,
    ) -> Result<Self> {
        let is_correction_better = |order| {
            // Swapped, the correction is A.
            let is_swapped = order == Order::Swapped;
            let step = COMPARE.about(part).round(1 + usize::from(is_swapped));
            Ok(is_a_better(order, step)? == is_swapped)
        };
        Ok(Self::from_winners(both_orders(is_correction_better)?))
    }

    /// The error with its share of a penalty, and with the correction that won.
    pub fn weigh(self, error: &ErrorSpan, correction: String) -> ErrorSpan {
        let (share, suggestion) = match self {
            Self::Correction => (1.0, Some(correction)),
            Self::Tie => (0.5, None),
            Self::Translation => (0.0, None),
        };
        ErrorSpan { weight: share * error.weight, suggestion, ..error.clone() }
    }
}

/// A configured judge.
struct MqmApe {
    questions: Questions,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// Its questions: that of GEMBA-MQM, and its own.
pub struct Questions {
    pub errors: SingleQuestion,
    preset: Preset,
}

impl Questions {
    /// Reads the prompts, with this question about errors.
    ///
    /// # Errors
    /// The errors of [`SingleQuestion::load`].
    pub fn load(errors: Declaration, settings: &Settings) -> setup::Result<Self> {
        let files =
            errors.files(settings.preset).into_iter().chain([CORRECTION, COMPARISON]).collect::<Vec<_>>();
        let errors =
            SingleQuestion::with_prompts(&METHOD, errors, Prompts::load(&files, settings)?, settings)?;
        let questions = Self { errors, preset: settings.preset };
        let (sample, error) = (Texts::sample(), ErrorSpan::new("", "a", crate::mqm::Severity::Minor));
        questions.correction(&sample, &error).map_err(setup::Error::from_prompt)?;
        questions.comparison(&sample, "b", Order::AsGiven).map_err(setup::Error::from_prompt)?;
        Ok(questions)
    }

    /// The question for a translation without an error.
    ///
    /// # Errors
    /// Those of [`Prompts::render`].
    pub fn correction(&self, texts: &Texts, error: &ErrorSpan) -> Result<Chat> {
        let mut values = texts.query().shown(self.preset);
        values["category"] = json!(error.category);
        values["span"] = json!(error.span);
        Ok(Chat::new().user(self.errors.prompts().render(CORRECTION, values)?))
    }

    /// The question which of the translation and its correction is better, in an order.
    ///
    /// # Errors
    /// Those of [`Prompts::render`].
    pub fn comparison(&self, texts: &Texts, correction: &str, order: Order) -> Result<Chat> {
        let mut values = texts.query().shown(self.preset);
        let target = values["target"].as_str().unwrap_or_default().to_owned();
        let (a, b) = order.put(&target, correction);
        (values["a"], values["b"]) = (json!(a), json!(b));
        Ok(Chat::new().user(self.errors.prompts().render(COMPARISON, values)?))
    }
}

fn built(judge: MqmApe) -> Judge {
    Judge::new(judge.questions.errors.provenance(), judge)
}

impl Protocol for MqmApe {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        in_parallel(group, |idx, segment| self.judge_segment(&panel.about(idx), &Texts::of(segment)))
    }
}

impl MqmApe {
    fn new(settings: &Settings) -> setup::Result<Self> {
        let weights = settings.weights("mqm-ape", settings.granularity.unwrap_or_default())?;
        let questions = Questions::load(THREE_SHOT, settings)?;
        Ok(Self { questions, weights, max_tokens: settings.max_tokens })
    }

    fn judge_segment(&self, panel: &Panel, texts: &Texts) -> Result<Verdict> {
        let named = self.questions.errors.judge_unit(panel, texts)?.errors;
        let weighed = in_parallel(&named, |idx, error| self.weighed(panel, texts, idx, error));
        let errors = weighed.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Verdict::new(self.weights.score(&errors), errors))
    }

    /// An error with its penalty and its suggestion.
    fn weighed(&self, panel: &Panel, texts: &Texts, idx: usize, error: &ErrorSpan) -> Result<ErrorSpan> {
        let part = (idx + 1).to_string();
        let correction = self.correct(panel, texts, error, &part)?;
        if correction == texts.target.trim() {
            return Ok(Outcome::Tie.weigh(error, correction));
        }
        let outcome = Outcome::of_both_orders(&part, |order, step| {
            let chat = self.questions.comparison(texts, &correction, order)?;
            self.is_a_better(panel, step, &chat)
        })?;
        Ok(outcome.weigh(error, correction))
    }

    /// A translation without the error.
    fn correct(&self, panel: &Panel, texts: &Texts, error: &ErrorSpan, part: &str) -> Result<String> {
        let chat = self.questions.correction(texts, error)?;
        // A translation of one line is corrected in one line.
        let any = if texts.target.trim().contains('\n') { "(?s:.+)" } else { r"[^\n]+" };
        let form = ResponseFormat::Regex(format!("{LEAD}{any}"));
        let question = panel.question(&chat, &form, self.max_tokens.unwrap_or(BUDGETS[0]));
        panel.ask_until(Role::Editor, CORRECT.about(part), &question, Retry::AGENT, |reply| {
            read_correction(&reply.text, &texts.target)
        })
    }

    /// True if translation A is better.
    fn is_a_better(&self, panel: &Panel, step: Step, chat: &Chat) -> Result<bool> {
        let form = ResponseFormat::Choice(["A", "B"].map(str::to_owned).into());
        let question = panel.question(chat, &form, self.max_tokens.unwrap_or(BUDGETS[1]));
        let reply = panel.answer(Role::Comparer, step, &question)?;
        match reply.text.trim() {
            "A" => Ok(true),
            "B" => Ok(false),
            other => Err(reading::unusable(other, "neither `A` nor `B`")),
        }
    }
}

/// The correction of an answer, without quotes that the translation does not have.
fn read_correction(answer: &str, translation: &str) -> Result<String> {
    let unusable = |reason: &str| reading::unusable(answer, reason);
    let text =
        answer.trim().strip_prefix(LEAD).ok_or_else(|| unusable("no `Corrected Translation:`"))?.trim();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let text = inner.filter(|_| !translation.trim().starts_with('"')).unwrap_or(text).trim();
    if text.is_empty() { Err(unusable("an empty correction")) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections() {
        let read = |answer: &str, translation: &str| read_correction(answer, translation).ok();
        assert_eq!(read("Corrected Translation: Er saß.", "x"), Some("Er saß.".into()));
        assert_eq!(read("Corrected Translation: \"Er saß.\"\n", "x"), Some("Er saß.".into()));
        assert_eq!(read("Corrected Translation: \"Er\" \"saß\"", "\"x\""), Some("\"Er\" \"saß\"".into()));
        assert_eq!(read("Corrected Translation: \"\"", "x"), None);
        assert_eq!(read("Er saß.", "x"), None);
    }

    #[test]
    fn outcomes_of_both_orders() {
        let error = ErrorSpan { weight: 5.0, ..ErrorSpan::new("other", "a", crate::mqm::Severity::Major) };
        let of = |won| {
            let weighed = Outcome::from_winners(won).weigh(&error, "b".into());
            (weighed.weight, weighed.suggestion)
        };
        assert_eq!(of([true, true]), (5.0, Some("b".into())));
        assert_eq!(of([true, false]), (2.5, None));
        assert_eq!(of([false, true]), (2.5, None));
        assert_eq!(of([false, false]), (0.0, None));
    }
}
