//! From the arguments of `tribunal score` to a run that can be made: the judge that fits its input, then the models, the
//! signature and the run's configuration. For every command that makes a run, plans one, or checks one. It prints nothing.

use std::{collections::BTreeMap, io, path::PathBuf};

use anyhow::{Result, bail};

use super::{adapter, args::sampling_signature, input, origin, panel::LoadedModels, score::args::Args};
use crate::{
    card::{self, Card},
    digest,
    judges::{
        Built, Grouping, Judge, LanguageCheck, Reads, Settings,
        registry::{self, Signed},
    },
    llm::Stop,
    run::{self, Outcome, RunConfig, Selection, Shard, Show, Task, Writing, description::InputId},
    segment::{
        Corpus, Segment, Segments as _,
        mixed_up::MixedUp,
        read::Streamed,
        trained::{Overlap, TrainedOn},
    },
    signature::Signature,
};

/// How many segments with their texts are in memory at a time.
const AT_A_TIME: usize = 4096;

/// How the command was begun, beside its arguments.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// The words of the command line, with the options of file and variables, for `run.json`.
    pub words: Vec<String>,
    /// Where relative paths in these start from; empty: in the current directory.
    pub directory: String,
    /// How these name a file or folder whose copy the arguments lead to, by flag or option.
    pub given: BTreeMap<String, String>,
    /// What a signal has to wait for.
    pub writing: Writing,
    /// Until when answers are wanted.
    pub stop: Stop,
}

impl Begun {
    /// The folder that relative paths of the command start from.
    fn directory(&self) -> String {
        if !self.directory.is_empty() {
            return self.directory.clone();
        }
        std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default()
    }
}

/// What is judged.
pub struct Judged {
    pub input: Streamed,
    pub selection: Selection,
}

impl Judged {
    /// Reads the input that the arguments name.
    ///
    /// # Errors
    /// Bad input, or a selection that it does not have.
    pub fn read(args: &Args) -> Result<Self> {
        let mut input = input::stream_any(&args.input)?;
        let Streamed { segments, notes } = &mut input;
        let grouping = || Ok(unchecked(args, segments.has_references())?.judge.grouping);
        let selection = input::select_from(&args.input, segments, notes, (args.sampling.seed, grouping))?;
        Ok(Self { input, selection })
    }

    /// What a judge gives verdicts on: what is selected, and of a judge of documents whatever else stands in them.
    fn units(&self, judge: &Judge, seed: u64) -> Selection {
        run::groups::judged(&self.input.segments, &self.selection, (judge.grouping, judge.unit), seed)
    }

    /// The segments among these, some at a time.
    fn segments(&self, units: &Selection) -> impl Iterator<Item = io::Result<Vec<Segment>>> {
        let chunks = self.input.segments.chunks(AT_A_TIME).enumerate();
        chunks.map(|(chunk, some)| {
            let placed = some?.into_iter().enumerate();
            let wanted = placed.filter(|(at, _)| units.wants(chunk * AT_A_TIME + at));
            Ok(wanted.map(|(_, segment)| segment).collect())
        })
    }
}

/// The judge that the arguments ask for, for this input.
///
/// # Errors
/// A method that does not exist, cannot be set up, or must not be asked about what is selected.
pub fn built(args: &Args, judged: &Judged) -> Result<Built> {
    let built = unchecked(args, judged.input.segments.has_references())?;
    built.check_roles(args.model.role.iter().map(|(role, _)| *role))?;
    let units = judged.units(&built.judge, args.sampling.seed);
    let (mut n, mut without) = (0, 0);
    for some in judged.segments(&units) {
        let some = some?;
        n += some.len();
        without += some.iter().filter(|segment| segment.reference.is_none()).count();
        built.judging().check_input(&some)?;
    }
    built.check_references(without, n)?;
    let segments = &judged.input.segments;
    let outlines = (0..segments.n_segments()).map(|idx| segments.outline(idx));
    let built = built.on_pairs(outlines.map(|of| format!("{}-{}", of.src_lang, of.tgt_lang)));
    Ok(built.sampled(args.judge.samples, &args.sampling.sampling())?)
}

