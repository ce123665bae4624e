//! Detects answers at chance level: under a form, even a model with random weights generates a well-formed
//! answer.

use super::{Token, TokenSource};

/// Returns true if the model gives these tokens no more probability than a uniform draw from its vocabulary
/// would.
///
/// The mean log-probability of the tokens, or of those that the form forced behind the first, is at most that
/// of a uniform draw, `-ln(n_vocab)`. Tokens that end an answer, listed in `stops`, do not count. Nor does
/// the first forced token: it stands where a model may be sure of another beginning, however well it knows
/// the form. False without tokens.
///
/// Unit: nats a token; -11.9 for a vocabulary of 151,936.
pub fn is_chance(tokens: &[Token], n_vocab: usize, stops: &[u32]) -> bool {
    let uniform = -(n_vocab.max(2) as f64).ln();
    let written = || tokens.iter().filter(|token| !stops.contains(&token.id));
    let forced = || written().filter(|token| token.source == TokenSource::Forced).skip(1);
    // What rounding takes from the sum of equal exponentials.
    let at_most = |mean: f64| mean <= uniform + 1e-3;
    let mean = |sum: f64, n: usize| (n > 0).then(|| sum / n as f64);
    let all = mean(written().map(|token| token.logprob).sum(), written().count());
    let forced = mean(forced().map(|token| token.logprob).sum(), forced().count());
    all.into_iter().chain(forced).any(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const N_VOCAB: usize = 151_936;

    fn check(logprobs: &[(f64, TokenSource)], expected: bool) {
        let token = |&(logprob, source): &(f64, TokenSource)| Token {
            id: 1,
            text: "a".into(),
            logprob,
            masked_logprob: logprob,
            source,
        };
        let tokens: Vec<Token> = logprobs.iter().map(token).collect();
        assert_eq!(is_chance(&tokens, N_VOCAB, &[0]), expected, "{logprobs:?}");
    }

    #[test]
    fn uniform_tokens_carry_no_signal() {
        use TokenSource::{Forced, Sampled};
        let uniform = -(N_VOCAB as f64).ln();
        check(&[], false);
        check(&[(uniform, Sampled)], true);
        check(&[(-0.1, Sampled), (uniform, Forced), (uniform, Forced)], true);
        check(&[(-0.1, Sampled), (-0.2, Forced), (-0.1, Forced)], false);
    }

    #[test]
    fn a_model_that_would_have_begun_otherwise_still_answers() {
        use TokenSource::{Forced, Sampled};
        check(&[(-30.0, Forced), (-0.5, Forced), (-0.1, Sampled)], false);
        check(&[(-30.0, Forced), (-0.1, Sampled), (-0.1, Sampled)], false);
    }
}
