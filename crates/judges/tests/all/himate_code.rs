//! HiMATE's preset `code`: the messages are those of the authors' program, byte for byte, and its answers are
//! scored as it scores them, stage by stage. Tests run on a stand-in for the authors' files, whose texts are
//! invented.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tribunal_core::{llm::Chat, segment::Segment};
use tribunal_judges::{Built, Call, Error, Preset, Settings, Verdict};

use tribunal_testing::{Cast, bank, translation};

/// The messages of the authors' program, and the answers to them (`scripts/golden_himate.py`).
#[derive(Deserialize)]
struct Golden {
    answers: Vec<Answer>,
    pairs: BTreeMap<String, Pair>,
}

#[derive(Deserialize)]
struct Answer {
    cues: Vec<String>,
    text: String,
    logprobs: Vec<f64>,
}

#[derive(Deserialize)]
struct Pair {
    params: Params,
    segments: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Params {
    max_tokens: usize,
}

#[derive(Deserialize)]
struct Recorded {
    source: String,
    hypothesis: String,
    /// Scores by stage: `SE`, `SRv`, `CD`.
    scores: BTreeMap<String, f64>,
    /// Hashes of messages by stage and agent, in order.
    asked: BTreeMap<String, Vec<String>>,
}

/// The stand-in for the authors' repository.
pub fn published() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/himate").into()
}

fn golden() -> Golden {
    let text = fs::read_to_string(published().join("messages.json"));
    serde_json::from_str(&text.unwrap()).unwrap()
}

fn settings(prompts: Option<PathBuf>) -> Settings {
    Settings { preset: Preset::Code, prompts, ..Settings::default() }
}

fn judge(options: &str) -> Built {
    tribunal_replication::build(&format!("himate:{options}"), &settings(Some(published())))
        .unwrap_or_else(|e| panic!("{options}: {e}"))
}

/// A cast that gives the recorded answers.
fn recorded(golden: &Golden) -> Cast {
    golden.answers.iter().fold(Cast::new(), |cast, Answer { cues, text, logprobs }| {
        let cues: Vec<_> = cues.iter().map(String::as_str).collect();
        cast.sure(&cues, &[(text.as_str(), logprobs.as_slice())])
    })
}

/// Messages as the recording hashes them.
fn hash(chat: &Chat) -> String {
    let mut text = String::new();
    for turn in chat.messages() {
        let role = format!("{:?}", turn.role).to_lowercase();
        write!(text, "{role}\n{}\0", turn.content).unwrap();
    }
    tribunal_core::digest::sha256(&text)
}

/// The name of a step in the recording: `correct/Untranslated_text`.
fn label(call: &Call) -> String {
    let subtype = call.step.part.as_deref().unwrap().rsplit('/').next().unwrap().replace(' ', "_");
    let (first, rest) = subtype.split_at(1);
    format!("{}/{}{rest}", call.step.stage, first.to_uppercase())
}

#[test]
fn messages_and_scores_are_those_of_the_published_program() {
    let golden = golden();
    let mut n_messages = 0;
    for (pair, Pair { segments, .. }) in &golden.pairs {
        // The thresholds of gpt-4o-mini are by subtype; only this one decides anything here.
        let threshold = if pair == "ende" { "threshold=0.9975274" } else { "" };
        for recording in segments {
            let segment = translation(pair.split_at(2), &recording.source, &recording.hypothesis);
            let run = |stage: &str, options: String| {
                let (verdicts, calls) =
                    recorded(&golden).judge(&judge(&options), std::slice::from_ref(&segment));
                let verdict = verdicts[0].as_ref().unwrap_or_else(|e| panic!("{options}: {e}"));
                let expected = recording.scores[stage];
                assert_eq!(verdict.score.to_bits(), expected.to_bits(), "{stage} {verdict:?}");
                calls
            };
            run("SE", "stages=se".into());
            run("SRv", "stages=se+sr".into());
            let calls = run("CD", threshold.into());
            let mut ours: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for call in &calls {
                ours.entry(label(call)).or_default().push(hash(&call.chat));
            }
            assert_eq!(ours, recording.asked, "{}", recording.hypothesis);
            n_messages += calls.len();
        }
    }
    // Nineteen evaluations of each segment, and what followed.
    assert_eq!(n_messages, 19 * 11 + 3 + 9 + 4 + 5 + 3 * 6 + 11 + 6);
    assert!(golden.pairs.values().all(|pair| pair.params.max_tokens == 500));
}

