//! Two judges on the same translations as text: their agreement, the largest differences, and which one
//! agrees more with human scores. Scores of different scales stand side by side only as ranks.

use serde::Serialize;

use super::super::statistics::{number, or_dash, share_of_resamples};
use crate::{
    meta::{
        agreement::Agreement, correlation::Undefined, evaluate::TaskResult, side_by_side::JudgePair,
        significance::Resampling,
    },
    table::Table,
};

/// Characters of a translation that are shown.
const SHOWN: usize = 60;

/// Two judges, and the signatures of their runs.
#[derive(Serialize)]
pub struct JudgeComparison {
    pub first: String,
    pub second: String,
    /// The fields in which their signatures differ, each with both values; `None` where one has no signature.
    pub differ: Option<Vec<(String, String)>>,
    /// True if scores may be compared as they are, and not only as ranks.
    pub same_scale: bool,
    #[serde(flatten)]
    pub judges: JudgePair,
}

/// Measures of agreement, with the numbers that they are over; `None` for undefined values.
fn agreement(pair: &JudgeComparison) -> Vec<(&'static str, usize, Option<f64>)> {
    let found = &pair.judges.found;
    let Agreement { agree, pairs, .. } = found.systems.agreement;
    let mut measures = vec![
        ("Kendall's tau-b of translations", found.n, found.kendall.ok()),
        ("Spearman of translations", found.n, found.spearman.ok()),
        ("translations of a source in the same order", found.n_sources, found.same_order.ok()),
        (
            "pairs of systems in the same order",
            pairs as usize,
            (pairs > 0).then(|| agree as f64 / pairs as f64),
        ),
        ("Spearman of systems", found.systems.ranked.len(), found.systems.spearman.ok()),
    ];
    measures.extend(pair.judges.spans.map(|f1| ("characters of error spans, F1", found.n, Some(f1))));
    measures
}

/// The agreement of every two judges in one table, for programs.
pub fn agreements(pairs: &[JudgeComparison]) -> Table {
    let mut table = Table::headed("first | second | agreement | n | value");
    for pair in pairs {
        for (measure, n, value) in agreement(pair) {
            let value = value.map_or_else(String::new, |value| value.to_string());
            table.row([pair.first.clone(), pair.second.clone(), measure.to_owned(), n.to_string(), value]);
        }
    }
    table
}

/// Two judges: how far they agree, their systems, and where they differ most.
pub fn text(pair: &JudgeComparison) -> String {
    let found = &pair.judges.found;
    let mut lines = vec![
        "two judges on the same translations".to_owned(),
        format!("(1) {}", pair.first),
        format!("(2) {}", pair.second),
    ];
    match &pair.differ {
        None => lines.push("at least one has no signature, so only ranks are compared".into()),
        Some(differ) if differ.is_empty() => lines.push("their signatures are the same".into()),
        Some(differ) => {
            lines.extend(differ.iter().map(|(key, values)| format!("  {key}: {values}")));
            let scales = "their scales may differ, so only ranks are compared";
            lines.extend((!pair.same_scale).then(|| scales.to_owned()));
        }
    }
    let measures = agreement(pair).into_iter();
    let measures = measures.map(|(measure, n, value)| [measure.to_owned(), n.to_string(), or_dash(value)]);
    let table = Table::from_rows(["agreement", "n", "value"], measures).to_string();
    lines.push(format!("\n{}", table.trim_end_matches('\n')));
    let undefined = [
        ("Kendall's tau-b of translations", found.kendall.err()),
        ("translations of a source in the same order", found.same_order.err()),
        ("Spearman of systems", found.systems.spearman.err()),
    ];
    for (subject, why) in undefined {
        lines.extend(why.map(|why| format!("{subject}: no value: {}", in_words(why))));
    }
    if found.n_left_out > 0 {
        let n = found.n_left_out;
        lines.push(format!("left out, because only one of the judges has a verdict there: {n}"));
    }
    lines.push(systems(pair));
    lines.extend(differences(pair));
    lines.join("\n") + "\n"
}

/// Reason for a missing value, in the words of a comparison without human scores.
fn in_words(why: Undefined) -> String {
    match why {
        Undefined::ConstantGold => "(1) gives all the same score".into(),
        Undefined::ConstantMetric => "(2) gives all the same score".into(),
        Undefined::NoRow | Undefined::NoPair => "no source has two translations that both scored".into(),
        other => other.to_string(),
    }
}

