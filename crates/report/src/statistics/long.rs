//! A meta-evaluation as rows for programs: one value in a row, with the same columns whatever was computed.

use std::fmt::Display;

use crate::{
    meta::evaluate::{SetResult, TaskResult},
    number,
    table::Table,
};

/// Columns: language pairs, joined by `+`; `sys` or `seg`, and `all` of an average; systems, or segments or
/// documents; statistic; metric; value; rank, where differences were tested; p-value. In rows of two metrics,
/// `against` is the worse one, and value and p are their difference and its one-sided test; elsewhere p is
/// two-sided, against no correlation, where the statistic has one. Missing values are empty.
const HEAD: [&str; 9] = ["lp", "level", "n", "statistic", "metric", "value", "rank", "p", "against"];

/// Every value, the metrics' before the baselines', then every tested difference.
pub fn table(result: &SetResult) -> Table {
    let mut table = Table::new();
    table.head(HEAD);
    let mut pairs: Vec<&str> = Vec::new();
    for pair in result.tasks.iter().flat_map(|task| &task.pairs) {
        if !pairs.contains(&pair.as_str()) {
            pairs.push(pair);
        }
    }
    let average = [pairs.join("+"), "all".into(), String::new(), format!("{} average", result.name)];
    let is_ranked = result.tasks.iter().any(|task| task.contest.is_some());
    let mut row = |labels: &[String; 4], metric: &str, value: f64, more: [String; 3]| {
        let cells = labels.iter().cloned().chain([metric.to_owned(), value.to_string()]).chain(more);
        table.row(cells);
    };
    for ranked in &result.average {
        let rank = text(is_ranked.then_some(ranked.rank));
        row(&average, &ranked.name, ranked.value, [rank, String::new(), String::new()]);
    }
    for (name, value) in &result.average_of_baselines {
        row(&average, name, *value, <[String; 3]>::default());
    }
    for test in &result.average_contest {
        let more = [String::new(), test.p.to_string(), test.worse.clone()];
        row(&average, &test.better, test.delta, more);
    }
    for task in super::in_order_of_pairs(result) {
        for (name, value) in task.values.iter().chain(&task.baselines) {
            let Ok(found) = value else { continue };
            let rank = task.ranks.iter().find(|ranked| ranked.name == *name).map(|ranked| ranked.rank);
            row(&labels(task, name), name, found.value, [text(rank), number(found.p), String::new()]);
        }
        for test in task.contest.iter().flat_map(|contest| &contest.comparisons) {
            let more = [String::new(), test.comparison.p.to_string(), test.worse.clone()];
            row(&labels(task, &test.better), &test.better, test.comparison.delta, more);
        }
    }
    table
}

/// Language pairs, level, number of systems or units, and statistic.
fn labels(task: &TaskResult, metric: &str) -> [String; 4] {
    let (level, statistic) = task.statistic.split_once(':').unwrap_or(("", &task.statistic));
    let basis = task.bases.get(metric).or_else(|| task.bases.values().next());
    let n = basis.map(|basis| if level == "sys" { basis.systems.iter().sum() } else { basis.units });
    [task.pairs.join("+"), level.to_owned(), text(n), statistic.to_owned()]
}

fn text(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
