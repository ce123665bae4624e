//! `tribunal tune`: training data and fits of judges. It fits the maps of the judge `probe`, and writes the
//! examples that a trainer learns the judge `gmft` from. Fitting is in `tune`; the arguments, the files and
//! the printed text are here.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::output::write_in;
use crate::{
    console::args::{positive, whole},
    eval::{Invocation, Pair, input, models},
    judges::{self, Granularity, Settings},
    mqm::{raters, weights},
    tune::{
        draw, examples, lines,
        probe::export,
        rated::{self, Document},
        sample::{self, Sample},
        split::{self, HoldOut, Split},
    },
};

mod probe;

/// Fit a judge on rated translations, or write the examples that another program trains one on.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Fit the judge `probe`: maps from the model's hidden states to ratings, in closed form
    Probe(Box<probe::Args>),
    /// Write the examples that a trainer learns the judge `gmft` from
    Export(Box<ExportArgs>),
}

/// Write the examples that a trainer learns the judge `gmft` from.
#[derive(Clone, Debug, clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Units of examples: segments, documents, five documents
    #[arg(long, visible_alias = "units", default_values = ["seg", "doc", "5doc"], value_delimiter = ',')]
    granularity: Vec<Granularity>,
    /// Write at most N examples to train on, drawn by the seed
    #[arg(long, value_name = "N", value_parser = positive)]
    limit: Option<usize>,
    /// chat-jsonl: `{"messages": [{"role", "content"}, ...]}`, one a line, for `gmft`; probe-jsonl: what a
    /// model under a probe reads, one translation a line, with scores and marks
    #[arg(long = "as", default_value = "chat-jsonl", value_parser = ["chat-jsonl", "probe-jsonl"])]
    form: String,
    /// The folder to write: `train.jsonl`, `held_out.jsonl`, and which documents and sources are in them
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The training data.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Data")]
struct DataArgs {
    /// A folder in the layout of mt-metrics-eval with MQM ratings (`human-scores/LP.mqm.RATER.seg.rating`)
    #[arg(long, visible_alias = "data", value_name = "DIR")]
    testset: Option<PathBuf>,
    /// The MQM TSV of human raters, or JSON lines of ratings (`.jsonl`, also compressed: `.gz`, `.xz`,
    /// `.zst`), one file or several
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "testset")]
    input: Vec<PathBuf>,
    /// Language pairs, one or several: `en-de`; by default all of the files
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT", num_args = 1.., value_delimiter = ',')]
    pair: Vec<Pair>,
    /// Leave out every document that has a sentence of a source in this test set, a folder in the layout of
    /// mt-metrics-eval
    #[arg(long, value_name = "DIR")]
    exclude: Vec<PathBuf>,
    /// The share of documents that is kept for testing (0: none), or a file of their names, `PAIR/DOC`, one a
    /// line
    #[arg(long, default_value = "0.2", value_name = "SHARE|FILE")]
    hold_out: String,
    /// Random seed of the split and the order of examples
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// A folder whose files replace the judge's prompt
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
    /// Draw about N translations of each file, at most three of a source, and about M more, each of two to
    /// six consecutive segments joined
    #[arg(long, value_name = "N[+M]", value_parser = sample)]
    sample: Option<Sample>,
}

