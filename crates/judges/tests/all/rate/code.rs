//! Preset `code` against the messages of the authors' program for the same answers. `scripts/golden_rate.py`
//! made the lengths and hashes with BITHLP/RATE at 8efee2e3 under Python 3.11.

use super::*;

/// Length in bytes and SHA-256 of the messages to a role: each turn's role, its text, and a line end after
/// both.
fn sent(call: &Call) -> String {
    let text = call.chat.messages().iter().fold(String::new(), |text, turn| {
        text + &format!("{}\n{}\n", format!("{:?}", turn.role).to_lowercase(), turn.content)
    });
    // The index needs a space after the word that is searched; the program was run without it.
    digest(call.role.name(), &text.replace("About slang. More.", "About slang.More."))
}

fn digest(name: &str, text: &str) -> String {
    let sha = tribunal_core::digest::sha256(text);
    format!("{name} {} {sha}", text.len())
}

const FIRST: &str = "It's \"savage\".\nSo mean.";
const SECOND: &str = "How mean!";
const KNOWN: &str = "夺笋啊 is slang: 'how mean', a pun on \"多损啊\".";

fn comparison(candidate: &str, tentative: &str, anchors: &[(&str, &str)]) -> String {
    let own = [("target_text", candidate), ("tentative_score", tentative), ("context_notes", KNOWN)];
    call("comparison_agent", &[&own, anchors].concat())
}

fn end(candidate: &str, score: &str) -> String {
    call(
        "finish_evaluation",
        &[("translation_text", candidate), ("final_score", score), ("final_rationale", "r")],
    )
}

