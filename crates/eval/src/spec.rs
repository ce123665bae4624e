//! Specification of an evaluation: input, judge, models, sampling, resources, output. Plain data that can be
//! written as JSON; nothing is read or checked here.

use std::{path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    judges::{Aggregate, Granularity, LanguageCheck, Preset, Role, Settings},
    llm::Sampling,
    run::{CallRetention, Shard},
    segment::{Lang, lang},
    signature::Signature,
};

/// The model that judges by default.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b-instruct";

/// A whole evaluation. [`crate::Evaluation::new`] checks it against its input.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    pub input: InputSpec,
    pub judge: JudgeSpec,
    pub models: ModelSpec,
    pub sampling: SamplingSpec,
    pub resources: Resources,
    pub output: OutputSpec,
}

/// Input texts and the selection among them. Exactly one of `source` with `hypotheses`, `table` and `testset`
/// is given.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputSpec {
    /// Source text, one segment per line.
    pub source: Option<PathBuf>,
    /// Translations, one segment per line, one file for each system.
    pub hypotheses: Vec<PathBuf>,
    /// Reference translation, one segment per line; with `testset` the reference's name.
    pub reference: Option<PathBuf>,
    pub pair: Option<Pair>,
    /// The document of each line: `DOC` or `DOMAIN DOC`.
    pub docs: Option<PathBuf>,
    /// JSONL, TSV, CSV or Parquet, or the MQM TSV of human raters.
    pub table: Option<PathBuf>,
    /// A folder in the layout of mt-metrics-eval or WMT.
    pub testset: Option<PathBuf>,
    /// Systems of the test set; empty: all but references.
    pub systems: Vec<String>,
    /// A file of document names, `DOC` or `PAIR/DOC`: only these are judged.
    pub documents: Option<PathBuf>,
    /// Only the first segments of each system, so many.
    pub limit: Option<usize>,
    /// About so many segments of each system, in documents drawn by the seed. Not with `limit`.
    pub subset: Option<usize>,
}

/// A language pair. The spelling is kept, because test sets name their files by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pair {
    pub given: String,
    pub src: Lang,
    pub tgt: Lang,
}

impl FromStr for Pair {
    type Err = lang::Error;

    fn from_str(given: &str) -> Result<Self, lang::Error> {
        let (src, tgt) = lang::parse_pair(given)?;
        let plain = |pair: &str| pair.trim().replace('-', "_").to_lowercase();
        let usual = format!("{src}-{tgt}");
        // `eng-deu` and `English-German` name no files: those are called `en-de`.
        let given = if plain(given) == plain(&usual) { given.trim().to_owned() } else { usual };
        Ok(Self { given, src, tgt })
    }
}

impl TryFrom<String> for Pair {
    type Error = lang::Error;

    fn try_from(given: String) -> Result<Self, lang::Error> {
        given.parse()
    }
}

impl From<Pair> for String {
    fn from(pair: Pair) -> Self {
        pair.given
    }
}

/// The method and its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeSpec {
    /// `NAME` or `NAME:option=value,...`.
    pub method: String,
    /// Granularity of a prompt; `None`: the method's own.
    pub granularity: Option<Granularity>,
    pub preset: Preset,
    /// A preset of severity weights; `None`: the method's own.
    pub weights: Option<String>,
    /// A folder whose files replace the method's prompts of the same name.
    pub prompts: Option<PathBuf>,
    /// A file that replaces the method's shots.
    pub shots: Option<PathBuf>,
    /// Number of verdicts of each unit, at consecutive seeds.
    pub samples: usize,
    /// Aggregation of the verdicts at these seeds.
    #[serde(skip_serializing_if = "is_mean")]
    pub aggregate: Aggregate,
    pub language_check: LanguageCheck,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_mean(aggregate: &Aggregate) -> bool {
    *aggregate == Aggregate::Mean
}

impl Default for JudgeSpec {
    fn default() -> Self {
        Self {
            method: "probe".into(),
            granularity: None,
            preset: Preset::default(),
            weights: None,
            prompts: None,
            shots: None,
            samples: 1,
            aggregate: Aggregate::default(),
            language_check: LanguageCheck::On,
        }
    }
}

impl JudgeSpec {
    /// A method with its default settings.
    #[must_use]
    pub fn method(request: impl Into<String>) -> Self {
        Self { method: request.into(), ..Self::default() }
    }

