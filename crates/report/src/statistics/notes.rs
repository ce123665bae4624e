//! The notes below the tables of a meta-evaluation: the facts on which the meaning of a number depends. They
//! compute nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::sets::sacrebleu_signature;
use crate::meta::correlation::Undefined;
use crate::meta::coverage::n_lacking;
use crate::meta::eval_set::EvalSet;
use crate::meta::evaluate::{SetResult, TaskResult};
use crate::meta::scores::units::Joining;
use crate::meta::scores::{Scores, SystemScoreOrigin};
use crate::meta::significance::Resampling;
use crate::meta::standards::Origin;
use crate::meta::statistic::Measured;
use crate::meta::suspect;
use crate::run::trained_on;

/// Context of the notes beside the results.
#[derive(Clone, Debug, Default)]
pub struct NoteContext {
    /// The names of scores from outside the test set, and where they are; `{lp}` and `{level}` in a path
    /// stand for language pairs and levels.
    pub brought: Vec<(String, String)>,
    /// Significance test of differences between metrics; `None` where there was none.
    pub significance: Option<Resampling>,
}

/// All notes, one a line.
pub fn notes(context: &NoteContext, eval_sets: &[EvalSet], result: &SetResult) -> Vec<String> {
    let mut notes = Vec::new();
    if !result.missing_pairs.is_empty() {
        notes.push(format!("no average: {} also covers {}", result.name, result.missing_pairs.join(", ")));
    }
    if !result.incomplete.is_empty() {
        notes.push(format!(
            "not in the average, because a task has no value: {}",
            result.incomplete.join(", ")
        ));
    }
    for task in &result.tasks {
        notes.extend(undefined_notes(task));
        if let Some(untested) = task.contest.as_ref().and_then(|contest| contest.untested) {
            notes.push(format!("{}: not tested: {untested}", title(task)));
        }
    }
    let of_systems = |task: &TaskResult| task.statistic.starts_with("sys:") && task.statistic != "sys:spa";
    let shows_system_scores = result.tasks.iter().any(of_systems);
    for eval_set in eval_sets {
        notes.extend(rule_notes(eval_set));
        notes.extend(coverage_notes(eval_set));
        notes.extend(lexical_notes(eval_set));
        if shows_system_scores {
            notes.extend(system_notes(eval_set));
        }
        notes.extend(suspicious_scores(context, eval_set));
    }
    notes.extend(result.tasks.iter().filter_map(dropped_note));
    notes.extend(
        trained_on_warnings(context, eval_sets).into_iter().map(|warning| format!("warning: {warning}")),
    );
    if result.tasks.iter().any(|task| task.statistic.starts_with("seg:acc-eq")) {
        notes.push(
            "acc-eq: each metric has one tie threshold, fitted on these same scores (`--also calibration` shows by how \
             much that flatters it)"
                .into(),
        );
    }
    if result.name == "rate" {
        notes.push(
            "rate: acc-eq@none is the acc-t of RATE's Table 3, which pairs translations of different sources too; neither \
             it nor the average can be compared with anyone else's acc-t or Meta (acc-eq@item can)"
                .into(),
        );
    }
    if let Some(Resampling { resamples, seed, .. }) = context.significance {
        notes.push(format!(
            "ranks stand beside the values; a new one starts where some metric of the rank above is better with p at most \
             0.05 (permutation test, {resamples} resamples, seed {seed})"
        ));
    }
    notes
}

/// Note on the scores of sacreBLEU that serve as lexical baselines.
fn lexical_notes(eval_set: &EvalSet) -> Vec<String> {
    let note = |metric: &Scores| {
        let mecab = eval_set.lp().split_once('-').and_then(|(_, target)| match target.get(..2) {
            Some("ja") => Some("ja-mecab"),
            Some("ko") => Some("ko-mecab"),
            _ => None,
        });
        let other = mecab.filter(|_| metric.name == "bleu:char").map_or_else(String::new, |tokenizer| {
            format!("; sacreBLEU and the shared tasks take tok:{tokenizer} here, with other scores")
        });
        let signature = sacrebleu_signature(metric)?;
        Some(format!("{} {}: sacreBLEU's {signature}{other}", eval_set.lp(), metric.name))
    };
    eval_set.metrics.iter().filter_map(note).collect()
}

/// Warnings about suspicious scores among those from outside the test set.
fn suspicious_scores(context: &NoteContext, eval_set: &EvalSet) -> Vec<String> {
    let is_brought = |metric: &&Scores| context.brought.iter().any(|(name, _)| *name == metric.name);
    let metrics = eval_set.metrics.iter().filter(is_brought);
    let warnings = metrics.flat_map(|metric| {
        let found = suspect::suspicions(eval_set, metric).unwrap_or_default();
        found.into_iter().map(|found| {
            let hint = if found.is_flipped {
                format!(" hint: if so, --negate {}", metric.name)
            } else {
                String::new()
            };
            format!("warning: {} {}: {}{hint}", eval_set.lp(), metric.name, found.message)
        })
    });
    warnings.collect()
}

