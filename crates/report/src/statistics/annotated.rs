//! Tables about several annotators, and about what they found error-free. It computes nothing.

use super::{number, or_dash, p_value};
use crate::{
    meta::{
        annotators::several::Standing,
        correlation::Undefined,
        error_free::ErrorFree,
        parts::{Of, human::Annotators},
    },
    table::Table,
};

/// The annotators of a language pair, their pairs, and metrics against each.
pub fn annotators(of: &Of<Annotators>) -> Vec<(String, Table)> {
    let Annotators { several, left_out, statistic, metrics } = &of.found;
    let lp = &of.lp;
    let value = |r: &Result<f64, Undefined>| r.as_ref().map_or_else(|_| "-".into(), |r| number(*r));
    let mut members = Table::headed(
        "annotator | rated | mean | shared | r with the others' mean | agrees with another one",
    );
    for member in &several.members {
        let standing = match member.standing {
            Standing::Agrees => "yes",
            Standing::DisagreesWithAll if left_out.contains(&member.name) => "no, left out",
            Standing::DisagreesWithAll => "no",
            Standing::NotCompared => "-",
        };
        let cells = [member.name.clone(), member.rated.to_string(), number(member.mean)];
        let statistics = [member.shared.to_string(), value(&member.with_others), standing.to_owned()];
        members.row(cells.into_iter().chain(statistics));
    }
    let mut pairs = Table::headed("first | second | shared translations | r | tau-b | p (one-sided)");
    for pair in &several.pairs {
        let p = pair.p.map_or_else(|| "-".into(), p_value);
        let cells = [pair.first.clone(), pair.second.clone(), pair.shared.to_string()];
        pairs.row(cells.into_iter().chain([value(&pair.pearson), value(&pair.kendall), p]));
    }
    let mut against = Table::new();
    let names: Vec<String> = several.members.iter().map(|member| member.name.clone()).collect();
    against.head(std::iter::once("metric".to_owned()).chain(names.iter().cloned()));
    for row in metrics {
        let cells = names.iter().map(|name| row.values.get(name).map_or_else(|| "-".into(), value));
        against.row(std::iter::once(row.metric.clone()).chain(cells));
    }
    let alpha = value(&several.alpha);
    vec![
        (format!("annotators of {lp}: Krippendorff's alpha {alpha}"), members),
        (format!("annotators of {lp}, by pairs"), pairs),
        (format!("{lp} {statistic} with each annotator"), against),
    ]
}

/// A row for each metric and language pair, and the title.
pub fn error_free(rows: &[Of<Result<ErrorFree, Undefined>>]) -> (String, Table) {
    let mut table = Table::headed(
        "metric | pair | translations | error-free | MCC | precision | recall | in-sample MCC | above | MCC of no span | MCC of no span and 85",
    );
    for of in rows {
        let cells: Vec<String> = match &of.found {
            Err(why) => vec![why.to_string()],
            Ok(found) => {
                let above = found.threshold.map_or_else(|| "all".into(), |above| format!("{above:.3}"));
                let held_out = &found.held_out;
                let shares = [held_out.mcc, held_out.precision, held_out.recall, found.in_sample].map(number);
                let counts = [found.n, found.error_free].map(|n| n.to_string());
                let by_spans = [found.no_span, found.submitted].map(or_dash);
                counts.into_iter().chain(shares).chain([above]).chain(by_spans).collect()
            }
        };
        table.row([of.name.clone(), of.lp.clone()].into_iter().chain(cells));
    }
    let title = "error-free segments: MCC of the decision, at the threshold of other documents";
    let is_by_scores =
        |of: &&Of<Result<ErrorFree, Undefined>>| of.found.as_ref().is_ok_and(|found| found.n_raters == 0);
    let mut by_scores: Vec<&str> = rows.iter().filter(is_by_scores).map(|of| of.lp.as_str()).collect();
    by_scores.dedup();
    let by_scores = if by_scores.is_empty() {
        String::new()
    } else {
        format!(" (by human scores alone, without marked errors: {})", by_scores.join(", "))
    };
    (format!("{title}{by_scores}"), table)
}
