//! Argument groups that several commands share, and the specification that each stands for.

use std::{iter, path::PathBuf};

use clap::{Args, Command, builder::PossibleValuesParser};

use crate::{
    engine::Isa,
    eval::{InputSpec, JudgeSpec, ModelSpec, Pair, Resources, SamplingSpec},
    judges::{Aggregate, Granularity, LanguageCheck, Preset, Role, setup},
    llm::Sampling,
};

mod variables;

pub use variables::check_variables;

/// Options for the input: source, translations and their documents.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Source text, one segment per line
    #[arg(short, long, visible_alias = "sources", value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Translations, one segment per line, one file per system
    #[arg(short = 't', long, visible_aliases = ["translations", "hypotheses"], value_name = "FILE", num_args = 1..)]
    pub hypothesis: Vec<PathBuf>,
    /// Reference translation, for methods that use one; its name with `--testset`
    #[arg(short, long, visible_alias = "references", value_name = "FILE|NAME")]
    pub reference: Option<PathBuf>,
    /// Language pair, one per run: `en-de`, `en-sr_Cyrl_RS`
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT")]
    pub pair: Option<Pair>,
    /// The document of each line: `DOC` or `DOMAIN DOC`
    #[arg(long, value_name = "FILE")]
    pub docs: Option<PathBuf>,
    /// A table (JSONL, TSV, CSV, Parquet) with source, hypothesis [, reference, system, doc, `seg_id`,
    /// `src_lang`, `tgt_lang`], WMT26's task, or human annotations
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// A test set as mt-metrics-eval or WMT lays it out
    #[arg(long, value_name = "DIR")]
    pub testset: Option<PathBuf>,
    /// Systems of the test set; default: all but references
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1..)]
    pub systems: Vec<String>,
    /// Only the documents that this file names: `DOC` or `PAIR/DOC`
    #[arg(long, value_name = "FILE")]
    pub documents: Option<PathBuf>,
    /// Only the first N segments of each system
    #[arg(long, value_name = "N", value_parser = whole)]
    pub limit: Option<usize>,
    /// About N segments of each system, in documents drawn by `--seed`
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "limit")]
    pub subset: Option<usize>,
}

impl InputArgs {
    /// The part of a specification that these options stand for.
    #[must_use]
    pub fn spec(&self) -> InputSpec {
        InputSpec {
            source: self.source.clone(),
            hypotheses: self.hypothesis.clone(),
            reference: self.reference.clone(),
            pair: self.pair.clone(),
            docs: self.docs.clone(),
            table: self.input.clone(),
            testset: self.testset.clone(),
            systems: self.systems.clone(),
            documents: self.documents.clone(),
            limit: self.limit,
            subset: self.subset,
        }
    }
}

/// Options of the judging method.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Judge")]
pub struct JudgeArgs {
    /// The judging method (see `tribunal methods list`)
    #[arg(long, default_value = "probe", value_name = "NAME[:option=value,...]")]
    pub method: String,
    /// What one prompt shows: seg, doc or 5doc; default: the method's own
    #[arg(long)]
    pub granularity: Option<Granularity>,
    /// Prompts and parsing: paper (as printed), code (as released), or strict (the paper's, constrained
    /// answers)
    #[arg(long, default_value = "strict")]
    pub preset: Preset,
    /// Severity weights: wmt, gemba, mmad, himate, ...; default: the method's own
    #[arg(long, value_name = "NAME")]
    pub weights: Option<String>,
    /// A folder whose files replace the method's prompts of the same name
    #[arg(long, value_name = "DIR")]
    pub prompts: Option<PathBuf>,
    /// A file that replaces the method's shots; for gmicl, rated translations
    #[arg(long, value_name = "FILE|DIR")]
    pub shots: Option<PathBuf>,
    /// Judge each unit N times, at consecutive seeds, and merge the verdicts: HOW is mean, reciprocal-rank or
    /// mbr
    #[arg(long, default_value = "1", value_name = "N[:HOW]", value_parser = samples)]
    pub samples: (usize, Aggregate),
    /// Refuse files in another language than the pair's, mark segments that are not translated: on or off
    #[arg(long, default_value = "on", value_name = "on|off")]
    pub language_check: LanguageCheck,
}

