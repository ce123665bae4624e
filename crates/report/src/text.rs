//! The text report: systems side by side, then the errors found, marked in their texts.

use std::fmt::Write;

use super::{
    Detail, ReportExamples, TextStyle, marked,
    style::{paint, score, wrapped},
    units,
};
use crate::{
    plain::plain,
    run::{
        Record, Status, Summary,
        summary::{Common, Cost, SystemSummary, untranslated},
    },
    signature::Signature,
    table::{Cell, Table},
};

/// Length of a reason in the report. Unit: characters.
const REASON: usize = 160;

/// Columns that a name keeps when a table is too wide.
const SHORTEST_NAME: usize = 8;

/// ANSI style of a caution: bold.
const CAUTION: &str = "\x1b[1m";

/// Mark of unusable answers, which were asked for again.
const UNUSABLE: &str = "unusable";

/// The whole report.
pub fn text(summary: &Summary, records: &[Record], detail: Detail, style: TextStyle) -> String {
    let mut shown = ReportExamples::new(summary);
    for record in records {
        shown.add(record.clone());
    }
    if shown.lacks_marks() {
        for record in records {
            shown.contrast(record.clone());
        }
    }
    text_of(summary, &shown, detail, style)
}

/// The whole report, with examples that are already selected.
pub fn text_of(summary: &Summary, shown: &ReportExamples, detail: Detail, style: TextStyle) -> String {
    let mut parts = Vec::new();
    if detail == Detail::Units {
        parts.push(units::examples(shown, style));
    }
    parts.push(rounds(summary, style));
    parts.push(outcomes(&summary.cost));
    if summary.of_method(|method, _| method.name == "rubric-mqm") == Some(true) {
        parts.push(categories(&summary.systems, style));
    }
    let short = summary.signature.parse().map(|signature: Signature| format!("short: {}", signature.short()));
    let signatures = std::iter::once(summary.signature.clone()).chain(short);
    parts.push(signatures.map(|line| paint(&plain(&line), "\x1b[2m", style) + "\n").collect());
    parts.push(missing(summary, style));
    // Last, where it is still to be seen when all has been printed.
    parts.push(
        cautions(summary, style)
            + &tables(summary, shown.names_errors, style)
            + &apart(summary, style)
            + &of_judge(summary, style)
            + &unfinished(summary, style),
    );
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Note on tests of differences between systems, once all compared units are complete.
fn apart(summary: &Summary, style: TextStyle) -> String {
    let mut common = summary.pairs.values().chain(std::iter::once(&summary.common)).flatten();
    if summary.unjudged > 0 || !common.any(|common| common.units > 0) {
        return String::new();
    }
    if !summary.ranks_systems() {
        return String::new();
    }
    let note = "systems are listed by name; `tribunal compare RUN` tests which differences are significant";
    wrapped([note.to_owned()], style)
}

/// Cautions above the scores, with an empty line below them.
fn cautions(summary: &Summary, style: TextStyle) -> String {
    let cautions = &summary.cautions;
    let lines = cautions
        .iter()
        .flat_map(|caution| marked::wrapped(&format!("caution: {}", plain(caution)), style.width));
    let lines: String = lines.map(|line| paint(&line, CAUTION, style) + "\n").collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// Description of the judge's scores and marks.
fn of_judge(summary: &Summary, style: TextStyle) -> String {
    wrapped(summary.about_method(), style)
}

/// Note about the means of a run that is not finished.
fn unfinished(summary: &Summary, style: TextStyle) -> String {
    if summary.unjudged == 0 {
        return String::new();
    }
    let note = format!(
        "the run is not finished: {} of {} verdicts are missing; the same command continues it",
        summary.unjudged, summary.units
    );
    wrapped([note], style)
}

/// The systems side by side; those of each language pair apart.
fn tables(summary: &Summary, names_errors: bool, style: TextStyle) -> String {
    let of = |(pair, systems, common): (String, Vec<SystemSummary>, Option<Common>)| {
        let table = table(&systems, common, names_errors, summary.noun(), style);
        if summary.pairs.is_empty() { table } else { format!("{}\n{table}", paint(&pair, "\x1b[1m", style)) }
    };
    summary.by_pair().into_iter().map(of).collect::<Vec<_>>().join("\n")
}

/// Cost of a run, in one line.
pub fn cost(cost: &Cost) -> String {
    let usage = &cost.usage;
    format!(
        "{} call{} in {:.1} s: {} prompt tokens, {} of them from the cache; {} answer tokens",
        cost.calls,
        if cost.calls == 1 { "" } else { "s" },
        cost.wall_seconds,
        usage.prompt(),
        usage.cached,
        usage.generated
    )
}

/// The systems as a table for LaTeX; the best score is bold where the judge's means rank systems.
pub fn latex(summary: &Summary) -> String {
    let by_pair = summary.by_pair();
    let is_uneven = by_pair.iter().any(|(_, _, common)| uneven(*common).is_some());
    let columns = Columns::new(&summary.systems, is_uneven, ReportExamples::new(summary).names_errors);
    let mut all = Table::new();
    all.head(std::iter::once("pair".to_owned()).chain(columns.names(summary.noun())));
    for (pair, systems, common) in by_pair {
        let scores = systems.iter().filter_map(|system| compared(system, common));
        let best = scores.max_by(f64::total_cmp).filter(|_| summary.ranks_systems());
        for system in &systems {
            let score = compared(system, common);
            let cells = std::iter::once(pair.clone()).chain(columns.cells(system, score));
            let mut cells: Vec<Cell> = cells.map(Cell::from).collect();
            cells[3].is_best = best.is_some() && score == best;
            all.row(cells);
        }
    }
    let notes = summary.cautions.iter().map(|caution| format!("caution: {caution}"));
    all.latex(&notes.chain(std::iter::once(summary.signature.clone())).collect::<Vec<_>>())
}

/// The units that the means are over, where a system lacks some.
fn uneven(common: Option<Common>) -> Option<Common> {
    common.filter(|common| common.left_out > 0)
}

/// The score by which systems with these units in common are compared.
fn compared(system: &SystemSummary, common: Option<Common>) -> Option<f64> {
    if uneven(common).is_some() { system.common_score } else { system.score }
}

/// The columns of the table of systems that are shown.
#[derive(Clone, Copy)]
struct Columns([bool; 10]);

impl Columns {
    /// Those that the systems fill: the means of uneven systems over their own units too, and the quality
    /// only where it is not the score.
    fn new(systems: &[SystemSummary], is_uneven: bool, errors: bool) -> Self {
        let quality = systems.iter().any(|s| s.quality_score.is_some() && s.quality_score != s.score);
        let neutral = systems.iter().any(|s| s.neutral > 0.0);
        Self([true, true, true, is_uneven, quality, true, errors, errors, errors, neutral])
    }

    fn names(self, noun: &str) -> Vec<String> {
        let nouns = format!("{noun}s");
        let names = [
            "system",
            &nouns,
            "score",
            "on its own",
            "quality",
            "coverage",
            "critical",
            "major",
            "minor",
            "neutral",
        ];
        self.pick(names.map(str::to_owned))
    }

    fn cells(self, s: &SystemSummary, compared: Option<f64>) -> Vec<String> {
        // Where nothing was judged, nothing was found either.
        let found = |n: f64| if s.scored == 0 { "-".to_owned() } else { format!("{n:.2}") };
        let [critical, major, minor, neutral] = [s.critical, s.major, s.minor, s.neutral].map(found);
        let (name, coverage) = (plain(&s.system).into_owned(), format!("{}%", percent(s)));
        let quality = s.quality_score.map_or_else(|| "-".into(), |quality| format!("{quality:.1}"));
        let (compared, alone) = (score(compared), score(s.score));
        let units = s.units.to_string();
        self.pick([name, units, compared, alone, quality, coverage, critical, major, minor, neutral])
    }

    fn pick(self, all: [String; 10]) -> Vec<String> {
        all.into_iter().zip(self.0).filter_map(|(cell, is_shown)| is_shown.then_some(cell)).collect()
    }
}

fn table(
    systems: &[SystemSummary],
    common: Option<Common>,
    names_errors: bool,
    noun: &str,
    style: TextStyle,
) -> String {
    let columns = Columns::new(systems, uneven(common).is_some(), names_errors);
    let rows = systems.iter().map(|system| columns.cells(system, compared(system, common)));
    let rows: Vec<Vec<String>> = std::iter::once(columns.names(noun)).chain(rows).collect();
    let uneven = uneven(common);
    let mut below = what_scores_are(uneven, names_errors, noun);
    systems.iter().filter(|s| s.empty > 0).for_each(|s| below += &left_empty(s, uneven, noun));
    let warnings = systems.iter().filter_map(|s| untranslated(&s.system, s.untranslated, s.units, noun));
    below.extend(warnings.map(|warning| format!("warning: {}\n", plain(&warning))));
    aligned(&rows, style) + &wrapped(below.lines().map(String::from), style)
}

/// Units that the means are over, in a line or two below the table.
fn what_scores_are(uneven: Option<Common>, names_errors: bool, noun: &str) -> String {
    let errors = |such: &str| {
        if names_errors { format!("; errors are counted per {such}{noun}") } else { String::new() }
    };
    match uneven {
        None => {
            format!("score: the mean over {noun}s with a verdict, higher is better{}\n", errors(""))
        }
        Some(Common { units: 0, .. }) => format!(
            "score: the systems have no {noun} in common that all of them have a \
             verdict on, so they cannot be compared; `on its own` is over each system's own {noun}s\n"
        ),
        Some(Common { units, left_out }) => format!(
            "score: the mean over the {units} {noun}s that every system has a verdict on, higher is better; \
             {left_out} left out\non its own: the mean over all {noun}s of that system with a verdict{}\n",
            errors("such ")
        ),
    }
}

/// Effect of a system's empty translations on the means.
fn left_empty(system: &SystemSummary, uneven: Option<Common>, noun: &str) -> String {
    let name = plain(&system.system);
    let (texts, are, s) = match system.empty {
        1 => ("1 empty translation has".to_owned(), "is", ""),
        n => (format!("{n} empty translations have"), "are", "s"),
    };
    if uneven.is_none() {
        return format!("{name}: {texts} no verdict and {are} excluded from its mean (not penalised)\n");
    }
    format!(
        "{name}: {texts} no verdict; `score` leaves out the same {noun}{s} of every system, `on its own` those of {name} \
         alone (not penalised)\n"
    )
}

/// Whole percent, rounded, but never 100 while a verdict is missing.
fn percent(system: &SystemSummary) -> u32 {
    let rounded = (system.coverage() * 100.0).round() as u32;
    if system.coverage() < 1.0 { rounded.min(99) } else { rounded }
}

/// Columns under their names: the first left-aligned, the others right-aligned. Where they do not fit, the
/// first is cut.
fn aligned(rows: &[Vec<String>], style: TextStyle) -> String {
    let rows = &fitted(rows, style.width);
    let width = |i: usize| rows.iter().map(|row| marked::columns(&row[i])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i] - marked::columns(cell));
            line += &if i == 0 { [cell, pad.as_str()].concat() } else { ["  ", &pad, cell].concat() };
        }
        out += &if n == 0 { paint(&line, "\x1b[1m", style) } else { line };
        out.push('\n');
    }
    out
}

