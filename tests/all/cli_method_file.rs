//! Methods in files on the real program and a tiny model: the examples from a dry run to a page, and folders
//! that are moved, changed or written anew.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::fakes::{SmallRun, copy_folder, said, tiny};

/// The four seeded layers of `gemma2` with a context for whole prompts.
fn model(small: &SmallRun) -> PathBuf {
    let folder = small.at("model");
    copy_folder(&tiny("gemma2"), &folder);
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    let short = "\"max_position_embeddings\": 512";
    assert!(config.contains(short));
    fs::write(folder.join("config.json"), config.replace(short, "\"max_position_embeddings\": 4096"))
        .unwrap();
    folder
}

/// Copies an example beside the input.
fn copied(small: &SmallRun, name: &str, to: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/methods").join(name);
    copy_folder(&from, &small.at(to));
}

/// Runs a command on a method, whose verdicts may be missing: random weights write anything.
fn score(small: &SmallRun, method: &str, out: &str, more: &[&str]) -> (i32, String) {
    let mut score = small.tribunal(&["score", "--input", "input.jsonl", "--method", method, "--out", out]);
    score.args(["--model", "model", "--kv-cache", "64MiB", "--max-tokens", "300"]).args(more);
    said(score)
}

#[test]
fn the_examples_judge_and_their_runs_hold_without_them() {
    let small = SmallRun::new(1);
    model(&small);
    for name in ["five-criteria", "m-prometheus", "mqm-checklist"] {
        copied(&small, name, name);
        let file = format!("./{name}/method.toml");
        let (code, text) = said(small.tribunal(&["methods", "show", &file, "--prompts"]));
        assert!(code == 0 && text.contains("=== method.toml ==="), "{text}");
        let (code, text) = score(&small, &file, &format!("{name}-plan"), &["--dry-run"]);
        assert!(code == 0 && text.contains('6'), "{text}");
        let (code, text) = score(&small, &file, &format!("{name}-run"), &[]);
        assert!(matches!(code, 0 | 1), "{text}");
        assert!(text.contains("scale: "), "{text}");
        // The folder is not needed any more.
        fs::remove_dir_all(small.at(name)).unwrap();
        small.holds(&format!("{name}-run"));
        let run = small.read(&format!("{name}-run/run.json"));
        assert!(
            run.contains(&format!("\"method\":\"{name}\""))
                || run.contains(&format!("\"method\": \"{name}\""))
        );
    }
}

