//! A text with error spans marked in it, wrapped to a width. Offsets are code points, widths are columns.

use unicode_width::UnicodeWidthChar;

use crate::{
    mqm::{ErrorSpan, Severity, Side},
    plain::is_terminal_control,
};

/// ANSI style of a severity: its colour as background, so that spaces show too.
pub fn ansi(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "\x1b[1;97;41m",
        Severity::Major => "\x1b[30;41m",
        Severity::Minor => "\x1b[30;43m",
        Severity::Neutral => "\x1b[30;46m",
    }
}

pub const RESET: &str = "\x1b[0m";

/// ANSI style of text under more than one span: underlined.
const UNDERLINED: &str = "\x1b[4m";

/// A character with the worst severity of the spans over it, and how many there are.
type Cell = (char, Option<(Severity, usize)>);

/// The lines of a text with the spans of one side marked: coloured by the worst severity over a character
/// and underlined where several overlap, or each between `⟦` and `⟧`.
pub fn lines(text: &str, errors: &[ErrorSpan], side: Side, width: usize, colour: bool) -> Vec<String> {
    let shown = |c: char| match c {
        _ if c.is_control() => '⏎',
        _ if is_terminal_control(c) => '\u{fffd}',
        _ => c,
    };
    let mut cells: Vec<Cell> = text.chars().map(|c| (shown(c), None)).collect();
    let mut spans = Vec::new();
    for error in errors.iter().filter(|e| e.side == side) {
        let (Some(start), Some(end)) = (error.start, error.end) else { continue };
        let end = end.min(cells.len());
        for cell in cells.get_mut(start.min(end)..end).unwrap_or_default() {
            let (worst, n) = cell.1.unwrap_or((error.severity, 0));
            cell.1 = Some((worst.min(error.severity), n + 1));
        }
        if start < end && !spans.contains(&(start, end)) {
            spans.push((start, end));
        }
    }
    let cells = if colour { cells } else { bracketed(&cells, &spans) };
    wrap(&cells, width).iter().map(|line| if colour { painted(line) } else { plain(line) }).collect()
}

/// Puts brackets around each span; a span inside another one nests.
fn bracketed(cells: &[Cell], spans: &[(usize, usize)]) -> Vec<Cell> {
    let mut out = Vec::with_capacity(cells.len() + 2 * spans.len());
    for (i, &(c, mark)) in cells.iter().enumerate() {
        out.extend(spans.iter().filter(|(start, _)| *start == i).map(|_| ('⟦', mark)));
        out.push((c, mark));
        out.extend(spans.iter().filter(|(_, end)| *end == i + 1).map(|_| ('⟧', mark)));
    }
    out
}

fn plain(line: &[Cell]) -> String {
    line.iter().map(|(c, _)| c).collect()
}

fn painted(line: &[Cell]) -> String {
    let mut out = String::new();
    let mut on = None;
    for &(c, mark) in line {
        if mark != on {
            out += if on.is_some() { RESET } else { "" };
            out += mark.map_or("", |(severity, _)| ansi(severity));
            // Spans over each other: an edge inside of another span would not show by its colour alone.
            out += if mark.is_some_and(|(_, n)| n > 1) { UNDERLINED } else { "" };
            on = mark;
        }
        out.push(c);
    }
    out + if on.is_some() { RESET } else { "" }
}

/// A text without spans in lines that fit a width.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    lines(text, &[], Side::Target, width, false)
}

/// A text that fits a width: a longer one is cut and ends in `…`.
pub fn shortened(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Columns of a text on a terminal: two for a wide character, none for a combining one.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Breaks lines greedily at spaces and next to wide characters; a word longer than a line is split.
fn wrap(cells: &[Cell], width: usize) -> Vec<Vec<Cell>> {
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    let mut line: Vec<Cell> = Vec::new();
    let mut used = 0;
    for &cell in cells {
        let w = cell.0.width().unwrap_or(0);
        if used + w > width && w > 0 && !line.is_empty() {
            let overflow = if cell.0 == ' ' { Vec::new() } else { line.split_off(break_at(&line, cell.0)) };
            lines.push(std::mem::replace(&mut line, overflow));
            used = line.iter().map(|(c, _)| c.width().unwrap_or(0)).sum();
            if cell.0 == ' ' {
                continue;
            }
        }
        line.push(cell);
        used += w;
    }
    lines.push(line);
    for line in &mut lines {
        let end = line.iter().rposition(|&cell| cell != (' ', None)).map_or(0, |at| at + 1);
        line.truncate(end);
    }
    lines
}

/// Position where a full line may end: after its last space, or after its last wide character.
fn break_at(line: &[Cell], next: char) -> usize {
    if wide(next) && line.last().is_none_or(|(c, _)| *c != '⟦') {
        return line.len();
    }
    line.iter().rposition(|&(c, _)| c == ' ' || wide(c)).map_or(line.len(), |at| at + 1)
}

fn wide(c: char) -> bool {
    c.width() == Some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(start: usize, end: usize, severity: Severity) -> ErrorSpan {
        ErrorSpan {
            span: String::new(),
            side: Side::Target,
            start: Some(start),
            end: Some(end),
            ambiguous: false,
            category: String::new(),
            severity,
            weight: 1.0,
            explanation: None,
            suggestion: None,
            confidence: None,
            times: 1,
        }
    }

    fn shown(text: &str, errors: &[ErrorSpan], width: usize) -> String {
        lines(text, errors, Side::Target, width, false).join("\n")
    }

    #[test]
    fn spans_are_marked_by_code_points() {
        let errors = [error(4, 12, Severity::Major), error(7, 10, Severity::Critical)];
        assert_eq!(shown("Ein grüner 😀 Tag", &errors, 80), "Ein ⟦grü⟦ner⟧ 😀⟧ Tag");
        assert_eq!(shown("abc", &[error(1, 99, Severity::Minor)], 80), "a⟦bc⟧");
        assert_eq!(shown("abc", &[error(5, 9, Severity::Minor)], 80), "abc");
        let painted = lines("a b", &[error(2, 3, Severity::Minor)], Side::Target, 80, true);
        assert_eq!(painted, ["a \u{1b}[30;43mb\u{1b}[0m"]);
        let nested = [error(0, 3, Severity::Minor), error(1, 2, Severity::Minor)];
        let painted = lines("abc", &nested, Side::Target, 80, true);
        let [on, off, twice] = ["\u{1b}[30;43m", "\u{1b}[0m", "\u{1b}[4m"];
        assert_eq!(painted, [format!("{on}a{off}{on}{twice}b{off}{on}c{off}")]);
    }

    #[test]
    fn lines_fit_the_width() {
        assert_eq!(shown("one two three", &[], 8), "one two\nthree");
        assert_eq!(shown("abcdefghij", &[], 4), "abcd\nefgh\nij");
        let chinese = shown("他昨天在北京买了一本书", &[error(5, 7, Severity::Major)], 8);
        assert_eq!(chinese, "他昨天在\n北⟦京买⟧\n了一本书");
        let mixed =
            "Das Wort 北京市 steht im Satz und e\u{301}le\u{300}ve bleibt ganz, Donaudampfschifffahrt";
        for width in 4..40 {
            let lines = lines(mixed, &[error(9, 12, Severity::Minor)], Side::Target, width, false);
            assert!(lines.iter().all(|line| columns(line.trim_end()) <= width), "{width}: {lines:?}");
            let text: String = lines.concat().replace([' ', '⟦', '⟧'], "");
            assert_eq!(text, mixed.replace(' ', ""));
        }
    }
}
