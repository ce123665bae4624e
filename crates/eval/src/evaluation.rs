//! An evaluation: a judge that was checked against its input, before any model is loaded; then a run of it
//! with loaded models. Nothing is printed: notes, warnings, signature and provenance are values.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use crate::{
    digest,
    engine::grammar,
    error::{Error, Result},
    hub, input,
    judges::{
        self, Built, Grouping, Judge, LanguageCheck, Reads, Settings, Verdict, in_parallel,
        method_file::MethodFile,
        registry::{self, Signed},
        scope::OutOfScope,
        setup, small_models,
    },
    llm::CancellationToken,
    models::{Models, adapter, heads},
    prefixes, provenance, room,
    run::{
        self, Outcome, Progress, RunConfig, Selection, Shard, Silent, Task, Writing,
        description::{Build, InputId},
        finish,
    },
    segment::{
        Corpus, Segment, Segments as _,
        mixed_up::MixedUp,
        read::Streamed,
        trained::{Overlap, TrainedOn},
    },
    signature::Signature,
    spec::{ModelSpec, Samples, SamplingSpec, Spec, sampling_signature},
};

/// Number of segments whose texts are in memory at a time.
const AT_A_TIME: usize = 4096;

/// Metadata of a run about the program that starts it, and its progress and cancellation. Nothing here can
/// move a score.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The command line, for `run.json`.
    pub command: Vec<String>,
    /// Directory that relative paths start from; empty: the current one.
    pub directory: String,
    /// Names given in the command, by flag or option, of files or folders whose copies the specification
    /// names.
    pub typed: BTreeMap<String, String>,
    pub build: Build,
    /// Lock on the files being written, for signal handlers.
    pub writing: Writing,
    /// Cancels pending requests; what is finished is kept.
    pub stop: CancellationToken,
    pub progress: Arc<dyn Progress>,
}

impl Default for Invocation {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            directory: String::new(),
            typed: BTreeMap::new(),
            build: Build { version: env!("CARGO_PKG_VERSION").into(), ..Build::default() },
            writing: Writing::default(),
            stop: CancellationToken::default(),
            progress: Arc::new(Silent),
        }
    }
}

impl Invocation {
    fn directory(&self) -> String {
        if !self.directory.is_empty() {
            return self.directory.clone();
        }
        std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default()
    }
}

/// Segments, and which of them are judged.
pub struct Input {
    pub segments: Corpus,
    pub selection: Selection,
    /// Notes for the user about the input.
    pub notes: Vec<String>,
}

impl Input {
    /// Reads the input of a specification.
    ///
    /// # Errors
    /// Invalid input, or a selection that matches nothing.
    pub fn read(spec: &Spec) -> Result<Self> {
        let Streamed { segments, mut notes } = input::stream_any(&spec.input)?;
        let grouping = || Ok(unchecked(spec, segments.has_references())?.judge.grouping);
        let selection =
            input::select_from(&spec.input, &segments, &mut notes, (spec.sampling.seed, grouping))?;
        Ok(Self { segments, selection, notes })
    }

    /// The units of a judge's verdicts: the selection, and for a judge of documents the other segments of its
    /// documents.
    fn units(&self, judge: &Judge, seed: u64) -> Selection {
        run::groups::judged(&self.segments, &self.selection, judge, seed)
    }

    /// The segments among these, some at a time.
    fn chunks(&self, units: &Selection) -> impl Iterator<Item = io::Result<Vec<Segment>>> {
        let chunks = self.segments.chunks(AT_A_TIME).enumerate();
        chunks.map(|(chunk, some)| {
            let placed = some?.into_iter().enumerate();
            let selected = placed.filter(|(at, _)| units.wants(chunk * AT_A_TIME + at));
            Ok(selected.map(|(_, segment)| segment).collect())
        })
    }
}

/// The judge of a specification, checked against the input.
///
/// # Errors
/// A method that does not exist, cannot be set up, or cannot judge what is selected.
pub fn judge(spec: &Spec, input: &Input) -> Result<Built> {
    let built = unchecked(spec, input.segments.has_references())?;
    built.check_roles(spec.models.roles.iter().map(|(role, _)| *role))?;
    let units = input.units(&built.judge, spec.sampling.seed);
    let (mut n, mut without) = (0, 0);
    for some in input.chunks(&units) {
        let some = some?;
        n += some.len();
        without += some.iter().filter(|segment| segment.reference.is_none()).count();
        built.protocol().check_input(&some)?;
    }
    built.check_references(without, n)?;
    let segments = &input.segments;
    let outlines = (0..segments.n_segments()).map(|idx| segments.outline(idx));
    let built = built.on_pairs(outlines.map(|of| format!("{}-{}", of.src_lang, of.tgt_lang)));
    let Samples { n, aggregate } = spec.judge.samples;
    Ok(built.aggregated(aggregate).sampled(n, &spec.sampling.sampling())?)
}

