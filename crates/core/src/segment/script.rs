//! Scripts: which letters a text is written in, and which its language is written in. It does not distinguish
//! languages.

use std::fmt;

use super::Lang;

/// A writing system, or several that are not distinguished here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Script {
    Latin,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
    Devanagari,
    Bengali,
    Tamil,
    Thai,
    Hangul,
    Kana,
    Han,
}

/// All scripts, in the order of their counts.
const SCRIPTS: [Script; 12] = [
    Script::Latin,
    Script::Greek,
    Script::Cyrillic,
    Script::Hebrew,
    Script::Arabic,
    Script::Devanagari,
    Script::Bengali,
    Script::Tamil,
    Script::Thai,
    Script::Hangul,
    Script::Kana,
    Script::Han,
];

/// Languages with a single writing system, and its scripts. A script named in the code takes precedence;
/// languages that are not listed are not checked.
const WRITTEN_IN: &[(&[Script], &[&str])] = &[
    (
        &[Script::Latin],
        &[
            "en", "de", "fr", "es", "pt", "it", "nl", "sv", "da", "no", "nb", "nn", "fi", "is", "et", "lv",
            "lt", "pl", "cs", "sk", "sl", "hr", "hu", "tr", "ca", "gl", "eu", "ga", "cy", "sq", "id", "vi",
            "sw", "zu", "xh", "so", "mas", "tl", "af", "lb", "mt",
        ],
    ),
    // Cyrillic in Moldova.
    (&[Script::Latin, Script::Cyrillic], &["ro"]),
    (&[Script::Greek], &["el"]),
    (&[Script::Cyrillic], &["ru", "uk", "be", "bg", "mk"]),
    (&[Script::Hebrew], &["he", "yi"]),
    (&[Script::Arabic], &["ar", "arz", "fa", "ur", "ps"]),
    (&[Script::Devanagari], &["hi", "mr", "ne", "bho"]),
    (&[Script::Bengali], &["bn", "as"]),
    (&[Script::Tamil], &["ta"]),
    (&[Script::Thai], &["th"]),
    (&[Script::Hangul], &["ko"]),
    (&[Script::Kana, Script::Han], &["ja"]),
    (&[Script::Han], &["zh", "yue", "wuu", "lzh"]),
];

/// Scripts by their ISO 15924 code in a language code.
const NAMED: &[(&str, &[Script])] = &[
    ("Latn", &[Script::Latin]),
    ("Grek", &[Script::Greek]),
    ("Cyrl", &[Script::Cyrillic]),
    ("Hebr", &[Script::Hebrew]),
    ("Arab", &[Script::Arabic]),
    ("Deva", &[Script::Devanagari]),
    ("Beng", &[Script::Bengali]),
    ("Taml", &[Script::Tamil]),
    ("Thai", &[Script::Thai]),
    ("Hang", &[Script::Hangul]),
    ("Hans", &[Script::Han]),
    ("Hant", &[Script::Han]),
];

/// Least number of letters that identify a script. Unit: letters of an alphabet, as of [`Letters::total`].
const ENOUGH: usize = 40;

/// Number of letters of an alphabet that a character of a word script or a syllabary stands for.
const OF_A_SYLLABLE: usize = 3;

/// Largest share of its language's own script in a text that is in another script: names and quotations are
/// more in a real one.
const HARDLY: f64 = 0.03;

/// From here on a text is in a script.
const MOSTLY: f64 = 0.6;

impl Script {
    /// The script of a letter; `None` for other signs and other scripts.
    fn from_char(c: char) -> Option<Self> {
        Some(match u32::from(c) {
            0x41..=0x5a | 0x61..=0x7a | 0xc0..=0xd6 | 0xd8..=0xf6 | 0xf8..=0x24f | 0x1e00..=0x1eff => {
                Self::Latin
            }
            0x370..=0x3ff | 0x1f00..=0x1fff => Self::Greek,
            0x400..=0x52f => Self::Cyrillic,
            0x590..=0x5ff => Self::Hebrew,
            0x600..=0x6ff | 0x750..=0x77f | 0xfb50..=0xfdff | 0xfe70..=0xfefc => Self::Arabic,
            0x900..=0x97f => Self::Devanagari,
            0x980..=0x9ff => Self::Bengali,
            0xb80..=0xbff => Self::Tamil,
            0xe00..=0xe7f => Self::Thai,
            0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7af => Self::Hangul,
            0x3041..=0x30ff => Self::Kana,
            0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_134f => Self::Han,
            _ => return None,
        })
    }

    /// The scripts of a language; none where it may be written in several, or is not known here.
    pub(super) fn of_language(lang: &Lang) -> &'static [Self] {
        let mut parts = lang.code().split('_').skip(1);
        let named = parts.find_map(|part| NAMED.iter().find(|(tag, _)| *tag == part));
        let usual = || WRITTEN_IN.iter().find(|(_, languages)| languages.contains(&lang.language()));
        named.map(|(_, scripts)| *scripts).or_else(|| usual().map(|(scripts, _)| *scripts)).unwrap_or(&[])
    }

    /// Returns true if a language is written in this script; false where that is unknown.
    pub fn is_of(self, lang: &Lang) -> bool {
        Self::of_language(lang).contains(&self)
    }

    fn letters(self) -> usize {
        if matches!(self, Self::Han | Self::Kana | Self::Hangul) { OF_A_SYLLABLE } else { 1 }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Han => write!(f, "Chinese characters"),
            Self::Kana => write!(f, "kana"),
            script => write!(f, "{script:?} letters"),
        }
    }
}

/// The letters of a text by script.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    by_script: [usize; SCRIPTS.len()],
    /// Letters of all other scripts.
    others: usize,
}

impl Letters {
    /// Counts the letters of a text.
    pub fn count(text: &str) -> Self {
        let mut letters = Self::default();
        for c in text.chars() {
            match Script::from_char(c) {
                Some(script) => letters.by_script[script as usize] += script.letters(),
                None => letters.others += usize::from(c.is_alphabetic()),
            }
        }
        letters
    }

    /// Length of the text. Unit: letters of an alphabet; a character of Chinese, Japanese or Korean counts as
    /// three.
    pub fn total(&self) -> usize {
        self.by_script.iter().sum::<usize>() + self.others
    }

    fn share(&self, scripts: &[Script]) -> f64 {
        let n: usize = scripts.iter().map(|script| self.by_script[*script as usize]).sum();
        n as f64 / self.total().max(1) as f64
    }

    /// Returns true if most of a text is in a script.
    pub fn are_mostly(&self, script: Script) -> bool {
        self.share(&[script]) > MOSTLY
    }

    /// The script that a text is in, where it is surely none of those of its language.
    pub fn stray(&self, lang: &Lang) -> Option<Script> {
        let expected = Script::of_language(lang);
        let is_stray = !expected.is_empty() && self.total() >= ENOUGH && self.share(expected) < HARDLY;
        SCRIPTS.into_iter().find(|script| is_stray && self.are_mostly(*script))
    }
}
