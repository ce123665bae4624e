//! The human scores that metrics are compared with: those of a shared task's standard, one name, the mean of
//! several, or those of annotators who agree with another one. Nothing is compared with metrics here.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::annotators::several::{Annotator, Several, means};
use super::scores::{Scores, SegmentScores};
use super::standards::Rules;
use super::testset::TestSet;
use super::{Advice, Error, Result};
use crate::mqm::ratings::{self, RatedError, Ratings};

/// Requested human scores: `NAME[,NAME...][@agreeing]`, or nothing for the standard ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Empty: the standard of the shared task, or else `mqm`.
    names: Vec<String>,
    agreeing: bool,
}

/// The names of human scores where no shared task has a standard.
const USUAL: &str = "mqm";

/// The name that selects the standard scores: the field of mt-metrics-eval's `MetaInfo`.
const STANDARD: &str = "std_gold";

const AGREEING: &str = "agreeing";

impl FromStr for Wanted {
    type Err = Error;

    /// ```
    /// use tribunal_meta::gold::Wanted;
    /// let wanted: Wanted = "esa-human1,esa-human2@agreeing".parse().unwrap();
    /// assert_eq!(wanted.to_string(), "esa-human1,esa-human2@agreeing");
    /// assert_eq!("std_gold".parse::<Wanted>().unwrap(), Wanted::default());
    /// assert!("mqm@best".parse::<Wanted>().is_err() && "a,,b".parse::<Wanted>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let (names, filter) =
            text.split_once('@').map_or((text, None), |(names, filter)| (names, Some(filter)));
        if filter.is_some_and(|filter| filter != AGREEING) {
            return Err(Error::Unsuitable(format!(
                "`{text}` has an unknown filter of annotators; hint: NAME@{AGREEING} leaves out those who agree with \
                 no other one"
            )));
        }
        let names: Vec<String> = match names {
            STANDARD => Vec::new(),
            names => names.split(',').map(|name| name.trim().to_owned()).collect(),
        };
        if names.iter().any(String::is_empty) {
            return Err(Error::Unsuitable(format!(
                "`{text}` does not name human scores; hint: NAME, or NAME,NAME for the mean of both"
            )));
        }
        Ok(Self { names, agreeing: filter.is_some() })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = if self.names.is_empty() { STANDARD.to_owned() } else { self.names.join(",") };
        let filter = if self.agreeing { "@agreeing" } else { "" };
        write!(f, "{names}{filter}")
    }
}

/// Source of the human scores of one language pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GoldSource {
    /// Names of human scores that the segment scores are made of.
    pub names: Vec<String>,
    /// Annotators who agree with no other one, left out.
    pub left_out: Vec<String>,
}

/// One annotator's file of marked errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RatingFile {
    pub annotator: String,
    pub path: PathBuf,
}

impl GoldSource {
    /// Reads the scores.
    ///
    /// # Errors
    /// Human scores that the test set does not have; a filter without annotators, or one that leaves out all.
    pub fn load(choice: &Wanted, testset: &TestSet, rules: &Rules) -> Result<(Scores, Self)> {
        if !choice.agreeing && choice.names.len() < 2 {
            return match (choice.names.first(), &rules.gold) {
                (None, Some((segments, systems))) => Self::standard(testset, segments, systems),
                (name, _) => Self::named(testset, name.map_or(USUAL, String::as_str)),
            };
        }
        let standard = rules.gold.as_ref().map_or(USUAL, |(segments, _)| segments);
        let names = if choice.names.is_empty() { vec![standard.to_owned()] } else { choice.names.clone() };
        let mut annotators = annotators(testset, &names)?;
        let mut left_out = Vec::new();
        if choice.agreeing {
            if annotators.len() < 2 {
                let listed = match annotators.first() {
                    None => "no annotator's own scores".to_owned(),
                    Some(one) => format!("the scores of `{}` alone", one.name),
                };
                let reason =
                    format!("`{choice}` chooses among annotators, and `{}` has {listed}", testset.lp);
                return Err(Error::Advised { reason, advice: Advice::OtherGold });
            }
            let several = Several::new(&annotators);
            left_out
                .extend(annotators.iter().map(|one| one.name.clone()).filter(|name| several.disagrees(name)));
            annotators.retain(|one| !left_out.contains(&one.name));
        }
        if annotators.is_empty() {
            let reason = format!("no annotator of `{choice}` agrees with another one on `{}`", testset.lp);
            return Err(Error::Advised { reason, advice: Advice::OtherGold });
        }
        let scores = Scores::new(choice.to_string(), Some(means(&annotators)), None);
        Ok((scores, Self { names, left_out }))
    }

