//! Files and segments that are not translations, through the program: the twelve sentences of
//! `tests/versions` in the wrong language, swapped, shifted and copied, and the raters' annotations of
//! segments that are called non-translations.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::Value;
use tribunal::{
    mqm::{Side, weights},
    segment::{lang::parse_pair, untranslated},
    tune::{
        lines,
        rated::{self, Document, Opinion, Rated},
    },
};

use crate::fakes::{SmallRun, published_data, said};

fn version(pair: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/versions").join(pair).join(format!("{name}.txt"))
}

fn lines_of(pair: &str, name: &str) -> Vec<String> {
    fs::read_to_string(version(pair, name)).unwrap().lines().map(str::to_owned).collect()
}

/// Judges a file of translations with a method that requests a number.
fn score(small: &SmallRun, pair: &str, [source, translation]: [&str; 2], more: &[&str]) -> (i32, String) {
    let mut command =
        small.tribunal(&["score", "--method", "gemba-sqm:score=expected", "--prompts", "prompts"]);
    command.args(["--max-tokens", "24", "--kv-cache", "8MiB", "--quiet", "-l", pair]);
    command.arg("-s").arg(version(pair, source)).arg("-t").arg(version(pair, translation));
    command.arg("--docs").arg(version(pair, "docs")).arg("--model").arg(&small.model).args(more);
    said(command)
}

#[test]
fn files_that_are_not_what_the_pair_says_are_refused() {
    let small = SmallRun::new(1);
    for (pair, files, refused) in [
        ("en-de", ["source", "correct"], ""),
        ("en-de", ["source", "planted"], ""),
        ("en-de", ["source", "four-words"], ""),
        ("en-de", ["source", "yes"], ""),
        ("en-de", ["source", "french"], "the translations of `french` are in French, not German"),
        (
            "en-de",
            ["source", "english"],
            "the translation `english` is the source itself in 12 of 12 segments",
        ),
        (
            "en-de",
            ["correct", "source"],
            "the sources of `en-de` are in German and the translations of `source` in English",
        ),
        ("en-de", ["french", "correct"], "the sources of `en-de` are in French, not English"),
        ("en-de", ["source", "shifted"], "the translations of `shifted` stand 1 line above their sources"),
        ("zh-en", ["source", "correct"], ""),
        ("zh-en", ["source", "planted"], ""),
        ("zh-en", ["source", "four-words"], ""),
        ("zh-en", ["source", "yes"], ""),
        ("zh-en", ["source", "french"], "the translations of `french` are in French, not English"),
        (
            "zh-en",
            ["source", "chinese"],
            "the translation `chinese` is the source itself in 12 of 12 segments",
        ),
        (
            "zh-en",
            ["correct", "source"],
            "the sources of `zh-en` are in English and the translations of `source` in Chinese",
        ),
        ("zh-en", ["french", "correct"], "the sources of `zh-en` are in French, not Chinese"),
    ] {
        let (code, text) = score(&small, pair, files, &["--out", &format!("{pair}-{}", files.join("-"))]);
        if refused.is_empty() {
            assert!(
                matches!(code, 0 | 1) && !text.contains("--language-check"),
                "{pair} {files:?}: {code} {text}"
            );
        } else {
            assert!(
                code == 2 && text.contains(refused) && text.contains("--language-check off"),
                "{pair} {files:?}: {text}"
            );
        }
    }
}

#[test]
fn a_file_is_judged_as_a_whole_whatever_is_selected_of_it() {
    let small = SmallRun::new(1);
    let [mut lines, french] = ["correct", "french"].map(|name| lines_of("en-de", name));
    lines[..3].clone_from_slice(&french[..3]);
    fs::write(small.at("mixed.txt"), lines.join("\n")).unwrap();
    let mixed = small.at("mixed").display().to_string();
    // The last one repeats a finished run.
    for (out, selected) in [
        ("all", &[][..]),
        ("limit", &["--limit", "3"]),
        ("subset", &["--subset", "3"]),
        ("shard", &["--shard", "1/4"]),
        ("all", &["--limit", "3"]),
    ] {
        let (_, text) = score(&small, "en-de", ["source", &mixed], &[&["--out", out], selected].concat());
        assert!(!text.contains("--language-check off"), "{selected:?}: {text}");
    }
    let warned = small.read("limit/verdicts.jsonl").matches(FRENCH).count();
    assert_eq!(warned, 3, "units alone are non-translations");
}

