//! Answers that cannot be used.

use super::*;

#[test]
fn what_the_core_agent_is_told_of_its_faults() {
    let judge = judge("rate:rounds=8", Preset::Paper);
    let agents = Agents::new(
        &[
            "I am sure that it is fine.".into(),
            call("ask_a_friend", &[]),
            search("夺笋"),
            call("comparison_agent", &[("tentative_score", "many")]),
            compare("2"),
            cold("2"),
            compare("2"),
            evaluate(),
            finish("1.5"),
        ],
        &[evaluation(2, "0.9")],
    )
    .comparing("How ridiculous!", "Tie", "Tie");
    let (verdicts, calls) = agents.judge(&judge, &one());
    assert_eq!(score(&verdicts[0]), "1.5", "at the forced end");
    insta::assert_snapshot!("rate_faults", told(&calls));
}

#[test]
fn unusable_answers_at_every_stage() {
    let dir = tempfile::tempdir().unwrap();
    let request = format!("rate:rounds=2,search={}", index(dir.path()));
    let summary = r#"{"answer": "x", "reasoning": "y"}"#.to_owned();
    let found = [asks("夺笋"), summary];
    let good = [evaluation(2, "0.5")];
    let cases: Vec<(&str, Agents)> = vec![
        ("no end", Agents::new(&["no call".into()], &good)),
        ("another tool at the end", Agents::new(&[evaluate()], &good)),
        ("score out of range at the end", Agents::new(&[finish("7")], &good)),
        ("evaluation: prose", Agents::new(&[evaluate()], &["It is fine.".into()])),
        ("evaluation: refusal", Agents::new(&[evaluate()], &["I'm sorry, but no.".into()])),
        ("evaluation: score", Agents::new(&[evaluate()], &[evaluation(5, "0.5")])),
        ("evaluation: confidence", Agents::new(&[evaluate()], &[evaluation(2, "1.5")])),
        ("search: no call", Agents::new(&[search("x")], &good).searching(&["夺笋".into()])),
        (
            "search: no list",
            Agents::new(&[search("x")], &good).searching(&[call("search", &[("search_query", "x")])]),
        ),
        ("summary: prose", Agents::new(&[search("x")], &good).searching(&[asks("x"), "It means x.".into()])),
        ("comparison: prose", Agents::new(&[cold("2")], &good).searching(&found)),
        ("comparison: winner", Agents::new(&[cold("2")], &good).comparing("How ridiculous!", "C", "Tie")),
    ];
    let mut table = String::new();
    for (name, mut agents) in cases {
        if name == "comparison: prose" {
            agents.comparer = Script::says("A is better.");
        }
        let (verdicts, _) = agents.judge(&judge(&request, Preset::Paper), &one());
        writeln!(table, "{name}: {}", score(&verdicts[0])).unwrap();
    }
    insta::assert_snapshot!("rate_unusable", table);

    let cut =
        Agents { evaluator: Arc::new(Script::new().cut("", "{", 3)), ..Agents::new(&[evaluate()], &good) };
    let (verdicts, calls) = cut.judge(&judge(&request, Preset::Paper), &one());
    assert!(matches!(verdicts[0], Err(Error::Truncated(1024))));
    assert_eq!(calls.last().unwrap().reply.finish, Finish::Length);
}

#[test]
fn a_failure_is_the_sources_in_the_authors_code_and_the_translations_elsewhere() {
    let group = [translation("1", "One."), translation("2", "Two."), translation("3", "")];
    let agents = || {
        Agents::new(
            &[evaluate(), evaluate(), finish("3"), evaluate(), finish("1")],
            &["?".into(), "?".into(), "?".into(), evaluation(3, "1.0")],
        )
    };
    let scores = |preset| {
        let (verdicts, _) = agents().judge(&judge("rate", preset), &group);
        verdicts.iter().map(score).collect::<Vec<_>>()
    };
    let reason =
        "Unparsable: the evaluation agent: not the JSON asked for, expected value at line 1 column 1: `?`";
    assert_eq!(scores(Preset::Paper), [reason, "3", "1"]);
    assert_eq!(scores(Preset::Code), [reason; 3]);
}
