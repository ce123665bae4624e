//! `tribunal score`: from translations to verdicts. Judging is in `run`; arguments, signature and printing are here.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{
    adapter,
    args::{EngineArgs, InputArgs, JudgeArgs, ModelArgs, SamplingArgs, sampling_signature},
    input,
    keep::KeepArgs,
    origin,
    output::Format,
    panel::{LoadedModels, ModelLoader},
};
use crate::{
    card, files,
    judges::{
        Built, Grouping, Judge, Reads, Settings,
        registry::{self, Signed},
    },
    llm::Stop,
    report::{self, Detail, Look},
    run::{
        self, CallRetention, Options, Outcome, RunConfig, Selection, Shard, Show, Task, Writing,
        description::InputId,
    },
    segment::{
        Corpus, Segment, Segments as _,
        read::Streamed,
        trained::{Overlap, TrainedOn},
    },
    signature::Signature,
};

mod plan;

/// Judge translations.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "`--help-all` shows options for developers, too.")]
pub struct Args {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub judge: JudgeArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// Where a run goes and what it prints.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// The run folder; the same command continues where it stopped. Default: out/METHOD-MODEL-HASH
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Judge one part of N, from 1; `tribunal merge` joins the parts
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Ask once more, warmer and at another seed, about segments whose answers could not be used; the signature says so
    #[arg(long)]
    pub retry_missing: bool,
    /// What is kept of questions and answers: all, all but compressed, or only what they cost
    #[arg(long, value_enum, default_value_t)]
    pub calls: CallsKept,
    /// How progress is shown: a line that renews itself on a terminal and a line a minute elsewhere, always the latter,
    /// or JSON lines for programs
    #[arg(long, value_enum, default_value_t)]
    pub progress: ProgressShown,
    /// Say how many calls, tokens and hours the run takes, without going through with it; a few groups are judged to see,
    /// and kept in the run folder
    #[arg(long)]
    pub dry_run: bool,
    /// No progress and no notes; warnings are still printed
    #[arg(long)]
    pub quiet: bool,
    /// Print only the systems' scores
    #[arg(long)]
    pub only_system: bool,
    /// Also write the verdicts in the shape of COMET's `--to_json`
    #[arg(long, value_name = "FILE")]
    pub to_json: Option<PathBuf>,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What is kept of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CallsKept {
    #[default]
    Plain,
    Zstd,
    Off,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressShown {
    #[default]
    Auto,
    Plain,
    Json,
    Off,
}

/// How many segments with their texts are in memory at a time.
const AT_A_TIME: usize = 4096;

/// How the command was begun, beside its arguments.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// The words of the command line, with the options of file and variables, for `run.json`.
    pub words: Vec<String>,
    /// What a signal has to wait for.
    pub writing: Writing,
    /// Until when answers are wanted.
    pub stop: Stop,
}

/// Runs `tribunal score`.
///
/// # Errors
/// Bad input, a model that cannot be run, a run folder that cannot be written.
pub fn run(args: &Args, begun: &Begun, load: ModelLoader, out: &mut dyn Write) -> Result<ExitCode> {
    let judged = Judged::read(args)?;
    let Some(outcome) = judge(args, &judged, begun, load, out)? else { return Ok(ExitCode::SUCCESS) };
    finished(args, &judged.input.segments, &outcome, out)?;
    Ok(if outcome.complete() { ExitCode::SUCCESS } else { ExitCode::from(1) })
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
        let selection = input::select_from(&args.input, segments, notes, args.sampling.seed)?;
        Ok(Self { input, selection })
    }
}

