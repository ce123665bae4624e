//! `tribunal meta` on judges that saw documents as one text: the gold scores that they are compared with, the
//! places of their spans, rejected input. The numbers can be checked by hand.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tribunal::{
    judges::{Grouping, Unit},
    run::{self, RunConfig},
    segment::{
        Lang,
        read::{self, TestSet},
    },
};

use crate::fakes::{TinyJudge, panel, program};

pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const SYSTEMS: [&str; 3] = ["A", "B", "C"];

/// Three documents of two, one and two segments. Every translation is rated but the last one of C.
pub fn testset() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("documents/en-de.docs"), "news\td1\nnews\td1\nnews\td2\nspeech\td3\nspeech\td3\n");
    write(&at("sources/en-de.txt"), "one\ntwo\nthree\nfour\nfive\n");
    for system in SYSTEMS {
        let lines: String = (0..5).map(|seg| format!("{system} sagt ä{seg}\n")).collect();
        write(&at(&format!("system-outputs/en-de/{system}.txt")), &lines);
    }
    write(&at("references/en-de.refA.txt"), "eins\nzwei\ndrei\nvier\nfünf\n");
    let rows =
        [["0", "-1", "-2", "0", "-1"], ["-5", "-1", "0", "-1", "-6"], ["-6", "-10", "-5", "-5", "None"]];
    let scores = SYSTEMS.iter().zip(rows);
    let scores: String =
        scores.flat_map(|(system, row)| row.map(|score| format!("{system}\t{score}\n"))).collect();
    write(&at("human-scores/en-de.mqm.seg.score"), &scores);
    dir
}

/// A line of `verdicts.jsonl` on some segments of the test set.
fn verdict(system: &str, doc: &str, segs: &[usize], score: Option<f64>) -> Value {
    let sources = ["one", "two", "three", "four", "five"];
    let joined =
        |text: &dyn Fn(usize) -> String| segs.iter().map(|seg| text(*seg)).collect::<Vec<_>>().join("\n");
    json!({
        "system": system, "doc": doc, "seg": null, "segs": segs, "src_lang": "en", "tgt_lang": "de",
        "source": joined(&|seg| sources[seg].to_owned()),
        "hypothesis": joined(&|seg| format!("{system} sagt ä{seg}")),
        "score": score, "errors": [], "status": if score.is_some() { "ok" } else { "truncated" },
    })
}

/// Verdicts on all documents of all systems: scores by system and document.
pub fn verdicts(scores: [[Option<f64>; 3]; 3]) -> Vec<Value> {
    let docs: [(&str, &[usize]); 3] = [("d1", &[0, 1]), ("d2", &[2]), ("d3", &[3, 4])];
    let of = |(system, row): (&&str, [Option<f64>; 3])| {
        docs.iter().zip(row).map(|((doc, segs), score)| verdict(system, doc, segs, score)).collect::<Vec<_>>()
    };
    SYSTEMS.iter().zip(scores).flat_map(of).collect()
}

fn good() -> Vec<Value> {
    let row = |scores: [f64; 3]| scores.map(Some);
    verdicts([row([-1.0, -2.0, -1.0]), row([-6.0, 0.0, -7.0]), row([-16.0, -5.0, -5.0])])
}

fn run_folder(dir: &Path, lines: &[Value]) -> PathBuf {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    write(&dir.join("run/verdicts.jsonl"), &text);
    dir.join("run")
}

pub fn meta(dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let testset = dir.display().to_string();
    let named = |text: String| text.replace(&testset, "DIR");
    program(&[&["meta", "--testset", &testset], arguments].concat())
        .map(|(text, _)| named(text))
        .map_err(named)
}

pub fn scored(dir: &Path, lines: &[Value], more: &[&str]) -> Result<String, String> {
    let scores = format!("Doc={}", run_folder(dir, lines).display());
    meta(dir, &[&["-l", "en-de", "--metrics", "none", "--scores", &scores], more].concat())
}

