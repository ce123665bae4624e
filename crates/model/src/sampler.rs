//! The sampler's interface: requests for rows of logits, and the sampled tokens. The caller provides masks
//! and random numbers; each backend implements the sampling that is defined here.

/// One bit per token id, low bit first; a set bit allows the token.
pub type Mask = Vec<u32>;

/// A request for one row of logits.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleRequest {
    /// Nothing: the row follows a token that is not in the answer.
    Nothing,
    /// The log-probability of this token.
    Weigh(u32),
    /// Sample a token.
    Choose(SamplingParams),
}

/// Parameters of sampling a token.
///
/// At temperature 0 it is the allowed token with the largest logit, the first of equals. Otherwise each
/// allowed token has the weight `exp((logit - largest) / temperature)`; the nucleus is the fewest tokens
/// whose weights reach the fraction `top_p` of the total, of equal weights the first ones; and the token is
/// the first in order of ids at which the cumulative weight in the nucleus exceeds the fraction `draw` of its
/// total.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// The allowed tokens; `None` for all.
    pub mask: Option<Mask>,
    pub temperature: f32,
    pub top_p: f32,
    /// A uniform random number, 0 to 1 exclusive.
    pub draw: f64,
}

/// A sampled token and its log-probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledToken {
    pub id: u32,
    /// Natural log of the probability over the whole vocabulary, at temperature 1.
    pub logprob: f64,
    /// Natural log of the probability over the allowed tokens, at temperature 1.
    pub masked_logprob: f64,
}
