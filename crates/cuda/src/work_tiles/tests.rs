//! The division of attention, against a plain reading of a step.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{BLOCK, Heads, Limits, Queries, SPLIT, WorkTiles, plan, split_bytes};
use tribunal_model::step::{Part, Step};

const HEADS: Heads = Heads { n_heads: 14, n_kv_heads: 2, head_dim: 64 };
const LIMITS: Limits = Limits {
    multiprocessors: 132,
    shared_bytes: 227 << 10,
    splits: 100_000,
    cascade: true,
    new_tma: false,
    merges: false,
};

/// A sequence of a family: the first `shared` blocks are the family's, the others its own.
#[derive(Clone, Debug)]
struct Sequence {
    family: u32,
    shared: usize,
    /// Tokens in the cache, and tokens of the step.
    before: usize,
    n: usize,
}

fn step(sequences: &[Sequence]) -> Step {
    let tokens = vec![0; sequences.iter().map(|s| s.n).max().unwrap_or(0)];
    let blocks: Vec<Vec<u32>> = (1..)
        .zip(sequences)
        .map(|(own, s)| {
            let block =
                |at: usize| if at < s.shared { s.family << 24 | 1 << 23 } else { own << 8 } + at as u32;
            (0..(s.before + s.n).div_ceil(BLOCK)).map(block).collect()
        })
        .collect();
    let part = |(s, blocks): (&Sequence, _)| Part {
        tokens: &tokens[..s.n],
        position: s.before,
        blocks,
        logits_from: 0,
        states_from: s.n,
        adapter: None,
        state: None,
    };
    Step::new(sequences.iter().zip(blocks.iter().map(Vec::as_slice)).map(part), Vec::new())
}

fn queries(step: &Step) -> Queries<'_> {
    Queries {
        order: &step.order,
        positions: &step.positions,
        sequences: &step.sequences,
        block_starts: &step.block_starts,
        blocks: &step.blocks,
    }
}

/// The keys that a row sees.
fn keys(step: &Step, row: u32, window: Option<usize>) -> std::ops::Range<usize> {
    let end = step.positions[row as usize] as usize + 1;
    window.map_or(0, |window| end.saturating_sub(window))..end
}

/// Fails unless the rows of a work tile read the same blocks of `tokens`, each up to its last visible key,
/// and fit the tile.
fn check_item(step: &Step, rows: &[u32], tokens: std::ops::Range<usize>, group: usize, queries: usize) {
    assert!(rows.len() * group <= queries || rows.len() == 1, "{} rows in a tile of {queries}", rows.len());
    for &a in rows {
        for &b in rows {
            let end = tokens.end.min(keys(step, a, None).end).min(keys(step, b, None).end);
            let blocks = |row| &step.blocks_of_row(row)[tokens.start / BLOCK..end.div_ceil(BLOCK)];
            assert_eq!(blocks(a), blocks(b), "rows {a} and {b}");
        }
    }
}