/// The judge that the arguments ask for, for this input.
///
/// # Errors
/// A method that does not exist, cannot be set up, or must not be asked about what is selected.
pub fn built(args: &Args, segments: &Corpus, selection: &Selection) -> Result<Built> {
    let has_references = segments.has_references();
    let settings = Settings { has_references, ..args.judge.settings(&args.sampling) };
    let built = registry::build(&args.judge.method, &settings)?;
    built.check_roles(args.model.role.iter().map(|(role, _)| *role))?;
    let judged = judged(built.judge.as_ref(), segments, selection, args.sampling.seed);
    let (mut n, mut without) = (0, 0);
    for some in judged_segments(segments, &judged) {
        let some = some?;
        n += some.len();
        without += some.iter().filter(|segment| segment.reference.is_none()).count();
        built.check_input(&some)?;
    }
    built.check_references(without, n)?;
    let outlines = (0..segments.n_segments()).map(|idx| segments.outline(idx));
    let built = built.on_pairs(outlines.map(|of| format!("{}-{}", of.src_lang, of.tgt_lang)));
    Ok(built.sampled(args.judge.samples, &args.sampling.sampling())?)
}

/// What a judge gives verdicts on: what is selected, and of a judge of documents whatever else stands in them.
fn judged(judge: &dyn Judge, segments: &Corpus, selection: &Selection, seed: u64) -> Selection {
    run::groups::judged(segments, selection, (judge.group(), judge.unit()), seed)
}

/// The segments that get a verdict, some at a time.
fn judged_segments(segments: &Corpus, judged: &Selection) -> impl Iterator<Item = io::Result<Vec<Segment>>> {
    let chunks = segments.chunks(AT_A_TIME).enumerate();
    chunks.map(|(chunk, some)| {
        let placed = some?.into_iter().enumerate();
        let wanted = placed.filter(|(at, _)| judged.wants(chunk * AT_A_TIME + at));
        Ok(wanted.map(|(_, segment)| segment).collect())
    })
}

/// A judge that fits its input, before any model is loaded.
pub struct Prepared {
    pub built: Built,
    /// What the user should know of the input.
    pub notes: Vec<String>,
    /// What the judge was trained on of what it judges.
    pub trained_on: Vec<Overlap>,
}

/// Builds the judge for an input, and checks them and the other arguments against each other.
///
/// # Errors
/// As [`built`], and input or options that are not for what the judge reads.
pub fn prepare(args: &Args, input: &Streamed, selection: &Selection) -> Result<Prepared> {
    let Streamed { segments, notes } = input;
    let built = built(args, segments, selection)?;
    let judge = built.judge.as_ref();
    match judge.reads() {
        Reads::Translations => input::need_translations(&args.input)?,
        Reads::SourcesOnly => {}
    }
    args.keep.check(judge.reads(), args.run.shard)?;
    if args.input.reference.is_some() {
        built.check_reads_reference()?;
    }
    let mut notes = notes.clone();
    let trained = trained_on(args, judge)?;
    let mut overlaps: Vec<Overlap> = trained.iter().map(TrainedOn::overlap).collect();
    let judged = judged(judge, segments, selection, args.sampling.seed);
    for some in judged_segments(segments, &judged) {
        let some = some?;
        for (trained, overlap) in trained.iter().zip(&mut overlaps) {
            overlap.of += some.len();
            overlap.segments += some.iter().filter(|segment| trained.knows(&segment.source)).count();
        }
        let remarks = judge.remarks(&some);
        let new: Vec<String> = remarks.into_iter().filter(|remark| !notes.contains(remark)).collect();
        notes.extend(new);
    }
    notes.extend(no_documents(judge, segments).map(str::to_owned));
    overlaps.retain(|overlap| overlap.segments > 0);
    Ok(Prepared { built, notes, trained_on: overlaps })
}

/// The source texts that the judge and the adapters were trained on.
fn trained_on(args: &Args, judge: &dyn Judge) -> Result<Vec<TrainedOn>> {
    let mut trained: Vec<TrainedOn> = judge.trained_on().into_iter().collect();
    for dir in adapter::named(&args.model) {
        trained.extend(adapter::trained_on(&dir)?);
    }
    Ok(trained)
}

