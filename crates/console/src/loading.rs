//! Loading models for a command, with notes on standard error.

use crate::{
    eval::{
        ModelSpec, Models, Resources, Result,
        models::{self, ModelEngine},
    },
    llm::Sampling,
    stream::say,
};

/// The program's model loader: loads the models of a specification and prints what the user should know of
/// them.
///
/// # Errors
/// A model or adapter that cannot be found, read or run here.
pub fn load(spec: &ModelSpec, resources: &Resources, sampling: Sampling) -> Result<Models> {
    let models = models::load(spec, resources, sampling)?;
    models.notes.iter().for_each(|note| say(format_args!("note: {note}")));
    Ok(models)
}

/// Opens the main model, with its adapter.
///
/// # Errors
/// Those of [`load`].
pub fn open(model: &ModelSpec, resources: &Resources) -> Result<ModelEngine> {
    let opened = models::open(model, resources)?;
    opened.notes.iter().for_each(|note| say(format_args!("note: {note}")));
    Ok(opened)
}
