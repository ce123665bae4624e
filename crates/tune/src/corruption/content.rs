//! Content errors: a negation removed or inserted, another number, date or name, a clause omitted or taken
//! from another text. Each changes a few words and leaves a fluent sentence, so that only the source reveals
//! it.

use unicode_segmentation::UnicodeSegmentation;

use super::Draws;
use crate::{
    judges::probe::words::{self, Kind as Words},
    segment::Segment,
};

/// Words of a clause.
const CLAUSE: std::ops::RangeInclusive<usize> = 4..=14;

/// Source of names and clauses: translations into one language.
#[derive(Default)]
pub(super) struct Pool<'a> {
    names: Vec<&'a str>,
    /// With the source of their text.
    clauses: Vec<(&'a str, &'a str)>,
}

/// A piece of a text, in bytes.
type Place = std::ops::Range<usize>;

impl<'a> Pool<'a> {
    pub fn add(&mut self, segment: &'a Segment) {
        let text = segment.hypothesis.as_str();
        self.names.extend(names(segment).into_iter().map(|place| &text[place]));
        self.clauses
            .extend(clauses(text).into_iter().map(|place| (segment.source.as_str(), text[place].trim())));
    }
}

/// Makes an error of one kind; `None` in a text without a place for it.
type Kind = fn(&Segment, &Pool<'_>, &mut Draws) -> Option<String>;

const KINDS: [(&str, Kind); 6] = [
    ("negation", negation),
    ("number", number),
    ("date", date),
    ("name", name),
    ("omission", omission),
    ("addition", addition),
];

/// The translation with one such error, and its kind; `None` where it has no place for any.
pub(super) fn corrupt(
    segment: &Segment,
    pool: &Pool<'_>,
    draws: &mut Draws,
) -> Option<(String, &'static str)> {
    let first = draws.below(KINDS.len());
    (0..KINDS.len()).find_map(|i| {
        let (name, make) = KINDS[(first + i) % KINDS.len()];
        Some((make(segment, pool, draws)?, name))
    })
}

fn one_of<'a, T>(all: &'a [T], draws: &mut Draws) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[draws.below(all.len())])
}

fn replaced(text: &str, Place { start, end }: Place, with: &str) -> String {
    [&text[..start], with, &text[end..]].concat()
}

/// A negation is dropped, or added behind (in Russian in front of) an auxiliary verb.
fn negation(segment: &Segment, _: &Pool<'_>, draws: &mut Draws) -> Option<String> {
    let (text, language) = (&segment.hypothesis, segment.tgt_lang.language());
    let of = |kind| -> Vec<(usize, &str)> {
        text.unicode_word_indices().filter(|(_, word)| words::is(kind, word, language)).collect()
    };
    if let Some((at, word)) = one_of(&of(Words::Negation), draws) {
        let place = *at..at + word.len();
        if let Some(positive) = positive(word, language) {
            return Some(replaced(text, place, &positive));
        }
        let end = text[place.end..].chars().next().filter(|c| c.is_whitespace()).map_or(0, char::len_utf8);
        return Some(replaced(text, place.start..place.end + end, ""));
    }
    let (at, verb) = *one_of(&of(Words::Auxiliary), draws)?;
    let negated = match language {
        "en" => format!("{verb} not"),
        "de" => format!("{verb} nicht"),
        "ru" => format!("не {verb}"),
        _ => return None,
    };
    Some(replaced(text, at..at + verb.len(), &negated))
}

/// The positive form of a negated word, where the word cannot just be left out.
fn positive(word: &str, language: &str) -> Option<String> {
    let word = word.replace('\u{2019}', "'");
    match language {
        "en" if word.eq_ignore_ascii_case("can't") || word.eq_ignore_ascii_case("cannot") => {
            Some("can".into())
        }
        "en" if word.eq_ignore_ascii_case("won't") => Some("will".into()),
        "en" => word.strip_suffix("n't").map(str::to_owned),
        "de" => ["kein", "Kein"]
            .iter()
            .find_map(|negative| word.strip_prefix(negative))
            .map(|ending| format!("ein{ending}")),
        _ => None,
    }
}

