//! `tribunal meta` and `compare` as a user calls them, on a small test set written here: tables, JSON, exit
//! codes, and the messages for bad input. The numbers can be checked by hand.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::fakes::program;

pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Every system's translations.
const OUTPUT: [&str; 4] = ["eins", "zwei Worte", "drei", "vier"];

/// Three systems and a reference, four segments in two documents; the third segment has no human score.
pub fn testset() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("documents/en-de.docs"), "news\td1\nnews\td1\nspeech\td2\nspeech\td2\n");
    write(&at("sources/en-de.txt"), "one\ntwo words\nthree\nfour\n");
    for system in ["A", "B", "C", "refA"] {
        write(&at(&format!("system-outputs/en-de/{system}.txt")), &(OUTPUT.join("\n") + "\n"));
    }
    write(&at("references/en-de.refA.txt"), "eins\nzwei Worte\ndrei\nvier\n");
    let columns = |rows: [(&str, [&str; 4]); 3]| -> String {
        rows.iter().flat_map(|(system, row)| row.iter().map(move |x| format!("{system}\t{x}\n"))).collect()
    };
    write(
        &at("human-scores/en-de.mqm.seg.score"),
        &columns([
            ("A", ["0", "-1", "None", "0"]),
            ("B", ["-5", "-1", "None", "-1"]),
            ("C", ["-6", "-10", "None", "-5"]),
        ]),
    );
    write(
        &at("metric-scores/en-de/Good-src.seg.score"),
        &columns([("A", ["9", "8", "1", "9"]), ("B", ["5", "8", "1", "8"]), ("C", ["4", "1", "9", "4"])]),
    );
    write(
        &at("metric-scores/en-de/Flat-src.seg.score"),
        &columns([("A", ["1", "1", "1", "1"]), ("B", ["1", "1", "1", "1"]), ("C", ["1", "1", "1", "1"])]),
    );
    dir
}

pub fn run(arguments: &[&str]) -> Result<(String, ExitCode), String> {
    program(arguments)
}

pub fn meta(dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let testset = dir.display().to_string();
    let all: Vec<&str> =
        ["meta", "--testset", &testset].into_iter().chain(arguments.iter().copied()).collect();
    run(&all).map(|(text, _)| text.replace(&testset, "DIR"))
}

