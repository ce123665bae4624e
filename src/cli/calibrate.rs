//! `tribunal calibrate`: HiMATE's stage-transition thresholds from a validation set. The judge measures
//! confidences; the arguments and the file are here.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};

use super::output::{Printed, spare_runs};
use crate::{
    console::{args, table::Table},
    eval::{InputSpec, Invocation, ModelLoader, ModelSpec, Resources, SamplingSpec, input},
    files,
    judges::{
        Grouping, Model, Preset, Role, Settings,
        himate::{
            self, HiMate,
            calibration::{PERCENTILE, Threshold, Thresholds},
            confidences::measure,
        },
    },
    segment::{numbered, read::Input},
};

/// Fit HiMATE's stage-transition thresholds: which errors are discussed.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub input: InputSpec,
    /// The percentile of the confidences that becomes the threshold: at least that percentage of errors is
    /// discussed
    #[arg(long, default_value_t = PERCENTILE, value_name = "P", value_parser = args::percent)]
    pub percentile: f64,
    /// The file to write: for each language pair a threshold for all subtypes, and one for each that found
    /// errors
    #[arg(long, value_name = "FILE.toml")]
    pub out: PathBuf,
    /// The preset that `tribunal score` will use: paper or strict
    #[arg(long, default_value = "strict")]
    pub preset: Preset,
    /// The method as `tribunal score` will use it: its options `confidence` and `comparison` say what is
    /// measured
    #[arg(long, default_value = "himate", value_name = "himate[:option=value,...]")]
    pub method: String,
    /// A folder whose files replace the method's prompts of the same name
    #[arg(long, value_name = "DIR")]
    pub prompts: Option<PathBuf>,
    /// A file that replaces the method's shots
    #[arg(long, value_name = "FILE")]
    pub shots: Option<PathBuf>,
    #[command(flatten)]
    pub model: ModelSpec,
    #[command(flatten)]
    pub sampling: SamplingSpec,
    #[command(flatten)]
    pub engine: Resources,
    #[command(flatten)]
    pub printed: Printed,
}

/// Runs `tribunal calibrate`. The exit code is 1 if some segments gave no usable answer.
///
/// # Errors
/// If the input is bad, the model cannot be run, or a language pair yields no confidence at all.
pub fn run(args: &Args, invocation: &Invocation, load: ModelLoader, out: &mut dyn Write) -> Result<ExitCode> {
    spare_runs(&args.out)?;
    invocation
        .writing
        .keeps("a calibration keeps nothing until it is done; the same command starts it again");
    let mut input = input::read(&args.input)?;
    let selection = input::select(&args.input, &mut input, args.sampling.seed, Grouping::Segment)?;
    let Input { segments, notes } = input;
    let segments = selection.of_segments(segments);
    for note in notes {
        say!("note: {note}");
    }
    let judge = judge(args)?;
    let models = load(&args.model, &args.engine, args.sampling.sampling())?;
    let mut n_failed = 0;
    let jobs = models.jobs(args.engine.jobs);
    let measured = measure(&judge, &models.panel, &segments, jobs, |segment, error| {
        n_failed += 1;
        say!("note: {} of `{}` was left out: {error}", numbered(segment.seg), segment.system);
    });
    let mut calibration = Thresholds::default();
    for (pair, confidences) in &measured {
        let thresholds = confidences.thresholds(&fitted(args, &judge, models.model_of(Role::Tier2), pair)?);
        if thresholds.is_empty() {
            bail!(
                "no error was found and corrected in the segments of `{pair}`, so there are no confidences to rank; hint: \
                 give more segments"
            );
        }
        calibration.threshold.extend(thresholds);
    }
    let text = calibration.to_toml().context("the thresholds cannot be written as TOML")?;
    files::write(&args.out, |file| file.write_all(text.as_bytes()))?;
    let json = serde_json::to_value(&calibration)?;
    args.printed.print(out, || json, || table(&calibration), |out| print(&calibration, out))?;
    Ok(ExitCode::from(u8::from(n_failed > 0)))
}

fn table(calibration: &Thresholds) -> Table {
    let mut table = Table::new();
    table.head(["pair", "subtype", "threshold", "probability", "percentile", "answers", "segments"]);
    for fitted in &calibration.threshold {
        let Threshold { pair, subtype, value, answers, segments, percentile, .. } = fitted;
        let numbers = [*value, value.exp(), *percentile].map(|number| number.to_string());
        let counts = [*answers, *segments].map(|n| n.to_string());
        table.row([pair.clone(), subtype.clone()].into_iter().chain(numbers).chain(counts));
    }
    table
}

fn print(calibration: &Thresholds, out: &mut dyn Write) -> Result<()> {
    for fitted in &calibration.threshold {
        let Threshold { pair, subtype, value, answers, segments, percentile, .. } = fitted;
        let probability = value.exp();
        let subtype = if subtype.is_empty() { "all" } else { subtype };
        writeln!(
            out,
            "{pair}\t{subtype}\t{value}\tprobability {probability:.4}, percentile {percentile} of {answers} answers on {segments} segments"
        )?;
    }
    Ok(())
}

fn judge(args: &Args) -> Result<HiMate> {
    if args.preset == Preset::Code {
        bail!(
            "preset `code` of `himate` has the published thresholds; hint: use paper or strict, or `threshold=P` of \
             `tribunal score`"
        );
    }
    let settings = Settings {
        preset: args.preset,
        prompts: args.prompts.clone(),
        shots: args.shots.clone(),
        max_tokens: args.sampling.max_tokens,
        ..Settings::default()
    };
    // Without the stage of discussions, the judge needs no threshold.
    Ok(HiMate::new(&settings, &asked(args)?)?)
}

/// A threshold of a language pair without values: the model and the settings that it is valid for.
fn fitted(args: &Args, judge: &HiMate, model: Model, pair: &str) -> Result<Threshold> {
    Ok(Threshold {
        pair: pair.into(),
        model: model.name,
        sha256: model.sha256,
        preset: args.preset.to_string(),
        prompts: judge.prompts_hash().into(),
        confidence: asked(args)?.is_mean.text,
        comparison: judge.comparison_name().into(),
        percentile: args.percentile,
        ..Threshold::default()
    })
}

/// The options of `--method`, for the first two stages: what comes before the threshold.
fn asked(args: &Args) -> Result<himate::Options> {
    let (name, options) = args.method.split_once(':').unwrap_or((&args.method, ""));
    if name != himate::METHOD.name {
        bail!("`{name}` has no threshold to fit\nhint: `--method himate`");
    }
    Ok(himate::Options::read(&himate::METHOD.parse_options(&format!("stages=se+sr,{options}"))?))
}
