//! The order in which `probe` puts versions of the same twelve sentences (`tests/versions`), with each model
//! that a fit comes with the program for: those that are on this machine. Versions in another language and
//! swapped ones are rejected before any model call (`untranslated.rs`), and so are shifted ones that names
//! reveal; here the check is off.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;
use tribunal::{hub, judges::probe::fit::Fit};

use crate::fakes::{not_checked, said};

/// Versions that no reader would take for a translation.
const WORTHLESS: [&str; 3] = ["shifted", "four-words", "yes"];

/// The mean score of each version.
fn means(model: &str, pair: &str) -> BTreeMap<String, f64> {
    let folder = tempfile::tempdir().unwrap();
    let versions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions").join(pair);
    let file = |name: &str| versions.join(format!("{name}.txt"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command.args(["score", "--model", model, "-l", pair, "--language-check", "off", "--quiet"]);
    command.args(["--kv-cache", "200MiB", "--context", "1024"]).arg("-s").arg(file("source"));
    command.arg("--docs").arg(file("docs")).arg("--out").arg(folder.path().join("run"));
    command.arg("-t").args(["correct", "planted"].iter().chain(&WORTHLESS).map(|name| file(name)));
    let (code, text) = said(command);
    assert_eq!(code, 0, "{text}");
    let summary = std::fs::read(folder.path().join("run/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let systems = summary["systems"].as_array().unwrap().iter();
    systems
        .map(|system| (system["system"].as_str().unwrap().to_owned(), system["score"].as_f64().unwrap()))
        .collect()
}

#[test]
fn the_correct_version_is_best_and_the_worthless_are_worst() {
    for model in Fit::models() {
        if hub::find(model).and_then(|card| card.local()).is_err() {
            not_checked(&format!("`{model}` is not on this machine"));
            continue;
        }
        for pair in ["en-de", "zh-en"] {
            let means = means(model, pair);
            let told = format!("{model} {pair}: {means:?}");
            assert!(means.iter().all(|(name, mean)| name == "correct" || *mean < means["correct"]), "{told}");
            for name in WORTHLESS {
                assert!(means[name] < means["planted"], "{name} in {told}");
            }
        }
    }
}
