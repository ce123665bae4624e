//! `tribunal score` and `merge` from the argument list to what they print, against a scripted model.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use tribunal::{
    eval::{ModelLoader, ModelSpec, Models, Resources},
    hub,
    judges::{Model, Panel},
    llm::{Chat, Finish, Reply, Sampling, Usage},
    run,
};

use crate::fakes::{self, Rule, TinyJudge, panel, program_with, segments};

/// Answers GEMBA-MQM: what it finds depends on the translation alone.
fn annotate(chat: &Chat) -> Reply {
    let prompt = &chat.messages().last().unwrap().content;
    let text = if prompt.contains("Donnerstag") {
        "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"Donnerstag\"\naccuracy/omission - \"for \
             repairs\"\nMinor:\nstyle/awkward - \"stimmte am Donnerstag ab, um\"\n"
    } else if prompt.contains("vollständig war; wir senden es erneut") {
        "I cannot help with that."
    } else if prompt.contains("一") {
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nfluency/grammar - \".\"\n"
    } else {
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error\n"
    };
    let usage = Usage { computed: prompt.len() / 4, generated: 20, ..Usage::default() };
    Reply { text: text.into(), finish: Finish::Stop, usage, ..Reply::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a seat")]
fn seat(model: &ModelSpec, engine: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let panel = Panel::new(Arc::new(Rule(annotate)), sampling);
    let models = Models::alone(panel, Model { name: model.model.clone(), sha256: "5eed".into() });
    let memory = Box::new(|| vec![("memory".to_string(), "1 GiB".to_string())]);
    Ok(Models { signature: models.signature.with("device", engine.device.to_string()), memory, ..models })
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).display().to_string()
}

/// Output of a command and its exit code, or its error.
fn tribunal(args: &[&str]) -> Result<(String, ExitCode), String> {
    program_with(seat, args)
}

/// The arguments for the en-de example, with more.
fn score<'a>(out: &'a str, files: &'a [String; 4], more: &[&'a str]) -> Vec<&'a str> {
    let [source, a, b, docs] = files;
    let common = ["score", "-s", source, "-t", a, b, "-l", "en-de", "--docs", docs, "--method", "gemba-mqm"];
    [&common[..], &["--out", out, "--quiet", "--model", "annotator", "--device", "cpu"], more].concat()
}

fn files() -> [String; 4] {
    ["source.txt", "system-a.txt", "system-b.txt", "docs.txt"].map(|name| example(&format!("en-de/{name}")))
}

fn is(code: ExitCode, wanted: u8) -> bool {
    format!("{code:?}") == format!("{:?}", ExitCode::from(wanted))
}

/// The signatures without the hash of the prompts, which changes with every word of them.
fn settled(text: &str) -> String {
    let mut parts: Vec<String> = text.split('|').map(String::from).collect();
    for part in parts.iter_mut().filter(|part| part.starts_with("prompts:")) {
        *part = "prompts:HASH".into();
    }
    for part in parts.iter_mut().filter(|part| part.starts_with('#')) {
        *part = "#HASH".into();
    }
    parts.join("|")
}

#[test]
fn text_output() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run").display().to_string();
    let (text, code) = tribunal(&score(&out, &files(), &[])).unwrap();
    insta::assert_snapshot!("text", settled(&text));
    assert!(is(code, 1), "one answer was a refusal");
    let (again, _) = tribunal(&score(&out, &files(), &["--only_system"])).unwrap();
    insta::assert_snapshot!("only_system", settled(&again));
}

#[test]
fn a_run_says_the_order_of_its_systems() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run").display().to_string();
    let [source, a, b, docs] = files();
    tribunal(&score(&out, &[source, b, a, docs], &[])).unwrap();
    assert_eq!(run::RunFile::read(Path::new(&out)).unwrap().systems, ["system-b", "system-a"]);
}

#[test]
fn wide_scripts_line_up() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run").display().to_string();
    let input = example("zh-en.jsonl");
    let args = ["score", "--input", &input, "--method", "gemba-mqm", "--out", &out, "--quiet"];
    let (text, _) = tribunal(&args).unwrap();
    insta::assert_snapshot!("wide", settled(&text));
}

#[test]
fn other_formats() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run").display().to_string();
    let (tsv, _) = tribunal(&score(&out, &files(), &["--format", "tsv"])).unwrap();
    insta::assert_snapshot!("tsv", tsv);
    let (json, _) = tribunal(&score(&out, &files(), &["--format=json"])).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["units"], 16);
    assert_eq!(json["verdicts"].as_array().unwrap().len(), 16);
    assert_eq!(json["verdicts"][8]["errors"][0]["span"], "Donnerstag");
}

