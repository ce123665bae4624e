//! RUBRIC-MQM's preset `code` against the published code: the bytes that are sent, and what is read in the
//! author's recorded answers.

use regex::Regex;
use tribunal::{
    judges::{
        Panel, Preset, registry,
        rubric_mqm::{Options, Texts},
        setup::Reference,
    },
    llm::{Chat, Message, ResponseFormat, Sampling},
    mqm::Severity,
    segment::Segment,
};

use crate::{
    fakes::{Script, document, judge, run, segment, settings},
    judges_rubric::recorded,
};

/// Messages of the published code, byte for byte: length and SHA-256 of its list of messages, as compact JSON
/// (`[{"role":"system","content":...},...]`), for the texts below. Columns: scenario, reference, marks,
/// length, SHA-256. `scripts/golden_rubric_mqm.py` printed it from a clone.
///
/// Source: trotacodigos/Rubric-MQM at 6221019d9ba9998d494a9ba51c60864b2da48c3d, `rubric_mqm/prompt.py` for
/// `deeprubric-100` and `rubric_mqm/slot_scenarios/*.py` for the others, called as `rubric_mqm/worker.py` and
/// `rubric_mqm/slot_scenarios/subworker.py` do: `--with-ref` is `reference=on`, `--promptcue` is `marked`,
/// without which `rubric_mqm/promptcue.py` takes the marks out of every message.
const SENT: &str = "\
deeprubric-100 off  unmarked  7125  e4dcfc61ec0a2911fd77d4788ee2245e155dbf26a5abb03d9495c63d3dea0607
deeprubric-100 off  marked    7270  842ea84a60c0105467fe793969ab575f1395771b806d42e9631b84a56930bd33
deeprubric-8   off  unmarked  6813  f2389596b1f96fffe4fabb39633e675a2976e159e115b0bcf6cb61283eabf937
deeprubric-8   off  marked    6958  5670b88f0de6075240372a2067634c30af463afdbf0b8b27876cef44f23c550b
deeprubric-4   off  unmarked  6253  ce23978c387c3d6890856f7fd72620b9b2267d46c0d4f8b276ac3fd5869e64ac
deeprubric-4   off  marked    6398  72903f3b9944b3a3bbe6eef0ae11f8f807f8614308e07b27bf51caa90e6da9f0
deepq-100      off  unmarked  5801  9b558ecbda0565a481ff55b18084b9d21de92382114e193dd0c3bd23c8860c49
deepq-100      off  marked    5946  e2ae9cb49293ef0d5b32e9d81a4beb14369a4e3c4d52cc966065371fae604e64
deepq-8        off  unmarked  5533  09243bbcecc517431f1fb5a1611764e0f88c36878b4ec264c810ff495a686d8e
deepq-8        off  marked    5678  a936b3c6b1affce14692cfb381b38fa192fc512c77e0f9c80079483688f227a4
deepq-4        off  unmarked  5465  7bdbb4fccaf45b8aa991e6f46f63d6c7c496707404bf571cda4c9e5400c755e8
deepq-4        off  marked    5610  cf2d5e8c64830314f33c510303ecd1a207f006d5dbc6680bd5387006e277aa14
deepcatshot    off  unmarked  10457 777ad0a8a9362066edbd19694800570e522e78fb31ab419b30fb70813e39fb29
deepcatshot    off  marked    10630 b6fdfbd46695716ca3e81dc4f5cf4c0a9d480b607cee04b0080144dfc92eee32
deepshot       off  unmarked  4961  b932e739f10a57a9f09a2f5ee510eb1f8cf08974abb6138fa8f7e4f71ee55756
deepshot       off  marked    5134  2ab0b7c1c3a7cf6658b9ae2f7e13e543a720506e921a46879b66b3f8e7a2232f
deepcat        off  unmarked  6274  d195bcec7e1ed8d5208abee24292e3080e7c5160c288146ad82d7721b166024b
deepcat        off  marked    6419  2ca45363f5e2d874182af188d784bd534900b26aea371fe54be64cd209de06a5
gemba          off  unmarked  4900  9ebff7b4af58a66425a7bf3bb00409420ecad873b7f46b65b5fa262551dc3bd4
gemba          off  marked    5045  312b4726ba49341a9f3ae86b542418813bdd96d0ac62579aa42ac99b07401c00
deeprubric-100 on   unmarked  7192  fae45c14cb8735dfae783ac8fe056af7d5b895495312f736fec017c482863933
deeprubric-100 on   marked    7337  1041ce19e818a1fc28dc1a4273708dc470871f83d813ad39246b44cce616c8a6
deepcatshot    on   unmarked  10524 5a765dcbf36d8eb5f66d3ebb8f2df50064fd72b765913b573e4395c77e56b44e
deepcatshot    on   marked    10697 565d0156ae28b029eea3f5b980f04573f0eb4c2cb73061f28f8ce21182353088
deepshot       on   unmarked  5028  3fda056a678576ad01cf87895fc0b9d3053d3f751b8fbb4b768e4ccebf14c7e4
deepshot       on   marked    5201  21303b3132068cf45743d8a96f1a504121d890eab561450a43f2abcafd825003
deepcat        on   unmarked  6341  b615751a7cf12b1ea3d4b2a8f0c55a805df7105c568e597ea61224cf01bd9578
deepcat        on   marked    6486  62c76ee06c81d2142405613e15455a6ba86e9618d6cd22d7ea3079754f625d0d
gemba          on   unmarked  4967  3426e0ecf3cd85a94d56fc674defe3bf0b819557b231168220af564255719c58
gemba          on   marked    5112  720d8c4cad7b8a7a085d20fd4979a317746e9647aaf403114ef22f2f913f6530
";

