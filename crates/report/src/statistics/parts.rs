//! Tables of the optional parts of a meta-evaluation. It computes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{annotated, p_value};
use crate::{
    meta::{
        annotators::RaterPair,
        contents::Contents,
        distribution::{Bins, ErrorShares},
        fit::FitReport,
        parts::{Of, Parts, Sliced, SlicedSpans},
        significance::williams::Compared,
        spans::{
            PrecisionRecall,
            counts::Definition,
            report::{SpanMeans, SpanReport},
        },
    },
    table::Table,
};

/// The parts that were computed, each with its title; `answers` is the table of the runs' answers, if
/// selected. `shown`: the definitions of span F1.
#[must_use]
pub fn tables(
    parts: &Parts,
    answers: Option<Table>,
    shown: &[Definition],
    number: &dyn Fn(f64) -> String,
) -> Vec<(String, Table)> {
    let mut tables = Vec::new();
    if !parts.slices.is_empty() {
        tables.extend(slices(&parts.slices, number));
    }
    if !parts.williams.is_empty() {
        let title = "Williams' test: is the better metric's Pearson really greater? (one-sided p)";
        tables.push((title.into(), williams(&parts.williams, number)));
    }
    if !parts.calibration.is_empty() {
        let fits = parts.calibration.iter().filter_map(|of| Some((of, of.found.as_ref().ok()?)));
        let title = "acc-eq by item: what the fitted threshold is worth";
        tables.push((title.into(), calibration(fits, number)));
    }
    if !parts.distributions.is_empty() {
        let title = "scores of rated translations (bins for penalty scores: 0, between, -5 and less)";
        tables.push((title.into(), distributions(parts, number)));
        tables.push(("errors on rated segments: shares by severity and type".into(), errors(parts, number)));
    }
    match parts.annotators.as_deref() {
        Some([]) => {
            tables.push((
                "agreement of the human raters: no two of them rated the same segment".into(),
                Table::new(),
            ));
        }
        Some(pairs) => tables.push(("agreement of the human raters".into(), raters(pairs, number))),
        None => {}
    }
    for of in &parts.several_annotators {
        tables.extend(annotated::annotators(of, number));
    }
    if !parts.error_free.is_empty() {
        tables.push(annotated::error_free(&parts.error_free, number));
    }
    if !parts.testset.is_empty() {
        tables.push(("what the test set holds, and what is rated of it".into(), contents(&parts.testset)));
    }
    if let Some(answers) = answers {
        let title = "answers of runs: tokens of all answers about a unit, error spans, and wall-clock time";
        tables.push((title.into(), answers));
    }
    if !parts.latent.is_empty() {
        tables.push(("what a major error should cost (a minor one costs 1)".into(), latent(parts, number)));
    }
    for of in &parts.spans {
        tables.push((format!("error spans of {} on {}", of.name, of.lp), spans(of, shown, number)));
    }
    if !parts.span_slices.is_empty() {
        let title = "error spans by slice";
        tables.push((title.into(), span_slices(&parts.span_slices, shown, number)));
    }
    if !parts.span_means.is_empty() {
        let title = "error spans: means over language pairs (FSP, Figures 4 and 8)";
        tables.push((title.into(), span_means(&parts.span_means, shown, number)));
    }
    tables
}

