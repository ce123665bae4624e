//! The attention of a model's layers: full or over a sliding window, each kind with heads and a rope of its
//! own. It computes nothing.

use super::{Config, Rope, Scaling};
use crate::{Error, Result};

/// The most heads, and values of a head.
const MOST: usize = 1 << 12;

/// The two kinds of attention that layers of one model may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKind {
    /// All earlier keys.
    Full,
    /// The last keys only, or all of them with another rope.
    Sliding,
}

/// The attention of all layers of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attention {
    /// Values of a head of queries, keys or values.
    pub head_dim: usize,
    pub n_kv_heads: usize,
    pub rope: Rope,
    /// Values of a head that are rotated, from its first on; all of them except in GLM and Qwen's hybrids.
    pub rotary_dim: usize,
    /// Keys that a query sees, its own included; `None` for all.
    pub window: Option<usize>,
    /// The keys' projection also gives the values, before norm and rotation (full layers of some Gemma 4).
    pub values_are_keys: bool,
    /// Keys and values are projections of one compressed row, which is cached in their place.
    pub latent: Option<Latent>,
}

/// Multi-head latent attention: all heads share one cached row, `rank` compressed values and behind them
/// `rotary_dim` rotated ones. The projection of keys is absorbed into the queries and that of values into the
/// output, so that heads attend to the cached row itself: it is a key of `rank + rotary_dim` values
/// ([`Attention::head_dim`]), and its first `rank` values are the value.
///
/// Source: DeepSeek-AI (2024), DeepSeek-V2, section 2.1 and appendix C.
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    /// Compressed values of a row.
    pub rank: usize,
    /// Compressed values of a token's queries; `None` where they are projected directly.
    pub query_rank: Option<usize>,
    /// Values of a head's query and key that are not rotated.
    pub plain_dim: usize,
    /// Values of a head's output.
    pub value_dim: usize,
    /// Rotated pairs are neighbours, in place of halves.
    pub is_interleaved: bool,
    /// That of the norms of compressed rows.
    pub norm_eps: f64,
}

/// The row of a checkpoint whose rotated pairs are neighbours that holds row `row` of queries or keys.
pub(crate) fn neighbouring_row(row: usize, head_dim: usize, rotary_dim: usize) -> usize {
    let (head, at) = (row / head_dim, row % head_dim);
    if at >= rotary_dim {
        return row;
    }
    let (half, i) = (at / (rotary_dim / 2), at % (rotary_dim / 2));
    head * head_dim + 2 * i + half
}

impl Attention {
    /// This attention with a rope that rotates nothing.
    #[must_use]
    pub fn unrotated(&self) -> Self {
        Self { rope: Rope { scaling: Scaling::Unrotated, ..self.rope.clone() }, ..self.clone() }
    }

    /// Numbers that one token adds to a layer's cache: keys and values.
    pub fn cached(&self) -> usize {
        self.cached_parts() * self.kv_width()
    }

    /// Parts of a layer's cache: keys and values, or compressed rows.
    pub fn cached_parts(&self) -> usize {
        if self.latent.is_some() { 1 } else { 2 }
    }

    /// Values of a head's query as it is projected.
    pub fn query_dim(&self) -> usize {
        self.latent.as_ref().map_or(self.head_dim, |latent| latent.plain_dim + self.rotary_dim)
    }

    /// Values of a head that are attended to: the first ones of a compressed row are expanded after that.
    pub fn attended_dim(&self) -> usize {
        self.latent.as_ref().map_or(self.head_dim, |latent| latent.rank)
    }

    /// Values of a head's output.
    pub fn output_dim(&self) -> usize {
        self.latent.as_ref().map_or(self.head_dim, |latent| latent.value_dim)
    }

    /// Width of a token's keys, or of its values.
    pub fn kv_width(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }
}

/// The layers with a sliding window.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// Keys that a query of such a layer sees; `None` where no window is in force.
    pub size: Option<usize>,
    /// For each layer, true if it has a sliding window.
    pub slides: Vec<bool>,
}

impl Config {
    /// The attention of one kind. Where no layer slides, both are equal.
    pub fn attention(&self, kind: AttentionKind) -> &Attention {
        match (kind, &self.sliding) {
            (AttentionKind::Sliding, Some(sliding)) => sliding,
            _ => &self.full,
        }
    }

