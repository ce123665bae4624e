//! Latent attention: the projections around a cache of compressed rows, by `kernels/latent.cu`. Attention
//! over the rows is that of one head of keys, in [`super::attend`].

#![expect(unsafe_code, reason = "kernel launches trust their arguments")]

use half::bf16;

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        memory::{Memory, WEIGHTS},
        shard::Shard,
        weight_upload::WeightUpload,
        weights::Linear,
    },
    Cuda, Queries, Values,
};
use tribunal_model::{
    Result, Weights,
    backend::{Backend, Cut, Matrices},
    config::{self, AttentionKind},
};

/// The projections of one layer: those of compressed rows are the same on every card, and the others are of
/// the card's heads.
pub struct Latent {
    sizes: config::Latent,
    /// The row that is cached, behind the compressed queries where there are some.
    down: Linear,
    queries: QueryProjection,
    norm: Memory,
    /// `[heads, rank, plain_dim]` bf16, which take a query to the compressed rows.
    keys: Memory,
    /// `[heads, value_dim, rank]` bf16.
    values: Memory,
}

/// The projection of queries to heads.
enum QueryProjection {
    Direct(Linear),
    /// From compressed queries, behind their norm.
    Compressed(Memory, Linear),
}

impl Cuda {
    /// Loads a layer's projections.
    ///
    /// # Errors
    /// A missing tensor, another shape, or no memory.
    pub(super) fn latent_weights(&self, weights: &Weights, module: &str) -> Result<Latent> {
        let heads = &self.config.full;
        let missing = || weights.bad(module, "expected a model with latent attention");
        let latent = heads.latent.as_ref().ok_or_else(missing)?;
        self.check_latent(latent).map_err(|reason| weights.bad(module, &reason))?;
        let (hidden, n_heads) = (self.config.hidden, self.config.n_heads * self.shard.n_cards);
        let at = |part: &str| format!("{module}.{part}");
        let of_heads = |part: &str, k: usize| {
            let (parts, cut) = ([(at(part), n_heads * heads.query_dim())], Cut::Heads(heads.query_dim()));
            self.linear(weights, Matrices { parts: &parts, k, cut })
        };
        let mut of_rows = vec![(at("kv_a_proj_with_mqa"), heads.head_dim)];
        let queries = match latent.query_rank {
            None => QueryProjection::Direct(of_heads("q_proj", hidden)?),
            Some(rank) => {
                of_rows.insert(0, (at("q_a_proj"), rank));
                let norm = self.vector(weights.floats(&at("q_a_layernorm.weight"), rank)?)?;
                QueryProjection::Compressed(norm, of_heads("q_b_proj", rank)?)
            }
        };
        let matrices = Matrices { parts: &of_rows, k: hidden, cut: Cut::Anywhere };
        let norm = self.vector(weights.floats(&at("kv_a_layernorm.weight"), latent.rank)?)?;
        let [keys, values] = matrices_of_heads(weights, module, (n_heads, latent))?;
        let upload = &mut self.weight_upload.lock();
        let down = Linear::load(weights, matrices, Shard::WHOLE, None, upload)?;
        self.add_linear(&down);
        let mut narrowed = |matrices: Vec<f32>| {
            let of_card = matrices.len() / self.shard.n_cards;
            narrowed(&matrices[self.shard.card * of_card..][..of_card], upload)
        };
        let (keys, values) = (narrowed(keys)?, narrowed(values)?);
        Ok(Latent { sizes: latent.clone(), down, queries, norm, keys, values })
    }

    /// Checks that the kernels and the buffers of a step take these heads.
    fn check_latent(&self, latent: &config::Latent) -> std::result::Result<(), String> {
        let heads = &self.config.full;
        let are_multiples = [latent.plain_dim, latent.value_dim].iter().all(|dims| dims.is_multiple_of(8));
        let are_narrow = heads.query_dim().max(latent.value_dim) <= heads.head_dim
            && latent.query_rank.unwrap_or(0) <= self.config.query_width(AttentionKind::Full);
        if are_multiples && are_narrow {
            return Ok(());
        }
        let (queries, values, row) = (heads.query_dim(), latent.value_dim, heads.head_dim);
        Err(format!(
            "has heads of {queries} and {values} values beside a cached row of {row}; the CUDA kernels take multiples of 8 \
             up to the row's width; hint: `--device cpu` runs the model"
        ))
    }