/// Reads a plan in the plainest way: the splits of each row that it attends to, and the destinations of these
/// splits.
fn check(step: &Step, heads: Heads, window: Option<usize>, limits: Limits) -> WorkTiles {
    let work_tiles = plan(queries(step), heads, window, limits);
    let group = heads.n_heads / heads.n_kv_heads;
    let mut seen: HashMap<(u32, usize), usize> = HashMap::new();
    for launch in &work_tiles.rows {
        assert_eq!(launch.work_tiles.len(), 2 * launch.n_work_tiles);
        for work in launch.work_tiles.as_chunks::<2>().0 {
            let rows = &step.order[work[0] as usize..][..work[1] as usize];
            check_item(step, rows, 0..usize::MAX, group, launch.tile.queries);
            for &row in rows {
                assert_eq!(work_tiles.split_starts[row as usize], -1);
                let keys = keys(step, row, window);
                (keys.start / SPLIT..=(keys.end - 1) / SPLIT)
                    .for_each(|split| *seen.entry((row, split)).or_default() += 1);
            }
        }
    }
    let mut splits = vec![0; work_tiles.n_splits];
    for launch in &work_tiles.splits {
        assert_eq!(launch.work_tiles.len(), 4 * launch.n_work_tiles);
        for &[first, n, split, further] in launch.work_tiles.as_chunks::<4>().0 {
            assert!(further == 0 || work_tiles.merges && launch.tile.merged.is_some());
            let (rows, split) = (&step.order[first as usize..][..n as usize], split as usize);
            let range = split..split + further as usize + 1;
            check_item(step, rows, range.start * SPLIT..range.end * SPLIT, group, launch.tile.queries);
            for (&row, split) in rows.iter().flat_map(|row| range.clone().map(move |split| (row, split))) {
                *seen.entry((row, split)).or_default() += 1;
                let first_split = keys(step, row, window).start / SPLIT;
                splits[work_tiles.split_starts[row as usize] as usize + split - first_split] += 1;
            }
        }
    }
    assert!(splits.iter().all(|&n| n == 1), "every part is written once: {splits:?}");
    assert!(work_tiles.n_splits <= limits.splits);
    for row in 0..step.n_rows() as u32 {
        let keys = keys(step, row, window);
        for split in keys.start / SPLIT..=(keys.end - 1) / SPLIT {
            assert_eq!(seen.remove(&(row, split)), Some(1), "split {split} of row {row}");
        }
    }
    assert!(seen.is_empty(), "splits that no row sees: {seen:?}");
    work_tiles
}

