//! A tokenizer from `tokenizer.json` and `tokenizer_config.json`. It opens no files.

use serde_json::Value;
use tokenizers::{AddedToken, DecoderWrapper, Tokenizer};

use super::{Error, MAX_IDS, Parts, acts_as_control, normalizer, pieces};

/// How the vocabulary's pieces stand for bytes.
#[derive(Clone, Copy, PartialEq)]
enum PieceKind {
    ByteLevel,
    SentencePiece,
}

pub(super) fn parts(json: &[u8], config: Option<&[u8]>, template: Option<&str>) -> Result<Parts, Error> {
    normalizer::check(json)?;
    let mut data = Tokenizer::from_bytes(json).map_err(|e| Error::Json(e.to_string()))?;
    let config: Value = match config {
        Some(text) => serde_json::from_slice(text).map_err(|e| Error::Config(e.to_string()))?,
        None => Value::Null,
    };
    let template = template.or_else(|| config["chat_template"].as_str());
    let kind = piece_kind(&data)?;
    let bytes = token_bytes(&data, kind)?;
    let control = silence_control(&mut data, template)?;
    let id_of = |name: Option<&str>| name.and_then(|name| data.token_to_id(name));
    let bos = id_of(token_name(&config, "bos_token")).or_else(|| leading_token(&data));
    let ends = id_of(token_name(&config, "eos_token")).into_iter().collect();
    let add_bos = match config["add_bos_token"].as_bool() {
        Some(add) => add,
        None => bos.is_some() && leading_token(&data) == bos,
    };
    Ok(Parts { data, bytes, control, bos, ends, add_bos })
}

fn piece_kind(data: &Tokenizer) -> Result<PieceKind, Error> {
    fn find(decoder: &DecoderWrapper) -> Option<PieceKind> {
        match decoder {
            DecoderWrapper::ByteLevel(_) => Some(PieceKind::ByteLevel),
            DecoderWrapper::ByteFallback(_) | DecoderWrapper::Metaspace(_) => Some(PieceKind::SentencePiece),
            DecoderWrapper::Sequence(list) => list.get_decoders().iter().find_map(find),
            _ => None,
        }
    }
    data.get_decoder().and_then(find).ok_or_else(|| {
        Error::Json(
            "its decoder is neither byte-level nor SentencePiece's, so tokens have no known bytes".into(),
        )
    })
}

fn token_bytes(data: &Tokenizer, kind: PieceKind) -> Result<Vec<Box<[u8]>>, Error> {
    let alphabet = pieces::byte_level_alphabet();
    let vocabulary = data.get_vocab(true);
    let size = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    if size > MAX_IDS {
        return Err(Error::Json(format!("its largest id is {}; at most {MAX_IDS} are expected", size - 1)));
    }
    let mut bytes: Vec<Box<[u8]>> = vec![Box::default(); size];
    for (piece, id) in &vocabulary {
        bytes[*id as usize] = match kind {
            PieceKind::ByteLevel => pieces::byte_level_bytes(piece, &alphabet),
            PieceKind::SentencePiece => pieces::sentencepiece_bytes(piece),
        };
    }
    for (id, token) in data.get_added_tokens_decoder() {
        bytes[id as usize] = match kind {
            PieceKind::SentencePiece => pieces::sentencepiece_bytes(&token.content),
            PieceKind::ByteLevel => token.content.into_bytes().into(),
        };
    }
    Ok(bytes)
}

/// Takes every control token's effect away and returns their ids in ascending order.
fn silence_control(data: &mut Tokenizer, template: Option<&str>) -> Result<Vec<u32>, Error> {
    let mut control: Vec<(u32, AddedToken)> = data
        .get_added_tokens_decoder()
        .into_iter()
        .filter(|(_, token)| acts_as_control(&token.content, token.special, template))
        .collect();
    control.sort_by_key(|(id, _)| *id);
    if let Some((_, token)) = control.iter().find(|(_, t)| t.lstrip || t.rstrip || t.single_word) {
        return Err(Error::Json(format!(
            "the control token `{}` swallows the text around it (lstrip, rstrip or single_word), \
             which is not supported",
            token.content
        )));
    }
    let unmarked = control.iter().filter(|(_, t)| !t.special).map(|(_, t)| t.clone().special(true));
    data.add_special_tokens(unmarked).map_err(|e| Error::Json(e.to_string()))?;
    data.set_encode_special_tokens(true);
    data.with_truncation(None).map_err(|e| Error::Json(e.to_string()))?;
    data.with_padding(None);
    Ok(control.into_iter().map(|(id, _)| id).collect())
}

/// The token that the post-processor puts before an empty text.
fn leading_token(data: &Tokenizer) -> Option<u32> {
    data.encode_fast("", true).ok()?.get_ids().first().copied()
}

/// `"bos_token": "<s>"` or `"bos_token": {"content": "<s>", ...}`.
fn token_name<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    config[key].as_str().or_else(|| config[key]["content"].as_str())
}
