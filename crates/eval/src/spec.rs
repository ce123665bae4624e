//! Specification of an evaluation: input, judge, models, sampling, resources, output. Plain data that can be
//! written as JSON and, with the feature `clap`, is the options of a command. Nothing is read or checked
//! here.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    KernelSet,
    engine::{Activations, KvType},
    judges::{Aggregate, Granularity, LanguageCheck, Preset, Role, Settings, setup},
    llm::Sampling,
    run::{CallRetention, Shard},
    segment::{Lang, lang},
    signature::Signature,
    values::{self, AUTO, variables},
};

/// A whole evaluation. [`crate::Evaluation::new`] checks it against its input.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Spec {
    #[cfg_attr(feature = "clap", command(flatten))]
    pub input: InputSpec,
    #[cfg_attr(feature = "clap", command(flatten))]
    pub judge: JudgeSpec,
    #[cfg_attr(feature = "clap", command(flatten))]
    pub models: ModelSpec,
    #[cfg_attr(feature = "clap", command(flatten))]
    pub sampling: SamplingSpec,
    #[cfg_attr(feature = "clap", command(flatten))]
    pub resources: Resources,
    #[cfg_attr(feature = "clap", command(flatten))]
    pub output: OutputSpec,
}

/// Input texts and the selection among them. Exactly one of `source` with `hypotheses`, `table` and `testset`
/// is given.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Input"))]
pub struct InputSpec {
    /// Source text, one segment per line
    #[cfg_attr(feature = "clap", arg(short, long, visible_alias = "sources", value_name = "FILE"))]
    pub source: Option<PathBuf>,
    /// Translations, one segment per line, one file per system
    #[cfg_attr(feature = "clap", arg(id = "hypothesis", short = 't', long = "hypothesis", value_name = "FILE", num_args = 1..))]
    #[cfg_attr(feature = "clap", arg(visible_aliases = ["translations", "hypotheses"]))]
    pub hypotheses: Vec<PathBuf>,
    /// Reference translation, for methods that use one; its name with `--testset`
    #[cfg_attr(feature = "clap", arg(short, long, visible_alias = "references", value_name = "FILE|NAME"))]
    pub reference: Option<PathBuf>,
    /// Language pair, one per run: `en-de`, `en-sr_Cyrl_RS`
    #[cfg_attr(
        feature = "clap",
        arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT")
    )]
    pub pair: Option<Pair>,
    /// The document of each line: `DOC` or `DOMAIN DOC`
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub docs: Option<PathBuf>,
    /// A table (JSONL, TSV, CSV, Parquet) with source, hypothesis [, reference, system, doc, `seg_id`,
    /// `src_lang`, `tgt_lang`], WMT26's task, or human annotations
    #[cfg_attr(feature = "clap", arg(id = "input", long = "input", value_name = "FILE"))]
    pub table: Option<PathBuf>,
    /// A test set as mt-metrics-eval or WMT lays it out
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub testset: Option<PathBuf>,
    /// Systems of the test set; default: all but references
    #[cfg_attr(feature = "clap", arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1..))]
    pub systems: Vec<String>,
    /// Only the documents that this file names: `DOC` or `PAIR/DOC`
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub documents: Option<PathBuf>,
    /// Only segments that the test set has human scores of
    #[cfg_attr(feature = "clap", arg(long, requires = "testset"))]
    pub rated: bool,
    /// Only the first N segments of each system
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::whole))]
    pub limit: Option<usize>,
    /// About N segments of each system, in documents drawn by `--seed`
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::positive, conflicts_with = "limit"))]
    pub subset: Option<usize>,
}

/// A language pair. The spelling is kept, because test sets name their files by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pair {
    pub name: String,
    pub src: Lang,
    pub tgt: Lang,
}

impl FromStr for Pair {
    type Err = lang::Error;

    fn from_str(name: &str) -> Result<Self, lang::Error> {
        let (src, tgt) = lang::parse_pair(name)?;
        let plain = |pair: &str| pair.trim().replace('-', "_").to_lowercase();
        let usual = format!("{src}-{tgt}");
        // `eng-deu`, `English-German` and `en_de` name no files: those are called `en-de`.
        let name =
            if name.contains('-') && plain(name) == plain(&usual) { name.trim().to_owned() } else { usual };
        Ok(Self { name, src, tgt })
    }
}

impl TryFrom<String> for Pair {
    type Error = lang::Error;

    fn try_from(text: String) -> Result<Self, lang::Error> {
        text.parse()
    }
}

impl From<Pair> for String {
    fn from(pair: Pair) -> Self {
        pair.name
    }
}

