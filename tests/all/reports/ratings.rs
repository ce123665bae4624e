//! Ratings of people, and forms that annotation tools write.

use std::path::Path;

use serde_json::{Value, json};
use tribunal::{eval, mqm::raters, segment::lang::parse_pair};
use tribunal_testing::report as input;

use crate::fakes::program;

/// Output of a command, or its error.
fn tribunal(args: &[&str]) -> Result<String, String> {
    program(args).map(|(text, _)| text)
}

/// An export of a file, as one text.
fn exported(from: &Path, format: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let (from, to) = (from.display().to_string(), out.display().to_string());
    tribunal(&["export", &from, "--as", format, "-l", "en-de", "--out", &to]).unwrap();
    std::fs::read_to_string(out).unwrap()
}

/// The span between half-open offsets in code points.
fn span(text: &str, start: u64, end: u64) -> String {
    let [start, end] = [start, end].map(|at| usize::try_from(at).unwrap());
    assert!(start <= end && end <= text.chars().count(), "{start}..{end} of {text:?}");
    text.chars().skip(start).take(end - start).collect()
}

/// Each row's translation, and the marked spans in it.
type Rows = Vec<(String, Vec<String>)>;

fn of_csv(text: &str) -> Rows {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|there| there == name).unwrap();
    let [hypothesis, errors] = ["hypothesis", "errors"].map(column);
    let row = |row: csv::StringRecord| {
        let text = row[hypothesis].to_owned();
        let errors: Vec<Value> = serde_json::from_str(&row[errors]).unwrap();
        let marked = errors.iter().filter_map(|e| Some((e, e["start"].as_u64()?, e["end"].as_u64()?)));
        let spans = marked.map(|(error, start, end)| {
            let found = span(&text, start, end);
            assert_eq!(error["span"], found.as_str());
            found
        });
        let spans = spans.collect();
        (text, spans)
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

fn of_ratings(text: &str) -> Rows {
    let row = |line: &str| {
        let rating: Value = serde_json::from_str(line).unwrap();
        let text = rating["hypothesis"].as_str().unwrap().to_owned();
        let place =
            |error: &Value| span(&text, error["start"].as_u64().unwrap(), error["end"].as_u64().unwrap());
        let spans = rating["errors"].as_array().unwrap().iter().map(place).collect();
        (text, spans)
    };
    text.lines().map(row).collect()
}

fn of_tsv(text: &str) -> Rows {
    let row = |line: &str| {
        let target = line.split('\t').nth(6).unwrap();
        let inside = target.split_once("<v>").map(|(_, rest)| rest.split_once("</v>").unwrap().0.to_owned());
        (target.replace("<v>", "").replace("</v>", ""), inside.into_iter().collect())
    };
    text.lines().skip(1).map(row).collect()
}

/// Offsets as in Pearmut's page: an element for each UTF-16 unit, none for a line feed.
fn of_pearmut(text: &str) -> Rows {
    let campaign: Value = serde_json::from_str(text).unwrap();
    let mut rows = Rows::new();
    let docs = campaign["data"].as_array().unwrap().iter().flat_map(|task| task.as_array().unwrap());
    for item in docs.flat_map(|doc| doc.as_array().unwrap()) {
        for (system, text) in item["tgt"].as_object().unwrap() {
            let text = text.as_str().unwrap();
            let elements: Vec<u16> = text.encode_utf16().filter(|unit| *unit != u16::from(b'\n')).collect();
            let marked = |error: &Value| {
                let at = |end: &str| usize::try_from(error[end].as_u64().unwrap()).unwrap();
                String::from_utf16(&elements[at("start_i")..=at("end_i")]).unwrap()
            };
            let spans = item["error_spans"][system].as_array().unwrap().iter().map(marked).collect();
            rows.push((text.to_owned(), spans));
        }
    }
    rows
}

/// Reader of a format.
type Reader = fn(&str) -> Rows;

const READERS: [(&str, Reader); 4] =
    [("csv", of_csv), ("ratings", of_ratings), ("mqm-tsv", of_tsv), ("pearmut", of_pearmut)];

#[test]
fn each_span_lies_on_the_text_that_its_rater_saw() {
    let Some(file) = input("raters/raters.tsv") else { return };
    let dir = tempfile::tempdir().unwrap();
    let swapped = dir.path().join("swapped.tsv");
    let text = std::fs::read_to_string(&file).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().rev().collect();
    std::fs::write(&swapped, format!("{header}\n{}\n", rows.join("\n"))).unwrap();
    for file in [&file, &swapped] {
        for (format, rows) in READERS {
            let mut rows = rows(&exported(file, format));
            rows.sort();
            let right: [(&str, &[&str]); 3] =
                [("Die Bank ist offen.", &[]), ("Die Bank ist zu.", &["zu"]), ("Ja.", &[])];
            let found: Vec<(&str, Vec<&str>)> = rows
                .iter()
                .map(|(text, spans)| (text.as_str(), spans.iter().map(String::as_str).collect()))
                .collect();
            assert_eq!(found, right.map(|(text, spans)| (text, spans.to_vec())), "{format}");
        }
        // A segment has one score, of all raters.
        let records = eval::raters::records(&raters::read(file, &parse_pair("en-de").unwrap()).unwrap());
        let mut scores: Vec<_> = records.iter().map(|r| (r.seg, r.score)).collect();
        scores.sort_by_key(|(seg, _)| *seg);
        assert_eq!(scores, [(Some(0), Some(-2.5)), (Some(1), Some(0.0))]);
        let page = dir.path().join("page.html");
        let (file, page) = (file.display().to_string(), page.display().to_string());
        tribunal(&["report", &file, "-l", "en-de", "--out", &page]).unwrap();
    }
}

#[test]
fn pearmut_marks_what_the_judge_marked() {
    for name in ["pearmut/nl.json", "pearmut/p.json"] {
        let Some(file) = input(name) else { return };
        let campaign: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (verdicts, words) = verdicts(&campaign);
        let run = dir.path().join("verdicts.jsonl");
        std::fs::write(&run, verdicts).unwrap();
        let text = exported(&run, "pearmut");
        let mut marked: Vec<String> = of_pearmut(&text).into_iter().flat_map(|(_, spans)| spans).collect();
        marked.sort();
        assert_eq!(marked, words, "{name}");
        let written: Value = serde_json::from_str(&text).unwrap();
        let items = || written["data"][0].as_array().unwrap().iter().flat_map(|doc| doc.as_array().unwrap());
        let names = || items().flat_map(|item| item["tgt"].as_object().unwrap().keys());
        assert!(names().all(|name| !name.chars().all(char::is_numeric)), "Pearmut refuses digits alone");
        let is_even = name.ends_with("nl.json");
        assert_eq!(written["info"].get("shuffle").is_none(), is_even, "{name}");
    }
}

/// The verdicts behind a campaign of code points, the ends inclusive, and the words that they mark.
fn verdicts(campaign: &Value) -> (String, Vec<String>) {
    let (mut lines, mut words) = (String::new(), Vec::new());
    let docs = campaign["data"][0].as_array().unwrap().iter().enumerate();
    for (seg, (doc, item)) in
        docs.flat_map(|(n, doc)| doc.as_array().unwrap().iter().map(move |i| (n, i))).enumerate()
    {
        let systems = item["tgt"].as_object().unwrap();
        for (system, text) in systems {
            let errors = item["error_spans"][system].as_array().unwrap().iter().map(|error| {
                let (start, end) = (error["start_i"].as_u64().unwrap(), error["end_i"].as_u64().unwrap() + 1);
                let word = span(text.as_str().unwrap(), start, end);
                words.push(word.clone());
                json!({"span": word, "side": "target", "start": start, "end": end, "ambiguous": false,
                    "category": error["category"], "severity": error["severity"], "weight": 1.0, "confidence": null})
            });
            let errors: Vec<Value> = errors.collect();
            lines += &json!({"system": system, "doc": format!("d{doc}"), "seg": seg, "src_lang": "en", "tgt_lang": "de",
                "source": item["src"], "hypothesis": text, "score": -1.0, "raw": -1.0, "direction": "higher",
                "quality_score": null, "errors": errors, "status": "ok", "reason": null, "n_calls": 1})
            .to_string();
            lines.push('\n');
        }
    }
    words.sort();
    (lines, words)
}

#[test]
fn marot_files_are_read_as_its_documentation_allows() {
    for name in ["marot/zero.tsv", "marot/viewer.tsv"] {
        let Some(file) = input(name) else { return };
        let pair: tribunal::eval::Pair = "en-de".parse().unwrap();
        let segments = eval::raters::input(&file, Some(&pair)).unwrap().segments;
        let read: Vec<_> = segments.iter().map(|s| (s.seg, s.hypothesis.as_str())).collect();
        assert_eq!(read, [(0, "Nein."), (1, "Guten Tag.")], "{name}");
        let records = eval::raters::records(&raters::read(&file, &parse_pair("en-de").unwrap()).unwrap());
        assert_eq!(records.iter().map(|r| r.score).collect::<Vec<_>>(), [Some(-5.0), Some(0.0)], "{name}");

        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("documents/en-de.docs", "news d1\nnews d1\n");
        write("sources/en-de.txt", "Yes.\nGood day.\n");
        write("references/en-de.refA.txt", "Ja.\nGuten Tag.\n");
        write("system-outputs/en-de/A.txt", "Nein.\nGuten Tag.\n");
        write("human-scores/en-de.mqm.seg.score", "A\t-5\nA\t0\n");
        let (testset, file) = (root.display().to_string(), file.display().to_string());
        let scores = format!("marot={file}");
        let meta =
            ["meta", "--testset", &testset, "-l", "en-de", "--scores", &scores, "--stat", "seg:pearson@none"];
        let printed = tribunal(&meta).unwrap();
        assert!(printed.contains("marot"), "{printed}");
        let page = root.join("page.html").display().to_string();
        tribunal(&["report", &file, "-l", "en-de", "--out", &page]).unwrap();
    }
}
