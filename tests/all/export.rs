//! `tribunal export`, and human annotations as one more judge: every format from a run made by hand, and back
//! again where there is a reader.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tribunal::{mqm::raters, report, run, segment::lang::parse_pair};

use crate::fakes::{program, verdicts};

mod readers;

/// Output of a command, or its error.
fn tribunal(root: &Path, args: &[&str]) -> Result<String, String> {
    let named = |text: String| text.replace(&root.display().to_string(), "out");
    program(args).map(|(text, _)| named(text)).map_err(named)
}

fn error(span: &str, side: &str, place: Option<(usize, usize)>, category: &str, severity: &str) -> Value {
    let weight = match severity {
        "critical" | "major" => 5.0,
        _ => 1.0,
    };
    json!({
        "span": span, "side": side, "start": place.map(|p| p.0), "end": place.map(|p| p.1), "ambiguous": false,
        "category": category, "severity": severity, "weight": weight, "confidence": null,
        "explanation": "because \"it\" is",
    })
}

fn verdict(system: &str, seg: usize, texts: [&str; 2], errors: &[Value]) -> Value {
    let score = 0.0 - errors.iter().map(|e| e["weight"].as_f64().unwrap()).sum::<f64>();
    json!({
        "system": system, "doc": if seg < 2 { "d1" } else { "d2" }, "seg": seg, "src_lang": "en",
        "tgt_lang": "de", "source": texts[0], "hypothesis": texts[1], "score": score, "raw": score,
        "direction": "higher", "quality_score": null, "errors": errors, "status": "ok", "reason": null, "n_calls": 1,
    })
}

/// A run on two systems and three segments, one of them without a verdict.
fn folder(root: &Path) -> PathBuf {
    let bank = error("Bank", "target", Some((9, 13)), "accuracy/mistranslation", "critical");
    let lost = error("😀 ", "source", Some((4, 6)), "accuracy/omission", "minor");
    let nowhere = error("Banken", "target", None, "fluency/grammar", "minor");
    let mut refused = verdict("b", 2, ["Three.", "Drei."], &[]);
    (refused["score"], refused["raw"]) = (Value::Null, Value::Null);
    (refused["status"], refused["reason"]) = (json!("refused"), json!("the answer is a refusal"));
    let verdicts = [
        verdict("a", 0, ["The 😀 bank.", "Die\tneue Bank,\n\"hier\"."], &[bank, lost]),
        verdict("a", 1, ["Two.", "Zwei."], &[]),
        verdict("a", 2, ["Three.", "Drei."], &[nowhere]),
        verdict("b", 0, ["The 😀 bank.", "Die 😀 Bank."], &[]),
        verdict("b", 1, ["Two.", "Zwo."], &[error("Zwo.", "target", Some((0, 4)), "style/awkward", "major")]),
        refused,
    ];
    let dir = root.join("run");
    std::fs::create_dir_all(&dir).unwrap();
    let signature: tribunal::signature::Signature = "method:fsp|model:qwen2.5-7b|v:0.1.0".parse().unwrap();
    let run = json!({
        "format": 1, "short_signature": "", "signature": signature, "command": [], "shard": "1/1", "units": [],
        "input": {"segments": 6, "systems": 2, "sha256": ""},
    });
    std::fs::write(dir.join("run.json"), run.to_string()).unwrap();
    let lines: String = verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
    std::fs::write(dir.join("verdicts.jsonl"), lines).unwrap();
    dir
}

/// Exports the run and reads what was written.
fn exported(format: &str, name: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let (run, out) = (folder(root.path()), root.path().join(name));
    let (run, path) = (run.display().to_string(), out.display().to_string());
    tribunal(root.path(), &["export", &run, "--as", format, "--out", &path]).unwrap();
    std::fs::read_to_string(out).unwrap()
}

#[test]
fn texts() {
    insta::assert_snapshot!("mqm_tsv", exported("mqm-tsv", "mqm.tsv").replace('\t', "→"));
    insta::assert_snapshot!("ratings", exported("ratings", "ratings.jsonl"));
    insta::assert_snapshot!("pearmut", exported("pearmut", "campaign.json"));
    insta::assert_snapshot!("csv", exported("csv", "verdicts.csv"));
}

