//! The user's documents as passages: plain text, Markdown, JSON lines (dumps of Wikipedia and Wiktionary as
//! their usual converters write them), glossaries as TSV. Archives and wiki markup are not read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use icu_segmenter::{SentenceSegmenter, options::SentenceBreakInvariantOptions};
use serde_json::Value;
use tribunal_core::files::{json, text};

use super::{Error, Passage, Result};

/// The most characters in a passage, unless a single sentence is longer.
pub const PASSAGE_CHARS: usize = 800;

/// Properties that may name an entry; the first one present counts.
const TITLES: &[&str] = &["title", "word", "term", "headword", "name", "source"];

/// Properties that may hold an entry's text; the first one present counts.
const TEXTS: &[&str] =
    &["text", "definition", "meaning", "gloss", "explanation", "translation", "target", "content", "extract"];

/// Counts of skipped files and entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Files of other kinds in the folder or below.
    pub files: usize,
    /// Entries without a text, such as a dump's redirects.
    pub entries: usize,
}

/// Takes each passage; an error stops the reading.
pub type Take<'a> = dyn FnMut(Passage) -> Result<()> + 'a;

/// Reads a file, or all files below a folder in the order of their names, passage by passage.
///
/// # Errors
/// [`Error::Io`], [`Error::Line`] for a line that does not have the format of the file's extension, and the
/// errors of `take`.
pub fn passages(input: &Path, take: &mut Take) -> Result<Skipped> {
    let mut skipped = Skipped::default();
    if fs::metadata(input).is_ok_and(|metadata| !metadata.is_dir() && !metadata.is_file()) {
        let source = std::io::Error::other("it is not a plain file");
        return Err(Error::Io { action: "read", path: input.into(), source });
    }
    if !input.is_dir() {
        if !read_file(input, file_name(input), take, &mut skipped)? {
            return Err(Error::NoText(input.into()));
        }
        return Ok(skipped);
    }
    for path in files(input)? {
        let name = path.strip_prefix(input).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        if !read_file(&path, name, take, &mut skipped)? {
            skipped.files += 1;
        }
    }
    Ok(skipped)
}

/// All files in a folder and below, except hidden ones, sorted.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let io = |source: std::io::Error| Error::Io { action: "read", path: dir.into(), source };
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(io)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    entries.retain(|path| !file_name(path).starts_with('.'));
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        // A link to a folder may lead back here, and a special file may never end.
        let kind = fs::symlink_metadata(&path).map_err(io)?;
        if kind.is_dir() {
            found.extend(files(&path)?);
        } else if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.push(path);
        }
    }
    Ok(found)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads a file and returns true if its kind can be read.
fn read_file(path: &Path, name: String, take: &mut Take, skipped: &mut Skipped) -> Result<bool> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let file = Source { path, name };
    match ending.as_str() {
        "txt" | "text" => file.text(take)?,
        "md" | "markdown" => file.markdown(take)?,
        "jsonl" | "ndjson" => file.json_lines(take, skipped)?,
        "tsv" => file.tsv(take, skipped)?,
        // WikiExtractor names its files like this.
        "" if file_name(path).starts_with("wiki_") => file.json_lines(take, skipped)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A file, and its name in passages' origins.
struct Source<'a> {
    path: &'a Path,
    name: String,
}

