//! The program on a GPU, or on the emulated one of `scripts/cuda/emulated.sh`: runs end to end, and error
//! messages. The engine's own tests are in its crate. Without a GPU the tests print a note and pass; with
//! `TRIBUNAL_TEST_GPU=1` that is a failure.
#![expect(clippy::print_stderr, reason = "a test that does not run says so")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use candle_core::quantized::GgmlDType;
use tribunal::engine::Device;

use crate::fakes::{copy_folder, gguf_of_sizes, tiny};

mod models;
mod ranks;

fn gpu() -> Option<Device> {
    match Device::named("cuda") {
        Ok(mut devices) => Some(devices.remove(0)),
        Err(error) => {
            assert!(std::env::var_os("TRIBUNAL_TEST_GPU").is_none(), "{error}");
            eprintln!("not checked: {error}");
            None
        }
    }
}

/// Runs the binary with the emulated GPU, configured by variables.
fn score(out: &Path, model: &Path, method: &str, variables: &[(&str, &str)], more: &[&str]) -> Output {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/en-de");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    command
        .arg("score")
        .arg("-s")
        .arg(examples.join("source.txt"))
        .arg("-t")
        .arg(examples.join("system-a.txt"));
    command.arg("--docs").arg(examples.join("docs.txt")).args(["-l", "en-de", "--method", method]);
    command.args(["--max-tokens", "24", "--quiet"]).arg("--model").arg(model);
    command.args(if more.contains(&"--limit") { &[][..] } else { &["--limit", "4"] });
    command.arg("--out").arg(out).args(more).envs(variables.iter().copied());
    command.output().unwrap()
}

