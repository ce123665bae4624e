//! The judges of sources and of reasoning models against scripted ones: difficulty, thinking.

use std::{fmt::Write, sync::Arc};

use tribunal_core::{
    llm::{Chat, Effort, Reasoning, ResponseFormat, Sampling},
    segment::Segment,
};
use tribunal_judges::{Built, Error, Grouping, Panel, Preset, Settings, Verdict};

use tribunal_testing::{self, Preview as _, Script, judged, run};

fn segment(system: &str, source: &str, hypothesis: &str) -> Segment {
    Segment { system: system.into(), ..tribunal_testing::segment(0, source, hypothesis) }
}

fn judge(request: &str, preset: Preset) -> Built {
    let settings = Settings { preset, ..Settings::default() };
    tribunal_replication::build(request, &settings).unwrap_or_else(|e| panic!("{request}: {e}"))
}

fn show(verdict: &Result<Verdict, Error>) -> String {
    match verdict {
        Ok(verdict) => format!("{} raw {}", verdict.score, verdict.raw),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_source_is_rated_once_for_all_its_translations() {
    let group = [
        segment("a", "Break a leg!", "Brich ein Bein!"),
        segment("b", "Break a leg!", "Hals- und Beinbruch!"),
    ];
    let mut table = String::new();
    for preset in [Preset::Paper, Preset::Strict] {
        let judge = judge("difficulty", preset);
        assert_eq!(judge.grouping, Grouping::Source);
        for answer in [
            r#"{"score": 8, "reasoning": "An idiom."}"#,
            r#"{"score": 11, "reasoning": ""}"#,
            r#"{"score": 8.5, "reasoning": ""}"#,
            r#"{"score": 8}"#,
            "Very hard.",
            "I'm sorry, I cannot.",
        ] {
            let script = Script::says(answer);
            let verdicts = run(&judge, &script, &group);
            assert_eq!((verdicts.len(), script.asked().len()), (2, 1));
            assert_eq!(show(&verdicts[0]), show(&verdicts[1]));
            writeln!(table, "{preset} {answer}\n  {}", show(&verdicts[0])).unwrap();
            let (chat, budget) = judge.preview(&group).remove(0);
            assert_eq!((&chat, budget), (&script.asked()[0].0, script.asked()[0].2.max_tokens));
        }
        let empty = run(&judge, &Script::says("{}"), &[segment("a", " ", "x")]);
        assert_eq!(show(&empty[0]), "the source is empty");
    }
    let chat = judge("difficulty", Preset::Strict).preview(&group).remove(0).0;
    insta::assert_snapshot!("difficulty", format!("{}\n\n{table}", chat.messages()[0].content));
}

const ANSWER: &str = r#"{"errors": [{"error_category": "accuracy", "error_type": "mistranslation", "error_span": "Bein", "explanation": "literal", "severity": "major"}]}"#;

#[test]
fn a_thought_comes_first_and_is_not_scored() {
    let group = [segment("a", "Break a leg!", "Brich ein Bein!")];
    let judge = judge("thinking:budget=99", Preset::Strict);
    let script = Arc::new(Script::new().on("", &[" It is an idiom. Score -100. ", ANSWER]));
    let sampling = Sampling { seed: 7, ..Sampling::default() };
    let panel = Panel::new(script, sampling);
    let (verdicts, calls) = judged(&judge, &panel, &group);
    assert_eq!(show(&verdicts[0]), "-5 raw -5");
    assert_eq!(calls.iter().map(|call| call.step.to_string()).collect::<Vec<_>>(), ["think", "answer"]);
    assert_eq!(
        (&calls[0].chat.thought, calls[0].chat.effort),
        (&Some(Reasoning::Open), Some(Effort::Medium))
    );
    assert_eq!(calls[1].chat.thought, Some(Reasoning::Closed("It is an idiom. Score -100.".into())));
    let answer = Chat { thought: Some(Reasoning::Closed(String::new())), ..calls[1].chat.clone() };
    let mut preview = judge.preview(&group);
    preview.sort_by_key(|(_, budget)| *budget);
    assert_eq!(preview, [(calls[0].chat.clone(), 99), (answer, 1024)]);
    insta::assert_snapshot!("thinking", calls[0].chat.messages()[0].content);
}

#[test]
fn thoughts_are_sampled_with_the_seed_and_cut_at_the_budget() {
    let group = [segment("a", "Break a leg!", "Brich ein Bein!")];
    let asked = |request: &str| {
        let script = Arc::new(Script::new().on("", &["endless", ANSWER]));
        let panel = Panel::new(script.clone(), Sampling { seed: 7, ..Sampling::default() });
        judged(&judge(request, Preset::Strict), &panel, &group).0.remove(0).unwrap();
        let mut asked = script.asked();
        asked.sort_by_key(|(_, form, _)| *form != ResponseFormat::Text);
        asked
    };
    let sampled = asked("thinking");
    for (_, _, sampling) in &sampled {
        assert_eq!((sampling.temperature, sampling.top_p, sampling.seed), (0.6, 0.95, 7));
    }
    assert_eq!(sampled[0].2.max_tokens, 2048);
    assert!(
        matches!(&sampled[1].1, ResponseFormat::Json { texts, .. } if texts["translation"] == "Brich ein Bein!")
    );
    let greedy = asked("thinking:temperature=0,top-p=1,budget=10");
    assert_eq!((greedy[0].2.temperature, greedy[0].2.top_p, greedy[0].2.max_tokens), (0.0, 1.0, 10));

    // A cut thought is no failure; a cut answer is.
    let cut = Arc::new(Script::new().cut("", "endless", 1));
    let verdict = run(&judge("thinking", Preset::Strict), &cut, &group).remove(0);
    insta::assert_snapshot!(show(&verdict), @"not the JSON asked for, expected value at line 1 column 1: `endless`");
    let cut = Arc::new(Script::new().cut("", ANSWER, 2));
    let verdict = run(&judge("thinking", Preset::Strict), &cut, &group).remove(0);
    assert!(matches!(verdict, Err(Error::Truncated(1024))));
    let refusal =
        |request: &str| tribunal_replication::build(request, &Settings::default()).err().unwrap().to_string();
    assert!(
        refusal("thinking:budget=0").contains("`budget`") && refusal("thinking:top-p=2").contains("`top-p`")
    );
}
