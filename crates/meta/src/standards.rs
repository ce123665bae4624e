//! The WMT shared tasks' rules for their test sets: the standard reference and human scores, and the systems
//! that are excluded from comparisons; and a user's overrides. No data are loaded.
//!
//! Source: mt-metrics-eval `meta_info.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::testset::TestSet;
use super::{Advice, Error, Result};

/// One line a test set and language pair: name, pair, reference, outliers, human scores.
const TABLE: &str = include_str!("standards.tsv");

/// The language pair of a line for all pairs of its test set that have no earlier line.
const EVERY_PAIR: &str = "*";

/// The shared task's rules for one language pair of a test set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standard {
    /// `None` where the pair was translated without one.
    pub reference: Option<&'static str>,
    /// Systems so far from the others that they would determine a correlation by themselves.
    pub outliers: BTreeSet<&'static str>,
    /// The names of the human scores of segments, and of systems; `None` where the pair has none.
    pub gold: Option<(&'static str, &'static str)>,
}

/// The standard of a test set, by the name of its folder in mt-metrics-eval.
///
/// ```
/// use tribunal_meta::standards::standard;
/// assert_eq!(standard("wmt23", "he-en").unwrap().reference, Some("refB"));
/// assert!(standard("wmt24", "ja-zh").unwrap().outliers.contains("MSLC"));
/// assert_eq!(standard("wmt25", "en-cs_CZ").unwrap().gold, Some(("esa-human1", "esa-human1")));
/// assert!(standard("my-own", "en-de").is_none());
/// ```
pub fn standard(testset: &str, lp: &str) -> Option<Standard> {
    let mut rows = TABLE.lines().filter_map(row).filter(|row| row.testset == testset);
    rows.find(|row| [lp, EVERY_PAIR].contains(&row.lp)).map(|row| row.standard)
}

/// The language pairs of a test set that have standard human scores, in the order of their names.
pub fn pairs(testset: &str) -> Vec<&'static str> {
    let rows = TABLE.lines().filter_map(row).filter(|row| row.testset == testset);
    rows.filter(|row| row.standard.gold.is_some() && row.lp != EVERY_PAIR).map(|row| row.lp).collect()
}

struct Row {
    testset: &'static str,
    lp: &'static str,
    standard: Standard,
}

fn row(line: &'static str) -> Option<Row> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.split('\t');
    let (testset, lp) = (fields.next()?, fields.next()?);
    let reference = fields.next().filter(|name| *name != "-");
    let outliers = fields.next()?.split(' ').filter(|name| *name != "-").collect();
    let gold = fields.next()?;
    let gold = Some(gold.split_once(' ').unwrap_or((gold, gold))).filter(|(segments, _)| *segments != "-");
    Some(Row { testset, lp, standard: Standard { reference, outliers, gold } })
}

/// References that the user names, for single language pairs or for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    everywhere: Option<String>,
    by_pair: BTreeMap<String, String>,
}

impl References {
    /// Reads `LP=NAME`, or `NAME` for all pairs.
    ///
    /// # Errors
    /// Two references for the same pair, a missing name, a pair that is not among `pairs`.
    ///
    /// ```
    /// use tribunal_meta::standards::References;
    /// let pairs = ["he-en".to_owned(), "en-de".to_owned()];
    /// let references = References::parse(&["he-en=refB".to_owned(), "refA".to_owned()], &pairs).unwrap();
    /// assert_eq!((references.of("he-en"), references.of("en-de")), (Some("refB"), Some("refA")));
    /// assert!(References::parse(&["zh-en=refA".to_owned()], &pairs).is_err());
    /// ```
    pub fn parse(texts: &[String], pairs: &[String]) -> Result<Self> {
        let mut references = Self::default();
        for text in texts {
            let (lp, name) =
                text.split_once('=').map_or((None, text.as_str()), |(lp, name)| (Some(lp), name));
            if name.is_empty() || lp == Some("") {
                return Err(Error::Unsuitable(format!(
                    "the reference `{text}` is neither NAME nor LP=NAME; hint: he-en=refB"
                )));
            }
            let before = match lp {
                None => references.everywhere.replace(name.to_owned()),
                Some(lp) if pairs.iter().any(|pair| pair == lp) => {
                    references.by_pair.insert(lp.to_owned(), name.to_owned())
                }
                Some(lp) => {
                    return Err(Error::Unsuitable(format!(
                        "the reference `{text}` is for `{lp}`, which is not evaluated; hint: the language pairs are {}",
                        pairs.join(", ")
                    )));
                }
            };
            if let Some(before) = before {
                let whose = lp.unwrap_or("all pairs");
                return Err(Error::Unsuitable(format!(
                    "two references for {whose}: `{before}` and `{name}`"
                )));
            }
        }
        Ok(references)
    }

    /// The reference that the user named for a pair.
    pub fn of(&self, lp: &str) -> Option<&str> {
        self.by_pair.get(lp).or(self.everywhere.as_ref()).map(String::as_str)
    }
}

/// Source of the standard reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The user named it.
    Named,
    /// The shared task defines it.
    SharedTask,
    /// The test set has no standard: refA, or the first.
    Assumed,
}

/// The rules that one language pair is evaluated under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// Metrics are compared if they used this reference or none, and it is never a system itself. `None`
    /// where there is no reference.
    pub reference: Option<String>,
    pub origin: Origin,
    /// Outliers that the test set has translations of; never compared unless they are named.
    pub outliers: BTreeSet<String>,
    /// The names of the standard human scores of segments, and of systems; `None` where no shared task
    /// defines them.
    pub gold: Option<(String, String)>,
}

