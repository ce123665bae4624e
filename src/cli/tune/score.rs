//! `tribunal tune score`: trains an adapter of the layers below a probe's depth so that the fit's maps read the raters'
//! score off their states; `tribunal tune probe --adapter` then fits the maps again.

use std::{io::Write, path::PathBuf};

use anyhow::{Result, bail};

use super::{
    AmountArgs, RecipeArgs, panel,
    prepared::Prepared,
    probe::{ReadingArgs, n_missing, read_missing},
    training::{self, Conduct},
};
use crate::{
    engine::Engine,
    judges::{
        Model, Settings,
        probe::{self, Probe, fit::Fit},
    },
    mqm::weights,
    segment::Segment,
    tune::{
        Weights,
        rated::Document,
        scores::{self, Chosen, Scores},
        split::Split,
    },
};

/// Train an adapter so that a fit of the judge `probe` scores better.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    amount: AmountArgs,
    #[command(flatten)]
    recipe: RecipeArgs,
    /// What `tribunal tune probe` wrote, of the same model and data with the same `--hold-out` or a larger one; `auto` for
    /// the fit that comes with the program
    #[arg(long, default_value = "auto", value_name = "FILE.json|auto")]
    fit: String,
    /// The folder for the adapter and for what training goes on from when it was stopped
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only say what it would take: examples, what is still to be read, memory, hours
    #[arg(long)]
    dry_run: bool,
}

/// Runs `tribunal tune score`.
///
/// # Errors
/// Data that cannot be read or does not fit, a fit of another model, a split that leaks, too little memory.
pub(super) fn run(args: &Args, begun: &super::Begun, out: &mut dyn Write) -> Result<()> {
    let data = &args.reading.data;
    let mut split = args.reading.systems.of(data.split()?)?;
    let fit = Fit::named(&args.fit)?;
    check_leak(&fit, &split)?;
    split.train = new_to(&fit, split.train);
    let prepared = prepare(args, fit, &split, begun)?;
    let conduct = Conduct {
        folder: &args.out,
        is_dry: args.dry_run,
        max_hours: args.recipe.max_hours,
        test_translations: args.amount.test_translations,
        begun,
    };
    if training::run(&prepared, &split, data, &conduct, out)? {
        say!(
            "next: tribunal tune probe --adapter {} --model {} --out FIT.json, with the same data",
            args.out.display(),
            args.reading.model
        );
    }
    Ok(())
}

fn prepare(args: &Args, fit: Fit, split: &Split, begun: &super::Begun) -> Result<Prepared> {
    let ReadingArgs { data, model, engine, .. } = &args.reading;
    let found = panel::find(model, None, engine)?;
    let settings = Settings { prompts: data.prompts.clone(), ..Settings::default() };
    let prompts = probe::prompts(&settings)?;
    fit.check_prompts(prompts.hash())?;
    fit.check_model(&Model { name: found.name.clone(), sha256: found.sha256.clone() })?;
    let layers = args.recipe.layers_below(fit.depth)?;
    let weights = Weights::open(&found.weights)?;
    weights.check(&found.options.hashed)?;
    let engine = Engine::open(&found.weights, &found.options)?;
    let choose = |documents, most| {
        scores::chosen(documents, (most, args.amount.max_tokens, data.seed), (&engine, &prompts))
    };
    let train = choose(&split.train[..], args.amount.max_examples.unwrap_or(usize::MAX))?;
    let held_out = choose(&split.held_out[..], args.amount.test_examples)?;
    let n_train = train.len();
    if n_train == 0 || held_out.is_empty() {
        bail!("no rated translation is left to train on or to test on; hint: `--max-tokens`, `--hold-out`");
    }
    let mut counts = counts(&train, &held_out);
    let segments: Vec<&Segment> =
        train.iter().chain(&held_out).flatten().map(|chosen| &chosen.rated.segment).collect();
    let folder = args.reading.readings.clone().unwrap_or_else(|| args.out.with_extension("readings"));
    let about = (found.sha256.as_str(), weights.config().hidden);
    let mut readings = if args.dry_run {
        let n = n_missing(&folder, about, (&prompts, fit.depth), &segments)?;
        counts.push((
            "to be read first".to_owned(),
            format!("{n} translations; the hours below are without them"),
        ));
        None
    } else {
        let open = || Ok(engine.clone());
        Some(read_missing(&folder, about, (&prompts, fit.depth), &segments, begun, open)?)
    };
    let subject = (&fit, &prompts, weights::find("wmt")?);
    let task = Scores::new(train, readings.as_mut(), subject)?;
    let task = task.followed_by(Scores::new(held_out, readings.as_mut(), subject)?);
    Ok(Prepared {
        weights,
        n_train,
        // A source's translations go through the layers together, its prompt once.
        recipe: args.recipe.recipe(n_train, 1, data.seed),
        spec: args.recipe.spec(layers),
        counts,
        card: vec![("method", "probe".into()), ("fit", fit.hash().into()), ("scores", task.digest().into())],
        task: Box::new(task),
        judge: Box::new(Probe::with(fit, &settings)?),
        found,
    })
}

/// What is trained on, in names and values.
fn counts(train: &[Vec<Chosen<'_>>], held_out: &[Vec<Chosen<'_>>]) -> Vec<(String, String)> {
    let of = |(name, sources): (&str, &[Vec<Chosen<'_>>])| {
        let n = sources.iter().map(Vec::len).sum::<usize>();
        (name.to_owned(), format!("{} sources, {n} translations", sources.len()))
    };
    [("trained on", train), ("held out", held_out)].map(of).into()
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
            "document `{name}` is held out, but the fit was made on its text; hint: the fit's own `--seed` and at \
             most its `--hold-out`"
        );
    }
    Ok(())
}
