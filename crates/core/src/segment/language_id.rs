//! Language identification: detects texts that are certainly in another language than expected. It reads no
//! files and decides nothing about segments.
//!
//! Two identifiers with models of some hundred kilobytes have to agree, which makes up for what each of them
//! lacks: `whatlang` (trigrams of 70 languages) reports its confidence, but takes Russian for Bulgarian and
//! short English for French; `whichlang` (a linear classifier of 16 languages) is right nearly always, but
//! never unsure. `scripts/language_identifiers.py` compares them.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use super::{
    Lang,
    script::{Letters, Script},
};

/// Identified language of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identified {
    /// The expected language, or one that is close to it, as far as can be determined.
    Expected,
    /// Certainly in another language.
    Other(TextLanguage),
    /// Too little text, several languages, or a language that is not known.
    Unknown,
}

/// A language, or only a script where the language of the text is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextLanguage {
    Language(&'static Lang),
    Script(Script),
}

impl fmt::Display for TextLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Language(lang) => f.write_str(lang.name()),
            Self::Script(script) => script.fmt(f),
        }
    }
}

/// Texts with fewer letters are not identified. Unit: letters of an alphabet ([`Letters::total`]).
const ENOUGH: usize = 60;

/// Letters of the parts of a text that have to agree: about as many as each identifier needs to be right at
/// all.
const PART_16: usize = 40;
const PART_70: usize = 80;

/// Marks between the clauses of a sentence, and around quotations.
pub(super) const CLAUSE_MARKS: &str = ".:;!?\"„“”«»()—–。：；！？「」『』（）《》،؛؟।\n";

/// The fewest letters of a clause that is identified separately.
const CLAUSE: usize = 12;

/// Languages that are never called wrong for one another: identifiers confuse them, or people may. The first
/// two lines hold languages that `whatlang` was seen to confuse when it was sure.
const CLOSE: &[&[&str]] = &[
    &["ru", "uk", "be", "bg", "mk", "sr", "rue", "cu"],
    &["hi", "mr", "ne", "bho", "mai", "awa", "mag", "sa", "gom"],
    &["no", "nb", "nn", "da", "sv", "fo"],
    &["hr", "sr", "bs", "cnr", "sh", "sl"],
    &["cs", "sk"],
    &["pt", "gl", "es", "ast", "an", "ca", "oc", "lad", "mwl"],
    &["it", "la", "co", "sc", "scn", "vec", "lmo", "pms", "lij", "fur"],
    &["id", "ms", "jv", "su", "min", "ban", "bjn"],
    &["nl", "af", "nds", "li", "fy"],
    &["de", "lb", "gsw", "bar", "nds", "yi"],
    &["en", "sco"],
    &["fr", "oc", "wa", "ht"],
    &["tr", "az", "tk", "uz", "crh", "gag", "tt"],
    &["zh", "yue", "wuu", "lzh", "nan", "hak"],
    &["fi", "et", "vro", "krl"],
    &["lt", "lv", "ltg", "sgs"],
    &["zu", "xh", "ss", "nr"],
    &["tl", "fil", "ceb", "ilo", "war", "hil"],
    &["ar", "arz", "ary", "apc", "ajp", "acm", "aeb", "ars"],
    &["fa", "prs", "tg"],
    &["ur", "sd", "pnb", "skr", "ps"],
    &["bn", "as"],
    &["he", "yi"],
];

/// Languages that no identifier names, but whose texts both take for one of their close languages.
const LIKE_CLOSE_ONES: &[&str] = &["no", "nn", "bs", "ms", "fil", "xh", "yue"];

/// The languages of both identifiers, by the code that these use.
static KNOWN: LazyLock<BTreeMap<&'static str, Lang>> = LazyLock::new(|| {
    let codes = whatlang::Lang::all().iter().map(whatlang::Lang::code);
    codes.filter_map(|code| Some((code, Lang::parse(code).ok()?))).collect()
});

/// Returns true if both identifiers can distinguish a language from others.
pub fn is_known(lang: &Lang) -> bool {
    let language = lang.language();
    LIKE_CLOSE_ONES.contains(&language) || KNOWN.values().any(|known| known.language() == language)
}

