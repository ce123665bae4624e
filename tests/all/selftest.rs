//! `tribunal selftest`: what this build computes is what is recorded in it.

use std::process::Command;

use tribunal::{engine::Isa, eval::selftest};

/// After an intended change, the recording is replaced by the lines of the first message.
#[test]
fn verdicts_and_log_probabilities_are_the_recorded_ones() {
    let lines = selftest::judged(Isa::PORTABLE).unwrap();
    let written: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    let difference = selftest::difference(selftest::RECORDED, &lines);
    assert!(
        selftest::RECORDED == written,
        "{difference:?}\nif this is meant, crates/eval/src/selftest/recorded.jsonl becomes:\n{written}"
    );
}

#[test]
fn every_instruction_set_of_this_machine_computes_the_same() {
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
        // Neither a file of the repository nor one of the user's is needed.
        let empty = tempfile::tempdir().unwrap();
        command.current_dir(empty.path()).env("HOME", empty.path()).args(["selftest", "--format", "json"]);
        command.output().unwrap()
    };
    let output = run();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stdout));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        printed["cpu"].as_array().unwrap().iter().map(|cpu| cpu["isa"].as_str().unwrap()).collect();
    assert_eq!(names, Isa::available().map(Isa::name).collect::<Vec<_>>());
    assert_eq!(printed["segments"], 20);
}
