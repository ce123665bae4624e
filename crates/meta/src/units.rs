//! The units of a run's verdicts: one segment, or the segments of a document or of several documents, and
//! their offsets in the joined texts. Verdicts that do not fit the test set are errors.

use std::collections::BTreeMap;
use std::path::Path;

use super::scores::units::UnitScores;
use super::scores::{Scores, SegmentScores};
use super::testset::TestSet;
use super::verdicts::{self, Verdict};
use super::{Advice, Error, Result};

/// Separator of the segments of a joined text, equal to `segment::JOINT`, which this module does not import.
const JOINT: char = '\n';

/// The segments of one verdict, in the order in which its text joins them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Numbers in the test set.
    pub segs: Vec<usize>,
    /// Offset of each segment in the joined source. Unit: Unicode code points.
    pub source_starts: Vec<usize>,
    /// Offset of each segment in the joined translation. Unit: Unicode code points.
    pub target_starts: Vec<usize>,
}

/// The scores of a run, of segments or of documents. A system's score is its mean over the units that every
/// system of the run has a verdict on.
///
/// # Errors
/// Those of [`verdicts::for_pair`] and [`run_units`].
pub fn scores(name: &str, path: &Path, testset: &TestSet) -> Result<Scores> {
    let verdicts = verdicts::placed(verdicts::for_pair(path, &testset.lp)?, testset);
    scores_of(name, path, &verdicts, testset)
}

/// The scores of verdicts that were read from this path.
///
/// # Errors
/// Those of [`run_units`].
pub fn scores_of(name: &str, path: &Path, verdicts: &[Verdict], testset: &TestSet) -> Result<Scores> {
    let units = run_units(path, verdicts, testset)?;
    if verdicts.iter().all(|verdict| verdict.seg.is_none()) {
        let scored = verdicts.iter().zip(units);
        let scored =
            scored.map(|(verdict, unit)| (verdict.system.clone(), unit.segs, verdict.usable_score()));
        return Ok(Scores::from_units(name, UnitScores::new(&scored.collect::<Vec<_>>())));
    }
    let mut columns = SegmentScores::new();
    for verdict in verdicts {
        if verdict.status == "ok" && verdict.score.is_none() {
            let (system, unit) = (verdict.system.clone(), verdict.what());
            let reason = "has status `ok` but no score".to_owned();
            return Err(Error::Unit { path: path.into(), system, unit, reason });
        }
        let column =
            columns.entry(verdict.system.clone()).or_insert_with(|| vec![None; testset.n_segments()]);
        if let (Some(seg), Some(score)) = (verdict.seg, verdict.usable_score()) {
            column[seg] = Some(score);
        }
    }
    Ok(Scores::from_segments(name, columns))
}

/// The unit of each verdict of a run on this language pair.
///
/// # Errors
/// Verdicts on segments beside verdicts on documents, a segment that the test set does not have or that two
/// verdicts of a system share, and a document whose text is not that of the test set.
pub fn run_units(path: &Path, verdicts: &[Verdict], testset: &TestSet) -> Result<Vec<Unit>> {
    let by_segment = verdicts.iter().filter(|verdict| verdict.seg.is_some()).count();
    if by_segment > 0 && by_segment < verdicts.len() {
        return Err(Error::Unsuitable(format!(
            "`{}` holds {by_segment} verdicts on segments and {} on documents, which cannot be compared \
             together; hint: judge at one granularity, or give each its own folder",
            path.display(),
            verdicts.len() - by_segment
        )));
    }
    let mut texts = Texts::new(path, testset);
    let mut units = Vec::with_capacity(verdicts.len());
    let mut judged: BTreeMap<(&str, usize), &Verdict> = BTreeMap::new();
    for verdict in verdicts {
        let unit = texts.unit(verdict)?;
        for seg in &unit.segs {
            if let Some(other) = judged.insert((&verdict.system, *seg), verdict) {
                let reason = format!(
                    "covers segment {} (id {seg}), which the verdict on {} covers too",
                    seg + 1,
                    other.what()
                );
                return Err(texts.refused(verdict, reason));
            }
        }
        units.push(unit);
    }
    Ok(units)
}

