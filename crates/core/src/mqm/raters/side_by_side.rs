//! Side-by-side MQM, in which raters see two translations of a source at once: a system is called
//! `SYSTEM_with_OTHER`, after the one beside it. A rater's annotations beside two others are independent
//! ratings of one translation.
//!
//! Source: google/wmt-mqm-human-evaluation, `sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv`.

use std::collections::BTreeSet;

use super::row::Row;

/// Separator between a system and the one beside it.
const WITH: &str = "_with_";

/// Takes the other's name from the system's to the rater's: `rater3 with refA`. Names stay where neither the
/// other is a system of the file nor the same pair is named the other way round.
pub fn separate(rows: &mut [Row]) {
    let systems: BTreeSet<String> = rows.iter().map(|row| row.segment.system.clone()).collect();
    let pairs =
        |system: &str| system.split_once(WITH).map(|(system, other)| (system.to_owned(), other.to_owned()));
    let is_pair = |system: &str, other: &str| {
        systems.contains(other) || systems.contains(&format!("{other}{WITH}{system}"))
    };
    for row in rows {
        let Some((system, other)) =
            pairs(&row.segment.system).filter(|(system, other)| is_pair(system, other))
        else {
            continue;
        };
        row.rater = format!("{} with {other}", row.rater);
        row.segment.system = system;
    }
}
