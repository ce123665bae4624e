//! Paths in a folder's `run.json`, and links in it: nothing outside of the folder is read or written without
//! an option of the user.
#![cfg(unix)]

use std::{fs, os::unix::fs::symlink};

use crate::fakes::{SmallRun, said};

const SECRET: &str = "root:x:0:0:a line of a private file";

fn finished(more: &[&str]) -> SmallRun {
    let small = SmallRun::new(1);
    let (code, text) = said(small.score("out", more));
    assert!(matches!(code, 0 | 1), "{text}");
    fs::write(small.at("secret"), format!("{SECRET}\n")).unwrap();
    small
}

#[test]
fn links_in_a_run_folder_are_refused() {
    let small = finished(&[]);
    for name in ["run.json", "journal.jsonl", "calls.jsonl", "verdicts.jsonl", "summary.json", "input.jsonl"]
    {
        let path = small.at("out").join(name);
        let elsewhere = small.at(&format!("elsewhere-{name}"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        for args in [&["verify", "out", "--without-model"][..], &["rerun", "out", "--out", "again"]] {
            // What is judged again needs no verdicts and no calls.
            if args[0] == "rerun" && !["run.json", "input.jsonl"].contains(&name) {
                continue;
            }
            let (code, text) = said(small.tribunal(args));
            assert!(
                code == 2 && text.contains("it is a link and not a plain file"),
                "{name} {args:?}: {text}"
            );
        }
        fs::remove_file(&path).unwrap();
        symlink(small.at("secret"), &path).unwrap();
        for args in [
            &["verify", "out", "--without-model"][..],
            &["show", "out"],
            &["show", "out", "1", "--system", "a"],
            &["export", "out", "--as", "csv", "--out", "out.csv"],
            &["report", "out", "--out", "page.html"],
            &["merge", "out", "--out", "merged"],
        ] {
            let (_, text) = said(small.tribunal(args));
            assert!(!text.contains(SECRET) && !text.contains("root:x"), "{name} {args:?}: {text}");
        }
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, &path).unwrap();
    }
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_file_that_a_command_names_is_not_read_from_outside() {
    let small = finished(&[]);
    let run = small.read("out/run.json");
    let secret = small.at("secret").display().to_string();
    for more in [
        vec!["--shots", &secret],
        vec!["--chat-template", &secret],
        vec!["--prompts", small.root.path().to_str().unwrap()],
    ] {
        let mut changed: serde_json::Value = serde_json::from_str(&run).unwrap();
        let command = changed["command"].as_array_mut().unwrap();
        if more[0] == "--prompts" {
            let at = command.iter().position(|word| word == "--prompts").unwrap();
            command.drain(at..at + 2);
            changed["origin"]["materials"] = serde_json::json!([]);
        }
        let command = changed["command"].as_array_mut().unwrap();
        command.extend(more.iter().map(|word| (*word).into()));
        fs::write(small.at("out/run.json"), changed.to_string()).unwrap();
        for args in [&["verify", "out", "--without-model"][..], &["rerun", "out", "--out", "again"]] {
            let (code, text) = said(small.tribunal(args));
            assert!(code == 2 && text.contains("keeps no copy of"), "{more:?}: {text}");
            assert!(text.contains("--allow-files") && !text.contains("root:x"), "{text}");
            assert!(!small.at("again").exists());
        }
    }
    fs::write(small.at("out/run.json"), run).unwrap();
}

#[test]
fn an_option_of_a_method_names_no_file_outside() {
    let small = finished(&[]);
    let secret = small.at("secret").display().to_string();
    let run = small.read("out/run.json");
    for method in ["probe:fit=FILE", "himate:calibration=FILE", "rate:search=FILE"] {
        let mut changed: serde_json::Value = serde_json::from_str(&run).unwrap();
        let command = changed["command"].as_array_mut().unwrap();
        let at = command.iter().position(|word| word == "--method").unwrap();
        command[at + 1] = method.replace("FILE", &secret).into();
        fs::write(small.at("out/run.json"), changed.to_string()).unwrap();
        let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
        assert!(code == 2 && !text.contains("root:x"), "{method}: {text}");
        assert!(text.contains("keeps no copy of") || text.contains("has no option"), "{method}: {text}");
    }
}

#[test]
fn a_pipe_that_a_command_names_as_a_model_is_not_waited_for() {
    let small = finished(&[]);
    let pipe = |name: &str| {
        assert!(std::process::Command::new("mkfifo").arg(small.at(name)).status().unwrap().success());
        small.at(name).display().to_string()
    };
    let run = small.read("out/run.json");
    let model = small.model.display().to_string();
    fs::create_dir(small.at("folder")).unwrap();
    fs::write(small.at("folder/config.json"), "{}").unwrap();
    pipe("folder/model.safetensors");
    for other in [
        pipe("model.gguf"),
        small.at("folder").display().to_string(),
        "/dev/zero".into(),
        "/proc/kmsg".into(),
    ] {
        fs::write(small.at("out/run.json"), run.replace(&model, &other)).unwrap();
        let (code, text) = said(small.tribunal(&["verify", "out"]));
        assert!(
            code == 2
                && (text.contains("is neither a file nor a folder") || text.contains("is an empty file")),
            "{other}: {text}"
        );
    }
    fs::write(small.at("out/run.json"), run).unwrap();
    fs::create_dir(small.at("adapter")).unwrap();
    fs::write(small.at("adapter/adapter_config.json"), "{}").unwrap();
    pipe("adapter/adapter_model.safetensors");
    let (code, text) = said(small.tribunal(&["verify", "out", "--adapter", "adapter"]));
    assert!(code == 2 && text.contains("not a plain file"), "{text}");
}

#[test]
fn the_input_of_a_shard_is_read_when_that_is_allowed() {
    let small = SmallRun::new(2);
    for shard in ["1/2", "2/2"] {
        let (code, text) = said(small.score(&shard.replace('/', "of"), &["--shard", shard]));
        assert!(matches!(code, 0 | 1), "{text}");
    }
    let (code, text) = said(small.tribunal(&["verify", "1of2", "--without-model"]));
    assert_eq!(code, 0, "{text}");
    let (code, text) = said(small.tribunal(&["verify", "2of2", "--without-model"]));
    assert!(
        code == 2 && text.contains("keeps no copy of its input") && text.contains("--allow-files"),
        "{text}"
    );
    let (code, text) = said(small.tribunal(&["verify", "2of2", "--without-model", "--allow-files"]));
    assert_eq!(code, 0, "{text}");
}

#[test]
fn no_result_is_written_over_a_run() {
    let small = finished(&[]);
    let whole = |name: &str| fs::read(small.at("out").join(name)).unwrap();
    let before: Vec<_> = ["run.json", "journal.jsonl", "calls.jsonl", "verdicts.jsonl"].map(whole).into();
    symlink(small.at("out/calls.jsonl"), small.at("link.json")).unwrap();
    for args in [
        &["report", "out", "--out", "out/journal.jsonl"][..],
        &["report", "out", "--out", "link.json"],
        &["export", "out", "--as", "csv", "--out", "out/verdicts.jsonl"],
        &["export", "out", "--as", "mqm-tsv", "--out", "out/materials/prompts/gemba_scales/sqm.j2"],
    ] {
        let (code, text) = said(small.tribunal(args));
        assert!(code == 2 && text.contains("is a file of the run in"), "{args:?}: {text}");
    }
    let after: Vec<_> = ["run.json", "journal.jsonl", "calls.jsonl", "verdicts.jsonl"].map(whole).into();
    assert_eq!(before, after);
}
