//! PTB: perfect translations, half of them left alone and half with a phrase swapped for one of another
//! translation. The caller selects the perfect translations.
//!
//! Source: RUBRIC-MQM, Appendix B.2 and Table 6; Barrault et al., WMT 2020.

use std::collections::BTreeSet;

use super::gold::Cue;
use super::labels::NO_ERROR;
use super::plan::{Plan, Rated};
use super::words::Words;
use tribunal_meta::pcg::Pcg64;

/// Number of other translations that are tried for a phrase to swap in.
const ATTEMPTS: usize = 100;

/// Words of a phrase that are replaced in a sentence of `n` words; `None` for sentences that are too short.
///
/// Source: Table 6. It has no row for 5 words, which its caption keeps: they lose 3, as 6 to 8 do.
///
/// ```
/// use tribunal_replication::promptcue::perturb::replaced_words;
/// let replaced = [4, 5, 8, 9, 16, 20, 24].map(replaced_words);
/// assert_eq!(replaced, [None, Some(3), Some(3), Some(4), Some(5), Some(5), Some(6)]);
/// ```
pub fn replaced_words(n: usize) -> Option<usize> {
    match n {
        0..=4 => None,
        5..=8 => Some(3),
        9..=15 => Some(4),
        16..=20 => Some(5),
        _ => Some(n / 4),
    }
}

/// Two cues for each of up to `n` perfect translations: the translation itself and its perturbed copy, each
/// with a marked phrase of the same length.
pub(super) fn pairs(perfect: &[&Rated], n: usize, plan: &Plan, random: &mut Pcg64) -> Vec<Cue> {
    // Two systems may have the same translation.
    let mut seen = BTreeSet::new();
    let distinct = perfect.iter().filter(|rated| seen.insert((rated.source, rated.target)));
    let mut sentences: Vec<(&Rated, Words)> =
        distinct.map(|rated| (*rated, Words::parse(rated.target))).collect();
    sentences.retain(|(_, words)| replaced_words(words.len()).is_some());
    random.shuffle(&mut sentences);
    let drawn = sentences.iter().filter_map(|sentence| pair(sentence, &sentences, plan, random));
    drawn.take(n).flatten().collect()
}

fn pair(
    sentence: &(&Rated, Words),
    others: &[(&Rated, Words)],
    plan: &Plan,
    random: &mut Pcg64,
) -> Option<[Cue; 2]> {
    let (rated, words) = sentence;
    let length = replaced_words(words.len())?;
    let start = random.below(words.len() - length + 1);
    let swapped = random.below(words.len() - length + 1);
    let phrase = foreign_phrase(sentence, words.phrase(swapped, length), length, others, random)?;
    Some([
        cue(rated, marked(words, start, length, words.phrase(start, length)), [NO_ERROR, NO_ERROR], plan),
        cue(rated, marked(words, swapped, length, phrase), ["mistranslation", "major"], plan),
    ])
}

/// A fluent sequence of so many words from a translation of another source, other than the one it replaces.
fn foreign_phrase<'a>(
    (rated, _): &(&Rated, Words),
    replaced: &str,
    length: usize,
    others: &[(&Rated, Words<'a>)],
    random: &mut Pcg64,
) -> Option<&'a str> {
    for _ in 0..ATTEMPTS {
        let (other, words) = &others[random.below(others.len())];
        if other.source != rated.source && words.len() >= length {
            let phrase = words.phrase(random.below(words.len() - length + 1), length);
            if phrase != replaced {
                return Some(phrase);
            }
        }
    }
    None
}

/// The sentence with a phrase instead of its own words, and the marked span. As in the published set,
/// spaces around the phrase stand inside the marks; where the script writes none, there are none.
fn marked(words: &Words, start: usize, length: usize, phrase: &str) -> (String, String) {
    let (before, after) = words.around(start, length);
    if !words.is_spaced() {
        return (format!("{before}<v>{phrase}</v>{after}"), phrase.to_owned());
    }
    let span = format!(" {phrase} ");
    let target = format!("{} <v>{span}</v> {}", before.trim(), after.trim());
    (target.trim().to_owned(), span)
}

fn cue(
    rated: &Rated,
    (target, error_span): (String, String),
    [category, severity]: [&str; 2],
    plan: &Plan,
) -> Cue {
    Cue {
        id: 0,
        source: rated.source.to_owned(),
        reference: rated.reference.to_owned(),
        target,
        error_span,
        category: category.to_owned(),
        severity: severity.to_owned(),
        source_lang: plan.source_lang.clone(),
        target_lang: plan.target_lang.clone(),
    }
}
