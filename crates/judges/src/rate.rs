//! RATE: a core agent that observes, orients, decides and acts: it asks an evaluation agent for a score, a
//! search agent for knowledge and a comparison agent for calibration, until it is sure. Tian et al., "Beyond
//! Literal Mapping: Benchmarking and Improving Non-Literal Translation Evaluation", Section 4, Appendix B,
//! Figures 15 to 20. No network is used: searches go to [`crate::evidence`].
//!
//! Differs:
//! - Preset `code` is a program of its own, message by message, in `tribunal-replication`.
//! - Search. Paper and code: Bing. Ours: the user's own documents (`search=INDEX`). Without them there is no
//!   search: the core agent's prompt has no search agent, as with `skip=search`, which is in the signature.
//! - Memory. In paper and code the translations of a source share knowledge and anchors, so that a score
//!   depends on the others and on their order. So here (`memory=shared`); `strict` takes them by the names of
//!   their systems, so that the order of the input does not matter. With `memory=isolated` a score depends on
//!   source and translation alone, but every anchor is one that the core agent has made up.
//! - Calibration. Paper: the tentative score moves by 1 or 0.5, as in `paper` and `strict`. Code: to the
//!   anchor's score plus or minus 1 or 0.5, a tie moves it to the anchor's score, and a result that agrees
//!   with it confirms it.
//! - Evaluation. The same question is not repeated; `strict` offers another evaluation only after a search,
//!   or once more where the evaluation agent was not sure.
//! - Texts. The core agent repeats source and translation in its calls. `code` uses its copies; `paper` takes
//!   the segment's own texts and the notes of the call; `strict` asks for no copies, and passes all that was
//!   found on.
//! - Answers. `paper` and `code`: XML calls and free JSON. `strict`: a constrained form of the same, with the
//!   thought first; it may finish only after an evaluation, and compares at no score twice.
//! - Unusable answers. `paper` and `strict`: a faulty tool call is answered with its fault and costs a round;
//!   other answers are requested again, three times in all; then the verdict is missing. Code: no retries.
//! - Not printed: the core agent's first message, the layout of responses and inputs, and the last message at
//!   the limit of rounds. Ours in `paper` and `strict`. Figure 18's stray example in its third input is kept.
//! - Misprints. Figure 16's list of tools has no opening bracket, nor has the code's; Figure 18 runs Score
//!   1's title and text into one, with a semicolon, and Figure 19 has `"required": ["q"]` a level too high
//!   and one brace too few, both unlike the code. Ours puts them right; all other words of `paper` are those
//!   of Figures 15 to 20.
//! - Repeated error spans: `paper` and `code` list all, `strict` as many of one span as it has occurrences.
//! - Error spans carry no severity: they are neutral, weigh nothing, and have the issue as explanation.
//! - Beyond the paper: `expected=on` adds the mean of the score's distribution to the evaluation agent's
//!   answer.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use self::{
    agents::Evaluation,
    memory::Memory,
    tools::{Action, ToolCall},
};
use super::{
    Error, Grouping, Judge, Method, Panel, Protocol, Provenance, Result, Retry, Role, Verdict, in_parallel,
    method::Calls,
    pair::Pair,
    prompt::{File, Prompts, file},
    reading,
    scale::Scale,
    setup::{self, Preset, Settings, options},
};
use crate::{
    evidence::Index,
    llm::{Chat, Reply, ResponseFormat},
    segment::Segment,
};

pub mod agents;

pub mod memory;

pub mod tools;

const CORE: File = file!("rate/core.j2");
const TASK: File = file!("rate/task.j2");
const RESPONSE: File = file!("rate/response.j2");
const TURN: File = file!("rate/turn.j2");

/// Answer tokens of one question to the core agent.
pub const BUDGET: usize = 1024;

/// The stages of its calls, each in a round.
pub mod stages {
    use crate::Stage;

    pub const CORE: Stage = Stage::new("core");
    pub const SEARCH: Stage = Stage::new("search");
    pub const SUMMARIZE: Stage = Stage::new("summarize");
    pub const EVALUATE: Stage = Stage::new("evaluate");
    pub const EXPECT: Stage = Stage::new("expect");
    pub const COMPARE: Stage = Stage::new("compare");
    pub const COMPARE_SWAPPED: Stage = Stage::new("compare-swapped");
}

