//! The bytes of preset `code`'s questions against those of the authors' own code. `tests/golden/prompts.json`
//! has their length and hash, written by `scripts/golden_prompts.py` from the authors' repositories, and the
//! commits.
//!
//! Of EAPrompt's examples only one is in this repository. Where `TRIBUNAL_EAPROMPT` names a copy of the
//! authors' `context.py`, all of them are compared.

use std::{fs, path::PathBuf, sync::Arc};

use serde::Deserialize;
use tribunal_core::{
    llm::Chat,
    segment::{Segment, lang},
};
use tribunal_judges::{Error, Preset, Settings};

use tribunal_testing::{Script, document, judge, run};

#[derive(Deserialize)]
struct Golden {
    inputs: std::collections::BTreeMap<String, Texts>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Texts {
    source: String,
    reference: String,
    target: String,
}

#[derive(Deserialize)]
struct Case {
    request: String,
    pair: String,
    bytes: usize,
    sha256: String,
    /// The second question of a method, and the answer to the first; `null` where that was cut.
    stage: Option<String>,
    answer: Option<String>,
    /// Source of the examples in an EAPrompt.
    examples: Option<String>,
}

fn golden() -> Golden {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/golden/prompts.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn segment(golden: &Golden, pair: &str) -> Segment {
    let Texts { source, reference, target } = &golden.inputs[pair];
    let (src_lang, tgt_lang) = lang::parse_pair(pair).unwrap();
    let one = document().remove(0);
    let (source, hypothesis, reference) = (source.clone(), target.clone(), Some(reference.clone()));
    Segment { src_lang, tgt_lang, source, hypothesis, reference, ..one }
}

/// Compares the question of a case, asked with these shots.
fn check(golden: &Golden, case: &Case, shots: Option<PathBuf>) {
    let settings = Settings { preset: Preset::Code, shots, ..Settings::default() };
    let judge = judge(&case.request, &settings);
    let (answer, n_cut) = case.answer.as_ref().map_or(("", 1), |answer| (answer.as_str(), 0));
    let second = Script::new().on("Annotated error spans:", &["50"]).on("Based on the above", &["1, 1"]);
    let script = Arc::new(second.cut("", answer, n_cut));
    let verdicts = run(&judge, &script, &[segment(golden, &case.pair)]);
    let asked = script.in_order();
    let (chat, ..) = if case.stage.is_some() { asked.last() } else { asked.first() }
        .unwrap_or_else(|| panic!("{}: {verdicts:?}", case.request));
    let text = messages(chat);
    assert_eq!(text.len(), case.bytes, "{} {}: {text}", case.request, case.pair);
    assert_eq!(tribunal_core::digest::sha256(&text), case.sha256, "{} {}: {text}", case.request, case.pair);
}

/// A chat as the golden script writes it.
fn messages(chat: &Chat) -> String {
    serde_json::to_string(&chat.messages()).unwrap()
}

#[test]
fn gemba_to_the_byte() {
    let golden = golden();
    let cases: Vec<_> = golden.cases.iter().filter(|case| case.request.starts_with("gemba")).collect();
    assert_eq!(cases.len(), 12);
    for case in cases {
        check(&golden, case, None);
    }
}

#[test]
fn eaprompt_to_the_byte() {
    let golden = golden();
    let ours = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/golden/eaprompt_examples.py");
    let theirs = std::env::var_os("TRIBUNAL_EAPROMPT").map(PathBuf::from);
    if theirs.is_none() {
        eprintln!("TRIBUNAL_EAPROMPT is not set: the authors' own examples are not compared, except one");
    }
    let (mut n_ours, mut n_built_in, mut n_theirs) = (0, 0, 0);
    for case in golden.cases.iter().filter(|case| case.request.starts_with("eaprompt")) {
        let is_built_in = case.pair == "ende" && case.request.ends_with("demo=itemized,reference=off");
        match case.examples.as_deref() {
            None => check(&golden, case, None),
            Some("ours") => {
                check(&golden, case, Some(ours.clone()));
                n_ours += 1;
            }
            Some(_) => {
                if is_built_in {
                    check(&golden, case, None);
                    n_built_in += 1;
                }
                if let Some(theirs) = &theirs {
                    check(&golden, case, Some(theirs.clone()));
                    n_theirs += 1;
                }
            }
        }
    }
    assert_eq!((n_ours, n_built_in), (16, 2));
    assert_eq!(n_theirs, if theirs.is_some() { 24 } else { 0 });
}

#[test]
fn eaprompt_without_an_example_of_the_authors() {
    let golden = golden();
    let code = Settings { preset: Preset::Code, ..Settings::default() };
    let asked = |request: &str, pair: &str| {
        let script = Script::says("Major errors:\nNone\nMinor errors:\nNone");
        let verdict = run(&judge(request, &code), &script, &[segment(&golden, pair)]).remove(0);
        (script.in_order().first().map(|(chat, ..)| chat.messages().len()), verdict)
    };
    for (request, pair) in [
        ("eaprompt", "enru"),
        ("eaprompt", "zhen"),
        ("eaprompt:reference=on", "ende"),
        ("eaprompt:demo=detailed", "ende"),
    ] {
        let (n_turns, verdict) = asked(request, pair);
        assert_eq!(n_turns, None, "{request} {pair}: the question would not be the authors'");
        assert!(matches!(&verdict, Err(Error::Failed(why)) if why.contains("context.py")), "{verdict:?}");
    }
    assert_eq!(asked("eaprompt:shots=0", "enru").0, Some(1));
    assert_eq!(asked("eaprompt:shots=all", "enru").0, Some(3));

    // A pair without an example of the authors has none, and the signature names the pairs that have one.
    let czech = Segment { tgt_lang: "cs".to_owned().try_into().unwrap(), ..segment(&golden, "ende") };
    let script = Script::says("");
    run(&judge("eaprompt", &code), &script, &[czech]);
    assert_eq!(script.in_order()[0].0.messages().len(), 1);
    let signature = |request: &str| judge(request, &code).signature().all().to_string();
    assert!(signature("eaprompt").contains("|shots:pair(english-german)|"), "{}", signature("eaprompt"));
    assert!(signature("eaprompt:reference=on").contains("|shots:pair(none)|"));
}
