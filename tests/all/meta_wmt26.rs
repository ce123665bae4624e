//! `tribunal meta` on a test set as WMT25 and WMT26 have them: ESA scores of several annotators, error-free
//! segments, spans matched one to one. The reference implementations' values are in
//! `crates/meta/tests/all/wmt26.rs`.

use std::path::Path;

use serde_json::{Value, json};

use super::meta_cli::{meta, write};

const LP: &str = "en-cs_CZ";
const SYSTEMS: [&str; 3] = ["A", "B", "C"];
const N_SEGMENTS: usize = 12;

/// The first annotator's score: 25 to 95.
fn score(system: usize, seg: usize) -> i64 {
    95 - 7 * ((3 * seg + 5 * system) % 11) as i64
}

fn columns(value: impl Fn(usize, usize) -> String) -> String {
    let cells = (0..SYSTEMS.len()).flat_map(|system| (0..N_SEGMENTS).map(move |seg| (system, seg)));
    cells.map(|(system, seg)| format!("{}\t{}\n", SYSTEMS[system], value(system, seg))).collect()
}

/// A folder `wmt25` with three annotators, of whom the third agrees with no other one, and a run.
fn testset() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join("wmt25").join(name);
    write(
        &at(&format!("documents/{LP}.docs")),
        &(0..N_SEGMENTS).map(|seg| format!("news\td{}\n", seg / 2)).collect::<String>(),
    );
    let texts =
        |word: &str| (0..N_SEGMENTS).map(|seg| format!("{word} {seg} of the text\n")).collect::<String>();
    write(&at(&format!("sources/{LP}.txt")), &texts("source"));
    write(&at(&format!("references/{LP}.refA.txt")), &texts("reference"));
    for system in SYSTEMS {
        write(&at(&format!("system-outputs/{LP}/{system}.txt")), &texts(system));
    }
    let scores = |name: &str, value: &dyn Fn(usize, usize) -> i64| {
        let text = columns(|system, seg| value(system, seg).to_string());
        write(&at(&format!("human-scores/{LP}.{name}.seg.score")), &text);
    };
    scores("esa-human1", &score);
    scores("esa-human2", &|system, seg| score(system, seg) - (seg % 3) as i64);
    scores("esa-human3", &|system, seg| (17 * seg + 29 * system) as i64 % 23);
    let rating = columns(|system, seg| match (score(system, seg), seg) {
        // A translation of 95 points with an error is not error-free.
        (95, 0) | (..85, _) => r#"{"errors": [{"start": 0, "end": 1, "severity": "major"}]}"#.into(),
        _ => r#"{"errors": []}"#.into(),
    });
    write(&at(&format!("human-scores/{LP}.esa-human1.seg.rating")), &rating);
    let metric = columns(|system, seg| score(system, seg).to_string());
    write(&at(&format!("metric-scores/{LP}/Good-src.seg.score")), &metric);
    dir
}

fn found(dir: &Path, more: &[&str]) -> Value {
    let text = meta(&dir.join("wmt25"), &[&["-l", LP, "--json"], more].concat());
    serde_json::from_str(&text.unwrap()).unwrap()
}

#[test]
fn the_standard_human_scores_are_those_of_the_shared_task() {
    let dir = testset();
    let told = |more: &[&str]| meta(&dir.path().join("wmt25"), &[&["-l", LP], more].concat());
    let text = told(&["--stat", "seg:pearson"]).unwrap();
    assert!(text.contains("human scores `esa-human1`"), "{text}");
    let error = told(&["--gold", "mqm"]).unwrap_err();
    assert!(error.contains("`--gold` may be esa-human1, esa-human2, esa-human3"), "{error}");
    let task = told(&["--task", "wmt25"]).unwrap();
    assert!(task.contains("no average: wmt25 also covers cs-de_DE, cs-uk_UA"), "{task}");
}