#[test]
fn code_sends_the_bytes_of_the_published_code() {
    let segment = Segment {
        reference: Some("Er sagte: „Geh zur Bank!“".into()),
        ..segment(0, "He {said} \"go\" to <v>the bank</v>.", "Er ging zur <b>Bank</b>, 100 %.")
    };
    assert_eq!(SENT.lines().count(), 30);
    for line in SENT.lines() {
        let [scenario, reference, marks, length, sha256] =
            line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        let options = format!("scenario={scenario},reference={reference}");
        let chat = if marks == "marked" {
            asked_about_marks(&options, &segment)
        } else {
            let script = Script::says("");
            let judge = judge(&format!("rubric-mqm:{options}"), &settings(Preset::Code));
            run(&judge, &script, std::slice::from_ref(&segment)).remove(0).unwrap();
            script.in_order().remove(0).0
        };
        let message = |turn: &Message| {
            let role = format!("{:?}", turn.role).to_lowercase();
            let content = serde_json::to_string(&turn.content).unwrap();
            format!("{{\"role\":\"{role}\",\"content\":{content}}}")
        };
        let sent = format!("[{}]", chat.messages().iter().map(message).collect::<Vec<_>>().join(","));
        let found = tribunal::digest::sha256(&sent);
        assert_eq!((sent.len().to_string(), &found[..]), (length.to_owned(), sha256), "{line}\n{sent}");
    }
}

/// PromptCUE's question about a segment that has marks.
fn asked_about_marks(options: &str, segment: &Segment) -> Chat {
    let options = registry::find("rubric-mqm").unwrap().parse_options(options).unwrap();
    let asked = Options::read(&options);
    let judge = tribunal::replication::rubric_mqm::Classifier::new(&settings(Preset::Code), &asked).unwrap();
    let texts = Texts {
        source_lang: "English",
        source: &segment.source,
        target_lang: "German",
        target: &segment.hypothesis,
        reference: segment.reference.as_deref().filter(|_| *asked.reference == Reference::On),
    };
    let script = Script::says("no answer");
    judge.classify(&Panel::new(script.clone(), Sampling::default()), &texts).unwrap();
    let (chat, form, _) = script.in_order().remove(0);
    assert_eq!(form, ResponseFormat::Text);
    chat
}

