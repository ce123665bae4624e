//! GEMBA-ESA with the prompts of WMT 2026: conversations as snapshots, thinking, and the preset `code`
//! against the messages and scores of the published program. The published texts are not in this repository:
//! tests run on a stand-in, and on a copy where `TRIBUNAL_WMT26_BASELINE` names its folder.

use std::{fmt::Write as _, fs, path::PathBuf, sync::Arc};

use serde::Deserialize;
use tribunal_core::{
    llm::{Chat, Reasoning, Sampling},
    segment::{Lang, Segment},
};
use tribunal_judges::{Built, Error, Panel, Preset, Settings};

use tribunal_testing::{Preview as _, Script, dialogue, document, judge, judged, run, show};

const SPANS: &str = "Major:\naccuracy/mistranslation - \"Bank\"\nMinor:\nno-error";

/// A post with a reference.
fn post() -> Vec<Segment> {
    let one = document().remove(0);
    vec![Segment {
        reference: Some("Er ging auf die Bank zu.".into()),
        domain: Some("social".into()),
        reference_kind: Some("postedit".into()),
        ..one
    }]
}

fn script() -> Arc<Script> {
    Arc::new(Script::new().on("Annotated error spans:", &["71"]).on("", &[SPANS]))
}

#[test]
fn conversations() {
    let scenes = [("Annotated error spans:", "71"), ("", SPANS)];
    let shown = |options: &str, group: &[Segment]| {
        dialogue(&format!("gemba-esa:edition=wmt26{options}"), &Settings::default(), group, &scenes)
    };
    insta::assert_snapshot!("gemba_esa_wmt26", shown("", &document()[..1]));
    insta::assert_snapshot!("gemba_esa_wmt26_reference", shown(",reference=on", &post()));
}

#[test]
fn instructions_are_those_of_the_domain() {
    let first = |options: &str, domain: Option<&str>| -> String {
        let judge = judge(&format!("gemba-esa:edition=wmt26{options}"), &Settings::default());
        let segment = Segment { domain: domain.map(str::to_owned), ..document().remove(0) };
        let (chat, _) = judge.preview(&[segment]).remove(0);
        let shown = chat.messages()[1].content.lines().find(|line| line.starts_with("Instructions"));
        shown.unwrap_or("none").to_owned()
    };
    let general = first("", None);
    assert!(general.contains("in fluent German"), "{general}");
    assert_eq!(first("", Some("law")), general);
    let mut all: Vec<String> =
        ["news", "speech", "social", "software", "edu"].map(|domain| first("", Some(domain))).into();
    assert_eq!(first("", Some("factchecking")), all[0]);
    assert_eq!(first(",domain=edu", Some("news")), all[4]);
    all.push(general);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "{all:?}");
    assert_eq!(first(",domain=off", Some("news")), "none");
}