/// Metadata shown by `tribunal methods show rate`.
pub const METHOD: Method = Method {
    name: "rate",
    summary: "a core agent that searches, evaluates and compares until it is sure of a score of 0 to 4",
    citation: "Tian et al., Beyond Literal Mapping (RATE): Section 4, Appendix B, Figures 15 to 20",
    papers: &["tian-etal-2026-beyond"],
    stages: &[
        stages::CORE,
        stages::SEARCH,
        stages::SUMMARIZE,
        stages::EVALUATE,
        stages::EXPECT,
        stages::COMPARE,
        stages::COMPARE_SWAPPED,
    ],
    roles: &[Role::Core, Role::Evaluator, Role::Search, Role::Comparer],
    // Ten rounds of a call of the core agent and two of another, and the forced end.
    calls: Calls { least: 1, typical: 3, most: 31 },
    answer_tokens: Some([108, 0]),
    scale: Scale::rating(0.0, 4.0),
    options: Options::CHOICES,
    ..Method::with(|settings, options| Rate::new(settings, &Options::read(options)).map(built))
};

options! {
    /// Options of RATE.
    pub struct Options {
        "search" search: Option<String> = { "none" => None, <file> Some },
            "an index of `tribunal search build`";
        "skip" skip: Skipped = {
            "none" => Skipped::None, "search" => Skipped::Search, "comparison" => Skipped::Comparison, "both" => Skipped::Both
        }, "agents that are left out (Table 4)";
        "memory" shares_memory: bool = { "shared" => true, "isolated" => false },
            "whether translations of a source share knowledge and anchors, as in the paper";
        "rounds" rounds: f64 = { "10" => 10.0, <number> |n| n }, "rounds before the end is forced";
        "expected" expected: bool = { "off" => false, "on" => true },
            "show the core agent the mean of the score's distribution too";
    }
}

/// Agents that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    None,
    Search,
    Comparison,
    Both,
}

/// A configured RATE judge.
pub struct Rate {
    prompts: Prompts,
    preset: Preset,
    config: Config,
}

/// The settings that all presets share.
pub struct Config {
    pub evidence: Option<Index>,
    pub team: Team,
    pub shares_memory: bool,
    /// Rounds before the end is forced.
    pub rounds: usize,
    /// The core agent is shown the mean of the score's distribution.
    pub expected: bool,
    max_tokens: Option<usize>,
}

/// The agents that may be left out (Table 4).
#[derive(Clone, Copy, Serialize)]
pub struct Team {
    pub search: bool,
    pub comparison: bool,
}

impl Protocol for Rate {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        if !self.config.shares_memory {
            return in_parallel(group, |idx, segment| {
                self.assess(&panel.about(idx), segment, &mut Memory::default())
            });
        }
        let mut memory = Memory::default();
        let mut judged: Vec<_> = self
            .order(group)
            .into_iter()
            .map(|idx| (idx, self.assess(&panel.about(idx), &group[idx], &mut memory)))
            .collect();
        judged.sort_by_key(|(idx, _)| *idx);
        judged.into_iter().map(|(_, verdict)| verdict).collect()
    }
}

fn built(judge: Rate) -> Judge {
    // `strict` finishes only what was evaluated; the others may finish at once.
    let least = if judge.is_strict() { judge.config.judged_calls() } else { 1 };
    Judge {
        grouping: judge.config.grouping(),
        calls: Some(judge.config.calls(least)),
        ..Judge::new(judge.config.provenance(&judge.prompts), judge)
    }
}

