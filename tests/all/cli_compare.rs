//! `tribunal compare` as a user calls it: systems of one judge, judges on the same translations, and rejected
//! input. The numbers can be checked by hand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::fakes::program;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn verdict(system: &str, seg: usize, score: Option<f64>) -> Value {
    json!({
        "system": system, "doc": "d1", "seg": seg, "src_lang": "en", "tgt_lang": "de",
        "source": format!("source {seg}"), "hypothesis": format!("{system} sagt {seg}"),
        "score": score, "errors": [], "status": if score.is_some() { "ok" } else { "truncated" },
    })
}

/// A run folder: the fields of its signature, and each system's scores.
fn folder(root: &Path, name: &str, signature: &str, systems: &[(&str, &[Option<f64>])]) -> PathBuf {
    let dir = root.join(name);
    let signature: tribunal::signature::Signature = signature.parse().unwrap();
    let run = json!({
        "format": 1, "short_signature": "", "signature": signature, "command": [], "shard": "1/1", "units": [],
        "input": {"segments": 0, "systems": 0, "sha256": ""},
    });
    write(&dir.join("run.json"), &run.to_string());
    let lines = systems.iter().flat_map(|(system, scores)| {
        scores.iter().enumerate().map(move |(seg, score)| format!("{}\n", verdict(system, seg, *score)))
    });
    write(&dir.join("verdicts.jsonl"), &lines.collect::<String>());
    dir
}

fn compare(root: &Path, paths: &[&PathBuf], more: &[&str]) -> Result<(String, ExitCode), String> {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let named = |text: String| text.replace(&root.display().to_string(), "out");
    let found = program(&[&["compare"], &paths[..], more].concat());
    found.map(|(text, code)| (named(text), code)).map_err(named)
}

const MQM: &str = "method:gemba-mqm|model:tiny|weights:gemba|seed:0";
const DA: &str = "method:gemba-da|model:tiny|seed:0";

/// Two judges of two systems on four segments. They differ on the last of b, which DA could not score for a.
fn two_judges(root: &Path) -> [PathBuf; 2] {
    let mqm = folder(
        root,
        "judge-a",
        MQM,
        &[
            ("a", &[Some(0.0), Some(-1.0), Some(-1.0), Some(-5.0)]),
            ("b", &[Some(-5.0), Some(-5.0), Some(-2.0), Some(0.0)]),
        ],
    );
    let da = folder(
        root,
        "judge-b",
        DA,
        &[
            ("a", &[Some(95.0), Some(80.0), Some(85.0), None]),
            ("b", &[Some(40.0), Some(90.0), Some(70.0), Some(10.0)]),
        ],
    );
    [mqm, da]
}

#[test]
fn two_judges_on_the_same_translations() {
    let root = tempfile::tempdir().unwrap();
    let [mqm, da] = two_judges(root.path());
    let (text, code) = compare(root.path(), &[&mqm, &da], &[]).unwrap();
    assert_eq!(code, ExitCode::from(1), "a verdict is missing");
    insta::assert_snapshot!(text, @"
    two judges on the same translations
    (1) out/judge-a
    (2) out/judge-b
      method: `gemba-mqm` and `gemba-da`
      weights: `gemba` and nothing
    their scales may differ, so only ranks are compared

    agreement                                   n  value
    ────────────────────────────────────────────────────
    Kendall's tau-b of translations             7  0.103
    Spearman of translations                    7  0.055
    translations of a source in the same order  3  0.667
    pairs of systems in the same order          1  1.000
    Spearman of systems                         2  1.000
    left out, because only one of the judges has a verdict there: 1

    systems, over the 3 units that both judges scored for all of them

    system  rank (1)  rank (2)
    ──────────────────────────
    a              1         1
    b              2         2

    where they differ most (place: the share of the translations that a judge scores lower, ties counted half)

    unit                    system  place (1)  place (2)  translation
    ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    en-de segment 4 (id 3)       b        86%         7%  b sagt 3
    en-de segment 2 (id 1)       b        14%        79%  b sagt 1
    en-de segment 1 (id 0)       a        86%        93%  a sagt 0
    en-de segment 3 (id 2)       a        57%        64%  a sagt 2
    en-de segment 1 (id 0)       b        14%        21%  b sagt 0
    en-de segment 2 (id 1)       a        57%        50%  a sagt 1
    ");
}

#[test]
fn judges_of_one_scale_show_their_scores() {
    let root = tempfile::tempdir().unwrap();
    let scores: [(&str, &[Option<f64>]); 2] =
        [("a", &[Some(0.0), Some(-1.0)]), ("b", &[Some(-5.0), Some(-6.0)])];
    let one = folder(root.path(), "small", MQM, &scores);
    let two = folder(root.path(), "large", &MQM.replace("tiny", "large"), &scores);
    let (text, code) = compare(root.path(), &[&one, &two], &[]).unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(text.contains("model: `tiny` and `large`"), "{text}");
    assert!(text.contains("mean (1)"), "{text}");
    let (text, _) = compare(root.path(), &[&one, &two], &["--json"]).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["judges"][0]["systems"]["agreement"], json!({"agree": 1, "pairs": 1}));
    assert_eq!(json["judges"][0]["kendall"]["Ok"], 1.0);
}