#[test]
fn domains_without_instructions_are_noted() {
    let notes = |request: &str, domain: &str| {
        let segment = Segment { domain: Some(domain.into()), ..document().remove(0) };
        judge(request, &Settings::default()).protocol().notes(&[segment])
    };
    insta::assert_snapshot!(notes("gemba-esa:edition=wmt26", "law").join("\n"), @"
    `gemba-esa` has no instructions for the domain `law` and shows the general ones
    hint: `domain=off` shows none, `domain=NAME` those of news, factchecking, speech, social, software, edu, general
    ");
    let none = judge("gemba-esa:edition=wmt26", &Settings::default()).protocol().notes(&document()[..1]);
    assert!(none[0].starts_with("the input names no domains"), "{none:?}");
    for request in ["gemba-esa", "gemba-esa:edition=wmt26,domain=off", "gemba-esa:edition=wmt26,domain=news"]
    {
        assert!(notes(request, "law").is_empty(), "{request}");
    }
    assert!(notes("gemba-esa:edition=wmt26", "edu").is_empty());
}

#[test]
fn both_stages_think_before_they_answer() {
    let judge = judge("gemba-esa:edition=wmt26,thinking=300,score=expected", &Settings::default());
    assert_eq!(judge.calls().most, 5);
    assert_eq!(judge.sampling(&Sampling::default()).temperature.to_bits(), 0.6f32.to_bits());
    let judge = tribunal_testing::judge("gemba-esa:edition=wmt26,thinking=300", &Settings::default());
    let script = Arc::new(
        Script::new().on("Annotated error spans:", &["It is fine.", "71"]).on("", &["Hm, the bank.", SPANS]),
    );
    let (verdicts, calls) = judged(&judge, &Panel::new(script, Sampling::default()), &document()[..1]);
    assert_eq!(verdicts[0].as_ref().unwrap().score.to_bits(), 71f64.to_bits());
    let shown: String = calls.iter().fold(String::new(), |mut text, call| {
        let Sampling { max_tokens, temperature, top_p, stop, .. } = &call.sampling;
        let thought = match &call.chat.thought {
            Some(Reasoning::Closed(thought)) => format!("after `{thought}`"),
            Some(Reasoning::Open) => "the thought".into(),
            None => "without a thought".into(),
        };
        writeln!(
            text,
            "{}: {thought}; {max_tokens} tokens at {temperature}, {top_p}, up to {stop:?}",
            call.step
        )
        .unwrap();
        text
    });
    insta::assert_snapshot!(shown, @r#"
    think/spans: the thought; 300 tokens at 0.6, 0.95, up to []
    spans: after `Hm, the bank.`; 768 tokens at 0.6, 0.95, up to []
    think/score: the thought; 300 tokens at 0.6, 0.95, up to []
    score: after `It is fine.`; 64 tokens at 0.6, 0.95, up to []
    "#);
}

#[test]
fn signatures_of_the_editions() {
    let signed = |request: &str, has_references: bool| {
        let settings = Settings { has_references, ..Settings::default() };
        let signed = tribunal_replication::build(request, &settings).unwrap().signature().all().to_string();
        signed.split("|signal").next().unwrap().to_owned()
    };
    insta::assert_snapshot!(
        "gemba_esa_wmt26_signatures",
        [
            signed("gemba-esa", true),
            signed("gemba-esa:edition=wmt26", true),
            signed("gemba-esa:edition=wmt26,reference=auto,domain=news,thinking=on", true),
            signed("gemba-esa:edition=wmt26,reference=auto,domain=auto,thinking=off", false),
        ]
        .join("\n")
    );
}

#[test]
fn what_is_wrong_with_a_request() {
    let refusal = |request: &str, settings: &Settings| {
        tribunal_replication::build(request, settings).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let strict = Settings::default();
    let code = Settings { preset: Preset::Code, prompts: Some(stand_in()), ..Settings::default() };
    let bare = Settings { prompts: None, ..code.clone() };
    insta::assert_snapshot!(
        "gemba_esa_wmt26_refusals",
        [
            refusal("gemba-esa:domain=news", &strict),
            refusal("gemba-esa:thinking=on", &strict),
            refusal("gemba-esa:edition=wmt26,shots=3", &strict),
            refusal("gemba-esa:edition=wmt26,thinking=0.5", &strict),
            refusal("gemba-esa:edition=wmt26,thinking=on,reasoning=low", &strict),
            refusal("gemba-esa:edition=wmt25", &strict),
            refusal("gemba-esa:edition=wmt26,reference=on", &code),
            refusal("gemba-esa:edition=wmt26,domain=off", &code),
            refusal("gemba-esa:edition=wmt26,score=expected", &code),
            refusal("gemba-esa:edition=wmt26", &bare),
        ]
        .join("\n")
    );
    let judge = tribunal_replication::build("gemba-esa:edition=wmt26,reference=on", &strict).unwrap();
    let missing = run(&judge, &script(), &document()[..1]).remove(0);
    assert!(matches!(&missing, Err(Error::Failed(why)) if why.contains("no reference")), "{missing:?}");
    let judge = tribunal_replication::build("gemba-esa:edition=wmt26", &code).unwrap();
    let other = judge.protocol().check_input(&[segment(["is", "de"], None, "a", "b")]).unwrap_err();
    insta::assert_snapshot!(other, @"WMT 2026's baseline has no prompt for is-de, only for en_Latn-de_Latn, en_Latn-zh_Hans, en_Latn-zh_Hant_TW; hint: use preset `strict`");
}

#[test]
fn what_is_wrong_with_a_copy_of_the_published_file() {
    let whole = fs::read_to_string(stand_in().join("qe_utils.py")).unwrap();
    let refusal = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("qe_utils.py"), whole.replace(from, to)).unwrap();
        let prompts = Some(folder.path().to_owned());
        let settings = Settings { preset: Preset::Code, prompts, ..Settings::default() };
        let said =
            tribunal_replication::build("gemba-esa:edition=wmt26", &settings).err().unwrap().to_string();
        said.replace(&folder.path().display().to_string(), "COPY")
    };
    insta::assert_snapshot!(
        "gemba_esa_wmt26_copies",
        [
            refusal("SYSTEM_PROMPT", "SYSTEM"),
            refusal("    \"news\": (", "    news: ("),
            refusal("def build_stage1_prompt", "def build"),
            refusal("{hyp_text}>\\n\\n", "{hypothesis}>"),
            refusal("\"general\"", "\"any\""),
            refusal("_Latn", "_Roman"),
        ]
        .join("\n")
    );
}

/// The folder with the stand-in for the published file.
fn stand_in() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/gemba_esa").into()
}

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    languages: [String; 2],
    domain: Option<String>,
    source: String,
    translation: String,
    answers: [String; 2],
    stand_in: [Sent; 2],
    published: [Sent; 2],
    read: Read,
    score: Option<f64>,
}

