//! From a run folder back to its evaluation: the specification of its command, pointed at the copies that the
//! folder keeps, and its input; then the check of a folder against it.

use std::path::{Path, PathBuf};

#[cfg(feature = "clap")]
use crate::values;
use crate::{
    error::{Error, Result},
    evaluation::Input,
    input,
    judges::{Role, method_file, registry},
    models::{adapter, heads},
    provenance,
    run::{RunFile, Selection, description::InputId, input as kept, materials},
    segment::{Segments as _, read::Streamed},
    spec::{ModelSpec, Spec},
};

mod check;
mod sources;

pub use check::{Check, UNCHECKED, check};

/// A run as its folder describes it.
pub struct Recorded {
    pub run: RunFile,
    /// With paths that exist here.
    pub spec: Spec,
    /// The specification in the run's command.
    pub original: Spec,
    pub input: Input,
}

/// Options of a repeated run: the paths of its models, and their speed. Nothing here moves a score.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Changes {
    /// The model, if it is not where the run had it: a card, a GGUF file or a safetensors folder
    #[cfg_attr(feature = "clap", arg(long, value_name = "CARD|PATH"))]
    pub model: Option<String>,
    /// The adapter, if it is not where the run had it
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub adapter: Option<PathBuf>,
    /// The model, with its adapter, of one role; may be repeated
    #[cfg_attr(
        feature = "clap",
        arg(id = "role", long = "role", value_name = "ROLE=MODEL[+ADAPTER]", value_parser = values::role)
    )]
    pub roles: Vec<(Role, String)>,
    /// Groups of segments judged at the same time
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::up_to::<1024>))]
    pub jobs: Option<usize>,
    /// Maximum number of sequences processed at the same time
    #[cfg_attr(feature = "clap", arg(long, visible_alias = "batch-size", value_name = "N", value_parser = values::up_to::<4096>))]
    pub batch: Option<usize>,
    /// CPU threads
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::up_to::<1024>))]
    pub threads: Option<usize>,
    /// Memory for the KV cache, like `2GiB` or `800MiB`
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = values::bytes))]
    pub kv_cache: Option<u64>,
    /// Read the files outside of the folder that its command names, such as the input of a shard: only for a
    /// folder that you trust
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_files: bool,
}

/// Reads a folder's run. `original`: the specification of its command.
///
/// # Errors
/// An input that neither the folder keeps nor its command finds, files of which there is no copy.
pub fn read(dir: &Path, run: RunFile, original: Spec, changes: &Changes) -> Result<Recorded> {
    let mut spec = original.clone();
    spec.models = located(&run, &original.models);
    apply(&mut spec, changes);
    heads::restore(&mut spec, &run.signature);
    let input = match kept::read(dir, &run)? {
        Some((segments, selection)) => Input { segments, selection, notes: Vec::new() },
        None if changes.allow_files => reread(&run, &spec)?,
        None => return Err(Error::NoCopyOfInput(dir.into())),
    };
    relocate(dir, &run, &mut spec, changes)?;
    Ok(Recorded { run, spec, original, input })
}

/// The models that a run's command names, located on this machine: as paths from the directory of the
/// command, else from the current one; cards by name.
pub fn located(run: &RunFile, models: &ModelSpec) -> ModelSpec {
    let found = |name: &str| {
        let path = run.resolve(Path::new(name));
        if path.exists() { path.display().to_string() } else { lasting(name) }
    };
    mapped(models, found)
}

