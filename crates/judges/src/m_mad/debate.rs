//! Stage 2 of M-MAD: a debate about the annotations of one dimension (Figures 8 and 9, section 4.3). The
//! annotations come from stage 1, and the result goes to stage 3.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    MMad, Options, Pair, Question,
    annotation::{self, Annotation, Dimension, written},
};
use crate::{
    Panel, Result, Role, Stage, Step,
    llm::{Chat, ResponseFormat},
    prompt::{File, file},
    reading,
    segment::Segment,
};

const SYSTEM: File = file!("m_mad/debate_system.j2");
const SEGMENT: File = file!("m_mad/segment.j2");
const OPENING: File = file!("m_mad/opening.j2");
const DEBATE: File = file!("m_mad/debate.j2");
const CONSENSUS: File = file!("m_mad/consensus.j2");
const TRANSCRIPT: File = file!("m_mad/transcript.j2");
const REVIEW: File = file!("m_mad/review.j2");
const DECIDE: File = file!("m_mad/decide.j2");
const REMARKS: File = file!("m_mad/remarks.json");

/// The question of this stage.
pub const DEBATE_STAGE: Stage = Stage::new("debate");

/// Answer tokens of a statement and of a review; of the checker in its own words, and of its yes or no.
const STATEMENT_BUDGET: usize = 1024;
const REVIEW_BUDGET: usize = 512;
const CONSENSUS_BUDGET: usize = 256;
const CHOICE_BUDGET: usize = 8;

/// The calls of a round that may end in a consensus: both sides and the checker.
pub const CONSENSUS_ROUND: usize = 3;

/// Rules of a debate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub strategy: Strategy,
    pub topic: Topic,
    pub rounds: usize,
    pub undecided: Undecided,
}

/// The result when the sides never agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Side A's last statement (section 2.2).
    Last,
    /// The original evaluation (section 4.3).
    Original,
}

/// The participants and who decides (section 4.3, Table 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    Consensus,
    Deliberation,
    InteractiveReview,
    ConsultancyReview,
}

/// The topic of the debate (Table 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    Severity,
    Category,
    Entirety,
}

impl Rules {
    /// The rules in the options; the number of rounds was checked before.
    pub fn of(options: &Options, rounds: usize) -> Self {
        let (strategy, topic, undecided) = (*options.strategy, *options.topic, *options.undecided);
        Self { strategy, topic, rounds, undecided }
    }

    /// The calls of a debate that ends as soon as possible.
    pub fn shortest(self) -> usize {
        match self.strategy {
            Strategy::Consensus => CONSENSUS_ROUND,
            _ => self.longest(),
        }
    }

    /// The calls of a debate over all rounds.
    pub fn longest(self) -> usize {
        match self.strategy {
            Strategy::Consensus => CONSENSUS_ROUND * self.rounds,
            // Both sides in each round, then the judge.
            Strategy::Deliberation => 2 * self.rounds + 1,
            // And the reviewer between rounds.
            Strategy::InteractiveReview => 2 * self.rounds + (self.rounds - 1) + 1,
            // Reviewer and side A in each round, the reviewer's conclusion, then the judge.
            Strategy::ConsultancyReview => 2 * self.rounds + 2,
        }
    }

    /// The prompt files of such a debate.
    pub fn files(self) -> Vec<File> {
        let mut files = vec![SYSTEM, SEGMENT, DEBATE];
        match self.strategy {
            Strategy::Consensus => files.extend([OPENING, CONSENSUS]),
            Strategy::Deliberation => files.extend([OPENING, TRANSCRIPT, DECIDE]),
            Strategy::InteractiveReview => files.extend([OPENING, TRANSCRIPT, DECIDE, REVIEW, REMARKS]),
            Strategy::ConsultancyReview => files.extend([TRANSCRIPT, DECIDE, REVIEW, REMARKS]),
        }
        files
    }
}

/// One debate: its panel and its subject.
pub(super) struct Debate<'a> {
    judge: &'a MMad,
    rules: Rules,
    panel: &'a Panel,
    segment: &'a Segment,
    dimension: &'a Dimension,
    /// The initial annotations, which side A defends.
    stand: &'a [Annotation],
    step: Step,
}

/// A side with its conversation.
struct Side {
    role: Role,
    chat: Chat,
}

/// A side's statement in one round.
struct Statement {
    text: String,
    annotations: Vec<Annotation>,
}

/// A review in strict.
#[derive(Deserialize)]
struct Remarks {
    remarks: String,
}

/// A statement or a review in the transcript.
#[derive(Serialize)]
struct Line {
    speaker: &'static str,
    round: usize,
    text: String,
}

impl<'a> Debate<'a> {
    pub fn new(
        judge: &'a MMad,
        rules: Rules,
        panel: &'a Panel,
        (segment, dimension): (&'a Segment, &'a Dimension),
        stand: &'a [Annotation],
    ) -> Self {
        let step = DEBATE_STAGE.about(dimension.name);
        Self { judge, rules, panel, segment, dimension, stand, step }
    }