    /// The settings of the registry of judges, without what depends on the input. `model`: the annotator.
    #[must_use]
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
pub struct ModelSpec {
    /// A card's name, or the path of a GGUF file or a folder of safetensors.
    pub model: String,
    /// A LoRA adapter in PEFT's layout.
    pub adapter: Option<PathBuf>,
    /// Other models for roles of the method: `MODEL` or `MODEL+ADAPTER`.
    pub roles: Vec<(Role, String)>,
    /// A chat template that replaces that of `model`.
    pub chat_template: Option<PathBuf>,
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self { model: DEFAULT_MODEL.into(), adapter: None, roles: Vec::new(), chat_template: None }
    }
}

impl ModelSpec {
    /// One model in all roles.
    #[must_use]
    pub fn named(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }
}

/// Sampling of answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingSpec {
    /// At least 0; 0 always takes the most likely token.
    pub temperature: f32,
    /// Nucleus sampling: above 0, at most 1.
    pub top_p: f32,
    /// The most tokens of an answer; `None`: the method's own.
    pub max_tokens: Option<usize>,
    pub seed: u64,
}

impl Default for SamplingSpec {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, max_tokens: None, seed: 0 }
    }
}

impl SamplingSpec {
    /// The sampling parameters of a request.
    #[must_use]
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
#[must_use]
pub fn sampling_signature(sampling: &Sampling) -> Signature {
    let Sampling { temperature, top_p, seed, max_tokens: _, stop: _ } = sampling;
    let signature = Signature::new().with("temp", temperature.to_string());
    let signature = if *top_p < 1.0 { signature.with("top_p", top_p.to_string()) } else { signature };
    signature.with("seed", seed.to_string())
}

/// Resources of the models. Of these only the number formats (`dtype`, `activations`, `kv_dtype`) can move a
/// score.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Resources {
    /// `auto`, `cpu`, `cuda`, `cuda:N` or `cuda:N,M`.
    pub device: String,
    /// GPUs that hold one model together; `None`: as few as hold it.
    pub tensor_parallel: Option<usize>,
    /// Weights that are not quantized: `auto`, `bf16`, `f16` or `f32`.
    pub dtype: String,
    /// Activations that are multiplied with quantized weights: `q8` or `float`.
    pub activations: String,
    /// The KV cache: `bf16`, `f16` or `f32`.
    pub kv_dtype: String,
    /// Bytes of the KV cache; `None`: what fits.
    pub kv_cache: Option<u64>,
    /// Tokens of a prompt with its answer; `None`: the model's context.
    pub context: Option<usize>,
    /// Groups of segments judged at the same time; `None`: at least 64.
    pub jobs: Option<usize>,
    /// Token positions in one step of the model.
    pub batch: Option<usize>,
    /// CPU threads; `None`: one for each performance core.
    pub threads: Option<usize>,
    pub prefix_cache: bool,
    /// Disk space for the keys and values of methods' instructions and examples, which later runs on a CPU
    /// read; 0: none are saved. Unit: bytes.
    pub saved_prefixes: u64,
    /// Speculative decoding.
    pub drafts: bool,
    /// CUDA graphs.
    pub graphs: bool,
    /// CUDA kernels to run: `auto`, `proven` or `plain`.
    pub gpu_kernels: String,
    /// Programmatic dependent launch of CUDA kernels.
    pub dependent_launch: bool,
    /// A GPU's step that takes so long, and many times what was expected, ends the run; 0: none does. Unit:
    /// seconds.
    pub hung_after: f64,
    /// One step in so many is computed a second time on a GPU, to compare; 0: none.
    pub recheck_every: usize,
    /// The SIMD level of CPU kernels; `auto`: the fastest of this processor.
    pub cpu_tier: String,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            tensor_parallel: None,
            dtype: "auto".into(),
            activations: "q8".into(),
            kv_dtype: "bf16".into(),
            kv_cache: None,
            context: None,
            jobs: None,
            batch: None,
            threads: None,
            prefix_cache: true,
            saved_prefixes: 4 << 30,
            drafts: true,
            graphs: true,
            gpu_kernels: "auto".into(),
            dependent_launch: true,
            hung_after: 30.0,
            recheck_every: 4096,
            cpu_tier: "auto".into(),
        }
    }
}

/// The run folder and what it keeps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// The run folder; `None`: `out/METHOD-MODEL-HASH`.
    pub folder: Option<PathBuf>,
    /// One part of the run; `None`: the whole.
    pub shard: Option<Shard>,
    /// Asks once more about segments whose answers could not be used.
    pub retry_missing: bool,
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
        assert_eq!((least.judge.samples, least.models.model.as_str()), (1, DEFAULT_MODEL));
        let wrong = serde_json::from_str::<Spec>("{\"judge\":{\"metod\":\"fsp\"}}").unwrap_err().to_string();
        assert!(wrong.contains("unknown field `metod`"), "{wrong}");
    }
}
