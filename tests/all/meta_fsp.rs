//! FSP's system ranking accuracy: comparison of runs of any granularity, over one direction and over several.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tribunal::{
    judges::{Grouping, Judge, Unit},
    run::{
        self, RunConfig, Selection, calls,
        groups::{Group, groups},
    },
    segment::{
        Lang, Segment,
        read::{self, TestSet},
    },
};

use crate::{
    fakes::{TinyJudge, panel, published_data},
    meta_documents::{meta, scored, testset, values, verdicts, write},
};

/// A document with a segment that is not rated counts for the run, and the raters' system scores are as their
/// file has them, with any coverage; a document without a verdict counts for no system.
#[test]
fn fsp_compares_all_that_was_judged_with_the_raters_system_scores() {
    let dir = testset();
    write(&dir.path().join("human-scores/en-de.mqm.sys.score"), "A -1\nB -2\nC -3\n");
    // With d3, A is behind B.
    let mut scores = [[-1.0, -2.0, -20.0], [-6.0, 0.0, -7.0], [-16.0, -5.0, -5.0]].map(|row| row.map(Some));
    let told = |scores, more: &[&str]| {
        scored(dir.path(), &verdicts(scores), &[&["--task", "fsp"], more].concat()).unwrap()
    };
    let (all, common) = (told(scores, &["--json"]), told(scores, &["--coverage", "common", "--json"]));
    assert_eq!(values(&all), [("Doc".to_owned(), 2.0 / 3.0)]);
    assert_eq!(values(&common), [("Doc".to_owned(), 2.0 / 3.0)]);
    let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!((&of(&all)["coverage"], &of(&common)["coverage"]), (&json!("official"), &json!("common")));
    let left_out = |text: &str| of(text)["directions"][0]["metrics"][0]["units_left_out_of_means"].clone();
    assert_eq!((left_out(&all), left_out(&common)), (json!(0), json!(0)));
    let text = told(scores, &[]);
    assert!(
        text.contains("en-de: system scores are means over all segments or documents, rated or not, for Doc"),
        "{text}"
    );
    // Without a verdict on d3 of C, d3 counts for no system.
    scores[2][2] = None;
    let text = told(scores, &[]);
    assert!(
        text.contains(
            "en-de Doc: its system scores are means over the 2 of 3 documents with a score for every system; it lacks 1 \
             rated translation (--coverage common"
        ),
        "{text}"
    );
    assert_eq!(values(&told(scores, &["--json"])), [("Doc".to_owned(), 1.0)]);
    // What no system has in common has no order.
    scores[0][..2].fill(None);
    let why = scored(dir.path(), &verdicts(scores), &["--task", "fsp"]).unwrap_err();
    assert!(why.contains("no document of `en-de` has a verdict of `Doc` for every system"), "{why}");
}

/// GEMBA-MQM's recorded scores of WMT23, put together as a judge of five documents would: the order of
/// systems is that of its own system scores, over every group, although few groups are wholly rated.
#[test]
fn five_documents_of_wmt23_are_all_compared() {
    let Some(data) = published_data() else { return };
    let data = data.join("wmt23");
    for (lp, groups_of_a_system) in [("en-de", 39), ("zh-en", 36)] {
        let (src, tgt) = lp.split_once('-').unwrap();
        let lang = |code: &str| Lang::parse(code).unwrap();
        let recorded =
            std::fs::read_to_string(data.join(format!("metric-scores/{lp}/GEMBA-MQM-src.seg.score")));
        let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for line in recorded.unwrap().lines() {
            let (system, score) = line.split_once(char::is_whitespace).unwrap();
            scores.entry(system.to_owned()).or_default().push(score.trim().parse().unwrap());
        }
        let official =
            std::fs::read_to_string(data.join(format!("human-scores/{lp}.mqm.sys.score"))).unwrap();
        let is_rated = |system: &str| {
            official.lines().any(|line| line.starts_with(&format!("{system}\t")) && !line.ends_with("None"))
        };
        let systems: Vec<String> = scores.keys().filter(|s| is_rated(s) && *s != "refA").cloned().collect();
        let choice = TestSet {
            dir: data.clone(),
            pair: (lp.into(), lang(src), lang(tgt)),
            systems: Some(systems.clone()),
            reference: None,
        };
        let segments = read::testset(&choice).unwrap().segments;
        let groups = groups(&segments[..], &Selection::All, Grouping::FiveDocuments, 0);
        assert_eq!(groups.len(), groups_of_a_system * systems.len(), "{lp}");
        let line = |group: &Group| {
            let of: Vec<&Segment> = group.members.iter().map(|&at| &segments[at]).collect();
            let join = |text: fn(&Segment) -> &str| of.iter().map(|s| text(s)).collect::<Vec<_>>().join("\n");
            let score: f64 = of.iter().map(|s| scores[&s.system][s.seg]).sum();
            let line = json!({
                "system": of[0].system, "doc": "five", "seg": null, "segs": of.iter().map(|s| s.seg).collect::<Vec<_>>(),
                "src_lang": src, "tgt_lang": tgt, "source": join(|s| &s.source), "hypothesis": join(|s| &s.hypothesis),
                "score": score, "errors": [], "status": "ok",
            });
            format!("{line}\n")
        };
        let run = tempfile::tempdir().unwrap();
        write(&run.path().join("verdicts.jsonl"), &groups.iter().map(line).collect::<String>());
        let five = format!("Five={}", run.path().display());
        let told = |more: &[&str]| {
            let fixed = ["-l", lp, "--metrics", "GEMBA-MQM", "--scores", &five, "--task", "fsp", "--json"];
            meta(&data, &[&fixed, more].concat()).unwrap()
        };
        let json = told(&[]);
        let value: BTreeMap<String, f64> = values(&json).into_iter().collect();
        assert_eq!(value["Five"].to_bits(), value["GEMBA-MQM"].to_bits(), "{lp}: {value:?}");
        let of_five = |json: &str| {
            let json: Value = serde_json::from_str(json).unwrap();
            let metrics = json["directions"][0]["metrics"].as_array().unwrap();
            metrics.iter().find(|m| m["name"] == "Five").unwrap()["units_left_out_of_means"].as_u64().unwrap()
        };
        assert_eq!(of_five(&json), 0);
        assert_eq!(of_five(&told(&["--coverage", "common"])), 0, "{lp}");
    }
}