#[test]
fn shards_pages_and_exports_of_a_method_in_a_file() {
    let small = SmallRun::new(1);
    model(&small);
    copied(&small, "mqm-checklist", "mine");
    let whole = score(&small, "./mine", "whole", &["--quiet"]);
    for shard in ["1/2", "2/2"] {
        let (code, text) = score(&small, "./mine", &shard.replace('/', "of"), &["--quiet", "--shard", shard]);
        assert!(matches!(code, 0 | 1), "{text}");
    }
    let (code, text) = said(small.tribunal(&["merge", "1of2", "2of2", "--out", "merged"]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert_eq!(small.read("merged/verdicts.jsonl"), small.read("whole/verdicts.jsonl"), "{}", whole.1);
    let (code, text) = said(small.tribunal(&["verify", "merged", "--without-model"]));
    assert_eq!(code, 0, "{text}");
    let (code, text) = said(small.tribunal(&["report", "whole", "merged", "--out", "page.html"]));
    assert!(code == 0 && small.at("page.html").exists(), "{text}");
    for format in ["csv", "parquet"] {
        let (code, text) = said(small.tribunal(&["export", "whole", "--as", format, "--out", format]));
        assert_eq!(code, 0, "{text}");
    }
    let (_, text) = score(&small, "./mine", "whole", &[]);
    assert!(text.contains("scale: negative penalty, -50 to 0, higher is better"), "{text}");
}

#[test]
fn a_changed_method_is_named_with_both_hashes() {
    let small = SmallRun::new(1);
    model(&small);
    copied(&small, "m-prometheus", "mine");
    score(&small, "./mine", "out", &["--quiet"]);
    let hash = |out: &str| small.run_json(out)["signature"]["prompts"].as_str().unwrap().to_owned();
    // A copy that was changed.
    let copy = "out/materials/method/absolute.j2";
    let before = small.read(copy);
    fs::write(small.at(copy), before.replace("Score 1:", "Score one:")).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert!(code == 1 && text.contains("the signature's field `prompts`"), "{text}");
    assert!(text.contains("the sha256 of what `--method` names"), "{text}");
    assert!(text.contains("the sha256 of the prompt file `absolute.j2`"), "{text}");
    fs::write(small.at(copy), before).unwrap();
    // The method itself, and the run continued with it.
    let method = small.read("mine/method.toml");
    fs::write(small.at("mine/method.toml"), method.replace("highest = 5", "highest = 6")).unwrap();
    let (code, text) = score(&small, "./mine", "out", &["--quiet"]);
    assert!(code == 2 && text.contains("prompts: `") && text.contains(&hash("out")), "{text}");
    score(&small, "./mine", "other", &["--quiet"]);
    assert_ne!(hash("out"), hash("other"));
    assert!(text.contains(&hash("other")), "{text}");
    small.holds("out");
}

#[test]
fn a_form_that_cannot_be_enforced_is_refused_before_a_model_is_loaded() {
    let small = SmallRun::new(1);
    copied(&small, "five-criteria", "mine");
    let schema = small.read("mine/answer.json").replace("\"maxLength\": 200", "\"maxLength\": \"two\"");
    fs::write(small.at("mine/answer.json"), schema).unwrap();
    // There is no such model.
    let (code, text) = score(&small, "./mine", "out", &["--quiet"]);
    assert!(code == 2 && text.contains("`./mine`: the form cannot be compiled"), "{text}");
    let (code, text) = said(small.tribunal(&["methods", "show", "./mine"]));
    assert!(code == 2 && text.contains("`./mine`: the form cannot be compiled"), "{text}");
    assert!(!small.at("out").exists());
    fs::write(small.at("mine/question.j2"), "{{ source }}\n{% if reference %}{{ tarqet }}{% endif %}")
        .unwrap();
    let (code, text) = score(&small, "./mine", "out", &["--quiet"]);
    assert!(code == 2 && text.contains("`./mine/question.j2` line 2: unknown variable `tarqet`"), "{text}");
}

#[test]
fn a_new_folder_works_at_once() {
    let small = SmallRun::new(1);
    model(&small);
    let (code, text) = said(small.tribunal(&["methods", "new", "My Rubric"]));
    assert!(code == 0 && text.trim() == "My Rubric/method.toml", "{text}");
    let (code, text) = said(small.tribunal(&["methods", "show", "./My Rubric"]));
    assert!(code == 0 && text.starts_with("my-rubric: five criteria"), "{text}");
    let (code, text) = score(&small, "./My Rubric", "out", &["--quiet", "--limit", "1"]);
    assert!(matches!(code, 0 | 1), "{text}");
    let file = small.read("My Rubric/method.toml");
    assert!(file.contains("--method ./My Rubric ...") && file.contains("name = \"my-rubric\""), "{file}");
    assert!(!file.contains("five-criteria"), "{file}");
    let long = "a".repeat(80);
    for (folder, reason) in [
        ("My Rubric", "exists already"),
        (&*long, "a name consists of 1 to 64 lower-case letters"),
        ("Größe", "a method cannot be called `größe`: a name consists of"),
        ("GEMBA_MQM", "`gemba-mqm` is a built-in method"),
        ("mine.toml", "is that of a method's file"),
    ] {
        let (code, text) = said(small.tribunal(&["methods", "new", folder]));
        assert!(code == 2 && text.contains(reason), "{text}");
        assert!(text.contains("hint: choose another folder name"), "{text}");
        assert!(folder == "My Rubric" || !small.at(folder).exists(), "{folder}");
    }
}
