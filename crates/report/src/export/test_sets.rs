//! The test sets of the language pairs that a run judged, for score files. It writes nothing.

use std::path::Path;

use super::TestSet;
use crate::{
    as_verdicts,
    meta::{
        self, Error, units,
        verdicts::{self, Placement},
    },
    run::Record,
};

/// Opens the test set of each pair that has a verdict, and checks that the verdicts are about its
/// translations; `run` is the path of the verdicts, for messages.
///
/// # Errors
/// A folder without such a pair, and verdicts on other texts.
pub fn test_sets(dir: &Path, run: &Path, records: &[Record]) -> Result<Vec<TestSet>, Error> {
    let mut sets: Vec<TestSet> = Vec::new();
    for record in records {
        let pair = record.pair();
        if sets.iter().any(|set| set.pair == pair) {
            continue;
        }
        let languages = (&record.src_lang, &record.tgt_lang);
        let testset = meta::testset::TestSet::of_languages(dir, languages, &pair)?;
        let of_pair = records.iter().filter(|r| (&r.src_lang, &r.tgt_lang) == languages).cloned();
        units::check(run, &verdicts::placed(as_verdicts(&of_pair.collect::<Vec<_>>()), &testset), &testset)?;
        let domains = testset.places.iter().map(|place| place.domain.clone()).collect();
        sets.push(TestSet { pair, lp: testset.lp.clone(), domains, files: testset });
    }
    Ok(sets)
}

/// The records by the names and numbers of their test sets.
pub fn placed(mut records: Vec<Record>, sets: &[TestSet]) -> Vec<Record> {
    for set in sets {
        let is_own = |record: &Record| record.pair() == set.pair;
        let of_pair = records.iter().filter(|record| is_own(record));
        let segs = |record: &Record| record.seg.iter().chain(&record.segs).copied().collect::<Vec<_>>();
        let units = of_pair.flat_map(|record| segs(record).into_iter().map(|seg| (record.doc.clone(), seg)));
        let units = units.collect::<Vec<_>>();
        let units = units.iter().map(|(doc, seg)| (doc.as_str(), *seg));
        let placement = Placement::new(&set.files.systems, &set.files.places, &units);
        for record in records.iter_mut().filter(|record| is_own(record)) {
            record.seg = record.seg.map(|seg| placement.seg(&record.doc, seg));
            record.segs.iter_mut().for_each(|seg| *seg = placement.seg(&record.doc, *seg));
            record.system = placement.system(&record.system).to_owned();
        }
    }
    records
}
