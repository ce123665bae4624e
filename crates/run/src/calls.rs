//! The file of calls: appending, compression, and truncation when a run is resumed. The format of a line is
//! in `call`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::{
    call::CallLine,
    error::Error,
    files,
    folder::{self, json_lines},
    groups::GroupId,
    health::Question,
    lines::{Kind, Lines},
    llm::Usage,
    record::UnitKey,
    summary::Cost,
};

pub(crate) mod census;

/// The file's name, plain and compressed; only one of them exists.
pub const NAMES: [&str; 2] = ["calls.jsonl", "calls.jsonl.zst"];

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
    fn path(self, dir: &Path) -> PathBuf {
        dir.join(NAMES[usize::from(self == Self::Zstd)])
    }
}

/// The file of calls of a folder; `None` where there is none.
pub fn path(dir: &Path) -> Option<PathBuf> {
    NAMES.map(|name| dir.join(name)).into_iter().find(|path| path.exists())
}

/// The calls of a folder; none where there is no file of them.
///
/// # Errors
/// [`Error::Io`]; of a call, [`Error::Damaged`] too.
pub fn read(dir: &Path) -> Result<Lines<CallLine>, Error> {
    lines(dir)
}

/// The calls of a folder, or some of their fields.
pub(crate) fn lines<T>(dir: &Path) -> Result<Lines<T>, Error> {
    Lines::open(&path(dir).unwrap_or_else(|| dir.join(NAMES[0])), Kind::Calls)
}

/// A file of calls that is appended to.
pub struct Calls {
    pub file: File,
    pub retention: CallRetention,
    pub path: PathBuf,
}

impl Calls {
    /// Opens a folder's file for appending.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(dir: &Path, retention: CallRetention) -> Result<Self, Error> {
        let path = retention.path(dir);
        Ok(Self { file: files::append(&path)?, retention, path })
    }

    /// Appends the calls of a group in one write.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn append(&mut self, mut calls: Vec<CallLine>) -> Result<(), Error> {
        if self.retention == CallRetention::Off {
            for call in &mut calls {
                call.content = None;
            }
        }
        let bytes = json_lines(&calls);
        let write = || {
            // Each group is a frame of its own, so that a torn one takes no other with it.
            let bytes = match self.retention {
                CallRetention::Zstd => zstd::bulk::compress(&bytes, LEVEL)?,
                CallRetention::Plain | CallRetention::Off => bytes,
            };
            self.file.write_all(&bytes).and_then(|()| self.file.flush())
        };
        write().map_err(Error::appending(&self.path))
    }
}

/// The part of a call that a summary uses.
#[derive(Deserialize)]
pub(crate) struct CallCost {
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
    pub error: Option<IgnoredAny>,
    #[serde(default)]
    outcome: Option<String>,
    usage: Usage,
    seconds: f64,
}

impl From<&CallLine> for CallCost {
    fn from(call: &CallLine) -> Self {
        Self {
            group: call.group.clone(),
            system: call.system.clone(),
            role: call.role.clone(),
            stage: call.stage.clone(),
            doc: call.doc.clone(),
            seg: call.seg,
            attempt: call.attempt,
            prompt_sha256: call.prompt_sha256.clone(),
            error: call.error.as_ref().map(|_| IgnoredAny),
            outcome: call.outcome.clone(),
            usage: call.usage,
            seconds: call.seconds,
        }
    }
}

/// Totals of a run's calls: their cost, and a few of the questions.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    pub cost: Cost,
    /// By role and stage.
    questions: BTreeMap<(String, String), Vec<(QuestionOrder, Question)>>,
}

/// Sort key of a question among all, whatever the order in which they were asked: group, segment, attempt,
/// prompt.
type QuestionOrder = (String, Option<usize>, usize, String);

impl Sums {
    /// Totals of all calls of a folder, those of unfinished groups among them.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let mut sums = Self::default();
        for call in read(dir)? {
            sums.add(&call?);
        }
        Ok(sums)
    }

    /// Counts a call.
    pub fn add(&mut self, call: &CallLine) {
        self.count(CallCost::from(call), || Question::from_call(call));
    }

    /// Counts a line, which is parsed in full only if its question may be one of the few.
    fn add_line(&mut self, call: CallCost, line: &[u8]) {
        self.count(call, || Question::from_call(&serde_json::from_slice(line).ok()?));
    }

    /// Counts a call, and records its question if it is one of the first two about different units, of its
    /// role and stage.
    fn count(&mut self, call: CallCost, question: impl FnOnce() -> Option<Question>) {
        if call.error.is_none() {
            self.cost.add(&call.stage, call.outcome.as_deref(), &call.usage, call.seconds);
        }
        let order = (call.group, call.seg, call.attempt, call.prompt_sha256);
        let of_stage = self.questions.entry((call.role, call.stage)).or_default();
        if of_stage.len() == 2 && of_stage[1].0 <= order {
            return;
        }
        let Some(question) = question() else { return };
        of_stage.push((order, question));
        of_stage.sort_by(|a, b| a.0.cmp(&b.0));
        of_stage.dedup_by(|later, first| first.1.is_of(&call.doc, later.0.1) && first.0.1 == later.0.1);
        of_stage.truncate(2);
    }

    /// The questions: of each role and stage two about different units, always the same ones.
    pub fn questions(&self) -> Vec<Question> {
        self.questions.values().flatten().map(|(_, question)| question.clone()).collect()
    }
}

