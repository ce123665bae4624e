//! The tables of kernels and slices, and the invariants of launches.

use std::fmt::Write as _;

use super::{
    Error, Kernels, Kind, Launch, SplitK, TILES, Way, check, cost::FULL, fused, k_slice, launch, measured,
};
use tribunal_model::weights::Format;

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

#[test]
fn segments_are_those_of_the_kernels() {
    let mut seen = 0;
    for row in rows(include_str!("../../../../kernels/tests/k_slices.txt")) {
        let numbers: Vec<usize> = row.iter().map(|word| word.parse().unwrap()).collect();
        let [n, k, both @ ..] = &numbers[..] else { panic!("no shape: {row:?}") };
        let ours = [false, true].map(|in_one_wave| k_slice([*n, *k], in_one_wave));
        assert_eq!(ours.map(|length| [length, k.div_ceil(length)]).concat(), both, "[{n}, {k}]");
        seen += 1;
    }
    assert!(seen >= 20, "{seen} rows");
}

/// The memory for partial sums is that of the shorter slices.
#[test]
fn slices_in_one_wave_are_not_shorter() {
    for n in (1..200).chain((200..40_000).step_by(24)) {
        for k in (256..40_000).step_by(768) {
            assert!(k_slice([n, k], true) >= k_slice([n, k], false), "[{n}, {k}]");
        }
    }
}

#[test]
fn tiles_are_those_of_the_kernels() {
    let ours: Vec<String> = TILES
        .iter()
        .map(|tile| {
            let twin = match (tile.kernels, tile.split) {
                (Kernels::Wgmma, _) => "wgmma",
                (Kernels::Tma, _) => "tma",
                (_, None) => "whole",
                _ => "split",
            };
            let (tokens, outputs, threads) = (tile.tokens, tile.outputs, tile.threads);
            format!("{} {twin} {tokens} {outputs} {threads} {}", tile.whole, tile.shared_bytes)
        })
        .collect();
    let theirs: Vec<String> =
        rows(include_str!("../../../../kernels/tests/tiles.txt")).map(|words| words.join(" ")).collect();
    assert_eq!(ours, theirs);
    for tile in &TILES {
        assert_eq!(tile.kernels == Kernels::Reference, tile.shared_bytes == 0, "{}", tile.whole);
        let prefix = match (tile.kernels, tile.kind) {
            (Kernels::Tma, _) => "gemm_bf16_tma",
            _ => tile.module(),
        };
        assert!(tile.whole.starts_with(prefix), "{}", tile.whole);
        let meets = tile.kernels == Kernels::Tma;
        let merged = format!("{}_merged", tile.whole);
        assert_eq!(tile.reduced, meets.then_some(merged.as_str()));
        assert!(tile.split.is_none_or(|name| name == format!("{}_split", tile.whole)), "{:?}", tile.split);
    }
}

/// The table is an H100's with all of its multiprocessors.
#[test]
fn the_table_is_for_cards_like_the_measured_one() {
    let kernels = |capability, multiprocessors| Kernels::for_gpu(capability, multiprocessors);
    assert_eq!(kernels((9, 0), 132), Kernels::Measured, "H100 SXM, H200");
    for multiprocessors in [16, 78, 114] {
        assert_eq!(kernels((9, 0), multiprocessors), Kernels::Wgmma, "{multiprocessors}: a slice, H20, PCIe");
    }
    for capability in [(8, 0), (8, 9), (10, 0), (12, 0)] {
        assert_eq!(kernels(capability, 132), Kernels::MmaSync, "{capability:?}");
    }
}

#[test]
fn rows_must_be_whole_steps() {
    assert_eq!(check(8, 48), Ok(()));
    assert_eq!(check(8, 40), Err(Error::Columns { k: 40 }));
    assert_eq!(check(8, 0), Err(Error::Columns { k: 0 }));
    assert_eq!(check(1 << 31, 64), Err(Error::TooLarge { n: 1 << 31, k: 64 }));
}

/// The invariants of launches on Hopper: TMA launches have no more blocks than work tiles, equal numbers of
/// work tiles each, and room for their sums.
fn check_hopper(kernels: Kernels, launch: Launch, fast: Launch, [m, n, k]: [usize; 3], k_slice: usize) {
    assert_eq!(launch.k_slice, k_slice, "{m} [{n}, {k}]: {launch:?}");
    let blocks = launch.tile.blocks(m, n);
    let tuned = kernels == Kernels::Measured && measured::launch([m, n, k], k_slice) == Some(launch);
    match launch.tile.kernels {
        Kernels::Reference | Kernels::MmaSync => assert!(tuned || launch == fast, "{m} [{n}, {k}]"),
        Kernels::Wgmma => assert!(m > 64 && blocks >= 96 && launch.grid == [blocks as u32, 1, 1]),
        Kernels::Measured => panic!("the table is no tile: {launch:?}"),
        Kernels::Tma => {
            let counted = kernels == Kernels::Tma || (kernels == Kernels::Measured && m > 64);
            assert!(tuned || counted, "neither table nor rule names it: {m} [{n}, {k}]: {launch:?}");
            let work_tiles = blocks * launch.split.unwrap_or(1);
            let rounds = work_tiles.div_ceil(launch.grid[0] as usize);
            assert!(
                launch.grid[0] <= 132 && rounds == work_tiles.div_ceil(132),
                "{m} [{n}, {k}]: {launch:?}"
            );
            assert_eq!(launch.reduces, launch.split.is_some(), "{m} [{n}, {k}]: {launch:?}");
            let mut room = SplitK::default();
            room.add_weight(n, k, k_slice);
            assert!(launch.partial_len(m, n) <= room.partial_len(m), "{m} [{n}, {k}]: {launch:?}");
            assert!(4 * launch.n_semaphores(m, n) <= SplitK::SEMAPHORE_BYTES, "{m} [{n}, {k}]: {launch:?}");
        }
    }
}

