//! Training data of the fits that come with the program: it contains no test set of the judges. The test sets
//! are read from `TRIBUNAL_DATA`; without it the test prints a note and passes.

use tribunal::{
    judges::{Settings, probe::fit::Fit, registry},
    segment::trained,
    tune::rated,
};

use crate::fakes::published_data;

#[test]
fn no_shipped_fit_has_seen_a_source_of_wmt23() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models/fits");
    let mut fits = Fit::all_built_in().unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_probe = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    fits.extend(of_probe.map(|path| Fit::open(&path).unwrap()));
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
    let of_qe = registry::build("qe", &Settings::default(), &[]).unwrap().judge.trained_on.unwrap();
    let of_mlqe = "José Ortega y Gasset visited Husserl at Freiburg in 1934.";
    assert!(of_qe.knows(of_mlqe), "it lists what it was trained on");
    for trained_on in fits.iter().map(Fit::trained_on).chain([of_qe]) {
        let seen: Vec<&String> = tested.iter().filter(|source| trained_on.knows(source)).collect();
        assert!(
            seen.is_empty(),
            "{} sources of WMT23 were trained on: {seen:?}, {}",
            seen.len(),
            trained_on.overlap()
        );
    }
}
