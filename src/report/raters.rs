//! Human raters as one more judge: what they marked in a translation, with WMT's weights, as a verdict on it.

use std::collections::BTreeMap;

use crate::{
    mqm::{
        ErrorSpan,
        raters::Annotation,
        weights::{self, Weights},
    },
    run::{Record, Status, UnitKey, record::Direction},
};

/// The weights that human annotations are scored with.
pub const WEIGHTS: &str = "wmt";

/// One verdict for each translation, in the order of the annotations: its score is the mean over its raters, its
/// errors are those of all of them.
///
/// # Panics
/// Never: the weights are among the presets.
#[must_use]
pub fn records(annotations: &[Annotation]) -> Vec<Record> {
    let weights = weights::find(WEIGHTS).expect("a preset");
    let mut places: BTreeMap<UnitKey, usize> = BTreeMap::new();
    let mut records: Vec<(Record, usize)> = Vec::new();
    for annotation in annotations {
        let key = UnitKey::of_segment(&annotation.segment);
        let place = *places.entry(key).or_insert_with(|| {
            records.push((blank(annotation), 0));
            records.len() - 1
        });
        let (record, raters) = &mut records[place];
        let (errors, score) = weighed(&annotation.errors, weights);
        *raters += 1;
        record.errors.extend(errors);
        record.score = Some(record.score.unwrap_or(0.0) + score);
    }
    let mean = |(mut record, raters): (Record, usize)| {
        record.score = record.score.map(|sum| sum / raters as f64 + 0.0);
        record.raw = record.score;
        record
    };
    records.into_iter().map(mean).collect()
}

fn weighed(errors: &[ErrorSpan], weights: &Weights) -> (Vec<ErrorSpan>, f64) {
    let mut errors = errors.to_vec();
    weights.weigh(&mut errors);
    let score = weights.score(&errors);
    (errors, score)
}

fn blank(annotation: &Annotation) -> Record {
    let segment = &annotation.segment;
    Record {
        system: segment.system.clone(),
        doc: segment.doc.clone(),
        seg: Some(segment.seg),
        segs: Vec::new(),
        src_lang: segment.src_lang.clone(),
        tgt_lang: segment.tgt_lang.clone(),
        source: segment.source.clone(),
        hypothesis: segment.hypothesis.clone(),
        score: None,
        raw: None,
        direction: Direction::Higher,
        quality_score: None,
        interval: None,
        errors: Vec::new(),
        status: Status::Ok,
        reason: None,
        n_calls: 0,
    }
}
