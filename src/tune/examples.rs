//! From documents to examples: units of one segment, one document or five ("FSP" paper, Appendix B.3), each with the
//! question that the judge asks about it and the answer that it should get. It knows no tokens.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    Error, draw,
    rated::{Document, Rated},
};
use crate::{
    engine::grammar,
    judges::{Granularity, Judge, Panel, Question, Rehearsal, Settings, gmft, gmft::Gmft, rehearse},
    llm::{Sampling, Speaker},
    mqm::ErrorSpan,
    segment::Segment,
};

/// Documents of one example of five.
const DOCS: usize = 5;

/// What draws the documents that are joined.
const STREAM: u64 = 0x5d0c;

/// What one question is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    pub granularity: Granularity,
    /// `PAIR/DOC`, one or five.
    pub docs: Vec<String>,
    pub segments: Vec<Segment>,
    /// What is marked in each of them.
    pub errors: Vec<Vec<ErrorSpan>>,
}

/// A question with its answer.
#[derive(Clone, Debug)]
pub struct Example {
    pub unit: Unit,
    pub question: Question,
    pub answer: String,
}

/// The units of these granularities. Segments that nobody rated are not units, and no part of one.
#[must_use]
pub fn units(documents: &[Document], granularities: &[Granularity], seed: u64) -> Vec<Unit> {
    let mut units = Vec::new();
    for granularity in granularities {
        match granularity {
            Granularity::Seg => {
                for document in documents {
                    let rated = document.segments.iter().filter(|rated| is_usable(rated));
                    units.extend(rated.map(|rated| unit(*granularity, &[document], &[rated])));
                }
            }
            Granularity::Doc => {
                let whole = documents.iter().filter(|document| is_whole(document));
                units.extend(whole.map(|d| unit(*granularity, &[d], &d.segments.iter().collect::<Vec<_>>())));
            }
            Granularity::FiveDoc => units.extend(fives(documents, seed)),
        }
    }
    units
}

fn is_usable(rated: &Rated) -> bool {
    rated.errors().is_some()
        && !rated.segment.source.trim().is_empty()
        && !rated.segment.hypothesis.trim().is_empty()
}

fn is_whole(document: &Document) -> bool {
    document.segments.iter().all(is_usable)
}

/// Whole documents of one system and pair, shuffled, five by five; a rest of fewer is left out.
fn fives(documents: &[Document], seed: u64) -> Vec<Unit> {
    let mut of_system: BTreeMap<(&str, &str), Vec<&Document>> = BTreeMap::new();
    for document in documents.iter().filter(|document| is_whole(document)) {
        of_system.entry((&document.pair, &document.system)).or_default().push(document);
    }
    let mut units = Vec::new();
    for (stream, mut documents) in of_system.into_values().enumerate() {
        draw::shuffle(seed, STREAM + stream as u64, &mut documents);
        units.extend(documents.chunks_exact(DOCS).map(|five| {
            let segments: Vec<&Rated> = five.iter().flat_map(|document| &document.segments).collect();
            unit(Granularity::FiveDoc, five, &segments)
        }));
    }
    units
}

fn unit(granularity: Granularity, documents: &[&Document], rated: &[&Rated]) -> Unit {
    Unit {
        granularity,
        docs: documents.iter().map(|document| document.name()).collect(),
        segments: rated.iter().map(|rated| rated.segment.clone()).collect(),
        errors: rated.iter().map(|rated| rated.errors().cloned().unwrap_or_default()).collect(),
    }
}

/// The judge that asks about units of one granularity.
///
/// # Errors
/// Prompts of the user's that cannot be filled in.
pub fn judge(granularity: Granularity, settings: &Settings) -> Result<Judge, Error> {
    Ok(Gmft::new(&Settings { granularity: Some(granularity), ..settings.clone() })?.into())
}

/// A panel on which nobody answers: its questions can be noted.
#[must_use]
pub fn empty_panel() -> Panel {
    Panel::new(Arc::new(Rehearsal::with(grammar::shortest)), Sampling::default())
}

/// A unit's example: what the judge asks, word for word, and what it should hear.
///
/// # Errors
/// When the judge asks nothing about it.
pub fn example(unit: Unit, judge: &Judge, panel: &Panel) -> Result<Example, Error> {
    let question = rehearse(judge, panel, &unit.segments).pop();
    let question = question.ok_or_else(|| {
        Error::Unsuitable(format!("nothing is asked about a unit of `{}`", unit.docs.join("`, `")))
    })?;
    let answer = gmft::answer(&unit.segments, &unit.errors);
    Ok(Example { unit, question, answer })
}

/// An example as a line of chat, the form that other trainers read: `{"messages": [...]}`.
#[must_use]
pub fn chat_line(example: &Example) -> Value {
    let turns = example.question.chat.turns().iter();
    let mut messages: Vec<Value> =
        turns.map(|turn| json!({"role": turn.role, "content": turn.content})).collect();
    messages.push(json!({"role": Speaker::Assistant, "content": example.answer}));
    json!({"messages": messages})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::lang::parse_pair;

    fn documents() -> Vec<Document> {
        let (src_lang, tgt_lang) = parse_pair("en-de").unwrap();
        let rated = |system: &str, doc: usize, seg: usize| {
            let segment = Segment {
                system: system.into(),
                doc: format!("d{doc}"),
                seg,
                src_lang: src_lang.clone(),
                tgt_lang: tgt_lang.clone(),
                source: format!("s{doc}.{seg}"),
                hypothesis: format!("t{system}{doc}.{seg}"),
                reference: None,
            };
            // One segment that nobody rated.
            Rated::by_one(segment, ((doc, seg) != (0, 1)).then(Vec::new))
        };
        let document = |system: &str, doc: usize| Document {
            pair: "en-de".into(),
            system: system.into(),
            doc: format!("d{doc}"),
            corpus: String::new(),
            segments: (0..2).map(|seg| rated(system, doc, seg)).collect(),
        };
        ["A", "B"]
            .into_iter()
            .flat_map(|system| (0..11).map(move |doc| (system, doc)))
            .map(|(s, d)| document(s, d))
            .collect()
    }

    #[test]
    fn units_of_three_sizes() {
        use Granularity::{Doc, FiveDoc, Seg};
        let of = |granularity| units(&documents(), &[granularity], 3);
        assert_eq!([of(Seg).len(), of(Doc).len(), of(FiveDoc).len()], [42, 20, 4]);
        for five in of(FiveDoc) {
            assert_eq!((five.segments.len(), five.docs.len()), (10, 5));
            assert!(five.segments.iter().all(|segment| segment.system == five.segments[0].system));
            assert!(!five.docs.contains(&"en-de/d0".to_owned()), "it has a segment that nobody rated");
        }
        assert_eq!(units(&documents(), &[Seg, Doc, FiveDoc], 3).len(), 66);
        assert_ne!(of(FiveDoc), units(&documents(), &[FiveDoc], 4));
    }
}
