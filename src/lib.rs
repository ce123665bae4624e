//! `tribunal`: machine-translation evaluation by open-weight LLM judges, in one process.
//!
//! The modules in reading order: a [`segment::Segment`] is judged by a [`judges::Judge`], which puts questions to an
//! [`llm::Llm`] and gets answers in the [`llm::Form`] it asked for (both in [`jinja`] templates from untrusted
//! sources); [`mqm`] turns errors into a score; [`signature`] names everything that can move it; [`run`] takes a
//! whole test set through a judge and never loses finished work; [`meta`] says how well its verdicts agree with human
//! ones, and [`report`] prints them; [`card`] fetches and checks models ([`gguf`] is a format of theirs),
//! [`evidence`] searches the user's documents; [`engine`] is the `Llm` that runs open weights in this process over
//! the decoder in [`model`]; [`tune`] trains adapters of a model to judge; [`bench`] measures the engine, and [`cli`]
//! is the command line. Below them all are [`files`], through which results are written and untrusted folders
//! opened, [`digest`]s, seeded numbers ([`random`]), work in [`parallel`] and [`panics`].
//!
//! It holds no prompt text (that is in files beside each judge) and uses the network only for `models pull` and, where
//! the user names one, a search service on this machine.

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

pub mod run;

pub use tribunal_meta as meta;

pub mod report;

pub use tribunal_engine::gguf;

pub use tribunal_engine::card;

pub use tribunal_judges::evidence;

pub use tribunal_engine::engine;

pub use tribunal_engine::model;

pub mod tune;

pub mod bench;

pub mod cli;
