//! Choosing a token from a row of logits, and its exact log-probabilities. It knows no grammar, only which
//! tokens are allowed.

use crate::{
    llm::Sampling,
    model::cpu::{
        Tier,
        softmax::{exponentials, log_sum_exp},
    },
};

/// One bit per token id, low bit first; a set bit allows the token.
pub type Mask = [u32];

/// A token and how probable it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub id: u32,
    /// Natural log of the probability over the whole vocabulary, at temperature 1.
    pub logprob: f64,
    /// The same over the allowed tokens.
    pub masked_logprob: f64,
}

/// Where a request's random numbers come from: the seed and the prompt, not the order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    #[must_use]
    pub fn new(seed: u64, prompt: &[u32]) -> Self {
        Self(prompt.iter().fold(mix(seed), |state, &id| mix(state ^ u64::from(id))))
    }

    /// A uniform number in 0..1 for the token at `index`, the same whenever it is asked for.
    fn uniform(self, index: usize) -> f64 {
        let bits = mix(self.0.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The finaliser of `SplitMix64`.
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Chooses the answer's token `index`. `None` when the mask allows nothing.
#[must_use]
pub fn choose(
    logits: &[f32],
    mask: Option<&Mask>,
    sampling: &Sampling,
    stream: Stream,
    index: usize,
    tier: Tier,
) -> Option<Choice> {
    let whole = log_sum_exp(tier, logits);
    let Some(mask) = mask else {
        let id = pick(logits, &[], sampling, stream, index, tier)?;
        let logprob = f64::from(logits[id as usize]) - whole;
        return Some(Choice { id, logprob, masked_logprob: logprob });
    };
    let ids: Vec<u32> = allowed(mask, logits.len()).collect();
    let some: Vec<f32> = ids.iter().map(|&id| logits[id as usize]).collect();
    let id = pick(&some, &ids, sampling, stream, index, tier)?;
    let logit = f64::from(logits[id as usize]);
    Some(Choice { id, logprob: logit - whole, masked_logprob: logit - log_sum_exp(tier, &some) })
}

/// The log-probability of a given token.
#[must_use]
pub fn weigh(logits: &[f32], id: u32, tier: Tier) -> f64 {
    f64::from(logits[id as usize]) - log_sum_exp(tier, logits)
}

/// The ids that a mask allows, ascending.
fn allowed(mask: &Mask, n_vocab: usize) -> impl Iterator<Item = u32> {
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
fn pick(
    logits: &[f32],
    ids: &[u32],
    sampling: &Sampling,
    stream: Stream,
    index: usize,
    tier: Tier,
) -> Option<u32> {
    let name = |at: usize| ids.get(at).copied().unwrap_or(at as u32);
    let (at, peak) = largest(logits)?;
    if sampling.temperature <= 0.0 {
        return Some(name(at));
    }
    let weights = exponentials(tier, logits, peak, sampling.temperature);
    let kept = nucleus(&weights, f64::from(sampling.top_p));
    let weight = |at: usize| f64::from(weights[at]);
    let mut left = stream.uniform(index) * kept.iter().map(|&at| weight(at)).sum::<f64>();
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

/// The place of the largest logit, the first of equals, and its value.
fn largest(logits: &[f32]) -> Option<(usize, f32)> {
    let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|&logit| logit >= peak).map(|at| (at, peak))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(logits: &[f32], mask: Option<&Mask>, sampling: &Sampling, expected: u32) {
        let choice = choose(logits, mask, sampling, Stream::new(0, &[1]), 0, Tier::detect());
        assert_eq!(choice.map(|c| c.id), Some(expected));
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest_allowed() {
        let greedy = Sampling::default();
        check(&[0.0, 2.0, 2.0, 1.0], None, &greedy, 1);
        check(&[0.0, 2.0, 2.0, 1.0], Some(&[0b1100]), &greedy, 2);
        check(&[0.0, 2.0, 2.0, 1.0], Some(&[0b1001]), &greedy, 3);
        assert!(choose(&[0.0], Some(&[0]), &greedy, Stream::new(0, &[]), 0, Tier::Portable).is_none());
    }

    #[test]
    fn log_probabilities_are_those_of_the_softmax() {
        let logits: Vec<f32> = (0..5000).map(|i| ((i * 37) % 113) as f32 / 9.0 - 3.0).collect();
        let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        for tier in Tier::available() {
            let greedy = choose(&logits, None, &Sampling::default(), Stream::new(0, &[]), 0, tier);
            let choice = greedy.expect("a choice");
            let expected = f64::from(logits[choice.id as usize]) - total.ln();
            assert!((choice.logprob - expected).abs() < 1e-6);
        }
        let some =
            choose(&logits, Some(&[0b110]), &Sampling::default(), Stream::new(0, &[]), 0, Tier::Portable);
        let pair = f64::from(logits[1]).exp() + f64::from(logits[2]).exp();
        let some = some.expect("a choice");
        assert!((some.masked_logprob - (f64::from(logits[some.id as usize]) - pair.ln())).abs() < 1e-6);
    }

    #[test]
    fn sampling_follows_the_distribution_and_its_seed() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        let logits = [0.0, 3.0_f32.ln(), f32::NEG_INFINITY];
        let draw = |index| choose(&logits, None, &sampling, Stream::new(7, &[1, 2]), index, Tier::Portable);
        let ones = (0..4000).filter(|&i| draw(i).expect("a choice").id == 1).count();
        assert!((2850..3150).contains(&ones), "three quarters of 4000 are 3000, not {ones}");
        assert_eq!(draw(5), draw(5));
        let nucleus = Sampling { top_p: 0.7, ..sampling };
        assert!((0..200).all(|i| {
            choose(&logits, None, &nucleus, Stream::new(7, &[]), i, Tier::Portable).expect("a choice").id == 1
        }));
    }
}
