//! The conversations behind verdicts, in blocks that the page unpacks when they are asked for. Texts that several calls
//! of a block have in common, such as instructions, are stored once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{Data, Error, pack};
use crate::run::journal::CALLS;

/// Rows in a block.
const BLOCK: usize = 100;

/// The conversations of all judges; none until they are added.
#[derive(Debug, Default)]
pub struct Conversations {
    blocks: BTreeMap<usize, Block>,
}

/// The conversations of [`BLOCK`] rows: row -> system -> judge -> calls.
#[derive(Debug, Default, Serialize)]
struct Block {
    texts: Vec<String>,
    rows: BTreeMap<usize, BTreeMap<usize, BTreeMap<usize, Vec<Call>>>>,
    #[serde(skip)]
    numbers: HashMap<String, usize>,
}

/// One question and its answer; texts by number.
#[derive(Clone, Debug, Serialize)]
struct Call {
    role: String,
    stage: String,
    attempt: usize,
    outcome: Option<String>,
    finish: String,
    prompt: usize,
    answer: usize,
    turns: Vec<(String, usize)>,
    reply: usize,
}

/// What is read of a line of `calls.jsonl`.
#[derive(Deserialize)]
struct Line {
    group: usize,
    system: String,
    doc: String,
    seg: Option<usize>,
    role: String,
    stage: String,
    #[serde(default)]
    attempt: usize,
    chat: Chat,
    reply: String,
    finish: String,
    #[serde(default)]
    outcome: Option<String>,
    usage: Usage,
}

/// A chat as it was recorded.
#[derive(Deserialize)]
struct Chat {
    #[serde(default)]
    turns: Vec<Turn>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(default)]
    prefill: String,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

/// Tokens.
#[derive(Deserialize)]
struct Usage {
    computed: usize,
    cached: usize,
    generated: usize,
}

/// What a line is about.
#[derive(Deserialize)]
struct About {
    group: usize,
    system: String,
    doc: String,
    seg: Option<usize>,
}

/// The rows and systems of each group.
type Groups = HashMap<usize, BTreeSet<(usize, usize)>>;

impl Conversations {
    /// Adds the calls of a judge's run folder; a folder that keeps none adds none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Call`].
    pub fn add(&mut self, judge: usize, dir: &Path, data: &Data<'_>) -> Result<(), Error> {
        let path = dir.join(CALLS);
        if !path.is_file() {
            return Ok(());
        }
        let mut groups = Groups::new();
        each::<About>(&path, |line| {
            groups.entry(line.group).or_default().extend(data.place(&line.system, &line.doc, line.seg));
        })?;
        each::<Line>(&path, |line| {
            let own = data.place(&line.system, &line.doc, line.seg);
            // A question about a whole group stands behind the verdicts on all of its units.
            let places = match (line.seg, own) {
                (_, Some(own)) => BTreeSet::from([own]),
                (None, None) => groups.get(&line.group).cloned().unwrap_or_default(),
                (Some(_), None) => BTreeSet::new(),
            };
            for (row, system) in places {
                let block = self.blocks.entry(row / BLOCK).or_default();
                let call = block.call(&line);
                let systems = block.rows.entry(row).or_default();
                systems.entry(system).or_default().entry(judge).or_default().push(call);
            }
        })
    }

    /// The judges with a recorded call.
    pub(super) fn judges(&self) -> Vec<usize> {
        let systems = self.blocks.values().flat_map(|block| block.rows.values());
        let judges = systems.flat_map(BTreeMap::values).flat_map(BTreeMap::keys).copied();
        judges.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Rows in a block; `None` without any conversation.
    pub(super) fn block(&self) -> Option<usize> {
        (!self.blocks.is_empty()).then_some(BLOCK)
    }

    /// The blocks with their numbers.
    pub(super) fn packed(&self) -> impl Iterator<Item = (usize, String)> {
        self.blocks.iter().map(|(number, block)| (*number, pack::packed(block)))
    }
}

impl Block {
    fn call(&mut self, line: &Line) -> Call {
        let mut turns: Vec<(String, usize)> =
            (line.chat.turns.iter()).map(|turn| (turn.role.clone(), self.text(&turn.content))).collect();
        turns.extend(line.chat.raw.as_ref().map(|raw| ("prompt".to_owned(), self.text(raw))));
        if !line.chat.prefill.is_empty() {
            turns.push(("start of the answer".to_owned(), self.text(&line.chat.prefill)));
        }
        Call {
            role: line.role.clone(),
            stage: line.stage.clone(),
            attempt: line.attempt,
            outcome: line.outcome.clone(),
            finish: line.finish.clone(),
            prompt: line.usage.computed + line.usage.cached,
            answer: line.usage.generated,
            turns,
            reply: self.text(&line.reply),
        }
    }

    fn text(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

/// Goes through the whole lines of a file; a last line without an end was cut off while it was being written.
fn each<T: for<'de> Deserialize<'de>>(path: &Path, mut visit: impl FnMut(T)) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.into(), source };
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let (mut line, mut number) = (Vec::new(), 0);
    while file.read_until(b'\n', &mut line).map_err(io)? > 0 {
        number += 1;
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        let call = serde_json::from_slice(whole);
        visit(call.map_err(|source| Error::Call { path: path.into(), line: number, source })?);
        line.clear();
    }
    Ok(())
}
