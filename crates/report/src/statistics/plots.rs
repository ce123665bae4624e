//! The plots of a meta-evaluation: scores against the raters', their distributions, and rank clusters. It
//! writes no file.

use crate::meta::{
    Error, average::Grouping, eval_set::EvalSet, evaluate::SetResult, parts::aligned, plot,
    statistic::Statistic,
};

/// The plots of a meta-evaluation, each with the name of its file.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn plots(eval_sets: &[EvalSet], result: &SetResult) -> Result<Vec<(String, String)>, Error> {
    let mut all = Vec::new();
    let mut add = |name: String, svg: String| all.push((name.replace(['/', '+', ':', '@'], "_"), svg));
    for eval_set in eval_sets {
        for (metric, scores) in aligned(eval_set)? {
            let epsilon =
                Statistic::AccEq(Grouping::Item).over_segments(&scores).ok().and_then(|m| m.epsilon);
            let (gold, values): (Vec<f64>, Vec<f64>) =
                scores.gold.iter().zip(&scores.metric).filter_map(|(g, m)| Some(((*g)?, (*m)?))).unzip();
            let title = format!("{} · {}", eval_set.lp(), metric.name);
            add(
                format!("scatter_{}_{}.svg", eval_set.lp(), metric.name),
                plot::scatter(&title, &gold, &values, epsilon),
            );
            add(format!("scores_{}_{}.svg", eval_set.lp(), metric.name), plot::histogram(&title, &values));
        }
    }
    for task in result.tasks.iter().filter(|task| !task.ranks.is_empty()) {
        let title = format!("{} · {}", task.pairs.join("+"), task.statistic);
        add(
            format!("ranks_{}_{}.svg", task.pairs.join("_"), task.statistic),
            plot::clusters(&title, &task.ranks),
        );
    }
    if !result.average.is_empty() {
        add(format!("ranks_{}.svg", result.name), plot::clusters(&result.name, &result.average));
    }
    Ok(all)
}
