//! From a run folder back to what made it: the arguments of its command, pointed at the copies that the folder keeps,
//! and its input. For the commands that repeat or check a run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{
    Command, adapter,
    args::{self, ModelArgs},
    input, origin,
    prepare::Judged,
    score,
};
use crate::{
    judges::{LanguageCheck, Programs, Role, registry},
    run::{Error, RunFile, Selection, description::InputId, input as kept, materials},
    segment::{Segments as _, read::Streamed},
};

mod again;

pub use again::command as command_again;

/// The option of a method that can name a program.
const PROGRAM: &str = "search";

/// A run as its folder describes it.
pub struct Recorded {
    pub run: RunFile,
    /// Those of `tribunal score`, with paths that lead somewhere here.
    pub args: score::Args,
    /// As the command has them.
    pub given: score::Args,
    pub judged: Judged,
}

/// What can be chosen when a run is repeated: where the models are, and how fast they run. Nothing here moves a score.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AgainArgs {
    /// The model, if it is not where the run had it: a card, a GGUF file or a safetensors folder
    #[arg(long, value_name = "CARD|PATH")]
    pub model: Option<String>,
    /// The adapter, if it is not where the run had it
    #[arg(long, value_name = "DIR")]
    pub adapter: Option<PathBuf>,
    /// The model, with its adapter, of one role; may be repeated
    #[arg(long, value_name = "ROLE=MODEL[+ADAPTER]", value_parser = args::role)]
    pub role: Vec<(Role, String)>,
    /// Groups of segments judged at the same time
    #[arg(long, value_name = "N", value_parser = args::jobs)]
    pub jobs: Option<usize>,
    /// Maximum batch size: token positions in one step of the model
    #[arg(long, visible_alias = "batch-size", value_name = "N", value_parser = args::rows)]
    pub batch: Option<usize>,
    /// CPU threads
    #[arg(long, value_name = "N", value_parser = args::threads)]
    pub threads: Option<usize>,
    /// Memory for the KV cache, like `2GiB` or `800MiB`
    #[arg(long, value_name = "SIZE", value_parser = args::bytes)]
    pub kv_cache: Option<u64>,
    /// Run the program, or ask the service of this machine, that the run searched evidence with (RATE): only for a folder
    /// that you trust
    #[arg(long)]
    pub allow_programs: bool,
    /// Read the files outside of the folder that its command names, such as the input of a shard: only for a folder that
    /// you trust
    #[arg(long)]
    pub allow_files: bool,
}

/// Reads a folder's run.
///
/// # Errors
/// A folder without a run of `tribunal score`, and an input that neither the folder keeps nor its command finds.
pub fn read(dir: &Path, again: &AgainArgs) -> Result<Recorded> {
    let run = RunFile::read(dir)?;
    let given = command(dir, &run)?;
    let mut args = given.clone();
    args.model = located(&run, &given.model);
    chosen(&mut args, again);
    // Older runs made no such check, and their commands do not say so.
    if run.signature.get(LanguageCheck::FIELD).is_none() {
        args.judge.language_check = LanguageCheck::Off;
    }
    let judged = match kept::read(dir, &run)? {
        Some((segments, selection)) => Judged { input: Streamed { segments, notes: Vec::new() }, selection },
        None if again.allow_files => reread(&run, &args)?,
        None => bail!(
            "`{}` keeps no copy of its input (the first shard and the merged folder do)\nhint: `--allow-files` reads the \
             files that its `run.json` names, wherever they are: only for a folder that you trust",
            dir.display()
        ),
    };
    relocate(dir, &run, &mut args, again)?;
    if again.allow_programs {
        programs(dir, &run, &args)?;
    }
    Ok(Recorded { run, args, given, judged })
}

