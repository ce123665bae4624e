//! A judge that stays: its models are loaded once and judge many inputs, for programs that call this library instead of
//! the command line. A second thread can watch its progress, and stop it.

use std::path::Path;

use anyhow::{Result, bail};

use super::{
    Cli, Command, adapter,
    panel::{LoadedModels, ModelLoader},
    prepare::{self, Begun, Prepared, Run},
    score, stream,
};
use crate::{
    judges::registry,
    llm::Stop,
    run::{Outcome, Writing},
};

/// How far the judging of one input has come, and the word that ends it.
#[derive(Debug, Default)]
pub struct Watch {
    writing: Writing,
    stop: Stop,
}

impl Watch {
    /// Units whose verdicts are safe, and all of them; none before the first question is asked.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        let written = self.writing.hold();
        (written.done, written.units)
    }

    /// Ends it: what is finished is kept, what is being answered or waits is dropped, and judged when the run is
    /// resumed.
    pub fn stop(&self) {
        self.stop.say();
    }
}

/// Loaded models and what they are asked to do.
pub struct Session {
    args: score::Args,
    /// The words of the command line.
    words: Vec<String>,
    models: LoadedModels,
}

/// What a session says of an input.
#[derive(Debug)]
pub struct Judged {
    pub outcome: Outcome,
    /// What the user should know of the input.
    pub notes: Vec<String>,
}

impl Session {
    /// Opens the models that a command line of `tribunal score` names; its input may be missing.
    ///
    /// # Errors
    /// Another command, and models that cannot be run.
    pub fn open(cli: Cli, load: ModelLoader) -> Result<Self> {
        let Command::Score(args) = cli.command else {
            bail!("a session needs the options of `tribunal score`")
        };
        // Before the model is loaded, which can take minutes.
        registry::build(
            &args.judge.method,
            &args.judge.settings(&args.sampling, adapter::annotator(&args.model)),
        )?;
        let models = load(&args.model, &args.engine, args.sampling.sampling())?;
        Ok(Self { args: *args, words: cli.words, models })
    }

    /// Judges a table of translations into a run folder. Several threads may do so at the same time, each with its own
    /// folder and watch.
    ///
    /// # Errors
    /// As `tribunal score`; [`crate::run::Error::Interrupted`] when the watch was told to stop.
    pub fn score(&self, input: &Path, out: &Path, watch: &Watch) -> Result<Judged> {
        let mut args = self.args.clone();
        args.input.input = Some(input.into());
        args.run.out = Some(out.into());
        args.run.quiet = true;
        let judged = prepare::Judged::read(&args)?;
        let prepared = Prepared::new(&args, &judged)?;
        prepared.mixed_up.check()?;
        let outcome = Run::prepare(&prepared, &self.models, &self.begun(input, out, watch))?.make()?;
        let overlaps = prepared.trained_on.iter().map(ToString::to_string);
        let notes = prepared.notes.iter().cloned().chain(overlaps);
        let notes = notes.chain(prepare::warnings(&prepared, &self.models));
        let notes = notes.map(|note| stream::hinted(&note)).collect();
        Ok(Judged { outcome, notes })
    }

    /// The command line that would make the same run.
    fn begun(&self, input: &Path, out: &Path, watch: &Watch) -> Begun {
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut words = self.words.clone();
        words.extend([option("input", input), option("out", out)]);
        Begun { words, writing: watch.writing.clone(), stop: watch.stop.clone(), ..Begun::default() }
    }
}
