//! `tribunal tune`: trains an adapter that makes a model a better judge, or writes the examples for another trainer.
//! What is trained and how is in the room `tune`; the arguments, the files and what is said are here.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{
    args::{EngineArgs, Pair, positive},
    input, panel,
    score::Begun,
};
use crate::{
    engine::Engine,
    judges::{Granularity, Settings},
    run::folder::hex,
    tune::{
        self, Module, Weights, draw,
        encoded::{self, Encoded},
        estimate,
        examples::{self, Example},
        forward::Upper,
        lora::{Adapters, Spec, module},
        lower::Lower,
        rated::{self, Document},
        split::{self, HoldOut, Split},
        state,
        train::{Event, Recipe, Training},
    },
};

mod dry_run;
mod held;
mod judged;
mod probe;
mod progress;

use judged::Jury;

/// Train an adapter on rated translations, so that a model judges better.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    data: DataArgs,
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
}

/// Write the examples that would be trained on.
#[derive(Clone, Debug, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    data: DataArgs,
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
    /// What an example is about: segments, documents, five documents
    #[arg(long, visible_alias = "units", default_values = ["seg", "doc", "5doc"], value_delimiter = ',')]
    granularity: Vec<Granularity>,
    /// The share of documents that is kept for testing, or a file of their names, `PAIR/DOC`, one a line
    #[arg(long, default_value = "0.2", value_name = "SHARE|FILE")]
    hold_out: String,
    /// Draws the split, the order of examples and the adapter's first numbers
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
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
    /// A folder whose files replace the prompt of `gmft`
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
}

/// How it is trained.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Training")]
struct RecipeArgs {
    /// Upper layers that get adapters; those below are computed once
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
    fn examples(&self, documents: &[Document], most: usize) -> Result<Vec<Example>> {
        let mut units = examples::units(documents, &self.granularity, self.seed);
        draw::shuffle(self.seed, 0, &mut units);
        units.truncate(most);
        let settings = Settings { prompts: self.prompts.clone(), ..Settings::default() };
        let judge = |granularity| examples::judge(granularity, &settings);
        let judges = self.granularity.iter().map(|&g| Ok((g, judge(g)?))).collect::<Result<Vec<_>>>()?;
        let panel = examples::empty_panel();
        let one = |unit: examples::Unit| {
            let judge = judges.iter().find(|(granularity, _)| *granularity == unit.granularity);
            let (_, judge) = judge.expect("units are of these granularities");
            Ok(examples::example(unit, judge, &panel)?)
        };
        units.into_iter().map(one).collect()
    }

    /// Examples as tokens, until there are `most`; those that are too long or have not the form are left out.
    fn encoded(&self, documents: &[Document], engine: &Engine, most: usize) -> Result<Vec<Encoded>> {
        let (mut encoded, mut too_long, mut unfit) = (Vec::new(), 0, 0);
        for example in self.examples(documents, most.saturating_mul(2))? {
            if encoded.len() == most {
                break;
            }
            match encoded::encode(engine, &example)? {
                Some(example) if example.ids.len() <= self.max_tokens => encoded.push(example),
                Some(_) => too_long += 1,
                None => unfit += 1,
            }
        }
        let most = self.max_tokens;
        for (n, why) in [
            (too_long, format!("have more than {most} tokens (`--max-tokens`)")),
            (unfit, "have answers that the judge's form does not allow".into()),
        ] {
            if n > 0 {
                say!("note: {n} examples are left out: they {why}");
            }
        }
        if encoded.is_empty() {
            bail!("no example is left; hint: `--max-tokens` above {most}, or other `--granularity`");
        }
        Ok(encoded)
    }
}

fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<()> {
    let split = args.data.split()?;
    let examples = args.data.examples(&split.train, args.data.max_examples.unwrap_or(usize::MAX))?;
    let lines: String =
        examples.iter().map(|example| format!("{}\n", examples::chat_line(example))).collect();
    state::replace(&args.out, lines.as_bytes())?;
    writeln!(out, "{} examples\t{}", examples.len(), args.out.display())?;
    Ok(())
}

/// A model with all examples.
struct Prepared {
    found: panel::Found,
    weights: Weights,
    examples: Vec<Encoded>,
    n_train: usize,
    recipe: Recipe,
    spec: Spec,
}