/// The judge of a specification, for any input with or without references.
fn unchecked(spec: &Spec, has_references: bool) -> Result<Built> {
    let settings = spec.judge.settings(&spec.sampling, adapter::annotator(&spec.models));
    Ok(build(&spec.judge.method, &Settings { has_references, ..settings })?)
}

/// The judge of a request, in preset `code` the authors' program.
///
/// # Errors
/// Those of [`tribunal_replication::build`]; a method in a file whose form of answers cannot be enforced.
pub fn build(request: &str, settings: &Settings) -> Result<Built, setup::Error> {
    let built = tribunal_replication::build(request, settings)?;
    if let Some(form) = built.method_file().and_then(MethodFile::form) {
        grammar::shortest(&form).map_err(|e| setup::Error::Conflict(format!("`{request}`: {e}")))?;
    }
    Ok(built)
}

/// A judge and its input, checked against each other. No model is loaded.
pub struct Evaluation {
    pub spec: Spec,
    pub input: Input,
    pub judge: Built,
    /// Notes for the user about the input.
    pub notes: Vec<String>,
    /// Overlap of the judge's training data with the input.
    pub trained_on: Vec<Overlap>,
    /// Cautions about the judge on this input, for every output of the run.
    pub cautions: Vec<String>,
    /// Result of the check for mixed-up files or languages.
    pub mixed_up: MixedUp,
}

impl Evaluation {
    /// Reads the input of a specification and checks its judge against it.
    ///
    /// # Errors
    /// Bad input, a method that does not exist or cannot judge it; files in another language than the pair's,
    /// unless the folder holds a finished run.
    pub fn new(spec: Spec) -> Result<Self> {
        let spec = heads::resolved(spec)?;
        let input = Input::read(&spec)?;
        let evaluation = Self::from_input(spec, input)?;
        let folder = evaluation.spec.output.folder.as_ref();
        if !folder.is_some_and(|folder| folder.join(finish::VERDICTS).exists()) {
            evaluation.mixed_up.check()?;
        }
        Ok(evaluation)
    }

    /// Checks a judge against segments in memory, all of which are judged.
    ///
    /// # Errors
    /// The errors of [`Evaluation::new`].
    pub fn on(spec: Spec, segments: impl IntoIterator<Item = Segment>) -> Result<Self> {
        let (spec, segments) = (heads::resolved(spec)?, Corpus::from_segments(segments)?);
        let evaluation =
            Self::from_input(spec, Input { segments, selection: Selection::All, notes: Vec::new() })?;
        evaluation.mixed_up.check()?;
        Ok(evaluation)
    }

    /// Checks a judge against the input of an earlier run, whose files may be in any language.
    ///
    /// # Errors
    /// A method that does not exist or cannot judge the input.
    pub fn from_input(mut spec: Spec, mut input: Input) -> Result<Self> {
        let built = judge(&spec, &input)?;
        let judge = &built.judge;
        heads::check(&spec.models, built.method().name, judge.head)?;
        spec.models.estimator.clone_from(&judge.estimator);
        match built.method().reads {
            Reads::Translations => input::need_translations(&spec.input)?,
            Reads::SourcesOnly => {}
        }
        if spec.input.reference.is_some() {
            built.check_reads_reference()?;
        }
        let mut notes = std::mem::take(&mut input.notes);
        let trained = trained_on(&spec.models, judge)?;
        let mut overlaps: Vec<Overlap> = trained.iter().map(TrainedOn::overlap).collect();
        let mut mixed_up = MixedUp::default();
        let is_checked =
            spec.judge.language_check == LanguageCheck::On && built.method().reads == Reads::Translations;
        // A file is in one language, whatever is judged of it.
        for some in input.segments.chunks(AT_A_TIME).take_while(|_| is_checked) {
            some?.iter().for_each(|segment| mixed_up.add(segment));
        }
        for some in input.chunks(&input.units(judge, spec.sampling.seed)) {
            let some = some?;
            for (trained, overlap) in trained.iter().zip(&mut overlaps) {
                overlap.of += some.len();
                overlap.segments += some.iter().filter(|segment| trained.knows(&segment.source)).count();
            }
            let remarks = judge.protocol().notes(&some);
            let new: Vec<String> = remarks.into_iter().filter(|remark| !notes.contains(remark)).collect();
            notes.extend(new);
        }
        notes.extend(mixed_up.unknown());
        notes.extend(no_documents(judge, &input.segments).map(str::to_owned));
        overlaps.retain(|overlap| overlap.segments > 0);
        let cautions = cautions(judge, &input, spec.sampling.seed)?;
        Ok(Self { spec, input, judge: built, notes, trained_on: overlaps, cautions, mixed_up })
    }

