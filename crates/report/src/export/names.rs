//! Names of systems and documents in formats that cannot hold all of them. Changes are reported, and no two
//! names become one.

use std::collections::BTreeMap;

use super::Error;
use crate::plain::is_terminal_control;

/// Number of changed names that are listed one by one.
const LISTED: usize = 5;

/// The names of one kind as a format writes them.
pub struct Names {
    /// `system`, `document`.
    noun: &'static str,
    /// A name as the format can hold it.
    hold: fn(&str) -> String,
    /// The names by what is written.
    written: BTreeMap<String, String>,
}

impl Names {
    pub fn new(noun: &'static str, hold: fn(&str) -> String) -> Self {
        Self { noun, hold, written: BTreeMap::new() }
    }

    /// The name as written.
    ///
    /// # Errors
    /// [`Error::Names`] where another name is written alike.
    pub fn written(&mut self, name: &str) -> Result<String, Error> {
        let written = (self.hold)(name);
        let first = self.written.entry(written.clone()).or_insert_with(|| name.to_owned());
        if first == name {
            return Ok(written);
        }
        Err(Error::Names { noun: self.noun, first: first.clone(), second: name.to_owned(), written })
    }

    /// Notes on changed names, with the reason.
    pub fn notes(&self, why: &str) -> Vec<String> {
        let changed: Vec<_> = self.written.iter().filter(|(written, name)| written != name).collect();
        let mut notes: Vec<String> = changed
            .iter()
            .take(LISTED)
            .map(|(written, name)| format!("the {} {name:?} is written as {written:?}: {why}", self.noun))
            .collect();
        if changed.len() > LISTED {
            notes.push(format!(
                "{} more names of a {} are changed like this",
                changed.len() - LISTED,
                self.noun
            ));
        }
        notes
    }
}

/// A name whose white space is `_`, for formats that cut lines at white space.
pub fn unspaced(name: &str) -> String {
    name.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect()
}

/// Names that are a device in every folder of Windows, with any ending.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A name as a part of a file's name on any system: without white space, control characters, what separates
/// paths or is no character of a name on Windows, a dot in front (a hidden file, or a folder above) and names
/// of devices.
pub fn file_name(name: &str) -> String {
    let is_unfit = |c: char| c.is_whitespace() || is_terminal_control(c) || "/\\:*?\"<>|".contains(c);
    let mut written = name.replace(is_unfit, "_");
    let stem = written.split('.').next().unwrap_or_default().to_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt")).and_then(|n| n.chars().next());
    let is_port = stem.chars().count() == 4 && port.is_some_and(|n| n.is_ascii_digit() || "¹²³".contains(n));
    if stem.is_empty() || is_port || DEVICES.contains(&stem.as_str()) {
        let dotless = written.strip_prefix('.').unwrap_or(&written);
        written = format!("_{dotless}");
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_files_of_the_folder_everywhere() {
        for (name, written) in [
            ("Llama-3.1-8B", "Llama-3.1-8B"),
            ("org/model-7B", "org_model-7B"),
            ("GLM 4", "GLM_4"),
            ("..", "_."),
            (".x", "_x"),
            ("", "_"),
            ("CON", "_CON"),
            ("nul.tar", "_nul.tar"),
            ("Lpt9", "_Lpt9"),
            ("com10", "com10"),
            ("console", "console"),
            ("a\u{1b}[2Jb\u{202e}", "a_[2Jb_"),
            ("C:\\a?", "C__a_"),
        ] {
            assert_eq!(file_name(name), written, "{name:?}");
        }
    }

    #[test]
    fn no_two_names_become_one() {
        let mut names = Names::new("system", unspaced);
        assert_eq!(names.written("GPT 4\u{a0}o").unwrap(), "GPT_4_o");
        assert_eq!(names.written("A").unwrap(), "A");
        assert_eq!(names.written("GPT 4\u{a0}o").unwrap(), "GPT_4_o");
        assert_eq!(
            names.notes("no spaces"),
            ["the system \"GPT 4\\u{a0}o\" is written as \"GPT_4_o\": no spaces"]
        );
        let error = names.written("GPT_4_o").unwrap_err().to_string();
        assert!(error.contains("would both be written as \"GPT_4_o\""), "{error}");
    }
}
