//! FSP with whole documents, left-out sentences and short contexts, and GMICL-5, against a scripted model.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use tribunal_core::{
    llm::{Chat, ResponseFormat, Sampling},
    segment::Segment,
};
use tribunal_judges::{Built, Error, Granularity, Panel, Preset, Settings, Unit};

use tribunal_testing::{
    PAPER_ANSWER, Preview as _, STRICT_ANSWER, Script, Short, conversation, document, judge, judged,
    published_data, run, segment, settings, show, show_question, strict_answer,
};

/// A document in one segment: six sentences, the second and the fifth alike.
fn whole() -> Vec<Segment> {
    let source = "He went. She stayed. It rained. They met. She stayed. The end.";
    let hypothesis = "Er ging. Sie blieb. Es regnete. Sie trafen sich. Sie blieb. Ende.";
    vec![Segment { doc: String::new(), ..segment(0, source, hypothesis) }]
}

const QUIET: &str = r#"{"errors":[],"quality_score":90}"#;

fn error(span: &str, kind: &str, quality: u8) -> String {
    format!(
        r#"{{"errors":[{{"error_category":"accuracy","error_type":"{kind}","error_span":"{span}","severity":"major"}}],"quality_score":{quality}}}"#
    )
}

#[test]
fn a_whole_document_is_judged_sentence_by_sentence() {
    let judge = judge("fsp:shots=0,explain=off", &Settings::default());
    let second = error("Sie", "mistranslation", 40);
    let script = Arc::new(
        Script::new()
            .on("occurrence 2 of 2", &[&second])
            .on("<target_segment>Ende.", &[&error("The end", "omission", 60)])
            .on("", &[QUIET]),
    );
    let panel = Panel::new(script.clone(), Sampling::default());
    let (verdicts, calls) = judged(&judge, &panel, &whole());
    // The error of the fifth sentence is not placed in the second, which is alike.
    insta::assert_snapshot!("fsp_sentences", show(&verdicts[0]));
    assert_eq!(script.asked().len(), 6);
    assert_eq!(judge.preview(&whole()).len(), 6);
    assert!(calls.iter().all(|call| call.unit == Some(0)));
    let (_, ResponseFormat::Json { texts, .. }, _) = &script.in_order()[0] else { panic!("a JSON form") };
    assert!(
        ["Er ging.", "Sie blieb.", "Es regnete.", "Sie trafen sich.", "Ende."]
            .contains(&texts["target_segment"].as_str())
    );
}

#[test]
fn which_segments_are_cut() {
    let n_asked = |request: &str, settings: &Settings, group: &[Segment]| {
        let script = Script::says(QUIET);
        let verdicts = run(&judge(request, settings), &script, group);
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        script.asked().len()
    };
    let strict = Settings::default();
    let seg = Settings { granularity: Some(Granularity::Seg), ..Settings::default() };
    assert_eq!(n_asked("fsp:shots=0", &strict, &whole()), 6);
    assert_eq!(n_asked("fsp:shots=0", &seg, &whole()), 1, "seg shows segments as they are");
    assert_eq!(n_asked("fsp:shots=0,sentences=off", &strict, &whole()), 1);
    assert_eq!(n_asked("fsp:shots=0", &settings(Preset::Paper), &whole()), 1);
    assert_eq!(n_asked("fsp:shots=0", &strict, &document()), 3, "segments of a document are left alone");
    let two = [segment(0, "A. B.", "C. D."), segment(1, "E.", "F.")];
    assert_eq!(n_asked("fsp:shots=0", &strict, &two), 2);
    assert_eq!(n_asked("fsp:shots=0,sentences=on", &strict, &two), 3);
    // The whole sentence replaces the omission that the focus marked in it.
    let five: Vec<Segment> =
        (0..5).map(|n| Segment { doc: format!("d{n}"), seg: n, ..whole().remove(0) }).collect();
    let five_docs = Settings { granularity: Some(Granularity::FiveDoc), ..Settings::default() };
    assert_eq!(n_asked("fsp:shots=0", &five_docs, &five), 30);
    for option in ["sentences", "omissions", "window"] {
        let paper = tribunal_replication::build(&format!("fsp:{option}=on"), &settings(Preset::Paper));
        assert!(paper.err().unwrap().to_string().contains("beyond the paper"), "{option}");
    }
}

