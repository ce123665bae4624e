//! Subsamples large data: consecutive segments joined into paragraphs, and a seeded sample. The same ratings
//! give the same sample, whatever other data is read.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::rated::{Document, Opinion, Rated};
use crate::{
    mqm::{ErrorSpan, Side},
    segment::Segment,
};

/// Translations of one source at the most: enough to tell better from worse.
const OF_A_SOURCE: usize = 3;

/// Characters of joined translations at the most; the longest are dear to read, and rare.
const LONGEST: usize = 1000;

/// Size of the sample of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// About as many translations of single segments, in whole sources.
    pub single: usize,
    /// About as many of two to six segments that follow each other in a document.
    pub joined: usize,
    pub seed: u64,
}

/// Draws from the documents of one file.
pub fn draw(documents: Vec<Document>, sample: &Sample) -> Vec<Document> {
    let paragraphs = paragraphs(&documents, sample.seed);
    let mut chosen = drawn(&documents, sample.single, sample.seed);
    chosen.extend(drawn(&paragraphs, sample.joined, sample.seed));
    [documents, paragraphs].into_iter().flat_map(|documents| only(documents, &chosen)).collect()
}

/// The translations that are kept, in their documents.
fn only(mut documents: Vec<Document>, chosen: &BTreeSet<Place>) -> Vec<Document> {
    for document in &mut documents {
        let pair = document.pair.clone();
        document.segments.retain(|rated| chosen.contains(&place(&pair, rated)));
    }
    documents.retain(|document| !document.segments.is_empty());
    documents
}

/// Key of a translation: the key of its source, and its system.
type Place = (String, String);

fn place(pair: &str, rated: &Rated) -> Place {
    (key(pair, rated), rated.segment.system.clone())
}

/// `PAIR/DOC/SEGMENT`, with `+N` where N segments are joined: all translations of a source have the same.
pub fn key(pair: &str, rated: &Rated) -> String {
    let Segment { doc, seg, .. } = &rated.segment;
    let joined = if rated.n_joined > 1 { format!("+{}", rated.n_joined) } else { String::new() };
    format!("{pair}/{doc}/{seg}{joined}")
}

/// About `most` translations, in whole sources.
fn drawn(documents: &[Document], most: usize, seed: u64) -> BTreeSet<Place> {
    let mut of_source: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for document in documents {
        for rated in &document.segments {
            of_source.entry(key(&document.pair, rated)).or_default().insert(&rated.segment.system);
        }
    }
    let mut sources: Vec<_> = of_source.into_iter().collect();
    sources.sort_by_cached_key(|(key, _)| hash(seed, key));
    let mut chosen = BTreeSet::new();
    for (key, systems) in sources {
        if chosen.len() >= most {
            break;
        }
        let mut systems: Vec<&str> = systems.into_iter().collect();
        systems.sort_by_cached_key(|system| hash(seed, &format!("{key}/{system}")));
        chosen.extend(systems.into_iter().take(OF_A_SOURCE).map(|system| (key.clone(), system.to_owned())));
    }
    chosen
}

fn hash(seed: u64, text: &str) -> [u8; 32] {
    Sha256::digest(format!("{seed}/{text}")).into()
}

/// Documents cut into paragraphs of two to six segments, in all systems' translations that have all of them.
fn paragraphs(documents: &[Document], seed: u64) -> Vec<Document> {
    let mut of_text: BTreeMap<(&str, &str, &str), Vec<&Document>> = BTreeMap::new();
    for document in documents {
        of_text
            .entry((document.corpus.as_str(), document.pair.as_str(), document.doc.as_str()))
            .or_default()
            .push(document);
    }
    let mut all = Vec::new();
    for ((_, pair, doc), translations) in of_text {
        let numbers =
            translations.iter().flat_map(|document| &document.segments).map(|rated| rated.segment.seg);
        let numbers: BTreeSet<usize> = numbers.collect();
        let cuts = cuts(&numbers.into_iter().collect::<Vec<_>>(), &format!("{pair}/{doc}"), seed);
        for document in translations {
            let of_number: BTreeMap<usize, &Rated> =
                document.segments.iter().map(|rated| (rated.segment.seg, rated)).collect();
            let paragraph = |cut: &Vec<usize>| {
                let parts: Option<Vec<&Rated>> = cut.iter().map(|n| of_number.get(n).copied()).collect();
                parts.and_then(|parts| joined(&parts))
            };
            let segments: Vec<Rated> = cuts.iter().filter_map(paragraph).collect();
            if !segments.is_empty() {
                all.push(Document { segments, ..(*document).clone() });
            }
        }
    }
    all
}

