//! Helpers by which tests run a judge: a group against a script, the questions that it would ask, and both in
//! readable form.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use tribunal_core::{
    llm::{Chat, Layout, ResponseFormat, Sampling},
    segment::Segment,
};
use tribunal_judges::{
    Built, Call, Error, Panel, Preset, REASONING, Role, Settings, Step, Unit, Verdict, method::Method,
    rehearse,
};

use crate::{Script, document};

pub fn settings(preset: Preset) -> Settings {
    Settings { preset, ..Settings::default() }
}

pub fn judge(request: &str, settings: &Settings) -> Built {
    tribunal_replication::build(request, settings).unwrap_or_else(|e| panic!("{request}: {e}"))
}

/// The verdicts of a judge on a group, and its calls. Every stage and role of the calls must be declared by
/// the method.
pub fn judged(judge: &Built, panel: &Panel, group: &[Segment]) -> (Vec<Result<Verdict, Error>>, Vec<Call>) {
    let verdicts = judge.judge(panel, group);
    let calls = panel.take_calls();
    expect_declared(&judge.method(), calls.iter().map(|call| (&call.step, call.role)));
    (verdicts, calls)
}

/// Fails when a method asks at a stage, or a role, that it does not name.
fn expect_declared<'a>(method: &Method<'_>, asked: impl Iterator<Item = (&'a Step, Role)>) {
    for (step, role) in asked {
        let is_declared = method.stages.contains(&step.stage) || step.stage == REASONING;
        assert!(is_declared, "`{}` does not name the stage `{step}`", method.name);
        assert!(
            method.roles.contains(&role),
            "`{}` does not name the role `{role}` of `{step}`",
            method.name
        );
    }
}

/// The questions that a judge asks at the least, as tests look at them: each with its budget.
pub trait Preview {
    fn preview(&self, group: &[Segment]) -> Vec<(Chat, usize)>;
}

impl Preview for Built {
    fn preview(&self, group: &[Segment]) -> Vec<(Chat, usize)> {
        let panel = Panel::new(Arc::new(Script::new()), Sampling::default());
        let questions = rehearse(self.as_ref(), &panel, group, None);
        expect_declared(&self.method(), questions.iter().map(|question| (&question.step, question.role)));
        questions.into_iter().map(|question| (question.chat, question.max_tokens)).collect()
    }
}

/// The verdicts of a judge on a group when this script answers it.
pub fn run(judge: &Built, script: &Arc<Script>, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
    let (verdicts, _) = judged(judge, &Panel::new(script.clone(), Sampling::default()), group);
    let n_units = if judge.unit == Unit::Group { 1 } else { group.len() };
    assert_eq!(verdicts.len(), n_units, "one entry for each unit");
    verdicts
}

/// The verdict on a segment from a model that gives this answer.
pub fn verdict(judge: &Built, answer: &str) -> Result<Verdict, Error> {
    run(judge, &Script::says(answer), &document()[..1]).remove(0)
}

/// A verdict on a few lines.
pub fn show(verdict: &Result<Verdict, Error>) -> String {
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(error) => return format!("{}: {error}\n", format!("{error:?}").split('(').next().unwrap()),
    };
    let mut text = format!("score {} raw {}", verdict.score, verdict.raw);
    if let Some(quality) = verdict.quality_score {
        write!(text, " quality {quality}").unwrap();
    }
    text.push('\n');
    for e in &verdict.errors {
        let place = match (e.start, e.end) {
            (Some(start), Some(end)) => format!("{start}..{end}{}", if e.ambiguous { "?" } else { "" }),
            _ => "nowhere".into(),
        };
        let side = format!("{:?}", e.side).to_lowercase();
        writeln!(text, "  {} {} `{}` {side} {place} weight {}", e.severity, e.category, e.span, e.weight)
            .unwrap();
    }
    text
}

/// A question as a person reads it.
pub fn show_question(chat: &Chat, form: &ResponseFormat) -> String {
    let turns = chat.messages().iter().map(|t| format!("<<< {:?} >>>\n{}\n", t.role, t.content));
    let form = match form {
        ResponseFormat::Json { schema, texts } => {
            format!("JSON\n{}\n{}", serde_json::to_string_pretty(schema).unwrap(), show_texts(texts))
        }
        ResponseFormat::Layout { layout, texts } => {
            format!("Layout\n{}\n{}", show_layout(layout), show_texts(texts))
        }
        other => format!("{other:?}\n"),
    };
    turns.collect::<String>() + "<<< Form >>> " + &form
}

fn show_texts(texts: &BTreeMap<String, String>) -> String {
    texts.iter().map(|(name, text)| format!("{name} = {text:?}\n")).collect::<Vec<_>>().concat()
}

