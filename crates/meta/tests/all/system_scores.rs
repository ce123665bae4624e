//! System scores and their tests: a metric's own, regardless of gaps of other metrics; tasks of an average
//! drawn apart; scores of extreme size. The sets are written here, and the values are computed from their
//! columns.

use std::path::Path;

use tribunal_meta::average::{Coefficient, Grouping};
use tribunal_meta::correlation::{mean, pearson};
use tribunal_meta::coverage::CoveragePolicy;
use tribunal_meta::eval_set::EvalSet;
use tribunal_meta::evaluate;
use tribunal_meta::selection::{Brought, Selection};
use tribunal_meta::significance::Resampling;
use tribunal_meta::statistic::Statistic;
use tribunal_meta::task::{Task, TaskSet};

const SYSTEMS: [&str; 4] = ["A", "B", "C", "D"];
const SEGMENTS: usize = 8;

/// The raters' score; every fourth segment is not rated, and another one of C.
fn rated(system: usize, segment: usize) -> Option<f64> {
    (segment % 4 != 3 && (system, segment) != (2, 5)).then(|| -((system * 3 + segment * 5 % 7) as f64))
}

/// A metric's scores, which rank the systems in reverse where nothing is rated.
fn scored(system: usize, segment: usize) -> f64 {
    if segment % 4 == 3 { (system * 9) as f64 } else { -((system * 2 + segment * 3 % 5) as f64) }
}

fn noisy(system: usize, segment: usize) -> f64 {
    -((system * 3 + (system * 5 + segment * 7) % 7) as f64)
}

fn lines(score: impl Fn(usize, usize) -> Option<f64>) -> String {
    let cell = |system: usize, segment: usize| {
        let score = score(system, segment).map_or("None".to_owned(), |score| score.to_string());
        format!("{}\t{score}\n", SYSTEMS[system])
    };
    (0..SYSTEMS.len()).flat_map(|system| (0..SEGMENTS).map(move |segment| cell(system, segment))).collect()
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
    std::fs::write(dir.join(name), text).unwrap();
}

fn testset(pairs: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for lp in pairs {
        write(dir.path(), &format!("documents/{lp}.docs"), &"news\td\n".repeat(SEGMENTS));
        write(dir.path(), &format!("sources/{lp}.txt"), &"x\n".repeat(SEGMENTS));
        for system in SYSTEMS {
            write(dir.path(), &format!("system-outputs/{lp}/{system}.txt"), &"y\n".repeat(SEGMENTS));
        }
        write(dir.path(), &format!("human-scores/{lp}.mqm.seg.score"), &lines(rated));
        write(
            dir.path(),
            &format!("metric-scores/{lp}/Whole-src.seg.score"),
            &lines(|a, s| Some(scored(a, s))),
        );
        write(
            dir.path(),
            &format!("metric-scores/{lp}/Noisy-src.seg.score"),
            &lines(|a, s| Some(noisy(a, s))),
        );
    }
    dir
}

fn load(dir: &Path, lp: &str, brought: &[(&str, &str)], coverage: CoveragePolicy) -> EvalSet {
    let brought = brought.iter().map(|(name, file)| Brought {
        name: (*name).to_owned(),
        pattern: dir.join(file).display().to_string(),
        negate: false,
        verdicts: None,
    });
    EvalSet::load(dir, lp, &Selection { brought: brought.collect(), coverage, ..Selection::default() })
        .unwrap()
}

fn value(set: &EvalSet, name: &str, statistic: &str) -> f64 {
    let statistic: Statistic = statistic.parse().unwrap();
    statistic.measure(set, set.metric(name).unwrap(), false).unwrap().unwrap().value
}

