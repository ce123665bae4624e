//! Choosing a token from a row of logits, and its exact log-probabilities, on a CPU.

use super::{
    Tier,
    softmax::{self, exponentials, log_sum_exp},
};
use crate::model::tail::{Choice, Choosing, Want};

/// What is wanted of a row; `None` where nothing is, where the mask allows nothing, or where the row has a NaN.
#[must_use]
pub fn take(logits: &[f32], want: &Want, tier: Tier) -> Option<Choice> {
    match want {
        Want::Nothing => None,
        Want::Weigh(id) => {
            let logprob = logprobs(logits, &[*id], tier)?.pop()?;
            Some(Choice { id: *id, logprob, masked_logprob: logprob })
        }
        Want::Choose(_) if has_nan(logits) => None,
        Want::Choose(how) => choose(logits, how, tier),
    }
}

/// The log-probabilities of some tokens under a row, for which all logits are summed up once; `None` where the row has
/// a NaN or no such token.
#[must_use]
pub fn logprobs(logits: &[f32], ids: &[u32], tier: Tier) -> Option<Vec<f64>> {
    if has_nan(logits) {
        return None;
    }
    let whole = log_sum_exp(tier, logits);
    ids.iter().map(|&id| Some(f64::from(*logits.get(id as usize)?) - whole)).collect()
}

/// One look at all bits, which vectorises: NaNs are neither the largest nor do they weigh anything.
fn has_nan(logits: &[f32]) -> bool {
    logits.iter().fold(false, |bad, x| bad | x.is_nan())
}

fn choose(logits: &[f32], how: &Choosing, tier: Tier) -> Option<Choice> {
    let whole = log_sum_exp(tier, logits);
    let Some(mask) = &how.mask else {
        let id = pick(logits, &[], how, tier)?;
        let logprob = f64::from(logits[id as usize]) - whole;
        return Some(Choice { id, logprob, masked_logprob: logprob });
    };
    let ids: Vec<u32> = allowed(mask, logits.len()).collect();
    let some: Vec<f32> = ids.iter().map(|&id| logits[id as usize]).collect();
    let id = pick(&some, &ids, how, tier)?;
    let logit = f64::from(logits[id as usize]);
    Some(Choice { id, logprob: logit - whole, masked_logprob: logit - log_sum_exp(tier, &some) })
}

/// The ids that a mask allows, ascending.
fn allowed(mask: &[u32], n_vocab: usize) -> impl Iterator<Item = u32> {
    let bits = |(word, &bits): (usize, &u32)| {
        let mut left = bits;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (at < 32).then_some(word as u32 * 32 + at)
        })
    };
    mask.iter().enumerate().flat_map(bits).take_while(move |&id| (id as usize) < n_vocab)
}

/// Picks among logits; `ids` names them, or is empty when their place is their id.
fn pick(logits: &[f32], ids: &[u32], how: &Choosing, tier: Tier) -> Option<u32> {
    let name = |at: usize| ids.get(at).copied().unwrap_or(at as u32);
    let (at, peak) = largest(logits, tier)?;
    if how.temperature <= 0.0 {
        return Some(name(at));
    }
    let weights = exponentials(tier, logits, peak, how.temperature);
    let kept = nucleus(&weights, f64::from(how.top_p));
    let weight = |at: usize| f64::from(weights[at]);
    let mut left = how.draw * kept.iter().map(|&at| weight(at)).sum::<f64>();
    let found = kept.iter().find(|&&at| {
        left -= weight(at);
        left < 0.0
    });
    found.or(kept.last()).copied().map(name)
}

/// The fewest places whose weights reach the share `top_p` of all, in the order of the row; of equal weights the
/// first ones.
fn nucleus(weights: &[f32], top_p: f64) -> Vec<usize> {
    if top_p >= 1.0 {
        return (0..weights.len()).filter(|&at| weights[at] > 0.0).collect();
    }
    let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    // What is lighter than this does not add up to the rest, so nothing of it is needed.
    let least = (1.0 - top_p) * total / weights.len() as f64;
    let mut order: Vec<usize> = (0..weights.len()).filter(|&at| f64::from(weights[at]) >= least).collect();
    order.sort_unstable_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    let mut reached = 0.0;
    let last = order.iter().position(|&at| {
        reached += f64::from(weights[at]);
        reached >= top_p * total
    });
    order.truncate(last.map_or(order.len(), |last| last + 1));
    order.sort_unstable();
    order
}

