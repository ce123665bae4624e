//! Shell integration: the version with all that distinguishes builds, completions for shells, man pages.

use std::{io::Write, path::Path, process::ExitCode, sync::LazyLock};

use anyhow::{Context, Result, bail};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{engine::Isa, files, run::description::Build};

/// Build of this program, for `run.json`.
pub fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("TRIBUNAL_COMMIT").map(str::to_owned),
        features: env!("TRIBUNAL_FEATURES").split_whitespace().map(str::to_owned).collect(),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
    }
}

/// The long version, built once: clap needs a static string.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = match env!("TRIBUNAL_FEATURES") {
        "" => "none".into(),
        features => features.split_whitespace().collect::<Vec<_>>().join(", "),
    };
    let mut tiers: Vec<&str> = Isa::available().map(Isa::name).collect();
    tiers.reverse();
    format!(
        "{}\ncommit    {}\nfeatures  {features}\ntiers     {}\ntarget    {}",
        env!("CARGO_PKG_VERSION"),
        option_env!("TRIBUNAL_COMMIT").unwrap_or("not recorded"),
        tiers.join(", "),
        env!("TRIBUNAL_TARGET"),
    )
});

/// The version with the commit, the features that were built in and the CPU tiers of this machine.
pub fn version() -> &'static str {
    &VERSION
}

/// Runs `tribunal completions`.
///
/// # Errors
/// When `out` cannot be written.
pub fn completions(shell: Shell, mut cli: Command, out: &mut dyn Write) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli, "tribunal", &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `tribunal man`: a page for the program and one for each command.
///
/// # Errors
/// When the folder cannot be written.
pub fn man(dir: &Path, cli: Command, out: &mut dyn Write) -> Result<ExitCode> {
    if dir.is_file() {
        bail!("`{}` is a file\nhint: name a folder; it is made where it does not exist", dir.display());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    pages(&cli, dir)?;
    writeln!(out, "{}", dir.join("tribunal.1").display())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of the commands below it.
fn pages(command: &Command, dir: &Path) -> Result<()> {
    let page = Man::new(command.clone());
    files::write(&dir.join(page.get_filename()), |file| page.render(&mut *file))?;
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).try_for_each(|inner| pages(inner, dir))
}
