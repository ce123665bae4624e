//! Text to token ids and back, equal to the Hugging Face tokenizer of the same model, with one difference:
//! the caller says whether a text is data or a template.
//!
//! It holds no chat template and knows no roles; [`super::chat`] does.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::panics;

mod gguf;
mod json;
mod normalizer;
mod pieces;

pub use gguf::GgufVocab;

/// Why a tokenizer cannot be built, or cannot encode.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`tokenizer.json` cannot be read: {0}")]
    Json(String),
    #[error("`tokenizer_config.json` cannot be read: {0}")]
    Config(String),
    #[error(
        "the GGUF file names the tokenizer model `{0}`, which is not supported; \
         hint: `gpt2` (byte-level BPE) and `llama` (SentencePiece) are"
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

/// What both sources (tokenizer.json and GGUF metadata) are reduced to.
struct Parts {
    /// The Hugging Face pipeline in which control tokens have no effect.
    data: tokenizers::Tokenizer,
    /// The bytes that each id stands for; for a control token the bytes of its name.
    bytes: Vec<Box<[u8]>>,
    /// Ids that only a template may produce.
    control: Vec<u32>,
    bos: Option<u32>,
    /// The tokens that the model's files name as an end, the end of sequence first.
    ends: Vec<u32>,
    add_bos: bool,
}

/// A tokenizer that keeps control tokens out of data.
pub struct Tokenizer {
    data: tokenizers::Tokenizer,
    bytes: Vec<Box<[u8]>>,
    is_control: Vec<bool>,
    control_names: Vec<String>,
    control_ids: Vec<u32>,
    finder: AhoCorasick,
    bos: Option<u32>,
    eos: Option<u32>,
    stops: Vec<u32>,
    add_bos: bool,
}

/// The longest token: those of real vocabularies have a few hundred bytes at most.
const MAX_TOKEN_BYTES: usize = 4096;

/// The most ids: those of real vocabularies are below 300,000.
const MAX_IDS: usize = 1 << 24;

/// Control tokens that end a turn or a text wherever they exist.
const ENDINGS: [&str; 9] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<|end|>",
];

impl Tokenizer {
    /// From the text of `tokenizer.json` and, where there is one, of `tokenizer_config.json`.
    ///
    /// `template` is the chat template that will be used: tokens that it mentions are control tokens.
    ///
    /// # Errors
    /// When a file does not parse or its tokenizer is of a kind whose bytes are unknown (neither byte-level
    /// nor with byte fallback).
    pub fn from_json(json: &[u8], config: Option<&[u8]>, template: Option<&str>) -> Result<Self, Error> {
        Self::caught(|| Self::new(json::parts(json, config, template)?))
    }

    /// From the tokenizer in a GGUF file's metadata; `template` as in [`Tokenizer::from_json`].
    ///
    /// # Errors
    /// [`Error::Model`] and [`Error::PreTokenizer`] for kinds that are not known: a guess would change ids
    /// silently.
    pub fn from_gguf(vocab: &GgufVocab, template: Option<&str>) -> Result<Self, Error> {
        Self::caught(|| Self::new(gguf::parts(vocab, template)?))
    }

    /// Loads a tokenizer; a file that makes the reader panic is an error like any other that cannot be used.
    fn caught(load: impl FnOnce() -> Result<Self, Error>) -> Result<Self, Error> {
        panics::caught(load).unwrap_or_else(|| {
            Err(Error::Vocabulary("it is damaged in a way that its reader cannot bear".into()))
        })
    }

    fn new(parts: Parts) -> Result<Self, Error> {
        let mut is_control = vec![false; parts.bytes.len()];
        let mut control_names = Vec::new();
        if let Some(token) = parts.bytes.iter().find(|bytes| bytes.len() > MAX_TOKEN_BYTES) {
            let reason = format!("a token has {} bytes; at most {MAX_TOKEN_BYTES} are expected", token.len());
            return Err(Error::Vocabulary(reason));
        }
        for &id in &parts.control {
            if parts.bytes.get(id as usize).is_none_or(|name| name.is_empty()) {
                return Err(Error::Vocabulary(format!("the control token `{id}` has no text")));
            }
            is_control[id as usize] = true;
            control_names.push(String::from_utf8_lossy(&parts.bytes[id as usize]).into_owned());
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&control_names)
            .map_err(|e| Error::Vocabulary(e.to_string()))?;
        let eos = parts.ends.first().copied();
        let mut stops = parts.ends;
        for (name, &id) in control_names.iter().zip(&parts.control) {
            if ENDINGS.contains(&name.as_str()) && !stops.contains(&id) {
                stops.push(id);
            }
        }
        Ok(Self {
            data: parts.data,
            bytes: parts.bytes,
            is_control,
            control_names,
            control_ids: parts.control,
            finder,
            bos: parts.bos,
            eos,
            stops,
            add_bos: parts.add_bos,
        })
    }

    /// The same tokenizer with further stop tokens, by name (a model card lists them).
    ///
    /// # Errors
    /// [`Error::StopToken`] names one that the vocabulary does not have as a control token.
    pub fn with_stop_tokens<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self, Error> {
        for name in names {
            let id = self.control_id(name.as_ref());
            let id = id.ok_or_else(|| Error::StopToken(name.as_ref().to_owned()))?;
            if !self.stops.contains(&id) {
                self.stops.push(id);
            }
        }
        Ok(self)
    }

