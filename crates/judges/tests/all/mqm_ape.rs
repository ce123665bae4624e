//! MQM-APE before scripted models: the questions, the outcomes of both orders, the suggestion, unusable
//! answers.

use std::sync::Arc;

use tribunal_judges::{Error, Preset, Settings};
use tribunal_testing::{Script, document, judge, run, settings, show, show_question};

const ERRORS: &str =
    "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"Bank\"\nMinor:\nstyle/awkward - \"ging\"";

/// A model that finds two errors, corrects them, and prefers these texts.
fn script(preferred: &[&str]) -> Script {
    let script = Script::new()
        .on("accuracy/mistranslation - Bank", &["Corrected Translation: Er ging zum Ufer."])
        .on("style/awkward - ging", &["Corrected Translation: \"Er lief zur Bank.\""]);
    let wins = preferred.iter().fold(script, |script, text| {
        let [a, b] = ["A", "B"].map(|place| format!("translation {place}: \"{text}\""));
        script.on(&a, &["A"]).on(&b, &["B"])
    });
    wins.on("Which translation is better?", &["A"]).on("", &[ERRORS])
}

#[test]
fn errors_weigh_as_much_as_their_corrections_win() {
    let judge = judge("mqm-ape", &Settings::default());
    let judged = |script| show(&run(&judge, &Arc::new(script), &document()[..1])[0]);
    // The first correction wins in both orders, the second order decides the other: A is always better.
    insta::assert_snapshot!(judged(script(&["Er ging zum Ufer."])), @"
    score -5.5 raw -5.5
      major accuracy/mistranslation `Bank` target 12..16 weight 5
      minor style/awkward `ging` target 3..7 weight 0.5
    ");
    insta::assert_snapshot!(judged(script(&["Er ging zur Bank."])), @"
    score 0 raw 0
      major accuracy/mistranslation `Bank` target 12..16 weight 0
      minor style/awkward `ging` target 3..7 weight 0
    ");
    let script = Arc::new(script(&["Er ging zum Ufer.", "Er lief zur Bank."]));
    let verdict = run(&judge, &script, &document()[..1]).remove(0).unwrap();
    let suggestions: Vec<_> = verdict.errors.iter().map(|error| error.suggestion.as_deref()).collect();
    assert_eq!(suggestions, [Some("Er ging zum Ufer."), Some("Er lief zur Bank.")]);
    assert_eq!(Some(verdict.score), Some(-6.0));
    let asked = script.asked();
    assert_eq!(asked.len(), 1 + 2 + 4);
    let of_first =
        asked.iter().filter(|(chat, ..)| !chat.messages().last().unwrap().content.contains("lief"));
    let shown = of_first.map(|(chat, form, _)| {
        let last = chat.messages().last().unwrap().content.clone();
        show_question(&tribunal_core::llm::Chat::new().user(last), form)
    });
    insta::assert_snapshot!("questions", shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_cannot_be_corrected_or_compared() {
    let judge = judge("mqm-ape", &Settings::default());
    let one = "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"Bank\"\nMinor:\nno-error";
    let judged = |correction: &[&str], winner: &str| {
        let script = Script::new().on("post-edit", correction).on("Which", &[winner]).on("", &[one]);
        let script = Arc::new(script);
        (run(&judge, &script, &document()[..1]).remove(0), script.asked().len())
    };
    // A correction that changes nothing is a tie.
    let (verdict, n_asked) = judged(&["Corrected Translation: Er ging zur Bank."], "A");
    assert_eq!((verdict.unwrap().score, n_asked), (-2.5, 2));
    // Asked again until there is a correction.
    let (verdict, n_asked) = judged(&["Corrected Translation: ", "Corrected Translation: Er ging."], "A");
    assert_eq!((verdict.unwrap().score, n_asked), (-2.5, 5));
    let (verdict, n_asked) = judged(&["no"], "A");
    assert!(matches!(verdict, Err(Error::Unparsable(_))), "{verdict:?}");
    assert_eq!(n_asked, 4);
    let (verdict, _) = judged(&["Corrected Translation: Er ging."], "C");
    assert!(verdict.unwrap_err().to_string().starts_with("neither `A` nor `B`"));
}

#[test]
fn the_published_program() {
    let judge = judge("mqm-ape", &settings(Preset::Code));
    let script = Script::new()
        .on("post-edit", &["Er ging zum Ufer. -- Corrected Translation:"])
        .on("translation A: \"Er ging zum", &["Translation A is better."])
        .on("Which", &["B"])
        .on("", &["Major:\naccuracy/mistranslation - \"Bank\"\nno such error"]);
    let script = Arc::new(script);
    let verdict = run(&judge, &script, &document()[..1]).remove(0);
    assert_eq!(
        show(&verdict),
        "score -5 raw -5\n  major accuracy/mistranslation `Bank` target 12..16 weight 5\n"
    );
    assert_eq!(verdict.unwrap().errors[0].suggestion.as_deref(), Some("Er ging zum Ufer."));
    let budgets: Vec<usize> = script.in_order().iter().map(|(.., sampling)| sampling.max_tokens).collect();
    assert_eq!(budgets, [512, 512, 256, 256]);
    let wmt = Settings { weights: Some("wmt".into()), ..settings(Preset::Code) };
    let refused = tribunal_replication::build("mqm-ape", &wmt).err().unwrap().to_string();
    assert!(refused.starts_with("preset `code` has the program's weights"), "{refused}");
    let paper = tribunal_replication::build("mqm-ape", &settings(Preset::Paper)).err().unwrap().to_string();
    assert!(paper.ends_with("hint: it can be code or strict"), "{paper}");
}
