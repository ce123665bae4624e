//! Products of float weights on CPU lanes: one vector of weights (16 outputs) is multiplied with each row of
//! the tile, whose sums stay in registers. The order of a sum is that of `k`, except for `bf16` by `bf16`,
//! where of each pair the second product comes first, as in `vpdpbf16ps`.

use half::{bf16, f16};

use super::{
    Format, Isa, ahead,
    lanes::{Lanes, WIDTH},
    layout::Panel,
    on_isa,
};

/// Weights of 16 outputs.
type Row = [f32; WIDTH];

/// Float weights of one panel, two values of `k` at a time in the order in which they are added.
trait Weights: Copy {
    /// Whole pairs of values of `k`.
    fn n_pairs(self) -> usize;
    fn pair<L: Lanes>(self, i: usize) -> [L; 2];
    /// A last value without a partner.
    fn last<L: Lanes>(self) -> Option<L>;
    /// The first pairs, and the remaining weights.
    fn split(self, n_pairs: usize) -> (Self, Self);
    /// Prefetches the pair some distance after this one: of this panel, or of the next one. The hardware
    /// prefetcher stops at each page.
    fn expect(self, i: usize);
}

/// Distance from a prefetched line of weights to the one in use. Unit: bytes.
const AHEAD: usize = 4096;
/// Pairs of `k` that all rows of a tile have in turn where they cannot be in registers together: the weights
/// then come from the first-level cache for all rows but the first ones, while prefetching goes on.
const TURN: usize = 32;

/// Prefetches the line `AHEAD` of a cell.
#[inline(always)]
fn expect_read<T>(cells: &[T], i: usize) {
    ahead::read(cells.as_ptr().wrapping_add(i).cast::<u8>().wrapping_add(AHEAD));
}

impl Weights for &[Row] {
    #[inline(always)]
    fn n_pairs(self) -> usize {
        self.len() / 2
    }
    #[inline(always)]
    fn pair<L: Lanes>(self, i: usize) -> [L; 2] {
        let pair = &self.as_chunks::<2>().0[i];
        [L::load(&pair[0]), L::load(&pair[1])]
    }
    #[inline(always)]
    fn last<L: Lanes>(self) -> Option<L> {
        self.as_chunks::<2>().1.first().map(L::load)
    }
    #[inline(always)]
    fn expect(self, i: usize) {
        expect_read(self, 2 * i);
        expect_read(self, 2 * i + 1);
    }
    #[inline(always)]
    fn split(self, n_pairs: usize) -> (Self, Self) {
        self.split_at(2 * n_pairs)
    }
}

impl Weights for &[[f16; WIDTH]] {
    #[inline(always)]
    fn n_pairs(self) -> usize {
        self.len() / 2
    }
    #[inline(always)]
    fn pair<L: Lanes>(self, i: usize) -> [L; 2] {
        let pair = &self.as_chunks::<2>().0[i];
        [L::load_f16(&pair[0]), L::load_f16(&pair[1])]
    }
    #[inline(always)]
    fn last<L: Lanes>(self) -> Option<L> {
        self.as_chunks::<2>().1.first().map(L::load_f16)
    }
    #[inline(always)]
    fn expect(self, i: usize) {
        expect_read(self, 2 * i);
    }
    #[inline(always)]
    fn split(self, n_pairs: usize) -> (Self, Self) {
        self.split_at(2 * n_pairs)
    }
}

/// Pairs of `bf16`, which are always whole, in the order of their products by `bf16`.
#[derive(Clone, Copy)]
struct Swapped<'a>(&'a [[[bf16; 2]; WIDTH]]);

impl Weights for Swapped<'_> {
    #[inline(always)]
    fn n_pairs(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn pair<L: Lanes>(self, i: usize) -> [L; 2] {
        L::load_swapped(&self.0[i])
    }
    #[inline(always)]
    fn last<L: Lanes>(self) -> Option<L> {
        None
    }
    #[inline(always)]
    fn expect(self, i: usize) {
        expect_read(self.0, i);
    }
    #[inline(always)]
    fn split(self, n_pairs: usize) -> (Self, Self) {
        let (now, later) = self.0.split_at(n_pairs);
        (Self(now), Self(later))
    }
}

