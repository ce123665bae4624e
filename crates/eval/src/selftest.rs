//! Self-test of this build on this machine: a small model of seeded noise judges a few segments on each
//! instruction set of the processor, and its verdicts and log-probabilities are compared with recorded ones.
//! Neither model nor recording is a file outside the program. GPUs are checked by
//! [`crate::models::gpu_check`].

use std::{path::Path, sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{Engine, Isa},
    error::{Error, Result},
    files,
    judges::{self, Panel, Settings, Verdict, panel::Call},
    llm::{self, Chat, Llm, Reply, ResponseFormat, Sampling, Scored},
    models,
    segment::{Lang, Segment},
    spec::{DeviceRequest, Resources},
};

mod model;

/// The recording: a [`Line`] for each segment, in JSON. It is the same for all instruction sets, since the
/// formats of the model's matrices give the same bits on all of them (`bf16` does for numbers of this size).
pub const RECORDED: &str = include_str!("selftest/recorded.jsonl");

const SEGMENTS: &str = include_str!("selftest/segments.tsv");

/// The judge's prompts, which are short to save time.
const PROMPTS: [(&str, &str); 3] = [
    ("system.j2", include_str!("selftest/system.j2")),
    ("spans.j2", include_str!("selftest/spans.j2")),
    ("score.j2", include_str!("selftest/score.j2")),
];

/// Error spans, a score, and the probabilities of all scores.
const METHOD: &str = "gemba-esa:shots=0,score=expected";

/// The most tokens of an answer.
const BUDGET: usize = 400;

/// Results of one segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// From 1.
    pub segment: usize,
    /// The mean of the score's distribution, in millionths; missing without a verdict.
    pub score: Option<f64>,
    /// The score that was written, and the errors: or why there is no verdict.
    pub verdict: String,
    /// Log-probabilities of the answers' tokens, in billionths of a nat: finer than the bits of an f32, and
    /// coarser than the differences between systems' logarithms.
    pub logprobs: Vec<f64>,
}

/// The first difference from the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// From 1.
    pub segment: usize,
    /// `verdict`, `score`, or `log-probability of token N`.
    pub what: String,
    pub expected: String,
    pub found: String,
}

/// Result of the self-test on an instruction set.
#[derive(Clone, Debug, Serialize)]
pub struct CpuReport {
    pub isa: &'static str,
    /// Unit: seconds.
    pub seconds: f64,
    /// `None` if everything is as recorded.
    pub wrong: Option<Difference>,
}

/// Number of segments in the self-test.
pub fn n_segments() -> usize {
    SEGMENTS.lines().count()
}

/// Judges on each instruction set of this processor, slowest first.
///
/// # Errors
/// A model that cannot be written to a temporary folder or opened there.
pub fn check() -> Result<Vec<CpuReport>> {
    let check = |isa: Isa| {
        let start = Instant::now();
        let found = judged(isa)?;
        let wrong = difference(RECORDED, &found);
        Ok(CpuReport { isa: isa.name(), seconds: start.elapsed().as_secs_f64(), wrong })
    };
    Isa::available().map(check).collect()
}

/// Results of an instruction set, segment by segment.
///
/// # Errors
/// The errors of [`check`].
pub fn judged(isa: Isa) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("selftest.gguf");
    write(&path, &model::gguf())?;
    let prompts = folder.path().join("prompts/gemba_esa");
    std::fs::create_dir_all(&prompts)?;
    for (name, text) in PROMPTS {
        write(&prompts.join(name), text.as_bytes())?;
    }
    let resources = Resources {
        device: DeviceRequest::Cpu,
        cpu_tier: isa.name().into(),
        kv_cache: Some(16 << 20),
        ..Resources::default()
    };
    let engine = Engine::open(&path, &models::options(&resources)?)?;
    let sampling = Sampling { temperature: 1.0, top_p: 0.9, seed: 1, ..Sampling::default() };
    let panel = Panel::new(Arc::new(Noise(engine)), sampling);
    let settings = Settings {
        prompts: Some(folder.path().join("prompts")),
        max_tokens: Some(BUDGET),
        ..Settings::default()
    };
    let judge = tribunal_replication::build(METHOD, &settings)?;
    let verdicts = judge.judge(&panel, &segments());
    let calls = panel.take_calls();
    let line = |(idx, verdict)| line(idx, verdict, &calls);
    Ok(verdicts.into_iter().enumerate().map(line).collect())
}

