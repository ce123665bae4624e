//! `tribunal rerun` on the real program and tiny models: the new folder describes the repeated run, so that
//! it can be verified and repeated in its turn.

use std::fs;

use crate::{
    fakes::{SmallRun, copy_folder, said, tiny},
    probe,
};

fn finished(more: &[&str]) -> SmallRun {
    let small = SmallRun::scoring(1);
    let (code, text) = said(small.score("out", more));
    assert!(matches!(code, 0 | 1), "{text}");
    small
}

fn words(small: &SmallRun, out: &str) -> String {
    let run = small.run_json(out);
    run["command"].as_array().unwrap().iter().map(|word| format!("{} ", word.as_str().unwrap())).collect()
}

#[test]
fn another_model_is_the_new_run_s_own() {
    let small = finished(&[]);
    let llama = tiny("llama").display().to_string();
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "again", "--model", &llama]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert!(!text.contains("tribunal verify out` says why"), "the models differ: {text}");
    assert!(
        code == 0 || text.contains("the signatures differ:\n  ") && text.contains("model: `qwen2`"),
        "{text}"
    );
    let run = small.run_json("again");
    assert_eq!(run["origin"]["models"][0]["given"], llama.as_str());
    assert_eq!(run["signature"]["model"], "llama");
    let command = words(&small, "again");
    assert!(command.contains(&format!("--model {llama} ")) && !command.contains("tiny/qwen2"), "{command}");
    small.holds("again");
    // The first run is as it was.
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn models_are_found_where_the_commands_were_given() {
    let small = SmallRun::scoring(1);
    for name in ["qwen2", "llama"] {
        copy_folder(&tiny(name), &small.at("judges").join(name));
    }
    let mut score = small.tribunal(&["score", "--input", "input.jsonl", "--out", "out", "--quiet"]);
    score.args(["--method", "gemba-sqm:score=expected", "--prompts", "prompts", "--max-tokens", "24"]);
    let (code, text) = said({
        score.args(["--kv-cache", "8MiB", "--model", "judges/qwen2"]);
        score
    });
    assert!(matches!(code, 0 | 1), "{text}");
    fs::create_dir(small.at("elsewhere")).unwrap();
    let elsewhere = |args: &[&str]| {
        let mut command = small.tribunal(args);
        command.current_dir(small.at("elsewhere"));
        said(command)
    };
    // Nothing is chosen: the model is that of the first command's folder.
    let (code, text) = elsewhere(&["rerun", "../out", "--out", "same"]);
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
    let (code, text) = elsewhere(&["rerun", "../out", "--out", "other", "--model", "../judges/llama"]);
    assert!(matches!(code, 0 | 1), "{text}");
    for out in ["elsewhere/same", "elsewhere/other"] {
        small.holds(out);
    }
    assert_eq!(small.run_json("elsewhere/other")["signature"]["model"], "llama");
}

#[test]
fn models_of_roles_are_kept_and_replaced_one_by_one() {
    let [llama, qwen3] = ["llama", "qwen3"].map(|name| tiny(name).display().to_string());
    let small = finished(&["--role", &format!("annotator={llama}")]);
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "same"]));
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
    small.holds("same");
    let other = format!("annotator={qwen3}");
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "other", "--role", &other]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert_eq!(small.run_json("other")["signature"]["annotator.model"], "qwen3");
    small.holds("other");
}

#[test]
fn what_was_chosen_stands_in_the_command() {
    let small = finished(&["--jobs", "3"]);
    let again = [
        "rerun",
        "out",
        "--out",
        "again",
        "--jobs",
        "2",
        "--batch",
        "8",
        "--threads",
        "1",
        "--kv-cache",
        "16MiB",
    ];
    let (code, text) = said(small.tribunal(&again));
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
    let command = words(&small, "again");
    let out = format!("--out {}", small.at("again").display());
    for word in [&out, "--jobs 2", "--batch 8", "--threads 1", "--kv-cache 16777216"] {
        assert!(command.contains(&format!("{word} ")), "{word}: {command}");
    }
    assert!(!command.contains("--jobs 3") && !command.contains("--out out"), "{command}");
    assert_eq!(small.run_json("again")["origin"]["materials"], small.run_json("out")["origin"]["materials"]);
    small.holds("again");
}

#[test]
fn a_shard_is_repeated_as_one() {
    let small = SmallRun::scoring(2);
    let (code, text) = said(small.score("first", &["--shard", "1/2"]));
    assert!(matches!(code, 0 | 1), "{text}");
    let (code, text) = said(small.tribunal(&["rerun", "first", "--out", "again"]));
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
    assert!(words(&small, "again").contains("--shard 1/2 "));
    small.holds("again");
}

#[test]
fn a_fit_goes_with_the_run_that_it_was_given_to() {
    let small = SmallRun::new(2);
    probe::rated(&small);
    let (code, text) = probe::fit(&small, "fit.json", &[]);
    assert_eq!(code, 0, "{text}");
    let mut score = small.tribunal(&["score", "--input", "input.jsonl", "--out", "out", "--quiet"]);
    score.args(["--method", "probe:fit=fit.json", "--kv-cache", "8MiB", "--model"]).arg(tiny("qwen2"));
    let (code, text) = said(score);
    assert_eq!(code, 0, "{text}");
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "again"]));
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
    // Neither the fit nor the first run is needed any more.
    fs::remove_file(small.at("fit.json")).unwrap();
    fs::remove_dir_all(small.at("out")).unwrap();
    small.holds("again");
    // A fit that the command names is for its own model.
    let llama = tiny("llama").display().to_string();
    let (code, text) = said(small.tribunal(&["rerun", "again", "--out", "other", "--model", &llama]));
    assert!(code == 2 && text.contains("only with the model that it was fitted on, `qwen2`"), "{text}");
}