#[test]
fn mqm_tsv_comes_back_as_it_went() {
    let root = tempfile::tempdir().unwrap();
    let run = folder(root.path());
    let before = verdicts(&run);
    let out = root.path().join("mqm.tsv");
    let (dir, path) = (run.display().to_string(), out.display().to_string());
    tribunal(root.path(), &["export", &dir, "--as", "mqm-tsv", "--out", &path]).unwrap();
    assert!(raters::is_mqm_tsv(&out));
    let annotations = raters::read(&out, &parse_pair("en-de").unwrap()).unwrap();
    let after = tribunal::eval::raters::records(&annotations);
    assert_eq!(after.len(), 5, "no row stands for the segment without a verdict");
    for (was, is) in before.iter().zip(&after) {
        assert_eq!((&was.system, &was.doc, was.seg), (&is.system, &is.doc, is.seg));
        assert_eq!(was.hypothesis.replace(['\t', '\n'], " "), is.hypothesis);
        assert_eq!(was.score, is.score, "WMT weighs these errors as the run does");
        for (was, is) in was.errors.iter().zip(&is.errors) {
            assert_eq!((was.start, was.end, was.side), (is.start, is.end, is.side));
            assert_eq!((&was.category, was.severity), (&is.category, is.severity));
            assert!(was.start.is_none() || was.span == is.span);
        }
    }
}

#[test]
fn csv_and_parquet_can_be_judged_again() {
    let root = tempfile::tempdir().unwrap();
    let run = folder(root.path());
    let before = verdicts(&run);
    for format in ["csv", "parquet"] {
        let out = root.path().join(format!("verdicts.{format}"));
        let (dir, path) = (run.display().to_string(), out.display().to_string());
        tribunal(root.path(), &["export", &dir, "--as", format, "--out", &path]).unwrap();
        let input = tribunal::segment::read::table(&out, None).unwrap();
        let texts = |s: &str, d: &str, h: &str| format!("{s} {d} {h}");
        let was: Vec<String> = before.iter().map(|r| texts(&r.system, &r.source, &r.hypothesis)).collect();
        let is: Vec<String> =
            input.segments.iter().map(|s| texts(&s.system, &s.source, &s.hypothesis)).collect();
        assert_eq!(was, is, "{format}");
    }
}

#[test]
fn parquet_holds_numbers_nulls_and_lists() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let root = tempfile::tempdir().unwrap();
    let (run, out) = (folder(root.path()), root.path().join("verdicts.parquet"));
    let records = verdicts(&run);
    let origin = report::export::Origin { signature: Some("method:fsp"), ..Default::default() };
    let job = report::export::Job { records: &records, name: "x", reference: "src", test_sets: &[], origin };
    let export = report::export::export(report::export::Format::Parquet, &job).unwrap();
    std::fs::write(&out, &export.files[0].1).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&out).unwrap()).unwrap();
    let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    insta::assert_snapshot!(rows.join("\n"));
}

/// The characters of a text from one place to another, the end not among them.
fn between(text: &Value, start: &Value, end: u64) -> String {
    let [start, end] = [start.as_u64().unwrap(), end].map(|n| usize::try_from(n).unwrap());
    text.as_str().unwrap().chars().skip(start).take(end - start).collect()
}

#[test]
fn every_format_with_offsets_points_at_the_same_spans() {
    let mut of_ratings = Vec::new();
    for line in exported("ratings", "ratings.jsonl").lines() {
        let rating: Value = serde_json::from_str(line).unwrap();
        for error in rating["errors"].as_array().unwrap() {
            let side = if error["is_source_error"] == true { "source" } else { "hypothesis" };
            of_ratings.push(between(&rating[side], &error["start"], error["end"].as_u64().unwrap()));
        }
    }
    assert_eq!(of_ratings, ["Bank", "😀 ", "Zwo."]);

    let campaign: Value = serde_json::from_str(&exported("pearmut", "campaign.json")).unwrap();
    let mut filled_in = Vec::new();
    for item in campaign["data"][0].as_array().unwrap().iter().flat_map(|doc| doc.as_array().unwrap()) {
        for (system, spans) in item["error_spans"].as_object().unwrap() {
            for span in spans.as_array().unwrap() {
                let end = span["end_i"].as_u64().unwrap() + 1;
                filled_in.push(between(&item["tgt"][system], &span["start_i"], end));
            }
        }
    }
    assert_eq!(filled_in, ["Bank", "Zwo."], "its ends are inclusive");
}

