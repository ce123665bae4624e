//! `tribunal-bench gpu`: arguments, tables, JSON.

use std::{io::Write, process::ExitCode};

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

use crate::{
    console::table::Table,
    engine::{Device, DeviceError},
    eval::{Resources, models},
    gpu::{Bench, Load, Peak, Product, Sizes, Utilisation},
    shapes::{self, Shape},
};

/// Options of `tribunal-bench gpu`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[arg(
        long,
        value_name = "NAME[:FORMAT]",
        default_value = "qwen2.5-7b",
        value_parser = known_shape,
        help = format!(
            "The model's shape ({}); its weights are seeded numbers, made on the GPU. Behind a colon the format of \
             single products' weights ({})",
            shapes::names().join(", "),
            shapes::formats()
        )
    )]
    shape: String,
    /// The measurement
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "products,prefill,decode,documents,chats"
    )]
    parts: Vec<Part>,
    /// Rows of single products, and answers written at a time; default: what suits the shape
    #[arg(long, value_name = "M,M", value_delimiter = ',')]
    rows: Vec<usize>,
    /// How many documents are asked about
    #[arg(long, value_name = "N")]
    documents: Option<usize>,
    #[command(flatten)]
    engine: Resources,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Each product of a layer alone, on one GPU
    Products,
    /// Prompts, one at a time
    Prefill,
    /// Answers, with several numbers of them in parallel
    Decode,
    /// Questions about documents, with and without what they share
    Documents,
    /// Prompts of mixed lengths that share nothing
    Chats,
    /// Alone: the fastest kernel of each product, as the program's table of them has it
    Tune,
}

/// Results of the measured parts.
struct Report {
    gpu: String,
    peak: Peak,
    products: Option<Vec<Product>>,
    prefill: Option<Vec<Utilisation>>,
    decode: Option<Vec<Utilisation>>,
    documents: Option<Vec<Load>>,
    chats: Option<Load>,
}

fn known_shape(name: &str) -> Result<String, String> {
    Shape::named(name).map(|shape| shape.name).map_err(|error| error.to_string())
}

