//! `tribunal tune`: trains an adapter that makes a model a better judge, or writes the examples for another trainer.
//! What is trained and how is in the room `tune`; the arguments, the files and what is said are here.

use std::{collections::BTreeSet, io::Write, ops::Range, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};

use super::{
    args::{EngineArgs, Pair, positive},
    input, panel,
    score::Begun,
};
use crate::{
    engine::Engine,
    judges::{Granularity, Settings},
    tune::{
        Module, Weights,
        answers::Answers,
        draw,
        encoded::{self, Encoded},
        examples::{self, Example},
        lora::{Spec, module},
        rated::{self, Document},
        split::{self, HoldOut, Split},
        state,
        train::Recipe,
    },
};

mod dry_run;
mod held;
mod judged;
mod prepared;
mod probe;
mod progress;
mod score;
mod training;

use prepared::Prepared;
use training::Conduct;

/// Train an adapter on rated translations, so that a model judges better.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    units: UnitArgs,
    #[command(flatten)]
    amount: AmountArgs,
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The model to tune: a card, a GGUF file, a safetensors folder
    #[arg(long, default_value = "qwen2.5-coder-0.5b-instruct", value_name = "CARD|PATH")]
    model: String,
    /// The folder for the adapter and for what training goes on from when it was stopped
    #[arg(long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
    /// Only say what it would take: examples, tokens, memory, hours
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Write the examples that would be trained on, for another trainer
    Export(Box<ExportArgs>),
    /// Fit the judge `probe`: maps from the model's hidden states to ratings, in closed form
    Probe(Box<probe::Args>),
    /// Train an adapter so that a fit of the judge `probe` scores better
    Score(Box<score::Args>),
}

/// Write the examples that would be trained on.
#[derive(Clone, Debug, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    units: UnitArgs,
    /// Write this many examples at the most
    #[arg(long, value_name = "N", value_parser = positive)]
    max_examples: Option<usize>,
    /// chat-jsonl: `{"messages": [{"role", "content"}, ...]}`, one a line
    #[arg(long = "as", default_value = "chat-jsonl", value_parser = ["chat-jsonl"])]
    form: String,
    /// The file to write
    #[arg(long, value_name = "FILE.jsonl")]
    out: PathBuf,
}

/// What is trained on.
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
    /// Draws the split, the order of examples and the adapter's first numbers
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// A folder whose files replace the judge's prompt
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
}

/// What examples are about.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Data")]
struct UnitArgs {
    /// What an example is about: segments, documents, five documents
    #[arg(long, visible_alias = "units", default_values = ["seg", "doc", "5doc"], value_delimiter = ',')]
    granularity: Vec<Granularity>,
}

/// How much of the data is taken.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Data")]
struct AmountArgs {
    /// Leave out examples of more tokens
    #[arg(long, default_value = "2048", value_name = "N", value_parser = positive)]
    max_tokens: usize,
    /// Train on this many examples at the most
    #[arg(long, value_name = "N", value_parser = positive)]
    max_examples: Option<usize>,
    /// Measure the loss on this many held-out examples
    #[arg(long, default_value = "48", value_name = "N", value_parser = positive)]
    test_examples: usize,
    /// Judge about this many held-out translations each time, for acc-t, Pearson and span F1; 0 for none
    #[arg(long, default_value_t = 48, value_name = "N")]
    test_translations: usize,
}

