//! From a [`ModelSpec`] and [`Resources`] to loaded models: the panel of an evaluation, with the models'
//! fields for its signature and run folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use tribunal_model::{Weights, estimator::Estimator};

use crate::{
    digest,
    engine::{self, Device, Engine, Need, Options, SavedPrefixes, chat::ChatTemplate},
    error::{Error, Result},
    files,
    hub::{self, Card, Identity, Template},
    judges::{Model, Panel, Role},
    llm::Sampling,
    run::description::{ModelFiles, NamedHash},
    signature::Signature,
    spec::{ModelSpec, Resources},
    values::{AUTO, DEFAULT_MODEL},
};

pub mod adapter;
pub mod gpu_check;
pub mod gpu_memory;
pub mod heads;
mod settings;
mod spread;

use gpu_memory::GpuMemory;
pub use settings::options;

/// Folder of saved prefixes in the folder of models.
const PREFIXES: &str = "prefixes";

/// Groups in flight on a CPU, where a step takes as many rows.
const JOBS: usize = 64;

/// The models of an evaluation, loaded.
pub struct Models {
    pub panel: Panel,
    /// The models' fields of the signature: model, sha256, and the engine's fields.
    pub signature: Signature,
    pub model: Model,
    /// Models of the roles that do not use the panel's first one.
    pub model_of_role: BTreeMap<Role, Model>,
    /// Names and values that the engine adds to a dry run's table: its memory.
    pub memory: Memory,
    /// The models' files, for `run.json`.
    pub files: Vec<ModelFiles>,
    /// The most token positions that its devices take at a time, all together.
    pub n_rows: usize,
    /// The shortest prefix that is faster read from a file than computed; `None` where none is saved. Unit:
    /// tokens.
    pub least_saved: Option<usize>,
    /// Notes for the user about devices and models.
    pub notes: Vec<String>,
}

impl Models {
    /// One model in every role, without memory figures: any implementation that answers chats in the engine's
    /// place.
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
            least_saved: None,
            notes: Vec::new(),
        }
    }

    /// Number of groups judged at the same time: `asked`, else enough to keep the devices busy.
    pub fn jobs(&self, requested: Option<usize>) -> usize {
        requested.unwrap_or_else(|| self.n_rows.max(JOBS))
    }

    /// The model that plays a role.
    pub fn model_of(&self, role: Role) -> Model {
        self.model_of_role.get(&role).unwrap_or(&self.model).clone()
    }
}

/// The shortest prefix worth a file for weights of so many bytes: about a third of a second on two cores.
fn least_saved(weight_bytes: usize) -> usize {
    const BYTES: usize = 64 << 30;
    (BYTES / weight_bytes.max(1)).max(64)
}

/// Memory use of an engine, as names and values.
pub type Memory = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// A function that loads models: [`load`], or a script in tests.
pub type ModelLoader = fn(&ModelSpec, &Resources, Sampling) -> Result<Models>;

/// Loads the models that a specification names, each once, with all of its adapters.
///
/// # Errors
/// A model or adapter that cannot be found, read or run here.
pub fn load(model: &ModelSpec, resources: &Resources, sampling: Sampling) -> Result<Models> {
    let assignments = assignments(model)?;
    let mut loaded: BTreeMap<&str, WithAdapters> = BTreeMap::new();
    let mut models: Vec<(&RoleAssignment, ModelEngine)> = Vec::new();
    for assignment in &assignments {
        if models.iter().any(|(known, _)| known.is_like(assignment)) {
            continue;
        }
        if !loaded.contains_key(assignment.model.as_str()) {
            let of_model = assignments.iter().filter(|other| other.model == assignment.model);
            let adapters = of_model.filter_map(|assignment| assignment.adapter.as_deref());
            let template = model.chat_template.as_deref().filter(|_| assignment.role.is_none());
            loaded.insert(
                &assignment.model,
                WithAdapters::open(
                    &assignment.model,
                    template,
                    adapters,
                    model.estimator.as_deref(),
                    resources,
                )?,
            );
        }
        models.push((assignment, loaded[assignment.model.as_str()].with(assignment.adapter.as_deref())));
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
        panel = panel.assign(role, models[i].1.engine.clone());
        model_of_role.insert(role, models[i].1.model());
        if i > 0 {
            files[i].roles.push(role.to_string());
        }
    }
    let (model, engine) = (main.model(), main.engine.clone());
    let taken = &loaded[assignments[0].model.as_str()].located.options;
    let n_rows = engine.facts().n_rows;
    let memory: Memory = Box::new(move || memory(&engine));
    let mut notes: Vec<String> = loaded.values().flat_map(|loaded| loaded.notes.iter().cloned()).collect();
    notes.dedup();
    let least_saved = taken.saved_prefixes.is_some().then(|| least_saved(main.engine.facts().weight_bytes));
    Ok(Models { panel, signature, model, model_of_role, memory, files, n_rows, least_saved, notes })
}