#[test]
fn a_table_says_what_it_rests_on() {
    let dir = testset();
    let text =
        meta(dir.path(), &["-l", "en-de", "--stat", "sys:accuracy,sys:spa,seg:acc-eq,seg:pearson@none"]);
    insta::assert_snapshot!(text.unwrap(), @r"
    statistics · DIR · human scores `mqm`
    en-de: 3 systems in the order of their names, reference refA, 3 of 4 segments rated

              en-de
              sys              seg
    n         3 systems        3 segments
    metric    accuracy    spa  acc-eq@item  pearson@none
    ────────────────────────────────────────────────────
    Good         1.000  1.000        1.000         0.994
    Flat         0.000  0.167        0.111             -
    length       0.000  0.167        0.111         0.169
    random       0.000  0.424        0.222        -0.339
    constant     0.000  0.167        0.111             -

    en-de seg:pearson@none: no value for Flat: the metric's scores are constant
    en-de: system scores are means over all segments, rated or not, for Flat, Good
    acc-eq: each metric has one tie threshold, fitted on these same scores (`--also calibration` shows by how much that flatters it)
    ");
}

#[test]
fn json_holds_every_digit_and_every_reason() {
    let dir = testset();
    let text = meta(
        dir.path(),
        &["-l", "en-de", "--task", "mmad", "--also", "significance", "--resamples", "50", "--json"],
    );
    let json: Value = serde_json::from_str(&text.unwrap()).unwrap();
    let tasks = json["result"]["tasks"].as_array().unwrap();
    let accuracy = tasks.iter().find(|task| task["statistic"] == "sys:accuracy").unwrap();
    assert_eq!(accuracy["values"]["Good"]["Ok"]["value"], 1.0);
    assert_eq!(accuracy["contest"]["comparisons"][0]["better"], "Good");
    let pearson = tasks.iter().find(|task| task["statistic"] == "seg:pearson@none").unwrap();
    assert_eq!(pearson["values"]["Flat"]["Err"], "constant-metric");
    assert_eq!(json["result"]["incomplete"][0], "Flat");
    assert_eq!(json["directions"][0]["metrics"][1]["coverage"]["rated"], 9);
}

#[test]
fn the_parts_are_printed_when_asked_for() {
    let dir = testset();
    let plots = dir.path().join("plots");
    let arguments = [
        "-l",
        "en-de",
        "--stat",
        "seg:pearson@none",
        "--by",
        "domain",
        "--also",
        "calibration,error-free,distributions",
        "--plots",
        &plots.display().to_string(),
    ];
    let text = meta(dir.path(), &arguments).unwrap();
    for part in ["news (2)", "speech (1)", "held out", "MCC of no span", "HQ", "wrote"] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    assert!(plots.join("scatter_en-de_Good.svg").is_file());
}

#[test]
fn bad_input_is_told_plainly() {
    let dir = testset();
    let bad = dir.path().join("bad.score");
    let scores = format!("X={}", bad.display());
    let tell = |text: &str, arguments: &[&str]| {
        write(&bad, text);
        let all: Vec<&str> =
            ["-l", "en-de", "--scores", &scores].into_iter().chain(arguments.iter().copied()).collect();
        meta(dir.path(), &all).unwrap_err()
    };
    let whole = "A 1\nA 1\nA 1\nA 1\nB 1\nB 1\nB 1\nB 1\n";
    for (text, expected) in [
        ("A 1\nBig System 2\n", "bad.score:2: `Big System 2` has more than two fields"),
        ("A 1\nA 2\n", "has 2 scores for system `A`, but the test set has 4 segments"),
        ("A NaN\n", "the score `NaN` is not finite"),
        ("1\n2\n3\n4\n", "has one column and names no system"),
        (whole, "no scores for system `C`, which the human raters scored"),
        ("Z 1\nZ 1\nZ 1\nZ 1\n", "scores a system `Z` that `en-de` does not have"),
    ] {
        let told = tell(text, &[]);
        assert!(told.contains(expected), "`{told}` lacks `{expected}`");
    }
    for (arguments, expected) in [
        (vec!["-l", "xx-yy"], "no language pair `xx-yy`\nhint: it has en-de"),
        (
            vec!["-l", "en-de", "--gold", "esa"],
            "no human scores `esa` for `en-de`\nhint: `--gold` may be mqm",
        ),
        (
            vec!["-l", "en-de", "--metrics", "Nix"],
            "no metric `Nix` for `en-de`\nhint: there are Flat-src, Good-src",
        ),
        (
            vec!["-l", "en-de", "--metrics", "good"],
            "no metric `good` for `en-de`\nhint: did you mean `Good-src`?",
        ),
        (
            vec!["-l", "en-de", "--metrics", "chrF"],
            "no metric `chrF` for `en-de`\nhint: `--lexical chrf` computes it from the texts",
        ),
        (vec!["-l", "en-de", "--stat", "pearson"], "unknown statistic `pearson`"),
        (vec!["-l", "en-de", "--task", "wmt99"], "unknown task set `wmt99`"),
        (vec!["-l", "en-de", "--systems", "Q"], "no system `Q` in `en-de`"),
        (vec!["-l", "en-de", "--scores", "nix"], "`nix` is not NAME=PATTERN"),
        (
            vec!["-l", "en-de", "--lexical", "bleu:xx"],
            "unknown lexical metric `bleu:xx`\nhint: it can be bleu,",
        ),
        (vec!["-l", "en-de", "--lexical", "bleu", "--reference", "refZ"], "no reference `refZ` for `en-de`"),
    ] {
        let told = meta(dir.path(), &arguments).unwrap_err();
        assert!(told.contains(expected), "`{told}` lacks `{expected}`");
    }
}

/// The test set with ratings of two people, who agree, for the first two segments.
fn rated_testset() -> tempfile::TempDir {
    let dir = testset();
    let error = |severity: &str, score: u8| {
        format!(
            "{{\"start\":0,\"end\":4,\"category\":\"Accuracy/Omission\",\"severity\":\"{severity}\",\"score\":{score}}}"
        )
    };
    let (major, minor) = (error("Major", 5), error("Minor", 1));
    let rows = [
        ("A", [String::new(), minor.clone()]),
        ("B", [major.clone(), minor.clone()]),
        ("C", [format!("{major},{minor}"), major]),
    ];
    let lines = rows.iter().flat_map(|(system, errors)| {
        let rated = errors.iter().map(move |errors| format!("{system}\t{{\"errors\":[{errors}]}}\tr\n"));
        rated.chain(std::iter::repeat_n(format!("{system}\tNone\tr\n"), 2))
    });
    let text: String = lines.collect();
    for rater in ["r1", "r2"] {
        write(&dir.path().join(format!("human-scores/en-de.mqm.{rater}.seg.rating")), &text);
    }
    dir
}

pub fn found(dir: &Path, arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["-l", "en-de", "--json"].into_iter().chain(arguments.iter().copied()).collect();
    serde_json::from_str(&meta(dir, &all).unwrap()).unwrap()
}

#[test]
fn a_missing_score_counts_with_the_lowest_where_that_is_asked_for() {
    let dir = testset();
    let file = dir.path().join("x.score");
    // C's second score is missing: without it, only its first and last scores are compared with the raters'.
    write(&file, "A 9\nA 8\nA 1\nA 9\nB 5\nB 8\nB 1\nB 8\nC 4\nC None\nC 9\nC 4\n");
    let scores = format!("X={}", file.display());
    let stats = ["--metrics", "none", "--scores", &scores, "--stat", "sys:pearson,sys:spa,seg:acc23@item"];
    let value = |policy: &str, task: usize| -> f64 {
        let mut arguments = stats.to_vec();
        arguments.extend(["--coverage", policy]);
        let json = found(dir.path(), &arguments);
        json["result"]["tasks"][task]["values"]["X"]["Ok"]["value"].as_f64().unwrap()
    };
    // By segment 1 (all three), 2 (one pair against three) and 4: C is right everywhere once it has the
    // lowest.
    assert_eq!((value("each", 2), value("lowest", 2)), (1.0, 1.0));
    assert!((value("each", 0) - value("lowest", 0)).abs() > 1e-3, "the system's mean follows the policy");
    let mut arguments = vec!["-l", "en-de"];
    arguments.extend(stats);
    let told = meta(dir.path(), &arguments).unwrap();
    assert!(told.contains("left out because some system has no score there: X 1"), "{told}");
    arguments.extend(["--coverage", "lowest"]);
    let told = meta(dir.path(), &arguments).unwrap();
    assert!(told.contains("X: 1 rated translation without a score, given the metric's lowest"), "{told}");
}

#[test]
fn one_system_and_no_folder_are_told() {
    let dir = testset();
    let told = meta(dir.path(), &["-l", "en-de", "--systems", "A", "--stat", "sys:accuracy"]).unwrap();
    assert!(told.contains("en-de: there is only one system, and nothing to compare it with"), "{told}");
    assert!(told.contains("no value for any metric: no pair to compare"), "{told}");
    let none = dir.path().join("nothing").display().to_string();
    let told = run(&["meta", "--testset", &none, "-l", "en-de"]).unwrap_err();
    assert!(told.starts_with("there is no folder `"), "{told}");
    let other = dir.path().join("documents").display().to_string();
    let told = run(&["meta", "--testset", &other, "-l", "en-de"]).unwrap_err();
    assert!(told.contains("is not a test set: it has no `documents` folder"), "{told}");
}

#[test]
fn slices_by_document_and_by_length() {
    let dir = testset();
    let slices = |by: &str| -> Vec<(String, u64)> {
        let json = found(dir.path(), &["--stat", "seg:pearson@none", "--metrics", "Good", "--by", by]);
        let rows = json["more"]["slices"].as_array().unwrap();
        let named =
            |row: &Value| (row["slice"].as_str().unwrap().to_owned(), row["n_segments"].as_u64().unwrap());
        rows.iter().filter(|row| row["metric"] == "Good").map(named).collect()
    };
    assert_eq!(
        slices("length:1,2"),
        [("up to 1", 2), ("2 to 2", 1), ("over 2", 0)].map(|(name, n)| (name.to_owned(), n))
    );
    assert_eq!(slices("doc"), [("d1".to_owned(), 2), ("d2".to_owned(), 1)]);
    assert_eq!(slices("length"), [("short".to_owned(), 3), ("medium".to_owned(), 0), ("long".to_owned(), 0)]);
    let told = meta(dir.path(), &["-l", "en-de", "--by", "week"]).unwrap_err();
    assert!(
        told.contains("unknown slice `week`\nhint: it can be domain, doc, length or length:N,N"),
        "{told}"
    );
}

#[test]
fn calibration_shows_the_optimism() {
    let dir = testset();
    let json = found(dir.path(), &["--stat", "seg:acc-eq", "--metrics", "Good", "--also", "calibration"]);
    let fit = &json["more"]["calibration"][0]["found"]["Ok"];
    let number = |name: &str| fit[name].as_f64().unwrap();
    assert!((number("in_sample") - 1.0).abs() < 1e-12);
    assert!((number("in_sample") - number("held_out") - number("optimism")).abs() < 1e-12);
    assert!(number("chance") < 1.0 && number("all_ties") < number("in_sample"));
}

#[test]
fn raters_are_compared_with_each_other() {
    let dir = rated_testset();
    let json = found(dir.path(), &["--stat", "seg:pearson", "--also", "annotators"]);
    let pair = &json["more"]["annotators"][0]["found"];
    assert_eq!((&pair["first"], &pair["second"], &pair["shared"]), (&"r1".into(), &"r2".into(), &2.into()));
    assert!((pair["system_level"].as_f64().unwrap() - 1.0).abs() < 1e-12);
}

#[test]
fn errors_of_a_run_stand_beside_those_of_the_raters() {
    let dir = rated_testset();
    let verdict = |system: &str, seg: usize| {
        let text = OUTPUT[seg];
        let error = |severity: &str| json!({"span": text, "side": "target", "start": 0, "end": 4, "category": "fluency/grammar", "severity": severity});
        // The third segment has no human score: its error is not counted.
        let severity = [Some("major"), None, Some("critical"), None][seg].filter(|_| system == "A");
        let errors: Vec<Value> = severity.into_iter().map(error).collect();
        let line = json!({
            "system": system, "doc": if seg < 2 { "d1" } else { "d2" }, "seg": seg, "src_lang": "en", "tgt_lang": "de",
            "hypothesis": text, "score": -5.0, "status": "ok", "errors": errors,
        });
        line.to_string() + "\n"
    };
    let lines = ["A", "B", "C"].iter().flat_map(|system| (0..4).map(|seg| verdict(system, seg)));
    write(&dir.path().join("run/verdicts.jsonl"), &lines.collect::<String>());
    let run = format!("Ours={}", dir.path().join("run").display());
    let arguments = ["--stat", "seg:pearson", "--also", "distributions,spans", "--scores", &run];
    let json = found(dir.path(), &arguments);
    let (human, ours) = (&json["more"]["errors"][0]["found"], &json["more"]["errors"][1]["found"]);
    assert_eq!((&human["n"], &human["severities"]["major"]), (&12.into(), &0.5.into()));
    assert_eq!(
        (&ours["n"], &ours["severities"]["major"], &ours["types"]["fluency"]),
        (&1.into(), &1.0.into(), &1.0.into())
    );
    // Six of nine rated translations of the raters are no better than -1; Good's scores are no penalties.
    let bins = |index: usize| &json["more"]["distributions"][index]["found"]["bins"];
    assert_eq!(bins(0)["low"], 4.0 / 9.0);
    assert!(bins(2).is_null());
    assert_eq!(json["more"]["spans"][0]["found"]["n_segments"], 6);
    let all: Vec<&str> = ["-l", "en-de"].into_iter().chain(arguments).collect();
    let told = meta(dir.path(), &all).unwrap();
    assert!(told.contains("human   Ours"), "{told}");
}

/// HiMATE's Table 3: F1 of spans by the length of the source, up to 12 tokens, up to 27, and more.
#[test]
fn spans_by_length_of_the_source() {
    let dir = rated_testset();
    let long = ["word"; 28].join(" ");
    write(&dir.path().join("sources/en-de.txt"), &format!("one\n{long}\nthree\nfour\n"));
    // B's two segments have one error each, of the first four characters: in the first the judge finds it.
    let verdict = |seg: usize, span: &str, start: usize| {
        let (text, end) = (OUTPUT[seg], start + span.len());
        format!(
            "{{\"system\":\"B\",\"doc\":\"d1\",\"seg\":{seg},\"src_lang\":\"en\",\"tgt_lang\":\"de\",\
             \"hypothesis\":\"{text}\",\"score\":-5,\"status\":\"ok\",\"errors\":[{{\"span\":\"{span}\",\"side\":\"target\",\
             \"start\":{start},\"end\":{end},\"category\":\"fluency/grammar\",\"severity\":\"major\"}}]}}\n"
        )
    };
    let verdicts = [verdict(0, "eins", 0), verdict(1, "Worte", 5)].concat();
    write(&dir.path().join("run/verdicts.jsonl"), &verdicts);
    let run = format!("Ours={}", dir.path().join("run").display());
    let arguments = [
        "--stat",
        "seg:pearson@none",
        "--by",
        "length",
        "--systems",
        "B",
        "--scores",
        &run,
        "--also",
        "spans",
    ];
    let json = found(dir.path(), &arguments);
    let slices = json["more"]["span_slices"].as_array().unwrap();
    let shown: Vec<_> = slices
        .iter()
        .filter(|slice| slice["name"] == slices[0]["name"])
        .map(|slice| {
            let found = &slice["found"];
            let f1 = |score: &Value| score["f1"].as_f64().unwrap();
            let half = found["himate"].as_array().unwrap().iter().find(|pair| pair[0] == 0.5).unwrap();
            let n = found["n_segments"].as_u64().unwrap();
            (slice["slice"].as_str().unwrap(), n, f1(&found["characters"]["target"]), f1(&half[1]))
        })
        .collect();
    assert_eq!(shown, [("short", 1, 1.0, 1.0), ("long", 1, 0.0, 0.0)], "nothing is of medium length");
    assert_eq!(json["more"]["spans"][0]["found"]["n_segments"], 2);
    let all: Vec<&str> = ["-l", "en-de"].into_iter().chain(arguments).collect();
    let told = meta(dir.path(), &all).unwrap();
    assert!(told.contains("error spans by slice") && told.contains("token runs (HiMATE), 0.5"), "{told}");
    assert!(found(dir.path(), &arguments[..arguments.len() - 2])["more"]["span_slices"].is_null());
}

#[test]
fn lexical_baselines_and_williams() {
    let dir = testset();
    write(&dir.path().join("system-outputs/en-de/B.txt"), "eins\nzwei Dinge\ndrei\nvier\n");
    let arguments =
        ["--metrics", "Good", "--lexical", "bleu,chrf", "--stat", "seg:pearson", "--also", "williams"];
    let json = found(dir.path(), &arguments);
    let metrics = json["directions"][0]["metrics"].as_array().unwrap();
    let names: Vec<&str> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Good", "bleu:13a", "chrf"]);
    assert_eq!(metrics[1]["system_scores"], "corpus");
    let pairs = json["more"]["williams"].as_array().unwrap();
    let first = pairs.iter().find(|pair| pair["found"]["level"] == "seg").unwrap();
    assert_eq!((&first["found"]["better"], &first["found"]["n"]), (&"Good".into(), &9.into()));
    assert!(first["found"]["p"].as_f64().unwrap() < 0.05, "{first}");
}

#[test]
fn missing_verdicts_are_counted_and_shift_nothing() {
    let dir = testset();
    let verdicts = dir.path().join("run/verdicts.jsonl");
    let line = |system: &str, seg: usize, score: Option<i32>| {
        let status = if score.is_some() { "ok" } else { "refused" };
        format!(
            "{{\"system\":\"{system}\",\"doc\":\"d1\",\"seg\":{seg},\"src_lang\":\"en\",\"tgt_lang\":\"de\",\
             \"source\":\"s\",\"hypothesis\":\"{}\",\"score\":{},\"errors\":[],\"status\":\"{status}\"}}\n",
            OUTPUT[seg],
            score.map_or_else(|| "null".to_owned(), |score| score.to_string())
        )
    };
    let mut text = String::new();
    for (system, scores) in [("A", [9, 8, 1, 9]), ("B", [5, 8, 1, 8]), ("C", [4, 1, 9, 4])] {
        for (seg, score) in scores.into_iter().enumerate() {
            text += &line(system, seg, (system != "C" || seg != 1).then_some(score));
        }
    }
    write(&verdicts, &text);
    let scores = format!("Ours={}", verdicts.parent().unwrap().display());
    let told =
        meta(dir.path(), &["-l", "en-de", "--metrics", "none", "--scores", &scores, "--stat", "seg:acc-eq"]);
    let told = told.unwrap();
    let left_out = "en-de: 1 of 9 rated translations left out for all metrics";
    assert!(told.contains(left_out) && told.contains(": Ours lacks 1 ("), "{told}");
    let (told, code) = run(&["compare", &verdicts.parent().unwrap().display().to_string()]).unwrap();
    assert_eq!(code, ExitCode::from(1), "a verdict is missing");
    assert!(told.lines().nth(2).unwrap().starts_with('A'), "{told}");
    // A run over some lines of the test set alone has other numbers.
    let later = text.replace(OUTPUT[1], OUTPUT[2]);
    write(&verdicts, &later);
    let refused = meta(dir.path(), &["-l", "en-de", "--metrics", "none", "--scores", &scores]).unwrap_err();
    assert!(
        refused.contains(
            "the verdict on segment 2 (id 1) of `A` is about another translation than the test set has"
        ),
        "{refused}"
    );
}

#[test]
fn compare_reads_columns_and_gives_json() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        write(&dir.path().join(name), text);
        dir.path().join(name).display().to_string()
    };
    let (one, two) = (file("one.txt", "1\n2\n3\n4\n"), file("two.txt", "0\n1\n2\n3\n"));
    let (text, code) = run(&["compare", &one, &two, "--json"]).unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["baseline"], "one");
    let test = &json["systems"][1]["against_baseline"];
    assert_eq!((&test["difference"], &test["n_segments"]), (&Value::from(-1.0), &Value::from(4)));
    assert!(run(&["compare", &one]).unwrap_err().contains("only one system"));
}

