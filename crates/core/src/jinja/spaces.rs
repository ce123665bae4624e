//! White space and line ends as Python's strings have them.

/// White space of Python's strings.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The lines of a text, with or without what ends them.
pub fn lines(text: &str, keep: bool) -> Vec<&str> {
    let ends_line = |c| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let (mut tail, mut lines) = (text, Vec::new());
    while let Some(at) = tail.find(ends_line) {
        let end = &tail[at..];
        let width = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(1, char::len_utf8) };
        lines.push(if keep { &tail[..at + width] } else { &tail[..at] });
        tail = &tail[at + width..];
    }
    if !tail.is_empty() {
        lines.push(tail);
    }
    lines
}
