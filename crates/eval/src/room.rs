//! The check that a model's context holds the questions of a judge, before a run. Single segments that are
//! too long for it have missing verdicts.

use crate::{
    error::{Error, Result},
    judges::{Judge, Panel, RehearsedQuestion, rehearse_unanswered},
    llm,
    run::Selection,
    segment::{Corpus, Segments as _},
};

/// Number of shortest segments of which a question must fit.
const SHORTEST: usize = 4;

/// Refuses models whose context holds no question, not even one about the shortest selected texts.
///
/// # Errors
/// [`Error::NoRoom`] with the shortest question.
pub fn check(judge: &Judge, panel: &Panel, segments: &Corpus, selection: &Selection) -> Result<()> {
    let mut selected: Vec<usize> = (0..segments.n_segments()).filter(|&idx| selection.wants(idx)).collect();
    selected.sort_by_key(|&idx| segments.outline(idx).n_bytes);
    let mut least: Option<(usize, llm::Error)> = None;
    for idx in selected.into_iter().take(SHORTEST) {
        for question in rehearse_unanswered(judge, panel, &[segments.segment(idx)?], None) {
            let Some(excess) = excess(panel, &question) else { return Ok(()) };
            least = least.into_iter().chain([excess]).min_by_key(|(length, _)| *length);
        }
    }
    least.map_or(Ok(()), |(_, refusal)| Err(Error::NoRoom(refusal)))
}

/// The length of a question that is longer than its model's context, and the refusal; `None` of others.
fn excess(panel: &Panel, question: &RehearsedQuestion) -> Option<(usize, llm::Error)> {
    let (llm, answer) = (panel.llm(question.role), question.max_tokens);
    if answer == 0 {
        return None; // metrics cut their texts
    }
    let context = llm.context()?;
    match llm.counter()?.count(&question.chat) {
        Ok(prompt) if prompt + answer > context => {
            Some((prompt + answer, llm::Error::TooLong { prompt, answer, context }))
        }
        Err(refusal @ llm::Error::TooManyBytes { bytes, .. }) => Some((bytes, refusal)),
        _ => None,
    }
}