/// A layout as a grammar: `<source>` is a span of that text.
fn show_layout(layout: &Layout) -> String {
    let all =
        |parts: &[Layout], between: &str| parts.iter().map(show_layout).collect::<Vec<_>>().join(between);
    match layout {
        Layout::Literal(text) => format!("{text:?}"),
        Layout::Matching(expression) => format!("/{expression}/"),
        Layout::Span { texts, without } => format!("<{} without {without:?}>", texts.join("|")),
        Layout::Sequence(parts) => all(parts, " "),
        Layout::OneOf(parts) => format!("({})", all(parts, " | ")),
        Layout::Repeat { part, min, max } => format!("({}){{{min},{max:?}}}", show_layout(part)),
    }
}

/// All that a judge asks about the document, and what it makes of one answer to all of it.
pub fn conversation(request: &str, settings: &Settings, group: &[Segment], answer: &str) -> String {
    let judge = judge(request, settings);
    let script = Script::says(answer);
    let verdicts = run(&judge, &script, group);
    let asked = script.asked();
    let mut planned: Vec<_> = judge.preview(group);
    planned.sort_by(|a, b| {
        a.0.messages().last().map(|t| &t.content).cmp(&b.0.messages().last().map(|t| &t.content))
    });
    let budgets: Vec<_> =
        asked.iter().map(|(chat, _, sampling)| (chat.clone(), sampling.max_tokens)).collect();
    assert_eq!(planned, budgets, "{request}: what is planned is what is asked");
    let questions: String = asked.iter().map(|(chat, form, _)| show_question(chat, form)).collect();
    format!(
        "{}\n{questions}<<< Answer >>>\n{answer}\n<<< Verdicts >>>\n{}",
        judge.signature().all(),
        verdicts.iter().map(show).collect::<String>()
    )
}

/// All questions about one segment in the order of the calls, with the answers, and the verdict.
pub fn dialogue(request: &str, settings: &Settings, group: &[Segment], scenes: &[(&str, &str)]) -> String {
    let judge = judge(request, settings);
    let script =
        Arc::new(scenes.iter().fold(Script::new(), |script, (needle, answer)| script.on(needle, &[*answer])));
    let verdicts = run(&judge, &script, group);
    let mut text = format!("{}\n", judge.signature().all());
    for (chat, form, sampling) in script.in_order() {
        let question = &chat.messages().last().unwrap().content;
        let answer = scenes.iter().find(|(needle, _)| question.contains(needle)).map_or("", |(_, a)| *a);
        let question = show_question(&chat, &form);
        write!(text, "{question}<<< Budget >>> {}\n<<< Answer >>>\n{answer}\n", sampling.max_tokens).unwrap();
    }
    let planned = judge.preview(group);
    let asked = script.in_order();
    assert!(planned.iter().all(|(chat, n)| asked.iter().any(|(c, _, s)| c == chat && s.max_tokens == *n)));
    text + "<<< Verdicts >>>\n" + &verdicts.iter().map(show).collect::<String>()
}

pub const TEXT_ANSWER: &str = "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"Bank\"\naccuracy/omission - \
                           \"went\"\nMinor:\nfluency/punctuation - \".\"\n";

pub const STRICT_ANSWER: &str = r#"{"errors":[{"error_category":"accuracy","error_type":"omission","error_span":"bank","explanation":"missing","severity":"major"},{"error_category":"fluency","error_type":"grammar","error_span":"Bank","explanation":"","severity":"minor"}],"quality_score":70}"#;

pub const PAPER_ANSWER: &str = r#"{
  "errors": [
    {"error_span": "", "explanation": "missing", "error_category": "accuracy", "error_type": "omission", "severity": "critical"},
    {"explanation": "no span", "error_category": "other", "error_type": "tone of voice", "severity": "minor"},
    {"error_span": "bank", "explanation": "left", "error_category": "accuracy", "error_type": "untranslated text", "severity": "major"}
  ],
  "quality_score": 12
}"#;

/// `STRICT_ANSWER` without what a layout does not ask for.
pub fn strict_answer(explain: bool, quality: bool) -> String {
    let mut answer: serde_json::Value = serde_json::from_str(STRICT_ANSWER).unwrap();
    for error in answer["errors"].as_array_mut().unwrap() {
        if !explain {
            error.as_object_mut().unwrap().shift_remove("explanation");
        }
    }
    if !quality {
        answer.as_object_mut().unwrap().shift_remove("quality_score");
    }
    answer.to_string()
}

#[test]
#[should_panic(expected = "`difficulty` does not name the stage `annotate`")]
fn a_stage_that_no_method_names_is_noticed() {
    let judge = judge("gemba-mqm", &Settings::default());
    let panel = Panel::new(Script::says(TEXT_ANSWER), Sampling::default());
    let (_, calls) = judged(&judge, &panel, &document()[..1]);
    let method = tribunal_judges::registry::find("difficulty").unwrap();
    expect_declared(method, calls.iter().map(|call| (&call.step, call.role)));
}

#[test]
#[should_panic(expected = "`rate` does not name the")]
fn a_role_that_no_method_names_is_noticed() {
    let method = tribunal_judges::registry::find("rate").unwrap();
    let step = Step::from(method.stages[0]);
    expect_declared(method, std::iter::once((&step, Role::DebaterA)));
}
