//! With the feature `cuda`, compiles `kernels/*.cu`, each to one file with machine code for every supported
//! GPU generation and PTX for later ones, and lists them for `launch`. Without it the list is empty, and
//! no CUDA tool is needed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

/// Generations with machine code of their own, so that no driver's compiler decides about bits. `a`: Hopper's
/// own instructions. Code for 10.0 runs on 10.3 too, and code for 12.0 on 12.1.
const GENERATIONS: &str = "80 86 89 90a 100 120";
/// The architecture of the PTX that a later GPU's driver compiles.
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

/// Compiles the images whose inputs have changed; returns the list of all images, as Rust.
fn compile_all(out: &Path) -> String {
    let files: Vec<PathBuf> = fs::read_dir(FOLDER)
        .expect("kernels/ is part of the package")
        .map(|entry| entry.expect("kernels/ can be listed").path())
        .collect();
    let mut sources: Vec<&PathBuf> = files.iter().filter(|file| ends(file, &["cu"])).collect();
    sources.sort();
    let mut headers: Vec<&PathBuf> = files.iter().filter(|file| ends(file, &["h", "cuh"])).collect();
    headers.sort();
    let mut list = Vec::new();
    let mut running: Vec<Running> = Vec::new();
    let n_jobs = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for source in sources {
        let name = source.file_stem().and_then(|name| name.to_str()).expect("a .cu file has a name");
        let image = out.join(name).with_extension("fatbin");
        list.push(format!("    (\"{name}\", include_bytes!({:?})),\n", image.display().to_string()));
        let stamp = (out.join(name).with_extension("stamp"), made_from(source, &headers));
        if image.exists() && fs::read_to_string(&stamp.0).is_ok_and(|before| before == stamp.1) {
            continue;
        }
        if running.len() >= n_jobs {
            finish(running.remove(0));
        }
        running.push(Running { source: source.clone(), child: compile(source, &image), stamp });
    }
    running.into_iter().for_each(finish);
    list.concat()
}

fn ends(file: &Path, endings: &[&str]) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

/// Fingerprint of an image's inputs: the text of its source and of all headers, not their age, and the target
/// it is compiled for.
fn made_from(source: &Path, headers: &[&PathBuf]) -> String {
    let mut hasher = DefaultHasher::new();
    for file in headers.iter().map(|file| file.as_path()).chain([source]) {
        fs::read(file).unwrap_or_else(|e| panic!("`{}`: {e}", file.display())).hash(&mut hasher);
    }
    format!("{:016x} {}", hasher.finish(), generations())
}

fn generations() -> String {
    env::var("TRIBUNAL_CUDA_GENERATIONS").unwrap_or_else(|_| GENERATIONS.into())
}

fn compile(source: &Path, image: &Path) -> Child {
    let nvcc = nvcc();
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

/// A running compiler, and the file that records the fingerprint of its image's inputs.
struct Running {
    source: PathBuf,
    child: Child,
    stamp: (PathBuf, String),
}

fn finish(Running { source, mut child, stamp: (file, made_from) }: Running) {
    match child.wait() {
        Ok(status) if status.success() => fs::write(file, made_from).expect("OUT_DIR can be written"),
        Ok(status) => panic!("`{}` ends with {status} on `{}`", nvcc(), source.display()),
        Err(e) => panic!("`{}`: {e}", nvcc()),
    }
}

fn nvcc() -> String {
    env::var("NVCC").unwrap_or_else(|_| "nvcc".into())
}
