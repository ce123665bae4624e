//! The command line of `tribunal-bench`: arguments, tables, JSON. It measures nothing.

mod candle;
mod encode;
mod gpu;

use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

use crate::{
    console::{
        args, loading,
        stream::{IgnoreBrokenPipe, explain, say},
        table::Table,
    },
    engine::{Format, keep_freed, n_threads},
    eval::{InputSpec, JudgeSpec, ModelSpec, Resources, SamplingSpec, input, models},
    files, invariance,
    judges::{Grouping, LanguageCheck, Preset},
    llm,
    machine::{self, Limits},
    ops::{self, Product},
    requests::{self, Request},
    run::groups::groups,
    seeded,
    segment::{Segment, read::Input},
    shapes::Shape,
    throughput, workload,
};

/// Benchmarks of this machine and the engine, and a check that every setting gives the same bytes.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 measured, 1 bytes differ,
/// 2 could not run. No configuration file is read.
#[derive(Debug, Parser)]
#[command(name = "tribunal-bench", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Kernels against this machine's limits, measured in the same run
    Ops(Ops),
    /// Prompt tokens per second
    Prefill(Throughput),
    /// Answer tokens per second, with several numbers of answers in parallel
    Decode(Throughput),
    /// Texts per second of an encoder
    Encode(Box<encode::Args>),
    /// A judge's questions about documents, as fast as the engine can answer them
    Fsp(Box<Workload>),
    /// The same questions under one engine setting after another: every bit must be the same
    Invariance(Box<Workload>),
    /// Write a GGUF file of a published model's width with seeded weights, to measure with other engines too
    Seeded(Seeded),
    /// A GPU's limits, and how close the shape of a model comes to them with seeded weights
    Gpu(Box<gpu::Args>),
    /// Prompt and answer tokens per second of candle-transformers' quantized models, for comparison
    Candle(candle::Args),
}

/// Options of `ops`.
#[derive(Clone, Debug, clap::Args)]
pub struct Ops {
    /// Shapes of the weights: outputs by inputs
    #[arg(
        long = "shape",
        value_name = "NxK,NxK",
        value_delimiter = ',',
        default_value = "2048x2048,4864x896,896x896"
    )]
    shapes: Vec<String>,
    /// Rows of activations
    #[arg(long, value_name = "M,M", value_delimiter = ',', default_value = "1,8,64,512")]
    rows: Vec<usize>,
    /// Keep the weights in the CPU's cache between products: what the arithmetic reaches when memory is no
    /// limit
    #[arg(long)]
    cached: bool,
    #[command(flatten)]
    engine: Resources,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `seeded`.
#[derive(Clone, Debug, clap::Args)]
pub struct Seeded {
    /// The shape
    #[arg(long, value_name = "NAME", default_value = "qwen3-30b-a3b")]
    shape: String,
    /// The first N of its layers
    #[arg(long, value_name = "N", default_value_t = 8)]
    layers: usize,
    /// Where the file goes
    #[arg(long, value_name = "FILE.gguf")]
    out: PathBuf,
}

/// Options of `prefill` and `decode`.
#[derive(Clone, Debug, clap::Args)]
pub struct Throughput {
    #[command(flatten)]
    model: ModelSpec,
    #[command(flatten)]
    engine: Resources,
    /// Lengths of prompts in tokens; default: 512 and 2048 for prefill, 512 for decode
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    prompt: Vec<usize>,
    /// How many answers are written in parallel (decode)
    #[arg(long, value_name = "B,B", value_delimiter = ',', default_value = "1,8,32")]
    rows: Vec<usize>,
    /// Tokens per answer (decode)
    #[arg(long, value_name = "N", default_value_t = 64)]
    answer: usize,
    /// How often to repeat; the best run counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `fsp` and `invariance`: where the questions come from, and where prompts and answers are
/// written.
#[derive(Clone, Debug, clap::Args)]
pub struct Workload {
    #[command(flatten)]
    input: InputSpec,
    /// Questions written by `--write`, instead of an input and a method
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["input", "testset", "source"])]
    requests: Option<PathBuf>,
    /// Write the questions with their prompts' token ids, without asking them
    #[arg(long, value_name = "FILE.jsonl")]
    write: Option<PathBuf>,
    /// Write the answers, one JSON object per line
    #[arg(long, value_name = "FILE.jsonl")]
    replies: Option<PathBuf>,
    /// Only the first N groups (documents, for a method that sees documents)
    #[arg(long, value_name = "N")]
    groups: Option<usize>,
    #[command(flatten)]
    judge: BenchJudge,
    #[command(flatten)]
    model: ModelSpec,
    #[command(flatten)]
    engine: Resources,
    /// The most tokens per answer; default: the method's own
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The method that asks the questions.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchJudge {
    /// The judging method
    #[arg(long, value_name = "NAME[:option=value,...]", default_value = "fsp")]
    method: String,
    /// Preset: paper or published code, where they differ
    #[arg(long, default_value = "strict")]
    preset: Preset,
}