    /// Both kinds, or the only one.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        std::iter::once(&self.full).chain(&self.sliding)
    }

    /// The kind of a layer's attention.
    pub fn kind_of(&self, layer: usize) -> AttentionKind {
        if self.slides.get(layer) == Some(&true) { AttentionKind::Sliding } else { AttentionKind::Full }
    }

    /// The attention of a layer. A layer with Gated DeltaNet instead has none, and the value has no meaning.
    pub fn attention_of(&self, layer: usize) -> &Attention {
        self.attention(self.kind_of(layer))
    }

    /// Number of layers that have a place in the cache. An encoder computes a text in one step, so that all
    /// of its layers share one.
    pub fn n_cached_layers(&self) -> usize {
        if self.encoder.is_some() { 1 } else { self.n_layers }
    }

    /// Number of layers with this kind of attention that have a place in the cache.
    pub fn n_layers_of(&self, kind: AttentionKind) -> usize {
        let attends = |&layer: &usize| self.delta_net_of(layer).is_none() && self.kind_of(layer) == kind;
        (0..self.n_cached_layers()).filter(attends).count()
    }

    /// Returns true if sliding layers rotate by other angles than the full ones.
    pub fn has_sliding_angles(&self) -> bool {
        let is_other = |sliding: &Attention| {
            (&sliding.rope, sliding.rotary_dim) != (&self.full.rope, self.full.rotary_dim)
        };
        self.sliding.as_ref().is_some_and(is_other)
    }

    /// Keys that a query of a sliding layer sees; `None` where there are no such layers, or where they see
    /// all.
    pub fn window(&self) -> Option<usize> {
        self.sliding.as_ref().and_then(|sliding| sliding.window)
    }

    /// Width of a token's queries in a layer.
    pub fn query_width(&self, kind: AttentionKind) -> usize {
        self.n_heads * self.attention(kind).head_dim
    }

    /// Numbers that one token adds to the cache, in all layers.
    pub fn cached(&self) -> usize {
        let layers = (0..self.n_cached_layers()).filter(|&layer| self.delta_net_of(layer).is_none());
        layers.map(|layer| self.attention_of(layer).cached()).sum()
    }
}

/// Rejects sizes that no checkpoint has, and ropes that do not fit them.
pub(super) fn check(path: &str, config: &Config) -> Result<()> {
    let bad = |key: &str, reason: String| Err(Error::Config { path: path.into(), key: key.into(), reason });
    for attention in config.attentions() {
        let Attention { head_dim, n_kv_heads, rotary_dim, .. } = *attention;
        attention.latent.as_ref().map_or(Ok(()), |latent| check_latent(path, latent))?;
        for (key, size) in [("number of kv heads", n_kv_heads), ("head size", head_dim)] {
            super::limited(path, key, size, MOST)?;
        }
        if !config.n_heads.is_multiple_of(n_kv_heads) {
            return bad("number of kv heads", "does not divide the number of heads".into());
        }
        if !head_dim.is_multiple_of(16) {
            return bad("head size", format!("is {head_dim}, not a multiple of 16"));
        }
        if !rotary_dim.is_multiple_of(2) || rotary_dim == 0 || rotary_dim > head_dim {
            let reason = format!("is {rotary_dim} of a head's {head_dim}; an even number was expected");
            return bad("number of values that are rotated", reason);
        }
        let divisors = match &attention.rope.scaling {
            Scaling::Factors(by) => Some(("rope_freqs.weight", by)),
            Scaling::Long { short, .. } => Some(("short_factor", short)),
            _ => None,
        };
        if let Some((key, by)) = divisors.filter(|(_, by)| by.len() != rotary_dim / 2) {
            let (n, expected) = (by.len(), rotary_dim / 2);
            return bad(key, format!("has {n} values; one for each of {expected} was expected"));
        }
    }
    Ok(())
}

fn check_latent(path: &str, latent: &Latent) -> Result<()> {
    let rank = ("rank of keys and values", latent.rank);
    for (key, size) in [
        rank,
        ("head size of keys without positions", latent.plain_dim),
        ("head size of values", latent.value_dim),
    ]
    .into_iter()
    .chain(latent.query_rank.map(|rank| ("rank of queries", rank)))
    {
        super::limited(path, key, size, MOST)?;
    }
    if !latent.rank.is_multiple_of(16) {
        let reason = format!("is {}, not a multiple of 16", latent.rank);
        return Err(Error::Config { path: path.into(), key: rank.0.into(), reason });
    }
    Ok(())
}
