//! Systems by one judge as a table: means with intervals, differences from a baseline, and the notes below.

use super::super::statistics::p_value;
use crate::{
    meta::systems::{Compared, Comparison, Coverage},
    run::summary::untranslated,
    table::{Cell, Table},
};

/// Legend of the p-values.
fn p_legend(noun: &str) -> String {
    format!(
        "p randomization below 0.05: significant; p bootstrap and the interval approximate it with many {noun}s, and can \
         contradict it near 0.05 or with few"
    )
}

/// Note where no p-value can be below 0.05. Swapping the scores of n differing units gives 2^n means, of
/// which at least two are as far from 0 as the measured one, so that p is at least 2^-(n-1); with r resamples
/// it is at least 1 / (r + 1).
fn too_few(row: &Compared, resamples: usize, noun: &str) -> Option<String> {
    const ENOUGH: usize = 6;
    row.against_baseline.filter(|_| row.differing < ENOUGH || resamples < 20)?;
    Some(if row.differing < ENOUGH {
        format!(
            "{}: too few {noun}s to tell: it differs from the baseline on {}, and p randomization can be below 0.05 from {ENOUGH} on",
            row.system, row.differing
        )
    } else {
        format!("{}: with {resamples} resamples no p can be below 0.05; take `--resamples 1000`", row.system)
    })
}

/// The systems of all language pairs for programs: one number in a field, whatever was tested.
pub fn flat(all: &[(String, Comparison)]) -> Table {
    let mut table = Table::headed(
        "lp | system | score | low | high | units | missing | baseline | difference | difference_low | \
         difference_high | p_bootstrap | p_randomization",
    );
    for (pair, Comparison { baseline, rows, .. }) in all {
        for Compared { system, mean, interval, units, missing, against_baseline, .. } in rows {
            let test = against_baseline.as_ref().map(|test| {
                [test.difference, test.interval.0, test.interval.1, test.bootstrap_p, test.randomization_p]
            });
            let numbers = [*mean, interval.0, interval.1].map(|value| value.to_string());
            let tests = test.map_or_else(Default::default, |test| test.map(|value| value.to_string()));
            let labels = [pair.clone(), system.clone()].into_iter().chain(numbers);
            let counts = [units.to_string(), missing.to_string(), baseline.clone().unwrap_or_default()];
            table.row(labels.chain(counts).chain(tests));
        }
    }
    table
}

/// The systems of all language pairs for LaTeX, the best score in bold.
pub fn latex(all: &[(String, Comparison)], units: &str, notes: &[String]) -> String {
    let mut joined = Table::new();
    for (nth, (pair, found)) in all.iter().enumerate() {
        let (head, rows) = cells(found, units);
        if nth == 0 {
            joined.head(std::iter::once("pair".to_owned()).chain(head.split(" | ").map(str::to_owned)));
        }
        let best = found.rows.iter().map(|row| row.mean).max_by(f64::total_cmp);
        for (row, compared) in rows.into_iter().zip(&found.rows) {
            let mut row: Vec<Cell> = std::iter::once(pair.clone()).chain(row).map(Cell::from).collect();
            row[2].is_best = found.baseline.is_some() && Some(compared.mean) == best;
            joined.row(row);
        }
    }
    joined.latex(notes)
}

/// The notes below the table of a comparison of systems by units of this noun.
pub fn notes(found: &Comparison, noun: &str, coverage: Coverage, resamples: usize, seed: u64) -> Vec<String> {
    let mut notes = match &found.baseline {
        Some(baseline) => {
            vec![
                format!("\ndifferences from `{baseline}`; {resamples} resamples, seed {seed}"),
                p_legend(noun),
            ]
        }
        None => vec![format!("\nsystems are in the order of the input; {resamples} resamples, seed {seed}")],
    };
    notes.extend(found.rows.iter().filter_map(|row| too_few(row, resamples, noun)));
    match coverage {
        Coverage::Each => {
            let differences =
                found.baseline.as_ref().map_or("", |_| ", each difference over those that both have");
            notes.push(format!("each mean is over all {noun}s of that system with a score{differences}"));
        }
        Coverage::Common if found.n_left_out > 0 => notes.push(format!(
            "{0} {noun}{1} left out, because some system has no score on {2} (--coverage each keeps {2})",
            found.n_left_out,
            if found.n_left_out == 1 { "" } else { "s" },
            if found.n_left_out == 1 { "it" } else { "them" },
        )),
        Coverage::Common => {}
    }
    notes.extend(found.rows.iter().filter_map(|row| {
        let of = row.scored + row.missing;
        Some(format!("warning: {}", untranslated(&row.system, row.untranslated, of, noun)?))
    }));
    notes.extend(found.rows.iter().filter(|row| row.empty > 0).map(|row| empty(row, noun, coverage)));
    notes
}

/// Note on empty translations, which have no verdict.
fn empty(row: &Compared, noun: &str, coverage: Coverage) -> String {
    let Compared { system, empty, .. } = row;
    match (*empty, coverage) {
        (1, Coverage::Common) => format!(
            "{system}: 1 empty translation has no verdict; its {noun} is excluded for all systems and does not lower the \
             mean of {system}"
        ),
        (_, Coverage::Common) => format!(
            "{system}: {empty} empty translations have no verdict; their {noun}s are excluded for all systems and do not \
             lower the mean of {system}"
        ),
        (1, Coverage::Each) => format!(
            "{system}: 1 empty translation has no verdict; its {noun} is excluded from the mean of {system} and does not \
             lower it"
        ),
        (_, Coverage::Each) => format!(
            "{system}: {empty} empty translations have no verdict; their {noun}s are excluded from the mean of {system} \
             and do not lower it"
        ),
    }
}

/// Systems with means, and differences from the baseline, if there is one, with their tests; `units` is the
/// title of their number.
pub fn table(found: &Comparison, units: &str) -> Table {
    let (head, rows) = cells(found, units);
    let mut table = Table::headed(&head);
    for row in rows {
        table.row(row);
    }
    table
}

fn cells(found: &Comparison, units: &str) -> (String, Vec<Vec<String>>) {
    const TESTS: &str = " | difference | difference 95% CI | p bootstrap | p randomization";
    let tests = found.baseline.as_ref().map_or("", |_| TESTS);
    let cells = |row: &Compared| {
        let mut cells = vec![
            row.system.clone(),
            format!("{:.3}", row.mean),
            format!("{:.3} to {:.3}", row.interval.0, row.interval.1),
            row.units.to_string(),
            row.missing.to_string(),
        ];
        if let Some(test) = &row.against_baseline {
            cells.push(format!("{:+.3}", test.difference));
            cells.push(format!("{:+.3} to {:+.3}", test.interval.0, test.interval.1));
            cells.extend([test.bootstrap_p, test.randomization_p].map(p_value));
        } else {
            cells.extend(found.baseline.as_ref().map(|_| "baseline".to_owned()));
        }
        cells
    };
    let head = format!("system | score | score 95% CI | {units} | missing{tests}");
    (head, found.rows.iter().map(cells).collect())
}
