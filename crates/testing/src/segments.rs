//! Segments for the tests of judges.

use tribunal_core::segment::Segment;

/// One translation of a system.
pub fn translation(pair: (&str, &str), source: &str, hypothesis: &str) -> Segment {
    let lang = |code: &str| code.to_owned().try_into().unwrap();
    Segment {
        system: "sys".into(),
        doc: "doc".into(),
        ..Segment::new((lang(pair.0), lang(pair.1)), source, hypothesis)
    }
}

/// A segment of a document in German.
pub fn segment(seg: usize, source: &str, hypothesis: &str) -> Segment {
    Segment { seg, ..translation(("en", "de"), source, hypothesis) }
}

/// A translation with one mistake.
pub fn bank() -> Segment {
    segment(0, "He sat on the bank.", "Er saß auf der Bank.")
}

/// Three segments, the first and the last with the same translation.
pub fn document() -> Vec<Segment> {
    vec![
        segment(0, "He went to the bank.", "Er ging zur Bank."),
        segment(1, "The bank was closed, he said.", "Die Bank war zu."),
        segment(2, "So he went to the bench.", "Er ging zur Bank."),
    ]
}

/// Two systems, four documents, a few scripts, one segment that cannot be parsed and one that is too long.
pub fn segments() -> Vec<Segment> {
    let docs = ["news", "news", "news", "speech", "speech", "", "chat", "chat"];
    let text =
        ["One.", "两个。", "Three « » \u{1f600}", "Four", "five ???", "six", "endless", "Eight \"quoted\""];
    let of = |system: &str| -> Vec<Segment> {
        let of_system = |seg: usize| Segment {
            system: system.into(),
            doc: docs[seg].into(),
            ..segment(seg, &format!("source {seg}"), &format!("{} {system}", text[seg]))
        };
        (0..docs.len()).map(of_system).collect()
    };
    [of("zeta"), of("alpha")].concat()
}