#[test]
fn fsp_averages_the_accuracy_of_each_direction() {
    let dir = testset();
    let at = |name: &str| dir.path().join(name);
    write(&at("documents/en-es.docs"), "news\td1\n");
    write(&at("sources/en-es.txt"), "one\n");
    let scores: [(&str, &str, &str); 4] =
        [("A", "-1", "4"), ("B", "-2", "3"), ("D", "-3", "1"), ("E", "-4", "2")];
    let column = |pick: fn(&(&str, &str, &str)) -> String| scores.iter().map(pick).collect::<String>();
    for (system, ..) in scores {
        write(&at(&format!("system-outputs/en-es/{system}.txt")), "uno\n");
    }
    write(&at("human-scores/en-es.mqm.seg.score"), &column(|row| format!("{}\t{}\n", row.0, row.1)));
    write(&at("Doc.en-es.score"), &column(|row| format!("{}\t{}\n", row.0, row.2)));
    write(&at("Doc.en-de.sys.score"), "A 3\nB 2\nC 1\n");
    write(&at("Doc.en-es.sys.score"), &column(|row| format!("{}\t{}\n", row.0, row.2)));
    let scores = format!("Doc={}", at("Doc.{lp}.{level}.score").display());
    let arguments =
        ["-l", "en-de,en-es", "--metrics", "none", "--scores", &scores, "--task", "fsp", "--json"];
    let json: Value = serde_json::from_str(&meta(dir.path(), &arguments).unwrap()).unwrap();
    // 3 of 3 and 5 of 6 pairs: the mean is 11/12, pooled it would be 8/9.
    let average = json["result"]["average"][0]["value"].as_f64().unwrap();
    assert!((average - 11.0 / 12.0).abs() < 1e-12, "{average}");
}

/// Figure 2: the answers of a judge of segments to the segments of a group together, beside those of a judge
/// of the group.
#[test]
fn answers_are_as_long_as_their_calls() {
    let dir = testset();
    let lang = |code: &str| Lang::parse(code).unwrap();
    let choice = TestSet {
        dir: dir.path().into(),
        pair: ("en-de".into(), lang("en"), lang("de")),
        systems: None,
        reference: None,
    };
    let segments = read::testset(&choice).unwrap().segments;
    let judged = |name: &str, judge: &Judge, signature: &str| {
        let out = dir.path().join(name);
        let options = RunConfig { command: vec!["tribunal".into()], ..RunConfig::new(&out) };
        run::run(&panel().0, judge, &segments, &signature.parse().unwrap(), &options).unwrap();
        let tokens: usize = calls::read(&out).unwrap().map(|call| call.unwrap().usage.generated).sum();
        (format!("{name}={}", out.display()), tokens)
    };
    let (seg, of_segments) = judged("Seg", &TinyJudge::by(Grouping::Segment), "method:tiny");
    let (five, of_groups) = judged(
        "Five",
        &TinyJudge::about(Unit::Group, Grouping::FiveDocuments),
        "method:gemba-mqm|granularity:5doc",
    );
    let told = |more: &[&str]| {
        let runs = [
            "-l",
            "en-de",
            "--metrics",
            "none",
            "--scores",
            &seg,
            "--scores",
            &five,
            "--also",
            "answers,testset",
        ];
        meta(dir.path(), &[&runs, more].concat()).unwrap()
    };
    let json: Value = serde_json::from_str(&told(&["--json"])).unwrap();
    let [by_segment, by_group] = &json["more"]["answers"].as_array().unwrap()[..] else { panic!("{json}") };
    let total = |found: &Value| found["mean"].as_f64().unwrap() * found["n"].as_f64().unwrap();
    assert_eq!((&by_segment["unit"], &by_segment["found"]["n"]), (&json!("segment"), &json!(segments.len())));
    assert_eq!((&by_group["unit"], &by_group["found"]["n"]), (&json!("group"), &json!(3)));
    assert!((total(&by_segment["found"]) - of_segments as f64).abs() < 1e-9);
    assert!((total(&by_group["found"]) - of_groups as f64).abs() < 1e-9);
    assert!((total(&by_group["by_segment"]["Seg"]) - of_segments as f64).abs() < 1e-9);
    assert!(by_segment["by_segment"].as_object().unwrap().is_empty());
    assert!(by_group["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    let text = told(&[]);
    assert!(text.contains("Seg, joined as in Five") && text.contains("spans a second"), "{text}");
    // One rated segment lacks: that of C's third document, which the others have.
    let whole = &json["more"]["testset"][0]["found"];
    assert_eq!(whole["translated"], json!({"segments": 15, "documents": 9, "five_documents": 3}));
    assert_eq!(whole["rated"], json!({"segments": 14, "documents": 9, "five_documents": 1}));
    let domains = json["more"]["testset"].as_array().unwrap().iter().map(|row| &row["found"]["domain"]);
    assert_eq!(domains.collect::<Vec<_>>(), [&Value::Null, &json!("news"), &json!("speech")]);
}
