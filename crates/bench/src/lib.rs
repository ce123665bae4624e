//! `tribunal-bench`: the limits of this machine, how close the kernels and the engine come to them, and a
//! check that every setting gives the same bytes. It reads no human scores.
//!
//! In reading order: [`machine`] measures limits; [`ops`] compares kernels with them; [`throughput`] measures
//! how fast a model reads prompts and writes answers; [`requests`] are the questions that a judge would ask,
//! which [`workload`] runs as fast as it can and [`invariance`] under one setting after another. [`gpu`]
//! measures a GPU and the [`shapes`] of models on it, without their weights; [`seeded`] files have such a
//! shape for other engines too. [`candle`] runs candle-transformers' models for comparison. [`cli`] is the
//! command line.

use tribunal_console as console;
use tribunal_core::{files, llm, parallel, random, segment};
use tribunal_cpu as cpu;
use tribunal_cuda as cuda;
use tribunal_engine as engine;
use tribunal_eval as eval;
use tribunal_judges as judges;
use tribunal_model as model;
use tribunal_run as run;

pub mod machine;

pub mod ops;

pub mod throughput;

pub mod requests;

pub mod workload;

pub mod invariance;

pub mod shapes;

pub mod seeded;

pub mod gpu;

pub mod candle;

pub mod cli;

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a benchmark cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is too little memory to measure its bandwidth: {0}")]
    Memory(std::io::Error),
    #[error("`{file}` line {line}: {reason}")]
    Request { file: String, line: usize, reason: String },
    #[error("`{file}`: {source}")]
    File { file: String, source: std::io::Error },
    #[error("there is nothing to ask: the input is empty, or the method has no questions about it")]
    Nothing,
    #[error(
        "`{name}` is not a shape; hint: {known}; the weights of products have a format behind a colon ({formats})"
    )]
    Shape { name: String, known: String, formats: String },
    #[error("`{file}`: {reason}")]
    Seeded { file: String, reason: String },
    #[error("candle cannot read `{file}`: {reason}")]
    CandleFile { file: String, reason: String },
    #[error("candle cannot run the model: {0}")]
    Candle(Box<candle_core::Error>),
    #[error(transparent)]
    Engine(#[from] crate::engine::Error),
    #[error("request `{id}`: {source}")]
    Llm { id: String, source: crate::llm::Error },
}
