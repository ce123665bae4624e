//! Attention: the launches of a plan's work tiles, and the merge of KV splits.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        plan::{self, Attention},
        work_tiles::Limits,
    },
    Cuda, Values,
};
use crate::model::{
    backend::Rows,
    config::{self, AttentionKind},
};

impl Cuda {
    /// Softmax of queries and one layer's cached keys, times its cached values.
    pub(super) fn attention(
        &self,
        layer: usize,
        queries: &Values,
        rows: Rows,
        kind: AttentionKind,
    ) -> Result<Values, Error> {
        let out = self.values(Slot::Attended, queries.n_rows, 2 * self.query_width())?;
        let attention = self.plan.attention(rows, kind);
        let heads = self.config.attention(kind);
        for launch in &attention.rows {
            let outputs = [out.at()];
            self.attend_work_tiles(layer, queries, attention, launch, launch.tile.rows, &outputs, heads)?;
        }
        self.attend_splits(layer, queries, attention, &out, heads)?;
        if self.config.gated_attention {
            self.gate_attended(&out, rows)?;
        }
        Ok(out)
    }

    /// Attention of the rows whose keys are split, and the merge of their splits.
    fn attend_splits(
        &self,
        layer: usize,
        queries: &Values,
        attention: &Attention,
        out: &Values,
        heads: &config::Attention,
    ) -> Result<(), Error> {
        if attention.splits.is_empty() {
            return Ok(());
        }
        let (n_heads, head_dim, window) = (self.config.n_heads, heads.head_dim, heads.window.unwrap_or(0));
        let splits = self.slot(Slot::Splits, attention.n_splits * n_heads * head_dim * 4)?;
        let peaks = self.slot(Slot::Peaks, attention.n_splits * n_heads * 8)?;
        let numbers = self.numbers()?;
        let [starts, positions] = [attention.split_starts, attention.positions].map(|at| at.from(numbers));
        for launch in &attention.splits {
            let outputs = [splits, peaks, starts];
            self.attend_work_tiles(layer, queries, attention, launch, launch.tile.split_kv, &outputs, heads)?;
        }
        let pointers = [splits, peaks, starts, positions, out.at()].map(Argument::At);
        let sizes = [queries.n_rows, n_heads, head_dim, window].map(Argument::size);
        let shape = Shape::new([queries.n_rows, (n_heads * head_dim).div_ceil(512)], 128);
        // SAFETY: `splits` is [n_splits, heads, head_dim] and `peaks` [n_splits, heads, 2] in f32, 256-byte aligned
        // places of the arena, which is freed only after the stream is synchronised; each row with splits has the index
        // of its first.
        unsafe { self.launch(("attend_merge", "attend_merge"), shape, &[&pointers[..], &sizes].concat()) }
    }

    /// Multiplies attended values by the sigmoids of their gates.
    fn gate_attended(&self, attended: &Values, rows: Rows) -> Result<(), Error> {
        let (n_rows, width) = (attended.n_rows, self.query_width());
        let is_taken = rows == Rows::Wanted && !self.plan.takes_all();
        let gates = if is_taken { Slot::WantedGates } else { Slot::Gates };
        let pointers = [attended.at(), self.slot(gates, 4 * n_rows * width)?].map(Argument::At);
        let sizes = [n_rows, width].map(Argument::size);
        let shape = Shape::new([n_rows, width.div_ceil(1024)], 256);
        // SAFETY: the attended values are [rows, width] bf16 and the gates as many f32, 256-byte aligned places of the
        // arena; the width is a multiple of 16.
        unsafe { self.launch(("attend_gate", "attend_gate"), shape, &[&pointers[..], &sizes].concat()) }
    }

    /// The wanted rows of the stream, of the queries and of the gates of attended values.
    pub(super) fn take_wanted_rows(
        &mut self,
        x: &Values,
        queries: &Values,
    ) -> Result<(Values, Values), Error> {
        self.plan.adapted = self.plan.wanted_adapted;
        let (n, hidden, width) = (self.plan.n_wanted, self.config.hidden, self.query_width());
        let wanted = self.plan.wanted.from(self.numbers()?);
        let of_stream = self.values(Slot::WantedStream, n, 4 * hidden)?;
        let of_queries = self.values(Slot::WantedQueries, n, 2 * width)?;
        self.take_rows(x, wanted, &of_stream, hidden, 4)?;
        self.take_rows(queries, wanted, &of_queries, width, 2)?;
        if self.config.gated_attention {
            let all = self.values(Slot::Gates, queries.n_rows, 4 * width)?;
            let of_gates = self.values(Slot::WantedGates, n, 4 * width)?;
            self.take_rows(&all, wanted, &of_gates, width, 4)?;
        }
        Ok((of_stream, of_queries))
    }

    /// Attention of one launch's work tiles, to `outputs`.
    #[expect(clippy::too_many_arguments, reason = "attention reads that much")]
    fn attend_work_tiles(
        &self,
        layer: usize,
        queries: &Values,
        attention: &Attention,
        launch: &plan::Launch,
        kernel: &'static str,
        outputs: &[u64],
        heads: &config::Attention,
    ) -> Result<(), Error> {
        let &config::Attention { n_kv_heads, head_dim, window, .. } = heads;
        let (n_heads, attention_scale) = (self.config.n_heads, self.config.attention_scale);
        let (keys, values) = self.cached(layer);
        let Attention { order, positions, sequences, .. } = *attention;
        let steps =
            [launch.work_tiles, order, positions, sequences, self.plan.block_starts, self.plan.blocks];
        let numbers = self.numbers()?;
        let steps = steps.map(|at| at.from(numbers));
        let pointers = [&[queries.at(), keys, values][..], &steps, outputs].concat();
        let sizes =
            [launch.n_work_tiles, n_heads, n_kv_heads, head_dim, window.unwrap_or(0)].map(Argument::size);
        let pointers: Vec<Argument> = pointers.into_iter().map(Argument::At).collect();
        let cap = self.config.score_softcap.map_or([0.0, 0.0], |cap| [cap, -2.0 / cap]);
        let floats = [attention_scale, cap[0], cap[1]].map(Argument::Float);
        let arguments = [&pointers[..], &sizes, &floats].concat();
        let shared_bytes = launch.tile.shared_bytes;
        let shape =
            Shape { shared_bytes, ..Shape::new([launch.n_work_tiles, n_kv_heads], launch.tile.threads) };
        // SAFETY: the step was checked: its blocks are in the cache and hold its positions; the plan's work tiles are
        // rows of the queries, and the outputs are slots for all of them. Cache and arena are 256-byte aligned and
        // freed only after the stream is synchronised.
        unsafe { self.launch((launch.tile.module, kernel), shape, &arguments) }
    }

    /// What attention may use.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            multiprocessors: self.gpu.multiprocessors(),
            shared_bytes: self.gpu.attention_bytes(),
            splits: self.most_splits(),
            cascade: self.gpu.cascades(),
        }
    }
}
