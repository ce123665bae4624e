//! Check of a run folder against its description: its verdicts against the recorded answers, the answers
//! against the model, and the signature and `run.json` against a specification.

use std::{path::Path, sync::Arc};

use super::{Recorded, sources};
use crate::{
    error::Result,
    evaluation::{Evaluation, cautions, judge, signature},
    judges::{Built, Panel, Rehearsal},
    models::ModelLoader,
    run::{
        self, RunFile, Task,
        verify::{Difference, Options, Replay, Report},
    },
    signature::Signature,
};

/// Options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Replays the answers of so many groups, drawn by the seed; `None`: of all.
    pub sample: Option<(usize, u64)>,
    /// Derives the verdicts from the recorded answers alone.
    pub without_model: bool,
    /// Reads files outside of the folder that its command names.
    pub allow_files: bool,
}

/// Fields that only the model can confirm, by file: answers are checked as far as they move a verdict, models
/// by their hashes.
pub const UNCHECKED: [(&str, &[&str]); 2] = [
    ("calls.jsonl", &["reply", "tokens", "pieces", "logprobs", "masked_logprobs", "scored", "finish"]),
    ("run.json", &["origin.models", "trained_on"]),
];

/// Checks a folder against its recorded run.
///
/// # Errors
/// Damaged files, models that cannot be loaded or that the judge cannot use.
pub fn check(dir: &Path, recorded: Recorded, how: &Check, load: ModelLoader) -> Result<Report> {
    let Recorded { run, spec, original, input } = recorded;
    // Adapters, which record the judge's training data, are not loaded without their model.
    let (spec, built, trained_on, input) = if how.without_model {
        let built = judge(&spec, &input)?;
        (spec, built, run.trained_on.clone(), input)
    } else {
        let Evaluation { spec, judge, trained_on, input, .. } = Evaluation::from_input(spec, input)?;
        (spec, judge, trained_on, input)
    };
    let sampling = spec.sampling.sampling();
    let mut replay = Options {
        selection: input.selection.clone(),
        seed: spec.sampling.seed,
        sample: how.sample,
        replay: if how.without_model { Replay::FromRecord } else { Replay::WithModel },
        jobs: spec.resources.jobs.unwrap_or(1),
    };
    let (panel, models, files) = if how.without_model {
        (Panel::new(Arc::new(Rehearsal::default()), sampling), of_models(&run.signature, &built), None)
    } else {
        let models = load(&spec.models, &spec.resources, sampling)?;
        built.check_reasoning(&models.panel, |role| models.model_of(role))?;
        built.protocol().check_models(&|role| models.model_of(role))?;
        replay.jobs = models.jobs(spec.resources.jobs);
        (models.panel, models.signature, Some(models.files))
    };
    let signature = signature(&built, &models, &spec.sampling);
    let mut found = fields(&run, &signature);
    found.extend(sources::unlike("the short signature", &run.short_signature, &run.signature.short()));
    found.extend(sources::prompts(&run, &built));
    found.extend(sources::materials(dir, &run, &original, how.allow_files)?);
    found.extend(sources::names(&run));
    found.extend(files.iter().flat_map(|files| sources::models(&run.origin.models, files)));
    found.extend(sources::training(&run.trained_on, &trained_on));
    found.extend(sources::cautions(&run.cautions, &cautions(&built.judge, &input, spec.sampling.seed)?));
    let task = Task { panel: &panel, judge: &built.judge, segments: &input.segments, signature: &signature };
    let mut report = run::verify::verify(dir, &run, task, &replay)?;
    report.n_differences += found.len();
    report.differences.splice(0..0, found);
    Ok(report)
}

/// The models' fields of a signature, unchecked: those between the method's own two parts.
fn of_models(signature: &Signature, built: &Built) -> Signature {
    let signed = built.signature();
    let is_own = |key: &str| {
        signed.method.get(key).is_some()
            || signed.prompts.get(key).is_some()
            || ["temp", "top_p", "seed", "v", "retry"].contains(&key)
    };
    let models = signature.fields().iter().filter(|(key, _)| !is_own(key));
    models.fold(Signature::new(), |models, (key, value)| models.with(key, value))
}

/// The fields of the signature that are not as the folder has them.
fn fields(run: &RunFile, present: &Signature) -> Vec<Difference> {
    let named = |value: Option<String>| value.unwrap_or_else(|| "no such field".into());
    // Asking units again does not depend on the judge or its models.
    let differences = present.differences(&run.signature).into_iter().filter(|d| d.key != "retry");
    differences
        .map(|d| {
            let subject = format!("the signature's field `{}`", d.key);
            Difference::new("run.json", &subject, &named(d.recorded), &named(d.present))
        })
        .collect()
}
