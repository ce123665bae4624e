//! The rules of ARCHITECTURE.md that a program can check, over the text of `src/`: names and lines, not
//! types. Rules that depend on types are for review.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

mod budgets;
mod circles;
mod source;
mod words;

use source::Source;

/// Imports that each room may have. Every room is listed.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("main", &["cli", "console"]),
    (
        "cli",
        &[
            "eval",
            "run",
            "meta",
            "report",
            "console",
            "tune",
            "engine",
            "judges",
            "replication",
            "hub",
            "evidence",
            "segment",
            "llm",
            "mqm",
            "signature",
        ],
    ),
    ("eval", &["run", "engine", "hub", "cuda", "jinja", "judges", "llm", "segment", "mqm", "signature"]),
    ("run", &["judges", "llm", "segment", "mqm", "signature"]),
    ("judges", &["jinja", "llm", "mqm", "segment", "signature"]),
    ("replication", &["judges", "llm", "meta", "mqm", "segment"]),
    ("engine", &["cuda", "jinja", "llm", "model", "signature"]),
    ("model", &["gguf"]),
    ("cpu", &[]),
    ("cuda", &[]),
    ("console", &["eval", "engine", "judges", "llm", "run", "segment"]),
    ("report", &["meta", "run", "llm", "mqm", "segment", "signature"]),
    ("tune", &["model", "engine", "judges", "llm", "meta", "mqm", "segment"]),
    ("bench", &["console", "eval", "engine", "model", "cpu", "cuda", "llm", "judges", "run", "segment"]),
    ("mqm", &["segment"]),
    ("meta", &["mqm", "segment"]),
    ("llm", &[]),
    ("jinja", &[]),
    ("signature", &[]),
    ("segment", &[]),
    ("gguf", &[]),
    ("hub", &["gguf"]),
    ("evidence", &[]),
    ("digest", &[]),
    ("random", &[]),
    ("files", &[]),
    ("panics", &[]),
    ("parallel", &[]),
    ("plain", &[]),
    ("table", &[]),
];

/// Rooms below all others, which any may use.
const BELOW: &[&str] = &["digest", "random", "files", "panics", "parallel", "plain", "table"];

/// A file with an import beyond its room's.
const EXCEPTIONS: &[(&str, &str)] = &[("judges/rate", "evidence")];

const MAX_LINES: usize = 500;

/// Words that name no responsibility.
const EMPTY_NAMES: &[&str] =
    &["utils", "util", "common", "helpers", "types", "misc", "manager", "service", "handler"];

/// Folders and files where `unsafe` is at home.
const UNSAFE_HOMES: &[&str] = &["cpu", "cuda", "model/weights", "files/descriptor", "files/owner"];

/// Rooms with network access: `models pull`.
const NETWORK_HOMES: &[&str] = &["hub"];

/// Files that write: the room for it, and a pull, which resumes a partial file.
const WRITING_HOMES: &[&str] = &["files", "hub/pull"];

/// Files that read the clock: for the least recently used saved prefix.
const CLOCK_HOMES: &[&str] = &["engine/saved"];

/// Crates that are programs or a part of one, and the notes that they print.
const PROGRAMS: &[&str] = &["crates/bench", "crates/console", "crates/report"];

/// Files that name options of other programs, or still of this one.
const OPTION_HOMES: &[&str] =
    &["hub/packages", "judges/m_mad/start", "cuda", "model/weights", "model/config"];

/// Files with the `cuda` feature.
const CUDA_HOMES: &[&str] = &["cuda"];

/// The engine's bookkeeping, which holds integers only.
const INTEGER_FILES: &[&str] = &["engine/radix", "engine/scheduler", "engine/sequence", "engine/states"];

/// A literal in a judge that is longer than this reads like a prompt.
const MAX_LITERAL_CHARS: usize = 240;

/// Beginnings of prompts.
const PROMPT_CUES: &[&str] = &[
    "You are a",
    "You are an",
    "You will be given",
    "Your task is",
    "Please identify",
    "Based on the source segment",
];

