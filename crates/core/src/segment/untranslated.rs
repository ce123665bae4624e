//! Untranslated segments: copies of their sources, and texts that are certainly in another language. It gives
//! no scores.
//!
//! Such segments were marked over more than half of its length, or as a non-translation, by raters of WMT
//! 2020, 2021 and 2023: `tests/all/untranslated.rs` measures it.

use std::collections::HashSet;

use super::{
    Lang, Segment,
    language_id::{self, Identified, TextLanguage, identify},
    script::{Letters, Script},
};

/// Reason why a segment is not a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untranslated {
    /// Word by word the source.
    Copy,
    Language(TextLanguage),
}

impl Untranslated {
    /// The reason in words: `identical to the source`, `in French, not German`.
    pub fn reason(&self, expected: &Lang) -> String {
        match self {
            Self::Copy => "identical to the source".to_owned(),
            Self::Language(TextLanguage::Language(found)) => {
                format!("in {}, not {}", found.name(), expected.name())
            }
            Self::Language(found) => format!("in {found}, which {} is not written in", expected.name()),
        }
    }
}

/// The fewest words of a text that is not just a name, a title or an address.
const SENTENCE: usize = 5;

/// Least length of a sentence in a script without spaces. Unit: as of [`Letters::total`].
const SENTENCE_LETTERS: usize = 30;

/// The least share of a sentence's words that begin with a small letter: of titles and names, fewer do.
const SMALL: f64 = 1.0 / 3.0;

/// The least share of letters among the characters of a sentence: code and tables have fewer.
const LETTERS: f64 = 0.8;

/// The reason why a segment is not a translation; `None` where it is one, or where that is not certain.
///
/// ```
/// # use tribunal_core::segment::{Lang, Segment, untranslated::{Untranslated, of}};
/// # let lang = |code| Lang::parse(code).unwrap();
/// let source = "We stayed at the Hotel Miramar for six nights in June.";
/// # let segment = Segment::new((lang("en"), lang("de")), source, source);
/// assert_eq!(of(&segment), Some(Untranslated::Copy));
/// ```
pub fn of(segment: &Segment) -> Option<Untranslated> {
    if is_copy(segment) {
        return Some(Untranslated::Copy);
    }
    match identify(&segment.hypothesis, &segment.tgt_lang) {
        // Names are often left in Latin letters, and so is what is transliterated.
        Identified::Other(TextLanguage::Script(Script::Latin)) => None,
        Identified::Other(found) => {
            let is_mixed = || language_id::has_clause_in(&segment.hypothesis, &segment.tgt_lang);
            let is_quoted =
                || !matches!(identify(&unquoted(segment), &segment.tgt_lang), Identified::Other(_));
            (is_sentence(&segment.hypothesis) && !is_mixed() && !is_quoted())
                .then_some(Untranslated::Language(found))
        }
        _ => None,
    }
}

/// The translation without passages that stand in the source as well and are not in its language, such as
/// quotations; nothing of one that is the source itself, unless it surely is in its language.
pub(super) fn unquoted(segment: &Segment) -> String {
    let Segment { source, hypothesis, src_lang, .. } = segment;
    if is_same(source, hypothesis) && (is_list(source) || !language_id::both_say(source, src_lang)) {
        return String::new();
    }
    let of_source: HashSet<&str> = clauses(source).map(bare).collect();
    let is_own = |clause: &&str| !of_source.contains(bare(clause)) || language_id::seems(clause, src_lang);
    clauses(hypothesis).filter(is_own).collect()
}

fn clauses(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|c: char| language_id::CLAUSE_MARKS.contains(c))
}

fn bare(clause: &str) -> &str {
    clause.trim_matches(|c: char| c.is_whitespace() || language_id::CLAUSE_MARKS.contains(c))
}

/// Returns true if the translation is the source, and ought not to be: a sentence, of a language that is not
/// the target's.
fn is_copy(segment: &Segment) -> bool {
    let Segment { source, hypothesis, src_lang, tgt_lang, .. } = segment;
    let is_sentence = is_sentence(source) && (begins_large(source) || ends_as_sentence(source));
    if !is_same(source, hypothesis) || language_id::are_close(src_lang, tgt_lang) || !is_sentence {
        return false;
    }
    // A quotation in the target language stands as it is; text that neither identifier covers is assumed to
    // be in its declared language.
    !language_id::is_known(src_lang)
        || language_id::seems(source, src_lang) && identify(source, tgt_lang) != Identified::Expected
}

/// Returns true if two texts differ at most in white space and capitals.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    a == b || plain(a) == plain(b)
}

/// Returns true if a text is a sentence of some words, and not a name, a title, an address, a number or code.
fn is_sentence(text: &str) -> bool {
    let all = text.split_whitespace().count();
    let words: Vec<&str> = text.split_whitespace().filter(|word| is_word(word)).collect();
    let small = words.iter().filter(|word| !begins_large(word)).count();
    let signs = text.chars().filter(|c| !c.is_whitespace() && !is_punctuation(*c)).count();
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let is_sentence_of_words =
        words.len() >= SENTENCE && 4 * words.len() >= 3 * all && small as f64 >= SMALL * words.len() as f64;
    (is_sentence_of_words || letters_of_syllables(text) >= SENTENCE_LETTERS)
        && letters as f64 >= LETTERS * signs as f64
        && !is_list(text)
}

/// Returns true if most words of a text stand between commas.
fn is_list(text: &str) -> bool {
    let words = text.split_whitespace();
    2 * words.clone().filter(|word| word.ends_with([',', ';', '،'])).count() >= words.count().max(1)
}

