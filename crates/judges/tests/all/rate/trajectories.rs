//! The paper's three trajectories, and every result of a comparison.

use super::*;
use tribunal_testing::Cast;

/// The answers of the paper's models about three translations of 夺笋啊 (Figures 21 and 22).
fn trajectories() -> Agents {
    let gaps = evaluation(2, "0.8").replace("gaps\": []", "gaps\": [\"夺笋啊\", \"多损啊\"]");
    let again = call(
        "general_evaluation_agent",
        &[
            ("source_text", "夺笋啊"),
            ("translation_text", "How ridiculous!"),
            ("context_notes", NOTE),
            ("specific_instruction", "You must use the provided context_notes to evaluate the translation."),
        ],
    );
    Agents::new(
        &[
            // Figure 21, trajectory 1.
            search("夺笋啊 meaning slang Chinese internet"),
            evaluate(),
            finish("0"),
            // Trajectory 2. The figure prints a final score of 0 under a rationale without errors; it is 4 in
            // Appendix C and in the evaluation agent's answer.
            evaluate(),
            finish("4"),
            // Figure 22, trajectory 3.
            evaluate(),
            again,
            cold("2"),
            finish("2"),
        ],
        &[evaluation(0, "1.0"), evaluation(4, "1.0"), gaps, evaluation(2, "0.8")],
    )
    .searching(&[asks("夺笋啊 slang"), format!(r#"{{"answer": "{NOTE}", "reasoning": "The glossary."}}"#)])
    .comparing("How ridiculous!", "A", "B")
}

#[test]
fn the_three_trajectories_of_the_paper() {
    let dir = tempfile::tempdir().unwrap();
    let judge = judge(&format!("rate:search={}", index(dir.path())), Preset::Paper);
    assert_eq!(judge.grouping, Grouping::Source);
    let group = [
        translation("1", "I'm not going to take it."),
        translation("2", "So savage.\nThat's brutal.\nHow mean."),
        translation("3", "How ridiculous!"),
    ];
    let agents = trajectories();
    let (verdicts, calls) = agents.judge(&judge, &group);
    assert_eq!(verdicts.iter().map(score).collect::<Vec<_>>(), ["0", "4", "2"]);
    insta::assert_snapshot!(stages(&calls), @"core@1 search@1 summarize@1 core@2 evaluate@2 core@3 core@1 evaluate@1 core@2 core@1 evaluate@1 core@2 evaluate@2 core@3 compare@3 compare-swapped@3 core@4");

    // The search results are on record, word for word, with their origin.
    let summary = calls.iter().find(|call| call.step.to_string() == "summarize@1").unwrap();
    let shown = &summary.chat.messages().last().unwrap().content;
    assert!(shown.contains(&format!("[1] 夺笋 (slang.tsv:2)\nmeaning: {NOTE}")), "{shown}");
    assert!(!shown.contains("involution"));
    // The later translations have it in memory.
    let second = calls.iter().find(|call| call.unit == Some(1)).unwrap();
    let opening = &second.chat.messages()[1].content;
    assert!(
        opening.contains(&format!("[System Memory]\n- 夺笋啊 meaning slang Chinese internet: {NOTE}")),
        "{opening}"
    );
    // The comparison was with the synthetic anchor of score 1, as printed.
    let told = &calls.last().unwrap().chat.messages().last().unwrap().content;
    insta::assert_snapshot!(told, @r#"
    Response from `comparison_agent`:
    {
      "recommendation": "confirm",
      "comparison_details": {
        "anchor_score": 1.0,
        "outcome": "candidate_wins",
        "suggested_score": 2.0
      },
      "rationale": [
        "because",
        "because"
      ],
      "anchor_memory_status": "initialized"
    }
    "#);
    let compared = question(&agents.comparer, "**Candidate A:** \"How ridiculous!\"");
    assert_eq!(
        compared,
        format!(
            "**Source Text:** \"夺笋啊\"\n**Context Notes:** {NOTE}\n**Candidate A:** \"How ridiculous!\"\n**Candidate B:** \"LOW\""
        )
    );
    let errors = &verdicts[2].as_ref().unwrap().errors;
    assert_eq!(
        (errors[0].span.as_str(), errors[0].start, errors[0].weight.to_bits()),
        ("ridiculous", Some(4), 0)
    );
}

#[test]
fn every_result_of_a_comparison() {
    let mut table = String::new();
    let judge = judge("rate", Preset::Paper);
    for (as_given, swapped) in
        [("A", "B"), ("A", "Tie"), ("Tie", "Tie"), ("A", "A"), ("Tie", "A"), ("B", "A")]
    {
        for tentative in ["0", "1", "3"] {
            let agents = Agents::new(&[evaluate(), cold(tentative), finish("2")], &[evaluation(2, "0.5")])
                .comparing("How ridiculous!", as_given, swapped);
            let (verdicts, calls) = agents.judge(&judge, &one());
            assert_eq!(score(&verdicts[0]), "2");
            let told = &calls.last().unwrap().chat.messages().last().unwrap().content;
            let told: serde_json::Value = serde_json::from_str(told.split_once('\n').unwrap().1).unwrap();
            let details = &told["comparison_details"];
            writeln!(
                table,
                "{as_given} {swapped}: {tentative} against {} -> {} {} {}",
                details["anchor_score"],
                details["outcome"],
                told["recommendation"],
                details["suggested_score"]
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!("rate_comparisons", table);
}

/// A later translation is compared with an earlier one, in any order of the input; alone, only with anchors
/// that the core agent made up.
#[test]
fn earlier_translations_are_anchors() {
    let group = [translation("b", "How ridiculous!"), translation("a", "How mean!")];
    let anchored = |request: &str, group: &[Segment]| {
        let tentative = |score: i32| {
            serde_json::json!({
                "tentative_score": score, "synthetic_low_anchor": "LOW", "synthetic_high_anchor": "HIGH",
            })
        };
        let evaluate = turn("general_evaluation_agent", &serde_json::json!({ "specific_instruction": "" }));
        let finish = |score: f64| {
            turn("finish_evaluation", &serde_json::json!({ "final_score": score, "final_rationale": "" }))
        };
        let core = Cast::new()
            .on(&["How mean!"], &[&evaluate, &finish(3.0)])
            .on(&["How ridiculous!"], &[&evaluate, &turn("comparison_agent", &tentative(3)), &finish(2.0)]);
        let comparer = Script::says(&says("Tie"));
        let panel = Panel::new(Arc::new(core), Sampling::default())
            .assign(Role::Evaluator, Script::says(&evaluation(3, "0.5")))
            .assign(Role::Comparer, comparer.clone());
        let (verdicts, _) = judged(&judge(request, Preset::Strict), &panel, group);
        assert_eq!(verdicts.iter().filter(|verdict| verdict.is_ok()).count(), group.len());
        let asked = question(&comparer, "**Candidate A:** \"How ridiculous!\"");
        asked.split("**Candidate B:** ").nth(1).unwrap().to_owned()
    };
    let reversed = [group[1].clone(), group[0].clone()];
    assert_eq!(anchored("rate", &group), "\"How mean!\"");
    assert_eq!(anchored("rate", &reversed), "\"How mean!\"");
    assert_eq!(anchored("rate", &group[..1]), "\"HIGH\"");
    assert_eq!(anchored("rate:memory=isolated", &group), "\"HIGH\"");
}