/// The arguments of the command that started a run.
fn command(dir: &Path, run: &RunFile) -> Result<score::Args> {
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

/// The models that a run's command names, where they are found here: as paths from where the command was given, else from
/// the current directory; cards by name.
fn located(run: &RunFile, args: &ModelArgs) -> ModelArgs {
    let found = |name: &str| {
        let there = run.from_there(Path::new(name));
        if there.exists() { there.display().to_string() } else { lasting(name) }
    };
    mapped(args, found)
}

/// A path that is here, in a form that holds in any directory; anything else as it is.
fn lasting(name: &str) -> String {
    let path = Some(Path::new(name)).filter(|path| path.exists()).map(std::path::absolute);
    path.and_then(Result::ok).map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

/// The same with each name of a model or an adapter mapped.
fn mapped(args: &ModelArgs, map: impl Fn(&str) -> String) -> ModelArgs {
    let role = |(role, name): &(Role, String)| {
        let name = match adapter::split(name) {
            (model, Some(adapter)) => format!("{}+{}", map(model), map(adapter)),
            (model, None) => map(model),
        };
        (*role, name)
    };
    ModelArgs {
        model: map(&args.model),
        adapter: args.adapter.as_ref().map(|dir| map(&dir.display().to_string()).into()),
        role: args.role.iter().map(role).collect(),
        chat_template: args.chat_template.clone(),
    }
}

fn chosen(args: &mut score::Args, again: &AgainArgs) {
    let AgainArgs { model, adapter, role, jobs, batch, threads, kv_cache, allow_programs, allow_files: _ } =
        again;
    args.judge.programs = if *allow_programs { Programs::Run } else { Programs::Refuse };
    let new = ModelArgs {
        model: model.clone().unwrap_or_else(|| args.model.model.clone()),
        adapter: adapter.clone().or_else(|| args.model.adapter.clone()),
        role: role.clone(),
        chat_template: args.model.chat_template.clone(),
    };
    let ModelArgs { model, adapter, role, .. } = mapped(&new, lasting);
    (args.model.model, args.model.adapter) = (model, adapter);
    for (role, model) in role {
        args.model.role.retain(|(other, _)| *other != role);
        args.model.role.push((role, model));
    }
    args.engine.jobs = jobs.or(args.engine.jobs);
    args.engine.batch = batch.or(args.engine.batch);
    args.engine.threads = threads.or(args.engine.threads);
    args.engine.kv_cache = kv_cache.or(args.engine.kv_cache);
    // Of the run that is repeated, these are not part.
    args.run.dry_run = false;
    args.run.to_json = None;
    args.keep = super::keep::KeepArgs::default();
}

/// The input where the command found it: that of a shard whose folder keeps no copy.
fn reread(run: &RunFile, args: &score::Args) -> Result<Judged> {
    let mut from = args.input.clone();
    for path in [&mut from.source, &mut from.docs, &mut from.input, &mut from.testset, &mut from.documents]
        .into_iter()
        .flatten()
    {
        *path = run.from_there(path);
    }
    if from.testset.is_none() {
        from.reference = from.reference.map(|path| run.from_there(&path));
    }
    from.hypothesis = from.hypothesis.iter().map(|path| run.from_there(path)).collect();
    let input = input::stream_any(&from).context(
        "the folder keeps no copy of its input (the first shard and the merged folder do), and the command's own cannot \
         be read",
    )?;
    let selection = Selection::of_ranges(run.selection.as_deref(), input.segments.n_segments());
    let here = InputId::of(&input.segments, &selection)?;
    if here != run.input {
        bail!("the input has changed since the run: {} then, {here} now", run.input);
    }
    Ok(Judged { input, selection })
}

/// Points the arguments at the copies that the folder keeps. What it keeps no copy of, from where the command was given.
///
/// # Errors
/// A file of which there is no copy, unless files outside of the folder are allowed.
fn relocate(dir: &Path, run: &RunFile, args: &mut score::Args, again: &AgainArgs) -> Result<()> {
    for material in &run.origin.materials {
        materials::place(dir, material)?;
    }
    let place = |flag: &str, path: &mut Option<PathBuf>| -> Result<()> {
        if let Some(given) = path {
            *given = copy_of(dir, run, flag, given, again.allow_files)?;
        }
        Ok(())
    };
    place("--prompts", &mut args.judge.prompts)?;
    place("--shots", &mut args.judge.shots)?;
    place("--chat-template", &mut args.model.chat_template)?;
    let request = args.judge.method.clone();
    let mut method = request.clone();
    for (name, value) in origin::options(&request).filter(|(name, value)| is_file(&request, name, value)) {
        let is_allowed = again.allow_files || name == PROGRAM && again.allow_programs;
        let at = copy_of(dir, run, name, Path::new(value), is_allowed)?;
        method = method.replace(&format!("{name}={value}"), &format!("{name}={}", at.display()));
    }
    args.judge.method = method;
    Ok(())
}

/// Whether an option of a method is one that takes a file, and names none of its other values.
fn is_file(request: &str, option: &str, value: &str) -> bool {
    let name = request.split_once(':').map_or(request, |(name, _)| name);
    let option = option.replace('_', "-");
    let choices = registry::find(name).map(|method| method.options).unwrap_or_default();
    choices.iter().any(|choice| {
        let takes_file = choice.name == option && choice.values.contains(&"<file>");
        takes_file && !choice.values.contains(&value) && !value.contains("://")
    })
}

/// The copy of what a flag or an option names, or the path of the thing itself where that is allowed. A name that is not
/// there is left as it is: some options take one instead of a file.
fn copy_of(dir: &Path, run: &RunFile, flag: &str, given: &Path, is_allowed: bool) -> Result<PathBuf> {
    if let Some(copy) = materials::copy_of(dir, run, flag)? {
        return Ok(copy);
    }
    let there = Some(run.from_there(given)).filter(|there| there.exists()).unwrap_or_else(|| given.into());
    if is_allowed || !there.exists() {
        return Ok(there);
    }
    bail!(
        "`{}` keeps no copy of `{}`, which its command names with `{flag}`\nhint: `--allow-files` reads it from there: only \
         for a folder that you trust",
        dir.display(),
        there.display()
    )
}

/// Checks every program that the method may run against the hash in `run.json`, before any of them is run.
///
/// # Errors
/// A program that is another one now, or of which there is no hash.
fn programs(dir: &Path, run: &RunFile, args: &score::Args) -> Result<()> {
    for (option, value) in origin::options(&args.judge.method) {
        let path = Path::new(value);
        if option != PROGRAM || value.contains("://") || !path.is_file() {
            continue;
        }
        let Some(material) = run.origin.materials.iter().find(|material| material.flag == option) else {
            bail!(
                "`{}` has no hash of the program `{value}`\nhint: without one nothing shows that it is the run's own",
                dir.join("run.json").display()
            );
        };
        let here = materials::sha256_now(path)?;
        if here != material.sha256 {
            let there = material.sha256.clone();
            return Err(Error::Changed { path: path.into(), there, here }.into());
        }
    }
    Ok(())
}
