//! The command line on this machine's CPU: one JSON object a command, and a check of bytes whose exit code
//! tells the result.

use clap::Parser;
use tribunal_bench::cli::Cli;

fn json(arguments: &[&str]) -> serde_json::Value {
    let cli = Cli::try_parse_from([&["tribunal-bench"][..], arguments, &["--json"]].concat()).unwrap();
    let mut out = Vec::new();
    cli.run(&mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

const MODEL: [&str; 6] = [
    "--device",
    "cpu",
    "--model",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/qwen2"),
    "--kv-cache",
    "4MiB",
];

fn examples() -> Vec<String> {
    let file = |name: &str| format!("{}/../../examples/en-de/{name}", env!("CARGO_MANIFEST_DIR"));
    let files = [("-s", "source.txt"), ("-t", "system-a.txt"), ("--docs", "docs.txt")];
    let files = files.into_iter().flat_map(|(option, name)| [option.to_owned(), file(name)]);
    files
        .chain(
            ["-l", "en-de", "--method", "gemba-da", "--groups", "1", "--max-tokens", "2"].map(String::from),
        )
        .collect()
}

#[test]
fn prompts_and_answers_of_a_tiny_model_are_counted() {
    let decode = json(
        &[&["decode", "--prompt", "16", "--rows", "1,2", "--answer", "3", "--repeats", "1"], &MODEL[..]]
            .concat(),
    );
    let batches: Vec<u64> =
        decode["decode"].as_array().unwrap().iter().map(|row| row["batch"].as_u64().unwrap()).collect();
    assert_eq!(batches, [1, 2], "{decode}");
}

#[test]
fn questions_are_written_and_asked_again_from_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("questions.jsonl").display().to_string();
    let examples = examples();
    let arguments = |more: &[&str]| {
        let mut all = vec!["tribunal-bench".to_owned(), "fsp".to_owned()];
        all.extend(MODEL.iter().chain(more).map(|word| (*word).to_owned()));
        all
    };
    let write = [arguments(&["--write", &file]), examples.clone()].concat();
    Cli::try_parse_from(write).unwrap().run(&mut Vec::new()).unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    let measured = json(&[&["fsp", "--requests", &file], &MODEL[..]].concat());
    assert_eq!(measured["measured"]["segments"], written.lines().count(), "{measured}");
    assert!(written.contains("prompt_ids"), "{written}");
}

#[test]
fn every_setting_gives_the_same_bytes() {
    let examples = examples();
    let examples: Vec<&str> = examples.iter().map(String::as_str).collect();
    let found = json(&[&["invariance"][..], &MODEL, &examples].concat());
    assert_eq!(found["equal"], true, "{found}");
    assert!(found["variants"].as_array().unwrap().len() > 20, "{found}");
}