    /// The viewpoint of the dimension; its initial annotations where nothing is disputed.
    ///
    /// # Errors
    /// An answer that cannot be used, or none.
    pub fn hold(&self) -> Result<Vec<Annotation>> {
        let Some(opposition) = self.opposition()? else { return Ok(self.stand.to_vec()) };
        match self.rules.strategy {
            Strategy::Consensus => self.seek_consensus(opposition),
            Strategy::Deliberation | Strategy::InteractiveReview => self.deliberate(opposition),
            Strategy::ConsultancyReview => self.consult(),
        }
    }

    /// The opening of side B, which is written by a template and not by a model (Figure 9): about severity,
    /// every major error made minor; about everything, no errors. `None` when it would equal side A's.
    fn opposition(&self) -> Result<Option<String>> {
        if self.stand.is_empty() {
            return Ok(None);
        }
        let is_non_translation = self.stand.iter().any(Annotation::is_non_translation);
        let opening = match self.rules.topic {
            Topic::Entirety => self.written(&[]),
            Topic::Severity if !is_non_translation => {
                self.written(&self.stand.iter().map(Annotation::minor).collect::<Vec<_>>())
            }
            _ if self.rules.strategy == Strategy::ConsultancyReview => String::new(),
            topic => {
                let values = json!({ "topic": topic, "annotations": self.written(self.stand) });
                self.judge.prompts.render(OPENING, values)?
            }
        };
        Ok(Some(opening).filter(|opening| *opening != self.written(self.stand)))
    }

    /// Figures 8 and 9. Once the sides agree, side A's last statement is the viewpoint.
    fn seek_consensus(&self, opposition: String) -> Result<Vec<Annotation>> {
        let (mut a, mut b) =
            (self.side(Role::DebaterA, self.written(self.stand))?, self.side(Role::DebaterB, opposition)?);
        let mut last = Vec::new();
        for _ in 0..self.rules.rounds {
            let (from_a, from_b) = self.round(&mut a, &mut b, None)?;
            let is_settled = self.agree(&from_a.annotations, &from_b.annotations)?;
            last = from_a.annotations;
            if is_settled {
                return Ok(last);
            }
        }
        Ok(match self.rules.undecided {
            Undecided::Last => last,
            Undecided::Original => self.stand.to_vec(),
        })
    }

    /// All rounds, with a reviewer's questions between them where there is one; then a judge decides.
    fn deliberate(&self, opposition: String) -> Result<Vec<Annotation>> {
        let (mut a, mut b) =
            (self.side(Role::DebaterA, self.written(self.stand))?, self.side(Role::DebaterB, opposition)?);
        let mut lines = Vec::new();
        let mut questions: Option<String> = None;
        for round in 1..=self.rules.rounds {
            let (from_a, from_b) = self.round(&mut a, &mut b, questions.as_deref())?;
            lines.push(Line { speaker: "A", round, text: from_a.text });
            lines.push(Line { speaker: "B", round, text: from_b.text });
            if self.rules.strategy == Strategy::InteractiveReview && round < self.rules.rounds {
                let text = self.review(&lines, false)?;
                lines.push(Line { speaker: "Reviewer", round, text: text.clone() });
                questions = Some(text);
            }
        }
        self.decide(&lines)
    }

    /// Side A alone answers a reviewer, who concludes; then a judge decides.
    fn consult(&self) -> Result<Vec<Annotation>> {
        let mut a = self.side(Role::DebaterA, self.written(self.stand))?;
        let mut lines = Vec::new();
        for round in 1..=self.rules.rounds {
            let text = self.review(&lines, false)?;
            let answer = self.speak(&mut a, &text, None)?;
            lines.push(Line { speaker: "Reviewer", round, text });
            lines.push(Line { speaker: "A", round, text: answer.text });
        }
        let text = self.review(&lines, true)?;
        lines.push(Line { speaker: "Reviewer", round: self.rules.rounds, text });
        self.decide(&lines)
    }

    /// One round: A's statement, then B's, whose prompt contains it.
    fn round(&self, a: &mut Side, b: &mut Side, questions: Option<&str>) -> Result<(Statement, Statement)> {
        let from_a = self.speak(a, b.said(), questions)?;
        let from_b = self.speak(b, &from_a.text, questions)?;
        Ok((from_a, from_b))
    }

    fn side(&self, role: Role, opening: String) -> Result<Side> {
        let prompts = &self.judge.prompts;
        let system = prompts.render(SYSTEM, json!({ "dimension": self.dimension.name }))?;
        let segment = prompts.render(SEGMENT, Pair::of(self.segment))?;
        Ok(Side { role, chat: Chat::new().system(system).user(segment).assistant(opening) })
    }

