//! The split into training and held-out documents: whole documents, with all their translations, by a hash of
//! their name. A text in documents of both kinds would leak and is an error.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::{Error, Result, rated::Document};
use crate::segment::trained;

/// Selection of the held-out documents.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldOut {
    /// About this share of the documents, drawn by their names and the seed; of 0, none.
    Share { share: f64, seed: u64 },
    /// These documents, `PAIR/DOC`.
    Named(BTreeSet<String>),
}

/// Documents to train on and documents to test on.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub train: Vec<Document>,
    pub held_out: Vec<Document>,
    /// Names of documents that are neither: they share text with one that is held out.
    pub left_out: BTreeSet<String>,
}

impl Split {
    /// The documents of some systems, `NAME` or `PAIR/NAME`; all where none is named.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] for a system that there is not.
    pub fn of_systems(mut self, systems: &[String]) -> Result<Self> {
        let is_of = |document: &Document, name: &String| {
            *name == document.system || *name == format!("{}/{}", document.pair, document.system)
        };
        let all = self.train.iter().chain(&self.held_out);
        if let Some(missing) = systems.iter().find(|name| !all.clone().any(|document| is_of(document, name)))
        {
            let known: BTreeSet<&str> = all.map(|document| document.system.as_str()).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::Unsuitable(format!("unknown system `{missing}`; hint: {known}")));
        }
        let is_wanted = |document: &Document| systems.iter().any(|name| is_of(document, name));
        for documents in [&mut self.train, &mut self.held_out] {
            documents.retain(|document| systems.is_empty() || is_wanted(document));
        }
        Ok(self)
    }

    /// Its files by name: the documents of both kinds, and the hashes of the sources that are trained on.
    pub fn files(&self) -> [(&'static str, String); 3] {
        let lines = |names: BTreeSet<String>| names.into_iter().map(|name| name + "\n").collect::<String>();
        let names = |documents: &[Document]| lines(documents.iter().map(Document::name).collect());
        [
            ("held_out.txt", names(&self.held_out)),
            ("trained.txt", names(&self.train)),
            (trained::FILE, lines(sources(&self.train))),
        ]
    }
}

/// Takes out documents that have a sentence of these sources; returns how many have.
pub fn exclude(documents: &mut Vec<Document>, sources: &[String]) -> usize {
    let tested = trained::TrainedOn::from_sources("the test set", sources.iter().map(String::as_str));
    let shares =
        |document: &Document| document.segments.iter().any(|rated| tested.knows(&rated.segment.source));
    let names: BTreeSet<String> =
        documents.iter().filter(|document| shares(document)).map(Document::name).collect();
    documents.retain(|document| !names.contains(&document.name()));
    names.len()
}

/// Returns true if a drawn split holds a document out: where the first eight bytes of the sha256 of
/// `SEED/PAIR/DOC`, as a fraction of 1, are less than the share.
pub fn is_held_out(name: &str, share: f64, seed: u64) -> bool {
    let digest = Sha256::digest(format!("{seed}/{name}"));
    let first: [u8; 8] = std::array::from_fn(|i| digest[i]);
    (u64::from_be_bytes(first) as f64 / 2_f64.powi(64)) < share
}

/// Splits documents. A drawn split leaves out of training the documents that share text with a held-out
/// document; named documents are not checked this way.
///
/// # Errors
/// [`Error::Leak`] when a named split has the same text on both sides; [`Error::Unsuitable`] when it names a
/// document that does not exist, or when nothing is left to train on or to test on.
pub fn split(documents: Vec<Document>, by: &HoldOut) -> Result<Split> {
    let names: BTreeSet<String> = documents.iter().map(Document::name).collect();
    let held_out: BTreeSet<String> = match by {
        HoldOut::Share { share, seed } => {
            names.iter().filter(|name| is_held_out(name, *share, *seed)).cloned().collect()
        }
        HoldOut::Named(named) => {
            if let Some(missing) = named.difference(&names).next() {
                let known = names.iter().take(3).cloned().collect::<Vec<_>>().join("`, `");
                return Err(Error::Unsuitable(format!(
                    "no document `{missing}` to hold out; hint: documents are named PAIR/DOC, as in `{known}`"
                )));
            }
            named.clone()
        }
    };
    let leaks = shared(&documents, &held_out);
    if let (HoldOut::Named(_), Some((trained, (held_out, text)))) = (by, leaks.iter().next()) {
        let text = format!("`{text}`");
        return Err(Error::Leak { held_out: held_out.clone(), trained: trained.clone(), text });
    }
    let mut split = Split { train: Vec::new(), held_out: Vec::new(), left_out: leaks.into_keys().collect() };
    for document in documents {
        let name = document.name();
        if held_out.contains(&name) {
            split.held_out.push(document);
        } else if !split.left_out.contains(&name) {
            split.train.push(document);
        }
    }
    let wants_none = matches!(by, HoldOut::Share { share, .. } if *share == 0.0);
    let empty =
        [("train on", split.train.is_empty()), ("hold out", split.held_out.is_empty() && !wants_none)];
    match empty.into_iter().find(|(_, is_empty)| *is_empty) {
        Some((what, _)) => Err(Error::Unsuitable(format!(
            "of {} documents none is left to {what}; hint: more documents, or another share of them held out",
            names.len()
        ))),
        None => Ok(split),
    }
}

