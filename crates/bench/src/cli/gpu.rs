//! `tribunal-bench gpu`: arguments, tables, JSON.

use std::{io::Write, process::ExitCode};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::{
    console::table::Table,
    cuda::KernelTime,
    engine::{Device, DeviceError},
    eval::{Resources, models},
    gpu::{Bench, KernelTimes, Peak, Product, Sizes, Utilisation, WorkloadResult},
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
            "The model's shape ({}); its weights are seeded numbers, made on the GPU. After a colon: the format of \
             single products' weights ({})",
            shapes::names().join(", "),
            shapes::formats()
        )
    )]
    shape: Shape,
    /// Measurements; default: all but `kernels` and `tune`, and `products` on one GPU alone
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
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
    /// Every launch of a step by kernel, on one GPU
    Kernels,
    /// Alone: the fastest kernel of each product, as the program's table of them has it
    Tune,
}

/// Results of the measured parts.
#[derive(Serialize)]
struct Report<'a> {
    gpu: String,
    shape: &'a str,
    sizes: &'a Sizes,
    peak: Peak,
    #[serde(skip_serializing_if = "Option::is_none")]
    products: Option<Vec<Product>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill: Option<Vec<Utilisation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decode: Option<Vec<Utilisation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<Vec<WorkloadResult>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chats: Option<WorkloadResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels: Option<Vec<KernelTimes>>,
}

fn known_shape(name: &str) -> Result<Shape, String> {
    Shape::named(name).map_err(|error| error.to_string())
}

/// Runs `tribunal-bench gpu`.
///
/// # Errors
/// If there is no GPU, or it cannot hold the shape.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let shape = &args.shape;
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
    let mut sizes = Sizes::from_shape(shape);
    if !args.rows.is_empty() {
        (sizes.product_rows, sizes.answers) = (args.rows.clone(), args.rows.clone());
    }
    sizes.n_documents = args.documents.unwrap_or(sizes.n_documents);
    let bench = Bench { gpu, shape, sizes, options: &options };
    let parts = parts(args, gpus.len())?;
    if parts.contains(&Part::Tune) {
        for line in bench.tuned()? {
            writeln!(out, "{line}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let peak = bench.peak()?;
    let wants = |part| parts.contains(&part);
    let report = Report {
        gpu: if gpus.len() > 1 { format!("{} x {}", gpus.len(), gpu.name()) } else { gpu.name().to_owned() },
        shape: &shape.name,
        sizes: &bench.sizes,
        peak,
        products: wants(Part::Products).then(|| bench.products(peak)).transpose()?,
        prefill: wants(Part::Prefill).then(|| bench.prefill(peak)).transpose()?,
        decode: wants(Part::Decode).then(|| bench.decode(peak)).transpose()?,
        documents: wants(Part::Documents).then(|| bench.documents()).transpose()?,
        chats: wants(Part::Chats).then(|| bench.chats()).transpose()?,
        kernels: wants(Part::Kernels).then(|| bench.kernels()).transpose()?,
    };
    if args.json {
        return super::print(&report, out);
    }
    report.print(out)?;
    Ok(ExitCode::SUCCESS)
}

/// The parts that are measured.
///
/// # Errors
/// A part that the shape or the number of GPUs does not allow, and options that `tune` does not take.
fn parts(args: &Args, n_gpus: usize) -> Result<Vec<Part>> {
    const ALL: [Part; 5] = [Part::Products, Part::Prefill, Part::Decode, Part::Documents, Part::Chats];
    let parts = if args.parts.is_empty() {
        ALL.into_iter().filter(|part| n_gpus == 1 || *part != Part::Products).collect()
    } else {
        args.parts.clone()
    };
    if args.shape.is_quantised() && parts.iter().any(|&part| part != Part::Products) {
        bail!(
            "`--shape {}` has a weight format, and only products are measured with one\nhint: add `--parts products`",
            args.shape.name
        );
    }
    if n_gpus > 1 && parts.iter().any(|part| matches!(part, Part::Products | Part::Kernels | Part::Tune)) {
        bail!(
            "products and kernels are measured on one GPU, not on {n_gpus} together\nhint: leave `--tensor-parallel` out"
        );
    }
    let has_others = parts.len() > 1 || args.json || !args.rows.is_empty() || args.documents.is_some();
    if parts.contains(&Part::Tune) && has_others {
        bail!(
            "`--parts tune` prints the lines of a table\nhint: leave other parts, --rows, --documents and --json out"
        );
    }
    Ok(parts)
}

/// The message without a usable GPU; that of the engine advises to run on a CPU.
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

impl Report<'_> {
    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let Peak { operations, bytes } = self.peak;
        let (operations, bytes) = (operations / 1e12, bytes / 1e9);
        let (shape, gpu) = (self.shape, &self.gpu);
        writeln!(out, "{shape} on {gpu}: mma.sync reaches {operations:.0} TFLOP/s, a copy {bytes:.0} GB/s")?;
        if let Some(products) = &self.products {
            writeln!(out, "{}", products_table(products))?;
        }
        if let Some(rows) = &self.prefill {
            let head = ["prompt", "tokens/s", "of the peak"];
            writeln!(out, "{}", utilisation_table(head, rows, |s| s.throughput.prompt))?;
        }
        if let Some(rows) = &self.decode {
            let head = ["answers", "tokens/s", "of the bandwidth"];
            writeln!(out, "{}", utilisation_table(head, rows, |s| s.throughput.batch))?;
            for note in rows.iter().filter_map(|row| row.note.as_ref()) {
                writeln!(out, "note: {note}")?;
            }
        }
        let workloads: Vec<&WorkloadResult> = self.documents.iter().flatten().chain(&self.chats).collect();
        if !workloads.is_empty() {
            writeln!(out, "{}", workloads_table(&workloads))?;
        }
        for times in self.kernels.iter().flatten() {
            writeln!(out, "{}:\n{}", times.work, kernels_table(times))?;
        }
        Ok(())
    }
}

