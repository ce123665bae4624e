//! The counts of error spans behind every span F1: a judge's errors against the raters', text by text, under
//! each definition by its name. No file is read and no score compared.
//!
//! Source: `offsets` is the character F1 of WMT25's task 2 (wmt25-mteval, `scoring_esa.py`), which skips
//! neutral errors, where here they count as a severity of their own; `fsp` is FSP, Appendix B.5; `wmt-qe` is
//! the script of WMT's error span task (WMT-QE-Task/qe-eval-scripts, `wmt23/task2_evaluate.py`); `mpp` is in
//! [`super::mpp`].

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::mpp::mpp;
use super::placement::{Placement, Quote, place};
use super::{Overlap, PrecisionRecall, SEVERITY_CREDIT, Span, characters, exact, partial};
use crate::{Error, Result};

/// Rule for counting marked characters, or spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Definition {
    /// WMT25's task 2: spans at the offsets of the judge's answer, translation and source apart. A character
    /// counts once for every span that covers it. A quote that is not in the text costs precision. Differs:
    /// neutral errors count.
    Offsets,
    /// FSP, B.5: every quote of the translation is placed again, at the free place that overlaps most with
    /// the raters' spans. A quote that is not in the text costs precision.
    Fsp,
    /// WMT's quality estimation task: characters of the translation, each counted once. A character that the
    /// raters marked with both severities is right with either. Neutral errors and quotes that are not in the
    /// text do not count.
    WmtQe,
    /// Spans instead of characters, matched one to one with partial credit, translation and source together;
    /// severities do not count. A quote that is not in the text costs precision.
    Mpp,
}

impl Definition {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Offsets, Self::Fsp, Self::WmtQe, Self::Mpp];

    /// The unit of the counts: characters or spans.
    pub fn unit(self) -> &'static str {
        if self == Self::Mpp { "spans" } else { "characters" }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Offsets => "offsets",
            Self::Fsp => "fsp",
            Self::WmtQe => "wmt-qe",
            Self::Mpp => "mpp",
        }
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Definition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|definition| definition.name() == text).ok_or_else(|| {
            Error::Unsuitable(format!(
                "`{text}` is not a definition of span F1; hint: it can be offsets, fsp, wmt-qe or mpp"
            ))
        })
    }
}

/// An error named by a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    pub quote: &'a str,
    pub in_source: bool,
    /// Half-open, in Unicode code points; `None` where the judge's answer has no place.
    pub place: Option<(usize, usize)>,
    /// Severity, numbered by [`super::severity`].
    pub severity: u8,
}

/// The two texts that errors are named in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texts<'a> {
    pub source: &'a str,
    pub target: &'a str,
}

/// A value for the translation and one for the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BySide<T> {
    pub target: T,
    pub source: T,
}

impl<T> BySide<T> {
    fn of(&mut self, in_source: bool) -> &mut T {
        if in_source { &mut self.source } else { &mut self.target }
    }
}

impl BySide<Overlap> {
    /// The micro-averages over everything added up.
    pub fn scores(&self) -> BySide<PrecisionRecall> {
        BySide { target: self.target.score(), source: self.source.score() }
    }
}

/// Counts that add up over translations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Characters under [`Definition::Offsets`].
    pub characters: BySide<Overlap>,
    /// Characters under [`Definition::Fsp`].
    pub fsp: Overlap,
    /// Characters under [`Definition::WmtQe`].
    pub wmt_qe: Overlap,
    /// Whole spans, and shares of them, placed as under [`Definition::Offsets`].
    pub exact: BySide<Overlap>,
    pub partial: BySide<Overlap>,
    /// Spans under [`Definition::Mpp`].
    pub mpp: Overlap,
    /// Texts that MPP leaves out, because too many pairs of spans overlap.
    pub n_beyond_mpp: usize,
}

impl Counts {
    /// Adds what a judge marked in one translation where the raters marked `gold`.
    ///
    /// ```
    /// use tribunal_meta::spans::Span;
    /// use tribunal_meta::spans::counts::{Counts, Named, Texts};
    /// let gold = [Span { start: 7, end: 10, in_source: false, severity: 1 }];
    /// let the = |place| Named { quote: "the", in_source: false, place, severity: 1 };
    /// let texts = Texts { source: "x", target: "the on the mat" };
    /// let mut counts = Counts::default();
    /// counts.add(&gold, &[the(Some((0, 3)))], texts);
    /// // The judge means the first one, and FSP gives it the benefit of the doubt.
    /// assert_eq!((counts.characters.target.score().f1, counts.fsp.score().f1), (0.0, 1.0));
    /// ```
    pub fn add(&mut self, gold: &[Span], named: &[Named], texts: Texts) {
        self.add_parts(gold, named, texts, &|span| vec![span]);
    }

