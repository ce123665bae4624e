//! Folders of safetensors whose settings stand where a public file has them.

use std::{path::Path, process::Command};

use serde_json::Value;
use tribunal::model::{Weights, config::Scaling};
use tribunal_testing::report;

use crate::fakes::said;

/// The tokens of a short answer, with their log-probabilities; logits of `transformers` 5.24 in f32.
fn check(model: &Path, expected: [(u64, f64); 2]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command.args(["ask", "Hello", "--max-tokens", "2", "--json", "--device", "cpu"]);
    command.args(["--context", "256", "--kv-cache", "8MiB", "--activations", "float"]);
    let (_, text) = said({
        command.arg("--model").arg(model);
        command
    });
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    let reply: Value = serde_json::from_str(line).unwrap();
    let tokens = reply["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), expected.len(), "{text}");
    for (token, (id, logprob)) in tokens.iter().zip(expected) {
        assert_eq!(token["id"], id, "{text}");
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
