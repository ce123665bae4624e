//! Plots as SVG text: score scatter with the fitted tie band, score distributions, rank clusters. The output
//! is plain shapes and text, without scripts; only positions on the page and a regression line are computed.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::significance::ranks::Ranked;

mod axis;

use axis::{Axis, draw_x, draw_y};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = HEIGHT - 56.0;

/// Points of human (x) and metric (y) scores with the line of least squares; the band around it is as high
/// as the greatest difference of two metric scores that still count as tied.
pub fn scatter(title: &str, gold: &[f64], metric: &[f64], epsilon: Option<f64>) -> String {
    let x = Axis::around(gold.iter().copied(), LEFT, RIGHT);
    let y = Axis::around(metric.iter().copied(), BOTTOM, TOP);
    let mut svg = open(title, HEIGHT);
    draw_x(&mut svg, &x, TOP, BOTTOM, "human score (higher is better)");
    draw_y(&mut svg, &y, LEFT, RIGHT, "metric score");
    let _ = writeln!(
        svg,
        "<clipPath id=\"page\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/></clipPath>",
        RIGHT - LEFT,
        BOTTOM - TOP
    );
    let mut places: BTreeMap<(i64, i64), u32> = BTreeMap::new();
    for (gold, metric) in gold.iter().zip(metric) {
        // Half pixels: raters use few distinct scores, so many points coincide.
        *places.entry(((x.place(*gold) * 2.0) as i64, (y.place(*metric) * 2.0) as i64)).or_default() += 1;
    }
    for ((cx, cy), count) in &places {
        let opacity = (0.25 * f64::from(*count).sqrt()).min(0.9);
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.2\" fill=\"#2a6f97\" fill-opacity=\"{opacity:.2}\"/>",
            *cx as f64 / 2.0,
            *cy as f64 / 2.0
        );
    }
    let mut legend = vec![("#2a6f97", format!("{} translations, darker where several coincide", gold.len()))];
    if let (Some((slope, start)), Some(epsilon)) = (least_squares(gold, metric), epsilon) {
        let ends = [x.low, x.high].map(|value| (x.place(value), start + slope * value));
        band(&mut svg, &y, ends, epsilon);
        legend.push((
            "#f2c14e",
            format!("band at the line of least squares (red): scores up to {epsilon:.4} apart count as tied"),
        ));
    }
    key(&mut svg, &legend);
    svg + "</svg>\n"
}

fn band(svg: &mut String, y: &Axis, ends: [(f64, f64); 2], epsilon: f64) {
    let [(left, start), (right, end)] = ends;
    let half = epsilon / 2.0;
    let _ = writeln!(
        svg,
        "<g clip-path=\"url(#page)\"><path d=\"M{left:.1} {:.1}L{right:.1} {:.1}V{:.1}L{left:.1} {:.1}Z\" fill=\"#f2c14e\" fill-opacity=\"0.45\"/>\
         <path d=\"M{left:.1} {:.1}L{right:.1} {:.1}\" stroke=\"#d1495b\" stroke-width=\"1.5\"/></g>",
        y.place(start + half),
        y.place(end + half),
        y.place(end - half),
        y.place(start - half),
        y.place(start),
        y.place(end)
    );
}

/// Slope and value at zero of the line of least squares; `None` for constant `x`.
fn least_squares(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    let (x_mean, y_mean) = (super::correlation::mean(x), super::correlation::mean(y));
    let xx: f64 = x.iter().map(|x| (x - x_mean) * (x - x_mean)).sum();
    let xy: f64 = x.iter().zip(y).map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (xx > 0.0 && xx.is_finite() && xy.is_finite()).then(|| (xy / xx, y_mean - xy / xx * x_mean))
}

/// A histogram of scores.
pub fn histogram(title: &str, scores: &[f64]) -> String {
    const BARS: usize = 40;
    let x = Axis::around(scores.iter().copied(), LEFT, RIGHT);
    let mut counts = [0.0_f64; BARS];
    for score in scores {
        let share = (score - x.low) / (x.high - x.low);
        counts[((share * BARS as f64) as usize).min(BARS - 1)] += 1.0;
    }
    let y = Axis::around(counts.iter().copied().chain([0.0]), BOTTOM, TOP);
    let mut svg = open(title, HEIGHT);
    draw_x(&mut svg, &x, BOTTOM, BOTTOM + 4.0, "score (higher is better)");
    draw_y(&mut svg, &y, LEFT, RIGHT, "translations");
    let width = (RIGHT - LEFT) / BARS as f64;
    for (bar, count) in counts.iter().enumerate() {
        let (left, top) = (LEFT + bar as f64 * width, y.place(*count));
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#2a6f97\"/>",
            width - 1.0,
            BOTTOM - top
        );
    }
    let each = (x.high - x.low) / BARS as f64;
    key(&mut svg, &[("#2a6f97", format!("{} translations; a bar spans {}", scores.len(), shortest(each)))]);
    svg + "</svg>\n"
}

