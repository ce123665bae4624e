//! The list of judges, and the construction of one from its name, with its signature. The methods themselves
//! are in their modules.

use std::{collections::BTreeSet, path::Path};

use super::{
    Aggregate, Judge, Model, Panel, Provenance, comet, difficulty, eaprompt, fsp, gemba_da, gemba_esa,
    gemba_mqm, gemba_scales, gmft, gmicl, himate, likelihood, m_mad,
    method::{Build, Calls, Method, Output, Role},
    method_file::{self, MethodFile},
    mqm_ape, probe, qe, rate, remedy, reward, rubric_mqm,
    samples::Samples,
    scale::Scale,
    setup::{self, GivenOptions, LanguageCheck, OptionSpec, Preset, Reference, Settings, shared},
    thinking, untranslated,
};
use crate::{
    Reads,
    llm::{ReasoningOptions, Sampling},
    mqm,
    signature::Signature,
};

/// All methods, in the order of `tribunal methods list`. A new judge is one more line here.
pub const METHODS: &[&Method<'static>] = &[
    &gemba_mqm::METHOD,
    &mqm_ape::METHOD,
    &gemba_da::METHOD,
    &gemba_scales::SQM,
    &gemba_scales::STARS,
    &gemba_scales::CLASSES,
    &gemba_esa::METHOD,
    &eaprompt::METHOD,
    &rubric_mqm::METHOD,
    &fsp::METHOD,
    &gmicl::METHOD,
    &gmft::METHOD,
    &probe::METHOD,
    &qe::METHOD,
    &likelihood::METHOD,
    &remedy::METHOD,
    &reward::METHOD,
    &comet::METHOD,
    &m_mad::METHOD,
    &himate::METHOD,
    &rate::METHOD,
    &difficulty::METHOD,
    &thinking::METHOD,
];

/// The method of this name; `gemba_mqm` and `GEMBA-MQM` are `gemba-mqm`.
///
/// # Errors
/// [`setup::Error::Method`], which lists the methods and names the nearest; [`setup::Error::Metric`].
pub fn find(name: &str) -> setup::Result<&'static Method<'static>> {
    let plain = name.trim().to_lowercase().replace('_', "-");
    if let Some(method) = METHODS.iter().copied().find(|method| method.name == plain) {
        return Ok(method);
    }
    if METRICS.iter().any(|metric| plain.contains(metric)) {
        return Err(setup::Error::Metric { name: name.into() });
    }
    let names = || METHODS.iter().map(|method| method.name);
    let known = names().collect::<Vec<_>>().join(", ");
    let hint = match plain.split_once(',') {
        Some((method, options)) if names().any(|known| known == method) => {
            format!("options stand behind a colon: `{method}:{options}`")
        }
        _ if plain.contains(comet::METHOD.name) => {
            "it is a metric; the method `comet` takes its models, such as `wmt22-cometkiwi-da`".to_owned()
        }
        _ => format!("{}the methods are {known}", setup::nearest(&plain, names())),
    };
    Err(setup::Error::Method { name: name.into(), hint })
}

/// The method of a run with this signature: a built-in one, or one in a file as the signature describes it.
pub fn of_signature(signature: &Signature) -> Option<Method<'_>> {
    match signature.get(method_file::FIELD) {
        Some(_) => method_file::signed(signature),
        None => find(signature.get("method")?).ok().copied(),
    }
}

/// Names of common metrics, for a helpful error message.
const METRICS: &[&str] = &["bleu", "metricx", "chrf", "bertscore", "prism"];

/// True if a method reads the answers of a model that was tuned for it; those of other models mean little.
pub fn needs_tuning(method: &Method<'_>) -> bool {
    method.name == gmft::METHOD.name
}

/// The scale of scores in a run of a method with this signature.
pub fn scale(method: &Method<'_>, signature: &Signature) -> Scale {
    let holds = |(option, values): &(&str, &[&str])| {
        signature.get(option).is_some_and(|value| values.contains(&value))
    };
    let in_force = method.scales.iter().find(|(options, _)| options.iter().all(holds));
    let weights = signature.get("weights").and_then(|name| mqm::weights::signed(name).ok());
    in_force.map_or(method.scale, |(_, scale)| *scale).signed(signature, weights.as_deref())
}

