//! A tokenizer from `tokenizer.json` and `tokenizer_config.json`. It opens no files.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use tokenizers::{AddedToken, DecoderWrapper, Tokenizer};

use super::{
    Error, MAX_IDS, Parts, Result, acts_as_control, added::Added, anchors, class, is_bracketed, normalizer,
    pieces,
};

/// The roles of tokens that chat templates read.
///
/// Source: `SPECIAL_TOKENS_ATTRIBUTES` of transformers 5.24.
const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The encoding of bytes in the vocabulary's pieces.
#[derive(Clone, Copy, PartialEq)]
enum PieceKind {
    ByteLevel,
    SentencePiece,
    /// Of encoders: no text is made of it.
    WordPiece,
}

/// The texts of a model's folder that define its tokenizer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'f> {
    /// `tokenizer.json`.
    pub json: &'f [u8],
    /// `tokenizer_config.json`.
    pub config: Option<&'f [u8]>,
    /// `model_type` of `config.json`.
    pub model_type: Option<&'f str>,
}

pub(super) fn parts(files: Files<'_>, template: Option<&str>) -> Result<Parts> {
    let json = without_mark(files.json);
    normalizer::check(json)?;
    let mut pipeline = Tokenizer::from_bytes(json).map_err(|e| Error::Json(e.to_string()))?;
    let config: Value = match files.config.map(without_mark) {
        Some(text) => serde_json::from_slice(text).map_err(|e| Error::Config(e.to_string()))?,
        None => Value::Null,
    };
    let template = template.or_else(|| config["chat_template"].as_str());
    class::rebuild(&mut pipeline, &config, files.model_type)?;
    anchors::at_lines(&mut pipeline)?;
    let roles = roles(&config);
    let special = special_names(&pipeline, &config);
    add_tokens(&mut pipeline, &config, &roles)?;
    pipeline.with_truncation(None).map_err(|e| Error::Json(e.to_string()))?;
    pipeline.with_padding(None);
    let added = added(&pipeline, &special, template);
    let bytes = token_bytes(&pipeline, piece_kind(&pipeline)?, &added)?;
    let id_of = |role: &str| roles.get(role).and_then(|name| pipeline.token_to_id(name));
    let bos = id_of("bos_token").or_else(|| leading_token(&pipeline));
    let ends = id_of("eos_token").into_iter().collect();
    let add_bos = match config["add_bos_token"].as_bool() {
        Some(add) => add,
        None => bos.is_some() && leading_token(&pipeline) == bos,
    };
    Ok(Parts { pipeline, bytes, added, bos, ends, add_bos, roles })
}

/// A text without the byte order mark in front of it.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

fn piece_kind(pipeline: &Tokenizer) -> Result<PieceKind> {
    fn find(decoder: &DecoderWrapper) -> Option<PieceKind> {
        match decoder {
            DecoderWrapper::ByteLevel(_) => Some(PieceKind::ByteLevel),
            DecoderWrapper::WordPiece(_) => Some(PieceKind::WordPiece),
            DecoderWrapper::ByteFallback(_) | DecoderWrapper::Metaspace(_) => Some(PieceKind::SentencePiece),
            DecoderWrapper::Sequence(list) => list.get_decoders().iter().find_map(find),
            _ => None,
        }
    }
    pipeline.get_decoder().and_then(find).ok_or_else(|| {
        Error::Json(
            "its decoder is neither byte-level nor SentencePiece's, so tokens have no known bytes".into(),
        )
    })
}

fn token_bytes(pipeline: &Tokenizer, kind: PieceKind, added: &[Added]) -> Result<Vec<Box<[u8]>>> {
    let alphabet = pieces::byte_level_alphabet();
    let vocabulary = pipeline.get_vocab(true);
    let size = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    if size > MAX_IDS {
        return Err(Error::Json(format!("its largest id is {}; at most {MAX_IDS} are expected", size - 1)));
    }
    let mut bytes: Vec<Box<[u8]>> = vec![Box::default(); size];
    for (piece, id) in &vocabulary {
        bytes[*id as usize] = match kind {
            PieceKind::ByteLevel => pieces::byte_level_bytes(piece, &alphabet),
            PieceKind::SentencePiece => pieces::sentencepiece_bytes(piece),
            PieceKind::WordPiece => piece.strip_prefix("##").unwrap_or(piece).as_bytes().into(),
        };
    }
    for Added { id, token, is_control } in added {
        bytes[*id as usize] = match kind {
            PieceKind::SentencePiece if !is_control => pieces::sentencepiece_bytes(&token.content),
            _ => token.content.as_bytes().into(),
        };
    }
    Ok(bytes)
}

