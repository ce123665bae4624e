//! `tribunal score --method difficulty` on a source text alone, and the sources that `--keep` writes.

use std::{fs, path::Path, process::ExitCode, sync::Arc};

use tribunal::{
    eval::{ModelSpec, Models, Resources},
    judges::{Model, Panel},
    llm::{Chat, Reply, Sampling},
};

use crate::fakes::{Rule, program_with};

/// Finds a source as hard as it has words.
fn rate(chat: &Chat) -> Reply {
    let prompt = &chat.messages()[0].content;
    let source = prompt.rsplit("Text:").next().unwrap_or_default();
    let words = source.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let score = words.split_whitespace().count();
    Reply { text: format!("{{\"score\": {score}, \"reasoning\": \"\"}}"), ..Reply::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a seat")]
fn seat(model: &ModelSpec, _: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let model = Model { name: model.model.clone(), sha256: "5eed".into() };
    Ok(Models::alone(Panel::new(Arc::new(Rule(rate)), sampling), model))
}

fn tribunal(dir: &Path, args: &str) -> Result<(String, ExitCode), String> {
    let dir = dir.display().to_string();
    let args = format!("score {args}").replace("DIR", &dir);
    let args: Vec<&str> = args.split(' ').collect();
    program_with(seat, &args).map_err(|error| error.replace(&dir, "DIR"))
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("src.txt"), "Break a leg!\nYes.\nIt rains cats and dogs.\nNo way.\n").unwrap();
    fs::write(dir.path().join("hyp.txt"), "Brich ein Bein!\nJa.\nEs regnet.\nNein.\n").unwrap();
    dir
}

const DIFFICULTY: &str = "-s DIR/src.txt -l en-de --method difficulty --quiet --out DIR/run";

#[test]
fn sources_need_no_translation() {
    let dir = folder();
    let (text, code) = tribunal(dir.path(), &format!("{DIFFICULTY} --format tsv")).unwrap();
    let rated: Vec<&str> = text.lines().map(|line| line.split('\t').nth(7).unwrap()).collect();
    assert_eq!(rated, ["raw", "3", "1", "5", "2"]);
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert!(text.lines().nth(1).unwrap().starts_with("src\t"), "the system is called like the file: {text}");
    // With translations the same.
    let both =
        "-s DIR/src.txt -t DIR/hyp.txt -l en-de --method difficulty --quiet --out DIR/both --format tsv";
    let (both, _) = tribunal(dir.path(), both).unwrap();
    assert_eq!(both.replace("hyp\t", "src\t"), text);
    let refused = tribunal(dir.path(), "-s DIR/src.txt -l en-de --method fsp").unwrap_err();
    insta::assert_snapshot!(refused, @"
    the source text has no translations
    hint: add `-t HYPOTHESIS.txt`, one file for each system
    ");
}

#[test]
fn the_hardest_sources_are_written() {
    let dir = folder();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    tribunal(dir.path(), &format!("{DIFFICULTY} --keep 50%")).unwrap();
    assert_eq!(read("run/kept.txt"), "Break a leg!\nIt rains cats and dogs.\n");
    insta::assert_snapshot!(read("run/kept.jsonl"), @r#"
    {"line":1,"doc":"","difficulty":3.0,"source":"Break a leg!"}
    {"line":3,"doc":"","difficulty":5.0,"source":"It rains cats and dogs."}
    "#);
    // The run exists already: another threshold needs no call.
    tribunal(dir.path(), &format!("{DIFFICULTY} --keep 5")).unwrap();
    assert_eq!(
        (read("run/kept.txt").as_str(), read("run/kept.jsonl").lines().count()),
        ("It rains cats and dogs.\n", 1)
    );
}

#[test]
fn what_cannot_be_kept() {
    let dir = folder();
    let refused = |args: &str| tribunal(dir.path(), args).unwrap_err();
    let shown = [
        refused(&format!("{DIFFICULTY} --keep top")),
        refused(&format!("{DIFFICULTY} --keep 5 --shard 1/2")),
        refused("-s DIR/src.txt -t DIR/hyp.txt -l en-de --method gemba-da --keep 5"),
    ];
    insta::assert_snapshot!(shown.join("\n---\n"));
    assert!(!dir.path().join("run").exists(), "nothing was judged");
}