impl Config {
    /// Reads settings and options, and opens the evidence index.
    ///
    /// # Errors
    /// Weights and shots, which the method does not have; an index that cannot be opened; a number of rounds
    /// that is not whole.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        if settings.weights.is_some() || settings.shots.is_some() {
            return Err(setup::Error::NeitherWeightsNorShots);
        }
        let evidence = open_evidence(options)?;
        let rounds = Some(*options.rounds).filter(|n| n.fract() == 0.0 && *n >= 1.0);
        let no_rounds = || setup::Error::Conflict("`rounds` must be a whole number from 1 on".into());
        Ok(Self {
            // Without evidence there is no search agent, and the core agent's prompt must not mention one.
            team: Team {
                search: evidence.is_some(),
                comparison: !matches!(*options.skip, Skipped::Comparison | Skipped::Both),
            },
            evidence,
            shares_memory: *options.shares_memory,
            rounds: rounds.ok_or_else(no_rounds)? as usize,
            expected: *options.expected,
            max_tokens: settings.max_tokens,
        })
    }

    /// The provenance of a judge with these prompts.
    pub fn provenance(&self, prompts: &Prompts) -> Provenance {
        let provenance = Provenance::of(prompts);
        match (&self.evidence, self.team.comparison) {
            (Some(evidence), _) => provenance.with("search", evidence.fingerprint()),
            // The omitted agents, by request or by default.
            (None, true) => provenance.with("skip", "search"),
            (None, false) => provenance.with("skip", "both"),
        }
    }

    /// The segments that are judged together.
    pub fn grouping(&self) -> Grouping {
        if self.shares_memory { Grouping::Source } else { Grouping::Segment }
    }

    /// The calls of a score after one evaluation.
    fn judged_calls(&self) -> usize {
        3 + usize::from(self.expected)
    }

    /// The end at the first chance; one evaluation before it; all rounds, each with the agent that takes most
    /// calls, and the forced end.
    pub fn calls(&self, least: usize) -> Calls {
        // A search is two calls, its queries and its summary; so is a comparison, one in each order.
        let longest =
            if self.team.search || self.team.comparison { 2 } else { 1 + usize::from(self.expected) };
        Calls { least, typical: self.judged_calls(), most: self.rounds * (1 + longest) + 1 }
    }

    /// Maximum number of tokens of an answer.
    pub fn budget(&self, default: usize) -> usize {
        self.max_tokens.unwrap_or(default)
    }
}

impl Rate {
    /// Reads the settings and the prompts.
    ///
    /// # Errors
    /// Those of [`Config::new`] and [`Prompts::load`].
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let config = Config::new(settings, options)?;
        let files = [&[CORE, TASK, RESPONSE, TURN], agents::FILES].concat();
        let judge = Self { prompts: Prompts::load(&files, settings)?, preset: settings.preset, config };
        judge.system().map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// Order in which the translations of a source are judged, where later ones use the memory of earlier
    /// ones: that of the input; in `strict` that of the systems' names, so that the order of the input does
    /// not matter.
    fn order(&self, group: &[Segment]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..group.len()).collect();
        if self.is_strict() {
            order.sort_by_key(|&idx| &group[idx].system);
        }
        order
    }

    /// The loop over one translation.
    fn assess(&self, panel: &Panel, segment: &Segment, memory: &mut Memory) -> Result<Verdict> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.opening(segment, memory)?;
        let (asked, compared) = (Vec::new(), Vec::new());
        let mut session =
            Session { judge: self, panel, segment, chat, memory, judged: None, asked, compared };
        for round in 1..=self.config.rounds {
            let (name, response) = match session.ask_core(round, false)? {
                Ok(ToolCall { action: Action::Finish { score }, .. }) => return Ok(session.finish(score)),
                Ok(step) => (step.name, session.act(round, step.action)?),
                Err(fault) => ("tool_call", json!({ "error": fault })),
            };
            session.tell(name, &response, round == self.config.rounds)?;
        }
        match session.ask_core(self.config.rounds + 1, true)? {
            Ok(ToolCall { action: Action::Finish { score }, .. }) => Ok(session.finish(score)),
            Ok(step) => Err(Error::Unparsable(format!(
                "the core agent called `{}` where it was told to finish",
                step.name
            ))),
            Err(fault) => Err(Error::Unparsable(format!("no final score at the forced end, {fault}"))),
        }
    }

    fn is_strict(&self) -> bool {
        self.preset == Preset::Strict
    }

    /// Figures 15 to 17, without the agents that are left out.
    fn system(&self) -> Result<String> {
        let Team { search, comparison } = self.config.team;
        let values = json!({
            "search": search, "comparison": comparison, "strict": self.is_strict(),
        });
        self.prompts.render(CORE, values)
    }

    fn opening(&self, segment: &Segment, memory: &Memory) -> Result<Chat> {
        let mut task = json!(Pair::of(segment));
        task["notes"] = json!(memory.notes());
        task["initialized"] = json!(self.config.team.comparison && memory.is_initialized());
        Ok(Chat::new().system(self.system()?).user(self.prompts.render(TASK, task)?))
    }
}

/// The index of the option `search`.
fn open_evidence(options: &Options) -> setup::Result<Option<Index>> {
    let conflict = |reason: String| setup::Error::Conflict(reason);
    match (options.search.as_deref(), *options.skip) {
        (None, _) => Ok(None),
        (_, Skipped::Search | Skipped::Both) => Err(conflict(format!(
            "`skip={}` leaves the search agent out, but `search=` gives it something to search; hint: leave one of \
             them out",
            options.skip.text
        ))),
        (Some(name), _) => Index::open(Path::new(name)).map(Some).map_err(|e| conflict(e.to_string())),
    }
}

