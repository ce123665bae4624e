//! Folders whose `calls.jsonl` was damaged: lost calls are found when the run is continued, and judged again.

use std::fs;

use crate::fakes::{SmallRun, said};

fn finished(more: &[&str]) -> SmallRun {
    let small = SmallRun::scoring(1);
    let (code, text) = said(small.score("out", more));
    assert!(matches!(code, 0 | 1), "{text}");
    small
}

/// Damages the calls of a finished run, gives its command again, and checks that the folder is whole; returns
/// the messages.
fn continued(small: &SmallRun, name: &str, damage: impl Fn(&[u8]) -> Vec<u8>, more: &[&str]) -> String {
    let path = small.at("out").join(name);
    let before = small.read("out/verdicts.jsonl");
    let calls = fs::read(&path).unwrap();
    let damaged = damage(&calls);
    assert_ne!(damaged, calls);
    fs::write(&path, damaged).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_ne!(code, 0, "the damage is seen: {text}");
    let (code, told) = said(small.score("out", more));
    assert!(matches!(code, 0 | 1), "{told}");
    assert_eq!(small.read("out/verdicts.jsonl"), before);
    for more in [&["--without-model"][..], &[]] {
        let (code, text) = said(small.tribunal(&[&["verify", "out"], more].concat()));
        assert_eq!(code, 0, "{told}\n{text}");
    }
    // Nothing is judged again a second time.
    let calls = fs::read(&path).unwrap();
    let (_, text) = said(small.score("out", more));
    assert!(!text.contains("judged again"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), calls);
    told
}

/// The bytes with the line of this number, from 1, mapped.
fn line(calls: &[u8], number: usize, map: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let lines = calls.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines.flat_map(|(i, line)| if i + 1 == number { map(line) } else { line.to_vec() }).collect()
}

