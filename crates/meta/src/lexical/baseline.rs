//! BLEU and chrF of a test set's translations, as scores like any metric's: segments have scores of their
//! own, and a system has that of all its segments at once.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;

use super::{Bleu, Chrf, Tokenizer};
use crate::scores::{Scores, SegmentScores, SystemScoreOrigin, SystemScores};
use crate::testset::TestSet;
use crate::{Advice, Error, Result};

/// A lexical metric and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// BLEU with the named tokenizer; without one, `zh` for Chinese, `char` for Japanese and Korean (where
    /// sacreBLEU takes `ja-mecab` and `ko-mecab`), `13a` for the rest.
    Bleu(Option<Tokenizer>),
    Chrf,
    /// chrF with word pairs: chrF++.
    ChrfPlus,
}

impl Baseline {
    /// Scores of every translation against one reference. A system's score is over all segments at once.
    ///
    /// # Errors
    /// A test set without that reference, and texts that cannot be read.
    pub fn scores(self, testset: &TestSet, reference: Option<&str>) -> Result<Scores> {
        let name = chosen(testset, reference)?;
        let references = testset.published_reference(name)?;
        let tokenizer = self.tokenizer(&testset.lp);
        let translations = testset.systems.par_iter().filter(|system| *system != name);
        let judged: Result<Vec<_>> = translations
            .map(|system| {
                let output = testset.published_output(system)?;
                let references = references.iter().map(String::as_str);
                let pairs: Vec<(&str, &str)> = output.iter().map(String::as_str).zip(references).collect();
                Ok((system.clone(), self.segments(tokenizer, &pairs), self.corpus(tokenizer, &pairs)))
            })
            .collect();
        let (mut segments, mut systems) = (SegmentScores::new(), SystemScores::new());
        for (system, column, document_score) in judged? {
            segments.insert(system.clone(), column.into_iter().map(Some).collect());
            systems.insert(system, document_score);
        }
        let scores = Scores::new(self.named(tokenizer), Some(segments), Some(systems));
        Ok(Scores { system_origin: SystemScoreOrigin::Corpus, ..scores })
    }

    fn segments(self, tokenizer: Tokenizer, pairs: &[(&str, &str)]) -> Vec<f64> {
        let score = |(text, reference): &(&str, &str)| match self {
            Self::Bleu(_) => Bleu(tokenizer).sentence(text, reference),
            _ => self.chrf().sentence(text, reference),
        };
        pairs.iter().map(score).collect()
    }

    /// All segments at once; `None` for none.
    fn corpus(self, tokenizer: Tokenizer, pairs: &[(&str, &str)]) -> Option<f64> {
        (!pairs.is_empty()).then(|| match self {
            Self::Bleu(_) => Bleu(tokenizer).corpus(pairs.iter().copied()),
            _ => self.chrf().corpus(pairs.iter().copied()),
        })
    }

    fn chrf(self) -> Chrf {
        Chrf { word_order: if self == Self::ChrfPlus { 2 } else { 0 } }
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

    /// sacreBLEU's signature of system scores, without its version.
    ///
    /// ```
    /// use tribunal_meta::lexical::baseline::Baseline;
    /// let signature = |name: &str| name.parse::<Baseline>().unwrap().signature();
    /// assert_eq!(signature("bleu:zh"), "nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp");
    /// assert_eq!(signature("chrf++"), "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no");
    /// ```
    pub fn signature(self) -> String {
        match self {
            Self::Bleu(tokenizer) => {
                let named = Self::Bleu(Some(tokenizer.unwrap_or(Tokenizer::V13a))).to_string();
                let tokenizer = named.trim_start_matches("bleu:");
                format!("nrefs:1|case:mixed|eff:no|tok:{tokenizer}|smooth:exp")
            }
            Self::Chrf => "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no".to_owned(),
            Self::ChrfPlus => "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no".to_owned(),
        }
    }

    fn named(self, tokenizer: Tokenizer) -> String {
        match self {
            Self::Bleu(_) => Self::Bleu(Some(tokenizer)).to_string(),
            other => other.to_string(),
        }
    }
}

fn chosen<'a>(testset: &'a TestSet, reference: Option<&str>) -> Result<&'a String> {
    let found = reference.and_then(|named| testset.references.iter().find(|name| *name == named));
    found.ok_or_else(|| {
        let (lp, named) = (&testset.lp, reference.map_or_else(String::new, |name| format!(" `{name}`")));
        let known = testset.references.join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        let reason = format!("lexical metrics need a reference, and `{lp}` has no reference{named}");
        Error::Advised { reason, advice: Advice::Reference { lp: lp.clone(), known } }
    })
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bleu(None) => f.write_str("bleu"),
            Self::Bleu(Some(tokenizer)) => write!(f, "bleu:{}", tokenizer.name()),
            Self::Chrf => f.write_str("chrf"),
            Self::ChrfPlus => f.write_str("chrf++"),
        }
    }
}

impl FromStr for Baseline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::Unsuitable(format!(
                "unknown lexical metric `{text}`; hint: it can be bleu, bleu:{{13a,intl,zh,char,none}}, chrf or chrf++"
            ))
        };
        match text.split_once(':') {
            None if text == "bleu" => Ok(Self::Bleu(None)),
            None if text == "chrf" => Ok(Self::Chrf),
            None if text == "chrf++" => Ok(Self::ChrfPlus),
            Some(("bleu", tokenizer @ ("ja-mecab" | "ko-mecab"))) => Err(Error::Unsuitable(format!(
                "`{text}`: the tokenizer `{tokenizer}` is not available, since it needs a MeCab dictionary; hint: \
                 bleu:char, whose scores cannot be compared with published ones; or a file of sacreBLEU's scores"
            ))),
            Some(("bleu", tokenizer)) => {
                Tokenizer::named(tokenizer).map(|named| Self::Bleu(Some(named))).ok_or_else(unknown)
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
        let mecab = "bleu:ja-mecab".parse::<Baseline>().unwrap_err().to_string();
        assert!(mecab.contains("the tokenizer `ja-mecab` is not available"), "{mecab}");
        assert!("bleu:xx".parse::<Baseline>().is_err() && "chrf:zh".parse::<Baseline>().is_err());
        for (lp, tokenizer) in [("en-de", "13a"), ("ja-zh", "zh"), ("en-ja_JP", "char")] {
            let bleu = Baseline::Bleu(None);
            assert_eq!(bleu.named(bleu.tokenizer(lp)), format!("bleu:{tokenizer}"));
        }
    }
}
