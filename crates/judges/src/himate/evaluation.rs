//! Stage 1 of HiMATE: an agent for each subtype looks for its error (section 3.2, Table 9 left), or one agent
//! for all (Table 2); and the words that an error affects. Findings are checked in stage 2.

use serde_json::{Value, json};

use super::{HiMate, Task, answer, answer::Finding, capitalised, hierarchy::Subtype, stages, to_error};
use crate::{
    Panel, Result, Retry, Role, confidence,
    llm::{Chat, Reply},
    mqm::{ErrorSpan, typology},
    pair::Pair,
    prompt::{File, file},
    segment::Segment,
    shots::{Shot, ShotError},
};

const SYSTEM: File = file!("himate/evaluate_system.j2");
const QUESTION: File = file!("himate/evaluate.j2");
const ANSWER: File = file!("himate/evaluation.j2");
const LOCATE: File = file!("himate/locate.j2");
const SINGLE_SYSTEM: File = file!("himate/single_system.j2");
const SINGLE: File = file!("himate/single.j2");

pub(super) const FILES: &[File] = &[SYSTEM, QUESTION, ANSWER, LOCATE, SINGLE_SYSTEM, SINGLE];

/// Answer tokens of a subtype evaluation, of a span and of the single agent.
const BUDGET: usize = 300;
const SPAN_BUDGET: usize = 128;
const SINGLE_BUDGET: usize = 1536;

impl HiMate {
    /// Stage 1, subtype evaluation (Equation 1, Table 9 left).
    pub(super) fn evaluate(&self, task: &Task) -> Result<Option<Finding>> {
        let chat = self.chat(task.segment, task.subtype)?;
        let form = self.json_form(answer::EVALUATE, Value::Null)?;
        let question = task.panel.question(&chat, &form, self.max_tokens.unwrap_or(BUDGET));
        task.ask(Role::Tier2, stages::EVALUATE, &question, |reply| {
            let found = answer::read_evaluation(&reply.text, task.marked(), self.preset)?;
            Ok(found.map(|found| found.weighed(reply)))
        })
    }

    /// The error with the words that it affects. `strict` asks for them where the explanation quotes none; in
    /// `paper` such an error has no span.
    pub(super) fn locate(&self, task: &Task, found: Finding) -> Result<Finding> {
        if !found.span.is_empty() || task.marked().is_empty() || !self.is_strict() {
            return Ok(found);
        }
        let mut values = self.values(task.segment, task.subtype);
        values["information"] = json!(self.information(task.subtype, &found)?);
        let chat = self.two_turns(SYSTEM, LOCATE, &values)?;
        let form = answer::span_form(&self.prompts, task.subtype.is_omission, task.segment)?;
        let question = task.panel.question(&chat, &form, self.max_tokens.unwrap_or(SPAN_BUDGET));
        task.ask(Role::Tier2, stages::LOCATE, &question, |reply| {
            Ok(Finding { span: answer::read_span(&reply.text)?, ..found.clone() }.weighed(reply))
        })
    }

    /// The single agent of Table 2.
    pub(super) fn evaluate_alone(&self, panel: &Panel, segment: &Segment) -> Result<Vec<ErrorSpan>> {
        let (in_source, in_target): (Vec<_>, Vec<_>) =
            self.subtypes().map(|(_, subtype)| subtype).partition(|subtype| subtype.is_omission);
        let paths = |subtypes: Vec<&'_ Subtype>| subtypes.iter().map(|s| s.path.clone()).collect::<Vec<_>>();
        let (in_source, in_target) = (paths(in_source), paths(in_target));
        let paths = [&in_source, &in_target].map(|paths| paths.iter().map(String::as_str).collect());
        let form = self.form(|| answer::single_form(&self.prompts, paths, segment))?;
        let max_tokens = self.max_tokens.unwrap_or(SINGLE_BUDGET);
        let mut values = json!(Pair::of(segment));
        values["hierarchy"] = json!(self.hierarchy);
        let chat = self.two_turns(SINGLE_SYSTEM, SINGLE, &values)?;
        let question = panel.question(&chat, &form, max_tokens);
        panel.ask_until(Role::Single, stages::EVALUATE, &question, Retry::AGENT, |reply: &Reply| {
            let found = answer::read_single(&reply.text, self.preset)?;
            let mut errors: Vec<ErrorSpan> =
                found.iter().map(|found| to_error(found, &found.category)).collect();
            confidence::note(reply, "span", &mut errors);
            Ok(errors)
        })
    }