fn any_sequence() -> impl Strategy<Value = Sequence> {
    let n = prop_oneof![4 => Just(1_usize), 2 => 2_usize..9, 1 => 1_usize..150];
    let before = prop_oneof![0_usize..40, 0_usize..1200];
    (0_u32..3, 0_usize..60, before, n).prop_map(|(family, shared, before, n)| Sequence {
        family,
        shared,
        before,
        n,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_split_of_every_row_is_attended_once(
        sequences in prop::collection::vec(any_sequence(), 0..24),
        group in prop_oneof![1_usize..9, Just(40)],
        n_kv_heads in 1_usize..9,
        head_dim in prop_oneof![Just(64_usize), Just(256), Just(112)],
        window in prop_oneof![Just(None), (1_usize..600).prop_map(Some)],
        multiprocessors in 1_usize..140,
        splits in prop_oneof![Just(0_usize), 0_usize..200, Just(100_000)],
        [new_tma, merges] in any::<[bool; 2]>(),
    ) {
        let heads = Heads { n_heads: group * n_kv_heads, n_kv_heads, head_dim };
        check(&step(&sequences), heads, window, Limits { multiprocessors, splits, new_tma, merges, ..LIMITS });
    }
}

/// A launch in words: kernel and work tiles.
fn words(work_tiles: &WorkTiles) -> Vec<String> {
    let rows = work_tiles.rows.iter().map(|launch| (launch.tile.rows, launch.n_work_tiles));
    let splits = work_tiles.splits.iter().map(|launch| (launch.tile.split_kv, launch.n_work_tiles));
    rows.chain(splits).map(|(kernel, n)| format!("{kernel}: {n}")).collect()
}

#[test]
fn a_long_chunk_goes_whole_and_a_short_one_in_parts() {
    let chunk = |n| [Sequence { family: 0, shared: 0, before: 1000, n }];
    let long = check(&step(&chunk(1300)), HEADS, None, LIMITS);
    assert_eq!(words(&long), ["attend_rows_d64_t32: 1", "attend_rows_d64_t64: 144"]);
    let short = check(&step(&chunk(40)), HEADS, None, LIMITS);
    // Five tiles for each of splits 0 to 3, and two for the 17 rows that reach split 4.
    assert_eq!(words(&short), ["attend_split_kv_d64_t32: 4", "attend_split_kv_d64_t64: 18"]);
    assert_eq!(short.n_splits, 40 * 4 + 16);
}

#[test]
fn a_shared_prefix_is_read_once_for_a_tile_of_rows() {
    let judges = vec![Sequence { family: 1, shared: 32, before: 600, n: 1 }; 9];
    let work_tiles = check(&step(&judges), HEADS, None, LIMITS);
    assert_eq!(words(&work_tiles), ["attend_split_kv_d64_t16: 9", "attend_split_kv_d64_t64: 2"]);
    assert_eq!(work_tiles.n_splits * split_bytes(HEADS.n_heads, HEADS.head_dim), 27 * 14 * 66 * 4);
}

#[test]
fn many_rows_go_whole_where_parts_would_save_no_reading() {
    let alone = |shared| vec![Sequence { family: 1, shared, before: 900, n: 1 }; 300];
    assert_eq!(words(&check(&step(&alone(0)), HEADS, None, LIMITS)), ["attend_rows_d64_t16: 300"]);
    let shared = check(&step(&alone(48)), HEADS, None, LIMITS);
    assert_eq!(
        words(&shared),
        ["attend_split_kv_d64_t16: 300", "attend_split_kv_d64_t32: 3", "attend_split_kv_d64_t64: 99"]
    );
}

#[test]
fn one_split_goes_with_those_of_others_to_save_a_launch() {
    let rows = |shorts| {
        let one = |before| Sequence { family: 1, shared: 0, before, n: 1 };
        [vec![one(700)], vec![one(200); shorts]].concat()
    };
    let apart = check(&step(&rows(2)), HEADS, None, LIMITS);
    assert_eq!(words(&apart), ["attend_rows_d64_t16: 2", "attend_split_kv_d64_t16: 3"]);
    let together = |splits| {
        let limits = Limits { new_tma: true, merges: true, splits, ..LIMITS };
        words(&check(&step(&rows(2)), HEADS, None, limits))
    };
    assert_eq!(together(100), ["attend_split_kv_d64_t16: 5"]);
    assert_eq!(
        together(4),
        ["attend_rows_d64_t16: 1", "attend_split_kv_d64_t16: 4"],
        "as far as there is memory"
    );
}

/// Blocks of 16 queries of 64 values: four on a multiprocessor at once, 528 on all.
#[test]
fn ranges_of_splits_are_as_long_as_fills_the_device() {
    let limits = Limits { merges: true, ..LIMITS };
    let words = |n: usize, before| {
        words(&check(&step(&vec![Sequence { family: 1, shared: 0, before, n: 1 }; n]), HEADS, None, limits))
    };
    assert_eq!(words(64, 1000), ["attend_split_kv_d64_t16: 256"], "512 blocks of one split each");
    assert_eq!(words(100, 1000), ["attend_split_kv_d64_t16: 200"], "one wave of two splits, not two of one");
    assert_eq!(words(250, 1000), ["attend_split_kv_d64_t16: 250"], "one wave of four splits");
    assert_eq!(words(3, 4000), ["attend_split_kv_d64_t16: 48"], "a few rows: all splits at once");
}

#[test]
fn one_split_needs_no_parts_and_no_memory_allows_none() {
    let short = vec![Sequence { family: 1, shared: 8, before: 200, n: 1 }; 3];
    assert_eq!(words(&check(&step(&short), HEADS, None, LIMITS)), ["attend_rows_d64_t16: 3"]);
    // Two of them have room for their three splits, and one split in common.
    let long = vec![Sequence { family: 1, shared: 16, before: 700, n: 1 }; 3];
    let work_tiles = check(&step(&long), HEADS, None, Limits { splits: 7, ..LIMITS });
    assert_eq!(words(&work_tiles), ["attend_rows_d64_t16: 1", "attend_split_kv_d64_t16: 5"]);
}
