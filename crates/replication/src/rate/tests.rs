//! The calibration of preset `code` against that of the authors' program.

use std::fmt::Write;

use super::*;
use tribunal_judges::{Preset, registry};

#[test]
fn every_calibration_prints_as_the_authors_program_prints_it() {
    let settings = Settings { preset: Preset::Code, ..Settings::default() };
    let options = registry::find("rate").unwrap().parse_options("").unwrap();
    let judge = Published::new(&settings, &Options::read(&options)).unwrap();
    let winners = ["A", "B", "Tie", "C"];
    let anchors = [Number::Int(1), Number::Int(4)].into_iter().chain([0.0, 2.5, 3.0, 4.0].map(Number::Float));
    let mut table = String::new();
    for anchor in anchors {
        for (first, second) in winners.iter().flat_map(|first| winners.map(|second| (*first, second))) {
            for tentative in [0.0, 1.0, 2.0, 2.5, 3.0, 4.0] {
                let told = judge.calibrate(Outcome::between(first, second), tentative, anchor).unwrap();
                writeln!(table, "{}", repr(&told)).unwrap();
            }
        }
    }
    // Made by `scripts/golden_rate.py` with BITHLP/RATE at 8efee2e3.
    let sha = tribunal_core::digest::sha256(&table);
    assert_eq!(
        (table.len(), sha.as_str()),
        (155_760, "56881d29d9b3f4709d28bc56ff5b5b2755368ea18c95443bbf8ec0178130f99a"),
        "{}",
        &table[..600]
    );
}
