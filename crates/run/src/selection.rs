//! The segments of an input that get a verdict. The others stay in the input as context, so that a selection
//! never changes the context that a judge sees. It depends on the input and the seed alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    draw::{languages, shuffle},
    judges::Grouping,
    segment::{Outline, Segment, Segments, lang},
};

/// The segments that get a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    #[default]
    All,
    /// The segments at these positions of the input.
    Only(BTreeSet<usize>),
}

/// A selection that was drawn, and what came of the draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub selection: Selection,
    pub documents: usize,
    /// Segments of each system; of the one with the most where some translations are missing.
    pub segments: usize,
    /// Documents that were not in the draw because some system did not translate them.
    pub left_out: usize,
}

/// Error of an empty or impossible selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a {0} of 0 leaves nothing to judge")]
    Nothing(&'static str),
    #[error("no document is translated by all {0} systems, so a subset cannot have the same ones of each")]
    NothingShared(usize),
    #[error("the input names no documents")]
    NoDocuments,
    #[error("the input has no document `{name}`\nhint: its documents are called {known}")]
    Unknown { name: String, known: String },
    #[error("no document of the input is named")]
    NoneNamed,
}

/// A document, whichever system translated it: languages, name, and the segment's number where it stands
/// alone.
type Document<'a> = (String, &'a str, Option<usize>);