/// Runs `tribunal tune`.
///
/// # Errors
/// Data that cannot be read or does not fit, a model that cannot be run, files that cannot be written.
pub fn run(command: &Command, invocation: &Invocation, out: &mut dyn Write) -> Result<ExitCode> {
    match command {
        Command::Probe(args) => probe::run(args, invocation, out)?,
        Command::Export(args) => export(args, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl DataArgs {
    /// All documents, or a sample of each file's.
    fn documents(&self) -> Result<Vec<Document>> {
        let sample = self.sample.map(|sample| Sample { seed: self.seed, ..sample });
        let drawn = |documents| match &sample {
            Some(sample) => sample::draw(documents, sample),
            None => documents,
        };
        let pairs: Vec<rated::Pair> =
            self.pair.iter().map(|pair| (pair.name.clone(), pair.src.clone(), pair.tgt.clone())).collect();
        if let Some(dir) = &self.testset {
            if pairs.is_empty() {
                bail!("the language pairs are missing; hint: add `-l en-de`, or several");
            }
            return Ok(drawn(rated::testset(dir, &pairs)?));
        }
        if self.input.is_empty() {
            bail!("there is nothing to learn from; hint: add `--testset DIR` or `--input FILE`");
        }
        let mut all = Vec::new();
        for file in &self.input {
            all.extend(drawn(of_file(file, &pairs)?));
        }
        Ok(all)
    }

    fn split(&self) -> Result<Split> {
        let by =
            if let Ok(share) = self.hold_out.parse() {
                HoldOut::Share { share, seed: self.seed }
            } else {
                let names = input::document_names(self.hold_out.as_ref());
                HoldOut::Named(names.with_context(|| {
                    format!("`--hold-out {}` is neither a share nor a file", self.hold_out)
                })?)
            };
        let mut documents = self.documents()?;
        for dir in &self.exclude {
            let n = split::exclude(&mut documents, &rated::sources(dir)?);
            say!("note: {n} documents are left out, because `{}` has some of their text", dir.display());
        }
        let split = split::split(documents, &by)?;
        if !split.left_out.is_empty() {
            let n = split.left_out.len();
            say!("note: {n} documents are left out, because held-out documents have some of their text");
        }
        Ok(split)
    }
}

/// `N` or `N+M`.
fn sample(text: &str) -> Result<Sample, String> {
    let (single, joined) = text.split_once('+').unwrap_or((text, "0"));
    Ok(Sample { single: positive(single)?, joined: whole(joined)?, seed: 0 })
}

/// The documents of a file; prints the number of ratings that were left out.
fn of_file(file: &Path, pairs: &[rated::Pair]) -> Result<Vec<Document>> {
    if raters::is_mqm_tsv(file) {
        return Ok(rated::mqm_tsv(file, pairs.first())?);
    }
    let names: Vec<String> = pairs.iter().map(|(_, src, tgt)| format!("{src}-{tgt}")).collect();
    let (documents, dropped) = lines::file(file, &names)?;
    let dropped = dropped.to_string();
    if !dropped.is_empty() {
        say!("note: `{}`: {dropped}", file.display());
    }
    Ok(documents)
}

impl ExportArgs {
    fn lines(&self, documents: &[Document], most: usize) -> Result<Vec<Value>> {
        let (seed, settings) =
            (self.data.seed, Settings { prompts: self.data.prompts.clone(), ..Settings::default() });
        if self.form == "chat-jsonl" {
            let examples = examples::drawn(documents, &self.granularity, most, seed, &settings)?;
            return Ok(examples.iter().map(examples::chat_line).collect());
        }
        let mut lines = export::lines(documents, &judges::probe::prompts(&settings)?, weights::find("wmt")?)?;
        draw::shuffle(seed, 0, &mut lines);
        lines.truncate(most);
        Ok(lines)
    }
}

fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<()> {
    if args.form == "chat-jsonl" && args.data.sample.is_some_and(|sample| sample.joined > 0) {
        bail!("joined segments are no units of `gmft`; hint: `--sample N`, or add `--as probe-jsonl`");
    }
    let split = args.data.split()?;
    for (file, documents, most) in
        [("train.jsonl", &split.train, args.limit), ("held_out.jsonl", &split.held_out, None)]
    {
        let lines = args.lines(documents, most.unwrap_or(usize::MAX))?;
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = write_in(&args.out, file, &text)?;
        writeln!(out, "{} examples\t{}", lines.len(), path.display())?;
    }
    split.files().iter().try_for_each(|(file, text)| write_in(&args.out, file, text).map(drop))
}
