//! The file of calls: appending, streaming, compression, and truncation when a run is resumed. The format of
//! a line is in `call`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Error,
    call::CallLine,
    folder::{self, json_lines},
    groups::GroupId,
    health::Question,
    record::UnitKey,
    summary::Cost,
};
use crate::{
    files::{self, packed, text},
    llm::{self, Usage},
};

pub(super) mod census;

/// The file's name, plain and compressed.
const PLAIN: &str = "calls.jsonl";
const COMPRESSED: &str = "calls.jsonl.zst";

/// The level of compression: zstd's own default.
const LEVEL: i32 = 3;

/// Retention of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallRetention {
    /// All calls, in `calls.jsonl`.
    #[default]
    Plain,
    /// All calls, in `calls.jsonl.zst`.
    Zstd,
    /// The cost of each call, without its text: the input of a summary.
    Off,
}

impl CallRetention {
    fn name(self) -> &'static str {
        if self == Self::Zstd { COMPRESSED } else { PLAIN }
    }
}

/// Paths of the file of calls; only one of them exists.
pub const PLACES: [&str; 2] = [PLAIN, COMPRESSED];

/// The file of calls of a folder; `None` where there is none.
#[must_use]
pub fn place(dir: &Path) -> Option<PathBuf> {
    PLACES.map(|name| dir.join(name)).into_iter().find(|path| path.exists())
}

/// A file of calls that is appended to.
pub struct Calls<W: Write = File> {
    pub file: W,
    pub keeping: CallRetention,
    pub path: PathBuf,
}

impl Calls {
    /// Opens a folder's file for appending.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(dir: &Path, keeping: CallRetention) -> Result<Self, Error> {
        let path = dir.join(keeping.name());
        Ok(Self { file: files::append(&path)?, keeping, path })
    }
}

impl<W: Write> Calls<W> {
    /// Appends the calls of a group in one write.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn append(&mut self, calls: Vec<CallLine>) -> Result<(), Error> {
        let bytes = match self.keeping {
            CallRetention::Off => {
                let bare = calls.into_iter().map(CallLine::without_content);
                json_lines(&bare.collect::<Vec<_>>())
            }
            CallRetention::Plain | CallRetention::Zstd => json_lines(&calls),
        };
        let write = || {
            // Each group is a frame of its own, so that a torn one takes no other with it.
            let bytes = if self.keeping == CallRetention::Zstd {
                zstd::bulk::compress(&bytes, LEVEL)?
            } else {
                bytes
            };
            self.file.write_all(&bytes).and_then(|()| self.file.flush())
        };
        write().map_err(|source| Error::Append { path: self.path.clone(), source })
    }
}

/// Largest ratio of unpacked to packed size of a file of calls. A call takes some 150 bytes (hashes, figures,
/// the answer) even if its prompt is a repetition; this allows for prompts of 600 KB.
const MAX_RATIO: u64 = 4000;

/// Goes through the whole lines of a file of calls. Returns whether the file ends with a line, or a frame,
/// that was cut off while it was being written.
///
/// # Errors
/// When the file cannot be read or unpacks to more than the limit, and the errors of `visit`.
fn each_line(path: &Path, mut visit: impl FnMut(usize, &[u8]) -> io::Result<()>) -> io::Result<bool> {
    let file = files::open_own(path)?;
    let is_compressed = path.extension().is_some_and(|ending| ending == "zst");
    let mut file: Box<dyn BufRead> = if is_compressed {
        packed::unpacked(file, MAX_RATIO)?
    } else {
        Box::new(BufReader::with_capacity(1 << 18, file))
    };
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        match text::read_line(&mut *file, &mut line, number + 1) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            // zstd reports a frame without an end in this way.
            Err(error) if is_compressed && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
            // What is wrong with its contents, and not with the disk: no line behind it can be read.
            Err(error) if is_compressed && error.raw_os_error().is_none() && !is_of_size(&error) => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        }
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(true) };
        number += 1;
        visit(number, whole)?;
    }
}

/// Returns true if a file, or one of its lines, has more bytes than are read.
fn is_of_size(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<packed::TooMuch>() || error.is::<text::NotText>())
}

/// The part of a call that a summary uses.
#[derive(Deserialize)]
pub(super) struct CallCost {
    pub group: String,
    pub system: String,
    role: String,
    stage: String,
    pub doc: String,
    pub seg: Option<usize>,
    #[serde(default)]
    attempt: usize,
    prompt_sha256: String,
    #[serde(default)]
    pub error: Option<llm::Error>,
    #[serde(default)]
    outcome: Option<String>,
    usage: Usage,
    seconds: f64,
}

