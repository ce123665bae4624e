//! Estimated time of a run on a device: each token is multiplied with the same weights, and a device has a
//! rate for the tokens of prompts and one for those of answers. Some were measured; another GPU is taken to
//! reach the shares of bandwidth and peak that an H200 reaches.

use super::hub::Card;

/// Kind of model that a device's rates were measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Weights of 16 bits.
    Dense,
    /// Weights of 4 to 8 bits.
    Quantised,
    /// A mixture of experts, measured with weights of 16 bits; those of 4 to 8 bits are taken to be no
    /// faster.
    Mixture,
}

/// A GPU, with the figures of its maker.
#[derive(Debug)]
pub struct Gpu {
    pub name: &'static str,
    /// Memory for a program.
    pub bytes: u64,
    /// Unit: bytes per second.
    bandwidth: f64,
    /// Products in bf16 of dense matrices. Unit: operations per second.
    peak: f64,
}

impl Gpu {
    const fn new(name: &'static str, gib: u64, bandwidth: f64, peak: f64) -> Self {
        Self { name, bytes: gib << 30, bandwidth, peak }
    }
}

/// GPUs of one machine each, the smallest first.
pub const GPUS: [Gpu; 7] = [
    Gpu::new("L4", 22, 3.0e11, 1.21e14),
    Gpu::new("RTX 4090", 23, 1.01e12, 1.65e14),
    Gpu::new("L40S", 44, 8.64e11, 3.62e14),
    Gpu::new("A100", 79, 2.04e12, 3.12e14),
    Gpu::new("H100", 79, 3.35e12, 9.89e14),
    H200,
    Gpu::new("B200", 178, 8.0e12, 2.25e15),
];
const H200: Gpu = Gpu::new("H200", 139, 4.8e12, 9.89e14);

/// Rates of a device, the least and the most. Unit: weights that a token is multiplied with, times tokens per
/// second.
#[derive(Clone, Copy)]
struct Rates {
    prompts: [f64; 2],
    /// Of 64 to 256 answers at once on a GPU, of 8 to 16 on a CPU.
    answers: [f64; 2],
}

/// Measurements of a device, by name and kind, with the day and the commit.
/// [BENCHMARKS.md](../../../../BENCHMARKS.md) has them, with prompts of 512 to 8,192 tokens: Qwen2.5 7B in
/// bf16, on the H200 also 14B and Qwen3.5 4B; Qwen2.5 1.5B in `Q4_K_M`; Qwen3 30B-A3B and Qwen3.6 35B-A3B in
/// bf16; of a CPU, Qwen2.5 0.5B in `Q4_K_M` on two cores, halved.
const MEASURED: [(&str, Kind, &str, Rates); 4] = [
    (
        "H100",
        Kind::Dense,
        "2026-11-24, commit 7871754",
        Rates { prompts: [1.87e14, 2.45e14], answers: [5.5e13, 1.26e14] },
    ),
    ("H200", Kind::Dense, ON_H200, Rates { prompts: [1.26e14, 2.44e14], answers: [3.9e13, 1.46e14] }),
    ("H200", Kind::Quantised, ON_H200, Rates { prompts: [4.8e13, 7.6e13], answers: [2.7e13, 4.2e13] }),
    ("H200", Kind::Mixture, ON_H200, Rates { prompts: [4.4e13, 1.0e14], answers: [9.1e12, 3.3e13] }),
];
const ON_H200: &str = "2026-11-27, commit 4aef61b1";
const CORE: Rates = Rates { prompts: [2.2e11, 2.8e11], answers: [9.2e10, 1.24e11] };
const ON_CORE: &str = "2026-11-22, commit 860ac6a";

/// Tokens that a run computes.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Tokens of prompts, common beginnings counted once.
    pub prompt_tokens: usize,
    pub answer_tokens: usize,
}

/// Numbers of a model's weights.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Weights that a token is multiplied with.
    of_token: f64,
    all: f64,
}

impl Weights {
    /// `None` for a card without a shape.
    pub fn from_card(card: &Card) -> Option<Self> {
        let shape = card.shape?;
        let all = shape.layer_weights() + shape.vocab * shape.hidden;
        Some(Self { of_token: shape.weights_of_token() as f64, all: all as f64 })
    }
}

