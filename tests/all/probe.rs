//! `tribunal tune probe` and the judge `probe` on the real program and a tiny model: fitted twice, read from,
//! verified.

use std::fs;

use crate::fakes::{SmallRun, said, tiny};

/// Rated translations: those with `falsch` have an error there.
pub fn rated(small: &SmallRun) {
    let mut lines = String::new();
    for i in 0..120 {
        let (doc, system) = (i / 6, if i % 2 == 0 { "a" } else { "b" });
        let is_wrong = (i * 7) % 3 == 0;
        let hypothesis = if is_wrong {
            format!("Satz {doc} falsch {}", i / 2)
        } else {
            format!("Satz {doc} gut {}", i / 2)
        };
        let start = hypothesis.find("falsch").unwrap_or(0);
        let errors = if is_wrong {
            serde_json::json!([{
                "start": start, "end": start + 6, "category": "accuracy/mistranslation", "severity": "major",
            }])
        } else {
            serde_json::json!([])
        };
        let line = serde_json::json!({
            "system_id": system, "document_id": format!("d{doc}"), "segment_id": i / 2,
            "src_lang": "en", "tgt_lang": "de",
            "source": format!("The sentence number {} of document {doc}", i / 2), "hypothesis": hypothesis, "errors": errors,
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    fs::write(small.at("rated.jsonl"), lines).unwrap();
}

pub fn fit(small: &SmallRun, out: &str, more: &[&str]) -> (i32, String) {
    let mut command =
        small.tribunal(&["tune", "probe", "--input", "rated.jsonl", "--out", out, "--hold-out", "0.3"]);
    let depth = if more.contains(&"--depth") { &[][..] } else { &["--depth", "1"] };
    command.arg("--model").arg(tiny("qwen2")).args(["--kv-cache", "8MiB"]).args(depth).args(more);
    said(command)
}

#[test]
fn readings_that_have_changed_are_found() {
    let small = SmallRun::new(2);
    rated(&small);
    let (code, text) = fit(&small, "fit.json", &[]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = fit(&small, "again.json", &[]);
    assert_eq!(code, 0, "{text}");
    let folder = small.at("again.readings");
    let mut n_found = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let whole = fs::read(&path).unwrap();
        for place in [whole.len() / 7, whole.len() / 3, whole.len() / 2] {
            let mut bytes = whole.clone();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            fs::write(&path, bytes).unwrap();
            let (code, text) = fit(&small, "again.json", &[]);
            // A number may be the same with another last digit, and a key may name a translation that is read
            // anew.
            let is_same = code == 0 && small.read("fit.json") == small.read("again.json");
            assert!(
                is_same || text.contains("hint: remove this file"),
                "{place} of {}: {text}",
                path.display()
            );
            n_found += usize::from(!is_same);
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(n_found > 3, "{n_found}");
}

#[test]
fn a_fit_is_made_used_and_verified() {
    let small = SmallRun::new(2);
    rated(&small);
    let (code, text) = fit(&small, "fit.json", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("pearson") && text.contains("en-de"), "{text}");
    // Another folder of readings, read again: the same bytes. The same folder: nothing is read.
    let (code, text) = fit(&small, "again.json", &[]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("fit.json"), small.read("again.json"));
    // Readings that were cut in the middle go on.
    let folder = small.at("again.readings");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let (code, text) = fit(&small, "again.json", &[]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("fit.json"), small.read("again.json"));

    let score = |out: &str, more: &[&str]| {
        let mut command = small.tribunal(&["score", "--input", "input.jsonl", "--out", out, "--quiet"]);
        command.args(["--method", "probe:fit=fit.json", "--kv-cache", "8MiB"]).arg("--model").args(more);
        command
    };
    let model = tiny("qwen2");
    let (code, text) = said(score("out", &[model.to_str().unwrap()]));
    assert_eq!(code, 0, "{text}");
    for line in small.read("out/verdicts.jsonl").lines() {
        let verdict: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(verdict["score"].as_f64().is_some_and(|score| score <= 0.0), "{verdict}");
    }
    let (code, text) = said(score("one", &[model.to_str().unwrap(), "--jobs", "1", "--no-prefix-cache"]));
    assert_eq!(code, 0, "{text}");
    assert_eq!(small.read("out/verdicts.jsonl"), small.read("one/verdicts.jsonl"));
    for more in [&["--without-model"][..], &[]] {
        let (code, text) = said(small.tribunal(&[&["verify", "out"], more].concat()));
        assert!(code == 0 && text.contains("confirmed"), "{text}");
    }
    // What the probe showed is part of the record: a changed number is found with the model.
    let calls = small.read("out/calls.jsonl");
    assert!(calls.contains("\"reading\""), "{calls}");
    let other = tiny("llama");
    let (code, text) = said(score("other", &[other.to_str().unwrap()]));
    assert!(code == 2 && text.contains("only with the model that it was fitted on, `qwen2`"), "{text}");
}

#[test]
fn an_interval_is_kept_confirmed_shown_and_exported() {
    let small = SmallRun::new(2);
    rated(&small);
    fit(&small, "few.json", &[]);
    let mut fitted: serde_json::Value = serde_json::from_str(&small.read("few.json")).unwrap();
    assert!(fitted["calibrations"]["en-de"]["bands"].is_null(), "too few ratings for a band");
    fitted["calibrations"]["en-de"]["bands"] = serde_json::json!([[-90.0, -99.0, 0.0], [0.0, -9.0, 0.0]]);
    fs::write(small.at("fit.json"), fitted.to_string()).unwrap();
    let mut score = small.tribunal(&["score", "--input", "input.jsonl", "--out", "out", "--quiet"]);
    score.args(["--method", "probe:fit=fit.json", "--kv-cache", "8MiB"]).arg("--model").arg(tiny("qwen2"));
    let (code, text) = said(score);
    assert!(code == 0 && text.contains(" (90%: -"), "{text}");
    for line in small.read("out/verdicts.jsonl").lines() {
        let verdict: serde_json::Value = serde_json::from_str(line).unwrap();
        let (score, [low, high]) = (
            verdict["score"].as_f64().unwrap(),
            [0, 1].map(|end| verdict["interval"][end].as_f64().unwrap()),
        );
        assert!((low - (score - 9.0)).abs() < 1e-9 && high.abs() < 1e-9, "{verdict}");
    }
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert!(code == 0 && text.contains("confirmed"), "{text}");
    said(small.tribunal(&["export", "out", "--as", "csv", "--out", "out.csv"]));
    let table = small.read("out.csv");
    assert!(table.lines().next().unwrap().contains(",quality_score,interval_low,interval_high,"), "{table}");
    // A verdict whose interval was changed is not the one that the model gave.
    let changed = small.read("out/verdicts.jsonl").replacen("\"interval\":[-", "\"interval\":[-1", 1);
    fs::write(small.at("out/verdicts.jsonl"), changed).unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert!(code == 1 && !text.contains("confirmed"), "{text}");
}

#[test]
fn what_a_reader_is_told_of_scores_marks_and_empty_translations() {
    let small = SmallRun::new(2);
    rated(&small);
    fit(&small, "fit.json", &[]);
    let model = tiny("qwen2");
    let score = |out: &str, more: &[&str]| {
        let mut command = small.tribunal(&["score", "--input", "input.jsonl", "--out", out, "--quiet"]);
        command.args(["--method", "probe:fit=fit.json", "--kv-cache", "8MiB"]).arg("--model").args(more);
        command
    };
    said(score("out", &[model.to_str().unwrap()]));
    // Readers see no number that leads to no score.
    let (code, text) = said(small.tribunal(&["show", "out", "1", "--system", "a"]));
    assert!(code == 0 && text.contains("read off the hidden states"), "{text}");
    assert!(!text.contains("log-probability") && !text.contains("\": -"), "{text}");
    let (_, text) = said(small.tribunal(&["show", "out", "--only-system"]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("scale: MQM penalty as raters would give it, at most 0; higher is better"),
        "{text}"
    );
    assert!(
        text.contains("is not the sum of their penalties") && text.contains("is the share of raters who"),
        "{text}"
    );
    assert!(!text.contains("segment 1 (id 0)"), "{text}");
    // An empty translation is no failure: the run is complete but for it, and does not judge it again.
    let empty = small.read("input.jsonl").replacen("Eins a 0", "", 1);
    fs::write(small.at("input.jsonl"), empty).unwrap();
    let (code, text) = said(score("gaps", &[model.to_str().unwrap()]));
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        code == 1 && told.contains("a: 1 empty translation has no verdict; `score` leaves out"),
        "{text}"
    );
    let verdicts = small.read("gaps/verdicts.jsonl");
    assert!(verdicts.contains("\"status\":\"empty\",\"reason\":\"the translation is empty\""), "{verdicts}");
    let (_, text) = said(score("gaps", &[model.to_str().unwrap()]));
    assert!(text.contains("1 empty: the translation is empty"), "{text}");
}

/// Writes the input with one segment of another language pair and one with a long source.
fn write_outside(small: &SmallRun) {
    let outside = small.read("input.jsonl");
    let outside = outside.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        match line["seg_id"].as_u64() {
            Some(0) => line["tgt_lang"] = "cs".into(),
            Some(1) => line["source"] = "A word. ".repeat(30).into(),
            _ => {}
        }
        line.to_string() + "\n"
    });
    fs::write(small.at("outside.jsonl"), outside.collect::<String>()).unwrap();
}

#[test]
fn input_outside_of_a_fit_is_a_caution_of_the_run() {
    let small = SmallRun::new(2);
    rated(&small);
    fit(&small, "fit.json", &[]);
    write_outside(&small);
    let score = |input: &str, out: &str, more: &[&str]| {
        let mut command =
            small.tribunal(&["score", "--input", input, "--out", out, "--language-check", "off"]);
        command
            .args(["--method", "probe:fit=fit.json", "--kv-cache", "8MiB"])
            .arg("--model")
            .arg(tiny("qwen2"));
        command.args(["--only-system"]).args(more);
        said(command)
    };
    let cautions = |file: &str| -> Vec<String> {
        let file: serde_json::Value = serde_json::from_str(&small.read(file)).unwrap();
        serde_json::from_value(file["cautions"].clone()).unwrap_or_default()
    };
    let (code, text) = score("input.jsonl", "in", &[]);
    assert!(code == 0 && !text.contains("was not fitted"), "{text}");
    assert!(cautions("in/run.json").is_empty(), "{text}");
    let (code, text) = score("outside.jsonl", "out", &[]);
    assert_eq!(code, 0, "{text}");
    let recorded = cautions("out/run.json");
    assert_eq!(recorded.len(), 2, "{recorded:?}");
    assert!(
        recorded[0]
            .starts_with("2 of 12 translations are of en-cs, on which the judge was not fitted (en-de): ")
    );
    assert!(recorded[1].starts_with("2 of 12 translations are of en-de and longer than "), "{recorded:?}");
    let summed = cautions("out/summary.json");
    assert_eq!(summed[0], "Do not order these systems by their means");
    assert_eq!(summed[2..], recorded);
    // Resumed as it is, in shards, and shown: the same files.
    let files = ["run.json", "summary.json", "verdicts.jsonl"].map(|name| format!("out/{name}"));
    let before = files.clone().map(|file| small.read(&file));
    assert_eq!(score("outside.jsonl", "out", &["--quiet"]).0, 0);
    assert_eq!(files.map(|file| small.read(&file)), before);
    for shard in ["1", "2"] {
        assert_eq!(score("outside.jsonl", shard, &["--shard", &format!("{shard}/2")]).0, 0);
    }
    let (code, text) = said(small.tribunal(&["merge", "1", "2", "--out", "both"]));
    assert!(code == 0 && cautions("both/run.json") == recorded, "{text}");
    assert_eq!(cautions("both/summary.json"), summed);
    said(small.tribunal(&["report", "out", "--out", "page.html"]));
    let (_, text) = said(small.tribunal(&["export", "out", "--as", "csv", "--out", "out.csv"]));
    assert!(text.contains("caution: 2 of 12 translations are of en-cs"), "{text}");
    // A caution that was taken away is missed, with and without the model.
    let changed = before[0].replacen("2 of 12", "1 of 12", 1);
    fs::write(small.at("out/run.json"), changed).unwrap();
    for more in [&["--without-model"][..], &[]] {
        let (code, text) = said(small.tribunal(&[&["verify", "out"], more].concat()));
        assert!(code == 1 && text.contains("cautions about the judge on this input"), "{text}");
    }
}

#[test]
fn ratings_of_several_files_and_kinds_make_one_fit() {
    let small = SmallRun::new(2);
    rated(&small);
    let assessed: String = (0..30)
        .map(|i| {
            let line = serde_json::json!({
                "src_lang": "ro", "tgt_lang": "en", "set": if i % 2 == 0 { "x" } else { "y" }, "z": f64::from(i % 5) - 2.0,
                "source": format!("Propozitia {i}"), "hypothesis": format!("The sentence is {i}"),
            });
            format!("{line}\n")
        })
        .collect();
    fs::write(small.at("da.jsonl"), assessed).unwrap();
    fs::create_dir_all(small.at("tested/sources")).unwrap();
    fs::create_dir_all(small.at("tested/documents")).unwrap();
    fs::write(small.at("tested/documents/en-de.docs"), "news\td\nnews\td\n").unwrap();
    fs::write(small.at("tested/sources/en-de.txt"), "Some text.\nThe sentence number 9 of document 3\n")
        .unwrap();
    let made = |out: &str, more: &[&str]| {
        let mut command =
            small.tribunal(&["tune", "probe", "--input", "rated.jsonl", "da.jsonl", "--out", out]);
        command
            .args(["--hold-out", "0.3", "--depth", "1", "--kv-cache", "8MiB", "--model"])
            .arg(tiny("qwen2"))
            .args(more);
        let (code, text) = said(command);
        assert_eq!(code, 0, "{text}");
        let fit: serde_json::Value = serde_json::from_str(&small.read(out)).unwrap();
        (fit, text)
    };
    let (all, text) = made("all.json", &["--exclude", "tested"]);
    assert!(
        text.contains("note: 1 documents are left out, because `tested` has some of their text"),
        "{text}"
    );
    let corpora = all["made"]["corpora"].as_object().unwrap();
    let names: Vec<&str> = corpora.keys().map(String::as_str).collect();
    assert_eq!(names, ["en-de rated", "ro-en da/x", "ro-en da/y"]);
    // Direct assessments alone give no calibration of a pair to MQM points.
    assert_eq!(all["made"]["pairs"], serde_json::json!(["en-de"]));
    let knows = |fit: &serde_json::Value, hash: &str| {
        fit["made"]["sources"].as_array().unwrap().iter().any(|h| h == hash)
    };
    for hash in tribunal::segment::trained::short_hashes("The sentence number 9 of document 3") {
        assert!(!knows(&all, &hash), "{hash}");
    }
    // A sample of each file, some of it joined; a larger one reads only what is new.
    let how = ["--sample", "20+4", "--readings", "kept"];
    let (sample, _) = made("sample.json", &how);
    let n = |fit: &serde_json::Value| fit["made"]["segments"].as_u64().unwrap();
    assert!(n(&sample) < 44 && n(&sample) < n(&all), "{}", n(&sample));
    made("again.json", &how);
    assert_eq!(small.read("sample.json"), small.read("again.json"));
    let refused = {
        let mut command = small.tribunal(&["tune", "probe", "--input", "da.jsonl", "--out", "no.json"]);
        command
            .args(["--hold-out", "0.3", "--depth", "1", "--kv-cache", "8MiB", "--model"])
            .arg(tiny("qwen2"));
        said(command)
    };
    assert!(refused.0 == 2 && refused.1.contains("nobody marked errors\nhint:"), "{}", refused.1);
}

#[test]
fn corrupted_translations_are_learnt_from_and_measured() {
    let small = SmallRun::new(1);
    rated(&small);
    let of_sample = ["--sample", "100+60", "--readings", "kept"];
    let made = |out: &str, more: &[&str]| {
        let (code, text) = fit(&small, out, &[&of_sample, more].concat());
        assert_eq!(code, 0, "{text}");
        let fit: serde_json::Value = serde_json::from_str(&small.read(out)).unwrap();
        (fit, text)
    };
    let (without, text) = made("without.json", &[]);
    assert!(without["made"]["corrupted"] == 0 && !text.contains("corrupted"), "{text}");
    let (with, text) = made("with.json", &["--corrupted", "24"]);
    let n = with["made"]["corrupted"].as_u64().unwrap();
    assert!((12..=24).contains(&n), "{n}");
    assert_eq!(with["made"]["segments"], without["made"]["segments"], "they are no rated ones");
    assert!(text.contains("corrupted translations below what they were"), "{text}");
    // The score learns from them, the words do not.
    assert_ne!(with["score"], without["score"]);
    assert_eq!(with["any"], without["any"]);
    made("again.json", &["--corrupted", "24"]);
    assert_eq!(small.read("with.json"), small.read("again.json"));
}

#[test]
fn what_cannot_be_fitted() {
    let small = SmallRun::new(1);
    rated(&small);
    let (code, text) = fit(&small, "fit.json", &["--depth", "9"]);
    assert_eq!(code, 2, "{text}");
    let (code, text) = fit(&small, "fit.json", &["--systems", "nobody"]);
    assert!(code == 2 && text.contains("unknown system `nobody`\nhint: a, b"), "{text}");
}