fn tune(args: &Args, begun: &Begun, out: &mut dyn Write) -> Result<()> {
    let folder = args.out.as_deref().context("`--out DIR` is missing")?;
    let split = args.data.split()?;
    let prepared = prepare(args, &split)?;
    let layers = args.recipe.layers;
    let config = prepared.weights.config();
    let adapters = Adapters::new(prepared.spec.clone(), config, args.data.seed)?;
    let rows = prepared.examples.iter().map(|e| e.ids.len()).max().unwrap_or(0);
    let rows = rows.max(prepared.recipe.max_rows);
    let needed = estimate::bytes(config, estimate::Size { layers, rows, n_adapted: adapters.n_values() });
    if let Some(free) = estimate::free() {
        // The judge of held-out translations has the model a second time.
        let engines = 1 + usize::from(args.data.test_translations > 0);
        estimate::check(needed + engines * prepared.weights.n_bytes(), free)?;
    }
    if args.dry_run {
        return dry_run::run(args, &prepared, &adapters, needed, out);
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    begun.writing.keeps(format!("the same command goes on from what is in `{}`", folder.display()));
    write_split(folder, &split)?;
    let measured = (args.data.test_translations, args.data.seed);
    let jury = Jury::new(&prepared.found, args.data.prompts.as_deref(), &split.held_out, measured)?;
    let trained = train(args, folder, &prepared, (&adapters, jury.as_ref()))?;
    progress::plot(folder)?;
    let adapter = {
        state::set(&adapters, &trained.best)?;
        adapters.export(&prepared.found.name)?
    };
    adapter.write(folder)?;
    write_card(args, folder, &prepared, &trained)?;
    let (loss, step) = trained.progress.best.context("the held-out loss was never measured")?;
    writeln!(out, "{}\theld-out loss {loss:.4} after step {step}", folder.display())?;
    if !trained.progress.is_over {
        say!("note: training is not over; the same command goes on");
    }
    say!("next: tribunal score --method gmft --model {} --adapter {}", args.model, folder.display());
    Ok(())
}

/// Opens the model for its tokenizer, and turns the examples into tokens.
fn prepare(args: &Args, split: &Split) -> Result<Prepared> {
    let found = panel::find(&args.model, None, &args.engine)?;
    let weights = Weights::open(&found.weights)?;
    let n_layers = weights.config().n_layers;
    if args.recipe.layers > n_layers {
        bail!("`--layers {}`: the model has {n_layers}", args.recipe.layers);
    }
    say!("reading examples ...");
    let engine = Engine::open(&found.weights, &found.options)?;
    let most = args.data.max_examples.unwrap_or(usize::MAX);
    let most = args.recipe.steps.map_or(most, |steps| most.min(steps * args.recipe.batch_examples));
    let mut examples = args.data.encoded(&split.train, &engine, most)?;
    let n_train = examples.len();
    examples.extend(args.data.encoded(&split.held_out, &engine, args.data.test_examples)?);
    let RecipeArgs { steps, epochs, batch_examples: batch, lr, every, patience, .. } = args.recipe;
    let n_steps = steps.unwrap_or(((n_train as f64 * epochs) / batch as f64).ceil() as usize).max(1);
    let recipe = Recipe {
        n_steps,
        batch,
        max_rows: 2048,
        rate: lr,
        warm_up: (n_steps / 20).max(1),
        weight_decay: 0.0,
        clip: 1.0,
        every,
        patience,
        seed: args.data.seed,
    };
    let spec = Spec {
        rank: args.recipe.rank,
        alpha: args.recipe.alpha,
        modules: args.recipe.modules.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
        dropout: args.recipe.dropout,
        first_layer: n_layers - args.recipe.layers,
    };
    Ok(Prepared { found, weights, examples, n_train, recipe, spec })
}

impl Prepared {
    /// What tells this training from others, and what the rows of the lower layers depend on.
    fn digests(&self) -> (String, String) {
        let mut hash = Sha256::new();
        hash.update(&self.found.files.sha256);
        hash.update(self.spec.first_layer.to_le_bytes());
        for example in &self.examples {
            hash.update((example.ids.len() as u64).to_le_bytes());
            example.ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
        }
        let rows = hex(&hash.clone().finalize());
        hash.update(format!("{:?} {:?} {}", self.recipe, self.spec, self.n_train));
        (hex(&hash.finalize()), rows[..16].to_owned())
    }

    fn training<'a>(
        &'a self,
        folder: &Path,
        upper: &'a Upper,
        adapters: &'a Adapters,
        examples: Vec<&'a Encoded>,
    ) -> Result<Training<'a>> {
        let (digest, rows) = self.digests();
        let first = self.spec.first_layer;
        let model = || Ok(self.found.options.device.load(&self.weights, self.found.options.compute)?);
        let mut told = progress::Rows::default();
        let hidden = self.weights.config().hidden;
        let mut tell = |done, all| told.tell(done, all);
        let lower = Lower::open(folder, &rows, &examples, (first, hidden), model, &mut tell)?;
        let n_train = self.n_train.min(examples.len());
        let state_path = folder.join("state.safetensors");
        Ok(Training {
            recipe: self.recipe.clone(),
            upper,
            adapters,
            lower,
            examples,
            n_train,
            state_path,
            digest,
        })
    }
}

