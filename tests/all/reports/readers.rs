//! Texts, tables and score files as other programs write them.

use serde_json::Value;
use tribunal::{
    meta::scores::{self, ScoreFile},
    segment::{
        lang::parse_pair,
        read::{self, Input, Parallel},
    },
};
use tribunal_testing::report;

use crate::meta_cli::run;

/// Pearson over the scores of all systems: those of the raters, and of a metric without some segments.
fn pearson(truth: &Value, without: &[usize]) -> f64 {
    let column = |side: &str| -> Vec<f64> {
        let systems = truth[side].as_object().unwrap().values();
        let kept = systems.flat_map(|scores| {
            let scores = scores.as_array().unwrap().iter().enumerate();
            scores.filter(|(seg, _)| !without.contains(seg)).map(|(_, score)| score.as_f64().unwrap())
        });
        kept.collect()
    };
    let (gold, metric) = (column("g"), column("m"));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (x, y) = (mean(&gold), mean(&metric));
    let sum = |a: &[f64], a_mean: f64, b: &[f64], b_mean: f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - a_mean) * (b - b_mean)).sum()
    };
    sum(&gold, x, &metric, y) / (sum(&gold, x, &gold, x) * sum(&metric, y, &metric, y)).sqrt()
}

/// Pearson of a score file on the reports' test set, from the program's output.
fn measured(scores: &str) -> Result<f64, String> {
    let testset = report("scores/testset").unwrap().display().to_string();
    let scores = format!("x={scores}");
    let argv = ["meta", "--testset", &testset, "-l", "en-de", "--scores", &scores, "--metrics", "none"];
    let (printed, _) = run(&[&argv[..], &["--stat", "seg:pearson", "--json"]].concat())?;
    let printed: Value = serde_json::from_str(&printed).unwrap();
    Ok(value_of(&printed, "value").unwrap_or_else(|| panic!("{printed:#}")))
}

/// The first number under a key, wherever it stands.
fn value_of(json: &Value, key: &str) -> Option<f64> {
    match json {
        Value::Object(fields) => fields
            .get(key)
            .and_then(Value::as_f64)
            .or_else(|| fields.values().find_map(|value| value_of(value, key))),
        Value::Array(values) => values.iter().find_map(|value| value_of(value, key)),
        _ => None,
    }
}

fn truth() -> Option<Value> {
    let text = std::fs::read_to_string(report("scores/truth.json")?).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn a_mark_before_the_first_system_is_no_part_of_its_name() {
    let (Some(file), Some(truth)) = (report("scores/bom.score"), truth()) else { return };
    let found = measured(&file.display().to_string()).unwrap();
    assert!((found - pearson(&truth, &[])).abs() < 1e-12, "{found}");
    let ScoreFile::Named(systems) = scores::read(&file, None).unwrap() else { panic!("names systems") };
    assert_eq!(systems.keys().collect::<Vec<_>>(), ["A", "B", "C"]);
}

#[test]
fn segments_are_counted_from_0_or_from_1_as_the_file_does() {
    let (Some(file), Some(truth)) = (report("scores/one-lastnull.jsonl"), truth()) else { return };
    let error = measured(&file.display().to_string()).unwrap_err();
    assert!(
        error.contains("one-lastnull.jsonl:1: the segment numbers of the file, from 1 to 11, can count from 0 or from 1: neither 0 nor \
                        12, the number of segments, occurs"),
        "{error}"
    );
    let without_last = std::fs::read_to_string(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.jsonl");
    let check = |text: String, expected: f64| {
        std::fs::write(&path, text).unwrap();
        let found = measured(&path.display().to_string()).unwrap();
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    };
    check(without_last.clone() + "{\"system\":\"A\",\"seg_id\":12,\"score\":null}\n", pearson(&truth, &[11]));
    // The same scores counted from 0, as floats.
    let from_0 = without_last.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row["seg_id"] = Value::from(row["seg_id"].as_f64().unwrap() - 1.0);
        format!("{row}\n")
    });
    check(from_0.collect(), pearson(&truth, &[11]));
}

