//! Which kernel was the fastest for a weight and so many rows, as a card found out (`tribunal bench gpu --parts tune`) and
//! a file of this folder says. It is read at run time as the data that it is; nothing is measured then.

use std::{collections::HashMap, sync::LazyLock};

use super::{Kernels, Kind, Launch, SPLIT_TOKENS, TILES, Tile, few_tiles};

/// Each line: outputs, inputs, the most rows, the kernel's name. A line is for more rows than the line before it of the same
/// weight, and the last also for all that are more.
const H100: &str = include_str!("h100.txt");

/// How a product's segments come together: one after another in a tile's sums, in a launch behind, or in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Whole,
    Split,
    Merged,
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
        let names = [(Some(tile.whole), How::Whole), (tile.split, How::Split), (tile.merged, How::Merged)];
        names.into_iter().find(|(known, _)| *known == Some(name)).map(|(_, how)| (tile, how))
    })
}

/// The launch of a product with a `bf16` weight that a line of the table names, on a card of capability 9.0.
pub(super) fn launch(shape: [usize; 3], segment: usize) -> Option<Launch> {
    chosen(&CHOICES, shape, segment)
}

fn chosen(
    choices: &HashMap<[usize; 2], Vec<Choice>>,
    [m, n, k]: [usize; 3],
    segment: usize,
) -> Option<Launch> {
    let choices = choices.get(&[n, k])?;
    let &(_, tile, how) = choices.iter().find(|(rows, ..)| m <= *rows).or(choices.last())?;
    by(tile, how, [m, n, k], segment)
}

fn by(tile: &'static Tile, how: How, shape: [usize; 3], segment: usize) -> Option<Launch> {
    let [m, n, _] = shape;
    match how {
        How::Whole => Some(tile.launch_whole(shape, segment)),
        How::Split => tile.launch_split(shape, segment).filter(|_| m <= SPLIT_TOKENS),
        How::Merged => tile.launch_merged(shape, segment).filter(|_| few_tiles(m, n)),
    }
}

/// Every launch that a line of the table may name for this product, among the kernels of this kind.
#[must_use]
pub fn candidates(kernels: Kernels, shape: [usize; 3], segment: usize) -> Vec<Launch> {
    let most = if kernels == Kernels::Fast { Kernels::Fast } else { Kernels::Boxes };
    let runs =
        |tile: &&Tile| tile.kind == Kind::Bf16 && tile.kernels != Kernels::Plain && tile.kernels <= most;
    let tiles = TILES.iter().filter(runs);
    let of_tile = |tile| [How::Whole, How::Split, How::Merged].map(|how| by(tile, how, shape, segment));
    tiles.flat_map(of_tile).flatten().filter(|launch| launch.split != Some(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::segment, *};

    #[test]
    fn every_line_names_a_launch() {
        for (&[n, k], choices) in &read(H100).unwrap() {
            for &(m, tile, how) in choices {
                let launch = by(tile, how, [m, n, k], segment(n, k));
                assert!(launch.is_some(), "{m} [{n}, {k}]: the kernel cannot do that");
            }
        }
    }

    #[test]
    fn a_line_holds_up_to_its_rows() {
        let table = "# a comment\n3584 3584 64 gemm_bf16_16x64_split\n3584 3584 256 gemm_bf16_tma_256x128_merged\n\
                     8192 256 512 gemm_bf16_tma_128x128";
        let table = read(table).unwrap();
        let kernel = |m, n, k| chosen(&table, [m, n, k], segment(n, k)).map(|launch| launch.kernel);
        for (m, expected) in [
            (1, Some("gemm_bf16_16x64_split")),
            (64, Some("gemm_bf16_16x64_split")),
            (65, Some("gemm_bf16_tma_256x128_merged")),
            (256, Some("gemm_bf16_tma_256x128_merged")),
            (257, Some("gemm_bf16_tma_256x128_merged")),
            (9000, None), // its tiles are too many to meet
        ] {
            assert_eq!(kernel(m, 3584, 3584), expected, "{m} rows");
        }
        assert_eq!(kernel(65, 8192, 256), Some("gemm_bf16_tma_128x128"));
        assert_eq!(kernel(65, 256, 8192), None, "another weight");
    }

    #[test]
    fn the_rules_choice_can_be_a_line() {
        for (n, k) in [(1152, 896), (896, 4864), (37888, 3584), (3584, 18944)] {
            for kernels in [Kernels::Hopper, Kernels::Boxes] {
                for m in [128, 256, 2048] {
                    let (shape, cut) = ([m, n, k], segment(n, k));
                    let rule = super::super::by_rule(kernels, Kind::Bf16, shape, cut);
                    assert!(candidates(Kernels::Hopper, shape, cut).contains(&rule), "{shape:?}: {rule:?}");
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
