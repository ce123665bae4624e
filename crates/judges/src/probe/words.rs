//! Words of some languages that a source and its translation must agree in: numbers, months, weekdays and
//! negations, and the auxiliary verbs that a negation can stand with. The table is `words.tsv`: language,
//! kind, value, and words in lower case. `x*` stands for all words that begin with `x`, `*x` for those that
//! end with it. A word with `?` can have another meaning (`second`, `May`): it counts where it is looked for,
//! and is not required in the other text.

use std::{collections::BTreeMap, sync::LazyLock};

use unicode_segmentation::UnicodeSegmentation;

const TABLE: &str = include_str!("words.tsv");

static LANGUAGES: LazyLock<BTreeMap<&str, Vec<TableWord>>> = LazyLock::new(|| {
    let mut languages: BTreeMap<&str, Vec<TableWord>> = BTreeMap::new();
    for line in TABLE.lines() {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        let (language, kind, value, words) = (next(), Kind::of(next()), next(), next());
        let entries = words.split(' ').filter_map(|word| Some(TableWord::of(kind?, value, word)));
        languages.entry(language).or_default().extend(entries);
    }
    languages
});

/// Kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Number,
    Month,
    Weekday,
    /// A power of ten (`million`), so that numbers beside it have fewer zeros.
    Magnitude,
    Negation,
    Auxiliary,
    /// Characters that look like a negation and are none.
    NoNegation,
}

impl Kind {
    fn is_quantity(self) -> bool {
        matches!(self, Self::Number | Self::Month | Self::Weekday)
    }

    fn of(name: &str) -> Option<Self> {
        match name {
            "number" => Some(Self::Number),
            "month" => Some(Self::Month),
            "weekday" => Some(Self::Weekday),
            "magnitude" => Some(Self::Magnitude),
            "negation" => Some(Self::Negation),
            "auxiliary" => Some(Self::Auxiliary),
            "no negation" => Some(Self::NoNegation),
            _ => None,
        }
    }
}

/// A word of the table.
struct TableWord {
    kind: Kind,
    value: u32,
    pattern: Pattern,
    has_other_meaning: bool,
}

enum Pattern {
    Word(&'static str),
    Beginning(&'static str),
    End(&'static str),
}

impl TableWord {
    fn of(kind: Kind, value: &str, word: &'static str) -> Self {
        let (word, has_other_meaning) = word.strip_suffix('?').map_or((word, false), |word| (word, true));
        let pattern = match (word.strip_suffix('*'), word.strip_prefix('*')) {
            (Some(beginning), _) => Pattern::Beginning(beginning),
            (_, Some(end)) => Pattern::End(end),
            _ => Pattern::Word(word),
        };
        Self { kind, value: value.parse().unwrap_or(0), pattern, has_other_meaning }
    }

    fn text(&self) -> &'static str {
        match self.pattern {
            Pattern::Word(text) | Pattern::Beginning(text) | Pattern::End(text) => text,
        }
    }

    fn fits(&self, word: &str) -> bool {
        match self.pattern {
            Pattern::Word(text) => word == text,
            Pattern::Beginning(text) => word.starts_with(text),
            Pattern::End(text) => word.ends_with(text),
        }
    }
}

/// A number, month or weekday in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub kind: Kind,
    pub value: u32,
    /// True if the word can have another meaning.
    pub has_other_meaning: bool,
}

/// The numbers, months and weekdays that a text names in words, in its order; nothing for a language that is
/// not in the table.
pub fn named(text: &str, language: &str) -> Vec<Named> {
    let Some(entries) = LANGUAGES.get(language) else { return Vec::new() };
    let of_word = |word: &str| {
        let word = word.to_lowercase();
        let entry = entries.iter().find(|entry| entry.kind.is_quantity() && entry.fits(&word))?;
        Some(Named { kind: entry.kind, value: entry.value, has_other_meaning: entry.has_other_meaning })
    };
    // `mid-October` and `Montag-Abend` are two words.
    text.unicode_words().flat_map(|word| word.split('-')).filter_map(of_word).collect()
}

/// True if a word is of a kind in a language.
pub fn is(kind: Kind, word: &str, language: &str) -> bool {
    let word = word.to_lowercase().replace('\u{2019}', "'");
    let entries = LANGUAGES.get(language).into_iter().flatten();
    entries.filter(|entry| entry.kind == kind).any(|entry| entry.fits(&word))
}

/// The numbers, months or weekdays that could replace a word that names one, in lower case: all of its kind
/// with another value. Empty for other words, and for those that can have another meaning.
pub fn others(word: &str, language: &str) -> Vec<&'static str> {
    let word = word.to_lowercase();
    let entries = || LANGUAGES.get(language).into_iter().flatten();
    let is_plain = |entry: &&TableWord| entry.kind.is_quantity() && !entry.has_other_meaning;
    let Some(named) = entries().filter(is_plain).find(|entry| entry.fits(&word)) else { return Vec::new() };
    let is_other = |entry: &&TableWord| entry.kind == named.kind && entry.value != named.value;
    let word = |entry: &TableWord| matches!(entry.pattern, Pattern::Word(_)).then(|| entry.text());
    entries().filter(is_plain).filter(is_other).filter_map(word).collect()
}