/// Judges an input, or says what that would take, in which case there is no outcome.
///
/// # Errors
/// As [`run`].
pub fn judge(
    args: &Args,
    judged: &Judged,
    begun: &Begun,
    load: ModelLoader,
    out: &mut dyn Write,
) -> Result<Option<Outcome>> {
    let Judged { input, selection } = judged;
    let segments = &input.segments;
    let Prepared { built, notes, trained_on } = prepare(args, input, selection)?;
    let judge = built.judge.as_ref();
    if !args.run.quiet {
        for note in &notes {
            say!("note: {note}");
        }
    }
    for overlap in &trained_on {
        say!("warning: {overlap}");
    }
    if args.run.dry_run {
        plan::run(args, judged, &built, begun, load, out)?;
        return Ok(None);
    }
    let models = load(&args.model, &args.engine, args.sampling.sampling())?;
    judge.check_models(&|role| models.model_of(role))?;
    if let Some(warning) = too_small(&built, &models) {
        say!("warning: {warning}");
    }
    let signature = signature(&built, &models.signature, args);
    let jobs = models.jobs(args.engine.jobs);
    let options = options(args, &signature, (segments, selection), jobs, begun)?;
    if !args.run.quiet {
        say!("run folder: {}", options.out.display());
        say!("raw scores: {}", built.method.scale);
    }
    let config = RunConfig { trained_on, ..config(args, &built, &models, begun)? };
    let task = Task { panel: &models.panel, judge, segments, signature: &signature };
    Ok(Some(task.run(&options, &config)?))
}

/// Below this, methods that write were measured to score near chance. Unit: billions of parameters.
const SMALLEST_WRITER: f64 = 3.0;

/// What to know before a small model writes verdicts; `None` where the size is not known.
#[must_use]
pub fn too_small(built: &Built, models: &LoadedModels) -> Option<String> {
    let card = card::find(&models.model.name).ok()?;
    let billions: f64 = card.parameters.strip_suffix('B')?.parse().ok()?;
    (registry::writes(built.method) && billions < SMALLEST_WRITER).then(|| {
        format!(
            "`{}` asks the model to write, and with {} parameters such methods score near chance\nhint: `--method probe` \
             ranks with a small model; figures: docs/methods.md#which-judge",
            built.method.name, card.parameters
        )
    })
}

/// Says what came of a run, and writes what else was asked for.
fn finished(args: &Args, segments: &Corpus, outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let health = &outcome.summary.health;
    if !args.run.quiet {
        say!("{}", report::cost(&outcome.summary.cost));
        if let Some(shares) = report::health::shares(health) {
            say!("{shares}");
        }
    }
    warn(outcome)?;
    if let Some(path) = &args.run.to_json {
        let json = report::export::comet::json(&outcome.records()?, &segments.to_vec()?);
        let json = serde_json::to_vec_pretty(&json)?;
        files::write(path, |file| file.write_all(&json))?;
    }
    let kept = args.keep.write(outcome)?;
    if let Some(kept) = kept.filter(|_| !args.run.quiet) {
        say!("{kept}");
    }
    print(outcome, args.run.format, detail(args), out)
}

/// How the run goes about its work, and what `run.json` says of where it comes from.
///
/// # Errors
/// A file that the command names and that cannot be read.
pub fn config(args: &Args, built: &Built, models: &LoadedModels, begun: &Begun) -> Result<RunConfig> {
    let named = origin::Args { judge: &args.judge, model: &args.model, engine: &args.engine };
    let (origin, copies) = origin::of(named, built, models)?;
    Ok(RunConfig {
        // A few more than the engines take, so that they never wait for a judge.
        questions: models.n_rows + models.n_rows / 4,
        keeping: match args.run.calls {
            CallsKept::Plain => CallRetention::Plain,
            CallsKept::Zstd => CallRetention::Zstd,
            CallsKept::Off => CallRetention::Off,
        },
        retry_missing: args.run.retry_missing,
        directory: std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default(),
        origin,
        copies,
        trained_on: Vec::new(),
        writing: begun.writing.clone(),
        stop: begun.stop.clone(),
    })
}

