//! A recorded run for the commands that check or repeat it: its command is parsed again, and written for a
//! new folder.

use std::path::Path;

use anyhow::{Result, bail};

use super::{Command, command::without, score};
use crate::{
    eval::{
        InputSpec, ModelSpec, Resources, Spec,
        recorded::{self, Changes, Recorded, located},
    },
    run::RunFile,
};

/// Reads a folder's run.
///
/// # Errors
/// A folder without a run of `tribunal score`, and an input that is neither kept in the folder nor found by
/// its command.
pub fn read(dir: &Path, changes: &Changes) -> Result<Recorded> {
    let run = RunFile::read(dir)?;
    let spec = recorded_command(dir, &run)?.spec;
    Ok(recorded::read(dir, run, spec, changes)?)
}

/// The input that a run's command names; `None` of a command that this version cannot read.
pub fn input(dir: &Path, run: &RunFile) -> Option<InputSpec> {
    Some(recorded_command(dir, run).ok()?.spec.input)
}

/// The arguments of the command that started a run.
fn recorded_command(dir: &Path, run: &RunFile) -> Result<score::Args> {
    let parsed = super::parse(run.command.clone()).map(|cli| cli.command);
    match parsed {
        Ok(Command::Score(args)) => Ok(*args),
        Ok(_) => bail!("`{}` was not made by `tribunal score`", dir.display()),
        Err(error) => {
            let reason = error.to_string();
            let first = reason.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            bail!(
                "the command in `{}` cannot be read by this version of tribunal ({first}); it was made by version {}",
                dir.join("run.json").display(),
                run.origin.build.version
            )
        }
    }
}

/// The command that repeats a run into a folder: that of the run, with the options chosen now instead of
/// those that it had. Relative paths in it still start where the first command was given.
pub fn command(run: &RunFile, recorded: &Spec, made: &Spec, out: &Path) -> Vec<String> {
    let mut dropped = vec!["--out", "--shard", "--keep", "--device-memory"];
    let mut added = vec!["--out".to_owned(), out.display().to_string()];
    if made.output.shard.is_some() {
        added.extend(["--shard".to_owned(), run.shard.clone()]);
    }
    let models = models(&made.models);
    if models != self::models(&located(run, &recorded.models)) {
        dropped.extend(["--model", "--adapter", "--role"]);
        added.extend(models);
    }
    for (names, was, is) in speeds(&recorded.resources, &made.resources) {
        if was != is {
            dropped.extend(names);
            added.extend(is.into_iter().flat_map(|value| [names[0].to_owned(), value.to_string()]));
        }
    }
    let words = without(run.command.iter(), &dropped, &["--dry-run"]);
    words.into_iter().chain(added).collect()
}

/// The options that name these models.
fn models(args: &ModelSpec) -> Vec<String> {
    let mut words = vec!["--model".to_owned(), args.model.clone()];
    let adapter = args.adapter.iter().map(|dir| dir.display().to_string());
    words.extend(adapter.flat_map(|dir| ["--adapter".to_owned(), dir]));
    let roles = args.roles.iter().map(|(role, model)| format!("{role}={model}"));
    words.extend(roles.flat_map(|role| ["--role".to_owned(), role]));
    words
}

/// The names of an option, and its values then and now.
type Speed = (&'static [&'static str], Option<u64>, Option<u64>);

/// The options of [`Changes`] that affect the speed of a run.
fn speeds(was: &Resources, is: &Resources) -> [Speed; 4] {
    let count = |n: Option<usize>| n.map(|n| n as u64);
    [
        (&["--jobs"], count(was.jobs), count(is.jobs)),
        (&["--batch", "--batch-size"], count(was.batch), count(is.batch)),
        (&["--threads"], count(was.threads), count(is.threads)),
        (&["--kv-cache"], was.kv_cache, is.kv_cache),
    ]
}
