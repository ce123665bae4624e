//! Quality estimation by the alignment of a source and its translation: from the hidden states of an encoder
//! to a score and the probability of an error at each token, on the host. A file of it has the head, and
//! low-rank factors that are added to the encoder's matrices. No layer runs here.
//!
//! Each token of one text is compared with its soft alignment in the other one, after ESIM (Chen et al.,
//! "Enhanced LSTM for Natural Language Inference", ACL 2017). `scripts/tune/qe_train.py` trains it.

mod matrix;

use std::collections::BTreeMap;

use safetensors::{SafeTensors, tensor::TensorView};

use crate::{
    Config, Error, Result,
    metric::{Delimiters, Tokens},
    weights::{self, Format, LowRank},
};
use matrix::{Linear, gelu, mean, most, normed, sigmoid, softmax};

/// The first field of a file's metadata.
pub const FORMAT: &str = "tribunal-qe/1";

/// The depths of the states that are read, in the metadata: `6,8,10,12`.
const DEPTHS: &str = "depths";

/// Numbers about a pair of texts besides the features of their tokens.
const N_COUNTS: usize = 6;

/// The score of a translation, and its tokens' tags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Without a unit; higher is better.
    pub score: f64,
    /// For each token of the translation, the probabilities that a rater marks it, and as a major error.
    pub tags: Vec<[f64; 2]>,
}

/// A head with the factors of its encoder.
#[derive(Debug)]
pub struct Estimator {
    /// Ascending.
    depths: Vec<u32>,
    /// The weight of each depth.
    mix: Vec<f32>,
    /// Shape: `[hidden]` -> `[width]`.
    project: Linear,
    /// The factor of cosines before their softmax.
    sharpness: f32,
    /// From a token, its alignment, their difference and product, and its best cosine.
    compare: Linear,
    tags: Linear,
    features: Linear,
    score: Linear,
    factors: BTreeMap<String, LowRank>,
}

/// A text's tokens as the head sees them.
struct Side {
    /// Shape: `[tokens][width]`.
    rows: Vec<Vec<f32>>,
    /// The rows with a length of 1.
    normed: Vec<Vec<f32>>,
}

/// The comparison of a text's tokens with another text.
struct Compared {
    /// Shape: `[tokens][features]`.
    features: Vec<Vec<f32>>,
    /// Of each token with any of the other text's.
    best_cosines: Vec<f32>,
}

