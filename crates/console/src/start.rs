//! The check of the processor that a program makes before it reads its command line.

use std::process::ExitCode;

use crate::{engine, stream::say};

/// Prints an error where this build needs a newer processor and returns the exit code; `None` where the
/// processor has the features of the build.
#[inline(never)]
pub fn too_new() -> Option<ExitCode> {
    let missing = engine::missing()?;
    say(format_args!(
        "error: this build of tribunal needs a processor with `{missing}`, which this one lacks\n\
         hint: a build without `-C target-cpu` runs on any processor of its architecture, with the fastest kernels that it has"
    ));
    Some(ExitCode::from(2))
}