/// The program and the crates below it, with the room of each crate that is a single one. Visibility between
/// crates is in their manifests, for the compiler; the table is about the rooms within each.
const CRATES: &[(&str, &str)] = &[
    ("crates/bench", "bench"),
    ("crates/console", "console"),
    ("crates/core", ""),
    ("crates/cpu", "cpu"),
    ("crates/cuda", "cuda"),
    ("crates/engine", "engine"),
    ("crates/eval", "eval"),
    ("crates/hub", "hub"),
    ("crates/judges", "judges"),
    ("crates/meta", "meta"),
    ("crates/model", "model"),
    ("crates/replication", "replication"),
    ("crates/report", "report"),
    ("crates/run", "run"),
    ("crates/tune", "tune"),
    (".", ""),
];

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of).join("src")
}

/// The integration tests of a crate; none where it has none.
fn tests_of(name: &str) -> Vec<Source> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name).join("tests/all");
    if folder.is_dir() { sources_of(&folder, "") } else { Vec::new() }
}

/// All Rust files of the libraries and the binary.
fn sources() -> Vec<Source> {
    CRATES.iter().flat_map(|(name, root)| sources_of(&folder(name), root)).collect()
}

fn is_room(name: &str) -> bool {
    MAY_IMPORT.iter().any(|(room, _)| *room == name)
}

fn sources_of(folder: &Path, root: &'static str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(Source::read(folder, root, &path));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "{} was not found", folder.display());
    found
}

/// Fails with all offences at once.
fn expect_none(rule: &str, offences: impl IntoIterator<Item = String>) {
    let offences: Vec<_> = offences.into_iter().collect();
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

fn is_in(path: &str, homes: &[&str]) -> bool {
    homes.iter().any(|home| path.starts_with(home))
}

/// `path:line: text` of each code line that `is_offence` finds.
fn lines_where<'a>(
    source: &'a Source,
    is_offence: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let lines = source.code.lines().enumerate();
    lines
        .filter(move |(_, line)| is_offence(line))
        .map(|(i, line)| format!("{}:{}: {}", source.path, i + 1, line.trim()))
}

#[test]
fn rooms_import_only_what_they_may() {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|s| s.room() != "lib") {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(room, _)| *room == source.room()) else {
            offences.push(format!("{}: the room `{}` is not in the table", source.path, source.room()));
            continue;
        };
        for (line, target) in source.imports() {
            let is_excepted =
                EXCEPTIONS.iter().any(|(path, to)| source.path.starts_with(path) && *to == target);
            let is_own = !source.root.is_empty() && !is_room(&target) || BELOW.contains(&target.as_str());
            if !is_own && target != source.room() && !allowed.contains(&target.as_str()) && !is_excepted {
                offences.push(format!(
                    "{}:{line}: `{}` may not import `{target}`",
                    source.path,
                    source.room()
                ));
            }
        }
    }
    expect_none("imports between rooms", offences);
}

#[test]
fn every_file_says_first_what_it_is() {
    let silent = sources().into_iter().filter(|s| !s.text.starts_with("//! ")).map(|s| s.path);
    expect_none("the first line is `//! ` and what the file is", silent);
}

/// Words that are no terms of the field, and personifications that were weeded out.
const PRIVATE_WORDS: &str = "whoever|somebody|in the place of|heeds|unwant|lets through|no longer wants|Speaker|Duel|Spoilt|\
    spoilt translation|witnesses|struct Asked|trait Judging|struct Materials|StepLimits as|\
    SampleRequest as|SampledToken as|SamplingParams as|Isa as|EvalSet as|Thresholds as";

#[test]
fn private_words_do_not_return() {
    let found = sources().into_iter().flat_map(|source| {
        let lines: Vec<String> = source.text.lines().map(str::to_owned).collect();
        lines.into_iter().enumerate().filter_map(move |(i, line)| {
            let word = PRIVATE_WORDS.split('|').find(|word| line.contains(word))?;
            Some(format!("{}:{}: `{word}`", source.path, i + 1))
        })
    });
    expect_none("words that the field does not use", found);
}

#[test]
fn paths_in_comments_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = regex::Regex::new(
        r"(?:src|crates|kernels|scripts|tests|models|benches)/[\w./-]*\.(?:rs|py|sh|cuh?|h|toml)\b",
    );
    let path = path.unwrap();
    let found = sources().into_iter().flat_map(|source| {
        let comments =
            source.text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
        let missing = comments.flat_map(|(i, line)| {
            let named = path.find_iter(line).map(|found| found.as_str());
            let missing = named
                .filter(|path| !path.contains("NAME") && !path.contains("ggml") && !root.join(path).exists());
            missing.map(|path| format!("{}:{}: {path}", source.path, i + 1)).collect::<Vec<_>>()
        });
        missing.collect::<Vec<_>>()
    });
    expect_none("paths in comments that do not exist", found);
}

