//! Sets built from a rated test set: GEN (every label), PTB (perfect and perturbed translations), MIS
//! (mistranslation alone). The same seed builds the same set, and its cues stand in random order, so that the
//! first of them are a sample of all.
//!
//! Source: RUBRIC-MQM, Section 4.1, Appendix B and Table 7.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::gold::Cue;
use super::labels::{self, NO_ERROR};
use super::perturb;
pub use super::plan::{Plan, Rated, Set};
use tribunal_core::mqm::ratings::RatedError;
use tribunal_meta::pcg::Pcg64;
use tribunal_meta::{Error, Result};

/// The cues of one label and severity: their number, and the number that the plan required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    pub category: &'static str,
    pub severity: &'static str,
    pub n: usize,
    pub wanted: usize,
}

/// A set and its composition.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    pub cues: Vec<Cue>,
    /// Every cell of the plan, including those that the data could not fill.
    pub cells: Vec<Cell>,
}

impl Set {
    /// The cues of each label (GEN) or of the whole set in the paper: Table 7.
    pub fn size(self) -> usize {
        if self == Self::Gen { 100 } else { 1000 }
    }

    /// The labels and severities of its cues, all equally many.
    fn cells(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Gen => labels::ERRORS.iter().flat_map(|l| [(*l, "major"), (*l, "minor")]).collect(),
            Self::Mis => vec![("mistranslation", "major"), ("mistranslation", "minor")],
            Self::Ptb => vec![(NO_ERROR, NO_ERROR), ("mistranslation", "major")],
        }
    }
}

/// Builds a set. A cell that the data cannot fill stays short: the others are not made larger for it, as in
/// the paper's GEN.
///
/// # Errors
/// An odd size, or no translation that fits.
pub fn build(rated: &[Rated], plan: &Plan) -> Result<Built> {
    if plan.size % 2 == 1 {
        let size = plan.size;
        return Err(Error::Unsuitable(format!(
            "a set has two halves and cannot have the size {size}; hint: an even size"
        )));
    }
    let mut random = Pcg64::new(plan.seed);
    let mut cues = match plan.set {
        Set::Ptb => {
            let perfect: Vec<&Rated> = rated.iter().filter(|rated| is_perfect(rated)).collect();
            perturb::pairs(&perfect, plan.size / 2, plan, &mut random)
        }
        Set::Gen | Set::Mis => marked_set(rated, plan, &mut random),
    };
    if cues.is_empty() {
        let reason = if plan.set == Set::Ptb {
            "without an error, of five words or more"
        } else {
            "with such an error"
        };
        return Err(Error::Unsuitable(format!(
            "no translation {reason} is among the {} rated ones",
            rated.len()
        )));
    }
    random.shuffle(&mut cues);
    for (id, cue) in cues.iter_mut().enumerate() {
        cue.id = id;
    }
    let n = |category: &str, severity: &str| {
        cues.iter().filter(|cue| cue.category == category && cue.severity == severity).count()
    };
    let cell =
        |(category, severity)| Cell { category, severity, n: n(category, severity), wanted: plan.size / 2 };
    let cells = plan.set.cells().into_iter().map(cell).collect();
    Ok(Built { cues, cells })
}

/// True if a text holds `<v>` or `</v>`, which could not be told from a mark.
fn has_marks(rated: &Rated) -> bool {
    [rated.source, rated.target].iter().any(|text| text.contains("<v>") || text.contains("</v>"))
}

fn is_perfect(rated: &Rated) -> bool {
    !has_marks(rated) && rated.errors.iter().all(|error| labels::from_mqm(&error.category) == Some(NO_ERROR))
}

fn marked_set(rated: &[Rated], plan: &Plan, random: &mut Pcg64) -> Vec<Cue> {
    let mut candidates: BTreeMap<(&str, &str), Vec<(&Rated, &RatedError)>> = BTreeMap::new();
    for translation in rated {
        for error in translation.errors.iter().filter(|error| error.end > error.start) {
            let cell = (labels::from_mqm(&error.category), labels::severity(&error.severity));
            if let (Some(label), Some(severity)) = cell {
                candidates.entry((label, severity)).or_default().push((translation, error));
            }
        }
    }
    let mut cues = Vec::new();
    // Two systems may have the same translation, and a rater may have given one span two labels.
    let mut seen = BTreeSet::new();
    for (label, severity) in plan.set.cells() {
        let mut group = candidates.remove(&(label, severity)).unwrap_or_default();
        random.shuffle(&mut group);
        let drawn = group
            .into_iter()
            .filter_map(|(rated, error)| marked(rated, error, [label, severity], plan))
            .filter(|cue| seen.insert((cue.source.clone(), cue.target.clone())));
        cues.extend(drawn.take(plan.size / 2));
    }
    cues
}