impl Selection {
    /// The documents with these names: `DOC`, or `PAIR/DOC`. Names with a language pair that the input does
    /// not have may stand among them.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a name that no document has, [`Error::NoneNamed`] when no document is left.
    pub fn named<S: Segments + ?Sized>(segments: &S, names: &BTreeSet<String>) -> Result<Self, Error> {
        let (mut pairs, mut known, mut found) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut is_wanted = Vec::with_capacity(segments.n_segments());
        for idx in 0..segments.n_segments() {
            let outline = segments.outline(idx);
            let pair = languages(&outline);
            let full = format!("{pair}/{}", outline.doc);
            let matching = [outline.doc, &full].into_iter().filter_map(|name| names.get(name));
            let before = found.len();
            found.extend(matching.clone());
            is_wanted.push(found.len() > before || matching.count() > 0);
            pairs.insert(pair);
            known.insert(outline.doc);
        }
        let of_another = |name: &str| {
            let pair = name.split_once('/').map(|(pair, _)| pair);
            pair.is_some_and(|pair| lang::parse_pair(pair).is_ok() && !pairs.contains(pair))
        };
        let mut missing = names.iter().filter(|name| !found.contains(*name) && !of_another(name));
        if let Some(name) = missing.next() {
            if known.iter().all(|doc| doc.is_empty()) {
                return Err(Error::NoDocuments);
            }
            let known =
                known.into_iter().take(3).map(|doc| format!("`{doc}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::Unknown { name: name.clone(), known: format!("{known}, ...") });
        }
        if !is_wanted.contains(&true) {
            return Err(Error::NoneNamed);
        }
        Ok(Self::from_flags(&is_wanted))
    }

    /// The first `n` segments that each system has of this selection.
    ///
    /// # Errors
    /// [`Error::Nothing`] when `n` is 0.
    pub fn first<S: Segments + ?Sized>(self, segments: &S, n: usize) -> Result<Self, Error> {
        if n == 0 {
            return Err(Error::Nothing("limit"));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut is_wanted = Vec::with_capacity(segments.n_segments());
        for idx in 0..segments.n_segments() {
            let count = counts.entry(segments.outline(idx).system).or_default();
            *count += usize::from(self.wants(idx));
            is_wanted.push(self.wants(idx) && *count <= n);
        }
        Ok(Self::from_flags(&is_wanted))
    }

    /// Documents of this selection in an order drawn by the seed, the same ones for every system, until they
    /// have `n` segments. Where segments are judged alone or with other translations of theirs, exactly `n`:
    /// of the last document, the first ones. Where documents are judged together, whole documents: the last
    /// one is taken when that comes nearer to `n`; the first one always is. A segment that belongs to no
    /// document is drawn by itself.
    ///
    /// # Errors
    /// [`Error::Nothing`] when `n` is 0, [`Error::NothingShared`] when no document exists for every system.
    pub fn draw<S: Segments + ?Sized>(
        &self,
        segments: &S,
        n: usize,
        seed: u64,
        grouping: Grouping,
    ) -> Result<Drawn, Error> {
        if n == 0 {
            return Err(Error::Nothing("subset"));
        }
        let documents = Documents::new(segments, self);
        let mut order = documents.shared();
        if order.is_empty() && segments.n_segments() > 0 {
            return Err(Error::NothingShared(documents.systems));
        }
        let left_out = documents.sizes.len() - order.len();
        shuffle(&mut order, seed);
        let is_exact = matches!(grouping, Grouping::Segment | Grouping::Source);
        // Each document with the number of its selected segments.
        let (mut drawn, mut total) = (BTreeMap::new(), 0);
        for (document, size) in order {
            let taken = if is_exact { size.min(n - total) } else { size };
            // Exceeding `n` by the previous shortfall is no nearer.
            if !drawn.is_empty() && (total + taken).abs_diff(n) >= total.abs_diff(n) {
                break;
            }
            total += taken;
            drawn.insert(document, taken);
        }
        // The same segments of a document for every system.
        let mut taken_of: BTreeMap<Document, BTreeSet<usize>> = BTreeMap::new();
        let is_drawn = |idx| {
            let outline = segments.outline(idx);
            let id = document(&outline);
            let Some(n_taken) = drawn.get(&id).filter(|_| self.wants(idx)) else { return false };
            let taken = taken_of.entry(id).or_default();
            if taken.len() < *n_taken {
                taken.insert(outline.seg);
            }
            taken.contains(&outline.seg)
        };
        let is_wanted: Vec<bool> = (0..segments.n_segments()).map(is_drawn).collect();
        let selection = Self::from_flags(&is_wanted);
        Ok(Drawn { selection, documents: drawn.len(), segments: total, left_out })
    }

    fn from_flags(is_wanted: &[bool]) -> Self {
        if is_wanted.iter().all(|flag| *flag) {
            return Self::All;
        }
        Self::Only((0..is_wanted.len()).filter(|&idx| is_wanted[idx]).collect())
    }

    /// Returns true if the segment at this position of the input gets a verdict.
    pub fn wants(&self, idx: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(chosen) => chosen.contains(&idx),
        }
    }

    /// The positions that are selected as ranges, each up to but not including its second number; `None` for
    /// all.
    pub fn ranges(&self) -> Option<Vec<[usize; 2]>> {
        let Self::Only(chosen) = self else { return None };
        let mut ranges: Vec<[usize; 2]> = Vec::new();
        for &position in chosen {
            match ranges.last_mut().filter(|range| range[1] == position) {
                Some(range) => range[1] += 1,
                None => ranges.push([position, position + 1]),
            }
        }
        Some(ranges)
    }

    /// The selection with these ranges of an input of so many segments.
    pub fn of_ranges(ranges: Option<&[[usize; 2]]>, n_segments: usize) -> Self {
        let Some(ranges) = ranges else { return Self::All };
        // Only ascending ranges are ours; others could name each position any number of times.
        let mut end = 0;
        let positions = ranges.iter().flat_map(|range| {
            let from = range[0].max(end);
            end = range[1].min(n_segments).max(end);
            from..end
        });
        Self::Only(positions.collect())
    }

    /// The selected segments alone, for work that needs no context.
    pub fn of_segments(&self, segments: Vec<Segment>) -> Vec<Segment> {
        let selected = segments.into_iter().enumerate().filter(|(idx, _)| self.wants(*idx));
        selected.map(|(_, segment)| segment).collect()
    }
}

/// The documents of an input in the order in which they first stand there.
struct Documents<'a> {
    /// The number of segments that each system has of each document.
    sizes: Vec<(Document<'a>, BTreeMap<&'a str, usize>)>,
    /// The systems of each language pair.
    of_pair: BTreeMap<String, BTreeSet<&'a str>>,
    systems: usize,
}

impl<'a> Documents<'a> {
    fn new<S: Segments + ?Sized>(segments: &'a S, among: &Selection) -> Self {
        let mut places: BTreeMap<Document, usize> = BTreeMap::new();
        let mut sizes: Vec<(Document, BTreeMap<&str, usize>)> = Vec::new();
        let mut of_pair: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut systems: BTreeSet<&str> = BTreeSet::new();
        for idx in (0..segments.n_segments()).filter(|&idx| among.wants(idx)) {
            let segment = segments.outline(idx);
            let id = document(&segment);
            systems.insert(segment.system);
            of_pair.entry(id.0.clone()).or_default().insert(segment.system);
            let at = *places.entry(id.clone()).or_insert(sizes.len());
            if at == sizes.len() {
                sizes.push((id, BTreeMap::new()));
            }
            *sizes[at].1.entry(segment.system).or_default() += 1;
        }
        Self { sizes, of_pair, systems: systems.len() }
    }

