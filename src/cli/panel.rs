//! From the model and engine arguments to a panel: the one place where the command line meets the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, anyhow, bail};

use super::{
    adapter,
    args::{EngineArgs, ModelArgs},
    fits::{self, Room},
    spread,
};
use crate::{
    card::{self, Card, Identity, Template},
    digest,
    engine::{
        Activations, Compute, Device, Engine, Format, Isa as Tier, KvType, Need, Options, chat::ChatTemplate,
    },
    judges::{Model, Panel, Role},
    llm::Sampling,
    run::description::{ModelFiles, NamedHash},
    signature::Signature,
};

/// Groups in flight on a CPU, where a step takes as many rows.
const JOBS: usize = 64;

/// A panel and what the command line must know about its models.
pub struct LoadedModels {
    pub panel: Panel,
    /// The models' fields of the signature: model, sha256, and what the engine says of itself.
    pub signature: Signature,
    pub model: Model,
    /// Where another one is models.
    pub model_of_role: BTreeMap<Role, Model>,
    /// Names and values that the engine adds to a dry run's table: its memory.
    pub memory: Memory,
    /// The models' files, for `run.json`.
    pub files: Vec<ModelFiles>,
    /// The most token positions that its devices take at a time, all together.
    pub n_rows: usize,
}

impl LoadedModels {
    /// One model in every role, of whose memory nothing is known: whatever answers chats in the engine's place.
    #[must_use]
    pub fn alone(panel: Panel, model: Model) -> Self {
        let signature =
            Signature::new().with("model", model.name.clone()).with("sha256", model.sha256.clone());
        let memory: Memory = Box::new(Vec::new);
        Self {
            panel,
            signature,
            model,
            model_of_role: BTreeMap::new(),
            memory,
            files: Vec::new(),
            n_rows: Options::default().n_rows,
        }
    }

    /// How many groups are judged at the same time: so many as were asked for, else enough to keep the devices busy.
    #[must_use]
    pub fn jobs(&self, asked: Option<usize>) -> usize {
        asked.unwrap_or_else(|| self.n_rows.max(JOBS))
    }

    /// The model that plays a role.
    #[must_use]
    pub fn model_of(&self, role: Role) -> Model {
        self.model_of_role.get(&role).unwrap_or(&self.model).clone()
    }
}

/// What memory an engine takes, as names and values.
pub type Memory = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// How a command gets its panel: [`panel`], or a script in tests.
pub type ModelLoader = fn(&ModelArgs, &EngineArgs, Sampling) -> Result<LoadedModels>;

/// Loads the models that the arguments name, each once, whatever adapters are asked of it.
///
/// # Errors
/// A model or adapter that cannot be found, read or run here.
pub fn panel(model: &ModelArgs, args: &EngineArgs, sampling: Sampling) -> Result<LoadedModels> {
    let assignments = assignments(model)?;
    let mut loaded: BTreeMap<&str, Loaded> = BTreeMap::new();
    let mut models: Vec<(&RoleAssignment, Opened)> = Vec::new();
    for assignment in &assignments {
        if models.iter().any(|(known, _)| known.is_like(assignment)) {
            continue;
        }
        if !loaded.contains_key(assignment.model.as_str()) {
            let of_model = assignments.iter().filter(|other| other.model == assignment.model);
            let adapters = of_model.filter_map(|assignment| assignment.adapter.as_deref());
            let template = model.chat_template.as_deref().filter(|_| assignment.model == model.model);
            loaded.insert(&assignment.model, Loaded::open(&assignment.model, template, adapters, args)?);
        }
        models.push((assignment, loaded[assignment.model.as_str()].taking(assignment.adapter.as_deref())));
    }
    let mut signature = Signature::new();
    for (assignment, model) in &mut models {
        signature = signature.followed_by(&model.signature(assignment.role));
        assignment.model.clone_into(&mut model.files.given);
    }
    let (main, mut model_of_role) = (&models[0].1, BTreeMap::new());
    let mut panel = Panel::new(main.engine.clone(), sampling);
    let mut files: Vec<ModelFiles> = models.iter().map(|(_, model)| model.files.clone()).collect();
    for assignment in &assignments[1..] {
        let model = models.iter().position(|(known, _)| known.is_like(assignment));
        let (Some(role), Some(i)) = (assignment.role, model) else { continue };
        panel = panel.seat(role, models[i].1.engine.clone());
        model_of_role.insert(role, models[i].1.model());
        if i > 0 {
            files[i].roles.push(role.to_string());
        }
    }
    let (model, engine) = (main.model(), main.engine.clone());
    let taken = &loaded[assignments[0].model.as_str()].found.options;
    let n_rows = taken.n_rows * (1 + taken.more_devices.len());
    let memory: Memory = Box::new(move || memory(&engine));
    Ok(LoadedModels { panel, signature, model, model_of_role, memory, files, n_rows })
}

