//! Numbers, months and weekdays of a source that its translation must have as well, and the other way round.
//! A separator before three digits may be of thousands or of decimals (`17,631`, `17.631`); any other is of
//! decimals (`4.5`, `4,5`), and zeros at the end of decimals do not count. Where a power of ten is written in
//! words, numbers are compared without separators and zeros at their ends, so that `3.5万` is `35,000`.

use std::{collections::BTreeSet, sync::LazyLock};

use icu_normalizer::ComposingNormalizerBorrowed;
use regex::Regex;

use super::words::{self, Kind};
use crate::reading::pattern;

/// Digits, with separators inside.
static DIGITS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\d+(?:[.,\u{a0}\u{202f}’' ]\d{3}\b)*(?:[.,]\d+)?"));

/// Numbers in Chinese characters, with what stands in front of a weekday and behind a month.
static CHINESE: LazyLock<Regex> = LazyLock::new(|| {
    let numerals = "[零〇一二三四五六七八九两兩十百千万萬亿億]+";
    pattern(&format!(r"(?P<day>星期|礼拜|周)?(?P<number>{numerals}|\d{{1,2}}|[日天])(?P<month>月)?"))
});

/// The compared form: a number as spelled by [`number`], a month or a weekday by its number from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Quantity {
    Number(String),
    Month(u32),
    Weekday(u32),
}

/// The quantities of a text.
#[derive(Debug, Default)]
struct Quantities {
    /// In digits.
    digits: BTreeSet<Quantity>,
    /// In words without another meaning.
    words: BTreeSet<Quantity>,
    /// All, including those whose words can have another meaning.
    all: BTreeSet<Quantity>,
    /// [`significant`] digits of all numbers.
    significant: BTreeSet<String>,
    has_magnitudes: bool,
}

/// Numbers of quantities of one text that another one lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Numbers in digits.
    pub numbers: usize,
    /// Numbers in words.
    pub in_words: usize,
    /// Months and weekdays.
    pub dates: usize,
}

/// The quantities of a source that its translation lacks, and those of the translation that the source lacks.
/// Languages are two-letter codes; for languages that are not in the table only digits are compared.
pub fn lacking([source, source_lang]: [&str; 2], [target, target_lang]: [&str; 2]) -> [Lacking; 2] {
    let (source, target) = (Quantities::new(source, source_lang), Quantities::new(target, target_lang));
    // Number words of a language that is not in the table are not recognised.
    let words_count = [source_lang, target_lang].into_iter().all(words::knows_numbers);
    [source.lacked_by(&target, words_count), target.lacked_by(&source, words_count)]
}

impl Quantities {
    fn new(text: &str, language: &str) -> Self {
        let text = ComposingNormalizerBorrowed::new_nfkc().normalize(text);
        let mut found =
            Self { has_magnitudes: words::may_have_magnitudes(&text, language), ..Self::default() };
        let numbers = DIGITS.find_iter(&text).filter_map(|digits| number(digits.as_str()));
        found.digits.extend(numbers);
        for named in words::named(&text, language) {
            let quantity = match named.kind {
                Kind::Month => Some(Quantity::Month(named.value)),
                Kind::Weekday => Some(Quantity::Weekday(named.value)),
                _ => number(&named.value.to_string()),
            };
            let list = if named.has_other_meaning { &mut found.all } else { &mut found.words };
            list.extend(quantity);
        }
        if matches!(language, "zh" | "ja") {
            found.add_chinese(&text);
        }
        found.all = found.all.iter().chain(&found.digits).chain(&found.words).flat_map(readings).collect();
        let of_number = |quantity: &Quantity| match quantity {
            Quantity::Number(digits) => Some(significant(digits)),
            _ => None,
        };
        found.significant = found.all.iter().filter_map(of_number).collect();
        found
    }

    fn add_chinese(&mut self, text: &str) {
        for captures in CHINESE.captures_iter(text) {
            let numeral = &captures["number"];
            let (is_day, is_month) = (captures.name("day").is_some(), captures.name("month").is_some());
            if is_day && matches!(numeral, "日" | "天") {
                self.words.insert(Quantity::Weekday(7));
                continue;
            }
            // Digits that name no date have been found already.
            if numeral.starts_with(|c: char| c.is_ascii_digit()) && !is_day && !is_month {
                continue;
            }
            if let Some(either) = two_digits(numeral) {
                self.words.extend(either.into_iter().filter_map(|digit| number(&digit.to_string())));
                continue;
            }
            // `一` is an article as well, and `百`, `千`, `万` alone are many.
            let Some(value) = value(numeral) else { continue };
            match u32::try_from(value) {
                Ok(day @ 1..=6) if is_day => drop(self.words.insert(Quantity::Weekday(day))),
                Ok(month @ 1..=12) if is_month => drop(self.words.insert(Quantity::Month(month))),
                _ if value == 1 => {}
                _ => self.words.extend(number(&value.to_string())),
            }
        }
    }