    fn speak(&self, side: &mut Side, heard: &str, questions: Option<&str>) -> Result<Statement> {
        let values = json!({
            "strategy": self.rules.strategy,
            "topic": self.rules.topic,
            "strict": self.judge.is_strict(),
            "heard": heard,
            "questions": questions,
        });
        let chat = std::mem::take(&mut side.chat).user(self.judge.prompts.render(DEBATE, values)?);
        let form = self.form("argument")?;
        let statement = self.ask(side.role, STATEMENT_BUDGET, &chat, &form, |text| {
            let annotations = annotation::read(text, self.judge.preset)?;
            Ok(Statement { text: text.to_owned(), annotations })
        })?;
        side.chat = chat.assistant(statement.text.as_str());
        Ok(statement)
    }

    /// The consensus checker (Figure 9).
    fn agree(&self, first: &[Annotation], second: &[Annotation]) -> Result<bool> {
        let values = json!({ "first": self.written(first), "second": self.written(second) });
        let chat = Chat::new().user(self.judge.prompts.render(CONSENSUS, values)?);
        let (form, budget) = if self.judge.is_strict() {
            (ResponseFormat::Choice(["yes", "no"].map(str::to_owned).into()), CHOICE_BUDGET)
        } else {
            (ResponseFormat::Text, CONSENSUS_BUDGET)
        };
        self.ask(Role::Checker, budget, &chat, &form, |answer| {
            says_yes(answer).ok_or_else(|| reading::unusable(answer, "the checker says neither yes nor no"))
        })
    }

    fn review(&self, lines: &[Line], concluding: bool) -> Result<String> {
        let values = json!({
            "transcript": self.transcript(lines)?,
            "concluding": concluding,
            "strict": self.judge.is_strict(),
        });
        let chat = Chat::new().user(self.judge.prompts.render(REVIEW, values)?);
        if !self.judge.is_strict() {
            return self.ask(Role::Reviewer, REVIEW_BUDGET, &chat, &ResponseFormat::Text, |text| {
                Ok(text.to_owned())
            });
        }
        let form = ResponseFormat::json(self.judge.prompts.json(REMARKS, ())?);
        self.ask(Role::Reviewer, REVIEW_BUDGET, &chat, &form, |text| {
            reading::json(text).map(|Remarks { remarks }| remarks)
        })
    }

    fn decide(&self, lines: &[Line]) -> Result<Vec<Annotation>> {
        let values = json!({
            "transcript": self.transcript(lines)?,
            "dimension": self.dimension.name,
            "topic": self.rules.topic,
            "strict": self.judge.is_strict(),
        });
        let chat = Chat::new().user(self.judge.prompts.render(DECIDE, values)?);
        let form = self.form("analysis")?;
        self.ask(Role::Judge, STATEMENT_BUDGET, &chat, &form, |text| {
            annotation::read(text, self.judge.preset)
        })
    }

    fn transcript(&self, lines: &[Line]) -> Result<String> {
        let mut values = json!(Pair::of(self.segment));
        values["dimension"] = json!(self.dimension.name);
        values["annotations"] = json!(self.written(self.stand));
        values["strategy"] = json!(self.rules.strategy);
        values["topic"] = json!(self.rules.topic);
        values["lines"] = json!(lines);
        self.judge.prompts.render(TRANSCRIPT, values)
    }

    fn form(&self, thoughts: &str) -> Result<ResponseFormat> {
        self.judge.form(self.dimension, Some(thoughts), self.segment)
    }

    fn written(&self, annotations: &[Annotation]) -> String {
        written(annotations, self.judge.preset)
    }

    fn ask<T>(
        &self,
        role: Role,
        budget: usize,
        chat: &Chat,
        form: &ResponseFormat,
        read: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        let question = Question { role, step: self.step.clone(), budget };
        self.judge.ask(self.panel, &question, chat, form, |reply| read(&reply.text))
    }
}

impl Side {
    /// Its last statement.
    fn said(&self) -> &str {
        self.chat.messages().last().map_or("", |turn| turn.content.as_str())
    }
}

/// Yes or no: the first word of an answer, or the only one of the two in it.
fn says_yes(answer: &str) -> Option<bool> {
    let answer = answer.to_lowercase();
    let words = answer.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let mut yes_or_no = words.enumerate().filter(|(_, word)| matches!(*word, "yes" | "no"));
    let (at, first) = yes_or_no.next()?;
    let is_clear = at == 0 || yes_or_no.all(|(_, word)| word == first);
    is_clear.then_some(first == "yes")
}

#[cfg(test)]
mod tests {
    use super::says_yes;

    #[test]
    fn a_checker_in_its_own_words() {
        for (answer, expected) in [
            ("yes", Some(true)),
            ("\"No\".", Some(false)),
            ("**Yes**, they are. There is no difference but one.", Some(true)),
            ("The annotations are consistent, so my answer is: yes", Some(true)),
            ("They differ in severity.\n\nno", Some(false)),
            ("Whether yes or no depends on the reading.", None),
            ("They are consistent. I know.", None),
            ("", None),
        ] {
            assert_eq!(says_yes(answer), expected, "{answer}");
        }
    }
}