    /// Loads the models that the specification names.
    ///
    /// # Errors
    /// Models that cannot be found, read or run here.
    pub fn load(&self) -> Result<Models> {
        crate::models::load(&self.spec.models, &self.spec.resources, self.spec.sampling.sampling())
    }

    /// Warnings about input, judge and models before they are used, besides [`Evaluation::small_model`].
    pub fn warnings(&self, models: &Models) -> impl Iterator<Item = String> {
        let of_judge = untuned(&self.judge, models, &self.spec.models);
        self.mixed_up.doubts().into_iter().chain(of_judge)
    }

    /// Warning about a method that generates answers with a small model, before it is loaded; `None` where
    /// the model's size is unknown, and for tuned models.
    pub fn small_model(&self) -> Option<String> {
        let models = &self.spec.models;
        let card = hub::find(&models.model).ok().filter(|_| adapter::named(models).is_empty())?;
        let billions = card.parameters.strip_suffix('B')?.parse().ok()?;
        small_models::warning(&self.judge.method(), &card.name, billions)
    }

    /// The configuration of a run of the selected segments into this folder.
    pub fn config(&self, folder: PathBuf) -> RunConfig {
        RunConfig {
            selection: self.input.selection.clone(),
            shard: self.spec.output.shard.unwrap_or(Shard::WHOLE),
            seed: self.spec.sampling.seed,
            ..RunConfig::new(folder)
        }
    }

    /// Checks loaded models against the judge, and settles the run's signature and folder. Nothing is written
    /// yet.
    ///
    /// # Errors
    /// Models that the judge cannot use, a file that the specification names and that cannot be read.
    pub fn with<'a>(&'a self, models: &'a Models, invocation: &Invocation) -> Result<Run<'a>> {
        self.check(models)?;
        prefixes::announce(models, &self.judge.judge, &self.input.segments);
        let Self { spec, judge: built, trained_on, cautions, .. } = self;
        let signature = signature(built, &models.signature, &spec.sampling);
        let (mut origin, copies) = provenance::of(spec, built, models, invocation.build.clone())?;
        for material in &mut origin.materials {
            if let Some(typed) = invocation.typed.get(&material.flag) {
                typed.clone_into(&mut material.given);
            }
        }
        let config = RunConfig {
            jobs: models.jobs(spec.resources.jobs),
            command: invocation.command.clone(),
            progress: invocation.progress.clone(),
            // A few more than the engines take, so that they never wait for a judge.
            questions: models.n_rows + models.n_rows / 4,
            calls: spec.output.calls,
            retry_missing: spec.output.retry_missing,
            directory: invocation.directory(),
            origin,
            copies,
            trained_on: trained_on.clone(),
            cautions: cautions.clone(),
            writing: invocation.writing.clone(),
            stop: invocation.stop.clone(),
            ..self.config(self.folder(&signature)?)
        };
        Ok(Run { evaluation: self, models, signature, config })
    }

    /// Judges into the run folder, or resumes what it holds.
    ///
    /// # Errors
    /// The errors of [`Evaluation::with`] and [`Task::run`].
    pub fn run(&self, models: &Models, invocation: &Invocation) -> Result<Outcome> {
        let run = self.with(models, invocation)?;
        Ok(run.task().run(&run.config)?)
    }

    /// Judges without a run folder: nothing is kept. One result for each unit, a segment or a document, in
    /// the order of the groups that are judged together; an unusable answer is an error in its place.
    ///
    /// # Errors
    /// Models that the judge cannot use.
    pub fn verdicts(&self, models: &Models) -> Result<Vec<Result<Verdict, judges::Error>>> {
        self.check(models)?;
        let (judge, segments) = (&self.judge.judge, &self.input.segments);
        prefixes::announce(models, judge, segments);
        let seed = self.spec.sampling.seed;
        let groups = run::groups::groups(segments, &self.input.selection, judge.grouping, seed);
        let mut verdicts = Vec::new();
        for some in groups.chunks(models.jobs(self.spec.resources.jobs)) {
            let groups: Vec<Vec<Segment>> =
                some.iter().map(|group| group.read(segments)).collect::<Result<_, _>>()?;
            let judged = in_parallel(&groups, |_, group| judge.judge(&models.panel.fresh(), group));
            verdicts.extend(judged.into_iter().flatten());
        }
        Ok(verdicts)
    }

    /// Checks the models against the judge.
    fn check(&self, models: &Models) -> Result<()> {
        self.judge.check_reasoning(&models.panel, |role| models.model_of(role))?;
        self.judge.protocol().check_models(&|role| models.model_of(role))?;
        room::check(&self.judge.judge, &models.panel, &self.input.segments, &self.input.selection)
    }

