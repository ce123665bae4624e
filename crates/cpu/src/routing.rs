//! The choice of experts for one row, on a CPU. It multiplies nothing.

use super::{
    Isa,
    lanes::{Lanes, WIDTH, sigmoid},
    on_isa,
    softmax::{exponentials, largest},
};
use tribunal_model::config::{Routing, Scoring};

/// An expert of a row, and the weight of its output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chosen {
    pub expert: u32,
    pub weight: f32,
}

/// The experts of a row with their weights, in the order of their numbers; `bias` is the correction bias, or
/// empty. Where logits or biases are NaN, the first ones, with NaN weights.
pub(super) fn choose(routing: &Routing, logits: &[f32], bias: &[f32], isa: Isa) -> Vec<Chosen> {
    let Routing { scoring, top_k, normalised, scale, .. } = *routing;
    let are_numbers = logits.iter().chain(bias).all(|x| !x.is_nan());
    let Some(scores) = are_numbers.then(|| scores(scoring, logits, isa)).flatten() else {
        return (0..top_k as u32).map(|expert| Chosen { expert, weight: f32::NAN }).collect();
    };
    let mut chosen = places(routing, &scores, bias);
    chosen.sort_unstable();
    let total = normalised.map(|more| chosen.iter().map(|&at| scores[at]).sum::<f32>() + more);
    let weight = |at: usize| total.map_or(scores[at], |total| scores[at] / total) * scale;
    chosen.into_iter().map(|at| Chosen { expert: at as u32, weight: weight(at) }).collect()
}

/// `None` where infinite or NaN logits make a softmax of NaN.
fn scores(scoring: Scoring, logits: &[f32], isa: Isa) -> Option<Vec<f32>> {
    if scoring == Scoring::Sigmoid {
        let mut scores = logits.to_vec();
        logistic(isa, &mut scores);
        return Some(scores);
    }
    let peak = largest(isa, logits);
    if !peak.is_finite() {
        return None;
    }
    let mut scores = exponentials(isa, logits, peak, 1.0);
    let total: f32 = scores.iter().sum();
    for score in &mut scores {
        *score /= total;
    }
    Some(scores)
}

/// `x = 1 / (1 + e^-x)`.
pub(super) fn logistic(isa: Isa, x: &mut [f32]) {
    on_isa!(isa, logistic_lanes<>(x: &mut [f32]));
}

