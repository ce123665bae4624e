//! With the feature `cuda`, compiles `kernels/*.cu` to PTX, which `model::cuda` embeds. Without it, nothing: a
//! plain build needs no CUDA tool.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=kernels");
    for name in ["NVCC", "CUDA_COMPUTE_CAP"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
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
