//! M-MAD's preset `code`: the messages are those of the authors' program, byte for byte, and answers are read
//! as it reads them. Tests run on a stand-in for the authors' files that has the texts that the paper prints;
//! those that need all texts read the files themselves in `TRIBUNAL_DATA`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tribunal_core::{llm::Chat, segment::Segment};
use tribunal_judges::{Built, Call, Error, Preset, Settings, Verdict};

use tribunal_testing::{Cast, bank, published_data, translation};

/// The messages of the authors' program, and the answers to them (`scripts/golden_m_mad.py`).
#[derive(Deserialize)]
struct Golden {
    segments: BTreeMap<String, (String, String)>,
    answers: Vec<Answers>,
    pairs: BTreeMap<String, Pair>,
}

#[derive(Deserialize)]
struct Answers {
    cues: Vec<String>,
    lines: Vec<String>,
}

#[derive(Deserialize)]
struct Pair {
    /// By stage and role, in order.
    stage1: BTreeMap<String, Vec<Sent>>,
    #[serde(default)]
    stage2_3: BTreeMap<String, Vec<Sent>>,
}

/// A list of messages.
#[derive(Debug, PartialEq, Deserialize)]
struct Sent {
    messages: usize,
    bytes: usize,
    sha256: String,
}

/// The stand-in for the folder `code` of the authors' repository.
pub fn published() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/m_mad/code").into()
}

fn golden() -> Golden {
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/m_mad/messages.json"));
    serde_json::from_str(&text.unwrap()).unwrap()
}

fn judge(options: &str, prompts: PathBuf) -> Built {
    let settings = Settings { preset: Preset::Code, prompts: Some(prompts), ..Settings::default() };
    tribunal_replication::build(&format!("m-mad:{options}"), &settings)
        .unwrap_or_else(|e| panic!("{options}: {e}"))
}

/// A cast that gives the recorded answers; the judge's from this one on.
fn recorded(golden: &Golden, judge_from: usize) -> Cast {
    golden.answers.iter().enumerate().fold(Cast::new(), |cast, (i, Answers { cues, lines })| {
        let cues: Vec<_> = cues.iter().map(String::as_str).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        cast.on(&cues, if i == 0 { &lines[judge_from..] } else { &lines })
    })
}

/// Messages as the recording hashes them.
fn sent(chat: &Chat) -> Sent {
    let mut text = String::new();
    for turn in chat.messages() {
        let role = format!("{:?}", turn.role).to_lowercase();
        write!(text, "{role}\n{}\0", turn.content).unwrap();
    }
    Sent { messages: chat.messages().len(), bytes: text.len(), sha256: tribunal_core::digest::sha256(&text) }
}

fn by_label(calls: &[Call]) -> BTreeMap<String, Vec<Sent>> {
    let mut labels: BTreeMap<String, Vec<Sent>> = BTreeMap::new();
    for call in calls {
        labels.entry(format!("{} {}", call.step, call.role)).or_default().push(sent(&call.chat));
    }
    labels
}

/// Compares the messages of both stages with the recording, where `is_known` is true for the folder's texts.
fn check(folder: &Path, is_known: impl Fn(&str, &str) -> bool) -> usize {
    let golden = golden();
    let mut n_checked = 0;
    for (pair, recording) in &golden.pairs {
        let (source, hypothesis) = &golden.segments[pair];
        let segment = translation(pair.split_once('-').unwrap(), source, hypothesis);
        let mut compare = |options: &str, judge_from: usize, recording: &BTreeMap<String, Vec<Sent>>| {
            let judge = judge(options, folder.to_owned());
            let (verdicts, calls) =
                recorded(&golden, judge_from).judge(&judge, std::slice::from_ref(&segment));
            let verdict = verdicts[0].as_ref().unwrap_or_else(|e| panic!("{pair} {options}: {e}"));
            assert_eq!(verdict.score.to_bits(), (-1.0_f64).to_bits(), "{pair} {options}: {verdict:?}");
            let ours = by_label(&calls);
            for (label, theirs) in recording.iter().filter(|(label, _)| is_known(pair, label)) {
                assert_eq!(ours.get(label), Some(theirs), "{pair} {options} {label}");
                n_checked += theirs.len();
            }
        };
        compare("skip=stage2", 0, &recording.stage1);
        if !recording.stage2_3.is_empty() {
            compare("", 1, &recording.stage2_3);
        }
    }
    n_checked
}

