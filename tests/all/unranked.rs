//! Judges whose means do not rank systems, from a run made by hand: the order of the systems, the caution
//! above the tables, and the examples that are printed.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tribunal::run::RunFile;

use crate::fakes::program;

/// Output of a command, or its error.
fn tribunal(args: &[&str]) -> Result<String, String> {
    program(args).map(|(text, _)| text)
}

const SOURCE: &str = "The parcel arrived on Tuesday.";

/// A verdict with marks, each a word of the translation with its confidence.
fn verdict(system: &str, seg: usize, score: f64, hypothesis: &str, marks: &[(&str, Option<f64>)]) -> Value {
    let error = |(span, confidence): &(&str, Option<f64>)| {
        let start = hypothesis.find(span).unwrap();
        json!({
            "span": span, "side": "target", "start": start, "end": start + span.len(), "ambiguous": false,
            "category": "other", "severity": "minor", "weight": 1.0, "explanation": null, "confidence": confidence,
        })
    };
    json!({
        "system": system, "doc": "d", "seg": seg, "src_lang": "en", "tgt_lang": "de", "source": SOURCE,
        "hypothesis": hypothesis, "score": score, "raw": score, "direction": "higher", "quality_score": null,
        "errors": marks.iter().map(error).collect::<Vec<_>>(), "status": "ok", "reason": null, "n_calls": 1,
    })
}

const GOOD: &str = "Das Paket kam am Dienstag an.";
const BAD: &str = "Das Paket kam am Donnerstag an.";

/// A run whose input names the systems in this order; verdicts are by name, as in every run.
fn folder(root: &Path, method: &str, systems: &[&str], verdicts: &[Value]) -> PathBuf {
    let dir = root.join(method);
    std::fs::create_dir_all(&dir).unwrap();
    let signature: tribunal::signature::Signature =
        format!("method:{method}|granularity:seg|model:tiny|weights:wmt|v:0.1.0").parse().unwrap();
    let run = json!({
        "format": 1, "short_signature": "", "signature": signature, "command": [], "shard": "1/1", "units": [], "systems": systems,
        "input": {"segments": verdicts.len(), "systems": systems.len(), "sha256": ""},
    });
    std::fs::write(dir.join("run.json"), run.to_string()).unwrap();
    let lines: String = verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
    std::fs::write(dir.join("verdicts.jsonl"), lines).unwrap();
    dir
}

/// Three systems: by name a, b, c; from the best to the worst b, c, a; in the input c, a, b.
fn three(root: &Path, method: &str) -> String {
    let all = [("a", -3.0), ("b", -1.0), ("c", -2.0)];
    let verdicts: Vec<Value> = all
        .iter()
        .flat_map(|&(system, score)| (0..8).map(move |seg| verdict(system, seg, score, GOOD, &[])))
        .collect();
    folder(root, method, &["c", "a", "b"], &verdicts).display().to_string()
}