/// Totals of a run's calls: their cost, and a few of the questions.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    pub cost: Cost,
    questions: BTreeMap<(String, String), Vec<(Place, Question)>>,
}

/// Sort key of a question among all, whatever the order in which they were asked.
type Place = (String, Option<usize>, usize, String);

impl Sums {
    /// Counts a call.
    pub fn add(&mut self, call: &CallLine) {
        if call.error.is_none() {
            self.cost.add(&call.stage, call.outcome.as_deref(), &call.usage, call.seconds);
        }
        let unit = (call.role.as_str(), call.stage.as_str(), call.doc.as_str());
        let place = (call.group.clone(), call.seg, call.attempt, call.prompt_sha256.clone());
        self.ask(unit, &place, || Question::of(call));
    }

    /// Counts a line, which is parsed in full only if its question may be one of the few.
    fn add_line(&mut self, call: &CallCost, line: &[u8]) {
        if call.error.is_none() {
            self.cost.add(&call.stage, call.outcome.as_deref(), &call.usage, call.seconds);
        }
        let unit = (call.role.as_str(), call.stage.as_str(), call.doc.as_str());
        let place = (call.group.clone(), call.seg, call.attempt, call.prompt_sha256.clone());
        self.ask(unit, &place, || {
            serde_json::from_slice::<CallLine>(line).ok().as_ref().and_then(Question::of)
        });
    }

    /// Records a question if it is one of the first two about different units, of its role and stage.
    fn ask(
        &mut self,
        (role, stage, doc): (&str, &str, &str),
        place: &Place,
        asked: impl FnOnce() -> Option<Question>,
    ) {
        let about = self.questions.entry((role.to_owned(), stage.to_owned())).or_default();
        if about.len() == 2 && about[1].0 <= *place {
            return;
        }
        let Some(asked) = asked() else { return };
        about.push((place.clone(), asked));
        about.sort_by(|a, b| a.0.cmp(&b.0));
        about.dedup_by(|later, first| first.1.is_of(doc, later.0.1) && first.0.1 == later.0.1);
        about.truncate(2);
    }

    /// The questions: of each role and stage two about different units, always the same ones.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        self.questions.values().flatten().map(|(_, asked)| asked.clone()).collect()
    }
}

/// Drops the calls of groups that are not among these, and sums up the rest. Where nothing is to be dropped,
/// the file, which can be large, is unchanged; one in another format than the requested one is converted.
///
/// # Errors
/// [`Error::Io`].
pub fn keep(dir: &Path, is_done: impl Fn(GroupId) -> bool, keeping: CallRetention) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    let Some(path) = place(dir) else { return Ok(sums) };
    let target = dir.join(keeping.name());
    let read = |source| Error::Io { action: "read", path: path.clone(), source };
    let of_done = |line: &[u8]| {
        let call = serde_json::from_slice::<CallCost>(line).ok();
        call.filter(|call| GroupId::parse(&call.group).is_some_and(&is_done))
    };
    let mut dropped = false;
    let torn = each_line(&path, |_, line| {
        match of_done(line) {
            Some(call) => sums.add_line(&call, line),
            None => dropped = true,
        }
        Ok(())
    });
    if torn.map_err(read)? || dropped || path != target {
        rewrite(&[&path], &target, |line| of_done(line).is_some())?;
    }
    if path != target {
        std::fs::remove_file(&path).map_err(|source| Error::Io { action: "remove", path, source })?;
    }
    Ok(sums)
}

/// Writes the lines of some files that are wanted into one.
fn rewrite(from: &[&Path], to: &Path, wanted: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
    let is_compressed = to.extension().is_some_and(|ending| ending == "zst");
    folder::replace(to, |file| {
        let copy = |into: &mut dyn Write| -> io::Result<()> {
            for path in from {
                each_line(path, |_, line| {
                    if wanted(line) {
                        into.write_all(line).and_then(|()| into.write_all(b"\n"))
                    } else {
                        Ok(())
                    }
                })?;
            }
            Ok(())
        };
        if !is_compressed {
            return copy(file);
        }
        let mut encoder = zstd::Encoder::new(file, LEVEL)?;
        copy(&mut encoder)?;
        encoder.finish().map(drop)
    })
}

