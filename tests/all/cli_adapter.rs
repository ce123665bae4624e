//! `--adapter` on the real program and a tiny model: its effect, its records, and rejected adapters.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tribunal::segment::trained::hashes;

use crate::fakes::{SmallRun, said};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/adapters").join(name)
}

/// A run's folder with copies of adapters in it.
fn with_adapters(names: &[&str]) -> SmallRun {
    let small = SmallRun::scoring(1);
    for name in names {
        fs::create_dir(small.at(name)).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            fs::copy(folder(name).join(file), small.at(name).join(file)).unwrap();
        }
    }
    small
}

#[test]
fn an_adapter_is_signed_recorded_and_verified() {
    let small = with_adapters(&["qwen2-all"]);
    let (code, text) = said(small.score("out", &["--adapter", "qwen2-all"]));
    assert!(matches!(code, 0 | 1), "{text}");
    let (code, text) = said(small.score("plain", &[]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert_ne!(small.read("out/verdicts.jsonl"), small.read("plain/verdicts.jsonl"), "it moves scores");

    let run: serde_json::Value = serde_json::from_str(&small.read("out/run.json")).unwrap();
    let adapter = &run["origin"]["models"][0]["adapter"];
    assert_eq!((adapter["given"].as_str(), adapter["name"].as_str()), (Some("qwen2-all"), Some("qwen2-all")));
    let files: Vec<&str> =
        adapter["files"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(files, ["adapter_config.json", "adapter_model.safetensors"]);
    let sha256 = adapter["sha256"].as_str().unwrap();
    let signature = run["signature"].to_string();
    assert!(signature.contains("\"adapter\":\"qwen2-all\""), "{signature}");
    assert!(signature.contains(&format!("\"adapter_sha256\":\"{}\"", &sha256[..8])), "{signature}");
    let plain: serde_json::Value = serde_json::from_str(&small.read("plain/run.json")).unwrap();
    assert!(plain["origin"]["models"][0].get("adapter").is_none(), "nothing is said where there is none");
    assert!(!plain["signature"].to_string().contains("adapter"));

    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert!(code == 0 && text.contains("confirmed"), "{text}");
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "again"]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert_eq!(small.read("out/verdicts.jsonl"), small.read("again/verdicts.jsonl"));

    // Any byte of its numbers: the lowest bit of the last one.
    let file = small.at("qwen2-all/adapter_model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() - 4;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("the signature's field `adapter_sha256`"), "{text}");
    assert!(
        text.contains("the sha256 of `adapter_model.safetensors` of the adapter `qwen2-all`")
            && !text.contains("the sha256 of `adapter_config.json`"),
        "{text}"
    );
}

#[test]
fn a_moved_adapter_can_be_named() {
    let small = with_adapters(&["qwen2-all"]);
    let (code, text) = said(small.score("out", &["--adapter", "qwen2-all"]));
    assert!(matches!(code, 0 | 1), "{text}");
    fs::create_dir(small.at("elsewhere")).unwrap();
    fs::rename(small.at("qwen2-all"), small.at("elsewhere/qwen2-all")).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert!(code == 2 && text.contains("`qwen2-all`: no such folder"), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "out", "--adapter", "elsewhere/qwen2-all"]));
    assert!(code == 0 && text.contains("confirmed"), "{text}");
}

#[test]
fn what_is_no_adapter_of_the_model_is_refused_with_what_to_do() {
    let small = with_adapters(&["qwen2-all", "gemma3-mlp"]);
    let (code, text) = said(small.score("out", &["--adapter", "gemma3-mlp"]));
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("`gemma3-mlp`: the adapter is one for another model: it has weights for layer 3"),
        "{text}"
    );
    assert!(text.contains("hint: it was trained on `models/tiny/gemma3`"), "{text}");
    let (code, text) = said(small.score("out", &["--adapter", "prompts"]));
    assert!(
        code == 2 && text.contains("`prompts` is not an adapter: it has no `adapter_config.json`"),
        "{text}"
    );
    let (code, text) = said(small.score("out", &["--adapter", "nowhere"]));
    assert!(code == 2 && text.contains("`nowhere`: no such folder"), "{text}");
    let (code, text) = said(small.tribunal(&["ask", "--model", "qwen2-all", "Hello"]));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("`qwen2-all` is an adapter, not a model"), "{text}");
    assert!(
        text.contains("hint: `--model BASE --adapter qwen2-all`, which was trained on `models/tiny/qwen2`"),
        "{text}"
    );
    assert!(!small.at("out").join("run.json").exists());
}

