//! Stage 3 of HiMATE: a tier-1 and a tier-2 agent discuss one error (section 3.4, Table 10). It does not say
//! which errors are discussed.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    HiMate, Task,
    answer::{self, Finding, Opinion},
    reflection::Reflection,
};
use crate::{Error, Role, Stage, llm::Reply, prompt::File};

const TIER1_SYSTEM: File =
    File { name: "himate/discuss_tier1_system.j2", text: include_str!("discuss_tier1_system.j2") };
const TIER1: File = File { name: "himate/discuss_tier1.j2", text: include_str!("discuss_tier1.j2") };
const TIER2_SYSTEM: File =
    File { name: "himate/discuss_tier2_system.j2", text: include_str!("discuss_tier2_system.j2") };
const TIER2: File = File { name: "himate/discuss_tier2.j2", text: include_str!("discuss_tier2.j2") };
const REFLECTED: File = File { name: "himate/reflected.j2", text: include_str!("reflected.j2") };

pub(super) const FILES: &[File] = &[TIER1_SYSTEM, TIER1, TIER2_SYSTEM, TIER2, REFLECTED];

/// The question of this stage.
pub(super) const DISCUSS: Stage = Stage::new("discuss");

/// Each agent makes at most this many statements (section 4.1): four turns in all.
const MAX_STATEMENTS: usize = 2;

/// Answer tokens of one statement.
const BUDGET: usize = 400;

/// One statement as the chat history shows it.
#[derive(Serialize)]
struct Line {
    speaker: &'static str,
    text: String,
}

impl HiMate {
    /// The error as the agents leave it; `None` when they deny it. The discussion starts from what self-reflection
    /// made of the error: its correction and the comparison.
    ///
    /// # Errors
    /// An answer that cannot be used, or none.
    pub(super) fn discuss(
        &self,
        task: &Task,
        found: &Finding,
        reflection: &Reflection,
    ) -> Result<Option<Finding>, Error> {
        let mut values = self.values(task.segment, task.subtype);
        values["core"] = json!(task.core);
        values["information"] = json!(self.reflected(task, found, reflection)?);
        let mut history: Vec<Line> = Vec::new();
        for statement in 1..=MAX_STATEMENTS {
            let (said, opinion) = self.hear_tier_1(task, &mut values, &history)?;
            let outcome = opinion.exists.then(|| Finding { severity: opinion.severity, ..found.clone() });
            history.push(Line { speaker: "Expert", text: said });
            let is_last = statement == MAX_STATEMENTS;
            // Nothing comes of the last word of the tier-2 agent. The paper lets it speak, but what it says cannot
            // take the outcome away.
            if is_last && self.is_strict() {
                return Ok(outcome);
            }
            match self.hear_tier_2(task, &mut values, &history) {
                Ok((said, false)) if !is_last => history.push(Line { speaker: "Evaluator", text: said }),
                Err(error) if !(is_last && error.is_of_the_answer()) => return Err(error),
                _ => return Ok(outcome),
            }
        }
        unreachable!("the last statement ends the discussion")
    }

    /// The tier-1 agent's opinion, and in what words.
    fn hear_tier_1(
        &self,
        task: &Task,
        values: &mut Value,
        history: &[Line],
    ) -> Result<(String, Opinion), Error> {
        values["history"] = json!(history);
        let form = self.form(|| answer::opinion_form(&self.prompts))?;
        let chat = self.two_turns(TIER1_SYSTEM, TIER1, values)?;
        self.ask(task, (Role::Tier1, DISCUSS), &chat, (&form, BUDGET), |reply: &Reply| {
            Ok((reply.text.clone(), answer::read_opinion(&reply.text, self.preset)?))
        })
    }

    /// Whether the tier-2 agent agrees, and in what words.
    fn hear_tier_2(
        &self,
        task: &Task,
        values: &mut Value,
        history: &[Line],
    ) -> Result<(String, bool), Error> {
        values["history"] = json!(history);
        let form = self.form(|| answer::consent_form(&self.prompts))?;
        let chat = self.two_turns(TIER2_SYSTEM, TIER2, values)?;
        self.ask(task, (Role::Tier2, DISCUSS), &chat, (&form, BUDGET), |reply: &Reply| {
            Ok((reply.text.clone(), answer::read_consent(&reply.text, self.preset)?))
        })
    }

    /// The error as self-reflection leaves it: `I_SR` of Equation 3.
    fn reflected(&self, task: &Task, found: &Finding, reflection: &Reflection) -> Result<String, Error> {
        let values = json!({
            "information": self.information(task.subtype, found)?,
            "correction": reflection.correction,
            "comparison": self.comparison.corrected,
        });
        self.prompts.render(REFLECTED, values)
    }

    /// Fills in the prompts of this stage once; `values` are those of a task.
    pub(super) fn try_discussion(&self, values: &mut Value) -> Result<(), Error> {
        values["comparison"] = json!("");
        self.prompts.render(REFLECTED, &*values)?;
        values["history"] = json!([Line { speaker: "Expert", text: "a".into() }]);
        self.two_turns(TIER1_SYSTEM, TIER1, values)?;
        self.two_turns(TIER2_SYSTEM, TIER2, values).map(|_| ())
    }
}