fn detail(args: &Args) -> Detail {
    if args.run.only_system { Detail::Systems } else { Detail::Units }
}

/// What a user of a document-level method should know if the input names no documents.
fn no_documents(judge: &dyn Judge, segments: &Corpus) -> Option<&'static str> {
    let wants = matches!(judge.group(), Grouping::Document | Grouping::FiveDocuments);
    let is_bare = |idx| segments.outline(idx).doc.is_empty();
    (wants && (0..segments.n_segments()).all(is_bare)).then_some(
        "the input names no documents, so every segment is judged without context; hint: add `--docs FILE`, or \
         `doc` on each line",
    )
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

/// Where and how the run is made, with so many groups in flight.
///
/// # Errors
/// An empty `--out`.
pub fn options(
    args: &Args,
    signature: &Signature,
    (segments, selection): (&Corpus, &Selection),
    jobs: usize,
    begun: &Begun,
) -> Result<Options> {
    let shard = args.run.shard.unwrap_or(Shard::WHOLE);
    let out = match &args.run.out {
        Some(out) => out.clone(),
        None => default_out(signature, &InputId::of(segments, selection)?, shard),
    };
    if out.as_os_str().is_empty() {
        bail!("`--out` is empty");
    }
    Ok(Options {
        out,
        selection: selection.clone(),
        shard,
        jobs,
        seed: args.sampling.seed,
        command: begun.words.clone(),
        show: match args.run.progress {
            _ if args.run.quiet => Show::Quiet,
            ProgressShown::Auto => Show::Auto,
            ProgressShown::Plain => Show::Plain,
            ProgressShown::Json => Show::Json,
            ProgressShown::Off => Show::Quiet,
        },
    })
}

/// A folder that the same command finds again: named by method, model, and a hash of signature and input.
fn default_out(signature: &Signature, input: &InputId, shard: Shard) -> PathBuf {
    let id = format!("{signature}\n{}", input.sha256);
    let hash = run::folder::hex(&Sha256::digest(id)[..4]);
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

/// Warns on standard error if the output looks degenerate, even when nothing else is to be printed there.
///
/// # Errors
/// When standard error is closed.
pub fn warn(outcome: &Outcome) -> Result<()> {
    if let Some(warning) = report::health::warning(&outcome.summary.health) {
        say!("{warning}");
    }
    Ok(())
}

/// Prints the outcome of a run.
///
/// # Errors
/// When `out` cannot be written.
pub fn print(outcome: &Outcome, format: Format, detail: Detail, out: &mut dyn Write) -> Result<()> {
    let summary = &outcome.summary;
    // Lists of all verdicts are made in memory; where there are millions, `--only-system` leaves them out.
    let records = || if detail == Detail::Units { outcome.records() } else { Ok(Vec::new()) };
    let text = match format {
        Format::Text => {
            let mut shown = report::Shown::of(&summary.signature);
            if detail == Detail::Units {
                outcome.each_record(|record| {
                    shown.add(record);
                    Ok(())
                })?;
            }
            report::text_of(summary, &shown, detail, look())
        }
        Format::Json => report::json(summary, &records()?, detail),
        Format::Tsv => report::tsv(summary, &records()?, detail),
        Format::Csv => {
            out.write_all(&report::export::csv(summary, &records()?, detail)?)?;
            String::new()
        }
    };
    out.write_all(text.as_bytes())?;
    out.flush().context("cannot write the results to standard output")
}

/// Colours only for a terminal without `NO_COLOR`; lines as wide as the terminal, within reason.
fn look() -> Look {
    let off = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let terminal = std::io::stdout().is_terminal();
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = if terminal { columns.unwrap_or(100).clamp(50, 140) } else { 100 };
    Look { width, colour: terminal && !dumb && !off("NO_COLOR") }
}
