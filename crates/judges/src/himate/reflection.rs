//! Stage 2 of HiMATE: an agent corrects the error that it has found and compares (section 3.3, Table 9). The
//! consequences are drawn in the parent.

use serde_json::{Value, json};

use super::{
    HiMate, Task,
    answer::{self, Finding, LETTERS},
    stages,
};
use crate::{
    Error, Result, Role,
    llm::{Chat, Reply, ResponseFormat, Scored},
    pairwise::{self, Order},
    prompt::{File, file},
};

const CORRECT_SYSTEM: File = file!("himate/correct_system.j2");
const CORRECT: File = file!("himate/correct.j2");
const COMPARE_SYSTEM: File = file!("himate/compare_system.j2");
const COMPARE: File = file!("himate/compare.j2");

pub(super) const FILES: &[File] = &[CORRECT_SYSTEM, CORRECT, COMPARE_SYSTEM, COMPARE];

/// Answer tokens of a comparison, which may repeat its sentence; a correction may take as many as its texts
/// have characters, and at least these.
const COMPARE_BUDGET: usize = 48;
const CORRECT_BUDGET: usize = 256;

/// Result of self-reflection on an error.
pub(super) struct Reflection {
    pub correction: String,
    pub compared: Compared,
}

/// Result of a comparison.
pub(super) struct Compared {
    pub is_confirmed: bool,
    /// Sum or mean of log-probabilities, within the form.
    pub confidence: f64,
    /// The answer's probability within the form: 0 to 1.
    pub probability: f64,
}

impl HiMate {
    /// Stage 2, self-reflection: correction and comparison (Equations 2 and 3, Table 9 middle and right).
    /// `None` when the correction leaves the translation unchanged: then there is nothing to compare.
    pub(super) fn reflect(&self, task: &Task, found: &Finding) -> Result<Option<Reflection>> {
        let mut values = self.values(task.segment, task.subtype);
        values["information"] = json!(self.information(task.subtype, found)?);
        let correction = self.correct(task, &values)?;
        if is_same(&correction, &task.segment.hypothesis) {
            return Ok(None);
        }
        values["correction"] = json!(correction);
        let compared =
            if self.is_weighed { self.weigh(task, &values)? } else { self.compare(task, &values)? };
        Ok(Some(Reflection { correction, compared }))
    }

    fn correct(&self, task: &Task, values: &Value) -> Result<String> {
        let chat = self.two_turns(CORRECT_SYSTEM, CORRECT, values)?;
        let hypothesis = &task.segment.hypothesis;
        let n_chars = hypothesis.chars().count().max(task.segment.source.chars().count());
        let form = self.json_form(answer::CORRECT, json!({ "max_chars": 2 * n_chars + 100 }))?;
        let question =
            task.panel.question(&chat, &form, self.max_tokens.unwrap_or(CORRECT_BUDGET.max(n_chars)));
        task.ask(Role::Tier2, stages::CORRECT, &question, |reply| {
            answer::read_correction(&reply.text, hypothesis, self.preset)
        })
    }

    /// The comparison as the authors ask it: one question, answered with a letter.
    fn compare(&self, task: &Task, values: &Value) -> Result<Compared> {
        let chat = self.comparison_chat(values.clone(), Order::AsGiven)?;
        let form = self.form(|| Ok(ResponseFormat::Choice(LETTERS.map(String::from).to_vec())))?;
        let question = task.panel.question(&chat, &form, self.max_tokens.unwrap_or(COMPARE_BUDGET));
        task.ask(Role::Tier2, stages::COMPARE, &question, |reply: &Reply| {
            let is_confirmed = answer::read_comparison(&reply.text, &self.comparison)?;
            if reply.tokens.is_empty() {
                return Err(Error::Failed(
                    "the answer has no log-probabilities, so there is no confidence".into(),
                ));
            }
            let sum: f64 = reply.tokens.iter().map(|token| token.masked_logprob).sum();
            Ok(self.compared(is_confirmed, sum, reply.tokens.len()))
        })
    }

    /// The comparison scored: the share that the model gives the letter of each answer, taken in both orders
    /// of showing them. The mean of both is free of a preference for a place or a letter.
    fn weigh(&self, task: &Task, values: &Value) -> Result<Compared> {
        let in_orders = pairwise::both_orders(|order| {
            let stage = if order == Order::AsGiven { stages::COMPARE } else { stages::COMPARE_SWAPPED };
            let step = stage.about(task.subtype.path.as_str());
            let chat = self.comparison_chat(values.clone(), order)?;
            let (corrected, same) = order.put(LETTERS[0], LETTERS[1]);
            let letters = [corrected, same].map(String::from);
            let scored = task.panel.score_continuations(Role::Tier2, step, &chat, &letters)?;
            share(&scored)
                .ok_or_else(|| Error::Failed("the model gives neither letter any probability".into()))
        })?;
        let corrected = in_orders.iter().map(|(share, _)| share).sum::<f64>() / 2.0;
        let is_confirmed = corrected > 0.5;
        let probability = if is_confirmed { corrected } else { 1.0 - corrected };
        let n_tokens = in_orders[0].1[usize::from(!is_confirmed)];
        Ok(self.compared(is_confirmed, probability.ln(), n_tokens))
    }

    fn compared(&self, is_confirmed: bool, logprob: f64, n_tokens: usize) -> Compared {
        let confidence = if self.is_mean { logprob / n_tokens.max(1) as f64 } else { logprob };
        Compared { is_confirmed, confidence, probability: logprob.exp().min(1.0) }
    }

    fn comparison_chat(&self, mut values: Value, order: Order) -> Result<Chat> {
        let (first, second) = order.put(&self.comparison.corrected, &self.comparison.same);
        values["first"] = json!(first);
        values["second"] = json!(second);
        self.two_turns(COMPARE_SYSTEM, COMPARE, &values)
    }

    /// Fills in the prompts of this stage once.
    pub(super) fn try_reflection(&self, values: &mut Value) -> Result<()> {
        values["information"] = json!("");
        values["correction"] = json!("");
        self.two_turns(CORRECT_SYSTEM, CORRECT, values)?;
        self.comparison_chat(values.clone(), Order::AsGiven).map(|_| ())
    }
}

/// True if two texts have the same words and signs, regardless of spacing.
fn is_same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

/// The share of the first of two letters, and the number of tokens of each; `None` when both are impossible.
fn share(scored: &[Scored]) -> Option<(f64, [usize; 2])> {
    let [first, second] = scored else { return None };
    let share = 1.0 / (1.0 + (second.logprob() - first.logprob()).exp());
    (!share.is_nan()).then_some((share, [first.tokens.len(), second.tokens.len()]))
}
