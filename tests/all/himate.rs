//! HiMATE against a scripted model. Here are its questions and what the model says; the tests are in the modules, by
//! theme.

use std::{fmt::Write, process::ExitCode, sync::Arc};

use tribunal::{
    cli::{
        args::{EngineArgs, ModelArgs},
        panel::LoadedModels,
    },
    judges::{
        Built, Call, Error, Model, Panel, Preset, Settings, Verdict,
        himate::{Asked, HiMate, METHOD},
        registry,
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

/// What calls each stage.
const EVALUATE: &str = "Please check if there are errors in the translation";
const CORRECT: &str = "please correct the errors in the translation";
const COMPARE: &str = "determine whether the error mentioned previously";
const TIER1: &str = "You need to determine whether an error exists";
const TIER2: &str = "Please indicate whether you agree with his viewpoint";

/// A judge; under `paper`, which has no default, with the threshold of `strict`.
fn judge(options: &str, preset: Preset) -> Built {
    let says_what_is_discussed =
        ["threshold=", "calibration=", "stages="].iter().any(|name| options.contains(name));
    let is_short = preset == Preset::Paper && !says_what_is_discussed;
    let options = if is_short { format!("threshold=0.9,{options}") } else { options.to_owned() };
    let settings = Settings { preset, ..Settings::default() };
    registry::build(&format!("himate:{options}"), &settings).unwrap_or_else(|e| panic!("{options}: {e}"))
}

fn found(severity: &str, span: &str, explanation: &str) -> String {
    serde_json::json!({ "errors": [{ "span": span, "severity": severity, "explanation": explanation }] })
        .to_string()
}

fn opinion(exists: &str, severity: &str) -> String {
    serde_json::json!({ "explanation": "So it is.", "error_exists": exists, "severity": severity })
        .to_string()
}

fn consent(agree: &str) -> String {
    serde_json::json!({ "explanation": "", "agree": agree }).to_string()
}

/// A cast in which mistranslation finds a major error, compared with this log-probability, and all else is well.
fn cast(comparison: &str, logprob: f64) -> Cast {
    Cast::new()
        .sure(&[COMPARE], &[(comparison, &[logprob / 2.0, logprob / 2.0])])
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

/// The same cast with a discussion.
fn talk(cast: Cast, opinions: &[&String], consents: &[&String]) -> Cast {
    let opinions: Vec<_> = opinions.iter().map(|text| text.as_str()).collect();
    let consents: Vec<_> = consents.iter().map(|text| text.as_str()).collect();
    cast.on(&[TIER1], &opinions).on(&[TIER2], &consents)
}

/// Who spoke at which stage after the evaluations, one call a line.
fn roles(calls: &[Call]) -> String {
    let later = calls.iter().filter(|call| !call.step.to_string().starts_with("evaluate"));
    later.map(|call| [call.step.to_string().as_str(), " ", call.role.name(), "\n"].concat()).collect()
}