/// Cuts the first cells so that a row fits a line, though never below a few columns.
fn fitted(rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
    let widest = |i: usize| rows.iter().map(|row| marked::columns(&row[i])).max().unwrap_or(0);
    let others: usize = (1..rows[0].len()).map(|i| widest(i) + 2).sum();
    let room = width.saturating_sub(others).max(SHORTEST_NAME);
    let cut = |row: &Vec<String>| {
        let mut row = row.clone();
        row[0] = marked::shortened(&row[0], room);
        row
    };
    rows.iter().map(cut).collect()
}

/// Number of calls of each stage in each round, for methods that work in rounds.
fn rounds(summary: &Summary, style: TextStyle) -> String {
    let stages = &summary.cost.rounds;
    let Some(last) = stages.values().filter_map(|rounds| rounds.keys().next_back()).max() else {
        return String::new();
    };
    let mut header = vec!["calls by round".to_owned()];
    header.extend((1..=*last).map(|round| round.to_string()));
    let mut rows = vec![header];
    for (stage, rounds) in stages {
        let counts = (1..=*last).map(|round| rounds.get(&round).map_or("-".into(), ToString::to_string));
        rows.push(std::iter::once(plain(stage).into_owned()).chain(counts).collect());
    }
    aligned(&rows, style)
}

