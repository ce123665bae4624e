//! Text that a translation copies from its source: names, which it should have, and words and letters, which
//! it should not.

use std::collections::BTreeSet;

use unicode_segmentation::UnicodeSegmentation;

use crate::segment::Segment;

/// Letters of a name that are compared: endings differ by language.
const STEM: usize = 5;

/// Consecutive words that also occur in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Two words side by side, of which one begins with a small letter, so that names are none.
    pub pairs: usize,
    /// Words of the translation.
    pub of_words: usize,
}

/// The words that the translation of a segment copies from its source; none where both are in one language.
pub fn copied(segment: &Segment) -> Copied {
    let words = |text| -> Vec<&str> { letters_only(text).collect() };
    let (source, target) = (words(&segment.source), words(&segment.hypothesis));
    let of_words = target.len();
    if segment.src_lang.language() == segment.tgt_lang.language() {
        return Copied { pairs: 0, of_words };
    }
    let of_source: BTreeSet<[&str; 2]> = source.windows(2).map(|two| [two[0], two[1]]).collect();
    let is_small = |word: &str| word.chars().next().is_some_and(char::is_lowercase);
    let is_copied =
        |two: &&[&str]| of_source.contains(&[two[0], two[1]]) && two.iter().any(|word| is_small(word));
    Copied { pairs: target.windows(2).filter(is_copied).count(), of_words }
}

fn letters_only(text: &str) -> impl Iterator<Item = &str> {
    text.unicode_words().filter(|word| word.chars().all(|c| !c.is_numeric()))
}

/// Number of names of the source that its translation lacks: words that begin with a capital after another
/// word or a comma. 0 where nouns have capitals (German), or letters are not Latin on both sides.
pub fn names_missing(segment: &Segment) -> usize {
    let texts = [&segment.source, &segment.hypothesis];
    if segment.src_lang.language() == "de" || !texts.iter().all(|text| is_latin(text)) {
        return 0;
    }
    let target = segment.hypothesis.to_lowercase();
    let names: BTreeSet<String> = names(&segment.source).collect();
    let is_missing = |name: &&String| {
        let stem: String = name.to_lowercase().chars().take(STEM).collect();
        !target.contains(&stem)
    };
    names.iter().filter(is_missing).count()
}

fn names(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<(usize, &str)> = text.unicode_word_indices().collect();
    let name = |two: &[(usize, &str)]| {
        let ((first, before), (at, word)) = (two[0], two[1]);
        let between = &text[first + before.len()..at];
        let is_inside = between.chars().all(|c| c.is_whitespace() || ",;:()".contains(c));
        let word = word.trim_end_matches("'s").trim_end_matches("\u{2019}s");
        let is_name = word.chars().next().is_some_and(char::is_uppercase) && word.chars().count() > 2;
        (is_inside && is_name).then(|| word.to_owned())
    };
    words.windows(2).filter_map(name).collect::<Vec<_>>().into_iter()
}

/// Letters of a translation in Latin letters that are not Latin and stand in the source: left untranslated.
pub fn foreign_letters(segment: &Segment) -> usize {
    if !is_latin(&segment.hypothesis) {
        return 0;
    }
    let of_source: BTreeSet<char> = segment.source.chars().collect();
    let is_foreign = |c: &char| c.is_alphabetic() && !is_latin_letter(*c) && of_source.contains(c);
    segment.hypothesis.chars().filter(is_foreign).count()
}

/// True if more than half of a text's letters are Latin.
fn is_latin(text: &str) -> bool {
    let (mut latin, mut all) = (0, 0);
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        all += 1;
        latin += usize::from(is_latin_letter(c));
    }
    2 * latin > all
}

fn is_latin_letter(c: char) -> bool {
    c.is_alphabetic() && matches!(c, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
}

#[cfg(test)]
mod tests {
    use tribunal_testing::translation;

    use super::*;

    #[test]
    fn words_of_the_source_are_copies_and_names_are_not() {
        let pairs = |source, target| copied(&translation(("en", "de"), source, target)).pairs;
        assert_eq!(pairs("He runs small inside workers here", "Er hat small inside workers"), 2);
        assert_eq!(pairs("Grand Prairie is nice", "Grand Prairie ist nett"), 0);
        assert_eq!(copied(&translation(("en", "en"), "a b", "a b")).pairs, 0);
    }

    #[test]
    fn names_are_looked_for_by_their_beginning() {
        let missing = |pair, source, target| names_missing(&translation(pair, source, target));
        let source = "She saw Anna's car in Grand Prairie, and Peter.";
        assert_eq!(missing(("en", "de"), source, "Sie sah Annas Auto in Grand Prairie, und Peter."), 0);
        assert_eq!(missing(("en", "de"), source, "Sie sah Annas Auto in Grand Rapids, und Paul."), 2);
        assert_eq!(missing(("en", "ru"), source, "Она видела"), 0);
        assert_eq!(missing(("de", "en"), "Das ist Haus und Hof", "That is it"), 0);
    }

    #[test]
    fn letters_that_are_left_are_counted() {
        let foreign = |pair, source, target| foreign_letters(&translation(pair, source, target));
        assert_eq!(foreign(("zh", "en"), "集市开张了", "The 集市 has opened"), 2);
        assert_eq!(foreign(("zh", "en"), "开张了", "The 集市 has opened"), 0);
        assert_eq!(foreign(("zh", "ja"), "集市开张了", "集市が開いた"), 0);
    }
}
