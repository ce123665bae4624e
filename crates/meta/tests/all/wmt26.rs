//! The statistics of WMT26's evaluation task against their reference implementations:
//! `tests/golden/wmt26.json`, written by `scripts/golden_wmt26.py`.

use serde_json::Value;
use tribunal_meta::annotators::several::{Annotator, Several, Standing};
use tribunal_meta::error_free::{Cell, at, calibrate};
use tribunal_meta::spans::{Overlap, Span, mpp::mpp};

use super::meta::close;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../../tests/golden/wmt26.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn spans(segment: &Value) -> Vec<Span> {
    let span = |span: &Value| Span {
        start: span["start"].as_u64().unwrap() as usize,
        end: span["end"].as_u64().unwrap() as usize,
        in_source: span["side"] == "source",
        severity: 1,
    };
    segment.as_array().unwrap().iter().map(span).collect()
}

#[test]
fn mpp_equals_its_authors_package() {
    for (nth, case) in golden()["spans"].as_array().unwrap().iter().enumerate() {
        let side = |name: &str| case[name].as_array().unwrap().iter().map(spans).collect::<Vec<_>>();
        let mut whole = Overlap::default();
        let segments = case["segments"].as_array().unwrap();
        for (idx, (gold, predicted)) in side("references").iter().zip(&side("predictions")).enumerate() {
            let found = mpp(gold, predicted, 0).unwrap();
            whole.add(&found);
            let Some(expected) = segments.get(idx) else { continue };
            let [precision, predicted, recall, gold] = numbers(expected)[..] else { panic!("four numbers") };
            let reason = format!("segment {idx} of case {nth}");
            assert_eq!((found.predicted, found.gold), (predicted, gold), "{reason}");
            close(found.right_predicted, precision, 1e-12, &reason);
            close(found.found_gold, recall, 1e-12, &reason);
        }
        let score = whole.score();
        for (found, expected) in
            [score.precision, score.recall, score.f1].into_iter().zip(numbers(&case["micro"]))
        {
            close(found, expected, 1e-12, &format!("case {nth}"));
        }
    }
}

#[test]
fn matthews_correlation_equals_scikit_learn_at_every_threshold() {
    for case in golden()["error_free"].as_array().unwrap() {
        let (scores, labels) = (numbers(&case["scores"]), numbers(&case["labels"]));
        let cell = |(score, label): (&f64, &f64)| Cell { score: *score, label: *label > 0.5, document: 0 };
        let cells: Vec<Cell> = scores.iter().zip(&labels).map(cell).collect();
        let mut distinct = scores.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        let between = distinct.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
        let curve = std::iter::once(f64::NEG_INFINITY).chain(between);
        for (threshold, expected) in curve.zip(numbers(&case["curve"])) {
            close(at(&cells, threshold).mcc(), expected, 1e-12, &format!("above {threshold}"));
        }
        let (threshold, mcc) = calibrate(&cells);
        assert_eq!(threshold.is_finite().then_some(threshold), case["threshold"].as_f64());
        close(mcc, case["mcc"].as_f64().unwrap(), 1e-12, "the greatest");
    }
}

#[test]
fn agreement_of_annotators_equals_scipy() {
    for case in golden()["annotators"].as_array().unwrap() {
        let columns = case["columns"].as_array().unwrap().iter().enumerate();
        let annotators: Vec<Annotator> = columns
            .map(|(idx, column)| {
                let scores = column.as_array().unwrap().iter().map(Value::as_f64).collect();
                Annotator { name: idx.to_string(), scores: [("A".to_owned(), scores)].into() }
            })
            .collect();
        let found = Several::new(&annotators);
        close(found.alpha.unwrap(), case["alpha"].as_f64().unwrap(), 1e-12, "alpha");
        let pairs = case["pairs"].as_array().unwrap();
        assert_eq!(found.pairs.len(), pairs.len());
        for (found, expected) in found.pairs.iter().zip(pairs) {
            let [first, second, shared, pearson, tau, p] = numbers(expected)[..] else {
                panic!("six numbers")
            };
            assert_eq!((&found.first, &found.second), (&first.to_string(), &second.to_string()));
            assert_eq!(found.shared, shared as usize);
            close(found.pearson.unwrap(), pearson, 1e-12, "Pearson");
            close(found.kendall.unwrap(), tau, 1e-12, "tau-b");
            close(found.p.unwrap(), p, 1e-9, "p");
        }
        let agrees: Vec<bool> = found.members.iter().map(|one| one.standing == Standing::Agrees).collect();
        assert_eq!(Value::from(agrees), case["agrees"]);
        for (member, expected) in found.members.iter().zip(case["with_others"].as_array().unwrap()) {
            let [shared, pearson] = numbers(expected)[..] else { panic!("two numbers") };
            assert_eq!(member.shared, shared as usize);
            close(member.with_others.unwrap(), pearson, 1e-12, "with the mean of the others");
        }
    }
}