/// Returns true if two languages are the same, or so close that neither is called wrong for the other.
pub fn are_close(a: &Lang, b: &Lang) -> bool {
    let (a, b) = (a.language(), b.language());
    a == b || CLOSE.iter().any(|group| group.contains(&a) && group.contains(&b))
}

/// Identifies the language of a text that is declared to be in this one.
///
/// ```
/// use tribunal_core::segment::{Lang, language_id::{Identified, identify}};
/// let german = Lang::parse("de").unwrap();
/// let text = "La garantie couvre les défauts de fabrication pendant deux ans, mais pas les dommages.";
/// assert!(matches!(identify(text, &german), Identified::Other(found) if found.to_string() == "French"));
/// assert_eq!(identify("Salesforce Partner", &german), Identified::Unknown);
/// ```
pub fn identify(text: &str, expected: &Lang) -> Identified {
    let letters = Letters::count(text);
    if written_as_chinese(expected) && letters.are_mostly(Script::Han) && !is_simplified(text) {
        return Identified::Unknown;
    }
    if let Some(script) = letters.stray(expected) {
        let language = sure(text).filter(|found| {
            // Romanised texts resemble some language or other.
            (script != Script::Latin || is_of_16(found))
                && !are_close(found, expected)
                && agrees(text, found, expected)
        });
        return Identified::Other(language.map_or(TextLanguage::Script(script), TextLanguage::Language));
    }
    if letters.total() < ENOUGH || !is_known(expected) {
        return Identified::Unknown;
    }
    match sure(text) {
        Some(found) if are_close(found, expected) => Identified::Expected,
        Some(found)
            if agrees(text, found, expected)
                && (is_known_as_written(text, expected) || is_foreign(text, &letters, found, expected)) =>
        {
            Identified::Other(TextLanguage::Language(found))
        }
        _ => Identified::Unknown,
    }
}

/// Returns true if the identifiers cover a language, or one close to it, in the script of this text: not
/// Uzbek in Cyrillic, Punjabi in Arabic or Hindi in Latin letters.
fn is_known_as_written(text: &str, lang: &Lang) -> bool {
    let Some(script) = whatlang::detect_script(text) else { return false };
    script.langs().iter().filter_map(|known| KNOWN.get(known.code())).any(|known| are_close(known, lang))
}

/// Returns true if a text, in letters in which the identifiers do not cover the expected language, is in this
/// other one: in letters that the code names or that the language has too, it may be in the expected one
/// after all.
fn is_foreign(text: &str, letters: &Letters, found: &Lang, expected: &Lang) -> bool {
    if expected.language() == "ro" {
        // Romanian in Cyrillic resembles Russian, but has no words of a single consonant.
        return text.split_whitespace().any(|word| ["в", "к", "с"].contains(&word));
    }
    let has_both = IN_SEVERAL_SCRIPTS.contains(&expected.language()) && !letters.are_mostly(Script::Latin);
    is_of_16(found)
        && (Script::of_language(expected).is_empty() && !has_both
            || found.language() == "zh" && letters.are_mostly(Script::Han))
}

/// Languages that the identifiers cover in one script, and that are written in another as well.
const IN_SEVERAL_SCRIPTS: &[&str] = &["az", "jv", "ms", "pa", "tk", "uz"];

/// Returns true if texts of a language can consist of Chinese characters that other languages share: official
/// titles and headlines.
fn written_as_chinese(lang: &Lang) -> bool {
    matches!(lang.language(), "ja" | "ko")
}

/// Frequent characters of simplified Chinese that neither Japanese nor Korean has.
const SIMPLIFIED: &str = "这们说时对过还进样现动关长问间见话门东车书语请认议给让边业产员报场应张际阳队军亲务运头电带师无传远许\
                          设论计记该谁调读课谈选连违达迁处备复华协单卖卫历压变听响园围块够夺奖妇宁审宪宽宾寻导层岁币帮\
                          为开从马";