/// The method and its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Judge"))]
pub struct JudgeSpec {
    /// The judging method (see `tribunal methods list`), or the file or folder of one; auto: by the model
    #[cfg_attr(feature = "clap", arg(long, default_value = AUTO, value_name = "NAME|PATH[:option=value,...]"))]
    pub method: String,
    /// Unit of a prompt: seg, doc or 5doc; default: the method's own
    #[cfg_attr(feature = "clap", arg(long))]
    pub granularity: Option<Granularity>,
    /// Prompts and parsing: paper (as printed), code (as released), or strict (the paper's, constrained
    /// answers)
    #[cfg_attr(feature = "clap", arg(long, default_value = "strict"))]
    pub preset: Preset,
    /// Severity weights: wmt, gemba, mmad, himate, ...; default: the method's own
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub weights: Option<String>,
    /// A folder whose files replace the method's prompts of the same name
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub prompts: Option<PathBuf>,
    /// A file that replaces the method's shots; for gmicl, rated translations
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE|DIR"))]
    pub shots: Option<PathBuf>,
    /// Judge each unit N times, at consecutive seeds, and merge the verdicts: HOW is mean, reciprocal-rank or
    /// mbr
    #[cfg_attr(feature = "clap", arg(long, default_value = "1", value_name = "N[:HOW]"))]
    pub samples: Samples,
    /// Refuse files in another language than the pair's, mark segments that are not translated: on or off
    #[cfg_attr(feature = "clap", arg(long, default_value = "on", value_name = "on|off"))]
    pub language_check: LanguageCheck,
}

/// Verdicts of each unit, at consecutive seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    pub n: usize,
    pub aggregate: Aggregate,
}

impl FromStr for Samples {
    type Err = String;

    /// Reads `N` or `N:HOW`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (n, aggregate) = text.split_once(':').map_or((text, None), |(n, aggregate)| (n, Some(aggregate)));
        let aggregate = aggregate.map_or_else(|| Ok(Aggregate::default()), str::parse);
        Ok(Self {
            n: values::up_to::<1000>(n)?,
            aggregate: aggregate.map_err(|e: setup::Error| e.to_string())?,
        })
    }
}

impl Default for JudgeSpec {
    fn default() -> Self {
        Self {
            method: AUTO.into(),
            granularity: None,
            preset: Preset::default(),
            weights: None,
            prompts: None,
            shots: None,
            samples: Samples { n: 1, aggregate: Aggregate::default() },
            language_check: LanguageCheck::On,
        }
    }
}

impl JudgeSpec {
    /// A method with its default settings.
    pub fn method(request: impl Into<String>) -> Self {
        Self { method: request.into(), ..Self::default() }
    }

    /// The settings of the registry of judges, without what depends on the input. `model`: the annotator.
    pub fn settings(&self, sampling: &SamplingSpec, model: &str) -> Settings {
        Settings {
            preset: self.preset,
            granularity: self.granularity,
            weights: self.weights.clone(),
            prompts: self.prompts.clone(),
            shots: self.shots.clone(),
            max_tokens: sampling.max_tokens,
            seed: sampling.seed,
            has_references: false,
            language_check: self.language_check,
            model: model.to_owned(),
        }
    }
}

/// The models of the judge's roles.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Model"))]
pub struct ModelSpec {
    /// A card (`tribunal models list`), file or folder; auto: multilingual-e5-small for qe, else
    /// qwen2.5-coder-1.5b-instruct
    #[cfg_attr(feature = "clap", arg(long, default_value = AUTO, value_name = "CARD|PATH|hf:REPO@REV"))]
    pub model: String,
    /// A LoRA adapter, in PEFT's layout
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub adapter: Option<PathBuf>,
    /// Another model for one role of an agent pipeline
    #[cfg_attr(
        feature = "clap",
        arg(id = "role", long = "role", value_name = "ROLE=MODEL[+ADAPTER]", value_parser = values::role)
    )]
    pub roles: Vec<(Role, String)>,
    /// A chat template that replaces the model's own
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub chat_template: Option<PathBuf>,
    /// The file of the estimator that the judge brings for the model.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub estimator: Option<Arc<[u8]>>,
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self { model: AUTO.into(), adapter: None, roles: Vec::new(), chat_template: None, estimator: None }
    }
}

impl ModelSpec {
    /// One model in all roles.
    pub fn named(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }
}

/// Sampling of answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Sampling"))]
pub struct SamplingSpec {
    /// 0 always takes the most likely token
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.0, value_name = "T", value_parser = values::temperature))]
    pub temperature: f32,
    /// Nucleus sampling: tokens that together reach this probability
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 1.0, value_name = "P", value_parser = values::top_p))]
    pub top_p: f32,
    /// The most tokens per answer; default: the method's own
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::up_to::<10_000_000>))]
    pub max_tokens: Option<usize>,
    /// Random seed
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0, value_name = "N", value_parser = values::seed))]
    pub seed: u64,
}

impl Default for SamplingSpec {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, max_tokens: None, seed: 0 }
    }
}

