//! Language codes and the English names that prompts use. It never guesses the language of a text.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A language as WMT writes it (`en`, `de_DE`, `sr_Cyrl_RS`) with its English name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub struct Lang {
    code: String,
    name: String,
}

/// Error of an invalid language code or pair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown language code `{code}`{hint}")]
    Language { code: String, hint: String },
    #[error(
        "unknown script or region `{part}` in the language code `{code}`\nhint: write it as `sr_Cyrl_RS`"
    )]
    Part { code: String, part: String },
    #[error("`{0}` is not a language pair\nhint: write it as `en-de` or `en-sr_Cyrl_RS`")]
    Pair(String),
    #[error(
        "`{0}` names several language pairs, but one is expected\nhint: run the command for each, or give a table \
         with `src_lang` and `tgt_lang` on each line"
    )]
    Several(String),
    #[error("the language pair `{pair}` can be read as {readings}\nhint: write regions with `_`: `en-de_DE`")]
    Ambiguous { pair: String, readings: String },
}

impl Lang {
    /// Reads `en`, `en-US`, `de_DE`, `sr_Cyrl_RS`, `zh-Hant`, `deu_Latn`, `cmn_Hans`, `mas`, `German`; case
    /// does not matter. A language with a two-letter code gets that code, however it is written: `deu` and
    /// `German` are `de`, and `cmn`, the standard form of Chinese in FLORES+, is `zh`.
    ///
    /// # Errors
    /// [`Error::Language`] for an unknown language, with the code that was probably meant;
    /// [`Error::Part`] for an unknown script or region.
    ///
    /// ```
    /// let lang = tribunal_core::segment::Lang::parse("sr-cyrl-rs").unwrap();
    /// assert_eq!(lang.code(), "sr_Cyrl_RS");
    /// assert_eq!(lang.name(), "Serbian (Cyrillic script, Serbia)");
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if let Some(code) = TABLES.by_name.get(&text.to_lowercase()) {
            let (code, name) = TABLES.languages[standard(code)];
            return Ok(Self { code: code.to_owned(), name: name.to_owned() });
        }
        let mut parts = text.split(['-', '_']);
        let language = parts.next().unwrap_or_default().to_lowercase();
        let Some((language, name)) = TABLES.languages.get(standard(&language)) else {
            return Err(Error::Language { code: text.into(), hint: hint(text) });
        };
        let (mut code, mut details) = ((*language).to_owned(), Vec::new());
        let (mut script, mut region) = (false, false);
        for part in parts {
            if let Some((tag, title)) = TABLES.scripts.get(part.to_lowercase().as_str())
                && !script
                && !region
            {
                script = true;
                code = format!("{code}_{tag}");
                details.push(format!("{title} script"));
            } else if let Some((tag, title)) = TABLES.regions.get(part.to_lowercase().as_str())
                && !region
            {
                region = true;
                code = format!("{code}_{tag}");
                details.push((*title).to_string());
            } else {
                return Err(Error::Part { code: text.into(), part: part.into() });
            }
        }
        let name =
            if details.is_empty() { (*name).to_string() } else { format!("{name} ({})", details.join(", ")) };
        Ok(Self { code, name })
    }

    /// The code in WMT's spelling: `_` between the parts, `Cyrl`, `RS`.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The English name for prompts: `German`, `Chinese (China)`, `Serbian (Cyrillic script, Serbia)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The language without script and region: `sr` of `sr_Cyrl_RS`.
    pub fn language(&self) -> &str {
        self.code.split('_').next().unwrap_or(&self.code)
    }
}