/// A seat as the arguments describe it.
struct RoleAssignment {
    /// `None` for all roles that have no assignment of their own.
    role: Option<Role>,
    model: String,
    adapter: Option<PathBuf>,
}

impl RoleAssignment {
    /// Whether the same model with the same adapter sits there.
    fn is_like(&self, other: &Self) -> bool {
        (&self.model, &self.adapter) == (&other.model, &other.adapter)
    }
}

/// All assignments, that of the main model first.
fn assignments(args: &ModelArgs) -> Result<Vec<RoleAssignment>> {
    let mut assignments =
        vec![RoleAssignment { role: None, model: args.model.clone(), adapter: args.adapter.clone() }];
    for (role, given) in &args.role {
        if assignments.iter().any(|assignment| assignment.role == Some(*role)) {
            bail!("the role `{role}` is given twice");
        }
        let (model, adapter) = adapter::split(given);
        let (model, adapter) = (model.to_owned(), adapter.map(PathBuf::from));
        assignments.push(RoleAssignment { role: Some(*role), model, adapter });
    }
    Ok(assignments)
}

/// A model with all adapters that are asked of it.
struct Loaded {
    engine: Arc<Engine>,
    found: Found,
    adapters: Vec<adapter::Found>,
}

impl Loaded {
    fn open<'a>(
        name: &str,
        template: Option<&Path>,
        adapters: impl Iterator<Item = &'a Path>,
        args: &EngineArgs,
    ) -> Result<Self> {
        let distinct: BTreeSet<&Path> = adapters.collect();
        let adapters = distinct.into_iter().map(adapter::find).collect::<Result<Vec<_>>>()?;
        let mut found = find(name, template, args)?;
        found.options.adapters = adapters.iter().map(|adapter| adapter.dir.clone()).collect();
        if args.tensor_parallel.is_none() {
            spread::over_fewest(&found.name, &found.weights, &mut found.options, args.device())?;
        }
        let mut devices = std::iter::once(&found.options.device).chain(&found.options.more_devices);
        if let Some(remark) = devices.find_map(Device::remark) {
            say!("{remark}");
        }
        let engine = Arc::new(Engine::open(&found.weights, &found.options)?);
        engine.facts().remarks.iter().for_each(|remark| say!("note: {remark}"));
        Ok(Self { engine, found, adapters })
    }

    /// The model with one of its adapters, or without.
    fn taking(&self, dir: Option<&Path>) -> Opened {
        let i = self.adapters.iter().position(|adapter| Some(adapter.dir.as_path()) == dir);
        let adapter = i.map(|i| self.adapters[i].clone());
        let engine = if i.is_some() { Arc::new(self.engine.with_adapter(i)) } else { self.engine.clone() };
        let mut files = self.found.files.clone();
        files.adapter = adapter.as_ref().map(|adapter| adapter.files.clone());
        let (name, sha256) = (self.found.name.clone(), self.found.sha256.clone());
        Opened { engine, name, sha256, adapter, files }
    }
}

/// An engine and the name of its model.
pub struct Opened {
    pub engine: Arc<Engine>,
    /// The card's name, or the file's stem.
    pub name: String,
    /// The first digits of the weights' sha256.
    pub sha256: String,
    pub adapter: Option<adapter::Found>,
    pub files: ModelFiles,
}

impl Opened {
    /// The model's name, with that of its adapter.
    #[must_use]
    pub fn full_name(&self) -> String {
        self.model().name
    }

    fn model(&self) -> Model {
        adapted((&self.name, &self.sha256), self.adapter.as_ref())
    }

    /// The model's fields of the signature, with a role before each name where it plays only that.
    fn signature(&self, role: Option<Role>) -> Signature {
        let mut model = Signature::new().with("model", self.name.clone()).with("sha256", self.sha256.clone());
        if let Some(adapter) = &self.adapter {
            model =
                model.with("adapter", adapter.name.clone()).with("adapter_sha256", adapter.sha256.clone());
        }
        let all = model.followed_by(&self.engine.facts().signature);
        let Some(role) = role else { return all };
        all.fields().iter().fold(Signature::new(), |signature, (name, value)| {
            signature.with(format!("{role}.{name}"), value)
        })
    }
}

/// A model by name and sha256, and its adapter's behind them.
#[must_use]
pub fn adapted((name, sha256): (&str, &str), adapter: Option<&adapter::Found>) -> Model {
    let with = |own: &str, part: fn(&adapter::Found) -> &str| match adapter {
        Some(found) => format!("{own}+{}", part(found)),
        None => own.to_owned(),
    };
    Model { name: with(name, |a| &a.name), sha256: with(sha256, |a| &a.sha256) }
}

