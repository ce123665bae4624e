//! Requirements of each format's readers: places in their units, names, cells that a spreadsheet runs, the
//! signature.

use super::*;

/// Contents of an export of these verdicts, or its error.
fn of_verdicts(verdicts: &[Value], format: &str, more: &[&str]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let (run, out) = (dir.path().join("verdicts.jsonl"), dir.path().join("out"));
    std::fs::write(&run, verdicts.iter().map(|verdict| format!("{verdict}\n")).collect::<String>()).unwrap();
    let (run, path) = (run.display().to_string(), out.display().to_string());
    tribunal(dir.path(), &[&["export", &run, "--as", format, "--out", &path], more].concat())?;
    Ok(std::fs::read_to_string(out).unwrap())
}

#[test]
fn no_format_holds_an_error_outside_its_text() {
    let error = error("zu", "target", Some((29, 31)), "accuracy/mistranslation", "major");
    let verdicts = [verdict("a", 0, ["It is open.", "Die Bank ist zu."], &[error])];
    for format in ["mqm-tsv", "ratings", "pearmut", "csv", "parquet", "mtme"] {
        let refused = of_verdicts(&verdicts, format, &["--name", "x"]).unwrap_err();
        assert_eq!(
            refused,
            "an error in segment 1 (id 0) of `a` lies at 29..31, but the text has 16 characters\nhint: offsets are half-open, in \
             Unicode code points",
            "{format}"
        );
    }
    let empty = self::error("", "target", Some((3, 3)), "accuracy/omission", "major");
    let text = of_verdicts(&[verdict("a", 0, ["Yes.", "Ja."], &[empty])], "mqm-tsv", &[]).unwrap();
    assert!(!text.contains("<v>"), "an empty span marks nothing: {text}");
}

#[test]
fn pearmut_numbers_what_its_page_shows() {
    // Two units for a character beyond the BMP, one for a carriage return, none for a line feed; an accent of
    // its own.
    let text = "😀\r\nEin e\u{301}😀 Tag\n";
    let at = |span: &str| {
        let start = text[..text.find(span).unwrap()].chars().count();
        error(span, "target", Some((start, start + span.chars().count())), "style/awkward", "minor")
    };
    let spans = ["😀\r\nEin", "e\u{301}😀", "Tag\n"];
    let verdicts = [
        verdict("12", 0, ["One.", text], &spans.map(at)),
        verdict("12", 1, ["Two.", "Zwei."], &[]),
        verdict("B", 0, ["One.", "Eins."], &[]),
    ];
    let campaign: Value = serde_json::from_str(&of_verdicts(&verdicts, "pearmut", &[]).unwrap()).unwrap();
    let item = &campaign["data"][0][0][0];
    let places: Vec<_> = item["error_spans"]["system-12"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| [&e["start_i"], &e["end_i"]])
        .collect();
    assert_eq!(json!(places), json!([[0, 5], [7, 10], [12, 14]]));
    assert_eq!(campaign["info"]["shuffle"], json!(false), "B lacks a segment");
    let taken = [verdict("12", 0, ["One.", "Eins."], &[]), verdict("system-12", 0, ["One.", "Ein."], &[])];
    assert!(
        of_verdicts(&taken, "pearmut", &[]).unwrap_err().contains("would both be written as \"system-12\"")
    );
}

#[test]
fn no_cell_is_a_formula() {
    let texts = ["=1+1", "- Ja.", "+49", "@x", "\t=1", "\r=1", "-0.5", "Ja."];
    let verdicts: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(seg, text)| verdict("=a", seg, ["S", text], &[error("x", "target", None, "other", "major")]))
        .collect();
    let text = of_verdicts(&verdicts, "csv", &[]).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    let column =
        |rows: &[Vec<String>], at: usize| -> Vec<String> { rows.iter().map(|row| row[at].clone()).collect() };
    assert_eq!(column(&rows, 7), ["'=1+1", "'- Ja.", "+49", "'@x", "'\t=1", "'\r=1", "-0.5", "Ja."]);
    assert_eq!((rows[0][0].as_str(), rows[0][8].as_str()), ("'=a", "-5"), "numbers stay numbers");
    let tsv = of_verdicts(&verdicts[..2], "mqm-tsv", &[]).unwrap();
    assert!(tsv.contains("\n=a\td1\t1\t1\t") && tsv.contains("\t- Ja.\t"), "verbatim: {tsv}");
}

