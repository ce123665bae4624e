//! The command of a run that is made again, for the `run.json` of its new folder. It parses nothing.

use std::path::Path;

use super::located;
use crate::{
    cli::{
        args::{EngineArgs, ModelArgs},
        command::without,
        score,
    },
    run::RunFile,
};

/// The command of a run that is made again into a folder: that of the run, with what is chosen now in place of what it
/// had. Relative paths in it still start where the first command was given.
#[must_use]
pub fn command(run: &RunFile, given: &score::Args, made: &score::Args, out: &Path) -> Vec<String> {
    let mut dropped = vec!["--out", "--shard", "--to-json", "--keep", "--device-memory"];
    let mut added = vec!["--out".to_owned(), out.display().to_string()];
    if made.run.shard.is_some() {
        added.extend(["--shard".to_owned(), run.shard.clone()]);
    }
    let models = models(&made.model);
    if models != self::models(&located(run, &given.model)) {
        dropped.extend(["--model", "--adapter", "--role"]);
        added.extend(models);
    }
    for (names, was, is) in speeds(&given.engine, &made.engine) {
        if was != is {
            dropped.extend(names);
            added.extend(is.into_iter().flat_map(|value| [names[0].to_owned(), value.to_string()]));
        }
    }
    let words = without(run.command.iter(), &dropped, &["--dry-run"]);
    words.into_iter().chain(added).collect()
}

/// The options that name these models.
fn models(args: &ModelArgs) -> Vec<String> {
    let mut words = vec!["--model".to_owned(), args.model.clone()];
    let adapter = args.adapter.iter().map(|dir| dir.display().to_string());
    words.extend(adapter.flat_map(|dir| ["--adapter".to_owned(), dir]));
    let roles = args.role.iter().map(|(role, model)| format!("{role}={model}"));
    words.extend(roles.flat_map(|role| ["--role".to_owned(), role]));
    words
}

/// The names of an option, and its values then and now.
type Speed = (&'static [&'static str], Option<u64>, Option<u64>);

/// The options of [`AgainArgs`] that say how fast a run is.
fn speeds(was: &EngineArgs, is: &EngineArgs) -> [Speed; 4] {
    let count = |n: Option<usize>| n.map(|n| n as u64);
    [
        (&["--jobs"], count(was.jobs), count(is.jobs)),
        (&["--batch", "--batch-size"], count(was.batch), count(is.batch)),
        (&["--threads"], count(was.threads), count(is.threads)),
        (&["--kv-cache"], was.kv_cache, is.kv_cache),
    ]
}
