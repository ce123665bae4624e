//! Sampling a token from a row of logits, and exact log-probabilities, on a CPU.

use super::{
    Isa,
    softmax::{self, exponentials, log_sum_exp},
};
use tribunal_model::sampler::{SampleRequest, SampledToken, SamplingParams};

/// Answers the request for a row; `None` if nothing is requested, the mask allows no token, or the row has a
/// NaN.
pub fn sample(logits: &[f32], request: &SampleRequest, isa: Isa) -> Option<SampledToken> {
    match request {
        SampleRequest::Nothing => None,
        SampleRequest::Weigh(id) => {
            let logprob = logprobs(logits, &[*id], isa)?.pop()?;
            Some(SampledToken { id: *id, logprob, masked_logprob: logprob })
        }
        SampleRequest::Choose(_) if has_nan(logits) => None,
        SampleRequest::Choose(how) => sample_token(logits, how, isa),
    }
}

/// The log-probabilities of some tokens under a row, with one log-sum-exp for all of them; `None` if the row
/// has a NaN or lacks one of the tokens.
pub fn logprobs(logits: &[f32], ids: &[u32], isa: Isa) -> Option<Vec<f64>> {
    if has_nan(logits) {
        return None;
    }
    let normaliser = log_sum_exp(isa, logits);
    ids.iter().map(|&id| Some(f64::from(*logits.get(id as usize)?) - normaliser)).collect()
}

/// A separate pass, which vectorises, since the maximum ignores NaNs.
fn has_nan(logits: &[f32]) -> bool {
    logits.iter().fold(false, |bad, x| bad | x.is_nan())
}