/// How it is trained.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Training")]
struct RecipeArgs {
    /// How many layers get adapters, counted down from the last one that is needed; those below are computed once
    #[arg(long, default_value = "8", value_name = "N", value_parser = positive)]
    layers: usize,
    /// Rank of the adapters
    #[arg(long, default_value = "16", value_name = "N", value_parser = positive)]
    rank: usize,
    /// What an adapter adds is multiplied by this and divided by its rank
    #[arg(long, default_value_t = 32.0, value_name = "X")]
    alpha: f64,
    /// Matrices that get adapters
    #[arg(long, default_values = ["q", "k", "v", "o", "gate", "up", "down"], value_delimiter = ',', value_parser = module)]
    modules: Vec<Module>,
    /// The share of an adapter's inputs that a step leaves out
    #[arg(long, default_value = "0.05", value_name = "P", value_parser = share)]
    dropout: f32,
    /// The greatest learning rate
    #[arg(long, default_value_t = 2e-4, value_name = "X")]
    lr: f64,
    /// Examples of one step
    #[arg(long, default_value = "16", value_name = "N", value_parser = positive)]
    batch_examples: usize,
    /// How often each example is taken
    #[arg(long, default_value_t = 2.0, value_name = "X")]
    epochs: f64,
    /// Steps, whatever the epochs
    #[arg(long, value_name = "N", value_parser = positive)]
    steps: Option<usize>,
    /// Stop after so many hours; the same command goes on
    #[arg(long, value_name = "H")]
    max_hours: Option<f64>,
    /// Steps between two measurements on held-out text
    #[arg(long, default_value = "25", value_name = "N", value_parser = positive)]
    every: usize,
    /// Measurements without a lower loss after which training stops
    #[arg(long, default_value = "4", value_name = "N", value_parser = positive)]
    patience: usize,
}

fn share(text: &str) -> Result<f32, String> {
    let share = text.parse().ok().filter(|p| (0.0..1.0).contains(p));
    share.ok_or_else(|| "it must be a number from 0 up to 1".into())
}

