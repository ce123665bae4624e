//! Tells the program what it was built from.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let has_cuda = env::var_os("CARGO_FEATURE_CUDA").is_some();
    println!("cargo:rustc-env=TRIBUNAL_FEATURES={}", if has_cuda { "cuda" } else { "" });
    println!("cargo:rustc-env=TRIBUNAL_TARGET={}", env::var("TARGET").unwrap_or_default());
    commit();
}

/// Names the commit that a release build is made from, for `run.json`. Other builds change too often to have
/// one.
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
