//! Ratings in JSON lines, one for each rater and translation, in one or several files. Ratings of one
//! translation are combined; unusable ones are counted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    path::Path,
};

use serde::Deserialize;

use super::{
    Error, Result, io,
    rated::{Document, Opinion, Rated, by_document},
};
use crate::{
    files::{self, packed, text},
    mqm::{ErrorSpan, Side, ratings::RatedError},
    segment::{Lang, Segment, numbers, trained::source_hash},
};

/// Direct assessments farther from 0 than this are no standard deviations.
const FARTHEST: f64 = 10.0;

/// A line of a file.
#[derive(Deserialize)]
struct Line {
    source: String,
    #[serde(alias = "target")]
    hypothesis: String,
    errors: Option<Vec<RatedError>>,
    z: Option<f64>,
    #[serde(alias = "source_lang")]
    src_lang: String,
    #[serde(alias = "target_lang")]
    tgt_lang: String,
    #[serde(default, alias = "system", deserialize_with = "numbers::deserialize_name")]
    system_id: String,
    #[serde(default, alias = "doc", alias = "doc_id", deserialize_with = "numbers::deserialize_name")]
    document_id: String,
    #[serde(default, alias = "seg_id", deserialize_with = "numbers::deserialize_whole")]
    segment_id: usize,
    #[serde(default)]
    rater: String,
    #[serde(default)]
    set: String,
}

/// Numbers of unused ratings, by reason. All others were used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Ratings of language pairs that were not selected.
    pub other_pairs: usize,
    /// Ratings of a translation of which more raters, or an earlier one, had another wording.
    pub other_texts: usize,
    /// By a rater who had rated the translation before.
    pub repeated: usize,
    /// Without a source or a translation.
    pub empty: usize,
    /// Not dropped: ratings with error spans that cross. A token in both is marked once, both errors count.
    pub crossing: usize,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.other_pairs, "of other language pairs"),
            (self.other_texts, "of another wording than most raters of that translation had"),
            (self.repeated, "by a rater who had rated the translation before"),
            (self.empty, "without a source or a translation"),
        ];
        let counts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, label)| format!("{n} {label}"));
        let dropped = counts.collect::<Vec<_>>().join(", ");
        if !dropped.is_empty() {
            write!(f, "ratings left out: {dropped}")?;
        }
        if self.crossing > 0 {
            let and = if dropped.is_empty() { "" } else { "; " };
            let n = self.crossing;
            let label = "in which both errors count, and what lies in both is marked once";
            write!(f, "{and}ratings with error spans that cross: {n}, {label}")?;
        }
        Ok(())
    }
}

/// Key of a translation: corpus, pair, system, document, segment.
type Place = (String, String, String, String, usize);