/// Joins the calls of groups that each folder is to bring, in the first folder's way, and sums them up. A
/// folder without any brings none.
///
/// # Errors
/// [`Error::Io`].
pub fn join(dirs: &[PathBuf], bring: impl Fn(usize, &str) -> bool, out: &Path) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    let there: Vec<(usize, PathBuf)> =
        dirs.iter().enumerate().filter_map(|(i, dir)| Some((i, place(dir)?))).collect();
    let Some((_, first)) = there.first() else { return Ok(sums) };
    let target = out.join(first.file_name().unwrap_or_default());
    let is_compressed = target.extension().is_some_and(|ending| ending == "zst");
    let mut copy = |into: &mut dyn Write| -> io::Result<()> {
        for (i, path) in &there {
            each_line(path, |_, line| {
                let call = serde_json::from_slice::<CallCost>(line).ok();
                let Some(call) = call.filter(|call| bring(*i, &call.group)) else { return Ok(()) };
                sums.add_line(&call, line);
                into.write_all(line).and_then(|()| into.write_all(b"\n"))
            })?;
        }
        Ok(())
    };
    folder::replace(&target, |file| {
        if !is_compressed {
            return copy(file);
        }
        let mut encoder = zstd::Encoder::new(file, LEVEL)?;
        copy(&mut encoder)?;
        encoder.finish().map(drop)
    })?;
    Ok(sums)
}

/// Goes through all calls of a folder with their line numbers; none where there is no file. Returns whether
/// something stands behind the last whole line: one that was cut off while it was being written.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::Damaged`] for a line that is not a call.
pub fn each(dir: &Path, mut visit: impl FnMut(usize, CallLine)) -> Result<bool, Error> {
    each_parsed(dir, |number, call, _| visit(number, call))
}

/// Goes through all calls of a folder, as [`each`] does, with the bytes of each line.
///
/// # Errors
/// The errors of [`each`].
pub fn each_parsed<T: DeserializeOwned>(
    dir: &Path,
    mut visit: impl FnMut(usize, T, &[u8]),
) -> Result<bool, Error> {
    let Some(path) = place(dir) else { return Ok(false) };
    let mut damaged = None;
    let read = each_line(&path, |number, line| match serde_json::from_slice(line) {
        Ok(call) => {
            visit(number, call, line);
            Ok(())
        }
        Err(error) => {
            damaged = Some((number, error.to_string()));
            Err(io::ErrorKind::InvalidData.into())
        }
    });
    match (read, damaged) {
        (_, Some((line, reason))) => Err(Error::Damaged { path, line, reason, hint: DAMAGED }),
        (Err(source), None) => Err(Error::Io { action: "read", path, source }),
        (Ok(is_torn), None) => Ok(is_torn),
    }
}

/// Goes through what the calls of a folder were about, without their texts.
///
/// # Errors
/// The errors of [`each`].
pub(super) fn each_place(dir: &Path, mut visit: impl FnMut(&CallCost)) -> Result<(), Error> {
    each_parsed(dir, |_, call, _| visit(&call)).map(drop)
}

/// The bytes of all calls of a folder, as they are when nothing is compressed.
///
/// # Errors
/// [`Error::Io`].
pub fn size(dir: &Path) -> Result<u64, Error> {
    let Some(path) = place(dir) else { return Ok(0) };
    let mut bytes = 0;
    let read = each_line(&path, |_, line| {
        bytes += line.len() as u64 + 1;
        Ok(())
    });
    read.map_err(|source| Error::Io { action: "read", path, source })?;
    Ok(bytes)
}

/// Hint for a call that cannot be read.
const DAMAGED: &str = "the run's command, given again, finds the line and judges again what it belongs to; its verdicts are the same";

/// Totals of all calls of a folder, those of unfinished groups among them.
///
/// # Errors
/// The errors of [`each`].
pub fn sums(dir: &Path) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    each(dir, |_, call| sums.add(&call))?;
    Ok(sums)
}

/// The calls of a run folder that are about a unit, or about the whole group that it belongs to, as they were
/// recorded; none where there is no file of calls.
///
/// # Errors
/// The errors of [`each`].
pub fn of_unit(dir: &Path, unit: &UnitKey) -> Result<Vec<CallLine>, Error> {
    let mut calls = Vec::new();
    each(dir, |_, call| {
        if call.system == unit.system && (call.seg.is_none() || call.seg == unit.seg) {
            calls.push(call);
        }
    })?;
    Ok(those_of(unit, calls))
}

/// A unit's own calls with those about its whole group.
fn those_of(unit: &UnitKey, mut calls: Vec<CallLine>) -> Vec<CallLine> {
    let is_own = |call: &CallLine| call.doc == unit.doc && call.seg == unit.seg;
    let is_of_doc = |call: &CallLine| call.doc == unit.doc && call.seg.is_none();
    let own = calls.iter().find(|call| is_own(call)).or(calls.iter().find(|call| is_of_doc(call)));
    let group = own.map(|call| call.group.clone());
    calls.retain(|call| Some(&call.group) == group.as_ref() && (is_own(call) || call.seg.is_none()));
    calls
}