impl Rules {
    /// The rules of a test set: by its folder's name, else by the name `known_as` (a task set's test set).
    ///
    /// # Errors
    /// A reference that the test set does not have.
    pub fn new(testset: &TestSet, dir: &Path, known_as: Option<&str>, named: Option<&str>) -> Result<Self> {
        let lp = &testset.lp;
        let standard = folder_name(dir)
            .and_then(|name| standard(&name, lp))
            .or_else(|| known_as.and_then(|name| standard(name, lp)));
        let outliers = standard.iter().flat_map(|standard| &standard.outliers);
        let outliers = outliers.map(|name| (*name).to_owned()).filter(|name| testset.systems.contains(name));
        let gold = standard.as_ref().and_then(|standard| standard.gold);
        let gold = gold.map(|(segments, systems)| (segments.to_owned(), systems.to_owned()));
        let assumed =
            || testset.references.iter().find(|name| *name == "refA").or(testset.references.first());
        let (reference, origin) = match (named, &standard) {
            (Some(name), _) => (Some(name.to_owned()), Origin::Named),
            // A folder may come without the texts of its references, and then no reference is a system.
            (None, Some(standard)) => (standard.reference.map(str::to_owned), Origin::SharedTask),
            (None, None) => (assumed().cloned(), Origin::Assumed),
        };
        let known = |name: &String| testset.references.contains(name);
        let unread = origin == Origin::SharedTask && testset.references.is_empty();
        if let Some(missing) = reference.as_ref().filter(|name| !known(name) && !unread) {
            return Err(no_reference(testset, missing));
        }
        Ok(Self { reference, origin, outliers: outliers.collect(), gold })
    }
}

/// `wmt23` for `data/wmt23`, `data/wmt23/` and, within it, `.`.
fn folder_name(dir: &Path) -> Option<String> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    name(dir).or_else(|| name(&dir.canonicalize().ok()?))
}

fn no_reference(testset: &TestSet, missing: &str) -> Error {
    let known = testset.references.join(", ");
    let known = if known.is_empty() { "none".to_owned() } else { known };
    let reason = format!("no reference `{missing}` for `{}`", testset.lp);
    Error::Advised { reason, advice: Advice::Reference { lp: testset.lp.clone(), known } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        let rows: Vec<Row> = TABLE.lines().filter_map(row).collect();
        assert_eq!(rows.len(), lines.len());
        assert!(lines.iter().all(|line| line.split('\t').count() == 5));
        let keys: BTreeSet<_> = rows.iter().map(|row| (row.testset, row.lp)).collect();
        assert_eq!(keys.len(), rows.len(), "a pair has two lines");
    }

    #[test]
    fn references_other_than_the_first() {
        let others: Vec<(&str, &str, &str)> = TABLE
            .lines()
            .filter_map(row)
            .filter_map(|row| Some((row.testset, row.lp, row.standard.reference?)))
            .filter(|(_, _, reference)| !["refA", "ref"].contains(reference))
            .collect();
        let expected = [
            ("wmt21.news", "en-de", "refC"),
            ("wmt21.news", "zh-en", "refB"),
            ("wmt21.tedtalks", "zh-en", "refB"),
            ("wmt22", "cs-en", "refB"),
            ("wmt22", "en-cs", "refB"),
            ("wmt23", "en-he", "refB"),
            ("wmt23", "he-en", "refB"),
            ("wmt24", "en-de", "refB"),
            ("wmt24pp", "en-de_DE", "posteditB"),
            ("wmt24pp", "*", "posteditA"),
        ];
        assert_eq!(others, expected);
        for (testset, lp, reference) in [
            ("wmt25", "en-it_IT", "refA"),
            ("wmt24pp", "en-is_IS", "refA"),
            ("wmt24pp", "en-zu_ZA", "posteditA"),
            ("wmt19", "gu-en", "ref"),
        ] {
            assert_eq!(standard(testset, lp).unwrap().reference, Some(reference), "{testset} {lp}");
        }
        assert_eq!(standard("wmt19", "gu-en").unwrap().gold, Some(("wmt-raw", "wmt-z")));
    }

    #[test]
    fn human_scores_of_segments_and_of_systems() {
        let gold = |testset, lp| standard(testset, lp).unwrap().gold;
        assert_eq!(gold("wmt20", "cs-en"), Some(("wmt-raw", "wmt-z")));
        assert_eq!(gold("wmt25", "ja-zh_CN"), Some(("mqm", "mqm")));
        assert_eq!(gold("wmt23", "en-he"), None);
        let wmt25: Vec<&str> = TABLE
            .lines()
            .filter_map(row)
            .filter(|row| row.testset == "wmt25")
            .filter_map(|row| Some(row.standard.gold?.0))
            .collect();
        assert_eq!((wmt25.len(), wmt25.iter().filter(|name| **name == "mqm").count()), (16, 2));
    }

    #[test]
    fn outliers_are_read_one_by_one() {
        let outliers = standard("wmt20", "de-en").unwrap().outliers;
        assert_eq!(outliers, BTreeSet::from(["WMTBiomedBaseline.387", "yolo.1052", "zlabs-nlp.1153"]));
        assert!(standard("wmt24", "en-cs").unwrap().outliers.is_empty());
    }
}
