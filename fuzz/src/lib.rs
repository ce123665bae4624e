//! Fuzz targets: everything that reads bytes from others. Each target takes any bytes and must return; its
//! result does not matter. `tests/all/fuzzed.rs` runs them for a short time, `cargo fuzz` for a long one.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use tribunal::{
    cli,
    engine::{
        chat::ChatTemplate,
        grammar::{self, Vocabulary},
        tokenizer::Tokenizer,
    },
    hub::inspect,
    judges::{Panel, Preset, Settings, probe::fit::Fit, registry},
    llm::{Chat, Error, Finish, Layout, Llm, Reply, ResponseFormat, Sampling, Scored, Token, TokenSource},
    meta,
    model::{Adapter, Weights, families},
    mqm::raters,
    run,
    segment::{Lang, Segment, read},
};

thread_local! {
    static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

/// Writes bytes to a file of this thread's own folder.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| tempfile::tempdir().unwrap());
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder.path())).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    })
}

/// A GGUF file, as it is opened and as it is shown.
pub fn gguf(bytes: &[u8]) {
    let path = file("model.gguf", bytes);
    let _ = inspect::describe(&path);
    if let Ok(weights) = Weights::open(&path) {
        let names: Vec<String> = weights.tensors().map(|(name, ..)| name.to_owned()).collect();
        for name in &names {
            let _ = weights.floats(name, 4);
        }
    }
}

/// The weights of a safetensors folder.
pub fn safetensors(bytes: &[u8]) {
    let path = file("folder/model.safetensors", bytes);
    file("folder/config.json", include_bytes!("../seeds/config/qwen2.json"));
    let _ = inspect::describe(&path);
    let _ = Weights::open(path.parent().unwrap_or(Path::new(".")));
}

/// A `tokenizer.json`; one that loads also reads a text.
pub fn tokenizer(bytes: &[u8]) {
    if let Ok(tokenizer) = Tokenizer::from_json(bytes, None, None) {
        let _ = tokenizer.encode_data("a b \u{e9}\n<|im_end|>");
    }
}

/// A `config.json`.
pub fn config(bytes: &[u8]) {
    if let Ok(json) = serde_json::from_slice(bytes)
        && let Ok(config) = families::from_json("config.json", &json)
    {
        for attention in config.attentions() {
            let _ = attention.rope.frequencies(attention.rotary_dim);
        }
    }
}

/// The `normalizer` of a `tokenizer.json`.
pub fn normalizer(bytes: &[u8]) {
    let Ok(normalizer) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    let mut json: serde_json::Value =
        serde_json::from_slice(include_bytes!("../seeds/tokenizer/tiny.json")).unwrap();
    json["normalizer"] = normalizer;
    tokenizer(json.to_string().as_bytes());
}

/// The fit of `probe`.
pub fn fit(bytes: &[u8]) {
    if let Ok(fit) = Fit::open(&file("fit.json", bytes)) {
        let _ = fit.probe();
    }
}

/// An adapter's settings, and its tensors after a line of `=`.
pub fn adapter(bytes: &[u8]) {
    let at = bytes.windows(3).position(|window| window == b"\n=\n");
    let (settings, tensors) = at.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 3..]));
    let path = file("adapter/adapter_config.json", settings);
    file("adapter/adapter_model.safetensors", tensors);
    if let Ok(adapter) = Adapter::read(path.parent().unwrap_or(Path::new("."))) {
        assert!(adapter.scale().is_finite() && adapter.n_parameters() > 0);
    }
}

/// The arguments of a job array, apart by the byte 1: no text of theirs becomes a line of the script.
pub fn slurm(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut values = text.split('\u{1}').chain(std::iter::repeat(""));
    let mut argv: Vec<String> =
        ["tribunal", "slurm", "submit", "--dry-run", "--method", "gemba-da"].map(str::to_owned).into();
    for option in [
        "--nodes",
        "--time",
        "--sbatch=mem",
        "--sbatch=partition",
        "--sbatch=account",
        "--shards",
        "--stage",
        "--out",
    ] {
        match values.next() {
            None | Some("") => {}
            Some(value) => argv.push(format!("{option}={value}")),
        }
    }
    let mut script = Vec::new();
    let Ok(cli) = cli::parse(argv) else { return };
    if cli.run(tribunal::eval::models::load, &mut script).is_err() {
        return;
    }
    let script = String::from_utf8(script).unwrap();
    let known = [
        "job-name",
        "nodes",
        "ntasks",
        "time",
        "partition",
        "account",
        "array",
        "output",
        "requeue",
        "open-mode",
        "signal",
        "cpus-per-task",
        "mem",
    ];
    for head in script.split("#!/bin/bash\n").skip(1) {
        for line in head.lines().take_while(|line| !line.is_empty()) {
            let option = line.strip_prefix("#SBATCH --").unwrap_or_else(|| panic!("{line:?} of {text:?}"));
            let name = option.split('=').next().unwrap_or_default();
            assert!(known.contains(&name), "{line:?} of {text:?}");
        }
    }
}

