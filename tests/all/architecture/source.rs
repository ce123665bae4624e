//! A Rust file as the architecture test sees it: its code without comments, strings and tests, and what it
//! imports. It is no parser: enough of a lexer to tell code from text.

use std::{fs, path::Path};

/// One file of `src/`.
pub struct Source {
    /// Relative to `src/`, with slashes, behind the room that the whole crate is, if it is one.
    pub path: String,
    /// The room whose modules lie at the root of the crate: what `crate::` means there, but for other rooms.
    pub root: &'static str,
    pub text: String,
    /// The text up to the trailing `#[cfg(test)]`, with comments and the insides of strings blanked; the
    /// lines are those of the text.
    pub code: String,
    /// Line and text of each string in `code`.
    pub literals: Vec<(usize, String)>,
}

impl Source {
    /// A file of a crate that is the room `root`; empty for a crate of several rooms.
    pub fn read(folder: &Path, root: &'static str, path: &Path) -> Self {
        let relative = path.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/");
        let relative = match relative.as_str() {
            _ if root.is_empty() => relative,
            "lib.rs" => format!("{root}.rs"),
            path if ["evidence", "gguf"].iter().any(|room| path.starts_with(room)) => relative,
            path => format!("{root}/{path}"),
        };
        Self { root, ..Self::new(relative, fs::read_to_string(path).unwrap()) }
    }

    pub fn new(path: String, text: String) -> Self {
        let end = text.find("\n#[cfg(test)]\nmod ").map_or(text.len(), |at| at + 1);
        let (code, literals) = blanked(&text[..end]);
        Self { path, root: "", text, code, literals }
    }

    /// The first module of the path: `engine` for `engine/radix.rs` and for `engine.rs`.
    pub fn room(&self) -> &str {
        self.path.split('/').next().unwrap_or("").trim_end_matches(".rs")
    }

    /// The whole file is a test module.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Line and name of each room that the code names through `crate::`, `tribunal::` or enough `super::`.
    pub fn imports(&self) -> Vec<(usize, String)> {
        if self.is_test() {
            return Vec::new();
        }
        let depth = self.path.split('/').count();
        let mut found = Vec::new();
        let root = if self.room() == "main" { "tribunal::" } else { "crate::" };
        for start in [root.to_owned(), "super::".repeat(depth)] {
            let mut from = 0;
            while let Some(at) = self.code[from..].find(&start).map(|at| from + at) {
                from = at + start.len();
                let is_longer_word = self.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if !is_longer_word {
                    let line = self.code[..at].matches('\n').count() + 1;
                    found.extend(heads(&self.code[from..]).into_iter().map(|name| (line, name)));
                }
            }
        }
        found
    }
}

/// The first names of a use tree: `a` of `a::b`, `a` and `c` of `{a::b, c::{d, e}}`.
fn heads(tree: &str) -> Vec<String> {
    let word =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let Some(group) = tree.strip_prefix('{') else { return vec![word(tree)] };
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().map(|part| word(part)).filter(|name: &String| !name.is_empty()).collect()
}

/// The code with comments and strings blanked, and the strings.
fn blanked(text: &str) -> (String, Vec<(usize, String)>) {
    let mut code = String::with_capacity(text.len());
    let mut literals = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(c) = rest.chars().next() {
        let previous_is_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let raw = if previous_is_word { None } else { raw_string(rest) };
        let (kept, n) = if rest.starts_with("//") {
            ("", rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            ("", rest.find("*/").map_or(rest.len(), |at| at + 2))
        } else if let Some((inside, n)) = raw {
            literals.push((line, inside));
            ("\"\"", n)
        } else if c == '"' {
            let n = string_end(rest);
            literals.push((line, rest[1..n - 1].to_owned()));
            ("\"\"", n)
        } else if let Some(n) = char_literal(rest) {
            ("' '", n)
        } else {
            (&rest[..c.len_utf8()], c.len_utf8())
        };
        code.push_str(kept);
        if kept.len() != n {
            code.extend(rest[..n].matches('\n'));
        }
        line += rest[..n].matches('\n').count();
        rest = &rest[n..];
    }
    (code, literals)
}

/// Inside and length of a raw string at the beginning of `text`.
fn raw_string(text: &str) -> Option<(String, usize)> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inside = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inside.find(&close)?;
    let before = text.len() - inside.len();
    Some((inside[..end].to_owned(), before + end + close.len()))
}

/// Length of the string at the beginning of `text`, quotes included.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => (),
        }
    }
    text.len()
}

/// Length of a character literal (not of a lifetime) at the beginning of `text`.
fn char_literal(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        return inside[2..].find('\'').map(|at| at + 4);
    }
    inside[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

#[test]
fn imports_are_found_however_they_are_written() {
    let names = |path: &str, text: &str| {
        Source::new(path.into(), text.into()).imports().into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("a/b.rs", "use crate::{llm::{self, Chat}, model, mqm::x::Y};"), ["llm", "model", "mqm"]);
    assert_eq!(names("a.rs", "use crate::model;\nfn f() { crate::run::go() }"), ["model", "run"]);
    assert_eq!(names("a/b.rs", "use super::super::model::x; use super::c;"), ["model"]);
    assert_eq!(names("main.rs", "fn main() { tribunal::cli::main() }"), ["cli"]);
    assert_eq!(names("a.rs", "// crate::model\nlet s = \"crate::model\"; my_crate::x();"), [""; 0]);
    assert_eq!(names("a.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests { use crate::model; }"), [""; 0]);
    assert_eq!(names("a/tests.rs", "use crate::model;"), [""; 0]);
}

#[test]
fn strings_and_comments_are_told_from_code() {
    let text = "let a = \"x\\\"y\"; // no \"z\"\nlet b = r#\"q\"r\"#; let c = '\"'; let d: &'static str = b\"w\";\n/* \"v\"\n */ end";
    let source = Source::new("a.rs".into(), text.into());
    let literals: Vec<_> = source.literals.iter().map(|(line, text)| (*line, text.as_str())).collect();
    assert_eq!(literals, [(1, "x\\\"y"), (2, "q\"r"), (2, "w")]);
    assert_eq!(source.code.lines().count(), 4);
    assert!(source.code.lines().nth(3).unwrap().contains("end"), "{:?}", source.code);
    assert!(!source.code.contains('z') && !source.code.contains('v'));
}
