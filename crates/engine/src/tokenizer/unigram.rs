//! The pipeline of XLM-R over a Unigram vocabulary: SentencePiece's `nmt_nfkc`, and words between white
//! space. It opens no files.

use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, Result, Tokenizer,
    models::unigram::Unigram as Model,
    normalizers::{NFKC, Nmt, Replace, Sequence},
};
use tribunal_model::weights::Unigram;

use super::class;

/// Characters that stay as they are, with stand-ins that no text has.
const UNCHANGED: [(&str, &str); 2] = [("\u{ff5e}", "\u{fdd0}"), ("\u{1f23b}", "\u{fdd1}")];

/// The pipeline of a vocabulary.
///
/// # Errors
/// A vocabulary that replaces characters otherwise than `nmt_nfkc`.
pub(super) fn pipeline(vocabulary: &Unigram) -> Result<Tokenizer> {
    let normalizer = normalizer()?;
    for (from, to) in &vocabulary.replaced {
        let mut made = NormalizedString::from(from.to_string());
        normalizer.normalize(&mut made)?;
        if made.get() != to {
            let code = u32::from(*from);
            return Err(format!("it replaces U+{code:04X} by `{to}`, which is not supported").into());
        }
    }
    let model = Model::from(vocabulary.pieces.clone(), Some(vocabulary.unknown as usize), false)?;
    let mut pipeline = Tokenizer::new(model);
    class::xlm_roberta(&mut pipeline, Some(normalizer), class::Words::Marked)?;
    Ok(pipeline)
}

fn normalizer() -> Result<NormalizerWrapper> {
    let replace = |from: &str, to: &str| Replace::new(from.to_owned(), to.to_owned()).map(Into::into);
    let before = UNCHANGED.map(|(letter, stand_in)| replace(letter, stand_in));
    let behind = UNCHANGED.map(|(letter, stand_in)| replace(stand_in, letter));
    let forms: [NormalizerWrapper; 2] = [Nmt.into(), NFKC.into()];
    let steps = before.into_iter().chain(forms.map(Ok)).chain(behind);
    Ok(Sequence::new(steps.collect::<Result<Vec<_>>>()?).into())
}