/// Three significant digits, no more zeros than needed.
fn shortest(value: f64) -> String {
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Metrics by value, best first; clusters of equal rank share a background.
pub fn clusters(title: &str, ranked: &[Ranked]) -> String {
    const ROW: f64 = 24.0;
    /// Widest letters of the label's font, in pixels.
    const LETTER: f64 = 7.2;
    let longest = ranked.iter().map(|metric| metric.name.chars().count()).max().unwrap_or(0) as f64;
    let (left, right) = (48.0 + longest * LETTER, RIGHT - 48.0);
    let bottom = TOP + ROW * ranked.len() as f64;
    let x = Axis::around(ranked.iter().map(|metric| metric.value).chain([0.0]), left, right);
    let mut svg = open(title, bottom + 56.0);
    for (row, metric) in ranked.iter().enumerate().filter(|(_, metric)| metric.rank % 2 == 1) {
        let _ = writeln!(
            svg,
            "<rect x=\"8\" y=\"{:.1}\" width=\"{:.1}\" height=\"{ROW}\" fill=\"#eef3f7\"><title>rank {}</title></rect>",
            TOP + row as f64 * ROW,
            WIDTH - 16.0,
            metric.rank
        );
    }
    draw_x(&mut svg, &x, TOP, bottom, "value; 0 at the start of a bar");
    for (row, metric) in ranked.iter().enumerate() {
        cluster_row(&mut svg, &x, metric, TOP + row as f64 * ROW, left);
        if row > 0 && ranked[row - 1].rank != metric.rank {
            let top = TOP + row as f64 * ROW;
            let _ = writeln!(
                svg,
                "<line x1=\"8\" x2=\"{}\" y1=\"{top:.1}\" y2=\"{top:.1}\" stroke=\"#567\"/>",
                WIDTH - 8.0
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.1}\" class=\"name\">rank</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" class=\"name\">metric</text>\
         <text x=\"{:.1}\" y=\"{:.1}\" class=\"name\">a line parts ranks: there some metric above is better with p at most 0.05</text>",
        TOP - 8.0,
        left - 8.0,
        TOP - 8.0,
        left + 4.0,
        TOP - 8.0
    );
    svg + "</svg>\n"
}

fn cluster_row(svg: &mut String, x: &Axis, metric: &Ranked, top: f64, left: f64) {
    let (zero, end) = (x.place(0.0), x.place(metric.value));
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{0:.1}\">{1}</text><text x=\"{2:.1}\" y=\"{0:.1}\" text-anchor=\"end\">{3}</text>\
         <rect x=\"{4:.1}\" y=\"{5:.1}\" width=\"{6:.1}\" height=\"16\" fill=\"#2a6f97\"/>\
         <text x=\"{7:.1}\" y=\"{0:.1}\">{8:.3}</text>",
        top + 16.0,
        metric.rank,
        left - 8.0,
        escaped(&metric.name),
        zero.min(end),
        top + 4.0,
        (end - zero).abs(),
        zero.max(end) + 6.0,
        metric.value
    );
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <style>.grid{{stroke:#dde3e8;fill:none}} .name{{fill:#456}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"26\" text-anchor=\"middle\" font-size=\"16\">{}</text>\n",
        WIDTH / 2.0,
        escaped(title)
    )
}

/// The key of the colours, between the title and the plot.
fn key(svg: &mut String, lines: &[(&str, String)]) {
    for (index, (colour, text)) in lines.iter().enumerate() {
        let y = 46.0 + 17.0 * index as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            y - 9.0,
            LEFT + 16.0,
            escaped(text)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_a_point_and_names_are_escaped() {
        let svg = scatter("a < b", &[0.0, 1.0, 2.0, 2.0], &[1.0, 1.0, 3.0, 3.0], Some(0.1));
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a &lt; b") && svg.contains("0.1000 apart") && !svg.contains("NaN"));
    }

    #[test]
    fn a_line_goes_through_points_on_it() {
        assert_eq!(least_squares(&[0.0, 1.0, 2.0], &[1.0, 3.0, 5.0]), Some((2.0, 1.0)));
        assert_eq!(least_squares(&[1.0, 1.0], &[1.0, 3.0]), None);
    }

    #[test]
    fn extreme_scores_stop_no_plot() {
        for scores in [[f64::MAX, -f64::MAX, 0.0], [1e300, 1e300, -1e-300], [5e-324, 0.0, 5e-324]] {
            let svg = scatter("t", &scores, &scores, Some(1e308)) + &histogram("t", &scores);
            let ranked = |value: f64| Ranked { name: "m".into(), value, rank: 1 };
            let svg = svg + &clusters("t", &scores.map(ranked));
            assert_eq!(svg.matches("</svg>").count(), 3, "{scores:?}");
        }
    }

    #[test]
    fn clusters_are_ruled_apart() {
        let ranked = |name: &str, rank| Ranked { name: name.into(), value: 1.0 / rank as f64, rank };
        let svg = clusters("t", &[ranked("a", 1), ranked("b", 1), ranked("c", 2)]);
        assert_eq!(svg.matches("<line").count(), 1);
        assert_eq!(svg.matches("<title>rank 1").count(), 2);
    }

    #[test]
    fn a_histogram_of_one_value_has_bars() {
        let svg = histogram("t", &[3.0, 3.0]);
        assert!(!svg.contains("NaN") && svg.contains("2 translations"));
        assert_eq!(shortest(0.025), "0.025");
    }
}
