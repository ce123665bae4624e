//! Text to token ids and back, equal to the Hugging Face tokenizer of the same model, with one difference:
//! the caller chooses between data and template.
//!
//! It renders no chat template and handles no roles; [`super::chat`] does.

use std::collections::{BTreeMap, HashMap};

use tokenizers::AddedToken;
use tribunal_model::weights::Unigram;

use crate::panics;

mod added;
mod anchors;
mod budget;
mod class;
mod encode;
mod gguf;
mod json;
mod normalizer;
mod pieces;
mod unigram;

use added::{Added, AddedTokens};
use budget::Budget;

pub use {gguf::GgufVocab, json::Files};

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of building a tokenizer or encoding a text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`tokenizer.json` cannot be read: {0}")]
    Json(String),
    #[error("`tokenizer_config.json` cannot be read: {0}")]
    Config(String),
    #[error(
        "the GGUF file names the tokenizer model `{0}`, which is not supported; \
         hint: `gpt2` (byte-level BPE), `llama` and `gemma4` (SentencePiece) are"
    )]
    Model(String),
    #[error(
        "the GGUF file names the pre-tokenizer `{0}`, which is not known; \
         hint: use the model's safetensors folder, whose tokenizer.json says how to split"
    )]
    PreTokenizer(String),
    #[error("the vocabulary is broken: {0}")]
    Vocabulary(String),
    #[error("the stop token `{0}` is not in the vocabulary")]
    StopToken(String),
    #[error("the text cannot be tokenized: {0}")]
    Encode(String),
}

/// The common form of both sources, tokenizer.json and GGUF metadata.
struct Parts {
    /// The Hugging Face pipeline, without its added tokens, which [`added`] finds.
    pipeline: tokenizers::Tokenizer,
    /// The bytes of each id; for a control token those of its name.
    bytes: Vec<Box<[u8]>>,
    added: Vec<Added>,
    bos: Option<u32>,
    /// The tokens that the model's files name as an end, the end of sequence first.
    ends: Vec<u32>,
    add_bos: bool,
    /// Texts of tokens by their role (`bos_token`), for chat templates.
    roles: BTreeMap<String, String>,
}

impl Parts {
    /// A Unigram vocabulary with the control tokens of XLM-R.
    fn of_unigram(vocabulary: Unigram) -> Result<Self> {
        let pipeline =
            unigram::pipeline(&vocabulary).map_err(|error| Error::Vocabulary(error.to_string()))?;
        let Unigram { pieces, begin, end, padding, unknown, .. } = vocabulary;
        let text = |id: u32| pieces[id as usize].0.clone();
        let roles =
            [("bos", begin), ("cls", begin), ("eos", end), ("sep", end), ("pad", padding), ("unk", unknown)];
        let roles = roles.map(|(role, id)| (format!("{role}_token"), text(id))).into_iter().collect();
        let mask = pieces.iter().position(|(piece, _)| piece == "<mask>").map(|id| id as u32);
        let control = [begin, end, padding, unknown].into_iter().chain(mask);
        let added = |id| Added { id, token: AddedToken::from(text(id), true), is_control: true };
        let added: Vec<Added> = control.map(added).collect();
        let mut bytes: Vec<Box<[u8]>> =
            pieces.iter().map(|(piece, _)| pieces::sentencepiece_bytes(piece)).collect();
        for Added { id, token, .. } in &added {
            bytes[*id as usize] = token.content.as_bytes().into();
        }
        Ok(Self { pipeline, bytes, added, bos: Some(begin), ends: vec![end], add_bos: true, roles })
    }
}

/// A tokenizer that keeps control tokens out of data.
pub struct Tokenizer {
    pipeline: tokenizers::Tokenizer,
    added: AddedTokens,
    bytes: Vec<Box<[u8]>>,
    /// By id.
    control_names: HashMap<u32, String>,
    /// In ascending order of their ids.
    control: Vec<(String, u32)>,
    /// The id for text that is not in the vocabulary.
    unknown: Option<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    stops: Vec<u32>,
    add_bos: bool,
    roles: BTreeMap<String, String>,
    /// Bytes of the longest token.
    longest: usize,
    budget: Budget,
}