    fn lacked_by(&self, other: &Self, words_count: bool) -> Lacking {
        let has_magnitudes = self.has_magnitudes || other.has_magnitudes;
        let lacked = |quantity: &&Quantity| !other.has(quantity, has_magnitudes);
        let is_date = |quantity: &Quantity| !matches!(quantity, Quantity::Number(_));
        let of_words = self.words.iter().filter(|_| words_count).filter(lacked);
        let (dates, in_words): (Vec<_>, Vec<_>) = of_words.partition(|quantity| is_date(quantity));
        Lacking {
            numbers: self.digits.iter().filter(lacked).count(),
            in_words: in_words.len(),
            dates: dates.len(),
        }
    }

    /// True if the text has the quantity, a month perhaps as a number.
    fn has(&self, quantity: &Quantity, has_magnitudes: bool) -> bool {
        readings(quantity).iter().any(|reading| self.all.contains(reading))
            || match quantity {
                Quantity::Month(month) => self.all.contains(&Quantity::Number(month.to_string())),
                Quantity::Number(digits) => {
                    let month = digits.parse().ok().map(Quantity::Month);
                    let is_scaled = has_magnitudes && self.significant.contains(&significant(digits));
                    is_scaled || month.is_some_and(|month| self.all.contains(&month))
                }
                Quantity::Weekday(_) => false,
            }
    }
}

/// A number by its digits: those before the decimal point without zeros in front, those after it without
/// zeros at the end. Where a point has three digits behind it and may separate thousands, all three stay.
/// `None` for zero.
fn number(text: &str) -> Option<Quantity> {
    let is_separator = |c: char| matches!(c, '.' | ',');
    let digits = text.chars().filter_map(|c| ascii_digit(c).or_else(|| is_separator(c).then_some('.')));
    let digits: String = digits.collect();
    let groups: Vec<&str> = digits.split('.').collect();
    let spelled = match groups.split_last()? {
        (three, [whole]) if three.len() == 3 => format!("{whole}.{three}"),
        (decimals, whole @ [_, ..]) if decimals.len() != 3 => {
            format!("{}.{}", whole.concat(), decimals.trim_end_matches('0'))
        }
        _ => groups.concat(),
    };
    let spelled = spelled.trim_start_matches('0').trim_end_matches('.');
    let is_zero = spelled.chars().all(|c| matches!(c, '0' | '.'));
    (!is_zero).then(|| Quantity::Number(spelled.to_owned()))
}

/// All values that a quantity may have: `4.500` is four thousand and five hundred, and four and a half.
fn readings(quantity: &Quantity) -> Vec<Quantity> {
    let parts = match quantity {
        Quantity::Number(spelled) => spelled.split_once('.'),
        _ => None,
    };
    match parts {
        Some((whole, three)) if three.len() == 3 && !whole.is_empty() => {
            let decimals = three.trim_end_matches('0');
            let decimal = format!("{whole}.{decimals}").trim_end_matches('.').to_owned();
            vec![Quantity::Number(format!("{whole}{three}")), Quantity::Number(decimal)]
        }
        _ => vec![quantity.clone()],
    }
}

/// The zeros of scripts with digits of their own; the other nine digits follow each.
const ZEROS: [char; 9] = ['0', '٠', '۰', '०', '০', '੦', '๐', '០', '၀'];

/// A digit of any of these scripts as one of 0 to 9.
fn ascii_digit(c: char) -> Option<char> {
    let value = |zero: &char| u32::from(c).checked_sub(u32::from(*zero)).filter(|value| *value < 10);
    char::from_digit(ZEROS.iter().find_map(value)?, 10)
}

/// The digits of a number without its point, and without zeros at either end.
fn significant(number: &str) -> String {
    number.replace('.', "").trim_matches('0').to_owned()
}

/// The two numbers of `五六`, five or six; `None` for other numbers.
fn two_digits(number: &str) -> Option<[u64; 2]> {
    let mut characters = number.char_indices();
    let (_, (second, _)) = (characters.next()?, characters.next()?);
    let is_digits = characters.next().is_none() && number.chars().all(|c| "二三四五六七八九两兩".contains(c));
    is_digits.then(|| Some([value(&number[..second])?, value(&number[second..])?]))?
}

