//! Estimated time of a run on other devices, from measurements on some of them: each token is multiplied with
//! the same weights, and a device has a rate for the tokens of prompts and one for those of answers.

use super::{gpu_memory, hub::Card};

/// Kind of model that a device's rates were measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Weights of 16 bits.
    Dense,
    /// Weights of 4 to 8 bits.
    Quantised,
    /// A mixture of experts, measured with weights of 16 bits; those of 4 to 8 bits are taken to be no
    /// faster.
    Mixture,
}

/// A device that was measured. Rates have the least and the most of its measurements. Unit: weights that a
/// token is multiplied with, times tokens per second.
struct Measured {
    name: &'static str,
    kind: Kind,
    /// The day, and the commit.
    when: &'static str,
    /// Its memory.
    bytes: u64,
    prompts: [f64; 2],
    /// Of 64 to 256 answers at once on a GPU, of 8 to 16 on a CPU.
    answers: [f64; 2],
}

/// [BENCHMARKS.md](../../../../BENCHMARKS.md) has the measurements, with prompts of 512 to 8,192 tokens:
/// Qwen2.5 7B in bf16, on the H200 also 14B and Qwen3.5 4B; Qwen2.5 1.5B in `Q4_K_M`; Qwen3 30B-A3B and
/// Qwen3.6 35B-A3B in bf16; of a CPU, Qwen2.5 0.5B in `Q4_K_M` on two cores, halved.
const GPUS: [Measured; 4] = [
    Measured {
        name: "H100",
        kind: Kind::Dense,
        when: "2026-11-24, commit 7871754",
        bytes: 79 << 30,
        prompts: [1.87e14, 2.45e14],
        answers: [5.5e13, 1.26e14],
    },
    H200,
    Measured { kind: Kind::Quantised, prompts: [4.8e13, 7.6e13], answers: [2.7e13, 4.2e13], ..H200 },
    Measured { kind: Kind::Mixture, prompts: [4.4e13, 1.0e14], answers: [9.1e12, 3.3e13], ..H200 },
];
const H200: Measured = Measured {
    name: "H200",
    kind: Kind::Dense,
    when: "2026-11-27, commit 4aef61b1",
    bytes: 139 << 30,
    prompts: [1.26e14, 2.44e14],
    answers: [3.9e13, 1.46e14],
};
const CORE: Measured = Measured {
    name: "CPU core with AVX-512",
    kind: Kind::Quantised,
    when: "2026-11-22, commit 860ac6a",
    bytes: u64::MAX,
    prompts: [2.2e11, 2.8e11],
    answers: [9.2e10, 1.24e11],
};

/// Tokens that a run computes.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Tokens of prompts, common beginnings counted once.
    pub prompt_tokens: usize,
    pub answer_tokens: usize,
}

/// Numbers of a model's weights.
#[derive(Clone, Copy, Debug)]
struct Weights {
    /// Weights that a token is multiplied with.
    of_token: f64,
    all: f64,
}

impl Weights {
    fn from_card(card: &Card) -> Option<Self> {
        let shape = card.shape?;
        let all = shape.layer_weights() + shape.vocab * shape.hidden;
        Some(Self { of_token: shape.weights_of_token() as f64, all: all as f64 })
    }
}

impl Kind {
    fn from_card(card: &Card, weights: Weights) -> Option<Self> {
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

impl Measured {
    /// The least and the most time, where a token of an answer is multiplied with so many weights at the
    /// least and the most. Unit: seconds.
    fn seconds(&self, weights: Weights, of_answers: [f64; 2], work: Work) -> [f64; 2] {
        let at = |i: usize, of_answers: f64| {
            let prompts = weights.of_token * work.prompt_tokens as f64 / self.prompts[i];
            prompts + of_answers * work.answer_tokens as f64 / self.answers[i]
        };
        [at(1, of_answers[0]), at(0, of_answers[1])]
    }

    /// The least and the most time on a GPU with the rates of the model's kind. Unit: seconds.
    fn seconds_on_gpu(&self, weights: Weights, work: Work) -> [f64; 2] {
        self.seconds(weights, [weights.of_token; 2], work)
    }
}

/// The time of a run with this context on each of these devices that holds the model and was measured with
/// one of its kind, as names and values; nothing for a model whose card does not state its shape.
#[must_use]
pub fn estimates(card: &Card, context: usize, work: Work) -> Vec<(String, String)> {
    let Some(weights) = Weights::from_card(card) else { return Vec::new() };
    let Some(kind) = Kind::from_card(card, weights) else { return Vec::new() };
    let Some(need) = gpu_memory::within(card, context) else { return Vec::new() };
    let of_gpu = |gpu: &Measured| {
        let context = need.context_in(usize::try_from(gpu.bytes).unwrap_or(usize::MAX))?;
        let shorter = (context < need.context).then(|| format!(", with a context of {context} tokens"));
        let value = format!("{} (estimate; measured {})", range(gpu.seconds_on_gpu(weights, work)), gpu.when);
        Some((format!("time on one {}{}", gpu.name, shorter.unwrap_or_default()), value))
    };
    let mut rows: Vec<(String, String)> =
        GPUS.iter().filter(|gpu| gpu.kind == kind).filter_map(of_gpu).collect();
    // Steps of few answers read all experts of a mixture, and multiply with some.
    let [least, most] =
        CORE.seconds(weights, [weights.of_token, weights.all], work).map(|seconds| seconds / 3600.0);
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
    use crate::hub;

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
            let h200 = GPUS.iter().find(|gpu| gpu.name == "H200" && gpu.kind == kind).unwrap();
            for (rate, of_prompts) in
                prompts.map(|rate| (rate, true)).into_iter().chain(answers.map(|rate| (rate, false)))
            {
                let tokens = 1000 * rate;
                let [prompt_tokens, answer_tokens] = if of_prompts { [tokens, 0] } else { [0, tokens] };
                let [least, most] = h200.seconds_on_gpu(weights, Work { prompt_tokens, answer_tokens });
                assert!(least < 1020.0 && most > 980.0, "{name}, {rate} tokens/s: {least} to {most}");
            }
        }
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
        for card in hub::all().unwrap() {
            // Encoders generate nothing, and their cards have no shape.
            let Some(weights) = Weights::from_card(&card) else {
                assert!(card.shape.is_none(), "{}", card.name);
                continue;
            };
            let on_gpus = match Kind::from_card(&card, weights).unwrap() {
                Kind::Dense => 2,
                Kind::Quantised | Kind::Mixture => 1,
            };
            let n = match card.name.as_str() {
                "qwen2.5-72b-instruct" | "qwen3-235b-a22b-instruct-2507" | "glm-4.5-air" => 1..=on_gpus,
                _ => on_gpus + 1..=on_gpus + 1,
            };
            assert!(n.contains(&estimates(&card, card.context, work).len()), "{}", card.name);
        }
        // 135 GiB of weights and 10 GiB of cache are more than the 139 GiB of an H200.
        let large = hub::find("qwen2.5-72b-instruct").unwrap();
        let name = |context| estimates(&large, context, work).remove(0).0;
        assert!(
            name(large.context).starts_with("time on one H200, with a context of "),
            "{}",
            name(large.context)
        );
        assert_eq!(name(1024), "time on one H200");
        let of_mixture = Weights::from_card(&hub::find("qwen3-30b-a3b-instruct-2507").unwrap()).unwrap();
        assert!(of_mixture.all > 8.0 * of_mixture.of_token, "{of_mixture:?}");
    }
}