/// A test set of four segments in two domains, with the translations that the run judged.
fn test_set(root: &Path) -> String {
    let dir = root.join("testset");
    std::fs::create_dir_all(dir.join("documents")).unwrap();
    std::fs::create_dir_all(dir.join("system-outputs/en-de")).unwrap();
    std::fs::create_dir_all(dir.join("references")).unwrap();
    std::fs::write(dir.join("documents/en-de.docs"), "news d1\nnews d1\nspeech d2\nspeech d2\n").unwrap();
    std::fs::create_dir_all(dir.join("sources")).unwrap();
    std::fs::write(dir.join("sources/en-de.txt"), "The 😀 bank.\nTwo.\nThree.\nFour.\n").unwrap();
    for (system, lines) in
        [("a", [LINE, "Zwei.", "Drei.", "Vier."]), ("b", ["Die 😀 Bank.", "Zwo.", "Drei.", "Vier."])]
    {
        std::fs::write(dir.join(format!("system-outputs/en-de/{system}.txt")), lines.join("\n") + "\n")
            .unwrap();
    }
    dir.display().to_string()
}

/// A translation that fits on a line, as those of test sets do.
const LINE: &str = "Die neue Bank, hier.";

/// The run with the test set's first translation in the place of one that fits on no line.
fn folder_of_lines(root: &Path) -> String {
    let run = folder(root);
    let file = run.join("verdicts.jsonl");
    let verdicts = std::fs::read_to_string(&file).unwrap().replace("Die\\tneue Bank,\\n\\\"hier\\\".", LINE);
    assert!(verdicts.contains(LINE));
    std::fs::write(file, verdicts).unwrap();
    run.display().to_string()
}

