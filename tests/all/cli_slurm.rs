//! Dry runs of `tribunal slurm submit` on machines without Slurm, weights or CUDA.

use std::process::Output;

use tribunal::engine::{Device, DeviceError};

use crate::fakes::SmallRun;

/// Standard output, standard error and the exit code of a dry run with no program in the path.
fn planned(small: &SmallRun, more: &[&str]) -> (String, String, Option<i32>) {
    let common =
        ["slurm", "submit", "--input", "input.jsonl", "--method", "fsp", "--out", "runs", "--dry-run"];
    let mut command = small.tribunal(&[&common[..], &["--nodes", "1", "--time", "1:00:00"], more].concat());
    for name in ["HF_HUB_CACHE", "HF_HOME", "HOME"] {
        command.env(name, small.at("cache"));
    }
    let Output { stdout, stderr, status } = command.env("PATH", small.at("empty")).output().unwrap();
    assert!(!small.at("runs").exists(), "a dry run writes nothing");
    let root = small.root.path().canonicalize().unwrap().display().to_string();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&root, "ROOT");
    (text(stdout), text(stderr).replace(env!("CARGO_BIN_EXE_tribunal"), "TRIBUNAL"), status.code())
}

fn has_cuda() -> bool {
    !matches!(Device::for_models("cuda", 1), Err(DeviceError::NotBuilt(_)))
}

/// The figures of docs/scaling.md.
#[test]
fn a_node_with_four_gpus_is_planned_on_a_laptop() {
    let small = SmallRun::new(1);
    let four = ["--gpus-per-node", "4", "--model"];
    let (scripts, unchecked, code) = planned(&small, &[&four[..], &["qwen2.5-7b-instruct"]].concat());
    assert_eq!(code, Some(0), "{unchecked}");
    for line in ["#SBATCH --array=1-8%4\n", "#SBATCH --gpus-per-node=1\n", "--model qwen2.5-7b-instruct\n"] {
        assert!(scripts.contains(line), "{line}: {scripts}");
    }
    assert_eq!(scripts.matches("#!/bin/bash\n").count(), 2, "{scripts}");
    assert!(!scripts.contains("dry-run") && scripts.contains(" merge ROOT/runs/shards/* "), "{scripts}");
    let beginnings = [
        "not checked here:",
        "- GPU support: the tasks have GPUs, and this binary was built without CUDA",
        "- the nodes' GPUs: 79.00 GiB of an 80 GB card is assumed (`--device-memory SIZE`)",
        "- weights: `qwen2.5-7b-instruct` ",
        "- Slurm's rules: partitions, limits and accounts, since there is no `sbatch` here",
        "- the nodes' files: they need `TRIBUNAL`, and `ROOT` with the input",
    ];
    let beginnings = beginnings.iter().filter(|line| !(has_cuda() && line.contains("without CUDA")));
    let lines: Vec<&str> = unchecked.lines().collect();
    assert_eq!(lines.len(), beginnings.clone().count(), "{unchecked}");
    for (line, beginning) in lines.iter().zip(beginnings) {
        assert!(line.starts_with(beginning), "{line}, not {beginning}");
    }
    // A model that does not fit on one with its whole context.
    let (scripts, notes, _) = planned(&small, &[&four[..], &["gemma-4-31b-it"]].concat());
    for part in ["#SBATCH --array=1-4%2\n", "#SBATCH --gpus-per-node=2\n", " --tensor-parallel 2\n"] {
        assert!(scripts.contains(part), "{part}: {scripts}");
    }
    assert!(
        notes.contains("`--context N`: ") && notes.contains(" tokens fit on one GPU, and the longest prompt"),
        "{notes}"
    );
}

#[test]
fn sizes_that_are_not_known_are_listed() {
    let small = SmallRun::new(1);
    let (scripts, unchecked, code) = planned(&small, &["--gpus-per-node", "2", "--model", "/cluster/judge"]);
    assert_eq!(code, Some(0), "{unchecked}");
    assert!(scripts.contains("#SBATCH --array=1-4%2\n"), "{scripts}");
    assert!(
        unchecked.contains("\n- GPU memory: the sizes of `/cluster/judge` are not known here\n"),
        "{unchecked}"
    );
    // Without GPUs there is no memory to check.
    let (_, unchecked, code) = planned(&small, &["--model", "/cluster/judge"]);
    assert!(code == Some(0) && !unchecked.contains("GPU"), "{unchecked}");
}

#[test]
fn what_is_certain_is_refused_in_a_dry_run_too() {
    let small = SmallRun::new(1);
    let large = ["--gpus-per-node", "2", "--model", "qwen2.5-72b-instruct"];
    let (scripts, refused, code) = planned(&small, &[&large[..], &["--device-memory", "24GiB"]].concat());
    assert!(code == Some(2) && scripts.is_empty(), "{scripts}");
    assert!(
        refused.contains("which 2 GPUs with 24.00 GiB") && refused.contains("more `--gpus-per-node`"),
        "{refused}"
    );
    // An assumed memory may be wrong.
    let one = ["--gpus-per-node", "1", "--model", "qwen2.5-72b-instruct"];
    let (scripts, unchecked, code) = planned(&small, &one);
    assert!(code == Some(0) && scripts.contains("#SBATCH --array=1-2%1\n"), "{unchecked}");
    assert!(unchecked.contains("\n- GPU memory: `qwen2.5-72b-instruct` needs "), "{unchecked}");
    let (_, refused, code) = planned(&small, &["--model", "qwen2.5-7b-instuct"]);
    assert!(code == Some(2) && refused.contains("did you mean `qwen2.5-7b-instruct`"), "{refused}");
}
