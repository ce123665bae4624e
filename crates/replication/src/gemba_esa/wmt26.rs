//! WMT 2026's baseline as its published program runs it on local models (`run_qe_local.py`, `qe_utils.py`):
//! the authors' texts from the user's copy, faults included. [`tribunal_judges::gemba_esa`] lists what
//! differs.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use tribunal_core::{
    llm::{Chat, Reasoning, Reply, ResponseFormat},
    mqm::{self, ErrorSpan, Repeats, Severity, weights::Weights},
    segment::Segment,
};
use tribunal_judges::{
    Error, Judge, Panel, Protocol, Provenance, Result, Role, Settings, Stage, Verdict, confidence,
    gemba_esa::{
        Options, SCORE_STAGE, SPANS_STAGE,
        wmt26::{Domain, GENERAL, THOUGHT},
    },
    method::Calls,
    prompt,
    reading::{self, pattern},
    setup::{self, Reference},
};

use self::authors::Texts;
use crate::python::parse_float;

mod authors;

const OMISSION: &str = "accuracy/omission";

/// Answer tokens of the spans, without thinking, and of the score, with and without.
const SPANS_BUDGET: usize = 512;
const SCORE_BUDGET: usize = 64;

/// The baseline as published.
struct Published {
    texts: Texts,
    domain: Option<&'static str>,
    /// Tokens of thought and spans together.
    thinking: Option<usize>,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }

    fn check_input(&self, segments: &[Segment]) -> setup::Result<()> {
        let Some(segment) = segments.iter().find(|segment| self.texts.names(segment).is_none()) else {
            return Ok(());
        };
        let reason = format!(
            "WMT 2026's baseline has no prompt for {}-{}, only for {}; hint: use preset `strict`",
            segment.src_lang,
            segment.tgt_lang,
            self.texts.pairs()
        );
        Err(setup::Error::Conflict(reason))
    }

    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        self.domain.map_or(Domain::OfSegment, Domain::Given).notes(segments)
    }
}

/// The judge of the user's copy of the published file.
///
/// # Errors
/// No copy, one that lacks a text, and options for which nothing is published.
pub fn build(settings: &Settings, options: &Options) -> setup::Result<Judge> {
    let judge = Published::new(settings, options)?;
    let prompts = prompt::hash(judge.texts.all());
    let provenance = Provenance { prompts, ..Provenance::default() }.with("shots", "0");
    let sampled_at = judge.thinking.map(|_| [THOUGHT.temperature, THOUGHT.top_p]);
    let mut judge = Judge::new(provenance, judge).with_calls(Calls::exactly(2));
    judge.sampled_at = sampled_at;
    Ok(judge)
}

impl Published {
    fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let unpublished = |option: &str| {
            let reason =
                format!("`{option}` of `gemba-esa` has no published code; hint: use preset `strict`");
            Err(setup::Error::Conflict(reason))
        };
        if *options.is_expected {
            return unpublished("score=expected");
        }
        if *options.reference != Reference::Off {
            return unpublished("reference");
        }
        let domain = match *options.domain {
            Domain::OfSegment => None,
            Domain::Given(domain) => Some(domain),
            Domain::Hidden => return unpublished("domain=off"),
        };
        Ok(Self {
            texts: Texts::read(settings.prompts.as_deref())?,
            domain,
            thinking: options.thought()?.map(|thought| thought.max_tokens),
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
            max_tokens: settings.max_tokens,
        })
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let (source, target) = (&segment.source, &segment.hypothesis);
        if target.is_empty() {
            let all = ErrorSpan::new(OMISSION, source, Severity::Major);
            return Ok(self.verdict(segment, 0.0, vec![all]));
        }
        let unknown = || Error::Failed("the published code does not know this language pair".into());
        let names = self.texts.names(segment).ok_or_else(unknown)?;
        let domain = self.domain.or(segment.domain.as_deref()).unwrap_or(GENERAL);
        let question = self.texts.spans(names, domain, (source, target)).unwrap_or_default();
        let budget = self.max_tokens.or(self.thinking).unwrap_or(SPANS_BUDGET);
        let reply = self.ask(panel, SPANS_STAGE, question, budget)?;
        let spans = without_thought(&reply.text);
        let mut errors = read_errors(&spans);
        confidence::note(&reply, "span", &mut errors);
        for error in &mut errors {
            // `_find_span`: models end spans with stray backslashes.
            let bare = error.span.trim_end_matches('\\');
            if !target.contains(&error.span) && !bare.is_empty() && target.contains(bare) {
                error.span = bare.to_owned();
            }
        }
        let question = self.texts.score(names, domain, (source, target), &spans).unwrap_or_default();
        let reply = self.ask(panel, SCORE_STAGE, question, SCORE_BUDGET)?;
        let score = read_score(&reply.text).ok_or_else(|| {
            reading::unusable(&reply.text, "an answer in which the published code finds no score")
        })?;
        Ok(self.verdict(segment, score, errors))
    }

    /// The verdict; the baseline does not look for omissions in the translation.
    fn verdict(&self, segment: &Segment, score: f64, errors: Vec<ErrorSpan>) -> Verdict {
        let is_omission = |error: &ErrorSpan| error.category == OMISSION;
        let places: Vec<bool> = errors.iter().map(is_omission).collect();
        let (omitted, marked): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_omission);
        let assess = |errors, target: &str| {
            mqm::assess(errors, &segment.source, target, Repeats::Charged, self.weights).0.into_iter()
        };
        let (mut omitted, mut marked) = (assess(omitted, ""), assess(marked, &segment.hypothesis));
        let errors =
            places.into_iter().filter_map(|omits| if omits { omitted.next() } else { marked.next() });
        Verdict { quality_score: Some(score), ..Verdict::new(score, errors.collect()) }
    }

    /// An answer without any check, even one that its budget cut.
    fn ask(&self, panel: &Panel, stage: Stage, question: String, max_tokens: usize) -> Result<Reply> {
        let chat = Chat::new().system(self.texts.system.as_str()).user(question);
        let chat = Chat { thought: self.thinking.map(|_| Reasoning::Open), ..chat };
        let mut question = panel.question(&chat, &ResponseFormat::Text, max_tokens);
        if self.thinking.is_some() {
            question.sampling = THOUGHT.sampling(&question.sampling);
        }
        Ok(panel.ask(Role::Annotator, stage, &question)?)
    }
}