#[test]
fn error_free_segments_have_85_points_and_no_span() {
    let dir = testset();
    let json = found(dir.path(), &["--stat", "seg:pearson", "--also", "error-free"]);
    let rows = json["more"]["error_free"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Good", "length", "random", "constant"]);
    let cells = || (0..3).flat_map(|system| (0..N_SEGMENTS).map(move |seg| (system, seg)));
    let expected = cells().filter(|(system, seg)| score(*system, *seg) >= 85 && *seg != 0).count();
    let good = &rows[0]["found"]["Ok"];
    assert_eq!((&good["n"], &good["error_free"]), (&36.into(), &json!(expected)));
    assert_eq!(good["threshold"], 84.5, "between 81 and 88");
    let mcc = |row: &Value| row["found"]["Ok"]["held_out"]["mcc"].as_f64().unwrap();
    assert!(mcc(&rows[0]) > 0.8 && mcc(&rows[2]) < 0.5 && mcc(&rows[3]) == 0.0, "{rows:?}");
}

#[test]
fn annotators_who_agree_with_no_other_one_can_be_left_out() {
    let dir = testset();
    let all = "esa-human1,esa-human2,esa-human3";
    let json = found(dir.path(), &["--stat", "seg:pearson", "--gold", all, "--also", "annotators"]);
    let found_among = &json["more"]["several_annotators"][0]["found"];
    let standings: Vec<&Value> =
        found_among["members"].as_array().unwrap().iter().map(|one| &one["standing"]).collect();
    assert_eq!(standings, ["agrees", "agrees", "disagrees-with-all"]);
    let good = &found_among["metrics"][0];
    assert!((good["values"]["esa-human1"]["Ok"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert!(good["values"]["esa-human3"]["Ok"].as_f64().unwrap() < 0.5);
    let value = |json: &Value| json["result"]["tasks"][0]["values"]["Good"]["Ok"]["value"].as_f64().unwrap();
    let agreeing = format!("{all}@agreeing");
    let filtered = found(dir.path(), &["--stat", "seg:pearson", "--gold", &agreeing]);
    assert!(value(&filtered) > value(&json));
    let text =
        meta(&dir.path().join("wmt25"), &["-l", LP, "--gold", &agreeing, "--also", "annotators"]).unwrap();
    for part in [
        "leave out annotators who agree with no other one: esa-human3",
        "no, left out",
        "Krippendorff's alpha",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    let error = meta(&dir.path().join("wmt25"), &["-l", LP, "--gold", "esa-human2@agreeing"]).unwrap_err();
    assert!(error.contains("chooses among annotators"), "{error}");
}

#[test]
fn spans_are_matched_one_to_one_beside_those_of_baselines() {
    let dir = testset();
    let verdict = |seg: usize, errors: Value| {
        json!({
            "system": "A", "doc": format!("d{}", seg / 2), "seg": seg, "src_lang": "en", "tgt_lang": "cs_CZ",
            "source": format!("source {seg} of the text"), "hypothesis": format!("A {seg} of the text"),
            "score": -1.0, "status": "ok", "errors": errors,
        })
        .to_string()
    };
    let error = |span: &str, start: usize| {
        json!({"span": span, "side": "target", "start": start, "end": start + span.chars().count(),
               "category": "x", "severity": "minor"})
    };
    // The raters marked `A` in segment 2, which has 53 points: found twice, of which one counts.
    let lines = [verdict(2, json!([error("A", 0), error("A 2", 0)])), verdict(10, json!([]))];
    write(&dir.path().join("run/verdicts.jsonl"), &(lines.join("\n") + "\n"));
    let run = format!("Ours={}", dir.path().join("run").display());
    let arguments = [
        "--stat",
        "seg:pearson",
        "--coverage",
        "each",
        "--systems",
        "A",
        "--metrics",
        "Good",
        "--scores",
        &run,
        "--also",
        "spans",
    ];
    let json = found(dir.path(), &arguments);
    let spans = json["more"]["spans"].as_array().unwrap();
    let names: Vec<&str> = spans.iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Ours", "length", "random", "constant"]);
    let mpp = &spans[0]["found"]["mpp"];
    let expected = if score(0, 10) < 85 { 0.5 } else { 1.0 };
    assert_eq!((&mpp["precision"], &mpp["recall"]), (&json!(0.5), &json!(expected)));
    let all = [&["-l", LP, "--span-f1", "mpp"], &arguments[..]].concat();
    let text = meta(&dir.path().join("wmt25"), &all).unwrap();
    assert!(text.contains("spans (mpp), 2 segments") && !text.contains("(offsets)"), "{text}");
}
