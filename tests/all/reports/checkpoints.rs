//! Folders of safetensors whose settings stand where a public file has them.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tribunal::model::{Weights, config::Scaling};
use tribunal_testing::report;

use crate::fakes::said;

/// The tokens of a short answer, with their log-probabilities; logits of `transformers` 5.24 in f32.
fn check(model: &Path, expected: [(u64, f64); 2]) {
    answers(model, &["Hello"], &expected);
}

/// The tokens of an answer to a prompt without a chat template, with their log-probabilities.
fn check_raw(model: &Path, expected: &[(u64, f64)]) {
    let prompt = tempfile::NamedTempFile::new().unwrap();
    fs::write(prompt.path(), "Hello").unwrap();
    answers(model, &["--raw", prompt.path().to_str().unwrap()], expected);
}

fn answers(model: &Path, prompt: &[&str], expected: &[(u64, f64)]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command.arg("ask").args(prompt).args(["--max-tokens", &expected.len().to_string(), "--json"]);
    command.args(["--device", "cpu", "--context", "256", "--kv-cache", "8MiB", "--activations", "float"]);
    command.arg("--model").arg(model);
    let (_, text) = said(command);
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    let reply: Value = serde_json::from_str(line).unwrap();
    let tokens = reply["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), expected.len(), "{text}");
    for (token, (id, logprob)) in tokens.iter().zip(expected) {
        assert_eq!(token["id"], *id, "{text}");
        // The cache rounds keys and values.
        assert!((token["logprob"].as_f64().unwrap() - logprob).abs() < 0.03, "{text}");
    }
}

#[test]
fn a_theta_in_rope_scaling_is_found() {
    let Some(model) = report("rope-theta-in-rope-scaling") else { return };
    check(&model, [(150, -1.7761), (166, -2.5172)]);
}

#[test]
fn null_beside_a_rope_says_nothing() {
    let Some(model) = report("rope-parameters-null") else { return };
    check(&model, [(150, -1.7761), (166, -2.5172)]);
}

#[test]
fn gemma_3_without_its_defaults_is_whole() {
    let Some(model) = report("gemma3-class-defaults") else { return };
    let weights = Weights::open(&model).unwrap();
    let c = weights.config();
    assert_eq!((c.n_heads, c.full.n_kv_heads, c.full.head_dim, c.context), (8, 4, 256, 131_072));
    assert_eq!(
        (c.full.rope.theta, &c.full.rope.scaling, c.window()),
        (1e6, &Scaling::Linear(8.0), Some(1024))
    );
    check(&model, [(219, -4.8292), (151, -4.9074)]);
}

#[test]
fn settings_of_quantisation_stand_beside_those_of_the_decoder() {
    let Some(model) = report("../reports-2/q35-fp8-nested") else { return };
    check_raw(&model, &[(175, -2.8358), (314, -2.1058), (183, -1.5661)]);
}

#[cfg(unix)]
#[test]
fn a_relative_home_is_no_home() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command.args(["models", "list"]).current_dir(folder.path()).env("HOME", "relative");
    command.env_remove("TRIBUNAL_HOME").env_remove("XDG_CACHE_HOME");
    let (code, text) = said(command);
    assert!(code == 2 && text.contains("no cache folder is known on this machine"), "{text}");
}
