//! Plots as SVG text: score scatter with the fitted tie band, score distributions, rank clusters. Plain
//! shapes and text, no script; it computes nothing beyond places on the page.

use std::fmt::Write;

use super::significance::ranks::Ranked;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 480.0;
const MARGIN: f64 = 60.0;

/// Points of human (x) and metric (y) scores; the band shows how far apart two metric scores may be and
/// still count as tied.
#[must_use]
pub fn scatter(title: &str, gold: &[f64], metric: &[f64], epsilon: Option<f64>) -> String {
    let (x, y) = (Axis::of(gold), Axis::of(metric));
    let mut svg = open(title, HEIGHT);
    if let Some(epsilon) = epsilon {
        let middle = f64::midpoint(y.low, y.high);
        let (top, bottom) = (place_y(&y, middle + epsilon / 2.0), place_y(&y, middle - epsilon / 2.0));
        let _ = writeln!(
            svg,
            "<rect x=\"{MARGIN}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f2c14e\" fill-opacity=\"0.35\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">tied within {epsilon:.4}</text>",
            WIDTH - 2.0 * MARGIN,
            bottom - top,
            WIDTH - MARGIN - 4.0,
            top - 4.0
        );
    }
    for (gold, metric) in gold.iter().zip(metric) {
        let (cx, cy) = (place_x(&x, *gold), place_y(&y, *metric));
        let _ = writeln!(
            svg,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"2\" fill=\"#2a6f97\" fill-opacity=\"0.3\"/>"
        );
    }
    axes(&mut svg, &x, &y, "human score", "metric score");
    svg + "</svg>\n"
}

/// A histogram of scores.
#[must_use]
pub fn histogram(title: &str, scores: &[f64]) -> String {
    const BARS: usize = 30;
    let x = Axis::of(scores);
    let mut counts = [0.0_f64; BARS];
    for score in scores {
        let share = (score - x.low) / (x.high - x.low);
        counts[((share * BARS as f64) as usize).min(BARS - 1)] += 1.0;
    }
    let y = Axis { low: 0.0, high: counts.iter().copied().fold(1.0, f64::max) };
    let mut svg = open(title, HEIGHT);
    let width = (WIDTH - 2.0 * MARGIN) / BARS as f64;
    for (bar, count) in counts.iter().enumerate() {
        let (left, top) = (MARGIN + bar as f64 * width, place_y(&y, *count));
        let height = HEIGHT - MARGIN - top;
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#2a6f97\"/>",
            width - 1.0
        );
    }
    axes(&mut svg, &x, &y, "score", "translations");
    svg + "</svg>\n"
}

/// Metrics by value; a rule between rank clusters.
#[must_use]
pub fn clusters(title: &str, ranked: &[Ranked]) -> String {
    const ROW: f64 = 24.0;
    let height = 2.0 * MARGIN + ROW * ranked.len() as f64;
    let values: Vec<f64> = ranked.iter().map(|metric| metric.value).chain([0.0]).collect();
    let x = Axis::of(&values);
    let mut svg = open(title, height);
    for (row, metric) in ranked.iter().enumerate() {
        let top = MARGIN + row as f64 * ROW;
        let (zero, end) = (bar_x(&x, 0.0), bar_x(&x, metric.value));
        let _ = writeln!(
            svg,
            "<text x=\"200\" y=\"{:.1}\" text-anchor=\"end\">{} ({})</text>\
             <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#2a6f97\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{:.3}</text>",
            top + 16.0,
            escaped(&metric.name),
            metric.rank,
            zero.min(end),
            top + 4.0,
            (end - zero).abs(),
            ROW - 8.0,
            zero.max(end) + 6.0,
            top + 16.0,
            metric.value
        );
        if row > 0 && ranked[row - 1].rank != metric.rank {
            let _ =
                writeln!(svg, "<line x1=\"20\" x2=\"620\" y1=\"{top:.1}\" y2=\"{top:.1}\" stroke=\"#999\"/>");
        }
    }
    svg + "</svg>\n"
}

struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match (low.is_finite(), high > low) {
            (false, _) => Self { low: 0.0, high: 1.0 },
            (true, false) => Self { low: low - 0.5, high: low + 0.5 },
            (true, true) => Self { low, high },
        }
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

fn place_x(axis: &Axis, value: f64) -> f64 {
    MARGIN + axis.share(value) * (WIDTH - 2.0 * MARGIN)
}

fn place_y(axis: &Axis, value: f64) -> f64 {
    HEIGHT - MARGIN - axis.share(value) * (HEIGHT - 2.0 * MARGIN)
}

fn bar_x(axis: &Axis, value: f64) -> f64 {
    210.0 + axis.share(value) * (WIDTH - 210.0 - MARGIN)
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"24\" text-anchor=\"middle\" font-size=\"16\">{}</text>\n",
        WIDTH / 2.0,
        escaped(title)
    )
}

fn axes(svg: &mut String, x: &Axis, y: &Axis, x_name: &str, y_name: &str) {
    let (right, bottom) = (WIDTH - MARGIN, HEIGHT - MARGIN);
    let _ = writeln!(
        svg,
        "<path d=\"M{MARGIN} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\
         <text x=\"{MARGIN}\" y=\"{0:.1}\">{1:.2}</text><text x=\"{right}\" y=\"{0:.1}\" text-anchor=\"end\">{2:.2}</text>\
         <text x=\"{3:.1}\" y=\"{4:.1}\" text-anchor=\"end\">{5:.2}</text><text x=\"{3:.1}\" y=\"{6:.1}\" text-anchor=\"end\">{7:.2}</text>\
         <text x=\"{8:.1}\" y=\"{9:.1}\" text-anchor=\"middle\">{x_name}</text>\
         <text x=\"16\" y=\"{10:.1}\" transform=\"rotate(-90 16 {10:.1})\" text-anchor=\"middle\">{y_name}</text>",
        bottom + 18.0,
        x.low,
        x.high,
        MARGIN - 6.0,
        bottom,
        y.low,
        MARGIN + 6.0,
        y.high,
        WIDTH / 2.0,
        HEIGHT - 16.0,
        HEIGHT / 2.0
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_is_a_point_and_names_are_escaped() {
        let svg = scatter("a < b", &[0.0, 1.0, 2.0], &[1.0, 1.0, 1.0], Some(0.1));
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a &lt; b") && svg.contains("tied within 0.1") && !svg.contains("NaN"));
    }

    #[test]
    fn clusters_are_ruled_apart() {
        let ranked = |name: &str, rank| Ranked { name: name.into(), value: 1.0 / rank as f64, rank };
        let svg = clusters("t", &[ranked("a", 1), ranked("b", 1), ranked("c", 2)]);
        assert_eq!(svg.matches("<line").count(), 1);
    }

    #[test]
    fn a_histogram_of_one_value_has_bars() {
        assert!(!histogram("t", &[3.0, 3.0]).contains("NaN"));
    }
}
