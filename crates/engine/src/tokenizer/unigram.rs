//! A tokenizer from a Unigram vocabulary, with the pipeline of XLM-R. It opens no files.

use std::collections::BTreeMap;

use tokenizers::{
    AddedToken, NormalizedString, Normalizer, NormalizerWrapper, Tokenizer,
    models::unigram::Unigram as Model,
    normalizers::{NFKC, Nmt, Replace, Sequence},
};
use tribunal_model::weights::Unigram;

use super::{Error, Parts, added::Added, class, pieces};

/// Characters that stay as they are, with stand-ins that no text has.
const KEPT: [(&str, &str); 2] = [("\u{ff5e}", "\u{fdd0}"), ("\u{1f23b}", "\u{fdd1}")];

/// XLM-R's own control tokens; those of a file's settings are others.
const MASK: &str = "<mask>";

pub(super) fn parts(vocabulary: Unigram) -> Result<Parts, Error> {
    let broken = |error: &dyn std::fmt::Display| Error::Vocabulary(error.to_string());
    let Unigram { pieces, begin, end, padding, unknown, replaced } = vocabulary;
    let normalizer = normalizer().map_err(|e| broken(&e))?;
    check(&normalizer, &replaced)?;
    let text = |id: u32| pieces[id as usize].0.clone();
    let roles =
        [("bos", begin), ("cls", begin), ("eos", end), ("sep", end), ("pad", padding), ("unk", unknown)];
    let roles: BTreeMap<String, String> =
        roles.map(|(role, id)| (format!("{role}_token"), text(id))).into_iter().collect();
    let mut control = vec![begin, end, padding, unknown];
    control.extend(pieces.iter().position(|(piece, _)| piece == MASK).map(|id| id as u32));
    let added = |id: u32| Added { id, token: AddedToken::from(text(id), true), is_control: true };
    let added: Vec<Added> = control.into_iter().map(added).collect();
    let mut bytes: Vec<Box<[u8]>> =
        pieces.iter().map(|(piece, _)| pieces::sentencepiece_bytes(piece)).collect();
    for Added { id, token, .. } in &added {
        bytes[*id as usize] = token.content.as_bytes().into();
    }
    let model = Model::from(pieces, Some(unknown as usize), false).map_err(|e| broken(&e))?;
    let mut pipeline = Tokenizer::new(model);
    class::xlm_roberta(&mut pipeline, Some(normalizer), true)?;
    Ok(Parts { pipeline, bytes, added, bos: Some(begin), ends: vec![end], add_bos: true, roles })
}

/// SentencePiece's `nmt_nfkc`.
fn normalizer() -> tokenizers::Result<NormalizerWrapper> {
    let replace = |from: &str, to: &str| Replace::new(from.to_owned(), to.to_owned()).map(Into::into);
    let before = KEPT.map(|(kept, stand_in)| replace(kept, stand_in));
    let behind = KEPT.map(|(kept, stand_in)| replace(stand_in, kept));
    let forms: [NormalizerWrapper; 2] = [Nmt.into(), NFKC.into()];
    let steps = before.into_iter().chain(forms.map(Ok)).chain(behind);
    Ok(Sequence::new(steps.collect::<tokenizers::Result<Vec<_>>>()?).into())
}

/// Rejects a vocabulary whose map of characters is another one.
fn check(normalizer: &NormalizerWrapper, replaced: &[(char, String)]) -> Result<(), Error> {
    for (from, to) in replaced {
        let mut made = NormalizedString::from(from.to_string());
        normalizer.normalize(&mut made).map_err(|e| Error::Vocabulary(e.to_string()))?;
        if made.get() != to {
            let reason = format!("it replaces U+{:04X} by `{to}`, which is not supported", u32::from(*from));
            return Err(Error::Vocabulary(reason));
        }
    }
    Ok(())
}