/// Logits that are looked through for the largest of all.
const CHUNK: usize = 1024;

/// The place of the largest logit, the first of equals, and its value.
fn largest(logits: &[f32], tier: Tier) -> Option<(usize, f32)> {
    let peaks = logits.chunks(CHUNK).map(|chunk| softmax::largest(tier, chunk)).enumerate();
    let (chunk, peak) = peaks.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let first = chunk * CHUNK;
    logits[first..].iter().position(|&logit| logit >= peak).map(|at| (first + at, peak))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greedy(mask: Option<&[u32]>) -> Choosing {
        Choosing { mask: mask.map(<[u32]>::to_vec), temperature: 0.0, top_p: 1.0, draw: 0.0 }
    }

    fn check(logits: &[f32], mask: Option<&[u32]>, expected: u32) {
        let choice = choose(logits, &greedy(mask), Tier::detect());
        assert_eq!(choice.map(|c| c.id), Some(expected));
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest_allowed() {
        check(&[0.0, 2.0, 2.0, 1.0], None, 1);
        check(&[0.0, 2.0, 2.0, 1.0], Some(&[0b1100]), 2);
        check(&[0.0, 2.0, 2.0, 1.0], Some(&[0b1001]), 3);
        assert!(choose(&[0.0], &greedy(Some(&[0])), Tier::PORTABLE).is_none());
        assert!(take(&[0.0], &Want::Nothing, Tier::PORTABLE).is_none());
        for mask in [&[0b01], &[0b10]] {
            assert!(take(&[f32::NAN, 1.0], &Want::Choose(greedy(Some(mask))), Tier::PORTABLE).is_none());
        }
        assert!(take(&[f32::NAN, 1.0], &Want::Weigh(1), Tier::PORTABLE).is_none());
    }

    #[test]
    fn the_first_of_the_largest_is_found_anywhere() {
        for tier in Tier::available() {
            for (n, places) in
                [(1, &[0][..]), (17, &[16]), (5000, &[1023, 1024, 4999]), (5000, &[4100, 4101])]
            {
                let mut logits: Vec<f32> = (0..n).map(|i| -1.0 - (i % 7) as f32).collect();
                for &at in places {
                    logits[at] = 3.0;
                }
                assert_eq!(largest(&logits, tier), Some((places[0], 3.0)), "{tier:?}");
                logits.fill(f32::NEG_INFINITY);
                assert_eq!(largest(&logits, tier), Some((0, f32::NEG_INFINITY)), "{tier:?}");
            }
            assert_eq!(largest(&[], tier), None);
        }
    }

    #[test]
    fn log_probabilities_are_those_of_the_softmax() {
        let logits: Vec<f32> = (0..5000).map(|i| ((i * 37) % 113) as f32 / 9.0 - 3.0).collect();
        let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        for tier in Tier::available() {
            let choice = choose(&logits, &greedy(None), tier).expect("a choice");
            let expected = f64::from(logits[choice.id as usize]) - total.ln();
            assert!((choice.logprob - expected).abs() < 1e-6);
            let scored = take(&logits, &Want::Weigh(choice.id), tier).expect("a weight");
            assert_eq!(scored.logprob.to_bits(), choice.logprob.to_bits());
            let together = logprobs(&logits, &[3, choice.id], tier).expect("two weights");
            assert_eq!(together[1].to_bits(), choice.logprob.to_bits());
            assert!(logprobs(&logits, &[5000], tier).is_none());
        }
        let some = choose(&logits, &greedy(Some(&[0b110])), Tier::PORTABLE).expect("a choice");
        let pair = f64::from(logits[1]).exp() + f64::from(logits[2]).exp();
        assert!((some.masked_logprob - (f64::from(logits[some.id as usize]) - pair.ln())).abs() < 1e-6);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let logits = [0.0, 3.0_f32.ln(), f32::NEG_INFINITY];
        let draw = |i: usize, top_p| {
            let how = Choosing { mask: None, temperature: 1.0, top_p, draw: (i as f64 + 0.5) / 4000.0 };
            choose(&logits, &how, Tier::PORTABLE).expect("a choice").id
        };
        let ones = (0..4000).filter(|&i| draw(i, 1.0) == 1).count();
        assert!((2999..=3001).contains(&ones), "three quarters of 4000 are 3000, not {ones}");
        assert!((0..200).all(|i| draw(i * 20, 0.7) == 1), "one token is 0.75 of all");
    }
}
