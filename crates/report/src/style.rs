//! The style of a text report: width, colours, and the format of scores.

use super::marked;

/// Destination of a text: width and colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns.
    pub width: usize,
    pub colour: bool,
}

/// Wraps sentences at the style's width.
pub fn wrapped(lines: impl IntoIterator<Item = String>, style: TextStyle) -> String {
    let lines = lines.into_iter().flat_map(|line| marked::wrapped(&line, style.width));
    lines.map(|line| line + "\n").collect()
}

/// A score with two digits; a dash where there is none.
pub fn score(score: Option<f64>) -> String {
    score.map_or("-".into(), |score| format!("{score:.2}"))
}

/// A text in an ANSI style, where colours are wanted.
pub fn paint(text: &str, ansi: &str, style: TextStyle) -> String {
    if style.colour { format!("{ansi}{text}{}", marked::RESET) } else { text.into() }
}
