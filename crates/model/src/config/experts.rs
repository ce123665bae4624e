//! The experts of a model's feed-forward layers: their number, width and routing. It computes nothing.

use super::Config;
use crate::{Error, Result};

/// The most experts of a layer: checked before memory is allocated for them.
pub const MAX_EXPERTS: usize = 1 << 12;

/// Outputs that a backend keeps together; a matrix of an expert has a multiple of them.
const UNIT: usize = 16;

/// Experts instead of a dense feed-forward half.
///
/// Source: Shazeer et al. (2017), Outrageously Large Neural Networks, equation 1; with gated experts.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// Number of experts for the router to choose from.
    pub n: usize,
    /// Columns between the two products of an expert.
    pub width: usize,
    pub routing: Routing,
    pub shared: Option<SharedExpert>,
    /// Gate, up and down of each expert have biases (gpt-oss).
    pub biases: bool,
    /// The experts are beside a dense half, each of the two with norms of its own (Gemma 4).
    pub beside_dense: bool,
    /// For each layer, true if it has experts.
    pub layers: Vec<bool>,
}

/// An expert that every row takes beside the chosen ones; several are one of their summed width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    pub width: usize,
    /// True if its output is multiplied by the sigmoid of one more logit.
    pub is_gated: bool,
}

/// The choice of a row's experts, and their weights.
///
/// Logits become scores by [`Routing::scoring`]. Of `n_groups` groups of neighbouring experts, the
/// `top_groups` with the largest sums of their `best_of_group` largest scores remain, and of their experts
/// the `top_k` with the largest scores; of equal ones the lower numbers. With a correction bias the choice is
/// made by score plus bias; weights are the scores alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    pub scoring: Scoring,
    /// Experts of a row.
    pub top_k: usize,
    /// A bias for each expert is added to its score for the choice.
    ///
    /// Source: Wang et al. (2024), Auxiliary-Loss-Free Load Balancing Strategy, equation 3.
    pub has_bias: bool,
    /// Groups of the experts; 1 for none.
    pub n_groups: usize,
    /// Groups that a row's experts are taken from.
    pub top_groups: usize,
    /// Scores of a group that it is chosen by: one (DeepSeek-V2) or two.
    pub best_of_group: usize,
    /// The weights are divided by their sum plus this number; `None` where they are the scores themselves.
    pub normalised: Option<f32>,
    /// The weights are multiplied by this.
    pub scale: f32,
    /// A bias for each expert is added to its logit (gpt-oss).
    pub logit_bias: bool,
    /// The weight of each expert is multiplied by a factor of its own (Gemma 4).
    pub expert_factors: bool,
}

/// The function from logits to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// Softmax over all experts.
    Softmax,
    /// The logistic function of each logit.
    Sigmoid,
}

impl Routing {
    /// One group, no bias, no scale.
    pub fn softmax(top_k: usize, is_normalised: bool) -> Self {
        let normalised = is_normalised.then_some(0.0);
        let scoring = Scoring::Softmax;
        Self {
            scoring,
            top_k,
            has_bias: false,
            n_groups: 1,
            top_groups: 1,
            best_of_group: 2,
            normalised,
            scale: 1.0,
            logit_bias: false,
            expert_factors: false,
        }
    }
}

impl Experts {
    /// Experts in every layer, without shared ones and without biases.
    pub(crate) fn new(n: usize, width: usize, routing: Routing, n_layers: usize) -> Self {
        let layers = vec![true; n_layers];
        Self { n, width, routing, shared: None, biases: false, beside_dense: false, layers }
    }
}

impl Config {
    /// The experts of a layer; `None` where its feed-forward half is dense.
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        self.experts.as_ref().filter(|experts| experts.layers.get(layer) == Some(&true))
    }

    /// Columns of the dense feed-forward halves; 0 where every layer has experts.
    pub fn dense_width(&self) -> usize {
        let is_dense =
            (0..self.n_layers).any(|layer| self.experts_of(layer).is_none_or(|experts| experts.beside_dense));
        if is_dense { self.intermediate } else { 0 }
    }
}

/// Rejects sizes that no checkpoint has, and a choice that cannot be made.
pub(super) fn check(path: &str, config: &Config) -> Result<()> {
    let Some(experts) = &config.experts else { return Ok(()) };
    let bad = |key: &str, reason: String| Err(Error::Config { path: path.into(), key: key.into(), reason });
    let Routing { top_k, n_groups, top_groups, scale, .. } = experts.routing;
    let shared = experts.shared.map_or(UNIT, |shared| shared.width);
    for (key, size, most) in [
        ("number of experts", experts.n, MAX_EXPERTS),
        ("width of an expert", experts.width, 1 << 22),
        ("width of the shared expert", shared, 1 << 22),
        ("number of experts for a token", top_k, experts.n),
        ("number of groups of experts", n_groups, experts.n),
        ("number of groups of experts for a token", top_groups, n_groups),
    ] {
        if size == 0 || size > most {
            return bad(key, format!("is {size}; a number from 1 to {most} was expected"));
        }
    }
    for (key, size) in [("width of an expert", experts.width), ("hidden size", config.hidden)] {
        if !size.is_multiple_of(UNIT) {
            return bad(key, format!("is {size}, not a multiple of {UNIT}"));
        }
    }
    let of_group = experts.n / n_groups;
    if !experts.n.is_multiple_of(n_groups) || (n_groups > 1 && of_group < 2) {
        let reason =
            format!("is {n_groups}, which does not divide {} experts into groups of two or more", experts.n);
        return bad("number of groups of experts", reason);
    }
    if top_k > top_groups * of_group {
        let reason = format!("is {top_k}, and {top_groups} groups of {of_group} experts are taken");
        return bad("number of experts for a token", reason);
    }
    if !scale.is_finite() {
        return bad("factor on the weights of experts", format!("is {scale}"));
    }
    Ok(())
}