/// Pairs of `bf16` in the order of `k`, of which the last value may be single.
#[derive(Clone, Copy)]
struct InOrder<'a> {
    pairs: Swapped<'a>,
    k: usize,
}

impl Weights for InOrder<'_> {
    #[inline(always)]
    fn n_pairs(self) -> usize {
        self.k / 2
    }
    #[inline(always)]
    fn pair<L: Lanes>(self, i: usize) -> [L; 2] {
        let [second, first] = self.pairs.pair(i);
        [first, second]
    }
    #[inline(always)]
    fn last<L: Lanes>(self) -> Option<L> {
        (self.k % 2 == 1).then(|| self.pairs.pair(self.k / 2)[1])
    }
    #[inline(always)]
    fn expect(self, i: usize) {
        self.pairs.expect(i);
    }
    #[inline(always)]
    fn split(self, n_pairs: usize) -> (Self, Self) {
        let (now, later) = self.pairs.split(n_pairs);
        (Self { pairs: now, k: 2 * n_pairs }, Self { pairs: later, k: self.k - 2 * n_pairs })
    }
}

impl<'a> InOrder<'a> {
    fn new(panel: &Panel<'a>) -> Self {
        Self { pairs: Swapped(panel.pairs()), k: panel.k }
    }
}

/// The order of the values of `k`: their own, or of each pair the second first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Natural,
    Swapped,
}

/// `f32` weights `[k][lane]` of one or two panels by activations `[k][height]`, added to `sums` (the rows of
/// the first panel, then of the second). `is_first` is true if no tile was multiplied by these weights just
/// before.
pub(super) fn wide(isa: Isa, panels: &[&[Row]], x: &[f32], is_first: bool, sums: &mut [Row]) {
    multiply(isa, panels, x, is_first, sums);
}

/// Weights of one or two panels in their stored type by activations, added to `sums` as in `wide`. The
/// order is that of the activations.
pub(super) fn stored(
    isa: Isa,
    panels: &[Panel],
    (x, order): (&[f32], Order),
    is_first: bool,
    sums: &mut [Row],
) {
    let both = [&panels[0], &panels[panels.len() - 1]];
    match (panels[0].format, order) {
        (Format::F16, Order::Natural) => {
            multiply(isa, &both.map(Panel::halves)[..panels.len()], x, is_first, sums);
        }
        (Format::Bf16, Order::Swapped) => {
            multiply(isa, &both.map(|panel| Swapped(panel.pairs()))[..panels.len()], x, is_first, sums);
        }
        (Format::Bf16, Order::Natural) => {
            multiply(isa, &both.map(InOrder::new)[..panels.len()], x, is_first, sums);
        }
        (format, order) => {
            unreachable!("{format:?} is not multiplied as it is stored, {order:?}")
        }
    }
}

/// Weights of 16 bits as `f32`: as many as there is room for.
pub(super) fn widen(isa: Isa, panel: &Panel, order: Order, room: &mut [Row]) {
    match (panel.format, order) {
        (Format::F16, _) => convert(isa, panel.halves(), room),
        (_, Order::Swapped) => convert(isa, Swapped(panel.pairs()), room),
        (_, Order::Natural) => convert(isa, InOrder::new(panel), room),
    }
}

fn convert<W: Weights>(isa: Isa, weights: W, room: &mut [Row]) {
    on_isa!(isa, converted<W: Weights>(weights: W, room: &mut [Row]));
}

#[inline(always)]
fn converted<L: Lanes, W: Weights>(weights: W, room: &mut [Row]) {
    let (pairs, last) = room.as_chunks_mut::<2>();
    for (i, [one, two]) in pairs.iter_mut().enumerate() {
        let weights = weights.pair::<L>(i);
        weights[0].store(one);
        weights[1].store(two);
    }
    if let ([last], Some(weights)) = (last, weights.last::<L>()) {
        weights.store(last);
    }
}

fn multiply<W: Weights>(isa: Isa, panels: &[W], x: &[f32], is_first: bool, sums: &mut [Row]) {
    on_isa!(isa, products<W: Weights>(panels: &[W], x: &[f32], is_first: bool, sums: &mut [Row]));
}

