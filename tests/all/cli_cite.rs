//! `tribunal cite` on a run of the real program and a tiny model: the paragraph, the BibTeX entries, the
//! checklist, and what is said of facts that the folder does not record.

use std::fs;

use serde_json::{Value, json};
use tribunal::{run::RunFile, signature::SHORT};

use crate::fakes::{SmallRun, said};

fn finished() -> SmallRun {
    let small = SmallRun::scoring(1);
    let (code, text) = said(small.score("out", &[]));
    assert!(matches!(code, 0 | 1), "{text}");
    small
}

fn cited(small: &SmallRun, args: &[&str]) -> String {
    let (code, text) = said(small.tribunal(&[&["cite"], args].concat()));
    assert_eq!(code, 0, "{text}");
    text
}

/// Writes `run.json` with a change.
fn change(small: &SmallRun, edit: impl FnOnce(&mut Value)) {
    let mut run = small.run_json("out");
    edit(&mut run);
    fs::write(small.at("out/run.json"), run.to_string()).unwrap();
}

#[test]
fn a_run_is_cited_from_its_folder() {
    let small = finished();
    let run = RunFile::read(&small.at("out")).unwrap();
    let text = cited(&small, &["out"]);
    let short = run.signature.short();
    assert!(short.chars().count() <= SHORT && short.starts_with("gemba-sqm|qwen2|#"), "{short}");
    let hash = &run.origin.models[0].sha256;
    for fact in [
        "judged by the method `gemba-sqm` (Kocmi and Federmann 2023) with the preset `strict`",
        "score=expected",
        "The file of `--prompts` has the SHA-256 ",
        &format!("The model is `qwen2` (SHA-256 {hash:.12}); weights are in f32, activations in q8"),
        "Answers were decoded at temperature 0 with seed 0, at most 24 tokens an answer, constrained by a grammar.",
        &format!(
            "The input has 6 translations by 2 systems, {} (en-de; SHA-256 {:.12}).",
            run.systems.join(", "),
            run.input.sha256
        ),
        "Of 6 translated segments, ",
        "It ran on a CPU (",
        "12 model calls (",
        &format!("the run has the short signature `{short}`."),
        "@inproceedings{kocmi-federmann-2023-large,\n    title = {Large Language Models Are",
        "@misc{qwen2,\n",
        &format!("note = {{SHA-256 of the weights {hash}}},"),
        "@misc{tribunal,\n",
        &format!("note = {{Version {}}},", env!("CARGO_PKG_VERSION")),
        "For the ACL Responsible NLP checklist, out:",
        "\\cite{kocmi-federmann-2023-large,qwen2,tribunal}",
        "tribunal: MIT OR Apache-2.0; qwen2: not recorded; test set: not recorded",
        &run.signature.to_string(),
    ] {
        assert!(text.contains(fact), "{fact}\n\n{text}");
    }
    // It is printed with the signature, once.
    let (_, shown) = said(small.tribunal(&["show", "out"]));
    assert_eq!(shown.matches(&format!("\nshort: {short}\n")).count(), 1, "{shown}");
}

#[test]
fn entries_are_there_once_and_programs_read_json() {
    let small = finished();
    let again = said(small.score("again", &["--seed", "7"]));
    assert!(matches!(again.0, 0 | 1), "{}", again.1);
    let text = cited(&small, &["out", "again"]);
    assert_eq!(text.matches("\n@").count(), 3, "{text}");
    let json: Value = serde_json::from_str(&cited(&small, &["out", "again", "--format", "json"])).unwrap();
    let runs = json.as_array().unwrap();
    assert_ne!(runs[0]["short_signature"], runs[1]["short_signature"]);
    for (run, seed) in runs.iter().zip(["0", "7"]) {
        let paragraph = run["paragraph"].as_str().unwrap();
        assert!(paragraph.contains(run["short_signature"].as_str().unwrap()), "{paragraph}");
        let runs = run["checklist"]["C3 runs"].as_str().unwrap();
        assert!(runs.starts_with(&format!("one run, seed {seed},")), "{runs}");
        assert!(run["bibtex"]["tribunal"].as_str().unwrap().starts_with("@misc{tribunal,"), "{run}");
    }
}

#[test]
fn what_is_not_recorded_is_not_made_up() {
    let small = finished();
    let set = [
        "tribunal",
        "score",
        "--testset",
        "/data/WMT24",
        "-l",
        "en-de",
        "--method",
        "gemba-sqm",
        "--model",
        "m",
    ];
    change(&small, |run| run["command"] = json!(set));
    let text = cited(&small, &["out"]);
    assert!(text.contains("The input of WMT24 (Freitag et al. 2024; Kocmi et al. 2024) has 6"), "{text}");
    assert!(text.contains("@inproceedings{freitag-etal-2024-llms,"), "{text}");
    for (limit, how) in [("2", " (the first 2 segments of each system)"), ("1", "")] {
        change(&small, |run| {
            run["command"] = json!([&set[..], &["--limit", limit, "-r", "refA"]].concat());
            run["input"]["selected"] = json!(4);
        });
        let selected = format!("), of which 4 were selected{how}, with the reference refA. ");
        let text = cited(&small, &["out"]);
        assert!(text.contains(&selected), "{selected}: {text}");
    }
    change(&small, |run| {
        run["command"] = json!(["tribunal", "score", "--testset", "/data/mine", "-l", "en-de"]);
        run["input"].as_object_mut().unwrap().remove("selected");
        run["origin"]["models"] = json!([]);
        run["origin"]["machine"].as_object_mut().unwrap().remove("processor");
        run["signature"].as_object_mut().unwrap().remove("seed");
    });
    fs::remove_file(small.at("out/summary.json")).unwrap();
    let text = cited(&small, &["out"]);
    for said in [
        "The model is called `qwen2`; its files are not recorded.",
        "with seed not recorded",
        "The input has 6",
        "The run is not finished, so its coverage is not known.",
        "a CPU (processor not recorded, ",
        "Computing time: not recorded.",
    ] {
        assert!(text.contains(said), "{said}\n\n{text}");
    }
    assert!(!text.contains("freitag") && !text.contains("@misc{qwen2"), "{text}");
    let (code, text) = said(small.tribunal(&["cite", "nowhere"]));
    assert!(code == 2 && text.contains("nowhere"), "{text}");
}

#[test]
fn the_citation_file_names_this_version_and_its_licences() {
    let file = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/CITATION.cff")).unwrap();
    assert!(file.contains(&format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"))), "{file}");
    for licence in env!("CARGO_PKG_LICENSE").split(" OR ") {
        assert!(file.contains(&format!("\n  - {licence}\n")), "{licence}");
    }
}