/// The translation with one of its errors marked; `None` when the offsets leave the text, or a text has marks
/// of its own.
fn marked(rated: &Rated, error: &RatedError, [label, severity]: [&str; 2], plan: &Plan) -> Option<Cue> {
    if has_marks(rated) {
        return None;
    }
    let text = if error.is_source_error { rated.source } else { rated.target };
    let (span, tagged) = with_tags(text, error.start, error.end)?;
    let (source, target) = if error.is_source_error {
        (tagged, rated.target.to_owned())
    } else {
        (rated.source.to_owned(), tagged)
    };
    Some(Cue {
        id: 0,
        source,
        reference: rated.reference.to_owned(),
        target,
        error_span: span,
        category: label.to_owned(),
        severity: severity.to_owned(),
        source_lang: plan.source_lang.clone(),
        target_lang: plan.target_lang.clone(),
    })
}

fn with_tags(text: &str, start: usize, end: usize) -> Option<(String, String)> {
    let chars: Vec<char> = text.chars().collect();
    let span: String = chars.get(start..end)?.iter().collect();
    let before: String = chars[..start].iter().collect();
    let after: String = chars[end..].iter().collect();
    let tagged = format!("{before}<v>{span}</v>{after}");
    Some((span, tagged))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(set: Set, size: usize) -> Plan {
        Plan { set, size, seed: 3, source_lang: "a".into(), target_lang: "b".into() }
    }

    fn error(category: &str, severity: &str, start: usize) -> RatedError {
        RatedError {
            start,
            end: start + 1,
            category: category.into(),
            severity: severity.into(),
            score: None,
            is_source_error: false,
        }
    }

    fn shown(cells: &[Cell]) -> Vec<String> {
        let cells = cells.iter().filter(|cell| cell.n > 0);
        cells.map(|c| format!("{} {} {}/{}", c.category, c.severity, c.n, c.wanted)).collect()
    }

    #[test]
    fn tags_enclose_code_points() {
        assert_eq!(with_tags("wäre es", 1, 4), Some(("äre".into(), "w<v>äre</v> es".into())));
        assert_eq!(with_tags("ab", 1, 4), None);
    }

    #[test]
    fn labels_and_severities_are_balanced() {
        // Nine minor mistranslations for each major one, few majors of omission, and no other label.
        let texts: Vec<String> = (0..100).map(|i| format!("text {i}")).collect();
        let errors: Vec<Vec<RatedError>> = (0..100)
            .map(|i| match i {
                0..10 => vec![error("Accuracy/Mistranslation", "Major", 0)],
                10..90 => {
                    vec![error("Accuracy/Mistranslation", "Minor", 0), error("Style/Awkward", "Minor", 1)]
                }
                90..93 => vec![error("Accuracy/Omission", "critical", 0)],
                _ => vec![error("Accuracy/Omission", "Minor", 0), error("Accuracy/Omission", "Neutral", 1)],
            })
            .collect();
        let rated: Vec<Rated> = (0..100)
            .map(|i| Rated { source: "s", reference: "", target: &texts[i], errors: &errors[i] })
            .collect();
        let mis = build(&rated, &plan(Set::Mis, 20)).unwrap();
        assert_eq!(shown(&mis.cells), ["mistranslation major 10/10", "mistranslation minor 10/10"]);
        // The first half of the file is not all of one severity.
        let first = mis.cues[..10].iter().filter(|cue| cue.severity == "major").count();
        assert!((1..10).contains(&first), "{first}");
        let gen_set = build(&rated, &plan(Set::Gen, 10)).unwrap();
        assert_eq!(gen_set.cells.len(), 20, "cells without a cue are named too");
        assert_eq!(
            shown(&gen_set.cells),
            [
                "omission major 3/5",
                "omission minor 5/5",
                "mistranslation major 5/5",
                "mistranslation minor 5/5"
            ]
        );
        assert_eq!(gen_set.cues.iter().map(|cue| cue.id).collect::<Vec<_>>(), (0..18).collect::<Vec<_>>());
        let odd = build(&rated, &plan(Set::Gen, 7)).unwrap_err().to_string();
        assert!(odd.contains("cannot have the size 7"), "{odd}");
        let none = build(&rated, &plan(Set::Ptb, 10)).unwrap_err().to_string();
        assert_eq!(
            none,
            "no translation without an error, of five words or more is among the 100 rated ones"
        );
    }

    #[test]
    fn texts_with_marks_of_their_own_are_left_out() {
        let errors = [error("Fluency/Grammar", "minor", 0)];
        let of = |source, target| Rated { source, reference: "", target, errors: &errors };
        let rated = [of("s", "a <v> b"), of("</v>", "c"), of("s", "d")];
        let built = build(&rated, &plan(Set::Gen, 10)).unwrap();
        let targets: Vec<_> = built.cues.iter().map(|cue| cue.target.as_str()).collect();
        assert_eq!(targets, ["<v>d</v>"]);
        let clean = |target| Rated { source: "s", reference: "", target, errors: &[] };
        let rated = [clean("one two <v> three four five"), clean("one two three four five </v>")];
        assert!(build(&rated, &plan(Set::Ptb, 2)).is_err());
    }

    #[test]
    fn no_cue_stands_twice() {
        let errors = [error("Fluency/Grammar", "minor", 0), error("Fluency/Punctuation", "minor", 0)];
        let rated = [(); 3].map(|()| Rated { source: "s", reference: "", target: "text", errors: &errors });
        let built = build(&rated, &plan(Set::Gen, 10)).unwrap();
        assert_eq!(shown(&built.cells), ["grammar minor 1/5"]);
    }

    #[test]
    fn a_set_is_the_same_for_the_same_seed() {
        let texts: Vec<String> = (0..20)
            .map(|i| ["a", "b", "c", "d", "e", "f", "g"].map(|word| format!("{word}{i}")).join(" "))
            .collect();
        let rated: Vec<Rated> = texts
            .iter()
            .map(|text| Rated { source: text, reference: "", target: text, errors: &[] })
            .collect();
        let plan = plan(Set::Ptb, 10);
        let built = build(&rated, &plan).unwrap();
        assert_eq!(built, build(&rated, &plan).unwrap());
        assert_eq!(shown(&built.cells), ["no-error no-error 5/5", "mistranslation major 5/5"]);
        for cue in &built.cues {
            let is_own = cue.source.contains(cue.error_span.trim());
            assert_eq!(is_own, cue.severity == NO_ERROR, "{cue:?}");
            assert!(cue.target.contains(&format!("<v>{}</v>", cue.error_span)), "{cue:?}");
        }
        assert_ne!(built, build(&rated, &Plan { seed: 4, ..plan }).unwrap());
    }

    /// Sentences of scripts without spaces are divided into words: as one word, they would be too short for
    /// Table 6.
    #[test]
    fn phrases_are_swapped_in_scripts_without_spaces() {
        for sentences in [
            ["他昨天在北京的大学里工作。", "我们下个星期去上海看朋友。", "这家公司的产品非常受欢迎。"],
            [
                "私は昨日東京の大学で働きました。",
                "来週友達と大阪へ行きます。",
                "この会社の製品はとても人気です。",
            ],
            ["ฉันทำงานที่มหาวิทยาลัยในกรุงเทพ", "เราจะไปหาเพื่อนที่เชียงใหม่", "สินค้าของบริษัทนี้เป็นที่นิยมมาก"],
        ] {
            let rated =
                sentences.map(|text| Rated { source: text, reference: "", target: text, errors: &[] });
            let built = build(&rated, &plan(Set::Ptb, 6)).unwrap();
            assert_eq!(built.cues.len(), 6);
            for cue in &built.cues {
                assert!(!cue.target.contains(' '), "no spaces are written: {cue:?}");
                let plain = cue.target.replace("<v>", "").replace("</v>", "");
                assert_eq!(plain == cue.source, cue.severity == NO_ERROR, "{cue:?}");
                assert!(cue.error_span.chars().count() < plain.chars().count(), "a part of it: {cue:?}");
            }
        }
    }
}
