//! `tribunal tune score`: trains an adapter of the layers below a probe's depth so that the fit's maps read the raters'
//! score off their states; `tribunal tune probe --adapter` then fits the maps again.

use std::{io::Write, path::PathBuf};

use anyhow::{Result, bail};

use super::{
    DataArgs, EngineArgs, RecipeArgs, panel,
    prepared::Prepared,
    probe::{Systems, read_missing},
    training::{self, Conduct},
};
use crate::{
    engine::Engine,
    judges::{
        Model, Settings,
        probe::{self, fit::Fit},
        registry,
    },
    mqm::weights,
    tune::{
        Weights,
        rated::Document,
        scores::{Scores, Subject},
        split::Split,
    },
};

/// Train an adapter so that a fit of the judge `probe` scores better.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    systems: Systems,
    #[command(flatten)]
    recipe: RecipeArgs,
    /// What `tribunal tune probe` wrote, with the same data and `--hold-out`; `auto` for the fit that comes with the
    /// program
    #[arg(long, default_value = "auto", value_name = "FILE.json|auto")]
    fit: String,
    /// The model that the fit was made for: a card, a GGUF file, a safetensors folder
    #[arg(long, default_value = "qwen2.5-coder-0.5b-instruct", value_name = "CARD|PATH")]
    model: String,
    /// The folder for the adapter and for what training goes on from when it was stopped
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The folder that keeps what the model has read, as `tribunal tune probe` does; by default beside the adapter
    #[arg(long, value_name = "DIR")]
    readings: Option<PathBuf>,
    /// Only say what it would take: examples, memory, hours
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs `tribunal tune score`.
///
/// # Errors
/// Data that cannot be read or does not fit, a fit of another model, a split that leaks, too little memory.
pub(super) fn run(args: &Args, begun: &super::Begun, out: &mut dyn Write) -> Result<()> {
    let mut split = args.systems.of(args.data.split()?)?;
    let fit = match args.fit.as_str() {
        "auto" => Fit::built_in(),
        path => Fit::open(path.as_ref()),
    }?;
    check_leak(&fit, &split)?;
    split.train = new_to(&fit, split.train);
    let prepared = prepare(args, &fit, &split, begun)?;
    let conduct =
        Conduct { folder: &args.out, is_dry: args.dry_run, max_hours: args.recipe.max_hours, begun };
    if training::run(&prepared, &split, &args.data, &conduct, out)? {
        say!(
            "next: tribunal tune probe --adapter {} --model {} --out FIT.json, with the same data",
            args.out.display(),
            args.model
        );
    }
    Ok(())
}

fn prepare(args: &Args, fit: &Fit, split: &Split, begun: &super::Begun) -> Result<Prepared> {
    let found = panel::find(&args.model, None, &args.engine)?;
    let settings = Settings { prompts: args.data.prompts.clone(), ..Settings::default() };
    let prompts = probe::prompts(&settings)?;
    fit.check_prompts(prompts.hash())?;
    fit.check_model(&Model { name: found.name.clone(), sha256: found.sha256.clone() })?;
    let layers = args.recipe.layers_below(fit.depth)?;
    let weights = Weights::open(&found.weights)?;
    let folder = args.readings.clone().unwrap_or_else(|| args.out.with_extension("readings"));
    let engine = Engine::open(&found.weights, &found.options)?;
    let about = (found.sha256.as_str(), weights.config().hidden);
    let documents = [&split.train[..], &split.held_out[..]];
    let open = || Ok(engine.clone());
    let mut readings = read_missing(&folder, about, (&prompts, fit.depth), documents, begun, open)?;
    let subject = Subject {
        fit,
        prompts: &prompts,
        weights: weights::find("wmt")?,
        max_tokens: args.data.max_tokens,
        seed: args.data.seed,
    };
    let most = args.data.max_examples.unwrap_or(usize::MAX);
    let train = Scores::new(&split.train, most, &engine, &mut readings, &subject)?;
    let held_out = Scores::new(&split.held_out, args.data.test_examples, &engine, &mut readings, &subject)?;
    let counts = [("trained on", &train), ("held out", &held_out)].map(|(name, scores)| {
        (name.to_owned(), format!("{} sources, {} translations", scores.n_sources(), scores.n_translations()))
    });
    let n_train = train.n_sources();
    if n_train == 0 || held_out.n_sources() == 0 {
        bail!("no rated translation is left to train on or to test on; hint: `--max-tokens`, `--hold-out`");
    }
    Ok(Prepared {
        weights,
        task: Box::new(train.followed_by(held_out)),
        n_train,
        // A source's translations go through the layers together, its prompt once.
        recipe: args.recipe.recipe(n_train, 1, args.data.seed),
        spec: args.recipe.spec(layers),
        judge: registry::build(&format!("probe:fit={}", args.fit), &settings)?.judge,
        counts: counts.into(),
        card: vec![("method", "probe".into()), ("fit", fit.hash().into())],
        found,
    })
}

/// The documents that the fit was not made on, where there are any: on its own the fit's errors are too small.
fn new_to(fit: &Fit, documents: Vec<Document>) -> Vec<Document> {
    let trained = fit.trained_on();
    let is_new =
        |document: &Document| !document.segments.iter().any(|rated| trained.knows(&rated.segment.source));
    let (new, known): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_new);
    if new.is_empty() {
        say!(
            "note: the fit was made on all that is trained on, where its errors are smaller than elsewhere; hint: a fit of \
             half the documents (docs/tuning.md)"
        );
        return known;
    }
    if !known.is_empty() {
        let (n, all) = (new.len(), new.len() + known.len());
        say!("note: training takes the {n} of {all} translated documents that the fit was not made on");
    }
    new
}

/// What is held out must be new to the fit too.
fn check_leak(fit: &Fit, split: &Split) -> Result<()> {
    let trained = fit.trained_on();
    let mut segments = split.held_out.iter().flat_map(|document| {
        document.segments.iter().map(move |rated| (document.name(), &rated.segment.source))
    });
    if let Some((name, _)) = segments.find(|(_, source)| trained.knows(source)) {
        bail!(
            "document `{name}` is held out, but the fit was made on its text; hint: `--hold-out` and `--seed` as they \
             were when the fit was made"
        );
    }
    Ok(())
}
