//! RUBRIC-MQM against a scripted model and against the authors' recorded answers.

use std::{fmt::Write, sync::Arc};

use serde_json::Value;
use tribunal::{
    cli,
    judges::{Model, Preset, Settings, rubric_mqm::scenario},
    llm::{ResponseFormat, Sampling},
    segment::Segment,
};

use crate::fakes::{
    Preview as _, Script, conversation, document, judge, published_data, run, settings, show, verdict,
};

const LINES: &str = "MQM annotations:\n\"Bank\" - mistranslation - 73\n\"zur\" - incorrect word order - 12";
pub const BLOCKS: &str = "MQM annotations:\nCritical:\nno-error\nMajor:\nmistranslation - \"Bank\"\nMinor:\nincorrect word \
                      order - \"zur\"";

#[test]
fn conversations() {
    let one = &document()[..1];
    let points = r#"{"errors":[{"category":"mistranslation","span":"Bank","severity":73},{"category":"omission","span":"went","severity":20}]}"#;
    let severities = r#"{"errors":[{"category":"mistranslation","span":"Bank","severity":"major"}]}"#;
    for (name, request, preset, answer) in [
        ("strict", "rubric-mqm:score=mean", Preset::Strict, points),
        ("paper", "rubric-mqm", Preset::Paper, LINES),
        ("code", "rubric-mqm", Preset::Code, LINES),
        (
            "deepq_8_bare",
            "rubric-mqm:scenario=deepq-8,shots=0",
            Preset::Paper,
            "\"Bank\" - mistranslation - 7",
        ),
        ("deepcatshot", "rubric-mqm:scenario=deepcatshot", Preset::Paper, BLOCKS),
        ("gemba_strict_bare", "rubric-mqm:scenario=gemba,shots=0", Preset::Strict, severities),
        ("gemba_code", "rubric-mqm:scenario=gemba", Preset::Code, BLOCKS),
    ] {
        insta::assert_snapshot!(
            format!("rubric_{name}"),
            conversation(request, &settings(preset), one, answer)
        );
    }
}

#[test]
fn every_scenario_asks_its_own_question() {
    let mut last_turns = String::new();
    for (name, ..) in scenario::NAMES {
        let judge = judge(&format!("rubric-mqm:scenario={name}"), &settings(Preset::Paper));
        let (chat, _) = judge.preview(&document()[..1]).remove(0);
        assert_eq!(chat.messages().len(), 8, "a system message, three examples, the question");
        assert!(
            chat.messages().iter().all(|turn| !turn.content.contains("<v>")),
            "{name}: marks are PromptCUE's"
        );
        let (example, question) = (&chat.messages()[2].content, &chat.messages()[7].content);
        write!(last_turns, "--- {name}\n{question}\n--- first example's answer\n{example}\n").unwrap();
    }
    insta::assert_snapshot!("rubric_scenarios", last_turns);
}

