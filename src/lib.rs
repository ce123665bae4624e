//! Machine-translation evaluation by open-weight LLM judges, in one process.
//!
//! Start with [`eval`]: a [`eval::Spec`] names input, method, models and run folder, an [`eval::Evaluation`]
//! judges. Below it, a [`segment::Segment`] is judged by a [`judges::Judge`], which sends chats to an
//! [`llm::Llm`]; [`engine`] is the `Llm` that runs open weights, over the decoder in [`model`]; [`mqm`] turns
//! errors into scores; [`run`] keeps verdicts in a folder; [`signature`] names everything that can move a
//! score. [`meta`] measures the agreement of verdicts with human ratings, [`report`] prints them, [`hub`]
//! fetches and checks models, [`evidence`] searches documents, [`tune`] fits judges, [`cli`] is the command
//! line, [`console`] the parts shared with `tribunal-bench`.

pub use tribunal_core::files;

pub use tribunal_core::panics;

pub use tribunal_core::segment;

pub use tribunal_core::mqm;

pub use tribunal_core::llm;

pub use tribunal_core::jinja;

pub use tribunal_core::signature;

pub use tribunal_core::digest;

pub use tribunal_core::random;

pub use tribunal_core::parallel;

pub use tribunal_judges as judges;

pub use tribunal_replication as replication;

pub use tribunal_run as run;

pub use tribunal_eval as eval;

pub use tribunal_meta as meta;

pub use tribunal_report as report;

pub use tribunal_model::gguf;

pub use tribunal_hub as hub;

pub use tribunal_judges::evidence;

pub use tribunal_engine as engine;

pub use tribunal_model as model;

pub use tribunal_cpu as cpu;

pub use tribunal_cuda as cuda;

pub use tribunal_console as console;

pub use tribunal_tune as tune;

pub mod cli;