/// The longest token: those of real vocabularies have a few hundred bytes at most.
const MAX_TOKEN_BYTES: usize = 4096;

/// The largest ratio of a text's length to that of its Unicode composition: three letters make a syllable of
/// Hangul.
const COMPOSED: usize = 3;

/// The most ids: those of real vocabularies are below 300,000.
const MAX_IDS: usize = 1 << 24;

/// Control tokens that end a turn or a text wherever they exist.
const ENDINGS: [&str; 12] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    "</s>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
];

impl Tokenizer {
    /// Reads the text of `tokenizer.json` and, if any, of `tokenizer_config.json`.
    ///
    /// `template` is the chat template that will be used: tokens that it mentions are control tokens.
    ///
    /// # Errors
    /// When a file does not parse or its tokenizer is of a kind whose bytes are unknown (neither byte-level
    /// nor with byte fallback).
    pub fn from_json(json: &[u8], config: Option<&[u8]>, template: Option<&str>) -> Result<Self> {
        Self::from_files(Files { json, config, ..Files::default() }, template)
    }

    /// Reads the files of a model's folder; `template` as in [`Tokenizer::from_json`].
    ///
    /// # Errors
    /// Those of [`Tokenizer::from_json`].
    pub fn from_files(files: Files<'_>, template: Option<&str>) -> Result<Self> {
        Self::caught(|| Self::new(json::parts(files, template)?))
    }

    /// Reads the tokenizer in a GGUF file's metadata; `template` as in [`Tokenizer::from_json`].
    ///
    /// # Errors
    /// [`Error::Model`] and [`Error::PreTokenizer`] for kinds that are not known: a guess would change ids
    /// silently.
    pub fn from_gguf(vocab: &GgufVocab, template: Option<&str>) -> Result<Self> {
        Self::caught(|| Self::new(gguf::parts(vocab, template)?))
    }

    /// The tokenizer of a Unigram vocabulary without further files.
    ///
    /// # Errors
    /// [`Error::Vocabulary`] when it replaces characters otherwise than SentencePiece's `nmt_nfkc`.
    pub fn from_unigram(vocabulary: Unigram) -> Result<Self> {
        Self::caught(|| Self::new(Parts::of_unigram(vocabulary)?))
    }

    /// Loads a tokenizer; a file that makes the reader panic is an error like any other unusable file.
    fn caught(load: impl FnOnce() -> Result<Self>) -> Result<Self> {
        panics::caught(load).unwrap_or_else(|| Err(Error::Vocabulary("its reader panicked on it".into())))
    }

    fn new(parts: Parts) -> Result<Self> {
        let Parts { pipeline, bytes, added, bos, ends, add_bos, roles } = parts;
        let longest = bytes.iter().map(|bytes| bytes.len()).max().unwrap_or(0);
        if longest > MAX_TOKEN_BYTES {
            let reason = format!("a token has {longest} bytes; at most {MAX_TOKEN_BYTES} are expected");
            return Err(Error::Vocabulary(reason));
        }
        let mut control: Vec<(String, u32)> = Vec::new();
        for Added { id, token, .. } in added.iter().filter(|added| added.is_control) {
            if token.content.is_empty() {
                return Err(Error::Vocabulary(format!("the control token `{id}` has no text")));
            }
            control.push((token.content.clone(), *id));
        }
        control.sort_by_key(|(_, id)| *id);
        let eos = ends.first().copied();
        let mut stops = ends;
        for (name, id) in &control {
            if ENDINGS.contains(&name.as_str()) && !stops.contains(id) {
                stops.push(*id);
            }
        }
        Ok(Self {
            added: AddedTokens::new(&added, pipeline.get_normalizer())?,
            unknown: encode::unknown(&pipeline),
            pipeline,
            bytes,
            control_names: control.iter().map(|(name, id)| (*id, name.clone())).collect(),
            control,
            bos,
            eos,
            stops,
            add_bos,
            roles,
            longest,
            budget: Budget::default(),
        })
    }