/// A product with fused heads has as many slices as the product by itself, and room for their sums.
#[test]
fn heads_are_fused_where_a_tile_holds_all_sums() {
    let heads = |kernels, m, [n, k]: [usize; 2], dim| {
        fused::launch_heads(kernels, [m, n, k], k_slice([n, k], false), dim)
    };
    let qkv = [4608, 3584];
    for m in [1, 64, 65, 128, 300, 4096] {
        let launch = heads(Kernels::Tma, m, qkv, 128).unwrap();
        assert!(launch.tile.tokens <= 128 && launch.kernel.starts_with("gemm_heads_tma_"), "{m}: {launch:?}");
        let mut room = SplitK::default();
        room.add_weight(4608, 3584, launch.k_slice);
        assert!(launch.partial_len(m, 4608) <= room.partial_len(m), "{m}: {launch:?}");
        assert!(4 * launch.n_semaphores(m, 4608) <= SplitK::SEMAPHORE_BYTES, "{m}: {launch:?}");
        assert_eq!(heads(Kernels::MmaSync, m, qkv, 128), None);
        assert_eq!(heads(Kernels::Tma, m, qkv, 80), None, "heads of 80");
    }
    assert_eq!(heads(Kernels::Wgmma, 2048, qkv, 128), None, "another card than the measured one");
    let of_table = |m| heads(Kernels::Measured, m, qkv, 128).map(|launch| (launch.kernel, launch.reduces));
    assert_eq!(of_table(64), None, "the table names no TMA kernel");
    assert_eq!(of_table(128), Some(("gemm_heads_tma_128x128", true)));
    assert_eq!(of_table(512), None, "a tile of 256 tokens");
    assert_eq!(of_table(2048), Some(("gemm_heads_tma_128x128", false)));
}

/// Every tile covers the product, and the partial sums stay small whatever the weight.
#[test]
fn launches_cover_the_product() {
    for kind in [Kind::Bf16, Kind::Q8_0, Kind::Mxfp4, Kind::Q4K, Kind::Q6K] {
        for m in [1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 128, 300, 4096] {
            let shapes =
                [[16, 16], [320, 64], [896, 4864], [3584, 18944], [37888, 3584], [32001, 4096], [7168, 5120]];
            for ([n, k], in_one_wave) in shapes.into_iter().flat_map(|shape| [(shape, false), (shape, true)])
            {
                let cut = k_slice([n, k], in_one_wave);
                let of = |kernels| launch(kernels, kind, [m, n, k], cut);
                for kernels in [Kernels::Wgmma, Kernels::Tma, Kernels::Measured] {
                    check_hopper(kernels, of(kernels), of(Kernels::MmaSync), [m, n, k], cut);
                }
                let launch = of(Kernels::MmaSync);
                let blocks = m.div_ceil(launch.tile.tokens) * n.div_ceil(launch.tile.outputs);
                assert_eq!(launch.grid, [blocks as u32, launch.split.unwrap_or(1) as u32, 1]);
                assert_eq!(launch.tile.kernels, Kernels::MmaSync);
                assert_eq!(launch.split.is_some(), launch.kernel.ends_with("_split"));
                assert!(launch.split.is_none_or(|slices| slices == k.div_ceil(cut)));
                assert!(launch.partial_len(m, n) <= 2 * FULL * 64 * m, "{m} [{n}, {k}]");
            }
        }
    }
}

/// The launches for the shapes of Qwen2.5 0.5B, 7B and 72B: the blocks are the grid's product.
#[test]
fn what_is_launched() {
    let mut table = String::new();
    for (model, shapes) in [
        ("0.5B", [(1152, 896), (896, 896), (9728, 896), (896, 4864), (151_936, 896)]),
        ("7B", [(4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944), (152_064, 3584)]),
        ("72B", [(10240, 8192), (8192, 8192), (59136, 8192), (8192, 29568), (152_064, 8192)]),
    ] {
        for (n, k) in shapes {
            write!(table, "{model:4} [{n}, {k}]").unwrap();
            for m in [1, 16, 64, 128, 256, 512, 4096] {
                let launch = launch(Kernels::Measured, Kind::Bf16, [m, n, k], k_slice([n, k], false));
                let (x, y) = (launch.grid[0], launch.grid[1]);
                write!(table, "  {m}: {} {x}x{y}", launch.kernel.trim_start_matches("gemm_bf16_")).unwrap();
            }
            table.push('\n');
        }
    }
    for m in [1, 16, 64, 256, 4096] {
        let launch = launch(Kernels::Wgmma, Kind::Q4K, [m, 3584, 18944], k_slice([3584, 18944], false));
        let (x, y) = (launch.grid[0], launch.grid[1]);
        writeln!(table, "7B down, q4_k, {m}: {} {x}x{y}", launch.kernel).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn formats_without_a_product_are_those_that_are_rounded() {
    for format in Format::ALL {
        let ways = [false, true].map(|packs| Way::new(format, packs));
        assert_eq!(matches!(ways[0], Way::Panel(_)), format.is_rounded_on_gpus(), "{format:?}");
        let is_direct = matches!(ways[0], Way::Direct(kind) if kind != Kind::Bf16);
        assert_eq!(is_direct, format.is_multiplied_on_gpus(), "{format:?}");
        let is_packed = is_direct || format.is_rounded_on_gpus() || format.is_of_safetensors();
        assert_eq!(matches!(ways[1], Way::Packed(..)), is_packed, "{format:?}");
        assert_eq!(ways[0] == Way::Direct(Kind::Bf16), format.on_gpus() == Format::Bf16, "{format:?}");
    }
}
