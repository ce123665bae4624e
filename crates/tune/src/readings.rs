//! Hidden states of rated translations, cached on disk, so that an interrupted extraction can be resumed and
//! another fit on the same texts needs none. It fits nothing.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use half::bf16;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Error, Result, io};
use crate::{
    digest, files,
    judges::{in_parallel, probe, prompt::Prompts},
    llm::{self, Chat, Llm, States},
    segment::Segment,
};

/// Translations that are read side by side.
const BATCH: usize = 64;

/// Sources whose translations are read together: the first of each, then the second, so that the cached
/// prefix of a source still exists when its next translation comes.
const SOURCES: usize = 128;

/// The readings of a folder, all of one model and prompt, after one or several numbers of layers.
pub struct Readings {
    layers: Vec<Layer>,
    hidden: usize,
}

/// The states after one number of layers, in a file of their own.
struct Layer {
    depth: usize,
    index: PathBuf,
    states: File,
    known: HashMap<String, (u64, Line)>,
    /// Bytes of states so far.
    end: u64,
}

/// One line of the index; its states follow those of the line before it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Of prompt and text.
    key: String,
    ends: Vec<usize>,
    /// Hash of the fields above and of the states' bytes.
    sha256: String,
}

impl Line {
    /// Hash of a whole reading, for the field `sha256`.
    fn checksum(key: &str, ends: &[usize], states: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{key} {}\n", ends.len()));
        for end in ends {
            hash.update((*end as u64).to_le_bytes());
        }
        hash.update(states);
        digest::hex(&hash.finalize()[..16])
    }
}

/// A translation that was read.
#[derive(Clone, Debug, Default)]
pub struct TokenStates {
    /// End of each token in ` TRANSLATION`. Unit: bytes.
    pub ends: Vec<usize>,
    /// Each token's states, scaled: see [`States::features`].
    ///
    /// Shape: `[tokens * hidden]`.
    pub features: Vec<f32>,
}

fn key(chat: &Chat, text: &str) -> String {
    let prompt = format!("{}\0{text}", chat.untemplated().unwrap_or_default());
    digest::hex(&Sha256::digest(prompt)[..16])
}

impl Layer {
    /// Opens the files, or makes them. A reading that was cut off while it was being written is dropped.
    ///
    /// # Errors
    /// A line in front of the last one that is no reading.
    fn open(folder: &Path, name: &str, depth: usize, hidden: usize) -> Result<Self> {
        let index = folder.join(format!("readings-{name}-{depth}.jsonl"));
        let path = folder.join(format!("readings-{name}-{depth}.bf16"));
        let states = files::update(&path).map_err(|error| io(&path)(error.source))?;
        let n_bytes = states.metadata().map_err(io(&path))?.len();
        let (mut known, mut end, mut n_complete) = (HashMap::new(), 0, 0);
        if index.exists() {
            let mut reader = BufReader::new(File::open(&index).map_err(io(&index))?);
            let mut text = String::new();
            while reader.read_line(&mut text).map_err(io(&index))? > 0 && text.ends_with('\n') {
                let line = serde_json::from_str::<Line>(&text);
                let line =
                    line.map_err(|error| damaged(&index, known.len() + 1, &format!("no reading: {error}")))?;
                let bytes = (line.ends.len() * hidden * 2) as u64;
                if end + bytes > n_bytes {
                    break;
                }
                known.insert(line.key.clone(), (end, line));
                end += bytes;
                n_complete += text.len() as u64;
                text.clear();
            }
            let file = files::update(&index).map_err(|error| io(&index)(error.source))?;
            file.set_len(n_complete).map_err(io(&index))?;
        }
        states.set_len(end).map_err(io(&path))?;
        Ok(Self { depth, index, states, known, end })
    }

    fn keep(&mut self, key: &str, states: &States, values: &[f32]) -> Result<()> {
        if self.known.contains_key(key) {
            return Ok(());
        }
        let bytes: Vec<u8> = values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect();
        let sha256 = Line::checksum(key, &states.ends, &bytes);
        let line = Line { key: key.to_owned(), ends: states.ends.clone(), sha256 };
        let text = serde_json::to_string(&line).map_err(|e| Error::Unsuitable(e.to_string()))? + "\n";
        self.states.seek(SeekFrom::Start(self.end)).map_err(io(&self.index))?;
        self.states.write_all(&bytes).map_err(io(&self.index))?;
        let mut file = files::append(&self.index).map_err(|error| io(&self.index)(error.source))?;
        file.write_all(text.as_bytes()).map_err(io(&self.index))?;
        self.known.insert(key.to_owned(), (self.end, line));
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// The states of a translation's tokens, with its line.
    ///
    /// Shape: `[tokens * hidden]`.
    fn of(&mut self, key: &str, hidden: usize) -> Result<(Vec<f32>, &Line)> {
        let found = self.known.get(key);
        let (at, line) = found.ok_or_else(|| Error::Unsuitable("a translation was not read".into()))?;
        let mut bytes = vec![0; line.ends.len() * hidden * 2];
        self.states.seek(SeekFrom::Start(*at)).map_err(io(&self.index))?;
        self.states.read_exact(&mut bytes).map_err(io(&self.index))?;
        if Line::checksum(&line.key, &line.ends, &bytes) != line.sha256 {
            let place = self.known.values().filter(|(start, _)| start < at).count() + 1;
            return Err(damaged(&self.index, place, "the reading has changed since it was written"));
        }
        Ok((bytes.as_chunks::<2>().0.iter().map(|two| bf16::from_le_bytes(*two).to_f32()).collect(), line))
    }
}

/// An index, or its states, that cannot be what was written.
fn damaged(index: &Path, line: usize, problem: &str) -> Error {
    let reason = format!("{problem}\nhint: remove this file; its translations are then read again");
    Error::Line { path: index.into(), line, reason }
}

impl Readings {
    /// Opens a folder, or makes it, for the states after each of `depths` layers, which a reading gives
    /// together. `name` must identify all else that the states depend on.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub fn open(folder: &Path, name: &str, depths: &[usize], hidden: usize) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let layers = depths.iter().map(|&depth| Layer::open(folder, name, depth, hidden));
        Ok(Self { layers: layers.collect::<Result<_, _>>()?, hidden })
    }

