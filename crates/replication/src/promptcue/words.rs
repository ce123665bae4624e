//! The words of a sentence in its own script: runs between spaces, and inside them, where the script writes
//! no spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese), the words that ICU finds. The text is not
//! changed.

use std::ops::Range;

use icu_segmenter::{WordSegmenter, options::WordBreakInvariantOptions};

/// A sentence and the positions of its words.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a str,
    /// Byte ranges of the words, in order; they are separated by spaces or nothing.
    ranges: Vec<Range<usize>>,
    /// True if words are divided by spaces alone.
    is_spaced: bool,
}

impl<'a> Words<'a> {
    /// Divides a sentence. Punctuation belongs to the word before it.
    ///
    /// ```
    /// use tribunal_replication::promptcue::words::Words;
    /// assert_eq!(Words::parse("It cost $5, or so.").len(), 5);
    /// assert_eq!(Words::parse("他说，这里很好。").phrase(0, 2), "他说，");
    /// ```
    pub fn parse(text: &'a str) -> Self {
        let mut sentence = Self { text, ranges: Vec::new(), is_spaced: true };
        for run in runs(text) {
            if text[run.clone()].chars().any(writes_no_spaces) {
                sentence.is_spaced = false;
                divide(text, run, &mut sentence.ranges);
            } else {
                sentence.ranges.push(run);
            }
        }
        sentence
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// True if words are divided by spaces alone.
    pub fn is_spaced(&self) -> bool {
        self.is_spaced
    }

    /// `length` words from the word `start` on.
    ///
    /// # Panics
    /// When the sentence has no such words.
    pub fn phrase(&self, start: usize, length: usize) -> &'a str {
        let words = &self.ranges[start..start + length];
        match (words.first(), words.last()) {
            (Some(first), Some(last)) => &self.text[first.start..last.end],
            _ => "",
        }
    }

    /// The text before and after `length` words from the word `start` on.
    ///
    /// # Panics
    /// When the sentence has no such words, or `length` is 0.
    pub fn around(&self, start: usize, length: usize) -> (&'a str, &'a str) {
        let words = &self.ranges[start..start + length];
        (&self.text[..words[0].start], &self.text[words[length - 1].end..])
    }
}

/// The runs of characters between spaces.
fn runs(text: &str) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        if !c.is_whitespace() {
            start = start.or(Some(at));
        } else if let Some(start) = start.take() {
            runs.push(start..at);
        }
    }
    runs.extend(start.map(|start| start..text.len()));
    runs
}

/// The words of a run without spaces.
fn divide(text: &str, run: Range<usize>, words: &mut Vec<Range<usize>>) {
    let segmenter = WordSegmenter::new_auto(WordBreakInvariantOptions::default());
    let n_before = words.len();
    // Punctuation at the beginning belongs to the first word.
    let mut start = run.start;
    for (end, kind) in segmenter.segment_str(&text[run.clone()]).iter_with_word_type() {
        let end = run.start + end;
        if kind.is_word_like() {
            words.push(start..end);
        } else if let Some(word) = words[n_before..].last_mut() {
            word.end = end;
        } else {
            continue;
        }
        start = end;
    }
    if words.len() == n_before {
        words.push(run);
    }
}

/// True if a character is of a script that writes no spaces between words.
fn writes_no_spaces(c: char) -> bool {
    matches!(c,
        // Thai and Lao; Burmese; Khmer
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Kana
        | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9d}'
        // Han
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str], is_spaced: bool) {
        let words = Words::parse(text);
        let found: Vec<&str> = (0..words.len()).map(|i| words.phrase(i, 1)).collect();
        assert_eq!((&found[..], words.is_spaced()), (expected, is_spaced), "{text}");
    }

    #[test]
    fn scripts_with_and_without_spaces() {
        check("Don't  e-mail me,\u{a0}please. ", &["Don't", "e-mail", "me,", "please."], true);
        check("그는 집에 갔다.", &["그는", "집에", "갔다."], true);
        check("我们去北京工作。", &["我们", "去", "北京", "工作。"], false);
        check("「東京タワーに行く」", &["「東京", "タワー", "に", "行く」"], false);
        check("ฉันรักภาษาไทย", &["ฉัน", "รัก", "ภาษา", "ไทย"], false);
        check("使用 -x 选项（GCC）", &["使用", "-x", "选项（", "GCC）"], false);
        check("", &[], true);
        check(" …… ", &["……"], true);
    }

    #[test]
    fn nothing_is_lost_around_a_phrase() {
        for text in ["a b  c d", "他在北京工作。", "使用 -x 选项（GCC）", "ฉันรัก ภาษาไทย"]
        {
            let words = Words::parse(text);
            for start in 0..words.len() {
                for length in 1..=words.len() - start {
                    let (before, after) = words.around(start, length);
                    assert_eq!(format!("{before}{}{after}", words.phrase(start, length)), text);
                }
            }
        }
    }
}