/// The judge that the arguments ask for, for any input with or without references.
fn unchecked(args: &Args, has_references: bool) -> Result<Built> {
    let settings =
        Settings { has_references, ..args.judge.settings(&args.sampling, adapter::annotator(&args.model)) };
    Ok(registry::build(&args.judge.method, &settings)?)
}

/// A judge that fits its input, before any model is loaded.
pub struct Prepared<'a> {
    pub args: &'a Args,
    pub judged: &'a Judged,
    pub built: Built,
    /// What the user should know of the input.
    pub notes: Vec<String>,
    /// What the judge was trained on of what it judges.
    pub trained_on: Vec<Overlap>,
    /// Whether files or languages may have been mixed up.
    pub mixed_up: MixedUp,
}

impl<'a> Prepared<'a> {
    /// Builds the judge for an input, and checks them and the other arguments against each other.
    ///
    /// # Errors
    /// As [`built`], and input or options that are not for what the judge reads.
    pub fn new(args: &'a Args, judged: &'a Judged) -> Result<Self> {
        let built = built(args, judged)?;
        let judge = &built.judge;
        match built.method.reads {
            Reads::Translations => input::need_translations(&args.input)?,
            Reads::SourcesOnly => {}
        }
        args.keep.check(built.method.reads, args.run.shard)?;
        if args.input.reference.is_some() {
            built.check_reads_reference()?;
        }
        let mut notes = judged.input.notes.clone();
        let trained = trained_on(args, judge)?;
        let mut overlaps: Vec<Overlap> = trained.iter().map(TrainedOn::overlap).collect();
        let mut mixed_up = MixedUp::default();
        let is_checked =
            args.judge.language_check == LanguageCheck::On && built.method.reads == Reads::Translations;
        for some in judged.segments(&judged.units(judge, args.sampling.seed)) {
            let some = some?;
            for segment in &some {
                if is_checked {
                    mixed_up.add(segment);
                }
            }
            for (trained, overlap) in trained.iter().zip(&mut overlaps) {
                overlap.of += some.len();
                overlap.segments += some.iter().filter(|segment| trained.knows(&segment.source)).count();
            }
            let remarks = judge.judging().remarks(&some);
            let new: Vec<String> = remarks.into_iter().filter(|remark| !notes.contains(remark)).collect();
            notes.extend(new);
        }
        notes.extend(mixed_up.unknown());
        notes.extend(no_documents(judge, &judged.input.segments).map(str::to_owned));
        overlaps.retain(|overlap| overlap.segments > 0);
        Ok(Self { args, judged, built, notes, trained_on: overlaps, mixed_up })
    }
}

/// The source texts that the judge and the adapters were trained on.
fn trained_on(args: &Args, judge: &Judge) -> Result<Vec<TrainedOn>> {
    let mut trained: Vec<TrainedOn> = judge.trained_on.iter().cloned().collect();
    for dir in adapter::named(&args.model) {
        trained.extend(adapter::trained_on(&dir)?);
    }
    Ok(trained)
}

/// What a user of a document-level method should know if the input names no documents.
fn no_documents(judge: &Judge, segments: &Corpus) -> Option<&'static str> {
    let wants = matches!(judge.grouping, Grouping::Document | Grouping::FiveDocuments);
    let is_bare = |idx| segments.outline(idx).doc.is_empty();
    (wants && (0..segments.n_segments()).all(is_bare)).then_some(
        "the input names no documents, so every segment is judged without context; hint: add `--docs FILE`, or \
         `doc` on each line",
    )
}

/// Methods that write were published with models far above this. Unit: billions of parameters.
const SMALLEST_WRITER: f64 = 3.0;

