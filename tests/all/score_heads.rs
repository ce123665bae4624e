//! `remedy`, `reward` and `ask` with seeded models that have a score head, from files to verdicts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    fakes::{SmallRun, said, write_bos, write_with_head},
    meta_cli,
};

/// A seeded Gemma 2 of four layers with a score head, whose tokenizer and template both write `<bos>`.
fn model(small: &SmallRun) -> PathBuf {
    let folder = small.at("remedy");
    write_with_head(&folder, "gemma2", |_, _| {});
    write_bos(&folder);
    folder
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/en-de").join(name).display().to_string()
}

/// Scores the example's two systems; the second one is `remedy`'s reference.
fn score(small: &SmallRun, out: &str, model: &Path, more: &[&str]) -> (i32, String) {
    let [source, a, b] = ["source.txt", "system-a.txt", "system-b.txt"].map(example);
    let mut command = small.tribunal(&["score", "-s", &source, "-t", &a, &b, "-l", "en-de"]);
    if more.iter().any(|option| option.starts_with("remedy")) {
        command.args(["-r", &b]);
    }
    command.args(["--out", out, "--kv-cache", "8MiB", "--model"]).arg(model).args(more);
    said(command)
}

fn json(small: &SmallRun, file: &str) -> Value {
    serde_json::from_str(&small.read(file)).unwrap()
}

#[test]
fn remedy_judges_the_example_and_is_verified() {
    let small = SmallRun::new(1);
    let model = model(&small);
    let (code, text) = score(&small, "out", &model, &["--method", "remedy"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("logistic function of the score head's output, 0 to 1"), "{text}");
    let lines: Vec<Value> =
        small.read("out/verdicts.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 16);
    for line in &lines {
        let (raw, score) = (line["raw"].as_f64().unwrap(), line["score"].as_f64().unwrap());
        assert!((score - 1.0 / (1.0 + (-raw).exp())).abs() < 1e-12, "{line}");
    }
    // Source and reference of the two systems are computed once.
    let usage = &json(&small, "out/summary.json")["cost"]["usage"];
    let tokens = |name: &str| usage[name].as_f64().unwrap_or_else(|| panic!("{usage}"));
    let ratio = tokens("computed") / tokens("distinct");
    assert!(ratio <= 1.02, "{ratio}: {usage}");
    assert!(tokens("cached") > tokens("computed"), "{usage}");
    let more = ["--method", "remedy", "--jobs", "1", "--no-prefix-cache", "--threads", "1"];
    let (code, text) = score(&small, "one", &model, &more);
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("out/verdicts.jsonl"), small.read("one/verdicts.jsonl"));
    for more in [&["--without-model"][..], &[]] {
        let (code, text) = said(small.tribunal(&[&["verify", "out"], more].concat()));
        assert!(code == 0 && text.contains("confirmed"), "{text}");
    }
    let (code, text) = score(&small, "plan", &model, &["--method", "remedy:score=raw", "--dry-run"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_question_to_a_score_head_prints_its_outputs() {
    let small = SmallRun::new(1);
    let model = model(&small);
    let ask = |more: &[&str]| {
        let mut command = small.tribunal(&["ask", "Guten Morgen!", "--kv-cache", "8MiB", "--model"]);
        command.arg(&model).args(more);
        said(command)
    };
    let (code, text) = ask(&["--json"]);
    assert_eq!(code, 0, "{text}");
    let printed: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let scores = printed["scores"].as_array().unwrap();
    assert_eq!(scores.len(), 1);
    let (_, plain) = ask(&[]);
    assert_eq!(plain.lines().next().unwrap().parse::<f64>().ok(), scores[0].as_f64());
    std::fs::write(small.at("answer.txt"), "yes").unwrap();
    for (option, value) in [("--continuation", "answer.txt"), ("--form", "choice=answer.txt")] {
        let (code, text) = ask(&[option, value]);
        assert!(code == 2 && text.contains("has a score head and answers no question"), "{text}");
        assert!(text.contains(&format!("without `{option}`, its scores are printed")), "{text}");
    }
}

#[test]
fn a_model_with_another_head_is_refused_before_it_is_loaded() {
    let small = SmallRun::new(1);
    let model = model(&small);
    let language_model = crate::fakes::tiny("qwen2");
    let several = small.at("several");
    write_with_head(&several, "qwen2", |_, _| {});
    for (method, model, words) in [
        ("remedy", &language_model, "which is a language model without a score head"),
        ("reward", &language_model, "hint: a reward model"),
        ("gemba-da", &model, "which has a score head and answers no question"),
        ("gemba-da", &model, "hint: the methods `remedy` and `reward` read score heads"),
        ("remedy", &several, "has a score head of 3 outputs"),
        ("reward", &several, "hint: choose one of its outputs, as in `reward:output=1`"),
        ("reward:output=4", &several, "hint: its outputs are 1 to 3"),
    ] {
        let (code, text) = score(&small, "none", model, &["--method", method]);
        assert!(code == 2 && text.contains(words), "{method}: {text}");
    }
    let (code, text) = score(&small, "second", &several, &["--method", "reward:output=2"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn the_temperature_of_a_score_heads_outputs() {
    const TEXTS: [&str; 2] = ["eins", "zwei Worte"];
    let dir = meta_cli::testset();
    let run = |logistic: &dyn Fn(f64) -> f64| {
        let verdict = |(system, seg, output): (&str, usize, f64)| {
            serde_json::json!({
                "system": system, "doc": "d1", "seg": seg, "src_lang": "en", "tgt_lang": "de",
                "hypothesis": TEXTS[seg], "score": logistic(output), "raw": output, "errors": [], "status": "ok",
            })
            .to_string()
        };
        let outputs =
            [("A", 0, 5.5), ("A", 1, 6.5), ("B", 0, 4.5), ("B", 1, 5.5), ("C", 0, 5.5), ("C", 1, 5.5)];
        meta_cli::write(&dir.path().join("run/verdicts.jsonl"), &outputs.map(verdict).join("\n"));
        let scores = format!("--scores=remedy={}", dir.path().join("run").display());
        meta_cli::meta(
            dir.path(),
            &["-l", "en-de", "--metrics", "none", &scores, "--also=temperature", "--json"],
        )
    };
    let json: Value = serde_json::from_str(&run(&|x: f64| 1.0 / (1.0 + (-x).exp())).unwrap()).unwrap();
    let found = &json["more"]["temperature"][0]["found"]["Ok"];
    // All are above 4, so 1.4 to 1.9 are tried. The first at which not all fall into one bin is 1.6.
    let temperature = found["temperature"].as_f64().unwrap();
    assert!((temperature - 1.6).abs() < 1e-12, "{found}");
    assert_eq!((&found["all"]["output"], &found["systems"]["B"]["output"]), (&5.5.into(), &5.0.into()));
    let calibrated = |output: f64| 1.0 / (1.0 + (-output / temperature).exp());
    let mean = f64::midpoint(calibrated(4.5), calibrated(5.5));
    assert!((found["systems"]["B"]["calibrated"].as_f64().unwrap() - mean).abs() < 1e-12, "{found}");
    let refused = run(&|x| x).unwrap_err();
    assert!(refused.contains("are not the logistic function of a score head's output"), "{refused}");
}