fn contents(rows: &[Of<Contents>]) -> Table {
    let mut table = Table::new();
    table.head([
        "pair",
        "domain",
        "segments",
        "documents",
        "systems",
        "translations",
        "documents of systems",
        "5doc groups of systems",
        "rated segments",
        "rated translations",
        "rated documents",
        "rated 5doc groups",
    ]);
    for of in rows {
        let Contents { domain, segments, documents, systems, translated, rated, rated_segments } = &of.found;
        let numbers = [
            *segments,
            *documents,
            systems.len(),
            translated.segments,
            translated.documents,
            translated.five_documents,
            *rated_segments,
            rated.segments,
            rated.documents,
            rated.five_documents,
        ];
        let name = [of.lp.clone(), domain.clone().unwrap_or_else(|| "all".into())];
        table.row(name.into_iter().chain(numbers.map(|n| n.to_string())));
    }
    table
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

/// A table for each pair and statistic, with metrics down and slices across, or the other way round for many
/// slices.
fn slices(rows: &[Sliced], number: &dyn Fn(f64) -> String) -> Vec<(String, Table)> {
    /// More slices than this are listed one below the other.
    const ACROSS: usize = 5;
    let mut parts: BTreeMap<(&str, &str), Vec<&Sliced>> = BTreeMap::new();
    for row in rows {
        parts.entry((&row.lp, &row.statistic)).or_default().push(row);
    }
    let cell = |row: Option<&&Sliced>| {
        row.and_then(|row| row.value.ok()).map_or_else(|| "-".into(), |measured| number(measured.value))
    };
    let mut tables = Vec::new();
    for ((lp, statistic), part) in parts {
        let metrics = in_order(part.iter().map(|row| row.metric.clone()));
        let slices = in_order(part.iter().map(|row| format!("{} ({})", row.slice, row.n_segments)));
        let at = |metric: &str, slice: &str| {
            let named = |row: &&&Sliced| {
                row.metric == metric && format!("{} ({})", row.slice, row.n_segments) == slice
            };
            cell(part.iter().find(named))
        };
        let mut table = Table::new();
        if slices.len() > ACROSS {
            table.head(std::iter::once("slice (rated segments)".to_owned()).chain(metrics.iter().cloned()));
            for slice in &slices {
                let cells = metrics.iter().map(|metric| at(metric, slice));
                table.row(std::iter::once(slice.clone()).chain(cells));
            }
        } else {
            table.head(std::iter::once("metric".to_owned()).chain(slices.iter().cloned()));
            for metric in &metrics {
                let cells = slices.iter().map(|slice| at(metric, slice));
                table.row(std::iter::once(metric.clone()).chain(cells));
            }
        }
        tables.push((format!("{lp} {statistic} by slice (rated segments)"), table));
    }
    tables
}

/// Each name once, in order of its first place.
fn in_order(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}

fn williams(pairs: &[Of<Compared>], number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head(["pair", "level", "better", "worse", "n", "difference", "p"]);
    for of in pairs {
        let found = &of.found;
        table.row([
            of.lp.clone(),
            found.level.to_owned(),
            found.better.clone(),
            found.worse.clone(),
            found.n.to_string(),
            number(found.difference),
            found.p.map_or_else(|| "-".into(), p_value),
        ]);
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

fn distributions(parts: &Parts, number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head([
        "scores", "pair", "n", "mean", "SD", "min", "Q1", "median", "Q3", "max", "distinct", "HQ", "MQ", "LQ",
    ]);
    for of in &parts.distributions {
        let summary = &of.found.summary;
        let bin = |pick: fn(&Bins) -> f64| {
            of.found.bins.as_ref().map_or_else(|| "-".into(), |bins| number(pick(bins)))
        };
        let cells = [
            of.name.clone(),
            of.lp.clone(),
            summary.n.to_string(),
            number(summary.mean),
            number(summary.deviation),
        ];
        let rest = [summary.distinct.to_string(), bin(|b| b.high), bin(|b| b.medium), bin(|b| b.low)];
        table.row(cells.into_iter().chain(summary.quartiles.map(number)).chain(rest));
    }
    table
}

/// Shares of severities and types, the raters' and each run's side by side.
fn errors(parts: &Parts, number: &dyn Fn(f64) -> String) -> Table {
    let names = in_order(parts.errors.iter().map(|of| of.name.clone()));
    let pairs = in_order(parts.errors.iter().map(|of| of.lp.clone()));
    let mut table = Table::new();
    table.head(["pair", "of", "kind"].map(str::to_owned).into_iter().chain(names.iter().cloned()));
    for lp in &pairs {
        let found: Vec<Option<&ErrorShares>> = names
            .iter()
            .map(|name| parts.errors.iter().find(|of| of.lp == *lp && of.name == *name).map(|of| &of.found))
            .collect();
        let counts = found.iter().map(|shares| shares.map_or_else(|| "-".into(), |s| s.n.to_string()));
        table.row([lp.clone(), "all".into(), "number".into()].into_iter().chain(counts));
        for (what, pick) in
            [("severity", severities as fn(&ErrorShares) -> &BTreeMap<String, f64>), ("type", types)]
        {
            let kinds: BTreeSet<&String> = found.iter().flatten().flat_map(|s| pick(s).keys()).collect();
            for kind in kinds {
                let share = |shares: Option<&ErrorShares>| {
                    shares.map_or_else(|| "-".into(), |s| number(pick(s).get(kind).copied().unwrap_or(0.0)))
                };
                let cells = [lp.clone(), what.to_owned(), kind.clone()];
                table.row(cells.into_iter().chain(found.iter().copied().map(share)));
            }
        }
    }
    table
}

fn latent(parts: &Parts, number: &dyn Fn(f64) -> String) -> Table {
    let mut table = Table::new();
    table.head(["run", "pair", "statistic", "w-major", "value", "at 5", "held out"]);
    for of in &parts.latent {
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

fn severities(shares: &ErrorShares) -> &BTreeMap<String, f64> {
    &shares.severities
}

fn types(shares: &ErrorShares) -> &BTreeMap<String, f64> {
    &shares.types
}

fn spans(of: &Of<SpanReport>, shown: &[Definition], number: &dyn Fn(f64) -> String) -> Table {
    let report = &of.found;
    let mut table = Table::new();
    table.head(["measure", "precision", "recall", "F1"]);
    let mut line = |name: String, score: &PrecisionRecall| {
        table.row([name, number(score.precision), number(score.recall), number(score.f1)]);
    };
    let whole = if report.n_partly_rated == 0 {
        String::new()
    } else {
        format!(", {} of {} verdicts rated in part", report.n_partly_rated, report.n_verdicts)
    };
    for definition in shown {
        let (target, source) = report.under(*definition);
        let unit = definition.unit();
        let beyond = match (*definition, report.n_beyond_mpp) {
            (Definition::Mpp, n @ 1..) => format!(", {n} left out: too many spans overlap"),
            _ => String::new(),
        };
        line(format!("{unit} ({definition}), {} segments{whole}{beyond}", report.n_segments), target);
        let share = 100.0 * report.gold_in_source;
        if let Some(source) = source {
            line(format!("characters of sources ({definition}), {share:.1}% of the raters'"), source);
        }
    }
    for (name, score) in [("exact spans", &report.exact), ("partial spans", &report.partial)] {
        line(name.into(), &score.target);
        line(format!("{name} of sources"), &score.source);
    }
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

/// F1 under the definitions shown, and HiMATE's matching at a half, as its Table 3 has it.
fn span_slices(slices: &[SlicedSpans], shown: &[Definition], number: &dyn Fn(f64) -> String) -> Table {
    const HALF: f64 = 0.5;
    let mut table = Table::new();
    let titles = shown.iter().map(ToString::to_string).chain([format!("token runs (HiMATE), {HALF}")]);
    let titles: Vec<String> = titles.flat_map(|name| vec![name; 3]).collect();
    let measures = titles.iter().enumerate().map(|(nth, _)| ["P", "R", "F1"][nth % 3]);
    table.head(vec![String::new(); 4].into_iter().chain(titles.iter().cloned()));
    table.head(["run", "pair", "slice", "rated segments"].into_iter().chain(measures));
    for SlicedSpans { lp, slice, name, found } in slices {
        let half = found.himate.iter().find(|(theta, _)| *theta == HALF).map(|(_, score)| score);
        let scores = shown.iter().map(|definition| found.under(*definition).0).chain(half);
        let scores = scores.flat_map(|score| [score.precision, score.recall, score.f1].map(number));
        let first = [name.clone(), lp.clone(), slice.clone(), found.n_segments.to_string()];
        table.row(first.into_iter().chain(scores));
    }
    table
}

fn span_means(means: &[SpanMeans], shown: &[Definition], number: &dyn Fn(f64) -> String) -> Table {
    let columns = |mean: &SpanMeans| -> Vec<(String, PrecisionRecall)> {
        let of = |definition: &Definition| {
            let (target, source) = mean.under(*definition);
            let source = source.map(|source| (format!("{definition}, of sources"), *source));
            [(definition.to_string(), *target)].into_iter().chain(source)
        };
        shown.iter().flat_map(of).collect()
    };
    let mut table = Table::new();
    let names = means.first().map(columns).unwrap_or_default();
    let titles = names.iter().flat_map(|(name, _)| vec![name.clone(); 3]);
    table.head(vec![String::new(); 3].into_iter().chain(titles).chain([String::new()]));
    let measures = names.iter().flat_map(|_| ["P", "R", "F1"]);
    table.head(["run", "verdicts", "pairs"].into_iter().chain(measures).chain(["errors per document"]));
    for mean in means {
        let scores = columns(mean).into_iter().flat_map(|(_, s)| [s.precision, s.recall, s.f1]);
        let first = [mean.name.clone(), mean.unit.to_owned(), mean.pairs.to_string()];
        table.row(first.into_iter().chain(scores.map(number)).chain([number(mean.errors_per_document)]));
    }
    table
}
