//! Mistakes in the texts of translations: shifted lines, and equal translations. It looks at no rating.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{Finding, Kind};
use crate::segment::shifted::{self, Lines, lengths::stretch};

/// One translation, where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub file: PathBuf,
    /// From 1; `None` where the file does not tell.
    pub line: Option<usize>,
    pub system: String,
    pub doc: String,
    pub seg: usize,
    pub source: String,
    pub translation: String,
}

/// A segment of a document.
type Place<'a> = (&'a str, usize);

/// Checks the translations of a language pair, each system's in the order of its segments.
#[must_use]
pub fn check(lp: &str, texts: &[Text]) -> Vec<Finding> {
    let mut systems: BTreeMap<&str, Vec<&Text>> = BTreeMap::new();
    for text in texts {
        systems.entry(&text.system).or_default().push(text);
    }
    let shifted = systems.values().filter_map(|texts| shifted(lp, texts));
    shifted.chain(equal(lp, texts)).collect()
}

/// Lines that fit other sources better than their own, by names and numbers, and by lengths.
fn shifted(lp: &str, texts: &[&Text]) -> Option<Finding> {
    let mut lines = Lines::default();
    for text in texts {
        lines.add(&text.source, &text.translation);
    }
    let length = |text: &str| text.trim().chars().count();
    let lengths: Vec<(usize, usize)> =
        texts.iter().map(|text| (length(&text.source), length(&text.translation))).collect();
    let (first, last, shift, why) = match (lines.shift(shifted::CERTAIN), stretch(&lengths)) {
        (_, Some(found)) => {
            let why = format!("their lengths are e^{:.0} times as likely", found.log_likelihood_ratio);
            (found.first, found.last, found.shift, why)
        }
        (Some(shift), None) => (0, texts.len() - 1, shift, "names and numbers stand in both".to_owned()),
        (None, None) => return None,
    };
    let (start, end) = (texts.get(first)?, texts.get(last)?);
    let n = shift.unsigned_abs();
    let lines = if n == 1 { "1 line".to_owned() } else { format!("{n} lines") };
    let direction = if shift > 0 { "up" } else { "down" };
    let message = format!(
        "from here to {} the translations fit sources {lines} further {direction} better: {why}",
        crate::segment::numbered(end.seg)
    );
    Some(at(Finding::new(Kind::ShiftedLines, lp, message), start))
}

/// Translations that several systems have in common, once for each segment.
fn equal(lp: &str, texts: &[Text]) -> Vec<Finding> {
    let mut groups: BTreeMap<(Place, &str), Vec<&Text>> = BTreeMap::new();
    for text in texts.iter().filter(|text| !text.translation.trim().is_empty()) {
        groups.entry(((&text.doc, text.seg), text.translation.trim())).or_default().push(text);
    }
    let finding = |texts: &Vec<&Text>| {
        let systems: BTreeSet<&str> = texts.iter().map(|text| text.system.as_str()).collect();
        let others = systems.iter().filter(|system| **system != texts[0].system);
        let others = others.map(|system| format!("`{system}`")).collect::<Vec<_>>().join(", ");
        let message = format!("the same translation as that of {others}");
        (systems.len() > 1).then(|| at(Finding::new(Kind::EqualTranslations, lp, message), texts[0]))
    };
    groups.values().filter_map(finding).collect()
}

/// The finding, at a translation.
fn at(finding: Finding, text: &Text) -> Finding {
    Finding {
        file: Some(text.file.clone()),
        line: text.line,
        system: Some(text.system.clone()),
        document: Some(text.doc.clone()),
        segment: Some(text.seg),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(system: &str, translations: &[String]) -> Vec<Text> {
        let text = |(seg, translation): (usize, &String)| Text {
            file: "out.txt".into(),
            line: Some(seg + 1),
            system: system.into(),
            doc: "d".into(),
            seg,
            source: "s".repeat(10 + seg * 37 % 120),
            translation: translation.clone(),
        };
        translations.iter().enumerate().map(text).collect()
    }

    #[test]
    fn a_lost_line_is_found_where_it_was() {
        let aligned: Vec<String> = (0..40).map(|seg| "t".repeat(11 + seg * 37 % 120)).collect();
        assert!(check("en-de", &texts("A", &aligned)).is_empty());
        let lost: Vec<String> =
            aligned[..20].iter().chain(&aligned[21..]).cloned().chain(["t".into()]).collect();
        let found = check("en-de", &texts("A", &lost));
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.kind, finding.line, finding.segment), (Kind::ShiftedLines, Some(21), Some(20)));
        assert!(finding.message.contains("sources 1 line further down"), "{}", finding.message);
    }

    #[test]
    fn equal_translations_are_named_once() {
        let own = |word: &str| vec!["gleich".to_owned(), word.to_owned()];
        let all = [texts("A", &own("a")), texts("B", &own("b")), texts("C", &own("c"))].concat();
        let found = check("en-de", &all);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.kind, finding.segment), (Kind::EqualTranslations, Some(0)));
        assert_eq!(finding.message, "the same translation as that of `B`, `C`");
    }
}