/// Time for which each figure is measured.
const FIGURE: Duration = Duration::from_millis(250);

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    keep_freed();
    // All options are for developers here.
    let command = args::with_all_options(Cli::command());
    let cli = match command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    cli.run(&mut IgnoreBrokenPipe::new(std::io::stdout().lock())).unwrap_or_else(|error| {
        say(format_args!("error: {}", explain(&error)));
        ExitCode::from(2)
    })
}

impl Cli {
    /// Runs the command; results go to `out`.
    ///
    /// # Errors
    /// If the model cannot be run or the input cannot be read.
    pub fn run(&self, out: &mut dyn Write) -> Result<ExitCode> {
        match &self.command {
            Command::Ops(args) => run_ops(args, out),
            Command::Prefill(args) => run_prefill(args, out),
            Command::Decode(args) => run_decode(args, out),
            Command::Encode(args) => encode::run(args, out),
            Command::Fsp(args) => run_workload(args, out),
            Command::Invariance(args) => run_invariance(args, out),
            Command::Seeded(args) => run_seeded(args, out),
            Command::Gpu(args) => gpu::run(args, out),
            Command::Candle(args) => candle::run(args, out),
        }
    }
}

/// Runs `work` on as many threads as the arguments ask for.
fn on_threads<R: Send>(args: &Resources, work: impl FnOnce() -> R + Send) -> Result<R> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or_else(n_threads)).build()?;
    Ok(pool.install(work))
}

fn print(value: &impl Serialize, out: &mut dyn Write) -> Result<ExitCode> {
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    Ok(ExitCode::SUCCESS)
}

fn limits_line(limits: &Limits) -> String {
    format!(
        "{} threads reach: int8 {:.0} GF/s, bf16 {:.0} GF/s, f32 {:.0} GF/s, memory {:.1} GB/s",
        limits.threads,
        limits.int8 / 1e9,
        limits.bf16 / 1e9,
        limits.f32 / 1e9,
        limits.memory / 1e9
    )
}

fn run_ops(args: &Ops, out: &mut dyn Write) -> Result<ExitCode> {
    let shapes = args.shapes.iter().map(|text| shape(text)).collect::<Result<Vec<_>>>()?;
    let options = models::options(&args.engine)?;
    let (tier, during) = (options.compute.tier, FIGURE);
    let activations = options.compute.activations;
    let measure = || -> Result<_> {
        let limits = machine::limits(tier, during)?;
        let mut cells = Vec::new();
        for &(n, k) in &shapes {
            for &format in Format::ALL.iter().filter(|format| k.is_multiple_of(format.block())) {
                let product = Product { format, n, k, activations, tier, cached: args.cached };
                cells.extend(ops::product(product, &args.rows, &limits, during));
            }
        }
        let rows = args.rows.iter().map(|&rows| ops::attention(2048, rows, tier, &limits, during));
        let attention = rows.collect::<Vec<_>>();
        let passes = [1, 64].map(|tokens| ops::state_pass(tokens, tier, &limits, during));
        Ok((limits, cells, attention, passes, ops::softmax(151_936, tier, during)))
    };
    let (limits, cells, attention, passes, softmax) = on_threads(&args.engine, measure)??;
    if args.json {
        return print(
            &json!({"limits": limits, "tier": tier.name(), "products": cells, "attention": attention, "state_passes": passes,
                    "softmax_row_s": softmax}),
            out,
        );
    }
    writeln!(out, "{}: {}\n", tier.name(), limits_line(&limits))?;
    writeln!(
        out,
        "GF/s of products, then the fraction of their arithmetic's peak and, up to eight rows, of memory bandwidth:"
    )?;
    let mut table = Table::new();
    let heads = args.rows.iter().map(|m| format!("m={m}"));
    table.head(["weights".to_owned(), "shape".to_owned()].into_iter().chain(heads));
    for row in cells.chunks(args.rows.len()) {
        let cell = |cell: &ops::Cell| {
            let memory = if cell.m <= 8 { format!(" mem {:.2}", cell.of_memory) } else { String::new() };
            format!("{:.0} {:.2}{memory}", cell.speed / 1e9, cell.of_peak)
        };
        let name = [row[0].format.clone(), format!("{}x{}", row[0].n, row[0].k)];
        table.row(name.into_iter().chain(row.iter().map(cell)));
    }
    writeln!(out, "{table}\nattention over 2,048 keys, 7 query heads of 64 per kv head:")?;
    for cell in &attention {
        let (rows, speed, of_peak) = (cell.rows, cell.speed / 1e9, cell.of_peak);
        writeln!(out, "  {rows:>4} rows: {speed:.0} GF/s ({of_peak:.2} of the f32 peak)")?;
    }
    state_passes(&passes, out)?;
    writeln!(out, "log-sum-exp of 151,936 logits: {:.0} us", softmax * 1e6)?;
    Ok(ExitCode::SUCCESS)
}