fn value(text: &str, task: usize) -> f64 {
    let json: Value = serde_json::from_str(text).unwrap();
    json["result"]["tasks"][task]["values"]["Doc"]["Ok"]["value"].as_f64().unwrap()
}

#[test]
fn a_document_is_compared_with_its_own_gold() {
    let dir = testset();
    // The judge gave each document what the raters gave its segments: -1, -2, -1; -6, 0, -7; -16, -5.
    let stats = ["--stat", "sys:accuracy,seg:pearson@none,seg:acc-eq@item"];
    let text = scored(dir.path(), &good(), &stats).unwrap();
    insta::assert_snapshot!(text, @"
    statistics · DIR · human scores `mqm`
    en-de: 3 systems in the order of their names, reference refA, 5 of 5 segments rated

              en-de
              sys        seg
    n         3 systems  3 documents
    metric     accuracy  pearson@none  acc-eq@item
    ──────────────────────────────────────────────
    Doc           1.000         1.000        1.000
    length        0.000         0.383        0.000
    random        0.000        -0.766        0.000
    constant      0.000             -        0.000

    en-de Doc judged documents, and is compared with sums (--document-gold mean for means) of the raters' segment scores; 1 document is only partly rated for some system, which leaves it out
    en-de: 1 of 14 rated translations left out for all metrics, because something else in the same documents is not rated or not scored (--coverage each judges each metric by what it scored)
    en-de: system scores are means over all segments or documents, rated or not, for Doc
    acc-eq: each metric has one tie threshold, fitted on these same scores (`--also calibration` shows by how much that flatters it)
    ");
    let json = scored(dir.path(), &good(), &[&stats[..], &["--json"]].concat()).unwrap();
    assert!((value(&json, 1) - 1.0).abs() < 1e-12, "sums equal sums");
    let means = [&stats[..], &["--json", "--document-gold", "mean"]].concat();
    let means = scored(dir.path(), &good(), &means).unwrap();
    assert!(value(&means, 1) < 0.99, "sums are not means");
    assert!((value(&means, 2) - 1.0).abs() < 1e-12, "the order within a document is the same");
    let told = scored(dir.path(), &good(), &["--document-gold", "most"]).unwrap_err();
    assert!(told.contains("`most` does not say how segment scores are joined"), "{told}");
}

/// The value of each metric in the first task.
pub fn values(text: &str) -> Vec<(String, f64)> {
    let json: Value = serde_json::from_str(text).unwrap();
    let values = json["result"]["tasks"][0]["values"].as_object().unwrap();
    values.iter().map(|(name, value)| (name.clone(), value["Ok"]["value"].as_f64().unwrap())).collect()
}

#[test]
fn systems_are_compared_on_the_documents_that_all_have() {
    let dir = testset();
    let mut scores = [[-1.0, -2.0, -1.0], [-6.0, 0.0, -7.0], [-16.0, -5.0, -5.0]].map(|row| row.map(Some));
    scores[2][0] = None;
    scores[2][2] = None;
    let told = |more: &[&str]| {
        let arguments = [&["--stat", "sys:accuracy"], more].concat();
        scored(dir.path(), &verdicts(scores), &arguments).unwrap()
    };
    let text = told(&[]);
    assert!(
        text.contains(
            "en-de Doc: it lacks 3 rated translations: its system scores and the raters' are means over the 1 document \
             that both scored for every system"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "en-de: 3 of 14 rated translations left out for all metrics, because not every metric scored them: Doc \
             lacks 3"
        ),
        "{text}"
    );
    // On d2 alone the judge equals the raters: B 0, A -2, C -5. Over all segments the raters have A, B, C.
    assert_eq!(values(&told(&["--json"])), [("Doc".to_owned(), 1.0)]);
    // Each on its own: translations without a verdict of C are not counted for it on either side.
    let each = told(&["--coverage", "each"]);
    assert!(each.contains("means over the documents that both scored, each system's own"), "{each}");
    assert_eq!(values(&told(&["--coverage", "each", "--json"])), [("Doc".to_owned(), 1.0)]);
}

/// Runs with `--subset` or `--limit` have some of the documents; the raters' order over all of them is
/// another.
#[test]
fn systems_of_a_part_are_compared_on_that_part() {
    let dir = testset();
    for doc in ["d1", "d2"] {
        let lines: Vec<Value> = good().into_iter().filter(|line| line["doc"] == doc).collect();
        let json = scored(dir.path(), &lines, &["--stat", "sys:accuracy,sys:pearson", "--json"]).unwrap();
        assert_eq!(values(&json), [("Doc".to_owned(), 1.0)], "{doc}");
        assert!((value(&json, 1) - 1.0).abs() < 1e-12, "{doc}");
    }
}

/// The run of a judge of segments that gives the raters' own scores to all but one translation.
fn run_of_segments(dir: &Path, without: Option<(&str, usize)>) -> String {
    let rows = [[0.0, -1.0, -2.0, 0.0, -1.0], [-5.0, -1.0, 0.0, -1.0, -6.0], [-6.0, -10.0, -5.0, -5.0, -9.0]];
    let docs = ["d1", "d1", "d2", "d3", "d3"];
    let of = |(system, row): (&&str, [f64; 5])| {
        let score = |(seg, score): (usize, f64)| {
            let score = Some(score).filter(|_| without != Some((*system, seg)));
            let mut line = verdict(system, docs[seg], &[seg], score);
            line["seg"] = json!(seg);
            line["segs"] = json!([]);
            format!("{line}\n")
        };
        row.into_iter().enumerate().map(score).collect::<String>()
    };
    let text: String = SYSTEMS.iter().zip(rows).map(of).collect();
    write(&dir.join("seg/verdicts.jsonl"), &text);
    format!("Seg={}", dir.join("seg").display())
}

#[test]
fn a_partial_run_in_the_table_leaves_whole_documents_to_all() {
    let dir = testset();
    let seg = run_of_segments(dir.path(), Some(("B", 0)));
    for how in [&["--stat", "sys:accuracy"][..], &["--task", "fsp", "--coverage", "common"]] {
        let arguments = [how, &["--scores", &seg, "--json"]].concat();
        let json = scored(dir.path(), &good(), &arguments).unwrap();
        assert_eq!(values(&json), [("Doc".to_owned(), 1.0), ("Seg".to_owned(), 1.0)]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let compared = &json["directions"][0]["compared"];
        // (B, 0) has no verdict; (B, 1) and (C, 3) stand in documents that are not whole.
        assert_eq!((&compared["left_out"], &compared["in_cut_documents"]), (&json!(3), &json!(2)));
        // Doc has a verdict on every document; Seg is compared on the three segments that it and the raters
        // have.
        let metrics = &json["directions"][0]["metrics"];
        assert_eq!([0, 1].map(|nth| metrics[nth]["units_left_out_of_means"].clone()), [json!(0), json!(2)]);
    }
    let told = scored(dir.path(), &good(), &["--stat", "sys:accuracy", "--scores", &seg]).unwrap();
    for part in [
        "3 of 14 rated translations left out for all metrics, because not every metric scored them: Seg lacks 1; 2 of \
         these because something else in the same documents is not rated or not scored",
        "en-de Seg: it lacks 1 rated translation: its system scores and the raters' are means over the 3 segments that both \
         scored for every system",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_part_is_compared_on_that_part_whatever_others_lack() {
    let dir = testset();
    let seg = run_of_segments(dir.path(), Some(("B", 2)));
    let d2: Vec<Value> = good().into_iter().filter(|line| line["doc"] == "d2").collect();
    let json = scored(dir.path(), &d2, &["--stat", "sys:accuracy", "--scores", &seg, "--json"]).unwrap();
    assert_eq!(values(&json)[0], ("Doc".to_owned(), 1.0));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let dir = testset();
    let told = |lines: &[Value]| scored(dir.path(), lines, &[]).unwrap_err();
    let mut mixed = good();
    mixed[0]["seg"] = json!(0);
    mixed[0]["segs"] = json!([]);
    assert!(
        told(&mixed).contains("`DIR/run` holds 1 verdicts on segments and 8 on documents"),
        "{}",
        told(&mixed)
    );
    let mut other = good();
    other[1]["hypothesis"] = json!("Etwas anderes.");
    insta::assert_snapshot!(told(&other), @"
    `DIR/run`: the verdict on document `d2` of `A` has another translation than the test set (segment 2)
    hint: the run must have judged this test set, whole documents of it
    ");
    let mut far = good();
    far[2]["segs"] = json!([3, 9]);
    insta::assert_snapshot!(told(&far), @"`DIR/run`: the verdict on document `d3` of `A` is about segment 9, but the test set ends with segment 4");
    let mut twice = good();
    twice[1] = verdict("A", "d1", &[0], Some(0.0));
    insta::assert_snapshot!(told(&twice), @"`DIR/run`: the verdict on document `d1` of `A` covers segment 1 (id 0), which the verdict on document `d1` covers too");
    let mut unnamed = good();
    unnamed[0]["segs"] = json!([]);
    unnamed[0]["doc"] = json!("d1+d7");
    insta::assert_snapshot!(told(&unnamed), @"`DIR/run`: the verdict on document `d1+d7` of `A` does not say which segments it is about, and the test set has no document `d7`");
    let mut french = good();
    for line in &mut french {
        line["tgt_lang"] = json!("fr");
    }
    insta::assert_snapshot!(told(&french), @"
    `DIR/run` has no verdict on `en-de`
    hint: it judged en-fr
    ");
}

#[test]
fn a_folder_that_names_no_segments_still_names_its_documents() {
    let dir = testset();
    let mut old = good();
    for line in &mut old {
        line.as_object_mut().unwrap().remove("segs");
    }
    let json = scored(dir.path(), &old, &["--stat", "seg:pearson", "--json"]).unwrap();
    assert!((value(&json, 0) - 1.0).abs() < 1e-12);
    // As a file instead of a folder.
    let file = format!("Doc={}", dir.path().join("run/verdicts.jsonl").display());
    let arguments =
        ["-l", "en-de", "--metrics", "none", "--scores", &file, "--stat", "seg:pearson", "--json"];
    assert!((value(&meta(dir.path(), &arguments).unwrap(), 0) - 1.0).abs() < 1e-12);
}

/// Ratings of A: a span in the second segment and one in the last.
fn rate(dir: &Path) {
    let error = |start: usize, end: usize| json!({"errors": [{"start": start, "end": end, "category": "Style", "severity": "Minor", "score": 1}]});
    let none = json!({"errors": []});
    let lines = [none.clone(), error(7, 9), none.clone(), none, error(0, 1)];
    let text: String = lines.iter().map(|line| format!("A\t{line}\tr\n")).collect();
    let rest: String = ["B", "C"].iter().flat_map(|s| vec![format!("{s}\tNone\tr\n"); 5]).collect();
    write(&dir.join("human-scores/en-de.mqm.r.seg.rating"), &(text + &rest));
}

#[test]
fn spans_of_documents_are_placed_in_the_joined_text() {
    let dir = testset();
    rate(dir.path());
    let mut lines = good();
    let error = |span: &str, at: usize| json!({"span": span, "side": "target", "start": at, "end": at + span.chars().count(), "category": "style", "severity": "minor"});
    // Of A's first document `ä1` is right and `ä0` is wrong; of the third `sagt` is wrong and `A` was missed.
    lines[0]["errors"] = json!([error("ä1", 17), error("ä0", 7)]);
    lines[2]["errors"] = json!([error("sagt", 2)]);
    let run = format!("Doc={}", run_folder(dir.path(), &lines).display());
    let more = ["--stat", "sys:accuracy", "--also", "spans", "--json"];
    let json: Value = serde_json::from_str(&scored(dir.path(), &lines, &more).unwrap()).unwrap();
    let found = &json["more"]["spans"][0]["found"];
    let characters = &found["characters"]["target"];
    assert_eq!(
        (characters["precision"].as_f64(), characters["recall"].as_f64()),
        (Some(0.25), Some(2.0 / 3.0))
    );
    assert_eq!((&found["fsp"], &found["wmt_qe"]), (characters, characters), "every quote stands once");
    let shown = |more: &[&str]| {
        let all = [&["--stat", "sys:accuracy", "--also", "spans"], more].concat();
        scored(dir.path(), &lines, &all).unwrap()
    };
    let text = shown(&[]);
    assert!(
        text.contains("characters (offsets), 5 segments") && text.contains("spans (mpp), 5 segments"),
        "{text}"
    );
    assert!(text.contains("characters of sources (offsets), 0.0% of the raters'"), "{text}");
    let text = shown(&["--span-f1", "wmt-qe,fsp"]);
    assert!(text.contains("(fsp)") && text.contains("(wmt-qe)") && !text.contains("(offsets)"), "{text}");
    let why = scored(dir.path(), &lines, &["--span-f1", "f1"]).unwrap_err();
    assert!(
        why.contains("`f1` is not a definition of span F1\nhint: it can be offsets, fsp, wmt-qe or mpp"),
        "{why}"
    );
    assert_eq!((&found["n_segments"], &found["n_verdicts"]), (&5.into(), &3.into()));
    let errors = &found["errors"];
    // Three errors in nine translated documents; the raters marked two in the three that they saw.
    assert_eq!((&errors["unit"], &errors["documents"]), (&"doc".into(), &9.into()));
    assert_eq!((errors["judge"].as_f64(), errors["human"].as_f64()), (Some(3.0 / 9.0), Some(2.0 / 3.0)));
    let b_only: Vec<Value> = lines.iter().filter(|line| line["system"] == "B").cloned().collect();
    run_folder(dir.path(), &b_only);
    let arguments =
        ["-l", "en-de", "--systems", "B", "--stat", "sys:accuracy", "--scores", &run, "--also", "spans"];
    let told = meta(dir.path(), &arguments).unwrap_err();
    assert!(
        told.contains("no verdict of `Doc` on `en-de` covers a segment that the raters marked"),
        "{told}"
    );
}

/// A run of a real judge over groups of five documents, which are joined in an order that the seed draws.
#[test]
fn groups_of_documents_know_their_segments() {
    let dir = testset();
    let lang = |code: &str| Lang::parse(code).unwrap();
    let choice = TestSet {
        dir: dir.path().into(),
        pair: ("en-de".into(), lang("en"), lang("de")),
        systems: None,
        reference: None,
    };
    let segments = read::testset(&choice).unwrap().segments;
    let out = dir.path().join("five");
    let options = RunConfig { seed: 1, command: vec!["tribunal".into()], ..RunConfig::new(&out) };
    let judge = TinyJudge::about(Unit::Group, Grouping::FiveDocuments);
    let signature = "method:tiny".parse().unwrap();
    let outcome = run::run(&panel().0, &judge, &segments, &signature, &options).unwrap();
    assert_eq!(outcome.records().unwrap()[0].segs.len(), 5);
    assert_ne!(
        outcome.records().unwrap()[0].segs,
        [0, 1, 2, 3, 4],
        "the seed should draw another order for this test"
    );
    let scores = format!("Doc={}", out.display());
    let arguments = [
        "-l",
        "en-de",
        "--metrics",
        "none",
        "--scores",
        &scores,
        "--also",
        "spans",
        "--stat",
        "seg:acc23@item",
        "--json",
    ];
    rate(dir.path());
    let json: Value = serde_json::from_str(&meta(dir.path(), &arguments).unwrap()).unwrap();
    // One group; C is rated in part, so A and B make the only pair.
    assert_eq!(json["directions"][0]["metrics"][0]["coverage"]["rated"], 2);
    assert_eq!(json["more"]["spans"][0]["found"]["errors"]["unit"], "5doc");
    assert_eq!(json["more"]["spans"][0]["found"]["n_segments"], 5);
}
