//! Divides a step's attention into work tiles, one for each block of threads and kv head. Integers only; no
//! choice here changes a bit: a row's KV splits are always merged in order.
//!
//! A row is computed whole by `attend_rows` (a chunk of a prompt: many rows of one sequence read the same
//! keys), or one KV split at a time by `attend_split_kv`, merged by `attend_merge` (FlashDecoding);
//! `attend_merged` does both, for ranges of splits too. Splits keep every multiprocessor busy when there are
//! few rows, and read a prefix that many sequences share once for as many rows as a tile holds; they cost
//! memory and a pass over it. `kernels/attend_plain.cu` defines work tiles.

use std::{cmp::Reverse, ops::Range};

use super::{
    products::SplitK,
    tiles::{PLAIN, Tile, tiles},
};
use tribunal_model::BLOCK;

/// Keys of a split; must equal that in `kernels/attention.cuh`.
pub const SPLIT: usize = 256;
const SPLIT_BLOCKS: usize = SPLIT / BLOCK;
/// Keys that are read while a block starts: dependent loads of a few microseconds (calculated).
const START: usize = 64;

/// Rows of queries and the blocks that they read: those of a step, or those of its rows with logits.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// Every row once, a sequence's rows side by side by position, sequences that share blocks next to each
    /// other.
    pub order: &'a [u32],
    /// Shape: `[rows]`; a row's position in its sequence.
    pub positions: &'a [u32],
    /// Shape: `[rows]`; the row's sequence.
    pub sequences: &'a [u32],
    /// Shape: `[sequences + 1]`; the start of each sequence's blocks in `blocks`.
    pub block_starts: &'a [u32],
    pub blocks: &'a [u32],
}

/// A model's heads.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

/// Limits of the device, and the memory for KV splits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub multiprocessors: usize,
    /// The most dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// The most KV splits of a step; each takes [`split_bytes`].
    pub splits: usize,
    /// True if rows of different sequences read the keys of a shared prefix together. False for measurements.
    pub cascade: bool,
    /// True if tiles by TMA may be chosen.
    pub new_tma: bool,
    /// True if splits may be merged by their last block, in ranges; rows of one split then go with others'
    /// splits, to save a launch.
    pub merges: bool,
}

/// Bytes of one row's KV split: its sums, its peaks and its totals.
pub fn split_bytes(n_heads: usize, head_dim: usize) -> usize {
    n_heads * (head_dim + 2) * 4
}

/// One launch: the kernels of a tile, and its work tiles.
#[derive(Debug, PartialEq, Eq)]
pub struct Launch {
    pub tile: &'static Tile,
    pub n_work_tiles: usize,
    /// Shape: `[n_work_tiles, 2]` (first place in `order`, rows) for rows, `[n_work_tiles, 4]` (first, rows,
    /// split, further splits) for splits.
    pub work_tiles: Vec<u32>,
}

/// The work tiles of the rows of one window.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkTiles {
    /// Launches of `attend_rows`.
    pub rows: Vec<Launch>,
    /// Launches of `attend_merged` if `merges`, otherwise of `attend_split_kv`, which `attend_merge` follows.
    pub splits: Vec<Launch>,
    pub merges: bool,
    /// Shape: `[rows]`; the index of a row's first split, -1 for rows of `attend_rows`.
    pub split_starts: Vec<i32>,
    pub n_splits: usize,
}

/// Divides the attention of `queries` into work tiles; each row sees `window` keys, its own included, or all.
pub fn plan(queries: Queries<'_>, heads: Heads, window: Option<usize>, limits: Limits) -> WorkTiles {
    let group = heads.n_heads / heads.n_kv_heads;
    let tiles = tiles(heads.head_dim, group, limits.shared_bytes, limits.new_tma);
    let planner = Planner { queries, group, n_kv_heads: heads.n_kv_heads, window, tiles, limits };
    planner.plan()
}