/// Rejects verdicts that are not about translations of the test set.
///
/// # Errors
/// A system that the test set does not have; otherwise as [`run_units`].
pub fn check(path: &Path, verdicts: &[Verdict], testset: &TestSet) -> Result<()> {
    if let Some(verdict) = verdicts.iter().find(|verdict| !testset.systems.contains(&verdict.system)) {
        let known = if testset.systems.is_empty() { "none".into() } else { testset.systems.join(", ") };
        let reason = format!(
            "`{}` has verdicts on `{}`, which is no system of the test set for `{}`",
            path.display(),
            verdict.system,
            testset.lp
        );
        return Err(Error::Advised { reason, advice: Advice::JudgeTestSet(known) });
    }
    run_units(path, verdicts, testset).map(drop)
}

/// The test set's texts, read on first use.
struct Texts<'a> {
    path: &'a Path,
    testset: &'a TestSet,
    sources: Option<Vec<String>>,
    outputs: BTreeMap<String, Vec<String>>,
}

impl<'a> Texts<'a> {
    fn new(path: &'a Path, testset: &'a TestSet) -> Self {
        Self { path, testset, sources: None, outputs: BTreeMap::new() }
    }

    fn refused(&self, verdict: &Verdict, reason: String) -> Error {
        let (system, unit) = (verdict.system.clone(), verdict.what());
        Error::Unit { path: self.path.into(), system, unit, reason }
    }

    fn unit(&mut self, verdict: &Verdict) -> Result<Unit> {
        let n_segments = self.testset.n_segments();
        let segs = match verdict.seg {
            Some(seg) => vec![seg],
            None if verdict.segs.is_empty() => self.segments_of_documents(verdict)?,
            None => verdict.segs.clone(),
        };
        if let Some(seg) = segs.iter().find(|seg| **seg >= n_segments) {
            let reason =
                format!("is about segment {seg}, but the test set ends with segment {}", n_segments - 1);
            return Err(self.refused(verdict, reason));
        }
        if let Some(seg) = verdict.seg.filter(|_| self.is_of_a_run()) {
            self.is_of_the_test_set(verdict, seg)?;
        }
        // A system that the test set does not have is an error in EvalSet::load.
        if verdict.seg.is_some() || !self.testset.systems.contains(&verdict.system) {
            let starts = vec![0; segs.len()];
            return Ok(Unit { segs, source_starts: starts.clone(), target_starts: starts });
        }
        self.read(&verdict.system)?;
        let outputs = &self.outputs[&verdict.system];
        let target_starts = self.starts(verdict, &segs, outputs, &verdict.hypothesis, "translation")?;
        let sources = self.sources.as_deref().unwrap_or_default();
        let source_starts = self.starts(verdict, &segs, sources, &verdict.source, "source")?;
        Ok(Unit { segs, source_starts, target_starts })
    }

    /// True for JSON lines, which are verdicts of a run under any file name. Files of human raters, which are
    /// TSV, may hold modified texts.
    fn is_of_a_run(&self) -> bool {
        self.path.is_dir() || self.path.extension().is_some_and(|ending| ending == "jsonl")
    }

    /// Checks that a segment's texts are those of the test set. A run numbers the segments of a text file
    /// from its first line, whichever lines of the test set they are.
    fn is_of_the_test_set(&mut self, verdict: &Verdict, seg: usize) -> Result<()> {
        if !self.testset.systems.contains(&verdict.system) || verdict.hypothesis.is_empty() {
            return Ok(());
        }
        self.read(&verdict.system)?;
        let output = self.outputs[&verdict.system].get(seg).map(|text| text.trim());
        if output == Some(verdict.hypothesis.trim()) {
            return Ok(());
        }
        let (system, unit) = (verdict.system.clone(), verdict.what());
        Err(Error::OtherTranslation { path: self.path.into(), system, unit })
    }

