//! A GPU's limits, and how close a model's shape comes to them with seeded weights: products, prompts,
//! answers, a judge's questions about documents, and many prompts of mixed lengths. Only times are measured;
//! the answers are meaningless.

use serde::Serialize;

use super::{Error, Result, shapes::Shape, throughput, workload::send_all};
use crate::{
    cuda::{Effort, Gpu, KernelTime},
    engine::{self, Device, Engine, Options},
    llm::{Chat, Llm, Reply, ResponseFormat, Sampling},
    model::{BLOCK, KvType},
    random::SplitMix,
};

pub use crate::cuda::Peak;

/// Sizes of the measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Rows of single products.
    pub product_rows: Vec<usize>,
    /// Tokens of the prompts that are read one at a time.
    pub prompts: Vec<usize>,
    /// Numbers of answers generated in parallel.
    pub answers: Vec<usize>,
    /// Tokens of the prompt of each of these answers.
    pub before: usize,
    /// Tokens of each of these answers.
    pub answer: usize,
    /// Tokens of documents.
    pub documents: Vec<usize>,
    /// Documents of each length.
    pub n_documents: usize,
    /// Questions about each document.
    pub n_questions: usize,
    /// Tokens of a question.
    pub question: usize,
    /// Tokens of the answer to a question.
    pub question_answer: usize,
    /// Prompts of mixed lengths.
    pub n_chats: usize,
    /// The most tokens of a prompt of mixed length, and of its answer.
    pub longest: usize,
    /// Repetitions, of which the fastest counts.
    pub repeats: usize,
}

impl Sizes {
    /// Sizes that suit a shape.
    pub fn from_shape(shape: &Shape) -> Self {
        if shape.is_tiny() {
            return Self {
                product_rows: vec![1, 20],
                prompts: vec![40],
                answers: vec![1, 3],
                before: 24,
                answer: 3,
                documents: vec![70],
                n_documents: 2,
                n_questions: 3,
                question: 12,
                question_answer: 2,
                n_chats: 5,
                longest: 24,
                repeats: 1,
            };
        }
        Self {
            product_rows: vec![1, 16, 64, 256, 512, 2048],
            prompts: vec![512, 2048, 8192],
            answers: vec![1, 16, 64, 256],
            before: 512,
            answer: 64,
            documents: vec![500, 2700],
            n_documents: 12,
            n_questions: 12,
            question: 130,
            question_answer: 40,
            n_chats: 1000,
            longest: 1024,
            repeats: 3,
        }
    }

    fn effort(shape: &Shape) -> Effort {
        let full = Effort { rounds: 20_000, copy_bytes: 2 << 30, repeats: 10 };
        if shape.is_tiny() { Effort { rounds: 1, copy_bytes: 1 << 20, repeats: 1 } } else { full }
    }

    fn longest_sequence(&self) -> usize {
        let document = self.documents.iter().max().unwrap_or(&0) + self.question + self.question_answer;
        let prompt = self.prompts.iter().max().unwrap_or(&0) + 1;
        // A prompt's text may have a few tokens of its own at the beginning.
        16 + prompt.max(self.before + self.answer + 1).max(document).max(2 * self.longest)
    }
}

/// A product of one shape with so many rows.
#[derive(Clone, Debug, Serialize)]
pub struct Product {
    pub name: &'static str,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub seconds: f64,
    /// Fraction of the tensor core's measured peak, and of the measured bandwidth.
    pub of_peak: f64,
    pub of_memory: f64,
}

/// A throughput as a fraction of its limit.
#[derive(Clone, Debug, Serialize)]
pub struct Utilisation {
    pub throughput: throughput::Throughput,
    /// Fraction of the limit: of the tensor core's peak for prompts, of the bandwidth for answers; of all
    /// GPUs together.
    pub of_limit: f64,
    /// The reason why fewer answers were generated at a time than requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Time of some work by kernel, each launch by itself.
#[derive(Clone, Debug, Serialize)]
pub struct KernelTimes {
    pub work: String,
    pub kernels: Vec<KernelTime>,
}

/// Cost of requests that were sent together.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadResult {
    pub name: String,
    pub requests: usize,
    pub prompt_tokens: usize,
    pub computed_prompt_tokens: usize,
    pub answer_tokens: usize,
    pub seconds: f64,
    pub requests_per_s: f64,
    pub answer_tokens_per_s: f64,
}

