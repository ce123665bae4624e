//! With the feature `cuda`, compiles `kernels/*.cu`, each to machine code for every supported GPU generation
//! and to PTX for later ones, and lists the images for `launch`. Without it the list is empty, and no CUDA
//! tool is needed.

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

const OPTIONS: [&str; 5] = ["-O3", "-std=c++17", "--fmad=false", "-Werror", "all-warnings"];

fn main() {
    println!("cargo:rerun-if-changed={FOLDER}");
    if env::var_os("CARGO_FEATURE_CUDA").is_some() && Path::new(&nvcc()).is_absolute() {
        println!("cargo:rerun-if-changed={}", nvcc());
    }
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
    let (compiler, targets) = (compiler(), targets());
    let mut list = Vec::new();
    let mut running: Vec<Running> = Vec::new();
    let n_jobs = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for source in sources {
        let name = source.file_stem().and_then(|name| name.to_str()).expect("a .cu file has a name");
        let made_from = made_from(source, &headers, &compiler);
        list.push(format!("    (\"{name}\", &[\n"));
        for target in &targets {
            let image = out.join(format!("{name}.{target}"));
            let file = image.display().to_string();
            list.push(format!("        (\"{target}\", &Aligned(*include_bytes!({file:?})).0),\n"));
            let stamp = (out.join(format!("{name}.{target}.stamp")), made_from.clone());
            if image.exists() && fs::read_to_string(&stamp.0).is_ok_and(|before| before == stamp.1) {
                continue;
            }
            if running.len() >= n_jobs {
                finish(running.remove(0));
            }
            let child = compile(source, target, &image);
            running.push(Running { source: source.clone(), child, image, stamp });
        }
        list.push("    ]),\n".into());
    }
    running.into_iter().for_each(finish);
    list.concat()
}

fn ends(file: &Path, endings: &[&str]) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

/// Fingerprint of an image's inputs: the text of its source and of all headers, not their age, the
/// compiler and its options.
fn made_from(source: &Path, headers: &[&PathBuf], compiler: &(String, Vec<u8>)) -> String {
    let mut hasher = DefaultHasher::new();
    for file in headers.iter().map(|file| file.as_path()).chain([source]) {
        fs::read(file).unwrap_or_else(|e| panic!("`{}`: {e}", file.display())).hash(&mut hasher);
    }
    (compiler, OPTIONS).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The targets of images, by the compiler's names.
fn targets() -> Vec<String> {
    let generations = env::var("TRIBUNAL_CUDA_GENERATIONS").unwrap_or_else(|_| GENERATIONS.into());
    let machine_code = generations.split(' ').map(|generation| format!("sm_{generation}"));
    machine_code.chain([format!("compute_{PTX}")]).collect()
}

/// The compiler's version as it prints it, and the text of its program, which may be a script.
fn compiler() -> (String, Vec<u8>) {
    let nvcc = nvcc();
    match Command::new(&nvcc).arg("--version").output() {
        Ok(output) => {
            (String::from_utf8_lossy(&output.stdout).into_owned(), fs::read(&nvcc).unwrap_or_default())
        }
        Err(e) => panic!("`{nvcc}`: {e}; hint: run `scripts/cuda/toolkit.sh`, then `. .cuda/env`"),
    }
}

fn compile(source: &Path, target: &str, image: &Path) -> Child {
    let kind = if target.starts_with("sm_") { "-cubin" } else { "-ptx" };
    let mut command = Command::new(nvcc());
    command.args(OPTIONS).args([kind, &format!("-arch={target}")]).arg("-o").arg(image).arg(source);
    command.spawn().unwrap_or_else(|e| panic!("`{}`: {e}", nvcc()))
}

/// A running compiler, its image, and the file that records the fingerprint of the image's inputs.
struct Running {
    source: PathBuf,
    child: Child,
    image: PathBuf,
    stamp: (PathBuf, String),
}

fn finish(Running { source, mut child, image, stamp: (file, made_from) }: Running) {
    match child.wait() {
        Ok(status) if status.success() => {
            if image.extension().is_some_and(|target| target.as_encoded_bytes().starts_with(b"compute")) {
                let ptx = fs::read(&image).expect("the compiler has written the image");
                // The driver reads PTX up to a zero byte.
                fs::write(&image, [&ptx[..], &[0]].concat()).expect("OUT_DIR can be written");
            }
            fs::write(file, made_from).expect("OUT_DIR can be written");
        }
        Ok(status) => panic!("`{}` ends with {status} on `{}`", nvcc(), source.display()),
        Err(e) => panic!("`{}`: {e}", nvcc()),
    }
}

fn nvcc() -> String {
    env::var("NVCC").unwrap_or_else(|_| "nvcc".into())
}
