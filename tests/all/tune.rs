//! `tribunal tune` as its user starts it: trained, stopped, gone on with, judged along the way, and used.

use crate::{
    fakes::{SmallRun, said},
    probe::{fit, rated, tiny},
};

fn tune(small: &SmallRun, out: &str, more: &[&str]) -> (i32, String) {
    let mut command =
        small.tribunal(&["tune", "--input", "rated.jsonl", "--out", out, "--granularity", "seg"]);
    let recipe =
        "--hold-out 0.3 --steps 4 --batch-examples 2 --every 2 --layers 1 --rank 2 --test-examples 3";
    command.args(recipe.split(' ')).args(["--kv-cache", "8MiB"]);
    command.arg("--model").arg(tiny()).args(more);
    said(command)
}

const FOUR: [&str; 2] = ["--test-translations", "4"];

#[test]
fn an_adapter_is_trained_stopped_judged_and_used() {
    let small = SmallRun::new(2);
    rated(&small);
    let (code, text) = tune(&small, "whole", &FOUR);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("held-out translations: acc-t"), "{text}");
    let (code, text) = tune(&small, "parts", &[&FOUR[..], &["--max-hours", "0"]].concat());
    assert!(code == 0 && text.contains("training is not over"), "{text}");
    let (code, text) = tune(&small, "parts", &FOUR);
    assert_eq!(code, 0, "{text}");
    for file in ["adapter_model.safetensors", "adapter_config.json", "progress.jsonl", "training.json"] {
        let read = |folder: &str| std::fs::read(small.at(folder).join(file)).unwrap();
        assert_eq!(read("whole"), read("parts"), "{file}");
    }
    let lines = small.read("whole/progress.jsonl");
    let judged: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["event"] == "judged")
        .collect();
    let steps: Vec<u64> = judged.iter().filter_map(|line| line["step"].as_u64()).collect();
    assert_eq!(steps, [0, 2, 4]);
    let of = &judged[0]["figures"]["en-de"];
    let known = of["translations"].as_f64().unwrap() + of["without a verdict"].as_f64().unwrap();
    assert!((4.0..=5.0).contains(&known), "{of}");

    let mut command =
        small.tribunal(&["score", "--input", "input.jsonl", "--out", "out", "--method", "gmft"]);
    command.args(["--adapter", "whole", "--kv-cache", "8MiB", "--max-tokens", "40", "--model"]).arg(tiny());
    let (code, text) = said(command);
    assert!(code <= 1 && small.at("out/verdicts.jsonl").exists(), "{text}");
    let run: serde_json::Value = serde_json::from_str(&small.read("out/run.json")).unwrap();
    assert!(run["signature"].to_string().contains("adapter"), "{run}");
}

#[test]
fn no_translation_needs_to_be_judged() {
    let small = SmallRun::new(1);
    rated(&small);
    let (code, text) = tune(&small, "out", &["--test-translations", "0"]);
    assert!(code == 0 && !text.contains("held-out translations"), "{text}");
    assert!(!small.at("out/held_out.svg").exists());
}

/// With the readings of `fit.json`, unless others are named.
fn tune_score(small: &SmallRun, out: &str, fit: &str, more: &[&str]) -> (i32, String) {
    let mut command = small.tribunal(&["tune", "score", "--input", "rated.jsonl", "--out", out]);
    let recipe = "--hold-out 0.3 --steps 12 --batch-examples 8 --every 4 --layers 1 --rank 4 --lr 0.001";
    command.args(recipe.split(' ')).args([
        "--fit",
        fit,
        "--readings",
        "fit.readings",
        "--test-translations",
        "8",
    ]);
    command.arg("--model").arg(tiny()).args(["--kv-cache", "8MiB"]).args(more);
    said(command)
}

