//! Methods in files: the examples before scripted models.

use std::path::{Path, PathBuf};

use tribunal_core::segment::Segment;
use tribunal_judges::{Built, Direction, Granularity, Preset, Role, Settings, registry};
use tribunal_testing::{Script, document, judge, run, settings, show, show_question, verdict};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/methods").join(name)
}

fn built(name: &str) -> Built {
    judge(&example(name).display().to_string(), &Settings::default())
}

#[test]
fn prometheus_with_and_without_a_reference() {
    let path = example("m-prometheus").display().to_string();
    let script = Script::says("The response omits nothing. [RESULT] 4");
    let plain = built("m-prometheus");
    let verdicts = run(&plain, &script, &document()[..1]);
    assert_eq!(show(&verdicts[0]), "score 4 raw 4\n");
    let with_reference = judge(&path, &Settings { has_references: true, ..Settings::default() });
    let segment = Segment { reference: Some("Er ging zur Bank.".into()), ..document().remove(0) };
    run(&with_reference, &script, &[segment]);
    let asked = script.in_order();
    let questions: Vec<String> = asked.iter().map(|(chat, form, _)| show_question(chat, form)).collect();
    insta::assert_snapshot!(questions.join("\n"));
    let signed = [&plain, &with_reference].map(|judge| judge.signature().all());
    assert_eq!(signed.each_ref().map(|s| s.get("reference").unwrap()), ["off", "on"]);
    assert_eq!(signed[0].get("method"), Some("m-prometheus"));
    assert_eq!(signed[0].get("scale"), Some("1..5"));
    assert_eq!(signed[0].get("prompts").map(str::len), Some(8));
    assert_eq!(signed[0].get("prompts"), signed[1].get("prompts"));
    for (answer, expected) in [
        ("[RESULT] 5.", "score 5 raw 5\n"),
        ("Good [RESULT] (3)\n", "score 3 raw 3\n"),
        ("[RESULT] 6", "Unparsable: 6 is outside 1 to 5: `[RESULT] 6`\n"),
        ("Score: 4", "Unparsable: no `[RESULT]`: `Score: 4`\n"),
        ("I cannot rate this.", "Refused: the model declined: I cannot rate this.\n"),
    ] {
        assert_eq!(show(&verdict(&plain, answer)), expected, "{answer}");
    }
}

