//! Stages, thresholds, comparisons and discussions.

use super::*;

#[test]
fn stages_thresholds_and_discussions() {
    let mut table = String::new();
    let (yes, no) = (consent("yes"), consent("no"));
    let (major, minor, none) = (opinion("yes", "Major"), opinion("yes", "Minor"), opinion("no", "Neutral"));
    let cases = [
        ("stages=se", cast(CORRECTED, -0.5)),
        ("stages=se+sr", cast(CORRECTED, -0.5)),
        ("stages=se+sr", cast(SAME, -0.5)),
        ("", cast(SAME, -0.5)),
        ("", cast(CORRECTED, -0.05)),
        ("threshold=0.96", talk(cast(CORRECTED, -0.05), &[&minor], &[&yes])),
        ("threshold=0.96,confidence=mean", cast(CORRECTED, -0.05)),
        ("threshold=0", cast(CORRECTED, -0.6)),
        ("", talk(cast(CORRECTED, -0.5), &[&none], &[&yes])),
        ("", talk(cast(CORRECTED, -0.5), &[&none, &minor], &[&no, &yes])),
        ("", talk(cast(CORRECTED, -0.5), &[&minor, &none], &[&no, &yes])),
        ("", talk(cast(CORRECTED, -0.5), &[&minor, &none], &[&no, &no])),
        ("", talk(cast(CORRECTED, -0.5), &[&minor, &major], &[&no])),
        ("", talk(cast(CORRECTED, -0.5), &[&major], &[])),
        ("threshold=1", talk(cast(CORRECTED, 0.0), &[&minor], &[&yes])),
        ("", talk(cast(CORRECTED, -0.5), &[&opinion("yes", "Neutral")], &[&yes])),
    ];
    for (options, cast) in cases {
        let (verdicts, calls) = cast.judge(&judge(options, Preset::Strict), &[bank()]);
        write!(table, "`{options}`\n{}{}", roles(&calls), show(&verdicts[0])).unwrap();
    }
    let single = r#"{"errors": [{"category": "accuracy/omission", "span": "sat", "severity": "Major", "explanation": ""}, {"category": "fluency/punctuation", "span": ".", "severity": "Minor", "explanation": ""}]}"#;
    for preset in [Preset::Strict, Preset::Paper] {
        let (verdicts, calls) =
            Cast::new().on(&[""], &[single]).judge(&judge("stages=sa", preset), &[bank()]);
        assert_eq!(calls.len(), 1);
        write!(table, "`stages=sa` {preset}\n{}", show(&verdicts[0])).unwrap();
    }
    insta::assert_snapshot!("himate_stages", table);
}

fn outcomes(calls: &[Call]) -> String {
    let marked = calls.iter().filter_map(|call| Some(format!("{} {}\n", call.step, call.outcome?)));
    marked.collect()
}