/// Runs `$kernel::<L, W, $n, R>` over the rows of a tile, `L::ROWS` at a time. A height is 1, 2 or a multiple
/// of 4.
macro_rules! in_rows {
    ($l:ident, $w:ident, $n:literal, $panels:expr, $x:expr, $is_first:expr, $sums:expr) => {{
        let height = $sums.len() / $n;
        let mut first = 0;
        while first < height {
            first += match height - first {
                1 => rows::<$l, $w, $n, 1>($panels, $x, $is_first, $sums, first),
                2 => rows::<$l, $w, $n, 2>($panels, $x, $is_first, $sums, first),
                4 => rows::<$l, $w, $n, 4>($panels, $x, $is_first, $sums, first),
                8.. if $l::ROWS == 8 => rows::<$l, $w, $n, 8>($panels, $x, $is_first, $sums, first),
                // Sixteen in three parts of about equal height: each hides the latency of its sums.
                5 | 10 if $l::ROWS == 6 => rows::<$l, $w, $n, 5>($panels, $x, $is_first, $sums, first),
                6 | 12.. if $l::ROWS == 6 => rows::<$l, $w, $n, 6>($panels, $x, $is_first, $sums, first),
                _ => rows::<$l, $w, $n, 4>($panels, $x, $is_first, $sums, first),
            };
        }
    }};
}

#[inline(always)]
fn products<L: Lanes, W: Weights>(panels: &[W], x: &[f32], is_first: bool, sums: &mut [Row]) {
    let height = sums.len() / panels.len();
    match *panels {
        // Where registers are few, two panels together serve so few rows that each panel has its turn.
        [one, two] if L::MANY || height <= 2 => in_rows!(L, W, 2, [one, two], x, is_first, sums),
        _ => {
            for (&panel, sums) in panels.iter().zip(sums.chunks_exact_mut(height)) {
                let (mut panel, mut x) = (panel, x);
                while height > L::ROWS && panel.n_pairs() > TURN {
                    let (now, later) = panel.split(TURN);
                    let (x_now, x_later) = x.split_at(2 * TURN * height);
                    in_rows!(L, W, 1, [now], x_now, is_first, sums);
                    (panel, x) = (later, x_later);
                }
                in_rows!(L, W, 1, [panel], x, is_first, sums);
            }
        }
    }
}

/// Sums of rows `first..first + R`. Returns `R`.
#[inline(always)]
fn rows<L: Lanes, W: Weights, const N: usize, const R: usize>(
    panels: [W; N],
    x: &[f32],
    is_first: bool,
    sums: &mut [Row],
    first: usize,
) -> usize {
    let height = sums.len() / N;
    let mut local = [[L::splat(0.0); N]; R];
    for (r, local) in local.iter_mut().enumerate() {
        for (p, local) in local.iter_mut().enumerate() {
            *local = L::load(&sums[p * height + first + r]);
        }
    }
    let (n_pairs, mut ahead) = (panels[0].n_pairs(), x);
    for i in 0..n_pairs {
        let mut weights = [[L::splat(0.0); 2]; N];
        for p in 0..N {
            if is_first && first == 0 {
                panels[p].expect(i);
            }
            weights[p] = panels[p].pair::<L>(i);
        }
        let (now, later) = ahead.split_at(2 * height);
        let (one, two) = now.split_at(height);
        let (one, two): (&[f32; R], &[f32; R]) = (take(one, first), take(two, first));
        for r in 0..R {
            let x = L::splat(one[r]);
            for p in 0..N {
                local[r][p] = weights[p][0].mul_add(x, local[r][p]);
            }
        }
        for r in 0..R {
            let x = L::splat(two[r]);
            for p in 0..N {
                local[r][p] = weights[p][1].mul_add(x, local[r][p]);
            }
        }
        ahead = later;
    }
    for p in 0..N {
        let Some(weights) = panels[p].last::<L>() else { continue };
        let x: &[f32; R] = take(ahead, first);
        for r in 0..R {
            local[r][p] = weights.mul_add(L::splat(x[r]), local[r][p]);
        }
    }
    for (r, local) in local.iter().enumerate() {
        for (p, local) in local.iter().enumerate() {
            local.store(&mut sums[p * height + first + r]);
        }
    }
    R
}

#[inline(always)]
fn take<const R: usize>(x: &[f32], first: usize) -> &[f32; R] {
    x[first..].first_chunk().expect("values of the tile's rows")
}