/// The numbers of a document's segments in runs of two to six without a gap, as drawn by the seed.
fn cuts(numbers: &[usize], name: &str, seed: u64) -> Vec<Vec<usize>> {
    let mut cuts = Vec::new();
    let mut tail = numbers;
    while let Some(start) = tail.first() {
        let n = 2 + usize::from(hash(seed, &format!("{name}/{start}/joined"))[0] % 5);
        let (cut, after) = tail.split_at(n.min(tail.len()));
        tail = after;
        if cut.len() > 1 && cut[cut.len() - 1] - start == cut.len() - 1 {
            cuts.push(cut.to_vec());
        }
    }
    cuts
}

/// Translations that follow each other as one; none where it would be too long, or where one was not rated
/// for errors.
fn joined(parts: &[&Rated]) -> Option<Rated> {
    let first = parts.first()?;
    let blank = |code: &str| if matches!(code, "zh" | "ja") { "" } else { " " };
    let blanks = [&first.segment.src_lang, &first.segment.tgt_lang].map(|lang| blank(lang.language()));
    let text = |blank: &str, of: fn(&Segment) -> &str| {
        parts.iter().map(|part| of(&part.segment)).collect::<Vec<_>>().join(blank)
    };
    let source = text(blanks[0], |segment| segment.source.as_str());
    let hypothesis = text(blanks[1], |segment| segment.hypothesis.as_str());
    if hypothesis.chars().count() > LONGEST {
        return None;
    }
    let n_raters = parts.iter().map(|part| part.opinions.len()).min().filter(|n| *n > 0)?;
    let opinions = (0..n_raters).map(|rater| opinion(parts, rater, blanks)).collect();
    let segment = Segment { source, hypothesis, ..first.segment.clone() };
    Some(Rated { segment, opinions, assessment: None, n_joined: parts.len() })
}

