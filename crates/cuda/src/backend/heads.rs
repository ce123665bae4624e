//! Rotary embedding and KV store: fused into the QKV product where a kernel has both, or by
//! `kernels/rotate.cu` after it. Both have the same bits.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        memory::Memory,
        products::{Kind, fused},
        tensor_map::TensorMap,
        weights::Linear,
    },
    Cuda, Queries, Values,
};
use tribunal_model::config::{Attention, AttentionKind};

impl Cuda {
    /// Queries of a QKV product with fused rotary embedding and KV store, for heads without norms; its sums
    /// are never written to memory. `None` where no kernel has both for these weights and rows.
    pub(super) fn multiply_heads(
        &self,
        layer: usize,
        x: &Values,
        w: &Linear,
        kind: AttentionKind,
    ) -> Result<Option<Queries>, Error> {
        let n_heads = self.config.n_heads;
        let &Attention { n_kv_heads, head_dim, rotary_dim, .. } = self.config.attention(kind);
        let [part] = &w.parts[..] else { return Ok(None) };
        let is_plain =
            rotary_dim == head_dim && self.config.query_growth.is_none() && !self.config.gated_attention;
        // The updates of adapters precede the rotation.
        if !is_plain || self.adds_adapters(w) || part.way.kind(x.n_rows) != Kind::Bf16 {
            return Ok(None);
        }
        let (m, n, k) = (x.n_rows, part.n, w.k);
        // A card of several may have no heads.
        if n == 0 {
            return Ok(None);
        }
        let by = self.gpu.products_by;
        let Some(launch) = fused::launch_heads(by, [m, n, k], part.k_slice, head_dim) else {
            return Ok(None);
        };
        let queries = self.values(Slot::Queries, m, 2 * self.config.query_width(kind))?;
        let (_, weights) = self.weights_of(part, k, m)?;
        let maps = [
            TensorMap::rows(x.at(), m, k, launch.tile.tokens)?,
            TensorMap::heads(weights, n, k, head_dim, launch.tile.outputs)?,
        ];
        let (mut parts, mut semaphores) = (0, 0);
        if launch.reduces {
            parts = self.slot(Slot::Sums, launch.partial_len(m, n) * 4)?;
            semaphores = self.slot(Slot::Semaphores, launch.n_semaphores(m, n) * 4)?;
        }
        let bias = w.bias.as_ref().map_or(0, Memory::at);
        let places = self.places_of_heads(layer, &queries, kind)?;
        let pointers = [&[bias][..], &places, &[parts, semaphores]].concat();
        let pointers: Vec<Argument> = pointers.into_iter().map(Argument::At).collect();
        let early = [Argument::Int(self.copies_early(part, weights).into())];
        let sizes = [m, n, k, launch.k_slice, n_heads, n_kv_heads, head_dim].map(Argument::size);
        // SAFETY: x is [m, k] and the weights [n, k] in bf16, n the heads' dimensions, 16-byte aligned; the
        // sums and semaphores are slots of the launch's lengths. All else as in `rotate`.
        unsafe {
            let (names, shape) = ((launch.tile.module(), launch.kernel), launch.shape());
            self.launch_over(names, shape, &maps, &[&early[..], &pointers, &sizes].concat())?;
        }
        Ok(Some(Queries { values: queries, kind }))
    }

    /// Norms of queries and keys that are not heads' with shared weights, before the rotation; returns the
    /// remaining ones of queries, keys and values.
    pub(super) fn norm_heads<'a>(
        &self,
        qkv: &Values,
        [q, k, v]: [Option<&'a Memory>; 3],
        width: usize,
        kind: AttentionKind,
    ) -> Result<[Option<&'a Memory>; 3], Error> {
        let &Attention { n_kv_heads, head_dim, .. } = self.config.attention(kind);
        let mut first = 0;
        for (norm, n_heads) in [(q, self.config.n_heads), (k, n_kv_heads)] {
            let Some(cols) = self.config.qk_norm.group(n_heads, head_dim) else { return Ok([q, k, v]) };
            if let Some(weight) = norm {
                self.group_norms(qkv, (width, first), weight, (n_heads * head_dim / cols, cols))?;
            }
            first += n_heads * head_dim;
        }
        Ok([None, None, v])
    }

    /// Rotates and stores heads that are in memory; `norms` are those of queries, keys and values.
    pub(super) fn rotate(
        &self,
        layer: usize,
        qkv: &Values,
        norms: [Option<&Memory>; 3],
        kind: AttentionKind,
    ) -> Result<Queries, Error> {
        let n_heads = self.config.n_heads;
        let &Attention { n_kv_heads, head_dim, rotary_dim, .. } = self.config.attention(kind);
        let width = self.config.query_width(kind);
        let queries = self.values(Slot::Queries, qkv.n_rows, 2 * width)?;
        let norms = norms.map(|norm| norm.map_or(0, Memory::at));
        let places = self.places_of_heads(layer, &queries, kind)?;
        let growth = self.plan.growth.map_or(Ok(0), |at| self.numbers().map(|numbers| at.from(numbers)))?;
        let is_gated = self.config.gated_attention;
        let gates = if is_gated { self.slot(Slot::Gates, qkv.n_rows * width * 4)? } else { 0 };
        let (tables, written) = places.split_at(4);
        let pointers = [&[qkv.at()][..], &norms, tables, &[growth], written, &[gates]].concat();
        let pointers: Vec<Argument> = pointers.into_iter().map(Argument::At).collect();
        let sizes = [qkv.n_rows, n_heads, n_kv_heads, head_dim, rotary_dim].map(Argument::size);
        let last = [Argument::Int(i32::from(self.config.norm_after_rotation)), self.eps()];
        let all_heads = n_heads + 2 * n_kv_heads + if is_gated { n_heads } else { 0 };
        let grid = [qkv.n_rows as u32, all_heads.div_ceil(4) as u32, 1];
        // SAFETY: qkv is [rows, heads dimensions] f32, the queries are [rows, heads, head_dim] bf16 and the
        // gates as many f32, 256-byte aligned places of the arena; the rotary tables cover every position of
        // the step, which was checked: its slots are in the cache. All are freed only after the stream is
        // synchronised.
        unsafe {
            let shape = Shape { grid, block: [32, 4], shared_bytes: 0 };
            self.launch(("rotate", "rotate"), shape, &[&pointers[..], &sizes, &last].concat())?;
        }
        Ok(Queries { values: queries, kind })
    }

    /// The rotation of heads and their destinations: cosines, sines, positions, slots, queries, keys, values.
    fn places_of_heads(
        &self,
        layer: usize,
        queries: &Values,
        kind: AttentionKind,
    ) -> Result<[u64; 7], Error> {
        let sliding = if kind == AttentionKind::Sliding { self.sliding_angles.as_ref() } else { None };
        let (cos, sin) = sliding.unwrap_or(&self.angles).at();
        let (keys, values) = self.cached(layer);
        let (numbers, plan) = (self.numbers()?, &self.plan);
        let [positions, slots] = [plan.positions, plan.slots].map(|at| at.from(numbers));
        Ok([cos, sin, positions, slots, queries.at(), keys, values])
    }
}
