//! Each family of models judges from text to verdicts, and writes the same bytes whatever the threads and the
//! batch.

use std::{fs, path::Path, process::Command};

use crate::fakes::{copy_folder, tiny};

/// A tiny model that takes long prompts.
pub fn with_long_context(name: &str, folder: &Path) {
    copy_folder(&tiny(name), folder);
    let path = folder.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["max_position_embeddings"] = 10240.into();
    fs::write(path, config.to_string()).unwrap();
}

/// The verdicts of a run, or its messages.
fn verdicts(model: &Path, method: &str, more: &[&str]) -> String {
    let out = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/en-de");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command.arg("score").arg("-s").arg(examples.join("source.txt"));
    command.arg("-t").arg(examples.join("system-a.txt")).arg("--docs").arg(examples.join("docs.txt"));
    command.args(["-l", "en-de", "--method", method, "--max-tokens", "32", "--limit", "2", "--quiet"]);
    command.args(["--device", "cpu", "--kv-cache", "64MiB", "--model"]).arg(model).args(more);
    let run = command.arg("--out").arg(out.path().join("run")).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(matches!(run.status.code(), Some(0 | 1)), "{method}: {said}");
    fs::read_to_string(out.path().join("run/verdicts.jsonl"))
        .unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// One of the methods for each family, in turn, or all of them if `TRIBUNAL_TEST_METHODS` is set.
#[test]
fn every_family_judges_with_the_same_bytes_whatever_the_threads_and_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let all = std::env::var_os("TRIBUNAL_TEST_METHODS").is_some();
    let methods = &["fsp", "gemba-mqm", "m-mad"][..];
    let families =
        ["qwen3-moe", "glm4-moe", "gemma2", "hunyuan", "ministral3", "gemma4", "gemma4-moe", "gpt-oss-mxfp4"];
    let latent = ["deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "glm4-moe-lite"];
    let families = families.into_iter().chain(latent).map(|name| (name, methods));
    let hybrids = ["qwen3-5", "qwen3-5-moe"].map(|name| (name, &["fsp", "himate", "rate"][..]));
    let llamas = ["smollm3", "olmo2", "olmo3", "granite", "granite-hybrid", "glm4", "exaone4", "mixtral"];
    let llamas = llamas.into_iter().chain(["ministral", "apertus", "cohere", "cohere2"]);
    let llamas = llamas.map(|name| (name, &["gemba-mqm"][..]));
    for (i, (name, methods)) in families.chain(hybrids).chain(llamas).enumerate() {
        let model = folder.path().join(name);
        with_long_context(name, &model);
        let turn = i % methods.len();
        for method in if all { methods } else { &methods[turn..=turn] } {
            let first = verdicts(&model, method, &["--threads", "1", "--batch", "1"]);
            assert!(first.lines().count() > 0, "{name} {method}");
            let second = verdicts(&model, method, &["--threads", "2", "--batch", "16"]);
            assert!(first == second, "{name} {method}:\n{first}\n{second}");
        }
    }
}
