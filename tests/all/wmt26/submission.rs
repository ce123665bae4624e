//! Verdicts in a submission: errors without a place, scales, references.

use serde_json::{Value, json};

use super::{Participant, hypothesis};

/// An error of the verdict.
fn error(side: &str, severity: &str, place: Option<[usize; 2]>) -> Value {
    json!({
        "span": "x", "side": side, "start": place.map(|p| p[0]), "end": place.map(|p| p[1]), "ambiguous": false,
        "category": "style/awkward", "severity": severity, "weight": 1.0, "confidence": null,
    })
}

impl Participant {
    /// Exports verdicts on the first items by a judge with this signature: the notes, and the lines of the
    /// submission.
    fn exported(&self, signature: &str, verdicts: &[Value]) -> (String, Vec<Value>) {
        let signature: tribunal::signature::Signature = signature.parse().unwrap();
        let run = json!({
            "format": 1, "short_signature": "", "signature": signature, "command": [], "shard": "1/1", "units": [],
            "input": {"segments": verdicts.len(), "systems": 1, "sha256": ""},
        });
        self.write("run/run.json", &run.to_string());
        let line = |(seg, given): (usize, &Value)| {
            let mut verdict = json!({
                "system": "South", "doc": "news_###_page0", "seg": seg, "src_lang": "en", "tgt_lang": "de",
                "source": format!("The hill 0{seg}."), "hypothesis": hypothesis(0, 0, seg, 1),
                "raw": given["score"], "direction": "higher", "quality_score": null, "errors": [],
                "status": "ok", "reason": null, "n_calls": 1,
            });
            verdict.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            format!("{verdict}\n")
        };
        self.write("run/verdicts.jsonl", &verdicts.iter().enumerate().map(line).collect::<String>());
        let (_, said) = self.tribunal("export run --as wmt26 --testset task.jsonl --out s.jsonl", &[]);
        (said, self.lines("s.jsonl"))
    }
}

#[test]
fn a_translation_in_which_the_judge_named_errors_is_not_error_free() {
    let own = Participant::new();
    let (said, lines) = own.exported(
        "method:gemba-esa|weights:gemba",
        &[
            json!({ "score": 95.0, "errors": [error("target", "minor", None)] }),
            json!({ "score": 85.0, "errors": [error("source", "critical", Some([0, 3]))] }),
            json!({ "score": 90.0, "errors": [error("target", "neutral", Some([0, 3]))] }),
            json!({ "score": 85.0 }),
            json!({ "score": 84.0 }),
        ],
    );
    let free: Vec<&Value> = lines.iter().map(|line| &line["task3_pred"]["South"]).collect();
    assert_eq!(free, [0, 0, 0, 1, 0]);
    assert!(lines.iter().all(|line| line["task1_pred"]["South"]["errors"] == json!([])));
    let place = |seg: usize| format!("in segment {} (id {seg}) of `news_###_page0` by `South`", seg + 1);
    for left_out in [
        format!("1 error without a place in the translation, {}", place(0)),
        format!("1 error of the source, {}", place(1)),
    ] {
        assert!(said.contains(&format!("left out of `task1_pred`: {left_out}")), "{said}");
    }
}

#[test]
fn every_scale_has_one_map_to_the_tasks() {
    let own = Participant::new();
    let rubric = "method:rubric-mqm|scenario:deeprubric-100|score:sum|preset:strict|weights:rubric-mqm";
    for (signature, score, expected) in [
        // A quality beside the score is another scale.
        ("method:fsp|weights:wmt", -25.0, Some(50.0)),
        ("method:m-mad|weights:mmad", -75.0, Some(25.0)),
        ("method:gemba-mqm|weights:gemba", -5.0, Some(80.0)),
        ("method:himate|weights:himate", -25.0, Some(50.0)),
        ("method:eaprompt|w-major:5", -75.0, Some(25.0)),
        (rubric, -1500.0, Some(25.0)),
        ("method:rubric-mqm|scenario:gemba|score:sum|preset:code|weights:rubric-mqm", -0.05, Some(80.0)),
        ("method:likelihood|direction:forward|norm:mean|relative:off", -0.5, Some(100.0 * (-0.5f64).exp())),
        ("method:likelihood|norm:sum|relative:off", -75.0, Some(25.0)),
        ("method:likelihood|norm:mean|relative:on", 25.0, Some(75.0)),
        ("method:gemba-stars", 4.0, Some(75.0)),
        ("method:difficulty", -3.0, None),
    ] {
        let errors = json!([error("target", "minor", Some([0, 3]))]);
        let verdicts = [json!({ "score": score, "quality_score": 95.0, "errors": errors })];
        let (said, lines) = own.exported(signature, &verdicts);
        let written = lines[0]["task2_pred"]["South"].as_f64();
        assert!(written.zip(expected).is_none_or(|(a, b)| (a - b).abs() < 1e-9), "{signature}: {written:?}");
        assert_eq!(written.is_some(), expected.is_some(), "{signature}: {said}");
        let names_errors = !["likelihood", "stars", "difficulty"].iter().any(|name| signature.contains(name));
        assert_eq!(lines[0]["task1_pred"]["South"]["errors"].is_array(), names_errors, "{signature}");
        assert_eq!(
            lines[0]["task3_pred"]["South"],
            expected.map_or(Value::Null, |_| json!(0)),
            "{signature}"
        );
    }
    let (_, lines) = own.exported(
        "method:m-mad|weights:mmad",
        &[
            json!({ "score": -25.0, "n_calls": 0, "warning": "not a translation: identical to the source" }),
            json!({ "score": -1000.0 }),
        ],
    );
    let scores = [0, 1].map(|line: usize| lines[line]["task2_pred"]["South"].as_f64().unwrap());
    assert!(scores[0] == 0.0 && scores[1] > 0.0, "{scores:?}");
}

#[test]
fn task_3_allows_no_references() {
    let own = Participant::new();
    let (said, lines) = own.exported("method:gemba-da|reference:on", &[json!({ "score": 99.0 })]);
    assert_eq!((&lines[0]["task2_pred"]["South"], &lines[0]["task3_pred"]), (&json!(99.0), &Value::Null));
    assert!(said.contains("`task3_pred` is left out: Task 3 allows no references"), "{said}");
}
