//! Common mistakes of first users: input rejected before a run, language pairs, numbers of segments, the last
//! lines of the output. The model is scripted.

use std::{fs, path::Path, process::ExitCode, sync::Arc};

use tribunal::{
    eval::{ModelSpec, Models, Resources},
    judges::{Model, Panel},
    llm::{Chat, Finish, Reply, Sampling},
};

use crate::fakes::{Rule, SmallRun, program_with, said};

/// Answers GEMBA-DA: worse for longer translations.
fn rate(chat: &Chat) -> Reply {
    let prompt = &chat.messages().last().unwrap().content;
    let score = 100usize.saturating_sub(prompt.len() % 40);
    Reply { text: format!("{{\"score\": {score}}}"), finish: Finish::Stop, ..Reply::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a seat")]
fn seat(model: &ModelSpec, _: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let panel = Panel::new(Arc::new(Rule(rate)), sampling);
    Ok(Models::alone(panel, Model { name: model.model.clone(), sha256: "5eed".into() }))
}

/// A loader that fails the test.
fn no_model(_: &ModelSpec, _: &Resources, _: Sampling) -> tribunal::eval::Result<Models> {
    Err(std::io::Error::other("a model was loaded").into())
}

fn with(seat: tribunal::eval::ModelLoader, dir: &Path, args: &[&str]) -> Result<(String, ExitCode), String> {
    let dir = dir.display().to_string();
    let args: Vec<String> = args.iter().map(|arg| arg.replace("DIR", &dir)).collect();
    let named = |text: String| text.replace(&dir, "DIR");
    program_with(seat, &args).map(|(text, code)| (named(text), code)).map_err(named)
}

fn texts() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("src.txt"), "One.\nTwo.\nThree.\n").unwrap();
    fs::write(dir.path().join("a.txt"), "Eins.\nZwei.\nDrei.\n").unwrap();
    fs::write(dir.path().join("b.txt"), "Eins eins.\nZwei zwei.\nDrei drei.\n").unwrap();
    fs::write(dir.path().join("ref.txt"), "Eins.\nZwei.\nDrei.\n").unwrap();
    dir
}

const TEXTS: [&str; 9] =
    ["score", "-s", "DIR/src.txt", "-t", "DIR/a.txt", "DIR/b.txt", "--quiet", "--model", "scripted"];

fn refused(dir: &Path, more: &[&str]) -> String {
    with(no_model, dir, &[&TEXTS[..], more].concat()).unwrap_err()
}

#[test]
fn what_a_method_cannot_use_is_refused_before_a_model_is_loaded() {
    let dir = texts();
    let cases: [(&[&str], &str); 6] = [
        (
            &["--method", "gemba-da:reference=on"],
            "needs a reference for every segment, and 6 of 6 have none\nhint: ",
        ),
        (&["--method", "fsp", "-r", "DIR/ref.txt"], "read one\nhint: leave `-r` out, or use one of these"),
        (
            &["--method", "rubric-mqm", "-r", "DIR/ref.txt"],
            "hint: `--method rubric-mqm:reference=on`, or leave `-r` out",
        ),
        (
            &["--method", "chrf"],
            "`chrf` is a metric, not a judge\nhint: for a score like MQM use `probe`; `tribunal meta --lexical chrf`",
        ),
        (&["--method", "fsp:shots=5"], "option `shots` of `fsp` cannot be `5`\nhint: it can be 3 or 0"),
        (&["--kv-cache", "2"], "`2` would be 2 bytes; write `2GiB` or `2MiB`"),
    ];
    for (more, said) in cases {
        let told = refused(dir.path(), &[&["-l", "en-de"][..], more].concat());
        assert!(told.contains(said), "{more:?}: {told}");
    }
    let run = [&TEXTS[..], &["-l", "en-de", "--method", "gemba-da", "-r", "DIR/ref.txt", "--out", "DIR/run"]]
        .concat();
    assert!(with(seat, dir.path(), &run).is_ok(), "a method that reads references");
}

