//! The kernels of attention by size of head and number of queries, and the sizes of their launches. No choice
//! among them moves a bit: all of them compute the definition in `kernels/attention.cuh`.

/// A pair of kernels for one size of head that take the same number of queries at a time.
#[derive(Debug, PartialEq, Eq)]
pub struct Tile {
    /// Size of a head; 0 for any that is a multiple of 16 up to [`MOST_DIMS`].
    pub dim: usize,
    /// Queries of an item: its rows times the query heads of one kv head.
    pub queries: usize,
    /// The file that the kernels are in.
    pub module: &'static str,
    /// The kernel that writes rows.
    pub rows: &'static str,
    /// The kernel that writes single KV splits.
    pub split_kv: &'static str,
    /// The kernel that also merges the KV splits of rows whose last one it writes.
    pub merged: Option<&'static str>,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes. Above 48 KiB, a function must be configured for it before
    /// its launch.
    pub shared_bytes: u32,
    /// True if keys and values are tensor maps: `kernels/attend_tma.cuh`, for GPUs that have TMA.
    pub by_tma: bool,
}

/// The largest head, DeepSeek's cached row.
pub const MOST_DIMS: usize = 576;

/// The plain kernels: any size of head, any number of queries, a row after the other.
pub const PLAIN: Tile = Tile {
    dim: 0,
    queries: usize::MAX,
    module: "attend_plain",
    rows: "attend_rows_plain",
    split_kv: "attend_split_kv_plain",
    merged: None,
    threads: 32,
    shared_bytes: 0,
    by_tma: false,
};

macro_rules! tiles {
    ($($dim:literal: $($queries:literal)+,)+) => {
        &[$($(Tile {
            dim: $dim,
            queries: $queries,
            module: concat!("attend_d", $dim),
            rows: concat!("attend_rows_d", $dim, "_t", $queries),
            split_kv: concat!("attend_split_kv_d", $dim, "_t", $queries),
            merged: Some(concat!("attend_merged_d", $dim, "_t", $queries)),
            threads: threads($dim, $queries),
            shared_bytes: shared_bytes($dim, $queries),
            by_tma: false,
        },)+)+]
    };
}

/// The tiles of `kernels/attend_tma.cu`.
pub const TMA_TILES: &[Tile] = &[
    tma_tile([64, 128], ["attend_rows_tma_d64_t128", "attend_split_kv_tma_d64_t128"], 148_640),
    tma_tile([128, 128], ["attend_rows_tma_d128_t128", "attend_split_kv_tma_d128_t128"], 230_528),
    tma_tile([256, 64], ["attend_rows_tma_d256_t64", "attend_split_kv_tma_d256_t64"], 232_032),
];

const fn tma_tile([dim, queries]: [usize; 2], kernels: [&'static str; 2], shared_bytes: u32) -> Tile {
    let [rows, split_kv] = kernels;
    let (module, threads) = ("attend_tma", 384);
    Tile { dim, queries, module, rows, split_kv, merged: None, threads, shared_bytes, by_tma: true }
}

/// Every tile of `kernels/attend.cuh`, the smaller ones of a head first.
pub const TILES: &[Tile] = tiles! {
    16: 16 32 64,
    32: 16 32 64,
    64: 16 32 64,
    80: 16 32 64,
    96: 16 32 64,
    128: 16 32 64,
    256: 16 32,
    512: 16 32,
};

/// `Plan::kSharedBytes` in `kernels/attend.cuh`; a table checks that both agree.
const fn shared_bytes(dim: usize, queries: usize) -> u32 {
    let columns = if dim == 512 { 256 } else { dim };
    let (row, stage_row, weight_row, stage) = (dim + 8, columns + 8, 256 + 8, 64);
    let buffers = if queries == 64 || dim >= 256 { 2 } else { 3 };
    let of_query = 2 * 4 * 4 + 8 + 3 * 4;
    (queries * row * 2 + queries * weight_row * 2 + buffers * stage * stage_row * 2 + queries * of_query)
        as u32
}

/// `Plan::kThreads` in `kernels/attend.cuh`.
const fn threads(dim: usize, queries: usize) -> u32 {
    if dim == 512 && queries == 32 { 256 } else { 128 }
}

/// The tiles for heads of `dim` whose blocks have at most `shared_bytes` of shared memory and that hold a row
/// of `group` queries, the smaller ones first; [`PLAIN`] alone without any. `by_tma`: those of [`TMA_TILES`]
/// too.
pub fn tiles(dim: usize, group: usize, shared_bytes: usize, by_tma: bool) -> Vec<&'static Tile> {
    let fits =
        |tile: &&Tile| tile.dim == dim && tile.queries >= group && tile.shared_bytes as usize <= shared_bytes;
    let of_tma = TMA_TILES.iter().filter(|_| by_tma);
    let fitting: Vec<_> = TILES.iter().chain(of_tma).filter(fits).collect();
    if fitting.is_empty() { vec![&PLAIN] } else { fitting }
}

#[cfg(test)]
mod tests {
    use super::{PLAIN, TILES, TMA_TILES, Tile, tiles};

    #[test]
    fn shared_memory_is_that_of_the_kernels() {
        let table = include_str!("../../../kernels/tests/attend_shared.txt");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        let rows: Vec<[usize; 4]> = rows
            .map(|row| {
                let numbers: Vec<usize> = row.split(' ').map(|word| word.parse().unwrap()).collect();
                numbers.try_into().unwrap()
            })
            .collect();
        let ours = |t: &Tile| [t.dim, t.queries, t.shared_bytes as usize, t.threads as usize];
        let mut ours: Vec<[usize; 4]> = TILES.iter().chain(TMA_TILES).map(ours).collect();
        ours.sort_unstable();
        assert_eq!(rows, ours);
    }

    #[test]
    fn a_head_gets_the_tiles_that_fit() {
        let queries = |dim, group, shared| -> Vec<usize> {
            tiles(dim, group, shared, false).iter().map(|tile| tile.queries).collect()
        };
        assert_eq!(queries(128, 7, 227 << 10), [16, 32, 64]);
        assert_eq!(queries(128, 24, 227 << 10), [32, 64]);
        assert_eq!(queries(256, 4, 99 << 10), [16], "a card of compute capability 8.9");
        assert_eq!(queries(512, 8, 99 << 10), [16], "a card of compute capability 8.9");
        assert_eq!(queries(512, 8, 227 << 10), [16, 32]);
        assert_eq!(tiles(64, 2, 227 << 10, false)[2].split_kv, "attend_split_kv_d64_t64");
        assert_eq!(tiles(64, 2, 227 << 10, true)[3].split_kv, "attend_split_kv_tma_d64_t128");
        assert_eq!(tiles(80, 2, 227 << 10, true).len(), 3, "heads of 80 have no tile by TMA");
        assert_eq!(tiles(112, 1, 227 << 10, true), [&PLAIN]);
        assert_eq!(tiles(128, 128, 227 << 10, false), [&PLAIN], "no tile holds a row of 128 queries");
    }
}
