//! `tribunal tune probe`: fits the judge `probe` on rated translations and measures it on held-out documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use super::{DataArgs, models, positive};
use crate::{
    cli::output::spare_runs,
    engine::Engine,
    eval::Resources,
    files,
    judges::{
        Settings,
        probe::{
            self,
            fit::{Fit, HeldOut},
        },
        prompt::Prompts,
    },
    llm::Llm,
    mqm::weights,
    segment::Segment,
    tune::{
        Weights,
        probe::{self as fitting, Subject, evaluation},
        rated::Document,
        readings::Readings,
        split::Split,
    },
};

/// Fit the judge `probe`: maps from the model's hidden states to ratings, in closed form.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    reading: ReadingArgs,
    /// The layer whose hidden states are used, from 1; default: at three fifths of the depth. Hidden states
    /// of further layers are stored, for other fits
    #[arg(long, value_name = "N[,N]", value_parser = positive, value_delimiter = ',')]
    depth: Vec<usize>,
    /// Add about N synthetically corrupted translations: words left out or wrong, sentences missing, texts of
    /// another source
    #[arg(long, value_name = "N", default_value_t = 0)]
    corrupted: usize,
    /// A LoRA adapter of the model: a folder in PEFT's layout
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// The file to write, for `--method probe:fit=FILE`
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

/// The translations to read, and the model that reads them.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReadingArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Only the translations of these systems; `PAIR/NAME` for a system of one language pair
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Data")]
    pub systems: Vec<String>,
    /// The model to read with: a card, a GGUF file, a safetensors folder
    #[arg(long, default_value = "qwen2.5-coder-1.5b-instruct", value_name = "CARD|PATH")]
    pub model: String,
    /// The folder that caches hidden states, so that an interrupted fit resumes; default: beside the output
    #[arg(long, value_name = "DIR")]
    pub readings: Option<PathBuf>,
    #[command(flatten)]
    pub engine: Resources,
}

/// Runs `tribunal tune probe`.
///
/// # Errors
/// Data that cannot be read or does not fit, a model that cannot be run, files that cannot be written.
pub(super) fn run(args: &Args, invocation: &super::Invocation, out: &mut dyn Write) -> Result<()> {
    spare_runs(&args.out)?;
    let mut split = args.reading.data.split()?.of_systems(&args.reading.systems)?;
    if split.held_out.is_empty() {
        bail!("no document is held out, and a fit is measured on those; hint: `--hold-out 0.2`");
    }
    let mut found = models::find(&args.reading.model, None, &args.reading.engine)?;
    let adapter = args.adapter.as_deref().map(models::adapter::find).transpose()?;
    found.options.adapters = adapter.iter().map(|adapter| adapter.dir.clone()).collect();
    let model = models::adapted((&found.name, &found.sha256), adapter.as_ref());
    let (n_layers, hidden) = {
        let weights = Weights::open(&found.weights)?;
        (weights.config().n_layers, weights.config().hidden)
    };
    let (depth, depths) = depths(&args.depth, n_layers)?;
    let settings = Settings { prompts: args.reading.data.prompts.clone(), ..Settings::default() };
    let prompts = probe::prompts(&settings)?;
    let folder = args.reading.readings.clone().unwrap_or_else(|| args.out.with_extension("readings"));
    let open = || {
        let engine = Engine::open(&found.weights, &found.options)?;
        Ok(engine.with_adapter(adapter.is_some().then_some(0)))
    };
    let cache = Kept { folder: &folder, sha256: &model.sha256, hidden, prompts: &prompts };
    let seed = args.reading.data.seed;
    let read = |segments: &[&Segment]| cache.read_missing(&depths, segments, invocation, open);
    evaluation::read_split(&mut split, args.corrupted, seed, read, |left_out| {
        say!(
            "translations longer than the model's context are left out: {}, the first of them in document `{}`",
            left_out.len(),
            left_out[0].doc
        );
    })?;
    let [corrupted, corrupted_held_out] = evaluation::corrupted(&split, args.corrupted, seed);
    let Split { train, held_out, .. } = &split;
    let mut readings = cache.open(&[depth])?;
    let names = || held_out.iter().map(Document::name).collect();
    let hold_out =
        args.reading.data.hold_out.parse().map_or_else(|_| HeldOut::Named(names()), HeldOut::Share);
    let weights = weights::find("wmt")?;
    let subject = Subject {
        model: model.name,
        sha256: model.sha256.clone(),
        prompts: &prompts,
        depth,
        weights,
        hold_out,
        seed,
    };
    say!("fitting ...");
    let mut fit = fitting::fit(train, &corrupted, &mut readings, &subject)?;
    fit.made.figures = evaluation::figures(&fit, held_out, &corrupted_held_out, &mut readings, &subject)?;
    let fit = fit.ready()?;
    let json = fit.to_json()?;
    files::write(&args.out, |file| file.write_all(json.as_bytes()))?;
    write_table(&fit, out)?;
    writeln!(out, "{}\tfit {}", args.out.display(), fit.hash())?;
    say_next(args);
    Ok(())
}