#[test]
fn a_dry_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run").display().to_string();
    let (text, code) = tribunal(&score(&out, &files(), &["--dry-run", "--limit", "2"])).unwrap();
    insta::assert_snapshot!("dry_run", settled(&text).replace(&out, "OUT"));
    assert!(is(code, 0));
    // What was judged is there, and the run adds nothing to it.
    let journal = std::fs::read(Path::new(&out).join("journal.jsonl")).unwrap();
    assert!(!Path::new(&out).join("verdicts.jsonl").exists());
    tribunal(&score(&out, &files(), &["--limit", "2"])).unwrap();
    assert_eq!(std::fs::read(Path::new(&out).join("journal.jsonl")).unwrap(), journal);
}

/// A seat for a model that is not on this machine.
fn absent(_: &ModelSpec, _: &Resources, _: Sampling) -> tribunal::eval::Result<Models> {
    let home = tempfile::tempdir()?;
    hub::find("qwen2.5-7b-instruct")?.local_in(home.path())?;
    unreachable!("the folder is empty")
}

/// A seat on a machine without a GPU, for a run on one.
fn no_gpu(_: &ModelSpec, _: &Resources, _: Sampling) -> tribunal::eval::Result<Models> {
    Err(tribunal::engine::DeviceError::NotBuilt("cuda".into()).into())
}

/// Output of `--dry-run` on four verdicts, with a model that is not available.
fn planned(load: ModelLoader, model: &str, out: &str, more: &[&str]) -> Result<(String, bool), String> {
    let more = [&["--dry-run", "--limit", "2"][..], more].concat();
    let files = files();
    let args = score(out, &files, &more).into_iter();
    let args: Vec<&str> = args.map(|word| if word == "annotator" { model } else { word }).collect();
    program_with(load, &args).map(|(text, code)| (text, is(code, 0)))
}

#[test]
fn a_run_on_a_gpu_is_planned_where_there_is_none() {
    let planned = |model: &str| planned(no_gpu, model, "never", &[]);
    let (text, good) = planned("qwen2.5-7b-instruct").unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(good && words.contains("least expected most model calls 4 4 4 prompt tokens"), "{text}");
    assert!(words.contains(" on a GPU 14.17 GiB weights + 1.75 GiB cache (32768 tokens)"), "{text}");
    assert!(words.contains(" = 16.81 GiB; fits into "), "{text}");
    assert!(text.contains("there is no GPU here to try the run on: tokens are guessed"), "{text}");
    for device in [
        " time on one H100 ",
        " time on one H200 ",
        " core hours (estimate for AVX-512 and Q4_K_M; measured ",
    ] {
        assert!(words.contains(device), "{device}: {text}");
    }
    let several = ["--device-memory", "8GiB", "--tensor-parallel", "4"];
    let (text, _) = self::planned(no_gpu, "qwen2.5-7b-instruct", "never", &several).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" on each of 4 GPUs ") && words.contains(" tokens over all of them"), "{text}");
    let (text, _) =
        self::planned(no_gpu, "qwen2.5-7b-instruct", "never", &["--device-memory", "8GiB"]).unwrap();
    assert!(text.contains("does not fit into 8.00 GiB"), "{text}");
    // The context of the command, not the model's.
    let short = ["--device-memory", "16GiB", "--context", "4096"];
    let (text, _) = self::planned(no_gpu, "qwen2.5-7b-instruct", "never", &short).unwrap();
    assert!(text.contains("cache (4096 tokens)") && text.contains("; fits into 16.00 GiB"), "{text}");
    let refused = planned("some/folder").unwrap_err();
    assert!(refused.starts_with("`cuda`: this binary was built without CUDA"), "{refused}");
    assert!(!Path::new("never").exists());
}

