//! A judge that stays: its models are loaded once and judge many inputs, for programs that call this library instead of
//! the command line. A second thread can watch its progress, and stop it.

use std::path::Path;

use anyhow::{Result, bail};

use super::{
    Cli, Command,
    panel::{LoadedModels, ModelLoader},
    score::{self, Begun, Prepared},
    stream,
};
use crate::{
    judges::registry,
    llm::Stop,
    run::{Outcome, RunConfig, Task, Writing},
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
        registry::build(&args.judge.method, &args.judge.settings(&args.sampling))?;
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
        let score::Judged { input: read, selection } = score::Judged::read(&args)?;
        let segments = &read.segments;
        let Prepared { built, mut notes, trained_on } = score::prepare(&args, &read, &selection)?;
        notes.extend(trained_on.iter().map(ToString::to_string));
        built.judge.check_models(&|role| self.models.model_of(role))?;
        notes.extend(score::too_small(&built, &self.models));
        let notes = notes.iter().map(|note| stream::hinted(note)).collect();
        let signature = score::signature(&built, &self.models.signature, &args);
        let begun = self.begun(input, out, watch);
        let options = score::options(
            &args,
            &signature,
            (segments, &selection),
            self.models.jobs(args.engine.jobs),
            &begun,
        )?;
        let config = RunConfig { trained_on, ..score::config(&args, &built, &self.models, &begun)? };
        let judge = built.judge.as_ref();
        let task = Task { panel: &self.models.panel, judge, segments, signature: &signature };
        let outcome = task.run(&options, &config)?;
        Ok(Judged { outcome, notes })
    }

    /// The command line that would make the same run.
    fn begun(&self, input: &Path, out: &Path, watch: &Watch) -> Begun {
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut words = self.words.clone();
        words.extend([option("input", input), option("out", out)]);
        Begun { words, writing: watch.writing.clone(), stop: watch.stop.clone() }
    }
}