/// After how many layers the fit takes states, and after how many they are kept, in order.
fn depths(requested: &[usize], n_layers: usize) -> Result<(usize, Vec<usize>)> {
    let depth = requested.first().copied().unwrap_or(n_layers * 3 / 5);
    let depths: BTreeSet<usize> = requested.iter().copied().chain([depth]).collect();
    if let Some(depth) = depths.iter().find(|&&depth| depth == 0 || depth >= n_layers) {
        bail!("`--depth {depth}`: the model has {n_layers} layers; hint: 1 to {}", n_layers - 1);
    }
    Ok((depth, depths.into_iter().collect()))
}

fn say_next(args: &Args) {
    let adapter =
        args.adapter.as_ref().map(|dir| format!(" --adapter {}", dir.display())).unwrap_or_default();
    say!(
        "next: tribunal score --method probe:fit={} --model {}{adapter}",
        args.out.display(),
        args.reading.model
    );
}

/// Hidden states of translations in a folder.
struct Kept<'a> {
    folder: &'a Path,
    /// The sha256 of the reading model.
    sha256: &'a str,
    /// The width of its states.
    hidden: usize,
    prompts: &'a Prompts,
}

impl Kept<'_> {
    /// Opens those after some numbers of layers.
    fn open(&self, depths: &[usize]) -> Result<Readings> {
        let name = format!("{}-{}", self.sha256, self.prompts.hash());
        Ok(Readings::open(self.folder, &name, depths, self.hidden)?)
    }

    /// Reads the segments that are missing; returns for each segment true if it has been read.
    fn read_missing(
        &self,
        depths: &[usize],
        segments: &[&Segment],
        invocation: &super::Invocation,
        engine: impl FnOnce() -> Result<Engine>,
    ) -> Result<Vec<bool>> {
        let mut readings = self.open(depths)?;
        let folder = self.folder.display();
        invocation
            .writing
            .keeps(format!("what has been read is kept in `{folder}`; the same command goes on"));
        if readings.n_missing(self.prompts, segments)? > 0 {
            read(&engine()?, &mut readings, self.prompts, segments)?;
        }
        segments.iter().map(|segment| Ok(readings.unread(self.prompts, segment)?.is_none())).collect()
    }
}

fn read(engine: &dyn Llm, readings: &mut Readings, prompts: &Prompts, segments: &[&Segment]) -> Result<()> {
    let start = Instant::now();
    let mut first = None;
    let mut last = Instant::now();
    readings.read_all(engine, prompts, segments, &mut |done, all| {
        let begun = *first.get_or_insert(done);
        if last.elapsed().as_secs() >= 30 {
            last = Instant::now();
            let rate = (done - begun) as f64 / start.elapsed().as_secs_f64();
            let left = (all - done) as f64 / rate.max(1e-9) / 60.0;
            say!("{done} of {all} translations read, {rate:.1} a second, {left:.0} min left");
        }
    })?;
    Ok(())
}

fn write_table(fit: &Fit, out: &mut dyn Write) -> Result<()> {
    let names: BTreeSet<&String> = fit.made.figures.values().flat_map(BTreeMap::keys).collect();
    let pairs: Vec<&String> = fit.made.figures.keys().collect();
    let head = pairs.iter().map(|pair| format!("\t{pair}")).collect::<String>();
    writeln!(out, "held out{head}").context("the table cannot be written")?;
    for name in names {
        let number = |pair: &&String| match fit.made.figures[*pair].get(name) {
            Some(value) if value.fract() == 0.0 => format!("\t{value}"),
            Some(value) => format!("\t{value:.3}"),
            None => "\t-".into(),
        };
        writeln!(out, "{name}{}", pairs.iter().map(number).collect::<String>())?;
    }
    Ok(())
}
