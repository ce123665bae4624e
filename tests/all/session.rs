//! A judge that stays: what programs, such as the Python package, use in the place of the command line.

use std::{path::Path, sync::Arc};

use tribunal::{
    cli,
    eval::{ModelSpec, Models, Resources, Session, models::load, session::Watch},
    judges::{Model, Panel},
    llm::{Chat, Finish, Reply, Sampling},
};

use crate::fakes::{self, Rule, SmallRun};

#[expect(clippy::unnecessary_wraps, reason = "the type of a seat")]
fn seat(model: &ModelSpec, _: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let rate = |_: &Chat| Reply { text: "{\"score\": 87}".into(), finish: Finish::Stop, ..Reply::default() };
    let panel = Panel::new(Arc::new(Rule(rate)), sampling);
    Ok(Models::alone(panel, Model { name: model.model.clone(), sha256: "5eed".into() }))
}

fn session(argv: &str) -> Result<Session, String> {
    let cli = cli::parse(argv.split(' ').map(String::from)).map_err(|error| error.to_string())?;
    cli.session(seat).map_err(|error| cli::explain(&error))
}

fn table(dir: &Path, name: &str, n: usize) -> std::path::PathBuf {
    let row = |i| format!("{{\"src\": \"Number {i}.\", \"mt\": \"Nummer {i}.\"}}\n");
    let path = dir.join(name);
    std::fs::write(&path, (0..n).map(row).collect::<String>()).unwrap();
    path
}

#[test]
fn it_judges_one_input_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let session = session("tribunal score --method gemba-da --preset paper -l en-de --model tiny").unwrap();
    for n in [3, 2] {
        let out = dir.path().join(format!("run-{n}"));
        let watch = Watch::default();
        let judged = session.score(&table(dir.path(), &format!("{n}.jsonl"), n), &out, &watch).unwrap();
        assert_eq!(watch.progress(), (n, n));
        assert_eq!(judged.outcome.summary.scored, n);
        assert_eq!(fakes::verdicts(&out), judged.outcome.records().unwrap());
    }
    let bad = dir.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"src\": \"\", \"mt\": \"x\"}\n").unwrap();
    let told = session.score(&bad, &dir.path().join("bad"), &Watch::default()).unwrap_err();
    assert!(cli::explain(&told.into()).contains("the source is empty"));
}

#[test]
fn it_is_opened_by_the_options_of_score() {
    let told = session("tribunal methods list").err().unwrap();
    assert_eq!(told, "a session needs the options of `tribunal score`");
    assert!(
        session("tribunal score --method gemba-da --no-such-option")
            .err()
            .unwrap()
            .contains("--no-such-option")
    );
}

#[test]
fn what_was_stopped_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let session =
        Arc::new(session("tribunal score --method gemba-da --preset paper -l en-de --jobs 1").unwrap());
    let (input, out) = (table(dir.path(), "many.jsonl", 400), dir.path().join("run"));
    let watch = Arc::new(Watch::default());
    let judging = {
        let (session, input, out, watch) = (session.clone(), input.clone(), out.clone(), watch.clone());
        std::thread::spawn(move || session.score(&input, &out, &watch).map(|_| ()))
    };
    while watch.progress().0 == 0 && !judging.is_finished() {
        std::thread::yield_now();
    }
    watch.stop();
    if let Err(told) = judging.join().unwrap() {
        let (done, told) = (watch.progress().0, cli::explain(&told.into()));
        assert!(told.contains(&format!("{done} of 400 verdicts are safe in")), "{told}");
        let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap();
        assert_eq!(journal.lines().count(), done, "nothing is noted but verdicts");
    }
    let watch = Watch::default();
    let again = session.score(&input, &out, &watch).unwrap().outcome;
    assert_eq!(again.records().unwrap().iter().filter(|record| record.score == Some(87.0)).count(), 400);
    assert_eq!(watch.progress(), (400, 400));
}

#[test]
fn a_method_with_a_temperature_of_its_own_signs_one() {
    let dir = tempfile::tempdir().unwrap();
    let session = session("tribunal score --method thinking -l en-de --model tiny").unwrap();
    let judged =
        session.score(&table(dir.path(), "one.jsonl", 1), &dir.path().join("run"), &Watch::default());
    let judged = judged.unwrap();
    let signature = judged.outcome.summary.signature;
    let keys: Vec<&str> = signature.split('|').filter_map(|field| field.split(':').next()).collect();
    assert_eq!(keys.iter().filter(|key| key.starts_with("temp")).count(), 1, "{signature}");
    assert_eq!(keys.iter().filter(|key| key.starts_with("top")).count(), 1, "{signature}");
}

/// A session over a tiny model, opened as the command line would.
fn tiny(argv: &str) -> Session {
    let model = fakes::tiny("qwen2");
    let argv = argv.split(' ').map(String::from).chain(["--model".into(), model.display().to_string()]);
    cli::parse(argv).unwrap().session(load).unwrap()
}

#[test]
fn a_judge_that_was_interrupted_judges_as_a_new_one() {
    let small = SmallRun::new(4);
    let argv = format!(
        "tribunal score --method gemba-sqm --prompts {} --max-tokens 24 --kv-cache 8MiB --batch 4",
        small.at("prompts").display()
    );
    let input = small.at("input.jsonl");
    let fresh = tiny(&argv).score(&input, &small.at("fresh"), &Watch::default()).unwrap().outcome;
    let judge = tiny(&argv);
    for n_done in 0..3 {
        let watch = Watch::default();
        let out = small.at(&format!("stopped-{n_done}"));
        std::thread::scope(|scope| {
            let judging = scope.spawn(|| judge.score(&input, &out, &watch).map(|_| ()));
            while watch.progress().1 == 0 || watch.progress().0 < n_done {
                std::thread::yield_now();
            }
            watch.stop();
            let _ = judging.join().unwrap(); // it may have come to its end
        });
    }
    let again = judge.score(&input, &small.at("again"), &Watch::default()).unwrap().outcome;
    assert_eq!(again.records().unwrap(), fresh.records().unwrap());
    let resumed = judge.score(&input, &small.at("stopped-2"), &Watch::default()).unwrap().outcome;
    assert_eq!(resumed.records().unwrap(), fresh.records().unwrap());
}
