//! Tables of the optional parts of a meta-evaluation. It computes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{number, or_dash, p_value};
use crate::{
    meta::{
        annotators::RaterPair,
        contents::Contents,
        correlation::Undefined,
        distribution::{Bins, ErrorShares},
        fit::FitReport,
        latent::Latent,
        parts::{Distribution, Of, Sliced, SlicedSpans},
        significance::williams::Compared,
        spans::{
            PrecisionRecall,
            counts::Definition,
            report::{SpanMeans, SpanReport},
        },
        temperature::{Calibration, Means},
    },
    table::Table,
};

pub fn contents(rows: &[Of<Contents>]) -> Table {
    let mut table = Table::headed(
        "pair | domain | segments | documents | systems | translations | documents of systems | 5doc groups of systems | rated segments | rated translations | rated documents | rated 5doc groups",
    );
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

pub fn raters(pairs: &[Of<RaterPair>]) -> Table {
    let mut table =
        Table::headed("pair | first | second | shared segments | r of systems | mean r of segments");
    for pair in pairs {
        let found = &pair.found;
        table.row([
            pair.lp.clone(),
            found.first.clone(),
            found.second.clone(),
            found.shared.to_string(),
            or_dash(found.system_level),
            or_dash(found.segment_level),
        ]);
    }
    table
}

/// A table for each pair and statistic, with metrics down and slices across, or the other way round for many
/// slices.
pub fn slices(rows: &[Sliced]) -> Vec<(String, Table)> {
    /// More slices than this are listed one below the other.
    const ACROSS: usize = 5;
    let mut parts: BTreeMap<(&str, &str), Vec<&Sliced>> = BTreeMap::new();
    for row in rows {
        parts.entry((&row.lp, &row.statistic)).or_default().push(row);
    }
    let cell =
        |row: Option<&&Sliced>| or_dash(row.and_then(|row| row.value.ok()).map(|measured| measured.value));
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

pub fn williams(pairs: &[Of<Compared>]) -> Table {
    let mut table = Table::headed("pair | level | better | worse | n | difference | p");
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

pub fn calibration(rows: &[Of<Result<FitReport, Undefined>>]) -> Table {
    let mut table = Table::headed(
        "metric | pair | in-sample | 95% interval | held out | optimism | chance (97.5%) | all ties | epsilon",
    );
    for of in rows {
        let Ok(fit) = &of.found else { continue };
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

pub fn distributions(rows: &[Of<Distribution>]) -> Table {
    let mut table = Table::headed(
        "scores | pair | n | mean | SD | min | Q1 | median | Q3 | max | distinct | HQ | MQ | LQ",
    );
    for of in rows {
        let summary = &of.found.summary;
        let bin = |pick: fn(&Bins) -> f64| or_dash(of.found.bins.as_ref().map(pick));
        let cells = [
            of.name.clone(),
            of.lp.clone(),
            summary.n.to_string(),
            number(summary.mean),
            number(summary.deviation),
        ];
        let bins = [summary.distinct.to_string(), bin(|b| b.high), bin(|b| b.medium), bin(|b| b.low)];
        table.row(cells.into_iter().chain(summary.quartiles.map(number)).chain(bins));
    }
    table
}

type Shares = fn(&ErrorShares) -> &BTreeMap<String, f64>;

/// Shares of severities and types, the raters' and each run's side by side.
pub fn errors(rows: &[Of<ErrorShares>]) -> Table {
    let names = in_order(rows.iter().map(|of| of.name.clone()));
    let pairs = in_order(rows.iter().map(|of| of.lp.clone()));
    let mut table = Table::new();
    table.head(["pair", "of", "kind"].map(str::to_owned).into_iter().chain(names.iter().cloned()));
    for lp in &pairs {
        let found: Vec<Option<&ErrorShares>> = names
            .iter()
            .map(|name| rows.iter().find(|of| of.lp == *lp && of.name == *name).map(|of| &of.found))
            .collect();
        let counts = found.iter().map(|shares| shares.map_or_else(|| "-".into(), |s| s.n.to_string()));
        table.row([lp.clone(), "all".into(), "number".into()].into_iter().chain(counts));
        let shares: [(&str, Shares); 2] = [("severity", |s| &s.severities), ("type", |s| &s.types)];
        for (title, pick) in shares {
            let kinds: BTreeSet<&String> = found.iter().flatten().flat_map(|s| pick(s).keys()).collect();
            for kind in kinds {
                let share = |shares: Option<&ErrorShares>| {
                    or_dash(shares.map(|s| pick(s).get(kind).copied().unwrap_or(0.0)))
                };
                let cells = [lp.clone(), title.to_owned(), kind.clone()];
                table.row(cells.into_iter().chain(found.iter().copied().map(share)));
            }
        }
    }
    table
}

pub fn latent(rows: &[Of<Result<Latent, Undefined>>]) -> Table {
    let mut table = Table::new();
    table.head(["run", "pair", "statistic", "w-major", "value", "at 5", "held out"]);
    for of in rows {
        let Ok(found) = &of.found else {
            table.row([of.name.clone(), of.lp.clone(), "undefined".into()]);
            continue;
        };
        let [value, at_five] = [found.value, found.at_five].map(number);
        let held_out = or_dash(found.held_out);
        let (statistic, w_major) = (found.statistic.clone(), found.w_major.to_string());
        table.row([of.name.clone(), of.lp.clone(), statistic, w_major, value, at_five, held_out]);
    }
    table
}

pub fn temperatures(rows: &[Of<Result<Calibration, Undefined>>]) -> Table {
    let mut table = Table::headed("run | pair | temperature | system | output | sigmoid | calibrated");
    for of in rows {
        let Ok(found) = &of.found else {
            table.row([of.name.clone(), of.lp.clone(), "undefined".into()]);
            continue;
        };
        let mut row = |system: &str, means: &Means| {
            let numbers = [means.output, means.sigmoid, means.calibrated].map(number);
            let names =
                [&of.name, &of.lp, &format!("{:.2}", found.temperature), system].map(ToString::to_string);
            table.row(names.into_iter().chain(numbers));
        };
        row("all", &found.all);
        found.systems.iter().for_each(|(system, means)| row(system, means));
    }
    table
}

pub fn spans(of: &Of<SpanReport>, shown: &[Definition]) -> Table {
    let report = &of.found;
    let mut table = Table::headed("measure | precision | recall | F1");
    let mut line = |name: String, score: &PrecisionRecall| {
        table.row([name, number(score.precision), number(score.recall), number(score.f1)]);
    };
    let partial_note = if report.n_partly_rated == 0 {
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
        line(format!("{unit} ({definition}), {} segments{partial_note}{beyond}", report.n_segments), target);
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
    let human = or_dash(errors.human);
    table.row([
        format!("errors per document ({} verdicts, {} documents)", errors.unit, errors.documents),
        number(errors.judge),
        "human".into(),
        human,
    ]);
    table
}

/// F1 under the definitions shown, and HiMATE's matching at a half, as its Table 3 has it.
pub fn span_slices(slices: &[SlicedSpans], shown: &[Definition]) -> Table {
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

pub fn span_means(means: &[SpanMeans], shown: &[Definition]) -> Table {
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
