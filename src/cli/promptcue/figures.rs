//! `tribunal promptcue describe` and `correlate`: RUBRIC-MQM's tables and figures that need no model. The
//! counts are in `meta`.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    cli::output::{Printed, write_in},
    console::table::Table,
    files,
    meta::{
        correlation::{kendall_b, pearson, spearman},
        distribution::summary,
        plot,
    },
    replication::promptcue::{
        describe::{Length, describe},
        gold, rubric,
    },
};

/// The set to count.
#[derive(Clone, Debug, clap::Args)]
pub struct DescribeArgs {
    /// The set: CSV or JSONL.
    #[arg(long, value_name = "FILE")]
    pub gold: PathBuf,
    #[command(flatten)]
    pub printed: Printed,
}

/// The answers to correlate.
#[derive(Clone, Debug, clap::Args)]
pub struct CorrelateArgs {
    /// Answers: JSONL with `review`, the answer in points, and the scores `sqm`, `mqm` and `gemba` of the
    /// same segment.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub answers: Vec<PathBuf>,
    /// Write scatter plots against the human scores as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    #[command(flatten)]
    pub printed: Printed,
}

/// Table 7.
pub fn describe_set(args: &DescribeArgs, out: &mut dyn Write) -> Result<()> {
    let set = describe(&gold::read(&args.gold)?);
    if args.printed.is_json() {
        writeln!(out, "{}", serde_json::to_string_pretty(&set)?)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.head(["", "n", "mean", "least", "most"]);
    let length = |name: &str, Length { mean, min, max }: Length| {
        [name.to_owned(), set.n.to_string(), format!("{mean:.2}"), min.to_string(), max.to_string()]
    };
    table.row(length("source, characters", set.source));
    table.row(length("target, words", set.target));
    for (label, n) in set.severities.iter().chain(&set.categories) {
        table.row([label.clone(), n.to_string(), String::new(), String::new(), String::new()]);
    }
    if !args.printed.table(&table, out)? {
        write!(out, "{table}")?;
    }
    Ok(())
}

/// Figures 4 and 5.
pub fn correlate(args: &CorrelateArgs, out: &mut dyn Write) -> Result<()> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let mut table = Table::new();
    table.head([
        "answers", "score", "n", "Pearson", "Spearman", "Kendall", "mean", "min", "25%", "50%", "75%", "max",
        "distinct",
    ]);
    let mut rows: Vec<Value> = Vec::new();
    for path in &args.answers {
        let columns = rubric::columns(&rubric::read(path)?);
        let name = files::stem(path);
        let (_, human) = columns.last().context("there are five columns")?;
        for (score, values) in &columns {
            let found = [pearson(human, values), spearman(human, values), kendall_b(human, values)];
            let found = found.map(|found| found.ok().map(|found| found.value));
            let spread = summary(values);
            let quartiles = spread.map_or([None; 5], |spread| spread.quartiles.map(Some));
            let head = [name.clone(), (*score).to_owned(), values.len().to_string()];
            let figures = found.into_iter().chain([spread.map(|spread| spread.mean)]).chain(quartiles);
            let distinct = spread.map_or_else(|| "-".to_owned(), |spread| spread.distinct.to_string());
            table.row(head.into_iter().chain(figures.map(number)).chain([distinct]));
            let [pearson, spearman, kendall] = found;
            rows.push(json!({
                "answers": name, "score": score, "n": values.len(), "pearson": pearson, "spearman": spearman,
                "kendall": kendall, "spread": spread,
            }));
        }
        if let Some(dir) = &args.plots {
            plots(dir, &name, &columns)?;
        }
    }
    if args.printed.is_json() {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else if !args.printed.table(&table, out)? {
        write!(out, "{table}")?;
    }
    Ok(())
}

/// Each score against the human one.
fn plots(dir: &Path, name: &str, columns: &[(&'static str, Vec<f64>); 5]) -> Result<()> {
    let [scores @ .., (_, human)] = columns;
    for (score, values) in scores {
        let svg = plot::scatter(&format!("{name} · {score}"), human, values, None);
        let path = write_in(dir, format!("{name}_{score}.svg"), &svg)?;
        say!("wrote {}", path.display());
    }
    Ok(())
}
