//! Run folders from other users, and results that go to pipes, devices and links: on the real program and a
//! tiny model.
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
};

use candle_core::quantized::gguf_file::{self, Value};

use crate::fakes::{SmallRun, said};

fn finished(more: &[&str]) -> SmallRun {
    let small = SmallRun::new(1);
    let (code, text) = said(small.score("out", more));
    assert!(matches!(code, 0 | 1), "{text}");
    small
}

/// Changes a file of the run, gives a command, and takes the change back.
fn after(small: &SmallRun, name: &str, from: &str, to: &str, args: &[&str]) -> (i32, String) {
    let before = small.read(name);
    assert!(before.contains(from), "{name} has no {from}: {before:.600}");
    fs::write(small.at(name), before.replacen(from, to, 1)).unwrap();
    let found = said(small.tribunal(args));
    fs::write(small.at(name), before).unwrap();
    found
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn copies_are_in_the_folder_and_nowhere_else() {
    let small = finished(&[]);
    let kept = "\"kept\":\"materials/prompts\"";
    for other in ["../prompts", "/etc", "materials/../../prompts", "input.jsonl"] {
        let named = format!("\"kept\":\"{other}\"");
        let (code, text) = after(&small, "out/run.json", kept, &named, &["verify", "out", "--without-model"]);
        assert!(code == 2 && text.contains("cannot use the copy that is named in"), "{other}: {text}");
    }
    fs::rename(small.at("out/materials/prompts"), small.at("elsewhere")).unwrap();
    symlink(small.at("elsewhere"), small.at("out/materials/prompts")).unwrap();
    for args in [&["verify", "out", "--without-model"][..], &["rerun", "out", "--out", "again"]] {
        let (code, text) = said(small.tribunal(args));
        assert!(code == 2 && text.contains("leads over a link"), "{text}");
    }
}

#[test]
fn a_pipe_among_the_files_of_a_run_makes_nobody_wait() {
    let small = finished(&[]);
    for name in ["run.json", "journal.jsonl", "calls.jsonl", "verdicts.jsonl", "summary.json", "input.jsonl"]
    {
        let path = small.at("out").join(name);
        let before = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        pipe(&path);
        let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
        assert!(code != 0 && text.contains("not a plain file"), "{name}: {text}");
        let (code, text) = said(small.tribunal(&["show", "out"]));
        assert!(matches!(code, 0..=2), "{name}: {text}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, before).unwrap();
    }
}

#[test]
fn a_planted_link_is_not_written_through() {
    let small = SmallRun::new(1);
    fs::create_dir_all(small.at("out")).unwrap();
    fs::write(small.at("thesis"), "a thesis").unwrap();
    fs::create_dir(small.at("theses")).unwrap();
    for name in ["verdicts.jsonl", ".run.json.new", ".verdicts.jsonl.new", "summary.json"] {
        symlink(small.at("thesis"), small.at("out").join(name)).unwrap();
    }
    said(small.score("out", &[]));
    assert_eq!(small.read("thesis"), "a thesis");
    for name in ["journal.jsonl", "calls.jsonl", "materials"] {
        let other = SmallRun::new(1);
        fs::create_dir_all(other.at("out")).unwrap();
        symlink(small.at(if name == "materials" { "theses" } else { "thesis" }), other.at("out").join(name))
            .unwrap();
        let (code, text) = said(other.score("out", &[]));
        // Data that resembles torn calls is dropped with the link; the others are rejected.
        assert!(code == 2 || name == "calls.jsonl", "{name}: {text}");
        assert_eq!(small.read("thesis"), "a thesis");
        assert_eq!(fs::read_dir(small.at("theses")).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn results_go_where_they_are_sent() {
    let small = finished(&[]);
    let device = || fs::metadata("/dev/stdout").is_ok_and(|there| there.is_file());
    let is_file = device();
    let export = |out: &str| small.tribunal(&["export", "out", "--as", "csv", "--out", out]);
    let output = export("/dev/stdout").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("system,") && !text.contains("/dev/stdout"), "{text}");
    assert!(fs::symlink_metadata("/dev/stdout").unwrap().is_symlink() && device() == is_file);
    // Redirected, the file gets all and stays the one that is open.
    let file = fs::File::create(small.at("redirected")).unwrap();
    assert!(export("/dev/stdout").stdout(file).status().unwrap().success());
    assert_eq!(small.read("redirected"), text);
    pipe(&small.at("pipe"));
    let reader = Command::new("cat").arg(small.at("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(said(export("pipe")).0, 0);
    assert_eq!(String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap(), text);
    assert!(fs::symlink_metadata(small.at("pipe")).unwrap().file_type().is_fifo());
    fs::write(small.at("target.html"), "old").unwrap();
    symlink("target.html", small.at("link.html")).unwrap();
    let (code, told) = said(small.tribunal(&["report", "out", "--out", "link.html"]));
    assert_eq!(code, 0, "{told}");
    assert!(small.at("link.html").is_symlink() && small.read("target.html").contains("<html"));
    let (code, told) = said(small.tribunal(&["report", "out", "--out", "/dev/null"]));
    assert_eq!(code, 0, "{told}");
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_private_run_stays_private() {
    let small = SmallRun::new(1);
    fs::create_dir(small.at("out")).unwrap();
    fs::set_permissions(small.at("out"), fs::Permissions::from_mode(0o700)).unwrap();
    let (code, text) = said(small.score("out", &[]));
    assert!(matches!(code, 0 | 1), "{text}");
    let mut open = vec![small.at("out")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o077;
            assert_eq!(mode, 0, "{}", path.display());
            open.extend(Some(path).filter(|path| path.is_dir()));
        }
    }
}

/// Two shards of a run.
fn shards() -> SmallRun {
    let small = SmallRun::new(2);
    for shard in ["1/2", "2/2"] {
        let out = shard.replace('/', "of");
        let (code, text) = said(small.score(&out, &["--shard", shard]));
        assert!(matches!(code, 0 | 1), "{text}");
    }
    small
}

fn merged(small: &SmallRun, out: &str, more: &[&str]) -> (i32, String) {
    said(small.tribunal(&[&["merge", "1of2", "2of2", "--out", out], more].concat()))
}

#[test]
fn shards_are_joined_from_what_they_say_they_are() {
    let small = shards();
    let (code, text) = merged(&small, "whole", &[]);
    assert!(matches!(code, 0 | 1), "{text}");
    let (code, text) = said(small.tribunal(&["verify", "whole", "--without-model"]));
    assert_eq!(code, 0, "{text}");
    // A link in the copies, to themselves or to elsewhere.
    for target in [".", "/etc/passwd"] {
        symlink(target, small.at("1of2/materials/prompts/again")).unwrap();
        let (code, text) = merged(&small, "linked", &[]);
        assert!(code == 2 && text.contains("again`: it is not a plain file"), "{text}");
        fs::remove_file(small.at("1of2/materials/prompts/again")).unwrap();
    }
    let input = small.read("1of2/input.jsonl");
    fs::write(small.at("1of2/input.jsonl"), input.replacen("Eins", "Zwei", 1)).unwrap();
    let (code, text) = merged(&small, "input", &[]);
    assert!(code == 2 && text.contains("input.jsonl") && text.contains("but `run.json` says"), "{text}");
    fs::write(small.at("1of2/input.jsonl"), input).unwrap();
    let prompt = small.read("1of2/materials/prompts/gemba_scales/sqm.j2");
    fs::write(small.at("1of2/materials/prompts/gemba_scales/sqm.j2"), "Another").unwrap();
    let (code, text) = merged(&small, "prompt", &[]);
    assert!(code == 2 && text.contains("is not what `run.json` says"), "{text}");
    fs::write(small.at("1of2/materials/prompts/gemba_scales/sqm.j2"), prompt).unwrap();
    let run = small.read("1of2/run.json");
    let mut twice: serde_json::Value = serde_json::from_str(&run).unwrap();
    let materials = twice["origin"]["materials"].as_array_mut().unwrap();
    materials.push(materials[0].clone());
    fs::write(small.at("1of2/run.json"), twice.to_string()).unwrap();
    let (code, text) = merged(&small, "twice", &[]);
    assert!(code == 2 && text.contains("it lists `--prompts` twice"), "{text}");
    fs::write(small.at("1of2/run.json"), run).unwrap();
    fs::remove_file(small.at("1of2/input.jsonl")).unwrap();
    let (code, text) = merged(&small, "without", &[]);
    assert!(code == 2 && text.contains("none of the folders has `input.jsonl`"), "{text}");
    assert!(!small.at("without").exists());
}

#[test]
fn a_folder_is_compared_by_its_own_files_alone() {
    let small = finished(&[]);
    let verdicts = small.at("out/verdicts.jsonl");
    fs::rename(&verdicts, small.at("elsewhere.jsonl")).unwrap();
    let compared = |kind: &str| {
        for args in [&["compare", "out"][..], &["compare", "out", "elsewhere.jsonl"]] {
            let (code, text) = said(small.tribunal(args));
            assert!(code == 2 && text.contains("not a plain file"), "{kind}: {text}");
        }
        fs::remove_file(&verdicts).unwrap();
    };
    symlink(small.at("elsewhere.jsonl"), &verdicts).unwrap();
    compared("a link");
    pipe(&verdicts);
    compared("a pipe");
}

#[test]
fn shards_are_joined_with_all_their_calls() {
    let small = shards();
    let calls = small.read("2of2/calls.jsonl");
    let lines: Vec<&str> = calls.lines().collect();
    let half: String = lines[lines.len() / 2..].iter().map(|line| format!("{line}\n")).collect();
    for some in [half.as_str(), &calls.replacen(&format!("{}\n", lines[0]), "", 1), ""] {
        fs::write(small.at("2of2/calls.jsonl"), some).unwrap();
        let (code, text) = merged(&small, "short", &[]);
        let there =
            format!("`2of2` has {} calls where its verdicts tell of {}", some.lines().count(), lines.len());
        assert!(code == 2 && text.contains(&there), "{text}");
        assert!(!small.at("short").exists());
    }
    let (code, text) = merged(&small, "partial", &["--partial"]);
    assert!(code == 1 && text.contains("note: `2of2` has 0 calls where"), "{text}");
}

#[test]
fn a_panic_that_is_caught_prints_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let zero = Value::U32(0);
    gguf_file::write(&mut fs::File::create(&path).unwrap(), &[("general.alignment", &zero)], &[]).unwrap();
    let mut show = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    show.args(["models", "show"]).arg(&path).env("TRIBUNAL_HOME", dir.path());
    let (code, text) = said(show);
    assert!(code == 2 && text.contains("its header is damaged") && !text.contains("panicked"), "{text}");
}

#[test]
fn a_misspelt_name_is_refused_with_the_nearest() {
    let small = SmallRun::new(1);
    let with = |name: &str, value: &str| {
        let mut list = small.tribunal(&["methods", "list"]);
        list.env(name, value);
        said(list)
    };
    let (code, text) = with("TRIBUNAL_MODLE", "x");
    assert!(code == 2 && text.contains("did you mean `TRIBUNAL_MODEL`?"), "{text}");
    let mut help = small.tribunal(&["score", "--help"]);
    help.env("TRIBUNAL_MODLE", "x");
    assert_eq!(said(help).0, 0);
    let (code, text) = with("TRIBUNAL_OF_OUR_CLUSTER", "x");
    assert!(code == 2 && text.contains("`TRIBUNAL_OF_OUR_CLUSTER`"), "{text}");
    let (code, text) = with("TRIBUNAL_EMULATED_LATE", "x");
    assert!(code == 0 && !text.contains("TRIBUNAL_EMULATED"), "{text}");
    for (toml, hint) in [("modle = 'x'", "did you mean `model`?"), ("[scroe]", "did you mean `[score]`?")] {
        fs::write(small.at("config.toml"), toml).unwrap();
        let (code, text) = with("TRIBUNAL_CONFIG", &small.at("config.toml").display().to_string());
        assert!(code == 2 && text.contains(hint), "{toml}: {text}");
    }
}