#[test]
fn files_end_before_they_are_too_long() {
    let long = sources().into_iter().filter(|s| s.code.lines().count() > MAX_LINES && !s.is_test());
    expect_none("500 lines, tests apart", long.map(|s| format!("{}: {}", s.path, s.code.lines().count())));
}

#[test]
fn files_of_tests_are_short_and_their_models_stand_together() {
    let mut offences = Vec::new();
    for source in CRATES.iter().flat_map(|(name, _)| tests_of(name)) {
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            offences.push(format!("{}: {lines} lines", source.path));
        }
        // This file names the traits too, in strings.
        if !is_in(&source.path, &["fakes"]) {
            let fakes = |line: &str| line.contains("Llm for ") || line.contains("Protocol for ");
            offences.extend(lines_where(&source, fakes));
        }
    }
    expect_none("tests: 500 lines a file, models and judges in `fakes` and `crates/testing`", offences);
}

#[test]
fn no_module_is_called_after_nothing() {
    let offences = sources().into_iter().filter(|s| {
        let parts: Vec<_> = s.path.trim_end_matches(".rs").split('/').collect();
        parts.iter().any(|part| EMPTY_NAMES.contains(part)) || parts.last() == Some(&"mod")
    });
    expect_none("module names", offences.map(|s| s.path));
}

#[test]
fn unsafe_stays_at_home_and_says_why_it_is_sound() {
    let mut offences = Vec::new();
    for source in sources() {
        let lines: Vec<_> = source.text.lines().collect();
        for (i, line) in source.code.lines().enumerate() {
            let opens = line.contains("unsafe {") || line.contains("unsafe impl");
            if (opens || line.contains("unsafe fn")) && !is_in(&source.path, UNSAFE_HOMES) {
                offences.push(format!("{}:{}: unsafe outside its homes", source.path, i + 1));
            }
            let above = &lines[i.saturating_sub(8)..=i];
            if opens && !above.iter().any(|line| line.contains("SAFETY:")) {
                offences.push(format!("{}:{}: no `// SAFETY:` above", source.path, i + 1));
            }
        }
    }
    expect_none("unsafe", offences);
}

#[test]
fn the_cuda_feature_is_asked_for_in_one_place() {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|s| !is_in(&s.path, CUDA_HOMES)) {
        let lines: Vec<_> = source.code.lines().collect();
        let asked = source
            .literals
            .iter()
            .filter(|(line, text)| text == "cuda" && lines[line - 1].contains("feature"));
        offences.extend(asked.map(|(line, _)| format!("{}:{line}", source.path)));
    }
    expect_none("cfg(feature = \"cuda\")", offences);
}

#[test]
fn prompts_are_files() {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|s| !s.is_test()) {
        for (line, literal) in &source.literals {
            let is_long = ["judges", "replication"].contains(&source.room())
                && literal.chars().count() > MAX_LITERAL_CHARS;
            if is_long || PROMPT_CUES.iter().any(|cue| literal.contains(cue)) {
                let beginning: String = literal.chars().take(60).collect();
                offences.push(format!("{}:{line}: {beginning:?}", source.path));
            }
        }
    }
    expect_none("text that reads like a prompt belongs into a file beside its judge", offences);
}

#[test]
fn only_the_command_line_prints() {
    let prints = |line: &str| {
        let printers = ["println!(", "print!(", "eprintln!(", "eprint!(", "dbg!(", "stderr()", "stdout()"];
        printers.iter().any(|m| line.contains(m))
    };
    let sources = sources();
    let quiet = sources.iter().filter(|s| {
        !["cli", "console", "main"].contains(&s.room()) && s.path != "bench/cli.rs" && !s.is_test()
    });
    expect_none("printing outside cli and console", quiet.flat_map(|s| lines_where(s, prints)));
}

