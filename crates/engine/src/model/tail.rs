//! What is wanted of a row of logits, and what comes of it. Which tokens are allowed, and where random numbers come
//! from, is the caller's business; how a token is chosen is said here and done by each backend.

/// One bit per token id, low bit first; a set bit allows the token.
pub type Mask = Vec<u32>;

/// What is wanted of one row of logits.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// Nothing: the row was computed after a token that cannot come.
    Nothing,
    /// The log-probability of this token.
    Weigh(u32),
    /// A token.
    Choose(Choosing),
}

/// How a token is chosen.
///
/// At temperature 0 it is the allowed token with the largest logit, the first of equals. Else each allowed token
/// weighs `exp((logit - largest) / temperature)`; of these, the fewest tokens whose weights reach the share `top_p` of
/// all are kept, of equal weights the first ones; and the token is the first in order of ids at which the sum of the
/// kept weights so far exceeds the share `draw` of their sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Choosing {
    /// The allowed tokens; `None` for all.
    pub mask: Option<Mask>,
    pub temperature: f32,
    pub top_p: f32,
    /// A uniform number in 0..1.
    pub draw: f64,
}

/// A token and how probable it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub id: u32,
    /// Natural log of the probability over the whole vocabulary, at temperature 1.
    pub logprob: f64,
    /// The same over the allowed tokens.
    pub masked_logprob: f64,
}
