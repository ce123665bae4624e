//! The task of a run, and its configuration.

use std::{path::PathBuf, sync::Arc};

use crate::{
    calls::CallRetention,
    description::Origin,
    groups::Shard,
    interrupt::Writing,
    judges::{Judge, Panel},
    llm::CancellationToken,
    progress::{Progress, Silent},
    segment::{Corpus, trained::Overlap},
    selection::Selection,
    signature::Signature,
};

/// The input of a run, its judge and its models.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub panel: &'a Panel,
    pub judge: &'a Judge,
    pub segments: &'a Corpus,
    pub signature: &'a Signature,
}

/// Configuration of a run. Of its fields, selection, shard, seed and asking again determine which units are
/// judged; nothing else can change a verdict.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The run folder.
    pub out: PathBuf,
    /// The segments that get a verdict; the others are shown as context.
    pub selection: Selection,
    pub shard: Shard,
    /// Groups in flight; verdicts do not depend on it.
    pub jobs: usize,
    /// Draws the documents of [`crate::judges::Grouping::FiveDocuments`].
    pub seed: u64,
    /// The command line, for `run.json`.
    pub command: Vec<String>,
    pub progress: Arc<dyn Progress>,
    /// Questions that are in flight at the same time: the number that the engine takes into one step, and
    /// some more.
    pub questions: usize,
    pub calls: CallRetention,
    /// Ask once more about units whose answers could not be used; recorded in the signature.
    pub retry_missing: bool,
    /// Directory of the command.
    pub directory: String,
    pub origin: Origin,
    /// Overlap of the judge's training data with the input.
    pub trained_on: Vec<Overlap>,
    /// Cautions about the judge on this input.
    pub cautions: Vec<String>,
    /// Copies of files that the command names, for the run folder.
    pub copies: Vec<Copy>,
    pub writing: Writing,
    /// Ends the run between two groups after cancellation; finished groups are kept.
    pub stop: CancellationToken,
}

/// A file that the run folder keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Relative to the run folder.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl RunConfig {
    /// A whole input into a run folder, one group at a time, in silence.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            selection: Selection::All,
            shard: Shard::WHOLE,
            jobs: 1,
            seed: 0,
            command: Vec::new(),
            progress: Arc::new(Silent),
            questions: 80,
            calls: CallRetention::default(),
            retry_missing: false,
            directory: String::new(),
            origin: Origin::default(),
            trained_on: Vec::new(),
            cautions: Vec::new(),
            copies: Vec::new(),
            writing: Writing::default(),
            stop: CancellationToken::default(),
        }
    }
}
