//! Shapes of published models, from their `config.json`, for measuring speed with seeded weights.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Error, Result};
use crate::{
    engine::{self, Engine, Options, tokenizer::Tokenizer},
    model::{Config, Weights, families::from_json, weights::Format},
};

static SHAPES: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("shapes.json")).expect("a test reads every shape of the file")
});

/// A shape that can be measured.
#[derive(Clone, Debug)]
pub struct Shape {
    pub name: String,
    pub config: Config,
    /// Format of the weights of single products; everything else is measured in bf16.
    pub format: Format,
}

/// Parameters that a token is multiplied with.
struct Parameters {
    /// Of all layers.
    layers: f64,
    /// Of the output matrix, which is applied only to rows whose logits are needed.
    output: f64,
}

/// Formats of a product's weights on a GPU, by the name after a shape's colon: first those that kernels read
/// directly, then those that each step converts to bf16, then those that are converted when they are loaded.
/// The kernels of `--gpu-kernels new` read all of them directly.
const FORMATS: [(&str, Format); 12] = [
    ("bf16", Format::Bf16),
    ("q8_0", Format::Q8_0),
    ("q4_k", Format::Q4K),
    ("q6_k", Format::Q6K),
    ("mxfp4", Format::Mxfp4),
    ("q4_0", Format::Q4_0),
    ("q4_1", Format::Q4_1),
    ("q5_0", Format::Q5_0),
    ("q5_1", Format::Q5_1),
    ("q5_k", Format::Q5K),
    ("u4", Format::U4),
    ("f8", Format::F8E4M3),
];

/// The formats that a shape's name can have, separated by commas.
pub fn formats() -> String {
    FORMATS.map(|(name, _)| name).join(", ")
}

/// The names of all shapes.
pub fn names() -> Vec<&'static str> {
    SHAPES.keys().map(String::as_str).collect()
}

impl Shape {
    /// A shape, or `shape:format`.
    ///
    /// # Errors
    /// [`Error::Shape`] for a name that is not known.
    pub fn named(name: &str) -> Result<Self> {
        let unknown =
            || Error::Shape { name: name.to_owned(), known: names().join(", "), formats: formats() };
        let (shape, format) = name.split_once(':').unwrap_or((name, "bf16"));
        let (_, format) = FORMATS.into_iter().find(|(known, _)| *known == format).ok_or_else(unknown)?;
        let json = SHAPES.get(shape).ok_or_else(unknown)?;
        let config = from_json("shapes.json", json).map_err(engine::Error::from)?;
        Ok(Self { name: name.to_owned(), config, format })
    }

    /// True if the weights of its products are quantised.
    pub fn is_quantised(&self) -> bool {
        self.format != Format::Bf16
    }

    /// True for a shape for tests, which is measured with small numbers.
    pub fn is_tiny(&self) -> bool {
        self.name.starts_with("tiny")
    }

    /// Starts an engine over seeded weights. A digit of a raw prompt is a token.
    ///
    /// # Errors
    /// Too little memory.
    pub fn engine(&self, options: &Options) -> Result<Engine> {
        let json = include_bytes!("../../../models/tiny/qwen2/tokenizer.json");
        let config = include_bytes!("../../../models/tiny/qwen2/tokenizer_config.json");
        let tokenizer = Tokenizer::from_json(json, Some(config), None)
            .map_err(|e| engine::Error::Text { path: "models/tiny/qwen2".into(), reason: e.to_string() })?;
        Ok(Engine::over(&Weights::seeded(self.config.clone(), 1), tokenizer, options)?)
    }

    /// Names and weight shapes `[n, k]` of the products of a layer with attention, and of the output matrix.
    pub fn products(&self) -> Vec<(&'static str, [usize; 2])> {
        let c = &self.config;
        let heads = c.n_heads * c.full.head_dim;
        let gate = if c.gated_attention { heads } else { 0 };
        let qkv = heads + gate + c.full.cached();
        // Of a mixture of experts: those of one token.
        let width = c.experts.as_ref().map_or(c.intermediate, |experts| {
            experts.routing.top_k * experts.width + experts.shared.map_or(0, |shared| shared.width)
        });
        vec![
            ("qkv", [qkv, c.hidden]),
            ("o", [c.hidden, heads]),
            ("gate_up", [2 * width, c.hidden]),
            ("down", [c.hidden, width]),
            ("lm_head", [c.vocab, c.hidden]),
        ]
    }

    /// The parameters that a token is multiplied with.
    fn parameters(&self) -> Parameters {
        let c = &self.config;
        let sizes: Vec<f64> = self.products().iter().map(|(_, [n, k])| (n * k) as f64).collect();
        let (attention, feed) = (sizes[0] + sizes[1], sizes[2] + sizes[3]);
        let linear = c.delta_net.as_ref().map_or(0, |delta| {
            delta.n_layers() * c.hidden * (delta.channels() + 2 * delta.widths()[2] + 2 * delta.n_value_heads)
        });
        let mixers = c.n_attention_layers() as f64 * attention + linear as f64;
        Parameters { layers: mixers + c.n_layers as f64 * feed, output: sizes[4] }
    }

