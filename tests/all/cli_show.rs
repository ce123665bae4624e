//! `tribunal show`: a debate as it is printed, which unit is meant, and what stands in an unfinished folder.

use std::{fs, path::Path, sync::Arc};

use tribunal::{
    cli,
    eval::{ModelSpec, Models, Resources},
    judges::{Panel, Settings},
    llm::Sampling,
    run::{self, RunConfig},
    segment::Segment,
};

use crate::fakes::{Cast, program_with, translation};

fn seat(_: &ModelSpec, _: &Resources, _: Sampling) -> tribunal::eval::Result<Models> {
    Err(std::io::Error::other("`show` asks no model").into())
}

fn segment(system: &str, doc: &str, seg: usize, hypothesis: &str) -> Segment {
    let segment = translation(("en", "de"), "He sat on the bank.", hypothesis);
    Segment { system: system.into(), doc: doc.into(), seg, ..segment }
}

/// A folder with M-MAD's verdicts, one of them missing.
fn folder(dir: &Path, segments: &[Segment]) {
    let list = |severity: &str| {
        format!(
            "[{{\"category\": \"accuracy/mistranslation\", \"error_span\": \"Bank\", \"severity\": \"{severity}\", \
             \"is_source_error\": \"no\"}}]"
        )
    };
    let answer =
        |thoughts: &str, severity: &str| format!("{{{thoughts}\"annotations\": {}}}", list(severity));
    let minor = answer("\"argument\": \"Readers\\u001b[31m understand it.\", ", "minor");
    let cast = Cast::new()
        .on(&["From previous annotations"], &[&answer("\"analysis\": \"One error.\", ", "minor")])
        .on(&["essentially consistent"], &["no", "yes"])
        .on(&["Given two different answers"], &[&answer("\"argument\": \"It misleads.\", ", "major"), &minor])
        .on(&["accuracy errors detection", "unlesbar"], &["I cannot say."])
        .on(&["accuracy errors detection"], &[&answer("", "major")])
        .on(&["errors detection expert"], &["{\"annotations\": []}"]);
    let judge = tribunal::replication::build("m-mad:shots=0", &Settings::default()).unwrap();
    let options = RunConfig { command: vec!["tribunal".into(), "score".into()], ..RunConfig::new(dir) };
    let panel = Panel::new(Arc::new(cast), Sampling::default());
    let signature = "method:m-mad|model:scripted".parse().unwrap();
    run::run(&panel, judge.as_ref(), segments, &signature, &options).unwrap();
}

fn show(dir: &Path, args: &[&str]) -> String {
    let dir = dir.display().to_string();
    match program_with(seat, &[&["show", &dir], args].concat()) {
        Ok((text, _)) => text,
        Err(error) => format!("error: {error}").replace(&dir, "DIR"),
    }
}

#[test]
fn a_debate() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), &[segment("online", "news", 4, "Er saß auf der \u{1b}[1mBank.")]);
    let shown = show(dir.path(), &["5"]);
    assert!(!shown.contains('\u{1b}'), "{shown}");
    insta::assert_snapshot!("show_debate", shown);
    // The lines of an unfinished run are in its journal.
    fs::remove_file(dir.path().join("verdicts.jsonl")).unwrap();
    assert_eq!(show(dir.path(), &["5"]), shown);
    fs::remove_file(dir.path().join("calls.jsonl")).unwrap();
    assert!(show(dir.path(), &["5"]).ends_with("no calls are recorded for this verdict\n"));
}

#[test]
fn which_unit_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let segments = [
        segment("a", "news", 0, "Er saß auf der Bank."),
        segment("a", "chat", 0, "Er saß auf der Bank."),
        segment("b", "news", 0, "unlesbar"),
    ];
    folder(dir.path(), &segments);
    let missing = show(dir.path(), &["1", "--system", "b"]);
    let head: String =
        missing.lines().take_while(|line| !line.starts_with("===")).flat_map(|l| [l, "\n"]).collect();
    let text = [
        show(dir.path(), &["2"]),
        show(dir.path(), &["news"]),
        show(dir.path(), &["1"]),
        show(dir.path(), &["1", "--system", "a"]),
        show(dir.path(), &["1", "--system", "c"]),
        show(dir.path(), &["1", "--doc", "news"]),
        show(&dir.path().join("none"), &["1"]),
        head,
    ];
    insta::assert_snapshot!("show_which", text.join("\n"));
    let file = show(&dir.path().join("verdicts.jsonl"), &["1"]);
    assert!(file.starts_with("error: `DIR` is a file\nhint: give the run folder, `"), "{file}");
    let one = show(dir.path(), &["id:0", "--system", "a", "--doc", "chat"]);
    assert!(one.starts_with("a, document chat, segment 1 (id 0), en-de\n"), "{one}");
    let json = show(dir.path(), &["1", "--doc", "news", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let units = json["units"].as_array().unwrap();
    assert_eq!(units.iter().map(|unit| &unit["verdict"]["system"]).collect::<Vec<_>>(), ["a", "b"]);
    assert!(units.iter().all(|unit| unit["calls"].as_array().is_some_and(|calls| calls.len() > 2)), "{json}");
    assert!(show(dir.path(), &["1", "--doc", "news", "--format", "csv"]).contains("as text or JSON"));
    assert_eq!(one.matches("\n=== ").count(), 8, "the calls of this segment only: {one}");
    assert_eq!(missing.matches("I cannot say.").count(), 4, "the reason and the three tries: {missing}");
    assert_eq!(missing.matches("asked again").count(), 2, "{missing}");
}

#[test]
fn an_unfinished_run_says_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let segments = [
        segment("a", "news", 0, "Er saß auf der Bank."),
        segment("a", "news", 1, "Er saß auf der Bank."),
        segment("b", "news", 0, "Er saß auf der Bank."),
        segment("b", "news", 1, "Er saß auf der Bank."),
    ];
    folder(dir.path(), &segments);
    // What a killed run leaves: the first system's first verdict.
    fs::remove_file(dir.path().join("verdicts.jsonl")).unwrap();
    fs::remove_file(dir.path().join("summary.json")).unwrap();
    let journal = dir.path().join("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let is_first = |line: &&str| line.contains("\"system\":\"a\"") && line.contains("\"seg\":0,");
    fs::write(&journal, format!("{}\n", lines.lines().find(is_first).unwrap())).unwrap();
    let shown = show(dir.path(), &[]);
    let (_, told) = shown.split_once("without a verdict").unwrap();
    insta::assert_snapshot!(format!("without a verdict{told}"), @"
    without a verdict: 3 of 4
      3 not judged yet

    system  segments  score  coverage  critical  major  minor
    a              2  -1.00       50%      0.00   0.00   1.00
    b              2      -        0%         -      -      -
    score: the mean over segments with a verdict, higher is better; errors are counted per segment
    scale: negative penalty, 0 is best, higher is better
    the run is not finished: 3 of 4 verdicts are missing; the same command continues it
    ");
    let json: serde_json::Value = serde_json::from_str(&show(dir.path(), &["--format", "json"])).unwrap();
    assert_eq!((&json["units"], &json["scored"], &json["unjudged"]), (&4.into(), &1.into(), &3.into()));
    assert!(code(dir.path()) == std::process::ExitCode::from(1));
}

fn code(dir: &Path) -> std::process::ExitCode {
    let argv = ["tribunal", "show", &dir.display().to_string()].map(str::to_owned);
    cli::parse(argv).unwrap().run(seat, &mut Vec::new()).unwrap()
}
