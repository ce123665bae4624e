//! Heads of queries, keys and values that are turned and stored: by the product itself where a kernel does both, or by
//! `kernels/rotate.cu` behind it. Both have the same bits.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        memory::Memory,
        products::{Kind, Way, fused},
        tensor_map::TensorMap,
        weights::Linear,
    },
    Cuda, Values,
};
use crate::model::{
    Config,
    backend::{HeadNorms, Reach},
};

impl Cuda {
    /// Queries of a product that turns and stores heads without norms, so that its sums never go to memory; `None` where no
    /// kernel does that for these weights and rows.
    pub(super) fn multiply_heads(
        &self,
        layer: usize,
        x: &Values,
        w: &Linear,
        reach: Reach,
    ) -> Result<Option<Values>, Error> {
        let Config { n_heads, n_kv_heads, head_dim, .. } = self.config;
        let [part] = &w.parts[..] else { return Ok(None) };
        // What adapters add comes before the turn.
        if self.adds_adapters(w) || !matches!(part.way, Way::Direct(Kind::Bf16) | Way::Panel(_)) {
            return Ok(None);
        }
        let (m, n, k) = (x.n_rows, part.n, w.k);
        let by = self.gpu.products_by();
        let Some(launch) = fused::launch_heads(by, [m, n, k], part.segment, head_dim) else {
            return Ok(None);
        };
        let queries = self.values(Slot::Queries, m, 2 * self.query_width())?;
        let (_, weights) = self.weights_of(part, k)?;
        let maps = [
            TensorMap::rows(x.at(), m, k, launch.tile.tokens)?,
            TensorMap::heads(weights, n, k, head_dim, launch.tile.outputs)?,
        ];
        let (mut parts, mut turns) = (0, 0);
        if launch.meets {
            parts = self.slot(Slot::Sums, launch.partial_len(m, n) * 4)?;
            turns = self.slot(Slot::Turns, launch.n_turns(m, n) * 4)?;
        }
        let bias = w.bias.as_ref().map_or(0, Memory::at);
        let places = self.places_of_heads(layer, &queries, reach)?;
        let pointers = [&[bias][..], &places, &[parts, turns]].concat();
        let pointers: Vec<Argument> = pointers.into_iter().map(Argument::At).collect();
        let sizes = [m, n, k, launch.segment, n_heads, n_kv_heads, head_dim].map(Argument::size);
        // SAFETY: x is [m, k] and the weights [n, k] in bf16, n the heads' dimensions; the rest as in `turn`.
        unsafe {
            let (names, shape) = ((launch.tile.module(), launch.kernel), launch.shape());
            self.launch_over(names, shape, &maps, &[&pointers[..], &sizes].concat())?;
        }
        Ok(Some(queries))
    }

    /// Turns and stores heads that lie in memory.
    pub(super) fn turn(
        &self,
        layer: usize,
        qkv: &Values,
        (q_norm, k_norm): HeadNorms<'_, Memory>,
        reach: Reach,
    ) -> Result<Values, Error> {
        let Config { n_heads, n_kv_heads, head_dim, .. } = self.config;
        let queries = self.values(Slot::Queries, qkv.n_rows, 2 * self.query_width())?;
        let norms = [q_norm, k_norm].map(|norm| norm.map_or(0, Memory::at));
        let places = self.places_of_heads(layer, &queries, reach)?;
        let pointers = [&[qkv.at()][..], &norms, &places].concat();
        let pointers: Vec<Argument> = pointers.into_iter().map(Argument::At).collect();
        let sizes = [qkv.n_rows, n_heads, n_kv_heads, head_dim].map(Argument::size);
        let grid = [qkv.n_rows as u32, (n_heads + 2 * n_kv_heads).div_ceil(4) as u32, 1];
        // SAFETY: the tables reach past every position, and the step was checked: its slots are in the cache.
        unsafe {
            let shape = Shape { grid, block: [32, 4], shared_bytes: 0 };
            self.launch(("rotate", "rotate"), shape, &[&pointers[..], &sizes, &[self.eps()]].concat())?;
        }
        Ok(queries)
    }

    /// What heads are turned by, and where they go: cosines, sines, positions, slots, queries, keys, values.
    fn places_of_heads(&self, layer: usize, queries: &Values, reach: Reach) -> Result<[u64; 7], Error> {
        let local = if reach == Reach::Local { self.local_angles.as_ref() } else { None };
        let (cos, sin) = local.unwrap_or(&self.angles).at();
        let (keys, values) = self.cached(layer);
        let (numbers, plan) = (self.numbers()?, &self.plan);
        let [positions, slots] = [plan.positions, plan.slots].map(|at| at.from(numbers));
        Ok([cos, sin, positions, slots, queries.at(), keys, values])
    }
}