#[test]
fn the_raters_say_which_judge_is_better() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    write(&at("wmt/documents/en-de.docs"), &"news\td1\n".repeat(4));
    write(&at("wmt/sources/en-de.txt"), "1\n2\n3\n4\n");
    write(&at("wmt/references/en-de.refA.txt"), "1\n2\n3\n4\n");
    for system in ["a", "b", "unjudged"] {
        let said: String = (0..4).map(|seg| format!("{system} sagt {seg}\n")).collect();
        write(&at(&format!("wmt/system-outputs/en-de/{system}.txt")), &said);
    }
    // The raters agree with gemba-mqm wherever both judges have a verdict.
    write(
        &at("wmt/human-scores/en-de.mqm.seg.score"),
        "a 0\na -1\na -1\na -9\nb -5\nb -5\nb -2\nb 0\nunjudged 0\nunjudged 0\nunjudged 0\nunjudged 0\n",
    );
    let [mqm, da] = two_judges(root.path());
    let testset = at("wmt").display().to_string();
    let gold = ["--testset", &testset, "-l", "en-de", "--json"];
    let (text, _) = compare(root.path(), &[&mqm, &da], &gold).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let task = |name: &str| {
        json["gold"].as_array().unwrap().iter().find(|task| task["statistic"] == name).unwrap().clone()
    };
    let pearson = task("seg:pearson@none");
    assert!((pearson["values"]["out/judge-a"]["Ok"]["value"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    let duel = &pearson["contest"]["comparisons"][0];
    assert_eq!((&duel["better"], &duel["worse"]), (&"out/judge-a".into(), &"out/judge-b".into()));
    assert!(duel["p"].as_f64().unwrap() < 0.5);
    let (text, _) = compare(root.path(), &[&mqm, &da], &gold[..4]).unwrap();
    assert!(text.contains("agreement with the raters"), "{text}");
    assert!(text.contains("on the translations that all judges scored"), "{text}");
    let told = compare(root.path(), &[&mqm, &da], &["--testset", &testset]).unwrap_err();
    assert!(told.contains("--language-pair <SRC-TGT>"), "{told}");
}

#[test]
fn systems_of_different_judges_are_not_compared() {
    let root = tempfile::tempdir().unwrap();
    let scores: &[Option<f64>] = &[Some(0.0), Some(-1.0)];
    let a = folder(root.path(), "a", MQM, &[("a", scores)]);
    let b = folder(root.path(), "b", MQM, &[("b", scores)]);
    let c = folder(root.path(), "c", DA, &[("c", scores)]);
    let (text, code) = compare(root.path(), &[&a, &b], &[]).unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(text.contains("differences from `a`"), "{text}");
    insta::assert_snapshot!(compare(root.path(), &[&a, &c], &[]).unwrap_err(), @"
    `out/a` and `out/c` come from different judges, so their systems cannot be compared:
      method: `gemba-mqm` and `gemba-da`
      weights: `gemba` and nothing
    hint: judge all systems with the same options, or give runs over the same translations to compare the judges
    ");
    let file = root.path().join("c.score");
    write(&file, "c 1\nc 2\n");
    let told = compare(root.path(), &[&a, &file], &[]).unwrap_err();
    assert!(told.contains("`out/c.score` does not say which judge its scores come from"), "{told}");
    let told = compare(root.path(), &[&a, &a], &[]).unwrap_err();
    assert_eq!(told, "`out/a` is given twice");
    let told = compare(root.path(), &[&a, &b], &["--testset", "x", "-l", "en-de"]).unwrap_err();
    assert!(told.contains("the inputs share no translation\nhint: `tribunal meta"), "{told}");
}

#[test]
fn systems_are_compared_on_what_all_of_them_have() {
    let root = tempfile::tempdir().unwrap();
    // On its own b is better: it lost its two hard segments.
    let run = folder(
        root.path(),
        "run",
        MQM,
        &[
            ("a", &[Some(0.0), Some(-1.0), Some(-4.0), Some(-5.0)]),
            ("b", &[Some(-1.0), Some(-2.0), None, None]),
        ],
    );
    let systems = |more: &[&str]| -> Value {
        let (text, code) = compare(root.path(), &[&run], &[&["--json"], more].concat()).unwrap();
        assert_eq!(code, ExitCode::from(1));
        serde_json::from_str(&text).unwrap()
    };
    let common = systems(&[]);
    assert_eq!((&common["baseline"], &common["units_left_out"]), (&"a".into(), &2.into()));
    assert_eq!(
        (&common["systems"][0]["mean"], &common["systems"][1]["mean"]),
        (&(-0.5).into(), &(-1.5).into())
    );
    assert_eq!((&common["systems"][1]["units"], &common["systems"][1]["missing"]), (&2.into(), &2.into()));
    let each = systems(&["--coverage", "each"]);
    assert_eq!((&each["baseline"], &each["systems"][1]["mean"]), (&"b".into(), &(-2.5).into()));
    let (text, _) = compare(root.path(), &[&run], &[]).unwrap();
    assert!(text.contains("2 segments left out, because some system has no score on them"), "{text}");
}

#[test]
fn empty_translations_are_counted_where_systems_are_compared() {
    let root = tempfile::tempdir().unwrap();
    let run = folder(root.path(), "run", MQM, &[("a", &[Some(0.0), Some(-4.0)]), ("b", &[Some(-1.0), None])]);
    let file = run.join("verdicts.jsonl");
    let verdicts = std::fs::read_to_string(&file).unwrap().replace("truncated", "empty");
    std::fs::write(&file, verdicts).unwrap();
    let (text, code) = compare(root.path(), &[&run], &[]).unwrap();
    let said = "b: 1 empty translation has no verdict; its segment is excluded for all systems and does not lower the mean of b";
    assert!(unwrapped(&text).contains(said), "{text}");
    assert_eq!(code, ExitCode::from(1));
    let (text, _) = compare(root.path(), &[&run], &["--coverage", "each"]).unwrap();
    let said = "b: 1 empty translation has no verdict; its segment is excluded from the mean of b and does not lower it";
    assert!(unwrapped(&text).contains(said), "{text}");
    let (json, _) = compare(root.path(), &[&run], &["--json"]).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["systems"][0]["empty"], &json["systems"][1]["empty"]), (&0.into(), &1.into()));
}

/// A text with its lines joined.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn systems_that_share_nothing_are_told_so_once() {
    let root = tempfile::tempdir().unwrap();
    let run = folder(root.path(), "run", MQM, &[("a", &[Some(0.0), None]), ("b", &[None, Some(-1.0)])]);
    let told = |more: &[&str]| compare(root.path(), &[&run], more).unwrap_err();
    let common = told(&[]);
    assert!(
        common.contains("hint: systems are compared on the same segments") && !common.contains("--coverage"),
        "{common}"
    );
    let each = told(&["--coverage", "each"]);
    assert!(each.contains("share no scored unit\nhint: systems are compared on the same segments"), "{each}");
    let scores: [(&str, &[Option<f64>]); 3] = [
        ("a", &[Some(0.0), Some(0.0), None]),
        ("b", &[Some(0.0), None, Some(-1.0)]),
        ("c", &[None, Some(-1.0), None]),
    ];
    let run = folder(root.path(), "three", MQM, &scores);
    let told = compare(root.path(), &[&run], &[]).unwrap_err();
    assert!(told.contains("hint: `--coverage each`"), "{told}");
    assert!(compare(root.path(), &[&run], &["--coverage", "each", "--baseline", "a"]).is_ok());
}

