//! Rated translations as examples: read from a test set in mt-metrics-eval's layout or from a JSONL file,
//! joined to the granularity of the prompt, and named or drawn by the seed. The judge writes them into its
//! prompt.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use tribunal_core::random::{SplitMix, shuffle};

use crate::{
    mqm::{
        Severity,
        ratings::{self, RatedError, Ratings},
        typology,
    },
    segment::{
        JOINT, Segment, lang,
        read::{
            self, TestSet,
            layout::{self, TestsetFiles},
            testset,
        },
        trained::TrainedOn,
    },
    setup::{Error, Granularity, Result},
    shots::{Shot, ShotError},
};

/// Documents in one example of five.
const DOCS: usize = 5;

/// One rated segment. A line of a JSONL file has these fields; lines of one system and document stand in
/// order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rated {
    source_lang: String,
    source: String,
    target_lang: String,
    target: String,
    errors: Vec<ShotError>,
    #[serde(default)]
    system: String,
    #[serde(default)]
    doc: String,
}

/// A document: its segments, `None` where one is not rated: an example shows the others.
type Document = Vec<Option<Rated>>;

/// The documents of the paper's examples, as language pair, document and system. Source: FSP, Appendix C.3.
const PRINTED: [&str; 6] = [
    "en-de:guardian.114833:NLLB_MBR_BLEU",
    "en-de:mathewdiekhake.110349821603822000:refA",
    "en-de:automotive-2-en_0371449-77:AIRC",
    "en-de:elitr_minuting-10:GPT4-5shot",
    "en-de:leadership-en.43063:ONLINE-M",
    "en-de:luggage-2-en_0553796-30:NLLB_MBR_BLEU",
];

/// Documents that examples are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Documents {
    /// [`PRINTED`] where the test set has all of them, else drawn.
    Printed,
    Drawn,
    /// `PAIR:DOC:SYSTEM`.
    Named(Vec<String>),
}

/// The examples to make: their number, each of this granularity; those that are drawn are drawn by the seed.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub granularity: Granularity,
    pub n: usize,
    pub seed: u64,
}

/// Examples from all that the file or folder holds.
///
/// # Errors
/// [`Error::Read`], [`Error::Line`] for a line that cannot be read, and [`Error::Conflict`] for a document
/// that is not rated and when there are fewer than `n` examples of this granularity.
pub fn choose(path: &Path, from: &Documents, choice: Choice) -> Result<Vec<Shot>> {
    let Choice { granularity, n, .. } = choice;
    let documents = if path.is_dir() { rated_testset(path)? } else { rated_file(path)? };
    let find = |name: &str| {
        let (pair, tail) = name.split_once(':')?;
        let (doc, system) = tail.rsplit_once(':')?;
        rated_part(documents.get(&(pair.into(), system.into(), doc.into()))?)
    };
    match from {
        Documents::Printed if granularity != Granularity::Seg => {
            let found: Option<Vec<_>> = PRINTED.iter().map(|name| find(name)).collect();
            let n_shown = if granularity == Granularity::Doc { n } else { PRINTED.len() };
            if let Some(found) = found {
                return named(&found[..n_shown], granularity, n);
            }
        }
        Documents::Named(names) => {
            let unknown = |name: &String| {
                Error::Conflict(format!(
                    "`{}` has no rated document `{name}`; hint: PAIR:DOC:SYSTEM, such as `{}`",
                    path.display(),
                    PRINTED[0]
                ))
            };
            let found: Vec<_> =
                names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect::<Result<_, _>>()?;
            return named(&found, granularity, n);
        }
        Documents::Printed | Documents::Drawn => {}
    }
    draw(path, &documents, choice)
}

