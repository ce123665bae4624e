//! `tribunal lint` as a user calls it: what it finds in ratings, texts and scores, where, and with which exit code.

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::fakes::program;
use crate::meta_cli::{testset, write};

fn lint(arguments: &[&str]) -> (Value, ExitCode) {
    let (text, code) = program(&[&["lint", "--format", "json"], arguments].concat()).unwrap();
    (serde_json::from_str(&text).unwrap(), code)
}

/// Kind, line, segment and system of each finding.
fn places(json: &Value) -> Vec<(String, Option<u64>, Option<u64>, String)> {
    let of = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        (text("kind"), finding["line"].as_u64(), finding["segment"].as_u64(), text("system"))
    };
    json["findings"].as_array().unwrap().iter().map(of).collect()
}

/// Two raters of one system, of whom the second never marks an error.
fn mqm_tsv(dir: &Path) -> String {
    let header = "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\n";
    let row = |seg: usize, rater: &str, target: &str, category: &str, severity: &str| {
        format!("A\td\t{seg}\t{seg}\t{rater}\tsource {seg}\t{target}\t{category}\t{severity}\n")
    };
    let mut text = header.to_owned();
    for seg in 1..=10 {
        text += &row(seg, "r1", &format!("<v>Text</v> {seg}"), "Style", "Minor");
        text += &row(seg, "r2", &format!("Text {seg}"), "No-error", "No-error");
    }
    let path = dir.join("mqm.tsv");
    write(&path, &text);
    path.display().to_string()
}

#[test]
fn an_annotator_who_never_marks_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = mqm_tsv(dir.path());
    let (text, code) = program(&["lint", &path, "-l", "en-de"]).unwrap();
    assert_eq!(code, ExitCode::from(1));
    insta::assert_snapshot!(text.replace(&dir.path().display().to_string(), "DIR"), @r"
    warning: never-marks (1)
    hint: check whether this annotator knows the task; leave the ratings out if not
      DIR/mqm.tsv, annotator `r2`: no error in 10 translations

    10 translations, 20 ratings, 0 metrics checked: 1 warning
    ");
    let (rows, _) = program(&["lint", &path, "-l", "en-de", "--format", "tsv"]).unwrap();
    assert!(rows.starts_with(
        "level\tkind\tpair\tfile\tline\tsystem\tdocument\tid\tannotator\tmetric\tmessage\tadvice\n"
    ));
    assert_eq!(rows.lines().count(), 2);
}

#[test]
fn lines_of_a_table_that_are_shifted_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let length = |seg: usize| 8 + seg * 37 % 110;
    let table = |target: &dyn Fn(usize) -> String| {
        let row = |seg: usize| {
            let (source, target) = ("s".repeat(length(seg)), target(seg));
            serde_json::json!({"system": "A", "source": source, "hypothesis": target}).to_string()
        };
        let path = dir.path().join("table.jsonl");
        write(&path, &((0..40).map(row).collect::<Vec<_>>().join("\n") + "\n"));
        path.display().to_string()
    };
    let aligned = table(&|seg| "t".repeat(length(seg) + 2));
    let (json, code) = lint(&[&aligned, "-l", "en-de"]);
    assert_eq!((places(&json), code), (vec![], ExitCode::SUCCESS));
    assert_eq!(json["checked"]["translations"], 40);
    let shifted = table(&|seg| "t".repeat(length(if seg < 20 { seg } else { seg + 1 }) + 2));
    let (json, code) = lint(&[&shifted, "-l", "en-de"]);
    assert_eq!(code, ExitCode::from(1));
    assert_eq!(places(&json)[0].0, "shifted-lines");
    assert!([20, 21].contains(&json["findings"][0]["segment"].as_u64().unwrap()), "{json}");
    assert!(
        json["findings"][0]["message"].as_str().unwrap().contains("sources 1 line further down"),
        "{json}"
    );
}

/// WMT25's annotations of two documents, whose numbers begin anew; a line of the second is lost.
#[test]
fn shifted_lines_are_found_within_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let length = |line: usize| 8 + line * 37 % 110;
    let row = |line: usize| {
        let (doc, seg) = (["b", "a"][line / 40], line % 40);
        let translation = "t".repeat(length(if line < 50 { line } else { line + 1 }) + 2);
        serde_json::json!({
            "doc_id": format!("en-de_#_news_#_{doc}_#_{seg}"), "src_text": "s".repeat(length(line)),
            "tgt_text": {"A": translation}, "scores": {"A": [{"score": 90, "annotator": "r", "errors": []}]},
        })
        .to_string()
    };
    let path = dir.path().join("humeval.jsonl");
    write(&path, &((0..80).map(row).collect::<Vec<_>>().join("\n") + "\n"));
    let (json, code) = lint(&[&path.display().to_string()]);
    assert_eq!(code, ExitCode::from(1));
    let found = places(&json);
    assert_eq!(found, [("shifted-lines".to_owned(), Some(51), Some(10), "A".to_owned())], "{json}");
    assert!(json["findings"][0]["document"].as_str().unwrap().ends_with('a'), "{json}");
}