#[test]
fn which_p_to_read_and_where_there_is_none_to_read() {
    let root = tempfile::tempdir().unwrap();
    // The second system is worse wherever they differ.
    let told = |n: usize, more: &[&str]| {
        let first = vec![Some(0.0); 8];
        let second: Vec<Option<f64>> = (0..8).map(|i| Some(if i < n { -1.0 } else { 0.0 })).collect();
        let run = folder(root.path(), &format!("run-{n}"), MQM, &[("a", &first), ("b", &second)]);
        let (text, _) = compare(root.path(), &[&run], more).unwrap();
        unwrapped(&text)
    };
    let few = "b: too few segments to tell: it differs from the baseline on 5, and p randomization can be below 0.05 from 6 on";
    let five = told(5, &[]);
    assert!(five.contains(few) && five.contains("p randomization below 0.05"), "{five}");
    let six = told(6, &[]);
    assert!(!six.contains("too few"), "{six}");
    // What is said is so: 2 of 32 swaps are as far apart, 2 of 64.
    let p = |n: usize| -> f64 {
        let json: Value = serde_json::from_str(
            &compare(root.path(), &[&root.path().join(format!("run-{n}"))], &["--json"]).unwrap().0,
        )
        .unwrap();
        json["systems"][1]["against_baseline"]["randomization_p"].as_f64().unwrap()
    };
    assert!((p(5) - 2.0 / 32.0).abs() < 0.03 && p(5) > 0.05, "{}", p(5));
    assert!((p(6) - 2.0 / 64.0).abs() < 0.015 && p(6) < 0.05, "{}", p(6));
    assert!(
        told(8, &["--resamples", "10"])
            .contains("with 10 resamples no p can be below 0.05; take `--resamples 1000`")
    );
}

