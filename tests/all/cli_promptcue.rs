//! PROMPTCUE from the command line: building sets, a scripted model's answers, their scores, and the messages
//! for bad input.

use std::{collections::BTreeMap, fmt::Write, path::Path, sync::Arc};

use serde_json::Value;
use tribunal::{
    cli,
    judges::{
        Model, Panel, Preset, registry,
        rubric_mqm::{Options, Texts},
    },
    llm::{ResponseFormat, Sampling},
    replication::promptcue::{ScoreOptions, answers::Answer, gold::Cue, labels::ERRORS, score::score},
};

use crate::{
    fakes::{Script, program, program_with, published_data, settings, show_question},
    judges_rubric::BLOCKS,
    meta_cli::run,
};

/// Judges a set of two cues with a scripted model, and scores the answers.
#[test]
fn promptcue_run_and_score() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set.jsonl");
    let cue = |id: usize, target: &str, span: &str, category: &str, severity: &str| {
        serde_json::json!({
            "id": id, "source": "Er ging heim.", "target": target, "error_span": span, "category": category,
            "severity": severity, "source_lang": "German", "target_lang": "En",
        })
        .to_string()
            + "\n"
    };
    let cues = cue(3, "He <v>goes</v> home.", "goes", "Fluency/Grammar", "Minor")
        + &cue(5, "He went home.", "went", "no-error", "no-error");
    std::fs::write(&set, &cues).unwrap();
    let out = dir.path().join("DR-100_set");
    let arguments = |preset: &str| {
        let words =
            ["tribunal", "promptcue", "run", "--scenario", "deeprubric-100", "--preset", preset, "--input"];
        let paths = [set.display().to_string(), "--out".into(), out.display().to_string()];
        words.iter().map(|word| (*word).to_owned()).chain(paths).collect::<Vec<_>>()
    };
    let run = |arguments: Vec<String>| {
        let mut text = Vec::new();
        let outcome = cli::parse(arguments).unwrap().run(seat, &mut text);
        (outcome.map_err(|e| cli::explain(&e)), String::from_utf8(text).unwrap())
    };
    assert_eq!(run(arguments("strict")).0.unwrap(), std::process::ExitCode::SUCCESS);
    let answers = std::fs::read_to_string(out.join("answers.jsonl")).unwrap();
    insta::assert_snapshot!(answers, @r#"
    {"id":3,"review":"MQM annotations:\n\"goes\" - grammar - 30"}
    {"id":5,"review":"MQM annotations:\n\"went\" - no-error - 1"}
    "#);
    // A second time no call is made, and another question is rejected.
    assert!(run(arguments("strict")).0.is_ok());
    assert_eq!(std::fs::read_to_string(out.join("answers.jsonl")).unwrap(), answers);
    assert!(run(arguments("paper")).0.unwrap_err().contains("holds answers from another run"));
    // So are other cues in a file of the same name.
    std::fs::write(&set, cue(3, "He <v>went</v> home.", "went", "Fluency/Grammar", "Minor")).unwrap();
    assert!(run(arguments("strict")).0.unwrap_err().contains("holds answers from another run"));
    std::fs::write(&set, cues).unwrap();
    let score = ["tribunal", "promptcue", "score", "--json", "--gold"].map(str::to_owned);
    let paths = [set.display().to_string(), "--answers".into(), out.display().to_string()];
    let (_, report) = run(score.into_iter().chain(paths).collect());
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["category"]["accuracy"], &report["severity"]["accuracy"]),
        (&1.0.into(), &1.0.into())
    );
}

