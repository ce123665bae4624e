//! Tells the program its commit, features and target. With the feature `cuda`, compiles `kernels/*.cu` to PTX, which `model::cuda` embeds. Without it, nothing: a
//! plain build needs no CUDA tool.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=kernels");
    for name in ["NVCC", "CUDA_COMPUTE_CAP"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    tell();
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let folder = fs::read_dir("kernels").expect("kernels/ is part of the package");
    for entry in folder {
        let source = entry.expect("kernels/ can be listed").path();
        if source.extension().is_some_and(|e| e == "cu") {
            let name = source.file_stem().expect("a .cu file has a name");
            compile(&source, &out.join(name).with_extension("ptx"));
        }
    }
}

/// What `tribunal --version` says of the build; `unknown` for a commit outside of a repository.
fn tell() {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Only where builds are given away: otherwise each commit would compile everything again.
    let mut commit = Some("not recorded in debug builds".to_owned());
    if env::var("PROFILE").as_deref() == Ok("release") {
        for path in ["HEAD", "refs/heads", "packed-refs"] {
            if let Some(path) =
                git(&["rev-parse", "--git-path", path]).filter(|path| Path::new(path).exists())
            {
                println!("cargo:rerun-if-changed={path}");
            }
        }
        commit = git(&["rev-parse", "--short=12", "HEAD"]);
    }
    let commit = commit.unwrap_or_else(|| "unknown".into());
    let features: Vec<&str> = ["cuda"]
        .into_iter()
        .filter(|name| env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_some())
        .collect();
    println!("cargo:rustc-env=TRIBUNAL_COMMIT={commit}");
    println!("cargo:rustc-env=TRIBUNAL_FEATURES={}", features.join(", "));
    println!("cargo:rustc-env=TRIBUNAL_TARGET={}", env::var("TARGET").unwrap_or_default());
}

fn compile(source: &Path, ptx: &Path) {
    let nvcc = env::var("NVCC").unwrap_or_else(|_| "nvcc".into());
    // `a`: Hopper's own instructions, which PTX for plain 90 may not use.
    let arch = match env::var("CUDA_COMPUTE_CAP").as_deref() {
        Err(_) | Ok("90") => "90a".to_owned(),
        Ok(other) => other.to_owned(),
    };
    let status = Command::new(&nvcc)
        .args(["-ptx", "-O3", "-std=c++17"])
        .arg(format!("-gencode=arch=compute_{arch},code=compute_{arch}"))
        .arg("-o")
        .arg(ptx)
        .arg(source)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("`{nvcc}` ends with {status} on `{}`", source.display()),
        Err(e) => panic!("`{nvcc}`: {e}; hint: run `scripts/cuda/toolkit.sh`, then `. .cuda/env`"),
    }
}