fn state_passes(passes: &[ops::StatePass], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "pass of linear attention over the states of a layer, 32 heads of 128 by 128:")?;
    for pass in passes {
        let ops::StatePass { tokens, of_memory, .. } = pass;
        let us = pass.seconds * 1e6 / *tokens as f64;
        writeln!(out, "  {tokens:3} tokens  {us:.0} us a token, {of_memory:.2} of the memory bandwidth")?;
    }
    Ok(())
}

fn shape(text: &str) -> Result<(usize, usize)> {
    let parsed = text.split_once('x').and_then(|(n, k)| Some((n.parse().ok()?, k.parse().ok()?)));
    let Some((n, k)) = parsed.filter(|&(n, k): &(usize, usize)| n > 0 && k > 0) else {
        bail!("`{text}` is not a shape\nhint: write outputs by inputs, like `2048x896`");
    };
    Ok((n, k))
}

fn run_prefill(args: &Throughput, out: &mut dyn Write) -> Result<ExitCode> {
    let opened = loading::open(&args.model, &args.engine)?;
    let prompts = if args.prompt.is_empty() { &[512, 2048][..] } else { &args.prompt };
    let paces = prompts.iter().map(|&n| throughput::prefill(&opened.engine, n, args.repeats));
    let paces = paces.collect::<Result<Vec<_>, _>>()?;
    if args.json {
        return print(&json!({"model": opened.full_name(), "prefill": paces}), out);
    }
    let row = |pace: &throughput::Throughput| {
        [pace.prompt.to_string(), format!("{:.3}", pace.seconds), format!("{:.0}", pace.tokens_per_s)]
    };
    let table = Table::from_rows(["prompt tokens", "seconds", "tokens/s"], paces.iter().map(row));
    writeln!(out, "{}, one prompt at a time, no shared prefixes\n{table}", opened.full_name())?;
    Ok(ExitCode::SUCCESS)
}

fn run_decode(args: &Throughput, out: &mut dyn Write) -> Result<ExitCode> {
    let opened = loading::open(&args.model, &args.engine)?;
    let tier = models::options(&args.engine)?.compute.tier;
    let limits = on_threads(&args.engine, || machine::limits(tier, FIGURE))??;
    let prompt = args.prompt.first().copied().unwrap_or(512);
    let decode =
        |&batch: &usize| throughput::decode(&opened.engine, batch, prompt, args.answer, args.repeats);
    let paces = args.rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    // A step of a dense model reads all weights once; of a mixture some of the experts.
    let facts = opened.engine.facts();
    let weights = facts.sizes.experts.is_none().then_some(facts.weight_bytes as f64);
    let of_memory = |throughput: &throughput::Throughput| {
        weights.map(|bytes| throughput.tokens_per_s / throughput.batch as f64 * bytes / limits.memory)
    };
    if args.json {
        let of: Vec<Option<f64>> = paces.iter().map(of_memory).collect();
        return print(
            &json!({"model": opened.full_name(), "limits": limits, "decode": paces, "of_memory": of}),
            out,
        );
    }
    let row = |pace: &throughput::Throughput| {
        let of_memory = of_memory(pace).map_or("-".into(), |of| format!("{of:.2}"));
        [pace.batch.to_string(), format!("{:.1}", pace.tokens_per_s), of_memory]
    };
    let table = Table::from_rows(["sequences", "tokens/s", "of memory bandwidth"], paces.iter().map(row));
    writeln!(out, "{}, {prompt} prompt tokens; {}\n{table}", opened.full_name(), limits_line(&limits))?;
    Ok(ExitCode::SUCCESS)
}