#[test]
fn the_latent_weight_of_major_errors() {
    let dir = testset();
    let error = |severity: &str, seg: usize| serde_json::json!({"span": &OUTPUT[seg][..1], "side": "target", "start": 0, "end": 1, "category": "other", "severity": severity});
    let mut lines = String::new();
    // Majors and minors of the first two segments.
    for (system, counts) in [("A", [(0, 0), (0, 1)]), ("B", [(0, 3), (0, 1)]), ("C", [(1, 0), (2, 0)])] {
        for (seg, (major, minor)) in counts.into_iter().enumerate() {
            let errors: Vec<_> =
                (0..major + minor).map(|i| error(if i < major { "major" } else { "minor" }, seg)).collect();
            let line = serde_json::json!({
                "system": system, "doc": "d1", "seg": seg, "src_lang": "en", "tgt_lang": "de",
                "hypothesis": OUTPUT[seg], "score": 0.0, "errors": errors, "status": "ok",
            });
            lines += &(line.to_string() + "\n");
        }
    }
    write(&dir.path().join("run/verdicts.jsonl"), &lines);
    let ea = format!("--scores=ea={}", dir.path().join("run").display());
    let arguments =
        ["-l", "en-de", "--metrics", "Good", "--stat", "seg:acc-eq@item", &ea, "--also=latent-weight"];
    let json = meta(dir.path(), &[&arguments[..], &["--json"]].concat()).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let found = &json["more"]["latent"][0]["found"]["Ok"];
    // B's three minor errors against C's one major: gold -5 against -6, so a major must cost more than 3.
    assert_eq!(
        (&found["w_major"], &found["value"], &found["at_five"]),
        (&3.5.into(), &1.0.into(), &1.0.into())
    );
    let value_at = |w: f64| {
        found["curve"].as_array().unwrap().iter().find(|p| p[0] == w).map(|p| p[1].as_f64().unwrap()).unwrap()
    };
    assert!(value_at(3.0) < 1.0 && value_at(1.0) < value_at(3.5));
    let text = meta(dir.path(), &arguments).unwrap();
    assert!(text.contains("what a major error should cost"), "{text}");
    let none = meta(dir.path(), &[&arguments[..6], &["--also", "spans"]].concat()).unwrap_err();
    assert!(none.contains("hint: `--scores NAME=DIR` with a run folder"), "{none}");
}