const MAJOR: &str = "Error Exist: 'Yes'.\nError Severity: 'Major'.\nExplanation: The word \"Bank\" is a seat; \"Ufer\" is meant.";
const NOTHING: &str = "Error Exist: No.\nError Severity: Neutral.\nExplanation: None.";

/// A cast in which mistranslation finds a major error; without a letter no comparison is answered.
fn pipeline(evaluation: &str, correction: &str, comparison: (&str, &[f64]), rounds: &[&str]) -> Cast {
    Cast::new()
        .on(&["SE definition of Mistranslation."], &[evaluation])
        .on(&["SE definition of"], &[NOTHING])
        .on(&["SRc definition of"], &[correction])
        .sure(&["SRv definition of"], &[comparison])
        .on(&["CD tier"], rounds)
}

fn ask(cast: Cast, options: &str, segment: &Segment) -> (Result<Verdict, Error>, Vec<Call>) {
    let (mut verdicts, calls) = cast.judge(&judge(options), std::slice::from_ref(segment));
    (verdicts.remove(0), calls)
}

const CORRECTION: &str = "Corrected Germany Translation: Er saß am Ufer.";

#[test]
fn the_threshold_is_a_hundred_percent_and_included() {
    let cast = || pipeline(MAJOR, CORRECTION, ("A", &[0.0]), &["I agree with him."]);
    let n_discussed = |options: &str| {
        let (verdict, calls) = ask(cast(), options, &bank());
        assert_eq!(verdict.unwrap().score.to_bits(), (-5.0_f64).to_bits());
        calls.iter().filter(|call| call.step.stage.name() == "discuss").count()
    };
    assert_eq!(n_discussed(""), 1);
    assert_eq!(n_discussed("threshold=1"), 1);
    assert_eq!(n_discussed("threshold=0.999"), 0);
}

/// The program has no spans; ours are what the explanations quote.
#[test]
fn an_error_has_the_span_that_its_explanation_quotes() {
    let (verdict, _) = ask(pipeline(MAJOR, CORRECTION, ("A", &[-0.5]), &["I agree with"]), "", &bank());
    let errors = verdict.unwrap().errors;
    assert_eq!((errors[0].span.as_str(), errors[0].start), ("Bank", Some(15)));
    assert!((errors[0].confidence.unwrap() - (-0.5_f64).exp()).abs() < 1e-12);
    let silent = MAJOR.replace("\"Bank\"", "Bank");
    let (verdict, _) = ask(pipeline(&silent, CORRECTION, ("A", &[-0.5]), &["I agree with"]), "", &bank());
    let verdict = verdict.unwrap();
    assert_eq!((verdict.errors[0].span.as_str(), verdict.score.to_bits()), ("", (-5.0_f64).to_bits()));
}

