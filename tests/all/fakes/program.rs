//! The program within the process of a test.

use std::process::ExitCode;

use tribunal::{
    cli,
    eval::{ModelLoader, models::load},
};

/// Runs a command with these models: what it prints and its exit code, or its error as the user reads it.
pub fn program_with<T: AsRef<str>>(load: ModelLoader, args: &[T]) -> Result<(String, ExitCode), String> {
    let argv = std::iter::once("tribunal").chain(args.iter().map(AsRef::as_ref)).map(str::to_owned);
    let mut out = Vec::new();
    let cli = cli::parse(argv).map_err(|error| error.to_string())?;
    let code = cli.run(load, &mut out).map_err(|error| cli::explain(&error))?;
    Ok((String::from_utf8(out).unwrap(), code))
}

/// Runs a command with the models of this machine.
pub fn program<T: AsRef<str>>(args: &[T]) -> Result<(String, ExitCode), String> {
    program_with(load, args)
}
