//! BLEU and chrF of a test set's translations as scores like any metric's: segments by their own score,
//! systems by that of all segments at once.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;

use super::{Bleu, Chrf, Tokenizer};
use crate::meta::Error;
use crate::meta::scores::{Scores, SegmentScores, SystemScoreOrigin, SystemScores};
use crate::meta::testset::TestSet;

/// A lexical metric and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// With the named tokenizer; without one, `zh` for Chinese, `char` for Japanese and Korean, `13a` for the rest.
    Bleu(Option<Tokenizer>),
    Chrf,
    /// With word pairs: chrF++.
    ChrfPlus,
}

const TOKENIZERS: [(&str, Tokenizer); 5] = [
    ("13a", Tokenizer::V13a),
    ("intl", Tokenizer::Intl),
    ("zh", Tokenizer::Zh),
    ("char", Tokenizer::Char),
    ("none", Tokenizer::Plain),
];

impl Baseline {
    /// Scores of every translation against one reference: the named one, or `refA`, or the first.
    ///
    /// # Errors
    /// A test set without that reference, and texts that cannot be read.
    pub fn scores(self, testset: &TestSet, reference: Option<&str>) -> Result<Scores, Error> {
        let name = chosen(testset, reference)?;
        let references = testset.reference(name)?;
        let tokenizer = self.tokenizer(&testset.lp);
        let translations = testset.systems.par_iter().filter(|system| *system != name);
        let judged: Result<Vec<_>, Error> = translations
            .map(|system| {
                let output = testset.output(system)?;
                let references = references.iter().map(String::as_str);
                let pairs: Vec<(&str, &str)> = output.iter().map(String::as_str).zip(references).collect();
                Ok((system.clone(), self.judge(tokenizer, &pairs)))
            })
            .collect();
        let (mut segments, mut systems) = (SegmentScores::new(), SystemScores::new());
        for (system, (column, whole)) in judged? {
            segments.insert(system.clone(), column.into_iter().map(Some).collect());
            systems.insert(system, Some(whole));
        }
        let scores = Scores::new(format!("{}:{name}", self.named(tokenizer)), Some(segments), Some(systems));
        Ok(Scores { system_origin: SystemScoreOrigin::Corpus, ..scores })
    }

    fn judge(self, tokenizer: Tokenizer, pairs: &[(&str, &str)]) -> (Vec<f64>, f64) {
        match self {
            Self::Bleu(_) => {
                let bleu = Bleu { tokenizer, ..Bleu::default() };
                let segments = pairs.iter().map(|(text, reference)| bleu.sentence(text, &[reference]));
                (segments.collect(), bleu.corpus(pairs.iter().copied()))
            }
            Self::Chrf | Self::ChrfPlus => {
                let word_order = if self == Self::ChrfPlus { 2 } else { 0 };
                let chrf = Chrf { word_order, ..Chrf::default() };
                let segments = pairs.iter().map(|(text, reference)| chrf.sentence(text, &[reference]));
                (segments.collect(), chrf.corpus(pairs.iter().copied()))
            }
        }
    }

    fn tokenizer(self, lp: &str) -> Tokenizer {
        let target = lp.split_once('-').map_or("", |(_, target)| target);
        match (self, target.get(..2)) {
            (Self::Bleu(Some(tokenizer)), _) => tokenizer,
            (_, Some("zh")) => Tokenizer::Zh,
            (_, Some("ja" | "ko")) => Tokenizer::Char,
            _ => Tokenizer::V13a,
        }
    }

    fn named(self, tokenizer: Tokenizer) -> String {
        match self {
            Self::Bleu(_) => Self::Bleu(Some(tokenizer)).to_string(),
            other => other.to_string(),
        }
    }
}

fn chosen<'a>(testset: &'a TestSet, reference: Option<&str>) -> Result<&'a String, Error> {
    let wanted = reference.unwrap_or("refA");
    let found = testset.references.iter().find(|name| *name == wanted);
    let fallback = if reference.is_none() { testset.references.first() } else { None };
    found.or(fallback).ok_or_else(|| {
        let known = testset.references.join(", ");
        Error::Unsuitable(format!("no reference `{wanted}` for `{}`; hint: there are {known}", testset.lp))
    })
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bleu(None) => f.write_str("bleu"),
            Self::Bleu(Some(tokenizer)) => {
                let name =
                    TOKENIZERS.iter().find(|(_, known)| known == tokenizer).map_or("", |(name, _)| name);
                write!(f, "bleu:{name}")
            }
            Self::Chrf => f.write_str("chrf"),
            Self::ChrfPlus => f.write_str("chrf++"),
        }
    }
}

impl FromStr for Baseline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::Unsuitable(format!(
                "unknown lexical metric `{text}`; hint: bleu, bleu:{{13a,intl,zh,char,none}}, chrf, chrf++"
            ))
        };
        match text.split_once(':') {
            None if text == "bleu" => Ok(Self::Bleu(None)),
            None if text == "chrf" => Ok(Self::Chrf),
            None if text == "chrf++" => Ok(Self::ChrfPlus),
            Some(("bleu", tokenizer)) => {
                let found = TOKENIZERS.iter().find(|(name, _)| *name == tokenizer);
                found.map(|(_, tokenizer)| Self::Bleu(Some(*tokenizer))).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_languages_choose_the_tokenizer() {
        for name in ["bleu", "bleu:intl", "chrf", "chrf++"] {
            assert_eq!(name.parse::<Baseline>().unwrap().to_string(), name);
        }
        assert!("bleu:xx".parse::<Baseline>().is_err() && "chrf:zh".parse::<Baseline>().is_err());
        for (lp, tokenizer) in [("en-de", "13a"), ("ja-zh", "zh"), ("en-ja_JP", "char")] {
            let bleu = Baseline::Bleu(None);
            assert_eq!(bleu.named(bleu.tokenizer(lp)), format!("bleu:{tokenizer}"));
        }
    }
}