#[test]
fn a_role_takes_another_adapter_of_the_same_model() {
    let small = with_adapters(&["qwen2-all", "qwen2-qv"]);
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny/qwen2");
    let ask = |adapter: &[&str]| {
        let mut command =
            small.tribunal(&["ask", "--format", "json", "--model", model, "--kv-cache", "8MiB"]);
        command.args(["--max-tokens", "8", "--context", "128"]).args(adapter).arg("Is it closed?");
        let (code, text) = said(command);
        assert!(matches!(code, 0 | 1), "{text}");
        text
    };
    let answers = [ask(&[]), ask(&["--adapter", "qwen2-all"]), ask(&["--adapter", "qwen2-qv"])];
    assert!(answers[1].contains("\"qwen2+qwen2-all\""), "{}", answers[1]);
    assert!(answers[0] != answers[1] && answers[1] != answers[2], "{answers:?}");
    let models = format!("annotator={model}+qwen2-qv");
    let (code, text) = said(small.score("out", &["--adapter", "qwen2-all", "--role", &models]));
    assert!(matches!(code, 0 | 1), "{text}");
    let run = small.read("out/run.json");
    assert!(run.contains("\"annotator.adapter\":\"qwen2-qv\""), "{run}");
    let (code, text) = said(small.score("alone", &["--adapter", "qwen2-qv"]));
    assert!(matches!(code, 0 | 1), "{text}");
    let scores = |name: &str| {
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["score"].clone();
        small.read(name).lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(scores("out/verdicts.jsonl"), scores("alone/verdicts.jsonl"));
}

#[test]
fn an_adapter_is_shown() {
    let small = with_adapters(&["mistral-rslora"]);
    fs::write(
        small.at("mistral-rslora/training.json"),
        r#"{"data": "WMT23 en-de, 20 documents", "seed": 3}"#,
    )
    .unwrap();
    let (code, text) = said(small.tribunal(&["models", "show", "mistral-rslora"]));
    assert_eq!(code, 0, "{text}");
    let hashes = regex::Regex::new("(sha256 |fingerprint  )[0-9a-f]+").unwrap();
    insta::assert_snapshot!(hashes.replace_all(&text, "${1}HASH"), @r"
    folder       mistral-rslora
    format       LoRA adapter
    size         2.88 KiB
    base         models/tiny/mistral
    rank         3 (alpha 4, scale 2.3094010767585034, rank-stabilized)
    modules      q_proj, k_proj, v_proj, o_proj
    layers       1
    weights      960 of bf16
    file         adapter_config.json  sha256 HASH
    file         adapter_model.safetensors  sha256 HASH
    fingerprint  HASH
    data         WMT23 en-de, 20 documents
    seed         3
    ");
}

/// The first line of a command's output about training data.
fn warning(text: &str) -> Option<&str> {
    text.lines().find(|line| line.contains("was trained on"))
}

#[test]
fn a_run_on_what_its_adapter_was_trained_on_says_so_and_so_does_meta() {
    let small = with_adapters(&["qwen2-all"]);
    let list = small.at("qwen2-all/trained.sha256");
    fs::write(&list, trained(&["One 0", "ONE\u{a0}2", "another text"])).unwrap();
    // Three segments of two systems; a warning is printed even with `--quiet`.
    let (_, text) = said(small.score("out", &["--adapter", "qwen2-all"]));
    let told = "the adapter `qwen2-all` was trained on the sources of 4 of these 6 segments: scores there say nothing \
                about how good it is";
    assert_eq!(warning(&text), Some(format!("warning: {told}").as_str()), "{text}");
    let model = small.model.display();
    let (_, text) = said(small.score("role", &["--role", &format!("annotator={model}+qwen2-all")]));
    assert!(warning(&text).is_some(), "an adapter of a role counts too: {text}");

    fs::remove_dir_all(small.at("qwen2-all")).unwrap();
    let testset = rated(&small);
    let meta = |more: &[&str]| {
        let args =
            ["meta", "--testset", &testset, "-l", "en-de", "--metrics", "none", "--scores", "mine=out"];
        let mut command = small.tribunal(&args);
        command.args(["--stat", "seg:pearson"]).args(more);
        said(command)
    };
    let (code, text) = meta(&[]);
    assert_eq!((code, warning(&text)), (0, Some(format!("warning: mine: {told}").as_str())), "{text}");
    let (_, text) = meta(&["--format", "json"]);
    assert!(text.contains(&format!("\"mine: {told}\"")), "{text}");
    let (_, text) = meta(&["--format", "tsv"]);
    assert!(warning(&text).is_some(), "{text}");
}

/// A list of what an adapter was trained on.
fn trained(sources: &[&str]) -> String {
    sources.iter().flat_map(|source| hashes(source)).map(|hash| hash + "\n").collect()
}

/// The recipe of docs/tuning.md: what is held out was not trained on, whatever else the input holds.
#[test]
fn only_what_is_judged_is_counted() {
    let small = with_adapters(&["qwen2-all"]);
    small.write_input("input.jsonl", &["a", "b"], 2);
    fs::write(small.at("qwen2-all/trained.sha256"), trained(&["One 0", "One 1", "One 2"])).unwrap();
    let n_of = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    let input = small.read("input.jsonl");
    let held_out: Vec<String> =
        input.lines().map(|line| n_of(line)["doc"].as_str().unwrap().to_owned()).collect();
    fs::write(small.at("held_out.txt"), held_out.last().unwrap()).unwrap();
    let chosen = ["--adapter", "qwen2-all", "--documents", "held_out.txt"];
    let (code, text) = said(small.score("out", &chosen));
    assert!(matches!(code, 0 | 1) && warning(&text).is_none(), "{text}");
    assert!(n_of(&small.read("out/run.json")).get("trained_on").is_none());
    let (_, text) = said(small.score("first", &["--adapter", "qwen2-all", "--limit", "1"]));
    assert!(warning(&text).is_some_and(|told| told.contains("of 2 of these 2 segments")), "{text}");
}

/// Every command that sets a run beside human scores warns.
#[test]
fn every_command_with_human_scores_warns() {
    let small = with_adapters(&["qwen2-all"]);
    fs::write(small.at("qwen2-all/trained.sha256"), trained(&["One 0", "One 2"])).unwrap();
    let (_, text) = said(small.score("out", &["--adapter", "qwen2-all"]));
    assert!(warning(&text).is_some(), "{text}");
    let testset = rated(&small);
    let warns = |args: &[&str]| {
        let (code, text) = said(small.tribunal(args));
        assert!(matches!(code, 0 | 1), "{args:?}: {text}");
        assert!(warning(&text).is_some(), "{args:?}: {text}");
    };
    let meta = ["meta", "--testset", &testset, "-l", "en-de", "--lexical", "chrf", "--stat", "seg:pearson"];
    let rating = "a\t{\"errors\": []}\nb\t{\"errors\": []}\n".repeat(3);
    fs::write(small.at("testset/human-scores/en-de.mqm.r.seg.rating"), rating).unwrap();
    warns(
        &[&meta[..], &["--metrics", "none", "--scores", "mine=out", "--also", "spans,latent-weight"]]
            .concat(),
    );
    fs::copy(small.at("out/run.json"), small.at("run.json")).unwrap();
    fs::create_dir(small.at("two")).unwrap();
    for file in ["run.json", "verdicts.jsonl"] {
        fs::copy(small.at("out").join(file), small.at("two").join(file)).unwrap();
    }
    warns(&["compare", "out", "two", "--testset", &testset, "-l", "en-de"]);
    warns(&["report", "out", "--testset", &testset, "--out", "page.html"]);
    let scores = small.at("testset/metric-scores").display().to_string();
    warns(&["export", "out", "--as", "mtme", "--out", &scores, "--name", "mine", "--testset", &testset]);
    let beside = small.at("testset/metric-scores/en-de/mine-src.trained-on.json");
    assert!(fs::read_to_string(&beside).unwrap().contains("\"segments\":4"));
    warns(&meta);
    let pattern = format!("brought={scores}/{{lp}}/mine-src.{{level}}.score");
    warns(&[&meta[..], &["--metrics", "none", "--scores", &pattern]].concat());
    // Without a human score there is nothing to warn about.
    let (_, text) = said(small.tribunal(&["compare", "out", "two"]));
    assert_eq!(warning(&text), None, "{text}");
}

#[test]
fn a_run_on_other_texts_says_nothing_and_a_broken_list_is_told() {
    let small = with_adapters(&["qwen2-all"]);
    let list = small.at("qwen2-all/trained.sha256");
    fs::write(&list, hashes("another text").into_iter().collect::<String>()).unwrap();
    let (_, text) = said(small.score("out", &["--adapter", "qwen2-all"]));
    assert_eq!(warning(&text), None);
    fs::write(&list, "en-de/doc1\n").unwrap();
    let (code, text) = said(small.score("bad", &["--adapter", "qwen2-all"]));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("`qwen2-all/trained.sha256` line 1 is not a sha256"), "{text}");
}

/// A folder of human scores for the segments of a small run.
fn rated(small: &SmallRun) -> String {
    let write = |name: &str, text: &str| {
        let path = small.at("testset").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let lines = |text: &str| (0..3).map(|i| text.replace('#', &i.to_string()) + "\n").collect::<String>();
    write("sources/en-de.txt", &lines("One #"));
    write("references/en-de.refA.txt", &lines("Eins #"));
    write("documents/en-de.docs", &lines("news\td0"));
    for (i, system) in ["a", "b"].iter().enumerate() {
        let hypotheses = (0..3).map(|seg| format!("Eins {system} {}\n", seg * 7 % 11)).collect::<String>();
        write(&format!("system-outputs/en-de/{system}.txt"), &hypotheses);
        let scores = (0..3).map(|seg| format!("{system}\t{}\n", -(seg + i as i32))).collect::<String>();
        let path = small.at("testset/human-scores/en-de.mqm.seg.score");
        let before = fs::read_to_string(&path).unwrap_or_default();
        write("human-scores/en-de.mqm.seg.score", &(before + &scores));
    }
    small.at("testset").display().to_string()
}