/// Rated translations of a file in mt-metrics-eval's form for ratings that stand alone: `source`,
/// `hypothesis`, `errors` (`start`, `end`, `category`, `severity`, `is_source_error`) or a direct assessment
/// `z`, `src_lang`, `tgt_lang`, and where known `system_id`, `document_id`, `segment_id`, `rater`, `set`. The
/// file may be compressed (gzip, xz, zstd). Of no `pairs` all are read.
///
/// # Errors
/// A file that cannot be read, a line that is none of this, errors outside their text, assessments that are
/// no standard deviations, languages without a name, no line that can be used.
pub fn file(path: &Path, pairs: &[String]) -> Result<(Vec<Document>, Dropped)> {
    let mut found: BTreeMap<Place, Vec<(Rated, usize)>> = BTreeMap::new();
    let mut dropped = Dropped::default();
    let name = files::stem(path);
    for line in packed::open(path).and_then(|unpacked| text::Lines::new(unpacked)).map_err(io(path))? {
        let (number, line) = line.map_err(io(path))?;
        let at = |reason: String| Error::Line { path: path.into(), line: number, reason };
        if line.trim().is_empty() {
            continue;
        }
        let line: Line =
            files::json::parse(&line).map_err(|e| at(format!("it is no rated translation: {e}")))?;
        let corpus = if line.set.is_empty() { name.clone() } else { format!("{name}/{}", line.set) };
        let rated = line.rated().map_err(at)?;
        let Segment { system, doc, seg, src_lang, tgt_lang, .. } = &rated.segment;
        let pair = format!("{src_lang}-{tgt_lang}");
        if !pairs.is_empty() && !pairs.contains(&pair) {
            dropped.other_pairs += 1;
        } else if rated.segment.source.trim().is_empty() || rated.segment.hypothesis.trim().is_empty() {
            dropped.empty += 1;
        } else {
            dropped.crossing += usize::from(rated.errors().is_some_and(|errors| cross(errors)));
            let place = (corpus, pair, system.clone(), doc.clone(), *seg);
            found.entry(place).or_default().push((rated, number));
        }
    }
    if found.is_empty() {
        let hint = if pairs.is_empty() { String::new() } else { format!(" of {}", pairs.join(", ")) };
        return Err(Error::Ratings(format!("`{}` holds no rated segment{hint}", path.display())));
    }
    Ok((documents(found, &mut dropped), dropped))
}

/// Translations of the same place as one, and these by document.
fn documents(found: BTreeMap<Place, Vec<(Rated, usize)>>, dropped: &mut Dropped) -> Vec<Document> {
    let mut of_pair: BTreeMap<(String, String), Vec<(usize, Rated)>> = BTreeMap::new();
    for ((corpus, pair, ..), ratings) in found {
        let first = ratings[0].1;
        let ratings = ratings.into_iter().map(|(rated, _)| rated).collect();
        of_pair.entry((corpus, pair)).or_default().push((first, together(ratings, dropped)));
    }
    let of = |((corpus, pair), mut rated): ((String, String), Vec<(usize, Rated)>)| {
        rated.sort_by_key(|(first, _)| *first);
        by_document(&pair, &corpus, rated.into_iter().map(|(_, rated)| rated).collect())
    };
    of_pair.into_iter().flat_map(of).collect()
}

/// Several raters' ratings of one translation as one, in the wording that most of them had.
fn together(ratings: Vec<Rated>, dropped: &mut Dropped) -> Rated {
    let text = |rated: &Rated| (rated.segment.source.clone(), rated.segment.hypothesis.clone());
    let mut count: HashMap<(String, String), usize> = HashMap::new();
    for rated in &ratings {
        *count.entry(text(rated)).or_default() += 1;
    }
    let most = count.values().copied().max().unwrap_or(0);
    let majority = ratings.iter().map(text).find(|text| count[text] == most);
    let n = ratings.len();
    let mut same: Vec<Rated> = ratings.into_iter().filter(|rated| Some(text(rated)) == majority).collect();
    dropped.other_texts += n - same.len();
    let assessments: Vec<f64> = same.iter().filter_map(|rated| rated.assessment).collect();
    let mut raters = BTreeSet::new();
    let mut opinions = Vec::new();
    for opinion in same.iter_mut().flat_map(|rated| rated.opinions.drain(..)) {
        if raters.insert(opinion.rater.clone()) {
            opinions.push(opinion);
        } else {
            dropped.repeated += 1;
        }
    }
    let mean = assessments.iter().sum::<f64>() / assessments.len().max(1) as f64;
    let assessment = Some(mean).filter(|_| !assessments.is_empty());
    Rated { opinions, assessment, ..same.swap_remove(0) }
}