/// The least share of [`SIMPLIFIED`] among the characters of a Chinese text that uses them, 0 to 1.
const SIMPLIFIED_SHARE: f64 = 0.08;

fn is_simplified(text: &str) -> bool {
    let n_simplified = text.chars().filter(|c| SIMPLIFIED.contains(*c)).count();
    n_simplified > 0
        && n_simplified as f64 >= SIMPLIFIED_SHARE * text.chars().filter(|c| c.is_alphabetic()).count() as f64
}

/// Returns true if a text seems to be in a language or one close to it, certain or not: for texts too short
/// to be certain of.
pub fn seems(text: &str, lang: &Lang) -> bool {
    let is_close = |found: Option<&Lang>| found.is_some_and(|found| are_close(found, lang));
    is_close(of_16(text)) || is_close(of_70(text).map(|(found, _)| found))
}

/// Returns true if both identifiers take a text for one in this language or one close to it, as far as they
/// cover it.
pub(super) fn both_say(text: &str, lang: &Lang) -> bool {
    let is_close = |found: Option<&Lang>| found.is_some_and(|found| are_close(found, lang));
    is_close(of_70(text).map(|(found, _)| found)) && (!is_of_16(lang) || is_close(of_16(text)))
}

/// Returns true if a clause of a text seems to be in this language, such as one that precedes a quotation.
pub fn has_clause_in(text: &str, lang: &Lang) -> bool {
    let clauses = text.split(|c: char| CLAUSE_MARKS.contains(c));
    let long = clauses.filter(|clause| Letters::count(clause).total() >= CLAUSE);
    let seems =
        |clause: &str| if is_of_16(lang) { of_16(clause) } else { of_70(clause).map(|(found, _)| found) };
    long.filter_map(seems).any(|found| are_close(found, lang))
}

/// The language that `whatlang` is sure of.
fn sure(text: &str) -> Option<&'static Lang> {
    of_70(text).filter(|(_, is_sure)| *is_sure).map(|(found, _)| found)
}

fn of_70(text: &str) -> Option<(&'static Lang, bool)> {
    let info = whatlang::detect(text)?;
    Some((KNOWN.get(info.lang().code())?, info.is_reliable()))
}

/// Returns true if a language is one of the 16 of `whichlang`.
fn is_of_16(lang: &Lang) -> bool {
    let known = whichlang::LANGUAGES.iter().filter_map(|known| KNOWN.get(known.three_letter_code()));
    known.map(Lang::language).any(|known| known == lang.language())
}

fn of_16(text: &str) -> Option<&'static Lang> {
    KNOWN.get(whichlang::detect_language(text).three_letter_code())
}

/// Returns true if the parts of a text are in this language too, and none in the expected one: a text in
/// several languages is in none of them.
fn agrees(text: &str, found: &Lang, expected: &Lang) -> bool {
    if !is_of_16(found) {
        let is_found = |part: &str| of_70(part).is_some_and(|(lang, _)| are_close(lang, found));
        return parts(text, PART_70).into_iter().all(is_found);
    }
    let seen: Vec<&Lang> = parts(text, PART_16).into_iter().filter_map(of_16).collect();
    let n_found = seen.iter().filter(|lang| are_close(lang, found)).count();
    // One part in five may be a name or a quotation.
    5 * n_found >= 4 * seen.len() && !seen.iter().any(|lang| are_close(lang, expected))
}