/// A chat template, with a chat of every kind of turn.
pub fn chat_template(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(template) = ChatTemplate::with_tokens(text, "<s>", "</s>") {
        let _ = template.render(&Chat::new().system("a").user("b").assistant("c").user("{{ d }}"));
    }
}

thread_local! {
    static VOCABULARY: Vocabulary = {
        let json = include_bytes!("../seeds/tokenizer/tiny.json");
        let config = br#"{"eos_token": "<|im_end|>"}"#;
        let tokenizer = Arc::new(Tokenizer::from_json(json, Some(config), None).unwrap());
        Vocabulary::new(&tokenizer, 320).unwrap()
    };
}

/// A JSON schema with a text to copy spans from; or a regular expression, where the bytes are no JSON.
pub fn schema(bytes: &[u8]) {
    let form = match serde_json::from_slice(bytes) {
        Ok(schema) => {
            let texts = [("target".to_owned(), "Er saß auf der Bank.".to_owned())].into();
            ResponseFormat::Json { schema, texts }
        }
        Err(_) => ResponseFormat::Regex(String::from_utf8_lossy(bytes).into_owned()),
    };
    let _ = grammar::shortest(&form);
    let _ = VOCABULARY.with(|vocabulary| vocabulary.grammar(&form).map(drop));
}

/// Segments as JSONL, TSV, CSV and parallel text, and human annotations of them.
pub fn segments(bytes: &[u8]) {
    let pair = (lang("en"), lang("de"));
    let _ = read::table(&file("input.jsonl", bytes), Some(&pair));
    let _ = read::table(&file("input.tsv", bytes), Some(&pair));
    let _ = read::table(&file("input.csv", bytes), Some(&pair));
    let _ = raters::read(&file("ratings.tsv", bytes), &pair);
    let _ = raters::read_any(&file("ratings.jsonl", bytes), Some(&pair), raters::Counted::Official);
    let _ = raters::read_any(&file("ratings.json", bytes), Some(&pair), raters::Counted::Last);
    let _ = read::task(&file("task.jsonl", bytes), |_| Ok(()));
    let source = file("source.txt", bytes);
    let hypotheses = vec![file("system.txt", bytes)];
    let docs = Some(file("docs.txt", bytes));
    let _ = read::parallel(&read::Parallel { source, hypotheses, reference: None, docs, pair });
}

/// A folder of mt-metrics-eval: its files one after the other, apart by lines of `=`: sources, documents, a
/// reference, a system. Also the human scores beside them, which `meta` reads.
pub fn testset(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut parts = text.split("\n=\n").map(|part| format!("{part}\n"));
    let mut write = |name: &str| file(&format!("set/{name}"), parts.next().unwrap_or_default().as_bytes());
    let source = write("sources/en-de.txt");
    write("documents/en-de.docs");
    write("references/en-de.refA.txt");
    write("system-outputs/en-de/A.txt");
    write("human-scores/en-de.mqm.seg.score");
    write("human-scores/en-de.mqm.sys.score");
    let dir = source.ancestors().nth(2).unwrap_or(&source).to_path_buf();
    for reference in [None, Some("refA".to_owned())] {
        let pair = ("en-de".to_owned(), lang("en"), lang("de"));
        let _ = read::testset(&read::TestSet { dir: dir.clone(), pair, systems: None, reference });
    }
    if let Ok(set) = meta::testset::TestSet::open(&dir, "en-de") {
        let _ = set.human("mqm");
        let _ = set.metrics();
    }
}

/// A layout of lines with spans, and the text that they are copied from: the grammar that it becomes, and its
/// shortest answer.
pub fn layout(bytes: &[u8]) {
    let (program, text) = bytes.split_at(bytes.len().min(24));
    let texts = BTreeMap::from([("target".to_owned(), String::from_utf8_lossy(text).into_owned())]);
    let form = ResponseFormat::Layout { layout: described(&mut program.iter().copied(), 0), texts };
    let _ = grammar::shortest(&form);
    let Ok(Some(mut grammar)) = VOCABULARY.with(|vocabulary| vocabulary.grammar(&form)) else { return };
    let Ok(forced) = grammar.fast_forward(9) else { return };
    assert!(forced.len() <= 9, "{forced:?}");
}

/// A layout as a few bytes describe it.
fn described(program: &mut impl Iterator<Item = u8>, depth: usize) -> Layout {
    let what = program.next().unwrap_or(0);
    let some = |program: &mut _| -> Vec<Layout> {
        (0..usize::from(what >> 4) % 4).map(|_| described(program, depth + 1)).collect()
    };
    match what % 6 {
        _ if depth > 4 => "end".into(),
        0 => char::from(what).to_string().into(),
        1 => Layout::Matching(
            ["[0-9]{1,2}", "a*", "(", "\\p{L}+", "[^\n]", ""][usize::from(what >> 4) % 6].into(),
        ),
        2 => Layout::Span {
            texts: vec![["target", "none"][usize::from(what >> 7)].into()],
            without: ["", "\n", "\"\r\n", "e "][usize::from(what >> 4) % 4].into(),
        },
        3 => Layout::Sequence(some(program)),
        4 => Layout::OneOf(some(program)),
        _ => {
            let (min, max) = (usize::from(what >> 4) % 3, Some(usize::from(what >> 5)).filter(|n| *n < 7));
            described(program, depth + 1).repeat(min, max)
        }
    }
}

