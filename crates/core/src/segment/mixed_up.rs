//! Signs that files or languages were mixed up: texts in a script that their language is not written in, and translations
//! that are their sources. It guesses no language: German that is said to be English goes unseen.

use std::{collections::BTreeMap, fmt};

use super::{Lang, Segment};

/// What is written with the same signs, as far as it tells languages apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Languages that are written in one way, with the scripts of it. Codes that name a script themselves are taken at their
/// word, and languages that are not here are not looked at.
const WRITTEN_IN: &[(&[Script], &[&str])] = &[
    (
        &[Script::Latin],
        &[
            "en", "de", "fr", "es", "pt", "it", "nl", "sv", "da", "no", "nb", "nn", "fi", "is", "et", "lv",
            "lt", "pl", "cs", "sk", "sl", "hr", "hu", "ro", "tr", "ca", "gl", "eu", "ga", "cy", "sq", "id",
            "vi", "sw", "zu", "xh", "so", "mas", "tl", "af", "lb", "mt",
        ],
    ),
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

/// What a language code says of its script.
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

/// Fewer letters than this say nothing of a file.
const ENOUGH: usize = 40;

/// Words of a text that is more than a name, a title or an address.
const SENTENCE: usize = 5;

/// The most of its own script that a text in another one has: names and quotations are more in a real one.
const HARDLY: f64 = 0.01;

/// From here on a text is in a script.
const MOSTLY: f64 = 0.6;

impl Script {
    /// The script of a letter; `None` for other signs and other scripts.
    fn of(c: char) -> Option<Self> {
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
    fn of_language(lang: &Lang) -> &'static [Self] {
        let mut parts = lang.code().split('_').skip(1);
        let named = parts.find_map(|part| NAMED.iter().find(|(tag, _)| *tag == part));
        let usual = || WRITTEN_IN.iter().find(|(_, languages)| languages.contains(&lang.language()));
        named.map(|(_, scripts)| *scripts).or_else(|| usual().map(|(scripts, _)| *scripts)).unwrap_or(&[])
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

/// The letters of some texts by script.
#[derive(Clone, Debug, Default)]
struct Letters([usize; SCRIPTS.len()]);

impl Letters {
    fn add(&mut self, text: &str) {
        for script in text.chars().filter_map(Script::of) {
            self.0[script as usize] += 1;
        }
    }

    fn share(&self, scripts: &[Script]) -> f64 {
        let all: usize = self.0.iter().sum();
        scripts.iter().map(|script| self.0[*script as usize]).sum::<usize>() as f64 / all.max(1) as f64
    }

    /// The script that the texts are in, where it is surely none of those of their language.
    fn stray(&self, lang: &Lang) -> Option<Script> {
        let own = Script::of_language(lang);
        let is_stray = !own.is_empty() && self.0.iter().sum::<usize>() >= ENOUGH && self.share(own) < HARDLY;
        SCRIPTS.into_iter().find(|script| is_stray && self.share(&[*script]) > MOSTLY)
    }
}

/// What was seen of the translations of one system into one language.
#[derive(Clone, Debug, Default)]
struct Seen {
    sources: Letters,
    translations: Letters,
    n: usize,
    copies: usize,
    /// Copies that are no name, number or address, and the first of them.
    long_copies: usize,
    first_copy: Option<usize>,
}

/// What was seen of an input so far.
#[derive(Clone, Debug, Default)]
pub struct MixedUp {
    seen: BTreeMap<(Lang, Lang), BTreeMap<String, Seen>>,
}

/// Sources in the script of the translations, and translations in that of the sources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sources of `{src}-{tgt}` are in {sources} and the translations of `{system}` in {translations}, so the two are \
     swapped\nhint: give the files the other way round, or name the languages so: `-l {tgt}-{src}`"
)]
pub struct Swapped {
    src: String,
    tgt: String,
    system: String,
    sources: Script,
    translations: Script,
}

impl MixedUp {
    /// Looks at the next segment.
    pub fn add(&mut self, segment: &Segment) {
        let pair = (segment.src_lang.clone(), segment.tgt_lang.clone());
        let systems = self.seen.entry(pair).or_default();
        if !systems.contains_key(&segment.system) {
            systems.insert(segment.system.clone(), Seen::default());
        }
        let Some(seen) = systems.get_mut(&segment.system) else { return };
        seen.sources.add(&segment.source);
        seen.translations.add(&segment.hypothesis);
        seen.n += 1;
        if segment.source == segment.hypothesis {
            seen.copies += 1;
            if segment.source.split_whitespace().count() >= SENTENCE {
                seen.long_copies += 1;
                seen.first_copy.get_or_insert(segment.seg);
            }
        }
    }

    /// Refuses sources and translations that are swapped.
    ///
    /// # Errors
    /// [`Swapped`], only where the scripts leave no doubt.
    pub fn check(&self) -> Result<(), Swapped> {
        for ((src, tgt), systems) in &self.seen {
            for (system, seen) in systems {
                let (sources, translations) = (seen.sources.stray(src), seen.translations.stray(tgt));
                let (Some(sources), Some(translations)) = (sources, translations) else { continue };
                let is_of = |script, lang| Script::of_language(lang).contains(&script);
                if is_of(sources, tgt) && is_of(translations, src) {
                    let (src, tgt) = (src.to_string(), tgt.to_string());
                    return Err(Swapped { src, tgt, system: system.clone(), sources, translations });
                }
            }
        }
        Ok(())
    }

    /// What looks as if files or languages were mixed up, in sentences.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for ((src, tgt), systems) in &self.seen {
            let stray = |letters: &Letters, lang: &Lang, whose: &str| {
                let script = letters.stray(lang)?;
                let name = lang.name();
                Some(format!(
                    "{whose} of `{src}-{tgt}` are in {script}, which {name} is not written in; are files and languages the \
                     right ones?"
                ))
            };
            let sources = systems.values().next().and_then(|seen| stray(&seen.sources, src, "the sources"));
            doubts.extend(sources);
            for (system, seen) in systems {
                if seen.copies * 2 > seen.n {
                    doubts.push(format!(
                        "the translation `{system}` is the source itself in {} of {} segments; is it the right file?",
                        seen.copies, seen.n
                    ));
                    continue;
                }
                if let Some(first) = seen.first_copy {
                    doubts.push(format!(
                        "the translation `{system}` is the source itself, of {SENTENCE} words or more, in {} of {} segments, \
                         first in {}",
                        seen.long_copies,
                        seen.n,
                        super::numbered(first)
                    ));
                }
                doubts.extend(stray(&seen.translations, tgt, &format!("the translations `{system}`")));
            }
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EN: &str = "The town council voted on Tuesday to close the old bridge for repairs.";
    const ZH: &str = "议会星期二投票决定关闭旧桥进行维修，直到春天才重新开放。议会星期二投票决定关闭旧桥进行维修，直到春天才重新开放。";
    const RU: &str = "Городской совет проголосовал во вторник за закрытие старого моста на ремонт.";

    fn seen(pair: &str, texts: &[(&str, &str)]) -> MixedUp {
        let (src_lang, tgt_lang) = crate::segment::lang::parse_pair(pair).unwrap();
        let mut seen = MixedUp::default();
        for (seg, (source, hypothesis)) in texts.iter().enumerate() {
            seen.add(&Segment {
                system: "a".into(),
                doc: String::new(),
                seg,
                src_lang: src_lang.clone(),
                tgt_lang: tgt_lang.clone(),
                source: (*source).into(),
                hypothesis: (*hypothesis).into(),
                reference: None,
            });
        }
        seen
    }

    #[test]
    fn what_is_swapped_is_refused() {
        let told = seen("zh-en", &[(EN, ZH)]).check().unwrap_err().to_string();
        assert_eq!(
            told,
            "the sources of `zh-en` are in Latin letters and the translations of `a` in Chinese characters, so the two \
             are swapped\nhint: give the files the other way round, or name the languages so: `-l en-zh`"
        );
        for (pair, source, hypothesis) in
            [("en-zh", EN, ZH), ("en-de", EN, EN), ("zh-en", EN, EN), ("en-sr", EN, RU)]
        {
            assert_eq!(seen(pair, &[(source, hypothesis)]).check(), Ok(()), "{pair}");
        }
    }

    #[test]
    fn what_is_strange_is_said() {
        let doubts = |pair: &str, texts: &[(&str, &str)]| seen(pair, texts).doubts();
        assert_eq!(
            doubts("zh-de", &[(EN, "Der Rat der Stadt stimmte am Dienstag dafür.")]),
            [
                "the sources of `zh-de` are in Latin letters, which Chinese is not written in; are files and languages the \
              right ones?"
            ]
        );
        assert_eq!(
            doubts("en-sr_Latn", &[(EN, RU)]),
            [
                "the translations `a` of `en-sr_Latn` are in Cyrillic letters, which Serbian (Latin script) is not written \
              in; are files and languages the right ones?"
            ]
        );
        assert_eq!(
            doubts("en-zh", &[(EN, EN), (EN, EN), (EN, ZH)]),
            ["the translation `a` is the source itself in 2 of 3 segments; is it the right file?"]
        );
    }

    #[test]
    fn one_sentence_that_is_not_translated_is_said() {
        let doubts = |texts: &[(&str, &str)]| seen("en-de", texts).doubts();
        let de = "Der Rat der Stadt stimmte am Dienstag dafür.";
        assert_eq!(
            doubts(&[(EN, de), (EN, EN), (EN, de)]),
            [
                "the translation `a` is the source itself, of 5 words or more, in 1 of 3 segments, first in segment 2 (id 1)"
            ]
        );
        assert_eq!(doubts(&[(EN, de), ("IBM Watson", "IBM Watson"), (EN, de)]), Vec::<String>::new());
    }

    #[test]
    fn what_may_be_right_is_not_doubted() {
        let names = format!("{ZH} IBM");
        for (pair, source, hypothesis) in [
            ("en-zh", EN, names.as_str()),
            // Serbian has two scripts, and Kurdish is not known here.
            ("en-sr", EN, RU),
            ("en-ku", EN, RU),
            // Too short to say.
            ("en-zh", "OK", "OK!"),
            ("ja-en", "村議会は火曜日に古い橋を閉鎖することを決議した。春に再開する予定だ。", EN),
        ] {
            assert_eq!(seen(pair, &[(source, hypothesis)]).doubts(), Vec::<String>::new(), "{pair}");
        }
    }
}
