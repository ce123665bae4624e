//! Every check finds its planted fault, and none reports a plausible run.

use super::*;
use crate::{
    call::CallLine,
    judges::{Call, Direction, Role, Stage, Wanted},
    llm::{Chat, Reply, ResponseFormat, Sampling},
    mqm::{ErrorSpan, Side, locate},
    record::Status,
    segment::Lang,
};

fn record(seg: usize, source: &str, hypothesis: &str, score: f64) -> Record {
    Record {
        system: "a".into(),
        doc: "doc".into(),
        seg: Some(seg),
        segs: Vec::new(),
        src_lang: Lang::parse("en").unwrap(),
        tgt_lang: Lang::parse("de_DE").unwrap(),
        source: source.into(),
        hypothesis: hypothesis.into(),
        score: Some(score),
        raw: Some(score),
        direction: Direction::Higher,
        quality_score: None,
        interval: None,
        warning: None,
        errors: Vec::new(),
        status: Status::Ok,
        reason: None,
        n_calls: 1,
    }
}

/// The record with these errors: category, span, severity, explanation.
fn with(record: Record, errors: &[(&str, &str, Severity, &str)]) -> Record {
    let error = |&(category, span, severity, why): &(&str, &str, Severity, &str)| {
        ErrorSpan::new(category, span, severity).explained(why)
    };
    let mut errors: Vec<ErrorSpan> = errors.iter().map(error).collect();
    locate::place(&mut errors, &record.source, &record.hypothesis);
    Record { errors, ..record }
}

fn question(doc: &str, seg: usize, text: &str) -> Question {
    let key = UnitKey {
        system: "a".into(),
        src_lang: "en".into(),
        tgt_lang: "de".into(),
        doc: doc.into(),
        seg: Some(seg),
    };
    let call = Call {
        unit: Some(0),
        role: Role::Annotator,
        step: Stage::new("focus").into(),
        attempt: 0,
        chat: Chat::new().user(text),
        wanted: Wanted::Answer(ResponseFormat::Text),
        sampling: Sampling::default(),
        reply: Reply::default(),
        scored: Vec::new(),
        error: None,
        outcome: None,
        seconds: 0.0,
    };
    Question::from_call(&CallLine::new("0", &[key], call)).unwrap()
}

/// All checks on records of a judge whose best score is 0.
fn findings(records: &[Record], questions: &[Question]) -> Vec<Finding> {
    let mut checks = HealthChecks::new(questions);
    for record in records {
        checks.add(record);
    }
    checks.findings(Some(0.0))
}

fn find(records: &[Record], questions: &[Question], check: HealthCheck) -> Finding {
    findings(records, questions).into_iter().find(|finding| finding.check == check).unwrap()
}

fn warnings(records: &[Record], questions: &[Question]) -> Vec<HealthCheck> {
    findings(records, questions)
        .into_iter()
        .filter(|finding| finding.warning)
        .map(|finding| finding.check)
        .collect()
}

/// Sixteen verdicts as a judge that works gives them: eight without an error, the others differ.
fn plausible() -> Vec<Record> {
    let of = |seg: usize| {
        let record =
            record(seg, "The company sold the old house.", "Die Firma verkaufte das alte Haus.", 0.0);
        let record = Record { quality_score: Some(95.0 - seg as f64 * 3.0), ..record };
        match seg {
            0..8 => record,
            8..12 => Record {
                score: Some(-1.0),
                ..with(
                    record,
                    &[("fluency/grammar", "alte", Severity::Minor, "The ending of the adjective is wrong.")],
                )
            },
            _ => Record {
                score: Some(-5.0 - seg as f64),
                ..with(
                    record,
                    &[
                        ("accuracy/mistranslation", "verkaufte", Severity::Major, "It was bought, not sold."),
                        ("style/awkward", "alte Haus", Severity::Minor, "The German word is `Altbau`."),
                        ("accuracy/omission", "company", Severity::Minor, "The English word is left out."),
                    ],
                )
            },
        }
    };
    (0..16).map(of).collect()
}