#[test]
fn a_language_pair_is_the_same_however_it_is_written() {
    let dir = texts();
    let verdicts = |pair: &str, out: &str| {
        let run = [&TEXTS[..], &["-l", pair, "--method", "gemba-da", "--out", out]].concat();
        let (text, _) = with(seat, dir.path(), &run).unwrap();
        let out = out.replace("DIR", &dir.path().display().to_string());
        (text, fs::read_to_string(Path::new(&out).join("verdicts.jsonl")).unwrap())
    };
    let usual = verdicts("en-de", "DIR/usual");
    assert!(usual.0.contains("|pairs:en-de|"), "{}", usual.0);
    assert_eq!(verdicts("eng-deu", "DIR/iso"), usual);
    assert_eq!(verdicts("English-German", "DIR/names"), usual);
    let other = verdicts("en-fr", "DIR/other");
    assert!(other.0.contains("|pairs:en-fr|"), "{}", other.0);
}

#[test]
fn systems_of_two_language_pairs_have_two_tables() {
    let dir = tempfile::tempdir().unwrap();
    let line = |system: &str, pair: &str, seg: usize, text: &str| {
        serde_json::json!({
            "system": system, "seg_id": seg, "src_lang": "en", "tgt_lang": pair,
            "source": format!("Source {seg}."), "hypothesis": text,
        })
        .to_string()
            + "\n"
    };
    let mut input = String::new();
    for seg in 0..4 {
        for (system, text) in [("a", "kurz"), ("b", "etwas länger")] {
            input += &line(system, "de", seg, text);
            input += &line(system, "fr", seg, text);
        }
    }
    fs::write(dir.path().join("in.jsonl"), input).unwrap();
    let run = ["score", "--input", "DIR/in.jsonl", "--method", "gemba-da", "--out", "DIR/run", "--quiet"];
    let (text, _) = with(seat, dir.path(), &[&run[..], &["--only-system"]].concat()).unwrap();
    assert_eq!(text.matches("system  segments").count(), 2, "{text}");
    assert!(text.contains("\nen-de\nsystem") && text.contains("\nen-fr\nsystem"), "{text}");
    assert!(!text.contains("no segment in common"), "{text}");
    let (tsv, _) =
        with(seat, dir.path(), &[&run[..], &["--only-system", "--format", "tsv"]].concat()).unwrap();
    let heads: Vec<&str> = tsv.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(heads, ["lp", "en-de", "en-de", "en-fr", "en-fr"]);
    let (compared, _) = with(seat, dir.path(), &["compare", "DIR/run"]).unwrap();
    assert_eq!(compared.matches("differences from").count(), 2, "{compared}");
    assert!(compared.lines().all(|line| line.chars().count() <= 80), "{compared}");
    with(seat, dir.path(), &["report", "DIR/run", "--out", "DIR/page.html"]).unwrap();
}

#[test]
fn texts_are_judged_and_compared_in_one_command() {
    let dir = texts();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let [source, a, b] = ["src.txt", "a.txt", "b.txt"].map(file);
    let args = [
        "compare", "-s", &source, "-t", &a, &b, "-l", "en-de", "--method", "gemba-da", "--model", "scripted",
        "--out",
    ];
    let out = file("run");
    let (text, code) = with(seat, dir.path(), &[&args[..], &[&out]].concat()).unwrap();
    assert!(text.contains("differences from `") && text.contains("p bootstrap"), "{text}");
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert!(Path::new(&out).join("verdicts.jsonl").is_file());
    // A model in the file of options, for every command that takes one, is no obstacle where no judge runs.
    assert!(with(no_model, dir.path(), &["compare", &out, "--model=scripted"]).is_ok());
    // The options of judging are passed to `score`, those of comparing stay out of the run.
    let (again, scored) = (file("again"), file("scored"));
    let how =
        ["--device", "cpu", "--context", "4096", "--kv_cache=1GiB", "--preset", "strict", "--jobs", "1"];
    let compared = ["--resamples", "50", "--seed=3", "--format=json", "--baseline", "a"];
    with(seat, dir.path(), &[&args[..], &[&again], &how, &compared].concat()).unwrap();
    let words = fs::read_to_string(Path::new(&again).join("run.json")).unwrap();
    assert!(words.contains("\"--kv-cache=1GiB\"") && !words.contains("resamples"), "{words}");
    let score = [&["score"], &args[1..], &[&scored], &how[..]].concat();
    with(seat, dir.path(), &score).unwrap();
    let verdicts = |dir: &str| fs::read(Path::new(dir).join("verdicts.jsonl")).unwrap();
    assert_eq!(verdicts(&again), verdicts(&scored));
}