/// Methods with one verdict on all segments of a prompt; the others have one on each segment.
const JOINED: [&str; 3] = ["gemba-mqm", "gmicl", "gmft"];

/// The noun for the unit of a verdict of a run with this signature, in the singular; a group is five
/// documents.
pub fn unit_noun(signature: &Signature) -> &'static str {
    let is_joined = signature.get("method").is_some_and(|method| JOINED.contains(&method))
        || signature.get(method_file::FIELD).is_some();
    match signature.get("granularity").filter(|_| is_joined) {
        Some("doc") => "document",
        Some("5doc") => "group",
        _ => "segment",
    }
}

/// A judge with its method, settings and options.
pub struct Built {
    pub judge: Judge,
    origin: Origin,
    settings: Settings,
    options: GivenOptions,
    /// The language pairs of the input, `en-de,zh-en`; empty where they are unknown.
    pairs: String,
}

/// The origin of a method.
enum Origin {
    BuiltIn(&'static Method<'static>),
    File(Box<MethodFile>),
}

impl Origin {
    fn method(&self) -> Method<'_> {
        match self {
            Self::BuiltIn(method) => **method,
            Self::File(file) => file.method(),
        }
    }
}

impl Built {
    /// The method.
    pub fn method(&self) -> Method<'_> {
        self.origin.method()
    }

    /// The files of a method in a file; `None` of a built-in one.
    pub fn method_file(&self) -> Option<&MethodFile> {
        match &self.origin {
            Origin::BuiltIn(_) => None,
            Origin::File(file) => Some(file),
        }
    }

    /// This judge, signed for these language pairs.
    #[must_use]
    pub fn on_pairs(self, pairs: impl IntoIterator<Item = String>) -> Self {
        let pairs = pairs.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",");
        Self { pairs, ..self }
    }

    /// Rejects segments without a reference where the option to show one is on.
    ///
    /// # Errors
    /// [`setup::Error::MissingReferences`].
    pub fn check_references(&self, missing: usize, of: usize) -> setup::Result<()> {
        if missing == 0 || !self.shows_reference() {
            return Ok(());
        }
        let method = self.method().name.to_owned();
        Err(setup::Error::MissingReferences { method, missing, of })
    }

    /// Rejects a requested reference that the method would not read.
    ///
    /// # Errors
    /// [`setup::Error::ReferenceNotShown`], [`setup::Error::ReferenceNotRead`].
    pub fn check_reads_reference(&self) -> setup::Result<()> {
        let method = self.method().name.to_owned();
        let takes = self.reference().is_some();
        if self.shows_reference() {
            return Ok(());
        }
        Err(if takes {
            setup::Error::ReferenceNotShown { method }
        } else {
            let readers = METHODS.iter().filter(|m| m.options.iter().any(|o| o.name == Reference::NAME));
            let readers = setup::either(readers.map(|method| method.name));
            setup::Error::ReferenceNotRead { method, readers }
        })
    }

    fn shows_reference(&self) -> bool {
        self.reference().is_some_and(|choice| self.options.in_force(choice, &self.settings) == "on")
    }

    /// The option by which the method shows references, if it can.
    fn reference(&self) -> Option<&'static OptionSpec> {
        self.method().options.iter().find(|option| option.name == Reference::NAME)
    }

    /// This judge at `samples` seeds; unchanged for one.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] when all samples would be the same, at temperature 0.
    pub fn sampled(mut self, samples: usize, sampling: &Sampling) -> setup::Result<Self> {
        self.judge = self.judge.sampled(samples, sampling)?;
        Ok(self)
    }

    /// This judge with another aggregate of its samples.
    #[must_use]
    pub fn aggregated(mut self, aggregate: Aggregate) -> Self {
        self.judge = self.judge.aggregated(aggregate);
        self
    }

    /// Rejects reasoning where the chat template of a model has none.
    ///
    /// # Errors
    /// [`setup::Error::NoReasoning`].
    pub fn check_reasoning(&self, panel: &Panel, model_of: impl Fn(Role) -> Model) -> setup::Result<()> {
        let method = self.method();
        let by = match self.judge.reasoning {
            Some(reasoning) => format!("the option reasoning={}", reasoning.effort.name()),
            // Only thoughts have a sampling of their own.
            None if self.judge.sampled_at.is_none() => return Ok(()),
            None if method.name == thinking::METHOD.name => format!("the method `{}`", method.name),
            None => "the option thinking".to_owned(),
        };
        match method.roles.iter().find(|role| !panel.llm(**role).reasons()) {
            Some(role) => Err(setup::Error::NoReasoning { by, model: model_of(*role).name }),
            None => Ok(()),
        }
    }

    /// [`Judge::calls_per_unit`].
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.judge.calls_per_unit(Some(self.method().calls))
    }

    /// Rejects roles that the method does not have.
    ///
    /// # Errors
    /// [`setup::Error::Value`], which lists those that it has.
    pub fn check_roles(&self, roles: impl IntoIterator<Item = Role>) -> setup::Result<()> {
        let method = self.method();
        match roles.into_iter().find(|role| !method.roles.contains(role)) {
            Some(role) => Err(setup::Error::Value {
                option: format!("a role of `{}`", method.name),
                value: role.to_string(),
                known: setup::either(method.roles.iter().map(|role| role.name())),
            }),
            None => Ok(()),
        }
    }

    /// The signature of the judge: see [`sign`].
    pub fn signature(&self) -> Signed {
        let mut signed = sign(&self.method(), &self.settings, &self.options, &self.judge.provenance);
        if let Some(ReasoningOptions { effort, max_tokens }) = self.judge.reasoning {
            let method = signed.method.with("reasoning", effort.name());
            signed.method = method.with("reasoning-budget", max_tokens.to_string());
        }
        let Samples { n, aggregate } = self.judge.samples;
        if n > 1 {
            signed.method = signed.method.with("samples", n.to_string());
            if aggregate != Aggregate::Mean {
                signed.method = signed.method.with("aggregate", aggregate.name());
            }
        }
        if !self.pairs.is_empty() {
            signed.prompts = signed.prompts.with("pairs", self.pairs.clone());
        }
        signed
    }
}

