//! Preset `strict`: constrained turns, their forms, and how the loop ends.

use super::*;

fn tools(form: &ResponseFormat) -> String {
    let ResponseFormat::Json { schema, .. } = form else { panic!("{form:?}") };
    let calls = schema.pointer("/properties/tool_call/anyOf").unwrap().as_array().unwrap();
    let name = |call: &serde_json::Value| {
        let arguments = call.pointer("/properties/arguments/properties").unwrap().as_object().unwrap();
        let scores = arguments.get("tentative_score").map_or(String::new(), |s| s["enum"].to_string());
        let keys = arguments.keys().cloned().collect::<Vec<_>>().join(" ");
        format!("{}({keys}){scores}", call.pointer("/properties/name/const").unwrap().as_str().unwrap())
    };
    calls.iter().map(name).collect::<Vec<_>>().join(" | ")
}

#[test]
fn strict_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let judge = judge(&format!("rate:search={}", index(dir.path())), Preset::Strict);
    assert_eq!(judge.grouping, Grouping::Source);
    let agents = Agents::new(
        &[
            turn("search_agent", &serde_json::json!({ "query": "夺笋" })),
            turn("general_evaluation_agent", &serde_json::json!({ "specific_instruction": "Check the slang." })),
            turn(
                "comparison_agent",
                &serde_json::json!({ "tentative_score": 2, "synthetic_low_anchor": "LOW", "synthetic_high_anchor": "HIGH" }),
            ),
            turn("comparison_agent", &serde_json::json!({ "tentative_score": 3 })),
            turn("finish_evaluation", &serde_json::json!({ "final_score": 2.5, "final_rationale": "r" })),
        ],
        &[evaluation(2, "0.8")],
    )
    .searching(&[r#"{"search_query": [{"q": "夺笋"}, {"q": "slang"}]}"#.into(), format!(r#"{{"answer": "{NOTE}", "reasoning": ""}}"#)])
    .comparing("How ridiculous!", "A", "Tie");
    let (verdicts, calls) = agents.judge(&judge, &one());
    assert_eq!(score(&verdicts[0]), "2.5");
    let mut shown = format!("{}\n", stages(&calls));
    for (stage, script) in [("evaluate", &agents.evaluator), ("search", &agents.search)] {
        for (chat, form, _) in script.asked() {
            let ResponseFormat::Json { schema, texts } = form else { panic!("a constrained form") };
            writeln!(shown, "=== {stage} ===").unwrap();
            for turn in chat.messages() {
                writeln!(shown, "<<< {:?} >>>\n{}", turn.role, turn.content).unwrap();
            }
            writeln!(shown, "<<< Form >>> {schema} {texts:?}").unwrap();
        }
    }
    shown += &told(&calls);
    insta::assert_snapshot!("rate_strict", shown);
    // Its next steps depend on its state.
    let mut forms: Vec<(usize, String)> =
        agents.core.asked().iter().map(|(chat, form, _)| (chat.messages().len(), tools(form))).collect();
    forms.sort();
    let forms: Vec<String> = forms.into_iter().map(|(_, tools)| tools).collect();
    insta::assert_snapshot!(forms.join("\n"), @"
    search_agent(query) | general_evaluation_agent(specific_instruction)
    search_agent(query) | general_evaluation_agent(specific_instruction)
    search_agent(query) | general_evaluation_agent(specific_instruction) | comparison_agent(tentative_score synthetic_low_anchor synthetic_high_anchor)[0,1,2,3,4] | finish_evaluation(final_score final_rationale)
    search_agent(query) | general_evaluation_agent(specific_instruction) | comparison_agent(tentative_score)[0,1,3,4] | finish_evaluation(final_score final_rationale)
    search_agent(query) | general_evaluation_agent(specific_instruction) | comparison_agent(tentative_score)[0,1,4] | finish_evaluation(final_score final_rationale)
    ");
}

#[test]
fn strict_is_forced_to_an_end_and_isolated() {
    let judge = judge("rate:rounds=1,memory=isolated", Preset::Strict);
    let group = [translation("1", "One."), translation("2", "Two.")];
    let agents = Agents {
        core: Arc::new(
            Script::new()
                .on(
                    "is reached",
                    &[&turn(
                        "finish_evaluation",
                        &serde_json::json!({ "final_score": 1, "final_rationale": "" }),
                    )],
                )
                .on(
                    "",
                    &[&turn("general_evaluation_agent", &serde_json::json!({ "specific_instruction": "" }))],
                ),
        ),
        ..Agents::new(&[], &[evaluation(1, "0.2")])
    };
    let (verdicts, calls) = agents.judge(&judge, &group);
    assert_eq!(verdicts.iter().map(score).collect::<Vec<_>>(), ["1", "1"]);
    assert_eq!(stages(&calls), "core@1 evaluate@1 core@2 core@1 evaluate@1 core@2");
    let searches = |call: &Call| call.chat.messages()[0].content.contains("search_agent");
    assert!(!calls.iter().any(searches), "nobody searches");
    assert!(!calls[3].chat.messages()[1].content.contains("[System Memory]"));
    let forced = agents.core.asked().into_iter().find(|(chat, ..)| chat.messages().len() > 2).unwrap();
    assert_eq!(tools(&forced.1), "finish_evaluation(final_score final_rationale)");
}

/// The evaluation agent is offered again when it is not sure, once, and after each search.
#[test]
fn evaluations_that_could_say_nothing_new_are_not_offered() {
    let dir = tempfile::tempdir().unwrap();
    let index = index(dir.path());
    let offered = |confidence: &str, core: &[(&str, serde_json::Value)]| {
        let end = ("finish_evaluation", serde_json::json!({ "final_score": 1, "final_rationale": "" }));
        let turns: Vec<String> =
            core.iter().chain([&end]).map(|(name, arguments)| turn(name, arguments)).collect();
        let agents = Agents::new(&turns, &[evaluation(1, confidence)]).searching(&[
            r#"{"search_query": [{"q": "夺笋"}]}"#.into(),
            r#"{"answer": "A pun.", "reasoning": ""}"#.into(),
        ]);
        let judge = judge(&format!("rate:search={index}"), Preset::Strict);
        let (verdicts, _) = agents.judge(&judge, &one());
        assert_eq!(score(&verdicts[0]), "1");
        let forms = agents.core.in_order();
        forms
            .iter()
            .map(|(_, form, _)| u8::from(tools(form).contains("general_evaluation")))
            .collect::<Vec<_>>()
    };
    let evaluate = |instruction: &str| {
        ("general_evaluation_agent", serde_json::json!({ "specific_instruction": instruction }))
    };
    let search = || ("search_agent", serde_json::json!({ "query": "夺笋" }));
    assert_eq!(offered("0.95", &[evaluate("")]), [1, 0]);
    assert_eq!(offered("0.8", &[evaluate(""), evaluate("again")]), [1, 1, 0]);
    assert_eq!(offered("0.95", &[evaluate(""), search(), evaluate("")]), [1, 0, 1, 0]);
    assert_eq!(
        offered("0.8", &[evaluate(""), evaluate("")]),
        [1, 1, 1],
        "the same question is not asked twice"
    );
}

/// Answers that cannot be used are requested again; the attempts are on record.
#[test]
fn a_bad_answer_is_asked_again() {
    let evaluate = turn("general_evaluation_agent", &serde_json::json!({ "specific_instruction": "" }));
    let end = turn("finish_evaluation", &serde_json::json!({ "final_score": 3, "final_rationale": "" }));
    let agents =
        Agents::new(&["?".into(), evaluate, end], &["?".into(), evaluation(7, "0.9"), evaluation(3, "1.0")]);
    let (verdicts, calls) = agents.judge(&judge("rate", Preset::Strict), &one());
    assert_eq!(score(&verdicts[0]), "3");
    let tried: Vec<String> = calls.iter().map(|call| format!("{} {}", call.step, call.attempt)).collect();
    assert_eq!(tried, ["core@1 0", "core@1 1", "evaluate@1 0", "evaluate@1 1", "evaluate@1 2", "core@2 0"]);
    let seeds: Vec<(u64, f32)> = agents
        .evaluator
        .in_order()
        .iter()
        .map(|(.., sampling)| (sampling.seed, sampling.temperature))
        .collect();
    assert_eq!(seeds[0], (0, 0.0));
    assert!(seeds.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{seeds:?}");
}