#[test]
fn the_messages_that_the_paper_prints_are_those_of_the_published_code() {
    let is_printed = |pair: &str, label: &str| match label {
        "annotate/accuracy annotator" => pair == "en-de",
        label => label.starts_with("debate/accuracy") || label.ends_with("checker") || label == "judge judge",
    };
    // One agent, three rounds of accuracy and one of terminology's, the judge of Stage 1 twice for each pair,
    // that of Stage 3.
    assert_eq!(check(&published(), is_printed), 1 + 3 * 3 + 1 + 3 * 2 + 1);
}

#[test]
fn all_messages_are_those_of_the_published_code() {
    let Some(data) = published_data() else { return };
    let folder = data.join("m-mad/code");
    // They have no licence, so that not every folder of data has them.
    if !folder.exists() {
        return;
    }
    assert_eq!(check(&folder, |_, _| true), 3 * (4 + 2) + 3 * 3 + 3 + 1);
}

/// A cast for the whole pipeline in which accuracy gives this answer.
fn pipeline(accuracy: &str, debaters: &[&str], checker: &[&str], judge: &[&str]) -> Cast {
    Cast::new()
        .on(&["From previous annotations"], judge)
        .on(&["essentially consistent"], checker)
        .on(&["Given two different answers"], debaters)
        .on(&["an accuracy errors detection expert"], &[accuracy])
        .on(&["errors detection expert"], &[NONE])
}

const NONE: &str = r#"{"annotations": []}"#;
const MAJOR: &str = r#"{"annotations": [{"error_span": "Bank", "category": "accuracy/mistranslation", "severity": "major"}]}"#;

fn ask(cast: Cast, options: &str, segment: &Segment) -> (Result<Verdict, Error>, Vec<Call>) {
    let judge = judge(options, published());
    let (mut verdicts, calls) = cast.judge(&judge, std::slice::from_ref(segment));
    (verdicts.remove(0), calls)
}

fn n_asked(calls: &[Call], role: &str) -> usize {
    calls.iter().filter(|call| call.role.name() == role).count()
}

/// The judge's question about these answers of accuracy; `None` when there is none.
fn question(accuracy: &str) -> Option<String> {
    let (_, calls) = ask(pipeline(accuracy, &[MAJOR], &["yes"], &[NONE]), "", &bank());
    let call = calls.into_iter().find(|call| call.role.name() == "judge")?;
    Some(call.chat.messages()[1].content.clone())
}

#[test]
fn stage_one_is_handed_on_unread() {
    // Four spellings are empty; with one more line feed the judge is called.
    assert_eq!(question("{'annotations':[]}"), None);
    let shown = question("\n{\"annotations\": []}").unwrap();
    assert!(shown.contains("annotations: \n\n\n{\"annotations\": []}; the fluency"), "{shown}");
    let refusal = "I'm sorry, I can't.";
    assert!(question(refusal).unwrap().contains(refusal));
    // Debated annotations are shown in Python's form; an answer that cannot be read is `None`.
    assert!(question(MAJOR).unwrap().contains("annotations: \n\n{'annotations': [{'error_span': 'Bank', "));
    let (_, calls) = ask(pipeline(MAJOR, &["I agree."], &["yes"], &[NONE]), "", &bank());
    let asked = |role: &str| calls.iter().find(|call| call.role.name() == role).unwrap().chat.messages();
    assert!(asked("checker")[0].content.contains("are: None; the other agent annotations are: None."));
    assert!(asked("judge")[1].content.contains("annotations: \n\nNone; the fluency"));
}