/// The systems as both judges rank them.
fn systems(pair: &JudgeComparison) -> String {
    let order = &pair.judges.found.systems;
    if order.ranked.is_empty() {
        return "\nno ranks of systems: there is no unit that both judges scored for all of them".into();
    }
    let mut table = Table::new();
    let mut head = vec!["system", "rank (1)", "rank (2)"];
    head.extend(pair.same_scale.then_some(["mean (1)", "mean (2)"]).into_iter().flatten());
    table.head(head);
    for row in &order.ranked {
        let mut cells = vec![row.system.clone(), row.ranks.0.to_string(), row.ranks.1.to_string()];
        cells.extend(pair.same_scale.then(|| [row.means.0, row.means.1].map(number)).into_iter().flatten());
        table.row(cells);
    }
    format!("\nsystems, over the {} units that both judges scored for all of them\n\n{table}", order.n_units)
}

/// The translations that the judges place farthest apart; `None` where they place all alike.
fn differences(pair: &JudgeComparison) -> Option<String> {
    let found = &pair.judges.found;
    let mut table = Table::new();
    let mut head = vec!["unit", "system", "place (1)", "place (2)"];
    head.extend(pair.same_scale.then_some(["score (1)", "score (2)"]).into_iter().flatten());
    // Numbers stand flush right, a text does not.
    let text = |text: &str| format!("{text:<SHOWN$}");
    let translation = text("translation");
    head.push(&translation);
    table.head(head);
    for (apart, translation) in found.apart.iter().zip(&pair.judges.hypotheses) {
        let percent = |place: f64| format!("{:.0}%", 100.0 * place);
        let mut cells =
            vec![pair.judges.units[apart.unit].clone(), pair.judges.systems[apart.system].clone()];
        cells.extend([apart.places.0, apart.places.1].map(percent));
        cells.extend(
            pair.same_scale.then(|| [apart.scores.0, apart.scores.1].map(number)).into_iter().flatten(),
        );
        cells.push(text(&shortened(translation)));
        table.row(cells);
    }
    (!found.apart.is_empty()).then(|| {
        format!(
            "where they differ most (place: the share of the translations that a judge scores lower, ties counted \
             half)\n\n{table}"
        )
    })
}

fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ");
    if line.chars().count() <= SHOWN {
        return line;
    }
    line.chars().take(SHOWN - 1).chain(['…']).collect()
}

/// Agreement of each judge with the raters, and the judge that agrees better.
pub fn gold_text(judges: &[String], tasks: &[TaskResult], resampling: Resampling) -> String {
    let Resampling { resamples, seed, .. } = resampling;
    let mut table = Table::new();
    table.head(
        ["agreement with the raters".to_owned(), "n".to_owned()]
            .into_iter()
            .chain(judges.iter().cloned())
            .chain(["better".into(), "p".into()]),
    );
    let mut reasons = Vec::new();
    for task in tasks {
        let values: Vec<_> = judges.iter().map(|judge| task.values.get(judge)).collect();
        let n = values.iter().flatten().find_map(|value| Some(value.ok()?.n.to_string()));
        // Not in groups: all translations at once.
        let n = if task.statistic.ends_with("@none") { Some("all".to_owned()) } else { n };
        let mut cells = vec![task.statistic.clone(), n.unwrap_or_else(|| "-".into())];
        for (judge, value) in judges.iter().zip(&values) {
            match value {
                Some(Ok(measured)) => cells.push(number(measured.value)),
                Some(Err(why)) => {
                    cells.push("-".into());
                    reasons.push(format!("{}: no value for {judge}: {why}", task.statistic));
                }
                None => cells.push("-".into()),
            }
        }
        let tests = task.contest.iter().flat_map(|contest| &contest.comparisons);
        let mut tests = tests.map(|test| {
            let better = if test.comparison.delta > 0.0 { test.better.clone() } else { "neither".into() };
            (better, share_of_resamples(test.comparison.p, resamples))
        });
        if let Some((better, p)) = tests.next() {
            cells.extend([better, p]);
        }
        table.row(cells);
        for (better, p) in tests {
            table.row(
                ["", ""]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(judges.iter().map(|_| String::new()))
                    .chain([better, p]),
            );
        }
    }
    let reasons: String = reasons.iter().map(|reason| format!("{reason}\n")).collect();
    format!(
        "{table}\n{reasons}on the translations that all judges scored; p: one-sided permutation test, {resamples} \
         resamples, seed {seed}\n"
    )
}
