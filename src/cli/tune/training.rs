//! A training from what was prepared to the adapter: memory, the files beside the adapter, and what is said along the way.
//! What is learnt is known elsewhere.

use std::{collections::BTreeSet, io::Write, path::Path, time::Instant};

use anyhow::{Context, Result};
use serde_json::json;

use super::{Begun, DataArgs, dry_run, judged::Jury, prepared::Prepared, progress};
use crate::tune::{
    self, estimate,
    forward::Upper,
    lora::{Adapters, Spec},
    rated::Document,
    split::{self, Split},
    state::{self, State},
    train::Event,
};

/// How a training is run.
pub struct Conduct<'a> {
    pub folder: &'a Path,
    pub is_dry: bool,
    pub max_hours: Option<f64>,
    /// Held-out translations that are judged each time.
    pub test_translations: usize,
    pub begun: &'a Begun,
}

/// Trains, or says what it would take; whether there is an adapter now.
///
/// # Errors
/// Too little memory, files that cannot be written, a model that cannot be run.
pub fn run(
    prepared: &Prepared,
    split: &Split,
    data: &DataArgs,
    conduct: &Conduct<'_>,
    out: &mut dyn Write,
) -> Result<bool> {
    let folder = conduct.folder;
    let adapters = Adapters::new(prepared.spec.clone(), prepared.weights.config(), data.seed)?;
    let needed = prepared.memory(&adapters);
    if let Some(free) = estimate::free() {
        // The judge of held-out translations has the model a second time.
        let engines = 1 + usize::from(conduct.test_translations > 0);
        estimate::check(needed + engines * prepared.weights.n_bytes(), free)?;
    }
    if conduct.is_dry {
        dry_run::run(prepared, &adapters, needed, out)?;
        return Ok(false);
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    conduct.begun.writing.keeps(format!("the same command goes on from what is in `{}`", folder.display()));
    write_split(folder, split)?;
    let jury = Jury::new(
        (&prepared.found, &*prepared.judge),
        &split.held_out,
        (conduct.test_translations, data.seed),
    )?;
    let trained = train(prepared, &adapters, jury.as_ref(), conduct)?;
    progress::plot(folder)?;
    state::set(&adapters, &trained.best)?;
    adapters.export(&prepared.found.name)?.write(folder)?;
    write_card(folder, prepared, data, &trained)?;
    let (loss, step) = trained.progress.best.context("the held-out loss was never measured")?;
    writeln!(out, "{}\theld-out loss {loss:.4} after step {step}", folder.display())?;
    if !trained.progress.is_over {
        say!("note: training is not over; the same command goes on");
    }
    Ok(true)
}

fn train(
    prepared: &Prepared,
    adapters: &Adapters,
    jury: Option<&Jury>,
    conduct: &Conduct<'_>,
) -> Result<State> {
    // The rows of the lower layers first: the model that makes them is gone when the upper layers are loaded.
    let upper = Upper::load(&prepared.weights, prepared.spec.layers.clone())?;
    let mut training = prepared.training(conduct.folder, &*prepared.task, (&upper, adapters))?;
    let begun = Instant::now();
    let mut go_on = || conduct.max_hours.is_none_or(|hours| begun.elapsed().as_secs_f64() < hours * 3600.0);
    let mut told = progress::Table::open(conduct.folder, prepared.recipe.n_steps)?;
    let mut tell = |event: &Event| {
        told.tell(event)?;
        if let (Event::HeldOut { step, .. }, Some(jury)) = (event, jury) {
            let figures = jury.measure(adapters, conduct.folder);
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
fn write_card(folder: &Path, prepared: &Prepared, data: &DataArgs, trained: &State) -> Result<()> {
    let Spec { rank, alpha, modules, dropout, layers } = &prepared.spec;
    let pairs: Vec<&str> = data.pair.iter().map(|pair| pair.given.as_str()).collect();
    let modules: Vec<&str> = modules.iter().map(|module| module.name()).collect();
    let mut card = json!({
        "model": prepared.found.name,
        "sha256": prepared.found.files.sha256,
        "pairs": pairs,
        "examples": prepared.n_train,
        "hold_out": data.hold_out,
        "seed": data.seed,
        "rank": rank, "alpha": alpha, "modules": modules, "dropout": dropout,
        "layers": [layers.start, layers.end],
        "recipe": prepared.recipe,
        "steps": trained.progress.step,
        "held_out_loss": trained.progress.best,
    });
    for (name, value) in &prepared.card {
        card[*name] = value.clone();
    }
    state::replace(&folder.join("training.json"), (serde_json::to_string_pretty(&card)? + "\n").as_bytes())?;
    Ok(())
}
