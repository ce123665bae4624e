//! Readers on real inputs: the examples, and the WMT23 folder where there is one.

use crate::fakes::published_data;
use std::path::{Path, PathBuf};

use tribunal::{
    judges::{Grouping, Unit},
    run::{Selection, groups, units},
    segment::{lang::parse_pair, read},
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

#[test]
fn the_examples() {
    let dir = examples().join("en-de");
    let text = read::parallel(&read::Parallel {
        source: dir.join("source.txt"),
        hypotheses: vec![dir.join("system-a.txt"), dir.join("system-b.txt")],
        reference: None,
        docs: Some(dir.join("docs.txt")),
        pair: parse_pair("en-de").unwrap(),
    })
    .unwrap();
    let rows = read::table(&examples().join("zh-en.jsonl"), None).unwrap();
    for (input, n_segments) in [(text, 16), (rows, 14)] {
        assert_eq!(input.segments.len(), n_segments);
        assert!(input.notes.is_empty());
        assert_eq!(groups::groups(&input.segments, &Selection::All, Grouping::Document, 0).len(), 4);
    }
}

#[test]
fn wmt23() {
    let Some(data) = published_data() else { return };
    for (lp, systems, lines, docs) in [("en-de", 12, 557, 192), ("zh-en", 15, 1976, 179)] {
        let (src, tgt) = parse_pair(lp).unwrap();
        let choice = read::TestSet {
            dir: Path::new(&data).join("wmt23"),
            pair: (lp.into(), src, tgt),
            systems: None,
            reference: Some("refA".into()),
        };
        let input = read::testset(&choice).unwrap();
        assert_eq!(input.segments.len(), systems * lines, "{lp}: {:?}", input.notes);
        assert!(input.segments.iter().all(|s| s.reference.is_some() && s.system != "refA"));
        let groups = groups::groups(&input.segments, &Selection::All, Grouping::Document, 0);
        assert_eq!(groups.len(), systems * docs, "{lp}");
        let keys = units::in_verdict_order(&input.segments, &groups, Unit::Segment);
        assert_eq!(keys.len(), systems * lines);
    }
}
