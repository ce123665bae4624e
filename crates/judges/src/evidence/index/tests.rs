//! Tests of the evidence index: building, searching and errors. Real searches over files written here.

use super::*;

/// A folder with one document of each kind.
fn documents(dir: &Path) {
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
    fs::create_dir(dir.join("wiki")).unwrap();
    write(
        "wiki/dump.jsonl",
        "{\"id\": 7, \"title\": \"Shetland pony\", \"text\": \"The Shetland pony is a breed of pony. It comes from the Shetland isles.\"}\n\
         {\"title\": \"Redirect\"}\n\
         {\"word\": \"夺笋\", \"lang\": \"Chinese\", \"pos\": \"adj\", \"senses\": [{\"glosses\": [\"pun on 多损: scathing\"]}, {}], \
         \"etymology_text\": \"Internet slang.\"}\n",
    );
    write("terms.tsv", "term\ttarget\tnote\n群号\tgroup number\tQQ\nbank\tUfer\t\n\nalone\t\n");
    write("notes.md", "Before.\n\n# Slang\n内卷 means involution.\n\n## Poetry\nThe orient is the east.\n");
    write(
        "plain.txt",
        "\u{feff}First paragraph\nof two lines.\n\nSecond paragraph about 置顶评论, the pinned comment.\n",
    );
    write("wiki/wiki_00", "{\"title\": \"Bagpipe\", \"text\": \"The Great Highland bagpipe.\"}\n");
    write("picture.png", "no text");
    write(".hidden.txt", "hidden");
}

fn index(dir: &Path) -> (Index, Manifest, read::Skipped) {
    documents(dir);
    let out = dir.join("out of the way").join("index");
    let elsewhere = tempfile::tempdir().unwrap();
    let out = elsewhere.path().join(out.file_name().unwrap());
    let (manifest, skipped) = build(dir, &out).unwrap();
    let index = Index::open(&out).unwrap();
    (index, manifest, skipped)
}

fn found(index: &Index, query: &str) -> Vec<(String, String)> {
    let hits = index.search(query, 3).unwrap();
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
    hits.into_iter().map(|hit| (hit.passage.title, hit.passage.origin)).collect()
}

#[test]
fn finds_each_kind_of_document_in_several_languages() {
    let dir = tempfile::tempdir().unwrap();
    let (index, manifest, skipped) = index(dir.path());
    assert_eq!(skipped, read::Skipped { files: 1, entries: 2 });
    assert_eq!(manifest.passages, 9);
    let check = |query: &str, title: &str, origin: &str| {
        let hits = found(&index, query);
        let best = hits.first().unwrap_or_else(|| panic!("nothing for {query}"));
        assert_eq!((best.0.as_str(), best.1.as_str()), (title, origin), "{query}: {hits:?}");
    };
    check("what are shetland PONIES or pony", "Shetland pony", "wiki/dump.jsonl:1");
    check("夺笋啊 meaning slang", "夺笋", "wiki/dump.jsonl:3");
    check("老师的群号", "群号", "terms.tsv:2");
    check("bagpipe", "Bagpipe", "wiki/wiki_00:1");
    check("Ufer", "bank", "terms.tsv:3");
    check("内卷", "notes: Slang", "notes.md:4");
    check("orient", "notes: Poetry", "notes.md:7");
    check("置顶评论", "plain", "plain.txt:1");
    assert_eq!(found(&index, "zebra"), []);
    assert_eq!(found(&index, " ?! "), []);
    assert!(index.search("pony", 0).unwrap().is_empty());
    let hit = &index.search("群号", 1).unwrap()[0];
    assert_eq!(hit.passage.text, "target: group number; note: QQ");
    let hit = &index.search("夺笋", 1).unwrap()[0];
    assert_eq!(hit.passage.text, "Chinese adj: pun on 多损: scathing. Etymology: Internet slang.");
}

#[test]
fn the_same_documents_give_the_same_index() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [a, b] = dirs.each_ref().map(|dir| index(dir.path()));
    assert_eq!(a.1.sha256, b.1.sha256);
    for query in ["the pony of Shetland", "置顶 评论 笋", "paragraph"] {
        assert_eq!(a.0.search(query, 5).unwrap(), b.0.search(query, 5).unwrap(), "{query}");
    }
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("a.txt"), "pony").unwrap();
    let (changed, _) = build(&other.path().join("a.txt"), &other.path().join("index")).unwrap();
    assert_ne!(changed.sha256, a.1.sha256);
}

#[test]
fn equal_matches_stand_in_the_order_of_the_input() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..500)
        .map(|i| format!("{{\"title\":\"t{i}\",\"text\":\"the same words\"}}\n"))
        .collect::<Vec<_>>()
        .concat();
    fs::write(dir.path().join("many.jsonl"), lines).unwrap();
    let out = dir.path().join("index");
    build(&dir.path().join("many.jsonl"), &out).unwrap();
    let titles: Vec<_> =
        found(&Index::open(&out).unwrap(), "same").into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles, ["t0", "t1", "t2"]);
}

#[test]
fn long_texts_are_cut_between_sentences() {
    let dir = tempfile::tempdir().unwrap();
    let text = "这是一个很长的句子，说的是同一件事情。".repeat(100);
    fs::write(dir.path().join("a.txt"), &text).unwrap();
    let mut passages = Vec::new();
    read::passages(dir.path(), &mut |passage| {
        passages.push(passage.text);
        Ok(())
    })
    .unwrap();
    assert!(passages.len() > 2);
    assert!(passages.iter().all(|p| p.chars().count() <= read::PASSAGE_CHARS && p.ends_with('。')));
    assert_eq!(passages.concat(), text);
}

#[test]
fn bad_documents_and_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let said = |error: Error| error.to_string().replace(&dir.path().display().to_string(), "DIR");
    fs::write(path("bad.jsonl"), "{\"text\": \"a\"}\nno json\n").unwrap();
    fs::write(path("list.jsonl"), "[1]\n").unwrap();
    fs::write(path("empty.txt"), "\n \n").unwrap();
    fs::write(path("x.pdf"), "%PDF").unwrap();
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/file"), "").unwrap();
    let refusals: Vec<String> = [
        (path("bad.jsonl"), path("o1")),
        (path("list.jsonl"), path("o2")),
        (path("empty.txt"), path("o3")),
        (path("x.pdf"), path("o4")),
        (path("nowhere.txt"), path("o5")),
        (path("bad.jsonl"), path("full")),
    ]
    .map(|(input, out)| said(build(&input, &out).unwrap_err()))
    .into();
    insta::assert_snapshot!(refusals.join("\n"), @"
    `DIR/bad.jsonl` line 2: not JSON: expected `null`, `true` or `false` in column 2, where `o json` stands
    `DIR/list.jsonl` line 1: not a JSON object
    `DIR/empty.txt` holds no text; hint: .txt, .md, .jsonl and .tsv files are read
    `DIR/x.pdf` holds no text; hint: .txt, .md, .jsonl and .tsv files are read
    cannot read `DIR/nowhere.txt`: No such file or directory (os error 2)
    `DIR/full` is not empty; hint: give a new folder, or remove the index that is there
    ");
    // An interrupted build is not an index.
    let half = said(Index::open(&path("o1")).err().unwrap());
    assert!(
        half.starts_with("`DIR/o1` is not an evidence index: `evidence.json`: there is no such file"),
        "{half}"
    );
}
