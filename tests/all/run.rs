//! Runs against a scripted model: the bytes of `verdicts.jsonl` do not depend on jobs, shards or kills.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use proptest::prelude::*;
use tribunal::{
    judges::{Grouping, Unit, method::Calls},
    run::{self, CallRetention, Error, Outcome, RunConfig, Shard, Status, calls, merge::Need},
    segment::Segment,
    signature::Signature,
};

use crate::fakes::{Numbers, TinyJudge, models, panel, segments, verdicts};

fn options(out: &Path) -> RunConfig {
    RunConfig { command: vec!["tribunal".into(), "score".into()], ..RunConfig::new(out) }
}

fn signature() -> Signature {
    "method:tiny|model:scripted|seed:0".parse().unwrap()
}

fn go(segments: &[Segment], options: &RunConfig) -> Result<Outcome, Error> {
    run::run(&panel().0, &TinyJudge::by(Grouping::Document), segments, &signature(), options)
}

fn bytes(dir: &Path) -> String {
    fs::read_to_string(dir.join("verdicts.jsonl")).unwrap()
}

/// Error message of a run that cannot be made.
fn message(dir: &Path, result: Result<Outcome, Error>) -> String {
    let error = result.unwrap_err();
    let said = tribunal::console::hints::text(&error).unwrap_or_else(|| error.to_string());
    said.replace(&dir.display().to_string(), "DIR")
}