    /// Documents that every system of their language pair translated, each with its number of segments.
    fn shared(&self) -> Vec<(Document<'a>, usize)> {
        let is_shared =
            |(id, sizes): &&(Document<'a>, BTreeMap<&str, usize>)| sizes.len() == self.of_pair[&id.0].len();
        let most = |sizes: &BTreeMap<&str, usize>| sizes.values().copied().max().unwrap_or(0);
        self.sizes.iter().filter(is_shared).map(|(id, sizes)| (id.clone(), most(sizes))).collect()
    }
}

fn document<'a>(segment: &Outline<'a>) -> Document<'a> {
    let alone = segment.doc.is_empty().then_some(segment.seg);
    (languages(segment), segment.doc, alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::lang::parse_pair;

    fn segment(system: &str, doc: &str, seg: usize) -> Segment {
        Segment {
            system: system.into(),
            doc: doc.into(),
            seg,
            ..Segment::new(parse_pair("en-de").unwrap(), &format!("source {seg}"), "x")
        }
    }

    /// Two systems, six documents of one to six segments.
    fn input() -> Vec<Segment> {
        let docs = (1..=6).flat_map(|size| std::iter::repeat_n(format!("d{size}"), size));
        let docs: Vec<String> = docs.collect();
        let of = |system: &'static str| docs.iter().enumerate().map(move |(i, doc)| segment(system, doc, i));
        of("b").chain(of("a")).collect()
    }

    fn chosen(segments: &[Segment], selection: &Selection) -> Vec<(String, String, usize)> {
        let chosen = (0..segments.len()).filter(|&idx| selection.wants(idx)).map(|idx| &segments[idx]);
        chosen.map(|s| (s.system.clone(), s.doc.clone(), s.seg)).collect()
    }

    #[test]
    fn a_limit_counts_the_segments_of_each_system() {
        let segments = input();
        let selection = Selection::All.first(&segments, 2).unwrap();
        assert_eq!(selection, Selection::Only([0, 1, 21, 22].into()));
        assert_eq!(selection.of_segments(segments.clone()).len(), 4);
        assert_eq!(Selection::All.first(&segments, 21).unwrap(), Selection::All);
        assert_eq!(Selection::All.first(&segments, 0), Err(Error::Nothing("limit")));
    }

    #[test]
    fn a_subset_holds_whole_documents_and_the_same_ones_for_every_system() {
        let segments = input();
        for (n, seed) in (1..=21).flat_map(|n| (0..20).map(move |seed| (n, seed))) {
            let drawn = Selection::All.draw(&segments, n, seed, Grouping::Document).unwrap();
            let all = chosen(&segments, &drawn.selection);
            let of = |system: &str| -> Vec<(String, usize)> {
                all.iter().filter(|s| s.0 == system).map(|s| (s.1.clone(), s.2)).collect()
            };
            assert_eq!(of("a"), of("b"));
            assert_eq!(of("a").len(), drawn.segments);
            let docs: BTreeSet<String> = of("a").into_iter().map(|(doc, _)| doc).collect();
            let whole: usize = docs.iter().map(|doc| doc[1..].parse::<usize>().unwrap()).sum();
            assert_eq!((whole, docs.len()), (drawn.segments, drawn.documents));
            // Half of the longest document is the most that it can miss by, unless it is the only one.
            assert!(drawn.documents == 1 || drawn.segments.abs_diff(n) <= 3, "{n} {seed} {drawn:?}");
            assert_eq!(Selection::All.draw(&segments, n, seed, Grouping::Document).unwrap(), drawn);
        }
        let draws: BTreeSet<Vec<_>> = (0..20)
            .map(|seed| {
                chosen(
                    &segments,
                    &Selection::All.draw(&segments, 5, seed, Grouping::Document).unwrap().selection,
                )
            })
            .collect();
        assert!(draws.len() > 3, "the seed decides");
    }

    #[test]
    fn a_subset_of_segments_that_are_judged_alone_is_exact() {
        let segments = input();
        for (n, seed) in (1..=21).flat_map(|n| (0..20).map(move |seed| (n, seed))) {
            for grouping in [Grouping::Segment, Grouping::Source] {
                let drawn = Selection::All.draw(&segments, n, seed, grouping).unwrap();
                let all = chosen(&segments, &drawn.selection);
                let of = |system: &str| -> Vec<(String, usize)> {
                    all.iter().filter(|s| s.0 == system).map(|s| (s.1.clone(), s.2)).collect()
                };
                assert_eq!(of("a"), of("b"));
                assert_eq!((of("a").len(), drawn.segments), (n, n));
            }
        }
        let more = Selection::All.draw(&segments, 100, 0, Grouping::Segment).unwrap();
        assert_eq!((more.selection, more.segments), (Selection::All, 21));
    }

    #[test]
    fn a_subset_leaves_out_what_some_system_did_not_translate() {
        let mut segments = input();
        segments.retain(|s| s.system != "a" || s.doc != "d6");
        for seed in 0..20 {
            let drawn = Selection::All.draw(&segments, 9, seed, Grouping::Document).unwrap();
            assert!(chosen(&segments, &drawn.selection).iter().all(|s| s.1 != "d6"));
            assert_eq!(drawn.left_out, 1);
        }
        segments.retain(|s| (s.system == "a") == (s.doc.as_str() < "d4"));
        assert_eq!(Selection::All.draw(&segments, 9, 0, Grouping::Document), Err(Error::NothingShared(2)));
        assert_eq!(Selection::All.draw(&segments, 0, 0, Grouping::Document), Err(Error::Nothing("subset")));
    }

    #[test]
    fn segments_without_a_document_are_drawn_one_by_one() {
        let segments: Vec<Segment> =
            ["a", "b"].iter().flat_map(|system| (0..30).map(|seg| segment(system, "", seg))).collect();
        let drawn = Selection::All.draw(&segments, 7, 3, Grouping::Document).unwrap();
        assert_eq!((drawn.documents, drawn.segments), (7, 7));
        assert_eq!(chosen(&segments, &drawn.selection).len(), 14);
    }

    #[test]
    fn named_documents_alone_and_a_draw_among_them() {
        let segments = input();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let some = Selection::named(&segments, &names(&["d2", "en-de/d3", "zh-en/d9"])).unwrap();
        let docs: BTreeSet<String> = chosen(&segments, &some).into_iter().map(|s| s.1).collect();
        assert_eq!(docs, names(&["d2", "d3"]));
        assert_eq!(chosen(&segments, &some).len(), 10);
        assert_eq!(
            chosen(&segments, &some.draw(&segments, 3, 0, Grouping::Document).unwrap().selection).len() % 2,
            0
        );
        let drawn = some.draw(&segments, 100, 0, Grouping::Document).unwrap();
        assert_eq!((drawn.selection, drawn.documents, drawn.left_out), (some.clone(), 2, 0));
        assert_eq!(chosen(&segments, &some.first(&segments, 1).unwrap()).len(), 2);
        for unknown in ["d9", "en-de/d9"] {
            let error = Selection::named(&segments, &names(&["d1", unknown])).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("the input has no document `{unknown}`")),
                "{error}"
            );
        }
        let nothing = Selection::named(&segments, &names(&["zh-en/d1"]));
        assert_eq!(nothing, Err(Error::NoneNamed));
    }
}
