//! Gated DeltaNet: the launches of `kernels/delta_net.cu`, and the states of sequences.

use super::{
    super::{
        Error,
        arena::Slot,
        delta_net::{DeltaNet, layers_before, rule},
        launch::{Argument, Shape},
        memory::Memory,
        plan::Recurrent,
        weights::Linear,
    },
    Cuda, Values,
};
use tribunal_model::{self as model, Result, backend::DeltaNetWeights, config};

/// Columns of a block of `delta_rule`, values of a warp of `delta_conv`, and the multiprocessor's share of a
/// copy.
const COLUMNS: usize = 32;
const CONVOLVED: usize = 128;
const COPY_BLOCKS: usize = 8;

/// Arguments of all kernels of a layer.
struct Layer<'a> {
    config: &'a config::DeltaNet,
    rule: &'static str,
    /// The rows' projections, and the number of values of a row.
    projected: Values,
    ld: usize,
    /// The address of the layer's part of the first slot, and the values of a slot.
    states: u64,
    slot: usize,
    recurrent: Recurrent,
}

impl Layer<'_> {
    /// Key heads, their dimensions, value heads and theirs.
    fn heads(&self) -> [usize; 4] {
        [self.config.n_key_heads, self.config.key_dim, self.config.n_value_heads, self.config.value_dim]
    }
}

impl Cuda {
    /// Uploads the weights of a DeltaNet layer, of the heads that this card has.
    pub(super) fn delta_net_weights(&self, weights: &DeltaNetWeights) -> Result<DeltaNet> {
        let missing = || model::Error::Step("recurrent layers of a model without any".into());
        let delta_net = self.config.delta_net.as_ref().ok_or_else(missing)?;
        let upload = &mut self.weight_upload.lock();
        Ok(DeltaNet::new(weights, (self.shard, delta_net), upload)?)
    }

    /// The outputs of a DeltaNet layer, of all rows of the step.
    pub(super) fn mixed(
        &self,
        layer: usize,
        h: &Values,
        projections: &Linear,
        weights: &DeltaNet,
    ) -> Result<Values, Error> {
        let missing = || Error::Room("there are no states of sequences".into());
        let config = self.config.delta_net.as_ref().ok_or_else(missing)?;
        let states = self.states.as_ref().ok_or_else(missing)?;
        let recurrent = self.plan.recurrent.ok_or_else(missing)?;
        let projected = self.values(Slot::Product, h.n_rows, 4 * projections.n)?;
        self.multiply(h, projections, (projected.at(), projections.n), false)?;
        let layer = Layer {
            config,
            rule: rule(config)?,
            projected,
            ld: projections.n,
            states: states.memory.at() + (layers_before(&self.config, layer) * states.layer_bytes) as u64,
            slot: states.slot_bytes / 4,
            recurrent,
        };
        self.convolve(&layer, weights)?;
        self.apply_rule(&layer)?;
        self.gate_mixed(&layer, weights)
    }

    /// Convolved queries, keys and values, and the gates of the state.
    fn convolve(&self, layer: &Layer<'_>, weights: &DeltaNet) -> Result<(), Error> {
        let numbers = self.numbers()?;
        let [positions, of_rows, sequences] =
            [self.plan.positions, layer.recurrent.of_rows, layer.recurrent.sequences]
                .map(|at| at.from(numbers));
        let of_weights = [&weights.conv, &weights.decay, &weights.dt_bias].map(Memory::at);
        let steps = [positions, of_rows, sequences, layer.states, self.mixed_at(layer)?];
        let pointers = [&[layer.projected.at()][..], &of_weights, &steps].concat();
        let n_rows = layer.projected.n_rows;
        let sizes = [&[n_rows, layer.ld, layer.slot][..], &layer.heads()].concat();
        let units = 2 * layer.config.n_key_heads + layer.config.widths()[2].div_ceil(CONVOLVED) + 1;
        let grid = [n_rows.div_ceil(4) as u32, units as u32, 1];
        let shape = Shape { grid, block: [32, 4], shared_bytes: 0 };
        self.launch_of_layer("delta_conv", shape, &pointers, &sizes, &[])
    }

