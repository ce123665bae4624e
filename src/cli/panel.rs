//! From the model and engine arguments to a panel: the one place where the command line meets the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use super::args::{EngineArgs, ModelArgs};
use crate::{
    card::{self, Template},
    engine::{Activations, Compute, Engine, Format, KvType, Options, Tier, device},
    judges::{Model, Panel, Role},
    llm::{Chat, Form, Llm, Sampling},
    run::{Plan, plan::Amount},
    signature::Signature,
};

/// A panel and what the command line must know about its models.
pub struct Seated {
    pub panel: Panel,
    /// The models' fields of the signature: model, sha256, and what the engine says of itself.
    pub signature: Signature,
    pub model: Model,
    /// Where another one is seated.
    pub model_of_role: BTreeMap<Role, Model>,
    /// Names and values that the engine adds to a dry run's table: memory, hours.
    pub estimate: Estimate,
}

impl Seated {
    /// One model in every role, with no estimate of memory and hours: whatever answers chats in the engine's place.
    #[must_use]
    pub fn alone(panel: Panel, model: Model) -> Self {
        let signature =
            Signature::new().with("model", model.name.clone()).with("sha256", model.sha256.clone());
        let estimate: Estimate = Box::new(|_| Vec::new());
        Self { panel, signature, model, model_of_role: BTreeMap::new(), estimate }
    }

    /// The model that plays a role.
    #[must_use]
    pub fn model_of(&self, role: Role) -> Model {
        self.model_of_role.get(&role).unwrap_or(&self.model).clone()
    }
}

/// What the engine expects of a plan, as names and values.
pub type Estimate = Box<dyn Fn(&Plan) -> Vec<(String, String)> + Send + Sync>;

/// How a command gets its panel: [`panel`], or a script in tests.
pub type Seat = fn(&ModelArgs, &EngineArgs, Sampling) -> Result<Seated>;

/// Loads the models that the arguments name, each once.
///
/// # Errors
/// A model that cannot be found, read or run here.
pub fn panel(model: &ModelArgs, engine: &EngineArgs, sampling: Sampling) -> Result<Seated> {
    let main = open(&model.model, model.chat_template.as_deref(), engine)?;
    let mut signature = main.signature(None);
    let mut model_of_role = BTreeMap::new();
    let mut panel = Panel::new(main.engine.clone(), sampling);
    let mut loaded = BTreeMap::from([(model.model.clone(), (main.engine.clone(), main.model()))]);
    let mut named = BTreeSet::new();
    for (role, name) in &model.role {
        if !named.insert(role) {
            bail!("the role `{role}` is given twice");
        }
        if !loaded.contains_key(name) {
            let other = open(name, None, engine)?;
            signature = signature.followed_by(&other.signature(Some(*role)));
            loaded.insert(name.clone(), (other.engine.clone(), other.model()));
        }
        let (engine, seated) = loaded[name].clone();
        panel = panel.seat(*role, engine);
        model_of_role.insert(*role, seated);
    }
    let (model, engine) = (main.model(), main.engine);
    Ok(Seated {
        panel,
        signature,
        model,
        model_of_role,
        estimate: Box::new(move |plan| estimate(&engine, plan)),
    })
}

/// An engine and the name of its model.
pub struct Opened {
    pub engine: Arc<Engine>,
    /// The card's name, or the file's stem.
    pub name: String,
    /// The first digits of the weights' sha256.
    pub sha256: String,
}

impl Opened {
    fn model(&self) -> Model {
        Model { name: self.name.clone(), sha256: self.sha256.clone() }
    }

    /// The model's fields of the signature, with a role before each name where it plays only that.
    fn signature(&self, role: Option<Role>) -> Signature {
        let model = Signature::new().with("model", self.name.clone()).with("sha256", self.sha256.clone());
        let all = model.followed_by(&self.engine.facts().signature);
        let Some(role) = role else { return all };
        all.fields().iter().fold(Signature::new(), |signature, (name, value)| {
            signature.with(format!("{role}.{name}"), value)
        })
    }
}

/// Where a model's files are and what its card says about them.
pub struct Found {
    pub weights: PathBuf,
    pub name: String,
    pub sha256: String,
    pub options: Options,
}

/// Opens a model by card, path or hub repository.
///
/// # Errors
/// A model that cannot be found, read or run here.
pub fn open(name: &str, template: Option<&Path>, args: &EngineArgs) -> Result<Opened> {
    let found = find(name, template, args)?;
    let engine = Engine::open(&found.weights, &found.options)?;
    Ok(Opened { engine: Arc::new(engine), name: found.name, sha256: found.sha256 })
}