    fn named(testset: &TestSet, name: &str) -> Result<(Scores, Self)> {
        Ok((testset.human(name)?, Self { names: vec![name.to_owned()], left_out: Vec::new() }))
    }

    /// Segment scores of one name and system scores of another, as the early shared tasks have them.
    fn standard(testset: &TestSet, segments: &str, systems: &str) -> Result<(Scores, Self)> {
        let (scores, source) = Self::named(testset, segments)?;
        if segments == systems {
            return Ok((scores, source));
        }
        let human = testset.human(systems)?;
        let name = format!("{segments}, of systems {systems}");
        let scores = Scores { name, systems: human.systems, system_origin: human.system_origin, ..scores };
        Ok((scores, source))
    }

    /// The files of the annotators whose scores these are.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn rating_files(&self, testset: &TestSet) -> Result<Vec<RatingFile>> {
        let mut files = rating_files(testset, &self.names)?;
        files.retain(|file| !self.left_out.contains(&file.annotator));
        Ok(files)
    }

    /// The annotators' marked errors, with their names.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn ratings(&self, testset: &TestSet) -> Result<Vec<(String, Ratings)>> {
        let files = self.rating_files(testset)?.into_iter();
        files.map(|file| Ok((file.annotator, ratings::read(&file.path)?))).collect()
    }

    /// The scores of each annotator, those who are left out included: of several names each, of one name its
    /// raters, by their scores or else by the penalties of their marked errors.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn annotators(&self, testset: &TestSet) -> Result<Vec<Annotator>> {
        annotators(testset, &self.names)
    }

    /// The scores of `annotators`, empty where the annotators have no segment scores, such as spans without
    /// penalties.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn scored_annotators(&self, testset: &TestSet) -> Result<Vec<Annotator>> {
        match self.annotators(testset) {
            Err(Error::Unsuitable(_)) => Ok(Vec::new()),
            annotators => annotators,
        }
    }
}

/// The rating files. Annotators are called by their files where there is one name, and by their names
/// otherwise.
fn rating_files(testset: &TestSet, names: &[String]) -> Result<Vec<RatingFile>> {
    let mut files = Vec::new();
    for name in names {
        for (rater, path) in testset.rating_files(name)? {
            let annotator = if names.len() > 1 || rater.is_empty() { name.clone() } else { rater };
            files.push(RatingFile { annotator, path });
        }
    }
    Ok(files)
}

fn annotators(testset: &TestSet, names: &[String]) -> Result<Vec<Annotator>> {
    if let [name] = names {
        let files = testset.annotators(name)?;
        if !files.is_empty() {
            return Ok(files.into_iter().map(|(name, scores)| Annotator { name, scores }).collect());
        }
        let files = rating_files(testset, names)?;
        let read = |file: RatingFile| {
            let scores = penalties(&file, ratings::read(&file.path)?)?;
            Ok(Annotator { name: file.annotator, scores })
        };
        return files.into_iter().map(read).collect();
    }
    let mut all: Vec<Annotator> = Vec::new();
    for name in names {
        let scores = testset.human(name)?.segments.ok_or_else(|| {
            Error::Unsuitable(format!("the human scores `{name}` of `{}` have no segments", testset.lp))
        })?;
        if all.iter().any(|one| one.name == *name) {
            return Err(Error::Unsuitable(format!("the human scores `{name}` are named twice")));
        }
        all.push(Annotator { name: name.clone(), scores });
    }
    Ok(all)
}

/// An annotator's scores: the negated sums of penalties.
fn penalties(file: &RatingFile, ratings: Ratings) -> Result<SegmentScores> {
    let sum = |errors: Vec<RatedError>| {
        let penalties: Option<Vec<f64>> = errors.iter().map(|error| error.score).collect();
        penalties.map(|penalties| 0.0 - penalties.iter().sum::<f64>()).ok_or_else(|| {
            Error::Unsuitable(format!(
                "`{}` has errors without a penalty (`score`), so its annotator has no scores; hint: name the scores of \
                 each annotator: NAME,NAME",
                file.path.display()
            ))
        })
    };
    let column = |column: Vec<Option<Vec<RatedError>>>| -> Result<Vec<Option<f64>>> {
        column.into_iter().map(|errors| errors.map(sum).transpose()).collect()
    };
    ratings.into_iter().map(|(system, segments)| Ok((system, column(segments)?))).collect()
}