/// A tiny model that takes long prompts.
fn with_long_context(name: &str, folder: &Path) -> PathBuf {
    let model = folder.join(format!("long-{name}"));
    copy_folder(&tiny(name), &model);
    let config = std::fs::read_to_string(model.join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["max_position_embeddings"] = 8192.into();
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    model
}

/// Returns true if the driver is the emulated one, whose behaviour variables change.
fn is_emulated() -> bool {
    std::env::var_os("TRIBUNAL_TEST_EMULATED").is_some()
}

#[test]
fn fsp_runs_end_to_end_and_what_goes_wrong_is_said() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cuda = &["--device", "cuda", "--kv-cache", "8MiB"][..];
    let verdicts = |name: &str| std::fs::read_to_string(at(name).join("verdicts.jsonl")).unwrap();
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();

    let fsp = score(&at("fsp"), &with_long_context("qwen2", folder.path()), "fsp:shots=0", &[], cuda);
    assert!(matches!(fsp.status.code(), Some(0 | 1)), "{}", said(&fsp));
    assert_eq!(verdicts("fsp").lines().count(), 4);

    for (variables, more, expected) in [
        (&[("TRIBUNAL_EMULATED_DEVICES", "0")][..], cuda, "no CUDA device"),
        (&[], &["--device", "cuda:7"], "there are"),
        (&[("TRIBUNAL_EMULATED_MEMORY", "200000")], cuda, "out of GPU memory for"),
        (&[], &["--device", "cuda", "--kv-cache", "1KiB"], "hint: `--kv-cache"),
        (&[], &["--device", "cuda", "--activations", "float"], "is for CPUs"),
    ] {
        let output = score(&at("refused"), &tiny("qwen2"), "gemba-sqm", variables, more);
        assert_eq!(output.status.code(), Some(2), "{expected}: {}", said(&output));
        assert!(said(&output).contains(expected), "{expected}: {}", said(&output));
    }

    // A GPU that is lost in the middle: what is finished is kept, and the run goes on from there.
    let one_by_one = [cuda, &["--jobs", "1"]].concat();
    let run = |name, variables| score(&at(name), &tiny("qwen2"), "gemba-sqm", variables, &one_by_one);
    let whole = run("whole", &[]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let lost = run("lost", &[("TRIBUNAL_EMULATED_LOST_AFTER", "200")]);
    assert_eq!(lost.status.code(), Some(2), "{}", said(&lost));
    assert!(said(&lost).contains("the GPU failed"), "{}", said(&lost));
    assert!(said(&lost).contains("run the same command again"), "{}", said(&lost));
    let kept = std::fs::read_to_string(at("lost").join("journal.jsonl")).unwrap().lines().count();
    assert!((1..4).contains(&kept), "{kept} of 4 units were finished");
    assert_eq!(run("lost", &[]).status.code(), Some(0));
    assert_eq!(verdicts("lost"), verdicts("whole"));
}

/// A run into a folder of this name, and its launches, a line each, as the emulated driver wrote them down.
fn traced(out: &Path, name: &str, more: &[&str]) -> Vec<String> {
    let trace = out.join(format!("{name}.trace"));
    let variables = [("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())];
    let cuda = [&["--device", "cuda", "--kv-cache", "8MiB"], more].concat();
    let output = score(&out.join(name), &tiny("qwen2"), "gemba-sqm", &variables, &cuda);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn an_adapter_is_signed_and_without_one_nothing_more_is_launched() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let judged = |name: &str, more: &[&str]| {
        let launches = traced(out.path(), name, more);
        let of = |kernel: &str| launches.iter().filter(|line| line.contains(kernel)).count();
        let run = std::fs::read_to_string(out.path().join(name).join("run.json")).unwrap();
        (of("adapter_"), of("gemm_"), run)
    };
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/adapters/qwen2-all");
    let (added, products, run) = judged("with", &["--adapter", dir.to_str().unwrap()]);
    assert!(added > products / 2, "{added} launches for adapters beside {products} for products");
    assert!(run.contains("\"adapter\":\"qwen2-all\"") && run.contains("adapter_sha256"), "{run}");
    let (added, _, run) = judged("without", &[]);
    assert_eq!(added, 0);
    assert!(!run.contains("adapter_sha256"), "{run}");
}

/// Kernels of a step start before the one before them has ended, where their code waits for it; the verdicts
/// are the same.
#[test]
fn kernels_that_wait_by_themselves_are_started_early() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let judged = |name: &str, more: &[&str]| {
        let launches = traced(out.path(), name, more);
        let is_of_step = |line: &&String| line.starts_with("gemm_") || line.starts_with("residual_norm");
        let of_step: Vec<&String> = launches.iter().filter(is_of_step).collect();
        assert!(of_step.len() > 10, "{name}: {launches:?}");
        let early = of_step.iter().filter(|line| line.ends_with(" early")).count();
        let verdicts = std::fs::read_to_string(out.path().join(name).join("verdicts.jsonl")).unwrap();
        (early, of_step.len(), verdicts)
    };
    let (early, all, verdicts) = judged("early", &[]);
    assert_eq!(early, all);
    let (early, _, after) = judged("after", &["--gpu-kernels", "proven"]);
    assert_eq!((early, after), (0, verdicts));
}

/// Runs `tribunal selftest` on an emulated card with these variables: its output, and its exit code.
fn selftest(variables: &[(&str, &str)], more: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_tribunal"))
        .arg("selftest")
        .args(if more.contains(&"--device") { &[][..] } else { &["--device", "cuda"] })
        .args(more)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat(),
        output.status.code(),
    )
}

/// A card whose kernels are right passes; one with a wrong kernel is named with the kernel, row and column.
#[test]
fn a_wrong_kernel_is_found_and_named() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let (said, code) = selftest(&[], &[]);
    assert!(code == Some(0) && said.contains("the tensor core's sums and every product are right"), "{said}");
    // For a model, whose formats alone are checked.
    let folder = tempfile::tempdir().unwrap();
    let model = |name: &str, dtype| {
        let path = folder.path().join(name);
        gguf_of_sizes(&path, dtype, [4, 2048, 512]);
        path.display().to_string()
    };
    let (bf16, q5_k) = (model("bf16.gguf", GgmlDType::BF16), model("q5_k.gguf", GgmlDType::Q5K));
    for (kernel, what) in [
        ("gemm_bf16_128x128_gated", "experts [80, 768]"),
        ("gemm_bf16_tma_64x128", "[35, 3072] by [72, 3072]"),
    ] {
        let (said, code) = selftest(&[("TRIBUNAL_EMULATED_WRONG_KERNEL", kernel)], &["--model", &bf16]);
        let named = format!("`{kernel}` of {what}: row 0, column 0 is ");
        assert!(code == Some(1) && said.contains(&named) && said.contains("--gpu-kernels proven"), "{said}");
    }
    let wrong = [("TRIBUNAL_EMULATED_WRONG_KERNEL", "gemm_bf16_tma_64x128")];
    // Only kernels that are chosen from are checked.
    let (said, code) = selftest(&wrong, &["--model", &bf16, "--gpu-kernels", "plain"]);
    let right = "the tensor core's sums and this model's products and layers are right";
    assert!(code == Some(0) && said.contains(right), "{said}");
    // What no second kernel computes shows beside the CPU, or in the bits of small models that are known.
    for (kernel, found) in [
        ("dequantize_q5_k", "`dequantize_q5_k` of [75, 768]: row 0, column 0 is "),
        ("delta_gate", "a small hybrid: the hash"),
    ] {
        let wrong = [("TRIBUNAL_EMULATED_WRONG_KERNEL", kernel)];
        let (said, code) = selftest(&wrong, &["--model", &q5_k]);
        assert!(code == Some(1) && said.contains(found), "{kernel}: {said}");
    }
    // As after a kernel that accessed memory outside its buffers.
    let (said, code) = selftest(&[("TRIBUNAL_EMULATED_LOST_AFTER", "5")], &[]);
    assert!(
        code == Some(1) && said.contains("the GPU failed") && said.contains("--gpu-kernels proven"),
        "{said}"
    );
}

