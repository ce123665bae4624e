//! The program with one model on several emulated GPUs: the bytes of one, and messages for impossible
//! settings that name possible ones.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use tribunal::engine::{Need, Options};

use super::{is_emulated, score, tiny};
use crate::fakes::{copy_folder, gguf_of_heads};

/// Said of GPUs that do not reach each other's memory.
const REMARK: &str = "GPU 0 has no access to the memory of GPU 1, so what the GPUs exchange goes through this machine's \
                      memory, which is slow; scores do not change\nhint: ";

/// Results of a run on four emulated GPUs: its exit code, its verdicts, and its messages.
fn judge(out: &Path, variables: &[(&str, &str)], more: &[&str]) -> (Option<i32>, String, String) {
    let variables = [&[("TRIBUNAL_EMULATED_DEVICES", "4")], variables].concat();
    let more = [&["--kv-cache", "16MiB", "--jobs", "1"], more].concat();
    let output = score(out, &tiny("qwen2"), "gemba-sqm", &variables, &more);
    let verdicts = std::fs::read_to_string(out.join("verdicts.jsonl")).unwrap_or_default();
    (output.status.code(), verdicts, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A run over several GPUs, two models of two of them among these, has the bytes and the signature of one
/// over one.
#[test]
fn verdicts_have_the_bytes_of_one_gpu() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let judged = |name: &str, late: &str, more: &[&str]| {
        judge(&folder.path().join(name), &[("TRIBUNAL_EMULATED_LATE", late)], more)
    };
    let (code, whole, said) = judged("one", "0", &["--device", "cuda"]);
    assert_eq!(code, Some(0), "{said}");
    let signature = |name: &str| {
        let run = std::fs::read_to_string(folder.path().join(name).join("run.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&run).unwrap()["signature"].clone()
    };
    for (name, late, device, n) in
        [("two", "0", "cuda", "2"), ("pairs", "9", "cuda:0,1,2,3", "2"), ("four", "4", "cuda:3,1,2,0", "4")]
    {
        let (code, verdicts, said) = judged(name, late, &["--device", device, "--tensor-parallel", n]);
        assert_eq!(code, Some(0), "{name}: {said}");
        assert_eq!(verdicts, whole, "{name}");
        assert_eq!(signature(name), signature("one"), "{name}");
    }
}

/// A GPU that is lost ends the run with what is finished, and the others go on with it.
#[test]
fn a_run_that_lost_a_gpu_goes_on_with_the_others() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let judged = |name: &str, variables: &[(&str, &str)], more: &[&str]| {
        judge(&folder.path().join(name), variables, more)
    };
    let (_, whole, _) = judged("one", &[], &["--device", "cuda"]);
    let lost = [("TRIBUNAL_EMULATED_LOST_AFTER", "200"), ("TRIBUNAL_EMULATED_LOST_DEVICE", "1")];
    let two = &["--device", "cuda", "--tensor-parallel", "2"][..];
    let (code, _, said) = judged("lost", &lost, two);
    assert_eq!(code, Some(2), "{said}");
    for expected in [
        "GPU 1: the GPU failed",
        "\nhint: if this GPU is lost, go on with `--device cuda:0 --tensor-parallel 1`; the scores are the same",
        "\nhint: what is finished is kept; run the same command again to continue",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let journal = std::fs::read_to_string(folder.path().join("lost/journal.jsonl")).unwrap();
    assert!((1..4).contains(&journal.lines().count()), "{journal}");
    // What is left goes on with another number of GPUs, or with as many of the others.
    let copy = folder.path().join("others");
    copy_folder(&folder.path().join("lost"), &copy);
    let (code, verdicts, said) = judged("others", &lost, &["--device", "cuda:0,2", "--tensor-parallel", "2"]);
    assert_eq!((code, &verdicts), (Some(0), &whole), "{said}");
    // With the lost one excluded from the driver's count, the same command names a sufficient number, which
    // works.
    let left = [("TRIBUNAL_EMULATED_DEVICES", "1")];
    let (code, _, said) = judged("lost", &left, two);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains(
            "a model on 2 GPUs needs 2 of them, and there are 1\nhint: without `--tensor-parallel`, "
        ),
        "{said}"
    );
    let (code, _, said) = judged("lost", &left, &["--device", "cuda:0,1", "--tensor-parallel", "2"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("there are 1 devices, counted from 0\nhint: "), "{said}");
    let (code, verdicts, said) = judged("lost", &left, &["--device", "cuda"]);
    assert_eq!((code, &verdicts), (Some(0), &whole), "{said}");
    // Later in the run too.
    let late = [("TRIBUNAL_EMULATED_LOST_AFTER", "280"), ("TRIBUNAL_EMULATED_LOST_DEVICE", "1")];
    let (code, _, said) = judged("late", &late, two);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("GPU 1: the GPU failed"), "{said}");
}

/// GPUs that do not reach each other's memory hold a model together too, with a note, as it is slow.
#[test]
fn gpus_without_access_to_each_other_have_the_bytes_of_one() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let judged = |name: &str, late: &str, more: &[&str]| {
        let variables = [("TRIBUNAL_EMULATED_PEERS", "0"), ("TRIBUNAL_EMULATED_LATE", late)];
        let (_, verdicts, said) = judge(&folder.path().join(name), &variables, more);
        (verdicts, said)
    };
    let (whole, said) = judged("one", "0", &["--device", "cuda:0"]);
    assert!(!whole.is_empty() && !said.contains("has no access"), "{said}");
    for (name, late, n) in [("two", "0", "2"), ("four", "2", "4"), ("early", "7", "2")] {
        let (verdicts, said) = judged(name, late, &["--device", "cuda", "--tensor-parallel", n]);
        assert_eq!(verdicts, whole, "{name}: {said}");
        assert!(said.contains(REMARK), "{name}: {said}");
    }
}

/// A model that is too large for one of several GPUs has as few as hold it, with a note; its verdicts are
/// those of one GPU that holds it.
#[test]
fn a_model_that_does_not_fit_one_gpu_is_spread_over_the_fewest_that_hold_it() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("eight.gguf");
    gguf_of_heads(&model, GgmlDType::BF16, 8, 2048);
    let need = Need::of(&model, &Options { context: Some(2048), ..Options::for_gpu() }, false).unwrap();
    let [one, two] = [0, 1].map(|i| need.on_each[i].unwrap());
    assert!(two < one, "{two} of {one} bytes");
    let judged = |name: &str, bytes: usize, variables: &[(&str, &str)], more: &[&str]| {
        let bytes = bytes.to_string();
        let variables =
            [&[("TRIBUNAL_EMULATED_DEVICES", "4"), ("TRIBUNAL_EMULATED_MEMORY", &*bytes)], variables]
                .concat();
        let more = [&["--context", "2048"], more].concat();
        let output = score(&folder.path().join(name), &model, "gemba-sqm", &variables, &more);
        let verdicts = std::fs::read_to_string(folder.path().join(name).join("verdicts.jsonl"));
        (verdicts.unwrap_or_default(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (whole, said) = judged("whole", 2 * one, &[], &["--device", "cuda:0,1,2,3"]);
    assert!(!whole.is_empty() && !said.contains("spread over"), "{said}");
    let (spread, said) = judged("spread", one - 1, &[], &["--device", "cuda:0,1,2,3"]);
    assert_eq!(spread, whole, "{said}");
    assert!(said.contains("`eight` does not fit on one GPU, so it is spread over 2"), "{said}");
    // As many of this machine's are taken where none is named, the first that have room.
    for (name, device) in [("auto", "auto"), ("cuda", "cuda")] {
        let (verdicts, said) = judged(name, one - 1, &[], &["--device", device]);
        assert_eq!(verdicts, whole, "{said}");
        assert!(said.contains("so it is spread over 2"), "{said}");
    }
    let small = ("TRIBUNAL_EMULATED_SMALL_DEVICE", "0");
    let (verdicts, said) = judged("small", one - 1, &[small], &["--device", "cuda"]);
    assert_eq!(verdicts, whole, "{said}");
    assert!(said.contains("so it is spread over 2 (`cuda:1,2`)"), "{said}");
    let (verdicts, said) = judged("another", one, &[small], &["--device", "auto"]);
    assert_eq!(verdicts, whole, "{said}");
    assert!(said.contains("`eight` does not fit on GPU 0, so it has another one (`cuda:1`)"), "{said}");
    let (_, said) = judged("one", one - 1, &[], &["--device", "cuda:0,1,2,3", "--tensor-parallel", "1"]);
    assert!(said.contains("out of GPU memory for"), "{said}");
}

#[test]
fn what_cannot_be_one_model_on_several_gpus_is_refused_with_what_can() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (variables, device, n, expected) in [
        (&[][..], "cuda:0,1,2", "2", "need a multiple of 2 GPUs, and 3 are named\nhint: `--device cuda:0,1`"),
        (&[], "cuda:0,1,0,2", "4", "names a GPU twice"),
        (&[], "cpu", "2", "only where GPUs are named"),
        (&[], "cuda", "9", "it must be at most 8"),
        (
            &[],
            "cuda",
            "5",
            "needs 5 of them, and there are 4\nhint: without `--tensor-parallel`, the model has as few GPUs as hold it",
        ),
        (
            &[],
            "cuda",
            "3",
            "a model with 4 heads, 2 of keys and values, cannot be spread over 3 GPUs\nhint: `--tensor-parallel` 1, 2 or 4",
        ),
        (
            &[("TRIBUNAL_EMULATED_UNEQUAL_DEVICE", "1")],
            "cuda",
            "2",
            "differ\nhint: one model is spread over GPUs of one kind",
        ),
        (
            &[("TRIBUNAL_EMULATED_SMALL_DEVICE", "1"), ("TRIBUNAL_EMULATED_MEMORY", "400000")],
            "cuda",
            "2",
            "out of GPU memory for",
        ),
    ] {
        let variables = [&[("TRIBUNAL_EMULATED_DEVICES", "4")], variables].concat();
        let more = ["--device", device, "--tensor-parallel", n];
        let output = score(&folder.path().join("refused"), &tiny("qwen2"), "gemba-sqm", &variables, &more);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{expected}: {said}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
