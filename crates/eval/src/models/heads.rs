//! The heads of models beside what a judge needs, before any weight is read.

use std::path::Path;

use tribunal_model::Weights;

use super::{RoleAssignment, assignments};
use crate::{
    error::{Error, Result},
    hub,
    judges::NeededHead,
    spec::ModelSpec,
};

/// Checks that the models have the head that a judge needs. Models that are not here, or cannot be read, are
/// left to the loader.
///
/// # Errors
/// [`Error::Head`].
pub fn check(spec: &ModelSpec, method: &str, needed: Option<NeededHead>) -> Result<()> {
    for RoleAssignment { model, .. } in assignments(spec)? {
        let Some(found) = head(&model) else { continue };
        let reason = match (needed, found) {
            (None, Head::Scores(_)) => "has a score head and answers no question".to_owned(),
            (Some(_), Head::Vocabulary) => "is a language model without a score head".to_owned(),
            (Some(NeededHead { output: None }), Head::Scores(n)) if n > 1 => {
                format!("has a score head of {n} outputs, of which none is chosen (`reward:output=1`)")
            }
            (Some(NeededHead { output: Some(output) }), Head::Scores(n)) if output > n => {
                format!("has a score head of {n} outputs, and output {output} is to be read")
            }
            _ => continue,
        };
        return Err(Error::Head { method: method.to_owned(), model, reason });
    }
    Ok(())
}

/// The head of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The output matrix of a language model.
    Vocabulary,
    /// A score head with so many outputs.
    Scores(usize),
}

/// The head of a model on this machine; `None` for a model that is not here or cannot be read. No weights are
/// read.
#[must_use]
pub fn head(name: &str) -> Option<Head> {
    let path = Path::new(name);
    let path = if path.exists() { path.to_owned() } else { hub::find(name).ok()?.local().ok()?.weights };
    let weights = Weights::open(&path).ok()?;
    Some(weights.config().score_head.map_or(Head::Vocabulary, |head| Head::Scores(head.n_outputs)))
}
