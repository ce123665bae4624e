//! The binary on real weights, end to end: the example translations judged by SmolLM2-135M. The same bytes
//! each time, in shards, and after being killed. Needs the model that `scripts/test.sh` pulls; prints a note
//! and passes where it is missing.

use crate::fakes::not_checked;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tribunal::hub;

const MODEL: &str = "smollm2-135m-instruct";

/// A run of the examples, ready to be started.
fn score(out: &Path, more: &[&str]) -> Command {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/en-de");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command.arg("score").arg("-s").arg(examples.join("source.txt")).arg("-t");
    command.args([examples.join("system-a.txt"), examples.join("system-b.txt")]);
    command.arg("--docs").arg(examples.join("docs.txt")).args(["-l", "en-de", "--method", "fsp:shots=0"]);
    command.args(["--model", MODEL, "--max-tokens", "32", "--limit", "2", "--quiet", "--kv-cache", "400MiB"]);
    command.arg("--out").arg(out).args(more).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn verdicts(out: &Path) -> String {
    fs::read_to_string(out.join("verdicts.jsonl")).unwrap()
}

/// Runs to the end; exit codes 0 and 1 both mean that every segment has a verdict or a reason.
fn finish(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {said}", output.status);
}

/// Waits until the journal has some lines, then kills the run.
fn kill_after(mut child: Child, out: &Path, n_lines: usize) {
    let lines = || fs::read_to_string(out.join("journal.jsonl")).map_or(0, |text| text.lines().count());
    while lines() < n_lines && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_same_bytes_twice_in_shards_and_after_a_kill() {
    if hub::find(MODEL).and_then(|card| card.local()).is_err() {
        not_checked(&format!("`{MODEL}` is not on this machine; `scripts/test.sh` pulls it"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    finish(score(&at("whole"), &[]));
    let expected = verdicts(&at("whole"));
    assert_eq!(expected.lines().count(), 4);

    let other = ["--batch", "3", "--jobs", "2", "--threads", "1", "--no-prefix-cache"];
    finish(score(&at("again"), &other));
    assert_eq!(verdicts(&at("again")), expected);

    let killed = at("killed");
    let slow = ["--batch", "1", "--jobs", "1"];
    kill_after(score(&killed, &slow).spawn().unwrap(), &killed, 2);
    finish(score(&killed, &[]));
    assert_eq!(verdicts(&killed), expected);

    let shards: Vec<PathBuf> = (1..=2).map(|i| at(&format!("shard-{i}"))).collect();
    for (i, shard) in shards.iter().enumerate() {
        finish(score(shard, &["--shard", &format!("{}/2", i + 1)]));
        assert!(verdicts(shard).lines().count() < 4, "each shard has a part");
    }
    let mut merge = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    merge.arg("merge").args(&shards).arg("--out").arg(at("merged")).stdout(Stdio::null());
    finish(merge);
    assert_eq!(verdicts(&at("merged")), expected);
}

#[test]
fn a_second_run_reads_the_instructions_and_examples_of_the_first() {
    let Ok(local) = hub::find(MODEL).and_then(|card| card.local()) else {
        not_checked(&format!("`{MODEL}` is not on this machine; `scripts/test.sh` pulls it"));
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let outcome = |out: &Path| {
        let summary: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
        (verdicts(out), summary["cost"]["usage"]["cached"].as_u64().unwrap())
    };
    let run = |name: &str, gib: &str| {
        let (out, examples) =
            (folder.path().join(name), PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/en-de"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
        command.arg("score").arg("-s").arg(examples.join("source.txt"));
        command.arg("-t").arg(examples.join("system-a.txt")).args(["-l", "en-de", "--method", "gemba-mqm"]);
        command.arg("--model").arg(&local.weights).args(["--max-tokens", "16", "--limit", "1", "--quiet"]);
        command.args(["--kv-cache", "400MiB"]).arg("--out").arg(&out);
        command.env("TRIBUNAL_HOME", &home).env("TRIBUNAL_SAVED_PREFIXES", gib);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        finish(command);
        outcome(&out)
    };
    let saved = || fs::read_dir(home.join("prefixes")).map_or(0, Iterator::count);
    let (expected, cached) = run("plain", "off");
    assert_eq!((cached, saved()), (0, 0));
    assert_eq!(run("first", "1GiB"), (expected.clone(), 0));
    assert_eq!(saved(), 1);
    let (again, cached) = run("second", "1");
    assert!(again == expected && cached > 700, "{cached} tokens");
    // A repeated run computes everything.
    let repeated = folder.path().join("repeated");
    let mut rerun = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    rerun.arg("rerun").arg(folder.path().join("second")).arg("--out").arg(&repeated);
    rerun.env("TRIBUNAL_HOME", &home).stdout(Stdio::null()).stderr(Stdio::piped());
    finish(rerun);
    assert_eq!(outcome(&repeated), (expected, 0));
}