impl JudgeArgs {
    /// The part of a specification that these options stand for.
    #[must_use]
    pub fn spec(&self) -> JudgeSpec {
        JudgeSpec {
            method: self.method.clone(),
            granularity: self.granularity,
            preset: self.preset,
            weights: self.weights.clone(),
            prompts: self.prompts.clone(),
            shots: self.shots.clone(),
            samples: self.samples.0,
            aggregate: self.samples.1,
            language_check: self.language_check,
        }
    }
}

/// Options of sampling.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// 0 always takes the most likely token
    #[arg(long, default_value_t = 0.0, value_name = "T", value_parser = temperature, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Nucleus sampling: tokens that together reach this probability
    #[arg(long, default_value_t = 1.0, value_name = "P", value_parser = top_p)]
    pub top_p: f32,
    /// The most tokens per answer; default: the method's own
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub max_tokens: Option<usize>,
    /// Random seed
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = seed)]
    pub seed: u64,
}

impl SamplingArgs {
    /// The part of a specification that these options stand for.
    #[must_use]
    pub fn spec(&self) -> SamplingSpec {
        SamplingSpec {
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_tokens,
            seed: self.seed,
        }
    }

    /// The sampling parameters of a request.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        self.spec().sampling()
    }
}

/// Options for the models.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// A card (`tribunal models list`), file or folder
    #[arg(long, default_value = "qwen2.5-coder-1.5b-instruct", value_name = "CARD|PATH|hf:REPO@REV")]
    pub model: String,
    /// A LoRA adapter, in PEFT's layout
    #[arg(long, value_name = "DIR")]
    pub adapter: Option<PathBuf>,
    /// Another model for one role of an agent pipeline
    #[arg(long, value_name = "ROLE=MODEL[+ADAPTER]", value_parser = role)]
    pub role: Vec<(Role, String)>,
    /// A chat template that replaces the model's own
    #[arg(long, value_name = "FILE")]
    pub chat_template: Option<PathBuf>,
}

/// The sets of CUDA kernels.
pub const GPU_KERNELS: [&str; 3] = ["auto", "proven", "plain"];

/// Options of the engine. Only number formats change scores. `--help-all` shows the hidden ones.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Engine")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct EngineArgs {
    /// auto, cpu, cuda, cuda:N, or cuda:N,M for several GPUs
    #[arg(long, default_value = "auto", value_parser = device)]
    pub device: String,
    /// GPUs to split each model over, by default the fewest that hold it; results are the same
    #[arg(long, value_name = "N", value_parser = tensor_parallel)]
    pub tensor_parallel: Option<usize>,
    /// As in COMET: 0 is `--device cpu`, 1 is `--device cuda`
    #[arg(long, hide = true, conflicts_with = "device", value_name = "0|1", value_parser = gpus)]
    pub gpus: Option<u8>,
    /// Weights that are not quantized: auto, bf16, f16 or f32
    #[arg(long, default_value = "auto", value_parser = dtype)]
    pub dtype: String,
    /// Number format of the activations that meet quantized weights
    #[arg(long, hide = true, default_value = "q8", value_parser = ["q8", "float"])]
    pub activations: String,
    /// Number format of the KV cache
    #[arg(long, hide = true, default_value = "bf16", value_parser = ["bf16", "f16", "f32"])]
    pub kv_dtype: String,
    /// Memory for the KV cache, such as `2GiB`; default: what fits
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub kv_cache: Option<u64>,
    /// Maximum tokens of a prompt with its answer; default: the model's context
    #[arg(long, value_name = "N", value_parser = positive)]
    pub context: Option<usize>,
    /// Groups of segments judged at the same time; default: 64 or more
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Maximum number of sequences processed at the same time; default: the device's
    #[arg(long, visible_alias = "batch-size", value_name = "N", value_parser = rows)]
    pub batch: Option<usize>,
    /// CPU threads; default: one for each performance core
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Do not reuse what prompts have in common
    #[arg(long, hide = true)]
    pub no_prefix_cache: bool,
    /// Disable speculative decoding
    #[arg(long, hide = true)]
    pub no_drafts: bool,
    /// Disable CUDA graphs; results are the same
    #[arg(long, hide = true)]
    pub no_graphs: bool,
    /// CUDA kernels: auto (the fastest, after a check of the GPU), proven (mma.sync), plain (reference);
    /// results are the same
    #[arg(long, hide = true, default_value = "auto", value_parser = GPU_KERNELS)]
    pub gpu_kernels: String,
    /// Disable programmatic dependent launch of CUDA kernels; results are the same
    #[arg(long, hide = true)]
    pub no_dependent_launch: bool,
    /// Which CPU kernels run
    #[arg(long, hide = true, default_value = "auto", value_parser = PossibleValuesParser::new(iter::once("auto").chain(Isa::NAMES)))]
    pub cpu_tier: String,
}