fn sample_token(logits: &[f32], how: &SamplingParams, isa: Isa) -> Option<SampledToken> {
    let normaliser = log_sum_exp(isa, logits);
    let Some(mask) = &how.mask else {
        let id = pick(logits, &[], how, isa)?;
        let logprob = f64::from(logits[id as usize]) - normaliser;
        return Some(SampledToken { id, logprob, masked_logprob: logprob });
    };
    let ids: Vec<u32> = allowed(mask, logits.len()).collect();
    let some: Vec<f32> = ids.iter().map(|&id| logits[id as usize]).collect();
    let id = pick(&some, &ids, how, isa)?;
    let logit = f64::from(logits[id as usize]);
    Some(SampledToken { id, logprob: logit - normaliser, masked_logprob: logit - log_sum_exp(isa, &some) })
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

/// Picks among logits; `ids` names them, or is empty when their index is their id.
fn pick(logits: &[f32], ids: &[u32], how: &SamplingParams, isa: Isa) -> Option<u32> {
    let name = |at: usize| ids.get(at).copied().unwrap_or(at as u32);
    let (at, peak) = largest(logits, isa)?;
    if how.temperature <= 0.0 {
        return Some(name(at));
    }
    let weights = exponentials(isa, logits, peak, how.temperature);
    let candidates = nucleus(&weights, f64::from(how.top_p));
    let weight = |at: usize| f64::from(weights[at]);
    let mut left = how.draw * candidates.iter().map(|&at| weight(at)).sum::<f64>();
    let found = candidates.iter().find(|&&at| {
        left -= weight(at);
        left < 0.0
    });
    found.or(candidates.last()).copied().map(name)
}

/// The fewest indices whose weights reach the share `top_p` of all, in the order of the row; of equal weights
/// the first ones.
fn nucleus(weights: &[f32], top_p: f64) -> Vec<usize> {
    if top_p >= 1.0 {
        return (0..weights.len()).filter(|&at| weights[at] > 0.0).collect();
    }
    let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    // All weights below this add up to less than the fraction outside the nucleus, so none of them is in it.
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

/// Logits in one chunk of the search for the largest.
const CHUNK: usize = 1024;

/// The index of the largest logit, the first of equals, and its value.
fn largest(logits: &[f32], isa: Isa) -> Option<(usize, f32)> {
    let peaks = logits.chunks(CHUNK).map(|chunk| softmax::largest(isa, chunk)).enumerate();
    let (chunk, peak) = peaks.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let first = chunk * CHUNK;
    logits[first..].iter().position(|&logit| logit >= peak).map(|at| (first + at, peak))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greedy(mask: Option<&[u32]>) -> SamplingParams {
        SamplingParams { mask: mask.map(<[u32]>::to_vec), temperature: 0.0, top_p: 1.0, draw: 0.0 }
    }

    fn check(logits: &[f32], mask: Option<&[u32]>, expected: u32) {
        let choice = sample_token(logits, &greedy(mask), Isa::detect());
        assert_eq!(choice.map(|c| c.id), Some(expected));
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest_allowed() {
        check(&[0.0, 2.0, 2.0, 1.0], None, 1);
        check(&[0.0, 2.0, 2.0, 1.0], Some(&[0b1100]), 2);
        check(&[0.0, 2.0, 2.0, 1.0], Some(&[0b1001]), 3);
        assert!(sample_token(&[0.0], &greedy(Some(&[0])), Isa::PORTABLE).is_none());
        assert!(sample(&[0.0], &SampleRequest::Nothing, Isa::PORTABLE).is_none());
        for mask in [&[0b01], &[0b10]] {
            assert!(
                sample(&[f32::NAN, 1.0], &SampleRequest::Choose(greedy(Some(mask))), Isa::PORTABLE).is_none()
            );
        }
        assert!(sample(&[f32::NAN, 1.0], &SampleRequest::Weigh(1), Isa::PORTABLE).is_none());
    }

    #[test]
    fn the_first_of_the_largest_is_found_anywhere() {
        for isa in Isa::available() {
            for (n, places) in
                [(1, &[0][..]), (17, &[16]), (5000, &[1023, 1024, 4999]), (5000, &[4100, 4101])]
            {
                let mut logits: Vec<f32> = (0..n).map(|i| -1.0 - (i % 7) as f32).collect();
                for &at in places {
                    logits[at] = 3.0;
                }
                assert_eq!(largest(&logits, isa), Some((places[0], 3.0)), "{isa:?}");
                logits.fill(f32::NEG_INFINITY);
                assert_eq!(largest(&logits, isa), Some((0, f32::NEG_INFINITY)), "{isa:?}");
            }
            assert_eq!(largest(&[], isa), None);
        }
    }

    #[test]
    fn log_probabilities_are_those_of_the_softmax() {
        let logits: Vec<f32> = (0..5000).map(|i| ((i * 37) % 113) as f32 / 9.0 - 3.0).collect();
        let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        for isa in Isa::available() {
            let choice = sample_token(&logits, &greedy(None), isa).expect("a token");
            let expected = f64::from(logits[choice.id as usize]) - total.ln();
            assert!((choice.logprob - expected).abs() < 1e-6);
            let scored = sample(&logits, &SampleRequest::Weigh(choice.id), isa).expect("a score");
            assert_eq!(scored.logprob.to_bits(), choice.logprob.to_bits());
            let together = logprobs(&logits, &[3, choice.id], isa).expect("two scores");
            assert_eq!(together[1].to_bits(), choice.logprob.to_bits());
            assert!(logprobs(&logits, &[5000], isa).is_none());
        }
        let some = sample_token(&logits, &greedy(Some(&[0b110])), Isa::PORTABLE).expect("a token");
        let pair = f64::from(logits[1]).exp() + f64::from(logits[2]).exp();
        assert!((some.masked_logprob - (f64::from(logits[some.id as usize]) - pair.ln())).abs() < 1e-6);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let logits = [0.0, 3.0_f32.ln(), f32::NEG_INFINITY];
        let draw = |i: usize, top_p| {
            let how = SamplingParams { mask: None, temperature: 1.0, top_p, draw: (i as f64 + 0.5) / 4000.0 };
            sample_token(&logits, &how, Isa::PORTABLE).expect("a token").id
        };
        let ones = (0..4000).filter(|&i| draw(i, 1.0) == 1).count();
        assert!((2999..=3001).contains(&ones), "three quarters of 4000 are 3000, not {ones}");
        assert!((0..200).all(|i| draw(i * 20, 0.7) == 1), "one token is 0.75 of all");
    }
}