#[inline(always)]
fn logistic_lanes<L: Lanes>(x: &mut [f32]) {
    let (chunks, tail) = x.as_chunks_mut::<WIDTH>();
    for lanes in chunks {
        sigmoid(L::load(lanes)).store(lanes);
    }
    let mut last = [0.0; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    sigmoid(L::load(&last)).store(&mut last);
    tail.copy_from_slice(&last[..tail.len()]);
}

/// The indices of the chosen experts, the best first.
fn places(routing: &Routing, scores: &[f32], bias: &[f32]) -> Vec<usize> {
    let Routing { top_k, n_groups, top_groups, best_of_group, .. } = *routing;
    let by: Vec<f32> = if bias.is_empty() {
        scores.to_vec()
    } else {
        scores.iter().zip(bias).map(|(score, bias)| score + bias).collect()
    };
    if n_groups == 1 {
        return best(&by, 0..by.len(), top_k);
    }
    let of_group = by.len() / n_groups;
    let experts = |group: usize| group * of_group..(group + 1) * of_group;
    let sum =
        |group: usize| best(&by, experts(group), best_of_group).into_iter().map(|at| by[at]).sum::<f32>();
    let sums: Vec<f32> = (0..n_groups).map(sum).collect();
    let mut groups = best(&sums, 0..n_groups, top_groups);
    // In order, so that of equal experts the lower number is the first one.
    groups.sort_unstable();
    best(&by, groups.into_iter().flat_map(experts), top_k)
}

/// The indices of the `n` largest values among some, the largest first; of equal ones, the one that comes
/// first.
fn best(values: &[f32], among: impl IntoIterator<Item = usize>, n: usize) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::with_capacity(n + 1);
    for at in among {
        let rank = best.partition_point(|&other| values[other].total_cmp(&values[at]).is_ge());
        if rank < n {
            best.insert(rank, at);
            best.truncate(n);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(routing: Routing, logits: &[f32], bias: &[f32]) -> Vec<(u32, f32)> {
        let all: Vec<Vec<Chosen>> = Isa::available().map(|isa| choose(&routing, logits, bias, isa)).collect();
        assert!(all.iter().all(|one| format!("{one:?}") == format!("{:?}", all[0])), "the same on every one");
        all[0].iter().map(|chosen| (chosen.expert, chosen.weight)).collect()
    }

    fn sigmoid(top_k: usize) -> Routing {
        Routing {
            scoring: Scoring::Sigmoid,
            has_bias: true,
            normalised: None,
            ..Routing::softmax(top_k, false)
        }
    }

    #[test]
    fn weights_are_the_softmax_over_all_experts() {
        let logits = [0.0, 2.0_f32.ln(), 5.0_f32.ln(), 0.0, 0.0];
        let near = |found: Vec<(u32, f32)>, expected: [(u32, f32); 2]| {
            assert_eq!(found.len(), 2);
            for (a, b) in found.into_iter().zip(expected) {
                assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-6, "{a:?} {b:?}");
            }
        };
        near(chosen(Routing::softmax(2, false), &logits, &[]), [(1, 0.2), (2, 0.5)]);
        near(chosen(Routing::softmax(2, true), &logits, &[]), [(1, 2.0 / 7.0), (2, 5.0 / 7.0)]);
        let doubled = Routing { scale: 2.0, ..Routing::softmax(2, true) };
        near(chosen(doubled, &logits, &[]), [(1, 4.0 / 7.0), (2, 10.0 / 7.0)]);
    }

    #[test]
    fn of_equal_experts_the_lower_numbers_are_chosen() {
        let numbers = |routing, logits: &[f32], bias: &[f32]| -> Vec<u32> {
            chosen(routing, logits, bias).into_iter().map(|(expert, _)| expert).collect()
        };
        assert_eq!(numbers(Routing::softmax(3, true), &[1.0; 40], &[]), [0, 1, 2]);
        assert_eq!(numbers(Routing::softmax(2, true), &[0.0, 1.0, 2.0, 1.0, 1.0], &[]), [1, 2]);
        assert_eq!(numbers(sigmoid(2), &[0.0; 6], &[0.0; 6]), [0, 1]);
        let grouped = Routing { n_groups: 3, top_groups: 2, ..sigmoid(3) };
        // Groups 1 and 2 are equally good, and better than group 0.
        assert_eq!(numbers(grouped, &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0], &[0.0; 6]), [2, 3, 4]);
        assert_eq!(numbers(grouped, &[0.0; 6], &[0.0; 6]), [0, 1, 2]);
    }

    #[test]
    fn a_bias_chooses_and_does_not_weigh() {
        let found = chosen(sigmoid(1), &[0.0, 3.0, 0.0], &[0.0, 0.0, 1.0]);
        assert_eq!(found, [(2, 0.5)]);
    }

    #[test]
    fn logits_that_are_not_numbers_give_weights_that_are_not() {
        for (routing, logits) in [
            (Routing::softmax(2, true), [0.0, f32::NAN, 1.0]),
            (Routing::softmax(2, true), [0.0, f32::INFINITY, 1.0]),
            (Routing::softmax(2, false), [f32::NEG_INFINITY; 3]),
            (sigmoid(2), [f32::NAN, 0.0, 1.0]),
        ] {
            let found = chosen(routing, &logits, &[0.0; 3]);
            assert!(found.len() == 2 && found.iter().all(|(_, weight)| weight.is_nan()), "{found:?}");
        }
        let infinite = chosen(sigmoid(1), &[f32::INFINITY, 0.0], &[0.0; 2]);
        assert_eq!(infinite, [(0, 1.0)]);
    }
}