    /// The bytes of the longest text of so many tokens: all as long as the longest one.
    pub fn most_bytes(&self, n_tokens: usize) -> usize {
        n_tokens.saturating_mul(self.longest.max(1)).saturating_mul(COMPOSED)
    }

    /// This tokenizer with further stop tokens, by name (a model card lists them).
    ///
    /// # Errors
    /// [`Error::StopToken`] names one that is not a control token of the vocabulary.
    pub fn with_stop_tokens<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self> {
        for name in names {
            let id = self.control_id(name.as_ref());
            let id = id.ok_or_else(|| Error::StopToken(name.as_ref().to_owned()))?;
            if !self.stops.contains(&id) {
                self.stops.push(id);
            }
        }
        Ok(self)
    }

    /// This tokenizer with further stop tokens, by id (`config.json` and `generation_config.json` list them).
    /// An id that the vocabulary does not have can never end an answer, and is left out.
    #[must_use]
    pub fn with_stop_ids(mut self, ids: &[u32]) -> Self {
        for &id in ids {
            if !self.bytes(id).is_empty() && !self.stops.contains(&id) {
                self.stops.push(id);
            }
        }
        self
    }

    /// The text of these tokens; bytes that are not UTF-8 (a character cut in two) become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        if let [id] = ids {
            return String::from_utf8_lossy(self.bytes(*id)).into_owned();
        }
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes of a token: its text, or a control token's name. Empty for an id without a token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).map_or(&[], |bytes| bytes)
    }

    /// The number of ids, from 0; a model may have more rows of logits (padding), none of which is a token.
    pub fn vocab_size(&self) -> usize {
        self.bytes.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The beginning-of-sequence token that is put before every text, if one is.
    pub fn added_bos(&self) -> Option<u32> {
        self.bos.filter(|_| self.add_bos)
    }

    /// The end-of-sequence token of the model's files.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The tokens that end an answer: the end-of-sequence token first, then others that end a turn.
    pub fn stops(&self) -> &[u32] {
        &self.stops
    }

    /// Returns true if only a template may produce this id.
    pub fn is_control(&self, id: u32) -> bool {
        self.control_names.contains_key(&id)
    }

    /// The names of all control tokens.
    pub fn control_names(&self) -> impl Iterator<Item = &str> {
        self.control.iter().map(|(name, _)| name.as_str())
    }

    /// The id of a control token by its name.
    pub fn control_id(&self, name: &str) -> Option<u32> {
        self.control.iter().find(|(other, _)| other == name).map(|(_, id)| *id)
    }

    /// The texts of tokens by their role (`bos_token`, `pad_token`), from the model's files.
    pub fn roles(&self) -> &BTreeMap<String, String> {
        &self.roles
    }
}

/// Returns true for an added token that only a template may produce. Source: the token's own flag, or a name
/// of the shapes that the supported models give to tokens with a function.
fn acts_as_control(name: &str, special: bool, template: Option<&str>) -> bool {
    let functional = (name.starts_with("<|") || name.ends_with("|>"))
        || ["<unused", "<start_of_", "<end_of_"].iter().any(|shape| name.starts_with(shape))
        || name == "<mask>";
    special || (is_bracketed(name) && (functional || template.is_some_and(|t| t.contains(name))))
}

fn is_bracketed(name: &str) -> bool {
    name.len() > 2
        && ((name.starts_with('<') && name.ends_with('>')) || (name.starts_with('[') && name.ends_with(']')))
}

#[cfg(test)]
pub(crate) mod tests;