    /// The queries of normed rows, in the space of the cached rows, and rotated; writes the rows' own
    /// compressed values, normed, and their rotated ones to the cache.
    pub(super) fn latent_queries(&mut self, layer: usize, h: &Values, latent: &Latent) -> Result<Queries> {
        let rows = self.product(h, &latent.down)?;
        self.store_latent(layer, &rows, latent)?;
        let x = match &latent.queries {
            QueryProjection::Direct(queries) => self.product(h, queries)?,
            QueryProjection::Compressed(norm, up) => {
                let normed = self.norm_latent(&rows, latent, (norm, up.k))?;
                self.product(&normed, up)?
            }
        };
        Ok(self.absorb(&x, latent)?)
    }

    /// Norms of compressed queries, the first values of each row of a product.
    fn norm_latent(
        &self,
        x: &Values,
        latent: &Latent,
        (weight, n): (&Memory, usize),
    ) -> Result<Values, Error> {
        let out = self.values(Slot::Attended, x.n_rows, 2 * n)?;
        let pointers = [x.at(), weight.at(), out.at()].map(Argument::At);
        let sizes = [x.n_rows, latent.down.n, n].map(Argument::size);
        let eps = [Argument::Float(latent.sizes.norm_eps as f32)];
        let shape = Shape::new([x.n_rows, 1], 256);
        // SAFETY: x is [rows, pitch] f32, of which the n values are the first, the weight [n] f32 and out
        // [rows, n] bf16; all are freed only after the stream is synchronised.
        unsafe { self.launch(("latent", "latent_norm"), shape, &[&pointers[..], &sizes, &eps].concat())? };
        Ok(out)
    }

    /// Writes the last values of each row of a product to the row's slot of the cache.
    fn store_latent(&self, layer: usize, x: &Values, latent: &Latent) -> Result<(), Error> {
        let (heads, sizes, pitch) = (&self.config.full, &latent.sizes, latent.down.n);
        let rows = x.at() + 4 * (pitch - heads.head_dim) as u64;
        let (cos, sin) = self.angles.at();
        let (cache, _) = self.cached(layer);
        let numbers = self.numbers()?;
        let [positions, slots] = [self.plan.positions, self.plan.slots].map(|at| at.from(numbers));
        let pointers = [rows, latent.norm.at(), cos, sin, positions, slots, cache].map(Argument::At);
        let numbers = [x.n_rows, pitch, sizes.rank, heads.rotary_dim].map(Argument::size);
        let how = [Argument::Int(i32::from(sizes.is_interleaved)), Argument::Float(sizes.norm_eps as f32)];
        let shape = Shape::new([x.n_rows, 1], 256);
        // SAFETY: the rows' last head_dim values are those of the cached row; the rotary tables cover every
        // position of the step, which was checked: its slots are in the cache. All are freed only after the
        // stream is synchronised.
        unsafe { self.launch(("latent", "latent_store"), shape, &[&pointers[..], &numbers, &how].concat()) }
    }

    /// Queries of the cached rows from those of heads.
    fn absorb(&self, x: &Values, latent: &Latent) -> Result<Queries, Error> {
        let (heads, sizes) = (&self.config.full, &latent.sizes);
        let (n_rows, n_heads, rank) = (x.n_rows, self.config.n_heads, sizes.rank);
        let pitch = n_heads * heads.query_dim();
        let values = self.values(Slot::Queries, n_rows, 2 * self.config.query_width(AttentionKind::Full))?;
        let growth = self.plan.growth.map_or(Ok(0), |at| self.numbers().map(|numbers| at.from(numbers)))?;
        let positions = self.plan.positions.from(self.numbers()?);
        let (cos, sin) = self.angles.at();
        let pointers = [x.at(), cos, sin, positions, growth, values.at()].map(Argument::At);
        let numbers = [n_rows, pitch, n_heads, rank, sizes.plain_dim, heads.rotary_dim].map(Argument::size);
        let arguments = [&pointers[..], &numbers, &[Argument::Int(i32::from(sizes.is_interleaved))]].concat();
        let grid = [n_rows as u32, n_heads.div_ceil(4) as u32, 1];
        let shape = Shape { grid, block: [32, 4], shared_bytes: 0 };
        // SAFETY: x is [rows, pitch] f32, the queries are [rows, heads, head_dim] bf16; the rotary tables
        // cover every position of the step. All are freed only after the stream is synchronised.
        unsafe { self.launch(("latent", "latent_rotate"), shape, &arguments)? };
        let pointers = [x.at(), latent.keys.at(), growth, values.at()].map(Argument::At);
        // SAFETY: as above; the keys are [heads, rank, plain_dim] bf16.
        unsafe {
            let shape = by_head(n_rows, n_heads, rank);
            self.launch(("latent", "latent_absorb"), shape, &[&pointers[..], &numbers].concat())?;
        }
        Ok(Queries { values, kind: AttentionKind::Full })
    }

