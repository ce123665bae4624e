//! A unit's calls as text for a terminal, with control characters made harmless. It reads no files.

use std::fmt::Write;

use crate::{
    llm::{Finish, Message, MessageRole},
    plain::plain,
    run::{
        Record,
        call::{CallLine, Content},
    },
    segment::numbered,
};

/// The verdict, then all calls: what each question adds to an earlier one, and its reply.
pub fn text(record: &Record, calls: &[CallLine]) -> String {
    let mut out = String::new();
    verdict(&mut out, record);
    let calls = in_order(calls);
    for (idx, call) in calls.iter().enumerate() {
        heading(&mut out, idx + 1, calls.len(), call);
        let (n_repeated, which) = repeated(&calls[..idx], call).unwrap_or_default();
        if n_repeated > 0 {
            let turns = if n_repeated == 1 { "turn" } else { "turns" };
            let _ = writeln!(out, "({n_repeated} {turns} as in call {which})");
        }
        match &call.content {
            Some(content) => said(&mut out, content, n_repeated),
            None => out.push_str("(the run kept no questions and answers: `--calls off`)\n"),
        }
        if let Some(error) = &call.error {
            block(&mut out, "no answer", &error.to_string());
        }
    }
    if calls.is_empty() {
        out.push_str("\nno calls are recorded for this verdict\n");
    }
    out
}

/// A question from the first turn that is not repeated on, and the answer.
fn said(out: &mut String, content: &Content, n_repeated: usize) {
    let chat = &content.chat;
    for turn in &chat.messages()[n_repeated..] {
        block(out, speaker(turn.role), &turn.content);
    }
    if let Some(text) = chat.untemplated() {
        block(out, "prompt", text);
    }
    if !chat.prefill.is_empty() {
        block(out, "start of the answer", &chat.prefill);
    }
    block(out, "reply", content.shown());
}

fn verdict(out: &mut String, record: &Record) {
    let seg = record.seg.map_or_else(String::new, |seg| format!(", {}", numbered(seg)));
    let doc = if record.doc.is_empty() { String::new() } else { format!(", document {}", record.doc) };
    let pair = record.pair();
    let _ = writeln!(out, "{}, {pair}", plain(&format!("{}{doc}{seg}", record.system)));
    block(out, "source", &record.source);
    block(out, "hypothesis", &record.hypothesis);
    let summary = match (record.score, &record.reason) {
        (Some(score), _) => {
            let raw = record.raw.filter(|raw| raw.to_bits() != score.to_bits());
            let quality = record.quality_score.map_or_else(String::new, |q| format!(", quality {q}"));
            let interval = record.interval_text();
            format!(
                "score {score}{}{interval}{quality}",
                raw.map_or_else(String::new, |raw| format!(" (raw {raw})"))
            )
        }
        (None, reason) => {
            format!("no verdict, {}: {}", record.status.name(), reason.as_deref().unwrap_or("no reason"))
        }
    };
    let errors = record.errors.iter().map(|error| {
        let place = match (error.start, error.end) {
            (Some(start), Some(end)) => {
                let side = format!("{:?}", error.side).to_lowercase();
                format!(" {side} {start}..{end}{}", if error.ambiguous { "?" } else { "" })
            }
            _ => " in neither text".into(),
        };
        let confidence = error.confidence.map_or_else(String::new, |c| format!(", confidence {c:.3}"));
        let reason = error.explanation.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let suggestion =
            error.suggestion.as_ref().map_or_else(String::new, |text| format!("\n  suggestion: {text}"));
        let (severity, category, weight) = (error.severity, &error.category, error.weight);
        format!(
            "\n{severity} {category} \"{}\"{place}, penalty {weight}{confidence}{reason}{suggestion}",
            error.span
        )
    });
    block(out, "verdict", &(summary + &errors.collect::<String>()));
    if let Some(warning) = &record.warning {
        block(out, "warning", warning);
    }
}

fn heading(out: &mut String, number: usize, of: usize, call: &CallLine) {
    let usage = &call.usage;
    let end = match call.finish {
        Finish::Stop => "",
        Finish::Length => ", cut off at its budget",
        Finish::Form => ", complete in its form",
        Finish::Open => ", which ended the turn",
    };
    let again = if call.attempt > 0 { ", asked again" } else { "" };
    let outcome = call.outcome.as_ref().map_or_else(String::new, |outcome| format!(": {outcome}"));
    let spelled = call.content.as_ref().map(|content| &content.spelled);
    let n_answer = spelled.map_or(usage.generated, |spelled| spelled.tokens.len());
    let logprob = spelled.filter(|_| n_answer > 0).map_or_else(String::new, |spelled| {
        format!(", log-probability {:.3}", spelled.logprobs.iter().sum::<f64>())
    });
    let _ = writeln!(
        out,
        "\n=== {number}/{of} {} by {}{again}{outcome} ===\n{} prompt tokens ({} cached), {n_answer} answer \
         tokens{logprob}{end}",
        plain(&call.stage),
        plain(&call.role),
        usage.prompt(),
        usage.cached
    );
}

/// The recorded order, except for calls made at the same time (`stage/part`), which were recorded in random
/// order: they are sorted by stage, then by part. A stage without parts ends such a stretch.
fn in_order(calls: &[CallLine]) -> Vec<&CallLine> {
    let mut ordered = Vec::with_capacity(calls.len());
    let is_part = |call: &CallLine| call.stage.contains('/');
    for stretch in calls.chunk_by(|a, b| is_part(a) && is_part(b)) {
        let stage = |call: &CallLine| call.stage.split('/').next().unwrap_or_default().to_owned();
        let first = |call: &CallLine| stretch.iter().position(|other| stage(other) == stage(call));
        let mut stretch: Vec<&CallLine> = stretch.iter().collect();
        stretch.sort_by_cached_key(|call| (first(call), call.stage.clone()));
        ordered.extend(stretch);
    }
    ordered
}

/// The number of turns that this call shares with the earlier one that it continues furthest, and that call's
/// number.
fn repeated(earlier: &[&CallLine], call: &CallLine) -> Option<(usize, usize)> {
    let Content { chat, .. } = call.content.as_ref()?;
    let shared = |other: &CallLine| {
        let other = other.content.as_ref()?;
        let reply = Message { role: MessageRole::Assistant, content: other.reply.clone() };
        let theirs = other.chat.messages().iter().chain(std::iter::once(&reply));
        Some(chat.messages().iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count())
    };
    let all = earlier.iter().enumerate().filter_map(|(idx, other)| Some((shared(other)?, idx + 1)));
    all.max_by_key(|(n, number)| (*n, std::cmp::Reverse(*number))).filter(|(n, _)| *n > 0)
}

/// The name of a speaker in transcripts.
pub(super) fn speaker(role: MessageRole) -> &'static str {
    match role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    }
}

/// A label with an indented text below it.
fn block(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "[{label}]");
    for line in plain(text).lines() {
        let _ = writeln!(out, "  {line}");
    }
}
