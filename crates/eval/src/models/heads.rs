//! The heads of models beside what a judge needs, before any weight is read.

use std::path::{Path, PathBuf};

use tribunal_model::{Weights, metric::Class};

use super::{RoleAssignment, assignments};
use crate::{
    error::{Error, Result},
    hub,
    judges::{NeededHead, comet, method::Output, probe, qe, registry::METHODS},
    signature::Signature,
    spec::{ModelSpec, Spec},
    values::{AUTO, DEFAULT_ENCODER, DEFAULT_MODEL},
};

/// A specification with the method that follows from its model, and the model that follows from its method.
///
/// # Errors
/// Those of [`assignments`].
pub fn resolved(mut spec: Spec) -> Result<Spec> {
    if spec.judge.method == AUTO {
        let models = assignments(&spec.models)?;
        let are_all = |is: fn(&str) -> bool| models.iter().all(|of| is(&of.model));
        let of_encoder = are_all(is_default_encoder).then_some(qe::METHOD.name);
        let of_metric = || are_all(is_metric).then_some(comet::METHOD.name);
        of_encoder.or_else(of_metric).unwrap_or(probe::METHOD.name).clone_into(&mut spec.judge.method);
    }
    resolve_model(&mut spec);
    Ok(spec)
}

fn resolve_model(spec: &mut Spec) {
    if spec.models.model == AUTO {
        let method = spec.judge.method.split(':').next();
        let is_qe = method == Some(qe::METHOD.name);
        if is_qe { DEFAULT_ENCODER } else { DEFAULT_MODEL }.clone_into(&mut spec.models.model);
    }
}

/// Resolves the method and model of a recorded run, whose model may be elsewhere.
pub fn restore(spec: &mut Spec, signature: &Signature) {
    if spec.judge.method == AUTO {
        signature.get("method").unwrap_or(probe::METHOD.name).clone_into(&mut spec.judge.method);
    }
    resolve_model(spec);
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
            (Some(NeededHead::Estimator), Head::Encoder) => continue,
            (Some(NeededHead::Estimator), _) => {
                let hint = format!("use the encoder that the method was trained with, `{DEFAULT_ENCODER}`");
                ("is not an encoder".to_owned(), hint)
            }
            (_, Head::Encoder) => {
                let reason = "is an encoder, which generates no text and has no score head".to_owned();
                (reason, format!("a language model, such as `{DEFAULT_MODEL}`"))
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

/// Returns true for the name of the default encoder, and for a file or folder of this name.
fn is_default_encoder(name: &str) -> bool {
    Path::new(name).file_stem().is_some_and(|stem| stem == DEFAULT_ENCODER)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::JudgeSpec;

    #[test]
    fn method_and_model_follow_from_each_other() {
        let of = |method: &str, model: &str| {
            let spec = Spec {
                judge: JudgeSpec { method: method.into(), ..JudgeSpec::default() },
                models: ModelSpec { model: model.into(), ..ModelSpec::default() },
                ..Spec::default()
            };
            let Spec { judge, models, .. } = resolved(spec).unwrap();
            (judge.method, models.model)
        };
        let check = |given: [&str; 2], method: &str, model: &str| {
            assert_eq!(of(given[0], given[1]), (method.to_owned(), model.to_owned()), "{given:?}");
        };
        check([AUTO, AUTO], "probe", DEFAULT_MODEL);
        check([AUTO, DEFAULT_ENCODER], "qe", DEFAULT_ENCODER);
        check([AUTO, "here/multilingual-e5-small.bin"], "qe", "here/multilingual-e5-small.bin");
        check([AUTO, "nowhere"], "probe", "nowhere");
        check(["qe:witness=off", AUTO], "qe:witness=off", DEFAULT_ENCODER);
        check(["gemba-mqm", AUTO], "gemba-mqm", DEFAULT_MODEL);
        check(["probe", DEFAULT_ENCODER], "probe", DEFAULT_ENCODER);
        let restored = |signed: &str| {
            let mut spec = Spec::default();
            restore(&mut spec, &signed.parse().unwrap());
            (spec.judge.method, spec.models.model)
        };
        assert_eq!(restored("method:qe|v:1"), ("qe".to_owned(), DEFAULT_ENCODER.to_owned()));
        assert_eq!(restored("method:probe|v:1"), ("probe".to_owned(), DEFAULT_MODEL.to_owned()));
    }
}