fn begins_large(text: &str) -> bool {
    text.chars().find(|c| c.is_alphabetic()).is_some_and(char::is_uppercase)
}

/// Returns true if a text ends with a mark that ends sentences; closing quotes and brackets may follow.
fn ends_as_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || "\"'”“’»«)]」』】）".contains(c));
    text.ends_with(['.', '!', '?', ':', '…', '。', '！', '？', '．', '：', '।', '॥', '۔', '؟', '።', '။', '។'])
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(u32::from(c), 0x2010..=0x2027 | 0x3001..=0x301f | 0xff01..=0xff0f | 0xff1a..=0xff1f)
}

/// Returns true if a piece of text between blanks is a word: no number, address, tag or expression.
fn is_word(piece: &str) -> bool {
    let inner = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
    !piece.starts_with(['-', '$', '&'])
        && piece.chars().any(char::is_alphabetic)
        && !inner.chars().any(|c| "@/\\_<>{}()=#.:".contains(c) || c.is_numeric())
}

/// Letters of a text in a script without spaces; 0 of others.
fn letters_of_syllables(text: &str) -> usize {
    let is_alphabet = |c: char| c.is_lowercase() || c.is_uppercase();
    if text.chars().any(is_alphabet) { 0 } else { Letters::count(text).total() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EN: &str =
        "The town council voted on Tuesday to close the old stone bridge for repairs until the end of March.";
    const DE: &str =
        "Der Stadtrat beschloss am Dienstag, die alte Brücke wegen Reparaturarbeiten bis März zu sperren.";
    const FR: &str = "Le conseil municipal a décidé mardi de fermer le vieux pont pour réparations jusqu'à la fin de mars.";
    const ZH: &str = "议会星期二投票决定关闭旧桥进行维修，直到春天才重新开放。";

    fn reason(pair: &str, source: &str, hypothesis: &str) -> Option<String> {
        let segment = Segment::new(crate::segment::lang::parse_pair(pair).unwrap(), source, hypothesis);
        of(&segment).map(|found| found.reason(&segment.tgt_lang))
    }

    #[test]
    fn what_is_not_translated_is_named() {
        for (pair, source, hypothesis, is) in [
            ("en-de", EN, EN, "identical to the source"),
            ("en-de", EN, &*EN.to_uppercase().replace(' ', "  "), "identical to the source"),
            ("en-mas", EN, EN, "identical to the source"),
            ("de-en", DE, DE, "identical to the source"),
            ("zh-en", ZH, ZH, "identical to the source"),
            (
                "zh-en",
                "清洁之前，请让机器冷却至少30分钟。",
                "清洁之前，请让机器冷却至少30分钟。",
                "identical to the source",
            ),
            ("en-de", "This is just one example.", "This is just one example.", "identical to the source"),
            ("en-de", EN, FR, "in French, not German"),
            ("en-de", EN, &*EN.replace("Tuesday", "Dienstag"), "in English, not German"),
            ("zh-en", ZH, &*ZH.replace('旧', "老"), "in Chinese, not English"),
            ("en-zh", EN, FR, "in French, not Chinese"),
        ] {
            assert_eq!(reason(pair, source, hypothesis).as_deref(), Some(is), "{pair}: {hypothesis}");
        }
    }

    #[test]
    fn what_stays_as_it_is_is_no_copy() {
        for text in [
            "",
            " ",
            "Ja.",
            "Kolkata:",
            "Salesforce Partner",
            "#FalconGameBooks",
            "(PERSON7) Okay.",
            "(PERSON4) <unintelligible/>",
            "Drops Internet",
            "The Lord of the Rings: The Two Towers",
            "Angela Merkel, Emmanuel Macron and Boris Johnson",
            "Sony, Disney Back To Work On Third Spider-Man Film",
            "12 345,67 EUR; 2023-05-01; ISO 9001",
            "https://example.org/the/town/council http://example.org www.example.org a.example.org b.example.org",
            "for (int i = 0; i < n; i++) { total += values[i]; }",
            "git commit --all --message=\"x\" && git push origin HEAD:main",
            "😀😀😀 👍👍 😀 😀 😀",
            // A quotation that is in the target language already.
            DE,
        ] {
            assert_eq!(reason("en-de", text, text), None, "{text}");
        }
        assert_eq!(reason("zh-en", "红楼梦", "红楼梦"), None);
        assert_eq!(
            reason(
                "hr-bs",
                "Most je zatvoren zbog popravaka do kraja ožujka.",
                "Most je zatvoren zbog popravaka do kraja ožujka."
            ),
            None
        );
    }

    #[test]
    fn translations_and_texts_in_several_languages_pass() {
        for (pair, source, hypothesis) in [
            ("en-de", EN, DE),
            ("de-en", DE, EN),
            ("en-fr", EN, FR),
            ("zh-en", ZH, EN),
            ("en-de", EN, "Ja."),
            ("en-de", EN, ""),
            (
                "en-de",
                EN,
                "Er fügte hinzu: “We are going to close the old bridge until the end of March, and that is that.”",
            ),
            (
                "en-de",
                EN,
                "Er sagte auf der Pressekonferenz wörtlich: „We are going to close the old bridge.“",
            ),
            ("en-de", EN, "for (int i = 0; i < n; i++) { total += values[i]; }"),
            ("en-zh", EN, "Samsung Galaxy S23 Ultra"),
            (
                "en-hi",
                EN,
                "Nagar parishad ne mangalvaar ko purane pul ko marammat ke lie band karane ka phaisala kiya.",
            ),
            ("en-mas", EN, FR),
        ] {
            assert_eq!(reason(pair, source, hypothesis), None, "{pair}: {hypothesis}");
        }
    }
}
