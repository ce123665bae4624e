//! `--limit` and `--subset`: fewer verdicts, and the same ones.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use tribunal::{
    judges::{Grouping, Judge, Panel, Settings, Unit},
    llm::{Chat, Reply, Sampling},
    run::{self, Outcome, RunConfig, Selection, Shard},
    segment::Segment,
};

use crate::fakes::{Rule, TinyJudge, panel, segments};

fn options(out: &Path, selection: Selection) -> RunConfig {
    RunConfig { selection, jobs: 3, ..RunConfig::new(out) }
}

/// FSP over the input, and its prompts.
fn fsp(segments: &[Segment], granularity: &str, selection: Selection) -> (String, BTreeSet<String>) {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { granularity: Some(granularity.parse().unwrap()), ..Settings::default() };
    let judge = tribunal::replication::build("fsp:score=da,shots=0", &settings).unwrap();
    let prompts = Arc::new(Mutex::new(BTreeSet::new()));
    let asked = prompts.clone();
    // Says of a prompt what only this very prompt gets.
    let echo = move |chat: &Chat| {
        let prompt = &chat.messages()[0].content;
        let quality = prompt.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte)) % 101;
        asked.lock().unwrap().insert(prompt.clone());
        Reply { text: format!("{{\"errors\": [], \"quality_score\": {quality}}}"), ..Reply::default() }
    };
    let panel = Panel::new(Arc::new(Rule(echo)), Sampling::default());
    let signature = "method:fsp".parse().unwrap();
    run::run(&panel, judge.as_ref(), segments, &signature, &options(dir.path(), selection)).unwrap();
    let asked = std::mem::take(&mut *prompts.lock().unwrap());
    (fs::read_to_string(dir.path().join("verdicts.jsonl")).unwrap(), asked)
}

#[test]
fn a_limit_changes_no_verdict_of_a_method_that_sees_documents() {
    let segments = segments();
    for granularity in ["doc", "5doc", "seg"] {
        let (all, all_asked) = fsp(&segments, granularity, Selection::All);
        // The second document is cut in two.
        let limit = Selection::All.first(&segments, 4).unwrap();
        let (some, asked) = fsp(&segments, granularity, limit);
        let whole: BTreeSet<&str> = all.lines().collect();
        assert_eq!(some.lines().count(), 8, "{granularity}");
        assert!(some.lines().all(|line| whole.contains(line)), "{granularity}: {some}\n{all}");
        assert!(
            asked.is_subset(&all_asked) && asked.len() == 8,
            "{granularity}: what is not judged is not asked"
        );
    }
}

fn tiny(dir: &Path, judge: &Judge, selection: Selection) -> Result<Outcome, run::Error> {
    let signature = "method:tiny".parse().unwrap();
    run::run(&panel().0, judge, &segments(), &signature, &options(dir, selection))
}

#[test]
fn a_verdict_on_documents_counts_them_whole() {
    let dir = tempfile::tempdir().unwrap();
    let judge = TinyJudge::about(Unit::Group, Grouping::Document);
    let limit = Selection::All.first(&segments(), 4).unwrap();
    let outcome = tiny(dir.path(), &judge, limit).unwrap();
    let shown: Vec<String> = (outcome.records().unwrap().iter())
        .map(|r| format!("{} {} {}", r.system, r.doc, r.source.lines().count()))
        .collect();
    assert_eq!(shown, ["alpha news 3", "alpha speech 2", "zeta news 3", "zeta speech 2"]);
}

#[test]
fn calls_and_records_of_a_cut_group_belong_together() {
    let dir = tempfile::tempdir().unwrap();
    let segments = segments();
    // The last segment of the second document, and nothing else.
    let wanted = (0..segments.len()).filter(|&i| segments[i].seg == 3 && segments[i].system == "zeta");
    let selection = Selection::Only(wanted.collect());
    let outcome = tiny(dir.path(), &TinyJudge::by(Grouping::Document), selection.clone()).unwrap();
    let records = outcome.records().unwrap();
    let [record] = &records[..] else { panic!("another number of records") };
    assert_eq!((record.seg, record.hypothesis.as_str(), record.n_calls), (Some(3), "Four zeta", 1));
    let calls = run::calls::of_unit(dir.path(), &record.key()).unwrap();
    assert_eq!(calls.len(), 1);
    assert!(calls[0].content.as_ref().unwrap().chat.messages()[0].content.ends_with("Four zeta"));
    assert_eq!(tiny(dir.path(), &TinyJudge::by(Grouping::Document), selection).unwrap().resumed, 1);
}

