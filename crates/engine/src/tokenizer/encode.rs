//! A text as ids: the steps of Hugging Face's pipeline over the whole text, in which control tokens count
//! only where they are not data. Steps that depend on a piece's position (SentencePiece's mark at the
//! beginning, white space beside an added token) therefore use its position in the whole text.

use std::ops::Range;

use tokenizers::{
    Encoding, Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, Token,
    tokenizer::normalizer::Range as Of,
};

use crate::panics;

use super::{
    Error, Result, Tokenizer,
    added::{Added, Control, Matcher},
};

/// A text's position in the model's input.
#[derive(Clone, Copy)]
enum Place {
    /// It is the whole text.
    Beginning,
    /// It continues with a text.
    Inside,
}

/// A stand-in for the text before a continuation; it has one byte and no ids.
const BEFORE: &str = "\n";

type Cut = (NormalizedString, Option<Vec<Token>>);

impl Tokenizer {
    /// Ids of a text that is data: a control token's name in it is plain text.
    ///
    /// # Errors
    /// [`Error::Encode`] when the pipeline itself fails.
    pub fn encode_data(&self, text: &str) -> Result<Vec<u32>> {
        self.encode(text, Control::Nowhere, Place::Beginning)
    }

    /// Ids of data that continue a prompt, without the marks of a text's beginning.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_data`].
    pub fn encode_continuation(&self, text: &str) -> Result<Vec<u32>> {
        self.encode(text, Control::Nowhere, Place::Inside)
    }

    /// Ids of a text in which control tokens act, as Hugging Face encodes a rendered chat template
    /// (no beginning-of-sequence token is added).
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_data`].
    pub fn encode_template(&self, text: &str) -> Result<Vec<u32>> {
        self.encode(text, Control::Everywhere, Place::Beginning)
    }

    /// Ids of a rendered chat: control tokens act where none of `breaks` lies within their names.
    ///
    /// Unit: bytes, ascending.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_data`].
    pub fn encode_rendered(&self, text: &str, breaks: &[usize]) -> Result<Vec<u32>> {
        self.encode(text, Control::Unbroken(breaks), Place::Beginning)
    }

    /// Ids of a whole raw prompt: control tokens act, and the beginning-of-sequence token is put in front
    /// where the model expects one and the text does not start with it.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_data`].
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.encode_template(text)?;
        if let Some(bos) = self.added_bos()
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Ids of a whole prompt in which no control token acts, behind the beginning-of-sequence token where the
    /// model expects one.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_data`].
    pub fn encode_inert(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.added_bos().into_iter().chain(self.encode_data(text)?).collect())
    }

    /// Ids of a text that is data, each with the bytes of the text that it stands for.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_data`].
    pub fn encode_spans(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>> {
        let _share = self.budget.share(text.len());
        let encoding = caught(|| self.run(text, text.into(), Control::Nowhere, OffsetType::Byte))?;
        let spans = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(spans).collect())
    }

    fn encode(&self, text: &str, control: Control<'_>, place: Place) -> Result<Vec<u32>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let _share = self.budget.share(text.len());
        let encode = || match place {
            Place::Beginning => self.run(text, text.into(), control, OffsetType::None),
            Place::Inside => {
                let marked = format!("{BEFORE}{text}");
                let mut pieces = PreTokenizedString::from(marked.as_str());
                pieces
                    .split(|_, piece| Ok(cut(&piece, [(Some(Vec::new()), 0..1), (None, 1..marked.len())])))?;
                self.run(&marked, pieces, control, OffsetType::None)
            }
        };
        Ok(caught(encode)?.get_ids().to_vec())
    }

    /// The pipeline: added tokens in the original text, the normalizer, normalized added tokens, the
    /// pre-tokenizer, the model.
    fn run(
        &self,
        text: &str,
        mut pieces: PreTokenizedString,
        control: Control<'_>,
        offsets: OffsetType,
    ) -> tokenizers::Result<Encoding> {
        pieces.split(|_, piece| Ok(Self::at_added(text, &piece, &self.added.plain, control)))?;
        let normalizer = self.pipeline.get_normalizer();
        pieces.split(|_, mut piece| {
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut piece)?;
            }
            Ok(Self::at_added(text, &piece, &self.added.normalized, control))
        })?;
        if let Some(pre_tokenizer) = self.pipeline.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| self.tokens(text, piece, control))?;
        pieces.into_encoding(None, 0, offsets)
    }

    /// Cuts a piece of the text at the added tokens in it.
    fn at_added(text: &str, piece: &NormalizedString, matcher: &Matcher, control: Control<'_>) -> Vec<Cut> {
        let counts = |added: &Added, at: &Range<usize>| {
            control.counts_in(text, original(piece, at.clone()), &added.token.content)
        };
        let parts = matcher.split(piece.get(), counts);
        cut(piece, parts.into_iter().map(|(id, at)| (id.map(|id| vec![id]), at)))
    }

    /// The model's tokens of a piece. Where merges would form a control token's name in data, these are the
    /// tokens of its characters: single characters cannot.
    fn tokens(
        &self,
        text: &str,
        piece: &NormalizedString,
        control: Control<'_>,
    ) -> tokenizers::Result<Vec<Token>> {
        let model = self.pipeline.get_model();
        let tokens = model.tokenize(piece.get())?;
        let acts = |token: &Token| {
            let at = token.offsets.0..token.offsets.1;
            let name = self.control_names[&token.id].as_str();
            let is_unknown = self.unknown == Some(token.id) && piece.get().get(at.clone()) != Some(name);
            is_unknown || control.counts_in(text, original(piece, at), name)
        };
        if tokens.iter().all(|token| !self.is_control(token.id) || acts(token)) {
            return Ok(tokens);
        }
        let mut split = Vec::with_capacity(tokens.len());
        for token in tokens {
            if !self.is_control(token.id) || acts(&token) {
                split.push(token);
                continue;
            }
            let merged = piece.get().get(token.offsets.0..token.offsets.1).unwrap_or_default();
            for (at, c) in merged.char_indices() {
                let from = token.offsets.0 + at;
                let letters = model.tokenize(&merged[at..at + c.len_utf8()])?.into_iter();
                split.extend(letters.map(|Token { id, value, offsets: (start, end) }| {
                    Token::new(id, value, (from + start, from + end))
                }));
            }
        }
        Ok(split)
    }
}

