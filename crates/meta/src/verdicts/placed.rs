//! Verdicts by the names and numbers of a test set. A run on files of WMT since 2025 numbers segments in each
//! document and may have systems with white space in their names; a test set numbers them through, and its
//! score files are cut at white space. No texts are compared.

use std::collections::BTreeMap;

use super::Verdict;
use crate::testset::{Place, TestSet};

/// Mapping of the documents, numbers and names of verdicts to those of a test set.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    systems: &'a [String],
    /// The numbers of each document's segments; `None` where verdicts have the test set's numbers.
    documents: Option<BTreeMap<&'a str, Vec<usize>>>,
}

impl<'a> Placement<'a> {
    /// For units of these documents and numbers. They are numbered in documents where every number is one of
    /// its document's, and some is not the test set's.
    ///
    /// ```
    /// use tribunal_meta::{testset::Place, verdicts::Placement};
    /// let place = |doc: &str| Place { domain: "news".into(), doc: doc.into() };
    /// let (places, systems) = ([place("a"), place("a"), place("my_b")], ["GPT_9".to_owned()]);
    /// let placement = Placement::new(&systems, &places, &[("a", 0), ("a", 1), ("my b", 0)].into_iter());
    /// assert_eq!((placement.seg("my b", 0), placement.system("GPT 9")), (2, "GPT_9"));
    /// let placement = Placement::new(&systems, &places, &[("a", 0), ("my_b", 2)].into_iter());
    /// assert_eq!((placement.seg("my_b", 2), placement.system("other")), (2, "other"));
    /// ```
    pub fn new<'u>(
        systems: &'a [String],
        places: &'a [Place],
        units: &(impl Iterator<Item = (&'u str, usize)> + Clone),
    ) -> Self {
        let mut documents: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (seg, place) in places.iter().enumerate() {
            documents.entry(&place.doc).or_default().push(seg);
        }
        let is_through =
            |(doc, seg): (&str, usize)| places.get(seg).is_some_and(|place| is_same(&place.doc, doc));
        let is_inside = |(doc, seg): (&str, usize)| {
            documents
                .get(unspaced(doc).as_str())
                .or_else(|| documents.get(doc))
                .is_some_and(|segs| seg < segs.len())
        };
        let in_documents = !units.clone().all(is_through) && units.clone().all(is_inside);
        Self { systems, documents: in_documents.then_some(documents) }
    }

    /// The number of a segment in the test set.
    pub fn seg(&self, doc: &str, seg: usize) -> usize {
        let segs =
            self.documents.as_ref().and_then(|all| all.get(doc).or_else(|| all.get(unspaced(doc).as_str())));
        segs.and_then(|segs| segs.get(seg)).copied().unwrap_or(seg)
    }

    /// The name of a system in the test set.
    pub fn system<'n>(&'n self, name: &'n str) -> &'n str {
        let find = |name: &str| self.systems.iter().find(|known| *known == name);
        find(name).or_else(|| find(&unspaced(name))).map_or(name, String::as_str)
    }
}

/// The verdicts of a run on segments of a test set, by its names and numbers.
pub fn placed(mut verdicts: Vec<Verdict>, testset: &TestSet) -> Vec<Verdict> {
    let segs = |verdict: &Verdict| verdict.seg.iter().chain(&verdict.segs).copied().collect::<Vec<_>>();
    let units = verdicts.iter().flat_map(|v| segs(v).into_iter().map(|seg| (v.doc.as_str(), seg)));
    let placement = Placement::new(&testset.systems, &testset.places, &units);
    let named: Vec<(String, Option<usize>, Vec<usize>)> = verdicts
        .iter()
        .map(|verdict| {
            let seg = |seg: usize| placement.seg(&verdict.doc, seg);
            let segs = verdict.segs.iter().copied().map(seg).collect();
            (placement.system(&verdict.system).to_owned(), verdict.seg.map(seg), segs)
        })
        .collect();
    for (verdict, (system, seg, segs)) in verdicts.iter_mut().zip(named) {
        (verdict.system, verdict.seg, verdict.segs) = (system, seg, segs);
    }
    verdicts
}

/// True if a test set's document is that of a verdict, whose name may have white space.
fn is_same(known: &str, doc: &str) -> bool {
    known == doc || known == unspaced(doc)
}

/// A name with `_` for white space, as in score files and lists of documents.
fn unspaced(name: &str) -> String {
    name.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect()
}
