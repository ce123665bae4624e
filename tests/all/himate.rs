//! HiMATE against a scripted model: its questions and the model's answers. The tests are in the modules, by
//! theme.

use std::{fmt::Write, process::ExitCode, sync::Arc};

use tribunal::{
    eval::{ModelSpec, Models, Resources},
    judges::{
        Built, Call, Error, Model, Panel, Preset, Settings, Verdict,
        himate::{HiMate, METHOD, Options},
    },
    llm::Sampling,
    segment::Segment,
};

use crate::fakes::{Cast, Preview as _, bank, judged, translation};

mod calibration;
mod cases;
mod shots;
mod stages;
mod unusable;

const CORRECTED: &str = "Error has been corrected.";
const SAME: &str =
    "No significant difference between the original translation and the corrected Translation.";

/// Beginning of each stage's prompt.
const EVALUATE: &str = "Please check if there are errors in the translation";
const CORRECT: &str = "please correct the errors in the translation";
const COMPARE: &str = "determine whether the error mentioned previously";
const LOCATE: &str = "You have found this error.";
const TIER1: &str = "You need to determine whether an error exists";
const TIER2: &str = "Please indicate whether you agree with his viewpoint";

/// A judge, with a threshold that not every confirmed error is below.
fn judge(options: &str, preset: Preset) -> Built {
    let says_what_is_discussed =
        ["threshold=", "calibration=", "stages="].iter().any(|name| options.contains(name));
    let options =
        if says_what_is_discussed { options.to_owned() } else { format!("threshold=0.9,{options}") };
    let settings = Settings { preset, ..Settings::default() };
    tribunal::replication::build(&format!("himate:{options}"), &settings)
        .unwrap_or_else(|e| panic!("{options}: {e}"))
}

/// A subtype evaluation whose explanation quotes a span.
fn found(severity: &str, span: &str, explanation: &str) -> String {
    found_unquoted(severity, &format!("\"{span}\": {explanation}"))
}

fn found_unquoted(severity: &str, explanation: &str) -> String {
    serde_json::json!({ "errors": [{ "severity": severity, "explanation": explanation }] }).to_string()
}

/// Adds the answers to a comparison in both orders: this sentence, with this log-probability.
fn compared(cast: Cast, cues: &[&str], sentence: &str, logprobs: &[f64]) -> Cast {
    let [as_given, swapped] = if sentence == CORRECTED { ["A", "B"] } else { ["B", "A"] };
    let first = format!("A for \"{CORRECTED}\"");
    let cues = [&[COMPARE][..], cues].concat();
    let in_order = [&cues[..], &[first.as_str()]].concat();
    cast.sure(&in_order, &[(as_given, logprobs)]).sure(&cues, &[(swapped, logprobs)])
}

fn opinion(exists: &str, severity: &str) -> String {
    serde_json::json!({ "explanation": "So it is.", "error_exists": exists, "severity": severity })
        .to_string()
}

fn consent(agree: &str) -> String {
    serde_json::json!({ "explanation": "", "agree": agree }).to_string()
}

/// A cast in which mistranslation finds a major error, compared with this log-probability, and all else is
/// well.
fn cast(comparison: &str, logprob: f64) -> Cast {
    compared(Cast::new(), &[], comparison, &[logprob / 2.0, logprob / 2.0])
        .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "A river bank is meant.")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#])
}

fn show(verdict: &Result<Verdict, Error>) -> String {
    match verdict {
        Ok(verdict) => verdict.errors.iter().fold(format!("score {}\n", verdict.score), |mut text, e| {
            let confidence = e.confidence.map_or(String::new(), |c| format!(" {c:.3}"));
            let place = (e.start, e.end);
            writeln!(text, "  {} {} `{}` {:?} {place:?}{confidence}", e.severity, e.category, e.span, e.side)
                .unwrap();
            text
        }),
        Err(error) => format!("{}: {error}\n", format!("{error:?}").split('(').next().unwrap()),
    }
}

/// Adds a discussion to a cast.
fn talk(cast: Cast, opinions: &[&String], consents: &[&String]) -> Cast {
    let opinions: Vec<_> = opinions.iter().map(|text| text.as_str()).collect();
    let consents: Vec<_> = consents.iter().map(|text| text.as_str()).collect();
    cast.on(&[TIER1], &opinions).on(&[TIER2], &consents)
}

/// The role of each call after the evaluations, one call a line.
fn roles(calls: &[Call]) -> String {
    let later = calls.iter().filter(|call| !call.step.to_string().starts_with("evaluate"));
    later.map(|call| [call.step.to_string().as_str(), " ", call.role.name(), "\n"].concat()).collect()
}