    fn read(&mut self, system: &str) -> Result<()> {
        if self.sources.is_none() {
            self.sources = Some(self.testset.sources()?);
        }
        if !self.outputs.contains_key(system) {
            self.outputs.insert(system.to_owned(), self.testset.output(system)?);
        }
        Ok(())
    }

    fn starts(
        &self,
        verdict: &Verdict,
        segs: &[usize],
        texts: &[String],
        joined: &str,
        side: &str,
    ) -> Result<Vec<usize>> {
        let parts: Vec<&str> = segs.iter().map(|seg| texts[*seg].as_str()).collect();
        starts(&parts, joined).ok_or_else(|| {
            let listed = match segs {
                [first, .., last] => format!("{} segments, from {first} to {last}", segs.len()),
                [only] => format!("segment {only}"),
                [] => "no segment".to_owned(),
            };
            let reason = format!(
                "has another {side} than the test set ({listed}); hint: the run must have judged this test \
                 set, whole documents of it"
            );
            self.refused(verdict, reason)
        })
    }

    /// The segments of a verdict's documents, for a folder that names the documents but not their segments.
    fn segments_of_documents(&self, verdict: &Verdict) -> Result<Vec<usize>> {
        let of = |doc: &str| -> Vec<usize> {
            let places = self.testset.places.iter().enumerate();
            places.filter(|(_, place)| place.doc == doc).map(|(seg, _)| seg).collect()
        };
        let segments = of(&verdict.doc);
        if !segments.is_empty() {
            return Ok(segments);
        }
        let mut segs = Vec::new();
        for doc in verdict.doc.split('+') {
            let found = of(doc);
            if found.is_empty() {
                let reason = format!(
                    "does not say which segments it is about, and the test set has no document `{doc}`"
                );
                return Err(self.refused(verdict, reason));
            }
            segs.extend(found);
        }
        Ok(segs)
    }
}

/// Offset of each part in a joined text, in code points; `None` where the text does not consist of the parts.
/// White space at the end of a part may be lost or added, as by readers of text files.
///
/// ```
/// use tribunal_meta::units::starts;
/// assert_eq!(starts(&["Ähm.", "Ja!"], "Ähm.\nJa!"), Some(vec![0, 5]));
/// // A part may hold line ends itself.
/// assert_eq!(starts(&["a\nb", "c"], "a\nb \nc"), Some(vec![0, 5]));
/// assert_eq!(starts(&["a", "c"], "a\nb"), None);
/// assert_eq!(starts(&["a"], "a\nb"), None);
/// ```
pub fn starts(parts: &[&str], joined: &str) -> Option<Vec<usize>> {
    let (mut tail, mut at) = (joined, 0);
    let mut starts = Vec::with_capacity(parts.len());
    for (idx, part) in parts.iter().enumerate() {
        let part = part.trim_end();
        let after = tail.strip_prefix(part)?;
        let padding = |c: char| c.is_whitespace() && c != JOINT;
        let next = after.trim_start_matches(padding);
        starts.push(at);
        at += part.chars().count() + after.chars().count() - next.chars().count();
        if idx + 1 == parts.len() {
            return next.is_empty().then_some(starts);
        }
        tail = next.strip_prefix(JOINT)?;
        at += 1;
    }
    joined.is_empty().then_some(starts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_part_stands_where_it_is_said_to(parts in prop::collection::vec("[a-zä \n两]{0,6}", 1..6)) {
            let trimmed: Vec<&str> = parts.iter().map(|part| part.trim_end()).collect();
            let joined = trimmed.join("\n");
            let starts = starts(&trimmed, &joined).unwrap();
            let chars: Vec<char> = joined.chars().collect();
            for (part, start) in trimmed.iter().zip(starts) {
                let found: String = chars[start..start + part.chars().count()].iter().collect();
                prop_assert_eq!(&found, part);
            }
        }
    }
}
