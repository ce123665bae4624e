//! Language-ID check of whole files: files in another language than their pair names; sources and
//! translations that are swapped, identical or shifted against each other. Single segments are checked in
//! `untranslated`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    Lang, Segment,
    language_id::{Identified, TextLanguage, are_close, identify, is_known},
    script::{Letters, Script},
    shifted::{self, Lines},
    untranslated::{self, Untranslated},
};

/// Letters of a piece, by which a file is identified; below this many letters the check is inconclusive.
/// Unit: as of [`Letters::total`].
const PIECE: usize = 200;

/// The most pieces of a file that are identified, evenly over its length.
const MOST: usize = 120;

/// The least share of a file's pieces in another language at which the file is rejected, 0 to 1.
const CERTAIN: f64 = 0.9;

/// The least share of a file's pieces in another language for a warning, 0 to 1.
const DOUBTFUL: f64 = 0.3;

/// Copies of their sources that make a file of copies, where they are nearly all of its segments.
const COPIES: usize = 3;

/// The identified languages of the pieces of a file.
#[derive(Clone, Debug, Default)]
struct File {
    piece: String,
    n_pieces: usize,
    /// Of every 2^`halvings`-th piece, the other language that it is in.
    found: Vec<Option<TextLanguage>>,
    halvings: u32,
}

impl File {
    fn add(&mut self, text: &str, lang: &Lang) {
        self.piece.push_str(text);
        self.piece.push('\n');
        if Letters::count(&self.piece).total() < PIECE {
            return;
        }
        if self.n_pieces.is_multiple_of(1 << self.halvings) {
            self.found.push(match identify(&self.piece, lang) {
                Identified::Other(found) => Some(found),
                _ => None,
            });
        }
        if self.found.len() > MOST {
            let mut is_even = [true, false].into_iter().cycle();
            self.found.retain(|_| is_even.next().unwrap_or_default());
            self.halvings += 1;
        }
        self.n_pieces += 1;
        self.piece.clear();
    }

    /// The most frequent other language of the pieces, and its share, 0 to 1.
    fn other(&self) -> Option<(TextLanguage, f64)> {
        let mut counts: BTreeMap<TextLanguage, usize> = BTreeMap::new();
        self.found.iter().flatten().for_each(|found| *counts.entry(*found).or_default() += 1);
        let (found, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
        Some((found, n as f64 / self.found.len() as f64))
    }

    /// The other language of [`File::other`], where it is certain. Latin letters in a language that is not
    /// written in them are never certain: they may be a transliteration.
    fn certain(&self) -> Option<TextLanguage> {
        let (found, share) = self.other()?;
        (share >= CERTAIN && found != TextLanguage::Script(Script::Latin)).then_some(found)
    }

    /// The certain other language ([`File::certain`]); also for a shorter file in a script that its language
    /// is not written in.
    fn certain_by_script(&self, lang: &Lang) -> Option<TextLanguage> {
        let is_stray = self.n_pieces == 0 && Letters::count(&self.piece).stray(lang).is_some();
        let found = || match identify(&self.piece, lang) {
            Identified::Other(TextLanguage::Script(Script::Latin)) => None,
            Identified::Other(found) => Some(found),
            _ => None,
        };
        self.certain().or_else(|| is_stray.then(found).flatten())
    }
}

/// Statistics of the translations of one system into one language.
#[derive(Clone, Debug, Default)]
struct SystemStats {
    translations: File,
    lines: Lines,
    n: usize,
    copies: usize,
    /// Copies that are no name, number or address, and the first of them.
    long_copies: usize,
    first_copy: Option<usize>,
}

/// Statistics of a language pair.
#[derive(Clone, Debug, Default)]
struct PairStats {
    sources: File,
    systems: BTreeMap<String, SystemStats>,
}

/// Checks that the files of an input are in their declared languages, over a stream of segments.
#[derive(Clone, Debug, Default)]
pub struct MixedUp {
    pairs: BTreeMap<(Lang, Lang), PairStats>,
}

/// Reason for rejecting an input: a file is certainly in another language than declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    complaint: String,
    hint: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.complaint, self.hint)
    }
}

impl std::error::Error for Refusal {}