/// Examples of documents in their order; five documents at a time begin again after the last.
fn named(documents: &[Vec<&Rated>], granularity: Granularity, n: usize) -> Result<Vec<Shot>> {
    let needed = match granularity {
        Granularity::Seg => {
            return Err(Error::Conflict("`documents` names documents, and `seg` shows segments".into()));
        }
        Granularity::Doc => n..=n,
        Granularity::FiveDoc => DOCS + 1..=DOCS * n,
    };
    if !needed.contains(&documents.len()) {
        let [least, most] = [needed.start(), needed.end()];
        let needed = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let reason = format!("`documents` names {}, and `{granularity}` takes {needed}", documents.len());
        return Err(Error::Conflict(reason));
    }
    let size = if granularity == Granularity::Doc { 1 } else { DOCS };
    let languages = |segments: &[&Rated]| (segments[0].source_lang.clone(), segments[0].target_lang.clone());
    if size > 1 && documents.iter().any(|segments| languages(segments) != languages(&documents[0])) {
        return Err(Error::Conflict(
            "`documents` names several language pairs, and `5doc` joins documents".into(),
        ));
    }
    let mut cycle = documents.iter().cycle();
    Ok((0..n).map(|_| join(&cycle.by_ref().take(size).flatten().copied().collect::<Vec<_>>())).collect())
}

/// Examples by the seed.
fn draw(path: &Path, documents: &BTreeMap<Key, Document>, choice: Choice) -> Result<Vec<Shot>> {
    let Choice { granularity, n, seed } = choice;
    let mut random = SplitMix(seed);
    let mut pool: Vec<Vec<&Rated>> = match granularity {
        Granularity::Seg => documents.values().flatten().flatten().map(|rated| vec![rated]).collect(),
        Granularity::Doc => documents.values().filter_map(rated_part).collect(),
        Granularity::FiveDoc => five_documents(documents, &mut random),
    };
    if pool.len() < n {
        let reason = format!(
            "`{}` holds {} rated examples of the granularity `{granularity}`, but {n} are needed",
            path.display(),
            pool.len()
        );
        return Err(Error::Conflict(reason));
    }
    shuffle(&mut pool, |_| random.draw());
    Ok(pool[..n].iter().map(|segments| join(segments)).collect())
}

/// The first segment under judgement whose source occurs in an example, as a whole or in a characteristic
/// sentence, independent of segmentation and spelling.
pub fn overlapping<'s>(examples: &[Shot], segments: &'s [Segment]) -> Option<&'s Segment> {
    let known =
        TrainedOn::from_sources("the examples", examples.iter().map(|example| example.source.as_str()));
    segments.iter().find(|segment| known.knows(&segment.source))
}

/// The rated segments of a document; `None` where there are none.
fn rated_part(document: &Document) -> Option<Vec<&Rated>> {
    let rated: Vec<&Rated> = document.iter().flatten().collect();
    (!rated.is_empty()).then_some(rated)
}

/// Documents of one language pair, of any system, shuffled and in groups of five; an incomplete last group is
/// left out.
fn five_documents<'a>(documents: &'a BTreeMap<Key, Document>, random: &mut SplitMix) -> Vec<Vec<&'a Rated>> {
    let mut by_pair: BTreeMap<&str, Vec<Vec<&Rated>>> = BTreeMap::new();
    for ((pair, ..), document) in documents {
        by_pair.entry(pair).or_default().extend(rated_part(document));
    }
    let mut pool = Vec::new();
    for mut documents in by_pair.into_values() {
        shuffle(&mut documents, |_| random.draw());
        pool.extend(documents.chunks_exact(DOCS).map(<[_]>::concat));
    }
    pool
}

fn join(segments: &[&Rated]) -> Shot {
    let text = |text: fn(&Rated) -> &str| segments.iter().map(|s| text(s)).collect::<Vec<_>>().join(JOINT);
    Shot {
        source_lang: segments[0].source_lang.clone(),
        source: text(|s| &s.source),
        target_lang: segments[0].target_lang.clone(),
        target: text(|s| &s.target),
        errors: segments.iter().flat_map(|s| s.errors.clone()).collect(),
        reference: None,
    }
}