/// Judges that were trained on what they judged: those from outside the test set, and the folder's metrics.
pub fn trained_on_warnings(context: &NoteContext, eval_sets: &[EvalSet]) -> BTreeSet<String> {
    let brought = context.brought.iter().flat_map(|(name, pattern)| {
        let paths = eval_sets.iter().map(move |eval_set| pattern.replace("{lp}", eval_set.lp()));
        let paths = paths.flat_map(|path| ["seg", "sys"].map(|level| path.replace("{level}", level)));
        paths.map(move |path| (name.as_str(), PathBuf::from(path)))
    });
    let of_folder = eval_sets.iter().flat_map(|eval_set| {
        let metrics = eval_set.metrics.iter();
        metrics.flat_map(|metric| {
            let paths = eval_set.testset.metric_files(&metric.name);
            paths.into_iter().map(|path| (metric.name.as_str(), path))
        })
    });
    trained_on::warnings(brought.chain(of_folder))
}

fn title(task: &TaskResult) -> String {
    format!("{} {}", task.pairs.join("+"), task.statistic)
}

/// Values that are not there, one line a reason.
fn undefined_notes(task: &TaskResult) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, value) in &task.values {
        if let Err(why) = value {
            by_reason.entry(why.to_string()).or_default().push(name);
        }
    }
    let line = |(why, names): (String, Vec<&str>)| {
        let whose = if names.len() == task.values.len() { "any metric".into() } else { names.join(", ") };
        format!("{}: no value for {whose}: {why}", title(task))
    };
    by_reason.into_iter().map(line).collect()
}

/// Exclusions from the comparison, and their rules.
fn rule_notes(eval_set: &EvalSet) -> Vec<String> {
    let mut notes = Vec::new();
    let lp = eval_set.lp();
    if eval_set.machine.len() == 1 {
        notes.push(format!("{lp}: there is only one system, and nothing to compare it with"));
    }
    let reference = eval_set.rules.reference.as_deref().unwrap_or("none");
    if eval_set.rules.origin == Origin::Assumed && eval_set.testset.references.len() > 1 {
        notes.push(format!(
            "{lp}: this test set is not one of the shared tasks', so {reference} of {} is taken for its reference \
             (--reference {lp}=NAME takes another)",
            eval_set.testset.references.join(", ")
        ));
    }
    if !eval_set.other_references.is_empty() {
        notes.push(format!(
            "{lp}: not compared, because they were given another reference than {reference}: {} (--metrics with the \
             full name compares one)",
            eval_set.other_references.join(", ")
        ));
    }
    let is_missed = |system: &&String| {
        let is_rated = eval_set.gold.systems.get(*system).is_some_and(Option::is_some);
        is_rated && !eval_set.testset.references.contains(system) && !eval_set.machine.contains(*system)
    };
    let left_out = &eval_set.gold_source.left_out;
    if !left_out.is_empty() {
        notes.push(format!(
            "{lp}: the human scores leave out annotators who agree with no other one: {}",
            left_out.join(", ")
        ));
    }
    let outliers: Vec<&str> = eval_set.rules.outliers.iter().filter(is_missed).map(String::as_str).collect();
    if !outliers.is_empty() {
        notes.push(format!(
            "{lp}: left out as in the shared task, because they are outliers: {} (--systems compares what it names)",
            outliers.join(", ")
        ));
    }
    notes
}

/// Missing verdicts and what was done about them.
fn coverage_notes(eval_set: &EvalSet) -> Vec<String> {
    let mut notes = Vec::new();
    let lp = eval_set.lp();
    for metric in eval_set.metrics.iter().filter(|metric| metric.n_filled > 0) {
        notes.push(format!(
            "{lp} {}: {} without a score, given the metric's lowest (--coverage lowest)",
            metric.name,
            counted(metric.n_filled)
        ));
    }
    notes.extend(eval_set.metrics.iter().filter_map(|metric| document_note(eval_set, metric)));
    notes.extend(left_out(eval_set));
    if eval_set.common.left_out > 0 {
        return notes;
    }
    for metric in eval_set.metrics.iter().filter(|metric| metric.units.is_none()) {
        let Ok(Some(segments_of_metric)) = eval_set.own_segments(metric) else { continue };
        let coverage = segments_of_metric.coverage();
        if coverage.missing > 0 {
            notes.push(format!(
                "{lp} {}: {} of {} without a score, not counted for it (--coverage each)",
                metric.name,
                coverage.missing,
                counted(coverage.rated)
            ));
        }
    }
    notes
}

