//! What newcomers type in their first minutes, each with the answer that helps. Commands and options of other
//! programs are tested where they are answered.

use std::{fs, path::Path, process::ExitCode, sync::Arc};

use tribunal::{
    eval::{ModelSpec, Models, Resources},
    judges::{Model, Panel},
    llm::{Chat, Finish, Reply, Sampling},
};

use crate::fakes::{Rule, SmallRun, program_with, said, tiny};

fn rate(_: &Chat) -> Reply {
    Reply { text: "{\"score\": 70}".into(), finish: Finish::Stop, ..Reply::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a loader")]
fn loaded(model: &ModelSpec, _: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let panel = Panel::new(Arc::new(Rule(rate)), sampling);
    Ok(Models::alone(panel, Model { name: model.model.clone(), sha256: "5eed".into() }))
}

/// A loader that fails the test: what is refused is refused before.
fn no_model(_: &ModelSpec, _: &Resources, _: Sampling) -> tribunal::eval::Result<Models> {
    Err(std::io::Error::other("a model was loaded").into())
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Texts, and a folder of test sets: `wmt` has two systems and three segments, of which the second is rated.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "src.txt", "One.\nTwo.\nThree.\n");
    for name in ["hyp.A", "hyp.B", "Llama-3.1-8B", "mt.txt"] {
        write(root, name, "Eins.\nZwei.\nDrei.\n");
    }
    write(root, "sets/wmt/sources/en-de.txt", "One.\nTwo.\nThree.\n");
    write(root, "sets/wmt/documents/en-de.docs", "news a\nnews a\nnews b\n");
    for system in ["A", "B"] {
        write(root, &format!("sets/wmt/system-outputs/en-de/{system}.txt"), "Eins.\nZwei.\nDrei.\n");
    }
    write(
        root,
        "sets/wmt/human-scores/en-de.mqm.seg.score",
        "A\tNone\nA\t-1\nA\tNone\nB\tNone\nB\t-5.0\nB\tNone\n",
    );
    write(root, "sets/other/sources/zh-en.txt", "");
    write(root, "notes/plan.md", "");
    write(root, "submission.jsonl", "{}\n");
    write(root, "broken.jsonl", "{\"source\": \"a\", \"hypothesis\": \"b\"}\n{\"source\": 'a'}\n");
    dir
}

/// A command line with `DIR` for the folder, and the result with it.
fn typed(load: tribunal::eval::ModelLoader, dir: &Path, line: &str) -> Result<(String, ExitCode), String> {
    let dir = dir.display().to_string();
    let args: Vec<String> = line.split(' ').map(|word| word.replace("DIR", &dir)).collect();
    let named = |text: String| text.replace(&dir, "DIR");
    program_with(load, &args).map(|(text, code)| (named(text), code)).map_err(named)
}

const TEXTS: &str = "score -s DIR/src.txt -t DIR/mt.txt -l en-de --model scripted --quiet";

#[test]
fn what_cannot_be_is_answered_with_what_helps_before_a_model_is_loaded() {
    let dir = folder();
    for (line, problem, hint) in [
        (
            format!("{TEXTS} --method bleu"),
            "`bleu` is a metric, not a judge",
            "for a score like MQM use `probe`; `tribunal meta --lexical bleu` computes it",
        ),
        (
            format!("{TEXTS} --method gemba-da --out DIR/notes"),
            "`DIR/notes` holds no run, but other files (`plan.md`)",
            "another folder, such as `--out DIR/notes/run`",
        ),
        (
            "score --testset DIR/sets -l en-de --method gemba-da".into(),
            "`DIR/sets` has no `sources/en-de.txt`",
            "it holds test sets: `DIR/sets/other`, `DIR/sets/wmt`",
        ),
        (
            "meta --testset DIR/sets -l en-de".into(),
            "`DIR/sets` is not a test set: it has no `documents` folder",
            "it holds test sets: `DIR/sets/other`, `DIR/sets/wmt`",
        ),
        (
            "meta --testset DIR/sets/wmt -l en-de --scores DIR/notes".into(),
            "`DIR/notes` is not NAME=PATTERN",
            "`--scores NAME=DIR/notes`",
        ),
        (
            "meta --testset DIR/sets/wmt -l en-de --scores run".into(),
            "`run` is not NAME=PATTERN",
            "`--scores 'M-MAD=scores/{lp}.{level}.score', or NAME=DIR for the folder of a run`",
        ),
        (
            "meta --testset DIR/sets/wmt -l zh_en".into(),
            "`DIR/sets/wmt` has no language pair `zh-en`",
            "it has en-de",
        ),
        (
            "verify DIR/submission.jsonl".into(),
            "`DIR/submission.jsonl` is a file",
            "give a run folder; for a submission, name the task's file with `--testset`",
        ),
        (
            "score --input DIR/broken.jsonl -l en-de --method gemba-da".into(),
            "`DIR/broken.jsonl` line 2: not JSON: expected value in column 12, where `'a'}` stands",
            "",
        ),
        (format!("{TEXTS} --rated"), "error: missing: `--testset <DIR>`", ""),
        (
            "score --testset DIR/sets/other -l zh-en --rated --method gemba-da".into(),
            "`DIR/sets/other` has no `system-outputs/zh-en`",
            "",
        ),
    ] {
        let told = typed(no_model, dir.path(), &line).unwrap_err();
        let hint = if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") };
        assert!(told.starts_with(&format!("{problem}{hint}")), "{line}: {told}");
    }
}

#[test]
fn names_and_spellings_are_taken_as_they_are_meant() {
    let dir = folder();
    let usual = typed(loaded, dir.path(), &format!("{TEXTS} --method gemba-da --out DIR/usual")).unwrap().0;
    let line = TEXTS.replace("en-de", "en_de");
    let meant = format!("{line} --method GEMBA_DA --preset Strict --out DIR/meant");
    assert_eq!(typed(loaded, dir.path(), &meant).unwrap().0, usual);
    let run = "score -s DIR/src.txt -t DIR/hyp.A DIR/hyp.B DIR/Llama-3.1-8B -l en-de --model scripted --quiet \
               --only-system --format tsv --method gemba-da --out DIR/systems";
    let (text, _) = typed(loaded, dir.path(), run).unwrap();
    let mut systems: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split('\t').nth(1)).collect();
    systems.sort_unstable();
    assert_eq!(systems, ["Llama-3.1-8B", "hyp.A", "hyp.B"]);
    // A folder with a run may hold other files.
    write(dir.path(), "systems/notes.md", "");
    typed(loaded, dir.path(), run).unwrap();
}

