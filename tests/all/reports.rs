//! Inputs made after public bug reports, with the right values. They lie beside the published test data, and a test whose
//! input is not there says so and passes.

mod checkpoints;
mod gguf;
mod ratings;
mod readers;
mod tokenizers;