/// The message for a source and a translation that are one file.
fn refused(name: &str) -> Option<String> {
    let path = report(name)?;
    let files = Parallel {
        source: path.clone(),
        hypotheses: vec![path],
        reference: None,
        docs: None,
        pair: parse_pair("en-de").unwrap(),
    };
    Some(read::parallel(&files).unwrap_err().to_string())
}

#[test]
fn markup_is_not_judged() {
    for (name, format) in
        [("markup/src.sgm", "SGM"), ("markup/hyp.sgm", "SGM"), ("markup/wmt.xml", "XML in WMT's format")]
    {
        let Some(error) = refused(name) else { return };
        assert!(
            error.contains(&format!("is {format}, not text with a segment on each line\nhint: write")),
            "{error}"
        );
    }
}

fn texts(input: &Input) -> Vec<(&str, &str, &str)> {
    let texts = input.segments.iter();
    texts.map(|s| (s.tgt_lang.code(), s.source.as_str(), s.hypothesis.as_str())).collect()
}

#[test]
fn quotes_of_a_spreadsheet_are_no_text() {
    let Some(file) = report("markup/quote.tsv") else { return };
    let input = read::table(&file, Some(&parse_pair("en-de").unwrap())).unwrap();
    assert_eq!(texts(&input), [("de", "Good \"day\".", "Guten Tag.")]);
}

#[test]
fn rows_of_other_pairs_are_left_out() {
    let Some(file) = report("wmt25/humeval.jsonl") else { return };
    let input = read::table(&file, Some(&parse_pair("en-cs_CZ").unwrap())).unwrap();
    let question = "Good day, how are you?";
    assert_eq!(
        texts(&input),
        [("cs_CZ", question, "Dobrý den, jak se máte?"), ("cs_CZ", question, "Dobrý den, jak se vede?")]
    );
    let note = "2 rows are of other language pairs than `en-cs_CZ` and left out (en-de_DE 1, en-uk_UA 1)";
    assert!(input.notes.iter().any(|said| said.ends_with(note)), "{:?}", input.notes);
    // Without a pair each row is in its own; with a pair that no row has there is nothing to judge.
    assert_eq!(read::table(&file, None).unwrap().segments.len(), 5);
    let error = read::table(&file, Some(&parse_pair("en-fr").unwrap())).unwrap_err().to_string();
    assert!(
        error.contains("has no row of `en-fr`\nhint: its rows are of en-cs_CZ 1, en-de_DE 1, en-uk_UA 1"),
        "{error}"
    );
}

/// A MiB in each line, as often as it takes to come to more than a GiB, compressed with zstd.
fn bomb() -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut line = vec![b' '; 1 << 20];
    line[(1 << 20) - 1] = b'\n';
    for _ in 0..1100 {
        std::io::Write::write_all(&mut encoder, &line).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn what_a_small_file_unpacks_to_has_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = bomb();
    assert!(bytes.len() < 200_000, "{}", bytes.len());
    std::fs::write(dir.path().join("calls.jsonl.zst"), &bytes).unwrap();
    let error = tribunal::run::calls::size(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("calls.jsonl.zst`") && error.contains("it unpacks to more than 1.00 GiB"),
        "{error}"
    );
    let ratings = dir.path().join("ratings.jsonl.zst");
    std::fs::write(&ratings, &bytes).unwrap();
    let error = tribunal::tune::lines::file(&ratings, &[]).unwrap_err().to_string();
    assert!(error.contains("ratings.jsonl.zst`: it unpacks to more than 1.00 GiB"), "{error}");
}

#[test]
fn a_line_without_an_end_does_not_fill_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let zeros = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 80 << 20), 1).unwrap();
    std::fs::write(dir.path().join("calls.jsonl.zst"), zeros).unwrap();
    let error = tribunal::run::calls::size(dir.path()).unwrap_err().to_string();
    assert!(error.contains("line 1 has more than 64 MiB"), "{error}");
}
