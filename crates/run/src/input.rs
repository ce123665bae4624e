//! The copy of the input in a run folder, with which the folder alone suffices to verify, repeat and continue
//! the run. Shards other than the first leave it out: the merged folder has it.

use std::{
    io::{BufRead, BufReader},
    path::Path,
};

use crate::{
    description::{InputId, RunFile},
    error::Error,
    files, folder,
    groups::Shard,
    materials,
    segment::{Corpus, Segments as _},
    selection::Selection,
};

/// The file's name: the segments, those that are only context among them, one JSON object a line.
pub const INPUT: &str = "input.jsonl";

/// Writes the copy of a run's input, unless another shard keeps it or it is there already.
///
/// # Errors
/// [`Error::Io`].
pub fn keep(dir: &Path, segments: &Corpus, shard: Shard) -> Result<(), Error> {
    let path = dir.join(INPUT);
    if shard.index != 1 {
        return Ok(());
    }
    folder::replace(&path, |file| {
        (0..segments.n_segments()).try_for_each(|idx| file.write_all(&segments.line(idx)?))
    })
}

/// Copies the input that one run folder keeps, and the files that its command names, into another. The copied
/// files are those of its `run.json`, hash by hash, and no link is followed.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
pub fn carry_over(from: &Path, run: &RunFile, to: &Path) -> Result<(), Error> {
    let path = from.join(INPUT);
    let mut file = files::open_own(&path).map_err(Error::reading(&path))?;
    folder::replace(&to.join(INPUT), |copy| std::io::copy(&mut file, copy).map(drop))?;
    materials::carry_over(from, &run.origin.materials, to)
}

/// The input of a run and what was selected from it, as the folder keeps them; `None` where it keeps no copy.
///
/// # Errors
/// [`Error::Io`]; [`Error::Damaged`] for a line that is no segment, [`Error::DamagedFile`] for a copy whose
/// hash differs from that in `run.json`.
pub fn read(dir: &Path, run: &RunFile) -> Result<Option<(Corpus, Selection)>, Error> {
    let path = dir.join(INPUT);
    if !path.exists() {
        return Ok(None);
    }
    let hint = "delete the file; the run can then be continued from its own input";
    let damaged = |line, reason: String| Error::Damaged { path: path.clone(), line, reason, hint };
    let mut segments = Corpus::default();
    for (i, line) in
        BufReader::new(files::open_own(&path).map_err(Error::reading(&path))?).lines().enumerate()
    {
        let line = line.map_err(Error::reading(&path))?;
        let segment = serde_json::from_str(&line).map_err(|e| damaged(i + 1, e.to_string()))?;
        segments.push(&segment).map_err(Error::Input)?;
    }
    segments.complete().map_err(Error::Input)?;
    let selection = Selection::of_ranges(run.selection.as_deref(), segments.n_segments());
    let identity = InputId::new(&segments, &selection)?;
    if identity != run.input {
        let reason = format!("it holds {identity}, but `run.json` says {}", run.input);
        return Err(Error::DamagedFile { path, reason, hint });
    }
    Ok(Some((segments, selection)))
}
