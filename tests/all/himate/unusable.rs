//! Treatment of unusable answers.

use super::*;

#[test]
fn unusable_answers_at_every_stage() {
    let mut table = String::new();
    for answer in ["I'm sorry, I cannot help.", "It is fine.", ""] {
        for preset in [Preset::Strict, Preset::Paper] {
            for stage in ["evaluate", "correct", "compare", "tier-1", "tier-2"] {
                let line = |name: &str, strict: String, paper: &str| match (stage == name, preset) {
                    (true, _) => answer.to_owned(),
                    (false, Preset::Strict) => strict,
                    (false, _) => paper.to_owned(),
                };
                let evaluation = line(
                    "evaluate",
                    found("Major", "Bank", ""),
                    "Error Exist: Yes\nError Severity: Major\nExplanation: \"Bank\".",
                );
                let nothing = line("", r#"{"errors": []}"#.into(), "Error Exist: No");
                let correction =
                    line("correct", r#"{"correction": "Er saß am Ufer."}"#.into(), "Er saß am Ufer.");
                let comparison = line("compare", "A".into(), "A");
                let first =
                    line("tier-1", opinion("yes", "Minor"), "Error Exist: Yes. Error Severity: Minor.");
                let second = line("tier-2", consent("yes"), "I agree with him.");
                let cast = Cast::new()
                    .sure(&[COMPARE], &[(&comparison, &[-0.5])])
                    .on(&[CORRECT], &[&correction])
                    .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&evaluation])
                    .on(&[EVALUATE], &[&nothing])
                    .on(&[TIER1], &[&first])
                    .on(&[TIER2], &[&second]);
                let (verdicts, _) = cast.judge(&judge("comparison=asked", preset), &[bank()]);
                write!(table, "{preset} {stage} {answer:?}\n  {}", show(&verdicts[0])).unwrap();
            }
        }
    }
    insta::assert_snapshot!("himate_unusable", table);
    let cut = Cast::new().cut(&[EVALUATE, "Fluency/Spelling"], "{").on(&[EVALUATE], &[r#"{"errors": []}"#]);
    let (verdicts, _) = cut.judge(&judge("", Preset::Strict), &[bank()]);
    assert!(matches!(verdicts[0], Err(Error::Truncated(300))));
    let mute = Cast::new()
        .sure(&[COMPARE], &[("A", &[])])
        .on(&[CORRECT], &[r#"{"correction": "x"}"#])
        .on(&[EVALUATE], &[&found("Minor", "Er", "")]);
    let (verdicts, _) = mute.judge(&judge("comparison=asked", Preset::Strict), &[bank()]);
    assert!(matches!(&verdicts[0], Err(Error::Failed(reason)) if reason.contains("no confidence")));
    let (verdicts, calls) =
        Cast::new().judge(&judge("", Preset::Strict), &[translation(("en", "de"), "", " ")]);
    assert!(verdicts[0].is_err() && calls.is_empty());
}

/// A bad answer is requested again, with its attempts on record; the other agents' answers are not lost.
#[test]
fn a_bad_answer_is_asked_again() {
    let good = found("Major", "Bank", "A river bank is meant.");
    let cast = compared(Cast::new(), &[], CORRECTED, &[-0.01])
        .on(&[CORRECT], &["nonsense", "", r#"{"correction": "Er saß am Ufer."}"#])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &["It is fine.", &good])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    let (verdicts, calls) = cast.judge(&judge("", Preset::Strict), &[bank()]);
    assert!(show(&verdicts[0]).starts_with("score -5\n"), "{}", show(&verdicts[0]));
    let tried = calls.iter().filter(|call| call.outcome.is_some());
    let tried: Vec<String> =
        tried.map(|c| format!("{} {} {}", c.step, c.attempt, c.outcome.unwrap())).collect();
    insta::assert_snapshot!(tried.join("\n"), @"
    correct/accuracy/mistranslation 0 unusable
    correct/accuracy/mistranslation 1 unusable
    evaluate/accuracy/mistranslation 0 unusable
    evaluate/accuracy/mistranslation 1 confirmed
    ");
}

/// After three tries a stage is done once more, at another seed; it begins anew.
#[test]
fn a_stage_is_done_once_more() {
    let bad = ["?"; 3];
    let good = [r#"{"correction": "Er saß am Ufer."}"#];
    let cast = compared(Cast::new(), &[], CORRECTED, &[-0.01])
        .on(&[CORRECT], &[&bad[..], &good[..]].concat())
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    let (verdicts, calls) = cast.judge(&judge("", Preset::Strict), &[bank()]);
    assert!(verdicts[0].is_ok());
    let attempts = calls.iter().filter(|call| call.step.stage.name() == "correct").map(|call| call.attempt);
    assert_eq!(attempts.collect::<Vec<_>>(), [0, 1, 2, 0]);
}

/// The second statement of the tier-2 agent decides whose evaluation counts, so it must be readable.
#[test]
fn the_last_word_counts() {
    let paper = |last: &str| {
        Cast::new()
            .sure(&[COMPARE], &[("A", &[-0.5])])
            .on(&[CORRECT], &["Er saß am Ufer."])
            .on(
                &[EVALUATE, "Accuracy/Mistranslation"],
                &["Error Exist: Yes\nError Severity: Major\nExplanation: \"Bank\"."],
            )
            .on(&[EVALUATE], &["Error Exist: No"])
            .on(
                &[TIER1],
                &["Error Exist: Yes. Error Severity: Minor.", "Error Exist: No. Error Severity: Neutral."],
            )
            .on(&[TIER2], &["I disagree with him.", last])
    };
    for (last, shown) in [
        ("I disagree with him.", "score -5\n"),
        ("I agree with him.", "score -1\n"),
        ("Perhaps.", "Unparsable: "),
        ("", "Unparsable: "),
    ] {
        let (verdicts, calls) = paper(last).judge(&judge("", Preset::Paper), &[bank()]);
        assert!(show(&verdicts[0]).starts_with(shown), "{last}: {}", show(&verdicts[0]));
        assert!(calls.iter().filter(|call| call.step.stage.name() == "discuss").count() >= 4);
    }
    let strict = |last: &str| {
        talk(cast(CORRECTED, -0.5), &[&opinion("yes", "Minor")], &[&consent("no"), &last.to_owned()])
            .judge(&judge("", Preset::Strict), &[bank()])
    };
    let (verdicts, calls) = strict(&consent("no"));
    assert!(show(&verdicts[0]).starts_with("score -5\n"));
    assert_eq!(calls.iter().filter(|call| call.step.stage.name() == "discuss").count(), 4);
    assert!(matches!(strict("?").0[0], Err(Error::Unparsable(_))));
}

/// A model of noise finds errors, corrects, is compared and discusses: its answers match their forms by
/// construction.
#[test]
fn forms_hold_with_a_model_of_noise() {
    let model = crate::fakes::tiny("qwen2");
    let options =
        tribunal::engine::Options { kv_bytes: Some(32 << 20), context: Some(4096), ..Default::default() };
    let engine = tribunal::engine::Engine::open(&model, &options).unwrap();
    let sampling = Sampling { seed: 3, ..Sampling::default() };
    // Three agents are enough.
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("himate")).unwrap();
    let subtype =
        |core: &str, name: &str| serde_json::json!({ "core": core, "name": name, "description": "Bad." });
    let accuracy = [subtype("Accuracy", "Omission"), subtype("Accuracy", "Mistranslation")];
    let hierarchy = serde_json::json!([
        { "name": "Accuracy", "subtypes": accuracy },
        { "name": "Style", "subtypes": [subtype("Style", "Awkward")] },
    ]);
    std::fs::write(dir.path().join("himate/hierarchy.json"), hierarchy.to_string()).unwrap();
    let settings =
        Settings { max_tokens: Some(600), prompts: Some(dir.path().into()), ..Settings::default() };
    let judge = tribunal::replication::build("himate:shots=0", &settings).unwrap();
    let panel = Panel::new(Arc::new(crate::fakes::Babble(engine)), sampling);
    let (verdicts, calls) = judged(&judge, &panel, &[bank()]);
    assert!(verdicts[0].is_ok(), "{:?}", verdicts[0]);
    let n = |stage: &str| calls.iter().filter(|call| call.step.stage.name() == stage).count();
    assert!(n("evaluate") >= 3 && n("correct") > 0 && n("compare") > 0, "{}", roles(&calls));
    assert_eq!(n("compare"), n("compare-swapped"));
}