    /// `add` where only parts of the texts were rated: `cut` returns the rated parts of a span. Quotes that
    /// are not in the text count as if they were in a rated part.
    pub fn add_parts(
        &mut self,
        gold: &[Span],
        named: &[Named],
        texts: Texts,
        cut: &dyn Fn(Span) -> Vec<Span>,
    ) {
        let places = located(named, texts);
        let mut n_lost = 0;
        for in_source in [false, true] {
            let on_side = |spans: &[Span]| -> Vec<Span> {
                spans.iter().filter(|span| span.in_source == in_source).copied().collect()
            };
            let gold = on_side(gold);
            let found = places.iter().flatten().flat_map(|span| cut(*span)).collect::<Vec<_>>();
            let found = on_side(&found);
            let lost = named.iter().zip(&places);
            let lost = lost.filter(|(named, place)| place.is_none() && named.in_source == in_source);
            let lost: Vec<usize> =
                lost.map(|(named, _)| named.quote.chars().count()).filter(|n| *n > 0).collect();
            let n_characters = lost.iter().sum::<usize>() as f64;
            let n_spans = lost.len() as f64;
            n_lost += lost.len();
            self.characters.of(in_source).add(&costing(characters(&gold, &found), n_characters));
            self.exact.of(in_source).add(&costing(exact(&gold, &found), n_spans));
            self.partial.of(in_source).add(&costing(partial(&gold, &found), n_spans));
            if !in_source {
                self.wmt_qe.add(&wmt_qe(&gold, &found));
            }
        }
        let found: Vec<Span> = places.iter().flatten().flat_map(|span| cut(*span)).collect();
        match mpp(gold, &found, n_lost) {
            Some(overlap) => self.mpp.add(&overlap),
            None => self.n_beyond_mpp += 1,
        }
        self.fsp.add(&fsp(gold, named, texts.target, cut));
    }
}

/// Adds predicted characters or spans that are not in the text.
fn costing(overlap: Overlap, lost: f64) -> Overlap {
    Overlap { predicted: overlap.predicted + lost, ..overlap }
}

/// The place of each error: that of the answer, or the first free one where the answer has none; `None` for a
/// quote that is not in the text.
pub fn located(named: &[Named], texts: Texts) -> Vec<Option<Span>> {
    let place_of = |named: &Named| {
        let (start, end) = named.place.filter(|(start, end)| start < end)?;
        Some(Span { start, end, in_source: named.in_source, severity: named.severity })
    };
    let mut places: Vec<Option<Span>> = named.iter().map(place_of).collect();
    for (in_source, text) in [(false, texts.target), (true, texts.source)] {
        let without: Vec<usize> = (0..named.len())
            .filter(|&idx| places[idx].is_none() && named[idx].in_source == in_source)
            .collect();
        let quotes: Vec<Quote> = without.iter().map(|&idx| quote(&named[idx])).collect();
        for (idx, span) in without.into_iter().zip(place(text, &quotes, &[], Placement::Honest)) {
            places[idx] = span.map(|span| Span { in_source, ..span });
        }
    }
    places
}

fn quote<'a>(named: &Named<'a>) -> Quote<'a> {
    Quote { text: named.quote, severity: named.severity }
}

fn fsp(gold: &[Span], named: &[Named], target: &str, cut: &dyn Fn(Span) -> Vec<Span>) -> Overlap {
    let gold: Vec<Span> = gold.iter().filter(|span| !span.in_source).copied().collect();
    let quotes: Vec<Quote> = named.iter().filter(|named| !named.in_source).map(quote).collect();
    let places = place(target, &quotes, &gold, Placement::Optimistic);
    let found: Vec<Span> = places.iter().flatten().flat_map(|span| cut(*span)).collect();
    let lost = places.iter().zip(&quotes).filter(|(place, _)| place.is_none());
    let n_lost: usize = lost.map(|(_, quote)| quote.text.chars().count()).sum();
    costing(characters(&gold, &found), n_lost as f64)
}