/// The first difference between a recording and what was computed.
pub fn difference(recorded: &str, found: &[Line]) -> Option<Difference> {
    let recorded: Vec<Line> = recorded.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if recorded.len() != found.len() {
        let segment = recorded.len().min(found.len()) + 1;
        let [expected, found] = [recorded.len(), found.len()].map(|n| n.to_string());
        return Some(Difference { segment, what: "number of segments".into(), expected, found });
    }
    recorded.iter().zip(found).find_map(|(recorded, found)| differs(recorded, found))
}

fn differs(recorded: &Line, found: &Line) -> Option<Difference> {
    let segment = recorded.segment;
    let differ = |field: &str, expected: String, found: String| {
        (expected != found).then(|| Difference { segment, what: field.into(), expected, found })
    };
    let shown = |value: Option<&f64>| value.map_or_else(|| "none".to_owned(), f64::to_string);
    // The first token that differs is nearer to the cause than the verdict that follows from it.
    let n_tokens = recorded.logprobs.len().max(found.logprobs.len());
    let token = |idx: usize| {
        let [expected, found] = [recorded, found].map(|line| shown(line.logprobs.get(idx)));
        differ(&format!("log-probability of token {}", idx + 1), expected, found)
    };
    let tokens = (0..n_tokens).find_map(token);
    let verdict = || differ("verdict", recorded.verdict.clone(), found.verdict.clone());
    let score = || differ("score", shown(recorded.score.as_ref()), shown(found.score.as_ref()));
    tokens.or_else(verdict).or_else(score)
}

fn line(idx: usize, verdict: Result<Verdict, judges::Error>, calls: &[Call]) -> Line {
    let of_segment = calls.iter().filter(|call| call.unit == Some(idx) && call.scored.is_empty());
    let tokens = of_segment.flat_map(|call| &call.reply.tokens);
    let logprobs = tokens.map(|token| rounded(token.logprob, 1e9)).collect();
    let (score, verdict) = match verdict {
        Ok(verdict) => (Some(rounded(verdict.score, 1e6)), shown(&verdict)),
        Err(error) => (None, error.to_string()),
    };
    Line { segment: idx + 1, score, verdict, logprobs }
}

fn shown(verdict: &Verdict) -> String {
    let error = |error: &crate::mqm::ErrorSpan| {
        let place =
            error.start.zip(error.end).map_or_else(String::new, |(start, end)| format!(" {start}-{end}"));
        let confidence = error.confidence.map_or_else(String::new, |confidence| format!(" {confidence}"));
        format!("; {} {} `{}`{place}{confidence}", error.severity, error.category, error.span)
    };
    let errors: String = verdict.errors.iter().map(error).collect();
    format!("{}{errors}", verdict.raw)
}

/// The nearest multiple of `1 / parts`.
fn rounded(x: f64, parts: f64) -> f64 {
    (x * parts).round() / parts
}

fn segments() -> Vec<Segment> {
    let segment = |line: &str| {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let lang = |code| Lang::parse(code).expect("the codes are constants that are known");
        Segment::new((lang(field()), lang(field())), field(), field())
    };
    SEGMENTS.lines().map(segment).collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = files::write(path, |file| file.write_all(bytes));
    written.map_err(|error| Error::File { path: error.path, source: error.source })
}

/// The answers of noise, as if they were not at chance level.
struct Noise(Engine);

impl Llm for Noise {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        let reply = self.0.ask(chat, form, sampling)?;
        Ok(Reply { is_chance: false, ..reply })
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        let scored = self.0.score_continuations(chat, continuations)?;
        Ok(scored.into_iter().map(|scored| Scored { is_chance: false, ..scored }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Vec<Line> {
        RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(difference(RECORDED, &recorded()), None);
        let changed = |change: fn(&mut Line)| {
            let mut lines = recorded();
            change(&mut lines[6]);
            difference(RECORDED, &lines).map(|found| (found.segment, found.what))
        };
        assert_eq!(changed(|line| line.logprobs[3] += 1e-9), Some((7, "log-probability of token 4".into())));
        assert_eq!(changed(|line| line.verdict.push('.')), Some((7, "verdict".into())));
        assert_eq!(changed(|line| line.score = None), Some((7, "score".into())));
        assert_eq!(changed(|line| line.logprobs.truncate(2)).unwrap().0, 7);
        assert_eq!(difference(RECORDED, &recorded()[1..]).unwrap().what, "number of segments");
    }

    #[test]
    fn the_recording_says_something() {
        let lines = recorded();
        assert_eq!(lines.len(), n_segments());
        assert!(lines.iter().all(|line| line.score.is_some()), "every segment has a verdict");
        assert!(lines.iter().filter(|line| line.verdict.contains(';')).count() > 5, "some have errors");
        assert!(lines.iter().all(|line| line.logprobs.len() > 10));
    }
}