/// Two translations of a source: a round without a call, a search, an evaluation in fenced JSON, comparisons
/// cold, repeated, with a real anchor and with answers that cannot be read, a forced end, and a score beyond
/// the scale.
fn agents() -> Agents {
    let judged = [("source_text", "夺笋啊"), ("translation_text", FIRST)];
    let noted = [("context_notes", KNOWN), ("specific_instruction", "Check the pun.")];
    let core = [
        "I think that it is fine.".into(),
        search("夺笋啊 meaning"),
        call("general_evaluation_agent", &[judged, noted].concat()),
        comparison(FIRST, "2", &[]),
        comparison(
            FIRST,
            "3",
            &[("synthetic_low_anchor", "Grab the bamboo!"), ("synthetic_high_anchor", "How savage!")],
        ),
        comparison(FIRST, "3", &[]),
        end(FIRST, "3.5"),
        call("general_evaluation_agent", &[("source_text", "夺笋啊"), ("translation_text", SECOND)]),
        comparison(SECOND, "3.5", &[]),
        comparison(SECOND, "2", &[]),
        end(SECOND, "7"),
    ];
    let evaluations = [
        "```json\n{\"score\": 2.5, \"confidence\": 0.85, \"rationale\": \"It's \\\"good\\\"\\n夺\", \"error_spans\": [{\"source_segment\": \"夺笋啊\", \"target_segment\": \"savage\", \"issue\": \"tone\"}], \"suspected_knowledge_gaps\": [], \"sure\": true, \"more\": null}\n```".into(),
        r#"{"score": 4, "confidence": 1.0, "rationale": "", "error_spans": [], "suspected_knowledge_gaps": []}"#.into(),
    ];
    let queries = "Let me search.\n<tool_call>search\n<arg_key>search_query</arg_key>\n<arg_value>[{\"q\": \"夺笋\", \"recency\": null}, {\"q\": \"slang\", \"recency\": 30}]</arg_value>\n</tool_call>";
    let winner = |name: &str| format!(r#"{{"winner": "{name}", "rationale": "y"}}"#);
    let comparer = Script::new()
        .on(
            "**Candidate A:** \"It's",
            &["Here:\n```json\n{\"winner\": \"A\", \"rationale\": \"x\"}\n```", &winner("C")],
        )
        .on("**Candidate A:** \"How savage", &[&winner("Tie")])
        .on("**Candidate A:** \"How mean", &["A is better", &winner("B")])
        .on("**Candidate A:** \"Grab", &[&winner("A")]);
    let agents = Agents::new(&core, &evaluations)
        .searching(&[queries.into(), r#"{"answer": "A pun.", "reasoning": "The glossary."}"#.into()]);
    Agents { comparer: Arc::new(comparer), ..agents }
}

/// An index that finds `About QUERY.` and `More.`.
fn snippets(dir: &Path) -> String {
    let (input, out) = (dir.join("snippets.jsonl"), dir.join("index"));
    std::fs::write(&input, "{\"text\": \"About 夺笋.More.\"}\n{\"text\": \"About slang. More.\"}\n").unwrap();
    evidence::build(&input, &out).unwrap();
    out.display().to_string()
}

#[test]
fn every_message_has_the_bytes_of_the_authors_program() {
    let dir = tempfile::tempdir().unwrap();
    let judge = judge(&format!("rate:rounds=6,search={}", snippets(dir.path())), Preset::Code);
    let group = [translation("1", FIRST), translation("2", SECOND)];
    let (verdicts, calls) = agents().judge(&judge, &group);
    assert_eq!(verdicts.iter().map(score).collect::<Vec<_>>(), ["3.5", "7"]);
    let errors = &verdicts[0].as_ref().unwrap().errors;
    assert_eq!((errors.len(), errors[0].span.as_str(), errors[0].start), (1, "savage", Some(6)));

    let system = |role: &str| {
        let call = calls.iter().find(|call| call.role.name() == role).unwrap();
        digest(role, &call.chat.messages()[0].content)
    };
    assert_eq!(
        ["core", "evaluator", "comparer", "search"].map(system),
        [
            "core 7139 285b2ea75723f8349a88c410df3a269a5c64cf0be3369415fd511a6c1c3bf258",
            "evaluator 3302 d5e4f6138e4214978cdff7dc695b716dd72bb784d704af4a297330918490cdf6",
            "comparer 1500 0bd5102d963ec2e6adf3fa87812611828c240c5d2b06d6406e662e07756ae542",
            "search 1459 935e21e7ab30b6925e42d24fe4bff91e1cdf1a1f5d0aaa190f320bf4d84e6b4f",
        ]
    );
    // The two orders of a comparison run side by side: in no order.
    let mut ours: Vec<String> = calls.iter().map(sent).collect();
    let mut theirs: Vec<&str> = SENT.lines().collect();
    ours.sort();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
}

/// The messages of the program, in its order.
const SENT: &str = "\
core 7287 069cce715f937ec53bba964b1c24185135493ec570633d69c7fb7851a5455d6a
core 7384 739e42ae06f2ead00831f5ace39b5546be7268af45be413acd90fb051b3e2ede
search 1490 23cc39e6cc03b8b1c1ece6fc26f978319a7322c41c3bdfc5c561d5d9c42a8c33
search 1764 c4b51f4ecda65912061de5a740f59aff342b3f5dba34a133fd8be9e6a58b806a
core 7582 996642dda81cc8d0298a400104863268221bbb788f2330f28c8026199717bc4e
evaluator 3507 c3c4554fc8290d1705081dbe55606fc3d35d820872385f407c3a0d50ab6abb4d
core 8246 1e467aedf8ebec000aed6f961b113e8cb8efd4a523b2c3938b1d417e688788bc
core 8676 c43b4bdd157fc1ef9a6eff5ee0be9d7ec6c4c2601d250c51741367cfb2e95f4b
comparer 1842 8c776e4b1126ba63c16cd3752b6ce105b5c2f310dee4674df830acbc9d5bdd32
comparer 1842 9523b52c0215d0e816991ced0b10f2a75f019adee5905cbc990176e3f5880533
core 9469 1268f2646e9d43f24b916e03b780c03039e099bb3972563e3fb60a6aefdb5c6e
core 10254 a92794c9ce627bcdb2332a0d71f54ca38c2e1cc9e346ad72bf3e4ddc482c427f
core 7359 25e95b59eabc41ace17b643179ab304ec5e8da248ff5efb1896a849824f9da99
evaluator 3379 86edca6556fc9bebb07de0fa82c13416385753d1cb7b4858da77b203d1dd9d5c
core 7697 dea73deebe3c26f244f9dca868342e70f498ad24039b94d5c6006c8a34614a8d
comparer 1840 fc1588d0221f26511c534e6b26902925d2cdd9ac84b7c216ef5b834bd57f266b
comparer 1840 a86ead4ae328d322355af99244bb29c59c5f4cb9b72d56a251a2d3a72793d9b8
core 8269 267cab08b4eea0719b0629623f2eea29d769e05ad7f6eeb3257bf8e59e2a9217
comparer 1833 bab871849943a8f0d3aa232c2658c03dc8344d24caccb002b52df8bd67c7d631
comparer 1833 35fcf09541c10929fcfa16f78f1a59e8f1e941bc640f36cb2b23e22c01ea2b0b
core 8868 5ecf6f7c2903d0afaf0891370828c4c928bf276bd247b0366f8741a6aa90edec
";

#[test]
fn what_the_program_cannot_read_puts_the_source_aside() {
    let group = [translation("1", "One."), translation("2", "Two.")];
    let list = call("general_evaluation_agent", &[]);
    let scores = |core: &[String], evaluations: &[String]| {
        let (verdicts, _) =
            Agents::new(core, evaluations).judge(&judge("rate:rounds=1", Preset::Code), &group);
        assert_eq!(score(&verdicts[0]), score(&verdicts[1]));
        score(&verdicts[0])
    };
    let refusals = [
        scores(std::slice::from_ref(&list), &["It is fine.".into()]),
        scores(std::slice::from_ref(&list), &["[1, 2]".into()]),
        scores(&[list], &["```\n{\"score\": \"many\"}\n```".into()]),
        scores(&[finish("good")], &[]),
        scores(&[compare("high")], &[]),
        scores(&["I am done.".into()], &[]),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @"
    Unparsable: the evaluation agent: not the JSON asked for, expected value at line 1 column 1: `It is fine.`
    Unparsable: the core agent called `general_evaluation_agent` where it was told to finish
    Unparsable: the core agent called `general_evaluation_agent` where it was told to finish
    Unparsable: the core agent's `final_score` is not a number: `good`
    Unparsable: the core agent's `tentative_score` is not a number: `high`
    Unparsable: the core agent called no tool where it was told to finish
    ");
}

/// A search without a query is one for `None`, an evaluation that is a string has no quotes, digits of any
/// script are a number, and a turn that was stopped in its call keeps its white space.
#[test]
fn values_as_python_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let judge = judge(&format!("rate:search={}", index(dir.path())), Preset::Code);
    let stopped = |name: &str| call(name, &[]).replace("</tool_call>", " \n");
    let core = [stopped("search_agent"), call("general_evaluation_agent", &[]), finish("３")];
    let agents = Agents::new(&core, &["\"It's fine.\"".into()]).searching(&[asks("夺笋"), "Nothing.".into()]);
    let (verdicts, calls) = agents.judge(&judge, &one());
    assert_eq!(score(&verdicts[0]), "3");
    let told = told(&calls);
    assert!(told.contains("general_evaluation_agent: It's fine.\n"), "{told}");
    assert!(told.contains("<tool_call>search_agent\n \n</tool_call>\n"), "{told}");
    assert_eq!(question(&agents.search, "None"), "None");
}
