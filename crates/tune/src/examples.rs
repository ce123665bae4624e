//! Training examples from documents: units of one segment, one document or five ("FSP" paper, Appendix B.3),
//! each with the judge's prompt and the target answer. It contains no tokens.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    Error, Result, draw,
    rated::{Document, Rated},
};
use crate::{
    engine::grammar,
    judges::{Granularity, Judge, Panel, Rehearsal, RehearsedQuestion, Settings, gmft, rehearse},
    llm::{MessageRole, Sampling},
    mqm::ErrorSpan,
    segment::Segment,
};

/// Documents of one example of five.
const DOCS: usize = 5;

/// Stream of the draws that join documents.
const STREAM: u64 = 0x5d0c;

/// Unit of one question.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    pub granularity: Granularity,
    /// `PAIR/DOC`, one or five.
    pub docs: Vec<String>,
    pub segments: Vec<Segment>,
    /// Errors that are marked in each of them.
    pub errors: Vec<Vec<ErrorSpan>>,
}

/// A question with its answer.
#[derive(Clone, Debug)]
pub struct Example {
    pub unit: Unit,
    pub question: RehearsedQuestion,
    pub answer: String,
}

/// The units of these granularities. A document is there with its rated segments, where it has any; segments
/// that are not rated are no part of a unit.
///
/// Source: FSP, Appendix B.3. It counts documents with any rated segment; whether it shows the others is not
/// stated.
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
                let documents = documents.iter().filter(|document| is_rated(document));
                units.extend(documents.map(|d| unit(*granularity, &[d], &rated(&[d]))));
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

fn is_rated(document: &Document) -> bool {
    document.segments.iter().any(is_usable)
}

/// The rated segments of some documents.
fn rated<'a>(documents: &[&'a Document]) -> Vec<&'a Rated> {
    documents.iter().flat_map(|document| &document.segments).filter(|rated| is_usable(rated)).collect()
}

/// Documents of one pair by whichever systems, shuffled, five by five; a rest of fewer is left out.
fn fives(documents: &[Document], seed: u64) -> Vec<Unit> {
    let mut of_pair: BTreeMap<&str, Vec<&Document>> = BTreeMap::new();
    for document in documents.iter().filter(|document| is_rated(document)) {
        of_pair.entry(&document.pair).or_default().push(document);
    }
    let mut units = Vec::new();
    for (stream, mut documents) in of_pair.into_values().enumerate() {
        draw::shuffle(seed, STREAM + stream as u64, &mut documents);
        let fives = documents.chunks_exact(DOCS);
        units.extend(fives.map(|five| unit(Granularity::FiveDoc, five, &rated(five))));
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

/// At most `most` examples of some documents, in an order drawn by the seed.
///
/// # Errors
/// Prompts of the user's that cannot be filled in.
///
/// # Panics
/// Never: units are of these granularities.
pub fn drawn(
    documents: &[Document],
    granularities: &[Granularity],
    most: usize,
    seed: u64,
    settings: &Settings,
) -> Result<Vec<Example>> {
    let mut units = units(documents, granularities, seed);
    draw::shuffle(seed, 0, &mut units);
    units.truncate(most);
    let judges = granularities.iter().map(|&granularity| Ok((granularity, judge(granularity, settings)?)));
    let judges = judges.collect::<Result<Vec<_>>>()?;
    let panel = empty_panel();
    let example = |unit: Unit| {
        let judge = judges.iter().find(|(granularity, _)| *granularity == unit.granularity);
        example(unit, &judge.expect("units are of these granularities").1, &panel)
    };
    units.into_iter().map(example).collect()
}

/// The judge that asks about units of one granularity.
///
/// # Errors
/// Prompts of the user's that cannot be filled in.
pub fn judge(granularity: Granularity, settings: &Settings) -> Result<Judge> {
    Ok(gmft::judge(&Settings { granularity: Some(granularity), ..settings.clone() })?)
}

/// A panel without models, which records questions.
pub fn empty_panel() -> Panel {
    Panel::new(Arc::new(Rehearsal::with(grammar::shortest)), Sampling::default())
}

/// A unit's example: the judge's prompt, word for word, and the expected answer.
///
/// # Errors
/// When the judge has no question about it.
pub fn example(unit: Unit, judge: &Judge, panel: &Panel) -> Result<Example> {
    let question = rehearse(judge, panel, &unit.segments, None).pop();
    let question = question.ok_or_else(|| {
        Error::Unsuitable(format!("nothing is asked about a unit of `{}`", unit.docs.join("`, `")))
    })?;
    let answer = gmft::answer(&unit.segments, &unit.errors);
    Ok(Example { unit, question, answer })
}

/// An example as a line of chat, the form that other trainers read: `{"messages": [...]}`.
pub fn chat_line(example: &Example) -> Value {
    let turns = example.question.chat.messages().iter();
    let mut messages: Vec<Value> =
        turns.map(|turn| json!({"role": turn.role, "content": turn.content})).collect();
    messages.push(json!({"role": MessageRole::Assistant, "content": example.answer}));
    json!({"messages": messages})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{rated, segment::lang::parse_pair};

    fn documents() -> Vec<Document> {
        let pair = parse_pair("en-de").unwrap();
        let rated = |system: &str, doc: usize, seg: usize| {
            let segment = Segment {
                system: system.into(),
                doc: format!("d{doc}"),
                seg,
                ..Segment::new(pair.clone(), &format!("s{doc}.{seg}"), &format!("t{system}{doc}.{seg}"))
            };
            // One unrated segment.
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
        assert_eq!([of(Seg).len(), of(Doc).len(), of(FiveDoc).len()], [42, 22, 4]);
        // The first document of each system has a segment that is not rated: it is there with the other one.
        let sizes = |units: &[Unit]| units.iter().map(|unit| unit.segments.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&of(Doc)).iter().filter(|n| **n == 1).count(), 2);
        let fives = of(FiveDoc);
        assert!(fives.iter().all(|five| five.docs.len() == 5 && (8..=10).contains(&five.segments.len())));
        let systems = |five: &Unit| five.segments.iter().map(|s| s.system.clone()).collect::<BTreeSet<_>>();
        assert!(fives.iter().any(|five| systems(five).len() == 2), "fives are drawn across systems");
        assert_eq!(units(&documents(), &[Seg, Doc, FiveDoc], 3).len(), 68);
        assert_ne!(of(FiveDoc), units(&documents(), &[FiveDoc], 4));
    }

    /// The examples of WMT 2023's en-de and zh-en that FSP's Appendix B.3 counts: 35,472, 6,530 and 1,305
    /// with the 820 segments and 92 documents of he-en by 13 systems. Three of the 24,812 rated segments of
    /// these two pairs have a score and no rating in the folder.
    #[test]
    fn the_examples_of_wmt23_are_those_of_the_paper() {
        let Some(data) = tribunal_testing::published_data() else { return };
        let pairs = ["en-de", "zh-en"].map(|pair| {
            let (src, tgt) = parse_pair(pair).unwrap();
            (pair.to_owned(), src, tgt)
        });
        let documents = rated::testset(&data.join("wmt23"), &pairs).unwrap();
        let n = |granularity| units(&documents, &[granularity], 0).len();
        let found = [Granularity::Seg, Granularity::Doc, Granularity::FiveDoc].map(n);
        assert_eq!(found, [24_812 - 3, 5334, 1066]);
        let with_hebrew = [found[0] + 3 + 820 * 13, found[1] + 92 * 13, found[2] + 92 * 13 / 5];
        assert_eq!(with_hebrew, [35_472, 6530, 1305]);
    }
}
