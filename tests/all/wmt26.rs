//! The path of a participant of WMT26's evaluation task, as docs/wmt.md has it: read, plan, shards, merge,
//! submission, check, raters, meta, compare. The real program on a tiny model, and a task of 200 translations
//! made here.

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::Arc,
};

use serde_json::{Value, json};
use tribunal::{
    eval::{ModelSpec, Models, Resources},
    judges::{Model, Panel},
    llm::Sampling,
};

use crate::fakes::{Babble, program_with, said, tiny, tiny_engine};

mod submission;
mod test_set;

const SYSTEMS: [&str; 4] = ["North 2", "South", "East-9B", "West"];
const PAIRS: [(&str, &str); 2] = [("eng_Latn", "deu_Latn"), ("ces_Latn", "ukr_Cyrl")];
const N_DOCS: usize = 5;
const IN_DOC: usize = 5;

/// A folder with the task's file and prompts that a tiny model's context holds.
struct Participant(tempfile::TempDir);

/// The translation of an item; one is empty.
fn hypothesis(pair: usize, doc: usize, seg: usize, system: usize) -> String {
    match (pair, doc, seg, system) {
        (0, 1, 2, 3) => String::new(),
        (0, ..) => format!("Der Hügel {doc}{seg} 😀 ist {}.", ["hoch", "grün", "weit", "alt"][system]),
        _ => format!("Пагорб {doc}{seg} {}.", ["високий", "зелений", "далекий", "старий"][system]),
    }
}

fn item_id(pair: usize, doc: usize, seg: usize) -> String {
    let ((src, tgt), domain) = (PAIRS[pair], ["news", "social"][doc % 2]);
    format!("official_###_{src}_###_{tgt}_###_{domain}_###_page{doc}_###_{seg}")
}

fn all() -> impl Iterator<Item = (usize, usize, usize)> {
    (0..PAIRS.len())
        .flat_map(|pair| (0..N_DOCS).flat_map(move |doc| (0..IN_DOC).map(move |seg| (pair, doc, seg))))
}

impl Participant {
    fn new() -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        let lines = all().map(|(pair, doc, seg)| {
            let hyps: serde_json::Map<String, Value> = SYSTEMS
                .iter()
                .enumerate()
                .map(|(n, system)| ((*system).to_owned(), json!(hypothesis(pair, doc, seg, n))))
                .collect();
            let src = if pair == 0 { format!("The hill {doc}{seg}.") } else { format!("Kopec {doc}{seg}.") };
            let reference = json!({ "text": "Ref.", "type": "postedit" });
            json!({ "item_id": item_id(pair, doc, seg), "src": src, "ref": reference, "hyps": hyps })
        });
        own.write("task.jsonl", &lines.map(|line| format!("{line}\n")).collect::<String>());
        own.write("prompts/gemba_esa/system.j2", "Judge.");
        own.write("prompts/gemba_esa/spans.j2", "{{ source }}\n{{ target }}\nErrors:\n");
        own.write("prompts/gemba_esa/score.j2", "{{ target }}\n{{ spans }}\nScore:");
        own
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// Runs `tribunal ARGS` in the folder: the exit code and the output.
    fn tribunal(&self, args: &str, more: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
        command.current_dir(self.0.path()).args(args.split(' ')).args(more);
        command.env("TRIBUNAL_HOME", self.at("home")).env_remove("TRIBUNAL_COMMIT");
        said(command)
    }

    /// `tribunal COMMAND`, with the judge.
    fn judge(&self, args: &str) -> (i32, String) {
        let model = tiny("qwen2").display().to_string();
        let method = "gemba-esa:shots=0";
        let judge = [
            "--model",
            &model,
            "--method",
            method,
            "--prompts",
            "prompts",
            "--max-tokens",
            "120",
            "--kv-cache",
            "16MiB",
            "--language-check",
            "off",
        ];
        self.tribunal(args, &judge)
    }
}

