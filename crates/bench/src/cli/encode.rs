//! `tribunal-bench encode`: texts per second of an encoder.

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use serde_json::json;

use crate::{
    console::{loading, table::Table},
    eval::{ModelSpec, Resources},
    throughput,
};

/// Options of `encode`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelSpec,
    #[command(flatten)]
    engine: Resources,
    /// How many texts, of 10 to 100 tokens each
    #[arg(long, value_name = "N", default_value_t = 256)]
    texts: usize,
    /// How many texts are encoded in parallel
    #[arg(long, value_name = "B,B", value_delimiter = ',', default_value = "8,64")]
    rows: Vec<usize>,
    /// How often to repeat; the best run counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command; results go to `out`.
///
/// # Errors
/// A model that cannot be run or is not an encoder.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let opened = loading::open(&args.model, &args.engine)?;
    let measure = |&batch: &usize| throughput::encode(&opened.engine, args.texts, batch, args.repeats);
    let results = args.rows.iter().map(measure).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        writeln!(out, "{}", json!({"model": opened.full_name(), "encode": results}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |result: &throughput::Encoding| {
        let tokens_per_s = result.tokens as f64 / result.seconds;
        [result.batch.to_string(), format!("{:.1}", result.texts_per_s), format!("{tokens_per_s:.0}")]
    };
    let table = Table::from_rows(["in parallel", "texts/s", "tokens/s"], results.iter().map(row));
    writeln!(out, "{}, {} texts of 10 to 100 tokens\n{table}", opened.full_name(), args.texts)?;
    Ok(ExitCode::SUCCESS)
}