/// ESA ratings of the small test set: one error outside the text, one low score without an error.
#[test]
fn ratings_of_a_test_set_are_checked_with_their_lines() {
    let dir = testset();
    let at = |name: &str| dir.path().join(name);
    let scores = |rows: [[&str; 4]; 3]| -> String {
        let rows = ["A", "B", "C"].into_iter().zip(rows);
        rows.flat_map(|(system, row)| row.map(|score| format!("{system}\t{score}\n"))).collect()
    };
    write(
        &at("human-scores/en-de.esa.seg.score"),
        &scores([["90", "80", "None", "95"], ["60", "90", "None", "99"], ["95", "30", "None", "90"]]),
    );
    let none = r#"{"errors": []}"#;
    let error =
        |end: usize| format!("{{\"errors\": [{{\"start\": 0, \"end\": {end}, \"severity\": \"minor\"}}]}}");
    let (inside, outside) = (error(2), error(40));
    write(
        &at("human-scores/en-de.esa.merged.seg.rating"),
        &scores([
            [none, none, "None", none],
            [&inside, none, "None", &outside],
            [none, &inside, "None", none],
        ])
        .replace('\n', "\tr1\n"),
    );
    let folder = dir.path().display().to_string();
    let (json, code) = lint(&["--testset", &folder, "-l", "en-de", "--gold", "esa"]);
    assert_eq!(code, ExitCode::from(1));
    let found = places(&json);
    let has = |kind: &str, line: u64, segment: u64, system: &str| {
        let expected = (kind.to_owned(), Some(line), Some(segment), system.to_owned());
        assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
    };
    has("low-without-span", 2, 1, "A");
    has("span-outside", 8, 3, "B");
    // Every system has the same four translations, which is no warning, and one rater scores them apart, which is.
    has("equal-translations", 1, 0, "A");
    has("rated-apart", 1, 0, "A");
    assert_eq!((&json["n_notes"], &json["checked"]["ratings"]), (&4.into(), &9.into()));
    let advice = |kind: &str| {
        let findings = json["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["kind"] == kind).unwrap()["advice"].clone()
    };
    assert!(advice("span-outside").as_str().unwrap().contains("Unicode code points"));
}

#[test]
fn known_mistakes_in_scores_are_warnings() {
    let dir = testset();
    let file =
        |name: &str, level: &str, text: &str| write(&dir.path().join(format!("{name}.{level}.score")), text);
    file("Flip", "seg", "A 0\nA 1\nA 9\nA 0\nB 5\nB 1\nB 9\nB 1\nC 6\nC 9\nC 1\nC 5\n");
    // B lacks a segment, and its system score is a sum all the same.
    file("Sum", "seg", "A 9\nA 8\nA 1\nA 9\nB 5\nB None\nB 1\nB 8\nC 4\nC 1\nC 9\nC 4\n");
    file("Sum", "sys", "A 27\nB 14\nC 18\n");
    let pattern = |name: &str| format!("{name}={}/{name}.{{level}}.score", dir.path().display());
    let (flip, sum, folder) = (pattern("Flip"), pattern("Sum"), dir.path().display().to_string());
    let arguments = ["--testset", &folder, "-l", "en-de", "--scores", &flip, "--scores", &sum];
    let (json, _) = lint(&arguments);
    let findings = json["findings"].as_array().unwrap();
    for (metric, kind) in [("Flip", "flipped-sign"), ("Sum", "summed-system-scores")] {
        assert!(
            findings.iter().any(|found| found["metric"] == metric && found["kind"] == kind),
            "{findings:?}"
        );
    }
    let (json, _) = lint(&[&arguments[..], &["--negate", "Flip"]].concat());
    assert!(json["findings"].as_array().unwrap().iter().all(|found| found["metric"] != "Flip"), "{json}");
    // Texts alone are checked where there is nothing else.
    std::fs::remove_dir_all(dir.path().join("human-scores")).unwrap();
    let (json, code) = lint(&["--testset", &folder, "-l", "en-de"]);
    assert_eq!((&json["checked"]["ratings"], code), (&0.into(), ExitCode::SUCCESS));
}

#[test]
fn what_cannot_be_read_is_an_error_and_no_finding() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.tsv").display().to_string();
    assert!(program(&["lint", &missing, "-l", "en-de"]).unwrap_err().contains("none.tsv"));
    assert!(program(&["lint"]).unwrap_err().contains("required"));
    let path = mqm_tsv(dir.path());
    let told = program(&["lint", &path]).unwrap_err();
    assert!(told.contains("-l") || told.contains("language"), "{told}");
}