#[test]
fn what_side_b_opens_with() {
    let opening = |accuracy: &str| {
        let (_, calls) = ask(pipeline(accuracy, &[MAJOR], &["yes"], &[NONE]), "", &bank());
        let b = calls.into_iter().find(|call| call.role.name() == "debater-b");
        b.map(|call| call.chat.messages()[2].content.clone())
    };
    assert_eq!(opening("The majority is a major error.").unwrap(), "The minority is a minor error.");
    assert_eq!(opening("minor errors only"), None);
    assert_eq!(
        opening("Is it non-translation? It is not.").unwrap(),
        "A stand-in: this is not a non-translation."
    );
    // Both sides answer at once: each gets the other's statement of the round before.
    let (_, calls) = ask(pipeline(MAJOR, &["a1", "b1", "a2", "b2"], &["no", "yes"], &[NONE]), "", &bank());
    let heard: Vec<_> = calls
        .iter()
        .filter(|call| call.role.name().starts_with("debater"))
        .map(|call| call.chat.messages().last().unwrap().content.split("```").nth(1).unwrap())
        .collect();
    let minor = MAJOR.replace("major", "minor");
    assert_eq!(heard, [minor.as_str(), MAJOR, "b1", "a1"]);
}

#[test]
fn the_checker_agrees_in_lower_case_only() {
    for (answer, rounds) in [("yes", 1), ("So, yes.", 1), ("Yes", 3), ("no", 3), ("", 3)] {
        let (verdict, calls) = ask(pipeline(MAJOR, &[MAJOR], &[answer], &[MAJOR]), "", &bank());
        assert_eq!(n_asked(&calls, "checker"), rounds, "{answer}");
        assert!(verdict.is_ok(), "{answer}: without an agreement side A's last word counts");
    }
    let (_, calls) = ask(pipeline(MAJOR, &[MAJOR], &["no"], &[MAJOR]), "rounds=5", &bank());
    assert_eq!(n_asked(&calls, "checker"), 5);
}

#[test]
fn the_judge_of_stage_one_is_asked_until_python_can_read_its_answer() {
    let python = "{'analysis': 'it\\'s one', 'annotations': [{'error_span': 'Bank', 'category': 'style/awkward', 'severity': 'minor',},]}";
    let answers = ["no braces", "{\"annotations\": [}", "{\"analysis\": true, \"annotations\": []}", python];
    let (verdict, calls) = ask(pipeline(MAJOR, &[], &[], &answers), "skip=stage2", &bank());
    assert_eq!(verdict.unwrap().score.to_bits(), (-1.0_f64).to_bits());
    let attempts: Vec<_> =
        calls.iter().filter(|call| call.role.name() == "judge").map(|call| call.attempt).collect();
    assert_eq!(attempts, [0, 1, 2, 3]);
    // The code makes up a non-translation after ten answers; here the segment has no verdict.
    let (verdict, calls) = ask(pipeline(MAJOR, &[], &[], &["no braces"]), "skip=stage2", &bank());
    assert!(matches!(verdict, Err(Error::Unparsable(_))));
    assert_eq!(n_asked(&calls, "judge"), 10);
    assert_eq!(n_asked(&calls, "annotator"), 4);
}

#[test]
fn shots_go_by_the_source_language() {
    let shots = |options: &str, segment: &Segment| {
        let (_, calls) = ask(pipeline(NONE, &[], &[], &[NONE]), options, segment);
        calls[0].chat.messages()[1..calls[0].chat.messages().len() - 1].to_vec()
    };
    let (zh, he) =
        (translation(("zh", "en"), "他在。", "He is."), translation(("he", "en"), "הוא כאן.", "He is here."));
    let german = shots("", &bank());
    assert_eq!(german.len(), 8, "four shots");
    assert_eq!(german[0].content.find("\nEnglish source:\nGood Afternoon"), Some(0), "a bare segment");
    assert!(
        german[0].content.ends_with("#NAME#.\n") && german[1].content.starts_with("\n{\"annotations\":[{")
    );
    assert!(shots("", &zh)[0].content.starts_with("\nChinese source:\n"));
    assert!(shots("", &he)[0].content.starts_with("\nHebrew source:\n"));
    assert_eq!(shots("shots=he-en", &zh), shots("", &he));
    assert_eq!(shots("shots=en-de", &he), german);
    assert!(shots("shots=0", &he).is_empty());
}