fn train(
    args: &Args,
    folder: &Path,
    prepared: &Prepared,
    (adapters, jury): (&Adapters, Option<&Jury>),
) -> Result<state::State> {
    let examples: Vec<&Encoded> = prepared.examples.iter().collect();
    // The rows of the lower layers first: the model that makes them is gone when the upper layers are loaded.
    let upper = Upper::load(&prepared.weights, prepared.spec.first_layer)?;
    let mut training = prepared.training(folder, &upper, adapters, examples)?;
    let begun = Instant::now();
    let mut go_on =
        || args.recipe.max_hours.is_none_or(|hours| begun.elapsed().as_secs_f64() < hours * 3600.0);
    let mut told = progress::Table::open(folder, prepared.recipe.n_steps)?;
    let mut tell = |event: &Event| {
        told.tell(event)?;
        if let (Event::HeldOut { step, .. }, Some(jury)) = (event, jury) {
            let figures = jury.measure(adapters, folder);
            let failed =
                |e| tune::Error::Unsuitable(format!("held-out translations cannot be judged: {e:#}"));
            told.judged(*step, &figures.map_err(failed)?)?;
        }
        Ok(())
    };
    Ok(training.run(&mut tell, &mut go_on)?)
}

/// The documents of both kinds, and the hashes of what is trained on.
fn write_split(folder: &Path, split: &Split) -> Result<()> {
    let lines = |names: BTreeSet<String>| names.into_iter().map(|name| name + "\n").collect::<String>();
    let names = |documents: &[Document]| lines(documents.iter().map(Document::name).collect());
    for (file, text) in [
        ("held_out.txt", names(&split.held_out)),
        ("trained.txt", names(&split.train)),
        (crate::segment::trained::FILE, lines(split::sources(&split.train))),
    ] {
        state::replace(&folder.join(file), text.as_bytes())?;
    }
    Ok(())
}

/// What the adapter is and how it came about, for people and for a run's warnings.
fn write_card(args: &Args, folder: &Path, prepared: &Prepared, trained: &state::State) -> Result<()> {
    let Spec { rank, alpha, modules, dropout, first_layer } = &prepared.spec;
    let pairs: Vec<&str> = args.data.pair.iter().map(|pair| pair.given.as_str()).collect();
    let modules: Vec<&str> = modules.iter().map(|module| module.name()).collect();
    let card = serde_json::json!({
        "method": "gmft",
        "model": prepared.found.name,
        "sha256": prepared.found.files.sha256,
        "pairs": pairs,
        "granularity": args.data.granularity.iter().map(|g| g.name()).collect::<Vec<_>>(),
        "examples": prepared.n_train,
        "hold_out": args.data.hold_out,
        "seed": args.data.seed,
        "rank": rank, "alpha": alpha, "modules": modules, "dropout": dropout, "first_layer": first_layer,
        "recipe": prepared.recipe,
        "steps": trained.progress.step,
        "held_out_loss": trained.progress.best,
    });
    let text = serde_json::to_string_pretty(&card)? + "\n";
    state::replace(&folder.join("training.json"), text.as_bytes())?;
    Ok(())
}