/// Languages, system and document; the order of keys is part of what a seed draws.
type Key = (String, String, String);

fn rated_file(path: &Path) -> Result<BTreeMap<Key, Document>> {
    let text = read(path)?;
    let mut documents: BTreeMap<Key, Document> = BTreeMap::new();
    for (idx, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let rated: Rated = serde_json::from_str(line).map_err(|e| wrong_line(path, idx, &e))?;
        let pair = format!("{}-{}", rated.source_lang, rated.target_lang);
        // A line without a document's name is a document of its own.
        let doc = if rated.doc.is_empty() { format!("line {idx:09}") } else { rated.doc.clone() };
        documents.entry((pair, rated.system.clone(), doc)).or_default().push(Some(rated));
    }
    Ok(documents)
}

/// The rated translations of every language pair of the folder that has
/// `human-scores/LP.mqm.RATER.seg.rating`; of several raters of a segment the first by name.
fn rated_testset(dir: &Path) -> Result<BTreeMap<Key, Document>> {
    let conflict = |error: read::Error| Error::Conflict(error.to_string());
    let pairs = layout::rated_pairs(dir, "mqm").map_err(conflict)?;
    if pairs.is_empty() {
        let reason =
            format!("`{}` has no file `LP.mqm.RATER.seg.rating`", dir.join("human-scores").display());
        return Err(Error::Conflict(reason));
    }
    let mut documents = BTreeMap::new();
    for pair in pairs {
        let files = TestsetFiles::new(dir, pair.as_str()).ratings("mqm").map_err(conflict)?;
        rated_pair(dir, &pair, &files, &mut documents)?;
    }
    Ok(documents)
}

fn rated_pair(
    dir: &Path,
    pair: &str,
    files: &[(String, PathBuf)],
    documents: &mut BTreeMap<Key, Document>,
) -> Result<()> {
    let raters: Vec<Ratings> =
        files.iter().map(|(_, path)| ratings::read(path)).collect::<Result<_, _>>().map_err(ratings_error)?;
    let systems: BTreeSet<&String> = raters.iter().flat_map(BTreeMap::keys).collect();
    let conflict = |reason: String| Error::Conflict(reason);
    let (src, tgt) = lang::parse_pair(pair).map_err(|e| conflict(e.to_string()))?;
    let choice = TestSet {
        dir: dir.into(),
        pair: (pair.into(), src, tgt),
        systems: Some(systems.into_iter().cloned().collect()),
        reference: None,
    };
    for segment in testset(&choice).map_err(|e| conflict(e.to_string()))?.segments {
        let errors = raters.iter().find_map(|rater| rater.get(&segment.system)?.get(segment.seg)?.as_ref());
        let rated = errors.map(|errors| rated(&segment, errors));
        let doc = if segment.doc.is_empty() { format!("line {:09}", segment.seg) } else { segment.doc };
        documents.entry((pair.to_owned(), segment.system, doc)).or_default().push(rated);
    }
    Ok(())
}

fn rated(segment: &Segment, errors: &[RatedError]) -> Rated {
    let to_error = |marked: &RatedError| {
        let severity: Severity = marked.severity.parse().ok().filter(|s| *s != Severity::Neutral)?;
        let text = if marked.is_source_error { &segment.source } else { &segment.hypothesis };
        let span = text.chars().skip(marked.start).take(marked.end.saturating_sub(marked.start)).collect();
        let category = prompt_category(&marked.category)?;
        Some(ShotError { category, span, severity, explanation: String::new(), points: BTreeMap::new() })
    };
    Rated {
        source_lang: segment.src_lang.name().to_owned(),
        source: segment.source.clone(),
        target_lang: segment.tgt_lang.name().to_owned(),
        target: segment.hypothesis.clone(),
        errors: errors.iter().filter_map(to_error).collect(),
        system: segment.system.clone(),
        doc: segment.doc.clone(),
    }
}