/// Outcomes of the answers at each stage, for methods that count them; the shares are those of the usable
/// answers.
fn outcomes(cost: &Cost) -> String {
    let mut out = String::new();
    for (stage, counts) in &cost.outcomes {
        let (unusable, used): (Vec<_>, Vec<_>) = counts.iter().partition(|(outcome, _)| *outcome == UNUSABLE);
        let total: usize = used.iter().map(|(_, n)| **n).sum();
        let share = |n: usize| (100.0 * n as f64 / total.max(1) as f64).round();
        let used = used.into_iter().map(|(outcome, n)| format!("{n} {outcome} ({}%)", share(*n)));
        let unusable = unusable.into_iter().map(|(_, n)| format!("{n} unusable, asked again"));
        let _ = writeln!(out, "{stage}: {}", used.chain(unusable).collect::<Vec<_>>().join(", "));
    }
    plain(&out).into_owned()
}

/// Units without a verdict by status, each with the reason of the first.
fn missing(summary: &Summary, style: TextStyle) -> String {
    let mut out = String::new();
    let missing = summary.units - summary.scored;
    if missing > 0 {
        let _ = writeln!(out, "without a verdict: {missing} of {}", summary.units);
    }
    if summary.unjudged > 0 {
        let _ = writeln!(out, "  {} not judged yet", summary.unjudged);
    }
    for (status, n) in summary.statuses.iter().filter(|(status, _)| **status != Status::Ok) {
        let reason = summary.reasons.get(status).map_or_else(String::new, |reason| {
            let line = plain(reason).split_whitespace().collect::<Vec<_>>().join(" ");
            format!(": {}", marked::shortened(&line, REASON))
        });
        let is_alone = summary.signature.contains("|granularity:seg|");
        let hint = (*status == Status::TooLong).then_some(if is_alone {
            "hint: a model with a longer context, or a larger `--context` if it was made smaller"
        } else {
            "hint: judge with `--granularity seg`, or with a larger `--context` if the model has one"
        });
        let lines = std::iter::once(format!("{n} {}{reason}", status.name())).chain(hint.map(str::to_owned));
        for line in lines.flat_map(|line| marked::wrapped(&line, style.width.saturating_sub(2))) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// RUBRIC-MQM's report: the points of each category, the heaviest first, subcategories below their own.
fn categories(systems: &[SystemSummary], style: TextStyle) -> String {
    let of = |s: &SystemSummary, name: &str| s.categories.get(name).copied().unwrap_or_default();
    let total = |name: &str| systems.iter().map(|s| of(s, name).penalty).sum::<f64>();
    let mut names: Vec<&String> = systems.iter().flat_map(|s| s.categories.keys()).collect();
    let top = |name: &str| name.split('/').next().unwrap_or(name).to_owned();
    names.sort_by(|a, b| {
        let key = |name: &str| (total(&top(name)), top(name), !name.contains('/'), total(name));
        let (a, b) = (key(a), key(b));
        b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.cmp(&a.2)).then(b.3.total_cmp(&a.3))
    });
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let mut rows = vec![vec!["points (errors)".to_owned()]];
    rows[0].extend(systems.iter().map(|s| plain(&s.system).into_owned()));
    for name in names {
        let shown = name.split_once('/').map_or_else(|| name.clone(), |(_, sub)| format!("  {sub}"));
        let cells = systems
            .iter()
            .map(|s| of(s, name))
            .map(|sum| format!("{} ({})", (sum.penalty * 1e4).round() / 1e4, sum.errors));
        rows.push(std::iter::once(plain(&shown).into_owned()).chain(cells).collect());
    }
    aligned(&rows, style)
}