/// Note on translations that are compared for no metric.
fn left_out(eval_set: &EvalSet) -> Option<String> {
    let common = &eval_set.common;
    if common.left_out == 0 {
        return None;
    }
    let gaps: Vec<String> = common.gaps.iter().map(|(name, n)| format!("{name} lacks {n}")).collect();
    let why_cut = "because something else in the same documents is not rated or not scored";
    let why = match (gaps.is_empty(), common.in_cut_documents) {
        (true, _) => why_cut.to_owned(),
        (false, 0) => format!("because not every metric scored them: {}", gaps.join(", ")),
        (false, n) => {
            format!("because not every metric scored them: {}; {n} of these {why_cut}", gaps.join(", "))
        }
    };
    Some(format!(
        "{}: {} of {} left out for all metrics, {why} (--coverage each judges each metric by what it scored)",
        eval_set.lp(),
        common.left_out,
        counted(common.rated)
    ))
}

/// Note on system scores that are means: over all units that a metric scored for every system, or fewer.
fn system_notes(eval_set: &EvalSet) -> Vec<String> {
    let (mut notes, mut over_all) = (Vec::new(), Vec::new());
    let is_mean = |metric: &&Scores| {
        matches!(metric.system_origin, SystemScoreOrigin::MeanOfSegments | SystemScoreOrigin::MeanOfUnits)
    };
    for metric in eval_set.metrics.iter().filter(is_mean) {
        let name = format!("{} {}", eval_set.lp(), metric.name);
        let unit = if metric.units.is_some() { "document" } else { "segment" };
        let n_lacking = n_lacking(&eval_set.gold, metric, &eval_set.machine);
        let lacking = format!("it lacks {}", counted(n_lacking));
        let of_units = |n: usize| if n == 1 { format!("1 {unit}") } else { format!("{n} {unit}s") };
        match (eval_set.is_restricted(metric, false), eval_set.averaged(metric)) {
            (true, Some((n, _))) => notes.push(format!(
                "{name}: {lacking}: its system scores and the raters' are means over the {} that both scored \
                 for every system (--coverage official takes all of both)",
                of_units(n)
            )),
            (true, None) => notes.push(format!(
                "{name}: {lacking}: its system scores and the raters' are means over the {unit}s that both scored, each \
                 system's own"
            )),
            (false, Some((n, of))) if n < of || n_lacking > 0 => notes.push(format!(
                "{name}: its system scores are means over the {n} of {} with a score for every system{}",
                of_units(of),
                match n_lacking {
                    0 => String::new(),
                    _ => format!("; {lacking} (--coverage common compares what both scored)"),
                }
            )),
            _ => over_all.push(metric.name.as_str()),
        }
    }
    if !over_all.is_empty() {
        notes.push(format!(
            "{}: system scores are means over all segments{}, rated or not, for {}",
            eval_set.lp(),
            if eval_set.metrics.iter().any(|metric| metric.units.is_some()) { " or documents" } else { "" },
            over_all.join(", ")
        ));
    }
    notes
}

/// Note on the human scores that a judge of documents is compared with.
fn document_note(eval_set: &EvalSet, metric: &Scores) -> Option<String> {
    let units = metric.units.as_ref()?;
    let gold = eval_set.gold.segments.as_ref();
    let joined = match eval_set.joining {
        Joining::Sum => "sums (--document-gold mean for means)",
        Joining::Mean => "means",
    };
    let left_out = match gold.map_or(0, |gold| units.partly_rated(gold, &eval_set.machine)) {
        0 => "",
        1 => "; 1 document is only partly rated for some system, which leaves it out",
        n => &format!("; {n} documents are only partly rated for some system, which leaves them out"),
    };
    let (lp, name) = (eval_set.lp(), &metric.name);
    Some(format!(
        "{lp} {name} judged documents, and is compared with {joined} of the raters' segment scores{left_out}"
    ))
}

fn counted(translations: usize) -> String {
    if translations == 1 {
        "1 rated translation".into()
    } else {
        format!("{translations} rated translations")
    }
}

/// Rated segments that soft pairwise accuracy cannot use.
fn dropped_note(task: &TaskResult) -> Option<String> {
    let dropped = |(name, value): (&String, &Result<Measured, Undefined>)| {
        let n = value.ok()?.n_dropped;
        (n > 0).then(|| format!("{name} {n}"))
    };
    let dropped: Vec<String> = task.values.iter().filter_map(dropped).collect();
    (!dropped.is_empty()).then(|| {
        format!(
            "{}: rated segments left out because some system has no score there: {}",
            title(task),
            dropped.join(", ")
        )
    })
}
