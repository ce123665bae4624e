//! Attention: the launches of a plan's work tiles, and the merge of KV splits.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        memory::Memory,
        plan::{self, Attention},
        products::SplitK,
        tensor_map::TensorMap,
        work_tiles::Limits,
    },
    Cuda, Queries, Values,
};
use tribunal_model::{BLOCK, backend::Rows, config};

/// Some rows' queries of one layer, and the keys and values that they attend to.
struct Attended<'a> {
    layer: usize,
    queries: &'a Queries,
    heads: &'a config::Attention,
    plan: &'a Attention,
    /// The sinks of this card's heads; 0 without any.
    sinks: u64,
}

impl Cuda {
    /// Softmax of queries and one layer's cached keys, times its cached values.
    pub(super) fn attention(
        &self,
        layer: usize,
        queries: &Queries,
        rows: Rows,
        sinks: Option<&Memory>,
    ) -> Result<Values, Error> {
        let kind = queries.kind;
        let out = self.values(Slot::Attended, queries.values.n_rows, 2 * self.config.query_width(kind))?;
        let first_head = self.shard.card * self.config.n_heads;
        let attended = Attended {
            layer,
            queries,
            heads: self.config.attention(kind),
            plan: self.plan.attention(rows, kind),
            sinks: sinks.map_or(0, |sinks| sinks.at() + 4 * first_head as u64),
        };
        for launch in &attended.plan.rows {
            self.attend_work_tiles(&attended, launch, launch.tile.rows, &[attended.sinks, out.at()])?;
        }
        self.attend_splits(&attended, &out)?;
        if self.config.gated_attention {
            self.gate_attended(&out, rows, self.config.query_width(kind))?;
        }
        Ok(out)
    }

    /// Attention of the rows whose keys are split, and the merge of their splits.
    fn attend_splits(&self, attended: &Attended<'_>, out: &Values) -> Result<(), Error> {
        let &Attended { plan, heads, sinks, .. } = attended;
        if plan.splits.is_empty() {
            return Ok(());
        }
        let (n_heads, head_dim, window) = (self.config.n_heads, heads.head_dim, heads.window.unwrap_or(0));
        let splits = self.slot(Slot::Splits, plan.n_splits * n_heads * head_dim * 4)?;
        let peaks = self.slot(Slot::Peaks, plan.n_splits * n_heads * 8)?;
        let numbers = self.numbers()?;
        let [starts, positions] = [plan.split_starts, plan.positions].map(|at| at.from(numbers));
        let mut outputs = vec![splits, peaks, starts];
        if plan.merges {
            outputs.extend([sinks, out.at(), self.slot(Slot::Semaphores, SplitK::SEMAPHORE_BYTES)?]);
        }
        for launch in &plan.splits {
            let kernel = launch.tile.merged.filter(|_| plan.merges).unwrap_or(launch.tile.split_kv);
            self.attend_work_tiles(attended, launch, kernel, &outputs)?;
        }
        if plan.merges {
            return Ok(());
        }
        let pointers = [splits, peaks, starts, positions, sinks, out.at()].map(Argument::At);
        let sizes = [out.n_rows, n_heads, head_dim, window].map(Argument::size);
        let shape = Shape::new([out.n_rows, (n_heads * head_dim).div_ceil(512)], 128);
        // SAFETY: `splits` is [n_splits, heads, head_dim] and `peaks` [n_splits, heads, 2] in f32, 256-byte
        // aligned places of the arena, which is freed only after the stream is synchronised; each row with
        // splits has the index of its first; there is a sink for each head, or none.
        unsafe { self.launch(("attend_merge", "attend_merge"), shape, &[&pointers[..], &sizes].concat()) }
    }

    /// Multiplies attended values by the sigmoids of their gates.
    fn gate_attended(&self, attended: &Values, rows: Rows, width: usize) -> Result<(), Error> {
        let n_rows = attended.n_rows;
        let is_taken = rows == Rows::Wanted && !self.plan.takes_all();
        let gates = if is_taken { Slot::WantedGates } else { Slot::Gates };
        let pointers = [attended.at(), self.slot(gates, 4 * n_rows * width)?].map(Argument::At);
        let sizes = [n_rows, width].map(Argument::size);
        let shape = Shape::new([n_rows, width.div_ceil(1024)], 256);
        // SAFETY: the attended values are [rows, width] bf16 and the gates as many f32, 256-byte aligned
        // places of the arena; the width is a multiple of 16.
        unsafe { self.launch(("attend_gate", "attend_gate"), shape, &[&pointers[..], &sizes].concat()) }
    }