#[test]
fn the_signature_is_in_every_export() {
    let signature = "method:fsp|model:qwen2.5-7b|v:0.1.0";
    for format in ["mqm-tsv", "ratings", "pearmut", "csv"] {
        assert!(exported(format, "out").contains(signature), "{format}");
    }
    let root = tempfile::tempdir().unwrap();
    let (run, out) = (folder_of_lines(root.path()), root.path().join("scores"));
    tribunal(root.path(), &["export", &run, "--as", "mtme", "--out", &out.display().to_string()]).unwrap();
    let file = out.join("en-de/tribunal-fsp-qwen2_5-7b-src.signature");
    assert_eq!(std::fs::read_to_string(file).unwrap(), format!("{signature}\n"));
    // Of the folder's verdicts too.
    let (verdicts, out) = (format!("{run}/verdicts.jsonl"), root.path().join("x.csv"));
    tribunal(root.path(), &["export", &verdicts, "--as", "csv", "--out", &out.display().to_string()])
        .unwrap();
    assert!(std::fs::read_to_string(out).unwrap().contains(signature));
}

#[test]
fn escape_sequences_are_shown() {
    let root = tempfile::tempdir().unwrap();
    let name = "a\u{1b}[2J\u{9b}31m\u{202e}b";
    let write = |folder: &str, weight: f64| {
        let run = folder_of_lines(root.path());
        let mut verdicts = Vec::new();
        for (seg, text) in [LINE, "Zwei.", "Drei."].into_iter().enumerate() {
            let mut one = verdict(name, seg, ["S\u{1b}[31m", text], &[]);
            (one["score"], one["raw"]) = (json!(-weight * seg as f64), json!(-weight));
            (one["reason"], one["errors"]) =
                (json!(name), json!([error(name, "target", None, name, "minor")]));
            verdicts.push(one);
            verdicts.push(verdict("b", seg, ["S", text], &[]));
        }
        let lines: String = verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
        std::fs::write(Path::new(&run).join("verdicts.jsonl"), lines).unwrap();
        let there = root.path().join(folder);
        std::fs::rename(&run, &there).unwrap();
        there.display().to_string()
    };
    let (one, two) = (write("one", 1.0), write("two", 2.0));
    let commands: &[&[&str]] = &[
        &["compare", &one],
        &["compare", &one, &two],
        &["compare", &one, &two, "--json"],
        &["compare", &one, "--format", "csv"],
        &["show", &one, "--format", "tsv"],
        &["show", &one, "--format", "csv"],
        &["show", &one],
        &["show", &one, "1", "--system", name],
        &["show", &one, "1"],
        &["compare", &one, "--baseline", name],
        &["compare", &one, "--baseline", "\u{1b}x"],
    ];
    for command in commands {
        let said = tribunal(root.path(), command).unwrap_or_else(|error| error);
        let acts = |c: char| matches!(c, '\u{1b}' | '\u{9b}' | '\u{202e}');
        assert!(!said.contains(acts), "{command:?}: {said:?}");
        if command.contains(&"--json") {
            serde_json::from_str::<Value>(&said).unwrap();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_written_where_it_stands() {
    let root = tempfile::tempdir().unwrap();
    let run = folder(root.path()).display().to_string();
    let program = env!("CARGO_BIN_EXE_tribunal");
    let log = |name: &str| {
        let path = root.path().join("log");
        let script = format!(
            "echo before; exec 3>&1; \"{program}\" export \"{run}\" --as ratings --out {name} 2>err; echo after"
        );
        let file = std::fs::File::create(&path).unwrap();
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(script).current_dir(root.path()).stdout(file);
        assert!(shell.status().unwrap().success());
        std::fs::read_to_string(path).unwrap()
    };
    let ratings = exported("ratings", "ratings.jsonl");
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/fd/3"] {
        assert_eq!(log(name), format!("before\n{ratings}after\n"), "{name}");
    }
}
