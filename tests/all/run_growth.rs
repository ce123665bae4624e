//! Runs that continue with other settings than they began with: with more units, as another shard, with units
//! asked again, with their calls kept in another way. The verdicts are those of a run that began so.

use std::{fs, path::Path, sync::atomic::Ordering};

use tribunal::{
    judges::{Grouping, Judge, Panel},
    llm::{Chat, Finish, Reply, Sampling, Usage},
    run::{
        self, CallRetention, Error, Outcome, RunConfig, Selection, Shard, Status, Task, call::CallLine,
        merge::Need,
    },
    segment::{Corpus, Segment},
    signature::Signature,
};

use crate::fakes::{Chain, Numbers, Rule, TinyJudge, models, options, panel, segments};

fn go(panel: &Panel, judge: &Judge, segments: &[Segment], config: &RunConfig) -> Result<Outcome, Error> {
    let signature: Signature = "method:tiny|seed:0".parse().unwrap();
    let segments = &Corpus::from_segments(segments.iter().cloned()).unwrap();
    Task { panel, judge, segments, signature: &signature }.run(config)
}

fn plain(segments: &[Segment], grouping: Grouping, options: &RunConfig) -> Result<Outcome, Error> {
    go(&panel().0, &TinyJudge::by(grouping), segments, options)
}

fn bytes(dir: &Path) -> String {
    fs::read_to_string(dir.join("verdicts.jsonl")).unwrap()
}

/// The calls of a folder, without what is chance about them: their order and times.
fn calls(dir: &Path) -> Vec<String> {
    let timeless = |call: Result<CallLine, Error>| {
        let call = CallLine { seconds: 0.0, usage: Usage::default(), ..call.unwrap() };
        serde_json::to_string(&call).unwrap()
    };
    let mut calls: Vec<String> = run::calls::read(dir).unwrap().map(timeless).collect();
    calls.sort();
    calls
}

#[test]
fn more_systems_and_a_larger_limit_ask_only_what_is_new() {
    let root = tempfile::tempdir().unwrap();
    let (grown, whole) = (root.path().join("grown"), root.path().join("whole"));
    let all = segments();
    plain(&all, Grouping::Document, &options(&whole)).unwrap();
    // One system, three segments of it; then all of it; then both.
    let one = &all[..8];
    let limit = RunConfig { selection: Selection::All.first(one, 3).unwrap(), ..options(&grown) };
    plain(one, Grouping::Document, &limit).unwrap();
    let (panel, model) = panel();
    let judge = TinyJudge::by(Grouping::Document);
    let outcome = go(&panel, &judge, one, &options(&grown)).unwrap();
    assert_eq!((outcome.resumed, model.asked.load(Ordering::SeqCst)), (3, 4), "one cannot be parsed unasked");
    plain(&all, Grouping::Document, &options(&grown)).unwrap();
    assert_eq!(bytes(&grown), bytes(&whole));
    assert_eq!(calls(&grown), calls(&whole));
    let inputs = |dir: &Path| fs::read_to_string(dir.join("input.jsonl")).unwrap();
    assert_eq!(inputs(&grown), inputs(&whole));
}

#[test]
fn what_would_change_a_verdict_is_no_growth() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("run");
    let refused = |segments: &[Segment], grouping| {
        let error = plain(segments, grouping, &options(&dir)).unwrap_err().to_string();
        error.lines().nth(1).unwrap().to_owned()
    };
    let all = segments();
    plain(&all[..8], Grouping::Source, &options(&dir)).unwrap();
    let said = refused(&all, Grouping::Source);
    assert_eq!(
        said,
        "segment 1 (id 0) of document `news` and system `zeta` is judged with other segments, or not at all"
    );
    fs::remove_dir_all(&dir).unwrap();
    plain(&all[..8], Grouping::Document, &options(&dir)).unwrap();
    let mut other = all.clone();
    other[1].reference = Some("a reference".into());
    let said = refused(&other, Grouping::Document);
    assert!(said.starts_with("the text of segment 1 (id 0) of document `news`"), "{said}");
    fs::remove_file(dir.join("input.jsonl")).unwrap();
    assert_eq!(refused(&all, Grouping::Document), "the folder keeps no copy of its input to compare with");
}

#[test]
fn a_folder_may_take_another_share_of_the_work() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let all = segments();
    plain(&all, Grouping::Segment, &options(&at("whole"))).unwrap();
    let part = |name: &str, index, count| {
        let options = RunConfig { shard: Shard { index, count }, ..options(&at(name)) };
        plain(&all, Grouping::Segment, &options).unwrap()
    };
    part("one", 1, 3);
    part("one", 1, 2);
    part("two", 2, 2);
    let merged = run::merge(&[at("two"), at("one")], &at("merged"), &[], Need::Everything).unwrap();
    assert_eq!(merged.missing, None);
    assert_eq!(bytes(&at("merged")), bytes(&at("whole")));
    assert_eq!(calls(&at("merged")), calls(&at("whole")), "units judged twice have their calls once");
    plain(&all, Grouping::Segment, &options(&at("one"))).unwrap();
    assert_eq!(bytes(&at("one")), bytes(&at("whole")));
}

#[test]
fn a_partial_merge_can_be_continued() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let all = segments();
    for index in [1, 3] {
        let options = RunConfig { shard: Shard { index, count: 3 }, ..options(&at(&index.to_string())) };
        plain(&all, Grouping::Segment, &options).unwrap();
    }
    let merged = run::merge(&[at("1"), at("3")], &at("merged"), &[], Need::WhatIsThere).unwrap();
    assert!(merged.missing.unwrap().starts_with("5 of 16 segments are missing"));
    assert!(!at("merged").join("verdicts.jsonl").exists(), "part of a run would pass for all of it");
    let outcome = plain(&all, Grouping::Segment, &options(&at("merged"))).unwrap();
    assert_eq!((outcome.resumed, outcome.records().unwrap().len()), (11, 16));
    plain(&all, Grouping::Segment, &options(&at("whole"))).unwrap();
    assert_eq!(bytes(&at("merged")), bytes(&at("whole")));
}

