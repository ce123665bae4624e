//! Papers of methods, models and test sets as BibTeX entries, from `bibliography.bib`. Methods name their own
//! by key.

const ENTRIES: &str = include_str!("bibliography.bib");

/// A BibTeX entry whose fields have a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub text: &'static str,
}

/// All entries, in the order of the file.
pub fn entries() -> impl Iterator<Item = Entry> {
    let texts = ENTRIES.split("\n\n").map(str::trim);
    texts.filter(|text| text.starts_with('@')).map(|text| Entry { text })
}

/// The entry with this key.
pub fn find(key: &str) -> Option<Entry> {
    entries().find(|entry| entry.key() == key)
}

impl Entry {
    /// The key by which `\cite` names it.
    pub fn key(&self) -> &'static str {
        let head = self.text.lines().next().unwrap_or_default();
        head.split_once('{').map_or("", |(_, key)| key.trim_end_matches(','))
    }

    /// The value of a field, without its outer braces.
    pub fn field(&self, name: &str) -> Option<&'static str> {
        self.text.lines().find_map(|line| {
            let value = line.trim().strip_prefix(name)?.strip_prefix(" = {")?;
            value.strip_suffix("},")
        })
    }

    /// Authors and year as in running text: `Kocmi and Federmann 2023`, `Rei et al. 2022`. Works without a
    /// year have none.
    pub fn label(&self) -> String {
        let authors: Vec<&str> = self.field("author").unwrap_or_default().split(" and ").collect();
        let family = |author: &str| author.split(',').next().unwrap_or(author).replace(['{', '}'], "");
        let names = match authors[..] {
            [one] => family(one),
            [one, two] if two != "others" => format!("{} and {}", family(one), family(two)),
            [one, ..] => format!("{} et al.", family(one)),
            [] => String::new(),
        };
        self.field("year").map_or(names.clone(), |year| format!("{names} {year}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry::METHODS;

    #[test]
    fn every_entry_is_complete() {
        let mut keys = BTreeSet::new();
        for entry in entries() {
            let Entry { text } = entry;
            assert!(keys.insert(entry.key()), "{} is there twice", entry.key());
            assert!(text.ends_with("\n}"), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
            let fields = text.lines().skip(1).filter(|line| *line != "}");
            for line in fields {
                assert!(line.starts_with("    ") && line.contains(" = {") && line.ends_with("},"), "{line}");
            }
            let has = |name: &str| entry.field(name).is_some_and(|value| !value.is_empty());
            assert!(has("title") && has("author"), "{text}");
            assert!(has("year") || has("howpublished"), "{text}");
            assert!(!text.starts_with("@inproceedings") || has("booktitle"), "{text}");
        }
        assert!(keys.len() > 30, "{keys:?}");
    }

    #[test]
    fn every_method_has_the_papers_that_its_citation_names() {
        for method in METHODS {
            assert!(!method.papers.is_empty() || method.name == "reward", "{} has no paper", method.name);
            for key in method.papers {
                assert!(find(key).is_some(), "{}: `{key}` is not in bibliography.bib", method.name);
            }
            // Each family name before a year is that of a paper.
            let words: Vec<&str> = method.citation.split([' ', ',', ';', '(', ')']).collect();
            let is_year = |word: &str| word.len() == 4 && word.starts_with("20");
            for (i, _) in words.iter().enumerate().filter(|(_, word)| is_year(word)) {
                let named = words[..i].iter().rev().find(|word| word.starts_with(char::is_uppercase));
                let is_of = |key: &&str| find(key).unwrap().text.contains(named.unwrap());
                assert!(method.papers.iter().any(is_of), "{}: {}", method.name, words[i]);
            }
        }
    }

    #[test]
    fn labels_are_as_in_running_text() {
        let label = |key: &str| find(key).unwrap().label();
        assert_eq!(label("kim-2025-rubric"), "Kim 2025");
        assert_eq!(label("kocmi-federmann-2023-large"), "Kocmi and Federmann 2023");
        assert_eq!(label("yang-etal-2025-qwen3"), "Yang et al. 2025");
        assert_eq!(label("rei-etal-2022-comet"), "Rei et al. 2022");
        assert_eq!(label("gemba-code"), "MicrosoftTranslator");
        assert_eq!(find("unknown-1999"), None);
    }
}
