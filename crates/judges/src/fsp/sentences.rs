//! Sentences of a text by Unicode's rules (UAX #29), scripts without spaces included, and windows over a list
//! of pieces. No language has rules of its own: abbreviations can end a sentence.

use std::ops::Range;

use icu_segmenter::SentenceSegmenter;

/// A text of more sentences than this is a document; WMT's segments are one or a few sentences.
const MAX_SEGMENT: usize = 5;

/// Marks that begin a sentence when one directly follows.
const OPENERS: [char; 13] = ['「', '『', '（', '［', '｛', '〈', '《', '【', '〔', '(', '[', '“', '‘'];

/// The sentences of a text as byte ranges, without the space around them; a text of space alone is one.
///
/// ```
/// use tribunal_judges::fsp::sentences::split;
/// let text = "He went. She stayed!\n他走了。她留下了。";
/// let sentences: Vec<&str> = split(text).into_iter().map(|range| &text[range]).collect();
/// assert_eq!(sentences, ["He went.", "She stayed!", "他走了。", "她留下了。"]);
/// assert_eq!(split(""), [0..0]);
/// ```
pub fn split(text: &str) -> Vec<Range<usize>> {
    let segmenter = SentenceSegmenter::new(icu_segmenter::options::SentenceBreakInvariantOptions::default());
    let breaks: Vec<usize> = segmenter.segment_str(text).map(|at| before_openers(text, at)).collect();
    let mut sentences: Vec<Range<usize>> = Vec::new();
    for pair in breaks.windows(2) {
        let part = &text[pair[0]..pair[1]];
        let start = pair[0] + part.len() - part.trim_start().len();
        let end = start + part.trim().len();
        // Space alone is no sentence, nor are closing marks that stand apart from theirs.
        if text[start..end].chars().any(char::is_alphanumeric) || sentences.is_empty() && start < end {
            sentences.push(start..end);
        } else if let Some(last) = sentences.last_mut().filter(|_| start < end) {
            last.end = end;
        }
    }
    if sentences.is_empty() {
        sentences.push(0..text.len());
    }
    sentences
}

/// The break before the opening marks that stand directly before it: the rules count them to the sentence
/// that ended, which is wrong where no space stands between sentences (`走了。“为什么`).
fn before_openers(text: &str, at: usize) -> usize {
    let goes_on = text[at..].starts_with(|c: char| !c.is_whitespace());
    if goes_on { text[..at].trim_end_matches(OPENERS).len() } else { at }
}

/// True if a text that stands for a whole document is longer than a usual segment.
pub fn is_document(text: &str) -> bool {
    text.trim().contains('\n') || split(text).len() > MAX_SEGMENT
}

/// The pieces, of `n`, that are shown around piece `at` when a text is too long: `parts` is 1 for all of
/// them, 2 for about half, and so on. Neighbours share a window, so that their prompts begin alike.
///
/// ```
/// use tribunal_judges::fsp::sentences::window;
/// assert_eq!(window(20, 3, 1), 0..20);
/// assert_eq!((window(20, 3, 2), window(20, 6, 2)), (0..7, 3..12));
/// assert_eq!(window(20, 6, 2), window(20, 9, 2));
/// assert_eq!(window(20, 6, 16), 6..7);
/// ```
pub fn window(n: usize, at: usize, parts: usize) -> Range<usize> {
    if parts <= 1 {
        return 0..n;
    }
    // Blocks of pieces, each shown with half a block before and behind it.
    let block = n.div_ceil(2 * parts).max(1);
    let start = at / block * block;
    start.saturating_sub(block / 2)..(start + block + block / 2).min(n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let sentences: Vec<&str> = split(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(sentences, expected);
    }

    #[test]
    fn scripts() {
        check("他走了。她问：“为什么？”没人回答！", &["他走了。", "她问：“为什么？”", "没人回答！"]);
        check("彼は行った。「なぜ？」と彼女は聞いた。", &["彼は行った。", "「なぜ？」", "と彼女は聞いた。"]);
        check("他走了。“为什么？”她问。", &["他走了。", "“为什么？”", "她问。"]);
        check("Er sagte: „Nein.“ Er ging.", &["Er sagte: „Nein.“", "Er ging."]);
        check("वह गया। वह रुकी।", &["वह गया।", "वह रुकी।"]);
        check("ذهب. هل بقيت؟ نعم.", &["ذهب.", "هل بقيت؟", "نعم."]);
        check("Version 3.5 is out. It is good.", &["Version 3.5 is out.", "It is good."]);
        check("  One.  \n\n Two ", &["One.", "Two"]);
        check("One. ...", &["One. ..."]);
        check("...", &["..."]);
        check(" ", &[" "]);
    }

    #[test]
    fn documents() {
        assert!(!is_document("One. Two. Three. Four. Five."));
        assert!(is_document("One. Two. Three. Four. Five. Six."));
        assert!(is_document("One\nTwo"));
        assert!(!is_document("One\n"));
    }

    proptest! {
        #[test]
        fn sentences_cover_the_text(text in "([A-Z]?[a-zé ]{0,6}[.!?。]?[ \\n]?){0,12}") {
            let sentences = split(&text);
            let mut rest = 0;
            for sentence in &sentences {
                prop_assert!(text[rest..sentence.start].trim().is_empty() && sentence.start >= rest);
                rest = sentence.end;
            }
            prop_assert!(text[rest..].trim().is_empty());
        }

        #[test]
        fn a_window_holds_its_piece(n in 1_usize..200, at in 0_usize..200, level in 0_u32..9) {
            let at = at % n;
            let shown = window(n, at, 1 << level);
            prop_assert!(shown.contains(&at) && shown.end <= n);
            // Half of the text, a quarter, and in the end the piece alone.
            prop_assert!(level == 0 || shown.len() <= 2 * n.div_ceil(2 << level));
            prop_assert_eq!(window(n, at, 1 << 8), at..at + 1);
        }
    }
}
