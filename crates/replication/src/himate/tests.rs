//! Outcomes of answers: the branches of `record.py`, one line for each.

use super::*;

fn entry(exist: &str, severity: &str) -> LogEntry {
    LogEntry { exist: exist.into(), severity: severity.into() }
}

#[test]
fn evaluations() {
    let read = |text: &str| {
        evaluation(text).map(|(LogEntry { exist, severity }, why)| [exist, severity, why].join("|"))
    };
    let check = |text: &str, expected: Option<&str>| assert_eq!(read(text).as_deref(), expected, "{text}");
    check(
        "Error Exist: Yes.\nError Severity: Major.\nExplanation: So.\nIt is.",
        Some("Yes.|Major|So.\nIt is."),
    );
    check("Error Exist: 'No'.\nError severity: 'Neutral'\nExplanation: ", Some("'No'.|Neutral|"));
    // The severity keeps its spelling; a second label ends the text of the first.
    check("Error Exist: Yes\nerror severity:minor\nExplanation: a Explanation: b", Some("Yes|minor|a "));
    for unread in [
        "",
        "Error Exist: Yes\nError Severity: Major",
        "Error Exist:Yes\nError Severity: Major\nExplanation: a",
    ] {
        check(unread, None);
    }
    check("**Error Exist:** Yes\nError Severity: Major\nExplanation: a", None);
    check("Error Exist: Yes\nError Severity: **Major**\nExplanation: a", None);
}

#[test]
fn comparisons() {
    let check = |answer: &str, exist: &str, severity: &str| {
        assert_eq!(entry("Yes.", "Major").verified(answer), entry(exist, severity), "{answer}");
    };
    check("A", "Yes", "Major");
    check("B. Actually the same.", "Yes", "Major");
    check("B", "No", "Neutral");
    check("neither", "Yes.", "Major");
}

#[test]
fn what_is_concluded() {
    let check = |exist: &str, severity: &str, concluded: (&str, &str)| {
        assert_eq!(entry(exist, severity).concluded(), entry(concluded.0, concluded.1));
    };
    check("Yes", "Minor. A Major one it is not", ("Yes", "Major"));
    check("yes", "minor", ("Yes", "Neutral"));
    check("Yes. No doubt", "Major", ("No", "Neutral"));
}

#[test]
fn the_end_of_a_discussion() {
    let verified = entry("Yes", "Major");
    let end = |rounds: [&str; 4]| {
        let LogEntry { exist, severity } = outcome(&rounds.map(String::from), &verified).concluded();
        format!("{exist} {severity}")
    };
    let minor = "Error Exist: 'Yes'.\nError Severity: 'Minor'.\nIt is small.";
    let bare = "Error Exist: Yes.\nError Severity: Minor, it is small.";
    let agree = "I agree with him.";
    // The superior agrees at once, or concedes.
    assert_eq!(end([agree, NONE, NONE, NONE]), "Yes Major");
    assert_eq!(end([minor, "No.", agree, NONE]), "Yes Major");
    // The evaluator agrees with its first reply.
    assert_eq!(end([minor, agree, NONE, NONE]), "Yes Minor");
    assert_eq!(end(["Error Exist: 'No'.", agree, NONE, NONE]), "No Neutral");
    assert_eq!(end(["Error Exist: Yes, it does.", agree, NONE, NONE]), "Yes Minor");
    assert_eq!(end(["It does not exist.", agree, NONE, NONE]), "Yes Major");
    // Words that follow without another sign belong to the severity.
    assert_eq!(end(["Error Exist: Yes.\nError Severity: Minor. Not Major", agree, NONE, NONE]), "Yes Major");
    // With its second: only bare words are read, so the layout that the prompt requests is not.
    assert_eq!(end([bare, "No.", "It is.", agree]), "Yes Minor");
    assert_eq!(end([minor, "No.", "It is.", agree]), "Yes Major");
    assert_eq!(end([bare, "No.", "It is.", "I agree"]), "Yes Minor");
    // A lasting disagreement.
    assert_eq!(end([bare, "No.", "It is.", "I still disagree with him"]), "Yes Major");
    // The answer `None` counts as missing.
    assert_eq!(end([bare, NONE, "It is.", agree]), "Yes Major");
}

#[test]
fn log_probabilities_as_they_are_printed() {
    for (logprob, read) in [
        (0.0, Some(0.0)),
        (-0.25, Some(-0.25)),
        (-1.5e-7, Some(-1.5e-7)),
        (-1e-5, Some(-1.0)),
        (-9999.0, Some(-9999.0)),
        (f64::NEG_INFINITY, None),
    ] {
        assert_eq!(as_printed(logprob), read, "{logprob}");
    }
}
