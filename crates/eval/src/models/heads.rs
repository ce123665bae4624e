//! The heads of models beside what a judge needs, before any weight is read.

use std::path::{Path, PathBuf};

use tribunal_model::{Weights, metric::Class};

use super::{RoleAssignment, assignments};
use crate::{
    error::{Error, Result},
    hub,
    judges::{NeededHead, comet, method::Output, registry::METHODS},
    signature::Signature,
    spec::{JudgeSpec, ModelSpec, Spec},
};

/// The method of a judge: `comet` for a metric where none was named but the default.
///
/// # Errors
/// Those of [`assignments`].
pub fn with_method(mut spec: Spec) -> Result<Spec> {
    if spec.judge.method == JudgeSpec::default().method
        && assignments(&spec.models)?.iter().all(|of| is_metric(&of.model))
    {
        comet::METHOD.name.clone_into(&mut spec.judge.method);
    }
    Ok(spec)
}

/// The method that [`with_method`] gave a recorded run, whose model may be elsewhere.
pub fn restore_method(spec: &mut Spec, signature: &Signature) {
    if spec.judge.method == JudgeSpec::default().method && signature.get("method") == Some(comet::METHOD.name)
    {
        comet::METHOD.name.clone_into(&mut spec.judge.method);
    }
}

/// Checks that the models have the head that a judge needs. Models that are not here, or cannot be read, are
/// left to the loader.
///
/// # Errors
/// [`Error::Head`].
pub fn check(spec: &ModelSpec, method: &str, needed: Option<NeededHead>) -> Result<()> {
    for RoleAssignment { model, .. } in assignments(spec)? {
        let Some(found) = head(&model) else { continue };
        let (reason, hint) = match (needed, found) {
            (None | Some(NeededHead::Metric { .. }), Head::Scores(_)) => {
                let readers = METHODS.iter().filter(|method| method.output == Output::Head);
                let readers: Vec<String> = readers.map(|method| format!("`{}`", method.name)).collect();
                let hint = format!("the methods {} read score heads", readers.join(" and "));
                ("has a score head and answers no question".to_owned(), hint)
            }
            (None | Some(NeededHead::Scores { .. }), Head::Metric(_)) => {
                ("is a metric and answers no question".to_owned(), "use the method `comet`".to_owned())
            }
            (Some(NeededHead::Metric { shows_reference: false }), Head::Metric(class))
                if class.needs_reference() =>
            {
                let hint = "give references (`-r FILE`), or use a metric that needs none, such as `wmt22-cometkiwi-da`";
                ("needs references, and none are given".to_owned(), hint.to_owned())
            }
            (Some(NeededHead::Metric { .. }), Head::Vocabulary | Head::Encoder) => (
                "is not a metric of the COMET family".to_owned(),
                "a metric, such as `wmt22-comet-da`".to_owned(),
            ),
            (_, Head::Encoder) => {
                let reason = "is an encoder, which generates no text and has no score head".to_owned();
                (reason, "a language model, such as `qwen2.5-coder-1.5b-instruct`".to_owned())
            }
            (Some(NeededHead::Scores { .. }), Head::Vocabulary) => {
                let hint = "a reward model, such as `remedy-9b-23`".to_owned();
                ("is a language model without a score head".to_owned(), hint)
            }
            (Some(NeededHead::Scores { output: None }), Head::Scores(n)) if n > 1 => {
                let hint = "choose one of its outputs, as in `reward:output=1`".to_owned();
                (format!("has a score head of {n} outputs, of which none is chosen"), hint)
            }
            (Some(NeededHead::Scores { output: Some(output) }), Head::Scores(n)) if output > n => {
                let reason = format!("has a score head of {n} outputs, and output {output} is to be read");
                (reason, format!("its outputs are 1 to {n}"))
            }
            _ => continue,
        };
        return Err(Error::Head { method: method.to_owned(), model, reason, hint });
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
    /// A metric's head on an encoder.
    Metric(Class),
    /// None: hidden states alone.
    Encoder,
}

/// The head of a model on this machine; `None` for a model that is not here or cannot be read. No weights are
/// read.
#[must_use]
pub fn head(name: &str) -> Option<Head> {
    let weights = Weights::open(&path(name)?).ok()?;
    if let Some(metric) = weights.metric() {
        return Some(Head::Metric(metric.class));
    }
    let config = weights.config();
    if config.encoder.is_some() {
        return Some(Head::Encoder);
    }
    Some(config.score_head.map_or(Head::Vocabulary, |head| Head::Scores(head.n_outputs)))
}

/// Returns true if a model on this machine has the settings of a metric.
fn is_metric(name: &str) -> bool {
    path(name).is_some_and(|path| path.join(hub::METRIC).is_file())
}

/// The file or folder of a model on this machine.
fn path(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.exists() { Some(path.to_owned()) } else { Some(hub::find(name).ok()?.local().ok()?.weights) }
}
