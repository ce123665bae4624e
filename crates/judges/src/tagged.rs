//! From the tags of tokens to tags of words: the parts of a text that a mark may begin and end with, with the
//! probabilities of their tokens. A mark of such words cuts no word, no number and no hyphenated compound.
//! Errors are not chosen here.

use std::{ops::Range, sync::LazyLock};

use icu_segmenter::{WordSegmenter, options::WordBreakInvariantOptions};
use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

use crate::{mqm::locate, reading::pattern};

/// Numbers with their sign and all separators, in the digits of any script: `3.000.000`, `12 300`, `1’000`,
/// `10:30`, `3/4`, `10–20`.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    let whole = r"(?:\d{1,3}(?:[\u{20}\u{a0}\u{2009}\u{202f}]\d{3})+\b|\d+)";
    pattern(&format!(r"[+\-−]?{whole}(?:[.,:/'’٫٬–]\d+)*"))
});

/// A part of a text with the probability of each class, of a token or of a word.
#[derive(Clone, Debug, PartialEq)]
pub struct Tagged {
    /// Half-open, in bytes of the text.
    pub start: usize,
    pub end: usize,
    /// 0 to 1, the same classes for all parts of a text.
    pub probabilities: Vec<f64>,
}

/// The words of a text, punctuation marks included, each with the greatest probability of its tokens for each
/// class; 0 where it has no token. Tokens may begin and end anywhere, also inside a character.
///
/// ```
/// use tribunal_judges::tagged::{Tagged, words};
/// let token = |start, end, chance| Tagged { start, end, probabilities: vec![chance] };
/// let found = words("Der Bär.", &[token(0, 5, 0.1), token(5, 8, 0.7), token(8, 9, 0.2)]);
/// let spelled: Vec<&str> = found.iter().map(|word| &"Der Bär."[word.start..word.end]).collect();
/// assert_eq!(spelled, ["Der", "Bär", "."]);
/// assert_eq!(found[1].probabilities, [0.7]);
/// ```
pub fn words(text: &str, tokens: &[Tagged]) -> Vec<Tagged> {
    let n_classes = tokens.first().map_or(0, |token| token.probabilities.len());
    let tagged = |Range { start, end }: Range<usize>| {
        let mut probabilities = vec![0.0; n_classes];
        for token in tokens.iter().filter(|token| token.start < end && start < token.end) {
            let greater = |(most, chance): (&mut f64, &f64)| *most = most.max(*chance);
            probabilities.iter_mut().zip(&token.probabilities).for_each(greater);
        }
        Tagged { start, end, probabilities }
    };
    ranges(text).into_iter().map(tagged).collect()
}

/// A range of a text, in bytes, extended to whole words.
pub fn whole(text: &str, range: Range<usize>) -> Range<usize> {
    let Range { start, end } = range;
    let touched = ranges(text).into_iter().filter(|word| word.start < end && start < word.end);
    touched.fold(start..end, |range, word| range.start.min(word.start)..range.end.max(word.end))
}

/// The words and punctuation marks of a text, by the rules of Unicode and the dictionaries of ICU, which has
/// Chinese, Japanese, Thai, Lao, Khmer and Burmese; spaces belong to none.
fn ranges(text: &str) -> Vec<Range<usize>> {
    let numbers: Vec<Range<usize>> = NUMBER.find_iter(text).map(|number| number.range()).collect();
    let mut next_number = 0;
    let is_border = |at: &usize| {
        while numbers.get(next_number).is_some_and(|number| number.end <= *at) {
            next_number += 1;
        }
        let is_in_number = numbers.get(next_number).is_some_and(|number| number.start < *at);
        !is_in_number && locate::is_whole(text, *at..*at) && !is_beside_hyphen(text, *at)
    };
    let segmenter = WordSegmenter::new_auto(WordBreakInvariantOptions::default());
    let borders: Vec<usize> = segmenter.segment_str(text).filter(is_border).collect();
    let words = borders.windows(2).filter_map(|ends| {
        let word = ends[0]..ends[1];
        (!text[word.clone()].trim().is_empty()).then_some(word)
    });
    words.collect()
}