#[test]
fn only_rated_segments_are_drawn() {
    let dir = folder();
    let verdicts = |more: &str, out: &str| {
        let line = format!(
            "score --testset DIR/sets/wmt -l en-de --model scripted --quiet --method gemba-da --out DIR/{out}{more}"
        );
        typed(loaded, dir.path(), &line).unwrap();
        let text = fs::read_to_string(dir.path().join(out).join("verdicts.jsonl")).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rows.map(|row| format!("{}{}", row["system"].as_str().unwrap(), row["seg"])).collect::<Vec<_>>()
    };
    assert_eq!(verdicts("", "all").len(), 6);
    assert_eq!(verdicts(" --rated", "rated"), ["A1", "B1"]);
    assert_eq!(verdicts(" --rated --subset 2 --seed 5", "drawn"), ["A1", "B1"]);
}

#[test]
fn runs_of_one_judge_on_other_pairs_are_not_called_those_of_different_judges() {
    let dir = folder();
    for pair in ["en-de", "en-cs"] {
        let line = TEXTS.replace("en-de", pair) + &format!(" --method gemba-da --out DIR/{pair}");
        typed(loaded, dir.path(), &line).unwrap();
    }
    let told = typed(loaded, dir.path(), "compare DIR/en-de DIR/en-cs").unwrap_err();
    let problem = "`DIR/en-de` and `DIR/en-cs` come from one judge, on other language pairs: `en-de` and `en-cs`\nhint: ";
    assert!(told.starts_with(problem), "{told}");
}

/// Refusals that need the files of a model, and no run.
#[test]
fn a_model_that_cannot_answer_is_refused_before_the_run() {
    let small = SmallRun::new(1);
    let model = tiny("qwen2").display().to_string();
    for (more, expected) in [
        (
            &["--method", "fsp", "--context", "100", "--model", &model][..],
            "not even the shortest question fits the model: the prompt has ",
        ),
        (
            &["--method", "fsp", "--context", "8", "--model", &model],
            "not even the shortest question fits the model: the prompt has ",
        ),
        (
            &["--method", "gemba-da", "--context", "513", "--model", &model],
            "has 512 positions, so it has no context of 513\nhint: `--context 512`, or leave `--context` out",
        ),
        (
            &["--method", "thinking", "--model", &model],
            "the method `thinking` asks `qwen2` to reason, and its chat template marks no reasoning\nhint: take a model",
        ),
        (
            &["--method", "gemba-mqm", "--model", "qwen2.5-7b-instruct-awq"],
            "unknown model `qwen2.5-7b-instruct-awq`\nhint: no card has quantised weights of this name; give their GGUF file or folder",
        ),
        (&["--model", "Unbabel/wmt22-cometkiwi-da"], "`tribunal models pull wmt22-cometkiwi-da`"),
    ] {
        let mut command =
            small.tribunal(&["score", "--input", "input.jsonl", "--out", "out", "--kv-cache", "8MiB"]);
        command.args(more).env_remove("HF_HOME").env("HF_HUB_CACHE", small.at("hub"));
        let (code, told) = said(command);
        assert!(code == 2 && told.contains(expected), "{more:?}: {told}");
        assert!(!small.at("out").join("run.json").exists(), "{more:?}");
    }
}

/// The lines that docs/wmt.md shows of each file are read as it says.
#[test]
fn the_documented_lines_of_wmts_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let page = include_str!("../../docs/wmt.md");
    let block = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let lines: Vec<&str> = block.lines().collect();
    assert_eq!(lines.len(), 16, "{block}");
    for file in lines.chunks(2) {
        write(dir.path(), file[0], &format!("{}\n", file[1]));
    }
    for input in ["--input DIR/mteval-test26.jsonl", "--testset DIR/wmt26 -l en-de --reference refA"] {
        let name = &input[2..5];
        let line = format!(
            "score {input} --model scripted --quiet --language-check off --method gemba-da:reference=on --out DIR/{name}"
        );
        let (text, code) = typed(loaded, dir.path(), &line).unwrap();
        assert!(code == ExitCode::SUCCESS && text.contains("North"), "{text}");
    }
    for file in ["humeval.jsonl", "eng_Latn---deu_Latn.jsonl", "annotations.json", "mqm.tsv"] {
        let line = format!("export DIR/{file} -l en-de --as csv --out DIR/{file}.csv");
        typed(no_model, dir.path(), &line).unwrap();
        let text = fs::read_to_string(dir.path().join(format!("{file}.csv"))).unwrap();
        assert!(text.lines().count() == 2 && text.contains("South"), "{text}");
    }
    let check = "verify DIR/submission.jsonl --testset DIR/mteval-test26.jsonl";
    let (text, _) = typed(no_model, dir.path(), check).unwrap();
    assert!(text.contains("1 item, 1 task1_pred, 1 task2_pred, 1 task3_pred"), "{text}");
}
