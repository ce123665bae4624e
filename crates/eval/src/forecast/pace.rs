//! How long a run takes on devices that are not here, by what was measured on some of them: each token is multiplied with
//! the same weights, and a device has a rate for the tokens of prompts and one for those of answers.

use super::card::Card;

/// A device that was measured. Rates have the least and the most of its measurements. Unit: weights times tokens per second.
struct Measured {
    name: &'static str,
    /// The day, and the commit.
    when: &'static str,
    /// Its memory.
    bytes: u64,
    prompts: [f64; 2],
    /// Of 64 to 256 answers at once on a GPU, of 8 to 16 on a CPU.
    answers: [f64; 2],
}

/// [BENCHMARKS.md](../../../../BENCHMARKS.md) has the measurements: Qwen2.5 7B in bf16 on the GPUs, with prompts of 512 to 8,192
/// tokens; of a CPU, Qwen2.5 0.5B in `Q4_K_M` on two cores, halved.
const GPUS: [Measured; 2] = [
    Measured {
        name: "H100",
        when: "2026-11-24, commit 7871754",
        bytes: 79 << 30,
        prompts: [1.87e14, 2.45e14],
        answers: [5.5e13, 1.26e14],
    },
    Measured {
        name: "H200",
        when: "2026-11-26, commit 3c2c083",
        bytes: 139 << 30,
        prompts: [1.94e14, 2.44e14],
        answers: [6.3e13, 1.46e14],
    },
];
const CORE: Measured = Measured {
    name: "CPU core with AVX-512",
    when: "2026-11-22, commit 860ac6a",
    bytes: u64::MAX,
    prompts: [2.2e11, 2.8e11],
    answers: [9.2e10, 1.24e11],
};

/// What a run computes.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Tokens of prompts, common beginnings counted once.
    pub prompt_tokens: usize,
    pub answer_tokens: usize,
}

/// How many weights a model has.
#[derive(Clone, Copy, Debug)]
struct Weights {
    /// Those that a token is multiplied with.
    of_token: f64,
    all: f64,
}

impl Weights {
    fn of(card: &Card) -> Option<Self> {
        let shape = card.shape?;
        let all = shape.layer_weights() + shape.vocab * shape.hidden;
        Some(Self { of_token: shape.weights_of_token() as f64, all: all as f64 })
    }
}

impl Measured {
    /// The least and the most time. Steps of few answers read all experts of a mixture, and multiply with some. Unit: seconds.
    fn seconds(&self, weights: Weights, work: Work) -> [f64; 2] {
        let at = |i: usize, of_answers: f64| {
            let prompts = weights.of_token * work.prompt_tokens as f64 / self.prompts[i];
            prompts + of_answers * work.answer_tokens as f64 / self.answers[i]
        };
        [at(1, weights.of_token), at(0, weights.all)]
    }
}

/// The time of a run on each of these devices that holds the model, as names and values; nothing for a model whose card does not know its shape.
#[must_use]
pub fn estimates(card: &Card, work: Work) -> Vec<(String, String)> {
    let Some(weights) = Weights::of(card) else { return Vec::new() };
    let of_gpu = |gpu: &Measured| {
        let value = format!("{} (estimate; measured {})", range(gpu.seconds(weights, work)), gpu.when);
        (format!("time on one {}", gpu.name), value)
    };
    let holds = |gpu: &&Measured| card.weight_bytes().is_some_and(|bytes| bytes < gpu.bytes);
    let mut rows: Vec<(String, String)> = GPUS.iter().filter(holds).map(of_gpu).collect();
    let [least, most] = CORE.seconds(weights, work).map(|seconds| seconds / 3600.0);
    let value = format!(
        "{} to {} core hours (estimate for AVX-512 and Q4_K_M; measured {})",
        figures(least),
        figures(most),
        CORE.when
    );
    rows.push(("time on CPUs".to_owned(), value));
    rows
}

/// `12 to 30 min`.
fn range([least, most]: [f64; 2]) -> String {
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
    use crate::card;

    /// The measurements themselves: the prompts of 8,192 tokens and the 256 answers at once of the 7B on an H200.
    #[test]
    fn what_was_measured_lies_in_the_range() {
        let weights = Weights::of(&card::find("qwen2.5-7b-instruct").unwrap()).unwrap();
        let [_, h200] = GPUS;
        let [least, most] = h200.seconds(weights, Work { prompt_tokens: 27_505_000, answer_tokens: 0 });
        assert!(least < 1000.0 && (990.0..1010.0).contains(&most), "{least} to {most}");
        let [least, most] = h200.seconds(weights, Work { prompt_tokens: 0, answer_tokens: 20_585_000 });
        assert!((990.0..1010.0).contains(&least) && most > 2000.0, "{least} to {most}");
    }

    #[test]
    fn a_time_has_two_figures_and_a_fitting_unit() {
        assert_eq!(range([31.4, 75.2]), "31 to 75 s");
        assert_eq!(range([100.0, 1234.0]), "1.7 to 21 min");
        assert_eq!(range([9000.0, 400_000.0]), "2.5 to 110 hours");
        assert_eq!(figures(0.034), "0.03");
    }

    #[test]
    fn every_card_has_estimates_for_the_devices_that_hold_it() {
        let work = Work { prompt_tokens: 1_000_000, answer_tokens: 100_000 };
        for card in card::all().unwrap() {
            let n = match card.name.as_str() {
                "qwen2.5-72b-instruct" | "qwen3-235b-a22b-instruct-2507" | "glm-4.5-air" => 1..=2,
                _ => 3..=3,
            };
            assert!(n.contains(&estimates(&card, work).len()), "{}", card.name);
        }
        let of_mixture = Weights::of(&card::find("qwen3-30b-a3b-instruct-2507").unwrap()).unwrap();
        assert!(of_mixture.all > 8.0 * of_mixture.of_token, "{of_mixture:?}");
    }
}