#[test]
fn what_is_not_certain_is_a_warning_and_the_check_can_be_left_out() {
    let small = SmallRun::new(1);
    // Two numbers are all that the Chinese and the English lines have in common.
    let (code, text) = score(&small, "zh-en", ["source", "shifted"], &["--out", "shifted"]);
    assert!(matches!(code, 0 | 1), "{text}");
    assert!(
        text.contains("the translations of `shifted` seem to stand 1 line above their sources"),
        "{text}"
    );
    let (code, text) =
        score(&small, "en-de", ["source", "french"], &["--out", "off", "--language-check", "off"]);
    assert!(matches!(code, 0 | 1), "{text}");
    let verdicts = small.read("off/verdicts.jsonl");
    assert!(
        !verdicts.contains("\"warning\"") && !small.read("off/run.json").contains("\"language\""),
        "{verdicts}"
    );
}

/// Translations of which the third is its source, the seventh French and the tenth German.
fn mixed(small: &SmallRun) {
    let [source, correct, french] = ["source", "correct", "french"].map(|name| lines_of("en-de", name));
    let docs = lines_of("en-de", "docs");
    let mut table = String::new();
    for system in ["whole", "partly"] {
        for at in 0..12 {
            let hypothesis = match at {
                2 if system == "partly" => &source[at],
                6 if system == "partly" => &french[at],
                _ => &correct[at],
            };
            let row = serde_json::json!({
                "system": system, "doc": docs[at], "seg_id": at, "src_lang": "en", "tgt_lang": "de",
                "source": source[at], "hypothesis": hypothesis,
            });
            table += &row.to_string();
            table.push('\n');
        }
    }
    fs::write(small.at("input.jsonl"), table).unwrap();
}

fn verdicts(small: &SmallRun, out: &str) -> Vec<Value> {
    let lines = small.read(&format!("{out}/verdicts.jsonl"));
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const COPY: &str = "not a translation: identical to the source";
const FRENCH: &str = "not a translation: in French, not German";

#[test]
fn segments_that_are_not_translated_get_the_lowest_score_without_a_model() {
    let small = SmallRun::scoring(1);
    mixed(&small);
    let (code, text) = said(small.score("out", &[]));
    assert!(matches!(code, 0 | 1), "{text}");
    let all = verdicts(&small, "out");
    let marked: Vec<&Value> = all.iter().filter(|verdict| verdict.get("warning").is_some()).collect();
    let place =
        |verdict: &Value| (verdict["system"].clone(), verdict["seg"].clone(), verdict["warning"].clone());
    assert_eq!(
        marked.iter().map(|verdict| place(verdict)).collect::<Vec<_>>(),
        [("partly".into(), 2.into(), COPY.into()), ("partly".into(), 6.into(), FRENCH.into())]
    );
    for verdict in marked {
        let hypothesis = verdict["hypothesis"].as_str().unwrap();
        let error = &verdict["errors"][0];
        assert_eq!((verdict["score"].as_f64(), verdict["quality_score"].as_f64()), (Some(0.0), Some(0.0)));
        assert_eq!((verdict["n_calls"].as_u64(), verdict["status"].as_str()), (Some(0), Some("ok")));
        assert_eq!(
            (error["category"].as_str(), error["severity"].as_str()),
            (Some("non-translation"), Some("critical"))
        );
        assert_eq!(
            (error["start"].as_u64(), error["end"].as_u64()),
            (Some(0), Some(hypothesis.chars().count() as u64))
        );
    }
    let run: Value = serde_json::from_str(&small.read("out/run.json")).unwrap();
    assert_eq!(run["signature"]["language"], untranslated_version());
    for more in [&["verify", "out"][..], &["verify", "out", "--without-model"]] {
        let (code, text) = said(small.tribunal(more));
        assert!(code == 0 && text.contains("confirmed: nothing differs"), "{text}");
    }
    let (code, text) = said(small.tribunal(&["rerun", "out", "--out", "again"]));
    assert!(code == 0 && text.contains("byte for byte"), "{text}");
}

fn untranslated_version() -> &'static str {
    tribunal::judges::untranslated::VERSION
}

