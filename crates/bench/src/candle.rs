//! The quantized models of candle-transformers on the CPU, on the same files and token ids as the engine.
//! They have no grammar, batch only prompts of the same length, and share no prefix between prompts.

use std::{fs::File, io::BufReader, path::Path, time::Instant};

use candle_core::{Device, IndexOp as _, Tensor, quantized::gguf_file::Content};
use candle_transformers::models::{quantized_qwen2, quantized_qwen3};
use serde::Serialize;

use super::{Error, Result, requests::Request, throughput::Throughput};

/// A model of candle-transformers.
pub enum Model {
    Qwen2(quantized_qwen2::ModelWeights),
    Qwen3(quantized_qwen3::ModelWeights),
}

/// Time and tokens of requests answered one after the other.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Answered {
    pub requests: usize,
    pub seconds: f64,
    /// All tokens of all prompts.
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
}

impl Model {
    /// Loads a GGUF file of Qwen2 or Qwen3.
    ///
    /// # Errors
    /// Another architecture, or a file that candle cannot read.
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let unread = |reason| Error::CandleFile { file: name.clone(), reason };
        let failed = |error: candle_core::Error| unread(error.to_string());
        let file = File::open(path).map_err(|source| Error::File { file: name.clone(), source })?;
        let mut file = BufReader::new(file);
        let content = Content::read(&mut file).map_err(failed)?;
        let architecture =
            content.metadata.get("general.architecture").and_then(|name| name.to_string().ok());
        match architecture.map(String::as_str) {
            Some("qwen2") => {
                let model = quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &Device::Cpu);
                Ok(Self::Qwen2(model.map_err(failed)?))
            }
            Some("qwen3") => {
                let model = quantized_qwen3::ModelWeights::from_gguf(content, &mut file, &Device::Cpu);
                Ok(Self::Qwen3(model.map_err(failed)?))
            }
            other => {
                let other = other.unwrap_or("unknown");
                Err(unread(format!("its architecture is `{other}`, and must be `qwen2` or `qwen3`")))
            }
        }
    }

    /// Tokens per second of one prompt, the best of `repeats`.
    ///
    /// # Errors
    /// An error of candle.
    pub fn prefill(&mut self, prompt: usize, repeats: usize) -> Result<Throughput> {
        let mut seconds = f64::INFINITY;
        for repeat in 0..repeats {
            let start = Instant::now();
            self.step(&[seeded(prompt, repeat)], 0).map_err(ran)?;
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
        Ok(Throughput { batch: 1, prompt, answer: 1, seconds, tokens_per_s: prompt as f64 / seconds })
    }

    /// Tokens per second of greedy answers to `batch` prompts of one length, the best of `repeats`.
    ///
    /// # Errors
    /// An error of candle.
    pub fn decode(
        &mut self,
        batch: usize,
        prompt: usize,
        answer: usize,
        repeats: usize,
    ) -> Result<Throughput> {
        let mut seconds = f64::INFINITY;
        for _ in 0..repeats {
            let rows: Vec<Vec<u32>> = (0..batch).map(|row| seeded(prompt, row)).collect();
            let mut next = self.step(&rows, 0).map_err(ran)?;
            let start = Instant::now();
            for i in 0..answer {
                let rows: Vec<Vec<u32>> = next.iter().map(|&id| vec![id]).collect();
                next = self.step(&rows, prompt + i).map_err(ran)?;
            }
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
        Ok(Throughput { batch, prompt, answer, seconds, tokens_per_s: (batch * answer) as f64 / seconds })
    }

    /// Greedy answers of as many tokens as are given, one request after the other.
    ///
    /// # Errors
    /// An error of candle.
    pub fn answer(&mut self, requests: &[(Request, usize)]) -> Result<Answered> {
        let (start, mut prompt_tokens, mut generated_tokens) = (Instant::now(), 0, 0);
        for (Request { prompt_ids, .. }, tokens) in requests {
            let mut next = self.step(std::slice::from_ref(prompt_ids), 0).map_err(ran)?;
            for i in 1..*tokens {
                next = self.step(&[next], prompt_ids.len() + i - 1).map_err(ran)?;
            }
            (prompt_tokens, generated_tokens) = (prompt_tokens + prompt_ids.len(), generated_tokens + tokens);
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(Answered { requests: requests.len(), seconds, prompt_tokens, generated_tokens })
    }

    /// The likeliest next token of each row. A step at position 0 clears candle's KV cache.
    fn step(&mut self, rows: &[Vec<u32>], position: usize) -> candle_core::Result<Vec<u32>> {
        match self {
            Self::Qwen2(model) if position == 0 => model.clear_kv_cache(),
            Self::Qwen3(model) if position == 0 => model.clear_kv_cache(),
            _ => {}
        }
        let (n, len) = (rows.len(), rows[0].len());
        let ids = Tensor::from_vec(rows.concat(), (n, len), &Device::Cpu)?;
        let logits = match self {
            Self::Qwen2(model) => model.forward(&ids, position)?,
            Self::Qwen3(model) => model.forward(&ids, position)?,
        };
        (0..n).map(|row| logits.i(row)?.argmax(0)?.to_scalar()).collect()
    }
}

fn ran(source: candle_core::Error) -> Error {
    Error::Candle(Box::new(source))
}

/// Token ids below 30,000 that differ between seeds.
fn seeded(n: usize, seed: usize) -> Vec<u32> {
    (0..n).map(|i| ((i + 1) * 7919 * (seed + 1) % 29_989) as u32).collect()
}