    /// Operations of a prompt of `n` tokens; a multiplication and an addition count as two.
    pub fn prefill_operations(&self, n: usize) -> f64 {
        let Parameters { layers, output } = self.parameters();
        let (c, n) = (&self.config, n as f64);
        let attention = 2.0 * n * n * (c.n_attention_layers() * c.n_heads * c.full.head_dim) as f64;
        2.0 * (n * layers + output) + attention
    }

    /// Bytes that a step of `rows` answers reads and writes when each of them has `length` tokens before it:
    /// weights once, of a mixture those of the experts that it is expected to touch, keys and values of every
    /// row, and its recurrent states, which are read and written.
    pub fn decode_bytes(&self, rows: usize, length: f64) -> f64 {
        let Parameters { layers, output } = self.parameters();
        let c = &self.config;
        let cached = 2.0 * c.cached() as f64;
        let weights = layers + self.other_experts(rows) + output;
        2.0 * weights + rows as f64 * (length * cached + 2.0 * c.state_bytes() as f64)
    }

    /// Parameters of experts that so many rows touch, but for those of a single row: as many as `rows` draws
    /// of `top_k` experts, each equally likely, are expected to contain.
    fn other_experts(&self, rows: usize) -> f64 {
        let Some(experts) = &self.config.experts else { return 0.0 };
        let (n, top_k) = (experts.n as f64, experts.routing.top_k as f64);
        let touched = n * (1.0 - (1.0 - top_k / n).powi(rows.max(1) as i32));
        (touched - top_k) * (3 * experts.width * self.config.hidden * self.config.n_layers) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_read_and_has_the_size_in_its_name() {
        for (name, billions) in [
            ("qwen2.5-0.5b", 0.49),
            ("qwen2.5-7b", 7.07),
            ("qwen2.5-14b", 13.99),
            ("qwen2.5-32b", 31.98),
            ("qwen2.5-72b", 71.46),
            ("llama-3.1-8b", 7.50),
            ("qwen3-30b-a3b", 3.04),
            ("qwen3.5-4b", 4.20),
            ("qwen3.6-35b-a3b", 2.92),
            ("tiny", 0.00007),
        ] {
            // Without an embedding table that is not the output matrix.
            let Parameters { layers, output } = Shape::named(name).unwrap().parameters();
            let ours = (layers + output) / 1e9;
            assert!((ours / billions - 1.0).abs() < 0.02, "{name}: {ours}");
        }
        assert_eq!(names().len(), 12);
        let error = Shape::named("qwen2.5-8b").unwrap_err().to_string();
        assert!(error.contains("`qwen2.5-8b`") && error.contains("qwen2.5-7b"), "{error}");
        assert!(Shape::named("tiny:q4_k").unwrap().is_quantised() && Shape::named("tiny:q3_k").is_err());
    }

    #[test]
    fn what_a_step_reads_and_computes() {
        let tiny = Shape::named("tiny").unwrap();
        // A layer: (128 + 64) x 64 + 64 x 64 + 128 x 64 + 64 x 64, added up below; the output: 320 x 64.
        let layer = 128 * 64 + 64 * 64 + 128 * 64 + 64 * 64;
        let weights = 2 * layer + 320 * 64;
        // Whole numbers, which floats of 64 bits hold exactly.
        let [empty, three, zero] =
            [(0, 9.0), (3, 10.0), (0, 0.0)].map(|(rows, keys)| tiny.decode_bytes(rows, keys) as i64);
        assert_eq!(empty, 2 * weights);
        assert_eq!(three - zero, 3 * 10 * 2 * 2 * 32 * 2);
        // Of four experts two rows touch three, each of three matrices 256 x 256 in two layers.
        let moe = Shape::named("tiny-moe").unwrap();
        let [one, two] = [1, 2].map(|rows| moe.decode_bytes(rows, 0.0) as usize);
        assert_eq!(two - one, 2 * 2 * 3 * 256 * 256);
        // A state is read and written; four layers of the same experts.
        let hybrid = Shape::named("tiny-hybrid").unwrap();
        let [one, two] = [1, 2].map(|rows| hybrid.decode_bytes(rows, 0.0) as usize);
        assert_eq!(two - one, 2 * 4 * 3 * 256 * 256 + 2 * hybrid.config.state_bytes());
        let operations = 2 * (5 * 2 * layer + 320 * 64) + 2 * 25 * 2 * 64;
        assert_eq!(tiny.prefill_operations(5) as i64, operations);
    }
}
