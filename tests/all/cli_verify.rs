//! `tribunal verify` and `rerun` on the real program and a tiny model: confirmed folders, and the message for
//! each change of a folder.

use std::fs;

use crate::fakes::{SmallRun, said};

/// A finished run of six verdicts.
fn finished() -> SmallRun {
    let small = SmallRun::scoring(1);
    let (code, text) = said(small.score("out", &[]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert_eq!(small.read("out/verdicts.jsonl").lines().count(), 6, "{text}");
    small
}

/// Changes a file of the run, verifies it, and takes the change back.
fn changed(small: &SmallRun, name: &str, from: &str, to: &str, args: &[&str]) -> (i32, String) {
    let before = small.read(name);
    assert!(before.contains(from), "{name} has no {from}: {before:.600}");
    fs::write(small.at(name), before.replacen(from, to, 1)).unwrap();
    let found = said(small.tribunal(&[&["verify", "out"], args].concat()));
    fs::write(small.at(name), before).unwrap();
    found
}

#[test]
fn a_run_is_confirmed_wherever_its_folder_is() {
    let small = finished();
    // Neither the input nor the prompts are needed any more.
    fs::remove_file(small.at("input.jsonl")).unwrap();
    fs::remove_dir_all(small.at("prompts")).unwrap();
    fs::rename(small.at("out"), small.at("moved")).unwrap();
    let before = small.read("moved/run.json");
    let (code, text) = said(small.tribunal(&["verify", "moved"]));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("derived again from recorded answers: 6 of 6"), "{text}");
    assert!(text.contains("every bit compared: 12 of 12") && text.contains("confirmed"), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "moved", "--without-model"]));
    assert!(code == 0 && text.contains("calls read: 12 of 12; no model was asked"), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "moved", "--without-model", "--json"]));
    assert!(code == 0 && text.contains("\"confirmed\": true"), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "moved", "--sample", "2", "--seed", "3"]));
    assert!(code == 0 && text.contains("answers: 2 of 6") && text.contains("compared: 4 of 12"), "{text}");
    assert_eq!(small.read("moved/run.json"), before);
}

#[test]
fn every_change_is_found_and_named() {
    let small = finished();
    let verdict =
        changed(&small, "out/verdicts.jsonl", "\"status\":\"ok\"", "\"status\":\"oh\"", &["--without-model"]);
    assert_eq!(verdict.0, 1);
    assert!(verdict.1.contains("verdicts.jsonl line 1: the verdict in the journal"), "{}", verdict.1);
    let journal =
        changed(&small, "out/journal.jsonl", "\"n_calls\":2", "\"n_calls\":3", &["--without-model"]);
    assert!(journal.0 == 1 && journal.1.contains("line 1 is damaged: its checksum"), "{}", journal.1);
    let prompt = changed(&small, "out/calls.jsonl", "Eins", "Zwei", &["--without-model"]);
    assert!(
        prompt.0 == 1 && prompt.1.contains("calls.jsonl line 1: the sha256 of the prompt"),
        "{}",
        prompt.1
    );
    let input = changed(&small, "out/input.jsonl", "Eins", "Zwei", &["--without-model"]);
    assert!(
        input.0 == 1 && input.1.contains("input.jsonl") && input.1.contains("it holds 6 segments"),
        "{}",
        input.1
    );
    let material =
        changed(&small, "out/materials/prompts/gemba_scales/sqm.j2", "Score", "Rate", &["--without-model"]);
    assert!(
        material.0 == 1 && material.1.contains("run.json: the signature's field `prompts`"),
        "{}",
        material.1
    );
    assert!(material.1.contains("the sha256 of the prompt file `gemba_scales/sqm.j2`"), "{}", material.1);
    let signature = changed(&small, "out/run.json", "\"seed\":\"0\"", "\"seed\":\"1\"", &["--without-model"]);
    assert!(signature.0 == 1 && signature.1.contains("the signature's field `seed`"), "{}", signature.1);
    let short = changed(&small, "out/run.json", "\"gemba-sqm|", "\"gemba-esa|", &["--without-model"]);
    assert!(short.0 == 1 && short.1.contains("run.json: the short signature"), "{}", short.1);
    assert!(short.1.starts_with("signature: gemba-sqm|qwen2|#"), "{}", short.1);
    for (changed_to, number) in [("\"format\":2,", 2), ("", 0)] {
        let format = changed(&small, "out/run.json", "\"format\":1,", changed_to, &["--without-model"]);
        let refusal = format!("a run folder in format {number}; this version of tribunal reads format 1");
        assert!(format.0 == 2 && format.1.contains(&refusal), "{}", format.1);
    }
    let summary = changed(&small, "out/summary.json", "\"units\": 6", "\"units\": 7", &["--without-model"]);
    assert!(summary.0 == 1 && summary.1.contains("summary.json: `units`"), "{}", summary.1);
    let rows = ["--without-model", "--format", "tsv"];
    let rows = changed(&small, "out/summary.json", "\"units\": 6", "\"units\": 7", &rows);
    assert!(rows.0 == 1 && rows.1.contains("place\twhat\tthere\there\nsummary.json"), "{}", rows.1);
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn options_that_are_gone_are_named() {
    let small = finished();
    for (method, reason) in [
        ("fsp:threshold=en-de.toml", "`fsp` has no option `threshold`"),
        ("gemba-mqm:form=json,threshold=en-de.toml", "`gemba-mqm` has no option `threshold`"),
        ("fsp:score=expected", "option `score` of `fsp` cannot be `expected`"),
        ("gemba-mqm:form=json,score=expected", "`score=expected` is the mean of the quality score"),
    ] {
        let (code, text) =
            changed(&small, "out/run.json", "gemba-sqm:score=expected", method, &["--without-model"]);
        assert!(code == 2 && text.contains(reason), "{method}: {text}");
    }
    let run = small.read("out/run.json");
    fs::write(small.at("out/run.json"), run.replacen("gemba-sqm:score=expected", "fsp:threshold=x", 1))
        .unwrap();
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "again"]));
    assert!(code == 2 && text.contains("`fsp` has no option `threshold`"), "{text}");
}

