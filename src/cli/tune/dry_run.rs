//! What a training would take: examples, tokens, memory, disk, hours.

use std::{io::Write, path::Path, time::Instant};

use anyhow::Result;

use super::prepared::Prepared;
use crate::tune::{
    estimate,
    forward::Upper,
    lora::Adapters,
    lower::Places,
    task::{First, Task},
};

/// What it would take, from a short trial.
pub(super) fn run(
    prepared: &Prepared,
    adapters: &Adapters,
    needed: usize,
    out: &mut dyn Write,
) -> Result<()> {
    for (name, value) in &prepared.counts {
        writeln!(out, "{name}\t{value}")?;
    }
    writeln!(out, "adapters\t{} numbers", adapters.n_values())?;
    writeln!(out, "memory\t{}", estimate::gib(needed))?;
    let folder = std::env::temp_dir().join(format!("tribunal-tune-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = trial(prepared, adapters, &folder);
    std::fs::remove_dir_all(&folder)?;
    let (lower, upper, rows) = measured?;
    let n_steps = prepared.recipe.n_steps;
    let n_rows = Places::new(&prepared.task.texts()).n_rows;
    let hours = (n_rows as f64 / lower + n_steps as f64 * rows as f64 / upper) / 3600.0;
    writeln!(out, "pace\t{lower:.0} tokens/s below, {upper:.0} above, by a short trial")?;
    writeln!(out, "disk\t{}", estimate::gib(n_rows * prepared.weights.config().hidden * 2))?;
    writeln!(out, "steps\t{n_steps}")?;
    writeln!(out, "hours\t{hours:.2}")?;
    Ok(())
}

/// Tokens a second through the lower layers and through the upper ones with their gradients, and tokens of a step.
fn trial(prepared: &Prepared, adapters: &Adapters, folder: &Path) -> Result<(f64, f64, usize)> {
    let first = First { task: &*prepared.task, n: prepared.recipe.batch };
    let upper = Upper::load(&prepared.weights, prepared.spec.layers.clone())?;
    let begun = Instant::now();
    let n_rows = Places::new(&first.texts()).n_rows;
    let mut training = prepared.training(folder, &first, (&upper, adapters))?;
    let lower = n_rows as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let rows = training.trial(1)?;
    Ok((lower, rows as f64 / begun.elapsed().as_secs_f64(), rows))
}
