//! The tokenizer for llguidance: a trie of token bytes, and canonical tokens for forced bytes.

use std::sync::Arc;

use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::llm::{Error, Result};
use crate::panics;
use crate::tokenizer::Tokenizer;

/// The longest word that the trie holds for certain: a node stores in ten bits how many levels end at it.
const MAX_WORD_BYTES: usize = 1024;

struct Environment {
    trie: TokTrie,
    tokenizer: Arc<Tokenizer>,
}

pub(super) fn environment(tokenizer: Arc<Tokenizer>) -> Result<TokEnv> {
    let Some(&end) = tokenizer.stops().first() else {
        return Err(Error::Engine(
            "the model names no stop token, so no form can end; hint: name one in the model's card".into(),
        ));
    };
    let size = tokenizer.vocab_size() as u32;
    let words: Vec<Vec<u8>> = (0..size).map(|id| word(&tokenizer, id)).collect();
    // It counts its nodes in 22 bits.
    let trie = panics::caught(|| TokTrie::from(&TokRxInfo::new(size, end), &words)).ok_or_else(|| {
        Error::Engine("the tokenizer's vocabulary is too large for constrained answers".into())
    })?;
    Ok(Arc::new(Environment { trie: trie.with_eos_tokens(tokenizer.stops()), tokenizer }))
}

/// A token's bytes; a control token's name is marked, so that no text can stand for it. Empty for a token
/// that is too long for the trie: constrained answers spell its text with shorter ones.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let marker: &[u8] = if tokenizer.is_control(id) { &[TokTrie::SPECIAL_TOKEN_MARKER] } else { &[] };
    let word = [marker, tokenizer.bytes(id)].concat();
    if word.len() > MAX_WORD_BYTES { Vec::new() } else { word }
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// The model's own tokens where they stand for exactly these bytes. Elsewhere (part of a character, a
    /// text that the tokenizer normalizes or puts a space before), the longest tokens that fit.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encoded =
            std::str::from_utf8(bytes).ok().and_then(|text| self.tokenizer.encode_continuation(text).ok());
        let exact = encoded.filter(|ids| ids.iter().flat_map(|&id| self.trie.token(id)).eq(bytes));
        exact.unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Vocabulary;
    use crate::llm::ResponseFormat;
    use crate::tokenizer::{GgufVocab, tests::tiny_vocab};

    /// The tiny tokenizer with further tokens: their texts and GGUF types.
    fn tokenizer(tokens: impl IntoIterator<Item = (String, i32)>) -> Arc<Tokenizer> {
        let mut vocab: GgufVocab = tiny_vocab();
        for (text, kind) in tokens {
            vocab.tokens.push(text);
            vocab.token_types.push(kind);
        }
        Arc::new(Tokenizer::from_gguf(&vocab, None).unwrap())
    }

    #[test]
    fn a_token_too_long_for_the_trie_is_spelled_with_others() {
        let run = "a".repeat(1025);
        let tokenizer = tokenizer([(run.clone(), 4), (format!("<|{}|>", "x".repeat(1020)), 3)]);
        assert_eq!(tokenizer.encode_data(&run).unwrap().len(), 1);
        let vocabulary = Vocabulary::new(&tokenizer, 0).unwrap();
        let mut grammar = vocabulary.grammar(&ResponseFormat::Choice(vec![run.clone()])).unwrap().unwrap();
        let forced = grammar.fast_forward(2000).unwrap();
        assert_eq!(tokenizer.decode(&forced), run);
        assert!(grammar.must_stop());
    }

    #[test]
    fn a_vocabulary_with_too_many_prefixes_is_refused() {
        let tokens = (0..4200).map(|i| (format!("{i:04}{}", "a".repeat(1016)), 1));
        let said = Vocabulary::new(&tokenizer(tokens), 0).err().map(|error| error.to_string());
        assert!(said.is_some_and(|said| said.contains("too large for constrained answers")));
    }
}
