//! Suspicions about scores: published ones raise none.

use tribunal_meta::suspect;

use crate::meta::eval_set;

/// Sums over equal numbers of segments, and fillers that nothing reads, are no news about published scores.
#[test]
fn finished_studies_raise_no_suspicion() {
    for lp in ["en-de", "zh-en"] {
        let scores = [
            ("M-MAD", "m-mad-scores/M-MAD_{lp}.{level}.score"),
            ("EAPrompt", "m-mad-scores/EAPrompt_{lp}.{level}.score"),
        ];
        let Some(eval_set) = eval_set(lp, &scores) else { return };
        assert!(eval_set.metrics.len() > 10);
        for metric in &eval_set.metrics {
            assert_eq!(suspect::suspicions(&eval_set, metric).unwrap(), [], "{lp} {}", metric.name);
        }
    }
}
