//! With the feature `cuda`, compiles `kernels/*.cu` to PTX, which `model::cuda` embeds; a plain build needs no CUDA
//! tool. It also tells the program what it was built from.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=kernels");
    for name in ["NVCC", "CUDA_COMPUTE_CAP"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let has_cuda = env::var_os("CARGO_FEATURE_CUDA").is_some();
    println!("cargo:rustc-env=TRIBUNAL_FEATURES={}", if has_cuda { "cuda" } else { "" });
    commit();
    if !has_cuda {
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

/// Names the commit that a release build is made from, for `run.json`. Other builds change too often to have one.
fn commit() {
    println!("cargo:rerun-if-env-changed=TRIBUNAL_COMMIT");
    if env::var_os("TRIBUNAL_COMMIT").is_some() || env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // A package unpacked inside another project's repository is not that project's.
    let top = git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    let own = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    if top.is_none() || top != own {
        return;
    }
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        let is_clean = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| s.is_empty());
        println!("cargo:rustc-env=TRIBUNAL_COMMIT={commit}{}", if is_clean { "" } else { "+changes" });
    }
    for name in ["HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
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