impl SamplingSpec {
    /// The sampling parameters of a request.
    pub fn sampling(&self) -> Sampling {
        let default = Sampling::default();
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            max_tokens: self.max_tokens.unwrap_or(default.max_tokens),
            stop: Vec::new(),
        }
    }
}

/// The signature's fields of sampling. Budgets and stop strings are the judge's.
pub fn sampling_signature(sampling: &Sampling) -> Signature {
    let Sampling { temperature, top_p, seed, max_tokens: _, stop: _ } = sampling;
    let signature = Signature::new().with("temp", temperature.to_string());
    let signature = if *top_p < 1.0 { signature.with("top_p", top_p.to_string()) } else { signature };
    signature.with("seed", seed.to_string())
}

/// Requested devices: `auto`, `cpu`, `cuda`, `cuda:N` or `cuda:N,M`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceRequest {
    /// The first GPU, or else the CPU.
    #[default]
    Auto,
    Cpu,
    /// The first GPU.
    Cuda,
    /// GPUs by number, from 0.
    Gpus(Vec<usize>),
}

impl FromStr for DeviceRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
        let numbers = |list: &str| list.split(',').map(number).collect::<Option<Vec<usize>>>();
        match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda),
            _ => text.strip_prefix("cuda:").and_then(numbers).map(Self::Gpus),
        }
        .ok_or_else(|| "it must be auto, cpu, cuda, cuda:N or cuda:N,M".into())
    }
}

impl DeviceRequest {
    /// Returns true if it names GPUs by number.
    pub fn is_named(&self) -> bool {
        matches!(self, Self::Gpus(_))
    }
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda => f.write_str("cuda"),
            Self::Gpus(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}

impl TryFrom<String> for DeviceRequest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceRequest> for String {
    fn from(device: DeviceRequest) -> Self {
        device.to_string()
    }
}

/// Number format of weights that are not quantized, also under the names that vLLM and `PyTorch` have for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// The checkpoint's own.
    #[default]
    Auto,
    #[serde(alias = "bfloat16")]
    Bf16,
    #[serde(alias = "fp16", alias = "float16", alias = "half")]
    F16,
    #[serde(alias = "fp32", alias = "float32", alias = "float")]
    F32,
    /// Integers of 8 bits, quantized when the weights are loaded.
    #[serde(rename = "q8_0")]
    Q8_0,
}

/// Resources of the models. Of these only the number formats (`dtype`, `activations`, `kv_dtype`; on GPUs
/// `gpu_kernels = new`) can move a score.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Engine"))]
pub struct Resources {
    /// auto, cpu, cuda, cuda:N, or cuda:N,M for several GPUs
    #[cfg_attr(feature = "clap", arg(long, default_value_t))]
    pub device: DeviceRequest,
    /// GPUs to split each model over, by default the fewest that hold it; results are the same
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::up_to::<8>))]
    pub tensor_parallel: Option<usize>,
    /// Weights that are not quantized: auto, bf16, f16, f32 or `q8_0`
    #[cfg_attr(feature = "clap", arg(long, default_value = "auto", value_parser = values::word::<Dtype>))]
    pub dtype: Dtype,
    /// Number format of the activations that meet quantized weights: q8 or float
    #[cfg_attr(feature = "clap", arg(long, hide = true, default_value = "q8", value_parser = values::word::<Activations>))]
    pub activations: Activations,
    /// Number format of the KV cache: bf16, f16 or f32
    #[cfg_attr(feature = "clap", arg(long, hide = true, default_value = "bf16", value_parser = values::word::<KvType>))]
    pub kv_dtype: KvType,
    /// Memory for the KV cache, such as `2GiB`; default: what fits
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = values::bytes))]
    pub kv_cache: Option<u64>,
    /// Maximum tokens of a prompt with its answer; default: the model's context
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::positive))]
    pub context: Option<usize>,
    /// Groups of segments judged at the same time; default: 64 or more
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::up_to::<1024>))]
    pub jobs: Option<usize>,
    /// Maximum number of sequences processed at the same time; default: the device's
    #[cfg_attr(feature = "clap", arg(long, visible_alias = "batch-size", value_name = "N", value_parser = values::up_to::<4096>))]
    pub batch: Option<usize>,
    /// CPU threads; default: one for each performance core
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = values::up_to::<1024>))]
    pub threads: Option<usize>,
    /// Do not reuse what prompts have in common
    #[cfg_attr(feature = "clap", arg(long = "no-prefix-cache", hide = true, action = clap::ArgAction::SetFalse))]
    pub prefix_cache: bool,
    /// Disk space for the caches of methods' prompts that later runs on a CPU read; 0: none. Unit: bytes
    #[cfg_attr(feature = "clap", arg(skip = variables::saved_prefixes()))]
    pub saved_prefixes: u64,
    /// Disable speculative decoding
    #[cfg_attr(feature = "clap", arg(long = "no-drafts", hide = true, action = clap::ArgAction::SetFalse))]
    pub drafts: bool,
    /// Disable CUDA graphs; results are the same
    #[cfg_attr(feature = "clap", arg(long = "no-graphs", hide = true, action = clap::ArgAction::SetFalse))]
    pub graphs: bool,
    /// CUDA kernels: auto (the fastest, after a check of the GPU), new (also those that no GPU has run yet;
    /// with other bits), proven (mma.sync, no dependent launch), plain (reference)
    #[cfg_attr(feature = "clap", arg(long, hide = true, default_value = "auto", value_parser = values::word::<KernelSet>))]
    pub gpu_kernels: KernelSet,
    /// Duration of a GPU's step, if many times the expected one, that ends the run; 0: none. Unit: seconds
    #[cfg_attr(feature = "clap", arg(skip = variables::step_limit()))]
    pub hung_after: f64,
    /// One step in so many is computed a second time on a GPU, to compare; 0: none
    #[cfg_attr(feature = "clap", arg(skip = variables::step_check()))]
    pub recheck_every: usize,
    /// Which CPU kernels run. A name, since those of another machine's run may be missing on this one
    #[cfg_attr(feature = "clap", arg(long, hide = true, default_value = "auto", value_parser = values::tier))]
    pub cpu_tier: String,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            device: DeviceRequest::default(),
            tensor_parallel: None,
            dtype: Dtype::default(),
            activations: Activations::Q8,
            kv_dtype: KvType::default(),
            kv_cache: None,
            context: None,
            jobs: None,
            batch: None,
            threads: None,
            prefix_cache: true,
            saved_prefixes: variables::DISK,
            drafts: true,
            graphs: true,
            gpu_kernels: KernelSet::default(),
            hung_after: variables::HUNG_AFTER,
            recheck_every: variables::RECHECK_EVERY,
            cpu_tier: "auto".into(),
        }
    }
}

