//! EAPrompt against a scripted model: conversations as snapshots, and every kind of answer.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use tribunal_core::{llm::ResponseFormat, segment::Segment};
use tribunal_judges::{Error, Preset, Settings};

use tribunal_testing::{Script, dialogue, document, judge, run, settings, show, verdict};

const LISTS: &str = "Major errors:\n(1) \"Bank\" - Mistranslation\nMinor errors:\n(1) \"ging\" - Awkward \
                     Style\n(2) \".\" - Punctuation\n\nThe final score is -5-1-1=-7.\n<score>-7</score>";

const COUNTED: &str = "Major errors:\n(1) “Bank” – Mistranslation\nMinor errors:\nNone\n1, 0";

const LISTS_JSON: &str = r#"{"major":[{"span":"Bank","category":"Mistranslation"}],"minor":[{"span":"went","category":"Omission"}]}"#;

#[test]
fn eaprompt_conversations() {
    let one = &[Segment { reference: Some("Er ging zum Ufer.".into()), ..document().remove(0) }];
    for (name, request, preset, errors, counts) in [
        ("strict_two_steps", "eaprompt", Preset::Strict, LISTS_JSON, "1, 1"),
        ("paper_two_steps", "eaprompt", Preset::Paper, LISTS, "1, 2"),
        ("strict_one_step", "eaprompt:steps=1,w-major=7.5", Preset::Strict, LISTS_JSON, ""),
        ("paper_one_step", "eaprompt:steps=1", Preset::Paper, LISTS, ""),
        ("code_two_steps", "eaprompt", Preset::Code, LISTS, "1, 2"),
        ("code_one_step", "eaprompt:steps=1,shots=0", Preset::Code, COUNTED, ""),
        ("paper_reference", "eaprompt:reference=on", Preset::Paper, LISTS, "1, 2"),
        ("strict_listed_reference", "eaprompt:count=listed,reference=on", Preset::Strict, LISTS_JSON, ""),
    ] {
        let scenes = [("Based on the above", counts), ("", errors)];
        let text = dialogue(request, &settings(preset), one, &scenes);
        insta::assert_snapshot!(format!("eaprompt_{name}"), text);
    }
}

#[test]
fn eaprompt_counts_what_stage_two_says() {
    let mut table = String::new();
    for (errors, counts) in [
        (LISTS, "1, 2"),
        (LISTS, "0, 1"),
        (LISTS, "3, 0"),
        (LISTS, "there are two"),
        (LISTS, "I'm sorry, I can't count."),
        ("It reads well.", "0, 0"),
        ("", "0, 0"),
        ("I cannot help with that.", "0, 0"),
    ] {
        let judge = judge("eaprompt", &settings(Preset::Paper));
        let script = Arc::new(Script::new().on("Output 2 numbers", &[counts]).on("", &[errors]));
        let verdict = run(&judge, &script, &document()[..1]).remove(0);
        write!(table, "{errors:?} {counts:?}\n  {}", show(&verdict)).unwrap();
    }
    insta::assert_snapshot!("eaprompt_counts", table);
}

