//! Measured quality of methods whose models generate answers, with models that are smaller than those of the
//! papers. The table is `small_models.tsv`: method, model, language pair, acc-t within a source on WMT23,
//! acc-t of random scores on the same translations, and the command. `scripts/judge_quality.py` writes it.

use std::fmt::Write;

use super::{Method, method::Output};

const TABLE: &str = include_str!("small_models.tsv");

/// Methods whose models generate answers were published with models far above this. Unit: billions of
/// parameters.
const SMALL: f64 = 3.0;

/// A measured result.
#[derive(Clone, Copy)]
struct Row {
    method: &'static str,
    model: &'static str,
    pair: &'static str,
    acc_t: &'static str,
    random: &'static str,
    command: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next();
        Some(Row {
            method: next()?,
            model: next()?,
            pair: next()?,
            acc_t: next()?,
            random: next()?,
            command: next()?,
        })
    })
}

/// The method's results with small models, as a sentence without a full stop; `None` for methods that
/// generate no answers.
pub fn statement(method: &Method<'_>) -> Option<String> {
    let of_method: Vec<Row> = rows().filter(|row| row.method == method.name).collect();
    (method.output == Output::Text).then(|| {
        if of_method.is_empty() {
            return format!("not measured with models below {SMALL}B parameters; {}", measured());
        }
        results(&of_method)
    })
}

/// Warning before a run of the method with a model of this size; `None` for methods that generate no answers,
/// and for larger models. Unit of the size: billions of parameters.
pub fn warning(method: &Method<'_>, model: &str, billions: f64) -> Option<String> {
    let is_small = method.output == Output::Text && billions < SMALL;
    is_small
        .then(|| format!("`{0}` needs a larger model; {1}", method.name, known(&all(), method.name, model)))
}

/// The results nearest to a method and a model: theirs, or those of the method, or all.
fn known(rows: &[Row], method: &str, model: &str) -> String {
    let of_method: Vec<Row> = rows.iter().filter(|row| row.method == method).copied().collect();
    let same: Vec<Row> = of_method.iter().filter(|row| row.model == model).copied().collect();
    if !same.is_empty() {
        return results(&same);
    }
    let others = if of_method.is_empty() { rows } else { &of_method };
    format!("not measured with `{model}`; {}", results(others))
}

/// All measured results, as a sentence without a full stop.
pub fn measured() -> String {
    results(&all())
}

fn all() -> Vec<Row> {
    rows().collect()
}

/// Results in words with their command, those of one method and model together.
fn results(rows: &[Row]) -> String {
    let mut text = String::new();
    for same in rows.chunk_by(|a, b| (a.method, a.model) == (b.method, b.model)) {
        let is_chance = same.iter().all(|row| number(row.acc_t) <= number(row.random));
        let worth = if is_chance { "no better than chance, " } else { "" };
        let values: Vec<String> =
            same.iter().map(|row| format!("{} {} (random {})", row.pair, row.acc_t, row.random)).collect();
        let separator = if text.is_empty() { "" } else { "; " };
        let Row { method, model, command, .. } = same[0];
        let values = values.join(", ");
        let _ = write!(text, "{separator}`{method}` with `{model}`: {worth}acc-t {values}, by `{command}`");
    }
    text
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn the_table_is_whole() {
        for (row, line) in rows().zip(TABLE.lines()) {
            assert_eq!(line.split('\t').count(), 6, "`{line}`");
            let method = registry::find(row.method).unwrap();
            assert_eq!(method.output, Output::Text, "`{line}`");
            let is_share = |text| (0.0..=1.0).contains(&number(text));
            assert!(is_share(row.acc_t) && is_share(row.random), "`{line}`");
        }
        assert_eq!(rows().count(), TABLE.lines().count());
    }

    #[test]
    fn the_nearest_measured_results_are_named() {
        let row = |method, model, pair, acc_t| Row {
            method,
            model,
            pair,
            acc_t,
            random: ".384",
            command: "measure",
        };
        let rows = [
            row("gemba-mqm", "tiny", "en-de", ".277"),
            row("gemba-mqm", "tiny", "zh-en", ".289"),
            row("gemba-mqm", "small", "en-de", ".401"),
            row("fsp", "tiny", "en-de", ".3"),
        ];
        insta::assert_snapshot!(
            [("gemba-mqm", "tiny"), ("fsp", "small"), ("m-mad", "tiny")]
                .map(|(method, model)| known(&rows, method, model))
                .join("\n"),
            @"
        `gemba-mqm` with `tiny`: no better than chance, acc-t en-de .277 (random .384), zh-en .289 (random .384), by `measure`
        not measured with `small`; `fsp` with `tiny`: no better than chance, acc-t en-de .3 (random .384), by `measure`
        not measured with `tiny`; `gemba-mqm` with `tiny`: no better than chance, acc-t en-de .277 (random .384), zh-en .289 (random .384), by `measure`; `gemba-mqm` with `small`: acc-t en-de .401 (random .384), by `measure`; `fsp` with `tiny`: no better than chance, acc-t en-de .3 (random .384), by `measure`
        "
        );
        for method in registry::METHODS {
            let is_written = method.output == Output::Text;
            assert_eq!(statement(method).is_some(), is_written, "{}", method.name);
            assert_eq!(warning(method, "qwen2.5-coder-1.5b-instruct", 1.54).is_some(), is_written);
            assert_eq!(warning(method, "qwen2.5-7b-instruct", 7.61), None);
        }
    }
}