/// Pearson of the systems' means over some segments of each side.
fn of_means(gold: impl Fn(usize) -> bool, metric: impl Fn(usize) -> bool) -> f64 {
    let means = |keep: &dyn Fn(usize) -> bool, score: &dyn Fn(usize, usize) -> Option<f64>| -> Vec<f64> {
        let of =
            |system| (0..SEGMENTS).filter(|s| keep(*s)).filter_map(|s| score(system, s)).collect::<Vec<_>>();
        (0..SYSTEMS.len()).map(|system| mean(&of(system))).collect()
    };
    pearson(&means(&gold, &rated), &means(&metric, &|a, s| Some(scored(a, s)))).unwrap().value
}

#[test]
fn what_another_metric_lacks_moves_no_system_score() {
    let dir = testset(&["en-de"]);
    write(dir.path(), "gap.score", &lines(|a, s| (a != 1 || s != 2).then(|| scored(a, s))));
    let own = of_means(|_| true, |_| true);
    for brought in [&[][..], &[("Gap", "gap.score")]] {
        let set = load(dir.path(), "en-de", brought, CoveragePolicy::Common);
        assert!((value(&set, "Whole", "sys:pearson") - own).abs() < 1e-12, "{brought:?}");
        assert!(!set.is_restricted(set.metric("Whole").unwrap(), false));
    }
    // The metric with the gap is compared on the segments that it and the raters scored for every system.
    let both = |s: usize| s % 4 != 3 && s != 2 && s != 5;
    let set = load(dir.path(), "en-de", &[("Gap", "gap.score")], CoveragePolicy::Common);
    assert!((value(&set, "Gap", "sys:pearson") - of_means(both, both)).abs() < 1e-12);
    assert_eq!(set.averaged(set.metric("Gap").unwrap()), Some((4, 8)));
    assert_eq!(
        (set.common.left_out, set.common.gaps["Gap"]),
        (1, 1),
        "the segment level leaves it out for all"
    );
    // All of either side, but for the segment that it did not score for every system.
    let set = load(dir.path(), "en-de", &[("Gap", "gap.score")], CoveragePolicy::Official);
    assert!((value(&set, "Gap", "sys:pearson") - of_means(|_| true, |s| s != 2)).abs() < 1e-12);
}

#[test]
fn tasks_of_an_average_draw_apart() {
    let dir = testset(&["en-de", "en-fr"]);
    let sets = ["en-de", "en-fr"].map(|lp| load(dir.path(), lp, &[], CoveragePolicy::Common));
    let statistic = Statistic::Segment(Coefficient::Pearson, Grouping::None);
    let task = |lp: &str| Task { pairs: vec![lp.to_owned()], statistic, weight: 1.0, humans: false };
    let set = TaskSet {
        name: "two".into(),
        tasks: vec![task("en-de"), task("en-fr")],
        mapped: false,
        beside: Vec::new(),
        source: "",
        coverage: CoveragePolicy::Common,
    };
    let result = evaluate::run(&set, &sets, Some(Resampling::default())).unwrap();
    let ps: Vec<f64> =
        result.tasks.iter().map(|task| task.contest.as_ref().unwrap().comparisons[0].comparison.p).collect();
    // The same difference twice is less likely than once; with the same swaps in both it would be as likely.
    let average = result.average_contest[0].p;
    assert!(ps.iter().all(|p| *p > 0.02 && average < 0.8 * p), "{ps:?} {average}");
}

#[test]
fn scores_of_extreme_size_have_the_values_of_usual_ones() {
    let dir = testset(&["en-de"]);
    let statistics =
        ["sys:pearson", "sys:spa", "sys:accuracy", "seg:pearson@none", "seg:pearson-diff", "seg:mae@minmax"];
    for factor in ["e306", "e-322"] {
        let scaled = lines(|a, s| Some(scored(a, s))).replace('\n', &format!("{factor}\n"));
        write(dir.path(), "extreme.score", &scaled);
        let set = load(dir.path(), "en-de", &[("Extreme", "extreme.score")], CoveragePolicy::Common);
        for statistic in statistics {
            let (found, expected) = (value(&set, "Extreme", statistic), value(&set, "Whole", statistic));
            assert!((found - expected).abs() < 0.03, "{statistic} {factor}: {found} is not {expected}");
        }
    }
}