    /// The output of each head from the compressed values that it attends to.
    ///
    /// Shape: `[rows, heads, head_dim]`, of which the first `rank` are read -> `[rows, heads value_dim]`.
    pub(super) fn expanded(&self, attended: &Values, latent: &Latent) -> Result<Values, Error> {
        let (heads, sizes) = (&self.config.full, &latent.sizes);
        let (n_rows, n_heads) = (attended.n_rows, self.config.n_heads);
        let out = self.values(Slot::Queries, n_rows, 2 * n_heads * sizes.value_dim)?;
        let pointers = [attended.at(), latent.values.at(), out.at()].map(Argument::At);
        let numbers = [n_rows, n_heads, sizes.rank, heads.rotary_dim, sizes.value_dim].map(Argument::size);
        let shape = by_head(n_rows, n_heads, sizes.value_dim);
        // SAFETY: the attended values are [rows, heads, head_dim] bf16, the values' matrices [heads,
        // value_dim, rank] bf16 and the output [rows, heads, value_dim] bf16, 256-byte aligned places that
        // are freed only after the stream is synchronised.
        unsafe { self.launch(("latent", "latent_expand"), shape, &[&pointers[..], &numbers].concat())? };
        Ok(out)
    }
}

/// The launch of products by head of so many outputs each.
fn by_head(n_rows: usize, n_heads: usize, n: usize) -> Shape {
    let grid = [n_rows.div_ceil(16) as u32, n_heads as u32, n.div_ceil(32) as u32];
    Shape { grid, block: [128, 1], shared_bytes: 0 }
}

/// The matrices of each head's keys, transposed, and of its values: rows in turns of one tensor, or two
/// tensors as llama.cpp's converter splits them.
fn matrices_of_heads(
    weights: &Weights,
    module: &str,
    (n_heads, latent): (usize, &config::Latent),
) -> Result<[Vec<f32>; 2]> {
    let &config::Latent { rank, plain_dim, value_dim, .. } = latent;
    let floats = |part: &str, shape: [usize; 2]| {
        let name = format!("{module}.{part}.weight");
        let stored = weights.get(&name, &shape)?;
        weights.used(&name);
        Ok::<_, tribunal_model::Error>(tribunal_model::weights::values(stored.dtype, &stored.bytes))
    };
    if !weights.contains(&format!("{module}.kv_b_proj.weight")) {
        let keys = floats("k_b_proj", [n_heads * rank, plain_dim])?;
        return Ok([keys, floats("v_b_proj", [n_heads * value_dim, rank])?]);
    }
    let both = floats("kv_b_proj", [n_heads * (plain_dim + value_dim), rank])?;
    let [mut keys, mut values] = [Vec::new(), Vec::new()];
    for head in both.chunks_exact((plain_dim + value_dim) * rank) {
        let (of_keys, of_values) = head.split_at(plain_dim * rank);
        keys.extend((0..rank).flat_map(|column| of_keys.iter().skip(column).step_by(rank)));
        values.extend_from_slice(of_values);
    }
    Ok([keys, values])
}

/// Numbers on the device, rounded to bf16.
fn narrowed(values: &[f32], upload: &mut WeightUpload) -> Result<Memory, Error> {
    let bytes: Vec<u8> = values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect();
    let memory = upload.bytes(&bytes, WEIGHTS)?;
    upload.finish()?;
    Ok(memory)
}
