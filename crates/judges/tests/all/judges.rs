//! Every judge on answers that are cut, cannot be used, or are about empty texts.

use std::{fmt::Write, sync::Arc};

use tribunal_core::llm::ResponseFormat;
use tribunal_judges::{Error, Preset, Settings};

use tribunal_testing::{
    Preview as _, Script, TEXT_ANSWER, document, judge, run, segment, settings, show, verdict,
};

#[test]
fn cut_answers() {
    let one = &document()[..1];
    // GEMBA's code asks again with a larger budget; the others do not.
    let script = Arc::new(Script::new().cut("", TEXT_ANSWER, 2));
    let code = judge("gemba-mqm", &settings(Preset::Code));
    assert!(run(&code, &script, one)[0].is_ok());
    let budgets: Vec<_> = script.asked().iter().map(|(_, _, sampling)| sampling.max_tokens).collect();
    assert_eq!(budgets, [500, 700, 900]);
    let endless = Arc::new(Script::new().cut("", TEXT_ANSWER, 100));
    assert!(matches!(run(&code, &endless, one)[0], Err(Error::Truncated(1500))));
    assert_eq!(endless.asked().len(), 6);

    let limit = Settings { max_tokens: Some(77), ..Settings::default() };
    for request in ["gemba-mqm", "gemba-mqm:form=json", "fsp", "gemba-da"] {
        let script = Arc::new(Script::new().cut("", "{", 1));
        let verdicts = run(&judge(request, &limit), &script, one);
        assert!(matches!(verdicts[0], Err(Error::Truncated(77))), "{request}: {verdicts:?}");
        assert_eq!(script.asked()[0].2.max_tokens, 77);
    }
}

#[test]
fn json_answers_that_cannot_be_used() {
    let mut table = String::new();
    for answer in [
        "I cannot assist with that.",
        "MQM: {\"errors\": []}",
        r#"{"errors": []}"#,
        r#"{"errors": [], "quality_score": 101}"#,
        r#"{"errors": [], "quality_score": 70.5}"#,
        r#"{"errors": [], "quality_score": 70, "note": 1}"#,
        r#"{"errors": [{"error_category": "fluency", "error_type": "grammar", "error_span": "", "severity": "minor"}], "quality_score": 70}"#,
        r#"{"errors": [{"error_category": "fluency", "error_type": "grammar", "error_span": "Bank", "severity": "bad"}], "quality_score": 70}"#,
        r#"{"errors": [{"error_category": "fluency", "error_type": "grammar", "error_span": "Ban"#,
        r#"{"errors": [], "quality_score": 100}"#,
    ] {
        for preset in [Preset::Strict, Preset::Paper] {
            let judge = judge("fsp", &settings(preset));
            write!(table, "{preset} {answer}\n  {}", show(&verdict(&judge, answer))).unwrap();
        }
    }
    insta::assert_snapshot!("json_unusable", table);
}

#[test]
fn empty_texts() {
    let empty = [
        segment(0, "", ""),
        segment(1, "Something.", ""),
        segment(2, "", "Etwas."),
        segment(3, "Something.", "Etwas."),
    ];
    let quiet = r#"{"errors":[],"quality_score":0}"#;
    let script = Arc::new(Script::new().on("", &[quiet]));
    let judge = judge("fsp:shots=0", &Settings::default());
    assert_eq!(judge.preview(&empty).len(), 3);
    let verdicts = run(&judge, &script, &empty);
    assert!(matches!(&verdicts[0], Err(Error::Empty(reason)) if reason.contains("both empty")));
    assert!(verdicts[1..].iter().all(Result::is_ok));
    let spans = |form: &ResponseFormat| {
        let ResponseFormat::Json { schema, texts } = form else { panic!("{form:?}") };
        let kinds = schema.pointer("/properties/errors/items/anyOf").unwrap().as_array().unwrap().len();
        (kinds, texts.keys().cloned().collect::<Vec<_>>().join("+"))
    };
    let mut seen: Vec<_> = script.asked().iter().map(|(_, form, _)| spans(form)).collect();
    seen.sort();
    let expected = [(1, "source"), (5, "target_segment"), (6, "source+target_segment")];
    assert_eq!(seen, expected.map(|(n, names)| (n, names.to_owned())));

    for request in ["gemba-mqm", "gemba-mqm:form=json", "gemba-da"] {
        let judge = tribunal_testing::judge(request, &Settings::default());
        for segment in &empty {
            let script = Script::says("");
            let verdict = run(&judge, &script, std::slice::from_ref(segment)).remove(0);
            assert!(verdict.is_err(), "{request}: an empty answer is no verdict");
            assert_eq!(script.asked().len(), usize::from(segment.seg != 0), "{request}");
        }
    }
}
