//! ReMedy and other score heads against a scripted one: what is asked, and the scores of its outputs.

use std::sync::Arc;

use tribunal_core::{
    llm::{Chat, Sampling},
    segment::{Lang, Segment},
};
use tribunal_judges::{Judge, Panel, Settings, Verdict, registry, rehearse};
use tribunal_testing::{Outputs, document, judge};

fn referenced() -> Segment {
    let one = document().remove(0);
    Segment { reference: Some(" Er ging auf die Bank zu. ".into()), hypothesis: " Er ging. ".into(), ..one }
}

fn with_references() -> Settings {
    Settings { has_references: true, ..Settings::default() }
}

/// One output: a quarter of the length of the translation.
fn panel() -> Panel {
    Panel::new(
        Arc::new(Outputs(|chat| vec![chat.messages()[1].content.len() as f64 / 4.0])),
        Sampling::default(),
    )
}

fn asked(judge: &Judge, segment: &Segment) -> Chat {
    rehearse(judge, &panel(), std::slice::from_ref(segment), None).remove(0).chat
}

fn verdict(judge: &Judge, panel: &Panel, segment: &Segment) -> Result<Verdict, String> {
    judge.judge(panel, std::slice::from_ref(segment)).remove(0).map_err(|error| error.to_string())
}

#[test]
fn remedy_asks_as_its_code_does() {
    let chat = asked(&judge("remedy", &with_references()), &referenced());
    assert!(chat.tokenized_as_text);
    let turns: Vec<&str> = chat.messages().iter().map(|turn| turn.content.as_str()).collect();
    let with_reference = "Translate the following English text into natural, fluent German sentence while preserving \
                          the original meaning. You are also given a translation template.\n\
                          English:He went to the bank.\nTemplate:Er ging auf die Bank zu.\nGerman:";
    assert_eq!(turns, [with_reference, "Er ging."]);
    let settings = with_references();
    let chat = asked(&judge("remedy:reference=off", &settings), &referenced());
    let without = "Translate the following English text into natural, fluent German sentence while preserving the \
                   original meaning:\nEnglish:He went to the bank.\nGerman:";
    assert_eq!(chat.messages()[0].content, without);
    let croatian = Segment { tgt_lang: Lang::parse("hr").unwrap(), ..referenced() };
    let chat = asked(&judge("remedy:reference=off", &settings), &croatian);
    assert!(chat.messages()[0].content.ends_with("\ncroatian:"));
}

#[test]
fn scores_are_outputs_or_their_logistic_function() {
    let panel = panel();
    let one = referenced();
    for (method, score) in [
        ("remedy", 1.0 / (1.0 + f64::exp(-2.0))),
        ("remedy:score=raw", 2.0),
        ("reward", 2.5),
        ("reward:score=sigmoid", 1.0 / (1.0 + f64::exp(-2.5))),
        ("reward:output=1", 2.5),
    ] {
        let verdict = verdict(&judge(method, &with_references()), &panel, &one).unwrap();
        let raw = if method.starts_with("remedy") { 2.0 } else { 2.5 };
        assert_eq!(
            (verdict.score.to_bits(), verdict.raw.to_bits()),
            (score.to_bits(), f64::to_bits(raw)),
            "{method}"
        );
    }
    let blank = Segment { source: " ".into(), hypothesis: String::new(), ..one.clone() };
    assert!(verdict(&judge("remedy", &with_references()), &panel, &blank).is_err());
    let several = Panel::new(Arc::new(Outputs(|_| vec![1.0, 7.0])), Sampling::default());
    assert_eq!(
        verdict(&judge("reward:output=2", &Settings::default()), &several, &one).unwrap().score.to_bits(),
        7f64.to_bits()
    );
    let error = verdict(&judge("reward", &Settings::default()), &several, &one).unwrap_err();
    assert!(error.contains("2 outputs"), "{error}");
    for request in ["reward:output=0", "reward:output=1.5"] {
        assert!(registry::build(request, &Settings::default(), &[]).is_err());
    }
}

#[test]
fn remedy_rejects_languages_that_it_does_not_name() {
    let judge = judge("remedy", &Settings::default());
    let one = document().remove(0);
    assert!(judge.protocol().check_input(std::slice::from_ref(&one)).is_ok());
    let swahili = Segment { tgt_lang: Lang::parse("sw").unwrap(), ..one };
    let error = judge.protocol().check_input(&[swahili]).unwrap_err().to_string();
    assert!(error.contains("is in `sw`") && error.contains("hint: supported languages: ar, bn"), "{error}");
}
