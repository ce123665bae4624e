//! The `tribunal` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    tribunal::cli::main()
}