#[expect(clippy::unnecessary_wraps, reason = "it stands in for a function that loads a model")]
fn seat(
    _: &tribunal::eval::ModelSpec,
    _: &tribunal::eval::Resources,
    sampling: Sampling,
) -> tribunal::eval::Result<tribunal::eval::Models> {
    let script = Script::new()
        .on("<v>goes</v>", &[r#"{"errors":[{"category":"grammar","span":"goes","severity":30}]}"#])
        .on("<v>went</v>", &[r#"{"errors":[{"category":"no-error","span":"went","severity":1}]}"#]);
    let panel = tribunal::judges::Panel::new(Arc::new(script), sampling);
    Ok(tribunal::eval::Models::alone(panel, Model { name: "script".into(), sha256: "5eed".into() }))
}

#[test]
fn promptcue_shows_marks_and_asks_about_them() {
    let mut text = String::new();
    for (scenario, preset) in
        [("deeprubric-4", Preset::Strict), ("gemba", Preset::Strict), ("gemba", Preset::Paper)]
    {
        let judge = judge(scenario, preset);
        let answer = match (preset, scenario) {
            (Preset::Strict, "gemba") => {
                r#"{"errors":[{"category":"omission","span":"Er","severity":"critical"}]}"#
            }
            (Preset::Strict, _) => r#"{"errors":[{"category":"no-error","span":"goes","severity":1}]}"#,
            _ => BLOCKS,
        };
        let script = Script::says(answer);
        let texts = Texts {
            source_lang: "German",
            source: "Er ging.",
            target_lang: "English",
            target: "He <v>goes</v>.",
            reference: None,
        };
        let review = judge.classify(&Panel::new(script.clone(), Sampling::default()), &texts).unwrap();
        let (chat, form, _) = script.in_order().remove(0);
        write!(text, "=== {scenario} {preset}\n{}<<< Review >>>\n{review}\n", show_question(&chat, &form))
            .unwrap();
    }
    insta::assert_snapshot!("rubric_promptcue", text);
}

fn judge(scenario: &str, preset: Preset) -> tribunal::replication::rubric_mqm::Classifier {
    let method = registry::find("rubric-mqm").unwrap();
    let options = method.parse_options(&format!("scenario={scenario}")).unwrap();
    tribunal::replication::rubric_mqm::Classifier::new(&settings(preset), &Options::read(&options)).unwrap()
}

/// At any mark, every category is allowed for a span of either text: the form of an answer does not tell an
/// omission from a mistranslation.
#[test]
fn the_form_does_not_reveal_the_category() {
    for scenario in ["deeprubric-100", "gemba"] {
        let forms =
            [("Er <v>ging</v>.", "He goes."), ("Er ging.", "He <v>goes</v>.")].map(|(source, target)| {
                let script = Script::says("");
                let texts =
                    Texts { source_lang: "German", source, target_lang: "English", target, reference: None };
                let panel = Panel::new(script.clone(), Sampling::default());
                judge(scenario, Preset::Strict).classify(&panel, &texts).unwrap_err();
                script.in_order().remove(0).1
            });
        assert_eq!(forms[0], forms[1], "{scenario}");
        let ResponseFormat::Json { schema, .. } = &forms[0] else { panic!("{:?}", forms[0]) };
        let item = &schema["properties"]["errors"]["items"]["properties"];
        assert_eq!(item["category"]["enum"].as_array().unwrap().len(), 11, "{scenario}");
        assert_eq!(item["span"]["substringOf"], serde_json::json!(["translation", "source"]));
    }
}

fn cue(id: usize, category: &str, severity: &str) -> Cue {
    Cue {
        id,
        source: "s".into(),
        reference: String::new(),
        target: "<v>t</v>".into(),
        error_span: "t".into(),
        category: category.into(),
        severity: severity.into(),
        source_lang: String::new(),
        target_lang: String::new(),
    }
}

fn recorded(id: usize, category: &str, severity: &str) -> Answer {
    Answer { id, review: None, category: Some(category.into()), severity: Some(severity.into()) }
}

/// RUBRIC-MQM, Table 4, category of MIS, from the shares that Table 9 prints. The set's gold labels are
/// paths: read as they stand, no answer was right.
#[test]
fn the_category_figures_of_mis_follow_from_its_distribution() {
    let rows = [
        ("GEMBA", 76.5, 0.4, 0.765, 0.289),
        ("DC", 70.6, 0.5, 0.706, 0.276),
        ("DS", 71.3, 1.4, 0.713, 0.277),
        ("DCS", 64.8, 2.2, 0.648, 0.262),
        ("DR-4", 74.1, 9.2, 0.741, 0.284),
        ("DR-8", 75.6, 11.4, 0.756, 0.287),
        ("DR-100", 73.2, 12.0, 0.732, 0.282),
        ("DQ-4", 71.1, 12.0, 0.711, 0.277),
        ("DQ-8", 72.9, 11.2, 0.729, 0.281),
        ("DQ-100", 69.6, 13.3, 0.696, 0.274),
    ];
    let gold = [("Accuracy/Mistranslation", "Major"), ("accuracy/mistranslation", "minor")];
    let cues: Vec<Cue> = (0..1000).map(|id| cue(id, gold[id / 500].0, gold[id / 500].1)).collect();
    for (scenario, mistranslation, no_error, accuracy, f1) in rows {
        let n = |percent: f64| (percent * 10.0).round() as usize;
        let answers: Vec<Answer> = (0..1000)
            .map(|id| match id {
                _ if id < n(mistranslation) => recorded(id, "mistranslation", "major"),
                _ if id < n(mistranslation) + n(no_error) => recorded(id, "no-error", "no-error"),
                _ => recorded(id, "grammar", "minor"),
            })
            .collect();
        let options = ScoreOptions { scenario: scenario.into(), recorded: true, ..ScoreOptions::default() };
        let found = score(&cues, &answers, &options).unwrap().category;
        assert!((found.accuracy - accuracy).abs() < 1e-9, "{scenario}: {found:?}");
        assert!((found.macro_f1 - f1).abs() <= 0.0005, "{scenario}: {found:?}");
    }
}

/// More answers than cues ran past the end of the set.
#[test]
fn answers_that_do_not_fit_the_set_are_refused() {
    let cues = [cue(0, "grammar", "minor"), cue(1, "grammar", "minor")];
    let error = |ids: &[usize]| {
        let answers: Vec<Answer> = ids.iter().map(|id| recorded(*id, "grammar", "minor")).collect();
        let options = ScoreOptions { scenario: "DR-100".into(), ..ScoreOptions::default() };
        score(&cues, &answers, &options).unwrap_err().to_string()
    };
    assert_eq!(error(&[0, 1, 1]), "cue `1` has two answers; hint: give the answers of one run");
    assert_eq!(
        error(&[0, 1, 2]),
        "an answer has the id `2`, which none of the 2 cues has; hint: the answers may belong to another set"
    );
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A rated test set of one system: eight segments with an error, minor ones in the majority, and six without.
fn rated_testset() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let lines = |line: &dyn Fn(usize) -> String| (0..14).map(|i| line(i) + "\n").collect::<String>();
    let target = |i: usize| format!("那家公司第{i}次去北京参加会议。");
    write(&at("documents/en-zh.docs"), &lines(&|_| "news\td".into()));
    write(&at("sources/en-zh.txt"), &lines(&|i| format!("source {i}")));
    write(&at("references/en-zh.refA.txt"), &lines(&target));
    // The first by name, and not the standard one.
    write(&at("references/en-zh.ALT.txt"), &lines(&|i| format!("其他译文{i}")));
    write(&at("system-outputs/en-zh/refA.txt"), &lines(&target));
    write(&at("system-outputs/en-zh/A.txt"), &lines(&target));
    let rating = |i: usize| {
        let severity = if i < 2 { "Major" } else { "Minor" };
        let error = serde_json::json!({
            "start": 0, "end": 2, "category": "Accuracy/Mistranslation", "severity": severity,
        });
        let errors = if i < 8 { vec![error] } else { Vec::new() };
        format!("A\t{}", serde_json::json!({ "errors": errors }))
    };
    write(&at("human-scores/en-zh.mqm.rater1.seg.rating"), &lines(&rating));
    dir
}

/// Builds a set with the command, and counts its cues by label and severity.
fn build(testset: &Path, pair: &str, set: &str, size: &str) -> Result<(Vec<Cue>, String), String> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("set.jsonl");
    let words = ["promptcue", "build", "-l", pair, "--set", set, "--limit", size, "--testset"];
    let paths = [testset.display().to_string(), "--out".into(), out.display().to_string()];
    let arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).chain(paths).collect();
    program_with(seat, &arguments)?;
    let cues = tribunal::replication::promptcue::gold::read(&out).unwrap();
    let mut cells: BTreeMap<String, usize> = BTreeMap::new();
    for cue in &cues {
        *cells.entry(format!("{} {}", cue.category, cue.severity)).or_default() += 1;
    }
    Ok((cues, format!("{cells:?}")))
}

#[test]
fn sets_are_built_balanced_and_in_scripts_without_spaces() {
    let dir = rated_testset();
    let cells = |set: &str, size: &str| build(dir.path(), "en-zh", set, size).map(|(_, cells)| cells);
    let (cues, _) = build(dir.path(), "en-zh", "mis", "4").unwrap();
    assert!(cues.iter().all(|cue| cue.reference.starts_with("那家公司")), "the standard reference");
    assert_eq!(cells("mis", "4").unwrap(), r#"{"mistranslation major": 2, "mistranslation minor": 2}"#);
    assert_eq!(cells("mis", "10").unwrap(), r#"{"mistranslation major": 2, "mistranslation minor": 5}"#);
    assert_eq!(cells("ptb", "8").unwrap(), r#"{"mistranslation major": 4, "no-error no-error": 4}"#);
    assert!(cells("mis", "5").unwrap_err().contains("an even size"));
}

/// WMT23's zh-en has enough for MIS and PTB as published, and for all of GEN but four cells. The paper filled
/// those up from WMT22, as far as that goes (punctuation 46, word order 35, untranslated 33).
#[test]
fn the_papers_sets_are_built_from_its_data() {
    let Some(data) = published_data() else { return };
    let wmt23 = Path::new(&data).join("wmt23");
    let cells = |set: &str, size: &str| build(&wmt23, "zh-en", set, size).unwrap().1;
    assert_eq!(cells("mis", "1000"), r#"{"mistranslation major": 500, "mistranslation minor": 500}"#);
    assert_eq!(cells("ptb", "1000"), r#"{"mistranslation major": 500, "no-error no-error": 500}"#);
    let (_, cells) = build(&wmt23, "zh-en", "gen", "100").unwrap();
    for label in ERRORS {
        let n_major = match label {
            "inconsistency" => 34,
            "punctuation" => 2,
            "word order" => 31,
            "untranslated" => 27,
            _ => 50,
        };
        let expected = format!(r#""{label} major": {n_major}, "{label} minor": 50"#);
        assert!(cells.contains(&expected), "{expected}: {cells}");
    }
}

/// RUBRIC-MQM's tables and figures that need no model, as a user calls them.
#[test]
fn what_a_set_holds_and_how_recorded_answers_correlate() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let cue = |id: usize, target: &str, category: &str, severity: &str| {
        let cue = serde_json::json!({
            "id": id, "source": "他走了。", "target": target, "error_span": "gone", "category": category,
            "severity": severity, "source_lang": "zh", "target_lang": "en",
        });
        format!("{cue}\n")
    };
    let cues = cue(0, "He is <v>gone</v>.", "grammar", "minor")
        + &cue(1, "He has <v>gone</v> now.", "no-error", "no-error");
    std::fs::write(at("set.jsonl"), cues).unwrap();
    let reviewed = |id: usize, points: &[usize], sqm: f64| {
        let review: String = points.iter().map(|points| format!("\"x\" - grammar - {points}\n")).collect();
        let row = serde_json::json!({"id": id, "review": review, "sqm": sqm, "mqm": -sqm, "gemba": 0.0});
        format!("{row}\n")
    };
    let rows = reviewed(0, &[], 90.0) + &reviewed(1, &[30, 50], 60.0) + &reviewed(2, &[70], 80.0);
    std::fs::write(at("review_a.jsonl"), rows).unwrap();
    let answer = |id: usize, review: &str| format!("{}\n", serde_json::json!({"id": id, "review": review}));
    let answers = answer(0, "\"gone\" - grammar - 30") + &answer(1, "\"gone\" - addition - 60");
    std::fs::write(at("DR-100_set.jsonl"), answers).unwrap();
    let said = |arguments: &[&str]| program(&[&["promptcue"], arguments].concat()).unwrap().0;
    insta::assert_snapshot!(said(&["describe", "--gold", &at("set.jsonl")]), @"
                        n  mean  least  most
    ────────────────────────────────────────
    source, characters  2  4.00      4     4
    target, words       2  3.50      3     4
    minor               1
    no-error            1
    grammar             1
    no-error            1
    ");
    insta::assert_snapshot!(
        said(&["correlate", "--answers", &at("review_a.jsonl"), "--plots", &at("plots")]),
        @"
    answers    score  n  Pearson  Spearman  Kendall     mean      min      25%      50%      75%      max  distinct
    ───────────────────────────────────────────────────────────────────────────────────────────────────────────────
    review_a     sum  3    0.826     1.000    1.000  -50.000  -80.000  -70.000  -70.000    0.000    0.000         3
    review_a    mean  3    0.404     0.500    0.333  -36.667  -70.000  -40.000  -40.000    0.000    0.000         3
    review_a   GEMBA  3        -         -        -    0.000    0.000    0.000    0.000    0.000    0.000         1
    review_a     MQM  3   -1.000    -1.000   -1.000  -76.667  -90.000  -80.000  -80.000  -60.000  -60.000         3
    review_a  DA+SQM  3    1.000     1.000    1.000   76.667   60.000   80.000   80.000   90.000   90.000         3
    "
    );
    assert!(std::fs::read_to_string(at("plots/review_a_sum.svg")).unwrap().starts_with("<svg"));
    let scored = said(&["score", "--gold", &at("set.jsonl"), "--answers", &at("DR-100_set.jsonl")]);
    assert!(scored.contains("category of cues without an error") && scored.contains("addition"), "{scored}");
}

#[test]
fn promptcue_scores_answers() {
    let dir = tempfile::tempdir().unwrap();
    let gold = dir.path().join("set.csv");
    write(
        &gold,
        "id,source,reference,target,error_span,category,severity,source_lang,target_lang\n\
         0,s,r,\"a, <v>b</v>\",b,mistranslation,major,x,y\n1,s,r,<v>c</v> d,c,no-error,no-error,x,y\n",
    );
    let answers = dir.path().join("DR-100_set.jsonl");
    write(
        &answers,
        "{\"id\":0,\"review\":\"\\\"b\\\" - mistranslation - 73\"}\n{\"id\":1,\"review\":\"\\\"c\\\" - grammar - 10\"}\n",
    );
    let (gold, answers) = (gold.display().to_string(), answers.display().to_string());
    let (text, _) = run(&["promptcue", "score", "--gold", &gold, "--answers", &answers, "--json"]).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["scenario"], &json["category"]["accuracy"]),
        (&Value::from("DR-100"), &Value::from(0.5))
    );
    assert_eq!((&json["major_precision"], &json["no_error_recall"]), (&Value::from(1.0), &Value::from(0.0)));
    let unknown = run(&["promptcue", "score", "--gold", &gold, "--answers", &answers, "--scenario", "XX"]);
    assert!(unknown.unwrap_err().contains("unknown scenario `XX`"));
}
