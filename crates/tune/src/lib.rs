//! Data to fit or tune judges: human-rated translations, split so that no test text is trained on; the
//! examples that another trainer learns from (GMFT, "FSP" paper, Sections 2 and 3.2); and maps of a model's
//! hidden states, fitted in closed form (the judge `probe`). It trains no network, judges nothing and prints
//! nothing.
//!
//! In reading order: [`rated`] and [`lines`] read the raters' annotations; [`sample`] draws from it;
//! [`split`] keeps documents apart; [`corruption`] makes translations worse; [`examples`] joins segments to
//! the units that a judge will see and writes question and answer. [`readings`] keeps hidden states, and
//! [`probe`] fits maps to them by [`ridge`] regression.

use tribunal_core::{digest, files, llm, mqm, random, segment};
use tribunal_engine as engine;
use tribunal_judges as judges;
use tribunal_meta as meta;
use tribunal_model as model;

pub mod rated;

pub mod lines;

pub mod sample;

pub mod agreement;
pub mod corruption;

pub mod split;

pub mod examples;

pub mod draw;

pub mod readings;

pub mod ridge;

pub mod probe;

pub use crate::model::Weights;

use std::path::{Path, PathBuf};

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of tuning a judge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{path}`: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{path}` line {line}: {reason}")]
    Line { path: PathBuf, line: usize, reason: String },
    #[error(transparent)]
    Read(#[from] crate::segment::read::Error),
    #[error(transparent)]
    Raters(#[from] crate::mqm::raters::Error),
    #[error("{0}")]
    Ratings(String),
    #[error(
        "the split leaks: document `{held_out}` is held out, but document `{trained}`, which would be trained on, has \
         the same text: {text}; hint: hold out both, or neither"
    )]
    Leak { held_out: String, trained: String, text: String },
    #[error("{0}")]
    Unsuitable(String),
    #[error(transparent)]
    Judge(#[from] crate::judges::setup::Error),
    #[error(transparent)]
    Llm(#[from] crate::llm::Error),
    #[error(transparent)]
    Engine(#[from] crate::engine::Error),
    #[error(transparent)]
    Model(#[from] crate::model::Error),
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Adds the path of a file that could not be read or written.
pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}