#[test]
fn judges_must_have_seen_the_same_texts() {
    let root = tempfile::tempdir().unwrap();
    let [mqm, da] = two_judges(root.path());
    let path = da.join("verdicts.jsonl");
    let text = std::fs::read_to_string(&path).unwrap().replace("a sagt 1", "a schweigt");
    write(&path, &text);
    let told = compare(root.path(), &[&mqm, &da], &[]).unwrap_err();
    assert!(told.contains("judged different texts as en-de segment 2 (id 1) of `a`"), "{told}");
}

#[test]
fn segments_and_documents_of_the_same_systems_share_nothing() {
    let root = tempfile::tempdir().unwrap();
    let [segments, documents] = two_judges(root.path());
    let path = documents.join("verdicts.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let documented = text.lines().enumerate().map(|(idx, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        (line["doc"], line["seg"], line["segs"]) = (json!(format!("d{idx}")), Value::Null, json!([idx]));
        format!("{line}\n")
    });
    let text: String = documented.collect();
    write(&path, &text);
    let told = compare(root.path(), &[&segments, &documents], &[]).unwrap_err();
    assert!(
        told.contains("`out/judge-a` judged segments and `out/judge-b` documents of the same systems"),
        "{told}"
    );
}

#[test]
fn reliability_orders_systems_on_common_units() {
    let root = tempfile::tempdir().unwrap();
    // Both runs lost b's second segment, on which a is bad; on the first a is better.
    let scores: [(&str, &[Option<f64>]); 2] = [("a", &[Some(-1.0), Some(-9.0)]), ("b", &[Some(-2.0), None])];
    let again: [(&str, &[Option<f64>]); 2] = [("a", &[Some(-1.0), Some(-2.0)]), ("b", &[Some(-2.0), None])];
    let one = folder(root.path(), "one", MQM, &scores);
    let two = folder(root.path(), "two", MQM, &again);
    let (text, _) = compare(root.path(), &[&one, &two], &["--reliability", "--json"]).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["pairs"][0]["systems"], 1.0);
}