    /// The stream, the queries and the gates of attended values of the rows with logits.
    pub(super) fn take_wanted_rows(
        &mut self,
        x: &Values,
        queries: Queries,
    ) -> Result<(Values, Queries), Error> {
        self.plan.adapted = self.plan.wanted_adapted;
        let (n, hidden) = (self.plan.n_wanted, self.config.hidden);
        let width = self.config.query_width(queries.kind);
        let logit_rows = self.plan.wanted.from(self.numbers()?);
        let of_stream = self.values(Slot::WantedStream, n, 4 * hidden)?;
        let of_queries = self.values(Slot::WantedQueries, n, 2 * width)?;
        self.take_rows(x, logit_rows, &of_stream, hidden, 4)?;
        self.take_rows(&queries.values, logit_rows, &of_queries, width, 2)?;
        if self.config.gated_attention {
            let all = self.values(Slot::Gates, queries.values.n_rows, 4 * width)?;
            let of_gates = self.values(Slot::WantedGates, n, 4 * width)?;
            self.take_rows(&all, logit_rows, &of_gates, width, 4)?;
        }
        Ok((of_stream, Queries { values: of_queries, ..queries }))
    }

    /// Attention of one launch's work tiles, to `outputs`.
    fn attend_work_tiles(
        &self,
        attended: &Attended<'_>,
        launch: &plan::Launch,
        kernel: &'static str,
        outputs: &[u64],
    ) -> Result<(), Error> {
        let &config::Attention { n_kv_heads, head_dim, window, .. } = attended.heads;
        let (n_heads, attention_scale) = (self.config.n_heads, self.config.attention_scale);
        let (keys, values) = self.cached(attended.layer);
        let Attention { order, positions, sequences, .. } = *attended.plan;
        let steps =
            [launch.work_tiles, order, positions, sequences, self.plan.block_starts, self.plan.blocks];
        let numbers = self.numbers()?;
        let steps = steps.map(|at| at.from(numbers));
        let (mut maps, mut cached) = (Vec::new(), vec![keys, values]);
        if launch.tile.by_tma {
            let rows = self.n_blocks * n_kv_heads * BLOCK;
            let map = |at| TensorMap::rows(at, rows, head_dim, BLOCK);
            maps = cached.drain(..).map(map).collect::<Result<_, _>>()?;
        }
        let pointers = [&[attended.queries.values.at()][..], &cached, &steps, outputs].concat();
        let sizes =
            [launch.n_work_tiles, n_heads, n_kv_heads, head_dim, window.unwrap_or(0)].map(Argument::size);
        let pointers: Vec<Argument> = pointers.into_iter().map(Argument::At).collect();
        let cap = self.config.score_softcap.map_or([0.0, 0.0], |cap| [cap, -2.0 / cap]);
        let floats = [attention_scale, cap[0], cap[1]].map(Argument::Float);
        let arguments = [&pointers[..], &sizes, &floats].concat();
        let shared_bytes = launch.tile.shared_bytes;
        let shape =
            Shape { shared_bytes, ..Shape::new([launch.n_work_tiles, n_kv_heads], launch.tile.threads) };
        // SAFETY: the step was checked: its blocks are in the cache and hold its positions; the plan's work
        // tiles are rows of the queries, and the outputs are slots for all of them. Cache and arena are
        // 256-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch_over((launch.tile.module, kernel), shape, &maps, &arguments) }
    }

    /// The limits of attention's resources.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            multiprocessors: self.gpu.multiprocessors(),
            shared_bytes: self.gpu.attention_bytes(),
            splits: self.most_splits(),
            cascade: self.gpu.cascade,
            new_tma: self.gpu.takes_new_tma(),
            merges: self.gpu.new_kernels,
        }
    }
}