/// The prompt's category for a category of the typology; `other` for locale conventions and source errors,
/// which the prompt does not have. `None` for no error.
fn prompt_category(category: &str) -> Option<String> {
    let path = typology::normalise(category);
    match path.split('/').next().unwrap_or_default() {
        "no-error" => None,
        "accuracy" | "fluency" | "style" | "terminology" => Some(path),
        _ => Some("other".to_owned()),
    }
}

fn read(path: &Path) -> Result<String> {
    tribunal_core::files::text::read(path).map_err(|source| Error::Read { file: path.into(), source })
}

fn ratings_error(error: ratings::Error) -> Error {
    match error {
        ratings::Error::Io { path, source } => Error::Read { file: path, source },
        ratings::Error::Line { path, line, reason } => {
            Error::Line { file: path.display().to_string(), line, reason }
        }
        ratings::Error::Lengths { .. } => Error::Conflict(error.to_string()),
    }
}

fn wrong_line(path: &Path, idx: usize, error: &serde_json::Error) -> Error {
    let hint = "hint: each line is a JSON object with source_lang, source, target_lang, target and errors";
    let reason = format!("it is no rated translation: {error}; {hint}");
    Error::Line { file: path.display().to_string(), line: idx + 1, reason }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn choice(granularity: Granularity, n: usize, seed: u64) -> Choice {
        Choice { granularity, n, seed }
    }

    /// Twelve documents of two segments, two systems.
    fn file() -> tempfile::NamedTempFile {
        let line = |system: usize, doc: usize, seg: usize| {
            format!(
                r#"{{"source_lang":"English","source":"s{doc}.{seg}","target_lang":"German","target":"t{system}.{doc}.{seg}","errors":[{{"category":"style/awkward","span":"t","severity":"minor"}}],"system":"{system}","doc":"{doc}"}}"#
            ) + "\n"
        };
        let lines =
            (0..2).flat_map(|system| (0..6).flat_map(move |doc| (0..2).map(move |seg| (system, doc, seg))));
        let text: String = lines.map(|(system, doc, seg)| line(system, doc, seg)).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn examples_match_the_granularity() {
        let file = file();
        let drawn = |granularity, n| choose(file.path(), &Documents::Printed, choice(granularity, n, 7));
        let lines = |shot: &Shot| shot.target.lines().count();
        assert!(
            drawn(Granularity::Seg, 5).unwrap().iter().all(|shot| lines(shot) == 1 && shot.errors.len() == 1)
        );
        let docs = drawn(Granularity::Doc, 5).unwrap();
        assert!(docs.iter().all(|shot| lines(shot) == 2 && shot.errors.len() == 2), "{docs:?}");
        let doc_name = |line: &str| line.rsplit_once('.').unwrap().0.to_owned();
        assert!(
            docs.iter().all(|shot| shot.target.lines().map(doc_name).collect::<BTreeSet<_>>().len() == 1)
        );
        let five = drawn(Granularity::FiveDoc, 2).unwrap();
        for shot in &five {
            // `tSYSTEM.DOC`: documents of both systems.
            let docs: BTreeSet<String> = shot.target.lines().map(doc_name).collect();
            let systems: BTreeSet<&str> = shot.target.lines().map(|line| &line[..2]).collect();
            assert_eq!((lines(shot), docs.len(), systems.len()), (10, 5, 2), "{shot:?}");
        }
        let error = drawn(Granularity::FiveDoc, 5).unwrap_err().to_string();
        assert!(error.contains("holds 2 rated examples of the granularity `5doc`"), "{error}");
    }

    #[test]
    fn the_seed_draws() {
        let file = file();
        let drawn = |seed| choose(file.path(), &Documents::Drawn, choice(Granularity::Seg, 5, seed)).unwrap();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let distinct: BTreeSet<String> = drawn(3).into_iter().map(|shot| shot.target).collect();
        assert_eq!(distinct.len(), 5);
    }

    #[test]
    fn named_documents_stand_in_their_order() {
        let file = file();
        let of = |docs: &str, granularity| {
            let names = docs.split(' ').map(|doc| format!("English-German:{doc}:1")).collect();
            choose(file.path(), &Documents::Named(names), choice(granularity, 5, 7))
                .map_err(|e| e.to_string())
        };
        let firsts = |shots: Vec<Shot>| -> Vec<String> {
            let first = |shot: &Shot| shot.target.lines().step_by(2).collect::<Vec<_>>().join(" ");
            shots.iter().map(first).collect()
        };
        let docs = firsts(of("4 0 1 5 2", Granularity::Doc).unwrap());
        assert_eq!(docs, ["t1.4.0", "t1.0.0", "t1.1.0", "t1.5.0", "t1.2.0"]);
        let five = firsts(of("0 1 2 3 4 5", Granularity::FiveDoc).unwrap());
        assert_eq!(five[0], "t1.0.0 t1.1.0 t1.2.0 t1.3.0 t1.4.0");
        assert_eq!(five[1], "t1.5.0 t1.0.0 t1.1.0 t1.2.0 t1.3.0");
        for (names, granularity, expected) in [
            ("0 1 2 3", Granularity::Doc, "names 4, and `doc` takes 5"),
            ("0 1 2 3 4", Granularity::FiveDoc, "names 5, and `5doc` takes 6 to 25"),
            ("0 1 2 3 4", Granularity::Seg, "`seg` shows segments"),
            ("0 1 2 3 9", Granularity::Doc, "no rated document `English-German:9:1`; hint: PAIR:DOC:SYSTEM"),
        ] {
            let error = of(names, granularity).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_rated_test_set() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("documents/en-de.docs", "news\td1\nnews\td1\nnews\td2\n");
        write("sources/en-de.txt", "one thing\ntwo\nthree\n");
        write("system-outputs/en-de/A.txt", "ein Ding\nzwei\ndrei\n");
        let rating = |errors: &str| format!("A\t{{\"errors\": [{errors}]}}\n");
        let first = r#"{"start": 4, "end": 8, "category": "Style/Awkward", "severity": "minor"}, {"start": 0, "end": 3, "category": "Accuracy/Omission", "severity": "major", "is_source_error": true}, {"start": 0, "end": 3, "category": "Locale convention/Date format", "severity": "neutral"}"#;
        write("human-scores/en-de.mqm.r1.seg.rating", &(rating(first) + &rating("") + "A\tNone\n"));
        let docs = choose(dir.path(), &Documents::Printed, choice(Granularity::Doc, 1, 0)).unwrap();
        assert_eq!((docs[0].source.as_str(), docs[0].target.as_str()), ("one thing\ntwo", "ein Ding\nzwei"));
        assert_eq!((docs[0].source_lang.as_str(), docs[0].target_lang.as_str()), ("English", "German"));
        let errors: Vec<_> =
            docs[0].errors.iter().map(|e| format!("{} {} `{}`", e.severity, e.category, e.span)).collect();
        assert_eq!(errors, ["minor style/awkward `Ding`", "major accuracy/omission `one`"]);
        // The second document has no rated segment.
        assert!(choose(dir.path(), &Documents::Printed, choice(Granularity::Doc, 2, 0)).is_err());
        assert_eq!(choose(dir.path(), &Documents::Printed, choice(Granularity::Seg, 2, 0)).unwrap().len(), 2);
        // Of a document that is rated in part, the rated segments.
        write("human-scores/en-de.mqm.r1.seg.rating", &(rating(first) + "A\tNone\n" + &rating("")));
        let docs = choose(dir.path(), &Documents::Printed, choice(Granularity::Doc, 2, 0)).unwrap();
        let targets: BTreeSet<&str> = docs.iter().map(|doc| doc.target.as_str()).collect();
        assert_eq!(targets, BTreeSet::from(["ein Ding", "drei"]));
    }
}
