//! The size of the house: lines of code of each room, words and width of documentation. A change that needs
//! more room raises a budget in a commit of its own that says why.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{CRATES, expect_none, folder, sources_of};

/// Rooms by the beginning of their files' paths, which the longest that fits decides, with the most lines of
/// code (without tests, comments and blank lines).
const BUDGETS: &[(&str, &str, usize)] = &[
    ("crates/model", "", 9_947),
    ("crates/cpu", "", 7_221),
    ("crates/cuda", "", 7_621),
    ("crates/engine", "", 6_940),
    ("crates/hub", "", 2_000),
    ("crates/core", "", 7_416),
    ("crates/judges", "", 13_365),
    ("crates/meta", "", 8_755),
    ("crates/replication", "", 3_790),
    ("crates/eval", "", 4_231),
    ("crates/run", "", 6_045),
    ("crates/console", "", 390),
    ("crates/bench", "", 2_161),
    ("crates/report", "", 5_660),
    ("crates/tune", "", 2_345),
    (".", "cli", 6_152),
    (".", "", 30),
];

/// Of all rooms.
const LINES: usize = 94_040;

/// Words of all documentation but the changelog, and of the changelog.
const WORDS: [usize; 2] = [20_961, 400];

#[test]
fn rooms_stay_within_their_budgets() {
    let mut counts = vec![0; BUDGETS.len()];
    for (name, root) in CRATES {
        for source in sources_of(&folder(name), root).iter().filter(|source| !source.is_test()) {
            let is_of = |(of, room, _): &&(&str, &str, usize)| of == name && source.path.starts_with(room);
            let (room, _) = (BUDGETS.iter().enumerate().filter(|(_, room)| is_of(room)))
                .max_by_key(|(_, (_, room, _))| room.len())
                .unwrap_or_else(|| panic!("{name}/{}: no room has a budget for it", source.path));
            counts[room] += source.code.lines().filter(|line| !line.trim().is_empty()).count();
        }
    }
    let mut over = Vec::new();
    for ((name, room, budget), count) in BUDGETS.iter().zip(&counts) {
        println!("{count:>7} of {budget:>6}  {name} {room}");
        over.extend((count > budget).then(|| format!("{name} {room}: {count} lines, {budget} allowed")));
    }
    let sum: usize = counts.iter().sum();
    println!("{sum:>7} of {LINES:>6}  all");
    over.extend((sum > LINES).then(|| format!("all rooms: {sum} lines, {LINES} allowed")));
    expect_none("budgets of rooms", over);
}

#[test]
fn documentation_stays_within_its_budget() {
    let is_changelog = |path: &Path| path.ends_with("CHANGELOG.md");
    let mut words = [0, 0];
    for path in ["", "docs"].into_iter().flat_map(markdown) {
        let text = fs::read_to_string(&path).unwrap();
        words[usize::from(is_changelog(&path))] += text.split_whitespace().count();
    }
    println!("words of documentation: {} of {}, changelog {} of {}", words[0], WORDS[0], words[1], WORDS[1]);
    assert!(words[0] <= WORDS[0] && words[1] <= WORDS[1], "{words:?} words, {WORDS:?} allowed");
}

/// Tables and code may be wider.
#[test]
fn documentation_is_at_most_120_columns_wide() {
    let mut wide = Vec::new();
    for path in ["", "docs", "examples", "models/tiny", "python"].into_iter().flat_map(markdown) {
        let text = fs::read_to_string(&path).unwrap();
        let mut is_fenced = false;
        for (i, line) in text.lines().enumerate() {
            is_fenced ^= line.starts_with("```");
            let is_prose = !is_fenced && !line.starts_with('|') && !line.starts_with("    ");
            wide.extend(
                (is_prose && line.chars().count() > 120).then(|| format!("{}:{}", path.display(), i + 1)),
            );
        }
    }
    expect_none("prose of more than 120 columns", wide);
}

/// The Markdown files in a folder of the repository, but not those in folders below it.
fn markdown(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}
