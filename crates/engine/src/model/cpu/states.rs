//! Recurrent states in this machine's memory: storage only.

use crate::model::{Config, config::DeltaNet};

/// The states of the layers with Gated DeltaNet, in slots.
pub(super) struct States {
    n_slots: usize,
    /// Numbers of one layer's state: `super::delta_net` says how they lie.
    size: usize,
    /// For each layer `[slots, size]`; nothing for a layer without a state.
    layers: Vec<Vec<f32>>,
}

/// The states of one layer.
pub(super) struct LayerStates<'a> {
    /// Shape: `[slots, size]`.
    pub values: &'a mut [f32],
    pub size: usize,
}

impl States {
    /// Zeros that take no memory until they are written to: the system hands out such pages lazily.
    pub(super) fn new(config: &Config, n_slots: usize) -> Self {
        let size = config.delta_net.as_ref().map_or(0, DeltaNet::state);
        let layer =
            |layer| if config.delta_net_of(layer).is_some() { vec![0.0; n_slots * size] } else { Vec::new() };
        Self { n_slots, size, layers: (0..config.n_layers).map(layer).collect() }
    }

    pub(super) fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// Copies one state over another, in every layer.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let (from, to) = (from as usize * self.size, to as usize * self.size);
        for layer in self.layers.iter_mut().filter(|layer| !layer.is_empty()) {
            layer.copy_within(from..from + self.size, to);
        }
    }

    pub(super) fn layer(&mut self, layer: usize) -> LayerStates<'_> {
        LayerStates { values: &mut self.layers[layer], size: self.size }
    }
}