/// A model's files and what it is to be run with, before anything is loaded.
///
/// # Errors
/// As [`open`].
pub fn find(name: &str, template: Option<&Path>, args: &EngineArgs) -> Result<Found> {
    let mut found = locate(name, options(args)?)?;
    if let Some(file) = template {
        let text = std::fs::read_to_string(file).with_context(|| format!("`{}`", file.display()))?;
        found.options.chat_template = Some(text);
    }
    Ok(found)
}

/// Treats a path that exists as a path, and anything else as a card's name.
fn locate(name: &str, mut options: Options) -> Result<Found> {
    let path = Path::new(name);
    if path.exists() {
        let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
        let called = stem.map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let sha256 = card::fingerprint(path)?;
        return Ok(Found { weights: path.into(), name: called, sha256, options });
    }
    let is_file = path.extension().is_some_and(|ending| ending == "gguf");
    if is_file || name.contains('/') && !name.starts_with("hf:") {
        bail!("`{name}`: no such file or folder");
    }
    let local = card::find(name)?.local()?;
    options.stop_tokens.clone_from(&local.card.stop);
    options.chat_options = serde_json::to_value(&local.card.chat_options)?;
    if let Template::Text(text) = local.template {
        options.chat_template = Some(text.to_owned());
    }
    let sha256 = local.fingerprint();
    Ok(Found { weights: local.weights, name: local.card.name, sha256, options })
}

/// The engine's options. Impossible ones are refused before anything is loaded.
///
/// # Errors
/// A device or tier that this machine does not have.
pub fn options(args: &EngineArgs) -> Result<Options> {
    let device = device(args.device())?;
    if !device.is_cpu() && args.device() != "auto" {
        bail!("`--device {}`: the decoder does not run on a GPU yet; hint: `--device cpu`", args.device());
    }
    let tier = match args.cpu_tier.as_str() {
        "avx512" => Tier::Avx512,
        "avx2" => Tier::Avx2,
        "portable" => Tier::Portable,
        _ => Tier::detect(),
    };
    if tier > Tier::detect() {
        bail!(
            "`--cpu-tier {}`: this processor does not support it; hint: `auto` takes the best one available",
            args.cpu_tier
        );
    }
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
    let default = Options::default();
    Ok(Options {
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

/// The memory and time that a plan will take, the time estimated from a short trial on this machine.
fn estimate(engine: &Engine, plan: &Plan) -> Vec<(String, String)> {
    let facts = engine.facts();
    let gib = |bytes: usize| format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30));
    let mut rows =
        vec![("weights".to_owned(), gib(facts.weight_bytes)), ("KV cache".to_owned(), gib(facts.kv_bytes))];
    if let Some((prefill, decode)) = pace(engine) {
        let hours = |amount: &Amount| {
            let prompts = amount.distinct_tokens.unwrap_or(amount.prompt_tokens);
            (prompts as f64 / prefill + amount.answer_tokens as f64 / decode) / 3600.0
        };
        rows.push((
            "pace".to_owned(),
            format!("{prefill:.0} prompt and {decode:.0} answer tokens/s, by a short trial"),
        ));
        let expected = plan.expected.as_ref().map(|amount| format!(", {:.2} expected", hours(amount)));
        let (least, most) = (hours(&plan.least), hours(&plan.most));
        let text = format!("{least:.2} least{}, {most:.2} most", expected.unwrap_or_default());
        rows.push(("hours".to_owned(), text));
    }
    rows
}

/// Prompt tokens and answer tokens a second, eight answers side by side. `None` when the trial fails.
fn pace(engine: &Engine) -> Option<(f64, f64)> {
    let words = (0..400).map(|i| (i * 7919 % 1009).to_string()).collect::<Vec<_>>().join(" ");
    let time = |n_rows: usize, max_tokens: usize, prompt: &str| {
        let start = Instant::now();
        let ask = |row: usize| {
            let sampling = Sampling { max_tokens, temperature: 1.0, seed: row as u64, ..Sampling::default() };
            engine.ask(&Chat::raw(format!("{row} {prompt}")), &Form::Text, &sampling).ok()
        };
        let replies: Option<Vec<_>> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..n_rows).map(|row| scope.spawn(move || ask(row))).collect();
            asked.into_iter().map(|thread| thread.join().ok().flatten()).collect()
        });
        let (prompt, answer) = replies?
            .iter()
            .fold((0, 0), |sum, reply| (sum.0 + reply.usage.computed, sum.1 + reply.tokens.len()));
        Some((prompt, answer, start.elapsed().as_secs_f64()))
    };
    let (prompt, _, seconds) = time(1, 1, &words)?;
    let prefill = prompt as f64 / seconds;
    let (prompt, answer, seconds) = time(8, 16, "Tell me a story.")?;
    Some((prefill, answer as f64 / (seconds - prompt as f64 / prefill).max(1e-3)))
}