#[test]
fn a_judge_that_judges_gives_no_warning() {
    let shot = "\"explanation\": \"The word 'involvement' is mistranslated and doesn't fit in the context.\"";
    let records = plausible();
    assert_eq!(warnings(&records, &[question("other", 0, shot)]), []);
    let found = findings(&records, &[]);
    let shown: Vec<_> = found.iter().map(|f| (f.check, f.found, f.of, f.value)).collect();
    assert_eq!(
        shown,
        [
            (HealthCheck::SameScore, 8, 16, Some(0.0)),
            (HealthCheck::SameQuality, 1, 16, Some(50.0)),
            (HealthCheck::NoError, 8, 16, None),
            (HealthCheck::SameCount, 4, 16, Some(1.0)),
            (HealthCheck::Contradiction, 0, 16, None),
            (HealthCheck::OddSpan, 0, 16, None),
            (HealthCheck::RepeatedError, 0, 16, None),
            (HealthCheck::CopiedExplanation, 0, 16, None),
            (HealthCheck::ForeignLanguage, 0, 16, None),
        ]
    );
    assert_eq!(findings(&[], &[]), []);
}

/// The quick start with the default judge, as README once showed it: every verdict -5, one error, quality 80.
#[test]
fn the_same_verdict_everywhere_is_a_warning() {
    let of = |seg: usize| Record {
        quality_score: Some(if seg == 3 { 75.0 } else { 80.0 }),
        ..with(
            record(seg, "Two pillars had cracks.", "Zwei Pfeiler hatten Risse.", -5.0),
            &[(
                "accuracy/mistranslation",
                "Risse",
                Severity::Major,
                "The word 'Risse' is mistranslated as 'cracks'.",
            )],
        )
    };
    let records: Vec<Record> = (0..16).map(of).collect();
    assert_eq!(
        warnings(&records, &[]),
        [HealthCheck::SameScore, HealthCheck::SameQuality, HealthCheck::SameCount]
    );
    let quality = find(&records, &[], HealthCheck::SameQuality);
    assert_eq!((quality.found, quality.of, quality.value), (15, 16, Some(80.0)));
    assert_eq!(warnings(&records[..7], &[]), [], "too few to say");
    let missing: Vec<Record> = records.into_iter().map(|r| Record { score: None, ..r }).collect();
    assert_eq!(findings(&missing, &[]), [], "what has no verdict says nothing");
}

/// Sixteen verdicts without an error and with the best score.
fn clean() -> Vec<Record> {
    plausible()
        .into_iter()
        .map(|r| Record { errors: Vec::new(), score: Some(0.0), quality_score: None, ..r })
        .collect()
}

#[test]
fn good_translations_are_not_degenerate() {
    use HealthCheck::{NoError, SameQuality, SameScore};
    let checked = |records: &[Record]| {
        let found = findings(records, &[]);
        let named = |is: fn(&Finding) -> bool| -> Vec<HealthCheck> {
            found.iter().filter(|finding| is(finding)).map(|finding| finding.check).collect()
        };
        (named(|finding| finding.warning), named(Finding::is_clean))
    };
    assert_eq!(checked(&clean()), (vec![], vec![SameScore]));
    assert_eq!(checked(&clean()[..7]), (vec![], vec![]), "too few to say");
    let negative_zero: Vec<Record> = clean().into_iter().map(|r| Record { score: Some(-0.0), ..r }).collect();
    assert_eq!(checked(&negative_zero).1, [SameScore]);
    let mut one_error = [clean(), clean()].concat();
    one_error[3] = plausible()[15].clone();
    assert_eq!(checked(&one_error), (vec![], vec![SameScore, NoError]));
    // A predicted score need not be the best one where no word is marked.
    let mut predicted: Vec<Record> =
        (0..32).map(|n| Record { score: Some(-0.1 * n as f64), ..one_error[n].clone() }).collect();
    assert_eq!(checked(&predicted), (vec![], vec![NoError]));
    // A direct assessment beside the errors.
    let assessed =
        |quality: f64| one_error.iter().map(move |r| Record { quality_score: Some(quality), ..r.clone() });
    assert_eq!(
        checked(&assessed(100.0).collect::<Vec<_>>()),
        (vec![], vec![SameScore, SameQuality, NoError])
    );
    assert_eq!(checked(&assessed(90.0).collect::<Vec<_>>()), (vec![SameQuality], vec![SameScore, NoError]));
    assert_eq!(checked(&assessed(50.0).collect::<Vec<_>>()).0, [SameQuality, NoError], "errors are missing");
    // One score everywhere: another than the best, and the best one beside errors.
    for record in &mut predicted {
        record.score = Some(-3.0);
    }
    assert_eq!(checked(&predicted).0, [SameScore]);
    let flawed: Vec<Record> = (0..16)
        .map(|_| Record { score: Some(0.0), quality_score: None, ..plausible()[15].clone() })
        .collect();
    assert_eq!(checked(&flawed).0[0], SameScore);
}