/// The first words of the three lines below the header of a table and its rule.
fn order(printed: &str) -> String {
    let rows = printed.lines().skip_while(|line| !line.starts_with("system ")).skip(1);
    let rows = rows.filter(|line| !line.starts_with('─')).take(3);
    rows.map(|row| row.split_whitespace().next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

#[test]
fn systems_keep_the_order_of_the_input_where_means_do_not_rank_them() {
    let root = tempfile::tempdir().unwrap();
    let (probe, gemba) = (three(root.path(), "probe"), three(root.path(), "gemba-mqm"));
    let shown = tribunal(&["show", &probe]).unwrap();
    assert_eq!(order(&shown), "c a b", "{shown}");
    assert!(!shown.contains("systems are listed by name"), "{shown}");
    let (caution, table) = (shown.find("caution: probe: ").unwrap(), shown.find("system  ").unwrap());
    assert!(caution < table && shown[caution..table].contains("are not for ranking systems"), "{shown}");
    assert!(shown[..caution].contains("caution: Do not order these systems by their means\n"), "{shown}");

    let shown = tribunal(&["show", &gemba]).unwrap();
    assert!(
        order(&shown) == "a b c"
            && shown.contains("systems are listed by name")
            && !shown.contains("caution"),
        "{shown}"
    );
    let compared = tribunal(&["compare", &gemba, "--resamples", "50"]).unwrap();
    assert!(order(&compared) == "b c a" && compared.contains("differences from `b`"), "{compared}");
}

/// The caution of every output that compares the systems.
const UNRANKED: &str = "Do not order these systems by their means";

#[test]
fn no_difference_is_called_significant_where_means_do_not_rank_systems() {
    let root = tempfile::tempdir().unwrap();
    let (probe, gemba) = (three(root.path(), "probe"), three(root.path(), "gemba-mqm"));
    let compare =
        |run: &str, more: &[&str]| tribunal(&[&["compare", run, "--resamples", "50"], more].concat());
    let text = compare(&probe, &[]).unwrap();
    assert!(text.starts_with(&format!("caution: {UNRANKED}\ncaution: probe: ")), "{text}");
    assert_eq!(order(&text), "c a b", "{text}");
    let json: Value = serde_json::from_str(&compare(&probe, &["--json"]).unwrap()).unwrap();
    assert_eq!((&json["cautions"][0], &json["baseline"]), (&json!(UNRANKED), &Value::Null));
    let systems = json["systems"].as_array().unwrap();
    assert!(systems.len() == 3 && systems.iter().all(|row| row["against_baseline"].is_null()), "{json}");
    let tsv = compare(&probe, &["--format", "tsv"]).unwrap();
    assert!(tsv.starts_with("lp\tsystem\tscore\tlow\thigh\tunits\tmissing\tbaseline\t"), "{tsv}");
    assert!(tsv.lines().skip(1).all(|row| row.ends_with("\t\t\t\t\t\t")), "no test: {tsv}");
    let told = ["significant", "randomization", "difference", "baseline"].map(|word| text.contains(word));
    assert_eq!(told, [false; 4], "{text}");
    let refused = compare(&probe, &["--baseline", "a"]).unwrap_err();
    assert!(refused.contains("means do not rank systems") && refused.contains("hint: "), "{refused}");

    let ranked = compare(&gemba, &["--json"]).unwrap();
    assert!(ranked.contains("\"cautions\": []") && ranked.contains("randomization_p"), "{ranked}");
    // Beside another judge each caution names its run.
    let both = tribunal(&["compare", &probe, &gemba]).unwrap();
    assert!(both.starts_with(&format!("caution: {probe}: {UNRANKED}\ncaution: {probe}: probe: ")), "{both}");
}

#[test]
fn every_output_has_the_cautions_about_the_judge_on_its_input() {
    let root = tempfile::tempdir().unwrap();
    let run = three(root.path(), "gemba-mqm");
    let file = Path::new(&run).join("run.json");
    let caution = "24 of 24 translations are of en-de";
    let described =
        RunFile { cautions: vec![format!("{caution}\u{1b}[2J")], ..RunFile::read(Path::new(&run)).unwrap() };
    std::fs::write(&file, serde_json::to_string(&described).unwrap()).unwrap();
    let line = format!("caution: {caution}\\u{{1b}}[2J");
    let printed = |args: &[&str]| tribunal(&[args, &[&run]].concat()).unwrap();
    let shown = printed(&["show"]);
    assert!(shown.contains(&line) && shown.find(&line) < shown.find("system  "), "{shown}");
    assert!(printed(&["compare", "--resamples", "50"]).starts_with(&line));
    for json in [printed(&["show", "--json"]), printed(&["compare", "--json", "--resamples", "50"])] {
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["cautions"], json!([line.trim_start_matches("caution: ")]), "{json}");
    }
    let one = tribunal(&["show", &run, "1", "--system", "a"]).unwrap();
    assert!(one.starts_with(&line), "{one}");
}

#[test]
fn a_folder_of_an_earlier_version_has_its_systems_by_name() {
    let root = tempfile::tempdir().unwrap();
    let probe = three(root.path(), "probe");
    let run = RunFile { systems: Vec::new(), ..RunFile::read(Path::new(&probe)).unwrap() };
    let written = serde_json::to_string(&run).unwrap();
    assert!(!written.contains("\"systems\":["), "{written}");
    std::fs::write(Path::new(&probe).join("run.json"), written).unwrap();
    assert_eq!(order(&tribunal(&["show", &probe]).unwrap()), "a b c");
    assert_eq!(order(&tribunal(&["compare", &probe, "--resamples", "50"]).unwrap()), "a b c");
}

/// The examples of these verdicts.
fn examples(verdicts: &[Value]) -> String {
    let root = tempfile::tempdir().unwrap();
    let dir = folder(root.path(), "probe", &["a", "b"], verdicts).display().to_string();
    tribunal(&["show", &dir, "--examples"]).unwrap()
}

#[test]
fn the_surest_marks_come_first_and_unlikely_ones_not_at_all() {
    let verdicts = [
        verdict("a", 0, -1.0, BAD, &[("Paket", Some(0.49)), ("Donnerstag", Some(0.6))]),
        verdict("a", 1, -1.0, BAD, &[("Paket", Some(0.3))]),
        verdict("a", 2, -1.0, BAD, &[("Donnerstag", Some(0.7))]),
        verdict("a", 3, -1.0, BAD, &[("Das", None)]),
        verdict("a", 4, -1.0, BAD, &[("Donnerstag", Some(0.5))]),
        verdict("a", 5, 0.0, GOOD, &[]),
    ];
    insta::assert_snapshot!(examples(&verdicts), @"
    a · d · segment 4 (id 3)  score -1.00
      en          The parcel arrived on Tuesday.
      de          ⟦Das⟧ Paket kam am Donnerstag an.
      minor       `Das`

    a · d · segment 3 (id 2)  score -1.00
      en          The parcel arrived on Tuesday.
      de          Das Paket kam am ⟦Donnerstag⟧ an.
      minor       `Donnerstag`

    a · d · segment 1 (id 0)  score -1.00
      en          The parcel arrived on Tuesday.
      de          Das Paket kam am ⟦Donnerstag⟧ an.
      minor       `Donnerstag`

    ... and 1 more with errors or without a verdict; `verdicts.jsonl` and `tribunal report` have them
    all
    not shown: 2 marks in 2 translations, each with a confidence below 0.5; `verdicts.jsonl` and
    `tribunal report` have them
    1 of 6 translations without a marked error
    ");
}

#[test]
fn without_a_likely_mark_scores_that_are_furthest_apart_are_the_examples() {
    let unlikely = [("Donnerstag", Some(0.2))];
    let verdicts = [
        verdict("a", 0, 0.0, GOOD, &[]),
        verdict("a", 1, -0.5, GOOD, &[]),
        verdict("a", 2, -4.0, BAD, &unlikely),
        verdict("a", 3, -9.0, BAD, &[]),
        verdict("b", 0, -2.0, BAD, &unlikely),
        verdict("b", 1, -1.4, BAD, &[]),
        verdict("b", 2, -1.0, GOOD, &[]),
        verdict("b", 3, -6.0, BAD, &[]), // nearly as bad
    ];
    insta::assert_snapshot!(examples(&verdicts), @"
    translations of one source that the judge scores furthest apart:

    d · segment 3 (id 2)
      en          The parcel arrived on Tuesday.
      -1.00       b: Das Paket kam am Dienstag an.
      -4.00       a: Das Paket kam am Donnerstag an.

    d · segment 1 (id 0)
      en          The parcel arrived on Tuesday.
      0.00        a: Das Paket kam am Dienstag an.
      -2.00       b: Das Paket kam am Donnerstag an.

    not shown: 2 marks in 2 translations, each with a confidence below 0.5; `verdicts.jsonl` and
    `tribunal report` have them
    6 of 8 translations without a marked error
    ");
    let alone = [verdict("a", 0, -9.0, BAD, &unlikely), verdict("a", 1, 0.0, GOOD, &[])];
    assert!(
        !examples(&alone).contains("furthest apart"),
        "one system has nothing to compare: {}",
        examples(&alone)
    );
}

#[test]
fn documents_and_groups_are_called_so() {
    for (method, granularity, noun) in [
        ("gemba-mqm", "doc", "document"),
        ("gmicl", "5doc", "group"),
        // One verdict a segment, whatever a prompt shows.
        ("fsp", "doc", "segment"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let of_document = |system: &str, n: usize| {
            let mut verdict = verdict(system, n, -1.0, BAD, &[("Donnerstag", None)]);
            if noun != "segment" {
                (verdict["seg"], verdict["segs"]) = (Value::Null, json!([2 * n, 2 * n + 1]));
                verdict["doc"] = json!(format!("d{n}"));
            }
            verdict
        };
        let verdicts: Vec<Value> = (0..6).map(|n| of_document(["a", "b"][n / 3], n % 3)).collect();
        let dir = folder(root.path(), method, &["a", "b"], &verdicts);
        let run = std::fs::read_to_string(dir.join("run.json")).unwrap();
        let granular = run.replace("\"granularity\":\"seg\"", &format!("\"granularity\":\"{granularity}\""));
        assert_ne!(run, granular);
        std::fs::write(dir.join("run.json"), granular).unwrap();
        let (dir, page) = (dir.display().to_string(), root.path().join("page.html"));
        let shown = tribunal(&["show", &dir]).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let mean =
            format!("the mean over {noun}s with a verdict, higher is better; errors are counted per {noun}");
        for said in [&format!("system {noun}s score"), &mean] {
            assert!(shown.contains(said), "{said}: {shown}");
        }
        let compared = tribunal(&["compare", &dir, "--resamples", "50"]).unwrap();
        let head = compared.lines().find(|line| line.starts_with("system ")).unwrap();
        assert!(
            head.contains(&format!(" {noun}s ")) && compared.contains(&format!("too few {noun}s")),
            "{compared}"
        );
        tribunal(&["report", &dir, "--out", &page.display().to_string()]).unwrap();
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains(&format!("overview, {noun}s")), "{method}");
    }
}