#[test]
fn a_run_folder() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = go(&segments(), &options(dir.path())).unwrap();
    assert!(!outcome.complete());
    insta::assert_snapshot!("verdicts", bytes(dir.path()));
    let mut run: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
    run["input"]["sha256"] = "HASH".into();
    insta::assert_snapshot!("run.json", serde_json::to_string_pretty(&run).unwrap());
    let mut summary = outcome.summary.clone();
    summary.cost.call_seconds = 0.0;
    summary.cost.wall_seconds = 0.0;
    insta::assert_snapshot!("summary.json", serde_json::to_string_pretty(&summary).unwrap());
    let calls = fs::read_to_string(dir.path().join("calls.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(calls.lines().next().unwrap()).unwrap();
    let keys: Vec<&String> = first.as_object().unwrap().keys().collect();
    insta::assert_snapshot!(format!("{keys:?}"), @r#"["group", "system", "doc", "seg", "role", "stage", "prompt_sha256", "chat", "sampling", "reply", "tokens", "pieces", "logprobs", "finish", "usage", "seconds"]"#);
    assert_eq!(calls.lines().count(), 14, "two of them about what is too long for the model");
    assert_eq!(verdicts(dir.path()), outcome.records().unwrap());
}

#[test]
fn jobs_change_no_byte() {
    let (one, eight) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    go(&segments(), &options(one.path())).unwrap();
    go(&segments(), &RunConfig { jobs: 8, ..options(eight.path()) }).unwrap();
    assert_eq!(bytes(one.path()), bytes(eight.path()));
}

#[test]
fn a_finished_run_asks_nothing_again() {
    let dir = tempfile::tempdir().unwrap();
    go(&segments(), &options(dir.path())).unwrap();
    let before = bytes(dir.path());
    let (panel, model) = panel();
    let again =
        run::run(&panel, &TinyJudge::by(Grouping::Document), &segments(), &signature(), &options(dir.path()));
    assert_eq!(again.unwrap().resumed, 16);
    assert_eq!(model.asked.load(Ordering::SeqCst), 0);
    assert_eq!(bytes(dir.path()), before);
}

#[test]
fn failures_of_the_engine_are_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let (broken, _) = models(Numbers { fails_after: Some(5), ..Numbers::default() });
    let judge = TinyJudge::by(Grouping::Segment);
    let first = run::run(&broken, &judge, &segments(), &signature(), &options(dir.path())).unwrap();
    assert_eq!(first.summary.statuses[&Status::Failed], 9);
    let reason =
        first.records().unwrap().iter().find_map(|r| r.reason.clone().filter(|_| r.status == Status::Failed));
    assert_eq!(reason.unwrap(), "the engine failed: out of luck");
    run::run(&panel().0, &judge, &segments(), &signature(), &options(dir.path())).unwrap();
    let whole = tempfile::tempdir().unwrap();
    run::run(&panel().0, &judge, &segments(), &signature(), &options(whole.path())).unwrap();
    assert_eq!(bytes(dir.path()), bytes(whole.path()));
}

fn shards(root: &Path, count: usize, grouping: Grouping) -> Vec<PathBuf> {
    let of = |index: usize| {
        let dir = root.join(format!("shard{index}"));
        let options = RunConfig { shard: Shard { index, count }, jobs: 2, ..options(&dir) };
        run::run(&panel().0, &TinyJudge::by(grouping), &segments(), &signature(), &options).unwrap();
        dir
    };
    (1..=count).map(of).collect()
}

#[test]
fn merged_shards_are_the_unsharded_run() {
    for grouping in [Grouping::Segment, Grouping::Document, Grouping::FiveDocuments, Grouping::Source] {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole");
        let judge = TinyJudge::by(grouping);
        run::run(&panel().0, &judge, &segments(), &signature(), &options(&whole)).unwrap();
        let mut parts = shards(dir.path(), 3, grouping);
        parts.reverse();
        let merged = dir.path().join("merged");
        run::merge(&parts, &merged, &["tribunal".into(), "merge".into()], Need::Everything).unwrap();
        assert_eq!(bytes(&whole), bytes(&merged), "{grouping:?}");
        let calls = |dir: &Path| fs::read_to_string(dir.join("calls.jsonl")).unwrap().lines().count();
        assert_eq!(calls(&whole), calls(&merged));
        assert_eq!(go_on(&merged, grouping).resumed, 16, "a merged folder is a whole run");
    }
}

fn go_on(dir: &Path, grouping: Grouping) -> Outcome {
    run::run(&panel().0, &TinyJudge::by(grouping), &segments(), &signature(), &options(dir)).unwrap()
}

#[test]
fn what_cannot_be_merged() {
    let root = tempfile::tempdir().unwrap();
    let parts = shards(root.path(), 3, Grouping::Segment);
    let merge = |dirs: &[&PathBuf], out: &str| {
        let dirs: Vec<PathBuf> = dirs.iter().map(|dir| (*dir).clone()).collect();
        message(
            root.path(),
            run::merge(&dirs, &root.path().join(out), &[], Need::Everything).map(|merged| merged.outcome),
        )
    };
    insta::assert_snapshot!(merge(&[&parts[0], &parts[2]], "m1"), @"
    5 of 16 segments are missing from these folders, the first being 2 of document `news` and system `alpha`
    hint: finish these shards first: 2/3; or add `--partial`
    ");
    let apart = root.path().join("apart");
    fs::create_dir(&apart).unwrap();
    fs::copy(parts[0].join("run.json"), apart.join("run.json")).unwrap();
    // Two segments were judged at a time, so the journal may begin with either.
    let mut records = run::journal::records(&parts[0]).unwrap().map(Result::unwrap);
    let record = records.find(|record| record.doc == "news" && record.system == "zeta").unwrap();
    let line = run::journal::json(&record).replacen("\"score\":-", "\"score\":-1", 1);
    let line = run::with_checksum(&line);
    fs::write(apart.join("journal.jsonl"), line + "\n").unwrap();
    insta::assert_snapshot!(merge(&[&parts[0], &parts[1], &apart], "m2"), @"
    `DIR/shard1` and `DIR/apart` hold different verdicts on segment 2 of document `news` and system `zeta`
    hint: the same signature gives the same verdict, so one of them was changed or made by a faulty machine; `tribunal verify` tells which
    ");
    let other = root.path().join("other");
    let options = RunConfig { shard: Shard { index: 2, count: 2 }, ..options(&other) };
    let judge = TinyJudge::by(Grouping::Segment);
    let seed_1 = signature().with("seed", "1");
    run::run(&panel().0, &judge, &segments()[..9], &seed_1, &options).unwrap();
    insta::assert_snapshot!(merge(&[&parts[0], &other], "m3"), @"
    `DIR/shard1` and `DIR/other` are not parts of the same run:
      seed: `0` in the first, `1` in the second
      they judged different inputs
    hint: merge only the shards of one command
    ");
    insta::assert_snapshot!(merge(&[&root.path().join("nothing")], "m4"), @"
    `DIR/nothing` has no `run.json`, so it is not a run folder
    hint: run folders are what `tribunal score` writes
    ");
}

#[test]
fn another_run_in_the_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    go(&segments(), &options(dir.path())).unwrap();
    let before = bytes(dir.path());
    let judge = TinyJudge::by(Grouping::Document);
    let other = signature().with("seed", "1").with("temp", "0.5");
    let refused = run::run(&panel().0, &judge, &segments(), &other, &options(dir.path()));
    insta::assert_snapshot!(message(dir.path(), refused), @"
    `DIR` holds a run with a different signature:
      seed: `0` there, `1` now
      temp: not set there, `0.5` now
    hint: use another folder, or the options of that run
    ");
    let refused = message(dir.path(), go(&segments()[..3], &options(dir.path())));
    insta::assert_snapshot!(mask_hashes(&refused), @"
    `DIR` holds a run on a different input: 16 segments, systems: 2, sha256 `HASH` there, 3 segments, systems: 1, sha256 `HASH` now
    segment 4 (id 3) of document `speech` and system `zeta` is judged with other segments, or not at all
    hint: use another folder; a run may only grow, by more systems or a larger limit
    ");
    assert_eq!(bytes(dir.path()), before);
}

fn mask_hashes(text: &str) -> String {
    let mut parts: Vec<&str> = text.split('`').collect();
    for part in &mut parts {
        if part.len() == 12 && part.chars().all(|c| c.is_ascii_hexdigit()) {
            *part = "HASH";
        }
    }
    parts.join("`")
}

#[test]
fn a_folder_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let held = run::folder::Folder::open(dir.path()).unwrap();
    let said = message(dir.path(), go(&segments(), &options(dir.path())));
    let by = format!("`DIR` is being written to by process {} on `", std::process::id());
    assert!(said.starts_with(&by) && said.contains("`, since 2"), "{said}");
    assert!(said.ends_with(" UTC\nhint: wait for it to finish, or use another folder"), "{said}");
    drop(held);
    go(&segments(), &options(dir.path())).unwrap();
}

#[test]
fn damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    go(&segments(), &options(dir.path())).unwrap();
    let journal = dir.path().join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, whole.replacen("\"score\"", "\"sc", 1)).unwrap();
    insta::assert_snapshot!(message(dir.path(), go(&segments(), &options(dir.path()))), @"
    `DIR/journal.jsonl` line 1 is damaged: its checksum is that of another line: it was changed
    hint: delete the line; its segment will then be judged again
    ");
    fs::remove_file(dir.path().join("run.json")).unwrap();
    insta::assert_snapshot!(message(dir.path(), go(&segments(), &options(dir.path()))), @"
    `DIR` has no `run.json`, so it is not a run folder
    hint: run folders are what `tribunal score` writes
    ");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    insta::assert_snapshot!(message(dir.path(), go(&segments(), &options(&file))), @"
    `DIR/file` is a file
    hint: a run folder is made where it does not exist
    ");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let record = go(&segments(), &options(dir.path())).unwrap().records().unwrap().remove(0);
    let full = || fs::File::options().append(true).open("/dev/full").unwrap();
    let calls =
        calls::Calls { file: full(), retention: CallRetention::Plain, path: "out/calls.jsonl".into() };
    let mut journal = run::journal::Journal { records: full(), calls, path: "out/journal.jsonl".into() };
    journal.append(&[], Vec::new()).unwrap();
    insta::assert_snapshot!(journal.append(&[record], Vec::new()).unwrap_err(), @"
    cannot append to `out/journal.jsonl`: No space left on device (os error 28)
    hint: everything judged so far is safe; free some space and run the same command again to continue
    ");
}

#[test]
fn a_verdict_on_a_whole_document() {
    let dir = tempfile::tempdir().unwrap();
    let judge = TinyJudge::about(Unit::Group, Grouping::FiveDocuments);
    let outcome = run::run(&panel().0, &judge, &segments(), &signature(), &options(dir.path())).unwrap();
    let records = outcome.records().unwrap();
    let shown: Vec<String> =
        records.iter().map(|r| format!("{} {:?} {:?} {}", r.system, r.doc, r.seg, r.n_calls)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    alpha "news+5+chat+speech" None 0
    zeta "news+5+chat+speech" None 0
    "#);
    assert_eq!(outcome.records().unwrap()[0].source.lines().count(), 8);
}

#[test]
fn a_plan_counts_without_asking() {
    let dir = tempfile::tempdir().unwrap();
    let (panel, model) = panel();
    let judge = TinyJudge::by(Grouping::Document);
    let calls = Calls::exactly(1);
    let options = options(&dir.path().join("never"));
    let plan = run::plan(&panel, &judge, calls, &segments(), &options).unwrap();
    let rows: Vec<String> = plan.rows().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let amounts: Vec<String> = plan.amounts(None).iter().map(|row| row.join(" | ")).collect();
    insta::assert_snapshot!([rows, amounts, plan.notes()].concat().join("\n"), @"
    translations: 16
    groups judged together: 8
    verdicts: 16
    longest prompt, tokens: 31
    longest prompt and answer, tokens: 1055
     | least | most
    model calls | 14 | 14
    prompt tokens, as sent | 317 | 317
    prompt tokens, shared ones once | - | -
    answer tokens | 0 | 14336
    every call is known, since none depends on an answer; answers: least as short as can be, most as long as their budgets
    ");
    assert_eq!(model.asked.load(Ordering::SeqCst), 0);
    assert!(!dir.path().join("never").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A kill leaves a journal cut at any byte, and calls cut at any other.
    #[test]
    fn killed_and_resumed_is_never_killed(cut in 0.0..1.0_f64, calls_cut in 0.0..1.0_f64, jobs in 1_usize..5) {
        let dir = tempfile::tempdir().unwrap();
        let whole = go(&segments(), &RunConfig { jobs, ..options(dir.path()) }).unwrap();
        let (before, judged) = (bytes(dir.path()), whole.records().unwrap());
        for (name, cut) in [("journal.jsonl", cut), ("calls.jsonl", calls_cut)] {
            let path = dir.path().join(name);
            let content = fs::read(&path).unwrap();
            fs::write(&path, &content[..(content.len() as f64 * cut) as usize]).unwrap();
        }
        fs::remove_file(dir.path().join("verdicts.jsonl")).unwrap();
        let resumed = go(&segments(), &RunConfig { jobs, ..options(dir.path()) }).unwrap();
        prop_assert_eq!(bytes(dir.path()), before);
        prop_assert!(resumed.resumed < judged.len());
        prop_assert_eq!(resumed.records().unwrap(), judged);
    }
}