/// Opens the main model by card, path or hub repository, with its adapter.
///
/// # Errors
/// A model or adapter that cannot be found, read or run here.
pub fn open(model: &ModelArgs, args: &EngineArgs) -> Result<Opened> {
    let adapter = model.adapter.as_deref();
    let loaded = Loaded::open(&model.model, model.chat_template.as_deref(), adapter.into_iter(), args)?;
    Ok(loaded.taking(adapter))
}

/// Where a model's files are and what its card says about them.
pub struct Found {
    pub weights: PathBuf,
    pub name: String,
    pub sha256: String,
    pub options: Options,
    pub files: ModelFiles,
}

/// A model's files and what it is to be run with, before anything is loaded.
///
/// # Errors
/// As [`open`].
pub fn find(name: &str, template: Option<&Path>, args: &EngineArgs) -> Result<Found> {
    let mut found = locate(name, options(args)?)?;
    if let Some(file) = template {
        let text = std::fs::read_to_string(file).with_context(|| format!("`{}`", file.display()))?;
        if let Err(error) = ChatTemplate::with_tokens(&text, "", "") {
            bail!("`--chat-template {}`: {error}", file.display());
        }
        found.files.template_sha256 = Some(digest::sha256(&text));
        found.options.chat_template = Some(text);
    }
    Ok(found)
}

/// The main model's files, and its adapter among the options.
///
/// # Errors
/// As [`open`].
pub fn find_adapted(model: &ModelArgs, args: &EngineArgs) -> Result<Found> {
    let mut found = find(&model.model, model.chat_template.as_deref(), args)?;
    found.options.adapters.extend(model.adapter.as_deref().map(adapter::find).transpose()?.map(|a| a.dir));
    Ok(found)
}

/// Treats a path that exists as a path, and anything else as a card's name. A path whose files are a card's is run as
/// the card says, so that both give the same answers under the same signature.
fn locate(name: &str, options: Options) -> Result<Found> {
    let path = Path::new(name);
    if path.exists() {
        plain(path)?;
        adapter::refuse_as_model(path)?;
        let identity = Identity::of(path)?;
        if identity.weights.is_dir() && !path.join("config.json").exists() {
            bail!(
                "`{name}` has no `config.json` and no GGUF file, so it is not a model\nhint: a model is a folder with \
                 `config.json`, `tokenizer.json` and safetensors, a GGUF file, or a folder with one"
            );
        }
        let mut found = match identity.card()? {
            Some(card) => of_card(&card, &identity, options)?,
            None => of_path(name, &identity, options),
        };
        name.clone_into(&mut found.files.given);
        return Ok(found);
    }
    let is_file = path.extension().is_some_and(|ending| ending == "gguf");
    if is_file || name.contains('/') && !name.starts_with("hf:") {
        bail!("`{name}`: no such file or folder{}", of_hub(name));
    }
    let local = known(name)?.local()?;
    let identity = Identity::of(&local.weights)?;
    let mut found = of_card(&local.card, &identity, options)?;
    found.files.revision = local.revision;
    Ok(found)
}

/// Refuses a pipe or a device where a model is wanted, or in its folder: to read one may wait for ever.
fn plain(path: &Path) -> Result<()> {
    let entries = if path.is_dir() { std::fs::read_dir(path).ok() } else { None };
    let inside = entries.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    for path in inside.chain([path.to_owned()]) {
        if std::fs::metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            bail!("`{}` is neither a file nor a folder, so it is no part of a model", path.display());
        }
    }
    Ok(())
}

/// The card of this name.
///
/// # Errors
/// A name that no card has.
pub(super) fn known(name: &str) -> Result<Card> {
    card::find(name).map_err(|error| match error {
        card::Error::Unknown { name, hint } => anyhow!(
            "unknown model `{name}`\nhint: {hint}; models of open weights run here, by a card's name, a GGUF file or a folder"
        ),
        error => error.into(),
    })
}

/// What to write for a repository of the hub, which people name as `OWNER/NAME`.
pub(super) fn of_hub(name: &str) -> String {
    let [owner, repository] = name.split('/').collect::<Vec<_>>()[..] else { return String::new() };
    if owner.is_empty() || owner.starts_with(['.', '~']) || repository.is_empty() {
        return String::new();
    }
    match card::find(repository) {
        Ok(card) => format!("\nhint: its card is `{}`; `tribunal models pull {}`", card.name, card.name),
        Err(_) => format!(
            "\nhint: a repository of the hub is `hf:{name}@REVISION`; `tribunal models list` has cards"
        ),
    }
}