#[test]
fn one_bad_sentence_leaves_no_verdict() {
    let script = Arc::new(Script::new().on("<target_segment>Ende.", &["?"]).on("", &[QUIET]));
    let verdicts = run(&judge("fsp:shots=0", &Settings::default()), &script, &whole());
    assert!(matches!(&verdicts[0], Err(Error::Unparsable(_))), "{verdicts:?}");
}

#[test]
fn omitted_sentences() {
    let request = "fsp:shots=0,explain=off,omissions=on";
    let judge = judge(request, &Settings::default());
    let group = [
        segment(0, "He went. It rained.", "Er ging."),
        segment(1, "She stayed.", "Sie blieb."),
        segment(2, "", ""),
    ];
    let within = error("rained", "omission", 50);
    let scene = |omissions: &str| {
        let script = Script::new()
            .on("leaves out altogether", &[omissions])
            .on("<target_segment>Er ging.", &[&within])
            .on("", &[QUIET]);
        Arc::new(script)
    };
    let found =
        scene(r#"{"omissions":[{"sentence":2,"severity":"critical"},{"sentence":2,"severity":"minor"}]}"#);
    let verdicts = run(&judge, &found, &group);
    // The omission that the focus marked in the sentence gives way to the whole sentence.
    insta::assert_snapshot!("fsp_omitted", verdicts.iter().map(show).collect::<String>());
    let asked = found.asked();
    let (chat, form, _) =
        asked.iter().find(|(chat, ..)| chat.messages()[0].content.contains("leaves out")).unwrap();
    insta::assert_snapshot!("fsp_omissions", show_question(chat, form));
    assert_eq!(asked.len(), judge.preview(&group).len());

    let none = run(&judge, &scene(r#"{"omissions":[]}"#), &group);
    assert!(none[0].is_ok() && none[1].is_ok() && none[2].is_err());
    for wrong in
        ["They are all there.", r#"{"omissions":[{"sentence":4,"severity":"major"}]}"#, "I'm sorry, no."]
    {
        let verdicts = run(&judge, &scene(wrong), &group);
        assert!(
            verdicts.iter().all(Result::is_err),
            "without this answer the scores would be too good: {wrong}"
        );
    }
}

/// The sources and translations that the questions show, with the focus.
fn shown(judge: &Built, group: &[Segment], room: usize) -> (Vec<String>, Vec<Result<(), String>>) {
    let (chat, _) = judge.preview(group).remove(0);
    let whole = chat.messages()[0].content.len();
    let script = Script::says(QUIET);
    let panel = Panel::new(Arc::new(Short(whole - room, script.clone())), Sampling::default());
    let verdicts =
        judged(judge, &panel, group).0.into_iter().map(|v| v.map(|_| ()).map_err(|e| e.to_string()));
    let verdicts = verdicts.collect();
    let between = |text: &str, tag: &str| {
        let inside =
            text.rsplit_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")));
        inside.map_or(String::new(), |(inside, _)| inside.replace('\n', "|"))
    };
    let line = |(chat, ..): &(Chat, ResponseFormat, Sampling)| {
        let text = &chat.messages()[0].content;
        // The instruction names the tags too; the input stands behind it.
        let input = text.rsplit_once("Please score the following input").unwrap().1;
        let input = input.split("Please respond").next().unwrap();
        ["source", "translation", "target_segment"].map(|tag| between(input, tag)).join(" / ")
    };
    (script.asked().iter().map(line).collect(), verdicts)
}

#[test]
fn a_window_over_segments() {
    let group: Vec<Segment> =
        (0..8).map(|n| segment(n, &format!("Source {n}."), &format!("Target {n}."))).collect();
    let judge = judge("fsp:shots=0,window=on", &Settings::default());
    let (questions, verdicts) = shown(&judge, &group, 1);
    assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    insta::assert_snapshot!("fsp_window", questions.join("\n"));
    // Without the option a document that does not fit has no verdict.
    let plain = tribunal_testing::judge("fsp:shots=0", &Settings::default());
    let (questions, verdicts) = shown(&plain, &group, 1);
    assert!(questions.is_empty() && verdicts.iter().all(|v| v.as_ref().unwrap_err().contains("context")));
    // Nor has one whose every single segment is too long.
    let (_, verdicts) = shown(&judge, &group, 8 * 24 + 100);
    assert!(verdicts.iter().all(Result::is_err));
}

#[test]
fn a_window_over_sentences() {
    let judge = judge("fsp:shots=0,window=on", &Settings::default());
    let (questions, verdicts) = shown(&judge, &whole(), 20);
    assert_eq!(verdicts, [Ok(())]);
    insta::assert_snapshot!("fsp_window_sentences", questions.join("\n"));
}

/// Rated segments: thirty documents of two segments.
fn rated() -> tempfile::NamedTempFile {
    let line = |doc: usize, seg: usize| {
        let error = serde_json::json!({"category": "fluency/grammar", "span": format!("ziel{doc}"), "severity": "minor"});
        let line = serde_json::json!({
            "source_lang": "English", "source": format!("source {doc}.{seg}"), "target_lang": "German",
            "target": format!("ziel{doc} {seg}"), "errors": if seg == 0 { vec![error] } else { vec![] },
            "system": "A", "doc": format!("d{doc:02}"),
        });
        format!("{line}\n")
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = (0..30).flat_map(|doc| [line(doc, 0), line(doc, 1)]).collect();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn with_shots(preset: Preset, granularity: Option<Granularity>, shots: PathBuf) -> Settings {
    Settings { preset, granularity, shots: Some(shots), ..Settings::default() }
}

#[test]
fn gmicl_conversations() {
    let file = rated();
    let with = |preset, granularity| with_shots(preset, granularity, file.path().into());
    let strict = r#"{"errors":[{"error_category":"fluency","error_type":"grammar","error_span":"Bank","explanation":"Why.","severity":"minor"}],"quality_score":71}"#;
    let paper = r#"{"errors":[{"error_span":"Bank","error_category":"fluency","error_type":"grammar","severity":"minor"}]}"#;
    insta::assert_snapshot!(
        "gmicl_strict",
        conversation("gmicl", &with(Preset::Strict, None), &document(), strict)
    );
    insta::assert_snapshot!(
        "gmicl_paper_seg_bare",
        conversation(
            "gmicl:da=off,explain=off",
            &with(Preset::Paper, Some(Granularity::Seg)),
            &document()[..1],
            paper
        )
    );
    let five = judge("gmicl:score=da", &with(Preset::Strict, Some(Granularity::FiveDoc)));
    assert_eq!(five.unit, Unit::Group);
    let (chat, budget) = five.preview(&document()).remove(0);
    let inputs = chat.messages()[0].content.matches("<input>").count();
    assert_eq!((inputs, budget), (6, 4096), "five examples and the question");
    let verdict = run(&five, &Script::says(strict), &document()).remove(0).unwrap();
    assert_eq!(verdict.score.to_bits(), 71f64.to_bits());
}

#[test]
fn gmicl_examples() {
    let file = rated();
    let of = |seed: u64| {
        let settings = Settings { seed, ..with_shots(Preset::Strict, None, file.path().into()) };
        judge("gmicl", &settings).signature().method.get("examples").unwrap().to_owned()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2), "the signature has the examples that the seed drew");
    let error =
        |settings: &Settings| tribunal_replication::build("gmicl", settings).err().unwrap().to_string();
    // Without rated translations it has prompts to show, and accepts no input.
    let unused = judge("gmicl", &Settings::default()).protocol().check_input(&document()).unwrap_err();
    assert_eq!(unused.to_string(), "gmicl takes its examples from rated translations");
    assert!(
        tribunal_replication::build(
            "gmicl:da=off,score=da",
            &with_shots(Preset::Strict, None, file.path().into())
        )
        .is_err()
    );
    std::fs::write(file.path(), "{\"source\": 1}\n").unwrap();
    let broken = with_shots(Preset::Strict, None, file.path().into());
    assert!(error(&broken).contains("line 1: "), "{}", error(&broken));
}

#[test]
fn gmicl_refuses_examples_from_documents_under_judgement() {
    let file = rated();
    let with = || with_shots(Preset::Strict, Some(Granularity::Seg), file.path().into());
    let shown = judge("gmicl", &with()).preview(&document()).remove(0).0.messages()[0].content.clone();
    let of_example = shown.split("<source>").nth(2).unwrap().split('<').next().unwrap().to_owned();
    let mut same = document();
    same[1].source = of_example;
    same[1].doc = "mine".into();
    let refused = judge("gmicl", &with()).protocol().check_input(&same).unwrap_err().to_string();
    assert!(refused.contains("document `mine`") && refused.contains("overlap=allow"), "{refused}");
    assert!(judge("gmicl", &with()).protocol().check_input(&document()).is_ok());
    assert!(judge("gmicl:overlap=allow", &with()).protocol().check_input(&same).is_ok());
    // A text in other case counts as the same.
    same[1].source = same[1].source.to_uppercase();
    assert!(judge("gmicl", &with()).protocol().check_input(&same).is_err(), "{}", same[1].source);
}

/// The printed schema lets a span be any string: a span that is not in the text has no place, and stays in
/// the verdict.
#[test]
fn spans_of_the_paper_preset_are_any_string() {
    let paper = Settings { preset: Preset::Paper, ..Settings::default() };
    let answer = r#"{"errors":[{"error_span":"nirgends im Text","explanation":"","error_category":"other","error_type":"other","severity":"minor"}],"quality_score":71}"#;
    let script = Script::says(answer);
    let verdict = run(&judge("fsp", &paper), &script, &document()[..1]).remove(0).unwrap();
    assert_eq!((verdict.errors.len(), verdict.errors[0].start), (1, None));
    let (_, form, _) = script.in_order().remove(0);
    let ResponseFormat::Json { schema, .. } = form else { panic!("{form:?}") };
    let span = &schema["properties"]["errors"]["items"]["properties"]["error_span"];
    assert_eq!(span, &serde_json::json!({ "type": "string" }));
}

#[test]
fn gmicl_unusable_answers() {
    let file = rated();
    let judge = judge("gmicl", &with_shots(Preset::Strict, Some(Granularity::Seg), file.path().into()));
    let mut table = String::new();
    for answer in
        ["I cannot assist with that.", r#"{"errors":[]}"#, r#"{"errors":[],"quality_score":101}"#, "", QUIET]
    {
        let verdict = run(&judge, &Script::says(answer), &document()[..1]).remove(0);
        write!(table, "{answer:?}\n  {}", show(&verdict)).unwrap();
    }
    insta::assert_snapshot!("gmicl_unusable", table);
    let cut = Arc::new(Script::new().cut("", "{", 1));
    assert!(matches!(run(&judge, &cut, &document()[..1])[0], Err(Error::Truncated(2048))));
}

/// Five real examples of each granularity from the rated test set of WMT 2023: those that the paper names.
#[test]
fn gmicl_examples_of_a_rated_test_set() {
    let Some(data) = published_data() else { return };
    let testset = data.join("wmt23");
    for granularity in [Granularity::Seg, Granularity::Doc, Granularity::FiveDoc] {
        let judge = judge("gmicl", &with_shots(Preset::Strict, Some(granularity), testset.clone()));
        let (chat, _) = judge.preview(&document()).remove(0);
        let prompt = &chat.messages()[0].content;
        assert_eq!(prompt.matches("MQM:\n{").count(), 5, "{granularity}");
        let sources = std::fs::read_to_string(testset.join("sources/en-de.txt")).unwrap();
        // The first lines of the six documents.
        let firsts = [37, 282, 469, 366, 77, 518].map(|at| sources.lines().nth(at).unwrap());
        let n = firsts.map(|text| prompt.matches(text).count());
        let expected = match granularity {
            Granularity::Seg => continue,
            Granularity::Doc => [1, 1, 1, 1, 1, 0],
            // Twenty-five places.
            Granularity::FiveDoc => [5, 4, 4, 4, 4, 4],
        };
        assert_eq!(n, expected, "{granularity}");
        let places = firsts[..5].iter().map(|text| prompt.find(text).unwrap());
        assert!(places.is_sorted(), "{granularity}");
    }
}

#[test]
fn fsp_conversations() {
    let document = document();
    insta::assert_snapshot!(
        "fsp_strict",
        conversation("fsp", &settings(Preset::Strict), &document, STRICT_ANSWER)
    );
    insta::assert_snapshot!(
        "fsp_paper_zero_shot",
        conversation("fsp:shots=0", &settings(Preset::Paper), &document[..2], PAPER_ANSWER)
    );
    insta::assert_snapshot!(
        "fsp_paper_three_shots_seg",
        conversation(
            "fsp:score=da",
            &Settings { granularity: Some(Granularity::Seg), ..settings(Preset::Paper) },
            &document[..1],
            PAPER_ANSWER
        )
    );
    insta::assert_snapshot!(
        "fsp_strict_bare",
        conversation(
            "fsp:shots=0,explain=off",
            &settings(Preset::Strict),
            &document[..1],
            &strict_answer(false, true)
        )
    );
}

#[test]
fn fsp_answers_go_to_their_segments() {
    let answer = |score: u8| format!(r#"{{"errors":[],"quality_score":{score}}}"#);
    let script = Arc::new(
        Script::new()
            .on("occurrence 1 of 2", &[&answer(10)])
            .on("occurrence 2 of 2", &[&answer(30)])
            .on("<target_segment>Die Bank", &[&answer(20)]),
    );
    let judge = judge("fsp:score=da,shots=0", &Settings::default());
    let panel = Panel::new(script.clone(), Sampling::default());
    let (verdicts, calls) = judged(&judge, &panel, &document());
    let scores: Vec<_> = verdicts.into_iter().map(|v| v.unwrap().score).collect();
    assert_eq!(scores, [10.0, 20.0, 30.0]);
    let units: Vec<_> = calls.iter().map(|call| call.unit).collect();
    assert_eq!(units, [Some(0), Some(1), Some(2)], "calls name their segment");

    // One prefix for the whole group, up to the focus.
    let prefixes: Vec<_> = script
        .asked()
        .iter()
        .map(|(chat, ..)| {
            chat.messages()[0].content.rsplit_once("<target_segment>Er").map(|(prefix, _)| prefix.to_owned())
        })
        .collect();
    assert_eq!(prefixes[1], prefixes[2]);
    assert!(prefixes[1].as_ref().unwrap().ends_with("Er ging zur Bank.</translation>\n"));
}

#[test]
fn an_unanswered_question_fails_alone() {
    let script = Arc::new(Script::new().on("<target_segment>Die", &[r#"{"errors":[],"quality_score":99}"#]));
    let verdicts = run(&judge("fsp:shots=0", &Settings::default()), &script, &document());
    let shown: String = verdicts.iter().map(show).collect();
    insta::assert_snapshot!(shown, @"
Failed: the engine failed: the script has no answer
score 0 raw 0 quality 99
Failed: the engine failed: the script has no answer
");
}
