//! A judge that stays: its models are loaded once and judge many inputs, for programs that call this library instead of
//! the command line. A second thread can watch how far it is, and stop it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use anyhow::{Result, bail};

use super::{
    Cli, Command,
    panel::{Seat, Seated},
    score::{self, Begun, Prepared},
};
use crate::{
    judges::{
        Direction, Error, Grouping, Judge, Materials, Model, Panel, Reads, Role, Unit, Verdict,
        method::Calls, setup,
    },
    llm::{self, Chat, Form, Llm, Reply, Sampling, Weighed},
    run::{Outcome, Task},
    segment::{Segment, Segments as _},
};

/// How far a session is with what it judges.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicUsize,
    total: AtomicUsize,
    stopped: AtomicBool,
}

impl Watch {
    /// Units that are judged, and all of them.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// No further question is put to a model: what is left fails, and is judged when the run is resumed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn begin(&self, total: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
    }
}

/// Loaded models and what they are asked to do.
pub struct Session {
    args: score::Args,
    begun: Begun,
    seated: Seated,
    watch: Arc<Watch>,
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
    pub fn open(cli: Cli, seat: Seat) -> Result<Self> {
        let Command::Score(args) = cli.command else {
            bail!("a session needs the options of `tribunal score`")
        };
        let watch = Arc::new(Watch::default());
        let mut seated = seat(&args.model, &args.engine, args.sampling.sampling())?;
        let watched = |llm| -> Arc<dyn Llm> { Arc::new(Stoppable { llm, watch: watch.clone() }) };
        seated.panel = seated.panel.wrapped(watched);
        let begun = Begun { words: cli.words, writing: cli.writing };
        Ok(Self { args: *args, begun, seated, watch })
    }

    /// What another thread may look at while this one judges.
    #[must_use]
    pub fn watch(&self) -> Arc<Watch> {
        self.watch.clone()
    }

    /// Judges a table of translations into a run folder.
    ///
    /// # Errors
    /// As `tribunal score`.
    pub fn score(&self, input: &Path, out: &Path) -> Result<Judged> {
        let mut args = self.args.clone();
        args.input.input = Some(input.into());
        args.run.out = Some(out.into());
        args.run.quiet = true;
        let score::Judged { input: read, selection } = score::Judged::read(&args)?;
        let segments = &read.segments;
        let Prepared { built, notes } = score::prepare(&args, &read)?;
        built.judge.check_models(&|role| self.seated.model_of(role))?;
        let signature = score::signature(&built, &self.seated.signature, &args);
        let begun = self.begun(input, out);
        let options = score::options(&args, &signature, segments, &selection, &begun)?;
        let conduct = score::conduct(&args, &built, &self.seated, &begun)?;
        self.watch.begin(segments.n_segments());
        let judge = Counted { judge: built.judge.as_ref(), watch: &self.watch };
        let task = Task { panel: &self.seated.panel, judge: &judge, segments, signature: &signature };
        let outcome = task.run(&options, &conduct)?;
        Ok(Judged { outcome, notes })
    }

    /// The command line that would make the same run.
    fn begun(&self, input: &Path, out: &Path) -> Begun {
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut begun = self.begun.clone();
        begun.words.extend([option("input", input), option("out", out)]);
        begun
    }
}

/// A model that answers until it is stopped.
struct Stoppable {
    llm: Arc<dyn Llm>,
    watch: Arc<Watch>,
}

impl Stoppable {
    fn go_on(&self) -> Result<(), llm::Error> {
        if self.watch.stopped.load(Ordering::Relaxed) {
            return Err(llm::Error::Engine("it was interrupted".into()));
        }
        Ok(())
    }
}

impl Llm for Stoppable {
    fn ask(&self, chat: &Chat, form: &Form, sampling: &Sampling) -> Result<Reply, llm::Error> {
        self.go_on()?;
        self.llm.ask(chat, form, sampling)
    }

    fn weigh(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Weighed>, llm::Error> {
        self.go_on()?;
        self.llm.weigh(chat, continuations)
    }

    fn count(&self, chat: &Chat) -> Result<usize, llm::Error> {
        self.llm.count(chat)
    }

    fn prompt_ids(&self, chat: &Chat) -> Result<Option<Vec<u32>>, llm::Error> {
        self.llm.prompt_ids(chat)
    }

    fn shortest(&self, form: &Form) -> Result<Option<String>, llm::Error> {
        self.llm.shortest(form)
    }
}

/// A judge whose groups are counted.
struct Counted<'a> {
    judge: &'a dyn Judge,
    watch: &'a Watch,
}

impl Judge for Counted<'_> {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        let verdicts = self.judge.judge(panel, group);
        self.watch.done.fetch_add(group.len(), Ordering::Relaxed);
        verdicts
    }

    fn group(&self) -> Grouping {
        self.judge.group()
    }

    fn unit(&self) -> Unit {
        self.judge.unit()
    }

    fn reads(&self) -> Reads {
        self.judge.reads()
    }

    fn direction(&self) -> Direction {
        self.judge.direction()
    }

    fn materials(&self) -> Materials {
        self.judge.materials()
    }

    fn sampling(&self, asked: &Sampling) -> Sampling {
        self.judge.sampling(asked)
    }

    fn check_input(&self, segments: &[Segment]) -> Result<(), setup::Error> {
        self.judge.check_input(segments)
    }

    fn remarks(&self, segments: &[Segment]) -> Vec<String> {
        self.judge.remarks(segments)
    }

    fn calls(&self) -> Option<Calls> {
        self.judge.calls()
    }

    fn check_models(&self, model_of: &dyn Fn(Role) -> Model) -> Result<(), setup::Error> {
        self.judge.check_models(model_of)
    }
}