impl Line {
    fn rated(self) -> Result<Rated, String> {
        let language = |code: &str| Lang::parse(code).map_err(|error| error.to_string());
        let (src_lang, tgt_lang) = (language(&self.src_lang)?, language(&self.tgt_lang)?);
        // A segment that names no document is one: equal sources are equal documents.
        let doc = if self.document_id.is_empty() { source_hash(&self.source) } else { self.document_id };
        let segment = Segment {
            system: self.system_id,
            doc,
            seg: self.segment_id,
            src_lang,
            tgt_lang,
            source: self.source,
            hypothesis: self.hypothesis,
            reference: None,
            domain: None,
            reference_kind: None,
        };
        let opinions = match (self.errors, self.z) {
            (Some(marked), None) => {
                let errors = marked
                    .iter()
                    .map(|marked| marked.located(&segment))
                    .collect::<Result<Vec<_>, String>>()?;
                vec![Opinion { rater: self.rater, errors }]
            }
            (None, Some(z)) if z.is_finite() && z.abs() <= FARTHEST => Vec::new(),
            (None, Some(z)) => {
                return Err(format!(
                    "its `z` is {z}, which is no number of standard deviations; hint: of each rater's scores subtract \
                     their mean, and divide by their deviation"
                ));
            }
            (Some(_), Some(_)) => {
                return Err("it has both `errors` and `z`; hint: a line has one rating, on one scale".into());
            }
            (None, None) => return Err("it has neither `errors` nor a direct assessment `z`".into()),
        };
        Ok(Rated { segment, opinions, assessment: self.z, n_joined: 1 })
    }
}

