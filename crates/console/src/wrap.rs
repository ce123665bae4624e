//! Wrapping of lines to a terminal's width: lines are broken between words, never inside a text between two
//! backticks, which may have to be copied. Output to other places than a terminal is not wrapped.

use std::io::IsTerminal;

use terminal_size::terminal_size_of;
use unicode_width::UnicodeWidthStr;

/// Narrower terminals break lines themselves: wrapped ones would be harder to read there.
const NARROWEST: usize = 40;

/// Columns of standard output: those of `COLUMNS`, or of the terminal; `None` without either, and where they
/// are too few to wrap for.
pub fn stdout_columns() -> Option<usize> {
    let out = std::io::stdout();
    columns(out.is_terminal(), terminal_size_of(&out))
}

/// Columns of standard error, as [`stdout_columns`].
pub fn stderr_columns() -> Option<usize> {
    let out = std::io::stderr();
    columns(out.is_terminal(), terminal_size_of(&out))
}

/// True if standard error is a terminal on which lines can be redrawn: not a dumb one.
pub fn stderr_redraws() -> bool {
    std::io::stderr().is_terminal() && !is_dumb()
}

/// True if `TERM` names a terminal without escape sequences.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn columns(is_terminal: bool, size: Option<(terminal_size::Width, terminal_size::Height)>) -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = named.or_else(|| size.filter(|_| is_terminal).map(|(columns, _)| usize::from(columns.0)));
    columns.filter(|columns| *columns >= NARROWEST)
}

/// Wraps a message at `width` columns; a longer word has a line of its own. Continuation lines are indented
/// by two columns more than the first; a command to copy (`next: ...`) stays one line.
pub fn message(text: &str, width: usize) -> String {
    let lines = text.split('\n').map(|line| {
        if line.width() <= width || line.starts_with("next: ") {
            return line.to_owned();
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let [first, next] = [indent, indent + 2].map(|n| " ".repeat(n));
        // The first line could take two columns more.
        first + &broken(line, width.saturating_sub(indent + 2)).join(&format!("\n{next}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A column of names and a column of values, which are wrapped at `width`; without a width, each on one line.
pub fn fields<N: AsRef<str>, V: AsRef<str>>(rows: &[(N, V)], width: Option<usize>) -> String {
    let name_width = rows.iter().map(|(name, _)| name.as_ref().width()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for (name, value) in rows {
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(name_width).max(NARROWEST / 2));
        let blank = " ".repeat(name_width);
        for (i, line) in broken(value.as_ref(), room).iter().enumerate() {
            let name = if i == 0 { name.as_ref() } else { "" };
            let line = format!("{name}{}{line}", &blank[name.width()..]);
            out += line.trim_end();
            out.push('\n');
        }
    }
    out
}

/// A line's words in lines of at most `width` columns; a word that is longer has a line of its own.
pub fn broken(line: &str, width: usize) -> Vec<String> {
    if line.width() <= width {
        return vec![line.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words(line) {
        match lines.last_mut() {
            Some(last) if last.width() + 1 + word.width() <= width => {
                last.push(' ');
                last.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The unbreakable pieces of a line: words, and texts between two backticks.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        match words.last_mut().filter(|_| is_open) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_broken_between_words_and_commands_stay_whole() {
        let text = "error: unknown model card `nix`\nhint: `tribunal models list --format json` lists them, and a \
                    path works as well\n  16 of 16 verdicts have the score -5, as in system-a\nnext: tribunal score \
                    --method probe:fit=fit.json --model x";
        insta::assert_snapshot!(message(text, 50), @"
        error: unknown model card `nix`
        hint: `tribunal models list --format json` lists
          them, and a path works as well
          16 of 16 verdicts have the score -5, as in
            system-a
        next: tribunal score --method probe:fit=fit.json --model x
        ");
        assert_eq!(message("short\n\nlines", 50), "short\n\nlines");
    }

    #[test]
    fn values_stand_beside_their_names() {
        let rows = [("paper", "Kocmi and Federmann, GEMBA-MQM, WMT 2023"), ("", "and more"), ("empty", "")];
        insta::assert_snapshot!(fields(&rows, Some(30)), @"
        paper  Kocmi and Federmann,
               GEMBA-MQM, WMT 2023
               and more
        empty
        ");
        assert_eq!(fields(&rows[..1], None), "paper  Kocmi and Federmann, GEMBA-MQM, WMT 2023\n");
    }

    #[test]
    fn wide_characters_count_twice_and_long_words_stand_alone() {
        assert_eq!(broken("腾讯 翻译 x", 5), ["腾讯", "翻译", "x"]);
        assert_eq!(broken("a 0123456789 b", 5), ["a", "0123456789", "b"]);
        assert_eq!(broken("`not closed at all", 5), ["`not closed at all"]);
    }
}