/// A path that is here, in a form that holds in any directory; anything else as it is.
fn lasting(name: &str) -> String {
    let path = Some(Path::new(name)).filter(|path| path.exists()).map(std::path::absolute);
    path.and_then(Result::ok).map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

/// Maps each name of a model or an adapter.
fn mapped(models: &ModelSpec, map: impl Fn(&str) -> String) -> ModelSpec {
    let role = |(role, name): &(Role, String)| {
        let name = match adapter::split(name) {
            (model, Some(adapter)) => format!("{}+{}", map(model), map(adapter)),
            (model, None) => map(model),
        };
        (*role, name)
    };
    ModelSpec {
        model: map(&models.model),
        adapter: models.adapter.as_ref().map(|dir| map(&dir.display().to_string()).into()),
        roles: models.roles.iter().map(role).collect(),
        chat_template: models.chat_template.clone(),
        estimator: None,
    }
}

fn apply(spec: &mut Spec, changes: &Changes) {
    let Changes { model, adapter, roles, jobs, batch, threads, kv_cache, allow_files: _ } = changes;
    let new = ModelSpec {
        model: model.clone().unwrap_or_else(|| spec.models.model.clone()),
        adapter: adapter.clone().or_else(|| spec.models.adapter.clone()),
        roles: roles.clone(),
        chat_template: spec.models.chat_template.clone(),
        estimator: None,
    };
    let ModelSpec { model, adapter, roles, .. } = mapped(&new, lasting);
    (spec.models.model, spec.models.adapter) = (model, adapter);
    for (role, model) in roles {
        spec.models.roles.retain(|(other, _)| *other != role);
        spec.models.roles.push((role, model));
    }
    spec.resources.jobs = jobs.or(spec.resources.jobs);
    spec.resources.batch = batch.or(spec.resources.batch);
    spec.resources.threads = threads.or(spec.resources.threads);
    spec.resources.kv_cache = kv_cache.or(spec.resources.kv_cache);
    // A check of verdicts computes everything that they depend on.
    spec.resources.saved_prefixes = 0;
}

/// The input where the command found it: that of a shard whose folder keeps no copy.
fn reread(run: &RunFile, spec: &Spec) -> Result<Input> {
    let mut from = spec.input.clone();
    for path in [&mut from.source, &mut from.docs, &mut from.table, &mut from.testset, &mut from.documents]
        .into_iter()
        .flatten()
    {
        *path = run.resolve(path);
    }
    if from.testset.is_none() {
        from.reference = from.reference.map(|path| run.resolve(&path));
    }
    from.hypotheses = from.hypotheses.iter().map(|path| run.resolve(path)).collect();
    let Streamed { segments, notes } =
        input::stream_any(&from).map_err(|error| Error::InputNotFound(Box::new(error)))?;
    let selection = Selection::of_ranges(run.selection.as_deref(), segments.n_segments());
    let present = InputId::new(&segments, &selection)?;
    if present != run.input {
        return Err(Error::InputChanged {
            recorded: Box::new(run.input.clone()),
            present: Box::new(present),
        });
    }
    Ok(Input { segments, selection, notes })
}

/// Points the arguments at the copies that the folder keeps. Files without a copy are relative to the
/// directory of the command.
///
/// # Errors
/// A file of which there is no copy, unless files outside of the folder are allowed.
fn relocate(dir: &Path, run: &RunFile, spec: &mut Spec, changes: &Changes) -> Result<()> {
    for material in &run.origin.materials {
        materials::place(dir, material)?;
    }
    let mut copies = Vec::new();
    for (option, path) in provenance::files(spec) {
        let copy = |path: &PathBuf| copy_of(dir, run, &option, path, changes.allow_files);
        copies.push(path.as_ref().map(copy).transpose()?);
    }
    let places = [&mut spec.judge.prompts, &mut spec.judge.shots, &mut spec.models.chat_template];
    places.into_iter().zip(copies).for_each(|(place, copy)| *place = copy);
    let request = spec.judge.method.clone();
    if let Some((path, options)) = method_file::request(&request) {
        let at = copy_of(dir, run, &provenance::method_flag(), path, changes.allow_files)?;
        let file = if at.is_dir() { at.join(method_file::place(path).1) } else { at };
        spec.judge.method = format!("{}:{options}", std::path::absolute(&file)?.display());
        return Ok(());
    }
    let mut method = request.clone();
    for (name, value) in provenance::options(&request).filter(|(name, value)| is_file(&request, name, value))
    {
        let at = copy_of(dir, run, name, Path::new(value), changes.allow_files)?;
        method = method.replace(&format!("{name}={value}"), &format!("{name}={}", at.display()));
    }
    spec.judge.method = method;
    Ok(())
}

/// Returns true if an option of a method takes a file, and `value` is none of its other values.
fn is_file(request: &str, option: &str, value: &str) -> bool {
    let name = request.split_once(':').map_or(request, |(name, _)| name);
    let option = option.replace('_', "-");
    let choices = registry::find(name).map(|method| method.options).unwrap_or_default();
    choices.iter().any(|choice| {
        let takes_file = choice.name == option && choice.values.contains(&"<file>");
        takes_file && !choice.values.contains(&value)
    })
}

/// The copy of a file that a flag or an option names, or the path of the file itself where that is allowed. A
/// name that does not exist is left unchanged: some options take one instead of a file.
fn copy_of(dir: &Path, run: &RunFile, flag: &str, path: &Path, is_allowed: bool) -> Result<PathBuf> {
    if let Some(copy) = materials::copy_of(dir, run, flag)? {
        return Ok(copy);
    }
    let resolved =
        Some(run.resolve(path)).filter(|resolved| resolved.exists()).unwrap_or_else(|| path.into());
    if is_allowed || !resolved.exists() {
        return Ok(resolved);
    }
    Err(Error::NoCopy { folder: dir.into(), file: resolved, option: flag.to_owned() })
}
