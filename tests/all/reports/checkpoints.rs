//! Folders of safetensors whose settings stand where a public file has them.

use serde_json::Value;
use tribunal_testing::report;

use crate::fakes::tribunal;

/// The tokens of a short answer, with their log-probabilities; logits of `transformers` 5.24 in f32.
fn check(folder: &str, expected: &[(u64, f64)]) {
    let Some(path) = report(folder) else { return };
    let model = path.display().to_string();
    let args = ["ask", "Hello", "--max-tokens", "2", "--json", "--device", "cpu", "--model", &model];
    let (code, text) = tribunal(&args);
    assert_eq!(code, 0, "{text}");
    let reply: Value = serde_json::from_str(&text).unwrap();
    let tokens = reply["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), expected.len(), "{text}");
    for (token, (id, logprob)) in tokens.iter().zip(expected) {
        assert_eq!(token["id"], *id, "{folder}: {text}");
        // The cache rounds keys and values.
        assert!((token["logprob"].as_f64().unwrap() - logprob).abs() < 0.03, "{folder}: {text}");
    }
}