/// Options are a program's; `console` adds the helpful one to a library's error.
#[test]
fn libraries_name_no_options() {
    let option = regex::Regex::new("--[a-z]").unwrap();
    let libraries = CRATES.iter().filter(|(name, _)| name.starts_with("crates/") && !PROGRAMS.contains(name));
    let sources = libraries.flat_map(|(name, root)| sources_of(&folder(name), root));
    let named =
        sources.filter(|source| !source.is_test() && !is_in(&source.path, OPTION_HOMES)).flat_map(|source| {
            let is_ours = |literal: &str| {
                option.is_match(
                    &literal
                        .replace("cargo build --release", "")
                        .replace("sacrebleu -t TEST -l PAIR --echo", ""),
                )
            };
            let named = source.literals.iter().filter(|(_, literal)| is_ours(literal));
            named.map(|(line, literal)| format!("{}:{line}: {literal:?}", source.path)).collect::<Vec<_>>()
        });
    expect_none("options of the command line in libraries", named);
}

#[test]
fn only_model_cards_use_the_network() {
    let reaches = |line: &str| {
        ["ureq::", "hf_hub::", "TcpStream", "TcpListener"].iter().any(|word| line.contains(word))
    };
    let sources = sources();
    let others = sources.iter().filter(|s| !is_in(&s.path, NETWORK_HOMES) && !s.is_test());
    expect_none("network outside `models pull`", others.flat_map(|s| lines_where(s, reaches)));
}

#[test]
fn files_are_written_in_one_place() {
    let writes = |line: &str| {
        ["fs::write(", "fs::rename(", "fs::copy(", "File::create", "File::options", "OpenOptions"]
            .iter()
            .any(|word| line.contains(word))
    };
    let sources = sources();
    let others = sources.iter().filter(|s| !is_in(&s.path, WRITING_HOMES) && !s.is_test());
    expect_none(
        "files that are written otherwise than through `files`",
        others.flat_map(|s| lines_where(s, writes)),
    );
}

#[test]
fn nothing_depends_on_the_day_or_on_chance() {
    let words = ["thread_rng", "rand::rng(", "from_entropy", "from_os_rng", "static mut", "OnceLock"];
    let sources = sources();
    let hits = sources.iter().filter(|s| !s.is_test());
    let is_clock = |s: &Source, l: &str| l.contains("SystemTime::now") && !is_in(&s.path, CLOCK_HOMES);
    expect_none(
        "clock, chance, globals",
        hits.flat_map(|s| lines_where(s, move |l| is_clock(s, l) || words.iter().any(|w| l.contains(w)))),
    );
}

#[test]
fn the_engines_books_hold_integers() {
    let holds_tensors =
        |line: &str| ["Tensor", "candle_core", "f32", "f64"].iter().any(|word| line.contains(word));
    let sources = sources();
    let books = sources.iter().filter(|s| is_in(&s.path, INTEGER_FILES) && !s.is_test());
    expect_none("radix, scheduler, sequence and states", books.flat_map(|s| lines_where(s, holds_tensors)));
}

#[test]
fn nothing_is_left_for_later() {
    let later = |line: &str| ["todo!(", "unimplemented!(", "#[ignore"].iter().any(|word| line.contains(word));
    expect_none("left for later", sources().iter().flat_map(|s| lines_where(s, later).collect::<Vec<_>>()));
}

#[test]
fn the_library_is_the_rooms_of_the_table() {
    let several = CRATES.iter().filter(|(_, root)| root.is_empty());
    let texts: Vec<_> =
        several.map(|(name, _)| fs::read_to_string(folder(name).join("lib.rs")).unwrap()).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let declared: BTreeSet<_> =
        lines.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let known: BTreeSet<_> = MAY_IMPORT.iter().map(|(room, _)| *room).collect();
    expect_none(
        "rooms that are not in the table",
        declared.difference(&known).map(|room| (*room).to_owned()),
    );
}

/// A kernel's header says what it computes and which test proves it; those of a few lines leave that to what
/// they include.
#[test]
fn every_kernel_names_the_test_that_proves_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let header: String = text.lines().take_while(|line| line.starts_with("//")).collect();
        let named = header.split("kernels/tests/").skip(1).filter_map(|rest| rest.split(".cpp").next());
        let named: Vec<&str> = named.collect();
        let tests = named.iter().filter(|name| folder.join(format!("tests/{name}.cpp")).exists()).count();
        let is_other = text.lines().count() < 10 && text.contains("#include \"");
        assert!(tests > 0 || is_other, "{}: its header names no test of kernels/tests", path.display());
    }
}