fn lang(code: &str) -> Lang {
    Lang::parse(code).unwrap()
}

/// The files of a run folder.
pub fn journal(bytes: &[u8]) {
    let path = file("run/journal.jsonl", bytes);
    let dir = path.parent().unwrap_or(Path::new("."));
    for name in ["calls.jsonl", "verdicts.jsonl", "run.json", "summary.json"] {
        file(&format!("run/{name}"), bytes);
    }
    let _ = run::journal::records(dir).map(Iterator::count);
    let _ = run::calls::Sums::read(dir);
    let _ = run::verdicts(dir).map(Iterator::count);
    let _ = run::RunFile::read(dir).and_then(|run| run::input::read(dir, &run).map(drop));
    let _ = run::finish::read_summary(dir);
    fs::remove_file(dir.join("calls.jsonl")).unwrap();
    let packed = file("run/calls.jsonl.zst", bytes);
    let _ = run::calls::Sums::read(dir);
    fs::remove_file(packed).unwrap();
}

/// The prompt of the seeds' run.
const PROMPT: &str = "{{ source }}\n{{ target }}\nScore as JSON:\n";

/// A whole run folder, as it is verified without a model and merged: its files one after the other, apart by
/// lines of `=`: `run.json`, journal, calls, verdicts, summary, input.
pub fn folder(bytes: &[u8]) {
    let prompt = file("folder/materials/prompts/gemba_da/paper.j2", PROMPT.as_bytes());
    let dir = prompt.ancestors().nth(4).unwrap_or(&prompt).to_path_buf();
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut parts = text.split("\n=\n");
    for name in ["run.json", "journal.jsonl", "calls.jsonl", "verdicts.jsonl", "summary.json", "input.jsonl"]
    {
        file(&format!("folder/{name}"), format!("{}\n", parts.next().unwrap_or_default()).as_bytes());
    }
    let argv = ["tribunal", "verify", &dir.display().to_string(), "--without-model"].map(str::to_owned);
    if let Ok(cli) = cli::parse(argv) {
        let _ = cli.run(tribunal::eval::models::load, &mut std::io::sink());
    }
    let out = dir.with_file_name("merged");
    for need in [run::merge::Need::Everything, run::merge::Need::WhatIsThere] {
        let _ = run::merge(std::slice::from_ref(&dir), &out, &[], need);
        let _ = fs::remove_dir_all(&out);
    }
}

/// A method's file, its template, its schema and an answer, with zero bytes between them.
pub fn method(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let mut write = |name| file(name, parts.next().unwrap_or_default().as_bytes());
    let path = write("method/method.toml");
    write("method/question.j2");
    write("method/answer.json");
    let Ok(built) = tribunal::replication::build(&path.display().to_string(), &Settings::default()) else {
        return;
    };
    let panel = Panel::new(Arc::new(Parrot(parts.collect())), Sampling::default());
    drop(built.judge.judge(&panel, &[segment("a")]));
}

fn segment(system: &str) -> Segment {
    Segment {
        system: system.into(),
        doc: "d".into(),
        ..Segment::new((lang("en"), lang("de")), "He sat on the bank.", "Er saß auf der Bank.")
    }
}

/// A model with one answer to everything.
struct Parrot(String);

impl Llm for Parrot {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
        let token = |text: char| Token {
            id: u32::from(text),
            text: text.to_string(),
            logprob: -0.5,
            masked_logprob: -0.5,
            source: TokenSource::Sampled,
        };
        let tokens = self.0.chars().map(token).collect();
        Ok(Reply { text: self.0.clone(), tokens, finish: Finish::Stop, ..Reply::default() })
    }

    fn score_continuations(&self, _: &Chat, continuations: &[String]) -> Result<Vec<Scored>, Error> {
        Ok(continuations
            .iter()
            .map(|text| Scored {
                text: text.clone(),
                tokens: Vec::new(),
                reading: None,
                estimate: None,
                is_chance: false,
                usage: tribunal::llm::Usage::default(),
            })
            .collect())
    }
}

/// An answer to every question of every method in every preset.
pub fn answers(bytes: &[u8]) {
    let said = Arc::new(Parrot(String::from_utf8_lossy(bytes).into_owned()));
    for method in registry::METHODS {
        for preset in [Preset::Strict, Preset::Paper, Preset::Code] {
            let settings = Settings { preset, ..Settings::default() };
            // Some need files of the user's.
            let Ok(built) = tribunal::replication::build(method.name, &settings) else { continue };
            let panel = Panel::new(said.clone(), Sampling::default());
            drop(built.judge.judge(&panel, &[segment("a"), segment("b")]));
        }
    }
}