fn replaced(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(line.to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn a_damaged_line_is_found_and_its_group_judged_again() {
    let small = finished(&[]);
    let of = |number: usize, map: &dyn Fn(&[u8]) -> Vec<u8>| {
        continued(&small, "calls.jsonl", |calls| line(calls, number, map), &[])
    };
    // Structure, a byte that is no text, a prompt, the columns of the tokens.
    let said = of(3, &|line| replaced(line, "\"role\"", "\"ro"));
    assert!(
        said.contains("calls.jsonl` line 3 is damaged: 1 group with 1 verdict will be judged again"),
        "{said}"
    );
    of(5, &|line| [&[0xff], &line[1..]].concat());
    of(1, &|line| replaced(line, "Eins", "Zwei"));
    of(12, &|line| replaced(line, "\"tokens\":[", "\"tokens\":[7,"));
    // A line of zeros, as a disk may leave it: its group follows only from the lines around it.
    let said = of(6, &|line| [&vec![0; line.len() - 1][..], b"\n"].concat());
    assert!(said.contains("line 6 is damaged"), "{said}");
    // A line end that was lost.
    of(2, &|line| line[..line.len() - 1].to_vec());
}

#[test]
fn a_line_that_is_gone_is_missed() {
    let small = finished(&[]);
    let told = continued(&small, "calls.jsonl", |calls| line(calls, 4, |_| Vec::new()), &[]);
    assert!(
        told.contains("calls.jsonl` lacks calls that the journal tells of: 1 group with 1 verdict"),
        "{told}"
    );
    continued(&small, "calls.jsonl", |calls| calls[..calls.len() / 2].to_vec(), &[]);
    fs::remove_file(small.at("out/calls.jsonl")).unwrap();
    let (_, text) = said(small.score("out", &[]));
    assert!(text.contains("calls.jsonl` lacks calls that the journal tells of: "), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_call_is_verified_as_it_is_written() {
    let small = finished(&[]);
    let calls = small.read("out/calls.jsonl");
    let edits = [
        ("\"chat\":{", "\"chat\":{\"more\":1,"),
        ("\"sampling\":{", "\"sampling\":{\"more\":1,"),
        ("\"usage\":{", "\"usage\":{\"more\":1,"),
        ("\"temperature\":0.0", "\"temperature\":1e-60"),
    ];
    for (from, to) in edits {
        assert!(calls.contains(from), "{calls:.600}");
        fs::write(small.at("out/calls.jsonl"), calls.replacen(from, to, 1)).unwrap();
        let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
        assert!(code == 1 && text.contains("the call as a run writes it"), "{to}: {text}");
    }
}

#[test]
fn compressed_calls_are_read_as_far_as_they_are_whole() {
    let how = ["--calls", "zstd"];
    let small = finished(&how);
    let said = continued(&small, "calls.jsonl.zst", |calls| calls[..calls.len() - 7].to_vec(), &how);
    assert!(said.contains("judged again"), "{said}");
    let zeros = |calls: &[u8]| {
        let mut calls = calls.to_vec();
        let middle = calls.len() / 2;
        calls[middle..middle + 40].fill(0);
        calls
    };
    continued(&small, "calls.jsonl.zst", zeros, &how);
}

#[test]
fn calls_that_two_shards_hold_are_merged_once() {
    let small = SmallRun::scoring(2);
    for shard in ["1/2", "2/2"] {
        let (code, text) = said(small.score(&shard.replace('/', "of"), &["--shard", shard]));
        assert!(matches!(code, 0 | 1), "{text}");
    }
    // A process that is killed between a group's calls and its verdicts leaves the calls.
    let [first, second] = ["1of2/calls.jsonl", "2of2/calls.jsonl"].map(|name| small.read(name));
    let n = first.lines().count() + second.lines().count();
    let group = |line: &str| line[..30].to_owned();
    let one = group(second.lines().next().unwrap());
    let left: String =
        second.lines().filter(|line| group(line) == one).map(|line| format!("{line}\n")).collect();
    fs::write(small.at("1of2/calls.jsonl"), first + &left).unwrap();
    let (code, text) = said(small.tribunal(&["merge", "1of2", "2of2", "--out", "whole"]));
    assert!(matches!(code, 0 | 1), "{text}");
    assert_eq!(small.read("whole/calls.jsonl").lines().count(), n);
    let (code, text) = said(small.tribunal(&["verify", "whole", "--without-model"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn what_is_not_there_is_not_given_a_line() {
    let small = finished(&[]);
    let calls = small.read("out/calls.jsonl");
    let whole = calls.lines().count();
    let group = calls.lines().last().unwrap()[..30].to_owned();
    let rest: String =
        calls.lines().filter(|line| line[..30] != group).map(|line| format!("{line}\n")).collect();
    fs::write(small.at("out/calls.jsonl"), rest).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_eq!(code, 1, "{text}");
    for number in whole - 1..=whole + 1 {
        assert!(!text.contains(&format!("calls.jsonl line {number}")), "{text}");
    }
    assert!(text.contains("calls.jsonl (system `"), "{text}");
    // The copy of the input as a whole is another: that is no fault of its last line.
    fs::write(small.at("out/calls.jsonl"), calls).unwrap();
    let input = small.read("out/input.jsonl").replacen("Eins", "Zwei", 1);
    fs::write(small.at("out/input.jsonl"), input).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert!(code == 1 && text.contains("input.jsonl` is damaged: it holds 6 segments"), "{text}");
}

#[test]
fn a_dry_run_is_no_run_that_stopped() {
    let small = SmallRun::scoring(1);
    let (code, text) = said(small.score("out", &["--dry-run"]));
    assert_eq!(code, 0, "{text}");
    let journal = small.read("out/journal.jsonl");
    let some: String = journal.lines().take(2).map(|line| format!("{line}\n")).collect();
    fs::write(small.at("out/journal.jsonl"), some).unwrap();
    let (code, text) = said(small.tribunal(&["show", "out"]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 1 && text.contains("a dry run began it"), "{text}");
    assert!(text.contains("4 of 6 verdicts are not there yet hint: this continues it"), "{text}");
    assert!(!text.contains("--dry-run"), "the command of the run itself: {text}");
    let missing = (1..=3).find(|seg| {
        let (code, text) = said(small.tribunal(&["show", "out", &seg.to_string(), "--system", "b"]));
        code == 2 && text.contains("yet\n") && text.contains("a dry run began it")
    });
    assert!(missing.is_some());
}
