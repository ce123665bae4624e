//! Sampling requests for rows whose logits are not computed yet: the form is followed along the expected
//! tokens and then rolled back. It samples nothing.

use crate::{
    llm::{self, Sampling},
    model::sampler::{SampleRequest, SamplingParams},
};

use super::{grammar::Grammar, stream::Stream};

/// An answer's progress.
pub(super) struct Place {
    /// Tokens that are settled.
    pub n_settled: usize,
    /// Number of expected tokens that the form forces; the grammar has already advanced past them.
    pub n_forced: usize,
    pub stream: Stream,
}

/// The requests of at most `n_rows` rows: the first row is that after the settled tokens, each further one
/// follows one more of the expected tokens. Fewer where the form does not allow an expected token, so that
/// later rows are of no use.
///
/// # Errors
/// The grammar exceeds its limits.
pub(super) fn requests(
    grammar: Option<&mut Grammar>,
    sampling: &Sampling,
    expected: &[u32],
    place: &Place,
    n_rows: usize,
) -> llm::Result<Vec<SampleRequest>> {
    let (forced, guessed) = expected.split_at(place.n_forced.min(expected.len()));
    let mut requests: Vec<SampleRequest> =
        forced.iter().take(n_rows).map(|&id| SampleRequest::Weigh(id)).collect();
    let sample = |mask, index| {
        let (temperature, top_p) = (sampling.temperature, sampling.top_p);
        SampleRequest::Choose(SamplingParams { mask, temperature, top_p, draw: place.stream.uniform(index) })
    };
    let Some(grammar) = grammar else {
        requests.extend((requests.len()..n_rows).map(|row| sample(None, place.n_settled + row)));
        return Ok(requests);
    };
    let start = grammar.n_tokens();
    let mut guesses = guessed.iter();
    while requests.len() < n_rows {
        let mask = grammar.mask()?;
        let next = guesses.next().copied().filter(|&id| allows(&mask, id));
        requests.push(sample(Some(mask), place.n_settled + requests.len()));
        // Rows after a stop token, or after a token that the form does not allow, are of no use.
        let Some(next) = next.filter(|_| requests.len() < n_rows) else { break };
        if grammar.stops_at(next) {
            break;
        }
        grammar.advance(next)?;
        let left = sampling.max_tokens.saturating_sub(place.n_settled + requests.len());
        let forced = grammar.fast_forward(left)?;
        let same = forced.iter().take_while(|&&id| guesses.next() == Some(&id)).count();
        requests
            .extend(forced[..same].iter().take(n_rows - requests.len()).map(|&id| SampleRequest::Weigh(id)));
        if same < forced.len() || grammar.must_stop() {
            break;
        }
    }
    grammar.rollback(grammar.n_tokens() - start)?;
    Ok(requests)
}

fn allows(mask: &[u32], id: u32) -> bool {
    mask.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}