/// Mistakes, each with a part of its message.
#[test]
fn mistakes_with_files_and_options_are_answered_with_what_to_do() {
    let dir = texts();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("list.jsonl", "[{\"source\": \"a\", \"hypothesis\": \"b\"}]\n");
    write("twice.csv", "source,source,hypothesis\na,b,c\n");
    write(
        "same.jsonl",
        &"{\"source\": \"a\", \"hypothesis\": \"b\", \"system\": \"x\", \"seg_id\": 1}\n".repeat(2),
    );
    write("sheet.xlsx", "");
    fs::create_dir(dir.path().join("folder")).unwrap();
    let pair = ["-l", "en-de"];
    let cases: [(&[&str], &str); 16] = [
        (
            &["score", "-s", "DIR/src.txt", "-t", "DIR/a.txt", "--method", "gemba-da,reference=on"],
            "unknown method `gemba-da,reference=on`\nhint: options stand behind a colon: `gemba-da:reference=on`",
        ),
        (&["compare", "DIR/a.txt", "DIR/b.txt"], "`tribunal compare -s SOURCE.txt -t A.txt B.txt -l en-de`"),
        (
            &["score", "-s", "DIR/scr.txt", "-t", "DIR/a.txt"],
            "no such file or folder\nhint: did you mean `DIR/src.txt`?",
        ),
        (&["score", "-s", "DIR/x/src.txt", "-t", "DIR/a.txt"], "hint: there is no folder `DIR/x`"),
        (
            &["score", "-s", "DIR/folder", "-t", "DIR/a.txt"],
            "cannot read `DIR/folder`: it is a folder, not a file",
        ),
        (&["score", "-s", "DIR/src.txt", "-t", "DIR/a.txt", "DIR/folder/../a.txt"], "a.txt` is given twice"),
        (
            &["score", "--input", "DIR/list.jsonl"],
            "line 1 is a list, not a JSON object\nhint: one object on each line",
        ),
        (&["score", "--input", "DIR/twice.csv"], "the column `source` is there twice"),
        (
            &["score", "--input", "DIR/same.jsonl"],
            "the segment with the id `1` of system `x` was already on line 1",
        ),
        (&["score", "--input", "DIR/sheet.xlsx"], "hint: save the sheet as CSV"),
        (&["score", "--input", "DIR/folder"], "is a test set; `--testset DIR`"),
        (&["score", "--testset", "DIR/none"], "there is no folder `DIR/none`"),
        (
            &["score", "-s", "DIR/src.txt", "-t", "DIR/a.txt", "--documents", "DIR/src.txt"],
            "the input names no documents\nhint: add `--docs FILE`",
        ),
        (
            &["score", "-s", "DIR/src.txt", "-t", "DIR/a.txt", "--gpus", "2"],
            "unknown option `--gpus`\nhint: the device is `--device cpu` or `--device cuda`",
        ),
        (
            &["compare", "-s", "DIR/src.txt", "-t", "DIR/a.txt"],
            "only one system to compare\nhint: give several files",
        ),
        (&["compare", "DIR/folder"], "has no `run.json`, so it is not a run folder"),
    ];
    for (given, said) in cases {
        let told = with(no_model, dir.path(), &[given, &pair[..]].concat()).unwrap_err();
        assert!(told.contains(said) && !told.contains("os error"), "{given:?}: {told}");
    }
}

#[test]
fn mistakes_with_what_is_reported_are_answered_with_what_to_do() {
    let dir = texts();
    fs::create_dir(dir.path().join("folder")).unwrap();
    let run = [&TEXTS[..], &["-l", "en-de", "--method", "gemba-da", "--out", "DIR/run"]].concat();
    with(seat, dir.path(), &run).unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["report", "DIR/run", "DIR/r.html"], "cannot read `DIR/r.html`"),
        (
            &["report", "DIR/run", "-l", "de-en", "--out", "DIR/r.html"],
            "`-l de-en`: there is no verdict on this pair\nhint: the runs judged en-de",
        ),
        (&["compare", "DIR/run", "--gold", "mqm"], "--testset <DIR>"),
        (&["compare", "DIR/run", "--only-system"], "what `tribunal compare` prints is about systems alone"),
        (&["show", "DIR/run", "1", "--only-system"], "cannot be used with"),
        (
            &["report", "DIR/src.txt", "--out", "DIR/r.html"],
            "`DIR/src.txt` is neither a run folder nor verdicts",
        ),
        (&["report", "DIR/folder", "DIR/folder", "--out", "DIR/r.html"], "`DIR/folder` is given twice"),
    ];
    for (given, said) in cases {
        let told = with(no_model, dir.path(), given).unwrap_err();
        assert!(told.contains(said), "{given:?}: {told}");
    }
}