    /// The same tokenizer with further stop tokens, by id (`config.json` and `generation_config.json` list them). An id
    /// that the vocabulary does not have can never end an answer, and is left out.
    #[must_use]
    pub fn with_stop_ids(mut self, ids: &[u32]) -> Self {
        for &id in ids {
            if !self.bytes(id).is_empty() && !self.stops.contains(&id) {
                self.stops.push(id);
            }
        }
        self
    }

    /// Ids of a text that is data: a control token's name in it is plain text.
    ///
    /// # Errors
    /// [`Error::Encode`] when the pipeline itself fails.
    pub fn encode_data(&self, text: &str) -> Result<Vec<u32>, Error> {
        let ids = self.encode_plain(text)?;
        if !ids.iter().any(|&id| self.is_control(id)) {
            return Ok(ids);
        }
        // A vocabulary may merge its way to a control token's piece; single characters cannot.
        let mut split = Vec::new();
        for (at, c) in text.char_indices() {
            split.extend(self.encode_plain(&text[at..at + c.len_utf8()])?);
        }
        Ok(split)
    }

    /// Ids of a text in which control tokens act, as Hugging Face encodes a rendered chat template
    /// (no beginning-of-sequence token is added).
    ///
    /// # Errors
    /// As [`Tokenizer::encode_data`].
    pub fn encode_template(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.encode_runs(text, str::to_owned)
    }

    /// Ids of a whole prompt given as it is: control tokens act, and the beginning-of-sequence token is put
    /// in front where the model expects one and the text does not start with it.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_data`].
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = self.encode_template(text)?;
        if let Some(bos) = self.bos
            && self.add_bos
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Ids of a whole prompt in which no control token acts, behind the beginning-of-sequence token where the model
    /// expects one.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_data`].
    pub fn encode_inert(&self, text: &str) -> Result<Vec<u32>, Error> {
        let bos = self.bos.filter(|_| self.add_bos);
        Ok(bos.into_iter().chain(self.encode_data(text)?).collect())
    }

    /// Splits `text` at control tokens, passes the runs between them through `clean`, and encodes each as data.
    pub(super) fn encode_runs(&self, text: &str, clean: impl Fn(&str) -> String) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        let mut at = 0;
        for found in self.finder.find_iter(text) {
            ids.extend(self.encode_data(&clean(&text[at..found.start()]))?);
            ids.push(self.control_ids[found.pattern().as_usize()]);
            at = found.end();
        }
        ids.extend(self.encode_data(&clean(&text[at..]))?);
        Ok(ids)
    }

    fn encode_plain(&self, text: &str) -> Result<Vec<u32>, Error> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        // A normalizer that is damaged may panic only where it meets some text.
        let encode = || self.data.encode_fast(text, false);
        let encoding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)).map_err(|_| {
            Error::Encode("the tokenizer is damaged in a way that its reader cannot bear".into())
        })?;
        Ok(encoding.map_err(|e| Error::Encode(e.to_string()))?.get_ids().to_vec())
    }

    /// The text of these tokens; bytes that are not UTF-8 (a character cut in two) become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        if let [id] = ids {
            return String::from_utf8_lossy(self.bytes(*id)).into_owned();
        }
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes that a token stands for: its text, or a control token's name. Empty for an id without a token.
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).map_or(&[], |bytes| bytes)
    }

    /// The number of ids, from 0; a model may have more rows of logits (padding), none of which is a token.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.bytes.len()
    }

    /// The beginning-of-sequence token.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token as the model's files name it.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The tokens that end an answer: the end-of-sequence token first, then others that end a turn.
    #[must_use]
    pub fn stops(&self) -> &[u32] {
        &self.stops
    }

    /// Whether only a template may produce this id.
    #[must_use]
    pub fn is_control(&self, id: u32) -> bool {
        self.is_control.get(id as usize).copied().unwrap_or(false)
    }

    /// The names of all control tokens.
    #[must_use]
    pub fn control_names(&self) -> &[String] {
        &self.control_names
    }

    /// The id of a control token by its name.
    #[must_use]
    pub fn control_id(&self, name: &str) -> Option<u32> {
        self.control_names.iter().position(|n| n == name).map(|i| self.control_ids[i])
    }
}

/// Whether an added token is one that only a template may produce. Source: the token's own flag, or a name
/// of the shapes that the supported models give to tokens with a function.
fn acts_as_control(name: &str, special: bool, template: Option<&str>) -> bool {
    let bracketed = name.len() > 2
        && ((name.starts_with('<') && name.ends_with('>')) || (name.starts_with('[') && name.ends_with(']')));
    let functional = (name.starts_with("<|") && name.ends_with("|>"))
        || ["<unused", "<start_of_", "<end_of_"].iter().any(|shape| name.starts_with(shape))
        || name == "<mask>";
    special || (bracketed && (functional || template.is_some_and(|t| t.contains(name))))
}

#[cfg(test)]
pub(crate) mod tests;
