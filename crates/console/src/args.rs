//! Arguments that several commands share: the parts of a specification, and readers of values.

use std::convert::Infallible;

use clap::Command;

use crate::eval::Pair;
pub use crate::eval::values::*;

/// A language pair by the name of its files, `en-de`. A test set may have pairs of other names.
///
/// # Errors
/// None.
pub fn pair_name(text: &str) -> Result<String, Infallible> {
    Ok(text.parse().map_or_else(|_| text.to_owned(), |pair: Pair| pair.name))
}

/// The command with no option hidden.
pub fn with_all_options(command: Command) -> Command {
    command.mut_args(|arg| arg.hide(false)).mut_subcommands(with_all_options)
}