#[test]
fn a_limit_may_grow_and_not_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let judge = TinyJudge::by(Grouping::Document);
    let limit = |n| Selection::All.first(&segments(), n).unwrap();
    tiny(dir.path(), &judge, limit(3)).unwrap();
    let refused = tiny(dir.path(), &judge, limit(2)).unwrap_err().to_string();
    assert!(refused.contains("4 of 16 segments, systems: 2"), "{refused}");
    assert!(refused.contains("6 of 16 segments, systems: 2"), "{refused}");
    assert!(
        refused.contains("segment 1 (id 0) of document `news` and system `zeta`, or a segment"),
        "{refused}"
    );
    let run: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
    assert_eq!((&run["input"]["segments"], &run["input"]["selected"]), (&16.into(), &6.into()));
    assert_eq!(run["selection"], serde_json::json!([[0, 3], [8, 11]]));
    assert_eq!(tiny(dir.path(), &judge, Selection::All).unwrap().resumed, 6);
}

#[test]
fn shards_of_a_selection_merge() {
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    let judge = TinyJudge::by(Grouping::FiveDocuments);
    let drawn = Selection::All.draw(&segments(), 4, 1, Grouping::Document).unwrap();
    tiny(&whole, &judge, drawn.selection.clone()).unwrap();
    let part = |index: usize| {
        let dir = root.path().join(index.to_string());
        let shard = Shard { index, count: 2 };
        let options = RunConfig { shard, ..options(&dir, drawn.selection.clone()) };
        run::run(&panel().0, &judge, &segments(), &"method:tiny".parse().unwrap(), &options).unwrap();
        dir
    };
    let merged = root.path().join("merged");
    let outcome =
        run::merge(&[part(2), part(1)], &merged, &[], run::merge::Need::Everything).unwrap().outcome;
    assert_eq!(outcome.records().unwrap().len(), 2 * drawn.segments);
    let bytes = |dir: &Path| fs::read(dir.join("verdicts.jsonl")).unwrap();
    assert_eq!(bytes(&whole), bytes(&merged));
}

/// A judge of segments with documents as context alone, or of whole documents at a time.
fn in_documents(asks_apart: bool) -> Judge {
    let mut judge = TinyJudge::by(Grouping::Document);
    judge.asks_apart = asks_apart;
    judge
}

/// The names of the groups of a folder's calls.
fn named(dir: &Path) -> BTreeSet<String> {
    let calls = fs::read_to_string(dir.join("calls.jsonl")).unwrap();
    let group = |line: &str| {
        let call: serde_json::Value = serde_json::from_str(line).unwrap();
        call["group"].as_str().unwrap().to_owned()
    };
    calls.lines().map(group).collect()
}

#[test]
fn segments_that_are_judged_apart_have_the_bytes_of_whole_documents() {
    let root = tempfile::tempdir().unwrap();
    let [whole, apart, grown, merged] =
        ["whole", "apart", "grown", "merged"].map(|name| root.path().join(name));
    let bytes = |dir: &Path| fs::read_to_string(dir.join("verdicts.jsonl")).unwrap();
    tiny(&whole, &in_documents(false), Selection::All).unwrap();
    tiny(&apart, &in_documents(true), Selection::All).unwrap();
    assert_eq!(bytes(&apart), bytes(&whole));
    assert_eq!(named(&apart).len(), segments().len(), "each segment is a group");
    assert!(named(&whole).len() < named(&apart).len());
    // A folder of whole documents goes on by documents.
    let limit = Selection::All.first(&segments(), 3).unwrap();
    tiny(&grown, &in_documents(false), limit).unwrap();
    assert_eq!(tiny(&grown, &in_documents(true), Selection::All).unwrap().resumed, 6);
    assert_eq!((bytes(&grown), named(&grown)), (bytes(&whole), named(&whole)));
    // Shards keep documents together.
    let shards = [1, 2].map(|index| {
        let dir = root.path().join(format!("shard{index}"));
        let options = RunConfig { shard: Shard { index, count: 2 }, ..options(&dir, Selection::All) };
        let signature = "method:tiny".parse().unwrap();
        run::run(&panel().0, &in_documents(true), &segments(), &signature, &options).unwrap();
        dir
    });
    run::merge(&shards, &merged, &[], run::merge::Need::Everything).unwrap();
    assert_eq!((bytes(&merged), named(&merged)), (bytes(&apart), named(&apart)));
    let mixed =
        run::merge(&[whole, shards[0].clone()], &root.path().join("no"), &[], run::merge::Need::Everything);
    assert!(mixed.unwrap_err().to_string().contains("one judged whole documents"));
}
