//! Words of code: doc comments name the thing, and variables their value. Limits are the counts reached; a
//! change lowers them.

use regex::Regex;

use super::{expect_none, sources};

/// Names that need their context to mean something.
const DEICTIC: &str = "what|own|there|whole|rest|said|given|asked|kept|wanted|here";

/// Variables, parameters and fields of such names.
const MOST_DEICTIC: usize = 60;

/// Functions called `of`, most of which should say what they make: `parse`, `from_path`, `new`.
const MOST_OF: usize = 45;

#[test]
fn doc_comments_name_the_thing() {
    let vague = Regex::new(r"^\s*//[/!] (?:What|Whatever|Whether)\b").unwrap();
    let is_doc = |line: &str| line.trim_start().starts_with("//!") || line.trim_start().starts_with("///");
    let found = sources().into_iter().flat_map(|source| {
        let lines: Vec<&str> = source.text.lines().collect();
        let begins = |i: &usize| vague.is_match(lines[*i]) && (*i == 0 || !is_doc(lines[i - 1]));
        let at = (0..lines.len())
            .filter(begins)
            .map(|i| format!("{}:{}: {}", source.path, i + 1, lines[i].trim()));
        at.collect::<Vec<_>>()
    });
    expect_none("doc comments that begin with What or Whether", found);
}

#[test]
fn variables_say_what_they_hold() {
    let bound = format!(
        r"\blet\b[^=;]*\b(?:{DEICTIC})\b[^=;]*=|\bfor\b[^{{;]*\b(?:{DEICTIC})\b[^{{;]*\bin\b|\|[^|=;{{}}.]*\b(?:{DEICTIC})\b[^|=;{{}}]*\||\b(?:{DEICTIC}): (?:[&A-Z\[(]|impl|dyn|bool|f32|f64|u8|u32|u64|i32|usize)"
    );
    expect_at_most(MOST_DEICTIC, &bound);
}

#[test]
fn constructors_say_what_they_make() {
    expect_at_most(MOST_OF, r"\bfn of\b");
}

/// Tables and drawings may be wider.
#[test]
fn comments_are_at_most_110_columns_wide() {
    let is_wide = |line: &str| line.chars().count() > 110 && line.trim_start().starts_with("//");
    let found = sources().into_iter().flat_map(|source| {
        let lines = source.text.lines().enumerate();
        let is_drawn = |line: &str| line.contains(['|', '─']) || line.trim_start().contains("    ");
        let wide = lines.filter(|(_, line)| is_wide(line) && !is_drawn(line));
        wide.map(|(i, _)| format!("{}:{}", source.path, i + 1)).collect::<Vec<_>>()
    });
    expect_none("comments of more than 110 columns", found);
}

/// Fails with all lines of code that match, if there are more than `most`.
#[track_caller]
fn expect_at_most(most: usize, pattern: &str) {
    let pattern = Regex::new(pattern).unwrap();
    let of_source = |source: &super::Source| {
        let lines = source.code.lines().enumerate().filter(|(_, line)| pattern.is_match(line));
        lines.map(|(i, line)| format!("{}:{}: {}", source.path, i + 1, line.trim())).collect::<Vec<_>>()
    };
    let found: Vec<String> =
        sources().iter().filter(|source| !source.is_test()).flat_map(of_source).collect();
    assert!(found.len() <= most, "{} lines, {most} allowed:\n  {}", found.len(), found.join("\n  "));
}