impl MixedUp {
    /// Adds the next segment.
    pub fn add(&mut self, segment: &Segment) {
        let Segment { source, hypothesis, src_lang, tgt_lang, .. } = segment;
        let pair = self.pairs.entry((src_lang.clone(), tgt_lang.clone())).or_default();
        let unquoted = untranslated::unquoted(segment);
        if !unquoted.is_empty() {
            pair.sources.add(source, src_lang);
        }
        if !pair.systems.contains_key(&segment.system) {
            pair.systems.insert(segment.system.clone(), SystemStats::default());
        }
        let Some(seen) = pair.systems.get_mut(&segment.system) else { return };
        seen.translations.add(&unquoted, tgt_lang);
        seen.lines.add(source, hypothesis);
        seen.n += 1;
        if source == hypothesis && !source.trim().is_empty() {
            seen.copies += 1;
            if untranslated::of(segment) == Some(Untranslated::Copy) {
                seen.long_copies += 1;
                seen.first_copy.get_or_insert(segment.seg);
            }
        }
    }

    /// Checks that every file can be in its declared language: none is certainly in another one, or a copy.
    ///
    /// # Errors
    /// [`Refusal`], of the first such file.
    pub fn check(&self) -> Result<(), Refusal> {
        for ((src, tgt), pair) in &self.pairs {
            for (system, seen) in &pair.systems {
                seen.refusal(system, &pair.sources, (src, tgt)).map_or(Ok(()), Err)?;
            }
            if let Some(found) = pair.sources.certain() {
                let complaint = format!("the sources of `{src}-{tgt}` are in {found}{}", not(found, src));
                let hint = format!("give the sources in {}, or the right pair (`-l`)", src.name());
                return Err(Refusal { complaint, hint });
            }
        }
        Ok(())
    }

    /// Warnings about files or languages that seem mixed up, in sentences.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for ((src, tgt), pair) in &self.pairs {
            doubts.extend(pair.sources.doubt(&format!("the sources of `{src}-{tgt}`"), src));
            for (system, seen) in &pair.systems {
                doubts.extend(seen.doubt(system));
                doubts.extend(seen.translations.doubt(&format!("the translations `{system}`"), tgt));
            }
        }
        doubts
    }

    /// The languages of the input that no text is identified in, in a sentence; `None` where all are known.
    pub fn unknown(&self) -> Option<String> {
        let languages = self.pairs.keys().flat_map(|(src, tgt)| [src, tgt]);
        let unknown: BTreeSet<&str> = languages.filter(|lang| !is_known(lang)).map(Lang::name).collect();
        let names = unknown.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| {
            format!("texts in {names} are not checked for their language: it is not one that is known")
        })
    }
}

impl File {
    fn doubt(&self, whose: &str, lang: &Lang) -> Option<String> {
        let (found, share) = self.other().filter(|(_, share)| *share >= DOUBTFUL)?;
        let share = if share >= CERTAIN { String::new() } else { format!(" for {:.0}%", 100.0 * share) };
        Some(format!(
            "{whose} are{share} in {found}{}; are files and languages the right ones?",
            not(found, lang)
        ))
    }
}

impl SystemStats {
    /// Reason for rejecting the translations of a system; `None` if there is none.
    fn refusal(&self, system: &str, sources: &File, (src, tgt): (&Lang, &Lang)) -> Option<Refusal> {
        if self.long_copies >= COPIES && self.long_copies as f64 >= CERTAIN * self.n as f64 {
            let complaint = format!(
                "the translation `{system}` is the source itself in {} of {} segments",
                self.copies, self.n
            );
            return Some(Refusal { complaint, hint: format!("give the translations into {}", tgt.name()) });
        }
        if let (Some(sources), Some(found)) =
            (sources.certain_by_script(src), self.translations.certain_by_script(tgt))
            && is_in(sources, tgt)
            && is_in(found, src)
        {
            let complaint = format!(
                "the sources of `{src}-{tgt}` are in {sources} and the translations of `{system}` in {found}, so the two are \
                 swapped"
            );
            let hint =
                format!("give the files the other way round, or name the languages so: `-l {tgt}-{src}`");
            return Some(Refusal { complaint, hint });
        }
        if let Some(found) = self.translations.certain() {
            let complaint = format!("the translations of `{system}` are in {found}{}", not(found, tgt));
            let hint = format!("give the translations into {}, or the right pair (`-l`)", tgt.name());
            return Some(Refusal { complaint, hint });
        }
        self.lines.shift(shifted::CERTAIN).map(|shift| Refusal {
            complaint: format!("the translations of `{system}` stand {} their sources", shifted_by(shift)),
            hint: "look for a line that is missing or too many in one of the files".to_owned(),
        })
    }

