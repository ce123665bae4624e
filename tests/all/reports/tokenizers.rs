//! Tokenizers that look at a piece's place in the text.