static THINKING: LazyLock<Regex> = LazyLock::new(|| pattern("(?s)<think>.*?</think>"));
static ENTRY: LazyLock<Regex> = LazyLock::new(|| pattern(r#"^(\S[^"]*?)\s*-\s*"([^"]*)""#));
static FENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^```[a-zA-Z]*\s*"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d+(?:\.\d+)?\b"));

/// The text without thoughts that open and close in it. A thought that the chat template has opened is kept.
fn without_thought(text: &str) -> String {
    reading::strip(&THINKING.replace_all(text, "")).to_owned()
}

/// Every line under a header that reads `category - "span"`. Source: `stage1_to_predicted_errors`.
fn read_errors(text: &str) -> Vec<ErrorSpan> {
    let mut severity = None;
    let mut errors = Vec::new();
    let is_end =
        |c: char| matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    for line in text.split(is_end).map(reading::strip) {
        match (line.to_lowercase().as_str(), severity) {
            ("major:", _) => severity = Some(Severity::Major),
            ("minor:", _) => severity = Some(Severity::Minor),
            ("no-error", _) | (_, None) => {}
            (_, Some(severity)) => {
                let entry = ENTRY.captures(line);
                errors.extend(entry.map(|entry| ErrorSpan::new(&entry[1], &entry[2], severity)));
            }
        }
    }
    errors
}

/// The score of the JSON object, or else the last number of the answer that is in 0 to 100. Source:
/// `parse_stage2_output`.
fn read_score(text: &str) -> Option<f64> {
    let text = without_thought(text);
    let is_score = |score: &f64| (0.0..=100.0).contains(score);
    let inner = FENCE.replace(&text, "");
    let inner = reading::strip(reading::strip(&inner).strip_suffix("```").unwrap_or(&inner));
    let score = serde_json::from_str::<Value>(inner).ok().and_then(|value| match value.get("score")? {
        Value::Number(number) => number.as_f64(),
        Value::String(number) => parse_float(number),
        Value::Bool(is_one) => Some(f64::from(u8::from(*is_one))),
        _ => None,
    });
    score.filter(is_score).or_else(|| {
        let numbers: Vec<f64> = NUMBER.find_iter(&text).filter_map(|n| parse_float(n.as_str())).collect();
        numbers.into_iter().rev().find(is_score)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right sides: `parse_stage2_output` of the baseline.
    #[test]
    fn scores_in_digits_that_python_reads() {
        for (answer, expected) in [
            (r#"{"score": "８５"}"#, Some(85.0)),
            (r#"{"score": "2_0"}"#, Some(20.0)),
            ("Score: ８５.５", Some(85.5)),
            (r#"{"score": "nan"}"#, None),
            (r#"{"score": NaN} 7"#, Some(7.0)),
        ] {
            assert_eq!(read_score(answer), expected, "{answer}");
        }
    }
}