fn run_seeded(args: &Seeded, out: &mut dyn Write) -> Result<ExitCode> {
    let bytes = seeded::Seeded::new(Shape::named(&args.shape)?, args.layers, 1).write(&args.out)?;
    writeln!(out, "wrote {} to `{}`", files::size(bytes), args.out.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The questions: those in a file, or those that the method asks about the input.
fn questions(args: &Workload) -> Result<Vec<Request>> {
    let mut requests = if let Some(file) = &args.requests {
        requests::read(file)?
    } else {
        let mut input = input::read(&args.input)?;
        let selection = input::select(&args.input, &mut input, 0, Grouping::Document)?;
        let Input { segments, .. } = input;
        let spec = JudgeSpec {
            preset: args.judge.preset,
            language_check: LanguageCheck::Off,
            ..JudgeSpec::method(args.judge.method.clone())
        };
        let sampling = SamplingSpec { max_tokens: args.max_tokens, ..SamplingSpec::default() };
        let judge =
            tribunal_replication::build(&spec.method, &spec.settings(&sampling, &args.model.model))?.judge;
        let groups = groups(&segments, &selection, judge.grouping, 0).into_iter();
        let groups = groups.take(args.groups.unwrap_or(usize::MAX));
        let groups: Vec<Vec<Segment>> = groups.map(|group| group.segments(&segments)).collect();
        requests::of_judge(&judge, &groups)
    };
    if let Some(n) = args.max_tokens {
        for request in &mut requests {
            request.max_tokens = n;
        }
    }
    if requests.is_empty() {
        return Err(crate::Error::Nothing.into());
    }
    Ok(requests)
}

fn run_workload(args: &Workload, out: &mut dyn Write) -> Result<ExitCode> {
    let mut requests = questions(args)?;
    let opened = loading::open(&args.model, &args.engine)?;
    if let Some(file) = &args.write {
        for request in &mut requests {
            request.prompt_ids = opened.engine.prompt_ids(&request.chat)?;
        }
        requests::write(file, &requests)?;
        writeln!(out, "wrote {} questions to {}", requests.len(), file.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (measured, replies) = workload::run_requests(&opened.engine, &requests)?;
    if let Some(file) = &args.replies {
        files::write(file, |lines| {
            requests.iter().zip(&replies).try_for_each(|(request, reply)| {
                let llm::Reply { text, finish, usage, .. } = reply;
                writeln!(
                    lines,
                    "{}",
                    json!({"id": request.id, "text": text, "finish": finish, "usage": usage})
                )
            })
        })?;
    }
    if args.json {
        return print(&json!({"model": opened.full_name(), "measured": measured}), out);
    }
    let ratio = measured.computed_prompt_tokens as f64 / measured.distinct_prompt_tokens as f64;
    writeln!(
        out,
        "{}: {} segments in {:.1} s, {:.3} segments/s\nprompt tokens: {} asked, {} distinct, {} computed \
         ({ratio:.3} of the distinct)\nanswer tokens: {} in all, {} forced, {} guessed, {} of them right\n\
         answers: {} complete, {} error spans, {:.2} spans/s",
        opened.full_name(),
        measured.segments,
        measured.seconds,
        measured.segments_per_s,
        measured.prompt_tokens,
        measured.distinct_prompt_tokens,
        measured.computed_prompt_tokens,
        measured.generated_tokens,
        measured.forced_tokens,
        measured.drafted_tokens,
        measured.accepted_tokens,
        measured.valid,
        measured.error_spans,
        measured.error_spans_per_s,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn run_invariance(args: &Workload, out: &mut dyn Write) -> Result<ExitCode> {
    let requests = questions(args)?;
    let found = models::find_adapted(&args.model, &args.engine)?;
    let variants = invariance::compare(&found.weights, &found.options, &requests)?;
    let all_equal = variants.iter().all(|variant| variant.differs.is_none());
    let code = if all_equal { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if args.json {
        print(&json!({"segments": requests.len(), "equal": all_equal, "variants": variants}), out)?;
        return Ok(code);
    }
    let row = |variant: &invariance::Variant| {
        let differ = |id: &String| format!("differ, first at request {id}");
        let bytes = variant.differs.as_ref().map_or("the same".to_owned(), differ);
        let computed = variant.computed_prompt_tokens.to_string();
        [variant.name.clone(), format!("{:.1}", variant.seconds), computed, bytes]
    };
    let table = Table::from_rows(["setting", "seconds", "computed", "bytes"], variants.iter().map(row));
    writeln!(out, "{} questions, compared with the first setting\n{table}", requests.len())?;
    Ok(code)
}