/// True at either end of a hyphen between two letters or digits.
fn is_beside_hyphen(text: &str, at: usize) -> bool {
    let is_hyphen = |c: Option<char>| matches!(c, Some('-' | '\u{2010}' | '\u{2011}'));
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let base = |cluster: &str| cluster.chars().next();
    let (mut before, mut after) =
        (text[..at].graphemes(true).rev().filter_map(base), text[at..].graphemes(true).filter_map(base));
    let (left, right) = ([before.next(), before.next()], [after.next(), after.next()]);
    is_hyphen(right[0]) && is_letter(left[0]) && is_letter(right[1])
        || is_hyphen(left[0]) && is_letter(right[0]) && is_letter(left[1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(text: &str) -> Vec<&str> {
        ranges(text).into_iter().map(|word| &text[word]).collect()
    }

    #[test]
    fn words_of_many_scripts_are_whole() {
        let check = |text: &str, expected: &[&str]| assert_eq!(spelled(text), expected, "{text}");
        check("Don't go, l\u{2019}homme!", &["Don't", "go", ",", "l\u{2019}homme", "!"]);
        check("Die E-Mail-Adresse - neu", &["Die", "E-Mail-Adresse", "-", "neu"]);
        check("cafe\u{301}-bar cafe\u{301}", &["cafe\u{301}-bar", "cafe\u{301}"]);
        check("Es sind 3.000.000, nicht 3,5.", &["Es", "sind", "3.000.000", ",", "nicht", "3,5", "."]);
        check("12\u{202f}300 oder 1\u{2019}000", &["12\u{202f}300", "oder", "1\u{2019}000"]);
        check("35 000 in 2019 300 mal", &["35 000", "in", "2019", "300", "mal"]);
        check("um 10:30 bei -5 am 3/4 USD100", &["um", "10:30", "bei", "-5", "am", "3/4", "USD100"]);
        check("在 3,000 年，东-西", &["在", "3,000", "年", "，", "东-西"]);
        check("我们去北京工作。", &["我们", "去", "北京", "工作", "。"]);
        check("東京タワーに行く", &["東京", "タワー", "に", "行く"]);
        check("ฉันรักภาษาไทย", &["ฉัน", "รัก", "ภาษา", "ไทย"]);
        check("그는 집에 갔다", &["그는", "집에", "갔다"]);
        check("می\u{200c}خواهم", &["می\u{200c}خواهم"]);
        check("अन्तर्राष्ट्रीय है", &["अन्तर्राष्ट्रीय", "है"]);
        check(" \n", &[]);
        check("", &[]);
        assert_eq!(whole("他在北京工作", 9..10), 6..12);
        assert_eq!(whole("a b", 1..2), 1..2, "a space is in no word");
    }

    /// Pieces of texts in which a mark could cut a word.
    const PIECES: &[&str] = &[
        " ",
        "  ",
        "\u{a0}",
        "\u{202f}",
        "-",
        "\u{2011}",
        "'",
        "\u{2019}",
        ".",
        ",",
        ":",
        "/",
        "3",
        "000",
        "12",
        "٣",
        "Bär",
        "e\u{301}",
        "\u{301}",
        "don",
        "t",
        "x",
        "北京",
        "工作",
        "的",
        "。",
        "東京タワー",
        "ひら",
        "ภาษา",
        "ไทย",
        "집에",
        "भाषा",
        "می\u{200c}خ",
        "👩\u{200d}👩",
        "\u{ad}",
        "\n",
    ];

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
    }

    /// True between two letters or digits of scripts with spaces, and inside a number.
    fn is_in_word(text: &str, at: usize) -> bool {
        let letter = Regex::new(r"[[\p{L}\p{Nd}]--[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}]]").unwrap();
        let is_letter = |cluster: Option<&str>| {
            cluster.is_some_and(|c| letter.find(c).is_some_and(|found| found.start() == 0))
        };
        let (before, after) = text.split_at(at);
        let number = Regex::new(r"\d[.,:/'’]\d").unwrap();
        let in_number = number.find_iter(text).any(|number| number.start() < at && at < number.end());
        is_letter(before.graphemes(true).next_back()) && is_letter(after.graphemes(true).next()) || in_number
    }

    proptest! {
        #[test]
        fn no_word_of_a_text_is_cut(
            text in text(),
            ends in prop::collection::vec(0usize..200, 0..30),
            chances in prop::collection::vec([0.0f64..1.0, 0.0f64..1.0], 30),
        ) {
            let mut ends: Vec<usize> = ends.into_iter().filter(|end| *end < text.len()).chain([text.len()]).collect();
            ends.sort_unstable();
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let tokens: Vec<Tagged> = (starts.zip(&ends).zip(&chances))
                .map(|((start, end), chances)| Tagged { start, end: *end, probabilities: chances.to_vec() })
                .collect();
            let words = words(&text, &tokens);
            let mut last = 0;
            for word in &words {
                prop_assert!(last <= word.start && word.start < word.end);
                prop_assert!(text[last..word.start].trim().is_empty(), "a part of {text:?} is in no word");
                prop_assert!(!text[word.start..word.end].trim().is_empty());
                for at in [word.start, word.end] {
                    prop_assert!(!is_in_word(&text, at), "{text:?} is cut at {at}");
                }
                prop_assert_eq!(word.probabilities.len(), 2);
                prop_assert_eq!(whole(&text, word.start..word.end), word.start..word.end);
                last = word.end;
            }
            prop_assert!(text[last..].trim().is_empty());
            // No probability is lost.
            for token in tokens.iter().filter(|token| token.start < token.end) {
                let over = words.iter().filter(|word| word.start < token.end && token.start < word.end);
                for word in over {
                    let is_kept = |(most, chance): (&f64, &f64)| most >= chance;
                    prop_assert!(word.probabilities.iter().zip(&token.probabilities).all(is_kept));
                }
            }
        }
    }
}
