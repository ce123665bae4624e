//! Names the build: prefixes that another build saved are computed again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::{env, fs};

const LOCK: &str = "../../Cargo.lock";
/// The crates that compute, this one included.
const SOURCES: [&str; 4] = ["../model/src", "../cpu/src", "../cuda/src", "src"];

fn main() {
    for path in SOURCES.iter().chain([&LOCK]) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rustc-env=ENGINE_SOURCES={:016x}", sources());
}

/// A hash of [`SOURCES`], the versions of other crates and the target. It distinguishes files that this build
/// wrote from those of others.
fn sources() -> u64 {
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(PathBuf::from).collect();
    let mut files = vec![PathBuf::from(LOCK)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the crates that compute lie side by side") {
            let path = entry.expect("src/ can be listed").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    env::var("TARGET").expect("cargo sets TARGET").hash(&mut hasher);
    for file in files {
        // An installed package has no lock file of its own.
        fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}
