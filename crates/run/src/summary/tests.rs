//! Counts of calls, systems and reasons.

use super::*;
use crate::segment::Lang;

#[test]
fn calls_are_counted_by_round() {
    let mut cost = Cost::default();
    for stage in ["core@1", "search@1", "core@2", "annotate", "odd@x"] {
        cost.add(stage, None, &Usage::default(), 1.0);
    }
    assert_eq!((cost.calls, cost.call_seconds.to_bits()), (5, 5f64.to_bits()));
    let rounds = serde_json::to_string(&cost.rounds).unwrap();
    assert_eq!(rounds, r#"{"core":{"1":1,"2":1},"search":{"1":1}}"#);
}

#[test]
fn outcomes_are_counted_by_stage() {
    let mut cost = Cost::default();
    for outcome in [Some("confirmed"), None, Some("dropped"), Some("confirmed")] {
        cost.add("compare/accuracy/addition", outcome, &Usage::default(), 1.0);
    }
    let outcomes = serde_json::to_string(&cost.outcomes).unwrap();
    assert_eq!(outcomes, r#"{"compare":{"confirmed":2,"dropped":1}}"#);
}

fn records(scores: &[(&str, usize, Option<f64>)]) -> Vec<Record> {
    let lang = |code: &str| Lang::parse(code).unwrap();
    let record = |(system, seg, score): &(&str, usize, Option<f64>)| Record {
        system: (*system).into(),
        doc: "d".into(),
        seg: Some(*seg),
        segs: Vec::new(),
        src_lang: lang("en"),
        tgt_lang: lang("de"),
        source: String::new(),
        hypothesis: String::new(),
        score: *score,
        raw: *score,
        direction: crate::judges::Direction::Higher,
        quality_score: None,
        interval: None,
        warning: None,
        errors: Vec::new(),
        status: if score.is_some() { Status::Ok } else { Status::Truncated },
        reason: None,
        n_calls: 1,
    };
    scores.iter().map(record).collect()
}

#[test]
fn systems_are_compared_where_all_have_a_verdict() {
    // b lost the segment that is hard for both; on its own it would be better than a. c has nothing at all.
    let records = records(&[
        ("a", 0, Some(-1.0)),
        ("a", 1, Some(-9.0)),
        ("b", 0, Some(-2.0)),
        ("b", 1, None),
        ("c", 0, None),
    ]);
    let summary = Summary::new(&records, &Signature::new(), &[], Cost::default());
    assert_eq!(summary.common, Some(Common { units: 1, left_out: 1 }));
    let scores: Vec<_> = summary.systems.iter().map(|s| (s.score, s.common_score)).collect();
    assert_eq!(scores, [(Some(-5.0), Some(-1.0)), (Some(-2.0), Some(-2.0)), (None, None)]);
    let alone = Summary::new(&records[..2], &Signature::new(), &[], Cost::default());
    assert_eq!((alone.common, alone.systems[0].common_score), (None, None));
}

#[test]
fn language_pairs_are_never_pooled() {
    let mut records = records(&[("a", 0, Some(-1.0)), ("b", 0, Some(-2.0)), ("a", 0, Some(-9.0))]);
    records[2].tgt_lang = Lang::parse("fr").unwrap();
    let summary = Summary::new(&records, &Signature::new(), &[], Cost::default());
    let rows: Vec<_> =
        summary.systems.iter().map(|s| (s.pair.as_deref().unwrap(), s.system.as_str(), s.score)).collect();
    let expected = [("en-de", "a", Some(-1.0)), ("en-de", "b", Some(-2.0)), ("en-fr", "a", Some(-9.0))];
    assert_eq!((rows.as_slice(), summary.common), (&expected[..], None));
    assert_eq!(summary.pairs["en-de"], Some(Common { units: 1, left_out: 0 }));
    assert_eq!(summary.pairs["en-fr"], None, "one system has nothing to be compared with");
}

#[test]
fn the_first_reason_of_each_status_is_kept() {
    let mut records = records(&[("a", 0, None), ("a", 1, None), ("a", 2, Some(0.0))]);
    records[0].reason = Some("63004 tokens".into());
    records[1].reason = Some("70000 tokens".into());
    let summary = Summary::new(&records, &Signature::new(), &[], Cost::default());
    assert_eq!(summary.reasons, BTreeMap::from([(Status::Truncated, "63004 tokens".to_owned())]));
}

#[test]
fn the_best_score_is_that_of_the_signature() {
    let units: Vec<_> = (0..16).map(|seg| ("a", seg, Some(100.0))).collect();
    let is_degenerate = |signature: &str| {
        let signature: Signature = signature.parse().unwrap();
        let summary = Summary::new(&records(&units), &signature, &[], Cost::default());
        summary.health.iter().any(|finding| finding.warning)
    };
    assert!(!is_degenerate("method:gemba-da|preset:strict"));
    assert!(is_degenerate("method:gemba-stars|preset:strict"));
    assert!(is_degenerate("method:unknown"));
}
