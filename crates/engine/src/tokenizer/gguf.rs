//! A tokenizer from the metadata of a GGUF file: byte-level BPE, or SentencePiece with scores or merges. It
//! parses no GGUF; the reader of weights fills [`GgufVocab`].

use std::collections::BTreeMap;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{NFC, Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

use crate::model::gguf::shown;

use super::{Error, MAX_TOKEN_BYTES, Parts, Result, acts_as_control, added::Added, pieces};

/// The values of the keys `tokenizer.ggml.*` of a GGUF file, unchanged.
#[derive(Clone, Debug, Default)]
pub struct GgufVocab {
    /// `model`: `gpt2`, `llama` or `gemma4`.
    pub model: String,
    /// `pre`: the pre-tokenizer of a `gpt2` model; empty when the file has no such key.
    pub pre: String,
    pub tokens: Vec<String>,
    /// One score for each token (`llama` only; higher merges first).
    pub scores: Vec<f32>,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; may be empty.
    pub token_types: Vec<i32>,
    /// Pairs separated by one space, best first (`gpt2` and `gemma4`).
    pub merges: Vec<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// End of turn, where the file names one beside `eos`.
    pub eot: Option<u32>,
    pub unknown: Option<u32>,
    pub padding: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen3.5's: Qwen2's with combining marks beside the letters.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Mistral's: words end where an upper-case letter follows a lower-case one.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// o200k's, of gpt-oss: Tekken's with contractions in their word and digits in threes.
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The patterns of dense Hunyuan and DeepSeek-V3: digits, then Chinese and Japanese, then all other text.
const HUNYUAN: [&str; 3] = [
    r"\p{N}{1,3}",
    "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

/// The bytes of every token, by id.
type TokenBytes = Vec<Box<[u8]>>;

pub(super) fn parts(vocab: &GgufVocab, template: Option<&str>) -> Result<Parts> {
    check(vocab)?;
    let template = template.or(vocab.chat_template.as_deref());
    let (mut pipeline, bytes) = match vocab.model.as_str() {
        "gpt2" => byte_level(vocab)?,
        "llama" => sentencepiece(vocab, merges_from_scores(vocab))?,
        "gemma4" => sentencepiece(vocab, merges(vocab)?)?,
        other => return Err(Error::Model(shown(other))),
    };
    let mut added = Vec::new();
    for (id, name) in vocab.tokens.iter().enumerate() {
        let kind = vocab.kind(id);
        let named = matches!(kind, CONTROL | UNKNOWN | USER_DEFINED);
        let is_control = kind == UNUSED || (named && acts_as_control(name, kind != USER_DEFINED, template));
        let token = if is_control {
            AddedToken::from(name, true)
        } else if kind == USER_DEFINED {
            AddedToken::from(vocab.piece(id), false).normalized(false)
        } else {
            continue;
        };
        added.push(Added { id: id as u32, token, is_control });
    }
    let active = added.iter().filter(|added| !added.is_control).map(|added| added.token.clone());
    pipeline.add_tokens(active).map_err(|e| Error::Vocabulary(e.to_string()))?;
    let add_bos = vocab.add_bos.unwrap_or(vocab.is_sentencepiece() || vocab.pre.starts_with("llama"));
    // Early GGUF files of Gemma 4 set `add_bos_token` to false.
    let add_bos = add_bos || vocab.model == "gemma4";
    let ends = vocab.eos.into_iter().chain(vocab.eot).collect();
    let roles = vocab.roles();
    Ok(Parts { pipeline, bytes, added, bos: vocab.bos, ends, add_bos, roles })
}

fn check(vocab: &GgufVocab) -> Result<()> {
    let size = vocab.tokens.len();
    let broken = |reason: String| Err(Error::Vocabulary(reason));
    if size == 0 {
        return broken("it holds no tokens".into());
    }
    // Before anything is cut into all its parts.
    if let Some(token) = vocab.tokens.iter().find(|token| token.len() > MAX_TOKEN_BYTES) {
        return broken(format!(
            "a token has `{}` bytes; at most {MAX_TOKEN_BYTES} are expected",
            token.len()
        ));
    }
    if !vocab.token_types.is_empty() && vocab.token_types.len() != size {
        return broken(format!("`{size}` tokens, but `{}` token types", vocab.token_types.len()));
    }
    if vocab.model == "llama" && vocab.scores.len() != size {
        return broken(format!("`{size}` tokens, but `{}` scores", vocab.scores.len()));
    }
    match [vocab.bos, vocab.eos, vocab.eot].into_iter().flatten().find(|&id| id as usize >= size) {
        Some(id) => broken(format!("the special token id `{id}` is not below the size `{size}`")),
        None => Ok(()),
    }
}

impl GgufVocab {
    fn is_sentencepiece(&self) -> bool {
        matches!(&*self.model, "llama" | "gemma4")
    }

    fn kind(&self, id: usize) -> i32 {
        match self.token_types.get(id) {
            Some(&kind) => kind,
            None if [self.bos, self.eos, self.eot].contains(&Some(id as u32)) => CONTROL,
            None if self.tokens[id].starts_with("<|") && self.tokens[id].ends_with("|>") => CONTROL,
            None => NORMAL,
        }
    }

    /// The token's spelling in the tokenizer's vocabulary: converters write user-defined runs of
    /// SentencePiece's mark as spaces.
    fn piece(&self, id: usize) -> String {
        let token = &self.tokens[id];
        if self.is_sentencepiece() && self.kind(id) == USER_DEFINED {
            return token.replace(' ', &pieces::SPACE_MARK.to_string());
        }
        token.clone()
    }

    /// The tokens that chat templates print by their role.
    fn roles(&self) -> BTreeMap<String, String> {
        let roles = [
            ("bos_token", self.bos),
            ("eos_token", self.eos),
            ("unk_token", self.unknown),
            ("pad_token", self.padding),
        ];
        let named =
            |(role, id): (&str, Option<u32>)| Some((role.to_owned(), self.tokens.get(id? as usize)?.clone()));
        roles.into_iter().filter_map(named).collect()
    }

    fn vocabulary(&self) -> Vocab {
        (0..self.tokens.len()).map(|id| (self.piece(id), id as u32)).collect()
    }
}

/// The merges in the file.
fn merges(vocab: &GgufVocab) -> Result<Vec<(String, String)>> {
    let pair = |line: &String| {
        let pair = line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
        pair.ok_or_else(|| Error::Vocabulary(format!("the merge `{}` is not a pair", shown(line))))
    };
    vocab.merges.iter().map(pair).collect()
}

fn byte_level(vocab: &GgufVocab) -> Result<(Tokenizer, TokenBytes)> {
    let merges = merges(vocab)?;
    let (pre, normalizer) = pre_tokenizer(&vocab.pre)?;
    let model = BPE::builder()
        .vocab_and_merges(vocab.vocabulary(), merges)
        .ignore_merges(is_llama3(&vocab.pre) || matches!(&*vocab.pre, "glm4" | "tekken" | "gpt-4o"))
        .build()
        .map_err(|e| Error::Vocabulary(e.to_string()))?;
    let mut data = Tokenizer::new(model);
    data.with_normalizer(normalizer).map_err(|e| Error::Vocabulary(e.to_string()))?;
    data.with_pre_tokenizer(Some(pre));
    let alphabet = pieces::byte_level_alphabet();
    let bytes = (0..vocab.tokens.len()).map(|id| match vocab.kind(id) {
        NORMAL => pieces::byte_level_bytes(&vocab.tokens[id], &alphabet),
        _ => vocab.tokens[id].as_bytes().into(),
    });
    Ok((data, bytes.collect()))
}

/// Llama 3's, or SmolLM3's, which has no token at the beginning.
fn is_llama3(pre: &str) -> bool {
    matches!(pre, "llama-bpe" | "llama3" | "llama-v3" | "smaug-bpe")
}

/// The pre-tokenizer and normalizer in the `tokenizer.json` of models with this name.
fn pre_tokenizer(name: &str) -> Result<(PreTokenizerWrapper, Option<NormalizerWrapper>)> {
    let splits = |patterns: &[&str]| -> Result<PreTokenizerWrapper> {
        let split = |pattern: &&str| {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
            split.map(PreTokenizerWrapper::from).map_err(|e| Error::Vocabulary(e.to_string()))
        };
        let mut all = patterns.iter().map(split).collect::<Result<Vec<_>, _>>()?;
        all.push(ByteLevel::new(false, false, false).into());
        Ok(Sequence::new(all).into())
    };
    let split = |pattern: &str| splits(&[pattern]);
    let gpt2 = ByteLevel::new(false, true, true);
    let gpt2_by_digit = Sequence::new(vec![Digits::new(true).into(), gpt2.into()]);
    match name {
        "gpt-2" => Ok((gpt2.into(), None)),
        "smollm" | "refact" => Ok((gpt2_by_digit.into(), None)),
        "command-r" => Ok((gpt2_by_digit.into(), Some(NFC.into()))),
        "qwen2" | "deepseek-r1-qwen" => Ok((split(QWEN2)?, Some(NFC.into()))),
        "qwen35" => Ok((split(QWEN35)?, Some(NFC.into()))),
        "glm4" | "chatglm-bpe" | "dbrx" => Ok((split(LLAMA3)?, None)),
        "tekken" => Ok((split(TEKKEN)?, None)),
        "gpt-4o" => Ok((split(O200K)?, None)),
        "hunyuan" => Ok((split(QWEN2)?, None)),
        "hunyuan-dense" | "deepseek-v3" => Ok((splits(&HUNYUAN)?, None)),
        name if is_llama3(name) => Ok((split(LLAMA3)?, None)),
        other => Err(Error::PreTokenizer(shown(other))),
    }
}

fn sentencepiece(vocab: &GgufVocab, merges: Vec<(String, String)>) -> Result<(Tokenizer, TokenBytes)> {
    let mut builder = BPE::builder()
        .vocab_and_merges(vocab.vocabulary(), merges)
        .fuse_unk(true)
        .byte_fallback((0..vocab.tokens.len()).any(|id| vocab.kind(id) == BYTE));
    if let Some(unknown) = vocab.unknown.and_then(|id| vocab.tokens.get(id as usize)) {
        builder = builder.unk_token(unknown.clone());
    }
    let model = builder.build().map_err(|e| Error::Vocabulary(e.to_string()))?;
    let mut data = Tokenizer::new(model);
    let mark = pieces::SPACE_MARK.to_string();
    let replace: NormalizerWrapper =
        Replace::new(" ", mark.clone()).map_err(|e| Error::Vocabulary(e.to_string()))?.into();
    let normalizer = if vocab.add_space_prefix.unwrap_or(vocab.model != "gemma4") {
        Normalizers::new(vec![Prepend::new(mark).into(), replace]).into()
    } else {
        replace
    };
    data.with_normalizer(Some(normalizer)).map_err(|e| Error::Vocabulary(e.to_string()))?;
    let bytes = (0..vocab.tokens.len()).map(|id| match vocab.kind(id) {
        CONTROL | UNKNOWN | UNUSED => vocab.tokens[id].as_bytes().into(),
        _ => pieces::sentencepiece_bytes(&vocab.tokens[id]),
    });
    Ok((data, bytes.collect()))
}

/// Merges that give SentencePiece's BPE: every way to cut a piece into two pieces, best score first, then
/// longer left and right parts. User-defined pieces score 0, as in the original SentencePiece model.
///
/// Source: `generate_merges` of transformers' `convert_slow_tokenizer.py`.
fn merges_from_scores(vocab: &GgufVocab) -> Vec<(String, String)> {
    let ids = vocab.vocabulary();
    let mut merges: Vec<(f32, usize, usize, String, String)> = Vec::new();
    for id in (0..vocab.tokens.len()).filter(|&id| vocab.kind(id) != BYTE) {
        let piece = vocab.piece(id);
        // Adding zero makes -0.0 sort as 0.0.
        let score = if vocab.kind(id) == USER_DEFINED { 0.0 } else { vocab.scores[id] + 0.0 };
        let n_chars = piece.chars().count();
        let mut cuts: Vec<(u32, u32, usize, usize)> = (piece.char_indices().enumerate().skip(1))
            .filter_map(|(n_left, (cut, _))| {
                let left = *ids.get(&piece[..cut])?;
                let right = *ids.get(&piece[cut..])?;
                Some((left, right, cut, n_left))
            })
            .collect();
        cuts.sort_unstable();
        merges.extend(cuts.into_iter().map(|(_, _, cut, n_left)| {
            (score, n_left, n_chars - n_left, piece[..cut].to_owned(), piece[cut..].to_owned())
        }));
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
    merges.into_iter().map(|(.., left, right)| (left, right)).collect()
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    use super::*;

    fn pieces(name: &str, text: &str) -> Vec<String> {
        let mut cut = PreTokenizedString::from(text);
        pre_tokenizer(name).unwrap().0.pre_tokenize(&mut cut).unwrap();
        let splits = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(_, (start, end), _)| text[start..end].to_owned()).collect()
    }

    /// Expected pieces are those of the patterns in their `tokenizer.json`.
    #[test]
    fn each_family_cuts_a_text_its_own_way() {
        let text = "It's myHouse: 12345 \u{6771}\u{4eac}tower/#x";
        for (name, expected) in [
            ("glm4", "It|'s| myHouse|:| |123|45| \u{6771}\u{4eac}tower|/#|x"),
            ("dbrx", "It|'s| myHouse|:| |123|45| \u{6771}\u{4eac}tower|/#|x"),
            ("smaug-bpe", "It|'s| myHouse|:| |123|45| \u{6771}\u{4eac}tower|/#|x"),
            ("refact", "It|'s| myHouse|:| |1|2|3|4|5| \u{6771}\u{4eac}tower|/#|x"),
            ("command-r", "It|'s| myHouse|:| |1|2|3|4|5| \u{6771}\u{4eac}tower|/#|x"),
            ("tekken", "It|'s| my|House|:| |1|2|3|4|5| \u{6771}\u{4eac}tower|/#|x"),
            ("gpt-4o", "It's| my|House|:| |123|45| \u{6771}\u{4eac}tower|/#|x"),
            ("hunyuan", "It|'s| myHouse|:| |1|2|3|4|5| \u{6771}\u{4eac}tower|/#|x"),
            ("hunyuan-dense", "It|'s| myHouse|:| |123|45| |\u{6771}\u{4eac}|tower|/#|x"),
        ] {
            assert_eq!(pieces(name, text).join("|"), expected, "{name}");
        }
    }

    #[test]
    fn some_families_compose_letters_and_unknown_ones_are_refused() {
        for (name, composes) in
            [("qwen2", true), ("command-r", true), ("refact", false), ("dbrx", false), ("smaug-bpe", false)]
        {
            let normalizer = pre_tokenizer(name).unwrap().1;
            assert_eq!(matches!(normalizer, Some(NormalizerWrapper::NFC(_))), composes, "{name}");
        }
        for name in ["tiny_aya", "exaone4", "kimi-k2", ""] {
            assert!(matches!(pre_tokenizer(name), Err(Error::PreTokenizer(_))), "{name}");
        }
    }
}
