//! The evaluation set of one language pair: human scores, metrics and the systems that are compared. No
//! statistic is computed here.

use std::collections::BTreeSet;
use std::path::Path;

use super::align::{Aligned, AlignedSystems};
use super::baselines::baselines;
use super::coverage::{Common, CoveragePolicy, n_lacking};
use super::gold::GoldSource;
use super::metrics::{brought_scores, folder_scores};
use super::scores::units::Joining;
use super::scores::{Scores, SystemScoreOrigin::File};
use super::selection::Selection;
use super::standards::Rules;
use super::testset::TestSet;
use super::{Advice, Error, Result};

/// Human scores and metrics of one language pair.
#[derive(Clone, Debug)]
pub struct EvalSet {
    pub testset: TestSet,
    /// All scores of the raters.
    pub gold: Scores,
    pub gold_source: GoldSource,
    /// In order of their names.
    pub metrics: Vec<Scores>,
    /// Scores that do not measure quality, to be shown below the metrics.
    pub baselines: Vec<Scores>,
    /// Systems without human translations.
    pub machine: BTreeSet<String>,
    /// Systems with the human translations that are neither the standard reference nor an outlier.
    pub with_humans: BTreeSet<String>,
    pub rules: Rules,
    /// Metrics of the folder that were given another reference, by their full names: they are not compared.
    pub other_references: Vec<String>,
    /// The translations that all metrics are compared on.
    pub common: Common,
    pub coverage: CoveragePolicy,
    /// Rule that joins the raters' segment scores to scores of the documents that a judge saw as one text.
    pub joining: Joining,
    /// The human scores that are compared.
    compared: Scores,
}

impl EvalSet {
    /// Loads one language pair.
    ///
    /// # Errors
    /// Any error of reading [`TestSet`]; an unknown metric, system or reference; nothing to compare.
    pub fn load(dir: &Path, lp: &str, selection: &Selection) -> Result<Self> {
        let testset = TestSet::open(dir, lp)?;
        let rules = Rules::new(&testset, dir, selection.known_as.as_deref(), selection.references.of(lp))?;
        let (gold, gold_source) = GoldSource::load(&selection.gold, &testset, &rules)?;
        let (machine, with_humans) = systems(&testset, selection, &rules)?;
        check_rated(&testset, &gold, &machine)?;
        let mut metrics = brought_scores(&testset, &selection.brought)?;
        let mut other_references = Vec::new();
        if !selection.only_brought {
            let (scores, others) = folder_scores(&testset, selection, &rules)?;
            metrics.extend(scores);
            other_references = others;
        }
        let (mut common, mut compared) = (Common::default(), gold.clone());
        match selection.coverage {
            CoveragePolicy::Common => {
                let systems = machine.union(&with_humans).cloned().collect();
                (common, compared) = Common::new(&gold, &metrics, &systems);
                check_common(&testset, &common)?;
            }
            CoveragePolicy::Each => metrics = metrics.into_iter().map(Scores::each_on_its_own).collect(),
            CoveragePolicy::Official => {}
            CoveragePolicy::Lowest => {
                metrics = metrics.into_iter().map(|metric| metric.filled_with_lowest(&gold)).collect();
            }
        }
        for baseline in &selection.lexical {
            metrics.push(baseline.scores(&testset, rules.reference.as_deref())?);
        }
        metrics.sort_by(|a, b| a.name.cmp(&b.name));
        let (joining, coverage) = (selection.joining, selection.coverage);
        let baselines = baselines(&testset, &metrics, selection.seed);
        Ok(Self {
            testset,
            gold,
            gold_source,
            metrics,
            baselines,
            machine,
            with_humans,
            rules,
            other_references,
            common,
            coverage,
            joining,
            compared,
        })
    }

    pub fn lp(&self) -> &str {
        &self.testset.lp
    }

    /// The metric of that name.
    pub fn metric(&self, name: &str) -> Option<&Scores> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The baseline of that name.
    pub fn baseline(&self, name: &str) -> Option<&Scores> {
        self.baselines.iter().find(|baseline| baseline.name == name)
    }

    /// The metrics, then the baselines.
    pub fn with_baselines(&self) -> impl Iterator<Item = &Scores> {
        self.metrics.iter().chain(&self.baselines)
    }

    /// Segment scores side by side, or document scores where the metric has those; `None` where one side has
    /// none.
    ///
    /// # Errors
    /// Those of [`Aligned::new`].
    pub fn segments(&self, metric: &Scores, humans: bool) -> Result<Option<Aligned>> {
        self.aligned(&self.compared, metric, self.systems(humans))
    }

    /// System scores side by side, the metric's and the raters' own, regardless of gaps of other metrics:
    /// those of a file, or means over all segments or documents that the metric scored for every system,
    /// rated or not. Means of a metric that lacks rated translations are recomputed, together with the
    /// raters', by the [`CoveragePolicy`].
    ///
    /// # Errors
    /// Those of [`AlignedSystems::new`], and a metric that scored no segment or document for every system.
    pub fn system_scores(&self, metric: &Scores, humans: bool) -> Result<AlignedSystems> {
        let restricted = self.is_restricted(metric, humans);
        let aligned = if restricted { self.aligned(&self.gold, metric, self.systems(humans))? } else { None };
        if let Some(aligned) = aligned {
            return Ok(match self.coverage {
                CoveragePolicy::Each => aligned.system_means(),
                _ => aligned.select(&aligned.common_segments()).system_means(),
            });
        }
        if metric.n_left_out.is_some() && metric.systems.values().all(Option::is_none) {
            let unit = if metric.units.is_some() { "document" } else { "segment" };
            let reason =
                format!("no {unit} of `{}` has a verdict of `{}` for every system", self.lp(), metric.name);
            return Err(Error::Advised { reason, advice: Advice::EachSystem });
        }
        AlignedSystems::new(&self.gold, metric, self.systems(humans))
    }

