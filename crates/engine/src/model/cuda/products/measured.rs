//! Which kernel was the fastest for a weight and so many rows, as a card found out (`tribunal bench gpu --parts tune`) and a file
//! of this folder says. It is read at run time as the data that it is; nothing is measured then.

use std::{collections::HashMap, sync::LazyLock};

use super::{Kernels, Kind, Launch, SPLIT_TOKENS, TILES, Tile, few_tiles};

/// Each line: outputs, inputs, the most rows, the kernel's name. A line is for more rows than the line before it.
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
pub(super) fn launch([m, n, k]: [usize; 3], segment: usize) -> Option<Launch> {
    let choices = CHOICES.get(&[n, k])?;
    let &(_, tile, how) = choices.iter().find(|(rows, ..)| m <= *rows)?;
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

    /// Rows of the lines for each weight.
    const ROWS: [usize; 9] = [1, 16, 32, 64, 128, 256, 512, 1024, 2048];

    #[test]
    fn every_line_names_a_launch() {
        let choices = read(H100).unwrap();
        assert!(choices.len() >= 20, "{} weights", choices.len());
        for (&[n, k], choices) in &choices {
            assert!(choices.iter().map(|choice| choice.0).eq(ROWS), "[{n}, {k}]");
            for m in choices.iter().map(|choice| choice.0) {
                let launch = launch([m, n, k], segment(n, k));
                let launch = launch.unwrap_or_else(|| panic!("{m} [{n}, {k}]: the kernel cannot do that"));
                let possible = candidates(Kernels::Hopper, [m, n, k], segment(n, k));
                assert!(possible.contains(&launch), "{m} [{n}, {k}]: {launch:?}");
            }
        }
    }

    /// Until a card has filled the table, it holds what is chosen without one.
    #[test]
    fn the_table_holds_what_its_head_says() {
        let by_rule = H100.lines().next().is_some_and(|head| head.contains("chosen without a card"));
        for (&[n, k], choices) in read(H100).unwrap().iter().filter(|_| by_rule) {
            for &(m, tile, how) in choices {
                let ours = by(tile, how, [m, n, k], segment(n, k)).unwrap();
                let rule = super::super::by_rule(Kernels::Hopper, Kind::Bf16, [m, n, k], segment(n, k));
                assert_eq!(ours, rule, "{m} [{n}, {k}]");
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
