//! With the feature `cuda`, compiles `kernels/*.cu`, each to one file with machine code for every supported GPU generation
//! and PTX for later ones, and lists them for `model::cuda`. Without it the list is empty, and no CUDA tool is needed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::SystemTime;
use std::{env, fs};

/// Generations with machine code of their own, so that no driver's compiler decides about bits. `a`: Hopper's own
/// instructions.
const GENERATIONS: &str = "80 86 89 90a";
/// The PTX that a later GPU's driver compiles.
const PTX: &str = "90";

const FOLDER: &str = "../../kernels";

fn main() {
    println!("cargo:rerun-if-changed={FOLDER}");
    for name in ["NVCC", "TRIBUNAL_CUDA_GENERATIONS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let list = if env::var_os("CARGO_FEATURE_CUDA").is_some() { compile_all(&out) } else { String::new() };
    fs::write(out.join("kernels.rs"), format!("&[\n{list}]\n")).expect("OUT_DIR can be written");
}

/// Compiles what has changed; the list of all images, as Rust.
fn compile_all(out: &Path) -> String {
    let files: Vec<PathBuf> = fs::read_dir(FOLDER)
        .expect("kernels/ is part of the package")
        .map(|entry| entry.expect("kernels/ can be listed").path())
        .collect();
    let mut sources: Vec<&PathBuf> = files.iter().filter(|file| ends(file, &["cu"])).collect();
    sources.sort();
    let headers = files.iter().filter(|file| ends(file, &["h", "cuh"])).map(|file| changed(file)).max();
    let mut list = Vec::new();
    let mut running: Vec<(PathBuf, Child)> = Vec::new();
    let n_jobs = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for source in sources {
        let name = source.file_stem().and_then(|name| name.to_str()).expect("a .cu file has a name");
        let image = out.join(name).with_extension("fatbin");
        list.push(format!("    (\"{name}\", include_bytes!({:?})),\n", image.display().to_string()));
        let newest = headers.max(Some(changed(source)));
        if image.exists() && Some(changed(&image)) > newest && stamp(out, name) {
            continue;
        }
        if running.len() >= n_jobs {
            let (source, child) = running.remove(0);
            finish(&source, child);
        }
        running.push((source.clone(), compile(source, &image)));
    }
    for (source, child) in running {
        finish(&source, child);
    }
    list.concat()
}

fn ends(file: &Path, endings: &[&str]) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

fn changed(file: &Path) -> SystemTime {
    fs::metadata(file).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Whether an image was compiled for the generations that are asked for now; notes that it is from here on.
fn stamp(out: &Path, name: &str) -> bool {
    let (file, now) = (out.join(name).with_extension("generations"), generations());
    let same = fs::read_to_string(&file).is_ok_and(|before| before == now);
    fs::write(file, now).expect("OUT_DIR can be written");
    same
}

fn generations() -> String {
    env::var("TRIBUNAL_CUDA_GENERATIONS").unwrap_or_else(|_| GENERATIONS.into())
}

fn compile(source: &Path, image: &Path) -> Child {
    let nvcc = nvcc();
    stamp(
        image.parent().expect("an image has a folder"),
        &source.file_stem().expect("a name").to_string_lossy(),
    );
    let mut command = Command::new(&nvcc);
    command.args(["-fatbin", "-O3", "-std=c++17", "--fmad=false", "-Werror", "all-warnings", "-no-compress"]);
    for arch in generations().split(' ') {
        command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
    }
    command.arg(format!("-gencode=arch=compute_{PTX},code=compute_{PTX}")).arg("-o").arg(image).arg(source);
    match command.spawn() {
        Ok(child) => child,
        Err(e) => panic!("`{nvcc}`: {e}; hint: run `scripts/cuda/toolkit.sh`, then `. .cuda/env`"),
    }
}

fn finish(source: &Path, mut child: Child) {
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("`{}` ends with {status} on `{}`", nvcc(), source.display()),
        Err(e) => panic!("`{}`: {e}", nvcc()),
    }
}

fn nvcc() -> String {
    env::var("NVCC").unwrap_or_else(|_| "nvcc".into())
}