/// Methods that write, and the model that they were measured with, at scores near chance: docs/methods.md#which-judge.
const MEASURED: ([&str; 2], &str) = (["gemba-mqm", "fsp"], "qwen2.5-coder-0.5b-instruct");

/// What to know of input, judge and models before they are put to work.
pub fn warnings(prepared: &Prepared<'_>, models: &LoadedModels) -> impl Iterator<Item = String> {
    let Prepared { args, built, mixed_up, .. } = prepared;
    let of_judge = too_small(built, models).into_iter().chain(untuned(built, models, args));
    mixed_up.doubts().into_iter().chain(of_judge)
}

/// What to know before a small model writes verdicts; `None` where the size is not known.
fn too_small(built: &Built, models: &LoadedModels) -> Option<String> {
    let card = card::find(&models.model.name).ok()?;
    registry::writes(built.method).then(|| small_writer(built.method.name, &card)).flatten()
}

/// What was measured of a method that writes with this model, where the model is small.
fn small_writer(method: &str, card: &Card) -> Option<String> {
    let billions: f64 = card.parameters.strip_suffix('B')?.parse().ok()?;
    let (methods, model) = MEASURED;
    let hint = "hint: what small models were measured to do: docs/methods.md#which-judge";
    let measured = match (methods.contains(&method), card.name == model) {
        (true, true) => format!("with `{model}` its scores are near chance"),
        (false, true) => {
            format!("with `{model}` {} score near chance", methods.map(|m| format!("`{m}`")).join(" and "))
        }
        (_, false) => {
            format!("with `{}` ({} parameters) its scores were not measured", card.name, card.parameters)
        }
    };
    (billions < SMALLEST_WRITER)
        .then(|| format!("`{method}` asks the model to write, and {measured}\n{hint}"))
}

/// What to know before a method that is made for a tuned model asks one that is not; `None` where the model may be.
fn untuned(built: &Built, models: &LoadedModels, args: &Args) -> Option<String> {
    let is_plain = card::find(&models.model.name).is_ok() && adapter::named(&args.model).is_empty();
    (registry::needs_tuning(built.method) && is_plain).then(|| {
        format!(
            "`{}` reads the answers of a model that was tuned for it, and `{}` was not: its scores mean little\nhint: \
             `--adapter DIR` with what `scripts/tune/gmft_gpu.py` trains, or `--method gemba-mqm`; docs/tuning.md",
            built.method.name, models.model.name
        )
    })
}

/// A run with all that it needs.
pub struct Run<'a> {
    prepared: &'a Prepared<'a>,
    models: &'a LoadedModels,
    pub signature: Signature,
    pub config: RunConfig,
}

impl<'a> Run<'a> {
    /// Checks the models against the judge, and settles the signature and the configuration.
    ///
    /// # Errors
    /// Models that the judge cannot use, an empty `--out`, and a file that the command names and that cannot be read.
    pub fn prepare(prepared: &'a Prepared<'_>, models: &'a LoadedModels, begun: &Begun) -> Result<Self> {
        let Prepared { args, judged, built, trained_on, .. } = prepared;
        built.judging().check_models(&|role| models.model_of(role))?;
        let signature = signature(built, &models.signature, args);
        let named = origin::Args { judge: &args.judge, model: &args.model, engine: &args.engine };
        let (mut origin, copies) = origin::of(named, built, models)?;
        for material in &mut origin.materials {
            if let Some(given) = begun.given.get(&material.flag) {
                given.clone_into(&mut material.given);
            }
        }
        let config = RunConfig {
            jobs: models.jobs(args.engine.jobs),
            command: begun.words.clone(),
            progress: if args.run.quiet { Show::Off } else { args.run.progress },
            // A few more than the engines take, so that they never wait for a judge.
            questions: models.n_rows + models.n_rows / 4,
            calls: args.run.calls,
            retry_missing: args.run.retry_missing,
            directory: begun.directory(),
            origin,
            copies,
            trained_on: trained_on.clone(),
            writing: begun.writing.clone(),
            stop: begun.stop.clone(),
            ..chosen(args, judged, out(args, judged, &signature)?)
        };
        Ok(Self { prepared, models, signature, config })
    }