/// A run on an unchecked card checks it, in a process of its own: a kernel that is wrong, or does not end, is
/// not taken, the verdicts are the same, and `run.json` names the kernels.
#[test]
fn a_run_on_a_wrong_card_takes_other_kernels() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let home = home.path().display().to_string();
    let judged_by = |name: &str, variables: &[(&str, &str)], kernels: &str| {
        let variables =
            [&[("TRIBUNAL_GPU_CHECK", "600"), ("TRIBUNAL_HOME", home.as_str())][..], variables].concat();
        let cuda = ["--device", "cuda", "--kv-cache", "8MiB", "--gpu-kernels", kernels];
        let output = score(&out.path().join(name), &tiny("qwen2"), "gemba-sqm", &variables, &cuda);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        let read = |file: &str| std::fs::read_to_string(out.path().join(name).join(file)).unwrap();
        (said, read("verdicts.jsonl"), read("run.json"))
    };
    let judged = |name: &str, variables: &[(&str, &str)]| judged_by(name, variables, "auto");
    let wrong = ("TRIBUNAL_EMULATED_WRONG_KERNEL", "attend_rows_d16_t16");
    let (said, by_plain, run) = judged("wrong", &[wrong]);
    assert!(said.contains("two layers of this model's width, step 0: row 0, column "), "{said}");
    assert!(
        said.contains("this run takes `--gpu-kernels plain`") && run.contains("plain kernels"),
        "{said}\n{run}"
    );
    let (said, _, _) = judged("known", &[wrong]);
    assert!(!said.contains("two layers"), "it is known: {said}");
    std::fs::remove_file(format!("{home}/gpu-checks.json")).unwrap();
    let wrong = ("TRIBUNAL_EMULATED_WRONG_KERNEL", "gemm_bf16_tma_64x128");
    let (said, _, run) = judged("tma", &[wrong]);
    assert!(said.contains("`gemm_bf16_tma_64x128` of [35, 3072] by [72, 3072]: row 0"), "{said}");
    assert!(said.contains("takes `--gpu-kernels proven`") && run.contains("proven kernels"), "{said}\n{run}");
    std::fs::remove_file(format!("{home}/gpu-checks.json")).unwrap();
    let wrong = ("TRIBUNAL_EMULATED_WRONG_KERNEL", "gemm_bf16_tma_256x128_gated");
    let (said, by_auto, _) = judged_by("new", &[wrong], "new");
    assert!(said.contains("`gemm_bf16_tma_256x128_gated` of experts [80, 768]: row "), "{said}");
    assert!(said.contains("this run takes `--gpu-kernels auto`") && by_auto == by_plain, "{said}");
    std::fs::remove_file(format!("{home}/gpu-checks.json")).unwrap();
    let hangs = [("TRIBUNAL_EMULATED_HANGING_KERNEL", "gemm_bf16_tma_64x128"), ("TRIBUNAL_GPU_CHECK", "3")];
    let (said, _, _) = judged("hanging", &hangs);
    assert!(said.contains("the check of its `auto` kernels did not end within 3 s"), "{said}");
    assert!(said.contains("this run takes `--gpu-kernels plain`"), "{said}");
    let wrong = [("TRIBUNAL_EMULATED_WRONG_KERNEL", "residual_norm"), ("TRIBUNAL_GPU_CHECK", "600")];
    let wrong = [&wrong[..], &[("TRIBUNAL_HOME", home.as_str())]].concat();
    let (said, code, _) = broken_off(&out.path().join("wrong by all"), &wrong);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("computes wrong results by every set of kernels"), "{said}");
    let (said, verdicts, run) = judged("right", &[]);
    assert!(!said.contains("gpu-kernels") && !run.contains("plain kernels"), "{said}");
    assert_eq!(by_plain, verdicts);
}

