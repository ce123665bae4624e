//! Loading models for a command, with notes on standard error.

use anyhow::Result;

use super::args::{EngineArgs, ModelArgs};
use crate::{
    eval::{
        ModelLoader, Models,
        models::{self, ModelEngine},
    },
    llm::Sampling,
};

/// Loads the models that the arguments name.
///
/// # Errors
/// A model or adapter that cannot be found, read or run here.
pub fn load(load: ModelLoader, model: &ModelArgs, engine: &EngineArgs, sampling: Sampling) -> Result<Models> {
    let models = load(&model.spec(), &engine.spec(), sampling)?;
    models.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(models)
}

/// Opens the main model, with its adapter.
///
/// # Errors
/// As [`load`].
pub fn open(model: &ModelArgs, engine: &EngineArgs) -> Result<ModelEngine> {
    let opened = models::open(&model.spec(), &engine.spec())?;
    opened.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(opened)
}