#[test]
fn scores_and_qualities_that_contradict_each_other() {
    let mut records = plausible();
    records[1].quality_score = Some(20.0);
    for seg in [9, 12] {
        records[seg].quality_score = Some(90.0);
        records[seg].errors[0].severity = Severity::Critical;
    }
    let found = find(&records, &[], HealthCheck::Contradiction);
    assert_eq!((found.found, found.of, found.warning), (3, 16, true));
    let text = found.example.unwrap().text;
    assert_eq!(text, "quality 20, no critical or major error");
    records[12].quality_score = Some(30.0);
    assert_eq!(find(&records, &[], HealthCheck::Contradiction).found, 2);
}

#[test]
fn spans_that_no_reader_would_mark() {
    let odd = |hypothesis: &str, span: &str| {
        let record =
            with(record(0, "x", hypothesis, -1.0), &[("fluency/grammar", span, Severity::Minor, "")]);
        find(&[record], &[], HealthCheck::OddSpan).example.map(|example| example.text)
    };
    for (hypothesis, span, expected) in [
        ("Die Brücke ist alt.", "rück", Some("`rück` in `Brücke`")),
        ("Die Brücke ist alt.", "ie Brücke", Some("`ie Brücke` in `Die`")),
        ("Die Brücke ist alt.", "Brücke is", Some("`Brücke is` in `ist`")),
        ("Die Brücke ist alt.", "Brücke", None),
        ("Die Brücke ist alt.", ".", None),
        ("Die Brücke ist alt.", " ", None),
        ("Il y a un pont.", "y", Some("`y`")),
        ("Он в доме.", "дом", Some("`дом` in `доме`")),
        ("他昨天买了书", "天", None),
        ("สะพานเก่า", "พาน", None),
        ("다리는 오래되었다", "다리", None),
        ("价格是USD100元", "USD", Some("`USD` in `USD100`")),
        ("cafe\u{301} noir", "cafe", Some("`cafe` in `cafe\u{301}`")),
    ] {
        assert_eq!(odd(hypothesis, span).as_deref(), expected, "{hypothesis}: {span}");
    }
    // An omission is marked in the source; what is in no text has no place.
    let errors = [
        ("accuracy/omission", "hous", Severity::Major, ""),
        ("accuracy/mistranslation", "nowhere", Severity::Major, ""),
    ];
    let record = with(record(0, "the house", "das", -1.0), &errors);
    assert_eq!(record.errors[0].side, Side::Source);
    let found = find(&[record], &[], HealthCheck::OddSpan);
    assert_eq!((found.found, found.of), (1, 1));
}

#[test]
fn errors_that_are_named_twice() {
    let mut records = plausible();
    for record in &mut records[13..] {
        record.errors.push(record.errors[0].clone());
    }
    let found = find(&records, &[], HealthCheck::RepeatedError);
    assert_eq!((found.found, found.of, found.warning), (3, 19, true));
    assert_eq!(found.example.unwrap().text, "accuracy/mistranslation `verkaufte`");
    // The same word in two places is two errors.
    let twice = with(
        record(0, "x", "der Hund, der Bär", -2.0),
        &[("fluency/grammar", "der", Severity::Minor, ""), ("fluency/grammar", "der", Severity::Minor, "")],
    );
    assert_eq!(find(&[twice], &[], HealthCheck::RepeatedError).found, 0);
}

