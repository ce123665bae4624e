//! Continuation of a run folder: as the same run, with more units, with another shard, or with units that are
//! judged again. Anything else is an error that names the differences.

use std::{collections::HashMap, path::Path};

use crate::{
    description::{InputId, RUN, RunFile},
    error::Error,
    finish,
    folder::{Folder, json_lines},
    groups::{self, Group, GroupId, Shard},
    input,
    journal::JOURNAL,
    materials,
    segment::{Corpus, Segments as _, numbered},
    selection::Selection,
    signature::Signature,
    task::{Copy, RunConfig, Task},
};

/// Field of the signature for units without a verdict that were asked again.
pub const RETRY: &str = "retry";

/// Changes to a folder before its run goes on.
#[derive(Debug, Default)]
pub struct FolderState {
    /// New content of `run.json`; `None` if it is unchanged.
    new: Option<RunFile>,
    /// The input is another than the folder's copy.
    has_grown: bool,
    /// Units without a verdict are to be judged again.
    pub asks_again: bool,
}

impl FolderState {
    /// Compares a folder with the requested run.
    ///
    /// # Errors
    /// [`Error::OtherSignature`], [`Error::OtherInput`], [`Error::OtherUnits`]; [`Error::NoRun`] when the
    /// folder has a journal with verdicts but no `run.json`; [`Error::Io`], [`Error::Damaged`].
    pub fn compare(
        folder: &Folder,
        requested: RunFile,
        task: &Task<'_>,
        config: &RunConfig,
    ) -> Result<Self, Error> {
        let recorded = match RunFile::read(folder.dir()) {
            Ok(recorded) => recorded,
            // Killed at its very beginning, a run leaves an empty journal.
            Err(Error::NoRun(_)) if folder.is_blank(JOURNAL) => {
                return Ok(Self { new: Some(requested), has_grown: true, asks_again: false });
            }
            Err(error) => return Err(error),
        };
        let asks_again = same_signature(folder, &recorded.signature, &requested.signature)?;
        let has_grown = recorded.input != requested.input;
        if has_grown {
            keeps_units(folder, &recorded, &requested.input, task, config)?;
        }
        let kernels = kernels_of_parts(&recorded.origin.machine.kernels, &requested.origin.machine.kernels);
        let is_new = has_grown
            || asks_again
            || recorded.shard != requested.shard
            || recorded.signature != requested.signature
            || recorded.origin.machine.kernels != kernels;
        // The merging process and the original command remain recorded.
        let RunFile { command, directory, merged, mut origin, .. } = recorded;
        origin.machine.kernels = kernels;
        let new = RunFile { command, directory, merged, origin, ..requested };
        Ok(Self { new: is_new.then_some(new), has_grown, asks_again })
    }

    /// Writes the changes. The journal must have been resumed before, so that it holds no units that the new
    /// description does not cover.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(
        &self,
        folder: &Folder,
        segments: &Corpus,
        shard: Shard,
        copies: &[Copy],
    ) -> Result<(), Error> {
        if self.has_grown || self.asks_again {
            // They would pass for those of the run that begins now.
            for name in [finish::VERDICTS, finish::SUMMARY] {
                remove(&folder.path(name))?;
            }
        }
        // Shards other than the first have no copies; a continued run may be the first shard, or the whole.
        if shard.index == 1 && (self.has_grown || !folder.path(input::INPUT).exists()) {
            materials::keep(folder.dir(), copies)?;
            input::keep(folder.dir(), segments, shard)?;
        }
        match &self.new {
            Some(run) => folder.write(RUN, &json_lines(std::slice::from_ref(run))),
            None => Ok(()),
        }
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { action: "remove", path: path.into(), source })
        }
        _ => Ok(()),
    }
}

/// The kernels of all parts of a run, each named once, in order.
fn kernels_of_parts(earlier: &str, now: &str) -> String {
    if now.is_empty() || earlier.split("; ").any(|part| part == now) {
        return earlier.to_owned();
    }
    if earlier.is_empty() { now.to_owned() } else { format!("{earlier}; {now}") }
}

/// Returns true if the signatures differ only in asking again, which is new; false if they are equal. Any
/// other difference is an error.
fn same_signature(folder: &Folder, recorded: &Signature, requested: &Signature) -> Result<bool, Error> {
    let differences = requested.differences(recorded);
    let asks_again = differences.iter().any(|d| d.key == RETRY && d.recorded.is_none());
    if differences.is_empty() || asks_again && differences.len() == 1 {
        return Ok(asks_again);
    }
    let lines: Vec<String> = differences.iter().map(|d| format!("\n  {d}")).collect();
    Err(Error::OtherSignature { dir: folder.dir().into(), differences: lines.concat() })
}

/// Checks that the verdicts so far would be the same on the new input: that every group of the old one is in
/// the new one too, segment by segment, and that none of its units has been left out.
fn keeps_units(
    folder: &Folder,
    recorded: &RunFile,
    requested: &InputId,
    task: &Task<'_>,
    config: &RunConfig,
) -> Result<(), Error> {
    let other = |reason: &str| Error::OtherInput {
        dir: folder.dir().into(),
        recorded: recorded.input.to_string(),
        requested: requested.to_string(),
        reason: reason.to_owned(),
    };
    let Some((segments, selection)) = input::read(folder.dir(), recorded)? else {
        return Err(other("the folder keeps no copy of its input to compare with"));
    };
    let groups_of = |segments: &Corpus, selection: &Selection| {
        groups::groups(segments, selection, task.judge.grouping, config.seed)
    };
    let (old, new) = (groups_of(&segments, &selection), groups_of(task.segments, &config.selection));
    let places: HashMap<GroupId, &Group> = new.iter().map(|group| (group.id(task.segments), group)).collect();
    for group in &old {
        let first = segments.outline(group.members[0]);
        let doc = if first.doc.is_empty() { String::new() } else { format!("document `{}` and ", first.doc) };
        let of = format!("{} of {doc}system `{}`", numbered(first.seg), first.system);
        let Some(now) = places.get(&group.id(&segments)) else {
            return Err(other(&format!("{of} is judged with other segments, or not at all")));
        };
        if group.read(&segments)? != now.read(task.segments)? {
            return Err(other(&format!(
                "the text of {of}, or of a segment that is judged with it, is another"
            )));
        }
        if !group.judged.iter().all(|at| now.judged.contains(at)) {
            return Err(other(&format!("{of}, or a segment that is judged with it, is left out")));
        }
    }
    Ok(())
}