/// The evaluation of one translation.
struct Session<'a> {
    judge: &'a Rate,
    panel: &'a Panel,
    segment: &'a Segment,
    /// The conversation with the core agent.
    chat: Chat,
    memory: &'a mut Memory,
    judged: Option<LastEvaluation>,
    /// Notes and instructions of earlier evaluations.
    asked: Vec<(String, String)>,
    /// Tentative scores that were compared, in halves.
    compared: Vec<i64>,
}

/// The last evaluation.
struct LastEvaluation {
    evaluation: Evaluation,
    /// Number of notes at that time.
    n_notes: usize,
    /// It is not the first with these notes.
    is_second: bool,
}

impl Session<'_> {
    /// One question to the core agent: its step, or the fault of its tool call.
    fn ask_core(&mut self, round: usize, forced: bool) -> Result<Result<ToolCall, String>> {
        let budget = self.judge.config.budget(BUDGET);
        let form = if self.judge.is_strict() { self.form(forced)? } else { ResponseFormat::Text };
        let mut question = self.panel.question(&self.chat, &form, budget);
        if !self.judge.is_strict() {
            question.sampling.stop = vec![tools::CALL_END.into()];
        }
        let read = |reply: &Reply| {
            let text = reply.text.as_str();
            if self.judge.is_strict() {
                return Ok((text.to_owned(), tools::read_json(text)?));
            }
            let text = tools::closed(text);
            let step = tools::read_xml(&text);
            // The core agent gets the error of its call, except at the end.
            match step {
                Err(fault) if forced => {
                    Err(reading::unusable(&text, &format!("no final score at the forced end, {fault}")))
                }
                step => Ok((text, step)),
            }
        };
        let (text, step) =
            self.panel.ask_until(Role::Core, stages::CORE.round(round), &question, Retry::AGENT, read)?;
        self.chat = std::mem::take(&mut self.chat).assistant(text);
        Ok(step)
    }

    /// The form of the core agent's next step in `strict`.
    fn form(&self, forced: bool) -> Result<ResponseFormat> {
        let is_open = |score: &i64| !self.compared.contains(&(2 * score));
        let is_judged = self.judged.is_some();
        let may_compare = self.judge.config.team.comparison && is_judged && !forced;
        let tentative: Vec<i64> = (0..=4).filter(|score| may_compare && is_open(score)).collect();
        let longest = self.segment.source.chars().count().max(self.segment.hypothesis.chars().count());
        let values = json!({
            "search": self.judge.config.team.search && !forced,
            "evaluate": self.may_evaluate() && !forced,
            "finish": forced || is_judged,
            "tentative": tentative,
            "initialized": self.memory.is_initialized(),
            // An ideal translation can be longer than both texts.
            "anchor_chars": 3 * longest + 100,
        });
        Ok(ResponseFormat::json(self.judge.prompts.json(TURN, values)?))
    }

    /// Carries out the core agent's step; the response goes to the core agent alone.
    fn act(&mut self, round: usize, action: Action) -> Result<Value> {
        match action {
            Action::Search { query } => self.search(round, &query),
            Action::Evaluate(request) => self.evaluate(round, request),
            Action::Compare(request) => self.compare(round, request),
            Action::Finish { .. } => unreachable!("the loop ends before"),
        }
    }

    fn tell(&mut self, name: &str, response: &Value, forced: bool) -> Result<()> {
        let response =
            serde_json::to_string_pretty(response).expect("JSON values with string keys can be written");
        let values = json!({
            "name": name, "response": response, "forced": forced, "rounds": self.judge.config.rounds,
        });
        let text = self.judge.prompts.render(RESPONSE, values)?;
        self.chat = std::mem::take(&mut self.chat).user(text);
        Ok(())
    }

    /// The verdict; the translation becomes the anchor of its score.
    fn finish(self, score: f64) -> Verdict {
        self.memory.set_anchor(score, &self.segment.hypothesis);
        let errors = self.judged.map_or_else(Vec::new, |last| {
            let texts = (&self.segment.source[..], &self.segment.hypothesis[..]);
            last.evaluation.errors(texts, self.judge.preset.repeats())
        });
        Verdict::new(score, errors)
    }
}
