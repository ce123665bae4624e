//! Annotations as WMT25 and Pearmut write them, made by hand after their scripts.

use super::*;

fn read_json(name: &str, text: &str, pair: Option<&str>) -> Result<Vec<Annotation>, String> {
    read_counted(name, text, pair, Counted::Last)
}

fn read_counted(
    name: &str,
    text: &str,
    pair: Option<&str>,
    counted: Counted,
) -> Result<Vec<Annotation>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let pair = pair.map(|pair| parse_pair(pair).unwrap());
    let shown = |error: Error| error.to_string().replace(&dir.path().display().to_string(), "DIR");
    assert!(is_annotations(&path), "{text}");
    read_any(&path, pair.as_ref(), counted).map_err(shown)
}

fn shown(annotations: &[Annotation]) -> String {
    let one = |a: &Annotation| {
        let Segment { system, doc, seg, src_lang, tgt_lang, .. } = &a.segment;
        let errors: Vec<String> = (a.errors.iter())
            .map(|e| format!(" [{} {} `{}` {:?}]", e.severity, e.category, e.span, e.start.zip(e.end)))
            .collect();
        let score = a.score.map_or_else(|| "-".into(), |score| score.to_string());
        format!("{system} {src_lang}-{tgt_lang} {doc} {seg} {} {score}{}", a.rater, errors.concat())
    };
    annotations.iter().map(one).collect::<Vec<_>>().join("\n")
}

const HUMEVAL: &str = r#"{"doc_id":"en-is_IS_#_news_#_a_#_0","src_text":"One.","tgt_text":{"A":"Ég 😀 á.","refA":"Einn."},"scores":{"A":[{"score":62,"annotator":"x1","errors":[{"start_i":3,"end_i":3,"severity":"minor"},{"start_i":"missing","end_i":"missing","severity":"major"}]},{"score":90.5,"annotator":"x2","errors":[]}]}}
{"doc_id":"cs-uk_UA_#_news_#_b_#_4","src_text":"Dva.","tgt_text":{"A":"Два."},"scores":{"A":{"human1":7,"errors1":[],"annotator1":"y1","human2":8,"errors2":[{"start_i":0,"end_i":3,"severity":"major"}],"annotator2":"y2"}}}
{"doc_id":"en-is_IS_#_news_#_a_#_1","src_text":"Two.","tgt_text":{"A":"Tveir."},"scores":{}}
"#;