/// Another first digit, of a number that is no year, or another number in words.
fn number(segment: &Segment, _: &Pool<'_>, draws: &mut Draws) -> Option<String> {
    let text = &segment.hypothesis;
    let found: Vec<Place> = digits(text).into_iter().filter(|place| !is_year(&text[place.clone()])).collect();
    if let Some(Place { start, .. }) = one_of(&found, draws).cloned() {
        let others: Vec<char> = ('1'..='9').filter(|digit| !text[start..].starts_with(*digit)).collect();
        return Some(replaced(text, start..start + 1, &one_of(&others, draws)?.to_string()));
    }
    let is_number = |word: &str| {
        words::named(word, segment.tgt_lang.language()).iter().any(|named| named.kind == Words::Number)
    };
    named(segment, is_number, draws)
}

/// Another month, weekday or year.
fn date(segment: &Segment, _: &Pool<'_>, draws: &mut Draws) -> Option<String> {
    let text = &segment.hypothesis;
    let years: Vec<Place> = digits(text).into_iter().filter(|place| is_year(&text[place.clone()])).collect();
    let is_date = |word: &str| {
        words::named(word, segment.tgt_lang.language()).iter().any(|named| named.kind != Words::Number)
    };
    named(segment, is_date, draws).or_else(|| {
        let place = one_of(&years, draws)?.clone();
        let year: i64 = text[place.clone()].parse().ok()?;
        let other = year + one_of(&[-11, -6, -4, -3, -2, -1, 1, 2, 4], draws)?;
        Some(replaced(text, place, &other.to_string()))
    })
}

/// A number, month or weekday in words is replaced by another.
fn named(segment: &Segment, is_wanted: impl Fn(&str) -> bool, draws: &mut Draws) -> Option<String> {
    let (text, language) = (&segment.hypothesis, segment.tgt_lang.language());
    let found: Vec<(usize, &str, Vec<&str>)> = text
        .unicode_word_indices()
        .map(|(at, word)| (at, word, words::others(word, language)))
        .filter(|(_, word, others)| !others.is_empty() && is_wanted(word))
        .collect();
    let (at, word, others) = one_of(&found, draws)?;
    let other = one_of(others, draws)?;
    let is_capital = word.chars().next().is_some_and(char::is_uppercase);
    let other = if is_capital { capitalized(other) } else { (*other).to_owned() };
    Some(replaced(text, *at..at + word.len(), &other))
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The name of another text.
fn name(segment: &Segment, pool: &Pool<'_>, draws: &mut Draws) -> Option<String> {
    let text = &segment.hypothesis;
    let place = one_of(&names(segment), draws)?.clone();
    let other = one_of(&pool.names, draws)?;
    (!text.contains(*other)).then(|| replaced(text, place, other))
}

/// A clause between commas, or from a comma to the end of its sentence, is left out.
fn omission(segment: &Segment, _: &Pool<'_>, draws: &mut Draws) -> Option<String> {
    let text = &segment.hypothesis;
    let Place { start, end } = one_of(&clauses(text), draws)?.clone();
    let end = end + usize::from(text[end..].starts_with(','));
    Some(replaced(text, start - 1..end, ""))
}

/// A clause of another text stands in front of a punctuation mark.
fn addition(segment: &Segment, pool: &Pool<'_>, draws: &mut Draws) -> Option<String> {
    let text = &segment.hypothesis;
    let is_mark = |(at, c): &(usize, char)| {
        ",.;!?".contains(*c) && text[at + 1..].chars().next().is_none_or(char::is_whitespace)
    };
    let marks: Vec<usize> = text.char_indices().filter(is_mark).map(|(at, _)| at).collect();
    let at = *one_of(&marks, draws)?;
    let (source, clause) = one_of(&pool.clauses, draws)?;
    (*source != segment.source).then(|| replaced(text, at..at, &format!(", {clause}")))
}

/// Runs of digits that stand alone.
fn digits(text: &str) -> Vec<Place> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let n = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_word = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        if n > 0 && !is_word {
            found.push(at..at + n);
        }
        at += n.max(1);
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    found
}

fn is_year(digits: &str) -> bool {
    digits.len() == 4 && (digits.starts_with("19") || digits.starts_with("20"))
}

/// Words that begin with a capital behind another word; in German, whose nouns do, those that the source has
/// as well.
fn names(segment: &Segment) -> Vec<Place> {
    let text = &segment.hypothesis;
    let is_german = segment.tgt_lang.language() == "de";
    let of_source: Vec<&str> = if is_german { segment.source.unicode_words().collect() } else { Vec::new() };
    let found: Vec<(usize, &str)> = text.unicode_word_indices().collect();
    let is_name = |two: &&[(usize, &str)]| {
        let ((first, before), (at, word)) = (two[0], two[1]);
        let is_inside = text[first + before.len()..at].chars().all(char::is_whitespace);
        let is_capital = word.chars().next().is_some_and(char::is_uppercase) && word.chars().count() > 2;
        let has_value = !words::named(word, segment.tgt_lang.language()).is_empty();
        is_inside && is_capital && !has_value && (!is_german || of_source.contains(&word))
    };
    found.windows(2).filter(is_name).map(|two| two[1].0..two[1].0 + two[1].1.len()).collect()
}

