//! Tables of the parts of `tribunal meta` that were asked for. It computes nothing.

use std::io::{self, Write};

use super::Args;
use super::extra::{Extras, Of, Sliced};
use crate::cli::table::Table;
use crate::meta::annotators::RaterPair;
use crate::meta::fit::FitReport;
use crate::meta::spans::PrecisionRecall;

/// Prints every part that was computed.
///
/// # Errors
/// An output that cannot be written.
pub fn print(args: &Args, extras: &Extras, out: &mut dyn Write) -> io::Result<()> {
    let digits = args.digits;
    for (title, table) in tables(extras, &|value| format!("{value:.digits$}")) {
        write!(out, "\n{title}\n\n{table}")?;
    }
    if let Some(findings) = &extras.lint {
        writeln!(
            out,
            "\nlint: {}",
            if findings.is_empty() { "nothing found" } else { "known mistakes found" }
        )?;
        for finding in findings {
            writeln!(out, "{} {}: {}: {}", finding.lp, finding.metric, finding.kind, finding.message)?;
        }
    }
    extras.plots.iter().try_for_each(|path| writeln!(out, "wrote {}", path.display()))
}

fn tables(extras: &Extras, number: &dyn Fn(f64) -> String) -> Vec<(String, Table)> {
    let mut tables = Vec::new();
    if !extras.slices.is_empty() {
        tables.push(("by slice (rated segments)".into(), slices(&extras.slices, number)));
    }
    if !extras.calibration.is_empty() {
        let fits = extras.calibration.iter().filter_map(|of| Some((of, of.found.as_ref().ok()?)));
        let title = "acc-eq by item: what the fitted threshold is worth";
        tables.push((title.into(), calibration(fits, number)));
    }
    if !extras.distributions.is_empty() {
        let title = "scores of rated translations (bins for penalty scores: 0, between, -5 and less)";
        tables.push((title.into(), distributions(extras, number)));
        tables.push(("errors of the human raters".into(), errors(extras, number)));
    }
    match extras.annotators.as_deref() {
        Some([]) => {
            tables.push(("agreement of the human raters: no two share a segment".into(), Table::new()));
        }
        Some(pairs) => tables.push(("agreement of the human raters".into(), raters(pairs, number))),
        None => {}
    }
    if !extras.latent.is_empty() {
        tables.push(("what a major error should cost (a minor one costs 1)".into(), latent(extras, number)));
    }
    for of in &extras.spans {
        tables.push((format!("error spans of {} on {}", of.name, of.lp), spans(of, number)));
    }
    tables
}

fn raters(pairs: &[Of<RaterPair>], number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head(["pair", "first", "second", "shared segments", "r of systems", "mean r of segments"]);
    let value = |r: Option<f64>| r.map_or_else(|| "-".into(), number);
    for pair in pairs {
        let found = &pair.found;
        table.row([
            pair.lp.clone(),
            found.first.clone(),
            found.second.clone(),
            found.shared.to_string(),
            value(found.system_level),
            value(found.segment_level),
        ]);
    }
    table
}

fn slices(rows: &[Sliced], number: &dyn Fn(f64) -> String) -> Table {
    let mut columns: Vec<(&str, &str, usize, &str)> = Vec::new();
    for row in rows {
        let column = (row.lp.as_str(), row.slice.as_str(), row.n_segments, row.statistic.as_str());
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut table = Table::new();
    let first = |name: &str| std::iter::once(name.to_owned());
    table.head(first("").chain(columns.iter().map(|(lp, ..)| (*lp).to_owned())));
    table.head(first("").chain(columns.iter().map(|(_, slice, n, _)| format!("{slice} ({n})"))));
    table.head(
        first("metric").chain(columns.iter().map(|(.., name)| name.trim_start_matches("seg:").to_owned())),
    );
    let mut metrics: Vec<&str> = rows.iter().map(|row| row.metric.as_str()).collect();
    metrics.dedup();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let cell = |(lp, slice, _, statistic): &(&str, &str, usize, &str)| {
            let row = rows.iter().find(|row| {
                row.metric == metric && row.lp == *lp && row.slice == *slice && row.statistic == *statistic
            });
            row.and_then(|row| row.value.ok()).map_or_else(|| "-".into(), |measured| number(measured.value))
        };
        table.row(first(metric).chain(columns.iter().map(cell)));
    }
    table
}

