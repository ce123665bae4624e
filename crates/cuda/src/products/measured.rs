//! The fastest kernel for a weight and a number of rows, from measurements
//! (`tribunal-bench gpu --parts tune`) in a file of this folder. Nothing is measured at run time.

use std::{collections::HashMap, sync::LazyLock};

use super::{Kernels, Kind, Launch, SPLIT_TOKENS, TILES, Tile, few_tiles};

/// Each line: outputs, inputs, the most rows, the kernel's name. A line is for more rows than the line before
/// it of the same weight, and the last also for all that are more.
const H100: &str = include_str!("h100.txt");

/// The addition of a product's slices: one after another in a tile's sums, by a launch of `gemm_merge`, or by
/// a split-K reduction in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Whole,
    Split,
    Reduced,
}

type Choice = (usize, &'static Tile, How);

static CHOICES: LazyLock<HashMap<[usize; 2], Vec<Choice>>> =
    LazyLock::new(|| read(H100).expect("a test reads the file"));

fn read(table: &str) -> Result<HashMap<[usize; 2], Vec<Choice>>, String> {
    let mut all: HashMap<[usize; 2], Vec<Choice>> = HashMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let bad = || format!("`{line}`");
        let words: Vec<&str> = line.split(' ').collect();
        let [n, k, rows, name] = words[..] else { return Err(bad()) };
        let number = |word: &str| word.parse::<usize>().map_err(|_| bad());
        let (rows, choices) = (number(rows)?, all.entry([number(n)?, number(k)?]).or_default());
        let (tile, how) = kernel(name).ok_or_else(bad)?;
        if choices.last().is_some_and(|last| last.0 >= rows) {
            return Err(bad());
        }
        choices.push((rows, tile, how));
    }
    Ok(all)
}

fn kernel(name: &str) -> Option<(&'static Tile, How)> {
    TILES.iter().filter(|tile| tile.kind == Kind::Bf16).find_map(|tile| {
        let names = [(Some(tile.whole), How::Whole), (tile.split, How::Split), (tile.reduced, How::Reduced)];
        names.into_iter().find(|(known, _)| *known == Some(name)).map(|(_, how)| (tile, how))
    })
}

/// The launch of a product with a `bf16` weight that a line of the table names, on a card of capability 9.0.
pub(super) fn launch(shape: [usize; 3], k_slice: usize) -> Option<Launch> {
    chosen(&CHOICES, shape, k_slice)
}

fn chosen(
    choices: &HashMap<[usize; 2], Vec<Choice>>,
    [m, n, k]: [usize; 3],
    k_slice: usize,
) -> Option<Launch> {
    let choices = choices.get(&[n, k])?;
    let &(_, tile, how) = choices.iter().find(|(rows, ..)| m <= *rows).or(choices.last())?;
    by(tile, how, [m, n, k], k_slice)
}

fn by(tile: &'static Tile, how: How, shape: [usize; 3], k_slice: usize) -> Option<Launch> {
    let [m, n, _] = shape;
    match how {
        How::Whole => Some(tile.launch_whole(shape, k_slice)),
        How::Split => tile.launch_split(shape, k_slice).filter(|it| m <= SPLIT_TOKENS && it.split != Some(1)),
        How::Reduced => tile.launch_reduced(shape, k_slice).filter(|_| few_tiles(m, n)),
    }
}

/// Every launch that a line of the table may name for this product, among the kernels of this kind.
pub fn candidates(kernels: Kernels, shape: [usize; 3], k_slice: usize) -> Vec<Launch> {
    let most = if kernels == Kernels::MmaSync { Kernels::MmaSync } else { Kernels::Tma };
    let runs =
        |tile: &&Tile| tile.kind == Kind::Bf16 && tile.kernels != Kernels::Reference && tile.kernels <= most;
    let tiles = TILES.iter().filter(runs);
    let of_tile = |tile| [How::Whole, How::Split, How::Reduced].map(|how| by(tile, how, shape, k_slice));
    tiles.flat_map(of_tile).flatten().filter(|launch| launch.split != Some(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::k_slice, *};

    #[test]
    fn every_line_names_a_launch() {
        for (&[n, k], choices) in &read(H100).unwrap() {
            for &(m, tile, how) in choices {
                let launch = by(tile, how, [m, n, k], k_slice([n, k], false));
                assert!(launch.is_some(), "{m} [{n}, {k}]: the kernel cannot do that");
            }
        }
    }

    #[test]
    fn a_line_holds_up_to_its_rows() {
        let table = "# a comment\n3584 3584 64 gemm_bf16_16x64_split\n3584 3584 256 gemm_bf16_tma_256x128_merged\n\
                     8192 256 512 gemm_bf16_tma_128x128";
        let table = read(table).unwrap();
        let kernel = |m, n, k| chosen(&table, [m, n, k], k_slice([n, k], false)).map(|launch| launch.kernel);
        for (m, expected) in [
            (1, Some("gemm_bf16_16x64_split")),
            (64, Some("gemm_bf16_16x64_split")),
            (65, Some("gemm_bf16_tma_256x128_merged")),
            (256, Some("gemm_bf16_tma_256x128_merged")),
            (257, Some("gemm_bf16_tma_256x128_merged")),
            (9000, None), // too many tiles for a split-K reduction
        ] {
            assert_eq!(kernel(m, 3584, 3584), expected, "{m} rows");
        }
        assert_eq!(kernel(65, 8192, 256), Some("gemm_bf16_tma_128x128"));
        assert_eq!(kernel(65, 256, 8192), None, "another weight");
    }

    #[test]
    fn the_rules_choice_can_be_a_line() {
        for (n, k) in [(1152, 896), (896, 4864), (37888, 3584), (3584, 18944)] {
            for kernels in [Kernels::Wgmma, Kernels::Tma] {
                for m in [128, 256, 2048] {
                    let (shape, cut) = ([m, n, k], k_slice([n, k], false));
                    let rule = super::super::cost::by_rule(kernels, Kind::Bf16, shape, cut);
                    assert!(candidates(Kernels::Wgmma, shape, cut).contains(&rule), "{shape:?}: {rule:?}");
                }
            }
        }
    }

    #[test]
    fn a_bad_line_is_refused() {
        for bad in [
            "3584 3584 64",
            "3584 3584 x gemm_bf16_16x64",
            "3584 3584 64 gemm_bf16_7x7",
            "8 16 64 gemm_bf16_16x64\n8 16 16 gemm_bf16_16x64",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