/// The model of a role.
struct RoleAssignment {
    /// `None` for all roles that have no assignment of their own.
    role: Option<Role>,
    model: String,
    adapter: Option<PathBuf>,
}

impl RoleAssignment {
    /// Returns true if both have the same model with the same adapter.
    fn is_like(&self, other: &Self) -> bool {
        (&self.model, &self.adapter) == (&other.model, &other.adapter)
    }
}

/// All assignments, that of the main model first.
fn assignments(spec: &ModelSpec) -> Result<Vec<RoleAssignment>> {
    let main = if spec.model == AUTO { DEFAULT_MODEL } else { &spec.model };
    let mut assignments =
        vec![RoleAssignment { role: None, model: main.into(), adapter: spec.adapter.clone() }];
    for (role, model) in &spec.roles {
        if assignments.iter().any(|assignment| assignment.role == Some(*role)) {
            return Err(Error::RoleTwice(*role));
        }
        let (model, adapter) = adapter::split(model);
        let (model, adapter) = (model.to_owned(), adapter.map(PathBuf::from));
        assignments.push(RoleAssignment { role: Some(*role), model, adapter });
    }
    Ok(assignments)
}

/// A model with all of its adapters, loaded.
struct WithAdapters {
    engine: Arc<Engine>,
    located: Located,
    adapters: Vec<adapter::AdapterFolder>,
    notes: Vec<String>,
}

impl WithAdapters {
    fn open<'a>(
        name: &str,
        template: Option<&Path>,
        adapters: impl Iterator<Item = &'a Path>,
        estimator: Option<&[u8]>,
        resources: &Resources,
    ) -> Result<Self> {
        let distinct: BTreeSet<&Path> = adapters.collect();
        let adapters = distinct.into_iter().map(adapter::find).collect::<Result<Vec<_>>>()?;
        let mut located = find(name, template, resources)?;
        if let Some(context) = located.options.context {
            let positions = Weights::open(&located.weights)?.config().context;
            if context > positions {
                return Err(Error::Positions { model: located.name, positions, context });
            }
        }
        located.options.adapters = adapters.iter().map(|adapter| adapter.dir.clone()).collect();
        let estimator = estimator.map(|bytes| Estimator::read("the judge's fit", bytes));
        located.options.estimator = estimator.transpose().map_err(engine::Error::from)?.map(Arc::new);
        let mut notes = Vec::new();
        if resources.tensor_parallel.is_none() {
            let Located { name, weights, options, .. } = &mut located;
            notes.extend(spread::over_fewest(name, weights, options, &resources.device)?);
        }
        let mut devices = std::iter::once(&located.options.device).chain(&located.options.more_devices);
        notes.extend(devices.find_map(Device::remark));
        if resources.saved_prefixes > 0
            && located.options.device.is_cpu()
            && let Ok(home) = hub::home::home()
        {
            let of_adapters = adapters.iter().map(|adapter| adapter.files.sha256.clone());
            let files = std::iter::once(located.files.sha256.clone()).chain(of_adapters);
            let model = files.collect::<Vec<_>>().join(" ");
            located.options.saved_prefixes = Some(SavedPrefixes {
                folder: home.join(PREFIXES),
                model,
                max_bytes: resources.saved_prefixes,
            });
        }
        let engine = Arc::new(Engine::open(&located.weights, &located.options)?);
        notes.extend(engine.facts().remarks.iter().cloned());
        Ok(Self { engine, located, adapters, notes })
    }

    /// The model with one of its adapters, or without.
    fn with(&self, dir: Option<&Path>) -> ModelEngine {
        let i = self.adapters.iter().position(|adapter| Some(adapter.dir.as_path()) == dir);
        let adapter = i.map(|i| self.adapters[i].clone());
        let engine = if i.is_some() { Arc::new(self.engine.with_adapter(i)) } else { self.engine.clone() };
        let mut files = self.located.files.clone();
        files.adapter = adapter.as_ref().map(|adapter| adapter.files.clone());
        let (name, sha256) = (self.located.name.clone(), self.located.sha256.clone());
        ModelEngine { engine, name, sha256, adapter, files, notes: self.notes.clone() }
    }
}