#[test]
fn explanations_that_stand_in_the_prompt() {
    let shots = "Examples:\n{\"explanation\": \"The phrase 'the account holder' is omitted in the German translation, \
                 losing important information.\"}\n{\"explanation\": \"It reads \\\"odd\\\" to a native reader of the text.\"}";
    let shots =
        shots.to_owned() + r#"{"explanation": "The first line is missing here,\nand the last one repeats."}"#;
    let questions = [question("doc", 0, &shots), question("doc", 1, &shots)];
    let copied = |seg: usize, why: &str| {
        let errors = [("accuracy/mistranslation", "Haus", Severity::Major, why)];
        let record = with(record(seg, "house", "Haus", -5.0), &errors);
        find(&[record], &questions, HealthCheck::CopiedExplanation).found
    };
    assert_eq!(
        copied(
            0,
            "The phrase 'the account holder' is omitted in the German translation, losing important information."
        ),
        1
    );
    assert_eq!(
        copied(1, "The phrase 'house' is omitted in the German translation, losing important information"),
        1
    );
    assert_eq!(copied(0, "It reads \"odd\" to a native reader of the text."), 1);
    assert_eq!(copied(0, "The first line is missing here,\nand the last one repeats."), 1);
    assert_eq!(copied(0, "The phrase 'house' is omitted."), 0, "too short to be a copy");
    assert_eq!(copied(0, "The phrase 'house' is omitted, which loses the object of the verb."), 0);
    // Text about the unit itself in a later stage's prompt is no copy.
    let own = "Somebody said: This explanation was first given by the model about this very unit.";
    let questions = [question("doc", 0, own)];
    let errors = [(
        "style",
        "Haus",
        Severity::Minor,
        "This explanation was first given by the model about this very unit.",
    )];
    let of = |seg: usize| with(record(seg, "house", "Haus", -1.0), &errors);
    let found = |seg: usize| find(&[of(seg)], &questions, HealthCheck::CopiedExplanation).found;
    assert_eq!((found(0), found(1)), (0, 1));
}

#[test]
fn explanations_about_another_language() {
    let foreign = |source: &str, why: &str| {
        let errors = [("accuracy/mistranslation", "Haus", Severity::Major, why)];
        let record = with(record(0, source, "Das Haus.", -5.0), &errors);
        find(&[record], &[], HealthCheck::ForeignLanguage).example.map(|example| example.text)
    };
    assert_eq!(
        foreign("The house.", "The original Chinese text says something else.").unwrap(),
        "`Chinese text` in `The original Chinese text says something else.`"
    );
    assert!(foreign("The house.", "It should be translated into French.").is_some());
    for (source, right) in [
        ("The house.", "The German word is wrong, and the English text is clear."),
        ("The house.", "`Haus` is not the term for Chinese food."),
        ("A Chinese word.", "The Chinese word was lost."),
        ("The house.", "The latin text is a Latin word."),
        ("The house.", "Polish the sentence."),
    ] {
        assert_eq!(foreign(source, right), None, "{right}");
    }
}

#[test]
fn a_language_is_named_by_any_word_of_its_name() {
    let foreign = |src: &str, why: &str| {
        let errors = [("accuracy/mistranslation", "Haus", Severity::Major, why)];
        let record = with(record(0, "x", "Das Haus.", -5.0), &errors);
        let src_lang = Lang::parse(src).unwrap();
        find(&[Record { src_lang, ..record }], &[], HealthCheck::ForeignLanguage).found
    };
    // Egyptian Arabic and Swiss German.
    assert_eq!(foreign("arz", "The Arabic text says something else."), 0);
    assert_eq!(foreign("gsw", "The German text says something else."), 0);
    assert_eq!(foreign("ml", "The Malay text says something else."), 1, "Malayalam is another language");
}
