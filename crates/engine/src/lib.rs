//! Open-weight models in this process: [`card`] fetches and checks their files, [`model`] runs a step of one
//! on a CPU or on NVIDIA GPUs, and [`engine`] is the [`llm::Llm`] that batches requests; [`gguf`] is one of
//! the file formats. It handles no segments and no judges.

use tribunal_core::{files, jinja, llm, panics, signature};

pub mod gguf;

pub mod card;

pub mod model;

pub mod engine;