struct Planner<'a> {
    queries: Queries<'a>,
    /// Queries of a row and kv head.
    group: usize,
    n_kv_heads: usize,
    window: Option<usize>,
    /// The smaller ones first.
    tiles: Vec<&'static Tile>,
    limits: Limits,
}

/// Neighbours in the order: rows of one sequence, or rows whose blocks of one split are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: usize,
    n: usize,
}

/// A run that fits a tile.
#[derive(Clone, Copy)]
struct WorkTile {
    tile: &'static Tile,
    run: Run,
    split: usize,
    /// Splits after it, which the same rows see.
    further: usize,
    /// Keys that it reads.
    n_keys: usize,
}

impl Planner<'_> {
    fn plan(&self) -> WorkTiles {
        let runs = self.sequences();
        let by_splits = self.choose(&runs);
        let rows = runs.iter().filter(|run| !by_splits[run.first]);
        let rows = rows.flat_map(|&run| self.whole(run));
        let mut splits = self.split_tiles(&by_splits);
        let few = 4 * by_splits.len() * self.n_kv_heads <= SplitK::SEMAPHORE_BYTES;
        let merges = self.limits.merges && few && splits.iter().all(|work| work.tile.merged.is_some());
        if merges {
            splits = self.in_ranges(splits);
        }
        let mut n_splits = 0;
        let mut split_starts = vec![-1; self.queries.positions.len()];
        for place in (0..by_splits.len()).filter(|&place| by_splits[place]) {
            split_starts[self.row(place)] = n_splits as i32;
            n_splits += self.n_splits(place);
        }
        WorkTiles {
            rows: self.launches(rows.collect(), 2),
            splits: self.launches(splits, 4),
            merges,
            split_starts,
            n_splits,
        }
    }

    /// For each place in the order, true if its row is computed by splits.
    fn choose(&self, runs: &[Run]) -> Vec<bool> {
        let most = self.rows_of(self.tiles[self.tiles.len() - 1]);
        let blocks = |run: &Run| run.n.div_ceil(most) * self.n_kv_heads;
        // Chunks that fill tiles gain nothing from neighbours; they are computed whole if they keep the
        // device busy.
        let is_chunk = |run: &Run| run.n >= most;
        let of_chunks: usize = runs.iter().filter(|run| is_chunk(run)).map(blocks).sum();
        let chunks_whole = of_chunks >= 2 * self.limits.multiprocessors;
        let mut left = self.limits.splits;
        let mut by_splits = vec![false; self.queries.order.len()];
        let mut chosen = Vec::new();
        for run in runs {
            let n_splits: usize = (run.first..run.first + run.n).map(|place| self.n_splits(place)).sum();
            if n_splits == run.n || is_chunk(run) && chunks_whole || n_splits > left {
                continue;
            }
            left -= n_splits;
            by_splits[run.first..run.first + run.n].fill(true);
            chosen.push(*run);
        }
        // So many rows that whole ones keep the device busy too: splits must save reading.
        if chosen.iter().map(blocks).sum::<usize>() >= 4 * self.limits.multiprocessors {
            let keys = |work_tiles: &[WorkTile]| work_tiles.iter().map(|work| work.n_keys).sum::<usize>();
            let tiles: Vec<WorkTile> = chosen.iter().flat_map(|&run| self.whole(run)).collect();
            if 4 * keys(&self.split_tiles(&by_splits)) > 3 * keys(&tiles) {
                by_splits.fill(false);
            }
        }
        if self.limits.merges && by_splits.contains(&true) {
            for run in runs.iter().filter(|run| !is_chunk(run)) {
                let places = run.first..run.first + run.n;
                if places.clone().all(|place| self.n_splits(place) == 1) && run.n <= left {
                    left -= run.n;
                    by_splits[places].fill(true);
                }
            }
        }
        by_splits
    }

    /// The runs of rows of one sequence.
    fn sequences(&self) -> Vec<Run> {
        let sequence = |&row: &u32| self.queries.sequences[row as usize];
        let mut first = 0;
        let runs = self.queries.order.chunk_by(|a, b| sequence(a) == sequence(b)).map(|rows| {
            first += rows.len();
            Run { first: first - rows.len(), n: rows.len() }
        });
        runs.collect()
    }

    /// Each split's runs of rows whose blocks of it are the same, in pieces that fit tiles.
    fn split_tiles(&self, by_splits: &[bool]) -> Vec<WorkTile> {
        let places = || (0..by_splits.len()).filter(|&place| by_splits[place]);
        let last = places().map(|place| self.last_split(place)).max();
        let mut work_tiles = Vec::new();
        for split in 0..last.map_or(0, |last| last + 1) {
            let mut runs: Vec<Sharing> = Vec::new();
            for place in places().filter(|&place| self.sees(place, split)) {
                let len = self.blocks(place, split).len();
                match runs.last_mut() {
                    Some(run) if self.joins(run, place, split) => run.add(place, len),
                    _ => runs.push(Sharing { run: Run { first: place, n: 1 }, longest: place, len }),
                }
            }
            let pieces = runs.into_iter().flat_map(|shared| self.cut(shared.run));
            work_tiles.extend(pieces.map(|piece| self.work_tile(piece, split * SPLIT..(split + 1) * SPLIT)));
        }
        work_tiles
    }

    /// Joins neighbouring splits of the same rows to ranges, of the length with which the last block is
    /// expected to end earliest.
    fn in_ranges(&self, mut splits: Vec<WorkTile>) -> Vec<WorkTile> {
        splits.sort_by_key(|work| (work.run.first, work.split));
        let follows = |a: &WorkTile, b: &WorkTile| a.run == b.run && a.split + 1 == b.split;
        let chains: Vec<&[WorkTile]> = splits.chunk_by(follows).collect();
        let longest = chains.iter().map(|chain| chain.len()).max().unwrap_or(1);
        // The driver takes 1 KiB of each block's memory; registers suffice for four blocks.
        let of_block = self.tiles[0].shared_bytes as usize + 1024;
        let at_once = self.limits.multiprocessors * (self.limits.shared_bytes / of_block).clamp(1, 4);
        let cost = |most: &usize| {
            let ranges: usize = chains.iter().map(|chain| chain.len().div_ceil(*most)).sum();
            (ranges * self.n_kv_heads).div_ceil(at_once) * (most * SPLIT + START)
        };
        let lengths = (0..usize::BITS).map(|i| 1 << i).take_while(|&most| most < 2 * longest);
        let most = lengths.map(|most| most.min(longest)).min_by_key(cost).unwrap_or(1);
        let range = |splits: &[WorkTile]| WorkTile {
            further: splits.len() - 1,
            n_keys: splits.iter().map(|work| work.n_keys).sum(),
            ..splits[0]
        };
        chains.iter().flat_map(|chain| chain.chunks(most)).map(range).collect()
    }

    /// Returns true if the row at `place` is the next of the run and has the same blocks of the split, as far
    /// as both read.
    fn joins(&self, run: &Sharing, place: usize, split: usize) -> bool {
        if place != run.run.first + run.run.n {
            return false;
        }
        let sequence = |place| self.queries.sequences[self.row(place)];
        if sequence(place) == sequence(run.longest) {
            return true;
        }
        if !self.limits.cascade {
            return false;
        }
        let (ours, theirs) = (self.blocks(place, split), self.blocks(run.longest, split));
        let n = ours.len().min(theirs.len());
        ours[..n] == theirs[..n]
    }

    /// Pieces of a run that fit the largest tile.
    fn cut(&self, run: Run) -> impl Iterator<Item = Run> + use<> {
        let most = self.rows_of(self.tiles[self.tiles.len() - 1]);
        let end = run.first + run.n;
        (run.first..end).step_by(most).map(move |first| Run { first, n: most.min(end - first) })
    }

    /// A run that fits a tile, and the keys of a range that its rows see.
    fn work_tile(&self, run: Run, keys: Range<usize>) -> WorkTile {
        let places = run.first..run.first + run.n;
        let first = places.clone().map(|place| self.first_key(place)).min().unwrap_or(0).max(keys.start);
        let end = places.map(|place| self.position(place) + 1).max().unwrap_or(0).min(keys.end);
        WorkTile { tile: self.tile(run.n), run, split: keys.start / SPLIT, further: 0, n_keys: end - first }
    }

    /// A run's work tiles for `attend_rows`.
    fn whole(&self, run: Run) -> impl Iterator<Item = WorkTile> {
        self.cut(run).map(|piece| self.work_tile(piece, 0..usize::MAX))
    }

    /// Work tiles by tile, those that read most first, so that no block works alone at the end.
    fn launches(&self, mut work_tiles: Vec<WorkTile>, width: usize) -> Vec<Launch> {
        work_tiles.sort_by_key(|work| Reverse(work.n_keys));
        let of_tile = |&tile: &&'static Tile| {
            let work_tiles: Vec<u32> = work_tiles
                .iter()
                .filter(|work| std::ptr::eq(work.tile, tile))
                .flat_map(|work| {
                    [work.run.first, work.run.n, work.split, work.further]
                        .map(|n| n as u32)
                        .into_iter()
                        .take(width)
                })
                .collect();
            (!work_tiles.is_empty()).then(|| Launch {
                tile,
                n_work_tiles: work_tiles.len() / width,
                work_tiles,
            })
        };
        self.tiles.iter().filter_map(of_tile).collect()
    }

    /// The smallest tile that holds so many rows.
    fn tile(&self, n_rows: usize) -> &'static Tile {
        let holds = |tile: &&&'static Tile| self.rows_of(tile) >= n_rows;
        self.tiles.iter().find(holds).unwrap_or(&self.tiles[self.tiles.len() - 1])
    }

    /// Rows of a tile. The plain kernels compute one after the other: more in a work tile would only wait.
    fn rows_of(&self, tile: &Tile) -> usize {
        if tile.dim == PLAIN.dim { 1 } else { tile.queries / self.group }
    }

    fn row(&self, place: usize) -> usize {
        self.queries.order[place] as usize
    }

    fn position(&self, place: usize) -> usize {
        self.queries.positions[self.row(place)] as usize
    }

    fn first_key(&self, place: usize) -> usize {
        self.window.map_or(0, |window| (self.position(place) + 1).saturating_sub(window))
    }

    fn last_split(&self, place: usize) -> usize {
        self.position(place) / SPLIT
    }

    fn sees(&self, place: usize, split: usize) -> bool {
        (self.first_key(place) / SPLIT..=self.last_split(place)).contains(&split)
    }

    fn n_splits(&self, place: usize) -> usize {
        self.last_split(place) - self.first_key(place) / SPLIT + 1
    }

    /// The blocks of a split that a row reads.
    fn blocks(&self, place: usize, split: usize) -> &[u32] {
        let sequence = self.queries.sequences[self.row(place)] as usize;
        let start = self.queries.block_starts[sequence] as usize;
        let end = (self.position(place) / BLOCK + 1).min((split + 1) * SPLIT_BLOCKS);
        &self.queries.blocks[start + split * SPLIT_BLOCKS..start + end]
    }
}

/// A run of one split that still grows, and the row of it that reads furthest.
struct Sharing {
    run: Run,
    longest: usize,
    len: usize,
}

impl Sharing {
    /// Adds the next row, which reads `len` blocks of the split.
    fn add(&mut self, place: usize, len: usize) {
        self.run.n += 1;
        if len > self.len {
            (self.longest, self.len) = (place, len);
        }
    }
}

#[cfg(test)]
mod tests;