/// Errors and score of the `code` judge for one recorded answer.
fn as_code(scenario: &str, answer: &str) -> (Vec<(String, Severity, f64)>, f64) {
    let judge = judge(&format!("rubric-mqm:scenario={scenario},shots=0"), &settings(Preset::Code));
    let verdict = run(&judge, &Script::says(answer), &document()[..1]).remove(0).unwrap();
    (verdict.errors.into_iter().map(|e| (e.span, e.severity, e.weight)).collect(), verdict.raw)
}

/// The authors' regular expressions over their own answers: spans, severities and scores are the same.
#[test]
fn code_reads_recorded_answers_as_the_authors_do() {
    let scaled = Regex::new(r#""(.*?)"\s*-\s*(\w+)\s*-\s*(\d+)"#).unwrap();
    let mut n_entries = 0;
    for file in
        ["referenceA/review_4o.jsonl", "referenceA/review_35turbo.jsonl", "gpt_review/DR-100_gen.jsonl"]
    {
        let Some(rows) = recorded(file) else { return };
        for row in rows {
            let review = row["review"].as_str().unwrap_or_default();
            let theirs: Vec<_> = review.lines().filter_map(|line| scaled.captures(line)).collect();
            let (ours, score) = as_code("deeprubric-100", review);
            let points = |c: &regex::Captures| c[3].parse::<f64>().unwrap();
            let expected: Vec<_> = theirs
                .iter()
                .map(|c| {
                    let severity = if points(c) >= 52.0 { Severity::Major } else { Severity::Minor };
                    (c[1].to_owned(), severity, points(c) / 100.0)
                })
                .collect();
            assert_eq!(ours, expected, "{file}: {review}");
            let sum: f64 = theirs.iter().map(points).sum();
            assert!((score + sum / 100.0).abs() < 1e-9, "{file}: {review}");
            n_entries += theirs.len();
        }
    }
    assert!(n_entries > 2000, "{n_entries}");
}

#[test]
fn code_reads_recorded_blocks_as_the_authors_do() {
    let entry = Regex::new(r#"^(.+?)\s*-\s*"(.+?)""#).unwrap();
    let mut n_entries = 0;
    for (file, scenario) in [
        ("gpt_review/GEMBA_gen.jsonl", "gemba"),
        ("gpt_review/DC_ptb.jsonl", "deepcat"),
        ("gpt_review/DCS_gen.jsonl", "deepcatshot"),
    ] {
        let Some(rows) = recorded(file) else { return };
        for row in rows {
            let review = row["review"].as_str().unwrap_or_default();
            let mut block = None;
            let mut expected = Vec::new();
            let mut penalty: f64 = 0.0;
            for line in review.lines().map(str::trim) {
                match line {
                    "Critical:" => block = Some((Severity::Critical, 25.0)),
                    "Major:" => block = Some((Severity::Major, 5.0)),
                    "Minor:" => block = Some((Severity::Minor, 1.0)),
                    _ => {
                        let (Some((severity, cost)), Some(c)) = (block, entry.captures(line)) else {
                            continue;
                        };
                        let cost = if c[1].to_lowercase().contains("punctuation") { 0.1 } else { cost };
                        penalty += cost;
                        expected.push((c[2].to_owned(), severity, cost / 100.0));
                    }
                }
            }
            let (ours, raw) = as_code(scenario, review);
            assert_eq!(ours, expected, "{file}: {review}");
            assert!((raw - penalty.min(25.0) / 100.0).abs() < 1e-9, "{file}: {review}");
            n_entries += expected.len();
        }
    }
    assert!(n_entries > 2000, "{n_entries}");
}