/// The messages of a stage.
#[derive(Debug, PartialEq, Deserialize)]
struct Sent {
    bytes: usize,
    sha256: String,
}

/// The errors that the program parses from the first answer.
#[derive(Deserialize)]
struct Read {
    errors: Vec<Marked>,
    omission: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Marked {
    start: usize,
    end: usize,
    severity: String,
    category: String,
}

fn segment(languages: [&str; 2], domain: Option<&str>, source: &str, translation: &str) -> Segment {
    let [src, tgt] = languages.map(|code| Lang::parse(code).unwrap());
    Segment { domain: domain.map(str::to_owned), ..Segment::new((src, tgt), source, translation) }
}

fn code(options: &str, prompts: PathBuf) -> Built {
    let settings = Settings { preset: Preset::Code, prompts: Some(prompts), ..Settings::default() };
    judge(&format!("gemba-esa:edition=wmt26{options}"), &settings)
}

/// Compares messages, errors and scores with the recording.
fn check(prompts: PathBuf, sent_of: fn(&Case) -> &[Sent; 2]) {
    let golden: Golden =
        serde_json::from_str(&fs::read_to_string(stand_in().join("wmt26.json")).unwrap()).unwrap();
    let judge = code("", prompts);
    assert_eq!(golden.cases.len(), 6);
    for case in &golden.cases {
        let [src, tgt] = case.languages.each_ref().map(String::as_str);
        let segment = segment([src, tgt], case.domain.as_deref(), &case.source, &case.translation);
        let answers: Vec<_> = case.answers.iter().map(String::as_str).collect();
        let script = Arc::new(Script::new().on("", &answers));
        let verdict = run(&judge, &script, std::slice::from_ref(&segment)).remove(0);
        let sent: Vec<Sent> = script.in_order().iter().map(|(chat, ..)| sent(chat)).collect();
        assert_eq!(&sent, sent_of(case), "{}", case.source);
        let budgets: Vec<_> = script.in_order().iter().map(|(.., s)| (s.max_tokens, s.temperature)).collect();
        assert_eq!(budgets, [(512, 0.0), (64, 0.0)]);
        let Some(score) = case.score else {
            assert!(matches!(verdict, Err(Error::Refused(_))), "{verdict:?}");
            continue;
        };
        let verdict = verdict.unwrap_or_else(|e| panic!("{}: {e}", case.source));
        assert_eq!(verdict.score.to_bits(), score.to_bits(), "{}", case.source);
        let (omitted, marked): (Vec<_>, Vec<_>) =
            verdict.errors.into_iter().partition(|error| error.category == "accuracy/omission");
        assert_eq!(omitted.first().map(|error| error.severity.name()), case.read.omission.as_deref());
        let marked: Vec<Marked> = marked
            .into_iter()
            .filter_map(|error| {
                let (start, end) = (error.start?, error.end?);
                let severity = error.severity.name().to_owned();
                Some(Marked { start, end, severity, category: error.category })
            })
            .collect();
        assert_eq!(marked, case.read.errors, "{}", case.source);
    }
}

fn sent(chat: &Chat) -> Sent {
    let text = serde_json::to_string(&chat.messages()).unwrap();
    Sent { bytes: text.len(), sha256: tribunal_core::digest::sha256(&text) }
}

#[test]
fn code_sends_and_reads_what_the_published_program_does() {
    check(stand_in(), |case| &case.stand_in);
    if let Some(copy) = std::env::var_os("TRIBUNAL_WMT26_BASELINE") {
        check(copy.into(), |case| &case.published);
    }
}

#[test]
fn code_thinks_with_the_budgets_of_the_published_program() {
    let judge = code(",thinking=on", stand_in());
    let script =
        Arc::new(Script::new().on("", &["Major? No.</think>\nMajor:\nother - \"b\"", "So 3 of 5 or"]));
    let segment = segment(["en", "de"], None, "a", "b");
    let verdict = run(&judge, &script, std::slice::from_ref(&segment)).remove(0);
    // The thought stays in the annotation, and its last number is the score.
    insta::assert_snapshot!(show(&verdict), @"
    score 5 raw 5 quality 5
      major other `b` target 0..1 weight 5
    ");
    let asked = script.in_order();
    let budgets: Vec<_> = asked.iter().map(|(.., s)| (s.max_tokens, s.temperature.to_string())).collect();
    assert_eq!(budgets, [(8192, "0.6".to_owned()), (64, "0.6".to_owned())]);
    assert!(asked.iter().all(|(chat, ..)| chat.thought == Some(Reasoning::Open)));
    assert!(asked[1].0.messages()[1].content.contains("<Major? No.</think>\nMajor:"));
    let empty = Segment { hypothesis: String::new(), ..segment };
    let script = Script::says("nothing");
    let verdict = run(&judge, &script, &[empty]).remove(0);
    insta::assert_snapshot!(show(&verdict), @"
    score 0 raw 0 quality 0
      major accuracy/omission `a` source 0..1 weight 5
    ");
    assert!(script.in_order().is_empty());
}

/// A stray backslash after a span is no part of it, and an omission is not looked for in the translation.
#[test]
fn code_finds_the_spans_that_the_published_program_finds() {
    let judge = code("", stand_in());
    let spans = "Major:\naccuracy/omission - \"b\"\nother - \"b\\\"\nother - \"c\\\"\nMinor:\nno-error";
    let script = Arc::new(Script::new().on("", &[spans, r#"{"score": "8_5"}"#]));
    let verdict = run(&judge, &script, &[segment(["en", "de"], None, "a", "a b")]).remove(0);
    insta::assert_snapshot!(show(&verdict), @r"
    score 85 raw 85 quality 85
      major accuracy/omission `b` source nowhere weight 5
      major other `b` target 2..3 weight 5
      major other `c\` target nowhere weight 5
    ");
}