    /// The question of a subtype evaluation; up to the segment it is the same for all segments of a pair.
    fn chat(&self, segment: &Segment, subtype: &Subtype) -> Result<Chat> {
        let values = self.values(segment, subtype);
        let mut chat = Chat::new().system(self.prompts.render(SYSTEM, &values)?);
        for (shot, error) in self.shots_of(segment, subtype) {
            let shown = error.map(|error| {
                let explanation = quoting(error);
                json!({
                    "severity": capitalised(error.severity),
                    "explanation": explanation, "explanation_json": json!(explanation).to_string(),
                })
            });
            let answer = json!({ "strict": self.is_strict(), "error": shown });
            let question = self.prompts.render(QUESTION, self.query(&Pair::from_shot(shot), subtype))?;
            chat = chat.user(question).assistant(self.prompts.render(ANSWER, answer)?);
        }
        Ok(chat.user(self.prompts.render(QUESTION, &values)?))
    }

    /// Two shots of the segment's languages: one with an error of the subtype, one without errors; the latter
    /// is not always the same.
    fn shots_of(&self, segment: &Segment, subtype: &Subtype) -> Vec<(&Shot, Option<&ShotError>)> {
        let is_such = |error: &&ShotError| typology::normalise(&error.category) == subtype.path;
        let with =
            self.shots_for(segment).find_map(|shot| Some((shot, Some(shot.errors.iter().find(is_such)?))));
        let clean: Vec<_> = self.shots_for(segment).filter(|shot| shot.errors.is_empty()).collect();
        let nth = self.subtypes().position(|(_, other)| other.path == subtype.path).unwrap_or(0);
        let without = clean.get(nth % clean.len().max(1)).map(|shot| (*shot, None));
        with.into_iter().chain(without).collect()
    }

    /// The shots in the languages of a segment, in any script and region.
    pub(super) fn shots_for(&self, segment: &Segment) -> impl Iterator<Item = &Shot> {
        let [from, to] = [&segment.src_lang, &segment.tgt_lang].map(|lang| bare(lang.name()));
        self.shots.iter().filter(move |shot| bare(&shot.source_lang) == from && bare(&shot.target_lang) == to)
    }

    /// Fills in the prompts of this stage once; `values` are those of a task.
    pub(super) fn try_evaluation(&self, values: &Value) -> Result<()> {
        self.two_turns(SYSTEM, QUESTION, values)?;
        let mut found = values.clone();
        found["information"] = json!("");
        self.two_turns(SYSTEM, LOCATE, &found)?;
        let mut values = json!(Pair::sample());
        values["hierarchy"] = json!(self.hierarchy);
        self.two_turns(SINGLE_SYSTEM, SINGLE, &values).map(|_| ())
    }
}

/// The explanation of a shot's error, with its words in quotation marks.
fn quoting(error: &ShotError) -> String {
    let ShotError { span, explanation, .. } = error;
    let [open, close] = if span.contains('"') { ['“', '”'] } else { ['"', '"'] };
    let is_quoted = span.is_empty() || explanation.contains(&format!("\"{span}\""));
    if is_quoted { explanation.clone() } else { format!("{open}{span}{close}: {explanation}") }
}

/// A language's English name without its script and region.
fn bare(name: &str) -> String {
    name.split(" (").next().unwrap_or(name).to_lowercase()
}
