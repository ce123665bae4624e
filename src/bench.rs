//! `tribunal bench`: the limits of this machine, what the kernels and the engine make of them, and whether the
//! bytes hold. It judges nothing by itself and prints nothing.
//!
//! In reading order: [`machine`] measures limits; [`ops`] holds kernels against them; [`pace`] measures prompts
//! and answers of a model; [`requests`] are the questions that a judge would ask, which [`workload`] runs as
//! fast as it can and [`invariance`] under one setting after another.

pub mod machine;

pub mod ops;

pub mod pace;

pub mod requests;

pub mod workload;

pub mod invariance;

/// Why a benchmark cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no memory to read: {0}")]
    Memory(std::io::Error),
    #[error("`{file}` line {line}: {reason}")]
    Request { file: String, line: usize, reason: String },
    #[error("`{file}`: {source}")]
    File { file: String, source: std::io::Error },
    #[error("there is nothing to ask; hint: the input is empty, or the method asks nothing about it")]
    Nothing,
    #[error("request `{id}`: {source}")]
    Llm { id: String, source: crate::llm::Error },
}