/// Documents that are not held out but have a distinctive sentence of one that is, whichever way its source
/// segments are cut or written: with that one's name and the source segment.
fn shared(documents: &[Document], held_out: &BTreeSet<String>) -> BTreeMap<String, (String, String)> {
    let mut of_held_out: BTreeMap<String, String> = BTreeMap::new();
    for document in documents.iter().filter(|document| held_out.contains(&document.name())) {
        for sentence in document.segments.iter().flat_map(|rated| trained::distinctive(&rated.segment.source))
        {
            of_held_out.entry(sentence).or_insert_with(|| document.name());
        }
    }
    let mut leaks = BTreeMap::new();
    for document in documents.iter().filter(|document| !held_out.contains(&document.name())) {
        for rated in &document.segments {
            let source = &rated.segment.source;
            if let Some(name) =
                trained::distinctive(source).iter().find_map(|sentence| of_held_out.get(sentence))
            {
                leaks.entry(document.name()).or_insert_with(|| (name.clone(), source.trim().to_owned()));
            }
        }
    }
    leaks
}

/// The hashes of all source texts that are trained on, sorted: what a run compares with what it judges.
pub fn sources(documents: &[Document]) -> BTreeSet<String> {
    let segments = documents.iter().flat_map(|document| &document.segments);
    segments.flat_map(|rated| trained::hashes(&rated.segment.source)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rated::Rated,
        segment::{Segment, lang::parse_pair},
    };

    fn document(doc: &str, system: &str, sources: &[&str]) -> Document {
        let pair = parse_pair("en-de").unwrap();
        let rated = |(seg, source): (usize, &&str)| {
            let segment = Segment {
                system: system.into(),
                doc: doc.into(),
                seg,
                ..Segment::new(pair.clone(), source, "x")
            };
            Rated::by_one(segment, Some(Vec::new()))
        };
        let segments = sources.iter().enumerate().map(rated).collect();
        let corpus = String::new();
        Document { pair: "en-de".into(), system: system.into(), doc: doc.into(), corpus, segments }
    }

    fn documents() -> Vec<Document> {
        (0..200)
            .flat_map(|i| {
                ["A", "B"].map(|system| {
                    document(&format!("d{i}"), system, &[&format!("a sentence of document number {i}")])
                })
            })
            .collect()
    }

    #[test]
    fn whole_documents_are_held_out_by_the_seed() {
        let drawn = |seed| split(documents(), &HoldOut::Share { share: 0.2, seed }).unwrap();
        let names = |documents: &[Document]| documents.iter().map(Document::name).collect::<BTreeSet<_>>();
        let split = drawn(1);
        assert!(names(&split.train).is_disjoint(&names(&split.held_out)));
        assert_eq!(split.held_out.len(), 2 * names(&split.held_out).len(), "both translations");
        assert!((25..=55).contains(&names(&split.held_out).len()), "{}", names(&split.held_out).len());
        assert_eq!(split, drawn(1));
        assert_ne!(names(&split.held_out), names(&drawn(2).held_out));
        assert!(sources(&split.train).is_disjoint(&sources(&split.held_out)));
    }

    #[test]
    fn text_on_both_sides_is_left_out_or_refused() {
        let text = "the same long sentence in both of them";
        let all = vec![
            document("a", "A", &[text, "b"]),
            document("b", "A", &["c", text]),
            document("c", "A", &["b"]),
        ];
        let named = HoldOut::Named(BTreeSet::from(["en-de/a".to_owned()]));
        let error = split(all.clone(), &named).unwrap_err().to_string();
        assert!(error.starts_with("the split leaks: document `en-de/a` is held out, but document `en-de/b`"));
        let seed = (0..10_000).find(|&seed| {
            let held = |name| is_held_out(name, 0.5, seed);
            held("en-de/a") && !held("en-de/b") && !held("en-de/c")
        });
        let drawn = split(all, &HoldOut::Share { share: 0.5, seed: seed.unwrap() }).unwrap();
        assert_eq!(drawn.left_out, BTreeSet::from(["en-de/b".to_owned()]));
        assert_eq!(drawn.train[0].doc, "c", "short texts may recur");
    }

    #[test]
    fn a_sentence_that_is_cut_or_written_otherwise_leaks_too() {
        let all = vec![
            document("a", "A", &["It rained. Nobody had expected such a crowd."]),
            document("b", "A", &["nobody had expected\u{a0}such a crowd.", "c"]),
            document("c", "A", &["It rained. That was all."]),
        ];
        let named = HoldOut::Named(BTreeSet::from(["en-de/a".to_owned()]));
        let error = split(all, &named).unwrap_err().to_string();
        assert!(error.contains("document `en-de/a` is held out, but document `en-de/b`"), "{error}");
    }

    #[test]
    fn what_cannot_be_split() {
        let refused = |by| split(documents(), &by).unwrap_err().to_string();
        let named = |name: &str| HoldOut::Named(BTreeSet::from([name.to_owned()]));
        assert!(refused(named("d3")).starts_with("no document `d3` to hold out; hint:"));
        assert!(refused(HoldOut::Share { share: 1.0, seed: 0 }).contains("none is left to train on"));
    }
}