impl Source<'_> {
    fn lines(&self) -> Result<impl Iterator<Item = Result<(usize, String)>>> {
        let path = self.path.to_path_buf();
        let io = move |source| Error::Io { action: "read", path: path.clone(), source };
        let lines = text::lines(self.path).map_err(io.clone())?;
        Ok(lines.map(move |line| line.map_err(io.clone())))
    }

    /// Plain text, with paragraphs between empty lines.
    fn text(&self, take: &mut Take) -> Result<()> {
        let title = self.stem();
        let mut open = Open::new(1);
        for line in self.lines()? {
            let (number, line) = line?;
            self.add(&mut open, &title, number, &line, take)?;
        }
        self.flush(&mut open, &title, take)
    }

    /// Like plain text, but a heading begins a new passage and is its title.
    fn markdown(&self, take: &mut Take) -> Result<()> {
        let stem = self.stem();
        let mut title = stem.clone();
        let mut open = Open::new(1);
        for line in self.lines()? {
            let (number, line) = line?;
            let heading = line.trim_start_matches('#');
            let depth = line.len() - heading.len();
            if (1..=6).contains(&depth) && heading.starts_with(' ') {
                self.flush(&mut open, &title, take)?;
                title = format!("{stem}: {}", heading.trim());
                open = Open::new(number);
            } else {
                self.add(&mut open, &title, number, &line, take)?;
            }
        }
        self.flush(&mut open, &title, take)
    }

    fn json_lines(&self, take: &mut Take, skipped: &mut Skipped) -> Result<()> {
        for line in self.lines()? {
            let (number, line) = line?;
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |reason: String| Error::Line { path: self.path.into(), line: number, reason };
            let entry: Value = json::parse(&line).map_err(wrong)?;
            if !entry.is_object() {
                return Err(wrong("not a JSON object".into()));
            }
            let title = first(&entry, TITLES).unwrap_or_default();
            match first(&entry, TEXTS).or_else(|| senses(&entry)) {
                Some(text) => self.give(&title, &text, number, take)?,
                None => skipped.entries += 1,
            }
        }
        Ok(())
    }

    /// A glossary: the first column is the term, the others explain it. The first line is a header if it
    /// begins with a known name.
    fn tsv(&self, take: &mut Take, skipped: &mut Skipped) -> Result<()> {
        let mut header: Vec<String> = Vec::new();
        for line in self.lines()? {
            let (number, line) = line?;
            let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
            let head = cells[0].to_lowercase();
            if number == 1 && cells.len() > 1 && TITLES.contains(&head.as_str()) {
                header = cells.iter().map(|cell| (*cell).to_owned()).collect();
                continue;
            }
            let explained = |(column, cell): (usize, &&str)| {
                let name = header.get(column).filter(|name| !name.is_empty());
                name.map_or_else(|| (*cell).to_owned(), |name| format!("{name}: {cell}"))
            };
            let others = cells.iter().enumerate().skip(1).filter(|(_, cell)| !cell.is_empty());
            let text = others.map(explained).collect::<Vec<_>>().join("; ");
            match (cells[0].is_empty(), text.is_empty()) {
                (false, false) => self.give(cells[0], &text, number, take)?,
                (true, true) => {}
                _ => skipped.entries += 1,
            }
        }
        Ok(())
    }

    /// Adds a line to the open passage, which ends at an empty line once it is long enough.
    fn add(&self, open: &mut Open, title: &str, number: usize, line: &str, take: &mut Take) -> Result<()> {
        if !line.trim().is_empty() {
            if open.text.is_empty() {
                open.line = number;
            }
            open.text.push_str(line.trim_end());
            open.text.push('\n');
        } else if open.text.chars().count() >= PASSAGE_CHARS / 2 {
            self.flush(open, title, take)?;
        }
        Ok(())
    }

    fn flush(&self, open: &mut Open, title: &str, take: &mut Take) -> Result<()> {
        let text = std::mem::take(&mut open.text);
        self.give(title, &text, open.line, take)
    }

    /// Passes a text on as one passage or, if it is long, as several.
    fn give(&self, title: &str, text: &str, line: usize, take: &mut Take) -> Result<()> {
        for text in pieces(text.trim()) {
            let origin = format!("{}:{line}", self.name);
            take(Passage { title: title.to_owned(), text, origin })?;
        }
        Ok(())
    }

    fn stem(&self) -> String {
        Path::new(&self.name).with_extension("").to_string_lossy().into_owned()
    }
}

/// A passage that lines are still being added to, and the line where it begins.
struct Open {
    text: String,
    line: usize,
}

impl Open {
    fn new(line: usize) -> Self {
        Self { text: String::new(), line }
    }
}

/// The text in the first of these properties that is a string, unless it is blank.
fn first(entry: &Value, names: &[&str]) -> Option<String> {
    let text = names.iter().find_map(|name| entry[*name].as_str());
    text.filter(|text| !text.trim().is_empty()).map(ToOwned::to_owned)
}

/// The senses of a Wiktionary entry, as `wiktextract` writes them.
fn senses(entry: &Value) -> Option<String> {
    let senses = entry["senses"].as_array()?;
    let glosses: Vec<&str> = senses
        .iter()
        .flat_map(|sense| sense["glosses"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    if glosses.is_empty() {
        return None;
    }
    let kind =
        [&entry["lang"], &entry["pos"]].into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    let etymology = entry["etymology_text"].as_str().filter(|text| !text.is_empty());
    let etymology = etymology.map_or(String::new(), |text| format!(" Etymology: {text}"));
    Some(format!("{kind}: {}.{etymology}", glosses.join("; ")))
}

/// Cuts a long text between sentences.
fn pieces(text: &str) -> Vec<String> {
    if text.chars().count() <= PASSAGE_CHARS {
        return if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
    }
    let segmenter = SentenceSegmenter::new(SentenceBreakInvariantOptions::default());
    let mut pieces: Vec<String> = Vec::new();
    let (mut start, mut open, mut n_open) = (0, String::new(), 0);
    for end in segmenter.segment_str(text).skip(1) {
        let sentence = &text[start..end];
        let n = sentence.chars().count();
        if n_open + n > PASSAGE_CHARS && n_open > 0 {
            pieces.push(open.trim().to_owned());
            (open, n_open) = (String::new(), 0);
        }
        open.push_str(sentence);
        n_open += n;
        start = end;
    }
    pieces.push(open.trim().to_owned());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}
