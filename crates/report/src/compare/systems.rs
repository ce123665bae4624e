//! Systems by one judge as a table: means with intervals, differences from a baseline, and the notes below.

use super::super::statistics::p_value;
use super::joined;
use crate::{
    meta::systems::{Compared, Comparison, Coverage},
    run::summary::untranslated,
    table::Table,
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

/// One table for programs, with the pair in front where there are several.
#[must_use]
pub fn flat(all: &[(Option<String>, Comparison)]) -> Table {
    let has_pairs = all.iter().any(|(pair, _)| pair.is_some());
    let names = if has_pairs { &["pair"][..] } else { &[] };
    joined(
        names,
        all.iter().map(|(pair, found)| (pair.as_deref().into_iter().collect(), table(found, "units"))),
    )
}

/// The notes below the table of a comparison of systems by units of this noun.
#[must_use]
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
#[must_use]
pub fn table(found: &Comparison, units: &str) -> Table {
    const TESTS: &str = " | difference | difference 95% CI | p bootstrap | p randomization";
    let tests = found.baseline.as_ref().map_or("", |_| TESTS);
    let mut table = Table::headed(&format!("system | score | score 95% CI | {units} | missing{tests}"));
    for row in &found.rows {
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
        table.row(cells);
    }
    table
}
