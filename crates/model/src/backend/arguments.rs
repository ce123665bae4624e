//! The arguments of a backend's operations that are the same on every device, but for its vectors.

use crate::adapter::LowRank;

/// Weight matrices of one input, by their names in the checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<'a> {
    /// Each name, without `.weight`, with its rows (outputs). A bias is used where the checkpoint has one.
    pub parts: &'a [(String, usize)],
    /// Columns (inputs).
    pub k: usize,
    pub cut: Cut,
}

/// The division of weight matrices' outputs among several cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Anywhere,
    /// By heads of so many outputs.
    Heads(usize),
    /// The parts are those of [`super::Backend::mix`]: a key head's outputs stay together with those of its
    /// value heads.
    DeltaNet,
}

/// An adapter's update of one matrix: `scale B (A x)`.
#[derive(Clone, Copy, Debug)]
pub struct Added<'a> {
    pub matrices: &'a LowRank,
    pub scale: f32,
}

/// The norms of a layer's heads, where the architecture has them.
#[derive(Debug)]
pub struct HeadNorms<'a, V> {
    pub q: Option<&'a V>,
    pub k: Option<&'a V>,
    pub v: Option<&'a V>,
}

/// The operations after the output `y` of a half layer: `x = (x + norm(y)) factor`, and the norm of this x by
/// the weight `next`.
#[derive(Debug)]
pub struct After<'a, V> {
    /// `None` where the architecture has no norm after a half layer.
    pub norm: Option<&'a V>,
    /// 1 where it has no factor.
    pub factor: f32,
    /// `None` where the next half layer has x itself as its input.
    pub next: Option<&'a V>,
}

/// `positive x^2 + beta x` above 0, `(e^min(x, eps) - 1 - x) negative + beta x` below.
///
/// Source: Huang and Schlag (2025), Deriving Activation Functions Using Integration, section 3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xielu {
    pub positive: f32,
    pub negative: f32,
    pub beta: f32,
    pub eps: f32,
}

/// The nonlinearity of a feed-forward half without a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pointwise {
    Xielu(Xielu),
    /// `x (1 + erf(x / sqrt 2)) / 2`.
    Gelu,
}

/// Weights of a norm with a bias: `(x - mean) / sqrt(variance + eps) * weight + bias`.
///
/// Source: Ba et al. (2016), Layer Normalization, equation 4.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a, V> {
    pub weight: &'a V,
    pub bias: &'a V,
}

/// The destination of a norm's rows, beside the input of the next products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normed {
    InputAlone,
    /// The stream is replaced.
    StreamToo,
}

/// Norms of a dense half and the experts beside it.
#[derive(Debug)]
pub struct BesideNorms<V> {
    /// The norm of the dense half's output.
    pub dense: V,
    /// The norm of the stream, before the experts.
    pub input: V,
    /// The norm of the stream, before the router.
    pub router: V,
    /// The norm of the experts' output.
    pub experts: V,
}

/// The weights of a [`crate::config::DeltaNet`] beside its projections, f32.
#[derive(Clone, Debug)]
pub struct DeltaNetWeights {
    /// Shape: `[channels, conv]`, the last tap that of the token itself.
    pub conv: Vec<f32>,
    /// The logarithm of the state's decay in one unit of time. Shape: `[value heads]`; below 0.
    pub decay: Vec<f32>,
    /// Added to the projected time before its softplus. Shape: `[value heads]`.
    pub dt_bias: Vec<f32>,
    /// Shape: `[value_dim]`.
    pub norm: Vec<f32>,
}