#[test]
fn under_paper_the_model_s_score_stays_with_a_warning() {
    let small = SmallRun::scoring(1);
    mixed(&small);
    let (code, text) = said(small.score("out", &["--preset", "paper"]));
    assert!(matches!(code, 0 | 1), "{text}");
    let all = verdicts(&small, "out");
    let warned: Vec<&Value> = all.iter().filter(|verdict| verdict.get("warning").is_some()).collect();
    assert_eq!(warned.len(), 2);
    assert!(warned.iter().all(|verdict| verdict["n_calls"].as_u64() > Some(0)), "{warned:?}");
    assert_eq!(warned[0]["warning"], format!("{COPY}; the score is the model's"));
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert!(code == 0 && text.contains("confirmed: nothing differs"), "{text}");
}

#[test]
fn the_warning_stands_wherever_the_score_stands() {
    let small = SmallRun::scoring(1);
    mixed(&small);
    let (_, text) = said(small.score("out", &[]));
    let of_system = "warning: partly: 2 of 12 segments are not translations";
    assert!(text.contains(of_system) && text.contains(&format!("warning     {COPY}")), "{text}");
    for (args, wanted) in [
        (&["show", "out"][..], of_system),
        (&["show", "out", "3", "--system", "partly"], COPY),
        (&["show", "out", "--format", "tsv"], COPY),
        (&["show", "out", "--format", "csv"], COPY),
        (&["show", "out", "--format", "json"], COPY),
        (&["compare", "out"], of_system),
        (&["compare", "out", "--json"], "\"untranslated\": 2"),
    ] {
        let (_, text) = said(small.tribunal(args));
        assert!(text.contains(wanted), "{args:?}: {text}");
    }
    for format in ["csv", "ratings"] {
        let (code, text) = said(small.tribunal(&["export", "out", "--as", format, "--out", format]));
        assert_eq!(code, 0, "{text}");
        assert!(small.read(format).contains(COPY), "{format}");
    }
}

/// The raters' annotations of segments that are called non-translations.
#[derive(Debug, Default, PartialEq)]
struct Told {
    ratings: usize,
    called: usize,
    /// Rated as a non-translation, or marked over more than half of their characters.
    right: usize,
}

fn is_non_translation(rated: &Rated, opinion: &Opinion) -> bool {
    let n = rated.segment.hypothesis.chars().count();
    let mut marked = vec![false; n];
    for error in opinion.errors.iter().filter(|error| error.side == Side::Target) {
        let (Some(start), Some(end)) = (error.start, error.end) else { continue };
        marked[start.min(n)..end.min(n)].fill(true);
    }
    opinion.score(weights::find("wmt").unwrap()) <= -25.0
        || 2 * marked.iter().filter(|marked| **marked).count() > n
}

fn told(documents: &[Document]) -> Told {
    let mut told = Told::default();
    for rated in documents.iter().flat_map(|document| &document.segments) {
        told.ratings += rated.opinions.len();
        if untranslated::of(&rated.segment).is_some() {
            told.called += rated.opinions.len();
            told.right += rated.opinions.iter().filter(|opinion| is_non_translation(rated, opinion)).count();
        }
    }
    told
}

/// How many rated segments the check calls non-translations, and how raters scored them.
#[test]
fn raters_agree_that_they_are_not_translated() {
    let Some(data) = published_data() else { return };
    let mut table: BTreeMap<String, Told> = BTreeMap::new();
    for pair in ["en-de", "zh-en"] {
        let (src, tgt) = parse_pair(pair).unwrap();
        let rated = rated::testset(&data.join("wmt23"), &[(pair.to_owned(), src, tgt)]).unwrap();
        table.insert(format!("WMT23 {pair}"), told(&rated));
    }
    for (pair, set) in [
        ("en-de", "2020"),
        ("zh-en", "2020"),
        ("en-de", "2021-news"),
        ("en-de", "2021-ted"),
        ("zh-en", "2021-news"),
        ("zh-en", "2021-ted"),
        ("en-ru", "2021-news"),
        ("en-ru", "2021-ted"),
    ] {
        let path = data.join(format!("ratings-2020-2021/{pair}.{set}.jsonl.xz"));
        if path.exists() {
            table.insert(format!("{set} {pair}"), told(&lines::file(&path, &[]).unwrap().0));
        }
    }
    let (called, right) = table.values().fold((0, 0), |(n, m), told| (n + told.called, m + told.right));
    println!("{table:#?}\n{right} of {called}");
    assert!(right as f64 >= 0.95 * called as f64, "{right} of {called}: {table:#?}");
}