#[test]
fn wmt25_by_segment() {
    insta::assert_snapshot!(shown(&read_json("humeval.jsonl", HUMEVAL, None).unwrap()), @"
    A en-is_IS en-is_IS_#_news_#_a 0 x1 62 [minor  `😀` Some((3, 4))] [major accuracy/omission `` None]
    A en-is_IS en-is_IS_#_news_#_a 0 x2 90.5
    A cs-uk_UA cs-uk_UA_#_news_#_b 4 y1 7
    A cs-uk_UA cs-uk_UA_#_news_#_b 4 y2 8 [major  `Два.` Some((0, 4))]
    ");
    assert_eq!(read_json("humeval.jsonl", HUMEVAL, Some("cs-uk")).unwrap().len(), 2);
    insta::assert_snapshot!(read_json("humeval.jsonl", HUMEVAL, Some("en-de")).unwrap_err(), @"
    `DIR/humeval.jsonl` has no rating of `en-de`
    hint: its ratings are of cs-uk_UA 1, en-is_IS 2; choose one of them
    ");
}

/// A document of two items in a cESA campaign; `é😀` and a line feed show in what offsets count.
const LOG: &str = r#"{"user_id":"u1","item_i":0,"annotation":[{"N 2":{"score":40,"error_spans":[{"start_i":1,"end_i":3,"severity":"minor","category":null},{"start_i":5,"end_i":5,"severity":"major","category":null},{"start_i":6,"end_i":6,"severity":"minor","category":null}]},"S":{"score":95,"error_spans":[]}},{"N 2":{"score":70,"error_spans":[]}}],"item":[{"item_id":"news_###_a_###_0","src":"<video src='v'></video>","src_text":"One.","tgt":{"N 2":"é😀\nxy","S":"x"}},{"item_id":"news_###_a_###_1","src":"Two.","tgt":{"N 2":"zwei"}}]}
{"user_id":"u1","item_i":"welcome_0","annotation":[{"S":{"score":1,"error_spans":[]}}],"item":[{"item_id":"isen_#_tutorial_#_1","src":"?","tgt":{"S":"?"}}]}
{"user_id":"u1","item_i":"random_1","annotation":[{"S":{"score":1,"error_spans":[]}}],"item":[{"item_id":"attention_check_2","src":"?","tgt":{"S":"?"}}]}
{"user_id":"u2","item_i":0,"annotation":[{"S":{"score":10,"error_spans":[]}}],"item":[{"item_id":"news_###_a_###_0","src":"One.","tgt":{"S":"x"}}]}
{"user_id":"u2","item_i":0,"annotation":"__RESET__"}
{"user_id":"u3","item_i":0,"annotation":[{"S":{"score":20,"error_spans":[]}}],"item":[{"item_id":"news_###_a_###_0","src":"One.","tgt":{"S":"x"}}]}
{"user_id":"u3","item_i":0,"annotation":[{"S":{"score":30,"error_spans":[{"start_i":0,"end_i":0,"severity":"Minor","category":"Accuracy/Mistranslation"}]}}],"item":[{"item_id":"news_###_a_###_0","src":"One.","tgt":{"S":"x"}}]}
"#;

#[test]
fn pearmut_campaigns() {
    let by_name = read_json("eng_Latn---isl_Latn v3.jsonl", LOG, None).unwrap();
    insta::assert_snapshot!(shown(&by_name), @r"
    N 2 en-is news_###_a 0 u1 40 [minor  `😀
    x` Some((1, 4))] [major accuracy/omission `` None] [minor instruction fault `` None]
    S en-is news_###_a 0 u1 95
    N 2 en-is news_###_a 1 u1 70
    S en-is news_###_a 0 u3 30 [minor accuracy/mistranslation `x` Some((0, 1))]
    ");
    assert_eq!(by_name[0].segment.source, "One.", "beside a video stands the text");
    let named = read_json("mine.jsonl", LOG, Some("en-is")).unwrap();
    assert_eq!(shown(&named), shown(&by_name));
    let lines: Vec<&str> = LOG.lines().collect();
    let campaigns =
        format!("{{\"eng_Latn---isl_Latn v3\":[{}],\"eng_Latn---ekk_Latn v3\":[]}}", lines.join(","));
    assert_eq!(shown(&read_json("annotations.json", &campaigns, None).unwrap()), shown(&by_name));
    insta::assert_snapshot!(read_json("mine.jsonl", LOG, None).unwrap_err(), @"
    `DIR/mine.jsonl` line 1: the languages are missing
    hint: name them, as `en-de`
    ");
}

/// `humeval/02-analyze_results.py` of WMT26: a reset drops all entries before it, and every other one counts.
#[test]
fn annotations_count_as_in_wmt26s_analysis() {
    let official = |log: &str| read_counted("mine.jsonl", log, Some("en-is"), Counted::Official).unwrap();
    insta::assert_snapshot!(shown(&official(LOG)), @"
    S en-is news_###_a 0 u3 20
    S en-is news_###_a 0 u3 30 [minor accuracy/mistranslation `x` Some((0, 1))]
    ");
    let unreset: String =
        LOG.lines().filter(|line| !line.contains(RESET)).map(|line| format!("{line}\n")).collect();
    assert_eq!(official(&unreset).len(), 6);
    // Errors alone are not added up over an annotation that was made anew.
    insta::assert_snapshot!(shown(&official(&without_scores(LOG))), @"S en-is news_###_a 0 u3 - [minor accuracy/mistranslation `x` Some((0, 1))]");
}

const RESET: &str = "__RESET__";

#[test]
fn what_was_skipped_is_no_rating() {
    let skipped = LOG.replacen("\"S\":{\"score\":95", "\"S\":{\"score\":null", 1);
    let read = read_json("mine.jsonl", &skipped, Some("en-is")).unwrap();
    insta::assert_snapshot!(shown(&read), @r"
    N 2 en-is news_###_a 0 u1 40 [minor  `😀
    x` Some((1, 4))] [major accuracy/omission `` None] [minor instruction fault `` None]
    N 2 en-is news_###_a 1 u1 70
    S en-is news_###_a 0 u3 30 [minor accuracy/mistranslation `x` Some((0, 1))]
    ");
    // Nobody gives scores where errors alone are marked.
    let unscored = without_scores(LOG);
    assert_eq!(read_json("mine.jsonl", &unscored, Some("en-is")).unwrap().len(), 4);
    let sliders =
        unscored.replacen("\"S\":{\"score\":null", "\"S\":{\"sliders\":{\"fluency\":3},\"score\":null", 1);
    assert_eq!(read_json("mine.jsonl", &sliders, Some("en-is")).unwrap().len(), 3);
}

/// The log without scores.
fn without_scores(log: &str) -> String {
    [40, 95, 70, 1, 10, 20, 30]
        .iter()
        .fold(log.to_owned(), |log, score| log.replace(&format!("\"score\":{score},"), "\"score\":null,"))
}

#[test]
fn bad_annotations() {
    let said = |from: &str, to: &str| read_json("x.jsonl", &HUMEVAL.replacen(from, to, 1), None).unwrap_err();
    insta::assert_snapshot!(said("\"score\":62", "\"score\":620"),
        @"`DIR/x.jsonl` line 1: `scores.A[0].score` is 620 but must be a number from 0 to 100");
    insta::assert_snapshot!(said("\"severity\":\"minor\"", "\"severity\":\"grave\""),
        @r#"`DIR/x.jsonl` line 1: `scores.A[0].errors[0].severity` is "grave" but must be a severity, such as "minor""#);
    insta::assert_snapshot!(said("\"end_i\":3", "\"end_i\":2"),
        @"`DIR/x.jsonl` line 1: `scores.A[0].errors[0].end_i` is 2, but the span begins at 3");
    insta::assert_snapshot!(said("\"start_i\":3", "\"start_i\":300"),
        @"`DIR/x.jsonl` line 1: `scores.A[0].errors[0].start_i` is 300, but the translation has 7 characters and 2 tags");
    insta::assert_snapshot!(said("\"scores\":{\"A\"", "\"scores\":{\"Z\""),
        @"`DIR/x.jsonl` line 1: `scores.Z` rates a translation that `tgt_text` does not have");
    insta::assert_snapshot!(said("en-is_IS_#_news_#_a_#_0", "news-7"),
        @"`DIR/x.jsonl` line 1: `doc_id` is `news-7` but must be an id `SRC-TGT_#_DOMAIN_#_DOCUMENT_#_SEGMENT`");
    let log = LOG.replacen("\"tgt\":{\"N 2\":\"é", "\"tgt\":{\"M\":\"é", 1);
    insta::assert_snapshot!(read_json("eng_Latn---isl_Latn.jsonl", &log, None).unwrap_err(),
        @"`DIR/eng_Latn---isl_Latn.jsonl` line 1: `annotation[0].N 2` rates a translation that `item[0].tgt` does not have");
}

#[test]
fn side_by_side_mqm_is_of_the_system() {
    let row = |system: &str, rater: &str, target: &str| {
        format!("{system}\td\t1\t1\t{rater}\tYes.\t{target}\tAccuracy/Mistranslation\tMinor\t{{}}\n")
    };
    let rows = [
        row("A_with_refA", "r1", "<v>Nein.</v>"),
        row("A_with_B", "r1", "Ne<v>in.</v>"),
        row("B_with_A", "r1", "<v>Nö.</v>"),
        row("refA", "r1", "<v>Nein.</v>"),
        row("C_with_sugar", "r1", "<v>Nö.</v>"),
        row("C_with_salt", "r1", "<v>Nö.</v>"),
    ];
    insta::assert_snapshot!(super::shown(&rows.concat()), @"
    A d 0 r1 with refA Nein. minor accuracy/mistranslation Target `Nein.` 0..5
    A d 0 r1 with B Nein. minor accuracy/mistranslation Target `in.` 2..5
    B d 0 r1 with A Nö. minor accuracy/mistranslation Target `Nö.` 0..3
    refA d 0 r1 Nein. minor accuracy/mistranslation Target `Nein.` 0..5
    C_with_sugar d 0 r1 Nö. minor accuracy/mistranslation Target `Nö.` 0..3
    C_with_salt d 0 r1 Nö. minor accuracy/mistranslation Target `Nö.` 0..3
    ");
}
