//! Tuning a judge: adapters of a frozen model's layers are trained on rated translations, to give the raters' errors as
//! answers (GMFT, "FSP" paper, Sections 2 and 3.2) or to be scored as raters do; and maps of a model's hidden states are
//! fitted (the judge `probe`). It judges nothing and prints nothing.
//!
//! In reading order: [`rated`] reads what raters marked; [`split`] keeps documents apart; [`examples`] joins segments
//! to the units that a judge will see and writes question and answer; [`encoded`] turns them into the tokens that the
//! constrained decoder would take. [`lower`] runs the frozen lower layers once and keeps what they give; [`forward`]
//! takes that through the layers above, whose matrices are [`frozen`] but for their [`lora`]. What is learnt is a
//! [`task`]: [`answers`] looks at the answers' tokens alone, [`scores`] at what a fit makes of the states. [`train`] makes
//! steps with [`adamw`], and [`state`] keeps them safe from being killed; [`estimate`] says what memory it takes.
//! [`readings`] keeps hidden states, and [`probe`] fits maps to them by [`ridge`] regression.

pub mod rated;

pub mod split;

pub mod examples;

pub mod encoded;

pub mod lower;

pub mod forward;

pub mod frozen;

pub mod attend;

pub mod lora;

pub mod task;

pub mod answers;

pub mod scores;

pub mod adamw;

pub mod train;

pub mod state;

pub mod estimate;

pub mod draw;

pub mod readings;

pub mod ridge;

pub mod probe;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

/// What a training is made from.
pub use crate::model::{Weights, adapter::Module};

/// Why a judge cannot be tuned.
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
    #[error("too little memory: training takes about {needed}, but {free} are free; hint: {hint}")]
    Memory { needed: String, free: String, hint: String },
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

/// Says which file could not be read or written.
pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}
