//! Options: agents that are left out, evidence, and rejected requests.

use super::*;

#[test]
fn agents_that_are_left_out_are_not_in_the_prompt() {
    let has = |request: &str, preset, words: &[&str]| {
        let chat = judge(request, preset).preview(&one()).remove(0).0;
        words.iter().map(|word| chat.messages()[0].content.contains(word)).collect::<Vec<_>>()
    };
    let dir = tempfile::tempdir().unwrap();
    let index = index(dir.path());
    let names = ["search_agent", "comparison_agent", "anchor"];
    for preset in [Preset::Paper, Preset::Code, Preset::Strict] {
        let searching = |skip: &str| has(&format!("rate:search={index}{skip}"), preset, &names);
        assert_eq!(searching(""), [true, true, true]);
        assert_eq!(searching(",skip=comparison"), [true, false, false]);
        // Without evidence the core agent's prompt does not mention searching either.
        assert_eq!(has("rate", preset, &names), [false, true, true]);
        assert_eq!(has("rate:skip=search", preset, &names), [false, true, true]);
        assert_eq!(has("rate:skip=both", preset, &names), [false, false, false]);
    }
    let agents = Agents::new(&[cold("2"), search("x"), finish("2")], &[]);
    let (verdicts, calls) = agents.judge(&judge("rate:skip=both", Preset::Paper), &one());
    assert_eq!(score(&verdicts[0]), "2");
    assert!(told(&calls).contains("there is no tool `comparison_agent`"));
    insta::assert_snapshot!(
        "rate_core_prompt",
        judge(&format!("rate:search={index}"), Preset::Paper).preview(&one()).remove(0).0.messages()[0]
            .content
    );
}

#[test]
fn the_signature_names_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let path = index(dir.path());
    let signature = |request: &str| judge(request, Preset::Strict).signature().all().to_string();
    let found = evidence::Index::open(Path::new(&path)).unwrap().manifest().sha256[..8].to_owned();
    assert!(
        signature(&format!("rate:search={path}"))
            .starts_with(&format!("method:rate|search:{found}|skip:none"))
    );
    assert!(signature("rate").starts_with("method:rate|search:none|skip:search|memory:shared|"));
    let bare = signature("rate:skip=both,rounds=3,memory=isolated");
    assert!(
        bare.starts_with(
            "method:rate|search:none|skip:both|memory:isolated|rounds:3|expected:off|preset:strict"
        ),
        "{bare}"
    );
    let refusal = |request: &str| {
        tribunal_replication::build(request, &Settings::default())
            .err()
            .unwrap()
            .to_string()
            .replace(&path, "INDEX")
    };
    let refusals = [
        refusal("rate:search=nowhere"),
        refusal("rate:search=https://example.org"),
        refusal(&format!("rate:skip=search,search={path}")),
        refusal("rate:rounds=0"),
        refusal("rate:rounds=many"),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @"
    `nowhere` is not an evidence index: `evidence.json`: there is no such file or folder; hint: make one with `tribunal search build`
    `https://example.org` is not an evidence index: `evidence.json`: there is no such file or folder; hint: make one with `tribunal search build`
    `skip=search` leaves the search agent out, but `search=` gives it something to search; hint: leave one of them out
    `rounds` must be a whole number from 1 on
    option `rounds` of `rate` cannot be `many`
    hint: it can be 10 or a number
    ");
}
