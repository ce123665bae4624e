//! From a run folder back to what made it: the arguments of its command, pointed at the copies that the folder keeps,
//! and its input. For the commands that repeat or check a run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Command, adapter, args, input, origin, prepare::Judged, score};
use crate::{
    judges::{Programs, Role},
    run::{Error, RunFile, description::InputId, input as kept, materials},
    segment::read::Streamed,
};

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
}

/// Reads a folder's run.
///
/// # Errors
/// A folder without a run of `tribunal score`, and an input that neither the folder keeps nor its command finds.
pub fn read(dir: &Path, again: &AgainArgs) -> Result<Recorded> {
    let run = RunFile::read(dir)?;
    let given = command(dir, &run)?;
    let mut args = given.clone();
    chosen(&mut args, again);
    let judged = match kept::read(dir, &run)? {
        Some((segments, selection)) => Judged { input: Streamed { segments, notes: Vec::new() }, selection },
        None => reread(&run, &args)?,
    };
    relocate(dir, &run, &mut args)?;
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

fn chosen(args: &mut score::Args, again: &AgainArgs) {
    let AgainArgs { model, adapter, role, jobs, batch, threads, kv_cache, allow_programs } = again;
    args.judge.programs = if *allow_programs { Programs::Run } else { Programs::Refuse };
    args.model.model = model.clone().unwrap_or_else(|| args.model.model.clone());
    args.model.adapter = adapter.clone().or_else(|| args.model.adapter.clone());
    for (role, model) in role {
        args.model.role.retain(|(other, _)| other != role);
        args.model.role.push((*role, model.clone()));
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
    let mut input = input::stream_any(&from).context(
        "the folder keeps no copy of its input (the first shard and the merged folder do), and the command's own cannot \
         be read",
    )?;
    let Streamed { segments, notes } = &mut input;
    let selection = input::select_from(&from, segments, notes, args.sampling.seed)?;
    let here = InputId::of(&input.segments, &selection)?;
    if here != run.input {
        bail!("the input has changed since the run: {} then, {here} now", run.input);
    }
    Ok(Judged { input, selection })
}

/// Points the arguments at the copies that the folder keeps, and relative paths at where the command was given.
fn relocate(dir: &Path, run: &RunFile, args: &mut score::Args) -> Result<()> {
    for material in &run.origin.materials {
        materials::place(dir, material)?;
    }
    let place = |flag: &str, path: &mut Option<PathBuf>| -> Result<()> {
        if let Some(given) = path {
            *given = materials::place_of(dir, run, flag, given)?;
        }
        Ok(())
    };
    place("--prompts", &mut args.judge.prompts)?;
    place("--shots", &mut args.judge.shots)?;
    place("--chat-template", &mut args.model.chat_template)?;
    let found = |name: &str| {
        let there = run.from_there(Path::new(name));
        let moved = !Path::new(name).exists() && there.exists();
        if moved { there.display().to_string() } else { name.to_owned() }
    };
    args.model.model = found(&args.model.model);
    if let Some(adapter) = &mut args.model.adapter {
        *adapter = found(&adapter.display().to_string()).into();
    }
    for (_, name) in &mut args.model.role {
        *name = match adapter::split(name) {
            (model, Some(adapter)) => format!("{}+{}", found(model), found(adapter)),
            (model, None) => found(model),
        };
    }
    let request = args.judge.method.clone();
    let mut method = request.clone();
    for material in run.origin.materials.iter().filter(|material| !material.flag.starts_with("--")) {
        let mut of = origin::options(&request).filter(|(name, _)| *name == material.flag);
        if let Some((name, value)) = of.next() {
            let at = materials::place_of(dir, run, name, Path::new(value))?;
            method = method.replace(&format!("{name}={value}"), &format!("{name}={}", at.display()));
        }
    }
    args.judge.method = method;
    Ok(())
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