/// The run folder and what it keeps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Run"))]
pub struct OutputSpec {
    /// The run folder; resumes what it holds. Default: out/METHOD-MODEL-HASH
    #[cfg_attr(feature = "clap", arg(id = "out", long = "out", value_name = "DIR"))]
    pub folder: Option<PathBuf>,
    /// Judge one part of N, from 1; `tribunal merge` joins the parts
    #[cfg_attr(feature = "clap", arg(long, value_name = "I/N"))]
    pub shard: Option<Shard>,
    /// Ask once more about segments whose answers could not be used
    #[cfg_attr(feature = "clap", arg(long))]
    pub retry_missing: bool,
    /// Record questions and answers: plain, zstd, or off
    #[cfg_attr(feature = "clap", arg(long, default_value = "plain", value_parser = values::word::<CallRetention>))]
    pub calls: CallRetention,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_what_it_was_after_json() {
        let spec = Spec {
            input: InputSpec {
                pair: Some("eng-deu".parse().unwrap()),
                limit: Some(3),
                ..InputSpec::default()
            },
            judge: JudgeSpec::method("m-mad"),
            models: ModelSpec { roles: vec![(Role::Judge, "a+b".into())], ..ModelSpec::named("c") },
            output: OutputSpec { shard: Some(Shard { index: 2, count: 3 }), ..OutputSpec::default() },
            ..Spec::default()
        };
        let json = serde_json::to_string(&spec).unwrap();
        let read: Spec = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        assert!(json.contains("\"pair\":\"en-de\"") && json.contains("\"shard\":\"2/3\""), "{json}");
        let least: Spec = serde_json::from_str("{\"judge\":{\"method\":\"fsp\"}}").unwrap();
        assert_eq!((least.judge.samples.n, least.models.model.as_str()), (1, AUTO));
        let wrong = serde_json::from_str::<Spec>("{\"judge\":{\"metod\":\"fsp\"}}").unwrap_err().to_string();
        assert!(wrong.contains("unknown field `metod`"), "{wrong}");
    }

    #[test]
    fn devices() {
        for right in ["auto", "cpu", "cuda", "cuda:3", "cuda:0,2"] {
            assert_eq!(right.parse().map(|device: DeviceRequest| device.to_string()).as_deref(), Ok(right));
        }
        for wrong in ["gpu", "cuda:", "cuda:x", "cuda:0,", "cuda:-1", "cuda:+1", "CUDA"] {
            assert!(wrong.parse::<DeviceRequest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_number_formats() {
        assert_eq!((values::word("half"), values::word("bfloat16")), (Ok(Dtype::F16), Ok(Dtype::Bf16)));
        let said = values::word::<Dtype>("int8").unwrap_err();
        assert!(said.contains("`int8`") && said.contains("`bf16`"), "{said}");
    }
}
