//! Stage 3 of HiMATE: a tier-1 and a tier-2 agent discuss one error (section 3.4, Table 10). The errors to be
//! discussed are chosen in the parent.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    HiMate, Task,
    answer::{self, Finding, Opinion},
    reflection::Reflection,
    stages,
};
use crate::{
    Result, Role,
    llm::Reply,
    prompt::{File, file},
};

const TIER1_SYSTEM: File = file!("himate/discuss_tier1_system.j2");
const TIER1: File = file!("himate/discuss_tier1.j2");
const TIER2_SYSTEM: File = file!("himate/discuss_tier2_system.j2");
const TIER2: File = file!("himate/discuss_tier2.j2");
const REFLECTED: File = file!("himate/reflected.j2");

pub(super) const FILES: &[File] = &[TIER1_SYSTEM, TIER1, TIER2_SYSTEM, TIER2, REFLECTED];

/// Answer tokens of one statement.
const BUDGET: usize = 400;

/// One statement in the chat history.
#[derive(Serialize)]
struct Line {
    speaker: &'static str,
    text: String,
}

impl HiMate {
    /// The error after the discussion; `None` when the agents deny it. The discussion starts from the result
    /// of self-reflection: the error's correction and the comparison. Each agent makes at most two statements
    /// (section 4.1).
    ///
    /// As in the authors' code: where the tier-2 agent agrees, with its first statement or with its second,
    /// the tier-1 agent's *first* opinion counts; where the tier-1 agent concedes, or the disagreement lasts,
    /// the tier-2 agent's evaluation.
    ///
    /// # Errors
    /// An answer that cannot be used, or none.
    pub(super) fn discuss(
        &self,
        task: &Task,
        found: &Finding,
        reflection: &Reflection,
    ) -> Result<Option<Finding>> {
        let mut values = self.values(task.segment, task.subtype);
        values["core"] = json!(task.core);
        values["information"] = json!(self.reflected(task, found, reflection)?);
        let evaluated = Opinion { exists: true, severity: found.severity };
        let mut history: Vec<Line> = Vec::new();
        let first = self.hear_tier_1(task, &mut values, &mut history, evaluated)?;
        // The result is the evaluation in every case.
        if self.is_strict() && first == evaluated {
            return Ok(Some(found.clone()));
        }
        let opined = first.exists.then(|| Finding { severity: first.severity, ..found.clone() });
        if self.hear_tier_2(task, &mut values, &mut history)? {
            return Ok(opined);
        }
        let second = self.hear_tier_1(task, &mut values, &mut history, evaluated)?;
        if second == evaluated {
            return Ok(Some(found.clone()));
        }
        let agrees = self.hear_tier_2(task, &mut values, &mut history)?;
        Ok(if agrees { opined } else { Some(found.clone()) })
    }

    /// The tier-1 agent's opinion, which is added to the history. `evaluated` is the opinion that it is asked
    /// about.
    fn hear_tier_1(
        &self,
        task: &Task,
        values: &mut Value,
        history: &mut Vec<Line>,
        evaluated: Opinion,
    ) -> Result<Opinion> {
        values["history"] = json!(history);
        let form = self.json_form(answer::TIER1, Value::Null)?;
        let chat = self.two_turns(TIER1_SYSTEM, TIER1, values)?;
        let question = task.panel.question(&chat, &form, self.max_tokens.unwrap_or(BUDGET));
        let (text, opinion) = task.ask(Role::Tier1, stages::DISCUSS, &question, |reply: &Reply| {
            let opinion = answer::read_opinion(&reply.text, self.preset, evaluated)?;
            Ok((reply.text.clone(), opinion))
        })?;
        history.push(Line { speaker: "Expert", text });
        Ok(opinion)
    }

    /// True if the tier-2 agent agrees; its statement is added to the history.
    fn hear_tier_2(&self, task: &Task, values: &mut Value, history: &mut Vec<Line>) -> Result<bool> {
        values["history"] = json!(history);
        let form = self.json_form(answer::TIER2, Value::Null)?;
        let chat = self.two_turns(TIER2_SYSTEM, TIER2, values)?;
        let question = task.panel.question(&chat, &form, self.max_tokens.unwrap_or(BUDGET));
        let (text, agrees) = task.ask(Role::Tier2, stages::DISCUSS, &question, |reply: &Reply| {
            Ok((reply.text.clone(), answer::read_consent(&reply.text, self.preset)?))
        })?;
        history.push(Line { speaker: "Evaluator", text });
        Ok(agrees)
    }

    /// The error after self-reflection: `I_SR` of Equation 3.
    fn reflected(&self, task: &Task, found: &Finding, reflection: &Reflection) -> Result<String> {
        let values = json!({
            "information": self.information(task.subtype, found)?,
            "correction": reflection.correction,
            "comparison": self.comparison.corrected,
        });
        self.prompts.render(REFLECTED, values)
    }

    /// Fills in the prompts of this stage once; `values` are those of a task.
    pub(super) fn try_discussion(&self, values: &mut Value) -> Result<()> {
        values["comparison"] = json!("");
        self.prompts.render(REFLECTED, &*values)?;
        values["history"] = json!([Line { speaker: "Expert", text: "a".into() }]);
        self.two_turns(TIER1_SYSTEM, TIER1, values)?;
        self.two_turns(TIER2_SYSTEM, TIER2, values).map(|_| ())
    }
}