    /// The delta rule over the rows of each sequence: its state and the outputs of each head.
    fn apply_rule(&self, layer: &Layer<'_>) -> Result<(), Error> {
        let numbers = self.numbers()?;
        let [positions, sequences] =
            [self.plan.positions, layer.recurrent.sequences].map(|at| at.from(numbers));
        let pointers = [layer.projected.at(), positions, sequences, layer.states, self.mixed_at(layer)?];
        let [n_key_heads, _, n_value_heads, value_dim] = layer.heads();
        let n = layer.recurrent.n_sequences;
        let sizes = [n, layer.ld, layer.slot, n_key_heads, n_value_heads, value_dim];
        let tiled = [Argument::Int(i32::from(layer.config.is_tiled))];
        let grid = [n as u32, n_value_heads as u32, value_dim.div_ceil(COLUMNS) as u32];
        let shape = Shape { grid, block: [4 * COLUMNS as u32, 1], shared_bytes: 0 };
        self.launch_of_layer(layer.rule, shape, &pointers, &sizes, &tiled)
    }

    /// The norm of each head's outputs, and its gate.
    fn gate_mixed(&self, layer: &Layer<'_>, weights: &DeltaNet) -> Result<Values, Error> {
        let n_rows = layer.projected.n_rows;
        let out = self.values(Slot::MixedOut, n_rows, 2 * layer.config.widths()[2])?;
        let of_rows = layer.recurrent.of_rows.from(self.numbers()?);
        let pointers = [layer.projected.at(), self.mixed_at(layer)?, weights.norm.at(), of_rows, out.at()];
        let sizes = [&[n_rows, layer.ld][..], &layer.heads()].concat();
        let grid = [n_rows as u32, layer.config.n_value_heads.div_ceil(4) as u32, 1];
        let shape = Shape { grid, block: [32, 4], shared_bytes: 0 };
        self.launch_of_layer("delta_gate", shape, &pointers, &sizes, &[self.eps()])?;
        Ok(out)
    }

    fn mixed_at(&self, layer: &Layer<'_>) -> Result<u64, Error> {
        let width = (layer.config.channels() + 2 * layer.config.n_value_heads).next_multiple_of(4);
        self.slot(Slot::Mixed, 4 * layer.projected.n_rows * width)
    }

    fn launch_of_layer(
        &self,
        kernel: &'static str,
        shape: Shape,
        pointers: &[u64],
        sizes: &[usize],
        last: &[Argument],
    ) -> Result<(), Error> {
        let pointers = pointers.iter().copied().map(Argument::At);
        let sizes = sizes.iter().copied().map(Argument::size);
        let arguments: Vec<Argument> = pointers.chain(sizes).chain(last.iter().copied()).collect();
        // SAFETY: the projections are [rows, ld] f32, `mixed` has a row of each, the plan a sequence of each
        // row and the first row, rows and slot of each sequence, the weights are those of the configuration's
        // heads; the step was checked: its slots are among those of the states. All are 16-byte aligned and
        // freed only after the stream is synchronised.
        unsafe { self.launch(("delta_net", kernel), shape, &arguments) }
    }

    /// Copies states, one after another: a later copy may read the result of an earlier one.
    pub(super) fn copy_states(&self) -> Result<(), Error> {
        let Some(states) = &self.states else { return Ok(()) };
        let n = states.slot_bytes / 16;
        let blocks = n.div_ceil(256).min(COPY_BLOCKS * self.gpu.multiprocessors());
        for &(from, to) in self.plan.state_copies.iter().filter(|(from, to)| from != to) {
            let sizes = [from as usize, to as usize, n].map(Argument::size);
            let arguments = [&[Argument::At(states.memory.at())][..], &sizes].concat();
            // SAFETY: the step was checked: both are slots of the states, each a multiple of 16 bytes from a
            // 256-byte aligned address on.
            unsafe { self.launch(("copy_state", "copy_state"), Shape::new([blocks, 1], 256), &arguments)? };
        }
        Ok(())
    }
}