fn products_table(products: &[Product]) -> Table {
    let row = |p: &Product| {
        [
            p.name.to_owned(),
            format!("{} x {} x {}", p.m, p.n, p.k),
            format!("{:.1}", p.seconds * 1e6),
            format!("{:.1}", (2 * p.m * p.n * p.k) as f64 / p.seconds / 1e12),
            format!("{:.2}", p.of_peak),
            format!("{:.2}", p.of_memory),
        ]
    };
    let head = ["product", "m x n x k", "us", "TFLOP/s", "of the peak", "of the bandwidth"];
    Table::from_rows(head, products.iter().map(row))
}

fn utilisation_table(head: [&str; 3], rows: &[Utilisation], key: impl Fn(&Utilisation) -> usize) -> Table {
    let cells = |row: &Utilisation| {
        let speed = format!("{:.0}", row.throughput.tokens_per_s);
        [key(row).to_string(), speed, format!("{:.2}", row.of_limit)]
    };
    Table::from_rows(head, rows.iter().map(cells))
}

fn kernels_table(times: &KernelTimes) -> Table {
    let all: f64 = times.kernels.iter().map(|time| time.seconds).sum();
    let row = |time: &KernelTime| {
        let each = time.seconds / time.launches.max(1) as f64;
        let seconds = [each * 1e6, time.seconds * 1e3].map(|time| format!("{time:.1}"));
        let [each, together] = seconds;
        let share = format!("{:.3}", time.seconds / all.max(f64::MIN_POSITIVE));
        [time.kernel.to_owned(), time.launches.to_string(), each, together, share]
    };
    Table::from_rows(["kernel", "launches", "us each", "ms", "share"], times.kernels.iter().map(row))
}

fn workloads_table(workloads: &[&WorkloadResult]) -> Table {
    let mut table = Table::new();
    table.head(["requests", "number", "seconds", "requests/s", "answer tokens/s", "computed of prompts"]);
    for workload in workloads {
        table.row([
            workload.name.clone(),
            workload.requests.to_string(),
            format!("{:.2}", workload.seconds),
            format!("{:.1}", workload.requests_per_s),
            format!("{:.0}", workload.answer_tokens_per_s),
            format!("{} of {}", workload.computed_prompt_tokens, workload.prompt_tokens),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn measured(options: &[&str], n_gpus: usize) -> Result<Vec<Part>, String> {
        let line = Line::try_parse_from(["gpu"].iter().chain(options)).unwrap();
        parts(&line.args, n_gpus).map_err(|error| error.to_string())
    }

    #[test]
    fn products_are_measured_on_one_gpu() {
        assert_eq!(measured(&[], 1).unwrap().len(), 5);
        assert!(!measured(&[], 2).unwrap().contains(&Part::Products));
        let error = measured(&["--parts", "products,prefill"], 2).unwrap_err();
        assert!(
            error.starts_with("products and kernels are measured on one GPU, not on 2 together"),
            "{error}"
        );
    }

    #[test]
    fn tune_takes_no_other_option() {
        assert_eq!(measured(&["--parts", "tune"], 1).unwrap(), [Part::Tune]);
        for option in [&["--rows", "4"][..], &["--documents", "3"], &["--json"]] {
            let error = measured(&[&["--parts", "tune"], option].concat(), 1).unwrap_err();
            assert!(error.contains("leave other parts, --rows"), "{error}");
        }
    }
}