#[test]
fn a_dry_run_for_a_model_that_is_not_here() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("never").display().to_string();
    let planned = |more: &[&str]| planned(absent, "annotator", &out, more);
    let (text, good) = planned(&[]).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(good);
    assert!(
        words.starts_with("translations 4 ") && words.contains(" weights, as the model card says 14.17 GiB "),
        "{text}"
    );
    assert!(words.contains(" least expected most model calls 4 4 4 prompt tokens"), "{text}");
    assert!(text.contains("`qwen2.5-7b-instruct` is not on this machine: tokens are guessed"), "{text}");
    assert!(
        text.contains("hint: `tribunal models pull qwen2.5-7b-instruct`") && !text.contains("method:"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&planned(&["--format", "json"]).unwrap().0).unwrap();
    assert_eq!((&json["verdicts"], &json["least"]["calls"]), (&4.into(), &4.into()));
    assert_eq!((&json["expected"]["calls"], &json["signature"]), (&4.into(), &serde_json::Value::Null));
    assert!(json["expected"]["answer_tokens"].as_u64() > json["least"]["answer_tokens"].as_u64(), "{json}");
    let (csv, _) = planned(&["--format", "csv"]).unwrap();
    assert!(csv.contains("\nmodel calls,4,4,4\n"), "{csv}");
    assert!(!Path::new(&out).exists());
}

#[test]
fn shards_merge_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (one, two, both, whole) = (path("1"), path("2"), path("both"), path("whole"));
    tribunal(&score(&one, &files(), &["--shard", "1/2"])).unwrap();
    tribunal(&score(&two, &files(), &["--shard", "2/2"])).unwrap();
    let (_, code) = tribunal(&["merge", &one, &two, "--out", &both]).unwrap();
    assert!(is(code, 1));
    tribunal(&score(&whole, &files(), &["--jobs", "3", "--batch_size", "4"])).unwrap();
    let verdicts = |dir: &str| std::fs::read(PathBuf::from(dir).join("verdicts.jsonl")).unwrap();
    assert_eq!(verdicts(&both), verdicts(&whole));
}

#[test]
fn arguments_that_do_not_go_together() {
    let refused = |args: &[&str]| tribunal(&[&["score", "--method", "fsp"], args].concat()).unwrap_err();
    let [source, ..] = files();
    let shown = [
        refused(&[]),
        refused(&["-s", "x"]),
        refused(&["-s", &source, "-l", "en-de"]),
        refused(&["-t", "x"]),
        refused(&["-s", "x", "-t", "y"]),
        refused(&["--testset", "x"]),
        refused(&["--testset", "x", "--input", "y"]),
        refused(&["--input", "x.jsonl", "--docs", "y"]),
        refused(&["--input", "x.jsonl", "--systems", "a"]),
        tribunal(&score("out", &files(), &["--limit", "0"])).unwrap_err(),
    ];
    insta::assert_snapshot!("refused_input", shown.join("\n"));
}

#[test]
fn values_that_do_not_parse() {
    let refused = |args: &[&str]| tribunal(&[&["score", "--method", "fsp"], args].concat()).unwrap_err();
    let shown = [
        refused(&["-l", "en-ger"]),
        refused(&["--shard", "4/3"]),
        refused(&["--device", "gpu"]),
        refused(&["--kv-cache", "much"]),
        refused(&["--granularity", "page"]),
        refused(&["--preset", "papers"]),
        refused(&["--temperature", "-1"]),
        refused(&["--jobs", "0"]),
        tribunal(&["score", "-s", "x"]).unwrap_err(),
    ];
    insta::assert_snapshot!("refused_values", shown.join("\n---\n"));
}

#[test]
fn a_role_that_the_method_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("never").display().to_string();
    let refused = |more: &[&str]| tribunal(&score(&out, &files(), more)).unwrap_err();
    insta::assert_snapshot!(refused(&["--role", "judge=annotator"]), @"
    a role of `gemba-mqm` cannot be `judge`
    hint: it can be annotator
    ");
    let unknown = refused(&["--role", "jugde=annotator"]);
    assert!(
        unknown.contains("a role cannot be `jugde`\nhint: it can be annotator, debater-a, "),
        "{unknown}"
    );
    assert!(!Path::new(&out).exists());
    assert!(tribunal(&score(&out, &files(), &["--role", "annotator=annotator"])).is_ok());
}

#[test]
fn a_report_of_every_status() {
    let dir = tempfile::tempdir().unwrap();
    let options = fakes::options(dir.path());
    let judge = TinyJudge::by(tribunal::judges::Grouping::Document);
    let signature = "method:tiny".parse().unwrap();
    let outcome = run::run(&panel().0, &judge, &segments(), &signature, &options).unwrap();
    let style = tribunal::report::TextStyle { width: 50, colour: true };
    let text = tribunal::report::text(
        &outcome.summary,
        &outcome.records().unwrap()[..8],
        tribunal::report::Detail::Units,
        style,
    );
    insta::assert_snapshot!("colours", text.replace('\u{1b}', "ESC"));
}
