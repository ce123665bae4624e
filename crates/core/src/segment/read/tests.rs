//! Readers on small files, valid and invalid, with every message that a user can see.

use std::path::PathBuf;

mod wmt;

use super::*;
use crate::segment::lang::parse_pair;

struct Dir(tempfile::TempDir);

impl Dir {
    fn with(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A message with the temporary folder's name taken out.
    fn message(&self, result: Result<Input, Error>) -> String {
        result.unwrap_err().to_string().replace(&self.0.path().display().to_string(), "DIR")
    }

    fn notes(&self, input: &Input) -> Vec<String> {
        let dir = self.0.path().display().to_string();
        input.notes.iter().map(|note| note.replace(&dir, "DIR")).collect()
    }

    fn parallel(&self, hypotheses: &[&str]) -> Parallel {
        let exists = |name: &str| Some(self.path(name)).filter(|path| path.exists());
        Parallel {
            source: self.path("src.txt"),
            hypotheses: hypotheses.iter().map(|name| self.path(name)).collect(),
            reference: exists("ref.txt"),
            docs: exists("docs.txt"),
            pair: parse_pair("en-de").unwrap(),
        }
    }
}

fn parallel_message(files: &[(&str, &[u8])]) -> String {
    let dir = Dir::with(files);
    dir.message(parallel(&dir.parallel(&["a.txt"])))
}

fn table_message(name: &str, text: &str) -> String {
    let dir = Dir::with(&[(name, text.as_bytes())]);
    dir.message(table(&dir.path(name), None))
}

#[test]
fn parallel_text_with_everything() {
    let dir = Dir::with(&[
        ("src.txt", "\u{feff}One.\r\nTwo.\r\nThree.".as_bytes()),
        ("a.txt", "Eins.\nZwei. \nDrei.\n".as_bytes()),
        ("b.txt", "Eins!\n\nDrei!\n".as_bytes()),
        ("ref.txt", "Eins.\n\nDrei.\n".as_bytes()),
        ("docs.txt", b"news\tone\nnews\tone\nspeech\ttwo\n"),
    ]);
    let input = parallel(&dir.parallel(&["b.txt", "a.txt"])).unwrap();
    let shown: Vec<String> = input
        .segments
        .iter()
        .map(|s| {
            format!("{} {} {} {:?} {:?} {:?}", s.system, s.doc, s.seg, s.source, s.hypothesis, s.reference)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    b one 0 "One." "Eins!" Some("Eins.")
    b one 1 "Two." "" None
    b two 2 "Three." "Drei!" Some("Drei.")
    a one 0 "One." "Eins." Some("Eins.")
    a one 1 "Two." "Zwei." None
    a two 2 "Three." "Drei." Some("Drei.")
    "#);
    insta::assert_snapshot!(dir.notes(&input).join("\n"), @"
    `DIR/ref.txt` has no reference on line 2
    `DIR/b.txt` has an empty translation on line 2
    ");
}

#[test]
fn systems_are_called_like_their_files_without_known_endings() {
    let files = ["Llama-3.1-8B", "Llama-3.2-1B", "gpt-4.1.txt"];
    let dir = Dir::with(&[("src.txt", b"One."), (files[0], b"A"), (files[1], b"B"), (files[2], b"C")]);
    let input = parallel(&dir.parallel(&files)).unwrap();
    let systems: Vec<&str> = input.segments.iter().map(|segment| segment.system.as_str()).collect();
    assert_eq!(systems, ["Llama-3.1-8B", "Llama-3.2-1B", "gpt-4.1"]);
}

#[test]
fn bad_parallel_text() {
    insta::assert_snapshot!(parallel_message(&[("src.txt", b"1\n2\n3\n"), ("a.txt", b"1\n2\n")]), @"
    `DIR/src.txt` has 3 lines but `DIR/a.txt` has 2
    hint: line N of every file must be about segment N; the files diverge at line 3 or earlier
    ");
    insta::assert_snapshot!(parallel_message(&[("src.txt", b"1\n\n3\n\n"), ("a.txt", b"1\n2\n3\n4\n")]), @"
    `DIR/src.txt` line 2: the source is empty, so there is nothing to judge (1 more such lines)
    hint: remove the line from every file; documents are separated by a file of their own, not by empty lines
    ");
    insta::assert_snapshot!(parallel_message(&[("src.txt", b"1\n2\n"), ("a.txt", b"1\nGr\xfc\xdfe\n")]), @"
    `DIR/a.txt` line 2 is not UTF-8 at byte 3 of the line
    hint: convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW
    ");
    insta::assert_snapshot!(parallel_message(&[("src.txt", b"\xff\xfe1\0\n\0"), ("a.txt", b"1\n")]), @"
    `DIR/src.txt` line 1 is not UTF-8 at byte 1 of the line
    hint: the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW
    ");
    insta::assert_snapshot!(parallel_message(&[("src.txt", b""), ("a.txt", b"")]), @"`DIR/src.txt` contains no segments");
    insta::assert_snapshot!(parallel_message(&[("src.txt", b"1\n")]),
        @"cannot read `DIR/a.txt`: there is no such file or folder");
    let files: &[(&str, &[u8])] =
        &[("src.txt", b"1\n2\n3\n"), ("a.txt", b"1\n2\n3\n"), ("docs.txt", b"x\ny\nx\n")];
    insta::assert_snapshot!(parallel_message(files), @"
    `DIR/docs.txt` line 3: document `x` resumes here, after it ended on line 1
    hint: sort the rows by document, or leave `doc` out to judge each segment alone
    ");
    let dir = Dir::with(&[("src.txt", b"1\n2\n"), ("a.txt", b"1\n2\n")]);
    assert_eq!(
        dir.message(parallel(&dir.parallel(&["a.txt", "a.txt"]))),
        "`DIR/a.txt` is given twice\nhint: every system has one file; leave one of the two out"
    );
    let dir = Dir::with(&[("src.txt", b"1\n"), ("x/a.txt", b"1\n"), ("y/a.txt", b"1\n")]);
    insta::assert_snapshot!(dir.message(parallel(&dir.parallel(&["x/a.txt", "y/a.txt"]))), @"
    two translations are both named `a`: `DIR/x/a.txt` and `DIR/y/a.txt`
    hint: rename one of the files
    ");
}

#[test]
fn jsonl_and_tsv_say_the_same() {
    let jsonl = r#"{"source":"One.","target":"Eins.","system":"x","doc":"d","seg_id":4,"src_lang":"en","tgt_lang":"de"}
{"source":"Two.","hypothesis":"Zwei.","system":"x","doc":"d","seg_id":5,"src_lang":"en","tgt_lang":"de","reference":"Zwei!"}
"#;
    let tsv = "source\ttarget\tsystem\tdoc\tseg_id\tsrc_lang\ttgt_lang\treference\n\
               One.\tEins.\tx\td\t4\ten\tde\t\r\nTwo.\tZwei.\tx\td\t5\ten\tde\tZwei!\r\n";
    let dir = Dir::with(&[("in.jsonl", jsonl.as_bytes()), ("in.tsv", tsv.as_bytes())]);
    let from_json = table(&dir.path("in.jsonl"), None).unwrap();
    assert_eq!(from_json, table(&dir.path("in.tsv"), None).unwrap());
    assert_eq!(from_json.segments[1].reference.as_deref(), Some("Zwei!"));
    assert_eq!(from_json.segments[1].seg, 5);
}

#[test]
fn rows_of_two_systems_may_alternate() {
    let rows = r#"{"src":"1","mt":"a1","system":"a"}
{"src":"1","mt":"b1","system":"b"}
{"src":"2","mt":"a2","system":"a"}
{"src":"2","mt":"b2","system":"b"}"#;
    let dir = Dir::with(&[("in.jsonl", rows.as_bytes())]);
    let pair = parse_pair("en-de").unwrap();
    let input = table(&dir.path("in.jsonl"), Some(&pair)).unwrap();
    let order: Vec<_> = input.segments.iter().map(|s| (s.hypothesis.as_str(), s.seg)).collect();
    assert_eq!(order, [("a1", 0), ("a2", 1), ("b1", 0), ("b2", 1)]);
}

#[test]
fn values_that_json_does_not_have() {
    let jsonl = |text: &str| table_message("in.jsonl", text);
    insta::assert_snapshot!(jsonl(r#"{"source":"x","hypothesis":NaN,"loss":NaN}"#),
        @"`DIR/in.jsonl` line 1: `hypothesis` is `NaN` but must be a string");
    insta::assert_snapshot!(jsonl(r#"{"source":"x","hypothesis":"\ud83d"}"#), @r"
    `DIR/in.jsonl` line 1: `\ud83d` in column 29 is half of a character
    hint: write both halves, as in `\ud83d\ude00`, or the character itself
    ");
}

#[test]
fn bad_rows() {
    let jsonl = |text: &str| table_message("in.jsonl", text);
    insta::assert_snapshot!(jsonl("{\"source\": \"x\"\n"), @r#"
    `DIR/in.jsonl` line 1: the line ends in the middle of its JSON object
    hint: is a `}` or `"` missing?
    "#);
    insta::assert_snapshot!(jsonl("\n[1]\n"), @r#"
    `DIR/in.jsonl` line 2 is a list, not a JSON object
    hint: one object on each line, such as `{"source": ..., "hypothesis": ...}`; `jq -c '.[]'` makes such lines of a list
    "#);
    insta::assert_snapshot!(jsonl(r#"{"source":"x","hypothesis":7}"#),
        @"`DIR/in.jsonl` line 1: `hypothesis` is the number `7` but must be a string");
    insta::assert_snapshot!(jsonl(r#"{"source":"x"}"#), @"
    `DIR/in.jsonl` line 1: the field `hypothesis` is missing
    hint: it may also be called `target`, `mt`, `translation`
    ");
    insta::assert_snapshot!(jsonl(r#"{"source":"x","hypothesis":"y","seg_id":-1}"#),
        @"`DIR/in.jsonl` line 1: `seg_id` is the number `-1` but must be a whole number from 0");
    insta::assert_snapshot!(jsonl(r#"{"source":"x","hypothesis":"y"}"#), @"
    `DIR/in.jsonl` line 1: the languages are missing
    hint: name them, by `src_lang` and `tgt_lang` on each line or for all of them
    ");
    insta::assert_snapshot!(jsonl(r#"{"source":"x","hypothesis":"y","src_lang":"en","tgt_lang":"cz"}"#), @"
    `DIR/in.jsonl` line 1: unknown language code `cz`
    hint: did you mean `cs` (Czech)?
    ");
    let row = |doc: &str, seg: usize| {
        let text = r#""source":"x","hypothesis":"y","src_lang":"en","tgt_lang":"de""#;
        format!("{{{text},\"doc\":\"{doc}\",\"seg_id\":{seg}}}\n")
    };
    insta::assert_snapshot!(jsonl(&[row("d", 1), row("d", 1)].concat()), @"
    `DIR/in.jsonl` line 2: the segment with the id `1` of document `d` and system `in` was already on line 1
    hint: `seg_id` must be unique within a document of a system
    ");
    insta::assert_snapshot!(jsonl(&[row("d", 1), row("e", 2), row("d", 3)].concat()), @"
    `DIR/in.jsonl` line 3: document `d` resumes here, after it ended on line 1
    hint: sort the rows by document, or leave `doc` out to judge each segment alone
    ");
    insta::assert_snapshot!(table_message("in.tsv", "src\tsystem\n"), @"
    `DIR/in.tsv` line 1: the field `hypothesis` is missing
    hint: the first line must name the columns, separated by tabs; it has `src`, `system`
    ");
    insta::assert_snapshot!(table_message("in.tsv", "src\tmt\na\tb\tc\n"), @"
    `DIR/in.tsv` line 2 has 3 fields but the header has 2
    hint: fields are separated by single tabs; replace any tab inside a text, or write the table as CSV or JSONL
    ");
    insta::assert_snapshot!(table_message("in.xlsx", ""), @"
    `DIR/in.xlsx` does not end in `.jsonl`, `.tsv`, `.csv` or `.parquet`
    hint: save the sheet as CSV
    ");
    insta::assert_snapshot!(table_message("in.txt", ""), @"
    `DIR/in.txt` does not end in `.jsonl`, `.tsv`, `.csv` or `.parquet`
    hint: plain text is a source text with translations
    ");
    insta::assert_snapshot!(table_message("in.csv", "source,hypothesis,source\n"), @"
    `DIR/in.csv` line 1: the column `source` is there twice
    hint: rename or remove one of them
    ");
}

fn small_testset() -> Dir {
    Dir::with(&[
        ("sources/en-de.txt", b"1\n2\n"),
        ("documents/en-de.docs", b"news\td1\nnews\td2\n"),
        ("references/en-de.refA.txt", b"r1\nr2\n"),
        ("system-outputs/en-de/refA.txt", b"r1\nr2\n"),
        ("system-outputs/en-de/b.txt", b"b1\nb2\n"),
        ("system-outputs/en-de/a.txt", b"a1\n[No translation supplied]\n"),
    ])
}

fn choice(dir: &Dir, pair: &str) -> TestSet {
    let (src, tgt) = parse_pair(pair).unwrap();
    TestSet { dir: dir.0.path().into(), pair: (pair.into(), src, tgt), systems: None, reference: None }
}

#[test]
fn a_testset_without_its_references() {
    let dir = small_testset();
    let input = testset(&TestSet { reference: Some("refA".into()), ..choice(&dir, "en-de") }).unwrap();
    let read: Vec<_> = input
        .segments
        .iter()
        .map(|s| (s.system.as_str(), s.doc.as_str(), s.seg, s.hypothesis.as_str(), s.reference.as_deref()))
        .collect();
    assert_eq!(
        read,
        [
            ("a", "d1", 0, "a1", Some("r1")),
            ("b", "d1", 0, "b1", Some("r1")),
            ("b", "d2", 1, "b2", Some("r2"))
        ]
    );
    insta::assert_snapshot!(dir.notes(&input).join("\n"),
        @"`DIR/system-outputs/en-de/a.txt` has no translation on line 2; those segments get no verdict");
    let one = testset(&TestSet { systems: Some(vec!["refA".into()]), ..choice(&dir, "en-de") }).unwrap();
    assert_eq!(one.segments.len(), 2);
}

#[test]
fn bad_testsets() {
    let dir = small_testset();
    insta::assert_snapshot!(dir.message(testset(&choice(&dir, "zh-en"))), @"
    `DIR` has no `sources/zh-en.txt`
    hint: a test set contains sources/, documents/ and system-outputs/zh-en/; sources/ has `en-de.txt`
    ");
    let unknown = TestSet { systems: Some(vec!["c".into()]), ..choice(&dir, "en-de") };
    insta::assert_snapshot!(dir.message(testset(&unknown)), @"
    no system `c` in `DIR/system-outputs/en-de`
    hint: its systems are `a`, `b`, `refA`
    ");
}

#[test]
fn csv_says_what_jsonl_says() {
    let csv = "source,target,system,doc,seg_id\r\n\"One, two.\",\"Eins, \"\"zwei\"\".\",a,d,0\r\nDrei,\"Three\nlines\",a,d,1\r\n";
    let jsonl = r#"{"source":"One, two.","target":"Eins, \"zwei\".","system":"a","doc":"d","seg_id":0}
{"source":"Drei","target":"Three\nlines","system":"a","doc":"d","seg_id":1}
"#;
    let dir = Dir::with(&[("in.csv", csv.as_bytes()), ("in.jsonl", jsonl.as_bytes())]);
    let pair = parse_pair("en-de").unwrap();
    let read = |name: &str| table(&dir.path(name), Some(&pair)).unwrap();
    assert_eq!(read("in.csv"), read("in.jsonl"));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_as_pandas_writes_it() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/golden/parquet");
    let pair = parse_pair("he-en").unwrap();
    for name in ["snappy.parquet", "zstd.parquet", "gzip.parquet", "lz4.parquet"] {
        let input = table(&folder.join(name), Some(&pair)).unwrap();
        let shown: Vec<String> = (input.segments.iter())
            .map(|s| format!("{} {:?} {} {:?} {:?}", s.system, s.doc, s.seg, s.source, s.hypothesis))
            .collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown.join("\n"), @r#"
            a "d" 0 "One, two." "Eins, \"zwei\"."
            a "d" 1 "Drei" "Three\nlines"
            b "" 0 "שלום" "Hello"
            "#);
        }
    }
    assert!(table_message("x.parquet", "no").starts_with("`DIR/x.parquet` cannot be read as Parquet: "));
}

#[cfg(feature = "parquet")]
#[test]
fn a_small_parquet_file_does_not_fill_the_disk() {
    let file =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/parquet/dictionary.parquet"));
    let mut n_rows = 0;
    let read = super::parquet::rows(&file, &mut |_| {
        n_rows += 1;
        Ok(())
    });
    let error = read.unwrap_err().to_string();
    assert!(
        error.contains(
            "dictionary.parquet`: it unpacks to more than 1.00 GiB, the limit for a file of its size"
        ),
        "{error}"
    );
    assert_eq!(n_rows, 511, "two texts of a MiB each, and what a row counts for");
}

#[test]
fn bad_csv() {
    insta::assert_snapshot!(table_message("x.csv", "source,target\n1\n"), @"
    `DIR/x.csv` line 2: 1 field, but the header has 2
    hint: fields that hold commas, quotes or line ends stand in quotes
    ");
    insta::assert_snapshot!(table_message("x.csv", "source,target\n\"one,two\nthree,four\n"), @r"
    `DIR/x.csv` line 2: 1 field, but the header has 2; a quotation mark is never closed
    hint: fields that hold commas, quotes or line ends stand in quotes
    ");
    insta::assert_snapshot!(table_message("x.csv", "src;mt\n1;2\n"), @"
    `DIR/x.csv` line 1: the field `source` is missing
    hint: the first line must name the columns, separated by commas; it has `src;mt`
    ");
}

#[test]
fn a_row_may_hold_the_translations_of_several_systems() {
    let rows = r#"{"doc_id":"en-de_#_news_#_1","src_text":"One.","tgt_text":{"A":"Eins.","B":"Ein."},"src_lang":"en","tgt_lang":"de_DE"}
{"doc_id":"en-de_#_news_#_2","src_text":"Two.","tgt_text":{"A":"Zwei.","B":null},"src_lang":"en","tgt_lang":"de_DE"}
"#;
    let dir = Dir::with(&[("wmt25.jsonl", rows.as_bytes())]);
    let input = table(&dir.path("wmt25.jsonl"), None).unwrap();
    let shown = input.segments.iter().map(|s| format!("{} {} {} {}", s.system, s.doc, s.seg, s.hypothesis));
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @"
    A en-de_#_news_#_1 0 Eins.
    A en-de_#_news_#_2 1 Zwei.
    B en-de_#_news_#_1 0 Ein.
    ");
    insta::assert_snapshot!(table_message("x.jsonl", r#"{"src":"1","tgt":{"A":7},"src_lang":"en","tgt_lang":"de"}"#),
        @"`DIR/x.jsonl` line 1: `tgt.A` is the number `7` but must be a string");
}

#[test]
fn folders_of_the_general_task() {
    let dir = Dir::with(&[
        ("wmt23/txt-ts/sources/generaltest2023.en-de.src.en", b"One.\nTwo.\n"),
        ("wmt23/txt-ts/sources/challenge2023.en-de.src.en", b"Three.\n"),
        ("wmt23/txt-ts/sources/generaltest2023.en-cs.src.en", b"Four.\n"),
        ("wmt23/txt-ts/references/generaltest2023.en-de.ref.refA.de", b"Eins.\nZwei.\n"),
        ("wmt23/txt-ts/system-outputs/generaltest2023.en-de.hyp.ONLINE-B.de", b"Eins!\nZwei!\n"),
        ("wmt23/txt-ts/system-outputs/generaltest2023.en-de.hyp.GPT4-5shot.de", b"Ein.\nZwo.\n"),
        ("wmt23/txt-ts/system-outputs/generaltest2023.en-cs.hyp.ONLINE-B.cs", b"Ctyri.\n"),
        ("wmt24/txt-ts/sources/en-de.txt", b"One.\n"),
        ("wmt24/txt-ts/documents/en-de.docs", b"news a\n"),
        ("wmt24/txt-ts/system-outputs/en-de/X.txt", b"Eins.\n"),
    ]);
    let choice = |name: &str, systems: Option<&str>, reference: Option<&str>| {
        let (src, tgt) = parse_pair("en-de").unwrap();
        testset(&TestSet {
            dir: dir.path(name),
            pair: ("en-de".into(), src, tgt),
            systems: systems.map(|name| vec![name.to_owned()]),
            reference: reference.map(str::to_owned),
        })
    };
    let shown = |input: Input| {
        let one = |s: &Segment| {
            format!("{} {:?} {} {} {} {:?}", s.system, s.doc, s.seg, s.source, s.hypothesis, s.reference)
        };
        input.segments.iter().map(one).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(shown(choice("wmt23", None, Some("refA")).unwrap()), @r#"
    GPT4-5shot "" 0 One. Ein. Some("Eins.")
    GPT4-5shot "" 1 Two. Zwo. Some("Zwei.")
    ONLINE-B "" 0 One. Eins! Some("Eins.")
    ONLINE-B "" 1 Two. Zwei! Some("Zwei.")
    "#);
    insta::assert_snapshot!(shown(choice("wmt24", None, None).unwrap()), @r#"X "a" 0 One. Eins. None"#);
    insta::assert_snapshot!(dir.message(choice("wmt23", Some("Y"), None)), @"
    no system `Y` in `DIR/wmt23/txt-ts/system-outputs`
    hint: its systems are `GPT4-5shot`, `ONLINE-B`
    ");
    insta::assert_snapshot!(dir.message(choice("wmt23", None, Some("refB"))), @"
    no reference `refB` for `en-de` in `DIR/wmt23/txt-ts/references`
    hint: its references are `refA`
    ");
}
