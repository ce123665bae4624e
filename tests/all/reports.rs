//! Inputs made after public bug reports, with the right values. They lie beside the published test data, and
//! a test whose input is missing prints a note and passes.

mod checkpoints;
mod gguf;
mod ratings;
mod readers;
mod tokenizers;
