//! MENT and its authors' workspace: read alike, RATE's Meta on all of it and on each domain, its annotators.
//! A small set of the same layout is written here; the published one is read from `ment` in `TRIBUNAL_DATA`,
//! where it is there.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tribunal::segment::{
    lang,
    read::{TestSet, ment::Ment, testset},
};

use crate::{
    fakes::published_data,
    meta_cli::{meta, write},
};

/// Annotators with their ratings of three systems' translations, source by source.
type Rated = [(&'static str, [[u32; 2]; 3]); 4];

/// Domain and ratings of the sources of both pairs; the annotators are A and B, or B and C.
const RATED: Rated = [
    ("SNS", [[0, 1], [2, 2], [4, 3]]),
    ("Poetry", [[1, 0], [3, 3], [2, 4]]),
    ("SNS", [[0, 0], [1, 2], [4, 4]]),
    ("Poetry", [[2, 1], [1, 2], [3, 4]]),
];

const PAIRS: [[&str; 2]; 2] = [["zh", "en"], ["en", "zh"]];

fn average(ratings: [u32; 2]) -> f64 {
    f64::from(ratings[0] + ratings[1]) / 2.0
}

/// RATE's score of a translation in the tests.
fn scored(seg: usize, system: usize) -> usize {
    system + (seg + system) % 2
}

/// `MENT.jsonl`; both pairs take turns.
fn lines(dir: &Path) {
    let mut text = String::new();
    for (seg, (domain, ratings)) in RATED.iter().enumerate() {
        for [src, tgt] in PAIRS {
            let annotators = if seg < 2 { ["A", "B"] } else { ["B", "C"] };
            let mut row = json!({
                "qid": format!("{src}/{seg}"), "src_lang": src, "trans_lang": tgt, "domain": domain,
                "src": format!(" source {seg}\n"), "ref": format!("reference {seg}"), "annotators": annotators,
                "trans_note": "no system",
            });
            for (system, ratings) in ratings.iter().enumerate() {
                row[format!("trans_{system}")] = format!("{tgt} {seg}\nof {system}").into();
                row[format!("avg_trans_{system}_score")] = average(*ratings).into();
                row[format!("trans_{system}_ratings")] = json!(ratings);
                row[format!("trans_{system}_lengths")] = json!([11, 12]);
            }
            text += &row.to_string();
            text.push('\n');
        }
    }
    write(&dir.join("MENT.jsonl"), &text);
}

/// The workspace that the authors' script writes of it.
fn workspace(dir: &Path) {
    for [src, tgt] in PAIRS {
        let lp = format!("{src}-{tgt}");
        let of_all =
            |line: &dyn Fn(usize) -> Value| (0..4).map(|seg| format!("{}\n", line(seg))).collect::<String>();
        write(
            &dir.join(format!("sources/{lp}.txt")),
            &of_all(&|seg| json!({"src": format!("source {seg}")})),
        );
        write(
            &dir.join(format!("references/{lp}.txt")),
            &of_all(&|seg| json!({"ref": format!("reference {seg}")})),
        );
        for system in 0..3 {
            let path = dir.join(format!("system-outputs/{lp}/system_{system}"));
            write(&path, &of_all(&|seg| json!({"trans": format!("{tgt} {seg}\nof {system}")})));
        }
        let columns = |score: &dyn Fn(usize, usize) -> f64| {
            let cells = (0..3).flat_map(|system| (0..4).map(move |seg| (system, seg)));
            cells
                .map(|(system, seg)| format!("system_{system}\t{:?}\n", score(seg, system)))
                .collect::<String>()
        };
        write(
            &dir.join(format!("human-scores/{lp}.seg.score")),
            &columns(&|seg, system| average(RATED[seg].1[system])),
        );
        write(
            &dir.join(format!("metric-scores/{lp}/RATE-src.seg.score")),
            &columns(&|seg, system| scored(seg, system) as f64),
        );
    }
}

fn found(dir: &Path, more: &[&str]) -> Value {
    let arguments = ["-l", "zh-en,en-zh", "--gold", "ment", "--json"];
    serde_json::from_str(&meta(dir, &[&arguments[..], more].concat()).unwrap()).unwrap()
}

/// The values of a metric that are averaged, pair by pair.
fn values(json: &Value, metric: &str) -> Vec<f64> {
    let tasks = json["result"]["tasks"].as_array().unwrap();
    let counted = tasks.iter().filter(|task| task["counted"] == true);
    let values = counted.map(|task| task["values"][metric]["Ok"]["value"].as_f64().unwrap());
    values.collect()
}

#[test]
fn lines_and_workspace_are_one_test_set() {
    let dir = tempfile::tempdir().unwrap();
    let of_authors = dir.path().join("workspace");
    lines(dir.path());
    workspace(&of_authors);
    let task = ["--task", "rate"];
    let (of_lines, of_workspace) = (found(dir.path(), &task), found(&of_authors, &task));
    assert_eq!(values(&of_lines, "RATE"), values(&of_workspace, "RATE"));
    assert_eq!(values(&of_lines, "RATE").len(), 12);
    // Means of 0.625, 2, 3.5 and of 0.5, 1.5, 2.5: the same order, and nearly on a line.
    assert!((values(&of_lines, "RATE")[0] - 1.0).abs() < 1e-12);
    assert!((values(&of_lines, "RATE")[1] - 0.999_685).abs() < 1e-6, "{}", values(&of_lines, "RATE")[1]);

    for folder in [dir.path(), &of_authors] {
        let (src, tgt) = lang::parse_pair("en-zh").unwrap();
        let (systems, reference) = (Some(vec!["system_2".to_owned()]), Some("refA".to_owned()));
        let choice = TestSet { dir: folder.into(), pair: ("en-zh".into(), src, tgt), systems, reference };
        let segments = testset(&choice).unwrap().segments;
        assert_eq!(segments.len(), 4);
        let last = &segments[3];
        assert_eq!((last.source.as_str(), last.hypothesis.as_str()), ("source 3", "zh 3\nof 2"));
        assert_eq!((last.reference.as_deref(), last.seg), (Some("reference 3"), 3));
    }
    let (src, tgt) = lang::parse_pair("en-de").unwrap();
    let choice =
        TestSet { dir: dir.path().into(), pair: ("en-de".into(), src, tgt), systems: None, reference: None };
    let told = testset(&choice).unwrap_err().to_string();
    assert!(
        told.ends_with("has no row of `en-de`\nhint: its rows are of en-zh, zh-en; choose one of them"),
        "{told}"
    );
    let told = meta(dir.path(), &["-l", "zh-en"]).unwrap_err();
    assert!(told.contains("no human scores `mqm` for `zh-en`\nhint: `--gold` may be ment"), "{told}");
    let told = meta(dir.path(), &["-l", "de-en", "--gold", "ment"]).unwrap_err();
    assert!(told.contains("has no language pair `de-en`\nhint: it has en-zh, zh-en"), "{told}");
}

#[test]
fn the_average_of_a_task_set_by_domain() {
    let dir = tempfile::tempdir().unwrap();
    lines(dir.path());
    workspace(&dir.path().join("workspace"));
    let json = found(dir.path(), &["--task", "rate", "--by", "domain"]);
    let rows = json["more"]["slices"].as_array().unwrap();
    for domain in ["SNS", "Poetry"] {
        let of_rate = || rows.iter().filter(|row| row["slice"] == domain && row["metric"] == "RATE");
        let value = |row: &Value| row["value"]["Ok"]["value"].as_f64().unwrap();
        let is_beside =
            |row: &&Value| ["seg:acc-eq@item", "sys:spa"].contains(&row["statistic"].as_str().unwrap());
        let parts: Vec<f64> =
            of_rate().filter(|row| row["lp"] != "zh-en+en-zh" && !is_beside(row)).map(value).collect();
        let average = of_rate().find(|row| row["statistic"] == "average (rate)").unwrap();
        assert_eq!((parts.len(), &average["n_segments"]), (12, &json!(4)));
        assert!((value(average) - parts.iter().sum::<f64>() / 12.0).abs() < 1e-12, "{domain}");
    }
    let text = meta(dir.path(), &["-l", "zh-en,en-zh", "--gold", "ment", "--task", "rate", "--by", "domain"])
        .unwrap();
    assert!(text.contains("zh-en+en-zh average (rate) by slice (rated segments)"), "{text}");
    assert!(!found(dir.path(), &["--by", "domain"])["more"].to_string().contains("average ("));
}

#[test]
fn annotators_with_numbers_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    lines(dir.path());
    workspace(&dir.path().join("workspace"));
    let json = found(dir.path(), &["--task", "rate", "--also", "annotators"]);
    let pairs = json["more"]["annotators"].as_array().unwrap();
    let of = |lp: &str| -> Vec<(String, u64)> {
        let pairs = pairs.iter().filter(|pair| pair["lp"] == lp).map(|pair| &pair["found"]);
        let name =
            |pair: &Value| format!("{}{}", pair["first"].as_str().unwrap(), pair["second"].as_str().unwrap());
        pairs.map(|pair| (name(pair), pair["shared"].as_u64().unwrap())).collect()
    };
    assert_eq!(of("zh-en"), [("AB".to_owned(), 2), ("BC".to_owned(), 2)]);
    // A's sums are 1, 5, 6 and B's 1, 5, 7.
    let r = pairs[0]["found"]["system_level"].as_f64().unwrap();
    assert!((r - 0.989_743).abs() < 1e-6, "{r}");
    assert_eq!(json["more"]["several_annotators"][0]["found"]["members"].as_array().unwrap().len(), 3);

    // The same in the files of mt-metrics-eval.
    let dir = crate::meta_cli::testset();
    for (rater, scores) in
        [("r1", "0 -1 -2 0 -5 -1 -1 -2 -6 -9 -3 -5"), ("r2", "0 -1 None 0 -5 -2 -1 -2 -7 -9 -3 -5")]
    {
        let names = ["A", "B", "C"].iter().flat_map(|system| std::iter::repeat_n(system, 4));
        let text = names
            .zip(scores.split(' '))
            .map(|(system, score)| format!("{system}\t{score}\n"))
            .collect::<String>();
        write(&dir.path().join(format!("human-scores/en-de.mqm.{rater}.seg.score")), &text);
    }
    let text = meta(dir.path(), &["-l", "en-de", "--also", "annotators", "--stat", "seg:pearson", "--json"]);
    let json: Value = serde_json::from_str(&text.unwrap()).unwrap();
    let pair = &json["more"]["annotators"][0]["found"];
    assert_eq!((&pair["first"], &pair["second"], &pair["shared"]), (&"r1".into(), &"r2".into(), &3.into()));
}

/// The workspace that RATE's authors published.
fn published() -> Option<PathBuf> {
    published_data().map(|data| data.join("ment")).filter(|dir| dir.join("system-outputs").is_dir())
}

fn check_printed(found: &[f64], printed: &[f64]) {
    assert_eq!(found.len(), printed.len());
    for (found, printed) in found.iter().zip(printed) {
        assert!((100.0 * found - printed).abs() < 0.0501, "{found} is not {printed}");
    }
}

/// RATE's own row: zh-en, then en-zh.
#[test]
fn table_3_of_rate_from_its_published_scores() {
    let Some(dir) = published() else { return };
    let json = found(&dir, &["--task", "rate"]);
    let rate = [97.8, 99.3, 99.7, 61.9, 74.5, 66.4, 88.9, 97.7, 92.7, 59.5, 65.3, 60.1];
    check_printed(&values(&json, "RATE"), &rate);
}

/// The workspace names no domains, but its sources stand by domain, and SNS, the last one, has the number in
/// Table 2. Unlike Table 3, Table 8 has acc-t by item. (Tables 9 to 11 are of the other domains and the first
/// source behind each.)
#[test]
fn table_8_of_rate_from_its_published_scores() {
    let Some(dir) = published() else { return };
    let by_domain = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for (lp, before_sns) in [("zh-en", 288), ("en-zh", 284)] {
        let ment = Ment::open(&dir, lp).unwrap().unwrap();
        let (src, tgt) = lp.split_once('-').unwrap();
        let rated = std::fs::read_to_string(dir.join(format!("human-scores/{lp}.seg.score"))).unwrap();
        let rated: Vec<f64> =
            rated.lines().map(|line| line.split('\t').nth(1).unwrap().parse().unwrap()).collect();
        for (seg, source) in ment.sources.iter().enumerate() {
            let domain = if seg < before_sns { "others" } else { "SNS" };
            let mut row = json!({ "src": source, "src_lang": src, "trans_lang": tgt, "domain": domain });
            for system in 0..10 {
                row[format!("trans_{system}")] =
                    ment.outputs[&format!("system_{system}")][seg].clone().into();
                row[format!("avg_trans_{system}_score")] = rated[system * ment.sources.len() + seg].into();
            }
            text += &row.to_string();
            text.push('\n');
        }
    }
    write(&by_domain.path().join("MENT.jsonl"), &text);
    let scores = format!("RATE={}/metric-scores/{{lp}}/RATE-src.seg.score", dir.display());
    let json = found(by_domain.path(), &["--task", "rate", "--by", "domain", "--scores", &scores]);
    let rows = json["more"]["slices"].as_array().unwrap().iter();
    let sns: Vec<&Value> = rows.filter(|row| row["slice"] == "SNS" && row["metric"] == "RATE").collect();
    let value = |lp: &str, statistic: &str| {
        let row = sns.iter().find(|row| row["lp"] == lp && row["statistic"] == statistic);
        row.unwrap()["value"]["Ok"]["value"].as_f64().unwrap()
    };
    let statistics = [
        "sys:accuracy",
        "sys:pearson",
        "sys:spearman",
        "seg:acc-eq@item",
        "seg:pearson@none",
        "seg:spearman@none",
    ];
    let printed = [[93.3, 99.2, 96.4, 63.3, 66.0, 66.0], [95.6, 99.1, 97.6, 61.3, 66.7, 63.2]];
    let both = ["zh-en", "en-zh"].map(|lp| statistics.map(|statistic| value(lp, statistic)));
    check_printed(&both.concat(), &printed.concat());
    // The paper prints 80.7, which is not the mean of its own twelve values.
    check_printed(&[both.concat().iter().sum::<f64>() / 12.0], &[80.64]);
}