/// Files that no card describes.
fn of_path(name: &str, identity: &Identity, options: Options) -> Found {
    let called = identity.name().unwrap_or_else(|| name.to_owned());
    let files = files_of(&called, identity);
    let options = Options { hashed: identity.stamps.clone(), ..options };
    let weights = identity.weights.clone();
    Found { weights, name: called, sha256: identity.fingerprint(), options, files }
}

/// Files that a card describes, wherever they are.
fn of_card(card: &Card, identity: &Identity, mut options: Options) -> Result<Found> {
    options.hashed.clone_from(&identity.stamps);
    options.stop_tokens.clone_from(&card.stop);
    options.chat_options = serde_json::to_value(&card.chat_options)?;
    let mut files = files_of(&card.name, identity);
    files.sources = card.sources.iter().map(ToString::to_string).collect();
    if let Template::Text(text) = card.template() {
        options.chat_template = Some(text.to_owned());
        files.template_sha256 = Some(digest::sha256(text));
    }
    let weights = identity.weights.clone();
    Ok(Found { weights, name: card.name.clone(), sha256: identity.fingerprint(), options, files })
}

fn files_of(name: &str, identity: &Identity) -> ModelFiles {
    let named = |(name, sha256): &(String, String)| NamedHash { name: name.clone(), sha256: sha256.clone() };
    ModelFiles {
        given: name.to_owned(),
        name: name.to_owned(),
        sha256: identity.sha256.clone(),
        files: identity.files.iter().map(named).collect(),
        ..ModelFiles::default()
    }
}

/// The engine's options. Impossible ones are refused before anything is loaded.
///
/// # Errors
/// A device or tier that this machine does not have.
pub fn options(args: &EngineArgs) -> Result<Options> {
    let mut devices = Device::for_models(args.device(), args.tensor_parallel.unwrap_or(1))?;
    if args.no_graphs {
        devices = devices.into_iter().map(Device::without_graphs).collect();
    }
    let device = devices.remove(0);
    if !device.is_cpu() && args.device() != "auto" {
        on_gpu(args)?;
    }
    let tier = match args.cpu_tier.as_str() {
        "auto" => Tier::detect(),
        name => Tier::named(name).ok_or_else(|| {
            let here: Vec<&str> = Tier::available().map(Tier::name).collect();
            anyhow!(
                "`--cpu-tier {name}`: this processor does not support it, only {}; hint: `auto` takes the fastest of them",
                here.join(", ")
            )
        })?,
    };
    let activations = if args.activations == "float" { Activations::Float } else { Activations::Q8 };
    let floats = match args.dtype.as_str() {
        "bf16" => Some(Format::Bf16),
        "f16" => Some(Format::F16),
        "f32" => Some(Format::F32),
        _ => None,
    };
    let kv = match args.kv_dtype.as_str() {
        "f16" => KvType::F16,
        "f32" => KvType::F32,
        _ => KvType::Bf16,
    };
    let default = Options::on(device);
    Ok(Options {
        more_devices: devices,
        compute: Compute { tier, activations, floats },
        kv,
        context: args.context,
        kv_bytes: args.kv_cache.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        n_rows: args.batch.unwrap_or(default.n_rows),
        prefix_cache: !args.no_prefix_cache,
        drafts: !args.no_drafts,
        threads: args.threads,
        ..default
    })
}

/// Refuses what a GPU does not do.
fn on_gpu(args: &EngineArgs) -> Result<()> {
    let device = args.device();
    if args.activations == "float" {
        bail!("`--activations float` is for CPUs; `--device {device}` multiplies in bf16 and sums in f32");
    }
    if args.kv_dtype != "bf16" {
        bail!("`--kv-dtype {}` is for CPUs; the cache of `--device {device}` holds bf16", args.kv_dtype);
    }
    if args.cpu_tier != "auto" {
        bail!("`--cpu-tier {}` and `--device {device}` exclude each other", args.cpu_tier);
    }
    Ok(())
}

/// The memory that a model takes here, and what it would take on a GPU.
fn memory(engine: &Engine) -> Vec<(String, String)> {
    let facts = engine.facts();
    let gib = |bytes: usize| format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30));
    let mut rows = vec![("weights".to_owned(), gib(facts.weight_bytes))];
    if facts.adapter_bytes > 0 {
        rows.push(("adapters".to_owned(), gib(facts.adapter_bytes)));
    }
    rows.push(("KV cache".to_owned(), gib(facts.kv_bytes)));
    // On a GPU it is loaded already.
    if facts.signature.get("device") == Some("cpu") {
        let options = Options { context: Some(facts.context), ..Options::for_gpu() };
        let need = Need::new(facts.sizes, facts.weight_bytes + facts.adapter_bytes, &options);
        rows.push(("on a GPU".to_owned(), fits::sum(&need)));
        rows.push(("GPU memory".to_owned(), Room::find(None).verdict(&need)));
    }
    rows
}