#[test]
fn what_becomes_of_errors_is_counted() {
    let (agreed, denied) = (consent("yes"), opinion("no", "Neutral"));
    let minor = opinion("yes", "Minor");
    let unchanged = cast(CORRECTED, -0.01);
    let outcome = |cast: Cast| {
        let (verdicts, calls) = cast.judge(&judge("", Preset::Strict), &[bank()]);
        assert!(verdicts[0].is_ok());
        outcomes(&calls).split_once(' ').map(|(_, outcome)| outcome.trim().to_owned()).unwrap_or_default()
    };
    assert_eq!(outcome(unchanged), "confirmed");
    assert_eq!(outcome(cast(SAME, -0.01)), "dropped");
    assert_eq!(outcome(talk(cast(CORRECTED, -0.5), &[&minor], &[&agreed])), "discussed-and-kept");
    assert_eq!(outcome(talk(cast(CORRECTED, -0.5), &[&denied], &[&agreed])), "discussed-and-denied");
    // The agent has nothing to correct: there is no error, and nothing to compare.
    let same = Cast::new()
        .on(&[CORRECT], &[r#"{"correction": "Er saß  auf der Bank. "}"#])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    assert_eq!(outcome(same), "dropped-unchanged");
}

/// A model that prefers whatever stands first is neither for nor against an error.
#[test]
fn a_preference_for_a_place_confirms_nothing() {
    let first = |sentence: &str| format!("A for \"{sentence}\"");
    let biased = |p: f64, q: f64| {
        Cast::new()
            .sure(&[COMPARE, &first(CORRECTED)], &[("A", &[p.ln()])])
            .sure(&[COMPARE, &first(SAME)], &[("B", &[q.ln()])])
            .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
            .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "")])
            .on(&[EVALUATE], &[r#"{"errors": []}"#])
    };
    let errors = |cast: Cast, options: &str| {
        let (verdicts, calls) = cast.judge(&judge(options, Preset::Strict), &[bank()]);
        let steps = calls.iter().filter(|call| call.step.stage.name().starts_with("compare")).count();
        (show(&verdicts[0]), steps)
    };
    assert_eq!(errors(biased(0.9, 0.1), "stages=se+sr"), ("score 0\n".into(), 2));
    let (shown, steps) = errors(biased(0.9, 0.7), "stages=se+sr");
    assert!(shown.starts_with("score -5\n") && shown.ends_with(" 0.800\n") && steps == 2, "{shown}");
    // Asked once, the place decides.
    let (shown, steps) = errors(biased(0.9, 0.1), "stages=se+sr,comparison=asked");
    assert!(shown.starts_with("score -5\n") && steps == 1, "{shown}");
}

#[test]
fn a_discussion_starts_from_the_reflected_error() {
    let cast = talk(cast(CORRECTED, -0.5), &[&opinion("yes", "Minor")], &[&consent("yes")]);
    let (_, calls) = cast.judge(&judge("", Preset::Strict), &[bank()]);
    let told = calls.iter().filter(|call| call.step.stage.name() == "discuss");
    let reflected = "Previous error information: Major-Mistranslation-'Bank'. \"Bank\": A river bank is meant.\n\
                     Corrected translation: Er saß am Ufer.\nComparison of both: Error has been corrected.\n";
    assert!(told.clone().all(|call| call.chat.messages()[1].content.contains(reflected)));
    assert_eq!(told.count(), 2);
}

/// The published threshold is 1: without another one every confirmed error is discussed, however sure it is.
#[test]
fn every_confirmed_error_is_discussed_by_default() {
    for preset in [Preset::Strict, Preset::Paper] {
        let settings = Settings { preset, ..Settings::default() };
        let judge = tribunal::replication::build("himate:comparison=weighed", &settings).unwrap();
        let evaluation = match preset {
            Preset::Strict => found("Major", "Bank", ""),
            _ => "Error Exist: Yes\nError Severity: Major\nExplanation: \"Bank\".".to_owned(),
        };
        let nothing = if preset == Preset::Strict { r#"{"errors": []}"# } else { "Error Exist: No" };
        let agreed = if preset == Preset::Strict { consent("yes") } else { "I agree with him.".to_owned() };
        let said = match preset {
            Preset::Strict => opinion("yes", "Minor"),
            _ => "Error Exist: Yes. Error Severity: Minor.".to_owned(),
        };
        let cast = compared(Cast::new(), &[], CORRECTED, &[0.0])
            .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
            .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&evaluation])
            .on(&[EVALUATE], &[nothing])
            .on(&[TIER1], &[&said])
            .on(&[TIER2], &[&agreed]);
        let (verdicts, calls) = cast.judge(&judge, &[bank()]);
        assert!(show(&verdicts[0]).starts_with("score -1\n"), "{preset}: {}", show(&verdicts[0]));
        assert!(calls.iter().any(|call| call.step.stage.name() == "discuss"), "{preset}");
    }
}

/// An explanation that quotes nothing of the text names no span: `strict` requests it at the end, `paper` has
/// none.
#[test]
fn spans_are_what_explanations_quote() {
    let span = r#"{"span": "der Bank"}"#;
    let unquoted = |span: &str| {
        compared(Cast::new(), &[], CORRECTED, &[-0.01])
            .on(&[LOCATE], &[span])
            .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
            .on(
                &[EVALUATE, "Accuracy/Mistranslation"],
                &[&found_unquoted("Major", "A river bank is meant: \"Ufer\".")],
            )
            .on(&[EVALUATE], &[r#"{"errors": []}"#])
    };
    for (options, n_calls) in [("stages=se", 20), ("", 23)] {
        let (verdicts, calls) = unquoted(span).judge(&judge(options, Preset::Strict), &[bank()]);
        assert_eq!(calls.len(), n_calls, "{}", roles(&calls));
        assert!(
            show(&verdicts[0]).contains("`der Bank` Target (Some(11), Some(19))"),
            "{}",
            show(&verdicts[0])
        );
    }
    // The span of an error that was dropped is not requested.
    let dropped = compared(Cast::new(), &[], SAME, &[-0.01]);
    let dropped = dropped
        .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found_unquoted("Major", "A river bank is meant.")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    assert_eq!(dropped.judge(&judge("", Preset::Strict), &[bank()]).1.len(), 22);
    for unusable in ["nonsense", r#"{"span": ""}"#, ""] {
        let (verdicts, _) = unquoted(unusable).judge(&judge("", Preset::Strict), &[bank()]);
        assert!(verdicts[0].is_err(), "{unusable}");
    }
    let paper = Cast::new()
        .on(
            &[EVALUATE, "Accuracy/Mistranslation"],
            &["Error Exist: Yes\nError Severity: Major\nExplanation: A river bank is meant."],
        )
        .on(&[EVALUATE], &["Error Exist: No"]);
    let (verdicts, calls) = paper.judge(&judge("stages=se", Preset::Paper), &[bank()]);
    assert_eq!(calls.len(), 19);
    assert!(
        show(&verdicts[0]).starts_with("score -5\n  major accuracy/mistranslation `` Target (None, None)")
    );
}