impl Kind {
    /// `None` for a card without a shape or size.
    pub fn from_card(card: &Card, weights: Weights) -> Option<Self> {
        /// Bytes of a weight, between those of 8 and of 16 bits.
        const QUANTISED: f64 = 1.5;
        let is_mixture = card.shape?.experts.is_some();
        let is_quantised = (card.weight_bytes()? as f64) < QUANTISED * weights.all;
        Some(match (is_mixture, is_quantised) {
            (true, _) => Self::Mixture,
            (false, true) => Self::Quantised,
            (false, false) => Self::Dense,
        })
    }
}

impl Rates {
    /// The least and the most time, where a token of an answer is multiplied with so many weights at the
    /// least and the most. Unit: seconds.
    fn seconds(&self, weights: Weights, of_answers: [f64; 2], work: Work) -> [f64; 2] {
        let at = |i: usize, of_answers: f64| {
            let prompts = weights.of_token * work.prompt_tokens as f64 / self.prompts[i];
            prompts + of_answers * work.answer_tokens as f64 / self.answers[i]
        };
        [at(1, of_answers[0]), at(0, of_answers[1])]
    }
}

impl Gpu {
    /// True if its memory is about that much.
    pub fn has_about(&self, bytes: u64) -> bool {
        self.bytes.abs_diff(bytes) < self.bytes / 10
    }

    /// True if it has as much bandwidth and peak as another one.
    fn is_no_slower(&self, other: &Self) -> bool {
        self.bandwidth >= other.bandwidth && self.peak >= other.peak
    }

    /// Its rates by itself, and the day of the measurement.
    fn alone(&self, kind: Kind) -> Option<(Rates, Option<&'static str>)> {
        let of = |name: &str| MEASURED.iter().find(|(gpu, of, ..)| *gpu == name && *of == kind);
        if let Some(&(.., when, rates)) = of(self.name) {
            return Some((rates, Some(when)));
        }
        let &(.., Rates { prompts, answers }) = of(H200.name)?;
        let (peak, bandwidth) = (self.peak / H200.peak, self.bandwidth / H200.bandwidth);
        // Of few answers at once, reading the weights takes most time; of many, the products.
        let answers = [answers[0] * peak.min(bandwidth), answers[1] * peak.max(bandwidth)];
        Some((Rates { prompts: prompts.map(|rate| rate * peak), answers }, None))
    }

    /// The least and the most time, in seconds, and its origin in words. Measurements of different models
    /// overlap: a GPU's least rates are at most those of GPUs with as much bandwidth and peak, and its most
    /// rates at least those of GPUs with no more.
    pub fn seconds(&self, kind: Kind, weights: Weights, work: Work) -> Option<([f64; 2], String)> {
        let (mut rates, when) = self.alone(kind)?;
        for other in &GPUS {
            let (of, _) = other.alone(kind)?;
            if other.is_no_slower(self) {
                rates.prompts[0] = rates.prompts[0].min(of.prompts[0]);
                rates.answers[0] = rates.answers[0].min(of.answers[0]);
            }
            if self.is_no_slower(other) {
                rates.prompts[1] = rates.prompts[1].max(of.prompts[1]);
                rates.answers[1] = rates.answers[1].max(of.answers[1]);
            }
        }
        let origin = when.map_or(" from bandwidth and peak".to_owned(), |when| format!("; measured {when}"));
        Some((rates.seconds(weights, [weights.of_token; 2], work), origin))
    }
}

/// The core hours of a run on CPUs, as name and value.
pub fn on_cpus(weights: Weights, work: Work) -> (String, String) {
    // Steps of few answers read all experts of a mixture, and multiply with some.
    let [least, most] =
        CORE.seconds(weights, [weights.of_token, weights.all], work).map(|seconds| figures(seconds / 3600.0));
    let value = format!("{least} to {most} core hours (estimate for AVX-512 and Q4_K_M; measured {ON_CORE})");
    ("time on CPUs".to_owned(), value)
}

/// `12 to 30 min`.
pub fn range([least, most]: [f64; 2]) -> String {
    let (unit, name) = match most {
        s if s < 120.0 => (1.0, "s"),
        s if s < 120.0 * 60.0 => (60.0, "min"),
        _ => (3600.0, "hours"),
    };
    format!("{} to {} {name}", figures(least / unit), figures(most / unit))
}

