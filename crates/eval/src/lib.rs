//! Evaluations of machine translation by LLM judges: from a [`Spec`] to verdicts.
//!
//! A [`Spec`] names the input, the method, the models and the run folder. [`Evaluation::new`] reads the input
//! and checks the judge against it, before any model is loaded; [`Evaluation::load`] loads the [`Models`];
//! [`Evaluation::run`] judges, or continues what the run folder holds. Warnings, signature and provenance are
//! values; nothing is printed.
//!
//! ```no_run
//! use tribunal_eval::{Evaluation, Invocation, JudgeSpec, Spec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut spec = Spec { judge: JudgeSpec::method("gemba-mqm"), ..Spec::default() };
//! spec.input.table = Some("translations.jsonl".into());
//! let evaluation = Evaluation::new(spec)?;
//! let models = evaluation.load()?;
//! let outcome = evaluation.run(&models, &Invocation::default())?;
//! for record in outcome.each_record()? {
//!     println!("{:?}", record?.score);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Session`] keeps its models and judges many inputs. [`Forecast`] estimates the cost of a run.
//! [`recorded`] goes from a run folder back to its evaluation, to repeat it or to check it. `tribunal-run` is
//! the layer below: groups, journal, shards. [`selftest`] checks the build on this machine.

use tribunal_core::{digest, files, llm, mqm, segment, signature};
use tribunal_engine as engine;
use tribunal_hub as hub;
use tribunal_judges as judges;
use tribunal_run as run;

pub mod citation;
mod error;
mod evaluation;
pub mod forecast;
pub mod input;
pub mod models;
mod prefixes;
pub mod provenance;
pub mod raters;
pub mod recorded;
mod room;
pub mod selftest;
pub mod session;
pub mod spec;
pub mod values;

pub use tribunal_cuda::KernelSet;

pub use error::{CpuSetting, Error, InputKind, Result};
pub use evaluation::{Evaluation, Input, Invocation, Run, build, signature};
pub use forecast::Forecast;
pub use models::{ModelLoader, Models};
pub use session::Session;
pub use spec::{
    DeviceRequest, Dtype, InputSpec, JudgeSpec, ModelSpec, OutputSpec, Pair, Resources, Samples,
    SamplingSpec, Spec,
};
pub use values::DEFAULT_MODEL;