/// Reads a language pair: `en-de`, `en-de_DE`, `en-sr_Cyrl_RS`, `zh-TW-en`, `en_de`, `ende`, `eng-deu`,
/// `English-German`.
///
/// # Errors
/// The errors of [`Lang::parse`] for a part; [`Error::Pair`] if it is not a pair at all; [`Error::Ambiguous`]
/// if hyphens allow more than one reading.
///
/// ```
/// let (src, tgt) = tribunal_core::segment::lang::parse_pair("en-de_DE").unwrap();
/// assert_eq!((src.code(), tgt.code()), ("en", "de_DE"));
/// ```
pub fn parse_pair(pair: &str) -> Result<(Lang, Lang), Error> {
    let pair = pair.trim();
    if pair.contains(',') {
        return Err(Error::Several(pair.into()));
    }
    let separator = if pair.contains('-') { '-' } else { '_' };
    let splits: Vec<(&str, &str)> = if pair.contains(separator) {
        pair.match_indices(separator).map(|(at, _)| (&pair[..at], &pair[at + 1..])).collect()
    } else if pair.len() == 4 && pair.is_ascii() {
        vec![pair.split_at(2)]
    } else {
        return Err(Error::Pair(pair.into()));
    };
    let mut readings = Vec::new();
    let mut first_error = None;
    for &(src, tgt) in &splits {
        match Lang::parse(src).and_then(|src| Ok((src, Lang::parse(tgt)?))) {
            Ok(languages) => readings.push(((src, tgt), languages)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    // `zh_TW` is a language and a region.
    if readings.len() > 1 || separator == '_' {
        readings.retain(|((src, tgt), _)| lower_case_language(src) && lower_case_language(tgt));
    }
    match readings.len() {
        1 => Ok(readings.remove(0).1),
        0 if splits.len() == 1 && pair.contains(separator) => {
            Err(first_error.unwrap_or(Error::Pair(pair.into())))
        }
        0 => Err(Error::Pair(pair.into())),
        _ => {
            let readings: Vec<String> =
                readings.iter().map(|(_, (s, t))| format!("`{}` to `{}`", s.code, t.code)).collect();
            Err(Error::Ambiguous { pair: pair.into(), readings: readings.join(" or ") })
        }
    }
}

/// The one-word English names of the languages that have a two-letter code.
pub fn names() -> impl Iterator<Item = &'static str> {
    let two_letter = TABLES.languages.iter().filter(|(code, _)| code.len() == 2);
    two_letter.map(|(_, (_, name))| *name).filter(|name| name.chars().all(char::is_alphabetic))
}

fn lower_case_language(code: &str) -> bool {
    code.split(['-', '_']).next().is_some_and(|language| !language.contains(char::is_uppercase))
}

/// The code that was probably meant: another standard's code, a country's code, or an English name with a
/// slip in it.
fn hint(code: &str) -> String {
    let code = code.split(['-', '_']).next().unwrap_or_default().to_lowercase();
    let habit = HABITS.iter().find(|(wrong, _)| *wrong == code).map(|(_, right)| *right);
    let by_name = || TABLES.by_name.get(&code).copied();
    let Some(code) = habit.or_else(by_name) else {
        return "\nhint: give an ISO 639 code, with script and region where they matter: `de`, `pt_BR`, \
                `sr_Cyrl_RS`"
            .into();
    };
    format!("\nhint: did you mean `{code}` ({})?", TABLES.languages[code].1)
}

/// Standard forms of languages that have a two-letter code, as FLORES+ names them by ISO 639-3. Other forms
/// (`ary`, Moroccan Arabic; `prs`, Dari) keep their own codes and names.
const STANDARD_FORMS: &[(&str, &str)] = &[
    ("arb", "ar"),
    ("cmn", "zh"),
    ("ekk", "et"),
    ("lvs", "lv"),
    ("npi", "ne"),
    ("ory", "or"),
    ("pes", "fa"),
    ("swh", "sw"),
    ("zsm", "ms"),
];

/// The code of a language in the tables.
fn standard(code: &str) -> &str {
    STANDARD_FORMS.iter().find(|(form, _)| *form == code).map_or(code, |(_, code)| code)
}

/// Bibliographic ISO 639-2 codes and country codes that people write for languages.
const HABITS: &[(&str, &str)] = &[
    ("ger", "de"),
    ("fre", "fr"),
    ("chi", "zh"),
    ("cn", "zh"),
    ("cze", "cs"),
    ("cz", "cs"),
    ("dut", "nl"),
    ("gre", "el"),
    ("gr", "el"),
    ("ice", "is"),
    ("jp", "ja"),
    ("kr", "ko"),
    ("ua", "uk"),
    ("dk", "da"),
    ("per", "fa"),
    ("rum", "ro"),
    ("slo", "sk"),
    ("wel", "cy"),
    ("arm", "hy"),
    ("geo", "ka"),
    ("baq", "eu"),
    ("alb", "sq"),
    ("may", "ms"),
    ("mac", "mk"),
    ("bur", "my"),
    ("tib", "bo"),
    ("mao", "mi"),
    ("in", "id"),
    ("iw", "he"),
    ("ji", "yi"),
    ("vn", "vi"),
];

impl fmt::Display for Lang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)
    }
}

