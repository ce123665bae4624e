//! GEMBA-DA, its scales and GEMBA-ESA against a scripted model: conversations as snapshots, and every kind of
//! answer.

use std::{fmt::Write, sync::Arc};

use tribunal_core::segment::Segment;
use tribunal_judges::{Error, Preset, Settings};

use tribunal_testing::{
    Preview as _, Script, conversation, dialogue, document, judge, run, settings, show, verdict,
};

fn referenced() -> Vec<Segment> {
    let one = document().remove(0);
    vec![Segment { reference: Some("Er ging auf die Bank zu.".into()), ..one }]
}

#[test]
fn gemba_da_conversations() {
    let one = &document()[..1];
    for (preset, answer) in
        [(Preset::Strict, r#"{"score":85}"#), (Preset::Paper, r#"{"score": 85.5}"#), (Preset::Code, "85")]
    {
        let conversation = conversation("gemba-da", &settings(preset), one, answer);
        insta::assert_snapshot!(format!("gemba_da_{preset}"), conversation);
    }
}

#[test]
fn gemba_da_as_the_code_asks_hotter_until_there_is_a_number() {
    let code = judge("gemba-da", &settings(Preset::Code));
    let script = Arc::new(Script::new().on("", &["Very good!", "85.5", "about 70"]));
    assert_eq!(run(&code, &script, &document()[..1])[0].as_ref().unwrap().score.to_bits(), 70f64.to_bits());
    let temperatures: Vec<_> = script.asked().iter().map(|(_, _, s)| s.temperature.to_string()).collect();
    assert_eq!(temperatures, ["0", "0.1", "0.2"]);

    let script = Script::says("Very good!");
    let verdict = run(&code, &script, &document()[..1]).remove(0);
    assert_eq!(script.asked().len(), 11);
    insta::assert_snapshot!(show(&verdict), @"Unparsable: an answer that GEMBA cannot read: `Very good!`");
    let refused = run(&code, &Script::says("I'm sorry, no."), &document()[..1]).remove(0);
    assert!(matches!(refused, Err(Error::Refused(_))));
}

#[test]
fn gemba_scales_conversations() {
    for (method, code, strict) in [
        ("gemba-sqm", "Score: 85", "85"),
        ("gemba-stars", "I say 4 stars", "four stars"),
        ("gemba-classes", "Class: perfect translation!", "Perfect translation"),
    ] {
        let name = method.replace('-', "_");
        let without = &document()[..1];
        let all: String = [(Preset::Strict, strict), (Preset::Paper, strict), (Preset::Code, code)]
            .into_iter()
            .flat_map(|(preset, answer)| {
                [without, &referenced()[..]].map(|group| {
                    let has_references = group[0].reference.is_some();
                    let settings = Settings { has_references, ..settings(preset) };
                    conversation(method, &settings, group, answer) + "\n"
                })
            })
            .collect();
        insta::assert_snapshot!(name, all);
    }
}

#[test]
fn gemba_scales_unusable_answers() {
    let mut table = String::new();
    for (method, answers) in [
        ("gemba-sqm", ["Very good.", "I'm sorry, I can't.", "85 or 90", "101"]),
        ("gemba-stars", ["Very good.", "As an AI, I have no stars.", "four or five stars", "6"]),
        ("gemba-classes", ["Very good.", "I cannot say.", "Perfect translation? No meaning preserved!", ""]),
    ] {
        for preset in [Preset::Code, Preset::Paper, Preset::Strict] {
            let judge = judge(method, &settings(preset));
            for answer in answers {
                write!(table, "{method} {preset} {answer:?}\n  {}", show(&verdict(&judge, answer))).unwrap();
            }
        }
    }
    insta::assert_snapshot!("gemba_scales_unusable", table);
}

#[test]
fn gemba_scales_as_the_code_ask_hotter() {
    let code = judge("gemba-classes", &settings(Preset::Code));
    let script = Arc::new(Script::new().on("", &["Fine.", "No meaning preserved"]));
    assert_eq!(run(&code, &script, &document()[..1])[0].as_ref().unwrap().score.to_bits(), 0);
    let temperatures: Vec<_> = script.in_order().iter().map(|(_, _, s)| s.temperature.to_string()).collect();
    assert_eq!(temperatures, ["0", "0.1"]);
    let endless = Arc::new(Script::new().cut("", "4 stars", 100));
    let stars = judge("gemba-stars", &settings(Preset::Code));
    assert!(matches!(run(&stars, &endless, &document()[..1])[0], Err(Error::Truncated(1500))));
    let stars = judge("gemba-stars", &settings(Preset::Strict));
    let cut = Arc::new(Script::new().cut("", "four", 1));
    assert!(matches!(run(&stars, &cut, &document()[..1])[0], Err(Error::Truncated(64))));
}

#[test]
fn references_are_shown_when_there_are_some() {
    let has = Settings { has_references: true, ..Settings::default() };
    for method in ["gemba-da", "gemba-sqm", "gemba-stars", "gemba-classes"] {
        for (request, settings, shown) in [
            (method.to_owned(), &Settings::default(), false),
            (method.to_owned(), &has, true),
            (format!("{method}:reference=off"), &has, false),
            (format!("{method}:reference=on"), &Settings::default(), true),
        ] {
            let judge = judge(&request, settings);
            let signed = judge.signature().method.get("reference") == Some("on");
            assert_eq!(signed, shown, "{request}");
            let (chat, _) = judge.preview(&referenced()).remove(0);
            let quote = if method == "gemba-da" { "" } else { "\"" };
            let reference = format!("German human reference: {quote}Er ging auf die Bank zu.{quote}\n");
            assert_eq!(chat.messages()[0].content.contains(&reference), shown);
            assert_eq!(chat.messages()[0].content.contains("with respect to the human reference"), shown);
            let missing = run(&judge, &Script::says("3"), &document()[..1]).remove(0);
            assert_eq!(matches!(&missing, Err(Error::Failed(why)) if why.contains("no reference")), shown);
        }
    }
}

const SPANS: &str = "Major:\naccuracy/mistranslation - \"Bank\"\nMinor:\nno-error";

#[test]
fn gemba_esa_conversations() {
    for preset in [Preset::Strict, Preset::Code] {
        let scenes = [("Score (0-100)", "71"), ("", SPANS)];
        let text = dialogue("gemba-esa", &settings(preset), &document()[..1], &scenes);
        insta::assert_snapshot!(format!("gemba_esa_{preset}"), text);
    }
}

#[test]
fn gemba_esa_unusable_answers() {
    let mut table = String::new();
    for (spans, score) in [
        ("The translation is fine.", "71"),
        ("I'm sorry, no.", "71"),
        ("no-error", "98"),
        ("<think>Major: hm</think>Major:\nnone\nMinor:\nstyle/awkward - \"ging\"", "90"),
        (SPANS, "about 70 or 80"),
        (SPANS, "I cannot score this."),
    ] {
        for preset in [Preset::Strict, Preset::Code] {
            let judge = judge("gemba-esa:shots=0", &settings(preset));
            let script = Arc::new(Script::new().on("Score (0-100)", &[score]).on("", &[spans]));
            let verdict = run(&judge, &script, &document()[..1]).remove(0);
            let n = script.in_order().len();
            write!(table, "{preset} {spans:?} {score:?}: {n} calls\n  {}", show(&verdict)).unwrap();
        }
    }
    insta::assert_snapshot!("gemba_esa_unusable", table);
    let strict = judge("gemba-esa", &Settings::default());
    let script = Arc::new(Script::new().on("Score (0-100)", &["71"]).cut("", SPANS, 1));
    assert!(matches!(run(&strict, &script, &document()[..1])[0], Err(Error::Truncated(768))));
}

#[test]
fn room_for_answers_as_in_gembas_code() {
    let one = &document()[..1];
    let asked = |script: &Script| -> Vec<String> {
        script.in_order().iter().map(|(_, _, s)| format!("{} at {}", s.max_tokens, s.temperature)).collect()
    };
    for request in ["gemba-da", "gemba-sqm", "gemba-stars", "gemba-classes"] {
        // Cut twice, then unreadable: hotter and without a budget, where a cut answer is none.
        let replies = [("4", true), ("4", true), ("?", false), ("?", false), ("4", true), ("4", false)];
        let script = Arc::new(Script::new().replies("", &replies));
        let verdict = run(&judge(request, &settings(Preset::Code)), &script, one).remove(0);
        assert!(matches!(verdict, Err(Error::Truncated(2048))), "{request}: {verdict:?}");
        assert_eq!(asked(&script), ["500 at 0", "700 at 0", "900 at 0", "2048 at 0.1", "2048 at 0.2"]);
    }
    // GEMBA-ESA has no budgets. Spans that were cut are None, and a score that was cut is none.
    let script = Arc::new(Script::new().on("Score (0-100)", &["71"]).cut("", SPANS, 1));
    let code = judge("gemba-esa", &settings(Preset::Code));
    let verdict = run(&code, &script, one).remove(0).unwrap();
    assert_eq!((verdict.score.to_bits(), verdict.errors.len()), (71f64.to_bits(), 0));
    assert_eq!(asked(&script), ["2048 at 0", "2048 at 0"]);
    assert!(script.in_order()[1].0.messages()[0].content.contains("Annotated error spans:\n```None```\n"));
    let script = Arc::new(Script::new().cut("Score (0-100)", "71", 1).on("", &[SPANS]));
    assert!(matches!(run(&code, &script, one)[0], Err(Error::Truncated(2048))));
    assert_eq!(script.in_order().len(), 2);
}