impl ModelArgs {
    /// The part of a specification that these options stand for.
    #[must_use]
    pub fn spec(&self) -> ModelSpec {
        ModelSpec {
            model: self.model.clone(),
            adapter: self.adapter.clone(),
            roles: self.role.clone(),
            chat_template: self.chat_template.clone(),
        }
    }
}

impl EngineArgs {
    /// The device, from `--device` or `--gpus`.
    #[must_use]
    pub fn device(&self) -> &str {
        match self.gpus {
            Some(0) => "cpu",
            Some(_) => "cuda",
            None => &self.device,
        }
    }

    /// The part of a specification that these options stand for.
    #[must_use]
    pub fn spec(&self) -> Resources {
        let default = Resources::default();
        Resources {
            device: self.device().to_owned(),
            tensor_parallel: self.tensor_parallel,
            dtype: self.dtype.clone(),
            activations: self.activations.clone(),
            kv_dtype: self.kv_dtype.clone(),
            kv_cache: self.kv_cache,
            context: self.context,
            jobs: self.jobs,
            batch: self.batch,
            threads: self.threads,
            prefix_cache: !self.no_prefix_cache,
            saved_prefixes: variables::saved_prefixes().unwrap_or(default.saved_prefixes),
            drafts: !self.no_drafts,
            graphs: !self.no_graphs,
            gpu_kernels: self.gpu_kernels.clone(),
            dependent_launch: !self.no_dependent_launch,
            hung_after: variables::number_of(variables::STEP_LIMIT).map_or(default.hung_after, f64::from),
            recheck_every: variables::number_of(variables::STEP_CHECK)
                .map_or(default.recheck_every, |n| n as usize),
            cpu_tier: self.cpu_tier.clone(),
        }
    }
}

/// The command with no option hidden.
#[must_use]
pub fn with_all_options(command: Command) -> Command {
    command.mut_args(|arg| arg.hide(false)).mut_subcommands(with_all_options)
}

fn tensor_parallel(text: &str) -> Result<usize, String> {
    up_to(text, 8) // the pieces that kernels/gather.cu takes
}

/// A device: `auto`, `cpu`, `cuda`, `cuda:N` or `cuda:N,M`.
///
/// # Errors
/// The expected form, where the text has another.
pub fn device(text: &str) -> Result<String, String> {
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    let are_numbers = |list: &str| list.split(',').all(is_number);
    let known =
        matches!(text, "auto" | "cpu" | "cuda") || text.strip_prefix("cuda:").is_some_and(are_numbers);
    if known { Ok(text.into()) } else { Err("it must be auto, cpu, cuda, cuda:N or cuda:N,M".into()) }
}

/// A number format of weights, under the names that vLLM and `PyTorch` have for it too.
fn dtype(text: &str) -> Result<String, String> {
    let known = match text {
        "auto" => "auto",
        "bf16" | "bfloat16" => "bf16",
        "f16" | "fp16" | "float16" | "half" => "f16",
        "f32" | "fp32" | "float32" | "float" => "f32",
        _ => return Err("it must be auto, bf16, f16 or f32".into()),
    };
    Ok(known.into())
}

/// `ROLE=MODEL`.
///
/// # Errors
/// The expected form, where the text has another.
pub fn role(text: &str) -> Result<(Role, String), String> {
    match text.split_once('=') {
        Some((role, model)) if !model.is_empty() => {
            role.parse().map(|role| (role, model.to_owned())).map_err(|e: setup::Error| e.to_string())
        }
        _ => Err("it must have the form ROLE=MODEL".into()),
    }
}