/// A shape on one GPU, or on several that have it together.
pub struct Bench<'a> {
    /// The first GPU.
    pub gpu: &'a Gpu,
    pub shape: &'a Shape,
    pub sizes: Sizes,
    pub options: &'a Options,
}

impl Bench<'_> {
    /// The GPU's measured limits.
    ///
    /// # Errors
    /// The device fails.
    pub fn peak(&self) -> Result<Peak> {
        Ok(self.gpu.peak(Sizes::effort(self.shape)).map_err(failed)?)
    }

    /// Every product of the shape alone, with weights of its format. A product is left out where a weight's
    /// row is not a multiple of the format's block; files have another format there.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn products(&self, peak: Peak) -> Result<Vec<Product>> {
        let (format, mut all) = (self.shape.format, Vec::new());
        for (name, [n, k]) in self.shape.products() {
            let Some(of_weight) = self.gpu.weight_bytes(format, [n, k]) else { continue };
            let repeats = if self.shape.is_tiny() { 1 } else { 50 };
            let rows = &self.sizes.product_rows;
            let seconds = self.gpu.product_seconds(&self.shape.config, format, [n, k], rows, repeats);
            all.extend(rows.iter().zip(seconds.map_err(failed)?).map(|(&m, seconds)| {
                let (operations, bytes) =
                    ((2 * m * n * k) as f64, (of_weight + 2 * m * k + 4 * m * n) as f64);
                let of = |amount: f64, limit: f64| amount / seconds / limit;
                let (of_peak, of_memory) = (of(operations, peak.operations), of(bytes, peak.bytes));
                Product { name, m, n, k, seconds, of_peak, of_memory }
            }));
        }
        Ok(all)
    }

    /// The fastest kernel of every product of the shape, as lines of
    /// `crates/cuda/src/products/h100.txt`.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn tuned(&self) -> Result<Vec<String>> {
        let tiny = self.shape.is_tiny();
        let rows = if tiny { &[1, 130][..] } else { &[1, 16, 32, 64, 128, 256, 512, 1024, 2048] };
        let mut lines = Vec::new();
        for (name, [n, k]) in self.shape.products() {
            lines.push(format!("# {} {name}", self.shape.name));
            let repeats = if tiny { 1 } else { 50 };
            let before_norm = ["o", "down"].contains(&name);
            let config = &self.shape.config;
            let fastest =
                self.gpu.fastest_products(config, [n, k], rows, repeats, before_norm).map_err(failed)?;
            // A line holds for all rows up to its number, so of lines with one kernel only the last is
            // needed.
            for (i, (m, (kernel, _))) in rows.iter().zip(&fastest).enumerate() {
                if fastest.get(i + 1).is_none_or(|(next, _)| next != kernel) {
                    lines.push(format!("{n} {k} {m} {kernel}"));
                }
            }
        }
        Ok(lines)
    }

    /// Prompts, one at a time.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn prefill(&self, peak: Peak) -> Result<Vec<Utilisation>> {
        let engine = self.engine(true, true)?;
        let share = |&n: &usize| {
            let throughput = throughput::prefill(&engine, n, self.sizes.repeats)?;
            let of_limit =
                self.shape.prefill_operations(n) / throughput.seconds / peak.operations / self.n_gpus();
            Ok(Utilisation { throughput, of_limit, note: None })
        };
        self.sizes.prompts.iter().map(share).collect()
    }

    /// Answers, at several numbers of answers at a time.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn decode(&self, peak: Peak) -> Result<Vec<Utilisation>> {
        let engine = self.engine(true, true)?;
        let Sizes { before, answer, repeats, .. } = self.sizes;
        let fits = self.sequences_in(engine.facts().kv_bytes).max(1);
        let share = |&n_requested: &usize| {
            let rows = n_requested.min(fits);
            let note = (rows < n_requested).then(|| {
                format!(
                    "the cache holds {rows} of {n_requested} answers at a time; hint: a larger `--kv-cache`"
                )
            });
            let throughput = throughput::decode(&engine, rows, before, answer, repeats)?;
            let length = before as f64 + answer as f64 / 2.0;
            let steps_per_s = throughput.tokens_per_s / rows as f64;
            let of_limit = self.shape.decode_bytes(rows, length) * steps_per_s / peak.bytes / self.n_gpus();
            Ok(Utilisation { throughput, of_limit, note })
        };
        self.sizes.answers.iter().map(share).collect()
    }

    /// Number of prompts with their answers that a cache holds at the same time. More of them would evict
    /// each other's blocks, and prompts would be computed again.
    fn sequences_in(&self, kv_bytes: usize) -> usize {
        let blocks = (self.sizes.before + self.sizes.answer + 1).div_ceil(BLOCK);
        kv_bytes / KvType::Bf16.block_bytes(&self.shape.config) / blocks
    }

    /// Every launch of prompts, one at a time, and of one step of answers, by kernel.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn kernels(&self) -> Result<Vec<KernelTimes>> {
        let gpu = self.gpu.without_graphs().without_dependent_launch();
        let engine = self.engine_on(Device::Cuda(gpu.clone()), true)?;
        let times = |prompts: &[String], answer| -> Result<Vec<KernelTime>> {
            gpu.start_timing();
            throughput::together(&engine, prompts, answer)?;
            Ok(gpu.take_times().map_err(failed)?)
        };
        let Sizes { before, answer, .. } = self.sizes;
        let fits = self.sequences_in(engine.facts().kv_bytes).max(1);
        let mut all = Vec::new();
        for &n in &self.sizes.prompts {
            // A first run, so that no kernel is loaded in the second.
            times(&[throughput::prompt(&engine, n, n)], 1)?;
            let kernels = times(&[throughput::prompt(&engine, n, n + 1)], 1)?;
            all.push(KernelTimes { work: format!("prompt of {n}"), kernels });
        }
        for rows in self.sizes.answers.iter().map(|&rows| rows.min(fits)) {
            let prompts: Vec<String> =
                (0..rows).map(|row| throughput::prompt(&engine, before, 7 + row * 977)).collect();
            // As in `throughput::decode`: what a prompt leaves in the cache is there from the third run on.
            times(&prompts, 1)?;
            times(&prompts, 1)?;
            let kernels = of_one_step(&times(&prompts, 1)?, &times(&prompts, 1 + answer)?, answer);
            all.push(KernelTimes { work: format!("answers, a step of {rows}"), kernels });
        }
        Ok(all)
    }

    /// Questions about documents, like those of FSP: with the prefix tree, with it but without reading shared
    /// keys together, and without the tree.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn documents(&self) -> Result<Vec<WorkloadResult>> {
        let mut results = Vec::new();
        for (setting, tree, cascade) in
            [("tree", true, true), ("tree, no cascade", true, false), ("no tree", false, true)]
        {
            for &length in &self.sizes.documents {
                // A fresh engine: its prefix tree is empty.
                let engine = self.engine(tree, cascade)?;
                let name = format!("documents of {length}, {setting}");
                results.push(run_prompts(&engine, name, &self.questions(length))?);
            }
        }
        Ok(results)
    }

    /// Prompts of mixed lengths that share nothing.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn chats(&self) -> Result<WorkloadResult> {
        let engine = self.engine(true, true)?;
        run_prompts(&engine, format!("{} chats", self.sizes.n_chats), &self.mixed())
    }

    fn questions(&self, length: usize) -> Vec<Prompt> {
        let Sizes { n_documents, n_questions, question, question_answer, .. } = self.sizes;
        let mut digits = Draw(SplitMix(length as u64));
        let ask = |document: String, digits: &mut Draw| -> Vec<Prompt> {
            let prompt = |_| format!("{document}{}", digits.text(question));
            (0..n_questions).map(prompt).map(|text| Prompt { text, answer: question_answer }).collect()
        };
        (0..n_documents).flat_map(|_| ask(digits.text(length), &mut digits)).collect()
    }

    /// Prompts and answers whose numbers of tokens are log-normal, like those of chats: medians of 90 and
    /// 135, standard deviations of the logarithm of 1.3 and 1.0, from 4 to `longest` tokens.
    fn mixed(&self) -> Vec<Prompt> {
        let mut draw = Draw(SplitMix(42));
        let longest = self.sizes.longest;
        let length = |draw: &mut Draw, median: f64, spread: f64| {
            ((median.ln() + spread * draw.normal()).exp().round() as usize).clamp(4, longest)
        };
        let chat = |_| {
            let (prompt, answer) = (length(&mut draw, 90.0, 1.3), length(&mut draw, 135.0, 1.0));
            Prompt { text: draw.text(prompt), answer }
        };
        (0..self.sizes.n_chats).map(chat).collect()
    }

    fn engine(&self, prefix_cache: bool, cascade: bool) -> Result<Engine> {
        self.engine_on(self.device(cascade), prefix_cache)
    }

    fn engine_on(&self, device: Device, prefix_cache: bool) -> Result<Engine> {
        let options = Options {
            device,
            more_devices: Vec::new(),
            prefix_cache,
            // Drafts cannot be right: text from seeded weights has no pattern.
            drafts: false,
            context: Some(self.sizes.longest_sequence().min(self.shape.config.context)),
            ..self.options.clone()
        };
        self.shape.engine(&options)
    }

    fn device(&self, cascade: bool) -> Device {
        let of = |gpu: &Gpu| if cascade { gpu.clone() } else { gpu.without_cascade() };
        match &self.options.device {
            Device::Group(group) => Device::Group(group.map(of)),
            Device::Cpu | Device::Cuda(_) => Device::Cuda(of(self.gpu)),
        }
    }

    fn n_gpus(&self) -> f64 {
        self.options.device.gpus().len().max(1) as f64
    }
}