/// A run folder as far as `compare --reliability` reads it.
fn run_folder(dir: &std::path::Path, name: &str, seed: u64, scores: &[(&str, usize, f64, &str)]) -> String {
    let folder = dir.join(name);
    std::fs::create_dir(&folder).unwrap();
    let run = serde_json::json!({
        "format": 1, "short_signature": "", "signature": { "method": "fsp", "seed": seed.to_string() },
        "command": [], "shard": "1/1", "input": { "segments": 4, "systems": 2, "sha256": "" }, "units": [],
    });
    std::fs::write(folder.join("run.json"), run.to_string()).unwrap();
    let line = |(system, seg, score, span): &(&str, usize, f64, &str)| {
        let start = "alte Bank".find(span).unwrap();
        let error = serde_json::json!({
            "span": span, "side": "target", "start": start, "end": start + span.len(), "category": "other", "severity": "major",
        });
        let status = if score.is_nan() { "refused" } else { "ok" };
        let score = if score.is_nan() { serde_json::Value::Null } else { serde_json::json!(score) };
        serde_json::json!({
            "system": system, "doc": "d", "seg": seg, "src_lang": "en", "tgt_lang": "de", "hypothesis": "alte Bank",
            "score": score, "errors": [error], "status": status,
        })
        .to_string()
    };
    let lines: Vec<String> = scores.iter().map(line).collect();
    std::fs::write(folder.join("verdicts.jsonl"), lines.join("\n")).unwrap();
    folder.display().to_string()
}

#[test]
fn a_judge_against_itself() {
    let dir = tempfile::tempdir().unwrap();
    let folders = [
        run_folder(
            dir.path(),
            "zero",
            0,
            &[("a", 0, -1.0, "Bank"), ("a", 1, -5.0, "alte"), ("b", 0, -2.0, "Bank"), ("b", 1, -9.0, "Bank")],
        ),
        run_folder(
            dir.path(),
            "one",
            1,
            &[
                ("a", 0, -1.0, "Bank"),
                ("a", 1, -4.0, "alte Bank"),
                ("b", 0, -2.0, "Bank"),
                ("b", 1, -7.0, "alte"),
            ],
        ),
        run_folder(
            dir.path(),
            "two",
            2,
            &[
                ("a", 0, -3.0, "Bank"),
                ("a", 1, -5.0, "alte"),
                ("b", 0, -1.0, "Bank"),
                ("b", 1, f64::NAN, "Bank"),
            ],
        ),
    ];
    let run = |inputs: &[String], more: &[&str]| {
        let argv = ["tribunal", "compare", "--reliability"]
            .into_iter()
            .chain(more.iter().copied())
            .map(str::to_owned);
        let cli = tribunal::cli::parse(argv.chain(inputs.iter().cloned())).unwrap();
        let mut out = Vec::new();
        let code = cli.run(tribunal::eval::models::load, &mut out);
        (code, String::from_utf8(out).unwrap().replace(&dir.path().display().to_string(), "DIR"))
    };
    let (code, text) = run(&folders, &[]);
    assert_eq!(format!("{:?}", code.unwrap()), format!("{:?}", std::process::ExitCode::from(1)));
    insta::assert_snapshot!(text, @"
    runs  units   same  difference  pearson  kendall  systems  spans F1
    ───────────────────────────────────────────────────────────────────
    (1)       4  0.500       0.750    0.999    1.000    1.000     0.649
    (2)       3  0.333       1.000    0.721    0.333    0.000     1.000
    (3)       3  0.000       1.333    0.655    0.333    0.000     0.828

    (1) DIR/zero and DIR/one: seed: `0` there, `1` now
    (2) DIR/zero and DIR/two: seed: `0` there, `2` now
    (3) DIR/one and DIR/two: seed: `1` there, `2` now

    Krippendorff's alpha over all runs: 0.871
    ");
    let (_, json) = run(&folders[..2], &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["pairs"][0]["units"].as_u64(), json["pairs"][0]["same"].as_f64()), (Some(4), Some(0.5)));
    assert!(run(&folders[..1], &[]).0.is_err());
}

#[test]
fn scores_of_systems_are_not_set_beside_scores_of_segments() {
    let root = tempfile::tempdir().unwrap();
    let files = ["m.seg.score", "m.sys.score"].map(|name| root.path().join(name));
    write(&files[0], "a\t1\na\t2\nb\t3\nb\t4\n");
    write(&files[1], "a\t1.5\nb\t3.5\n");
    let told = compare(root.path(), &[&files[0], &files[1]], &[]).unwrap_err();
    assert!(
        told.contains("has one score for each system, and") && told.contains("has 2: scores of"),
        "{told}"
    );
}
