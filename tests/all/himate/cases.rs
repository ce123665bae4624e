//! The worked cases of Tables 11 to 17.

use super::*;

/// One error of a worked case: subtype, the answer of Stage 1, the confirmation by the comparison and its
/// confidence, and the answer of the tier-1 agent.
struct Case<'a> {
    subtype: &'a str,
    severity: &'a str,
    span: &'a str,
    is_confirmed: bool,
    logprob: f64,
    opinion: Option<(&'a str, &'a str)>,
}

/// Replays a worked case through the pipeline; unsure where the case shows a discussion.
fn replay(segment: &Segment, cases: &[Case], preset: Preset) -> (Vec<Call>, Result<Verdict, Error>) {
    let mut cast = Cast::new();
    for case in cases {
        let Case { subtype, severity, span, .. } = case;
        let (evaluation, correction) = match preset {
            Preset::Strict => (found(severity, span, "As the case says."), r#"{"correction": "Better."}"#),
            _ => (
                format!(
                    "Error Exist: Yes\nError Severity: {severity}\nExplanation: \"{span}\": As the case says."
                ),
                "Better.",
            ),
        };
        let comparison = if case.is_confirmed { CORRECTED } else { SAME };
        let definition = format!("{subtype}:");
        let name = subtype.split_once('/').unwrap().1;
        let information = format!("{severity}-{name}-'{span}'");
        cast = compared(cast, &[&definition], comparison, &[case.logprob])
            .on(&[CORRECT, &definition], &[correction])
            .on(&[EVALUATE, &definition], &[&evaluation]);
        if let Some((exists, severity)) = case.opinion {
            let (said, agreed) = match preset {
                Preset::Strict => (opinion(&exists.to_lowercase(), severity), consent("yes")),
                _ => (
                    format!("Error Exist: {exists}. Error Severity: {severity}. As the case says."),
                    "I agree with him.".to_owned(),
                ),
            };
            cast = cast.on(&[TIER1, &information], &[&said]).on(&[TIER2, &information], &[&agreed]);
        }
    }
    let nothing = if preset == Preset::Strict { r#"{"errors": []}"# } else { "Error Exist: No" };
    let cast = cast.on(&[EVALUATE], &[nothing]);
    let (mut verdicts, calls) = cast.judge(&judge("shots=0", preset), std::slice::from_ref(segment));
    (calls, verdicts.remove(0))
}

#[track_caller]
fn check_case(segment: &Segment, cases: &[Case], score: f64, name: &str) {
    for preset in [Preset::Paper, Preset::Strict] {
        let (calls, verdict) = replay(segment, cases, preset);
        let verdict = verdict.unwrap_or_else(|e| panic!("{preset}: {e}"));
        assert_eq!(verdict.score.to_bits(), score.to_bits(), "{preset}: {verdict:?}");
        if preset == Preset::Paper {
            insta::assert_snapshot!(name, format!("{}{}", roles(&calls), show(&Ok(verdict))));
        }
    }
}

const SURE: f64 = -0.01;
const UNSURE: f64 = -0.5;

#[test]
fn tables_11_and_12() {
    let segment = translation(("zh", "en"), "希望你们了解一下", "I hope you know about it.");
    let case = |subtype, severity, span, is_confirmed, opinion| Case {
        subtype,
        severity,
        span,
        is_confirmed,
        logprob: UNSURE,
        opinion,
    };
    check_case(
        &segment,
        &[
            case("Accuracy/Mistranslation", "Major", "know about it", true, Some(("Yes", "Major"))),
            case("Terminology/Inappropriate for context", "Minor", "know", false, None),
            case("Accuracy/Omission", "Major", "希望", false, None),
            case("Style/Awkward", "Minor", "I hope you know about it", true, Some(("No", "Neutral"))),
            case("Accuracy/Addition", "Minor", "know about it", true, Some(("No", "Neutral"))),
        ],
        -5.0,
        "himate_tables_11_12",
    );
}

#[test]
fn tables_13_to_15() {
    let segment = translation(
        ("zh", "en"),
        "无论从接待、化妆、服装、灯光、摄影到后期都无可挑剔。",
        "From reception, makeup, costumes, lighting, photography to the late stage, it is impeccable.",
    );
    let case = |subtype, severity, span, is_confirmed, opinion| Case {
        subtype,
        severity,
        span,
        is_confirmed,
        logprob: UNSURE,
        opinion,
    };
    check_case(
        &segment,
        &[
            case("Accuracy/Mistranslation", "Major", "the late stage", true, Some(("Yes", "Major"))),
            case("Accuracy/Addition", "Minor", "the late stage", true, Some(("No", "Neutral"))),
            case("Accuracy/Omission", "Major", "无论从", false, None),
            case("Fluency/Grammar", "Minor", "to the late stage", false, None),
            case("Fluency/Inconsistency", "Minor", "the late stage", true, Some(("No", "Neutral"))),
            case("Style/Awkward", "Minor", "to the late stage", true, Some(("No", "Neutral"))),
        ],
        -5.0,
        "himate_tables_13_to_15",
    );
}

#[test]
fn tables_16_and_17() {
    let segment = translation(
        ("en", "de"),
        "This move is just the latest twist in the Dallas-Washington rivalry, one that got juiced up even more this week when Cowboys head coach Mike McCarthy predicted a win for his team, prompting some fireworks back and forth with Washington's Ron Rivera and models.",
        "Dieser Schritt ist nur die jüngste Wendung in der Rivalität zwischen Dallas und Washington, die diese Woche noch stärker gemacht wurde, als Cowboys-Cheftrainer Mike McCarthy einen Sieg für sein Team vorhersagte und ein Feuerwerk zwischen Ron Rivera und Spielern aus Washington auslöste.",
    );
    let case = |subtype, severity, span, is_confirmed, logprob, opinion| Case {
        subtype,
        severity,
        span,
        is_confirmed,
        logprob,
        opinion,
    };
    check_case(
        &segment,
        &[
            // "No explanation due to exceeding the stage-transition threshold."
            case("Style/Awkward", "Minor", "stärker gemacht wurde", true, SURE, None),
            case("Accuracy/Mistranslation", "Major", "Feuerwerk", true, UNSURE, Some(("Yes", "Minor"))),
            case(
                "Fluency/Inconsistency",
                "Minor",
                "die diese Woche noch stärker gemacht wurde",
                false,
                UNSURE,
                None,
            ),
        ],
        -2.0,
        "himate_tables_16_17",
    );
}
