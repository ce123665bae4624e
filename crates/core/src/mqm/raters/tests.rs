//! Tests with files as studies and tools write them.

mod json;

use super::*;
use crate::{mqm::Severity, segment::lang::parse_pair};

fn read_text(text: &str) -> Result<Vec<Annotation>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mqm.tsv");
    std::fs::write(&path, text).unwrap();
    let shown = |error: Error| error.to_string().replace(&dir.path().display().to_string(), "DIR");
    read(&path, &parse_pair("en-de").unwrap()).map_err(shown)
}

fn shown(text: &str) -> String {
    let one = |a: &Annotation| {
        let Segment { system, doc, seg, hypothesis, .. } = &a.segment;
        let errors: Vec<String> = (a.errors.iter())
            .map(|e| {
                let (start, end) = (e.start.unwrap_or(99), e.end.unwrap_or(99));
                format!(" {} {} {:?} `{}` {start}..{end}", e.severity, e.category, e.side, e.span)
            })
            .collect();
        format!("{system} {doc} {seg} {} {hypothesis}{}", a.rater, errors.concat())
    };
    read_text(text).unwrap().iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn nine_columns_as_until_wmt22() {
    insta::assert_snapshot!(shown(
        "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n\
         A\td:English-German\t1\t7\trater1\tThe 😀 bank.\tDie 😀 <v>Bank</v>.\tAccuracy/Mistranslation\tMajor\n\
         A\td:English-German\t1\t7\trater1\tThe <v>😀 </v>bank.\tDie 😀 Bank.\tAccuracy/Omission\tMinor\n\
         A\td:English-German\t1\t7\trater2\tThe 😀 bank.\tDie 😀 Bank.\tNo-error\tno-error\n\
         A\td:English-German\t2\t8\trater1\tYes.\t<v>Nein.</v>\tNon-translation!\tMajor\n\
         A\td:English-German\t2\t8\trater1\tYes.\tNein.\tOther\tHOTW-test\n"), @"
    A d:English-German 6 rater1 Die 😀 Bank. major accuracy/mistranslation Target `Bank` 6..10 minor accuracy/omission Source `😀 ` 4..6
    A d:English-German 6 rater2 Die 😀 Bank.
    A d:English-German 7 rater1 Nein. major non-translation Target `Nein.` 0..5
    ");
}

#[test]
fn ten_columns_of_marot_need_no_header() {
    let rows = read_text(
        "A\td\t1\t1\tr\tYes.\t<v>Nein.</v>\tAccuracy/Mistranslation\tCritical\t{\"note\":\" the opposite \"}\n\
         A\td\t1\t1\t\tYes.\tNein.\t\t\t{\"segment\":{\"metrics\":{}}}\n",
    );
    let rows = rows.unwrap();
    assert_eq!((rows.len(), rows[0].errors[0].explanation.as_deref()), (1, Some("the opposite")));
    assert_eq!(rows[0].errors[0].severity, Severity::Critical);
}

#[test]
fn bad_files() {
    let refused = |text: &str| read_text(text).unwrap_err();
    insta::assert_snapshot!(refused("system\tdoc\trater\n"), @"
    `DIR/mqm.tsv` has no column `globalSegId`
    hint: the columns of an MQM TSV are system, doc, docSegId, globalSegId, rater, source, target, category, severity, metadata
    ");
    let nine = "system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n";
    insta::assert_snapshot!(refused(&format!("{nine}A\td\tx\tr\tYes.\tJa.\tOther\tMinor\n")),
        @"`DIR/mqm.tsv` line 2: the segment's number is `x`, but it must be a whole number, from 1");
    insta::assert_snapshot!(refused("A\td\t1\t1\tr\tYes.\tJa.\tOther\tGrave\t\n"),
        @"`DIR/mqm.tsv` line 1: unknown severity `Grave`; hint: it can be critical, major, minor or neutral");
    insta::assert_snapshot!(refused("A\td\t1\n"), @"`DIR/mqm.tsv` line 1: 3 fields, but at least 9 are needed");
    insta::assert_snapshot!(refused(""), @"`DIR/mqm.tsv` holds no rating");
}

#[test]
fn files_are_read_as_marot_reads_them() {
    // Constant ids, other spellings, comments, a second header with other columns, a rater's note without
    // JSON.
    insta::assert_snapshot!(shown(
        "# from two files\n\
         system\tdoc\tdoc_seg_id\tglobal_seg_id\trater\tsource\ttarget\tcategory\tseverity\tmetadata\t# Documentation\n\
         A\td1\t10\t0\tr1\tTen.\t<v>Neun</v>.\taccuracy/mistranslation\tMAJOR\ta number\n\
         A\td1\t2\t0\tr1\tTwo.\tZwei.\tNo_Error\tno error\t\n\
         A\td1\t2\t0\tr1\tTwo.\tDrei.\tMissed\thotw_test\t{}\n\
         # a comment\n\
         \n\
         SYSTEM\tDoc\tRater\tglobalSegId\tdocSegId\tSource\tTarget\tCategory\tSeverity\n\
         A\td0\tr1\t0\t1\tOne.\tEin<v>s</v>.\tlocale_convention/Name\tTrivial\n"), @"
    A d1 1 r1 Neun. major accuracy/mistranslation Target `Neun` 0..4
    A d1 0 r1 Zwei.
    A d0 2 r1 Eins. minor locale convention/name format Target `s` 3..4
    ");
    let text = "A\td\t1\t1\tr\tYes.\t<v>Nein.</v>\tOther\tTrivial\tlegacy\n";
    let error = &read_text(text).unwrap()[0].errors[0];
    assert_eq!((error.weight, error.explanation.as_deref()), (0.1, Some("legacy")));
}

#[test]
fn segments_are_numbered_by_the_ids_that_distinguish_them() {
    let numbers = |ids: &[(&str, &str)]| -> Vec<usize> {
        let row =
            |(seg, id): &(&str, &str)| format!("A\td\t{seg}\t{id}\tr\tS {seg}\tT {seg}\tOther\tMinor\t\n");
        read_text(&ids.iter().map(row).collect::<String>()).unwrap().iter().map(|a| a.segment.seg).collect()
    };
    assert_eq!(numbers(&[("1", "7"), ("2", "9")]), [6, 8]);
    assert_eq!(numbers(&[("1", "1"), ("2", "0")]), [1, 0], "a file that counts from 0");
    assert_eq!(numbers(&[("2", "5"), ("1", "5")]), [1, 0], "one constant");
    assert_eq!(numbers(&[("2", "x-2"), ("10", "x-1")]), [0, 1], "ids of another kind");
    assert_eq!(numbers(&[("b", ""), ("a", "")]), [0, 1]);
    assert_eq!(numbers(&[("1", "7")]), [6]);
}

#[test]
fn a_constant_id_without_segments_of_documents_is_refused() {
    let rows = |rows: &[(&str, &str)]| -> String {
        let row = |(doc, source): &(&str, &str)| format!("A\t{doc}\t\t1\tr\t{source}\tJa.\tOther\tMinor\t\n");
        rows.iter().map(row).collect()
    };
    let error = read_text(&rows(&[("d", "Yes."), ("e", "No."), ("e", "Perhaps.")])).unwrap_err();
    insta::assert_snapshot!(error, @"
    `DIR/mqm.tsv` line 3: `e` has several sources, but `globalSegId` is `1` in all rows and `docSegId` is empty
    hint: number the segments in one of the two columns
    ");
    let documents = read_text(&rows(&[("d", "Yes."), ("e", "No."), ("e", "No. ")])).unwrap();
    assert_eq!(
        documents.iter().map(|a| a.segment.seg).collect::<Vec<_>>(),
        [0, 1],
        "documents of one segment"
    );
    assert!(read_text(&rows(&[("d", "Yes."), ("d", "No.")])).is_err(), "one document");
}

/// Two rows on one segment of a system.
fn versions(raters: [&str; 2], targets: [&str; 2], sources: [&str; 2]) -> String {
    let row = |at: usize| {
        let (rater, source, target) = (raters[at], sources[at], targets[at]);
        format!("A\td\t1\t1\t{rater}\t{source}\t{target}\tAccuracy/Mistranslation\tMinor\t\n")
    };
    row(0) + &row(1)
}

#[test]
fn each_span_lies_on_the_text_that_its_rater_saw() {
    let one = ["The bank.", "The bank."];
    // Another text is another annotation, of the same rater too.
    for raters in [["r1", "r2"], ["r1", "r1"]] {
        let rows = read_text(&versions(raters, ["Die Bank ist <v>zu</v>.", "<v>Offen</v>."], one)).unwrap();
        let spans: Vec<_> =
            rows.iter().map(|a| (a.line, a.segment.hypothesis.as_str(), &*a.errors[0].span)).collect();
        assert_eq!(spans, [(Some(1), "Die Bank ist zu.", "zu"), (Some(2), "Offen.", "Offen")]);
    }
    // White space at the end is none; the longer text holds both spans.
    let rows = read_text(&versions(["r1", "r1"], ["<v>Ja</v>", "Ja<v>  </v>"], one)).unwrap();
    assert_eq!((rows.len(), rows[0].segment.hypothesis.as_str(), rows[0].errors.len()), (1, "Ja  ", 2));
    // A corrected source leaves the translation what it is.
    let sources = ["Teh <v>old</v> bank.", "The old <v>bank</v>."];
    let rows = read_text(&versions(["r1", "r1"], ["Bank.", "Bank."], sources)).unwrap();
    let places: Vec<_> = rows[0].errors.iter().map(|e| (e.span.as_str(), e.start)).collect();
    assert_eq!((rows.len(), places), (1, vec![("old", Some(4)), ("bank", Some(8))]));
    let sources = ["Teh <v>old</v> bank.", "<v>The</v> old bank."];
    let rows = read_text(&versions(["r1", "r1"], ["Bank.", "Bank."], sources)).unwrap();
    assert_eq!((rows[0].errors[1].span.as_str(), rows[0].errors[1].start), ("The", None));
}