/// `<v>` in a text without a cue is a part of it: it is shown, and a span across it is verbatim.
#[test]
fn marks_of_a_texts_own_are_text() {
    let segment = Segment { hypothesis: "Das Tag <v> steht für Video.".into(), ..document()[0].clone() };
    let span = "Tag <v> steht";
    let checked = |request: &str, preset: Preset, answer: &str, shows: bool| {
        let script = Script::says(answer);
        let judge = judge(request, &settings(preset));
        let verdict = run(&judge, &script, std::slice::from_ref(&segment)).remove(0).unwrap();
        let error = &verdict.errors[0];
        assert_eq!(
            (error.span.as_str(), error.start, error.end),
            (span, Some(4), Some(17)),
            "{request} {preset}"
        );
        let (chat, form, _) = script.asked().remove(0);
        assert_eq!(chat.messages().last().unwrap().content.contains(&segment.hypothesis), shows, "{preset}");
        form
    };
    let json = format!(r#"{{"errors":[{{"category":"grammar","span":"{span}","severity":5}}]}}"#);
    let ResponseFormat::Json { texts, .. } = checked("rubric-mqm", Preset::Strict, &json, true) else {
        panic!("`strict` asks for JSON")
    };
    assert_eq!(texts["translation"], segment.hypothesis, "the form allows the span");
    checked("rubric-mqm", Preset::Paper, &format!("\"{span}\" - grammar - 5"), true);
    // The published code takes the marks out of what it shows; the span is the text's all the same.
    checked("rubric-mqm", Preset::Code, "\"Tag  steht\" - grammar - 5", false);
    let blocks = "Critical:\nno-error\nMajor:\ngrammar - \"Tag  steht\"\nMinor:\nno-error";
    checked("rubric-mqm:scenario=gemba", Preset::Code, blocks, false);
}

#[test]
fn unusable_answers() {
    let mut table = String::new();
    let answers = [
        LINES,
        BLOCKS,
        "no-error",
        "",
        "I'm sorry, I can't.",
        "{\"Bank\": {\"category\": \"mistranslation\", \"severity\": 60}}",
        "\"Bank\" - mistranslation - 101",
        "{\"errors\":[]}",
        "{\"errors\":[{\"category\":\"grammar\",\"span\":\"Bank\",\"severity\":\"major\"}]}",
        "{\"errors\":[{\"category\":\"grammar\",\"span\":\"Bank\",\"severity\":0}]}",
        "{\"errors\":[{\"category\":\"grammar\",\"span\":\"\",\"severity\":5}]}",
    ];
    for request in ["rubric-mqm", "rubric-mqm:scenario=deepshot"] {
        for preset in [Preset::Code, Preset::Paper, Preset::Strict] {
            let judge = judge(request, &settings(preset));
            for answer in answers {
                write!(table, "{request} {preset} {answer:?}\n  {}", show(&verdict(&judge, answer))).unwrap();
            }
        }
    }
    insta::assert_snapshot!("rubric_unusable", table);
}

#[test]
fn options() {
    let error = |request: &str, settings: &Settings| {
        tribunal::replication::build(request, settings).err().unwrap().to_string()
    };
    let code = settings(Preset::Code);
    assert!(error("rubric-mqm:score=mean", &code).contains("sums"));
    let weights = Settings { weights: Some("wmt".into()), ..Settings::default() };
    assert!(error("rubric-mqm", &weights).contains("weights"));
    let gemba = judge("rubric-mqm:scenario=gemba", &weights);
    assert_eq!(gemba.signature().prompts.get("weights"), Some("wmt"));
    let dir = tempfile::tempdir().unwrap();
    let shots = dir.path().join("shots.jsonl");
    let shot = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[{"category":"grammar","span":"t","severity":"minor"POINTS}]}"#;
    let mine = Settings { shots: Some(shots.clone()), ..Settings::default() };
    std::fs::write(&shots, shot.replace("POINTS", "")).unwrap();
    assert!(error("rubric-mqm", &mine).contains("no points on a scale of 100"));
    std::fs::write(&shots, shot.replace("POINTS", r#","points":{"100":9}"#)).unwrap();
    let (chat, _) = judge("rubric-mqm", &mine).preview(&document()[..1]).remove(0);
    assert_eq!(chat.messages()[2].content, r#"{"errors":[{"category":"grammar","span":"t","severity":9}]}"#);
}

/// A reference is shown where it is requested and the preset has words for it.
#[test]
fn references() {
    let with = Settings { has_references: true, ..settings(Preset::Strict) };
    let mut known = document()[..1].to_vec();
    known[0].reference = Some("Er ging zum Geldinstitut.".into());
    let question = |request: &str, group: &[Segment]| {
        let judge = judge(request, &with);
        let (chat, _) = judge.preview(group).remove(0);
        chat.messages().last().unwrap().content.clone()
    };
    let shown = question("rubric-mqm:reference=on", &known);
    assert!(shown.contains("\nGerman reference: ```Er ging zum Geldinstitut.```\n\nBased on the source, reference, and machine translation segments"), "{shown}");
    assert_eq!(question("rubric-mqm:reference=auto", &known), shown);
    // The paper is reference-free: an input with references changes nothing by itself.
    assert!(!question("rubric-mqm", &known).contains("reference"));
    let judge = judge("rubric-mqm:reference=on", &with);
    let error = run(&judge, &Script::says("{}"), &document()[..1]).remove(0).unwrap_err().to_string();
    assert!(error.contains("no reference translation"), "{error}");
    let refusal = |request: &str, preset| {
        tribunal::replication::build(request, &settings(preset)).err().unwrap().to_string()
    };
    assert!(
        refusal("rubric-mqm:reference=on", Preset::Paper).contains("the paper's prompts have no reference")
    );
    assert!(
        refusal("rubric-mqm:scenario=deepq-4,reference=on", Preset::Code)
            .contains("shows no reference in this scenario")
    );
}

pub fn recorded(file: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(published_data()?.join("promptcue").join(file)).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The severities that the authors recorded beside their answers follow from our reading of the marked span.
#[test]
fn recorded_severities() {
    let Some(rows) = recorded("gpt_review/DR-100_gen.jsonl") else { return };
    let (mut n, mut same) = (0, 0);
    for row in rows {
        let judge = judge("rubric-mqm:shots=0", &settings(Preset::Paper));
        let Ok(verdict) = verdict(&judge, row["review"].as_str().unwrap()) else { continue };
        // One entry: it is the one about the marked span.
        if let ([error], "major" | "minor") = (&verdict.errors[..], row["severity"].as_str().unwrap()) {
            n += 1;
            same += usize::from(error.severity.name() == row["severity"]);
        }
    }
    // Nine labels are on the other side of Table 8's threshold: 20 and 22 points are major, 65 and 70 minor.
    assert_eq!((same, n), (746, 755));
}

#[expect(clippy::unnecessary_wraps, reason = "it stands in for a function that loads a model")]
fn annotator(
    _: &tribunal::eval::ModelSpec,
    _: &tribunal::eval::Resources,
    sampling: Sampling,
) -> tribunal::eval::Result<tribunal::eval::Models> {
    let script = Script::new().on("Heim", &["\"Heim\" - mistranslation - 60\n\"ging\" - omission - 20"]);
    let panel = tribunal::judges::Panel::new(Arc::new(script.on("", &["\"zu\" - grammar - 90"])), sampling);
    Ok(tribunal::eval::Models::alone(panel, Model { name: "script".into(), sha256: "5eed".into() }))
}

/// Figure 6: a system's points by category.
#[test]
fn a_report_by_category() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input.jsonl");
    let line = |seg: usize, hypothesis: &str| {
        let line = serde_json::json!({
            "source": "He went home.", "hypothesis": hypothesis, "system": "A", "doc": "d", "seg_id": seg,
            "src_lang": "en", "tgt_lang": "de",
        });
        format!("{line}\n")
    };
    std::fs::write(&input, line(0, "Er ging Heim.") + &line(1, "Er ging zu.")).unwrap();
    let paths = [input.display().to_string(), "--out".into(), dir.path().join("run").display().to_string()];
    let words = [
        "tribunal",
        "score",
        "--quiet",
        "--only-system",
        "--method",
        "rubric-mqm",
        "--preset",
        "paper",
        "--input",
    ];
    let arguments = words.iter().map(|word| (*word).to_owned()).chain(paths);
    let mut out = Vec::new();
    cli::parse(arguments).unwrap().run(annotator, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    insta::assert_snapshot!("rubric_categories", out.split("prompts:").next().unwrap());
}