impl Estimator {
    /// Reads a file.
    ///
    /// # Errors
    /// A file of another format, and tensors that are missing or do not fit each other.
    pub fn read(path: &str, bytes: &[u8]) -> Result<Self> {
        let broken = |reason: String| Error::File {
            path: path.into(),
            reason,
            hint: "`scripts/tune/qe_train.py` and `qe_fit.py` make such files".into(),
        };
        let damaged = |error: safetensors::SafeTensorError| broken(format!("is damaged: {error}"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let about = header.metadata().clone().unwrap_or_default();
        if about.get("format").map(String::as_str) != Some(FORMAT) {
            return Err(broken(format!("is not of the format `{FORMAT}`")));
        }
        let depths = about.get(DEPTHS).map(|depths| depths.split(',').map(str::parse).collect());
        let Some(Ok(depths)) = depths else { return Err(broken("has no depths".into())) };
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        Head { path, tensors: &tensors }.estimator(depths)
    }

    /// The low-rank factors of the encoder's matrices, by the names of these.
    pub fn factors(&self) -> &BTreeMap<String, LowRank> {
        &self.factors
    }

    /// After how many layers states are read, ascending.
    pub fn depths(&self) -> &[u32] {
        &self.depths
    }

    /// Checks that an encoder has the states that are read.
    ///
    /// # Errors
    /// A decoder, and an encoder of another width or with too few layers.
    pub fn check(&self, path: &str, config: &Config) -> Result<()> {
        let hidden = self.project.n_inputs();
        let deepest = self.depths.iter().max().map_or(0, |depth| *depth as usize);
        if config.encoder.is_some() && config.hidden == hidden && config.n_layers >= deepest {
            return Ok(());
        }
        Err(Error::File {
            path: path.into(),
            reason: format!(
                "is not an encoder with states of {hidden} numbers and {deepest} layers, as the estimator needs"
            ),
            hint: "use the encoder that it was trained with, `multilingual-e5-small`".into(),
        })
    }

    /// The sequences that the encoder computes, the translation's first, each cut at the context; and true if
    /// one was cut.
    pub fn inputs(
        translation: &Tokens,
        source: &Tokens,
        delimiters: Delimiters,
        context: usize,
    ) -> ([Vec<u32>; 2], bool) {
        let longest = context.saturating_sub(2);
        let sequence = |tokens: &Tokens| {
            let text = tokens.ids.iter().copied().take(longest);
            std::iter::once(delimiters.first).chain(text).chain([delimiters.last]).collect()
        };
        let texts = [translation, source];
        let is_cut = texts.iter().any(|tokens| tokens.ids.len() > longest);
        (texts.map(sequence), is_cut)
    }

    /// The prediction from the states of the sequences of [`Self::inputs`], after each of [`Self::depths`].
    /// Neither text may be empty.
    ///
    /// Shape: `[2][depths][tokens * hidden]`.
    pub fn predict(&self, states: [&[Vec<f32>]; 2]) -> Prediction {
        let [translation, source] = states.map(|layers| self.side(layers));
        let [of_translation, of_source] =
            [self.compared(&translation, &source), self.compared(&source, &translation)];
        let tags: Vec<[f32; 2]> = of_translation
            .features
            .iter()
            .map(|features| {
                let logits = self.tags.apply(features);
                [sigmoid(logits[0]), sigmoid(logits[1])]
            })
            .collect();
        let sum = |class: usize| tags.iter().map(|tag| tag[class]).sum::<f32>();
        let average = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
        let n = [&translation, &source].map(|side| side.rows.len() as f32);
        let counts: [f32; N_COUNTS] = [
            average(&of_translation.best_cosines),
            average(&of_source.best_cosines),
            sum(0).ln_1p(),
            sum(1).ln_1p(),
            sum(1) / n[0],
            (n[0] / n[1]).ln(),
        ];
        let means = [mean(&translation.rows), mean(&source.rows)];
        let pairs = || means[0].iter().zip(&means[1]);
        let features = [
            mean(&of_translation.features),
            most(&of_translation.features),
            mean(&of_source.features),
            most(&of_source.features),
            pairs().map(|(a, b)| a * b).collect(),
            pairs().map(|(a, b)| (a - b).abs()).collect(),
            counts.to_vec(),
        ]
        .concat();
        let hidden: Vec<f32> = self.features.apply(&features).into_iter().map(gelu).collect();
        let score = f64::from(self.score.apply(&hidden)[0]);
        Prediction { score, tags: tags.into_iter().map(|tag| tag.map(f64::from)).collect() }
    }

    /// The mean of the depths, without special tokens, projected.
    ///
    /// Shape: `[depths][tokens * hidden]` -> `[tokens][width]`.
    fn side(&self, layers: &[Vec<f32>]) -> Side {
        let hidden = self.project.n_inputs();
        let n_tokens = layers.first().map_or(0, |layer| layer.len() / hidden);
        let row = |token: usize| {
            let mut mixed = vec![0.0; hidden];
            for (layer, weight) in layers.iter().zip(&self.mix) {
                let state = &layer[token * hidden..][..hidden];
                mixed.iter_mut().zip(state).for_each(|(sum, x)| *sum += weight * x);
            }
            self.project.apply(&mixed)
        };
        let rows: Vec<Vec<f32>> = (1..n_tokens.saturating_sub(1)).map(row).collect();
        Side { normed: rows.iter().map(|row| normed(row)).collect(), rows }
    }

    /// Shape: `[tokens][width]` -> `[tokens][features]`.
    fn compared(&self, side: &Side, other: &Side) -> Compared {
        let mut compared = Compared { features: Vec::new(), best_cosines: Vec::new() };
        for (row, normed) in side.rows.iter().zip(&side.normed) {
            let cosines: Vec<f32> = other.normed.iter().map(|other| matrix::dot(normed, other)).collect();
            let best = cosines.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let shares = softmax(&cosines, self.sharpness);
            let mut aligned = vec![0.0; row.len()];
            for (share, other) in shares.iter().zip(&other.rows) {
                aligned.iter_mut().zip(other).for_each(|(sum, x)| *sum += share * x);
            }
            let pairs = || row.iter().zip(&aligned);
            let both: Vec<f32> = (row.iter().copied())
                .chain(aligned.iter().copied())
                .chain(pairs().map(|(a, b)| (a - b).abs()))
                .chain(pairs().map(|(a, b)| a * b))
                .chain([best])
                .collect();
            compared.features.push(self.compare.apply(&both).into_iter().map(gelu).collect());
            compared.best_cosines.push(best);
        }
        compared
    }
}

/// The tensors of a file.
struct Head<'a> {
    path: &'a str,
    tensors: &'a SafeTensors<'a>,
}

impl Head<'_> {
    fn estimator(&self, depths: Vec<u32>) -> Result<Estimator> {
        let mix = self.values("head.mix", &[depths.len()])?;
        let [width, hidden] = self.sizes("head.project.weight")?;
        let [n_features, _] = self.sizes("head.compare.weight")?;
        let [n_hidden, _] = self.sizes("head.features.weight")?;
        let estimator = Estimator {
            mix: softmax(&mix, 1.0),
            project: Linear::new(
                self.values("head.project.weight", &[width, hidden])?,
                vec![0.0; width],
                hidden,
            ),
            sharpness: self.values("head.temperature", &[])?[0].exp(),
            compare: self.linear("head.compare", [n_features, 4 * width + 1])?,
            tags: self.linear("head.tags", [2, n_features])?,
            features: self.linear("head.features", [n_hidden, 4 * n_features + 2 * width + N_COUNTS])?,
            score: self.linear("head.score", [1, n_hidden])?,
            factors: self.factors()?,
            depths,
        };
        if estimator.depths.is_empty() || !estimator.depths.is_sorted() {
            return Err(self.bad("head.mix", "is of depths that are not ascending"));
        }
        Ok(estimator)
    }

