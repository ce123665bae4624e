//! A small judge and a scripted model for tests of runs: no prompt of a paper, no weights.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tribunal::{
    judges::{Error, Grouping, Judge, Panel, Protocol, Provenance, Role, Stage, Unit, Verdict},
    llm::{
        self, Chat, Counter, Finish, Llm, Reply, ResponseFormat, Sampling, Scored, Token, TokenSource, Usage,
    },
    mqm::{ErrorSpan, Severity, Side},
    run::{self, Record, RunConfig},
    segment::{Segment, joined},
};

/// Answers with a number made of the prompt, and counts its calls.
#[derive(Default)]
pub struct Numbers {
    pub asked: AtomicUsize,
    /// Fails from this question on, as an engine would.
    pub fails_after: Option<usize>,
}

impl Llm for Numbers {
    fn ask(&self, chat: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, llm::Error> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fails_after.is_some_and(|limit| n >= limit) {
            return Err(llm::Error::Engine("out of luck".into()));
        }
        let prompt = &chat.messages()[0].content;
        if prompt.contains("endless") {
            return Err(llm::Error::TooLong { prompt: 9000, answer: 100, context: 8192 });
        }
        let text = (prompt.bytes().map(usize::from).sum::<usize>() % 26).to_string();
        let token = Token {
            id: 7,
            text: text.clone(),
            logprob: -0.25,
            masked_logprob: -0.25,
            source: TokenSource::Sampled,
        };
        let usage = Usage { computed: prompt.len() / 4, cached: n, generated: 1, ..Usage::default() };
        Ok(Reply { text, tokens: vec![token], finish: Finish::Stop, usage, ..Reply::default() })
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, llm::Error> {
        Ok(Vec::new())
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Numbers {
    fn count(&self, chat: &Chat) -> Result<usize, llm::Error> {
        Ok(chat.messages().iter().map(|turn| turn.content.len()).sum())
    }
}

const SCORE: Stage = Stage::new("score");

/// Takes the model's number as a penalty; returns a parse error for `???`.
pub struct TinyJudge {
    unit: Unit,
}

impl TinyJudge {
    /// The judge of segments in groups.
    pub fn by(grouping: Grouping) -> Judge {
        Self::about(Unit::Segment, grouping)
    }

    /// The judge of segments, or of whole groups.
    pub fn about(unit: Unit, grouping: Grouping) -> Judge {
        let mut judge = Judge::new(Provenance::default(), Self { unit });
        (judge.grouping, judge.unit) = (grouping, unit);
        judge
    }

    fn ask(panel: &Panel, source: &str, hypothesis: &str) -> Result<Verdict, Error> {
        if hypothesis.contains("???") {
            return Err(Error::Unparsable("the answer is no number: `???`".into()));
        }
        let chat = Chat::new().user(format!("{source}\n{hypothesis}"));
        let question = panel.question(&chat, &ResponseFormat::Text, panel.sampling.max_tokens);
        let reply = panel.ask(Role::Judge, SCORE, &question)?;
        let penalty: f64 = reply.text.parse().map_err(|_| Error::Unparsable(reply.text.clone()))?;
        let word = hypothesis.split_whitespace().next().unwrap_or_default();
        let error = ErrorSpan {
            span: word.into(),
            side: Side::Target,
            start: Some(0),
            end: Some(word.chars().count()),
            ambiguous: false,
            category: "accuracy/mistranslation".into(),
            severity: if penalty > 12.0 { Severity::Major } else { Severity::Minor },
            weight: penalty,
            explanation: None,
            suggestion: None,
            confidence: None,
            times: 1,
        };
        let errors = if penalty > 0.0 && !word.is_empty() { vec![error] } else { Vec::new() };
        Ok(Verdict { raw: penalty, ..Verdict::new(-penalty, errors) })
    }
}

impl Protocol for TinyJudge {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        match self.unit {
            Unit::Group => {
                let (source, hypothesis) = joined(group);
                vec![Self::ask(panel, &source, &hypothesis)]
            }
            Unit::Segment => (group.iter().enumerate())
                .map(|(i, s)| Self::ask(&panel.about(i), &s.source, &s.hypothesis))
                .collect(),
        }
    }
}

/// A panel with one scripted model, and that model.
pub fn panel() -> (Panel, Arc<Numbers>) {
    models(Numbers::default())
}

/// A panel with this model in every role.
pub fn models(model: Numbers) -> (Panel, Arc<Numbers>) {
    let model = Arc::new(model);
    (Panel::new(model.clone(), Sampling::default()), model)
}

/// A run of a whole input, two groups at a time, that prints nothing.
pub fn options(out: &Path) -> RunConfig {
    RunConfig { jobs: 2, ..RunConfig::new(out) }
}

/// The verdicts of a finished run.
pub fn verdicts(path: &Path) -> Vec<Record> {
    run::verdicts(path).unwrap().collect::<Result<_, _>>().unwrap()
}