/// The launches of one step: those of so many steps that only the second of two runs had.
fn of_one_step(first: &[KernelTime], every: &[KernelTime], steps: usize) -> Vec<KernelTime> {
    let of_step = |time: &KernelTime| {
        let before = first.iter().find(|before| before.kernel == time.kernel);
        let (launches, seconds) = before.map_or((0, 0.0), |before| (before.launches, before.seconds));
        KernelTime {
            kernel: time.kernel,
            launches: time.launches.saturating_sub(launches) / steps.max(1),
            seconds: (time.seconds - seconds).max(0.0) / steps.max(1) as f64,
        }
    };
    every.iter().map(of_step).filter(|time| time.launches > 0).collect()
}

fn failed(error: crate::cuda::Error) -> engine::Error {
    engine::Error::Model(error.into())
}

/// A raw prompt and the tokens of its answer.
struct Prompt {
    text: String,
    answer: usize,
}

/// Runs prompts through an engine.
fn run_prompts(engine: &Engine, name: String, prompts: &[Prompt]) -> Result<WorkloadResult> {
    let ask = |i: usize, prompt: &Prompt| {
        let sampling =
            Sampling { max_tokens: prompt.answer, temperature: 1.0, seed: i as u64, ..Sampling::default() };
        let reply = engine.ask(&Chat::raw(prompt.text.as_str()), &ResponseFormat::Text, &sampling);
        reply.map_err(|source| Error::Llm { id: i.to_string(), source })
    };
    let (replies, seconds) = send_all(prompts, engine.facts().n_rows, ask)?;
    let sum = |part: fn(&Reply) -> usize| replies.iter().map(part).sum::<usize>();
    let answer_tokens = sum(|r| r.usage.generated);
    Ok(WorkloadResult {
        name,
        requests: replies.len(),
        prompt_tokens: sum(|r| r.usage.prompt()),
        computed_prompt_tokens: sum(|r| r.usage.computed),
        answer_tokens,
        seconds,
        requests_per_s: replies.len() as f64 / seconds,
        answer_tokens_per_s: answer_tokens as f64 / seconds,
    })
}

/// Seeded numbers.
struct Draw(SplitMix);

impl Draw {
    /// Digits, each of them a token.
    fn text(&mut self, n: usize) -> String {
        (0..n).map(|_| char::from(b'0' + (self.0.draw() % 10) as u8)).collect()
    }

    /// A number of the standard normal distribution: the sum of twelve uniform ones, less 6.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| (self.0.draw() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_lengths_have_the_median_that_is_stated() {
        let mut draw = Draw(SplitMix(42));
        let mut normal: Vec<f64> = (0..2001).map(|_| draw.normal()).collect();
        normal.sort_by(f64::total_cmp);
        assert!(normal[1000].abs() < 0.08, "{}", normal[1000]);
        let spread = (normal.iter().map(|x| x * x).sum::<f64>() / 2001.0).sqrt();
        assert!((spread - 1.0).abs() < 0.05, "{spread}");
        assert_eq!(draw.text(40).len(), 40);
    }

    #[test]
    fn a_sequence_of_every_workload_fits_the_context() {
        for name in super::super::shapes::names() {
            let shape = Shape::named(name).unwrap();
            assert!(Sizes::from_shape(&shape).longest_sequence() <= shape.config.context, "{name}");
        }
    }
}
