//! Words of any language for the index, split at ICU's word boundaries, which work for Chinese, Japanese and
//! other scripts without spaces. There is no stemming, and no word is dropped.

use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed, options::WordBreakInvariantOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// The name of [`Words`] in an index.
pub const WORDS: &str = "words";

/// Words in lower case. A word of several Chinese characters is followed by those characters at the same
/// position, because new slang is in no dictionary and can only be found by its characters.
#[derive(Clone)]
pub struct Words {
    segmenter: WordSegmenterBorrowed<'static>,
}

/// The words of one text.
pub struct WordStream {
    tokens: Vec<Token>,
    /// Index of the next token; the current one is just before it.
    next: usize,
}

impl Words {
    pub fn new() -> Self {
        Self { segmenter: WordSegmenter::new_auto(WordBreakInvariantOptions::default()) }
    }

    fn split(&self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        let (mut start, mut position) = (0, 0);
        for (end, kind) in self.segmenter.segment_str(text).iter_with_word_type() {
            let word = &text[start..end];
            if kind.is_word_like() {
                tokens.push(token(word, start, position));
                if word.chars().all(is_han) && word.chars().nth(1).is_some() {
                    let character =
                        |(at, c): (usize, char)| token(c.encode_utf8(&mut [0; 4]), start + at, position);
                    tokens.extend(word.char_indices().map(character));
                }
                position += 1;
            }
            start = end;
        }
        tokens
    }
}

impl Default for Words {
    fn default() -> Self {
        Self::new()
    }
}

/// The words of a text, as in the index.
pub fn split(text: &str) -> Vec<Token> {
    Words::new().split(text)
}

fn token(word: &str, start: usize, position: usize) -> Token {
    Token {
        offset_from: start,
        offset_to: start + word.len(),
        position,
        text: word.to_lowercase(),
        position_length: 1,
    }
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream {
        WordStream { tokens: self.split(text), next: 0 }
    }
}

impl TokenStream for WordStream {
    fn advance(&mut self) -> bool {
        let has_more = self.next < self.tokens.len();
        self.next += usize::from(has_more);
        has_more
    }

    fn token(&self) -> &Token {
        &self.tokens[self.next - 1]
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.tokens[self.next - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_several_scripts() {
        let check = |text: &str, expected: &[&str]| {
            let words: Vec<String> = split(text).into_iter().map(|t| t.text).collect();
            assert_eq!(words, expected, "{text}");
        };
        check("So savage. That's BRUTAL!", &["so", "savage", "that's", "brutal"]);
        check("老师群号", &["老师", "老", "师", "群", "号"]);
        check("夺笋啊", &["夺", "笋", "啊"]);
        check("東京タワーに行く", &["東京", "東", "京", "タワー", "に", "行く"]);
        check("ÜBER 3.14 — e-mail", &["über", "3.14", "e", "mail"]);
        check(" \n", &[]);
    }

    #[test]
    fn offsets_are_bytes_of_the_text() {
        let text = "看 the 老师";
        for token in split(text) {
            assert_eq!(text[token.offset_from..token.offset_to].to_lowercase(), token.text);
        }
        let positions: Vec<usize> = split(text).iter().map(|t| t.position).collect();
        assert_eq!(positions, [0, 1, 2, 2, 2]);
    }
}
