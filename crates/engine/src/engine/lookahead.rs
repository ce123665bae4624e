//! What an answer will want of logits that are not there yet: its form is followed along the tokens that are expected
//! and then taken back. It chooses nothing.

use crate::{
    llm::{self, Sampling},
    model::tail::{Choosing, Want},
};

use super::{grammar::Grammar, stream::Stream};

/// How far an answer has come.
pub(super) struct Place {
    /// Tokens that are settled.
    pub n_noted: usize,
    /// How many of the expected tokens the form forces; the grammar stands behind them already.
    pub n_forced: usize,
    pub stream: Stream,
}

/// What is wanted of at most `n_rows` rows: the first stands after the noted tokens, each further one after one more of
/// the expected tokens. Fewer where a row cannot count, because the form does not allow an expected token.
///
/// # Errors
/// When the grammar gives up.
pub(super) fn wants(
    grammar: Option<&mut Grammar>,
    sampling: &Sampling,
    expected: &[u32],
    place: &Place,
    n_rows: usize,
) -> Result<Vec<Want>, llm::Error> {
    let (forced, guessed) = expected.split_at(place.n_forced.min(expected.len()));
    let mut wants: Vec<Want> = forced.iter().take(n_rows).map(|&id| Want::Weigh(id)).collect();
    let choosing = |mask, index| {
        let (temperature, top_p) = (sampling.temperature, sampling.top_p);
        Want::Choose(Choosing { mask, temperature, top_p, draw: place.stream.uniform(index) })
    };
    let Some(grammar) = grammar else {
        wants.extend((wants.len()..n_rows).map(|row| choosing(None, place.n_noted + row)));
        return Ok(wants);
    };
    let start = grammar.mark();
    let mut guesses = guessed.iter();
    while wants.len() < n_rows {
        let mask = grammar.mask()?.to_vec();
        let next = guesses.next().copied().filter(|&id| allows(&mask, id));
        wants.push(choosing(Some(mask), place.n_noted + wants.len()));
        // What follows a stop token, or a token that cannot come, cannot count.
        let Some(next) = next.filter(|_| wants.len() < n_rows) else { break };
        if grammar.stops_at(next) {
            break;
        }
        grammar.advance(next)?;
        let left = sampling.max_tokens.saturating_sub(place.n_noted + wants.len());
        let forced = grammar.force(left)?;
        let same = forced.iter().take_while(|&&id| guesses.next() == Some(&id)).count();
        wants.extend(forced[..same].iter().take(n_rows - wants.len()).map(|&id| Want::Weigh(id)));
        if same < forced.len() || grammar.must_stop() {
            break;
        }
    }
    grammar.return_to(start)?;
    Ok(wants)
}

fn allows(mask: &[u32], id: u32) -> bool {
    mask.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}
