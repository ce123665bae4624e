//! Training data of the fits that come with the program: it contains no test set of the judges. The test sets
//! are read from `TRIBUNAL_DATA`; without it the test prints a note and passes.

use tribunal::{judges::probe::fit::Fit, segment::trained, tune::rated};

use crate::fakes::published_data;

#[test]
fn no_shipped_fit_has_seen_a_source_of_wmt23() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models/fits");
    let mut fits = Fit::all_built_in().unwrap();
    fits.extend(std::fs::read_dir(folder).unwrap().map(|entry| Fit::open(&entry.unwrap().path()).unwrap()));
    assert_eq!(fits.len(), 4);
    for fit in &fits {
        let sources = &fit.made.sources;
        assert!(!sources.is_empty());
        // Hashes of the older form only match texts that are the same to the letter: a fit that has them
        // cannot be checked.
        assert!(sources.iter().all(|hash| hash.starts_with(trained::VERSION)), "{}", fit.hash());
    }
    let Some(data) = published_data() else { return };
    let tested = rated::sources(&data.join("wmt23")).unwrap();
    assert!(tested.len() > 2000, "{}", tested.len());
    for fit in fits {
        let trained_on = fit.trained_on();
        let seen: Vec<&String> = tested.iter().filter(|source| trained_on.knows(source)).collect();
        assert!(
            seen.is_empty(),
            "the fit {} was trained on {} sources of WMT23: {seen:?}",
            fit.hash(),
            seen.len()
        );
    }
}