    fn knows(&self, key: &str) -> bool {
        self.layers.iter().all(|layer| layer.known.contains_key(key))
    }

    /// The name of a translation that has not been read, the same for equal texts under equal prompts; `None`
    /// for one that has.
    ///
    /// # Errors
    /// A prompt that cannot be filled in.
    pub fn unread(&self, prompts: &Prompts, segment: &Segment) -> Result<Option<String>> {
        let key = key(&chat(prompts, segment)?, &probe::text(segment));
        Ok(Some(key).filter(|key| !self.knows(key)))
    }

    /// Number of these that have not been read yet.
    ///
    /// # Errors
    /// A prompt that cannot be filled in.
    pub fn n_missing(&self, prompts: &Prompts, segments: &[&Segment]) -> Result<usize> {
        let mut missing = 0;
        for segment in segments {
            missing += usize::from(self.unread(prompts, segment)?.is_some());
        }
        Ok(missing)
    }

    /// Reads the missing translations; `progress` is called with the number done. A translation that does not
    /// fit the model's context stays unread.
    ///
    /// # Errors
    /// The model fails, or a file cannot be written.
    pub fn read_all(
        &mut self,
        llm: &dyn Llm,
        prompts: &Prompts,
        segments: &[&Segment],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<()> {
        let mut new = Vec::new();
        for segment in segments {
            let chat = chat(prompts, segment)?;
            let text = probe::text(segment);
            if !self.knows(&key(&chat, &text)) {
                new.push((chat, text));
            }
        }
        let n_known = segments.len() - new.len();
        let new = by_turns(new);
        let depths: Vec<usize> = self.layers.iter().map(|layer| layer.depth).collect();
        for (i, batch) in new.chunks(BATCH).enumerate() {
            let read = in_parallel(batch, |_, (chat, text)| llm.states(chat, text, &depths));
            for ((chat, text), states) in batch.iter().zip(read) {
                let states = match states {
                    Err(llm::Error::TooLong { .. } | llm::Error::TooManyBytes { .. }) => continue,
                    states => states?,
                };
                let key = key(chat, text);
                for (layer, values) in self.layers.iter_mut().zip(&states.states) {
                    layer.keep(&key, &states, values)?;
                }
            }
            progress(n_known + (i * BATCH + batch.len()), segments.len());
        }
        Ok(())
    }

    /// Numbers of a token's features: its states after all depths.
    pub fn width(&self) -> usize {
        self.layers.len() * self.hidden
    }

    /// The reading of a translation.
    ///
    /// # Errors
    /// When it was not, or the file cannot be read.
    pub fn of(&mut self, prompts: &Prompts, segment: &Segment) -> Result<TokenStates> {
        let key = key(&chat(prompts, segment)?, &probe::text(segment));
        let mut states = States::default();
        for layer in &mut self.layers {
            let (values, line) = layer.of(&key, self.hidden)?;
            states.states.push(values);
            states.ends.clone_from(&line.ends);
        }
        let features = (0..states.ends.len()).flat_map(|token| states.features(token)).collect();
        Ok(TokenStates { ends: states.ends, features })
    }
}

/// Arranges translations in chunks of a hundred sources, with the translations of a source next to each
/// other. The order of sources is pseudorandom, so that any leading part is a fair sample.
fn by_turns(new: Vec<(Chat, String)>) -> Vec<(Chat, String)> {
    let mut of_source: BTreeMap<String, Vec<(Chat, String)>> = BTreeMap::new();
    for (chat, text) in new {
        of_source.entry(key(&chat, "")).or_default().push((chat, text));
    }
    let mut sources: Vec<_> = of_source.into_values().map(|texts| texts.into_iter().collect()).collect();
    sources.chunks_mut(SOURCES).flat_map(turns).collect()
}

/// The first of each queue, then the second of each.
fn turns(queues: &mut [VecDeque<(Chat, String)>]) -> Vec<(Chat, String)> {
    let mut taken = Vec::new();
    loop {
        let before = taken.len();
        taken.extend(queues.iter_mut().filter_map(VecDeque::pop_front));
        if taken.len() == before {
            return taken;
        }
    }
}

fn chat(prompts: &Prompts, segment: &Segment) -> Result<Chat> {
    probe::chat(prompts, segment).map_err(|error| Error::Unsuitable(error.to_string()))
}