/// Runs a pipeline. A damaged normalizer may panic only for some texts.
fn caught(encode: impl FnOnce() -> tokenizers::Result<Encoding>) -> Result<Encoding> {
    let encoding = panics::caught(encode)
        .ok_or_else(|| Error::Encode("its pipeline panics on this text, so it is damaged".into()))?;
    encoding.map_err(|e| Error::Encode(e.to_string()))
}

/// The parts of a piece, each left to the next step or with its ids.
fn cut(
    piece: &NormalizedString,
    parts: impl IntoIterator<Item = (Option<Vec<u32>>, Range<usize>)>,
) -> Vec<Cut> {
    let part = |(ids, at): (Option<Vec<u32>>, Range<usize>)| {
        let slice = piece.slice(Of::Normalized(at))?;
        let len = slice.get().len();
        let token = |id| Token::new(id, String::new(), (0, len));
        let tokens = ids.map(|ids| ids.into_iter().map(token).collect());
        Some((slice, tokens))
    };
    parts.into_iter().filter_map(part).collect()
}

/// The range of the whole text that a range of a piece comes from.
fn original(piece: &NormalizedString, at: Range<usize>) -> Option<Range<usize>> {
    let shift = piece.offsets_original().0;
    let range = piece.convert_offsets(Of::Normalized(at))?;
    Some(shift + range.start..shift + range.end)
}

/// The id that a model gives to unknown text.
pub(super) fn unknown(pipeline: &tokenizers::Tokenizer) -> Option<u32> {
    // The last character of the last plane for private use is in no vocabulary.
    let text = "\u{10FFFD}";
    let model = pipeline.get_model();
    match &model.tokenize(text).ok()?[..] {
        [token] if model.id_to_token(token.id).as_deref() != Some(text) => Some(token.id),
        _ => None,
    }
}