/// Characters, each once: right where the severity is one of the raters', half right where it is not. An
/// empty span marks the character that it stands before, as in the task's script.
fn wmt_qe(gold: &[Span], found: &[Span]) -> Overlap {
    let length = gold.iter().chain(found).map(|span| span.end.max(span.start + 1)).max().unwrap_or(0);
    let marked = |spans: &[Span], severity: u8| -> Vec<bool> {
        let mut marked = vec![false; length];
        for span in spans.iter().filter(|span| span.severity == severity) {
            marked[span.start..span.end.max(span.start + 1)].fill(true);
        }
        marked
    };
    let [gold_minor, gold_major] = [1, 2].map(|severity| marked(gold, severity));
    let [minor, major] = [1, 2].map(|severity| marked(found, severity));
    let mut overlap = Overlap::default();
    for at in 0..length {
        let (is_gold, is_found) = (gold_minor[at] || gold_major[at], minor[at] || major[at]);
        let same = (gold_minor[at] && minor[at]) || (gold_major[at] && major[at]);
        let credit = match (is_gold && is_found, same) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => SEVERITY_CREDIT,
        };
        overlap.add(&Overlap {
            right_predicted: credit,
            predicted: f64::from(u8::from(is_found)),
            found_gold: credit,
            gold: f64::from(u8::from(is_gold)),
        });
    }
    overlap
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: Texts = Texts { source: "der Hund und der Bär", target: "the dog and the bear" };

    fn span(start: usize, end: usize, in_source: bool) -> Span {
        Span { start, end, in_source, severity: 1 }
    }

    fn named(quote: &'static str, in_source: bool, place: Option<(usize, usize)>) -> Named<'static> {
        Named { quote, in_source, place, severity: 1 }
    }

    fn counts(gold: &[Span], found: &[Named]) -> Counts {
        let mut counts = Counts::default();
        counts.add(gold, found, TEXTS);
        counts
    }

    #[test]
    fn the_judges_own_place_counts_and_not_the_first_one() {
        let gold = [span(12, 15, false)];
        let second = counts(&gold, &[named("the", false, Some((12, 15)))]);
        assert_eq!(second.characters.target.score().f1, 1.0);
        assert_eq!(second.exact.target.score().f1, 1.0);
        let first = counts(&gold, &[named("the", false, Some((0, 3)))]);
        assert_eq!((first.characters.target.score().f1, first.fsp.score().f1), (0.0, 1.0));
        // Without a place, a quote stands at the first free one.
        let unplaced = counts(&[span(0, 3, false)], &[named("the", false, None)]);
        assert_eq!(unplaced.characters.target.score().f1, 1.0);
    }

    #[test]
    fn the_sides_are_counted_apart() {
        let gold = [span(0, 3, false), span(0, 3, true), span(4, 8, true)];
        let found = [named("the", false, Some((0, 3))), named("der", true, Some((13, 16)))];
        let counts = counts(&gold, &found);
        assert_eq!(counts.characters.target.score().f1, 1.0);
        let source = counts.characters.source.score();
        assert_eq!((source.precision, source.recall), (0.0, 0.0));
        assert_eq!((counts.fsp.score().f1, counts.wmt_qe.score().f1), (1.0, 1.0), "of the translation alone");
    }

    #[test]
    fn a_quote_that_is_nowhere_costs_precision_in_characters_and_in_spans() {
        let gold = [span(4, 7, false)];
        let found = [named("dog", false, Some((4, 7))), named("cat", false, None), named("", false, None)];
        let counts = counts(&gold, &found);
        for overlap in [counts.characters.target, counts.exact.target, counts.partial.target, counts.fsp] {
            assert_eq!((overlap.score().precision, overlap.score().recall), (0.5, 1.0), "{overlap:?}");
        }
        assert_eq!(counts.wmt_qe.score().precision, 1.0, "what is not there cannot be handed in");
        let source = self::counts(&[], &[named("Katze", true, None)]);
        assert_eq!(source.characters.source.score().precision, 0.0);
    }

    /// Worked out by hand from the task's script: a character counts once, and where the raters marked it
    /// with both severities, either is right.
    #[test]
    fn characters_as_the_quality_estimation_task_counts_them() {
        let of = |start, end, severity| Span { start, end, in_source: false, severity };
        let gold = [of(0, 4, 2), of(2, 6, 1), of(8, 9, 0)];
        let found = [of(0, 6, 1), of(0, 2, 1), of(10, 12, 2)];
        // 0 and 1 are major and half right, 2 to 5 are right, 10 and 11 are wrong: 5 of 8 found, 5 of 6 to
        // find.
        let score = wmt_qe(&gold, &found).score();
        assert_eq!((score.precision, score.recall), (5.0 / 8.0, 5.0 / 6.0));
        // By every span that covers a character, the neutral one among them.
        let ours = characters(&gold, &found);
        assert_eq!((ours.gold, ours.predicted), (9.0, 10.0));
        assert_eq!(wmt_qe(&[of(3, 3, 2)], &[of(3, 4, 2)]).score().f1, 1.0, "an empty span marks a character");
    }

    #[test]
    fn definitions_have_names() {
        for definition in Definition::ALL {
            assert_eq!(definition.to_string().parse::<Definition>().unwrap(), definition);
        }
        assert!("f1".parse::<Definition>().is_err());
    }
}