/// The texts of the tokens that have a role, by the settings.
fn roles(config: &Value) -> BTreeMap<String, String> {
    let default = class::defaults(config).iter();
    let mut roles: BTreeMap<String, String> =
        default.map(|(role, name)| ((*role).to_owned(), (*name).to_owned())).collect();
    for role in ROLES {
        // `null` removes a default.
        match config.get(role) {
            Some(Value::Null) => drop(roles.remove(role)),
            Some(token) => roles.extend(name_of(token).map(|name| (role.to_owned(), name.to_owned()))),
            None => {}
        }
    }
    // Further names, such as `image_token`: by their key or in a map of `extra_special_tokens`. A list names
    // none.
    let further = |(role, _): &(&String, _)| role.ends_with("_token") && !ROLES.contains(&role.as_str());
    let keys = config.as_object().into_iter().flatten().filter(further);
    for (role, token) in keys.chain(config["extra_special_tokens"].as_object().into_iter().flatten()) {
        let name = name_of(token).filter(|_| token.is_string() || token["__type"] == "AddedToken");
        roles.extend(name.map(|name| (role.clone(), name.to_owned())));
    }
    roles
}

/// Adds the added tokens of the settings, which override `tokenizer.json`: those in `added_tokens_decoder`,
/// by id, then tokens of the vocabulary that have a role and are not yet added.
fn add_tokens(pipeline: &mut Tokenizer, config: &Value, roles: &BTreeMap<String, String>) -> Result<()> {
    let listed = config["added_tokens_decoder"].as_object().into_iter().flatten();
    let mut listed: Vec<(u32, AddedToken)> =
        listed.filter_map(|(id, token)| Some((id.parse().ok()?, added_token(token, roles)?))).collect();
    listed.sort_by_key(|(id, _)| *id);
    let mut tokens: Vec<AddedToken> = listed.into_iter().map(|(_, token)| token).collect();
    let known = pipeline.get_added_tokens_decoder();
    for name in roles.values().map(String::as_str).chain(extra_tokens(config).filter_map(name_of)) {
        let is_added = tokens.iter().chain(known.values()).any(|token| token.content == name);
        if !is_added && pipeline.token_to_id(name).is_some() {
            tokens.push(AddedToken::from(name, true));
        }
    }
    pipeline.add_tokens(tokens).map_err(|e| Error::Json(e.to_string()))?;
    Ok(())
}

/// An entry of `added_tokens_decoder`.
fn added_token(token: &Value, roles: &BTreeMap<String, String>) -> Option<AddedToken> {
    let flag = |key: &str| token[key].as_bool();
    let (content, special) = (token["content"].as_str()?, flag("special").unwrap_or(false));
    let has_role = || roles.values().any(|name| name == content);
    Some(AddedToken {
        content: content.to_owned(),
        single_word: flag("single_word").unwrap_or(false),
        lstrip: flag("lstrip").unwrap_or(false),
        rstrip: flag("rstrip").unwrap_or(false),
        normalized: flag("normalized").unwrap_or(!special),
        special: special || has_role(),
    })
}

/// The names that either file lists as special, which no setting makes plain again. A token that has only a
/// role is not among them: it may be an ordinary piece (`"pad_token": "!"`).
fn special_names(pipeline: &Tokenizer, config: &Value) -> HashSet<String> {
    let in_file = pipeline.get_added_tokens_decoder().into_values();
    let in_file = in_file.filter(|token| token.special).map(|token| token.content);
    let listed = config["added_tokens_decoder"].as_object().into_iter().flat_map(|tokens| tokens.values());
    let listed = listed.filter(|token| token["special"] == true);
    in_file.chain(listed.chain(extra_tokens(config)).filter_map(name_of).map(str::to_owned)).collect()
}

/// The entries of the settings' further special tokens.
fn extra_tokens(config: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["additional_special_tokens", "extra_special_tokens"];
    lists.into_iter().flat_map(|key| config[key].as_array().into_iter().flatten())
}

/// All added tokens, by id.
fn added(pipeline: &Tokenizer, special: &HashSet<String>, template: Option<&str>) -> Vec<Added> {
    let one = |(id, token): (u32, AddedToken)| {
        let (name, is_special) = (&token.content, special.contains(&token.content));
        let is_control = acts_as_control(name, is_special, template) || (token.special && is_bracketed(name));
        Added { id, token, is_control }
    };
    let mut added: Vec<Added> = pipeline.get_added_tokens_decoder().into_iter().map(one).collect();
    added.sort_by_key(|added| added.id);
    added
}

/// The token that the post-processor puts before an empty text.
fn leading_token(pipeline: &Tokenizer) -> Option<u32> {
    pipeline.encode_fast("", true).ok()?.get_ids().first().copied()
}

/// `"bos_token": "<s>"` or `"bos_token": {"content": "<s>", ...}`.
fn name_of(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token["content"].as_str())
}
