//! `tribunal tune`: what a judge is fitted on. It fits the maps of the judge `probe`, and writes the examples that a trainer
//! learns the judge `gmft` from. What is fitted and how is in the room `tune`; the arguments, the files and what is said
//! are here.

use std::{collections::BTreeSet, io::Write, path::Path, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};

use super::{
    args::{EngineArgs, Pair, positive},
    input, panel,
    prepare::Begun,
};
use crate::{
    files,
    judges::{Granularity, Settings},
    segment::trained,
    tune::{
        draw,
        examples::{self, Example},
        rated::{self, Document},
        split::{self, HoldOut, Split},
    },
};

mod agreement;
mod probe;

/// Fit a judge on rated translations, or write the examples that another program trains one on.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Fit the judge `probe`: maps from the model's hidden states to ratings, in closed form
    Probe(Box<probe::Args>),
    /// Write the examples that a trainer learns the judge `gmft` from
    Export(Box<ExportArgs>),
}

/// Write the examples that a trainer learns the judge `gmft` from.
#[derive(Clone, Debug, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    data: DataArgs,
    /// What an example is about: segments, documents, five documents
    #[arg(long, visible_alias = "units", default_values = ["seg", "doc", "5doc"], value_delimiter = ',')]
    granularity: Vec<Granularity>,
    /// Write at most N examples to train on, drawn by the seed
    #[arg(long, value_name = "N", value_parser = positive)]
    limit: Option<usize>,
    /// chat-jsonl: `{"messages": [{"role", "content"}, ...]}`, one a line
    #[arg(long = "as", default_value = "chat-jsonl", value_parser = ["chat-jsonl"])]
    form: String,
    /// The folder to write: `train.jsonl`, `held_out.jsonl`, and which documents and sources are in them
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// What is learnt from.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Data")]
struct DataArgs {
    /// A folder in the layout of mt-metrics-eval with MQM ratings (`human-scores/LP.mqm.RATER.seg.rating`)
    #[arg(long, visible_alias = "data", value_name = "DIR")]
    testset: Option<PathBuf>,
    /// The MQM TSV of human raters, or JSON lines of rated segments
    #[arg(long, value_name = "FILE", conflicts_with = "testset")]
    input: Option<PathBuf>,
    /// Language pairs, one or several: `en-de`
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT", num_args = 1..)]
    pair: Vec<Pair>,
    /// The share of documents that is kept for testing, or a file of their names, `PAIR/DOC`, one a line
    #[arg(long, default_value = "0.2", value_name = "SHARE|FILE")]
    hold_out: String,
    /// Draws the split and the order of examples
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// A folder whose files replace the judge's prompt
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
}

/// Runs `tribunal tune`.
///
/// # Errors
/// Data that cannot be read or does not fit, a model that cannot be run, files that cannot be written.
pub fn run(args: &Args, begun: &Begun, out: &mut dyn Write) -> Result<ExitCode> {
    match &args.command {
        Command::Probe(args) => probe::run(args, begun, out)?,
        Command::Export(args) => export(args, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl DataArgs {
    fn documents(&self) -> Result<Vec<Document>> {
        let pairs: Vec<rated::Pair> =
            self.pair.iter().map(|pair| (pair.given.clone(), pair.src.clone(), pair.tgt.clone())).collect();
        match (&self.testset, &self.input) {
            (Some(_), _) if pairs.is_empty() => {
                bail!("the language pairs are missing; hint: add `-l en-de`, or several")
            }
            (Some(dir), _) => Ok(rated::testset(dir, &pairs)?),
            (None, Some(file)) => Ok(rated::file(file, pairs.first())?),
            (None, None) => {
                bail!("there is nothing to learn from; hint: add `--testset DIR` or `--input FILE`")
            }
        }
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
        let split = split::split(self.documents()?, &by)?;
        if !split.left_out.is_empty() {
            let n = split.left_out.len();
            say!("note: {n} documents are left out, because held-out documents have some of their text");
        }
        Ok(split)
    }

    /// The examples of some documents, in an order drawn by the seed.
    fn examples(
        &self,
        documents: &[Document],
        granularities: &[Granularity],
        most: usize,
    ) -> Result<Vec<Example>> {
        let mut units = examples::units(documents, granularities, self.seed);
        draw::shuffle(self.seed, 0, &mut units);
        units.truncate(most);
        let settings = Settings { prompts: self.prompts.clone(), ..Settings::default() };
        let judge = |granularity| examples::judge(granularity, &settings);
        let judges = granularities.iter().map(|&g| Ok((g, judge(g)?))).collect::<Result<Vec<_>>>()?;
        let panel = examples::empty_panel();
        let one = |unit: examples::Unit| {
            let judge = judges.iter().find(|(granularity, _)| *granularity == unit.granularity);
            let (_, judge) = judge.expect("units are of these granularities");
            Ok(examples::example(unit, judge, &panel)?)
        };
        units.into_iter().map(one).collect()
    }
}

fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<()> {
    let split = args.data.split()?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create `{}`", args.out.display()))?;
    for (file, documents, most) in
        [("train.jsonl", &split.train, args.limit), ("held_out.jsonl", &split.held_out, None)]
    {
        let examples = args.data.examples(documents, &args.granularity, most.unwrap_or(usize::MAX))?;
        let lines: String =
            examples.iter().map(|example| format!("{}\n", examples::chat_line(example))).collect();
        let path = args.out.join(file);
        files::write(&path, |file| file.write_all(lines.as_bytes()))?;
        writeln!(out, "{} examples\t{}", examples.len(), path.display())?;
    }
    write_split(&args.out, &split)?;
    Ok(())
}

/// The documents of both kinds, and the hashes of the sources that are trained on.
fn write_split(folder: &Path, split: &Split) -> Result<()> {
    let lines = |names: BTreeSet<String>| names.into_iter().map(|name| name + "\n").collect::<String>();
    let names = |documents: &[Document]| lines(documents.iter().map(Document::name).collect());
    for (file, text) in [
        ("held_out.txt", names(&split.held_out)),
        ("trained.txt", names(&split.train)),
        (trained::FILE, lines(split::sources(&split.train))),
    ] {
        files::write(&folder.join(file), |file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}
