//! GEMBA-MQM against a scripted model: conversations as snapshots, and every kind of answer.

use std::fmt::Write;

use tribunal_judges::{Built, Granularity, Preset, Settings};

use tribunal_testing::{
    PAPER_ANSWER, Preview as _, Script, TEXT_ANSWER, conversation, document, judge, run, settings, show,
    strict_answer, verdict,
};

#[test]
fn gemba_mqm_text_conversations() {
    let one = &document()[..1];
    insta::assert_snapshot!(
        "gemba_mqm_text_strict",
        conversation("gemba-mqm", &settings(Preset::Strict), one, TEXT_ANSWER)
    );
    insta::assert_snapshot!(
        "gemba_mqm_text_zero_shot",
        conversation("gemba-mqm:shots=0", &settings(Preset::Strict), one, TEXT_ANSWER)
    );
    // The prompts of the other presets differ from `strict` in known places only.
    let asks = |preset| judge("gemba-mqm", &settings(preset)).preview(one).remove(0).0;
    let (strict, paper, code) = (asks(Preset::Strict), asks(Preset::Paper), asks(Preset::Code));
    assert_eq!(strict, paper);
    assert_eq!(code.messages()[0], paper.messages()[0]);
    for i in [2, 4, 6] {
        assert_eq!(code.messages()[i].content, format!("{}\n", paper.messages()[i].content));
    }
    for i in [1, 3, 5, 7] {
        let theirs =
            paper.messages()[i].content.replace("商场", "卖场").replace("technical ", "technically ");
        assert_eq!(code.messages()[i].content, theirs);
    }
}

#[test]
fn gemba_mqm_json_conversations() {
    let one = &document()[..1];
    let quality_less = PAPER_ANSWER.replace("],\n  \"quality_score\": 12", "]");
    for (name, request, preset, answer) in [
        ("paper", "gemba-mqm:form=json", Preset::Paper, quality_less),
        ("paper_da", "gemba-mqm:form=json,shots=0,da=on", Preset::Paper, PAPER_ANSWER.into()),
        ("strict", "gemba-mqm:form=json", Preset::Strict, strict_answer(true, false)),
        (
            "strict_da_bare",
            "gemba-mqm:form=json,shots=3,explain=off,da=on",
            Preset::Strict,
            strict_answer(false, true),
        ),
        (
            "strict_zero_shot",
            "gemba-mqm:form=json,shots=0,explain=off",
            Preset::Strict,
            strict_answer(false, false),
        ),
    ] {
        let conversation = conversation(request, &settings(preset), one, &answer);
        insta::assert_snapshot!(format!("gemba_mqm_json_{name}"), conversation);
    }
}

#[test]
fn gemba_mqm_joins_a_document() {
    for granularity in [Granularity::Doc, Granularity::FiveDoc] {
        let settings = Settings { granularity: Some(granularity), ..Settings::default() };
        let judge = judge("gemba-mqm", &settings);
        let script = Script::says(TEXT_ANSWER);
        let verdicts = run(&judge, &script, &document());
        assert_eq!(script.asked().len(), 1);
        let question = script.asked()[0].0.messages().last().unwrap().content.clone();
        assert!(
            question.contains("```Er ging zur Bank.\nDie Bank war zu.\nEr ging zur Bank.```"),
            "{question}"
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(show(&verdicts[0]), @"
score -11 raw -11
  major accuracy/mistranslation `Bank` target 12..16? weight 5
  major accuracy/omission `went` source 3..7? weight 5
  minor fluency/punctuation `.` target 16..17? weight 1
");
        }
    }
    let json = Settings { granularity: Some(Granularity::Doc), ..Settings::default() };
    let judge = judge("gemba-mqm:form=json", &json);
    let script = Script::says(&strict_answer(true, false));
    insta::assert_snapshot!(show(&run(&judge, &script, &document())[0]), @"
score -6 raw -6
  major accuracy/omission `bank` source 15..19? weight 5
  minor fluency/grammar `Bank` target 12..16? weight 1
");
    assert!(script.asked()[0].0.messages()[0].content.contains("\"maxItems\": 15"), "five errors a segment");
}

#[test]
fn gemba_mqm_presets_and_unusable_answers() {
    let answers = [
        TEXT_ANSWER,
        "**Critical:**\nno-error\n**Major:**\nstyle/awkward - \"ging\"\n**Minor:**\nno-error",
        "I'm sorry, but I cannot help with that.",
        "",
        "The translation is fine.",
        "Critical:\nnone\nMajor:\nnone\nMinor:\nnone",
        "Major:\nThe verb is odd.",
        "Minor:\nnon-translation",
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nnon-translation - \"no-error\"",
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error\nOverall the translation is good.",
    ];
    let mut table = String::new();
    for preset in [Preset::Code, Preset::Paper, Preset::Strict] {
        let judge = judge("gemba-mqm", &settings(preset));
        for answer in answers {
            write!(table, "{preset} {answer:?}\n  {}", show(&verdict(&judge, answer))).unwrap();
        }
    }
    insta::assert_snapshot!("gemba_mqm_presets", table);
}

#[test]
fn weights_change_the_score_and_the_signature() {
    let wmt = Settings { weights: Some("wmt".into()), ..Settings::default() };
    let judge = judge("gemba-mqm", &wmt);
    assert_eq!(verdict(&judge, TEXT_ANSWER).unwrap().score.to_bits(), (-10.1f64).to_bits());
    assert_eq!(judge.signature().prompts.get("weights"), Some("wmt"));
}

#[test]
fn shots_and_prompts_of_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let shots = dir.path().join("shots.jsonl");
    let shot = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[{"category":"style/awkward","span":"t","severity":"minor"}]}"#;
    std::fs::write(&shots, shot).unwrap();
    let mine = Settings { shots: Some(shots.clone()), ..Settings::default() };
    let judge = judge("gemba-mqm", &mine);
    let (chat, _) = judge.preview(&document()[..1]).remove(0);
    assert_eq!(chat.messages().len(), 4);
    assert_eq!(
        chat.messages()[2].content,
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nstyle/awkward - \"t\""
    );
    assert_eq!(judge.signature().method.get("shots"), Some("file"));
    let prompts = |j: &Built| j.signature().prompts.get("prompts").unwrap().to_owned();
    assert_ne!(prompts(&judge), prompts(&self::judge("gemba-mqm", &Settings::default())));

    let error =
        |settings: &Settings| tribunal_replication::build("gemba-mqm", settings).err().unwrap().to_string();
    std::fs::write(&shots, format!("{shot}\n{{\"source\":1}}")).unwrap();
    assert!(error(&mine).contains("shots.jsonl` line 2: "), "{}", error(&mine));
    assert!(tribunal_replication::build("fsp:shots=0", &mine).is_err());

    std::fs::create_dir(dir.path().join("gemba_mqm")).unwrap();
    std::fs::write(dir.path().join("gemba_mqm/text.j2"), "{{ sauce }}").unwrap();
    let theirs = Settings { prompts: Some(dir.path().into()), ..Settings::default() };
    assert!(error(&theirs).contains("prompt `gemba_mqm/text.j2`"), "{}", error(&theirs));
}