    /// The run folder of the specification, or one that the same specification finds again.
    fn folder(&self, signature: &Signature) -> Result<PathBuf> {
        match &self.spec.output.folder {
            Some(out) if out.as_os_str().is_empty() => Err(Error::EmptyFolder),
            Some(out) => Ok(out.clone()),
            None => {
                let input = InputId::new(&self.input.segments, &self.input.selection)?;
                Ok(default_out(signature, &input, self.spec.output.shard.unwrap_or(Shard::WHOLE)))
            }
        }
    }
}

/// Cautions about a judge on this input: texts outside of those that it was fitted on.
///
/// # Errors
/// Input that cannot be read.
pub fn cautions(judge: &Judge, input: &Input, seed: u64) -> Result<Vec<String>> {
    let Some(scope) = judge.protocol().scope() else { return Ok(Vec::new()) };
    let mut outside = OutOfScope::new(scope);
    for some in input.chunks(&input.units(judge, seed)) {
        some?.iter().for_each(|segment| outside.add(segment));
    }
    Ok(outside.cautions())
}

/// The source texts that the judge and the adapters were trained on.
fn trained_on(models: &ModelSpec, judge: &Judge) -> Result<Vec<TrainedOn>> {
    let mut trained: Vec<TrainedOn> = judge.trained_on.iter().cloned().collect();
    for dir in adapter::named(models) {
        trained.extend(adapter::trained_on(&dir)?);
    }
    Ok(trained)
}

/// Note about a document-level method with an input that names no documents.
fn no_documents(judge: &Judge, segments: &Corpus) -> Option<&'static str> {
    let wants = matches!(judge.grouping, Grouping::Document | Grouping::FiveDocuments);
    let is_bare = |idx| segments.outline(idx).doc.is_empty();
    (wants && (0..segments.n_segments()).all(is_bare)).then_some(
        "the input names no documents, so every segment is judged without context; hint: name them, in a \
         file of documents or by `doc` on each line",
    )
}

/// Warning if a method made for a tuned model is used with one that is not; `None` where the model may be.
fn untuned(built: &Built, models: &Models, spec: &ModelSpec) -> Option<String> {
    let is_plain = hub::find(&models.model.name).is_ok() && adapter::named(spec).is_empty();
    (registry::needs_tuning(&built.method()) && is_plain).then(|| {
        format!(
            "`{}` reads the answers of a model that was tuned for it, and `{}` was not: its scores mean little\nhint: \
             an adapter that `scripts/tune/gmft_gpu.py` trains, or the method `gemba-mqm`; docs/tuning.md",
            built.method().name, models.model.name
        )
    })
}

/// An evaluation with loaded models, its signature and its folder.
pub struct Run<'a> {
    evaluation: &'a Evaluation,
    models: &'a Models,
    pub signature: Signature,
    pub config: RunConfig,
}

impl Run<'_> {
    /// The judge, the panel and the segments.
    pub fn task(&self) -> Task<'_> {
        Task {
            panel: &self.models.panel,
            judge: &self.evaluation.judge.judge,
            segments: &self.evaluation.input.segments,
            signature: &self.signature,
        }
    }
}

/// The whole signature: the judge with the models before its prompts, then sampling.
pub fn signature(built: &Built, models: &Signature, sampling: &SamplingSpec) -> Signature {
    let Signed { method, prompts } = built.signature();
    let sampling = sampling_signature(&built.judge.sampling(&sampling.sampling()));
    // A method with an option for the temperature has signed it already.
    let has_option = |name: &str| built.method().options.iter().any(|option| option.name == name);
    let sampling = sampling.fields().iter().fold(Signature::new(), |signature, (key, value)| {
        let is_stated = match key.as_str() {
            "temp" => has_option("temperature"),
            "top_p" => has_option("top-p"),
            _ => false,
        };
        if is_stated { signature } else { signature.with(key, value) }
    });
    let signature = method.followed_by(models).followed_by(&prompts).followed_by(&sampling);
    signature.with("v", env!("CARGO_PKG_VERSION"))
}

/// A folder named by method, model, and a hash of signature and input.
fn default_out(signature: &Signature, input: &InputId, shard: Shard) -> PathBuf {
    let id = format!("{signature}\n{}", input.sha256);
    let hash = digest::short(id);
    let plain = |key: &str| {
        let value = signature.get(key).unwrap_or(key);
        value
            .chars()
            .map(|c| if c.is_alphanumeric() || "-.".contains(c) { c } else { '_' })
            .collect::<String>()
    };
    let part =
        if shard == Shard::WHOLE { String::new() } else { format!("-{}of{}", shard.index, shard.count) };
    PathBuf::from("out").join(format!("{}-{}-{hash}{part}", plain("method"), plain("model")))
}