fn calibration<'a>(
    fits: impl Iterator<Item = (&'a Of<Result<FitReport, crate::meta::correlation::Undefined>>, &'a FitReport)>,
    number: &dyn Fn(f64) -> String,
) -> Table {
    let mut table = Table::new();
    table.head([
        "metric",
        "pair",
        "in-sample",
        "95% interval",
        "held out",
        "optimism",
        "chance (97.5%)",
        "all ties",
        "epsilon",
    ]);
    for (of, fit) in fits {
        table.row([
            of.name.clone(),
            of.lp.clone(),
            number(fit.in_sample),
            format!("{} to {}", number(fit.interval.0), number(fit.interval.1)),
            number(fit.held_out),
            format!("{:.4}", fit.optimism),
            format!("{} ({})", number(fit.chance), number(fit.chance_high)),
            number(fit.all_ties),
            format!("{:.4}", fit.epsilon),
        ]);
    }
    table
}

fn distributions(extras: &Extras, number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head([
        "scores",
        "pair",
        "n",
        "mean",
        "deviation",
        "least",
        "quartile",
        "median",
        "quartile",
        "greatest",
        "distinct",
        "HQ",
        "MQ",
        "LQ",
    ]);
    for of in &extras.distributions {
        let (summary, bins) = (&of.found.summary, &of.found.bins);
        let cells = [
            of.name.clone(),
            of.lp.clone(),
            summary.n.to_string(),
            number(summary.mean),
            number(summary.deviation),
        ];
        let rest = [summary.distinct.to_string(), number(bins.high), number(bins.medium), number(bins.low)];
        table.row(cells.into_iter().chain(summary.quartiles.map(number)).chain(rest));
    }
    table
}

fn errors(extras: &Extras, number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head(["pair", "of", "kind", "share"]);
    for of in &extras.errors {
        for (what, shares) in [("severity", &of.found.severities), ("type", &of.found.types)] {
            for (kind, share) in shares {
                table.row([of.lp.clone(), what.to_owned(), kind.clone(), number(*share)]);
            }
        }
    }
    table
}

fn latent(extras: &Extras, number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head(["run", "pair", "statistic", "w-major", "value", "at 5", "held out"]);
    for of in &extras.latent {
        let Ok(found) = &of.found else {
            table.row([of.name.clone(), of.lp.clone(), "undefined".into()]);
            continue;
        };
        let [value, at_five] = [found.value, found.at_five].map(number);
        let held_out = found.held_out.map_or_else(|| "-".into(), number);
        let (statistic, w_major) = (found.statistic.clone(), found.w_major.to_string());
        table.row([of.name.clone(), of.lp.clone(), statistic, w_major, value, at_five, held_out]);
    }
    table
}

fn spans(of: &Of<crate::meta::spans::report::SpanReport>, number: &dyn Fn(f64) -> String) -> Table {
    let report = &of.found;
    let mut table = Table::new();
    table.head(["measure", "precision", "recall", "F1"]);
    let mut line = |name: String, score: &PrecisionRecall| {
        table.row([name, number(score.precision), number(score.recall), number(score.f1)]);
    };
    line(format!("characters, {} segments", report.n_segments), &report.characters_honest);
    line("characters, placed by gold".into(), &report.characters_optimistic);
    line("exact spans".into(), &report.exact);
    line("partial spans".into(), &report.partial);
    line("strings (M-MAD)".into(), &report.mmad);
    for (theta, score) in &report.himate {
        line(format!("token runs (HiMATE), {theta}"), score);
    }
    let errors = &report.errors;
    let human = errors.human.map_or_else(|| "-".into(), number);
    table.row([
        format!("errors per document ({} verdicts, {} documents)", errors.unit, errors.documents),
        number(errors.judge),
        "human".into(),
        human,
    ]);
    table
}
