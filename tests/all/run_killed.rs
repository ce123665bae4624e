//! The real program, killed and interrupted on a tiny model: after any interruption, the folder ends up with
//! the bytes of an undisturbed run.

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::fakes::{SmallRun, said};

/// Number of times that a process is killed; `TRIBUNAL_KILLS` overrides it.
const KILLS: usize = 10;

/// The layouts that a folder is continued with in turn; the last one finishes it.
const LAYOUTS: [&[&str]; 5] = [
    &["--jobs", "1"],
    &["--jobs", "7", "--shard", "1/2"],
    &["--threads", "2", "--shard", "2/3", "--calls", "zstd"],
    &["--jobs", "3", "--batch", "2", "--no-prefix-cache"],
    &["--jobs", "64", "--calls", "zstd"],
];

/// Numbers without a pattern; the same ones each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// `summary.json` without its times, and without which tokens were cached.
fn summary(small: &SmallRun, out: &str) -> serde_json::Value {
    let mut summary: serde_json::Value =
        serde_json::from_str(&small.read(&format!("{out}/summary.json"))).unwrap();
    let cost = summary["cost"].as_object_mut().unwrap();
    for name in ["call_seconds", "wall_seconds", "usage"] {
        assert!(cost.remove(name).is_some());
    }
    summary
}

