//! A session: its models are loaded once and judge many inputs. Another thread can watch its progress, and
//! stop it.

use std::path::Path;

use crate::{
    error::Result,
    evaluation::{Evaluation, Invocation, build},
    llm::CancellationToken,
    models::{ModelLoader, Models, adapter, heads},
    run::{Outcome, Writing},
    spec::{InputSpec, Spec},
};

/// Progress of judging one input, and its cancellation.
#[derive(Debug, Default)]
pub struct Watch {
    writing: Writing,
    stop: CancellationToken,
}

impl Watch {
    /// Units whose verdicts are safe, and all of them; none before the first question is asked.
    pub fn progress(&self) -> (usize, usize) {
        let written = self.writing.lock();
        (written.done, written.units)
    }

    /// Cancels it: finished groups are kept, pending ones are dropped, and judged when the run is resumed.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

/// Loaded models, and the specification that they judge by.
pub struct Session {
    spec: Spec,
    invocation: Invocation,
    models: Models,
}

/// The verdicts on one input.
#[derive(Debug)]
pub struct SessionOutcome {
    pub outcome: Outcome,
    /// Notes for the user about the input.
    pub notes: Vec<String>,
}

impl Session {
    /// Loads the models of a specification, whose input may be missing. `invocation.command` is a command
    /// line without its input and folder, for `run.json`.
    ///
    /// # Errors
    /// A method that does not exist, models that cannot be run.
    pub fn open(spec: Spec, invocation: Invocation, load: ModelLoader) -> Result<Self> {
        let mut spec = heads::resolved(spec)?;
        // Before the model is loaded, which can take minutes.
        let settings = spec.judge.settings(&spec.sampling, adapter::annotator(&spec.models));
        let built = build(&spec.judge.method, &settings)?;
        heads::check(&spec.models, built.method().name, built.judge.head)?;
        spec.models.estimator.clone_from(&built.judge.estimator);
        let models = load(&spec.models, &spec.resources, spec.sampling.sampling())?;
        Ok(Self { spec, invocation, models })
    }

    /// Judges a table of translations into a run folder. Several threads may do so at the same time, each
    /// with its own folder and watch.
    ///
    /// # Errors
    /// The errors of [`Evaluation::run`]; [`crate::run::Error::Interrupted`] when the watch was stopped.
    pub fn score(&self, table: &Path, folder: &Path, watch: &Watch) -> Result<SessionOutcome> {
        let mut spec = self.spec.clone();
        spec.input = InputSpec { table: Some(table.into()), ..spec.input };
        spec.output.folder = Some(folder.into());
        let evaluation = Evaluation::new(spec)?;
        let outcome = evaluation.run(&self.models, &self.invocation(table, folder, watch))?;
        let overlaps = evaluation.trained_on.iter().map(ToString::to_string);
        let notes = evaluation.notes.iter().cloned().chain(overlaps);
        let notes = notes.chain(evaluation.cautions.iter().cloned());
        let notes = notes.chain(evaluation.small_model());
        let notes = notes.chain(evaluation.warnings(&self.models)).collect();
        Ok(SessionOutcome { outcome, notes })
    }

    /// With the command line that would make the same run.
    fn invocation(&self, table: &Path, folder: &Path, watch: &Watch) -> Invocation {
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut command = self.invocation.command.clone();
        command.extend([option("input", table), option("out", folder)]);
        let Watch { writing, stop } = watch;
        Invocation { command, writing: writing.clone(), stop: stop.clone(), ..self.invocation.clone() }
    }
}