/// Runs `tribunal tune`.
///
/// # Errors
/// Data that cannot be read or does not fit, a model that cannot be run, too little memory.
pub fn run(args: &Args, begun: &Begun, out: &mut dyn Write) -> Result<ExitCode> {
    match &args.command {
        Some(Command::Export(args)) => export(args, out)?,
        Some(Command::Probe(args)) => probe::run(args, begun, out)?,
        Some(Command::Score(args)) => score::run(args, begun, out)?,
        None => tune(args, begun, out)?,
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
                bail!("there is nothing to train on; hint: add `--testset DIR` or `--input FILE`")
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
    fn examples(&self, documents: &[Document], about: &UnitArgs, most: usize) -> Result<Vec<Example>> {
        let mut units = examples::units(documents, &about.granularity, self.seed);
        draw::shuffle(self.seed, 0, &mut units);
        units.truncate(most);
        let settings = Settings { prompts: self.prompts.clone(), ..Settings::default() };
        let judge = |granularity| examples::judge(granularity, &settings);
        let judges = about.granularity.iter().map(|&g| Ok((g, judge(g)?))).collect::<Result<Vec<_>>>()?;
        let panel = examples::empty_panel();
        let one = |unit: examples::Unit| {
            let judge = judges.iter().find(|(granularity, _)| *granularity == unit.granularity);
            let (_, judge) = judge.expect("units are of these granularities");
            Ok(examples::example(unit, judge, &panel)?)
        };
        units.into_iter().map(one).collect()
    }

    /// Examples as tokens, until there are `most`; those that are too long or have not the form are left out.
    fn encoded(
        &self,
        documents: &[Document],
        engine: &Engine,
        (about, max_tokens, most): (&UnitArgs, usize, usize),
    ) -> Result<Vec<Encoded>> {
        let (mut encoded, mut too_long, mut unfit) = (Vec::new(), 0, 0);
        for example in self.examples(documents, about, most.saturating_mul(2))? {
            if encoded.len() == most {
                break;
            }
            match encoded::encode(engine, &example)? {
                Some(example) if example.ids.len() <= max_tokens => encoded.push(example),
                Some(_) => too_long += 1,
                None => unfit += 1,
            }
        }
        for (n, why) in [
            (too_long, format!("have more than {max_tokens} tokens (`--max-tokens`)")),
            (unfit, "have answers that the judge's form does not allow".into()),
        ] {
            if n > 0 {
                say!("note: {n} examples are left out: they {why}");
            }
        }
        if encoded.is_empty() {
            bail!("no example is left; hint: `--max-tokens` above {max_tokens}, or other `--granularity`");
        }
        Ok(encoded)
    }
}

fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<()> {
    let split = args.data.split()?;
    let examples = args.data.examples(&split.train, &args.units, args.max_examples.unwrap_or(usize::MAX))?;
    let lines: String =
        examples.iter().map(|example| format!("{}\n", examples::chat_line(example))).collect();
    state::replace(&args.out, lines.as_bytes())?;
    writeln!(out, "{} examples\t{}", examples.len(), args.out.display())?;
    Ok(())
}

/// Trains a judge that gives answers.
fn tune(args: &Args, begun: &Begun, out: &mut dyn Write) -> Result<()> {
    let folder = args.out.as_deref().context("`--out DIR` is missing")?;
    let split = args.data.split()?;
    let prepared = prepare(args, &split)?;
    let conduct = Conduct {
        folder,
        is_dry: args.dry_run,
        max_hours: args.recipe.max_hours,
        test_translations: args.amount.test_translations,
        begun,
    };
    if training::run(&prepared, &split, &args.data, &conduct, out)? {
        say!("next: tribunal score --method gmft --model {} --adapter {}", args.model, folder.display());
    }
    Ok(())
}

/// Opens the model for its tokenizer, and turns the examples into tokens.
fn prepare(args: &Args, split: &Split) -> Result<Prepared> {
    let found = panel::find(&args.model, None, &args.engine)?;
    let weights = Weights::open(&found.weights)?;
    weights.check(&found.options.hashed)?;
    let n_layers = weights.config().n_layers;
    let layers = args.recipe.layers_below(n_layers)?;
    say!("reading examples ...");
    let engine = Engine::open(&found.weights, &found.options)?;
    let AmountArgs { max_tokens, max_examples, test_examples, .. } = args.amount;
    let most = max_examples.unwrap_or(usize::MAX);
    let most = args.recipe.steps.map_or(most, |steps| most.min(steps * args.recipe.batch_examples));
    let train = args.data.encoded(&split.train, &engine, (&args.units, max_tokens, most))?;
    let held_out = args.data.encoded(&split.held_out, &engine, (&args.units, max_tokens, test_examples))?;
    let counts = counts(&args.units.granularity, &train, &held_out);
    let n_train = train.len();
    let settings = Settings { prompts: args.data.prompts.clone(), ..Settings::default() };
    let granularity: Vec<&str> = args.units.granularity.iter().map(|g| g.name()).collect();
    Ok(Prepared {
        found,
        weights,
        task: Box::new(Answers([train, held_out].concat())),
        n_train,
        recipe: args.recipe.recipe(n_train, 2048, args.data.seed),
        spec: args.recipe.spec(layers),
        judge: Box::new(examples::judge(Granularity::Seg, &settings)?),
        counts,
        card: vec![("method", "gmft".into()), ("granularity", granularity.into())],
    })
}

/// What is trained on, in names and values.
fn counts(granularity: &[Granularity], train: &[Encoded], held_out: &[Encoded]) -> Vec<(String, String)> {
    let of = |granularity: &Granularity| {
        let n = |examples: &[Encoded]| examples.iter().filter(|e| e.granularity == *granularity).count();
        (granularity.to_string(), format!("{} examples, {} held out", n(train), n(held_out)))
    };
    let tokens: usize = train.iter().map(|e| e.ids.len()).sum();
    let answers: usize = train.iter().map(|e| e.targets().len()).sum();
    let tokens = ("tokens".to_owned(), format!("{tokens}, {answers} of them answers"));
    granularity.iter().map(of).chain([tokens]).collect()
}

impl RecipeArgs {
    /// The layers that are trained, of those below `end`.
    fn layers_below(&self, end: usize) -> Result<Range<usize>> {
        match end.checked_sub(self.layers) {
            Some(first) => Ok(first..end),
            None => bail!("`--layers {}`: there are {end} that can be trained", self.layers),
        }
    }

    fn recipe(&self, n_train: usize, max_rows: usize, seed: u64) -> Recipe {
        let batch = self.batch_examples;
        let n_steps = self.steps.unwrap_or(((n_train as f64 * self.epochs) / batch as f64).ceil() as usize);
        let n_steps = n_steps.max(1);
        Recipe {
            n_steps,
            batch,
            max_rows,
            rate: self.lr,
            warm_up: (n_steps / 20).max(1),
            weight_decay: 0.0,
            clip: 1.0,
            every: self.every,
            patience: self.patience,
            seed,
        }
    }

    fn spec(&self, layers: Range<usize>) -> Spec {
        let modules = self.modules.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        Spec { rank: self.rank, alpha: self.alpha, modules, dropout: self.dropout, layers }
    }
}
