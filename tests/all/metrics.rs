//! `comet` with seeded metrics and `qe` with its encoder, from files to verdicts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fakes::{SmallRun, cached_encoder, copy_folder, said, tiny, write_metric};

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/en-de").join(name).display().to_string()
}

fn metric(small: &SmallRun, case: &str) -> PathBuf {
    let folder = small.at(case);
    write_metric(Path::new(env!("CARGO_MANIFEST_DIR")), &folder, case);
    folder
}

/// Scores the example's two systems.
fn score(small: &SmallRun, out: &str, model: &Path, more: &[&str]) -> (i32, String) {
    let [source, a, b] = ["source.txt", "system-a.txt", "system-b.txt"].map(example);
    let mut command = small.tribunal(&["score", "-s", &source, "-t", &a, &b, "-l", "en-de", "--out", out]);
    command.args(["--kv-cache", "8MiB", "--model"]).arg(model).args(more);
    said(command)
}

fn lines(small: &SmallRun, file: &str) -> Vec<Value> {
    small.read(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks the run `out` of the example: it is confirmed, has the same bytes with one thread and from shards, and goes
/// through every output.
fn check_everywhere(small: &SmallRun, model: &Path, more: &[&str]) {
    let (code, text) = score(small, "one", model, &[more, &["--jobs", "1", "--threads", "1"]].concat());
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("out/verdicts.jsonl"), small.read("one/verdicts.jsonl"));
    for more in [&["--without-model"][..], &[]] {
        let (code, text) = said(small.tribunal(&[&["verify", "out"], more].concat()));
        assert!(code == 0 && text.contains("confirmed"), "{text}");
    }
    for shard in ["1/2", "2/2"] {
        let out = format!("shard-{}", &shard[..1]);
        let (code, text) = score(small, &out, model, &[more, &["--shard", shard]].concat());
        assert_eq!(code, 0, "{text}");
    }
    let (code, text) = said(small.tribunal(&["merge", "shard-1", "shard-2", "--out", "merged"]));
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("out/verdicts.jsonl"), small.read("merged/verdicts.jsonl"));
    for command in [&["show", "out"][..], &["report", "out", "--out", "page.html"]] {
        let (code, text) = said(small.tribunal(command));
        assert_eq!(code, 0, "{command:?}: {text}");
    }
    let (code, text) = score(small, "plan", model, &[more, &["--dry-run"]].concat());
    assert_eq!(code, 0, "{text}");
}

#[test]
fn xcomet_judges_the_example_and_is_verified() {
    let small = SmallRun::new(1);
    let model = metric(&small, "xcomet");
    let reference = example("system-b.txt");
    let (code, text) = score(&small, "out", &model, &["-r", &reference]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("score of the metric"), "{text}");
    let verdicts = lines(&small, "out/verdicts.jsonl");
    assert_eq!(verdicts.len(), 16);
    let errors: Vec<&Value> = verdicts.iter().flat_map(|line| line["errors"].as_array().unwrap()).collect();
    assert!(errors.len() > 8, "{errors:?}");
    for line in &verdicts {
        let text: Vec<char> = line["hypothesis"].as_str().unwrap().chars().collect();
        for error in line["errors"].as_array().unwrap().iter().filter(|error| error["start"].is_u64()) {
            let [start, end] = ["start", "end"].map(|end| error[end].as_u64().unwrap() as usize);
            assert_eq!(error["span"].as_str().unwrap(), text[start..end].iter().collect::<String>());
            let confidence = error["confidence"].as_f64().unwrap();
            assert!(confidence > 0.25 && confidence <= 1.0, "{error}");
        }
    }
    assert!(
        verdicts.iter().any(|line| line["warning"].as_str().is_some_and(|text| text.contains("was cut")))
    );
    let calls = lines(&small, "out/calls.jsonl");
    assert!(
        calls.iter().all(|call| call["scored"][0]["estimate"]["parts"]["mqm_scores"].is_number()),
        "{calls:?}"
    );
    let signature = small.read("out/summary.json");
    assert!(signature.contains("method:comet|reference:on"), "{signature}");
    check_everywhere(&small, &model, &["-r", &reference]);
}

#[test]
fn the_encoder_of_qe_judges_the_example_and_is_verified() {
    let Some(model) = cached_encoder() else { return };
    let small = SmallRun::new(1);
    let (code, text) = score(&small, "out", &model, &[]);
    assert_eq!(code, 0, "{text}");
    let verdicts = lines(&small, "out/verdicts.jsonl");
    assert!(verdicts.iter().all(|line| line["score"].as_f64().is_some_and(|score| score <= 0.0)));
    let severities: Vec<&Value> = verdicts
        .iter()
        .flat_map(|line| line["errors"].as_array().unwrap())
        .map(|error| &error["severity"])
        .collect();
    assert!(severities.len() > 4 && severities.iter().any(|severity| *severity == "minor"), "{severities:?}");
    let summary = small.read("out/summary.json");
    assert!(summary.contains("method:qe|fit:") && !summary.contains("was not fitted"), "{summary}");
    check_everywhere(&small, &model, &[]);
    let (code, text) = score(&small, "none", &tiny("qwen2"), &["--method", "qe"]);
    assert!(code == 2 && text.contains("which is not an encoder"), "{text}");
}

#[test]
fn a_metric_is_judged_by_comet_where_no_method_is_named() {
    let small = SmallRun::new(1);
    for case in ["referenceless", "unified", "unified-tags"] {
        let (code, text) = score(&small, &format!("out/{case}"), &metric(&small, case), &[]);
        assert_eq!(code, 0, "{case}: {text}");
        let scores: Vec<f64> = lines(&small, &format!("out/{case}/verdicts.jsonl"))
            .iter()
            .map(|line| line["score"].as_f64().unwrap())
            .collect();
        assert!(scores.iter().any(|score| (score - scores[0]).abs() > 1e-3), "{scores:?}");
    }
}

#[test]
fn models_and_inputs_that_do_not_fit_are_refused_before_anything_is_loaded() {
    let small = SmallRun::new(1);
    let (regression, language_model) = (metric(&small, "regression"), tiny("qwen2"));
    let other = small.at("other");
    copy_folder(&regression, &other);
    let hparams = std::fs::read_to_string(other.join("hparams.yaml")).unwrap();
    std::fs::write(other.join("hparams.yaml"), hparams.replace("regression_metric", "ranking_metric"))
        .unwrap();
    for (method, model, words) in [
        ("comet", &regression, "which needs references, and none are given"),
        ("comet", &language_model, "is not a metric of the COMET family"),
        ("gemba-da", &regression, "is a metric and answers no question"),
        ("comet", &other, "`class_identifier` is `ranking_metric`, which is not supported"),
    ] {
        let (code, text) = score(&small, "none", model, &["--method", method]);
        assert!(code == 2 && text.contains(words), "{method}: {text}");
    }
    let mut ask = small.tribunal(&["ask", "Hallo", "--model"]);
    ask.arg(&regression);
    let (code, text) = said(ask);
    assert!(code == 2 && text.contains("hint: use it with `tribunal score --method comet`"), "{text}");
    let (code, text) = said(small.tribunal(&["models", "show", "Unbabel/XCOMET-XL"]));
    assert!(code == 0 && text.contains("CC BY-NC-SA 4.0"), "{text}");
}
