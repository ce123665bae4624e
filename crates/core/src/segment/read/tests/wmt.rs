//! The files of WMT's tasks since 2025, made by hand after their descriptions.

use super::*;
use crate::segment::Segment;

/// Two pairs, a challenge set, references of two types, one empty translation.
const TASK: &str = r#"{"item_id":"official_###_eng_Latn_###_deu_Latn_###_news_###_hill.7_###_0","src":"A hill.","ref":{"text":"Ein Hügel.","type":"postedit"},"hyps":{"North 2":"Ein Berg.","South":"Hügel"}}
{"item_id":"official_###_eng_Latn_###_deu_Latn_###_news_###_hill.7_###_1","src":"It rains.","ref":null,"hyps":{"North 2":"","South":"Es regnet."},"resources":{"video":null}}
{"item_id":"official_###_ces_Latn_###_ukr_Cyrl_###_social_###_88_###_0","src":"Ahoj.","ref":{"text":"Привіт.","type":"pseudo"},"hyps":{"South":"Вітаю."}}
{"item_id":"challenge_###_en_###_de_DE_###_idioms_###_set1_###_x9","src":"So what.","ref":{"text":null,"type":"pseudo"},"hyps":{"Only":"Na und."}}
"#;

fn shown(segments: &[Segment]) -> String {
    let one = |s: &Segment| {
        let Segment { system, doc, seg, src_lang, tgt_lang, hypothesis, reference, .. } = s;
        let (kind, domain) = (s.reference_kind.as_deref().unwrap_or("-"), s.domain.as_deref().unwrap_or("-"));
        let reference = reference.as_deref().unwrap_or("-");
        format!("{system} | {src_lang}-{tgt_lang} {domain} {doc} {seg} | {hypothesis} | {reference} {kind}")
    };
    segments.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_file_of_the_evaluation_task() {
    let dir = Dir::with(&[("mteval-test26.jsonl", TASK.as_bytes())]);
    let path = dir.path("mteval-test26.jsonl");
    let input = table(&path, None).unwrap();
    insta::assert_snapshot!(shown(&input.segments), @"
    North 2 | en-de news news_###_hill.7 0 | Ein Berg. | Ein Hügel. postedit
    North 2 | en-de news news_###_hill.7 1 |  | - -
    South | en-de news news_###_hill.7 0 | Hügel | Ein Hügel. postedit
    South | en-de news news_###_hill.7 1 | Es regnet. | - -
    South | cs-uk social social_###_88 0 | Вітаю. | Привіт. pseudo
    Only | en-de_DE idioms challenge_###_idioms_###_set1_###_x9 0 | Na und. | - -
    ");
    insta::assert_snapshot!(dir.notes(&input).join("\n"), @"
    `DIR/mteval-test26.jsonl` has an empty translation on line 2
    `DIR/mteval-test26.jsonl` has references of these types: postedit 1, pseudo 1
    ");
    // A pair that is given selects rows, and another one's rows are never taken for it.
    let pair = |pair: &str| table(&path, Some(&parse_pair(pair).unwrap()));
    assert_eq!(pair("cs-uk").unwrap().segments.len(), 1);
    assert_eq!(pair("eng_Latn-deu_Latn").unwrap().segments.len(), 4);
    insta::assert_snapshot!(dir.message(pair("en-fr")), @"
    `DIR/mteval-test26.jsonl` has no row of `en-fr`
    hint: its rows are of cs-uk 1, en-de 2, en-de_DE 1; choose one of them
    ");
}

#[test]
fn bad_task_files() {
    let message = |row: &str| table_message("x.jsonl", row);
    insta::assert_snapshot!(message(r#"{"item_id":"en-cs_CZ_#_news_#_7_#_0","src":"A.","hyps":{"A":"B."}}"#),
        @"`DIR/x.jsonl` line 1: `item_id` is the text `en-cs_CZ_#_news_#_7_#_0` but must be an id `SRC_###_TGT_###_DOMAIN_###_DOCUMENT_###_SEGMENT` with codes such as `eng_Latn`");
    insta::assert_snapshot!(message(r#"{"item_id":"en_###_de_###_news_###_7_###_0","src":"A.","ref":{"text":7},"hyps":{"A":"B."}}"#),
        @"`DIR/x.jsonl` line 1: `ref.text` is the number `7` but must be a string");
    insta::assert_snapshot!(message(r#"{"item_id":"en_###_de_###_news_###_7_###_0","src":"A.","hyps":{"A":7}}"#),
        @"`DIR/x.jsonl` line 1: `hyps.A` is the number `7` but must be a string");
    let twice = r#"{"item_id":"en_###_de_###_news_###_7_###_0","src":"A.","hyps":{"A":"B."}}"#;
    insta::assert_snapshot!(message(&format!("{twice}\n{twice}\n")), @"
    `DIR/x.jsonl` line 2: the segment with the id `0` of document `news_###_7` and system `A` was already on line 1
    hint: `seg_id` must be unique within a document of a system
    ");
}

/// The data folder of a general task of 2026, and of 2025.
fn general_task(sources: &str, systems: &[(&str, &str)]) -> Dir {
    let mut files: Vec<(String, &[u8])> = vec![("wmt/data/wmt26-genmt.jsonl".into(), sources.as_bytes())];
    files.extend(
        systems.iter().map(|(name, text)| (format!("wmt/data/systems/{name}.jsonl"), text.as_bytes())),
    );
    Dir::with(&files.iter().map(|(name, text)| (name.as_str(), *text)).collect::<Vec<_>>())
}

fn read_testset(dir: &Dir, pair: &str, systems: &[&str], reference: Option<&str>) -> Result<Input, Error> {
    let (src, tgt) = parse_pair(pair).unwrap();
    let systems =
        Some(systems.iter().map(|name| (*name).to_owned()).collect()).filter(|all: &Vec<_>| !all.is_empty());
    let reference = reference.map(str::to_owned);
    testset(&TestSet { dir: dir.path("wmt"), pair: (pair.to_owned(), src, tgt), systems, reference })
}

const SOURCES: &str = r#"{"doc_id":"WMT26_###_news_###_eng_Latn_###_isl_Latn_###_a.1","src_text":"One.\n\nTwo.","refs":{"refA":{"ref":"Einn.\n\nTveir."}}}
{"doc_id":"WMT26_###_social_###_eng_Latn_###_isl_Latn_###_7","src_text":"Three.","refs":{}}
{"doc_id":"WMT26_###_news_###_eng_Latn_###_ekk_Latn_###_a.1","src_text":"One.\n\nTwo.","refs":{}}
"#;

const ALPHA: &str = r#"{"doc_id":"WMT26_###_news_###_eng_Latn_###_isl_Latn_###_a.1","hypothesis":"Einn!\n\nTveir!","metadata":{}}
{"doc_id":"WMT26_###_social_###_eng_Latn_###_isl_Latn_###_7","hypothesis":"Þrír."}
{"doc_id":"suite_###_x","hypothesis":"?"}
"#;

const BETA: &str = r#"{"doc_id":"WMT26_###_social_###_eng_Latn_###_isl_Latn_###_7","hypothesis":""}
{"doc_id":"WMT26_###_news_###_eng_Latn_###_isl_Latn_###_a.1","hypothesis":"Einn tveir."}
"#;

const ESTONIAN: &str = r#"{"doc_id":"WMT26_###_news_###_eng_Latn_###_ekk_Latn_###_a.1","hypothesis":"Üks.\n\nKaks."}
"#;

#[test]
fn the_general_task_joins_systems_by_document() {
    let dir = general_task(SOURCES, &[("Alpha", ALPHA), ("Beta 3", BETA), ("Eesti", ESTONIAN)]);
    let input = read_testset(&dir, "en-is", &[], Some("refA")).unwrap();
    insta::assert_snapshot!(shown(&input.segments), @"
    Alpha | en-is news news_###_a.1 0 | Einn! | Einn. -
    Alpha | en-is news news_###_a.1 1 | Tveir! | Tveir. -
    Alpha | en-is social social_###_7 0 | Þrír. | - -
    Beta 3 | en-is social social_###_7 0 |  | - -
    ");
    insta::assert_snapshot!(dir.notes(&input).join("\n"), @"
    `DIR/wmt/data/systems/Beta 3.jsonl`: 1 of 2 documents are left out, since blank lines divide them into other paragraphs than their sources; the first is `WMT26_###_news_###_eng_Latn_###_isl_Latn_###_a.1`, 1 and 2
    `DIR/wmt/data/systems/Beta 3.jsonl` has an empty translation of a paragraph of the documents on line 2 of the sources
    ");
    assert_eq!(read_testset(&dir, "en-et", &[], None).unwrap().segments.len(), 2);
    let old = r#"{"doc_id":"en-is_IS_#_news_#_a.1","src_lang":"en","tgt_lang":"is_IS","src_text":"One.","refs":{}}"#;
    let own = r#"{"doc_id":"en-is_IS_#_news_#_a.1","hypothesis":"Einn."}"#;
    let of_2025 = read_testset(&general_task(old, &[("A", own)]), "en-is", &[], None).unwrap();
    insta::assert_snapshot!(shown(&of_2025.segments), @"A | en-is_IS news en-is_IS_#_news_#_a.1 0 | Einn. | - -");
}

#[test]
fn bad_general_tasks() {
    let half = r#"{"doc_id":"WMT26_###_social_###_eng_Latn_###_isl_Latn_###_7","hypothesis":"Þrír."}"#;
    let old = r#"{"doc_id":"en-is_IS_#_news_#_a.1","hypothesis":"Einn."}"#;
    let said = |system: &str, pair: &str, systems: &[&str], reference| {
        let dir = general_task(SOURCES, &[("Alpha", ALPHA), ("Omega", system)]);
        dir.message(read_testset(&dir, pair, systems, reference))
    };
    insta::assert_snapshot!(said(half, "en-is", &[], None), @"
    `DIR/wmt/data/systems/Omega.jsonl` has no line with the `doc_id` `WMT26_###_news_###_eng_Latn_###_isl_Latn_###_a.1` of `DIR/wmt/data/wmt26-genmt.jsonl` line 1: it lacks 1 of 2 documents
    hint: add the lines, or choose the other systems
    ");
    insta::assert_snapshot!(said(old, "en-is", &[], None), @"
    `DIR/wmt/data/systems/Omega.jsonl` line 1: `doc_id` is `en-is_IS_#_news_#_a.1`, and neither it nor any other `doc_id` of the file is in `DIR/wmt/data/wmt26-genmt.jsonl`
    hint: the systems' files and the sources must be of one year's test set
    ");
    insta::assert_snapshot!(said(&format!("{half}\n{half}"), "en-is", &[], None), @"
    `DIR/wmt/data/systems/Omega.jsonl` line 2: `doc_id` is `WMT26_###_social_###_eng_Latn_###_isl_Latn_###_7`, which an earlier line has too
    hint: remove one of the lines
    ");
    insta::assert_snapshot!(said(half, "en-fr", &[], None), @"
    `DIR/wmt/data/wmt26-genmt.jsonl` has no row of `en-fr`
    hint: its rows are of en-et 1, en-is 2; choose one of them
    ");
    insta::assert_snapshot!(said(half, "en-is", &["Beta"], None), @"
    no system `Beta` in `DIR/wmt/data/systems`
    hint: its systems are `Alpha`, `Omega`
    ");
    insta::assert_snapshot!(said(half, "en-is", &["Alpha"], Some("refB")), @"
    no reference `refB` for `en-is` in `DIR/wmt/data/wmt26-genmt.jsonl`
    hint: its references are `refA`
    ");
    let wrong = general_task(r#"{"doc_id":"news-7","src_text":"One."}"#, &[("A", old)]);
    insta::assert_snapshot!(wrong.message(read_testset(&wrong, "en-is", &[], None)),
        @"`DIR/wmt/data/wmt26-genmt.jsonl` line 1: `doc_id` is the text `news-7` but must be an id `SET_###_DOMAIN_###_SRC_###_TGT_###_DOCUMENT` or `SRC-TGT_#_DOMAIN_#_DOCUMENT`");
}

#[test]
fn items_of_the_task_are_read_for_files_about_them() {
    let dir = Dir::with(&[
        ("task.jsonl", TASK.as_bytes()),
        ("old.jsonl", br#"{"doc_id":"en-is_IS_#_news_#_a.1","src_text":"One."}"#),
    ]);
    let mut seen = Vec::new();
    task(&dir.path("task.jsonl"), |item| {
        seen.push(format!(
            "{} {} {} {} {}",
            item.line,
            item.pair(),
            item.id.doc,
            item.seg(),
            item.translations.len()
        ));
        Ok(())
    })
    .unwrap();
    insta::assert_snapshot!(seen.join("\n"), @"
    1 en-de news_###_hill.7 0 2
    2 en-de news_###_hill.7 1 2
    3 cs-uk social_###_88 0 1
    4 en-de_DE challenge_###_idioms_###_set1_###_x9 0 1
    ");
    assert!(is_task(&dir.path("task.jsonl")) && !is_task(&dir.path("old.jsonl")));
    let error = task(&dir.path("old.jsonl"), |_| Ok(())).unwrap_err().to_string();
    assert!(
        error.contains("line 1: the field `item_id` is missing\nhint: a line of the task's file has"),
        "{error}"
    );
}
