//! Texts made harmless for a terminal: what a name or an answer contains must not move the cursor or turn the writing
//! around. It lays out nothing.

use std::borrow::Cow;

/// A text whose control characters (other than line ends and tabs) and changes of writing direction are shown as
/// `\u{..}`.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if acts(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("\u{1b}[31mred\r\u{9b}2J\u{7}"), "\\u{1b}[31mred\\u{d}\\u{9b}2J\\u{7}");
        assert_eq!(plain("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(plain("tab\tline\nשלום 高"), "tab\tline\nשלום 高");
    }
}
