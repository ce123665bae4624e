//! What a program does before its command line is read.

use std::process::ExitCode;

use crate::{engine, stream::say};

/// Says so where this build is for newer processors; `None` where it is not.
#[inline(never)]
#[must_use]
pub fn too_new() -> Option<ExitCode> {
    let missing = engine::missing()?;
    say(format_args!(
        "error: this build of tribunal needs a processor with `{missing}`, which this one lacks\n\
         hint: a build without `-C target-cpu` runs on any processor of its architecture, with the fastest kernels that it has"
    ));
    Some(ExitCode::from(2))
}