/// Runs `tribunal-bench gpu`.
///
/// # Errors
/// If there is no GPU, or it cannot hold the shape.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let shape = Shape::named(&args.shape)?;
    if let Err(reason) = Device::named("cuda") {
        bail!("{}", no_gpu(&reason));
    }
    let options = models::options(&args.engine)?;
    let gpus = options.device.gpus();
    let Some(gpu) = gpus.first() else {
        bail!(
            "`tribunal-bench gpu` measures a GPU, not `--device {}`\nhint: leave `--device` out",
            args.engine.device
        );
    };
    let mut sizes = Sizes::from_shape(&shape);
    if !args.rows.is_empty() {
        (sizes.product_rows, sizes.answers) = (args.rows.clone(), args.rows.clone());
    }
    sizes.n_documents = args.documents.unwrap_or(sizes.n_documents);
    let bench = Bench { gpu, shape: &shape, sizes, options: &options };
    check_parts(&args.parts, &bench)?;
    if args.parts.contains(&Part::Tune) {
        if args.parts.len() > 1 || args.json {
            bail!("`--parts tune` prints the lines of a table, and nothing beside them");
        }
        for line in bench.tuned()? {
            writeln!(out, "{line}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let peak = bench.peak()?;
    let wants = |part| args.parts.contains(&part);
    let report = Report {
        gpu: if gpus.len() > 1 { format!("{} x {}", gpus.len(), gpu.name()) } else { gpu.name().to_owned() },
        peak,
        products: (wants(Part::Products) && gpus.len() == 1).then(|| bench.products(peak)).transpose()?,
        prefill: wants(Part::Prefill).then(|| bench.prefill(peak)).transpose()?,
        decode: wants(Part::Decode).then(|| bench.decode(peak)).transpose()?,
        documents: wants(Part::Documents).then(|| bench.documents()).transpose()?,
        chats: wants(Part::Chats).then(|| bench.chats()).transpose()?,
    };
    if args.json {
        return super::print(&report.json(&shape, &bench.sizes), out);
    }
    report.print(&shape, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns an error for a part that this shape does not have.
fn check_parts(parts: &[Part], bench: &Bench<'_>) -> Result<()> {
    if bench.shape.is_quantised() && parts.iter().any(|&part| part != Part::Products) {
        bail!(
            "`--shape {}` has a weight format, and only products are measured with one\nhint: add `--parts products`",
            bench.shape.name
        );
    }
    Ok(())
}

/// The reason why no GPU can be used, without the advice to run on a CPU.
fn no_gpu(error: &DeviceError) -> String {
    let reason = match error {
        DeviceError::NotBuilt(_) => "this binary was built without CUDA".to_owned(),
        DeviceError::NoDevice { reason, .. } => format!("no CUDA device: {reason}"),
        other => other.to_string(),
    };
    format!(
        "`tribunal-bench gpu` needs a GPU: {reason}\nhint: call it where `nvidia-smi` lists one, with a build that has CUDA \
         (`scripts/cuda/build.sh`); `tribunal-bench ops` measures a CPU"
    )
}

impl Report {
    fn json(&self, shape: &Shape, sizes: &Sizes) -> Value {
        let mut all = Map::new();
        all.insert("gpu".into(), json!(self.gpu));
        all.insert("shape".into(), json!(shape.name));
        all.insert("sizes".into(), json!(sizes));
        all.insert("peak".into(), json!(self.peak));
        for (name, value) in [
            ("products", self.products.as_ref().map(|value| json!(value))),
            ("prefill", self.prefill.as_ref().map(|value| json!(value))),
            ("decode", self.decode.as_ref().map(|value| json!(value))),
            ("documents", self.documents.as_ref().map(|value| json!(value))),
            ("chats", self.chats.as_ref().map(|value| json!(value))),
        ] {
            all.extend(value.map(|value| (name.to_owned(), value)));
        }
        Value::Object(all)
    }

    fn print(&self, shape: &Shape, out: &mut dyn Write) -> Result<()> {
        let Peak { operations, bytes } = self.peak;
        writeln!(
            out,
            "{} on {}: mma.sync reaches {:.0} TFLOP/s, a copy {:.0} GB/s",
            shape.name,
            self.gpu,
            operations / 1e12,
            bytes / 1e9
        )?;
        if let Some(products) = &self.products {
            writeln!(out, "{}", products_table(products))?;
        }
        if let Some(rows) = &self.prefill {
            writeln!(out, "{}", prompts_table(rows))?;
        }
        if let Some(rows) = &self.decode {
            let head = ["answers", "tokens/s", "of the bandwidth"];
            writeln!(out, "{}", utilisation_table(head, rows, |s| s.throughput.batch))?;
            for note in rows.iter().filter_map(|row| row.note.as_ref()) {
                writeln!(out, "note: {note}")?;
            }
        }
        let loads: Vec<&Load> = self.documents.iter().flatten().chain(&self.chats).collect();
        if !loads.is_empty() {
            writeln!(out, "{}", loads_table(&loads))?;
        }
        Ok(())
    }
}

fn products_table(products: &[Product]) -> Table {
    let mut table = Table::new();
    table.head(["product", "m x n x k", "us", "TFLOP/s", "of the peak", "of the bandwidth"]);
    for p in products {
        table.row([
            p.name.to_owned(),
            format!("{} x {} x {}", p.m, p.n, p.k),
            format!("{:.1}", p.seconds * 1e6),
            format!("{:.1}", (2 * p.m * p.n * p.k) as f64 / p.seconds / 1e12),
            format!("{:.2}", p.of_peak),
            format!("{:.2}", p.of_memory),
        ]);
    }
    table
}

fn prompts_table(prompts: &[Utilisation]) -> Table {
    utilisation_table(["prompt", "tokens/s", "of the peak"], prompts, |row| row.throughput.prompt)
}

fn utilisation_table(head: [&str; 3], rows: &[Utilisation], key: impl Fn(&Utilisation) -> usize) -> Table {
    let mut table = Table::new();
    table.head(head);
    for row in rows {
        let speed = format!("{:.0}", row.throughput.tokens_per_s);
        table.row([key(row).to_string(), speed, format!("{:.2}", row.of_limit)]);
    }
    table
}

fn loads_table(loads: &[&Load]) -> Table {
    let mut table = Table::new();
    table.head(["requests", "number", "seconds", "requests/s", "answer tokens/s", "computed of prompts"]);
    for load in loads {
        table.row([
            load.name.clone(),
            load.requests.to_string(),
            format!("{:.2}", load.seconds),
            format!("{:.1}", load.requests_per_s),
            format!("{:.0}", load.answer_tokens_per_s),
            format!("{} of {}", load.computed_prompt_tokens, load.prompt_tokens),
        ]);
    }
    table
}