    /// Warning about translations that are copies, or seem to be shifted.
    fn doubt(&self, system: &str) -> Option<String> {
        let Self { n, copies, long_copies, .. } = self;
        if let Some(shift) = self.lines.shift(shifted::DOUBTFUL) {
            return Some(format!(
                "the translations of `{system}` seem to stand {} their sources, as far as names and numbers say",
                shifted_by(shift)
            ));
        }
        if copies * 2 > *n {
            return Some(format!(
                "the translation `{system}` is the source itself in {copies} of {n} segments; is it the right file?"
            ));
        }
        self.first_copy.map(|first| {
            format!(
                "the translation `{system}` is the source itself, in whole sentences, in {long_copies} of {n} segments, first in \
                 {}",
                super::numbered(first)
            )
        })
    }
}

/// `1 line above`.
fn shifted_by(shift: i64) -> String {
    let (n, side) = (shift.unsigned_abs(), if shift > 0 { "below" } else { "above" });
    format!("{n} {} {side}", if n == 1 { "line" } else { "lines" })
}

/// Returns true if an identified language is the named one.
fn is_in(found: TextLanguage, lang: &Lang) -> bool {
    match found {
        TextLanguage::Language(found) => are_close(found, lang),
        TextLanguage::Script(script) => script.is_of(lang),
    }
}