#[test]
fn a_changed_bit_of_a_log_probability_is_found_by_the_model() {
    let small = finished();
    let calls = small.read("out/calls.jsonl");
    let line = calls.lines().find(|line| !line.contains("\"scored\"")).unwrap();
    let of = line.split("\"logprobs\":[").nth(1).unwrap().split([',', ']']).next().unwrap();
    let value: f64 = of.parse().unwrap();
    let next = format!("{}", f64::from_bits(value.to_bits() + 1));
    let (code, text) = changed(&small, "out/calls.jsonl", of, &next, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("`tokens.logprobs.0` of the answer of `annotator` at `assess`"), "{text}");
    assert!(text.contains(of) && text.contains(&next), "both values: {text}");
}

#[test]
fn other_weights_are_named() {
    let small = finished();
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny/llama");
    let (code, text) = said(small.tribunal(&["verify", "out", "--model", other]));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("the signature's field `sha256`"), "{text}");
    assert!(text.contains("the sha256 of `model.safetensors` of the model `qwen2`"), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "nowhere"]));
    assert!(code == 2 && text.contains("has no `run.json`"), "{text}");
}

#[test]
fn a_run_is_made_again_from_its_folder_alone() {
    let small = finished();
    fs::remove_file(small.at("input.jsonl")).unwrap();
    fs::remove_dir_all(small.at("prompts")).unwrap();
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "again", "--jobs", "2"]));
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
    assert_eq!(small.read("again/verdicts.jsonl"), small.read("out/verdicts.jsonl"));
    let (code, text) = said(small.tribunal(&["verify", "again", "--without-model"]));
    assert_eq!(code, 0, "a repeated run can be verified in its turn: {text}");
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "out"]));
    assert!(code == 2 && text.contains("the folder of the run itself"), "{text}");
}

#[test]
fn without_answers_only_the_model_can_confirm() {
    let small = SmallRun::new(1);
    said(small.score("out", &["--calls", "off"]));
    assert!(!small.read("out/calls.jsonl").contains("Eins"), "no text is kept");
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert!(code == 2 && text.contains("`--calls off`"), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert!(code == 0 && text.contains("answers: 6 of 6"), "{text}");
}

#[test]
fn what_run_json_says_of_the_run() {
    let small = finished();
    let run: serde_json::Value = serde_json::from_str(&small.read("out/run.json")).unwrap();
    let model = &run["origin"]["models"][0];
    assert_eq!(model["sha256"].as_str().unwrap()[..8], *run["signature"]["sha256"].as_str().unwrap());
    let names: Vec<&str> =
        model["files"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]);
    assert_eq!(run["origin"]["prompts"][0]["name"], "gemba_scales/sqm.j2");
    assert_eq!(run["origin"]["materials"][0]["kept"], "materials/prompts");
    for hash in
        [&run["input"]["sha256"], &model["files"][1]["sha256"], &run["origin"]["prompts"][0]["sha256"]]
    {
        assert_eq!(hash.as_str().unwrap().len(), 64);
    }
    for place in ["/origin/build/version", "/origin/machine/host", "/origin/machine/platform", "/directory"] {
        assert!(!run.pointer(place).unwrap().as_str().unwrap().is_empty(), "{place}");
    }
}
