//! The conversations behind verdicts, in blocks that the page unpacks on demand. Texts that several calls of
//! a block have in common, such as instructions, are stored once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::Serialize;

use super::{Data, Error, pack};
use crate::{
    run::{
        call::{CallLine, Content, Finish},
        calls,
    },
    transcript::speaker,
};

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
    finish: Finish,
    prompt: usize,
    answer: usize,
    turns: Vec<(&'static str, usize)>,
    reply: usize,
}

/// The rows and systems of each group.
type Groups = HashMap<String, BTreeSet<(usize, usize)>>;

impl Conversations {
    /// Adds the calls of a judge's run folder; a folder that keeps none, or not their texts, adds none.
    ///
    /// # Errors
    /// [`Error::Calls`].
    pub fn add(&mut self, judge: usize, dir: &Path, data: &Data<'_>) -> Result<(), Error> {
        let mut groups = Groups::new();
        for line in calls::read(dir)? {
            let line = line?;
            groups.entry(line.group).or_default().extend(data.place(&line.system, &line.doc, line.seg));
        }
        for line in calls::read(dir)? {
            let line = line?;
            let Some(content) = &line.content else { continue };
            let position = data.place(&line.system, &line.doc, line.seg);
            // A question about a whole group stands behind the verdicts on all of its units.
            let places = match (line.seg, position) {
                (_, Some(position)) => BTreeSet::from([position]),
                (None, None) => groups.get(&line.group).cloned().unwrap_or_default(),
                (Some(_), None) => BTreeSet::new(),
            };
            for (row, system) in places {
                let block = self.blocks.entry(row / BLOCK).or_default();
                let call = block.call(&line, content);
                let systems = block.rows.entry(row).or_default();
                systems.entry(system).or_default().entry(judge).or_default().push(call);
            }
        }
        Ok(())
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
    fn call(&mut self, line: &CallLine, content: &Content) -> Call {
        let chat = &content.chat;
        let mut turns: Vec<(&str, usize)> =
            (chat.messages().iter()).map(|turn| (speaker(turn.role), self.text(&turn.content))).collect();
        turns.extend(chat.untemplated().map(|text| ("prompt", self.text(text))));
        if !chat.prefill.is_empty() {
            turns.push(("start of the answer", self.text(&chat.prefill)));
        }
        Call {
            role: line.role.clone(),
            stage: line.stage.clone(),
            attempt: line.attempt,
            outcome: line.outcome.clone(),
            finish: line.finish,
            prompt: line.usage.prompt(),
            answer: line.usage.generated,
            turns,
            reply: self.text(content.shown()),
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