#[test]
fn five_criteria_and_their_weighted_mean() {
    let judge = built("five-criteria");
    let answer = |scores: [&str; 5]| {
        let names = ["accuracy", "fluency", "terminology", "style", "locale"];
        let fields = names.iter().zip(scores);
        let fields: Vec<String> =
            fields.map(|(name, score)| format!(r#""{name}": {{"reason": "r", "score": {score}}}"#)).collect();
        format!("{{{}}}", fields.join(", "))
    };
    // (3 * 5 + 2 * 4 + 2 * 3 + 2 + 1) / 9
    let seen = verdict(&judge, &answer(["5", "4", "3", "2", "1"])).unwrap();
    assert!((seen.score - 32.0 / 9.0).abs() < 1e-12, "{seen:?}");
    let none = "\"not applicable\"";
    let two = verdict(&judge, &answer(["5", "5", none, none, none]));
    assert_eq!(two.map(|verdict| verdict.score).ok(), Some(5.0));
    let missing = verdict(&judge, &answer([none; 5])).unwrap_err().to_string();
    assert!(missing.starts_with("the answer leaves the score out"), "{missing}");
    let script = Script::says(&answer(["1", "1", "1", "1", "1"]));
    run(&judge, &script, &document()[..1]);
    let (chat, form, sampling) = script.in_order().remove(0);
    insta::assert_snapshot!(show_question(&chat, &form));
    assert_eq!(sampling.max_tokens, 800);
}

#[test]
fn a_checklist_marks_errors_with_its_own_weights() {
    let built = built("mqm-checklist");
    let finding = |check: &str, span: &str, priority: &str| {
        format!(r#"{{"check": "{check}", "span": "{span}", "reason": "r", "priority": "{priority}"}}"#)
    };
    let answer = format!(
        r#"{{"findings": [{}, {}]}}"#,
        finding("accuracy/mistranslation", "Bank", "must-fix"),
        finding("accuracy/omission", "He", "nice-to-fix")
    );
    assert_eq!(
        show(&verdict(&built, &answer)),
        "score -10.5 raw -10.5\n  critical accuracy/mistranslation `Bank` target 12..16 weight 10\n  \
         minor accuracy/omission `He` source 0..2 weight 0.5\n"
    );
    assert_eq!(show(&verdict(&built, r#"{"findings": []}"#)), "score 0 raw 0\n");
    let signed = built.signature().all();
    assert_eq!((signed.get("weights"), signed.get("scale")), (Some("10/5/0.5/50"), Some("penalty")));
    let method = registry::of_signature(&signed).unwrap();
    assert_eq!(method.name, "mqm-checklist");
    assert!(method.marks_errors());
    assert_eq!(registry::scale(&method, &signed).to_string(), "negative penalty, -50 to 0, higher is better");
    // A document is one unit, and presets of weights replace the file's.
    let path = example("mqm-checklist").display().to_string();
    let of_document = Settings { granularity: Some(Granularity::Doc), ..Settings::default() };
    let script = Script::says(&answer);
    assert_eq!(run(&judge(&path, &of_document), &script, &document()).len(), 1);
    let wmt = Settings { weights: Some("wmt".into()), ..Settings::default() };
    let by_wmt = verdict(&judge(&path, &wmt), &answer);
    assert_eq!(by_wmt.map(|verdict| verdict.score).ok(), Some(-6.0));
}

#[test]
fn a_choice_read_as_a_number_of_which_less_is_better() {
    let dir = tempfile::tempdir().unwrap();
    let file = "name = \"effort\"\nsummary = \"s\"\ncitation = \"c\"\nrole = \"reviewer\"\n[prompts]\nquestion = \"q.j2\"\n\
                [answer]\nmax-tokens = 9\nchoices = [\"none\", \"some\", \"all\", \"?\"]\n[score]\nlowest = 0\nhighest = 2\n\
                better = \"lower\"\nmissing = [\"?\"]\nvalues = { none = 0, some = 1, all = 2 }\n";
    std::fs::write(dir.path().join("method.toml"), file).unwrap();
    std::fs::write(dir.path().join("q.j2"), "How much is to be changed?\n{{ source }}\n{{ target }}")
        .unwrap();
    let path = dir.path().display().to_string();
    let judge = judge(&path, &Settings::default());
    assert_eq!(show(&verdict(&judge, "some")), "score -1 raw 1\n");
    assert!(verdict(&judge, "?").is_err());
    assert_eq!((judge.direction, judge.method().roles), (Direction::Lower, &[Role::Reviewer][..]));
    let signed = judge.signature().all();
    assert_eq!(signed.get("scale"), Some("2..0"));
    assert_eq!(registry::of_signature(&signed).unwrap().scale, judge.method().scale);
    let refused = |request: &str, settings: &Settings| {
        tribunal_replication::build(request, settings).err().unwrap().to_string().replace(&path, "DIR")
    };
    let prompts = Settings { prompts: Some(dir.path().into()), ..Settings::default() };
    let weights = Settings { weights: Some("wmt".into()), ..Settings::default() };
    let named = file.replace("\"effort\"", "\"gemba-mqm\"");
    std::fs::write(dir.path().join("named.toml"), named).unwrap();
    insta::assert_snapshot!(
        [
            refused(&path, &settings(Preset::Code)),
            refused(&path, &prompts),
            refused(&path, &weights),
            refused(&format!("{path}:reference=on"), &Settings::default()),
            refused(&format!("{path}/named.toml"), &Settings::default()),
            refused(&format!("{path}/none.toml"), &Settings::default()),
        ]
        .join("\n"),
        @"
    the preset of `effort` cannot be `code`
    hint: it can be strict
    a method in a file has its prompts beside it; hint: change those of a copy of its folder
    effort has neither severity weights nor shots; hint: leave weights and shots out
    `effort` has no option `reference`
    hint: its options are reasoning, reasoning-budget
    `DIR/named.toml`: `gemba-mqm` is a built-in method; hint: choose another `name`
    cannot read `DIR/none.toml`: there is no such file or folder
    hint: did you mean `DIR/named.toml`?
    "
    );
}
