//! Axes of a plot: round ticks, positions on the page, grid lines and labels. Nothing depends on the meaning
//! of the scores.

use std::fmt::Write;

/// The largest magnitude that is drawn.
const MOST: f64 = 1e100;

/// Values closer than this share of their size are drawn as one.
const LEAST_RANGE: f64 = 1e-9;

const MAX_DIGITS: usize = 12;
const MAX_TICKS: usize = 20;

/// A range of values along a stretch of the page.
pub struct Axis {
    pub low: f64,
    pub high: f64,
    step: f64,
    /// Positions of `low` and `high` on the page, in pixels.
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis from one round value to another that holds all values.
    pub fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        // Beyond this, the steps between values are lost in rounding.
        let (low, high) = (low.max(-MOST), high.min(MOST));
        let (low, high) = match (low.is_finite(), high - low > low.abs().max(high.abs()) * LEAST_RANGE) {
            (false, _) => (0.0, 1.0),
            (true, false) => {
                let around = (low.abs() * 0.1).max(0.5);
                (low - around, low + around)
            }
            (true, true) => (low, high),
        };
        let step = round_step((high - low) / 6.0);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step, from, to }
    }

    /// Position of a value, in pixels.
    pub fn place(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round values with as many digits as tell them apart.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let n = (((self.high - self.low) / self.step).round() as usize).min(MAX_TICKS);
        let digits = ((-self.step.log10().floor()).max(0.0) as usize).min(MAX_DIGITS);
        (0..=n)
            .map(|index| {
                let value = self.low + index as f64 * self.step;
                (value, format!("{:.digits$}", value + 0.0).replace('-', "−"))
            })
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= least).unwrap_or(least)
}

/// The horizontal axis along `bottom`, its grid lines up to `top`.
pub fn draw_x(svg: &mut String, axis: &Axis, top: f64, bottom: f64, name: &str) {
    for (value, label) in axis.ticks() {
        let x = axis.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" class=\"grid\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 17.0
        );
    }
    let middle = f64::midpoint(axis.from, axis.to);
    let _ = writeln!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"name\">{name}</text>",
        bottom + 40.0
    );
}

/// The vertical axis along `left`, its grid lines up to `right`.
pub fn draw_y(svg: &mut String, axis: &Axis, left: f64, right: f64, name: &str) {
    for (value, label) in axis.ticks() {
        let y = axis.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.1} {y:.1}H{right:.1}\" class=\"grid\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 6.0,
            y + 4.0
        );
    }
    let middle = f64::midpoint(axis.from, axis.to);
    let _ = writeln!(
        svg,
        "<text x=\"18\" y=\"{middle:.1}\" transform=\"rotate(-90 18 {middle:.1})\" text-anchor=\"middle\" \
         class=\"name\">{name}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expected: &[&str]) {
        let axis = Axis::around(values.iter().copied(), 0.0, 100.0);
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn ticks_are_round() {
        check(&[-25.0, 0.0], &["−25", "−20", "−15", "−10", "−5", "0"]);
        check(&[0.52, 0.97], &["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
        check(&[3.0], &["2.4", "2.6", "2.8", "3.0", "3.2", "3.4", "3.6"]);
    }
}
