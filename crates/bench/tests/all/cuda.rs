//! Measurements of `tribunal-bench gpu` on a GPU, or on the emulated one of `scripts/cuda/emulated.sh`, and
//! its message without one. Where there is no GPU the first test prints so and passes; with
//! `TRIBUNAL_TEST_GPU=1` that is a failure.
#![expect(clippy::print_stderr, reason = "a test that does not run says so")]

use std::{path::Path, process::Command};

use clap::Parser;
use tribunal_bench::cli::Cli;
use tribunal_console::stream::explain;
use tribunal_engine::Device;

fn has_gpu() -> bool {
    match Device::named("cuda") {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("TRIBUNAL_TEST_GPU").is_none(), "{error}");
            eprintln!("not checked: {error}");
            false
        }
    }
}

#[test]
fn a_gpu_is_measured_with_a_shape_and_what_is_not_known_is_said() {
    if !has_gpu() {
        return;
    }
    let bench = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal-bench"));
        command.args(["gpu", "--kv-cache", "4MiB", "--batch", "4"]).args(arguments).output().unwrap()
    };
    let measured = bench(&["--device", "cuda", "--shape", "tiny", "--json"]);
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    let report: serde_json::Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!(report["products"].as_array().unwrap().len(), 10);
    let documents = report["documents"].as_array().unwrap();
    let computed = |i: usize| documents[i]["computed_prompt_tokens"].as_u64().unwrap();
    assert_eq!(computed(2), 6 * 82, "without the tree every prompt is computed whole");
    assert!(computed(0) < 4 * 82, "{documents:?}");
    assert_eq!(computed(0), computed(1), "cascade is not the tree");
    assert_eq!(report["chats"]["requests"], 5);
    check_stage_table(&report);
    for shape in ["tiny:q8_0", "tiny:mxfp4", "tiny:q5_1"] {
        let quantised = bench(&["--shape", shape, "--parts", "products", "--json"]);
        assert!(quantised.status.success(), "{shape}: {}", String::from_utf8_lossy(&quantised.stderr));
        let quantised: serde_json::Value = serde_json::from_slice(&quantised.stdout).unwrap();
        assert_eq!(quantised["products"].as_array().unwrap().len(), 10, "{shape}: {quantised}");
    }
    let refused = bench(&["--shape", "tiny:q4_k"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only products are measured with one"));
    let mut small = Command::new(env!("CARGO_BIN_EXE_tribunal-bench"));
    small.args(["gpu", "--device", "cuda", "--shape", "tiny", "--batch", "4", "--json"]);
    let small = small.args(["--parts", "decode", "--rows", "2,30", "--kv-cache", "64KiB"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&small.stdout).unwrap();
    assert_eq!(report["decode"][0]["note"], serde_json::Value::Null);
    let held = &report["decode"][1];
    assert_eq!(held["throughput"]["batch"], 8, "{held}");
    assert!(held["note"].as_str().unwrap().contains("the cache holds 8 of 30"), "{held}");
    if std::env::var_os("TRIBUNAL_TEST_EMULATED").is_some() {
        let mut two = Command::new(env!("CARGO_BIN_EXE_tribunal-bench"));
        two.env("TRIBUNAL_EMULATED_DEVICES", "2").args(["gpu", "--shape", "tiny", "--kv-cache", "4MiB"]);
        let two = two.args(["--parts", "prefill,decode", "--rows", "2", "--tensor-parallel", "2", "--json"]);
        let measured = two.output().unwrap();
        assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
        let report: serde_json::Value = serde_json::from_slice(&measured.stdout).unwrap();
        assert!(report["gpu"].as_str().unwrap().starts_with("2 x Emulated"), "{report}");
        assert_eq!(report["decode"][0]["throughput"]["batch"], 2, "{report}");
    }
    let refused = bench(&["--device", "cpu", "--shape", "tiny"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("measures a GPU, not `--device cpu`"));
}

/// Checks the tables that a card's stages print of a report.
fn check_stage_table(report: &serde_json::Value) {
    let step = serde_json::json!({"step": "all", "exit_code": 0, "seconds": 1, "result": report});
    let stage =
        serde_json::json!({"stage": 4, "gpu": "", "date": "2026-11-25", "finished": true, "steps": [step]});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stage4.json");
    std::fs::write(&path, stage.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cuda/table.py");
    let table = Command::new("python3").arg(script).arg(&path).output().unwrap();
    assert!(table.status.success(), "{}", String::from_utf8_lossy(&table.stderr));
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    for heading in
        ["| product | ", "| prompt | ", "| answers | ", "| documents of 70, tree | ", "| 5 chats | "]
    {
        assert!(table.contains(heading), "{table}");
    }
}

#[test]
fn a_missing_gpu_is_not_replaced_by_a_cpu() {
    if tribunal_engine::free_on_gpu().is_some() {
        return;
    }
    for device in [&[][..], &["--device", "cuda"], &["--device", "cpu"]] {
        let cli = Cli::try_parse_from([&["tribunal-bench", "gpu"], device].concat()).unwrap();
        let told = explain(&cli.run(&mut Vec::new()).unwrap_err());
        assert!(told.starts_with("`tribunal-bench gpu` needs a GPU: "), "{told}");
        assert!(!told.contains("--device cpu") && !told.contains("choose `cpu`"), "{told}");
        assert!(told.contains("\nhint: call it where `nvidia-smi` lists one"), "{told}");
    }
}