impl FromStr for Lang {
    type Err = Error;

    fn from_str(code: &str) -> Result<Self, Error> {
        Self::parse(code)
    }
}

impl From<Lang> for String {
    fn from(lang: Lang) -> Self {
        lang.code
    }
}

impl TryFrom<String> for Lang {
    type Error = Error;

    fn try_from(code: String) -> Result<Self, Error> {
        Self::parse(&code)
    }
}

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::read);

struct Tables {
    /// Code (two letters, or three) -> (the code that is used for it, name).
    languages: BTreeMap<&'static str, (&'static str, &'static str)>,
    /// Lower-case name -> code.
    by_name: BTreeMap<String, &'static str>,
    /// Lower-case tag -> (tag, name).
    scripts: BTreeMap<String, (&'static str, &'static str)>,
    regions: BTreeMap<String, (&'static str, &'static str)>,
}

impl Tables {
    fn read() -> Self {
        let (mut languages, mut by_name) = (BTreeMap::new(), BTreeMap::new());
        for row in rows(include_str!("lang/languages.tsv")) {
            for code in row[..2].iter().filter(|code| !code.is_empty()) {
                languages.insert(*code, (row[0], row[2]));
            }
            by_name.entry(row[2].to_lowercase()).or_insert(row[0]);
        }
        let pairs = |text: &'static str| {
            rows(text).map(|row| (row[0].to_lowercase(), (row[0], row[1]))).collect::<BTreeMap<_, _>>()
        };
        Self {
            languages,
            by_name,
            scripts: pairs(include_str!("lang/scripts.tsv")),
            regions: pairs(include_str!("lang/regions.tsv")),
        }
    }
}

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, code: &str, name: &str) {
        let lang = Lang::parse(given).unwrap();
        assert_eq!((lang.code(), lang.name()), (code, name), "{given}");
    }

    #[test]
    fn codes_of_every_style() {
        check("en", "en", "English");
        check("en-US", "en_US", "English (United States)");
        check("de_DE", "de_DE", "German (Germany)");
        check("DE-de", "de_DE", "German (Germany)");
        check("sr_Cyrl_RS", "sr_Cyrl_RS", "Serbian (Cyrillic script, Serbia)");
        check("zh_CN", "zh_CN", "Chinese (China)");
        check("zh-Hant-TW", "zh_Hant_TW", "Chinese (Traditional script, Taiwan)");
        check("es-419", "es_419", "Spanish (Latin America)");
        check("mas", "mas", "Maasai");
        check("bho_IN", "bho_IN", "Bhojpuri (India)");
        check("deu_Latn", "de_Latn", "German (Latin script)");
        check("cmn_Hans", "zh_Hans", "Chinese (Simplified script)");
        check("arb_Arab", "ar_Arab", "Arabic (Arabic script)");
        check("ary_Arab", "ary_Arab", "Moroccan Arabic (Arabic script)");
        check("Mandarin Chinese", "zh", "Chinese");
        check("ekk_Latn", "et_Latn", "Estonian (Latin script)");
        check("vmw_Latn", "vmw_Latn", "Makhuwa (Latin script)");
        check("deu", "de", "German");
        check("German", "de", "German");
        check("upper sorbian", "hsb", "Upper Sorbian");
        check("hsb", "hsb", "Upper Sorbian");
    }

    #[test]
    fn every_wmt_pair() {
        let pairs = "en-de zh-en he-en en-ru cs-uk ja-zh en-hi en-is en-es uk-en km-en ps-en ha-en xh-zu bn-hi \
                     gu-en kk-en de-fr iu-en ta-en liv-en sah-ru hsb-de et-en lv-en tr-en cs-de_DE en-ar_EG \
                     en-bho_IN en-mas_KE en-sr_Cyrl_RS en-sr_Latn_RS en-uk_UA en-zh_CN ja-zh_CN en-fil_PH \
                     en-pt_BR en-zu_ZA en-sw_TZ en-kn_IN en-et_EE en-lt_LT en-is_IS en-ko_KR en-fr_CA en-zh_TW";
        for pair in pairs.split_whitespace() {
            let (src, tgt) = parse_pair(pair).unwrap();
            assert_eq!(format!("{src}-{tgt}"), pair);
        }
    }

    #[test]
    fn pairs_with_hyphens_inside() {
        for (pair, src, tgt) in [
            ("ende", "en", "de"),
            ("en-de-DE", "en", "de_DE"),
            ("en-DE-de", "en_DE", "de"),
            ("zh-TW-en", "zh_TW", "en"),
            ("en-US-de-DE", "en_US", "de_DE"),
            ("eng_Latn-deu_Latn", "en_Latn", "de_Latn"),
            ("eng-deu", "en", "de"),
            ("English-German", "en", "de"),
            ("en_de", "en", "de"),
            ("en_de_DE", "en", "de_DE"),
            ("en_sr_Cyrl_RS", "en", "sr_Cyrl_RS"),
        ] {
            let (s, t) = parse_pair(pair).unwrap();
            assert_eq!((s.code(), t.code()), (src, tgt), "{pair}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let message = |pair: &str| parse_pair(pair).unwrap_err().to_string();
        insta::assert_snapshot!(message("en-ger"), @"
        unknown language code `ger`
        hint: did you mean `de` (German)?
        ");
        insta::assert_snapshot!(message("en-xx"), @"
        unknown language code `xx`
        hint: give an ISO 639 code, with script and region where they matter: `de`, `pt_BR`, `sr_Cyrl_RS`
        ");
        insta::assert_snapshot!(message("en-de_QQ"), @"
        unknown script or region `QQ` in the language code `de_QQ`
        hint: write it as `sr_Cyrl_RS`
        ");
        insta::assert_snapshot!(message("de"), @"
        `de` is not a language pair
        hint: write it as `en-de` or `en-sr_Cyrl_RS`
        ");
        insta::assert_snapshot!(message("zh_TW"), @"
        `zh_TW` is not a language pair
        hint: write it as `en-de` or `en-sr_Cyrl_RS`
        ");
        insta::assert_snapshot!(message("en-de,zh-en"), @"
        `en-de,zh-en` names several language pairs, but one is expected
        hint: run the command for each, or give a table with `src_lang` and `tgt_lang` on each line
        ");
        insta::assert_snapshot!(message("en-de-de"), @"
        the language pair `en-de-de` can be read as `en` to `de_DE` or `en_DE` to `de`
        hint: write regions with `_`: `en-de_DE`
        ");
    }

    #[test]
    fn serde_through_strings() {
        let lang: Lang = serde_json::from_str("\"pt-br\"").unwrap();
        assert_eq!(serde_json::to_string(&lang).unwrap(), "\"pt_BR\"");
        assert!(serde_json::from_str::<Lang>("\"klingon\"").is_err());
    }
}