#[test]
fn sources_and_translations_that_are_swapped_are_refused() {
    let dir = texts();
    let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    file("en.txt", "The town council voted on Tuesday to close the old bridge for repairs.\n");
    file(
        "zh.txt",
        "议会星期二投票决定关闭旧桥进行维修，直到春天才重新开放，市民只好绕道而行，公共汽车也改了路线，大家都不高兴。\n",
    );
    let score = |source: &str, translation: &str, pair: &str| {
        let args = [
            "score",
            "-s",
            source,
            "-t",
            translation,
            "-l",
            pair,
            "--method",
            "gemba-da",
            "--model",
            "scripted",
        ];
        with(seat, dir.path(), &[&args[..], &["--quiet", "--out", "DIR/run"]].concat())
    };
    let told = score("DIR/en.txt", "DIR/zh.txt", "zh-en").unwrap_err();
    assert!(told.contains("so the two are swapped\nhint: "), "{told}");
    score("DIR/en.txt", "DIR/zh.txt", "en-zh").unwrap();
}

/// A folder that holds another run is none of this one's.
#[test]
fn a_run_folder_is_named_once_it_has_taken_the_run_in() {
    let small = SmallRun::new(1);
    let run = |seed: &str| {
        let mut command =
            small.tribunal(&["score", "--input", "input.jsonl", "--out", "out", "--seed", seed]);
        command.args([
            "--method",
            "gemba-da",
            "--max-tokens",
            "8",
            "--kv-cache",
            "8MiB",
            "--progress",
            "off",
            "--model",
        ]);
        command.arg(crate::fakes::tiny("qwen2"));
        said(command).1
    };
    let first = run("0");
    assert!(first.contains("run folder: out\n"), "{first}");
    let second = run("1");
    assert!(second.contains("seed: `0` there, `1` now") && !second.contains("run folder:"), "{second}");
}

#[test]
fn a_bad_chat_template_is_named_by_its_file() {
    let small = SmallRun::new(1);
    fs::write(small.at("bad.jinja"), "{% for %}").unwrap();
    let told = said(small.score("out", &["--chat-template", "bad.jinja"])).1;
    assert!(told.contains("error: the chat template `bad.jinja`: "), "{told}");
}

#[test]
fn a_cache_larger_than_the_memory_is_refused() {
    let small = SmallRun::new(1);
    let mut command = small.tribunal(&["score", "--input", "input.jsonl", "--method", "gemba-da"]);
    command.args(["--kv-cache", "4000GiB", "--model"]).arg(crate::fakes::tiny("qwen2"));
    let told = said(command).1;
    assert!(
        told.contains("a KV cache of 4000GiB is more than the memory that is free beside the weights"),
        "{told}"
    );
}

#[test]
fn a_system_without_a_verdict_has_no_number_of_errors() {
    let dir = texts();
    let run = [&TEXTS[..], &["-l", "en-de", "--method", "gemba-mqm", "--out", "DIR/run"]].concat();
    let (text, code) = with(seat, dir.path(), &run).unwrap();
    assert_eq!(code, ExitCode::from(1), "the scripted model marks no errors");
    let row: Vec<&str> =
        text.lines().find(|line| line.starts_with("a  ")).unwrap().split_whitespace().collect();
    assert_eq!(row[2..], ["-", "0%", "-", "-", "-"], "{text}");
}

/// On a terminal that `script` makes; without that program there is nothing to test.
#[cfg(target_os = "linux")]
#[test]
fn a_dumb_terminal_gets_no_escape_sequences() {
    let small = SmallRun::scoring(1);
    for (term, has_escapes) in [("xterm", true), ("dumb", false)] {
        let command = format!(
            "{} score --input input.jsonl --method gemba-sqm:score=expected --prompts prompts --max-tokens 24 --kv-cache 8MiB \
             --out {term} --model {}",
            env!("CARGO_BIN_EXE_tribunal"),
            small.model.display()
        );
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).current_dir(small.at("")).env("TERM", term);
        let Ok(written) = script.env("TRIBUNAL_HOME", small.at("home")).output() else { return };
        let text = String::from_utf8_lossy(&written.stdout).into_owned();
        assert!(text.contains("run folder: ") && text.contains('\u{1b}') == has_escapes, "{term}: {text:?}");
    }
}