/// An engine and the name of its model.
pub struct ModelEngine {
    pub engine: Arc<Engine>,
    /// The card's name, or the file's stem.
    pub name: String,
    /// The first digits of the weights' sha256.
    pub sha256: String,
    pub adapter: Option<adapter::AdapterFolder>,
    pub files: ModelFiles,
    /// Notes for the user about the device and the model.
    pub notes: Vec<String>,
}

impl ModelEngine {
    /// The model's name, with that of its adapter.
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
pub fn adapted((name, sha256): (&str, &str), adapter: Option<&adapter::AdapterFolder>) -> Model {
    let with = |name: &str, part: fn(&adapter::AdapterFolder) -> &str| match adapter {
        Some(found) => format!("{name}+{}", part(found)),
        None => name.to_owned(),
    };
    Model { name: with(name, |a| &a.name), sha256: with(sha256, |a| &a.sha256) }
}

/// Opens the main model by card, path or hub repository, with its adapter.
///
/// # Errors
/// A model or adapter that cannot be found, read or run here.
pub fn open(model: &ModelSpec, resources: &Resources) -> Result<ModelEngine> {
    let adapter = model.adapter.as_deref();
    let template = model.chat_template.as_deref();
    let loaded = WithAdapters::open(&model.model, template, adapter.into_iter(), None, resources)?;
    Ok(loaded.with(adapter))
}

/// Paths of a model's files, and its card.
pub struct Located {
    pub weights: PathBuf,
    pub name: String,
    pub sha256: String,
    pub options: Options,
    pub files: ModelFiles,
}

/// A model's files and what it is to be run with, before anything is loaded.
///
/// # Errors
/// The errors of [`open`].
pub fn find(name: &str, template: Option<&Path>, resources: &Resources) -> Result<Located> {
    let name = if name == AUTO { DEFAULT_MODEL } else { name };
    let mut found = locate(name, options(resources)?)?;
    if let Some(file) = template {
        let text = std::fs::read_to_string(file).map_err(Error::file(file))?;
        if let Err(error) = ChatTemplate::with_tokens(&text, "", "") {
            return Err(Error::ChatTemplate { file: file.into(), reason: error.to_string() });
        }
        found.files.template_sha256 = Some(digest::sha256(&text));
        found.options.chat_template = Some(text);
    }
    Ok(found)
}

/// The main model's files, and its adapter among the options.
///
/// # Errors
/// The errors of [`open`].
pub fn find_adapted(model: &ModelSpec, resources: &Resources) -> Result<Located> {
    let mut found = find(&model.model, model.chat_template.as_deref(), resources)?;
    found.options.adapters.extend(model.adapter.as_deref().map(adapter::find).transpose()?.map(|a| a.dir));
    Ok(found)
}

/// Treats a path that exists as a path, and anything else as a card's name. A path whose files are a card's
/// runs with the card's settings, so that both give the same answers under the same signature.
fn locate(name: &str, options: Options) -> Result<Located> {
    let path = Path::new(name);
    if path.exists() {
        plain(path)?;
        adapter::refuse_as_model(path)?;
        let identity = Identity::from_path(path)?;
        if identity.weights.is_dir()
            && !["config.json", hub::METRIC].iter().any(|name| path.join(name).exists())
        {
            return Err(Error::NotAModel(name.to_owned()));
        }
        let mut found = match identity.card()? {
            Some(card) => of_card(&card, &identity, options)?,
            None => of_path(name, &identity, options),
        };
        name.clone_into(&mut found.files.given);
        return Ok(found);
    }
    let is_file = path.extension().is_some_and(|ending| ending == "gguf");
    if is_file || name.contains('/') && !name.starts_with("hf:") && hub::find(name).is_err() {
        return Err(Error::NoModel { name: name.to_owned(), hint: of_hub(name) });
    }
    let local = known(name)?.local()?;
    let identity = Identity::from_path(&local.weights)?;
    let mut found = of_card(&local.card, &identity, options)?;
    found.files.revision = local.revision;
    Ok(found)
}

/// Rejects a pipe or a device in place of a model, or in its folder, and a file without a size, such as
/// `/proc/kmsg`: to read one may wait for ever.
fn plain(path: &Path) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
        return Err(Error::EmptyFile(path.into()));
    }
    let entries = if path.is_dir() { std::fs::read_dir(path).ok() } else { None };
    let inside = entries.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    for path in inside.chain([path.to_owned()]) {
        if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Err(Error::NotAFile(path));
        }
    }
    Ok(())
}