/// A text in parts of whole words with at least so many letters; a shorter rest belongs to the last of them.
fn parts(text: &str, n_letters: usize) -> Vec<&str> {
    let (mut parts, mut from, mut letters) = (Vec::new(), 0, 0);
    let ends = text.char_indices().map(|(at, c)| (at + c.len_utf8(), c));
    for (end, c) in ends {
        letters += Letters::count(c.encode_utf8(&mut [0; 4])).total();
        // Scripts without spaces can be cut anywhere.
        if letters >= n_letters && (c.is_whitespace() || !c.is_ascii() && !c.is_lowercase()) {
            parts.push((from, end));
            (from, letters) = (end, 0);
        }
    }
    match parts.last_mut() {
        Some((_, end)) if from < text.len() && letters < n_letters => *end = text.len(),
        _ => parts.push((from, text.len())),
    }
    parts.into_iter().filter(|(from, end)| from < end).map(|(from, end)| &text[from..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DE: &str =
        "Der Stadtrat beschloss am Dienstag, die alte Brücke wegen Reparaturarbeiten bis März zu sperren.";
    const FR: &str = "Le conseil municipal a décidé mardi de fermer le vieux pont pour réparations jusqu'à la fin de mars.";
    const EN: &str =
        "The town council voted on Tuesday to close the old stone bridge for repairs until the end of March.";
    const DA: &str = "Byrådet besluttede tirsdag at lukke den gamle stenbro på grund af reparationer indtil slutningen af marts.";
    const RU: &str = "Городской совет проголосовал во вторник за закрытие старого моста на ремонт до весны.";
    const ZH: &str = "议会星期二投票决定关闭旧桥进行维修，直到春天才重新开放。";

    fn found(text: &str, expected: &str) -> String {
        match identify(text, &Lang::parse(expected).unwrap()) {
            Identified::Expected => "expected".into(),
            Identified::Unknown => "unknown".into(),
            Identified::Other(found) => found.to_string(),
        }
    }

    #[test]
    fn languages_within_a_script_and_across() {
        for (text, expected, is) in [
            (DE, "de", "expected"),
            (DE, "en", "German"),
            (EN, "de", "English"),
            (FR, "de_AT", "French"),
            (FR, "en", "French"),
            (ZH, "en", "Chinese"),
            (EN, "zh", "English"),
            (RU, "de", "Russian"),
            (RU, "sr_Latn", "Cyrillic letters"),
        ] {
            assert_eq!(found(text, expected), is, "{expected}: {text}");
        }
    }

    #[test]
    fn close_languages_are_not_called_wrong() {
        for (text, expected) in [
            (DA, "nb"),
            (DA, "sv"),
            (DA, "nn"),
            (RU, "uk"),
            (RU, "bg"),
            (ZH, "yue"),
            (ZH, "zh_Hant"),
            (DE, "lb"),
        ] {
            let found = found(text, expected);
            assert!(["expected", "unknown"].contains(&found.as_str()), "{expected}: {found}");
        }
    }

    #[test]
    fn what_is_no_text_in_one_language_is_not_identified() {
        let mixed = format!("{} {}", &DE[..60], &EN[..60]);
        for (text, expected) in [
            ("", "de"),
            ("   \n ", "de"),
            ("OK", "de"),
            ("12 345,67 EUR; 2023-05-01; ISO 9001", "de"),
            ("https://example.org/a/b?c=d&e=f#the-town-council-voted-on-tuesday", "de"),
            ("for (int i = 0; i < n; i++) { total += values[i]; }", "de"),
            ("😀😀😀 👍", "de"),
            (mixed.as_str(), "fi"),
            // A language that neither identifier covers.
            (EN, "mas"),
            // Hindi in Latin letters, declared as Hindi in Latin letters.
            (
                "Namaste doston, aaj hum baat karenge us purane pul ke baare mein jo band ho gaya hai.",
                "hi_Latn",
            ),
        ] {
            assert_eq!(found(text, expected), "unknown", "{expected}: {text}");
        }
        for expected in ["de", "en"] {
            let found = found(&mixed, expected);
            assert!(["expected", "unknown"].contains(&found.as_str()), "{expected}: {found}");
        }
        assert!(!is_known(&Lang::parse("mas").unwrap()) && is_known(&Lang::parse("de_CH").unwrap()));
    }

    #[test]
    fn parts_are_whole_words() {
        assert_eq!(parts("aa bb cc dd", 4), ["aa bb ", "cc dd"]);
        assert_eq!(parts("aa bb cc", 4), ["aa bb cc"]);
        assert_eq!(parts("", 4), Vec::<&str>::new());
        assert_eq!(parts(&ZH.repeat(2), 60).concat(), ZH.repeat(2));
    }
}
