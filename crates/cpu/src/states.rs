//! Recurrent states in this machine's memory: storage only.

use tribunal_model::{Config, config::DeltaNet};

/// The states of the layers with Gated DeltaNet, in slots.
pub(super) struct States {
    n_slots: usize,
    /// Numbers of one layer's state, in the layout of `super::delta_net`.
    size: usize,
    /// For each layer `[slots, size]`; empty for a layer without a state.
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

    /// The bytes of a state, layer after layer.
    pub(super) fn read(&self, slot: u32) -> Vec<u8> {
        let at = slot as usize * self.size;
        let layers = self.layers.iter().filter(|layer| !layer.is_empty());
        layers.flat_map(|layer| layer[at..][..self.size].iter().flat_map(|x| x.to_le_bytes())).collect()
    }

    /// Writes the bytes from [`States::read`] to a slot.
    pub(super) fn write(&mut self, slot: u32, bytes: &[u8]) {
        let (at, size) = (slot as usize * self.size, self.size);
        let layers = self.layers.iter_mut().filter(|layer| !layer.is_empty());
        for (layer, bytes) in layers.zip(bytes.chunks_exact((size * size_of::<f32>()).max(1))) {
            let (numbers, _) = bytes.as_chunks();
            for (x, bytes) in layer[at..][..size].iter_mut().zip(numbers) {
                *x = f32::from_le_bytes(*bytes);
            }
        }
    }

    pub(super) fn layer(&mut self, layer: usize) -> LayerStates<'_> {
        LayerStates { values: &mut self.layers[layer], size: self.size }
    }
}