#[test]
fn score_files_of_a_test_set_hold_no_verdicts_on_other_translations() {
    let root = tempfile::tempdir().unwrap();
    let (run, testset) = (folder_of_lines(root.path()), test_set(root.path()));
    let outputs = Path::new(&testset).join("system-outputs/en-de");
    let out = root.path().join("scores").display().to_string();
    let refused = |run: &str| {
        let args = ["export", run, "--as", "mtme", "--testset", &testset, "--out", &out];
        tribunal(root.path(), &args).unwrap_err()
    };
    std::fs::write(outputs.join("b.txt"), "Die 😀 Bank.\nDrei.\nVier.\nFünf.\n").unwrap();
    insta::assert_snapshot!(refused(&run), @"
    `out/run`: the verdict on segment 2 (id 1) of `b` is about another translation than the test set has there
    hint: judge with `--testset`, which numbers segments as the folder does
    ");
    let file = format!("{run}/verdicts.jsonl");
    assert!(
        refused(&file).contains("segment 2 (id 1) of `b` is about another translation"),
        "{}",
        refused(&file)
    );
    std::fs::remove_file(outputs.join("b.txt")).unwrap();
    insta::assert_snapshot!(refused(&run), @"
    `out/run` has verdicts on `b`, which is no system of the test set for `en-de`
    hint: its systems are a; `tribunal score --testset` judges them
    ");
}

#[test]
fn score_files_for_the_metrics_task() {
    let root = tempfile::tempdir().unwrap();
    let (run, out) = (folder_of_lines(root.path()), root.path().join("scores"));
    let (testset, path) = (test_set(root.path()), out.display().to_string());
    let common = ["export", &run, "--as", "mtme", "--out", &path];
    let said = tribunal(root.path(), &[&common[..], &["--testset", &testset]].concat()).unwrap();
    insta::assert_snapshot!(said, @"
    out/scores/en-de/tribunal-fsp-qwen2_5-7b-src.seg.score
    out/scores/en-de/tribunal-fsp-qwen2_5-7b-src.sys.score
    out/scores/en-de/tribunal-fsp-qwen2_5-7b-src.domain.score
    out/scores/en-de/tribunal-fsp-qwen2_5-7b-src.signature
    ");
    let read = |level: &str| {
        let name = format!("en-de/tribunal-fsp-qwen2_5-7b-src.{level}.score");
        std::fs::read_to_string(out.join(name)).unwrap().replace('\t', " ")
    };
    insta::assert_snapshot!(read("seg"), @"
    a -6
    a 0
    a -1
    a None
    b 0
    b -5
    b None
    b None
    ");
    insta::assert_snapshot!(read("sys"), @"
    a -3
    b -2.5
    ");
    insta::assert_snapshot!(read("domain"), @"
    news a -3
    news b -2.5
    speech a None
    speech b None
    ");
    // A test set whose metrics these are reads the same numbers.
    let folder = Path::new(&testset).join("metric-scores");
    tribunal(
        root.path(),
        &["export", &run, "--as", "mtme", "--testset", &testset, "--out", &folder.display().to_string()],
    )
    .unwrap();
    let set = tribunal::meta::testset::TestSet::open(Path::new(&testset), "en-de").unwrap();
    let metrics = set.metrics().unwrap();
    let scores = set.metric(metrics.first().unwrap()).unwrap();
    assert_eq!(metrics.len(), 1);
    assert_eq!(scores.segments.unwrap()["a"], [Some(-6.0), Some(0.0), Some(-1.0), None]);
    assert_eq!((scores.systems["a"], scores.systems["b"]), (Some(-3.0), Some(-2.5)));
    let refused = tribunal(root.path(), &[&common[..], &["--name", "a.b"]].concat()).unwrap_err();
    insta::assert_snapshot!(refused, @"
    `a.b` cannot be the name of a metric in files of mt-metrics-eval
    hint: use letters, digits, `-`, `_` and `+`, as in `--name tribunal-fsp`
    ");
}

#[test]
fn score_files_hold_no_other_lines_than_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let export = |verdicts: &[Value]| {
        let path = dir.path().join("verdicts.jsonl");
        let lines: Vec<String> = verdicts.iter().map(Value::to_string).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let (path, out) = (path.display().to_string(), dir.path().join("out").display().to_string());
        tribunal(dir.path(), &["export", &path, "--as", "mtme", "--name", "x", "--out", &out])
    };
    export(&[verdict("a", 0, ["One.", "Eins."], &[])]).unwrap();
    for name in ["a\tb", "a\n9", "a\rb"] {
        let error = export(&[verdict(name, 0, ["One.", "Eins."], &[])]).unwrap_err();
        assert!(error.contains("contains a tab, a line break") && !error.contains(name), "{error}");
    }
    // A reader cuts lines at any white space; two names must not become one.
    export(&[verdict("GPT\u{a0}4 o", 0, ["One.", "Eins."], &[])]).unwrap();
    let scores = std::fs::read_to_string(dir.path().join("out/en-de/x-src.seg.score")).unwrap();
    assert_eq!(scores, "GPT_4_o\t0\n");
    let both = ["a b", "a_b"].map(|name| verdict(name, 0, ["One.", "Eins."], &[]));
    let error = export(&both).unwrap_err();
    assert!(error.contains("the systems \"a b\" and \"a_b\" would both be written as \"a_b\""), "{error}");
    for wrong in ["ref-A", "a b", "../x"] {
        let path = dir.path().join("verdicts.jsonl").display().to_string();
        let args = ["export", &path, "--as", "mtme", "--name", "x", "--reference", wrong, "--out", "out"];
        let error = tribunal(dir.path(), &args).unwrap_err();
        assert!(error.contains("cannot be the name of a reference"), "{error}");
    }
    for seg in [1_000_000_000_000_000, usize::MAX] {
        let error = export(&[verdict("a", seg, ["One.", "Eins."], &[])]).unwrap_err();
        assert!(error.contains(&format!("(id {seg}), so that the files")), "{error}");
    }
}

#[test]
fn human_annotations_stand_wherever_a_run_may() {
    let root = tempfile::tempdir().unwrap();
    let run = folder(root.path()).display().to_string();
    let human = root.path().join("human.tsv");
    let row = |system: &str, seg: usize, target: &str, category: &str, severity: &str, rater: &str| {
        let source = ["The 😀 bank.", "Two.", "Three."][seg - 1];
        format!("{system}\td1\t{seg}\t{seg}\t{rater}\t{source}\t{target}\t{category}\t{severity}\n")
    };
    let rows = [
        row("a", 1, "Die\u{20}neue <v>Bank</v>, \"hier\".", "Accuracy/Mistranslation", "Major", "r1"),
        row("a", 1, "Die neue Bank, \"hier\".", "No-error", "No-error", "r2"),
        row("a", 2, "Zwei.", "No-error", "No-error", "r1"),
        row("b", 1, "Die 😀 Bank.", "No-error", "No-error", "r1"),
        row("b", 2, "<v>Zwo</v>.", "Style/Awkward", "Minor", "r1"),
    ];
    let header = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n";
    std::fs::write(&human, header.to_owned() + &rows.concat()).unwrap();
    let human = human.display().to_string();

    let refused = tribunal(root.path(), &["compare", &run, &human]).unwrap_err();
    insta::assert_snapshot!(refused,
        @"
    `out/human.tsv` holds human annotations, which do not name their languages
    hint: add `-l en-de`
    ");

    let scores = root.path().join("scores").display().to_string();
    let args = ["export", &human, "--as", "mtme", "-l", "en-de", "--name", "human", "--out", &scores];
    tribunal(root.path(), &args).unwrap();
    let written = std::fs::read_to_string(root.path().join("scores/en-de/human-src.seg.score")).unwrap();
    assert_eq!(written, "a\t-2.5\na\t0\nb\t0\nb\t-1\n", "the mean over the raters of a segment");

    let compared = tribunal(root.path(), &["compare", &run, &human, "-l", "en-de"]).unwrap();
    assert!(
        compared.starts_with("two judges on the same translations\n(1) out/run\n(2) out/human.tsv"),
        "{compared}"
    );
}

/// The text report of verdicts by a judge with this signature.
fn text(signature: &str, verdicts: &[Value], width: usize) -> String {
    let records: Vec<run::Record> =
        verdicts.iter().map(|verdict| serde_json::from_value(verdict.clone()).unwrap()).collect();
    let summary =
        run::Summary::new(&records, &signature.parse().unwrap(), &[], run::summary::Cost::default());
    report::text(&summary, &records, report::Detail::Units, report::TextStyle { width, colour: false })
}

#[test]
fn around_the_table_stands_what_it_cannot_show() {
    let verdicts = |[a, b]: [usize; 2]| {
        [verdict("a", a, ["One.", "Eins."], &[]), verdict("b", b, ["One.", "Ein."], &[])]
    };
    let compared = text("method:probe|weights:wmt", &verdicts([0, 0]), 100);
    assert!(
        !compared.contains("systems are listed by name") && !compared.contains("tribunal compare"),
        "{compared}"
    );
    assert!(
        compared.contains("caution: probe: a translation without a mark may still have errors"),
        "{compared}"
    );
    let ranked = text("method:fsp|weights:gemba", &verdicts([0, 0]), 100);
    assert!(ranked.contains("systems are listed by name; `tribunal compare RUN` tests which"), "{ranked}");
    let apart = text("method:fsp|weights:gemba", &verdicts([0, 1]), 100);
    assert!(apart.contains("no segment in common") && !apart.contains("tribunal compare"), "{apart}");
    assert!(!apart.contains("without a mark may"), "{apart}");
}

/// A verdict on a translation that is empty.
fn left_empty(system: &str, seg: usize) -> Value {
    let mut none = verdict(system, seg, ["One.", ""], &[]);
    (none["score"], none["raw"]) = (Value::Null, Value::Null);
    (none["status"], none["reason"]) = (json!("empty"), json!("the translation is empty"));
    none
}

#[test]
fn empty_translations_are_counted_below_the_table() {
    let whole = |system: &str, seg| verdict(system, seg, ["One.", "Eins."], &[]);
    let alone = [whole("a", 0), left_empty("a", 1)];
    let said = "a: 1 empty translation has no verdict and is excluded from its mean (not penalised)";
    let told = text("method:probe|weights:wmt", &alone, 120);
    assert!(told.contains(said) && told.contains("1 empty: the translation is empty"), "{told}");
    let two =
        [whole("a", 0), whole("a", 1), whole("a", 2), whole("b", 0), left_empty("b", 1), left_empty("b", 2)];
    let said = "b: 2 empty translations have no verdict; `score` leaves out the same segments of every system, `on its own` \
                those of b alone (not penalised)";
    let told = text("method:probe|weights:wmt", &two, 200);
    assert!(told.contains(said), "{told}");
}

#[test]
fn a_method_that_names_no_errors_shows_its_scores() {
    let mut rated = verdict("a", 0, ["One.", "Eins."], &[]);
    rated["score"] = json!(87.0);
    insta::assert_snapshot!(text("method:gemba-da|model:tiny", &[rated], 60), @"
    a · d1 · segment 1 (id 0)  score 87.00
      en          One.
      de          Eins.

    method:gemba-da|model:tiny
    short: gemba-da|tiny|#8c478dda

    system  segments  score  coverage
    a              1  87.00      100%
    score: the mean over segments with a verdict, higher is
    better
    scale: 0 to 100, higher is better
    ");
    let clean = verdict("a", 0, ["One.", "Eins."], &[]);
    assert!(
        text("method:fsp|weights:gemba", &[clean], 60).contains("1 of 1 translations without a marked error")
    );
}

#[test]
fn no_line_is_wider_than_asked_for() {
    let span = "ein sehr langer Fehler, der sich über die ganze Breite des Terminals und noch weiter zieht";
    let hypothesis = format!("Hier steht {span}.");
    let place = Some((11, 11 + span.chars().count()));
    let errors = [error(span, "target", place, "terminology/inappropriate for context", "major")];
    let verdicts = [
        verdict("a-system-with-a-name-that-does-not-fit-anywhere", 0, ["One.", &hypothesis], &errors),
        verdict("b", 0, ["One.", "Eins."], &[]),
    ];
    let text = text("method:fsp|weights:gemba", &verdicts, 60);
    for line in text.lines() {
        assert!(
            line.chars().count() <= 60 || line.contains(" · ") || line.contains("without errors"),
            "{line}"
        );
    }
    assert!(text.contains("a-system"), "{text}");
}