impl AsRef<Judge> for Built {
    fn as_ref(&self) -> &Judge {
        &self.judge
    }
}

impl std::ops::Deref for Built {
    type Target = Judge;

    fn deref(&self) -> &Judge {
        &self.judge
    }
}

/// The method's fields of a run's signature, in two parts: the models' fields stand between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// `method`, its options in the order of its descriptor, `preset`, `granularity`, and other files.
    pub method: Signature,
    /// `prompts`, and `weights` and `max-tokens` where they count.
    pub prompts: Signature,
}

impl Signed {
    /// Both parts, one after the other.
    pub fn all(&self) -> Signature {
        self.method.clone().followed_by(&self.prompts)
    }
}

/// The signature of a judge from all its inputs: every option of its method, every setting, every file that
/// it read.
pub fn sign(
    method: &Method<'_>,
    settings: &Settings,
    options: &GivenOptions,
    provenance: &Provenance,
) -> Signed {
    // No `..`, so that a new setting does not compile before it is signed here, or excluded.
    let Settings {
        preset,
        granularity,
        // By their name in force.
        weights: _,
        // In the hash of the prompts, as are shots.
        prompts: _,
        shots,
        max_tokens,
        // The run signs its seed.
        seed: _,
        // In the option `reference`, where a method has it.
        has_references: _,
        // The engine signs it.
        model: _,
        language_check,
    } = settings;
    let read = |name: &str| provenance.others.iter().find(|(other, _)| *other == name);
    let mut signed = Signature::new().with("method", method.name);
    for choice in method.options {
        let value = match (choice.name, read(choice.name)) {
            (_, Some((_, hash))) => hash.clone(),
            ("shots", None) if shots.is_some() => "file".into(),
            _ => options.in_force(choice, settings),
        };
        signed = signed.with(choice.name, value);
    }
    let granularity = granularity.unwrap_or(method.granularities[0]);
    signed = signed.with("preset", preset.to_string()).with("granularity", granularity.to_string());
    if matches!(method.output, Output::Text | Output::LogProbabilities) {
        // The rule of `llm::is_chance`.
        signed = signed.with("signal", "above-chance");
    }
    if *language_check == LanguageCheck::On && method.reads == Reads::Translations {
        signed = signed.with(LanguageCheck::FIELD, untranslated::VERSION);
    }
    signed = provenance.others.iter().fold(signed, |signed, (name, hash)| signed.with(*name, hash.clone()));
    let mut prompts = Signature::new().with("prompts", &*provenance.prompts);
    if let Some(name) = provenance.weights.or(method.weights) {
        prompts = prompts.with("weights", settings.weights_name(name, granularity));
    }
    if let Some(max_tokens) = max_tokens {
        prompts = prompts.with("max-tokens", max_tokens.to_string());
    }
    Signed { method: signed, prompts }
}

