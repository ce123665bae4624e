//! The tokenizer for llguidance: a trie of token bytes, and canonical tokens for forced bytes.

use std::sync::Arc;

use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::engine::tokenizer::Tokenizer;
use crate::llm::Error;

struct Environment {
    trie: TokTrie,
    tokenizer: Arc<Tokenizer>,
}

pub(super) fn environment(tokenizer: Arc<Tokenizer>) -> Result<TokEnv, Error> {
    let Some(&end) = tokenizer.stops().first() else {
        return Err(Error::Engine(
            "the model names no stop token, so no form can end; hint: name one in the model's card".into(),
        ));
    };
    let size = tokenizer.vocab_size() as u32;
    let words: Vec<Vec<u8>> = (0..size).map(|id| word(&tokenizer, id)).collect();
    let trie = TokTrie::from(&TokRxInfo::new(size, end), &words).with_eos_tokens(tokenizer.stops());
    Ok(Arc::new(Environment { trie, tokenizer }))
}

/// A token's bytes; a control token's name is marked, so that no text can stand for it.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = tokenizer.bytes(id);
    if tokenizer.is_control(id) {
        return [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat();
    }
    bytes.to_vec()
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// The model's own tokens where they stand for exactly these bytes. Where they do not (part of a
    /// character, a text that the tokenizer normalizes or puts a space before), the longest tokens that fit.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let own =
            std::str::from_utf8(bytes).ok().and_then(|text| self.tokenizer.encode_continuation(text).ok());
        let exact = own.filter(|ids| ids.iter().flat_map(|&id| self.tokenizer.bytes(id)).eq(bytes));
        exact.unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }
}