/// Kills a process after a while; whether it was still alive.
fn kill(mut child: Child, after: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < after {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let is_alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    is_alive
}

#[test]
fn killed_at_any_moment_and_continued_in_any_layout() {
    let small = SmallRun::new(4);
    let start = Instant::now();
    let (code, text) = said(small.score("whole", &["--jobs", "1"]));
    assert!(matches!(code, 0 | 1), "{text}");
    let (whole, longest) = (small.read("whole/verdicts.jsonl"), start.elapsed().as_micros() as u64);
    let mut draw = Draw(1);
    let (mut kills, mut n_runs, mut n_resumed) = (0, 0, 0);
    let wanted = std::env::var("TRIBUNAL_KILLS").ok().map_or(KILLS, |n| n.parse().unwrap());
    while kills < wanted {
        n_runs += 1;
        let out = format!("run{n_runs}");
        for _ in 0..=draw.below(8) {
            let layout = LAYOUTS[draw.below(LAYOUTS.len() as u64) as usize];
            let mut command = small.score(&out, layout);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            kills += usize::from(kill(child, Duration::from_micros(draw.below(longest))));
        }
        let journal = small.at(&format!("{out}/journal.jsonl"));
        n_resumed += usize::from(fs::read(journal).is_ok_and(|bytes| bytes.contains(&b'\n')));
        let (code, text) = said(small.score(&out, LAYOUTS[n_runs % LAYOUTS.len()]));
        assert!(matches!(code, 0 | 1), "{text}");
        // The last layout may have been a part of the whole.
        let (_, text) = said(small.score(&out, &["--calls", "plain"]));
        assert_eq!(small.read(&format!("{out}/verdicts.jsonl")), whole, "run {n_runs}: {text}");
        assert_eq!(summary(&small, &out), summary(&small, "whole"), "run {n_runs}");
    }
    assert!(n_resumed > 0, "no run was killed in the middle");
    let (code, text) = said(small.tribunal(&["verify", "run1", "--without-model"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_copy_that_was_being_written_is_no_file_of_the_run() {
    let small = SmallRun::new(1);
    let copies = small.at("out/materials/prompts/gemba_scales");
    fs::create_dir_all(&copies).unwrap();
    fs::write(copies.join(".paper.j2.aB3dE6.new"), "{{ sou").unwrap();
    said(small.score("out", &[]));
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_eq!(code, 0, "{text}");
    assert_eq!(fs::read_dir(copies).unwrap().count(), 1, "what nobody will finish is gone");
}

#[test]
fn a_folder_that_a_later_shard_began_has_its_input_once_it_is_whole() {
    let small = SmallRun::new(3);
    said(small.score("out", &["--shard", "2/3"]));
    assert!(!small.at("out/input.jsonl").exists());
    said(small.score("out", &[]));
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_eq!(code, 0, "{text}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_run_between_two_lines() {
    let small = SmallRun::new(4);
    said(small.score("whole", &[]));
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = small.score(signal, &["--jobs", "1"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let journal = small.at(&format!("{signal}/journal.jsonl"));
        while fs::metadata(&journal).map_or(0, |meta| meta.len()) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = child.id().to_string();
        std::process::Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(
            text.contains("of 24 verdicts are safe in") && text.contains("the same command goes on"),
            "{text}"
        );
        assert!(fs::read_to_string(&journal).unwrap().ends_with('\n'));
        said(small.score(signal, &[]));
        assert_eq!(small.read(&format!("{signal}/verdicts.jsonl")), small.read("whole/verdicts.jsonl"));
    }
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_a_run_that_cannot_say_farewell() {
    use std::io::Write as _;

    let small = SmallRun::new(40);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = small.score("out", &["--jobs", "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(writer.try_clone().unwrap()).spawn().unwrap();
    let kill = |pid: u32| {
        std::process::Command::new("kill").args(["-s", "INT", &pid.to_string()]).status().unwrap();
    };
    // The pipe has no reader, so that it fills up and its writer waits.
    let filling = std::thread::spawn(move || while writer.write_all(&[b'.'; 4096]).is_ok() {});
    let journal = small.at("out/journal.jsonl");
    while fs::metadata(&journal).map_or(0, |meta| meta.len()) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(child.id());
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it waits until it can say how to go on");
    kill(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(reader);
    filling.join().unwrap();
}

#[cfg(unix)]
#[test]
fn a_full_disk_and_a_folder_that_is_gone() {
    let small = SmallRun::new(8);
    said(small.score("whole", &[]));
    // A limit on the size of files fails writes as a full disk does, and can be set without being root.
    let limited = small.score("full", &["--jobs", "1"]);
    let mut shell = std::process::Command::new("bash");
    shell.current_dir(small.root.path()).args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
    shell.arg(limited.get_program()).args(limited.get_args());
    let (code, text) = said(shell);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("cannot append to") && text.contains("free some space"), "{text}");
    said(small.score("full", &[]));
    assert_eq!(small.read("full/verdicts.jsonl"), small.read("whole/verdicts.jsonl"));

    let mut command = small.score("gone", &["--jobs", "1"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::metadata(small.at("gone/journal.jsonl")).map_or(0, |meta| meta.len()) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::rename(small.at("gone"), small.at("elsewhere")).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("was removed or replaced while the run was writing to it"), "{text}");

    let mut command = small.score("undescribed", &["--jobs", "1"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::metadata(small.at("undescribed/journal.jsonl")).map_or(0, |meta| meta.len()) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(small.at("undescribed/run.json")).unwrap();
    child.wait_with_output().unwrap();
    let (code, text) = said(small.tribunal(&["verify", "undescribed", "--without-model"]));
    assert_eq!(code, 0, "`run.json` is there again: {text}");
}

#[cfg(unix)]
#[test]
fn nobody_reads_what_is_said() {
    let small = SmallRun::new(1);
    // The readers of both pipes are closed before the run prints anything.
    let closed = |script: &str, out: &str| {
        let command = small.score(out, &["--format", "json"]);
        let mut shell = std::process::Command::new("bash");
        shell.current_dir(small.root.path()).args(["-c", script]).arg(command.get_program());
        let args: Vec<_> = command.get_args().filter(|arg| *arg != "--quiet").collect();
        said({
            shell.args(args);
            shell
        })
    };
    let (code, _) = closed("\"$0\" \"$@\" 2> >(exec 0<&-; sleep 0)", "stderr");
    assert!(matches!(code, 0 | 1), "{code}");
    assert_eq!(small.read("stderr/verdicts.jsonl").lines().count(), 6, "judged all the same");
    let (direct, _) = said(small.score("direct", &[]));
    let (code, _) = closed("\"$0\" \"$@\" 2>/dev/null | true; exit ${PIPESTATUS[0]}", "stdout");
    assert_eq!(code, direct, "the code is that of the run");
    let (code, text) = said({
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", "\"$0\" models list | true; exit ${PIPESTATUS[0]}"]);
        shell.arg(env!("CARGO_BIN_EXE_tribunal"));
        shell
    });
    assert_eq!(code, 0, "{text}");
}