/// The model's counts are unchanged, even where two of the errors are one span at one place.
#[test]
fn eaprompt_keeps_the_counts_that_it_asked_for() {
    let error = r#"{"span":"Bank","category":"Mistranslation"}"#;
    let errors = format!(r#"{{"major":[{error},{error}],"minor":[]}}"#);
    let lists = LISTS.replace("Minor", "(2) \"Bank\" - Mistranslation\nMinor");
    for (request, preset, errors, (score, n_errors)) in [
        ("eaprompt", Preset::Strict, &errors, (-10.0_f64, 2)),
        ("eaprompt:count=listed", Preset::Strict, &errors, (-5.0, 1)),
        ("eaprompt:count=listed", Preset::Paper, &lists, (-12.0, 4)),
    ] {
        let script = Arc::new(Script::new().on("Based on the above", &["2, 0"]).on("", &[errors]));
        let verdict = run(&judge(request, &settings(preset)), &script, &document()[..1]).remove(0).unwrap();
        assert_eq!(verdict.score.to_bits(), score.to_bits(), "{request} {preset}");
        assert_eq!(verdict.errors.len(), n_errors, "{request} {preset}");
    }
}

#[test]
fn eaprompt_one_step_answers() {
    let mut table = String::new();
    for answer in
        [LISTS, "Major errors: None\nMinor errors: None\n<score>0</score>", "<score>-3", "Fine!", ""]
    {
        let judge = judge("eaprompt:steps=1", &settings(Preset::Paper));
        write!(table, "paper {answer:?}\n  {}", show(&verdict(&judge, answer))).unwrap();
    }
    for answer in [LISTS_JSON, r#"{"major":[],"minor":[]}"#, r#"{"major":[]}"#, LISTS, "I'm sorry, no."] {
        let judge = judge("eaprompt:steps=1", &settings(Preset::Strict));
        write!(table, "strict {answer:?}\n  {}", show(&verdict(&judge, answer))).unwrap();
    }
    insta::assert_snapshot!("eaprompt_one_step", table);
}

#[test]
fn eaprompt_options() {
    let error = |request: &str, settings: &Settings| {
        tribunal_replication::build(request, settings).err().unwrap().to_string()
    };
    let weights = Settings { weights: Some("wmt".into()), ..Settings::default() };
    assert!(error("eaprompt", &weights).contains("w-major"));
    assert!(error("eaprompt:w-major=-1", &Settings::default()).contains("`-1`"));
    for (request, preset, reason) in [
        ("eaprompt:steps=1,count=listed", Preset::Strict, "an option of two steps"),
        ("eaprompt:demo=detailed", Preset::Paper, "about the authors' examples"),
        ("eaprompt:demo=detailed,count=listed", Preset::Code, "prose lists no errors"),
    ] {
        let message = error(request, &settings(preset));
        assert!(message.contains(reason), "{message}");
    }
    let judge = judge("eaprompt:w-major=2.5,shots=pair", &Settings::default());
    let signature = judge.signature().method;
    for field in [("steps", "2"), ("w-major", "2.5"), ("shots", "pair(english-german)")] {
        assert_eq!(signature.get(field.0), Some(field.1));
    }
    // An empty side gives no spans.
    let target_only = Segment { source: String::new(), ..document().remove(0) };
    let script = Script::says(r#"{"major":[],"minor":[]}"#);
    run(&judge, &script, &[target_only]);
    let (_, ResponseFormat::Json { texts, .. }, _) = &script.in_order()[0] else { panic!("a JSON form") };
    assert_eq!(texts.keys().collect::<Vec<_>>(), ["translation"]);
}

#[test]
fn eaprompt_counts_as_the_code() {
    let one = &document()[..1];
    let mut table = String::new();
    for (request, errors, counts) in [
        ("eaprompt", LISTS, "1, 2"),
        ("eaprompt", "I cannot help with that.", "0, 0"),
        ("eaprompt", "", "2, 1"),
        ("eaprompt", LISTS, "two"),
        ("eaprompt:count=listed", LISTS, ""),
        ("eaprompt:count=listed", "Major errors:\n(1) Bank – Mistranslation\nMinor errors:\nNone", ""),
        ("eaprompt:count=listed", "The translation is perfect.", ""),
        ("eaprompt:steps=1", COUNTED, ""),
        ("eaprompt:steps=1", LISTS, ""),
    ] {
        let script = Arc::new(Script::new().on("Based on the above", &[counts]).on("", &[errors]));
        let verdict = run(&judge(request, &settings(Preset::Code)), &script, one).remove(0);
        let n = script.in_order().len();
        write!(table, "{request} {errors:?} {counts:?}: {n} calls\n  {}", show(&verdict)).unwrap();
    }
    insta::assert_snapshot!("eaprompt_code", table);

    // A cut answer is passed on unchanged.
    let script = Arc::new(Script::new().cut("Based on the above", "1, 0", 1).cut("", LISTS, 1));
    let verdict = run(&judge("eaprompt", &settings(Preset::Code)), &script, one).remove(0);
    assert_eq!(verdict.unwrap().score.to_bits(), (-5f64).to_bits());
    assert!(script.in_order().iter().all(|(_, _, sampling)| sampling.max_tokens == 256));
    let script = Arc::new(Script::new().cut("", LISTS, 1));
    let verdict = run(&judge("eaprompt", &settings(Preset::Paper)), &script, one).remove(0);
    assert!(matches!(verdict, Err(Error::Truncated(768))));
}

#[test]
fn examples_stand_before_their_own_pair() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shots.jsonl");
    let shot = |target_lang: &str, reference: &str| {
        let errors = r#"[{"category":"Grammar","span":"t","severity":"minor"}]"#;
        format!(
            "{{\"source_lang\":\"English\",\"source\":\"s\",\"target_lang\":\"{target_lang}\",\"target\":\"t\",\
             \"errors\":{errors}{reference}}}\n"
        )
    };
    let lines = shot("German", "") + &shot("German (Germany)", ",\"reference\":\"r\"") + &shot("Czech", "");
    std::fs::write(&file, lines).unwrap();
    let german = Segment { reference: Some("x".into()), ..document().remove(0) };
    let lang = |code: &str| code.to_owned().try_into().unwrap();
    let czech = Segment { tgt_lang: lang("cs"), ..german.clone() };
    let regional = Segment { tgt_lang: lang("de_DE"), ..german.clone() };
    for preset in [Preset::Paper, Preset::Code, Preset::Strict] {
        let mine = Settings { shots: Some(file.clone()), ..settings(preset) };
        let n_examples = |request: &str, segment: &Segment| {
            let script = Script::says("");
            run(&judge(request, &mine), &script, std::slice::from_ref(segment));
            script.in_order()[0].0.messages().len() / 2
        };
        let n = [&german, &regional, &czech].map(|segment| n_examples("eaprompt", segment));
        assert_eq!(n, [2, 2, 1], "{preset}");
        assert_eq!(n_examples("eaprompt:shots=all", &czech), 3);
        assert_eq!(n_examples("eaprompt:reference=on", &german), 1, "the one that has a reference");
        let signature = judge("eaprompt", &mine).signature().all().to_string();
        assert!(signature.contains("|shots:pair(english-czech+english-german)|"), "{signature}");
    }
    // The authors' file has the layout of their code and no other.
    let authors = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/golden/eaprompt_examples.py");
    let error =
        |settings: &Settings| tribunal_replication::build("eaprompt", settings).err().unwrap().to_string();
    let message = error(&Settings { shots: Some(authors), ..settings(Preset::Strict) });
    assert!(message.contains("eaprompt_examples.py") && message.contains("use preset `code`"), "{message}");
    std::fs::write(&file, "EXAMPLE_ENDE_SRC = \"Source: a\"").unwrap();
    let message = error(&Settings { shots: Some(file.clone()), ..settings(Preset::Code) });
    assert!(message.contains("shots.jsonl") && message.contains("EXAMPLE_ENDE_SRC"), "{message}");
}