/// `, not German`, and of a script `, which German is not written in`.
fn not(found: TextLanguage, lang: &Lang) -> String {
    match found {
        TextLanguage::Language(_) => format!(", not {}", lang.name()),
        TextLanguage::Script(_) => format!(", which {} is not written in", lang.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EN: &str = "The town council voted on Tuesday to close the old bridge for repairs.";
    const DE: &str =
        "Der Rat der Stadt stimmte am Dienstag dafür, die alte Brücke wegen Reparaturen zu schließen.";
    const FR: &str =
        "Le conseil municipal a voté mardi la fermeture du vieux pont pour effectuer des réparations.";
    const ZH: &str = "议会星期二投票决定关闭旧桥进行维修，直到春天才重新开放。";
    const RU: &str = "Городской совет проголосовал во вторник за закрытие старого моста на ремонт.";

    /// So many segments of a text that is long enough to be certain of.
    const N: usize = 5;

    fn seen(pair: &str, texts: &[(&str, &str)]) -> MixedUp {
        let pair = crate::segment::lang::parse_pair(pair).unwrap();
        let mut seen = MixedUp::default();
        for (seg, (source, hypothesis)) in texts.iter().enumerate() {
            seen.add(&Segment { system: "a".into(), seg, ..Segment::new(pair.clone(), source, hypothesis) });
        }
        seen
    }

    fn refusal(pair: &str, source: &str, hypothesis: &str) -> String {
        let refused = seen(pair, &[(source, hypothesis); N]).check();
        refused.err().map(|refusal| refusal.to_string()).unwrap_or_default()
    }

    #[test]
    fn whole_files_in_another_language_are_refused() {
        insta::assert_snapshot!(refusal("zh-en", EN, ZH), @r"
        the sources of `zh-en` are in English and the translations of `a` in Chinese, so the two are swapped
        hint: give the files the other way round, or name the languages so: `-l en-zh`
        ");
        insta::assert_snapshot!(refusal("de-en", EN, DE), @r"
        the sources of `de-en` are in English and the translations of `a` in German, so the two are swapped
        hint: give the files the other way round, or name the languages so: `-l en-de`
        ");
        insta::assert_snapshot!(refusal("en-de", EN, FR), @r"
        the translations of `a` are in French, not German
        hint: give the translations into German, or the right pair (`-l`)
        ");
        insta::assert_snapshot!(refusal("zh-de", EN, DE), @r"
        the sources of `zh-de` are in English, not Chinese
        hint: give the sources in Chinese, or the right pair (`-l`)
        ");
        insta::assert_snapshot!(refusal("en-de", EN, EN), @r"
        the translation `a` is the source itself in 5 of 5 segments
        hint: give the translations into German
        ");
        insta::assert_snapshot!(refusal("en-sr_Latn", EN, RU), @r"
        the translations of `a` are in Cyrillic letters, which Serbian (Latin script) is not written in
        hint: give the translations into Serbian (Latin script), or the right pair (`-l`)
        ");
        let shifted = ["In 1987", "Helen Carter", "14 cracks", "the Miramar"];
        let lines: Vec<(&str, &str)> = (0..4).map(|at| (shifted[at], shifted[(at + 1) % 4])).collect();
        insta::assert_snapshot!(seen("en-de", &lines).check().unwrap_err(), @r"
        the translations of `a` stand 1 line above their sources
        hint: look for a line that is missing or too many in one of the files
        ");
    }

    #[test]
    fn what_may_be_right_is_neither_refused_nor_doubted() {
        let names = format!("{ZH} IBM");
        for (pair, source, hypothesis) in [
            ("en-de", EN, DE),
            ("zh-en", ZH, EN),
            ("en-zh", EN, names.as_str()),
            // Serbian has two scripts, and Kurdish is not known here.
            ("en-sr", EN, RU),
            ("en-ku", EN, RU),
            // Close languages.
            ("en-uk", EN, RU),
            // No text.
            ("en-zh", "OK", "OK!"),
            ("en-de", "", ""),
            ("en-de", "", "  "),
            ("en-de", "12 345", "12 345"),
            ("ja-en", "村議会は火曜日に古い橋を閉鎖することを決議した。春に再開する予定だ。", EN),
        ] {
            assert_eq!(refusal(pair, source, hypothesis), "", "{pair}");
            let doubts = seen(pair, &[(source, hypothesis); N]).doubts();
            let doubts: Vec<_> = doubts.iter().filter(|doubt| !doubt.contains("source itself")).collect();
            assert_eq!(doubts, Vec::<&String>::new(), "{pair}");
        }
        // Too little to be certain of.
        assert_eq!(seen("en-de", &[(EN, FR)]).check(), Ok(()));
    }

    #[test]
    fn a_file_is_judged_over_its_whole_length() {
        let certain = |parts: &[(&str, usize)]| {
            let texts = parts.iter().flat_map(|(text, n)| vec![(EN, *text); *n]).collect::<Vec<_>>();
            seen("en-de", &texts).check().is_err()
        };
        assert!(!certain(&[(FR, 500), (DE, 500)]) && !certain(&[(FR, 3), (DE, 9)]));
        assert!(certain(&[(DE, 9), (FR, 1000)]) && certain(&[(FR, 3)]));
    }

    #[test]
    fn honest_translations_are_not_called_wrong() {
        let rows = include_str!("tests/honest.tsv").lines().filter(|line| !line.starts_with('#'));
        let mut called = Vec::new();
        for row in rows {
            let [src_lang, tgt_lang, source, hypothesis] =
                row.split('\t').collect::<Vec<_>>().try_into().expect("a row has four fields");
            let mut segment = Segment::new(
                (Lang::parse(src_lang).unwrap(), Lang::parse(tgt_lang).unwrap()),
                source,
                hypothesis,
            );
            let reason = untranslated::of(&segment).map(|found| found.reason(&segment.tgt_lang));
            called.extend(reason.map(|reason| format!("{tgt_lang}: {hypothesis}: {reason}")));
            let mut file = MixedUp::default();
            for seg in 0..3 * N {
                segment.seg = seg;
                file.add(&segment);
            }
            let refusal = file.check().err();
            called.extend(refusal.map(|refusal| format!("{tgt_lang}, a file: {hypothesis}: {refusal}")));
        }
        assert!(called.is_empty(), "{}", called.join("\n"));
    }

    #[test]
    fn what_is_strange_is_said() {
        let doubts = |pair: &str, texts: &[(&str, &str)]| seen(pair, texts).doubts();
        assert_eq!(
            doubts("en-zh", &[(EN, EN), (EN, EN), (EN, ZH)]),
            ["the translation `a` is the source itself in 2 of 3 segments; is it the right file?"]
        );
        let half = [[(EN, DE); 6], [(EN, FR); 6]].concat();
        assert_eq!(
            doubts("en-de", &half),
            [
                "the translations `a` are for 50% in French, not German; are files and languages the right ones?"
            ]
        );
        assert_eq!(seen("en-de", &half).check(), Ok(()));
    }

    #[test]
    fn one_sentence_that_is_not_translated_is_said() {
        let doubts = |texts: &[(&str, &str)]| seen("en-de", texts).doubts();
        assert_eq!(
            doubts(&[(EN, DE), (EN, EN), (EN, DE)]),
            [
                "the translation `a` is the source itself, in whole sentences, in 1 of 3 segments, first in segment 2 (id 1)"
            ]
        );
        assert_eq!(doubts(&[(EN, DE), ("IBM Watson", "IBM Watson"), (EN, DE)]), Vec::<String>::new());
    }

    #[test]
    fn languages_that_are_not_known_are_named_once() {
        assert_eq!(seen("en-de", &[(EN, DE)]).unknown(), None);
        assert_eq!(
            seen("mas-ha", &[(EN, DE), (EN, DE)]).unknown().as_deref(),
            Some("texts in Hausa, Maasai are not checked for their language: it is not one that is known")
        );
    }
}