/// Results of a run with faults that begin in its middle: its output, its exit code, the verdicts in its
/// journal.
fn broken_off(out: &Path, variables: &[(&str, &str)]) -> (String, Option<i32>, Vec<String>) {
    let cuda = ["--device", "cuda", "--kv-cache", "8MiB", "--jobs", "1", "--no-drafts"];
    let output = score(out, &tiny("qwen2"), "gemba-sqm", variables, &cuda);
    let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (said, output.status.code(), journal.lines().map(str::to_owned).collect())
}

/// The kernels of a run, launch by launch.
fn kernels_of(trace: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap();
    text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// A kernel that never ends stops the run, which keeps what is finished and goes on from there.
#[test]
fn a_step_that_hangs_ends_the_run_with_what_is_finished() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let trace = out.path().join("trace");
    let whole =
        broken_off(&out.path().join("whole"), &[("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())]);
    assert_eq!(whole.1, Some(0), "{}", whole.0);
    let after = (kernels_of(&trace).len() * 3 / 4).to_string();
    let faults = [
        ("TRIBUNAL_EMULATED_HANGING_KERNEL", "residual_norm"),
        ("TRIBUNAL_EMULATED_FAULT_AFTER", after.as_str()),
        ("TRIBUNAL_STEP_LIMIT", "1"),
    ];
    let hung = out.path().join("hung");
    let (said, code, kept) = broken_off(&hung, &faults);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("does not answer: a step of 1 requests and "), "{said}");
    assert!(said.contains("what is finished is kept"), "{said}");
    assert!((1..whole.2.len()).contains(&kept.len()) && kept[..] == whole.2[..kept.len()], "{kept:?}");
    let (said, code, _) = broken_off(&hung, &[]);
    assert_eq!(code, Some(0), "{said}");
    let verdicts =
        |name: &str| std::fs::read_to_string(out.path().join(name).join("verdicts.jsonl")).unwrap();
    assert_eq!(verdicts("hung"), verdicts("whole"));
}

/// A kernel that goes wrong in the middle of a run is found by a step that is computed again: verdicts since
/// the last one that agreed are taken out, and the run goes on by other kernels to the same bytes.
#[test]
fn a_kernel_that_goes_wrong_is_found_while_running() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let trace = out.path().join("trace");
    let checked = [("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap()), ("TRIBUNAL_STEP_CHECK", "2")];
    let (said, code, whole) = broken_off(&out.path().join("whole"), &checked);
    assert_eq!(code, Some(0), "no difference where no kernel is wrong: {said}");
    let is_plain = |kernel: &String| kernel.starts_with("attend_") && kernel.ends_with("_plain");
    assert!(kernels_of(&trace).iter().any(is_plain), "the first check has plain attention");
    // Wrong where it is started before the kernel before it has ended, which the proven kernels never are.
    let fault = [("TRIBUNAL_EMULATED_WRONG_KERNEL", "residual_norm"), ("TRIBUNAL_EMULATED_WRONG_EARLY", "1")];
    let (after, home) = ((kernels_of(&trace).len() * 3 / 4).to_string(), out.path().join("home"));
    let home = home.to_str().unwrap();
    let faults = [
        fault[0],
        fault[1],
        ("TRIBUNAL_EMULATED_FAULT_AFTER", after.as_str()),
        ("TRIBUNAL_STEP_CHECK", "2"),
        ("TRIBUNAL_HOME", home),
    ];
    let folder = out.path().join("wrong");
    let (said, code, kept) = broken_off(&folder, &faults);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("computed a step again with another result: the proven kernels "), "{said}");
    assert!(
        said.contains(&format!("{} are kept; run the same command again to judge the rest", kept.len())),
        "{said}"
    );
    assert!((1..whole.len()).contains(&kept.len()) && kept[..] == whole[..kept.len()], "{kept:?}");
    // It is wrong from the start now, and known not to be taken.
    let trace = out.path().join("trace of the rest");
    let known = [("TRIBUNAL_GPU_CHECK", "600"), ("TRIBUNAL_HOME", home)];
    let traced = [("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())];
    let (said, code, _) = broken_off(&folder, &[&fault[..], &known, &traced].concat());
    assert_eq!(code, Some(0), "{said}");
    let launches = std::fs::read_to_string(&trace).unwrap();
    assert!(!launches.is_empty() && !launches.contains(" early"), "the proven kernels are taken");
    let verdicts =
        |name: &str| std::fs::read_to_string(out.path().join(name).join("verdicts.jsonl")).unwrap();
    assert_eq!(verdicts("wrong"), verdicts("whole"));
}

/// A variable that is no number is rejected by its name, whatever the command. An empty one counts as none.
#[test]
fn variables_that_are_no_numbers_are_refused_by_name() {
    let number = "it must be a whole number or `off`";
    for (name, reason) in [
        ("TRIBUNAL_STEP_LIMIT", number),
        ("TRIBUNAL_STEP_CHECK", number),
        ("TRIBUNAL_GPU_CHECK", number),
        ("TRIBUNAL_SAVED_PREFIXES", "`soon` is not a size; write it like 2GiB or 800MiB, or `off`"),
    ] {
        for (value, code) in [("soon", 2), ("", 0), ("off", 0), ("12", 0)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
            let output = command.args(["methods", "list"]).env(name, value).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{name}={value}: {said}");
            assert!(code == 0 || said.contains(&format!("`{name}=soon`: {reason}")), "{said}");
        }
    }
}

/// Memory of another card that reads as other bytes is named by `selftest`.
#[test]
fn cards_that_read_other_bytes_from_each_other_are_named() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let lying = [("TRIBUNAL_EMULATED_DEVICES", "2"), ("TRIBUNAL_EMULATED_LYING_PEERS", "1")];
    let model = tiny("qwen2");
    let more = ["--device", "cuda:0,1", "--gpu-kernels", "plain", "--model", model.to_str().unwrap()];
    let (said, code) = selftest(&lying, &more);
    assert!(code == Some(0) && said.contains("GPU 0 reads other bytes from the memory of GPU 1"), "{said}");
}

/// Another process takes all memory in the middle of a run: it goes on, without recordings, to the same
/// verdicts.
#[test]
fn memory_that_another_process_takes_ends_no_run() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name);
    let judged = |name: &str, variables: &[(&str, &str)]| {
        let cuda = &["--device", "cuda", "--kv-cache", "8MiB", "--jobs", "1"];
        let output = score(&at(name), &tiny("qwen2"), "gemba-sqm", variables, cuda);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(at(name).join("verdicts.jsonl")).unwrap()
    };
    let whole = judged("whole", &[]);
    for after in ["45", "400"] {
        let graphs = ("TRIBUNAL_EMULATED_GRAPH_BYTES", "100000");
        assert_eq!(
            judged(after, &[graphs, ("TRIBUNAL_EMULATED_TAKEN_AFTER", after)]),
            whole,
            "after {after}"
        );
    }
}

/// Cards that are too small, and drivers that are too old, are rejected with a message that names sufficient
/// ones.
#[test]
fn what_does_not_fit_is_refused_with_what_does() {
    if gpu().is_none() || !is_emulated() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let refused = |variables: &[(&str, &str)], more: &[&str]| {
        let cuda = [&["--device", "cuda"], more].concat();
        let output = score(&out.path().join("refused"), &tiny("qwen2"), "gemba-sqm", variables, &cuda);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        said
    };
    let memory = |bytes: &'static str| [("TRIBUNAL_EMULATED_MEMORY", bytes)];
    for (variables, more, expected) in [
        (memory("100000"), &[][..], "out of GPU memory for the weights: need"),
        (memory("100000"), &[], "hint: a quantized model takes less"),
        (memory("500000000"), &[], "out of GPU memory for steps beside the weights: need"),
        (
            memory("600000000"),
            &["--kv-cache", "200MiB"],
            "out of GPU memory for steps beside this cache: need",
        ),
        (memory("600000000"), &["--kv-cache", "200MiB"], "MiB fits"),
        (
            [("TRIBUNAL_EMULATED_DRIVER", "12010")],
            &[],
            "the driver supports CUDA 12.1, and this binary needs 12.2\nhint: ",
        ),
    ] {
        let said = refused(&variables, more);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
