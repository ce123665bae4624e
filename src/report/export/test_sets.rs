//! The test sets of the language pairs that a run judged, for score files. It writes nothing.

use std::path::Path;

use super::TestSet;
use crate::{
    meta::{self, Error, units},
    report::as_verdicts,
    run::Record,
};

/// Opens the test set of each pair that has a verdict, and checks that the verdicts are about its translations; `run` is
/// where they come from, for messages.
///
/// # Errors
/// A folder without such a pair, and verdicts on other texts.
pub fn test_sets(dir: &Path, run: &Path, records: &[Record]) -> Result<Vec<TestSet>, Error> {
    let mut sets: Vec<TestSet> = Vec::new();
    for record in records {
        let pair = format!("{}-{}", record.src_lang, record.tgt_lang);
        if sets.iter().any(|set| set.pair == pair) {
            continue;
        }
        let languages = (&record.src_lang, &record.tgt_lang);
        let testset = meta::testset::TestSet::of_languages(dir, languages, &pair)?;
        let own = records.iter().filter(|r| (&r.src_lang, &r.tgt_lang) == languages).cloned();
        units::check(run, &as_verdicts(&own.collect::<Vec<_>>()), &testset)?;
        let domains = testset.places.into_iter().map(|place| place.domain).collect();
        sets.push(TestSet { pair, lp: testset.lp, domains });
    }
    Ok(sets)
}