/// A model whose greedy answers to some prompts are no numbers, and whose warmer ones are.
fn moody() -> Panel {
    let answer = |chat: &Chat, sampling: &Sampling| {
        let is_bad = chat.messages()[0].content.contains("Four") && sampling.temperature == 0.0;
        let text = if is_bad { "four" } else { "4" };
        Reply { text: text.into(), finish: Finish::Stop, ..Reply::default() }
    };
    Panel::new(std::sync::Arc::new(crate::fakes::Sampled(answer)), Sampling::default())
}

#[test]
fn missing_units_are_asked_again_and_the_others_are_not() {
    let root = tempfile::tempdir().unwrap();
    let (first, at_once) = (root.path().join("first"), root.path().join("at-once"));
    let judge = TinyJudge::by(Grouping::Document);
    let all = segments();
    let retry = |out: &Path| RunConfig { retry_missing: true, ..options(out) };
    let before = go(&moody(), &judge, &all, &options(&first)).unwrap();
    assert_eq!(before.summary.statuses[&Status::Unparsable], 4);
    let before = before.records().unwrap();
    let after = go(&moody(), &judge, &all, &retry(&first)).unwrap();
    // The document with `Four` also has the segment that nothing can be made of.
    assert_eq!((after.resumed, after.summary.statuses[&Status::Unparsable]), (12, 2));
    assert!(after.summary.signature.ends_with("|retry:missing"), "{}", after.summary.signature);
    for (a, b) in before.iter().zip(&after.records().unwrap()).filter(|(a, _)| a.status == Status::Ok) {
        assert_eq!(a, b);
    }
    go(&moody(), &judge, &all, &retry(&at_once)).unwrap();
    assert_eq!(bytes(&first), bytes(&at_once));
    let again = go(&moody(), &judge, &all, &retry(&first)).unwrap();
    assert_eq!(again.resumed, 16, "what has been asked again once is not asked a third time");
    let refused = go(&moody(), &judge, &all, &options(&first)).unwrap_err().to_string();
    assert!(refused.contains("retry: `missing` there, not set now"), "{refused}");
}

#[test]
fn calls_are_kept_as_asked_whatever_was_kept_before() {
    let dir = tempfile::tempdir().unwrap();
    let all = segments();
    let judge = TinyJudge::by(Grouping::Segment);
    let kept = |calls| RunConfig { calls, ..options(dir.path()) };
    let (broken, _) = models(Numbers { fails_after: Some(5), ..Numbers::default() });
    go(&broken, &judge, &all, &kept(CallRetention::Plain)).unwrap();
    go(&panel().0, &judge, &all, &kept(CallRetention::Zstd)).unwrap();
    assert!(!dir.path().join("calls.jsonl").exists());
    let whole = tempfile::tempdir().unwrap();
    plain(&all, Grouping::Segment, &options(whole.path())).unwrap();
    let packed = fs::read(dir.path().join("calls.jsonl.zst")).unwrap();
    assert_eq!(calls(dir.path()), calls(whole.path()));
    // A frame that was cut off takes nothing with it but itself.
    fs::write(dir.path().join("calls.jsonl.zst"), &packed[..packed.len() - 3]).unwrap();
    go(&panel().0, &judge, &all, &kept(CallRetention::Zstd)).unwrap();
    assert!(calls(dir.path()).len() >= calls(whole.path()).len() - 1);
    assert_eq!(bytes(dir.path()), bytes(whole.path()));
}

#[test]
fn looking_at_a_finished_run_changes_nothing_in_it() {
    let dir = tempfile::tempdir().unwrap();
    plain(&segments(), Grouping::Document, &options(dir.path())).unwrap();
    let stamps = || -> Vec<_> {
        let names =
            ["run.json", "journal.jsonl", "calls.jsonl", "verdicts.jsonl", "summary.json", "input.jsonl"];
        names.map(|name| fs::metadata(dir.path().join(name)).unwrap().modified().unwrap()).into()
    };
    let before = stamps();
    std::thread::sleep(std::time::Duration::from_millis(20));
    plain(&segments(), Grouping::Document, &options(dir.path())).unwrap();
    assert_eq!(stamps(), before);
}

#[test]
fn units_are_finished_one_after_the_other() {
    // Eight groups of four questions each are begun at once, and the model answers one question at a time.
    // Asked in turns, all of them would be finished at the end together.
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = asked.clone();
    let model = Rule(move |chat: &Chat| {
        let question = chat.messages()[0].content.clone();
        std::thread::sleep(std::time::Duration::from_millis(5));
        heard.lock().unwrap().push(question.split("of ").nth(1).unwrap().to_owned());
        Reply { text: "abc".into(), finish: Finish::Stop, ..Reply::default() }
    });
    let panel = Panel::new(std::sync::Arc::new(model), Sampling::default());
    let dir = tempfile::tempdir().unwrap();
    let config = RunConfig { questions: 1, jobs: 8, ..options(dir.path()) };
    go(&panel, &Chain::judge(), &segments()[..8], &config).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    let mut most_open = 0;
    for group in asked.lock().unwrap().iter() {
        *counts.entry(group.clone()).or_insert(0) += 1;
        most_open = most_open.max(counts.values().filter(|n| **n < 4).count());
    }
    assert_eq!(counts.values().sum::<i32>(), 32);
    assert!(most_open <= 4, "{most_open} groups were begun and not finished");
}