/// Drops the calls of groups that are not complete, and sums up the others. Where nothing is to be dropped,
/// the file, which can be large, is unchanged; one in another format than the requested one is converted.
///
/// # Errors
/// [`Error::Io`].
pub fn keep(
    dir: &Path,
    is_complete: impl Fn(GroupId) -> bool,
    retention: CallRetention,
) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    let Some(path) = path(dir) else { return Ok(sums) };
    let target = retention.path(dir);
    let is_kept = |call: &CallCost| GroupId::parse(&call.group).is_some_and(&is_complete);
    let mut lines = lines::<CallCost>(dir)?;
    let mut is_changed = path != target;
    while lines.advance()? {
        match lines.parse::<CallCost>().ok().filter(is_kept) {
            Some(call) => sums.add_line(call, &lines.json),
            None => is_changed = true,
        }
    }
    if is_changed || lines.is_torn {
        copy(&[dir], &target, |_, call| is_kept(call))?;
    }
    if path != target {
        std::fs::remove_file(&path).map_err(|source| Error::Io { action: "remove", path, source })?;
    }
    Ok(sums)
}

/// Joins the calls of groups that each folder is to bring, in the first folder's way, and sums them up. A
/// folder without any brings none.
///
/// # Errors
/// [`Error::Io`].
pub fn join(dirs: &[PathBuf], brings: impl Fn(usize, &str) -> bool, out: &Path) -> Result<Sums, Error> {
    let Some(first) = dirs.iter().find_map(|dir| path(dir)) else { return Ok(Sums::default()) };
    let target = out.join(first.file_name().unwrap_or_default());
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    copy(&dirs, &target, |dir, call| brings(dir, &call.group))
}

/// Writes the wanted calls of some folders into one file, and sums them up. Lines that are no calls are left
/// out.
fn copy(from: &[&Path], to: &Path, is_wanted: impl Fn(usize, &CallCost) -> bool) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    let mut copy_into = |file: &mut dyn Write| -> io::Result<()> {
        for (at, dir) in from.iter().enumerate() {
            let mut lines = lines::<CallCost>(dir).map_err(io::Error::other)?;
            while lines.advance().map_err(io::Error::other)? {
                let call = lines.parse::<CallCost>().ok().filter(|call| is_wanted(at, call));
                let Some(call) = call else { continue };
                sums.add_line(call, &lines.json);
                file.write_all(&lines.json)?;
                file.write_all(b"\n")?;
            }
        }
        Ok(())
    };
    folder::replace(to, |file| {
        if to.extension().is_none_or(|ending| ending != "zst") {
            return copy_into(file);
        }
        let mut encoder = zstd::Encoder::new(file, LEVEL)?;
        copy_into(&mut encoder)?;
        encoder.finish().map(drop)
    })?;
    Ok(sums)
}

/// The bytes of all calls of a folder, as they are when nothing is compressed.
///
/// # Errors
/// [`Error::Io`].
pub fn size(dir: &Path) -> Result<u64, Error> {
    let mut lines = lines::<CallLine>(dir)?;
    let mut bytes = 0;
    while lines.advance()? {
        bytes += lines.json.len() as u64 + 1;
    }
    Ok(bytes)
}

/// The calls of a run folder that are about a unit, or about the whole group that it belongs to, as they were
/// recorded.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
pub fn of_unit(dir: &Path, unit: &UnitKey) -> Result<Vec<CallLine>, Error> {
    let is_of_unit = |call: &CallLine| call.doc == unit.doc && call.seg == unit.seg;
    let is_of_doc = |call: &CallLine| call.doc == unit.doc && call.seg.is_none();
    let mut calls = Vec::new();
    for call in read(dir)? {
        let call = call?;
        if call.system == unit.system && (call.seg.is_none() || call.seg == unit.seg) {
            calls.push(call);
        }
    }
    let first = calls.iter().find(|call| is_of_unit(call)).or(calls.iter().find(|call| is_of_doc(call)));
    let group = first.map(|call| call.group.clone());
    calls.retain(|call| Some(&call.group) == group.as_ref() && (is_of_unit(call) || call.seg.is_none()));
    Ok(calls)
}