/// Marks of the raters at this place in each part, moved to their place in the whole.
fn opinion(parts: &[&Rated], rater: usize, blanks: [&str; 2]) -> Opinion {
    let names: BTreeSet<&str> = parts.iter().map(|part| part.opinions[rater].rater.as_str()).collect();
    let mut at = [0, 0];
    let mut errors = Vec::new();
    for part in parts {
        for error in &part.opinions[rater].errors {
            let moved =
                |place: Option<usize>| place.map(|place| place + at[usize::from(error.side == Side::Target)]);
            let (start, end) = (moved(error.start), moved(error.end));
            errors.push(ErrorSpan { start, end, ..error.clone() });
        }
        at[0] += part.segment.source.chars().count() + blanks[0].len();
        at[1] += part.segment.hypothesis.chars().count() + blanks[1].len();
    }
    let rater = names.into_iter().collect::<Vec<_>>().join(" ");
    Opinion { rater, errors }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mqm::Severity, segment::lang::parse_pair};

    /// Six systems' translations of `n_docs` documents of seven segments; the fourth of the first one is
    /// missing.
    fn documents(n_docs: usize) -> Vec<Document> {
        let pair = parse_pair("zh-en").unwrap();
        let rated = |system: &str, doc: &str, seg: usize| {
            let segment = Segment {
                system: system.into(),
                doc: doc.into(),
                seg,
                ..Segment::new(pair.clone(), &format!("源{seg}。"), &format!("Segment {seg}."))
            };
            let error = ErrorSpan {
                start: Some(0),
                end: Some(7),
                side: Side::Target,
                ..ErrorSpan::new("style", "Segment", Severity::Minor)
            };
            Rated::by_one(segment, Some(vec![error]))
        };
        let document = |system: &str, doc: usize| {
            let name = format!("d{doc}");
            let segments =
                (1..8).filter(|seg| (doc, *seg) != (0, 4)).map(|seg| rated(system, &name, seg)).collect();
            Document { pair: "zh-en".into(), system: system.into(), corpus: "c".into(), doc: name, segments }
        };
        let systems = ["A", "B", "C", "D", "E", "F"];
        systems
            .into_iter()
            .flat_map(|system| (0..n_docs).map(move |doc| (system, doc)))
            .map(|(s, d)| document(s, d))
            .collect()
    }

    fn places(documents: &[Document]) -> BTreeSet<Place> {
        documents.iter().flat_map(|d| d.segments.iter().map(|rated| place(&d.pair, rated))).collect()
    }

    #[test]
    fn a_sample_has_whole_sources_and_no_order() {
        let sample = Sample { single: 30, joined: 9, seed: 1 };
        let drawn = draw(documents(9), &sample);
        let mut turned = documents(9);
        turned.reverse();
        assert_eq!(places(&drawn), places(&draw(turned, &sample)));
        let all = places(&drawn);
        assert_eq!(all.iter().filter(|(key, _)| !key.contains('+')).count(), 30);
        assert_eq!(all.iter().filter(|(key, _)| key.contains('+')).count(), 9);
        let mut of_source: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, _) in &all {
            *of_source.entry(key).or_default() += 1;
        }
        assert!(of_source.values().all(|n| *n == OF_A_SOURCE), "{of_source:?}");
        // More of the same data has all that less had.
        assert!(places(&draw(documents(9), &Sample { single: 60, ..sample })).is_superset(&all));
        assert_ne!(places(&draw(documents(9), &Sample { seed: 2, ..sample })), all);
        assert!(draw(documents(2), &Sample { single: 0, joined: 0, seed: 0 }).is_empty());
    }

    #[test]
    fn paragraphs_follow_without_a_gap_and_errors_move_along() {
        let paragraphs = paragraphs(&documents(9), 0);
        assert!(!paragraphs.is_empty());
        for rated in paragraphs.iter().flat_map(|document| &document.segments) {
            let (first, n) = (rated.segment.seg, rated.n_joined);
            assert!((2..=6).contains(&n), "{n}");
            let numbers: Vec<usize> = (first..first + n).collect();
            assert!(rated.segment.doc != "d0" || !numbers.contains(&4), "nobody rated it");
            let hypothesis: Vec<String> = numbers.iter().map(|seg| format!("Segment {seg}.")).collect();
            assert_eq!(rated.segment.hypothesis, hypothesis.join(" "));
            assert_eq!(
                rated.segment.source,
                numbers.iter().map(|seg| format!("源{seg}。")).collect::<String>()
            );
            let errors = rated.errors().unwrap();
            assert_eq!(errors.len(), n);
            for error in errors {
                let (start, end) = (error.start.unwrap(), error.end.unwrap());
                assert_eq!(&rated.segment.hypothesis[start..end], "Segment");
            }
        }
    }

    #[test]
    fn what_would_be_too_long_is_not_joined() {
        let mut long = documents(1).swap_remove(0).segments;
        long.truncate(2);
        assert!(joined(&[&long[0], &long[1]]).is_some());
        long[0].segment.hypothesis = "x".repeat(LONGEST);
        assert!(joined(&[&long[0], &long[1]]).is_none());
        long[0] = Rated { opinions: Vec::new(), assessment: Some(1.0), ..long[1].clone() };
        assert!(joined(&[&long[0], &long[1]]).is_none(), "a direct assessment is of a segment alone");
    }
}
