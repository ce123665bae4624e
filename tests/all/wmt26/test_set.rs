//! Test sets of human annotations: references, names, which annotations count.

use std::fs;

use serde_json::{Value, json};

use super::{IN_DOC, Participant, campaign};

/// WMT25's file has its reference among the translations, rated or not.
#[test]
fn references_of_wmt25_become_the_test_sets() {
    let own = Participant::new();
    let line = |seg: usize, rated: Value| {
        let id = format!("en-de_#_news_#_a_#_{seg}");
        let texts = json!({ "CON": "Eins.", "..": "Ein.", "refA": format!("Satz {seg}.") });
        format!("{}\n", json!({ "doc_id": id, "src_text": "One.", "tgt_text": texts, "scores": rated }))
    };
    let score = json!([{ "score": 60, "annotator": "u1", "errors": [] }]);
    let lines =
        [line(0, json!({ "CON": score, "..": score })), line(1, json!({ "CON": score, "refA": score }))];
    own.write("humeval.jsonl", &lines.concat());
    own.run("export DIR/humeval.jsonl --as testset --out DIR/set").unwrap();
    assert_eq!(own.read("set/references/en-de.refA.txt"), "Satz 0.\nSatz 1.\n");
    let mut systems: Vec<String> = fs::read_dir(own.at("set/system-outputs/en-de"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    systems.sort();
    assert_eq!(systems, ["_..txt", "_CON.txt", "refA.txt"]);
    let set = tribunal::meta::testset::TestSet::open(&own.at("set"), "en-de").unwrap();
    assert_eq!(
        (set.references, set.systems),
        (vec!["refA".into()], vec!["_.".into(), "_CON".into(), "refA".into()])
    );
}

/// A rater's last annotations and resets as the campaign's page shows them are scores of another name.
#[test]
fn annotations_count_as_in_wmt26s_analysis() {
    let own = Participant::new();
    let scores = |name: &str, more: &[&str]| {
        own.write("eng_Latn---deu_Latn.jsonl", &format!("{}{}", campaign(), more.concat()));
        own.run(&format!("export DIR/eng_Latn---deu_Latn.jsonl --as testset --out DIR/{name}")).unwrap();
        let first = |gold: &str| {
            let file = own.at(&format!("{name}/human-scores/en-de.{gold}.seg.score"));
            let text = file.exists().then(|| fs::read_to_string(file).unwrap())?;
            text.lines().find(|line| line.starts_with("North_2\t")).map(str::to_owned)
        };
        [first("esa"), first("esa-last")]
    };
    assert_eq!(scores("plain", &[]), [Some("North_2\t90".to_owned()), None], "both rules give the same");
    // Ben's first document once more, with 0 for every score.
    let entry = campaign().lines().nth(4).unwrap().to_owned();
    let mut zeros: Value = serde_json::from_str(&entry).unwrap();
    for said in zeros["annotation"].as_array_mut().unwrap() {
        said.as_object_mut().unwrap().values_mut().for_each(|one| one["score"] = json!(0));
    }
    let (zeros, reset) =
        (format!("{zeros}\n"), "{\"user_id\":\"ben\",\"item_i\":0,\"annotation\":\"__RESET__\"}\n");
    let resubmitted = scores("resubmitted", &[&zeros]);
    assert_eq!(resubmitted, ["North_2\t60", "North_2\t45"].map(|line| Some(line.to_owned())));
    let undone = scores("undone", &[reset, &zeros]);
    assert_eq!(undone, ["North_2\t0", "North_2\t45"].map(|line| Some(line.to_owned())));
    let rated = own.read("resubmitted/human-scores/en-de.esa.ben.seg.rating");
    assert_eq!(rated.matches("\"start\":4").count(), 2 * IN_DOC, "the last of a rater's annotations");
}

#[test]
fn a_test_set_is_written_whole_or_not_at_all() {
    let own = Participant::new();
    let long = "n".repeat(300);
    own.write("eng_Latn---deu_Latn.jsonl", &campaign().replace("\"South\"", &format!("\"{long}\"")));
    let export = "export DIR/eng_Latn---deu_Latn.jsonl --as testset --out DIR/new/set";
    own.run(export).unwrap_err();
    assert!(!own.at("new").exists());
    own.write("new/set/mine.txt", "mine");
    own.run(export).unwrap_err();
    let left: Vec<_> =
        fs::read_dir(own.at("new/set")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
}
