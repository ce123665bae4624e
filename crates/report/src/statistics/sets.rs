//! Contents of each language pair of a meta-evaluation, as a line of text and as JSON. It computes nothing.

use serde_json::{Value, json};

use crate::meta::{
    eval_set::EvalSet,
    lexical::baseline::Baseline,
    scores::{Scores, SystemScoreOrigin},
};

/// Systems, reference and rated segments of a language pair, in a line.
pub fn line(eval_set: &EvalSet) -> String {
    let rated = eval_set.gold.segments.as_ref().map_or(0, |segments| {
        let columns: Vec<_> =
            segments.iter().filter(|(system, _)| eval_set.machine.contains(*system)).collect();
        let rated = |segment: &usize| columns.iter().any(|(_, column)| column[*segment].is_some());
        (0..eval_set.testset.n_segments()).filter(rated).count()
    });
    format!(
        "{}: {}, {}, {rated} of {} segments rated",
        eval_set.lp(),
        match eval_set.machine.len() {
            1 => "1 system".to_owned(),
            n => format!("{n} systems in the order of their names"),
        },
        eval_set.rules.reference.as_ref().map_or_else(|| "no reference".into(), |r| format!("reference {r}")),
        eval_set.testset.n_segments()
    )
}

/// A language pair for programs: rules, systems, and how far each metric covers them.
pub fn json(eval_set: &EvalSet) -> Value {
    let metrics = eval_set.metrics.iter().map(|metric| {
        json!({
            "name": metric.name,
            "system_scores": metric.system_origin,
            "coverage": eval_set.own_segments(metric).ok().flatten().map(|scores| scores.coverage()),
            "filled_with_lowest": metric.n_filled,
            "sacrebleu_signature": sacrebleu_signature(metric),
            "units_left_out_of_means": eval_set.averaged(metric).map(|(n, of)| of - n),
            "documents": metric.units.as_ref().map(|units| &units.units),
        })
    });
    json!({
        "lp": eval_set.lp(),
        "gold": eval_set.gold.name,
        "reference": eval_set.rules,
        "systems": eval_set.machine,
        "with_humans": eval_set.with_humans,
        "segments": eval_set.testset.n_segments(),
        "compared": eval_set.common,
        "metrics": metrics.collect::<Vec<_>>(),
        "other_references": eval_set.other_references,
    })
}

/// sacreBLEU's signature of a lexical baseline.
pub(super) fn sacrebleu_signature(metric: &Scores) -> Option<String> {
    let is_computed = metric.system_origin == SystemScoreOrigin::Corpus;
    Some(metric.name.parse::<Baseline>().ok().filter(|_| is_computed)?.signature())
}