/// Clauses of [`CLAUSE`] words behind a comma, up to the next mark, without the comma.
fn clauses(text: &str) -> Vec<Place> {
    let marks: Vec<(usize, char)> =
        text.char_indices().filter(|(_, c)| ",.;:!?()\"„“”".contains(*c)).collect();
    let clause = |two: &[(usize, char)]| {
        let ((start, _), (end, last)) = (two[0], two[1]);
        let clause = text[start..end].strip_prefix(',')?;
        let is_clause = ",.;!?".contains(last) && clause.starts_with(char::is_whitespace);
        (is_clause && CLAUSE.contains(&clause.split_whitespace().count())).then_some(start + 1..end)
    };
    marks.windows(2).filter_map(clause).collect()
}

#[cfg(test)]
mod tests {
    use tribunal_testing::translation;

    use super::*;

    fn segment(pair: &str, source: &str, hypothesis: &str) -> Segment {
        translation(pair.split_once('-').unwrap(), source, hypothesis)
    }

    fn draws(stream: u64) -> Draws {
        Draws { seed: 1, stream, n: 0 }
    }

    /// Checks that every version of some draws is one of these.
    fn check(
        how: fn(&Segment, &Pool<'_>, &mut Draws) -> Option<String>,
        segment: &Segment,
        pool: &Pool<'_>,
        is_right: impl Fn(&str) -> bool,
    ) {
        for stream in 0..20 {
            let text = how(segment, pool, &mut draws(stream)).expect("a version");
            assert!(is_right(&text), "{text}");
        }
    }

    #[test]
    fn negations_are_dropped_and_added() {
        let none = Pool::default();
        let is = |expected: &'static str| move |text: &str| text == expected;
        check(negation, &segment("en-de", "x", "Er ist nicht da."), &none, is("Er ist da."));
        check(negation, &segment("en-de", "x", "Keine Frage."), &none, is("eine Frage."));
        check(negation, &segment("zh-en", "x", "I can\u{2019}t come."), &none, is("I can come."));
        check(negation, &segment("zh-en", "x", "He didn't come."), &none, is("He did come."));
        check(negation, &segment("zh-en", "x", "He was there."), &none, is("He was not there."));
        check(negation, &segment("en-ru", "x", "Он был там."), &none, is("Он не был там."));
    }

    #[test]
    fn numbers_dates_and_names_are_others() {
        let none = Pool::default();
        let text = segment("en-de", "x", "Im Jahr 2019 kamen 25.");
        check(number, &text, &none, |text| text.starts_with("Im Jahr 2019 kamen ") && !text.ends_with("25."));
        check(date, &text, &none, |text| !text.contains("2019") && text.ends_with("kamen 25."));
        let text = segment("en-de", "x", "Am Montag kamen zwei.");
        check(date, &text, &none, |text| text.ends_with("kamen zwei.") && !text.contains("Montag"));
        check(number, &text, &none, |text| text.starts_with("Am Montag kamen ") && !text.contains("zwei"));
        let other = segment("en-de", "Then Anna came", "Dann kam Anna");
        let mut pool = Pool::default();
        pool.add(&other);
        let text = segment("en-de", "Then Peter came", "Dann kam Peter mit Brot");
        check(name, &text, &pool, |text| text == "Dann kam Anna mit Brot");
    }

    #[test]
    fn clauses_are_left_out_and_added() {
        let text = segment("en-de", "x", "Er ging, weil es schon spät war, nach Hause.");
        check(omission, &text, &Pool::default(), |text| text == "Er ging nach Hause.");
        let mut pool = Pool::default();
        let other = segment("en-de", "y", "Sie kam, obwohl es stark regnete.");
        pool.add(&other);
        assert!(clauses("Er sagte „ja“, dann ging er schon bald, „nein“.").len() == 1);
        let text = segment("en-de", "x", "Er ging.");
        check(addition, &text, &pool, |text| text == "Er ging, obwohl es stark regnete.");
        assert_eq!(corrupt(&segment("en-de", "x", "Ja"), &pool, &mut draws(0)), None);
    }
}