    /// True if a metric's system scores cover only the segments or documents that both it and the raters
    /// scored: they are means, and it lacks rated translations.
    pub fn is_restricted(&self, metric: &Scores, humans: bool) -> bool {
        let is_mean = metric.units.is_some() || (metric.segments.is_some() && metric.system_origin != File);
        is_mean
            && self.coverage != CoveragePolicy::Official
            && n_lacking(&self.gold, metric, self.systems(humans)) > 0
    }

    /// Number of segments or documents that a metric's system scores are means over, and number that it
    /// scored for some system; `None` for scores of a file, and where each system's mean is over its own.
    pub fn averaged(&self, metric: &Scores) -> Option<(usize, usize)> {
        let n_left_out = metric.n_left_out?;
        let n_scored = match (&metric.units, &metric.segments) {
            (Some(units), _) => units.units.len(),
            (None, Some(columns)) => {
                let is_scored = |s: &usize| columns.values().any(|column| column[*s].is_some());
                (0..self.testset.n_segments()).filter(is_scored).count()
            }
            (None, None) => return None,
        };
        if self.is_restricted(metric, false) {
            return Some((self.own_segments(metric).ok()??.common_segments().len(), n_scored));
        }
        Some((n_scored - n_left_out, n_scored))
    }

    /// [`EvalSet::segments`] without human translations, on all that this metric scored, regardless of the
    /// other metrics.
    ///
    /// # Errors
    /// Those of [`Aligned::new`].
    pub fn own_segments(&self, metric: &Scores) -> Result<Option<Aligned>> {
        self.aligned(&self.gold, metric, &self.machine)
    }

    fn aligned(&self, gold: &Scores, metric: &Scores, keep: &BTreeSet<String>) -> Result<Option<Aligned>> {
        match &metric.units {
            Some(units) => Aligned::from_units(gold, (&metric.name, units), self.joining, keep),
            None => Aligned::new(gold, metric, keep),
        }
    }

    fn systems(&self, humans: bool) -> &BTreeSet<String> {
        if humans { &self.with_humans } else { &self.machine }
    }
}

/// The systems to compare, without and with human translations; those that are named are compared in any
/// case.
fn systems(
    testset: &TestSet,
    selection: &Selection,
    rules: &Rules,
) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    if let Some(unknown) = selection.systems.iter().find(|system| !testset.systems.contains(system)) {
        return Err(Error::Unsuitable(format!(
            "no system `{unknown}` in `{}`; hint: there are {}",
            testset.lp,
            testset.systems.join(", ")
        )));
    }
    if !selection.systems.is_empty() {
        let named: BTreeSet<String> = selection.systems.iter().cloned().collect();
        return Ok((named.clone(), named));
    }
    let counts = |system: &&String| {
        rules.reference.as_ref() != Some(*system) && !rules.outliers.contains(system.as_str())
    };
    let with_humans: BTreeSet<String> = testset.systems.iter().filter(counts).cloned().collect();
    let machine = with_humans.intersection(&testset.machine_systems()).cloned().collect();
    Ok((machine, with_humans))
}

/// Checks that the raters and a metric have something to be compared on.
fn check_rated(testset: &TestSet, gold: &Scores, machine: &BTreeSet<String>) -> Result<()> {
    let lp = &testset.lp;
    if machine.is_empty() {
        let listed = if testset.systems.is_empty() { "nothing" } else { &testset.systems.join(", ") };
        let reason = format!("no system to compare for `{lp}`: `system-outputs/{lp}` holds {listed}");
        return Err(Error::Advised { reason, advice: Advice::NameSystems });
    }
    let columns = gold.segments.iter().flatten().filter(|(_, column)| column.iter().any(Option::is_some));
    let systems = gold.systems.iter().filter(|(_, score)| score.is_some());
    let rated: BTreeSet<&String> =
        columns.map(|(name, _)| name).chain(systems.map(|(name, _)| name)).collect();
    if rated.iter().any(|system| machine.contains(*system)) {
        return Ok(());
    }
    let rated = rated.into_iter().cloned().collect::<Vec<_>>().join(", ");
    let rated = if rated.is_empty() { "none at all".to_owned() } else { format!("only of {rated}") };
    let reason = format!(
        "the human scores `{}` of `{lp}` rate no translation of {}: there are scores {rated}",
        gold.name,
        machine.iter().cloned().collect::<Vec<_>>().join(", ")
    );
    Err(Error::Advised { reason, advice: Advice::OtherGold })
}

fn check_common(testset: &TestSet, common: &Common) -> Result<()> {
    if common.left_out == 0 || common.left_out < common.rated {
        return Ok(());
    }
    let mut gaps: Vec<String> = common.gaps.iter().map(|(name, n)| format!("{name} lacks {n}")).collect();
    if common.in_cut_documents > 0 {
        let n = common.in_cut_documents;
        gaps.push(format!("of {n} something else in the same documents is not rated or not scored"));
    }
    let reason = format!(
        "no translation of `{}` is scored by every metric: of {} rated ones {}",
        testset.lp,
        common.rated,
        gaps.join(", ")
    );
    Err(Error::Advised { reason, advice: Advice::EachMetric })
}