/// The value of a number in Chinese characters or digits; `None` where units stand alone.
fn value(number: &str) -> Option<u64> {
    if let Ok(value) = number.parse() {
        return Some(value);
    }
    let digit = |c: char| match c {
        '〇' => Some(0),
        '两' | '兩' => Some(2),
        c => "零一二三四五六七八九".chars().position(|numeral| numeral == c).map(|at| at as u64),
    };
    let unit = |c: char| match c {
        '十' => Some(10),
        '百' => Some(100),
        '千' => Some(1_000),
        '万' | '萬' => Some(10_000),
        '亿' | '億' => Some(100_000_000),
        _ => None,
    };
    let n_digits = number.chars().filter(|c| digit(*c).is_some()).count();
    if n_digits == 0 && number != "十" {
        return None;
    }
    if !number.chars().any(|c| unit(c).is_some()) {
        let digits = number.chars().filter_map(digit);
        return digits.take(18).try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(digit));
    }
    let (mut total, mut section, mut last) = (0_u64, 0_u64, 0_u64);
    for c in number.chars() {
        match (digit(c), unit(c)) {
            (Some(digit), _) => last = digit,
            (None, Some(unit)) if unit >= 10_000 => {
                total = total.saturating_add((section + last).max(1).saturating_mul(unit));
                (section, last) = (0, 0);
            }
            (None, Some(unit)) => {
                section = section.saturating_add(last.max(1) * unit);
                last = 0;
            }
            (None, None) => {}
        }
    }
    Some(total.saturating_add(section).saturating_add(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, numbers in words and dates that the translation lacks, and that the source lacks.
    fn check(source: [&str; 2], target: [&str; 2], expected: [[usize; 3]; 2]) {
        let found = lacking(source, target).map(|lacking| [lacking.numbers, lacking.in_words, lacking.dates]);
        assert_eq!(found, expected, "{source:?} {target:?}");
    }

    const NONE: [[usize; 3]; 2] = [[0; 3]; 2];

    #[test]
    fn the_same_quantity_in_another_spelling_is_not_lacking() {
        check(["17,631 people", "en"], ["17.631 Menschen", "de"], NONE);
        check(["4,500 people", "en"], ["4500 Menschen", "de"], NONE);
        check(["4500 people", "en"], ["4.500 Menschen", "de"], NONE);
        check(["4.500 kg", "en"], ["4,5 kg", "de"], NONE);
        check(["4.50 euros, 007, 1,000,000.25", "en"], ["4,5 Euro, 7, 1.000.000,25", "de"], NONE);
        check(["35,000 at 2.5%", "en"], ["35 000 bei 2,5 %", "de"], NONE);
        check(["1.2 million", "en"], ["1,200,000", "de"], NONE);
        check(["三百五十人，3.5万元", "zh"], ["350 people, 35,000 yuan", "en"], NONE);
        check(["3000万", "zh"], ["30 million", "en"], NONE);
        check(["十一月二十五日星期三", "zh"], ["Wednesday, 25 November", "en"], NONE);
        check(["twelve on Tuesday", "en"], ["12 am Dienstag", "de"], NONE);
        check(["on 3 May", "en"], ["am 3. Mai", "de"], NONE);
        check(["the second time, both", "en"], ["das zweite Mal, beide", "de"], NONE);
        check(["一个人", "zh"], ["a person", "en"], NONE);
        check(["在2018年有1.92亿人", "zh"], ["192 million people in 2018", "en"], NONE);
        check(["下午五六点", "zh"], ["at five or six", "en"], NONE);
        check(["１２月", "zh"], ["December", "en"], NONE);
        check(["in 2019", "en"], ["په ۲۰۱۹ کې", "ps"], NONE);
    }

    #[test]
    fn what_differs_is_counted_on_both_sides() {
        check(["25 people", "en"], ["75 Menschen", "de"], [[1, 0, 0], [1, 0, 0]]);
        check(["30 minutes", "en"], ["3 Minuten", "de"], [[1, 0, 0], [1, 0, 0]]);
        check(["4.5 litres", "en"], ["45 Liter", "de"], [[1, 0, 0], [1, 0, 0]]);
        check(["4.55 litres", "en"], ["45,5 Liter", "de"], [[1, 0, 0], [1, 0, 0]]);
        check(["0.5 litres", "en"], ["5 Liter", "de"], [[1, 0, 0], [1, 0, 0]]);
        check(["4.500 litres", "en"], ["45 Liter", "de"], [[1, 0, 0], [1, 0, 0]]);
        check(["three of 25", "en"], ["fünf von 25", "de"], [[0, 1, 0], [0, 1, 0]]);
        check(["on Monday", "en"], ["am Freitag", "de"], [[0, 0, 1], [0, 0, 1]]);
        check(["in April 2019", "en"], ["im Juni", "de"], [[1, 0, 1], [0, 0, 1]]);
        check(["星期一", "zh"], ["on Sunday", "en"], [[0, 0, 1], [0, 0, 1]]);
    }

    #[test]
    fn of_unknown_languages_only_digits_are_compared() {
        check(["three on Monday, 5", "en"], ["kolm esmaspäeval, 5", "et"], NONE);
    }

    #[test]
    fn chinese_numbers_have_values() {
        for (text, expected) in [
            ("十", Some(10)),
            ("二十五", Some(25)),
            ("三百零二", Some(302)),
            ("一万二千", Some(12_000)),
            ("二〇二三", Some(2023)),
            ("3", Some(3)),
            ("千万", None),
            ("两亿", Some(200_000_000)),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
        assert!(value(&"九".repeat(60)).is_some());
        assert!(value(&"亿".repeat(60)).is_none());
        let _ = value(&"九亿".repeat(60));
    }
}