#[test]
fn an_adapter_is_trained_towards_a_fits_scores_and_fitted_again() {
    let small = SmallRun::new(2);
    rated(&small);
    let (code, text) = fit(&small, "fit.json", &[]);
    assert_eq!(code, 0, "{text}");
    // A fit that is right about these easy ratings has nothing to teach: one that is two points off has.
    let mut off: serde_json::Value = serde_json::from_str(&small.read("fit.json")).unwrap();
    for ladder in off["ladders"].as_object_mut().unwrap().values_mut() {
        ladder["bias"] = (ladder["bias"].as_f64().unwrap() + 2.0).into();
    }
    std::fs::write(small.at("off.json"), off.to_string()).unwrap();
    let (code, text) = tune_score(&small, "whole", "off.json", &[]);
    assert!(code == 0 && text.contains("held-out translations: acc-t"), "{text}");
    let (code, text) = tune_score(&small, "parts", "off.json", &["--max-hours", "0"]);
    assert!(code == 0 && text.contains("training is not over"), "{text}");
    let (code, text) = tune_score(&small, "parts", "off.json", &[]);
    assert_eq!(code, 0, "{text}");
    for file in ["adapter_model.safetensors", "adapter_config.json", "progress.jsonl", "training.json"] {
        let read = |folder: &str| std::fs::read(small.at(folder).join(file)).unwrap();
        assert_eq!(read("whole"), read("parts"), "{file}");
    }
    let lines = small.read("whole/progress.jsonl");
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let held_out = lines.iter().filter(|line| line["event"] == "held-out");
    let losses: Vec<f64> = held_out.filter_map(|line| line["loss"].as_f64()).collect();
    assert!(losses.len() == 4 && losses[3] < 0.2 * losses[0], "{losses:?}");

    // The adapter's own fit, and what is wrong without it.
    let (code, text) = fit(&small, "adapted.json", &["--adapter", "whole"]);
    assert_eq!(code, 0, "{text}");
    let score = |out: &str, method: &str, more: &[&str]| {
        let mut command =
            small.tribunal(&["score", "--input", "input.jsonl", "--out", out, "--method", method]);
        command.args(["--kv-cache", "8MiB", "--model"]).arg(tiny()).args(more);
        said(command)
    };
    let (code, text) = score("out", "probe:fit=adapted.json", &["--adapter", "whole"]);
    assert!(code == 0 && small.at("out/verdicts.jsonl").exists(), "{text}");
    let (code, text) = score("bare", "probe:fit=adapted.json", &[]);
    assert!(code == 2 && text.contains("the fit is for `qwen2+whole`"), "{text}");
    let (code, text) = tune_score(&small, "again", "adapted.json", &[]);
    assert!(code == 2 && text.contains("the fit is for `qwen2+whole`"), "{text}");
    let (code, text) = tune_score(&small, "leak", "fit.json", &["--seed", "5"]);
    assert!(code == 2 && text.contains("is held out, but the fit was made on its text"), "{text}");
    let (code, text) = tune_score(&small, "dry", "fit.json", &["--dry-run"]);
    assert!(code == 0 && text.contains("sources") && !small.at("dry").exists(), "{text}");
    assert!(text.contains("the fit was made on all that is trained on"), "{text}");
    assert!(text.contains("to be read first\t0 translations"), "{text}");
    let (code, text) = tune_score(&small, "dry", "fit.json", &["--dry-run", "--readings", "none"]);
    assert!(code == 0 && !small.at("none").exists(), "a dry run reads nothing: {text}");
    assert!(text.contains("to be read first\t120 translations"), "{text}");

    // A larger share holds out what a smaller one does, and more: what is between them is new to the fit.
    let mut command = small.tribunal(&[
        "tune",
        "probe",
        "--input",
        "rated.jsonl",
        "--out",
        "half.json",
        "--hold-out",
        "0.6",
    ]);
    command.args(["--depth", "1", "--readings", "fit.readings", "--kv-cache", "8MiB", "--model"]).arg(tiny());
    let (code, text) = said(command);
    assert_eq!(code, 0, "{text}");
    let (code, text) = tune_score(&small, "new", "half.json", &["--max-hours", "0"]);
    assert!(code == 0 && text.contains("that the fit was not made on"), "{text}");
    assert!(small.read("new/trained.txt").lines().count() < small.read("whole/trained.txt").lines().count());

    // The same texts with other ratings are another training.
    let ratings = small.read("rated.jsonl").replace("major", "minor");
    std::fs::write(small.at("rated.jsonl"), ratings).unwrap();
    let (code, text) = tune_score(&small, "whole", "off.json", &[]);
    assert!(code == 2 && text.contains("is the state of another training"), "{text}");
}