/// The card of this name.
///
/// # Errors
/// A name that no card has.
pub fn known(name: &str) -> Result<Card> {
    hub::find(name).map_err(|error| match error {
        hub::Error::Unknown { name, hint } => Error::UnknownModel { name, hint },
        error => error.into(),
    })
}

/// Hint for a repository of the hub, which is named as `OWNER/NAME`.
pub fn of_hub(name: &str) -> String {
    let [owner, repository] = name.split('/').collect::<Vec<_>>()[..] else { return String::new() };
    if owner.is_empty() || owner.starts_with(['.', '~']) || repository.is_empty() {
        return String::new();
    }
    match hub::find(repository) {
        Ok(card) => format!("\nhint: its card is `{}`; `tribunal models pull {}`", card.name, card.name),
        Err(_) => format!(
            "\nhint: a repository of the hub is `hf:{name}@REVISION`; `tribunal models list` has cards"
        ),
    }
}

/// Files that no card describes.
fn of_path(name: &str, identity: &Identity, options: Options) -> Located {
    let called = identity.name().unwrap_or_else(|| name.to_owned());
    let files = files_of(&called, identity);
    let options = Options { hashed: identity.stamps.clone(), ..options };
    let weights = identity.weights.clone();
    Located { weights, name: called, sha256: identity.fingerprint(), options, files }
}

/// Files that a card describes, wherever they are.
fn of_card(card: &Card, identity: &Identity, mut options: Options) -> Result<Located> {
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
    Ok(Located { weights, name: card.name.clone(), sha256: identity.fingerprint(), options, files })
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

/// The memory that a model takes here, and what it would take on a GPU.
fn memory(engine: &Engine) -> Vec<(String, String)> {
    let facts = engine.facts();
    let shown = |bytes: usize| files::size(bytes as u64);
    let mut rows = vec![("weights".to_owned(), shown(facts.weight_bytes))];
    if facts.adapter_bytes > 0 {
        rows.push(("adapters".to_owned(), shown(facts.adapter_bytes)));
    }
    rows.push(("KV cache".to_owned(), shown(facts.kv_bytes)));
    // On a GPU it is loaded already.
    if facts.signature.get("device") == Some("cpu") {
        let options = Options { context: Some(facts.context), ..Options::for_gpu() };
        let need = Need::new(facts.sizes, facts.weight_bytes_on_gpus + facts.adapter_bytes, &options);
        rows.push(("on a GPU".to_owned(), gpu_memory::sum(&need)));
        rows.push(("GPU memory".to_owned(), GpuMemory::find(None).verdict(&need, 1)));
    }
    rows
}
