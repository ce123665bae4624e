//! Whether an answer carries any signal of the model: a form makes even a model without weights write a well-formed
//! answer, which says nothing of the text.

use super::{Token, TokenSource};

/// Whether the model gives these tokens no more probability than drawing them at random from its vocabulary would.
///
/// The mean log-probability of the tokens, or of those that the form forced, is at most that of a uniform draw,
/// `-ln(n_vocab)`. Tokens that end an answer do not count: `stops` says which ones do. Two forced tokens are the least
/// that say something, since the first one stands where a model may have wanted to begin otherwise. False without
/// tokens.
///
/// Unit: nats a token; -11.9 for a vocabulary of 151,936.
#[must_use]
pub fn is_chance(tokens: &[Token], n_vocab: usize, stops: &[u32]) -> bool {
    let uniform = -(n_vocab.max(2) as f64).ln();
    let written = || tokens.iter().filter(|token| !stops.contains(&token.id));
    let forced = || written().filter(|token| token.source == TokenSource::Forced);
    // What rounding takes from the sum of equal exponentials.
    let at_most = |mean: f64| mean <= uniform + 1e-3;
    let mean = |sum: f64, n: usize, least: usize| (n >= least).then(|| sum / n as f64);
    let all = mean(written().map(|token| token.logprob).sum(), written().count(), 1);
    let forced = mean(forced().map(|token| token.logprob).sum(), forced().count(), 2);
    all.into_iter().chain(forced).any(at_most)
}