    fn linear(&self, name: &str, [n_outputs, n_inputs]: [usize; 2]) -> Result<Linear> {
        let weight = self.values(&format!("{name}.weight"), &[n_outputs, n_inputs])?;
        Ok(Linear::new(weight, self.values(&format!("{name}.bias"), &[n_outputs])?, n_inputs))
    }

    /// `NAME.lora_A.weight`, `[rank, inputs]`, and `NAME.lora_B.weight`, `[outputs, rank]`, of each matrix.
    fn factors(&self) -> Result<BTreeMap<String, LowRank>> {
        let matrices =
            self.tensors.names().into_iter().filter_map(|name| name.strip_suffix(".lora_A.weight"));
        let factors = matrices.map(|name| {
            let [of_a, of_b] = ["A", "B"].map(|side| format!("{name}.lora_{side}.weight"));
            let ([rank, n_inputs], [n_outputs, _]) = (self.sizes(&of_a)?, self.sizes(&of_b)?);
            let (a, b) = (self.values(&of_a, &[rank, n_inputs])?, self.values(&of_b, &[n_outputs, rank])?);
            Ok((format!("{name}.weight"), LowRank { rank, a, b }))
        });
        factors.collect()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensors.tensor(name).map_err(|_| self.bad(name, "is missing"))
    }

    fn sizes(&self, name: &str) -> Result<[usize; 2]> {
        self.tensor(name)?.shape().try_into().map_err(|_| self.bad(name, "is not a matrix"))
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?;
        if tensor.shape() != shape {
            return Err(self.bad(name, &format!("has shape {:?}, expected {shape:?}", tensor.shape())));
        }
        let format = match tensor.dtype() {
            safetensors::Dtype::F32 => Some(Format::F32),
            safetensors::Dtype::BF16 => Some(Format::Bf16),
            safetensors::Dtype::F16 => Some(Format::F16),
            _ => None,
        };
        let values = format.and_then(|format| weights::floats(format, tensor.data()));
        values.ok_or_else(|| self.bad(name, "is of a type that is not supported: f32, f16 and bf16 are"))
    }

    fn bad(&self, name: &str, reason: &str) -> Error {
        Error::Tensor { path: self.path.into(), name: name.into(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests;