/// True if a language's number words are known: in the table, or written in Chinese characters.
pub fn knows_numbers(language: &str) -> bool {
    let is_number = |entry: &TableWord| entry.kind == Kind::Number;
    matches!(language, "zh" | "ja")
        || LANGUAGES.get(language).is_some_and(|entries| entries.iter().any(is_number))
}

/// True if a text has a power of ten in words, or could have one: that of a language that is not in the
/// table.
pub fn may_have_magnitudes(text: &str, language: &str) -> bool {
    match language {
        "zh" | "ja" => text.contains(|c| "十百千万萬亿億".contains(c)),
        _ if knows_numbers(language) => text.unicode_words().any(|word| is(Kind::Magnitude, word, language)),
        _ => true,
    }
}

/// Number of negations in a text; `None` for a language whose negations are not known.
pub fn negations(text: &str, language: &str) -> Option<usize> {
    let entries = LANGUAGES.get(language)?;
    let of = |kind: Kind| entries.iter().filter(move |entry| entry.kind == kind);
    of(Kind::Negation).next()?;
    if matches!(language, "zh" | "ja") {
        let masked =
            of(Kind::NoNegation).fold(text.to_owned(), |masked, entry| masked.replace(entry.text(), " "));
        return Some(of(Kind::Negation).map(|entry| masked.matches(entry.text()).count()).sum());
    }
    Some(text.unicode_words().filter(|word| is(Kind::Negation, word, language)).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        for (at, line) in TABLE.lines().enumerate() {
            let columns: Vec<&str> = line.split('\t').collect();
            let [_, kind, value, words] = columns[..] else { panic!("line {}: `{line}`", at + 1) };
            assert!(Kind::of(kind).is_some(), "line {}: `{kind}`", at + 1);
            assert!(value == "-" || value.parse::<u32>().is_ok(), "line {}: `{value}`", at + 1);
            assert!(words.split(' ').all(|word| !word.is_empty()), "line {}", at + 1);
            assert_eq!(words, words.to_lowercase());
        }
    }

    #[test]
    fn numbers_months_and_weekdays_are_read() {
        let found = |text: &str, language: &str| {
            let of = |named: Named| (named.kind, named.value);
            named(text, language).into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(
            found("Two of them came on Tuesday, mid-October.", "en"),
            [(Kind::Number, 2), (Kind::Weekday, 2), (Kind::Month, 10)]
        );
        assert_eq!(found("Zwölf kamen am Sonnabend", "de"), [(Kind::Number, 12), (Kind::Weekday, 6)]);
        assert_eq!(found("в двадцатом сентября", "ru"), [(Kind::Number, 20), (Kind::Month, 9)]);
        assert!(found("two", "xx").is_empty());
        assert_eq!(others("Monday", "en").len(), 12);
        assert!(others("May", "en").is_empty() && others("house", "en").is_empty());
        assert!(named("May I?", "en")[0].has_other_meaning);
        let have = |text, language| may_have_magnitudes(text, language);
        assert!(have("3 million", "en") && have("3万", "zh") && have("3", "xx") && !have("3 cats", "en"));
    }

    #[test]
    fn negations_are_counted() {
        assert_eq!(negations("I don\u{2019}t know, and no one can\u{27}t not.", "en"), Some(4));
        assert_eq!(negations("Keiner kommt nicht", "de"), Some(2));
        assert_eq!(negations("不过他没有来，不知道", "zh"), Some(2));
        assert_eq!(negations("nothing", "xx"), None);
    }
}
