//! The metadata of a call line: unit, stage, outcome. Judging again from the recorded answers must produce
//! the same.

use std::collections::BTreeMap;

use super::difference::{Difference, around};
use crate::{
    call::{CallLine, Spelled},
    llm::Usage,
};

/// The calls of a group without what they cost, with their places among its lines.
pub struct Named {
    places: BTreeMap<String, Vec<usize>>,
    /// True if questions and answers were kept.
    has_content: bool,
}

/// A call without what it cost, as JSON.
fn name(call: &CallLine, has_content: bool) -> String {
    let content = call.content.clone().filter(|_| has_content);
    let bare = CallLine { content, usage: Usage::default(), seconds: 0.0, ..call.clone() };
    serde_json::to_string(&bare).unwrap_or_default()
}

impl Named {
    /// The metadata of recorded calls.
    pub fn new(recorded: &[CallLine]) -> Self {
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let has_content = recorded.iter().all(|call| call.content.is_some());
        for (at, call) in recorded.iter().enumerate().rev() {
            places.entry(name(call, has_content)).or_default().push(at);
        }
        Self { places, has_content }
    }

    /// The first call that the judge makes otherwise now; the recorded ones begin at this line.
    pub fn unlike(mut self, calls: &[CallLine], line: usize) -> Option<Difference> {
        let mut other = None;
        for call in calls {
            let name = name(call, self.has_content);
            if self.places.get_mut(&name).and_then(Vec::pop).is_none() {
                other.get_or_insert(name);
            }
        }
        let left = self.places.into_iter().filter_map(|(name, at)| Some((at.into_iter().min()?, name))).min();
        if left.is_none() && other.is_none() {
            return None;
        }
        let at = line + left.as_ref().map_or(0, |(at, _)| *at);
        let of_line = if left.is_some() { format!(" line {at}") } else { String::new() };
        let recorded = left.map_or_else(|| "no such call".into(), |(_, name)| name);
        let (recorded, derived) = around(&recorded, &other.unwrap_or_else(|| "no such call".into()));
        let place = format!("calls.jsonl{of_line}");
        Some(Difference::new(&place, "the call that the judge makes", &recorded, &derived).at((at, 2)))
    }
}

/// A call whose columns are not of one length.
pub fn uneven(number: usize, call: &CallLine) -> Option<Difference> {
    let Spelled { tokens, pieces, logprobs, masked_logprobs, .. } = call.content.as_ref()?.uneven()?;
    let recorded = format!(
        "{} tokens, {} pieces, {} logprobs, {} masked_logprobs",
        tokens.len(),
        pieces.len(),
        logprobs.len(),
        masked_logprobs.len()
    );
    let place = format!("calls.jsonl line {number}");
    Some(
        Difference::new(&place, "columns of one length", &recorded, "one of each for every token")
            .at((number, 0)),
    )
}
