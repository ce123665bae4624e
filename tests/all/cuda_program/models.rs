//! Kinds of models on emulated GPUs: mixtures of experts, hybrids, score heads and latent attention judge from
//! text to verdicts.

use std::path::Path;

use super::{gpu, is_emulated, score, with_long_context};
use crate::fakes::{write_bos, write_with_head};

/// Mixtures of experts and hybrids judge from text to verdicts, with the same bytes on one card and on two,
/// whatever the batch; so do dense models whose scores are capped, normed late or scaled by position.
#[test]
fn models_of_2026_judge_end_to_end() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let judged = |out: &str, model: &Path, method: &str, more: &[&str]| {
        judged(&folder.path().join(out), model, method, more)
    };
    for (name, method) in [
        ("qwen3-moe", "gemba-mqm"),
        ("glm4-moe", "gemba-sqm"),
        ("qwen3-5", "fsp:shots=0"),
        ("gemma2", "gemba-sqm"),
        ("ministral3", "gemba-sqm"),
    ] {
        let model = with_long_context(name, folder.path());
        let first =
            judged(&format!("{name}-one"), &model, method, &["--batch", "1", "--no-graphs", "--limit", "2"]);
        assert!(first.lines().count() > 0, "{name}, {method}");
        let second =
            judged(&format!("{name}-two"), &model, method, &["--tensor-parallel", "2", "--limit", "2"]);
        assert!(first == second, "{name}, {method}:\n{first}\n{second}");
    }
}

/// Score heads, methods in files and latent attention judge from text to verdicts, with the same bytes in any
/// batch.
#[test]
fn heads_methods_in_files_and_latent_attention_judge_end_to_end() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let head = folder.path().join("remedy");
    write_with_head(&head, "gemma2", |_, _| {});
    write_bos(&head);
    let [qwen2, deepseek] = ["qwen2", "deepseek-v2-lite"].map(|name| with_long_context(name, folder.path()));
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/methods");
    let in_file = |name: &str| examples.join(name).display().to_string();
    for (model, method) in [
        (&head, "remedy".to_owned()),
        (&qwen2, in_file("five-criteria")),
        (&qwen2, in_file("m-prometheus")),
        (&qwen2, in_file("mqm-checklist")),
        (&deepseek, "gemba-sqm".to_owned()),
    ] {
        let out = |how: &str| folder.path().join(how).join(method.replace('/', "-"));
        let alone = judged(&out("alone"), model, &method, &["--batch", "1", "--no-graphs"]);
        let together = judged(&out("together"), model, &method, &[]);
        assert!(alone.lines().count() == 4 && alone == together, "{method}:\n{alone}\n{together}");
    }
}

/// The verdicts of a run on emulated cards.
fn judged(out: &Path, model: &Path, method: &str, more: &[&str]) -> String {
    let cuda = [&["--device", "cuda", "--kv-cache", "8MiB"], more].concat();
    let run = score(out, model, method, &[("TRIBUNAL_EMULATED_DEVICES", "2")], &cuda);
    assert!(matches!(run.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&run.stderr));
    std::fs::read_to_string(out.join("verdicts.jsonl")).unwrap()
}