/// COMET's number of GPUs.
fn gpus(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(n @ 0..=1) => Ok(n),
        _ => Err("it must be 0 (the CPU) or 1 (a GPU); several are `--device cuda:0,1`, under Slurm `--gpus-per-node G`".into()),
    }
}

/// A whole number.
fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "it must be a whole number".into())
}

/// A random seed.
///
/// # Errors
/// The expected form, where the text has another.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it must be a whole number, at least 0".into())
}

/// A number from 0 to 100.
///
/// # Errors
/// The expected form, where the text has another.
pub fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "it must be a number from 0 to 100".into())
}

/// A whole number that is at least 1.
///
/// # Errors
/// The expected form, where the text has another.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("it must be a whole number, at least 1".into()),
        Ok(n) => Ok(n),
    }
}

/// A whole number from 1 to some most.
fn up_to(text: &str, most: usize) -> Result<usize, String> {
    let n = positive(text)?;
    if n <= most { Ok(n) } else { Err(format!("it must be at most {most}")) }
}

/// Groups judged at the same time: each is a thread or more.
///
/// # Errors
/// The expected form, where the text has another.
pub fn jobs(text: &str) -> Result<usize, String> {
    up_to(text, 1024)
}

/// Number of compute threads.
///
/// # Errors
/// The expected form, where the text has another.
pub fn threads(text: &str) -> Result<usize, String> {
    up_to(text, 1024)
}

/// Sequences processed at the same time.
///
/// # Errors
/// The expected form, where the text has another.
pub fn rows(text: &str) -> Result<usize, String> {
    up_to(text, 4096)
}

/// Passages that a search finds.
///
/// # Errors
/// The expected form, where the text has another.
pub fn hits(text: &str) -> Result<usize, String> {
    up_to(text, 10_000)
}

/// Resamples of a test.
///
/// # Errors
/// The expected form, where the text has another.
pub fn resamples(text: &str) -> Result<usize, String> {
    up_to(text, 10_000_000)
}

/// Number of samples per unit and how they are aggregated.
fn samples(text: &str) -> Result<(usize, Aggregate), String> {
    let (n, aggregate) = text.split_once(':').map_or((text, None), |(n, aggregate)| (n, Some(aggregate)));
    let aggregate = aggregate.map_or_else(|| Ok(Aggregate::default()), str::parse);
    Ok((up_to(n, 1000)?, aggregate.map_err(|e: setup::Error| e.to_string())?))
}

/// Tokens of an answer: more than the context of any model is surely a typo.
fn tokens(text: &str) -> Result<usize, String> {
    up_to(text, 10_000_000)
}

fn temperature(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|t: &f32| t.is_finite() && *t >= 0.0);
    value.ok_or_else(|| "it must be a number, at least 0".into())
}

fn top_p(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|p: &f32| *p > 0.0 && *p <= 1.0);
    value.ok_or_else(|| "it must be a number above 0 and at most 1".into())
}

/// `800MiB`, `2G`, `2.5GiB`: units are powers of 1024, with or without `iB` or `B`.
///
/// # Errors
/// The expected form, where the text has another.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write it like 2GiB or 800MiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text[digits.len()..].to_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().ok().filter(|n: &f64| *n > 0.0 && n.is_finite()).ok_or_else(wrong)?;
    if factor == 1 && number < f64::from(1 << 10) {
        return Err(format!("`{text}` would be {text} bytes; write `{digits}GiB` or `{digits}MiB`"));
    }
    Ok((number * factor as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("800m"), Ok(800 << 20));
        assert_eq!(bytes("1.5G"), Ok(3 << 29));
        assert_eq!(bytes("4096"), Ok(4096));
        for wrong in ["", "G", "-1G", "2X", "nan", "2"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices() {
        for right in ["auto", "cpu", "cuda", "cuda:3", "cuda:0,2"] {
            assert_eq!(device(right).as_deref(), Ok(right));
        }
        for wrong in ["gpu", "cuda:", "cuda:x", "cuda:0,"] {
            assert!(device(wrong).is_err());
        }
    }
}
