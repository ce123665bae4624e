//! The weights of a Gated DeltaNet layer beside its projections, and the location of a sequence's state on
//! the device. It computes nothing.

use std::ops::Range;

use super::{Error, memory::Memory, shard::Shard, weight_upload::WeightUpload};
use tribunal_model::{Config, backend::DeltaNetWeights, config};

/// The most dimensions of a value head, and the rows of its convolution; must equal those in
/// `kernels/delta_net.cu`.
const MOST_VALUE_DIMS: usize = 256;
const TAPS: usize = 4;

/// The kernel of the delta rule for these heads.
///
/// # Errors
/// Sizes that no kernel takes.
pub(super) fn rule(heads: &config::DeltaNet) -> Result<&'static str, Error> {
    let config::DeltaNet { key_dim, value_dim, .. } = *heads;
    let kernel = match key_dim {
        16 => "delta_rule_k16",
        32 => "delta_rule_k32",
        64 => "delta_rule_k64",
        128 => "delta_rule_k128",
        256 => "delta_rule_k256",
        _ => return Err(Error::DeltaNetHeads { key_dim, value_dim }),
    };
    if !value_dim.is_multiple_of(8) || value_dim > MOST_VALUE_DIMS {
        return Err(Error::DeltaNetHeads { key_dim, value_dim });
    }
    if heads.conv != TAPS {
        return Err(Error::Convolution { rows: heads.conv });
    }
    Ok(kernel)
}

/// The layers before this one that have DeltaNet.
pub(super) fn layers_before(config: &Config, layer: usize) -> usize {
    let layers = config.delta_net.as_ref().map_or(&[][..], |delta_net| &delta_net.layers);
    layers.iter().take(layer).filter(|is| **is).count()
}

/// The convolution, the gates of the state, and the norm of the outputs.
pub struct DeltaNet {
    /// `[channels, 4]`.
    pub(super) conv: Memory,
    /// `[n_value_heads]`.
    pub(super) decay: Memory,
    pub(super) dt_bias: Memory,
    /// `[value_dim]`.
    pub(super) norm: Memory,
}

impl DeltaNet {
    /// Uploads the weights of the heads that a card has.
    ///
    /// # Errors
    /// No memory on the device.
    pub(super) fn new(
        weights: &DeltaNetWeights,
        (shard, own): (Shard, &config::DeltaNet),
        upload: &mut WeightUpload,
    ) -> Result<Self, Error> {
        let conv = shard.channels(own).into_iter().flat_map(|section| {
            let Range { start, end } = section.outputs;
            &weights.conv[start * own.conv..end * own.conv]
        });
        let (conv, heads) = (conv.copied().collect::<Vec<f32>>(), shard.value_heads(own));
        let mut send = |values: &[f32]| upload.floats(values);
        let (conv, decay) = (send(&conv)?, send(&weights.decay[heads.clone()])?);
        let (dt_bias, norm) = (send(&weights.dt_bias[heads])?, send(&weights.norm)?);
        Ok(Self { conv, decay, dt_bias, norm })
    }
}

/// The states of sequences: `[n_slots][layers of DeltaNet][inputs of the convolution, state]`.
pub(super) struct States {
    pub memory: Memory,
    pub n_slots: usize,
    /// Bytes of a slot, and of a layer in it.
    pub slot_bytes: usize,
    pub layer_bytes: usize,
}
