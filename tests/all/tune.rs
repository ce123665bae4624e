//! `tribunal tune export`: what a trainer is given, and what it must not see.

use std::collections::BTreeSet;

use serde_json::Value;
use tribunal::segment::trained::TrainedOn;

use crate::{
    fakes::{SmallRun, said},
    probe::rated,
};

fn export(small: &SmallRun, out: &str, more: &[&str]) -> (i32, String) {
    let mut command = small.tribunal(&["tune", "export", "--input", "rated.jsonl", "--out", out]);
    command.args(["--granularity", "seg", "--hold-out", "0.3"]).args(more);
    said(command)
}

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

/// The user's turns of a file of examples.
fn questions(text: &str) -> Vec<String> {
    let of = |line: &str| -> String {
        let line: Value = serde_json::from_str(line).unwrap();
        let turns = line["messages"].as_array().unwrap();
        assert_eq!(turns.last().unwrap()["role"], "assistant");
        turns.iter().filter_map(|turn| turn["content"].as_str()).collect()
    };
    text.lines().map(of).collect()
}

#[test]
fn examples_are_written_apart_from_what_they_are_tested_on() {
    let small = SmallRun::new(2);
    rated(&small);
    let (code, text) = export(&small, "out", &[]);
    assert_eq!(code, 0, "{text}");
    let (train, held_out) = (small.read("out/train.jsonl"), small.read("out/held_out.jsonl"));
    assert_eq!(train.lines().count() + held_out.lines().count(), 120);
    let (trained, tested) = (small.read("out/trained.txt"), small.read("out/held_out.txt"));
    assert!(lines(&trained).is_disjoint(&lines(&tested)) && lines(&tested).len() > 2, "{tested}");
    for name in lines(&tested) {
        let document = name.strip_prefix("en-de/d").unwrap();
        let told = format!("document {document}\n");
        let has = |text: &str| questions(text).iter().any(|question| question.contains(told.trim_end()));
        assert!(has(&held_out), "{name}");
    }
    let hashes = TrainedOn::parse("it", &small.read("out/trained.sha256")).unwrap();
    let ratings = small.read("rated.jsonl");
    for line in ratings.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let document = format!("en-de/{}", line["document_id"].as_str().unwrap());
        let is_known = hashes.knows(line["source"].as_str().unwrap());
        assert_eq!(is_known, lines(&trained).contains(document.as_str()), "{document}");
    }
    // The same bytes again, and a part of them in the order that the seed draws.
    let (code, text) = export(&small, "again", &["--limit", "5"]);
    assert_eq!(code, 0, "{text}");
    assert!(train.starts_with(&small.read("again/train.jsonl")));
    assert_eq!(small.read("again/train.jsonl").lines().count(), 5);
    assert_eq!(small.read("again/held_out.jsonl"), held_out);
}

#[test]
fn nothing_need_be_held_out() {
    let small = SmallRun::new(2);
    rated(&small);
    let all = [
        "tune",
        "export",
        "--input",
        "rated.jsonl",
        "--out",
        "all",
        "--granularity",
        "seg",
        "--hold-out",
        "0",
    ];
    let (code, text) = said(small.tribunal(&all));
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("all/train.jsonl").lines().count(), 120);
    assert_eq!(
        (small.read("all/held_out.jsonl"), small.read("all/held_out.txt")),
        (String::new(), String::new())
    );
}