/// Returns true if two errors of the same text overlap and neither lies within the other.
fn cross(errors: &[ErrorSpan]) -> bool {
    let places = |side: Side| {
        let of_side = errors.iter().filter(move |error| error.side == side);
        of_side.filter_map(|error| error.start.zip(error.end)).collect::<Vec<_>>()
    };
    [Side::Source, Side::Target].into_iter().any(|side| {
        let places = places(side);
        places.iter().any(|a| places.iter().any(|b| a.0 < b.0 && b.0 < a.1 && a.1 < b.1))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mqm::weights;

    /// A line with some fields replaced.
    fn line(more: &Value) -> Value {
        let mut line = json!({
            "source": "Ein Satz.", "hypothesis": "A long sentence.", "errors": [], "src_lang": "de", "tgt_lang": "en",
            "system_id": "s", "document_id": "d", "segment_id": 1, "rater": "one",
        });
        for (name, value) in more.as_object().unwrap() {
            line[name] = value.clone();
        }
        line
    }

    fn minor(start: usize, end: usize) -> Value {
        json!({"start": start, "end": end, "category": "Style", "severity": "minor"})
    }

    fn read(lines: &[Value], pairs: &[String]) -> Result<(Vec<Document>, Dropped), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.jsonl");
        std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        file(&path, pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn several_raters_make_one_translation() {
        let lines = [
            line(&json!({"errors": [minor(2, 6)]})),
            line(&json!({"rater": "two", "errors": [minor(2, 6), minor(0, 1)]})),
            line(&json!({"rater": "three"})),
            line(&json!({"rater": "one"})),
            line(&json!({"rater": "four", "hypothesis": "A  long sentence."})),
            line(&json!({"rater": "five", "hypothesis": " "})),
            line(&json!({"rater": "one", "src_lang": "fr"})),
        ];
        let (documents, dropped) = read(&lines, &["de-en".to_owned()]).unwrap();
        let [document] = &documents[..] else { panic!("{documents:?}") };
        assert_eq!((document.corpus.as_str(), document.pair.as_str()), ("some", "de-en"));
        let raters: Vec<&str> =
            document.segments[0].opinions.iter().map(|opinion| opinion.rater.as_str()).collect();
        assert_eq!(raters, ["one", "two", "three"]);
        let score = document.segments[0].score(weights::find("wmt").unwrap());
        assert!((score - -1.0).abs() < 1e-12, "the mean of 1, 2 and 0 minor errors: {score}");
        let counts = Dropped { other_pairs: 1, other_texts: 1, repeated: 1, empty: 1, crossing: 0 };
        assert_eq!(dropped, counts);
        assert_eq!(
            dropped.to_string(),
            "ratings left out: 1 of other language pairs, 1 of another wording than most raters of that translation had, \
             1 by a rater who had rated the translation before, 1 without a source or a translation"
        );
    }

    #[test]
    fn a_direct_assessment_is_a_score_alone() {
        let z = |z: f64, set: &str| line(&json!({"errors": null, "z": z, "set": set}));
        let (documents, _) = read(&[z(-0.5, "a"), z(1.5, "a"), z(0.25, "b")], &[]).unwrap();
        let found: Vec<(&str, Option<f64>)> =
            documents.iter().map(|d| (d.corpus.as_str(), d.segments[0].assessment)).collect();
        assert_eq!(found, [("some/a", Some(0.5)), ("some/b", Some(0.25))], "the mean of two");
        assert!(documents.iter().all(|document| document.segments[0].errors().is_none()));
    }

    #[test]
    fn spans_that_cross_are_counted() {
        let lines = [
            line(&json!({"errors": [minor(0, 5), minor(2, 8)]})),
            line(&json!({"segment_id": 2, "errors": [minor(0, 5), minor(2, 4), minor(5, 8)]})),
        ];
        let (documents, dropped) = read(&lines, &[]).unwrap();
        assert_eq!(dropped, Dropped { crossing: 1, ..Dropped::default() });
        let said = dropped.to_string();
        assert!(
            said.starts_with("ratings with error spans that cross: 1, in which both errors count"),
            "{said}"
        );
        assert_eq!(documents[0].segments.len(), 2, "nothing is left out");
    }

    #[test]
    fn what_is_no_rating_is_refused_with_its_line() {
        let refused = |more: Value, reason: &str| {
            let error = read(&[line(&json!({})), line(&more)], &[]).unwrap_err();
            assert!(error.contains("some.jsonl` line 2: ") && error.contains(reason), "{error}");
        };
        refused(
            json!({"errors": null, "z": 71.0}),
            "`z` is 71, which is no number of standard deviations; hint:",
        );
        refused(json!({"z": 0.5}), "both `errors` and `z`; hint: a line has one rating, on one scale");
        refused(json!({"errors": null}), "neither `errors` nor a direct assessment `z`");
        refused(json!({"errors": [minor(4, 99)]}), "the error 4..99 does not lie in the text");
        refused(json!({"errors": [minor(4, 2)]}), "the error 4..2 does not lie in the text");
        refused(json!({"src_lang": "xx"}), "`xx`");
        refused(json!({"tgt_lang": ""}), "``");
        let error = read(&[line(&json!({}))], &["en-de".to_owned()]).unwrap_err();
        assert!(error.ends_with("holds no rated segment of en-de"), "{error}");
    }

    #[test]
    fn compressed_files_are_read_whatever_they_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let text = line(&json!({})).to_string();
        let path = folder.path().join("x.jsonl.zst");
        std::fs::write(&path, zstd::encode_all(text.as_bytes(), 0).unwrap()).unwrap();
        assert_eq!(file(&path, &[]).unwrap().0[0].corpus, "x");
        // `printf '{...}' | xz`, of a line with the same fields.
        let path = folder.path().join("y.jsonl.xz");
        std::fs::write(&path, include_bytes!("lines/one.jsonl.xz")).unwrap();
        assert_eq!(file(&path, &[]).unwrap().0[0].segments[0].segment.source, "Ein Satz.");
        std::fs::write(&path, &include_bytes!("lines/one.jsonl.xz")[..40]).unwrap();
        assert!(file(&path, &[]).unwrap_err().to_string().starts_with(&format!("`{}`: ", path.display())));
        std::fs::write(&path, format!("\u{feff}{text}\r\n")).unwrap();
        assert_eq!(file(&path, &[]).unwrap().0[0].segments[0].segment.source, "Ein Satz.");
    }
}
