//! Whole conversations, and the examples in them.

use super::*;

#[test]
fn whole_conversations() {
    for (name, preset) in [("strict", Preset::Strict), ("paper", Preset::Paper)] {
        let cast = match preset {
            Preset::Strict => cast(CORRECTED, -0.5)
                .on(&[TIER1], &[&opinion("yes", "Minor")])
                .on(&[TIER2], &[&consent("yes")]),
            _ => Cast::new()
                .sure(&[COMPARE], &[("A", &[-0.5])])
                .on(&[CORRECT], &["Er saß am Ufer.\n"])
                .on(
                    &[EVALUATE, "Accuracy/Mistranslation"],
                    &["Error Exist: Yes\nError Severity: Major\nExplanation: \"Bank\" is not a river bank."],
                )
                .on(&[EVALUATE], &["Error Exist: No"])
                .on(&[TIER1], &["Error Exist: Yes. Error Severity: Minor. It can be understood."])
                .on(&[TIER2], &["I agree with him."]),
        };
        let (verdicts, calls) = cast.judge(&judge("", preset), &[bank()]);
        let mut text = String::new();
        for call in calls.iter().filter(|call| call.step.to_string().ends_with("accuracy/mistranslation")) {
            writeln!(text, "=== {} {}", call.step, call.role).unwrap();
            for turn in call.chat.messages() {
                writeln!(text, "<<< {:?} >>>\n{}", turn.role, turn.content).unwrap();
            }
            writeln!(text, "<<< Reply >>>\n{}", call.reply.text).unwrap();
        }
        // `strict` weighs the comparison in both orders.
        let n_compared = if preset == Preset::Strict { 2 } else { 1 };
        assert_eq!(calls.len(), 19 + 1 + n_compared + 2, "{name}");
        insta::assert_snapshot!(format!("himate_{name}"), format!("{text}\n{}", show(&verdicts[0])));
    }
}

#[test]
fn nineteen_agents_have_two_shots_each() {
    let chats = judge("", Preset::Strict).preview(&[bank()]);
    assert_eq!(chats.len(), 19);
    let mut text = String::new();
    for (chat, _) in &chats {
        assert_eq!(chat.messages().len(), 6, "{chat:?}");
        let question = &chat.messages()[5].content;
        let definition = question.lines().find(|line| line.starts_with("Error definition")).unwrap();
        writeln!(text, "{definition}\n  {}\n  {}", chat.messages()[2].content, chat.messages()[4].content)
            .unwrap();
    }
    insta::assert_snapshot!("himate_shots", text);
    assert_eq!(judge("shots=0", Preset::Strict).preview(&[bank()])[0].0.messages().len(), 2);
    let single = judge("stages=sa", Preset::Strict).preview(&[bank()]);
    insta::assert_snapshot!(
        "himate_single",
        single.iter().map(|(chat, _)| chat.messages()[1].content.as_str()).collect::<String>()
    );
}

#[test]
fn examples_are_in_the_languages_of_the_segment() {
    let turns = |pair, options: &str| {
        let chats = judge(options, Preset::Strict).preview(&[translation(pair, "a", "b")]);
        let languages =
            |question: &str| question.lines().next().unwrap().split(':').next().unwrap().to_owned();
        let of_chat = |chat: &tribunal::llm::Chat| {
            chat.messages()[1..]
                .iter()
                .step_by(2)
                .map(|turn| languages(&turn.content))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let kinds: std::collections::BTreeSet<String> = chats.iter().map(|(chat, _)| of_chat(chat)).collect();
        kinds.into_iter().collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(turns(("en", "de"), ""), "English source, English source, English source");
    assert_eq!(turns(("en", "de_AT"), ""), "English source, English source, English source");
    assert_eq!(turns(("zh_CN", "en"), ""), "Chinese source, Chinese source, Chinese (China) source");
    assert_eq!(turns(("en", "cs"), ""), "English source", "none are shown from another pair");

    let remarks = |options: &str| {
        let segments =
            [("en", "de"), ("en", "cs"), ("en", "cs"), ("fr", "de")].map(|pair| translation(pair, "a", "b"));
        judge(options, Preset::Strict).protocol().notes(&segments).join("\n")
    };
    insta::assert_snapshot!(remarks(""), @"
    no example is from English to Czech, so agents are shown none there; hint: shots of this pair
    no example is from French to German, so agents are shown none there; hint: shots of this pair
    ");
    assert_eq!(remarks("shots=0") + &remarks("stages=sa"), "");
}