#[test]
fn hebrew_shots_serve_every_preset() {
    let shots = Some(published().join("few_shot_demos_he.py"));
    let settings =
        |preset, prompts| Settings { preset, prompts, shots: shots.clone(), ..Settings::default() };
    for settings in [
        settings(Preset::Strict, None),
        settings(Preset::Paper, None),
        settings(Preset::Code, Some(published())),
    ] {
        let judge = tribunal_replication::build("m-mad:shots=he-en", &settings).unwrap();
        let (_, calls) = pipeline(NONE, &[], &[], &[NONE]).judge(&judge, &[bank()]);
        for call in calls.iter().filter(|call| call.role.name() == "annotator") {
            let dimension = call.step.part.as_deref().unwrap();
            assert!(
                call.chat.messages()[1].content.contains("Hebrew source:\nהחתול ישן."),
                "{}",
                settings.preset
            );
            let (answer, bare) = (&call.chat.messages()[2].content, call.chat.messages()[4].content.trim());
            assert!(answer.contains(&format!("{dimension}/")) && answer.contains("\"cat\""), "{answer}");
            assert_eq!(bare, NONE);
            assert!(call.chat.messages()[8].content.contains("non-translation"));
        }
    }
}

#[test]
fn what_is_wrong_with_a_copy_of_the_published_files() {
    let refusal = |options: &str, prompts: Option<PathBuf>| {
        let settings = Settings { preset: Preset::Code, prompts, ..Settings::default() };
        tribunal_replication::build(&format!("m-mad:{options}"), &settings).err().unwrap().to_string()
    };
    let dir = tempfile::tempdir().unwrap();
    // The repository's own folder does as well.
    let code = dir.path().join("code");
    fs::create_dir_all(code.join("utils")).unwrap();
    let in_copy = || refusal("", Some(dir.path().into())).replace(&dir.path().display().to_string(), "COPY");
    let mut refusals = vec![refusal("", None), in_copy()];
    let copy = |name: &str| fs::copy(published().join(name), code.join(name)).unwrap();
    copy("utils/stage1.json");
    fs::write(code.join("stage2_3.py"), "system_prompts = ['a', 'b']\n").unwrap();
    refusals.push(in_copy());
    copy("stage2_3.py");
    fs::write(code.join("utils/stage1.json"), r#"{"base_system_prompt": 1}"#).unwrap();
    refusals.push(in_copy());
    copy("utils/stage1.json");
    for name in ["few_shot_demos.py", "few_shot_demos_de.py", "few_shot_demos_he.py"] {
        copy(name);
    }
    let shots = fs::read_to_string(code.join("few_shot_demos.py")).unwrap();
    fs::write(code.join("few_shot_demos.py"), shots.replacen("'''\n{\"annotations\": []}\n''',", "", 1))
        .unwrap();
    refusals.push(in_copy());
    fs::write(code.join("few_shot_demos.py"), shots.replacen("term_mem_shot", "renamed", 1)).unwrap();
    refusals.push(in_copy());
    for options in ["start=gemba-mqm", "skip=stage1", "strategy=deliberation", "undecided=original"] {
        refusals.push(refusal(options, Some(published())));
    }
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn the_signature_names_what_was_read() {
    let prompts = |options: &str, folder: PathBuf| {
        judge(options, folder).signature().all().get("prompts").unwrap().to_owned()
    };
    assert_eq!(prompts("", published()), prompts("rounds=2", published()));
    assert_ne!(prompts("", published()), prompts("shots=en-de", published()));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("utils")).unwrap();
    for name in ["utils/stage1.json", "stage2_3.py", "few_shot_demos_de.py"] {
        let text = fs::read_to_string(published().join(name)).unwrap();
        fs::write(dir.path().join(name), text.replace("not a non-translation.", "not one.")).unwrap();
    }
    assert_ne!(prompts("shots=en-de", published()), prompts("shots=en-de", dir.path().into()));
    let weights = |preset| {
        let prompts = (preset == Preset::Code).then(published);
        let settings = Settings { preset, prompts, ..Settings::default() };
        tribunal_replication::build("m-mad", &settings)
            .unwrap()
            .signature()
            .all()
            .get("weights")
            .unwrap()
            .to_owned()
    };
    let used = [Preset::Paper, Preset::Code, Preset::Strict].map(weights);
    assert_eq!(used, ["mmad-paper", "mmad", "mmad"]);
}