#[test]
fn answers_that_the_program_cannot_read_are_missing_verdicts() {
    let why = |cast: Cast| match ask(cast, "", &bank()) {
        (Err(error), calls) => {
            assert!(calls.iter().all(|call| call.attempt == 0), "it asks once");
            format!("{error}\n")
        }
        (Ok(verdict), _) => panic!("{verdict:?}"),
    };
    let agree: &[&str] = &["I agree with him."];
    let refusals = [
        pipeline("I'm sorry, I cannot help.", CORRECTION, ("A", &[0.0]), agree),
        pipeline("Error Exist: Yes\nError Severity: Major", CORRECTION, ("A", &[0.0]), agree),
        pipeline("", CORRECTION, ("A", &[0.0]), agree),
        pipeline(MAJOR, "Er saß am Ufer.", ("A", &[0.0]), agree),
        pipeline(MAJOR, "", ("A", &[0.0]), agree),
        pipeline(MAJOR, CORRECTION, ("A", &[]), agree),
    ]
    .map(why);
    insta::assert_snapshot!(refusals.concat());
    let (empty, calls) = ask(Cast::new(), "", &translation(("en", "de"), "", " "));
    assert!(empty.is_err() && calls.is_empty());
    // The thresholds of gpt-4o-mini are by subtype; only this one has an effect here.
    let cut = Cast::new().cut(&["SE definition of"], NOTHING);
    assert_eq!(ask(cut, "", &bank()).0.unwrap().score.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn calls_of_each_preset_and_stage() {
    let calls = |preset: Preset, options: &str| {
        let prompts = (preset == Preset::Code).then(published);
        let settings = Settings { preset, prompts, ..Settings::default() };
        let calls = tribunal_replication::build(&format!("himate:{options}"), &settings).unwrap().calls();
        [calls.least, calls.typical, calls.most]
    };
    for (preset, options, expected) in [
        (Preset::Code, "", [19, 31, 133]),
        (Preset::Code, "stages=se+sr", [19, 27, 57]),
        (Preset::Code, "stages=se", [19, 19, 19]),
        (Preset::Paper, "", [19, 31, 133]),
        (Preset::Paper, "comparison=weighed", [19, 35, 152]),
        (Preset::Strict, "", [19, 35, 171]),
        (Preset::Strict, "comparison=asked", [19, 31, 152]),
        (Preset::Strict, "stages=se", [19, 19, 38]),
        (Preset::Strict, "stages=sa", [1, 1, 1]),
    ] {
        assert_eq!(calls(preset, options), expected, "{preset} {options}");
    }
    // All find something and never agree: the calls of `most`.
    let cast = Cast::new()
        .on(&["SE definition of"], &[MAJOR])
        .on(&["SRc definition of"], &[CORRECTION])
        .on(&["SRv definition of"], &["A"])
        .on(&["CD tier"], &["No."]);
    assert_eq!(ask(cast, "", &bank()).1.len(), 133);
}

#[test]
fn pairs_without_prompts_have_no_verdict() {
    let french = translation(("fr", "de"), "Il est assis.", "Er sitzt.");
    let (verdict, calls) = ask(Cast::new(), "", &french);
    assert_eq!(verdict.unwrap_err().to_string(), "the authors' files have no prompts for `frde`");
    assert!(calls.is_empty());
    insta::assert_snapshot!(
        judge("").protocol().notes(&[french, bank()]).join("\n"),
        @"the authors' files have no prompts for `frde`, so it gets no verdict; they are for `ende`, `zhen`"
    );
    // Regions and scripts are not in the folders' names.
    let regional = translation(("zh_CN", "en_GB"), "他在。", "He is.");
    let (verdict, _) = ask(pipeline(NOTHING, "", ("A", &[0.0]), &[]), "", &regional);
    assert_eq!(verdict.unwrap().score.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn what_is_wrong_with_a_copy_of_the_published_files() {
    let refusal = |options: &str, settings: &Settings| {
        tribunal_replication::build(&format!("himate:{options}"), settings).err().unwrap().to_string()
    };
    let dir = tempfile::tempdir().unwrap();
    let in_copy = || {
        let text = refusal("", &settings(Some(dir.path().into())));
        text.replace(&dir.path().display().to_string(), "COPY")
    };
    let mut refusals = vec![refusal("", &settings(None)), in_copy()];
    let pair = dir.path().join("prompts/ende");
    fs::create_dir_all(&pair).unwrap();
    refusals.push(in_copy());
    let copy = |name: &str| {
        let name = format!("description_{name}.json");
        fs::copy(published().join("prompts/ende").join(&name), pair.join(&name)).unwrap();
    };
    copy("SE");
    refusals.push(in_copy());
    for name in ["SRc", "SRv", "CD"] {
        copy(name);
    }
    assert!(tribunal_replication::build("himate", &settings(Some(dir.path().into()))).is_ok());
    assert!(tribunal_replication::build("himate", &settings(Some(dir.path().join("prompts")))).is_ok());
    let discussion = pair.join("description_CD.json");
    let text = fs::read_to_string(&discussion).unwrap();
    fs::write(&discussion, text.replace("\"Accuracy\"", "\"Exactness\"")).unwrap();
    refusals.push(in_copy());
    fs::write(&discussion, "[]]").unwrap();
    refusals.push(in_copy());
    for options in
        ["stages=sa", "calibration=x", "confidence=mean", "comparison=weighed", "shots=0", "threshold=2"]
    {
        refusals.push(refusal(options, &settings(Some(published()))));
    }
    let shots = Settings { shots: Some("own.jsonl".into()), ..settings(Some(published())) };
    refusals.push(refusal("", &shots));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn the_signature_names_what_was_read() {
    let prompts = |folder: &Path| {
        let judge = tribunal_replication::build("himate", &settings(Some(folder.into()))).unwrap();
        judge.signature().all().get("prompts").unwrap().to_owned()
    };
    let dir = tempfile::tempdir().unwrap();
    for pair in ["ende", "zhen"] {
        fs::create_dir(dir.path().join(pair)).unwrap();
        for name in ["SE", "SRc", "SRv", "CD"] {
            let name = format!("{pair}/description_{name}.json");
            fs::copy(published().join("prompts").join(&name), dir.path().join(&name)).unwrap();
        }
    }
    assert_eq!(prompts(dir.path()), prompts(&published()));
    let file = dir.path().join("ende/description_CD.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("CD severity", "another severity")).unwrap();
    assert_ne!(prompts(dir.path()), prompts(&published()));
}
