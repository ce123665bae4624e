//! Arguments that several commands share: the parts of a specification, and readers of values.

use clap::Command;

pub use crate::eval::values::*;

/// The command with no option hidden.
#[must_use]
pub fn with_all_options(command: Command) -> Command {
    command.mut_args(|arg| arg.hide(false)).mut_subcommands(with_all_options)
}