/// The raters' log of a campaign: two of them on the documents of one pair, the second on fewer and not of
/// one mind.
fn campaign() -> String {
    let mut lines = String::new();
    for (rater, docs) in [("anna", 0..4), ("ben", 0..2)] {
        for doc in docs {
            let items: Vec<Value> = (0..IN_DOC)
                .map(|seg| {
                    let tgt: serde_json::Map<String, Value> =
                        (0..3).map(|n| (SYSTEMS[n].to_owned(), json!(hypothesis(0, doc, seg, n)))).collect();
                    let id = item_id(0, doc, seg).split("_###_").skip(3).collect::<Vec<_>>().join("_###_");
                    json!({ "item_id": id, "src": format!("The hill {doc}{seg}."), "tgt": tgt })
                })
                .collect();
            let annotation: Vec<Value> = (0..IN_DOC)
                .map(|seg| {
                    let one = |n: usize| {
                        let spans = if n == 1 {
                            json!([{ "start_i": 4, "end_i": 8, "severity": "minor", "category": null }])
                        } else {
                            json!([])
                        };
                        json!({ "score": 90 - 10 * n - (doc + seg) % 4 * 5, "error_spans": spans })
                    };
                    Value::Object((0..3).map(|n| (SYSTEMS[n].to_owned(), one(n))).collect())
                })
                .collect();
            let line = json!({ "user_id": rater, "item_i": doc, "annotation": annotation, "item": items });
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
    }
    lines
}

/// Random weights of the tiny model, whose answers count.
#[expect(clippy::unnecessary_wraps, reason = "the type of a loader")]
fn load(_: &ModelSpec, _: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let panel = Panel::new(Arc::new(Babble(tiny_engine("qwen2", 16, 512))), sampling);
    Ok(Models::alone(panel, Model { name: "tiny".into(), sha256: "5eed".into() }))
}

impl Participant {
    /// Runs `tribunal ARGS` in this process, with `DIR` for the folder: its output and whether it succeeded.
    fn run(&self, args: &str) -> Result<(String, bool), String> {
        let dir = self.0.path().display().to_string();
        let args: Vec<String> = args.split(' ').map(|arg| arg.replace("DIR", &dir)).collect();
        let said = program_with(load, &args).map_err(|error| error.replace(&dir, "DIR"))?;
        Ok((said.0.replace(&dir, "DIR"), said.1 == ExitCode::SUCCESS))
    }

    fn score(&self, more: &str) {
        let judge =
            "--method gemba-esa:shots=0 --prompts DIR/prompts --max-tokens 120 --language-check off --quiet";
        self.run(&format!("score --input DIR/task.jsonl {judge} {more}")).unwrap();
    }

    /// A file of JSON lines.
    fn lines(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A submission holds the content of the verdicts, in the task's order.
fn holds(verdicts: &[Value], lines: &[Value]) {
    let ids: Vec<&str> = lines.iter().map(|line| line["item_id"].as_str().unwrap()).collect();
    assert_eq!(ids, all().map(|(pair, doc, seg)| item_id(pair, doc, seg)).collect::<Vec<_>>());
    let mut n_spans = 0;
    for verdict in verdicts {
        let same = |line: &&Value| {
            let src = if verdict["src_lang"] == "en" { "eng_Latn" } else { "ces_Latn" };
            let end = format!("{}_###_{}", verdict["doc"].as_str().unwrap(), verdict["seg"]);
            line["item_id"].as_str().is_some_and(|id| id.contains(src) && id.ends_with(&end))
        };
        let line = lines.iter().find(same).unwrap();
        let system = verdict["system"].as_str().unwrap();
        assert_eq!(line["task2_pred"][system], verdict["score"]);
        let text: Vec<char> = verdict["hypothesis"].as_str().unwrap().chars().collect();
        let errors = line["task1_pred"][system]["errors"].as_array().unwrap();
        for error in errors {
            let (start, end) =
                (error["start"].as_u64().unwrap() as usize, error["end"].as_u64().unwrap() as usize);
            let span: String = text[start..end].iter().collect();
            assert!(
                verdict["errors"].as_array().unwrap().iter().any(|error| error["span"] == *span),
                "{verdict}"
            );
            n_spans += 1;
        }
        let is_free = verdict["status"] == "ok"
            && verdict["errors"].as_array().unwrap().is_empty()
            && verdict["score"].as_f64() >= Some(85.0);
        assert_eq!(line["task3_pred"][system], u8::from(is_free), "{verdict} {line}");
    }
    assert!(n_spans > 20, "{n_spans} spans");
}

#[test]
fn a_participant_goes_from_the_task_to_a_submission_and_its_evaluation() {
    let own = Participant::new();
    // Plan.
    let (code, text) = own.judge("score --input task.jsonl --dry-run --out out/plan");
    assert!(code == 0 && text.contains("tokens"), "{text}");
    let slurm = "slurm submit --input task.jsonl --out out/slurm --nodes 3 --time 1:00:00 --dry-run";
    let (code, text) = own.judge(slurm);
    assert!(code == 0 && text.contains("#SBATCH") && text.contains("task.jsonl"), "{text}");
    // Shards, merged.
    for shard in 1..=3 {
        own.score(&format!("--shard {shard}/3 --out DIR/shards/{shard}"));
    }
    own.run("merge DIR/shards/1 DIR/shards/2 DIR/shards/3 --out DIR/run").unwrap();
    own.score("--out DIR/undivided");
    assert_eq!(own.read("run/verdicts.jsonl"), own.read("undivided/verdicts.jsonl"));
    let verdicts = own.lines("run/verdicts.jsonl");
    assert_eq!(verdicts.len(), 200);
    // The submission, whole and in the task's order.
    let (text, is_accepted) =
        own.run("export DIR/run --as wmt26 --testset DIR/task.jsonl --out DIR/submission.jsonl").unwrap();
    assert_eq!((text.as_str(), is_accepted), ("DIR/submission.jsonl\n", true));
    let (text, is_accepted) = own.run("verify DIR/submission.jsonl --testset DIR/task.jsonl").unwrap();
    let ok = "ok: 50 items, 200 task1_pred, 200 task2_pred, 200 task3_pred\n";
    assert_eq!((text.as_str(), is_accepted), (ok, true));
    holds(&verdicts, &own.lines("submission.jsonl"));
    // Raters, as a test set; meta and compare.
    own.write("eng_Latn---deu_Latn.jsonl", &campaign());
    let raters = "DIR/eng_Latn---deu_Latn.jsonl";
    own.run(&format!("export {raters} --as testset --testset DIR/task.jsonl --out DIR/wmt26")).unwrap();
    assert_eq!(own.read("wmt26/references/en-de.refA.txt"), "Ref.\n".repeat(25));
    assert_eq!(own.read("wmt26/documents/en-de.docs").lines().next(), Some("news\tnews_###_page0"));
    assert_eq!(own.read("wmt26/human-scores/en-de.esa.seg.score").lines().nth(50), Some("South\t80"));
    assert!(own.read("wmt26/human-scores/en-de.esa.ben.seg.rating").contains("South\t{\"errors\":[{"));
    let meta = "meta --testset DIR/wmt26 -l en-de --gold esa --scores judge=DIR/run --stat seg:pearson@none,sys:accuracy";
    let (text, _) = own.run(meta).unwrap();
    assert!(text.contains("judge") && text.contains("20 of 25 segments rated"), "{text}");
    let (text, _) = own.run(&format!("compare DIR/run {raters} -l en-de")).unwrap();
    assert!(text.contains("North 2"), "{text}");
}

#[test]
fn score_files_fit_the_raters_test_set() {
    let own = Participant::new();
    own.score("-l en-de --out DIR/run");
    own.write("eng_Latn---deu_Latn.jsonl", &campaign());
    own.run("export DIR/eng_Latn---deu_Latn.jsonl --as testset --testset DIR/task.jsonl --out DIR/wmt26")
        .unwrap();
    let mtme = "export DIR/run --as mtme --testset DIR/wmt26 --name judge --out DIR/wmt26/metric-scores";
    own.run(mtme).unwrap();
    let scores = own.read("wmt26/metric-scores/en-de/judge-src.seg.score");
    let verdict = own.lines("run/verdicts.jsonl").into_iter().find(|verdict| {
        verdict["system"] == "North 2" && verdict["doc"] == "social_###_page3" && verdict["seg"] == 4
    });
    let score = verdict.unwrap()["score"].as_f64().unwrap();
    assert_eq!(scores.lines().nth(25 + 3 * 5 + 4), Some(format!("North_2\t{score}").as_str()));
    let meta = |scores: &str| {
        let stat = "--stat seg:pearson@none,sys:accuracy --format json";
        let (text, _) =
            own.run(&format!("meta --testset DIR/wmt26 -l en-de --gold esa {scores} {stat}")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        // The number of units that a mean left out is missing from a file of scores.
        value["result"].to_string().replace("judge-src", "judge")
    };
    assert_eq!(meta("--metrics judge"), meta("--metrics none --scores judge=DIR/run"));
}

#[test]
fn submissions_are_checked_by_line_and_field() {
    let own = Participant::new();
    own.score("-l en-de --out DIR/run");
    let export = "export DIR/run --as wmt26 --testset DIR/task.jsonl --out DIR/submission.jsonl";
    assert!(own.run(export).unwrap().1);
    assert_eq!(own.lines("submission.jsonl").len(), 25, "the items of one pair");
    let damaged = |damage: &dyn Fn(&mut Vec<Value>)| {
        let mut lines = own.lines("submission.jsonl");
        damage(&mut lines);
        own.write("damaged.jsonl", &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
        let (text, is_accepted) = own.run("verify DIR/damaged.jsonl --testset DIR/task.jsonl").unwrap();
        assert!(!is_accepted, "{text}");
        text
    };
    let span = json!({ "start": 3, "end": 99, "severity": "grave" });
    let text = damaged(&|lines| {
        lines[0]["task1_pred"]["South"]["errors"] =
            json!([span, { "start": 4, "end": 4, "severity": "minor" }]);
        lines[1]["task2_pred"]["South"] = json!(101);
        lines[2]["task3_pred"]["South"] = json!(true);
        lines[3]["task1_pred"]["South"]["omission"] = json!("critical");
        lines[4]["task2_pred"].as_object_mut().unwrap().remove("South");
        lines[5]["task2_pred"]["Elsewhere"] = json!(7);
        lines[6]["note"] = json!("mine");
        lines[7].as_object_mut().unwrap().remove("task3_pred");
        lines[8]["item_id"] = json!("en-is_IS_#_news_#_a_#_0");
        lines[9]["item_id"] = lines[10]["item_id"].clone();
    });
    insta::assert_snapshot!(text, @r####"
    `DIR/damaged.jsonl` line 1: `task1_pred.South.errors[0].end` is 99, but the translation has 24 characters
    `DIR/damaged.jsonl` line 1: `task1_pred.South.errors[0].severity` is neither "minor" nor "major"
    `DIR/damaged.jsonl` line 1: `task1_pred.South.errors[1].end` is 4, but the span begins at 4; `end` is behind its last character
    `DIR/damaged.jsonl` line 2: `task2_pred.South` is 101, not a number from 0 to 100
    `DIR/damaged.jsonl` line 3: `task3_pred.South` is true, neither 0 nor 1
    `DIR/damaged.jsonl` line 4: `task1_pred.South.omission` is "critical", not null, "minor" or "major"
    `DIR/damaged.jsonl` line 5: `task2_pred` lacks the system `South`
    `DIR/damaged.jsonl` line 6: `task2_pred.Elsewhere` is no system of this item
    `DIR/damaged.jsonl` line 7: `note` is no field of a submission, which has `item_id`, `task1_pred`, `task2_pred`, `task3_pred`
    `DIR/damaged.jsonl` line 8: `task3_pred` is missing, but other lines have it
    `DIR/damaged.jsonl` line 9: `item_id` is `en-is_IS_#_news_#_a_#_0`, which the task's file does not have
    `DIR/damaged.jsonl` line 11: `item_id` is that of line 10 too: `official_###_eng_Latn_###_deu_Latn_###_news_###_page2_###_0`
    `DIR/damaged.jsonl`: `item_id` is missing: `official_###_eng_Latn_###_deu_Latn_###_social_###_page1_###_3` of `DIR/task.jsonl` line 9 (and 1 more)
    not accepted: 25 items, 96 task1_pred, 95 task2_pred, 92 task3_pred
    "####);
}

#[test]
fn a_submission_is_for_the_file_that_was_judged() {
    let own = Participant::new();
    own.score("-l en-de --out DIR/run");
    let wrong = |args: &str| own.run(args).unwrap_err();
    own.write("old.jsonl", "{\"doc_id\":\"en-de_#_news_#_a\",\"src_text\":\"One.\"}\n");
    insta::assert_snapshot!(wrong("export DIR/run --as wmt26 --testset DIR/old.jsonl --out DIR/s.jsonl"), @"
    `DIR/old.jsonl` line 1: the field `item_id` is missing
    hint: a line of the task's file has `item_id`, `src` and `hyps`; files of the general task and of earlier years have `doc_id`
    ");
    insta::assert_snapshot!(wrong("export DIR/run --as wmt26 --out DIR/s.jsonl"), @"
    a submission is written for the items of the task's file
    hint: add `--testset mteval-test26.jsonl`, the file that the run judged
    ");
    own.write("other.jsonl", &own.read("task.jsonl").replacen("ist hoch", "ist lang", 1));
    insta::assert_snapshot!(wrong("export DIR/run --as wmt26 --testset DIR/other.jsonl --out DIR/s.jsonl"), @"
    `DIR/other.jsonl` line 1: `hyps.North 2` is not the translation that the run judged
    hint: give the task's file that the run judged
    ");
    own.write(
        "less.jsonl",
        &own.read("task.jsonl").lines().skip(1).map(|line| format!("{line}\n")).collect::<String>(),
    );
    insta::assert_snapshot!(wrong("export DIR/run --as wmt26 --testset DIR/less.jsonl --out DIR/s.jsonl"), @"
    segment 1 (id 0) of document `news_###_page0` by `East-9B` is not in `DIR/less.jsonl`
    hint: give the task's file that the run judged; another year's has other ids
    ");
    insta::assert_snapshot!(wrong("export DIR/run --as testset --out DIR/testset"), @"
    a test set is made of human annotations
    hint: `--as mtme` writes a run's scores for a test set
    ");
}

#[cfg(unix)]
#[test]
fn the_hubs_cache_has_models_by_their_public_names() {
    let own = Participant::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let folder = own.at("hf/hub/models--lab--tiny");
    let snapshot = folder.join("snapshots").join(commit);
    for dir in [&folder.join("refs"), &folder.join("blobs"), &snapshot] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(folder.join("refs/main"), commit).unwrap();
    for entry in fs::read_dir(tiny("qwen2")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        fs::copy(&path, folder.join("blobs").join(format!("sha-{name}"))).unwrap();
        std::os::unix::fs::symlink(format!("../../blobs/sha-{name}"), snapshot.join(name)).unwrap();
    }
    let judge = |model: &str, out: &str, variable: (&str, &str)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
        command.current_dir(own.0.path()).env("TRIBUNAL_HOME", own.at("home"));
        command.env_remove("HF_HOME").env_remove("HF_HUB_CACHE").env(variable.0, own.at(variable.1));
        command.args(
            "score --input task.jsonl -l en-de --limit 2 --method gemba-esa:shots=0 --prompts prompts"
                .split(' '),
        );
        command
            .args("--max-tokens 120 --kv-cache 16MiB --language-check off --quiet --model".split(' '))
            .args([model, "--out", out]);
        said(command)
    };
    for (model, out, variable) in [
        ("hf:lab/tiny".to_owned(), "by-name", ("HF_HOME", "hf")),
        (format!("hf:lab/tiny@{commit}"), "by-commit", ("HF_HUB_CACHE", "hf/hub")),
        (tiny("qwen2").display().to_string(), "by-path", ("HF_HOME", "hf")),
    ] {
        let (code, text) = judge(&model, out, variable);
        assert!(matches!(code, 0 | 1), "{text}");
    }
    assert_eq!(own.read("by-name/verdicts.jsonl"), own.read("by-path/verdicts.jsonl"));
    assert_eq!(own.read("by-name/verdicts.jsonl"), own.read("by-commit/verdicts.jsonl"));
    let model = |out: &str| -> Value {
        let run: Value = serde_json::from_str(&own.read(&format!("{out}/run.json"))).unwrap();
        run["origin"]["models"][0].clone()
    };
    assert_eq!(model("by-name")["sha256"], model("by-path")["sha256"]);
    assert_eq!(model("by-name")["revision"], commit);
    let (code, text) = judge("hf:lab/other", "nowhere", ("HF_HOME", "hf"));
    assert!(
        code == 2 && text.contains("nor in the hub's cache") && text.contains("`hf download lab/other`"),
        "{text}"
    );
}

/// An MQM TSV has penalties, without a run that names their scale.
#[test]
fn penalties_of_raters_are_on_the_scale_of_the_task() {
    let own = Participant::new();
    let header = "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\n";
    let row = |seg: usize, target: &str, severity: &str| {
        format!("South\tnews_###_page0\t{seg}\t0\tr\tThe hill 0{seg}.\t{target}\tStyle\t{severity}\n")
    };
    let marked = hypothesis(0, 0, 0, 1).replacen("Der", "<v>Der</v>", 1);
    let rows = [row(0, &marked, "Minor"), row(1, &hypothesis(0, 0, 1, 1), "No-error")];
    own.write("raters.tsv", &format!("{header}{}", rows.concat()));
    own.run("export DIR/raters.tsv -l en-de --as wmt26 --testset DIR/task.jsonl --out DIR/s.jsonl").unwrap();
    let lines = own.lines("s.jsonl");
    let of = |line: usize| {
        (lines[line]["task2_pred"]["South"].clone(), lines[line]["task3_pred"]["South"].clone())
    };
    assert_eq!([of(0), of(1)], [(json!(2500.0 / 26.0), json!(0)), (json!(100.0), json!(1))]);
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let own = Participant::new();
    own.score("-l en-de --out DIR/run");
    let export = "export DIR/run --as wmt26 --testset DIR/task.jsonl --out DIR/s.jsonl";
    assert!(own.run(export).unwrap().1);
    let wrong = |args: &str| own.run(args).unwrap_err();
    assert!(wrong(&format!("{export} --threshold nan")).contains("it must be a number from 0 to 100"));
    assert!(wrong("export DIR/run --as csv --threshold 90 --out DIR/s.csv").contains("`--as wmt26`"));
    let verify = "verify DIR/s.jsonl --testset DIR/task.jsonl";
    for option in ["--model m", "--seed 1", "--threads 2"] {
        assert!(wrong(&format!("{verify} {option}")).contains("cannot be used with"), "{option}");
    }
    let (text, _) = own.run(&format!("{verify} --format json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["n_items"], &report["n_problems"]), (&json!(25), &json!(0)));
    assert!(wrong("verify DIR/s.jsonl").contains("name the task's file with `--testset`"));
}

#[test]
fn raters_whose_files_would_be_the_same_are_refused() {
    let own = Participant::new();
    own.write("eng_Latn---deu_Latn.jsonl", &campaign().replace("anna", "a 1").replace("ben", "a_1"));
    let export = "export DIR/eng_Latn---deu_Latn.jsonl --as testset --testset DIR/task.jsonl --out DIR/wmt26";
    let said = own.run(export).unwrap_err();
    assert!(said.contains("\"a 1\"") && said.contains("\"a_1\""), "{said}");
}
