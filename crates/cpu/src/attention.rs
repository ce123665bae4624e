//! Attention of a step's queries over the paged cache: rows grouped into tiles, tiles distributed over
//! threads. The arithmetic of a tile is in [`super::attend`].

use rayon::prelude::*;

use super::{
    Isa,
    attend::{Cached, Row, Scratch, TOGETHER, attend},
    lanes::Stored,
    shared::Shared,
};
use tribunal_model::{
    Config,
    config::{Attention, AttentionKind},
    step::Step,
};

/// The rows of one attention.
pub(super) struct Queries<'a> {
    /// Shape: `[rows, heads head_dim]`, already scaled.
    pub values: &'a [f32],
    /// The step's row of each of them.
    pub rows: &'a [u32],
    /// All rows; those that read the same blocks are neighbours.
    pub order: &'a [u32],
}

/// Softmax of queries and keys, times values.
///
/// Shape: `[rows, heads value_dim]`.
pub(super) fn attended<S: Stored>(
    (config, kind, sinks): (&Config, AttentionKind, Option<&[f32]>),
    isa: Isa,
    step: &Step,
    queries: &Queries<'_>,
    cache: (&[S], &[S]),
) -> Vec<f32> {
    let attention = config.attention(kind);
    let (&Attention { n_kv_heads, head_dim, window, .. }, value_dim) = (attention, attention.attended_dim());
    let group = config.n_heads / n_kv_heads;
    let cached = Cached {
        keys: cache.0,
        values: cache.1,
        n_kv_heads,
        head_dim,
        value_dim,
        window,
        softcap: config.score_softcap,
        sinks,
    };
    let tasks: Vec<(&[u32], usize)> = queries
        .order
        .chunks(rows_a_tile(group))
        .flat_map(|tile| (0..n_kv_heads).map(move |head| (tile, head)))
        .collect();
    let mut out = vec![0.0; queries.rows.len() * config.n_heads * value_dim];
    let places = Shared::new(&mut out);
    tasks.par_iter().for_each_init(Buffers::default, |buffers, &(tile, head)| {
        let row = |&i: &u32| {
            let row = queries.rows[i as usize];
            Row { position: step.positions[row as usize] as usize, blocks: step.blocks_of_row(row) }
        };
        let rows: Vec<Row<'_>> = tile.iter().map(row).collect();
        // The queries of one kv head, side by side: [rows, group, head_dim].
        let place = |i: u32, dim: usize| {
            let first = (i as usize * config.n_heads + head * group) * dim;
            first..first + group * dim
        };
        buffers.scratch.queries.clear();
        for &i in tile {
            buffers.scratch.queries.extend_from_slice(&queries.values[place(i, head_dim)]);
        }
        buffers.out.resize(rows.len() * group * value_dim, 0.0);
        attend(isa, cached, head, &rows, &mut buffers.scratch, &mut buffers.out);
        for (&i, values) in tile.iter().zip(buffers.out.chunks_exact(group * value_dim)) {
            // SAFETY: each row is in one tile, and each pair of tile and head is one task, so that no two
            // tasks write the same range; the range is inside `out`, else `part` panics.
            unsafe { places.part(place(i, value_dim)) }.copy_from_slice(values);
        }
    });
    out
}

/// One thread's buffers.
#[derive(Default)]
struct Buffers<S> {
    scratch: Scratch<S>,
    out: Vec<f32>,
}

/// Rows of a tile: their queries fill whole registers, many share one reading of the keys, and their scores
/// stay in the second-level cache.
fn rows_a_tile(group: usize) -> usize {
    let rows_in_full_tiles =
        (1..=TOGETHER).find(|rows| (rows * group).is_multiple_of(TOGETHER)).unwrap_or(TOGETHER);
    rows_in_full_tiles * (24_usize.div_ceil(rows_in_full_tiles * group)).max(1)
}