/// Two figures: an estimate has no more.
fn figures(value: f64) -> String {
    match value {
        v if v < 0.095 => format!("{v:.2}"),
        v if v < 9.5 => format!("{v:.1}"),
        v if v < 99.5 => format!("{v:.0}"),
        v => {
            let unit = 10_f64.powf(v.log10().floor() - 1.0);
            format!("{:.0}", (v / unit).round() * unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub;

    fn h200() -> &'static Gpu {
        GPUS.iter().find(|gpu| gpu.name == "H200").unwrap()
    }

    /// The measurements themselves: prompts and answers at once on an H200, in tokens per second.
    #[test]
    fn what_was_measured_lies_in_the_range() {
        for (name, kind, prompts, answers) in [
            ("qwen2.5-7b-instruct", Kind::Dense, [27_505, 34_528], [8_877, 20_585]),
            ("qwen2.5-coder-1.5b-instruct", Kind::Quantised, [31_302, 49_047], [17_680, 26_945]),
            ("qwen3-30b-a3b-instruct-2507", Kind::Mixture, [21_399, 32_795], [5_226, 10_897]),
        ] {
            let card = hub::find(name).unwrap();
            let weights = Weights::from_card(&card).unwrap();
            assert_eq!(Kind::from_card(&card, weights), Some(kind), "{name}");
            for (rate, of_prompts) in
                prompts.map(|rate| (rate, true)).into_iter().chain(answers.map(|rate| (rate, false)))
            {
                let tokens = 1000 * rate;
                let [prompt_tokens, answer_tokens] = if of_prompts { [tokens, 0] } else { [0, tokens] };
                let work = Work { prompt_tokens, answer_tokens };
                let ([least, most], origin) = h200().seconds(kind, weights, work).unwrap();
                assert!(least < 1020.0 && most > 980.0, "{name}, {rate} tokens/s: {least} to {most}");
                assert!(origin.starts_with("; measured 2026-"), "{origin}");
            }
        }
    }

    #[test]
    fn a_gpu_with_as_much_bandwidth_and_peak_is_never_slower() {
        let mut n_compared = 0;
        let weights = Weights { of_token: 7e9, all: 7e9 };
        let works = [(1, 0), (0, 1), (100, 1), (1, 1)];
        let works = works.map(|(p, a)| Work { prompt_tokens: p * 10_000, answer_tokens: a * 10_000 });
        for kind in [Kind::Dense, Kind::Quantised, Kind::Mixture] {
            for (slow, fast) in GPUS.iter().flat_map(|slow| GPUS.iter().map(move |fast| (slow, fast))) {
                for work in works.into_iter().filter(|_| fast.is_no_slower(slow)) {
                    n_compared += usize::from(slow.name != fast.name);
                    let of = |gpu: &Gpu| gpu.seconds(kind, weights, work).unwrap().0;
                    let ([least, most], [was_least, was_most]) = (of(fast), of(slow));
                    assert!(
                        least <= was_least && most <= was_most && least <= most,
                        "{kind:?} on {} and {}: {least} to {most}, {was_least} to {was_most}",
                        fast.name,
                        slow.name
                    );
                }
            }
        }
        // L4 < RTX 4090, L40S < A100 .. B200, and so on.
        assert!(n_compared > 3 * 4 * 15, "{n_compared}");
    }

    #[test]
    fn a_gpu_that_was_not_measured_says_so() {
        let weights = Weights { of_token: 7e9, all: 7e9 };
        let work = Work { prompt_tokens: 1_000_000, answer_tokens: 0 };
        let a100 = GPUS.iter().find(|gpu| gpu.name == "A100").unwrap();
        let ([least, _], origin) = a100.seconds(Kind::Dense, weights, work).unwrap();
        assert_eq!(origin, " from bandwidth and peak");
        let ([of_h200, _], _) = h200().seconds(Kind::Dense, weights, work).unwrap();
        assert!((3.1..3.2).contains(&(least / of_h200)), "312 to 989 TFLOPS: {least} and {of_h200}");
    }

    #[test]
    fn a_time_has_two_figures_and_a_fitting_unit() {
        assert_eq!(range([31.4, 75.2]), "31 to 75 s");
        assert_eq!(range([100.0, 1234.0]), "1.7 to 21 min");
        assert_eq!(range([9000.0, 400_000.0]), "2.5 to 110 hours");
        assert_eq!(figures(0.034), "0.03");
    }
}
