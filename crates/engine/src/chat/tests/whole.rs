//! A thousand chats as transformers encodes them whole (`tests/golden/chats.json`, by
//! `scripts/golden_chats.py`): those of ten published tokenizers, read from `$TRIBUNAL_TOKENIZERS`, and of
//! ten seeded ones whose steps depend on a piece's position.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use tribunal_core::digest;

use super::*;
use crate::llm::MessageRole;
use crate::tokenizer::Files;

#[derive(Deserialize)]
struct Golden {
    fragments: Vec<String>,
    tokenizers: BTreeMap<String, Encoded>,
}

#[derive(Deserialize)]
struct Encoded {
    template: Option<String>,
    json: Option<String>,
    config: Option<String>,
    chats: Vec<(Vec<Vec<Part>>, usize, String)>,
}

/// A turn is its role's first letter and the numbers of its fragments.
#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Role(String),
    Fragment(usize),
}

impl Golden {
    fn chat(&self, turns: &[Vec<Part>]) -> Chat {
        let turn = |parts: &Vec<Part>| {
            let role = match &parts[0] {
                Part::Role(role) if role == "s" => MessageRole::System,
                Part::Role(role) if role == "u" => MessageRole::User,
                _ => MessageRole::Assistant,
            };
            let content = parts.iter().filter_map(|part| match part {
                Part::Fragment(at) => Some(self.fragments[*at].as_str()),
                Part::Role(_) => None,
            });
            Message { role, content: content.collect() }
        };
        Chat::from_messages(turns.iter().map(turn).collect())
    }
}

/// The first 16 digits of a SHA-256 over ids of 32 bits, little endian.
fn hash(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    digest::sha256(bytes)[..16].to_owned()
}

/// The two files of a tokenizer; `None` for a published one that is not on this machine.
fn files(name: &str, encoded: &Encoded) -> Option<(String, String)> {
    if let (Some(json), Some(config)) = (&encoded.json, &encoded.config) {
        return Some((json.clone(), config.clone()));
    }
    let folder = std::env::var_os("TRIBUNAL_TOKENIZERS").map(|dir| PathBuf::from(dir).join(name));
    let read = |file: &str| std::fs::read_to_string(folder.as_ref()?.join(file)).ok();
    let files = read("tokenizer.json").zip(read("tokenizer_config.json"));
    if files.is_none() {
        not_checked(&format!("there is no `{name}` in `$TRIBUNAL_TOKENIZERS`"));
    }
    files
}

#[test]
fn a_thousand_chats_have_the_ids_of_the_whole_text() {
    let text = include_str!("../../../../../tests/golden/chats.json");
    let golden: Golden = serde_json::from_str(text).unwrap();
    let (mut n_chats, mut wrong) = (0, Vec::new());
    for (name, encoded) in &golden.tokenizers {
        n_chats += encoded.chats.len();
        let Some((json, config)) = files(name, encoded) else { continue };
        let settings: serde_json::Value = serde_json::from_str(&config).unwrap();
        let source = encoded.template.as_deref().or_else(|| settings["chat_template"].as_str()).unwrap();
        let files = Files { json: json.as_bytes(), config: Some(config.as_bytes()), ..Files::default() };
        let tokenizer = Tokenizer::from_files(files, Some(source)).unwrap();
        let template = ChatTemplate::new(source, &tokenizer).unwrap();
        for (turns, n_ids, digits) in &encoded.chats {
            let chat = golden.chat(turns);
            let ids = encode(&chat, Some(&template), &tokenizer).unwrap();
            if (ids.len(), &hash(&ids)) != (*n_ids, digits) {
                let text = template.render(&chat).unwrap();
                wrong
                    .push(format!("{name}: {n_ids} ids expected for {text:?}\n  {} ids: {ids:?}", ids.len()));
            }
        }
    }
    assert_eq!(n_chats, 1000);
    let first: Vec<&String> = wrong.iter().take(3).collect();
    assert!(wrong.is_empty(), "{} of {n_chats} chats differ: {first:#?}", wrong.len());
}