    /// What is judged by whom.
    #[must_use]
    pub fn task(&self) -> Task<'_> {
        Task {
            panel: &self.models.panel,
            judge: &self.prepared.built.judge,
            segments: &self.prepared.judged.input.segments,
            signature: &self.signature,
        }
    }

    /// Makes the run, or goes on with what its folder holds of it.
    ///
    /// # Errors
    /// As [`Task::run`].
    pub fn make(&self) -> Result<Outcome> {
        Ok(self.task().run(&self.config)?)
    }
}

/// What the arguments choose of the input, for a run into this folder.
#[must_use]
pub fn chosen(args: &Args, judged: &Judged, out: PathBuf) -> RunConfig {
    RunConfig {
        selection: judged.selection.clone(),
        shard: args.run.shard.unwrap_or(Shard::WHOLE),
        seed: args.sampling.seed,
        ..RunConfig::new(out)
    }
}

/// The whole signature: what the judge was built from, with the models before its prompts; then sampling.
#[must_use]
pub fn signature(built: &Built, models: &Signature, args: &Args) -> Signature {
    let Signed { method, prompts } = built.signature();
    let sampling = sampling_signature(&built.judge.sampling(&args.sampling.sampling()));
    // A method with an option for the temperature has signed it already.
    let own = |name: &str| built.method.options.iter().any(|option| option.name == name);
    let sampling = sampling.fields().iter().fold(Signature::new(), |signature, (key, value)| {
        let said = match key.as_str() {
            "temp" => own("temperature"),
            "top_p" => own("top-p"),
            _ => false,
        };
        if said { signature } else { signature.with(key, value) }
    });
    let signature = method.followed_by(models).followed_by(&prompts).followed_by(&sampling);
    signature.with("v", env!("CARGO_PKG_VERSION"))
}

/// The run folder: that of `--out`, or one that the same command finds again.
fn out(args: &Args, judged: &Judged, signature: &Signature) -> Result<PathBuf> {
    match &args.run.out {
        Some(out) if out.as_os_str().is_empty() => bail!("`--out` is empty"),
        Some(out) => Ok(out.clone()),
        None => {
            let input = InputId::of(&judged.input.segments, &judged.selection)?;
            Ok(default_out(signature, &input, args.run.shard.unwrap_or(Shard::WHOLE)))
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_said_of_small_models() {
        let said = |method, model| {
            let said = small_writer(method, &card::find(model).unwrap());
            said.map(|said| said.lines().next().unwrap_or_default().to_owned())
        };
        insta::assert_snapshot!(
            [
                said("fsp", "qwen2.5-coder-0.5b-instruct"),
                said("m-mad", "qwen2.5-coder-0.5b-instruct"),
                said("fsp", "qwen2.5-coder-1.5b-instruct"),
                said("gemba-mqm", "qwen2.5-0.5b-instruct"),
            ]
            .map(Option::unwrap)
            .join("\n"),
            @"
        `fsp` asks the model to write, and with `qwen2.5-coder-0.5b-instruct` its scores are near chance
        `m-mad` asks the model to write, and with `qwen2.5-coder-0.5b-instruct` `gemba-mqm` and `fsp` score near chance
        `fsp` asks the model to write, and with `qwen2.5-coder-1.5b-instruct` (1.54B parameters) its scores were not measured
        `gemba-mqm` asks the model to write, and with `qwen2.5-0.5b-instruct` (0.49B parameters) its scores were not measured
        "
        );
        assert_eq!(said("fsp", "qwen2.5-7b-instruct"), None);
    }
}