/// The published program of a method's authors, which preset `code` runs.
#[derive(Clone, Copy)]
pub struct Program {
    /// The name of the method.
    pub method: &'static str,
    pub build: Build,
}

/// The judge of a request `NAME[:option=value,...]`, or of a method's file or folder instead of the name;
/// in preset `code`, one of these programs.
///
/// # Errors
/// [`setup::Error`]: an unknown name, option or value, a preset or granularity that the method does not have,
/// prompts and shots that cannot be used, or a file that is no method.
pub fn build(request: &str, settings: &Settings, programs: &[Program]) -> setup::Result<Built> {
    let (origin, options) = origin(request)?;
    let method = origin.method();
    let options = method.parse_options(options)?;
    let program = programs.iter().find(|program| program.method == method.name);
    let has_preset = |preset: &&Preset| **preset != Preset::Code || program.is_some();
    let presets: Vec<Preset> = method.presets.iter().filter(has_preset).copied().collect();
    if !presets.contains(&settings.preset) {
        return Err(setup::Error::Value {
            option: format!("the preset of `{}`", method.name),
            value: settings.preset.to_string(),
            known: setup::either(presets.iter().map(|preset| preset.name())),
        });
    }
    if let Some(granularity) = settings.granularity.filter(|g| !method.granularities.contains(g)) {
        return Err(setup::Error::Value {
            option: format!("the granularity of `{}`", method.name),
            value: granularity.to_string(),
            known: setup::either(method.granularities.iter().map(|g| g.name())),
        });
    }
    let mut judge = match (&origin, program.filter(|_| settings.preset == Preset::Code)) {
        (Origin::File(file), _) => file.judge(settings, &options)?,
        (_, Some(program)) => (program.build)(settings, &options)?,
        (_, None) => (method.build)(settings, &options)?,
    };
    let signed = sign(&method, settings, &options, &judge.provenance).all();
    let scale = scale(&method, &signed);
    judge.direction = scale.raw;
    judge.untranslated = rule(&method, settings, scale, &signed)?;
    judge.reasoning = shared::reasoning(method.common, &options)?;
    Ok(Built { judge, origin, settings: settings.clone(), options, pairs: String::new() })
}

/// The method of a request, with the text of its options.
fn origin(request: &str) -> setup::Result<(Origin, &str)> {
    let Some((path, options)) = method_file::request(request) else {
        let (name, options) = request.split_once(':').unwrap_or((request, ""));
        let method = find(name).map_err(|error| match error {
            setup::Error::Method { name, .. } if Path::new(&name).join(method_file::FILE).is_file() => {
                let hint = format!("did you mean the folder `./{name}`?");
                setup::Error::Method { name, hint }
            }
            other => other,
        })?;
        return Ok((Origin::BuiltIn(method), options));
    };
    let file = MethodFile::read(path)?;
    let name = file.method().name;
    if find(name).is_ok() {
        let reason =
            format!("`{}`: `{name}` is a built-in method; hint: choose another `name`", path.display());
        return Err(setup::Error::Conflict(reason));
    }
    Ok((Origin::File(Box::new(file)), options))
}

/// The judge's rule for segments that are not translations; none where the method reads sources alone.
fn rule(
    method: &Method<'_>,
    settings: &Settings,
    scale: Scale,
    signed: &Signature,
) -> setup::Result<untranslated::Rule> {
    if method.reads == Reads::SourcesOnly {
        return Ok(untranslated::Rule::Ignored);
    }
    // Methods that weigh no errors still mark this one, at its cost in WMT's scores.
    let weights = mqm::weights::signed(signed.get("weights").unwrap_or("wmt"))?;
    Ok(untranslated::Rule::of(settings, scale, &weights))
}
