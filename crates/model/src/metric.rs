//! Metrics of the COMET family on the host: from the hidden states of an encoder to a score and error spans.
//! It runs no layer, and its texts are token lists.
//!
//! Source: `unbabel-comet` 2.2.7, and `sentinel_metric` for regression on a single text.

mod head;
mod mix;
mod settings;
mod spans;
mod yaml;

use std::ops::Range;

use crate::{Result, Weights};
use head::{FeedForward, Linear, load_linear};
use mix::Mix;
pub use settings::{Class, Field, Settings, WordTags};
pub use spans::TaggedSpan;

/// The tokens of a text, without special tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub ids: Vec<u32>,
    /// Of each token, in the text. Unit: bytes.
    pub ranges: Vec<Range<usize>>,
}

/// The tokens of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'t> {
    pub source: Option<&'t Tokens>,
    pub translation: &'t Tokens,
    pub reference: Option<&'t Tokens>,
}

impl<'t> Texts<'t> {
    fn get(&self, field: Field) -> Option<&'t Tokens> {
        match field {
            Field::Source => self.source,
            Field::Translation => Some(self.translation),
            Field::Reference => self.reference,
        }
    }
}

/// The special tokens around a text: `<s>` and `</s>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiters {
    pub first: u32,
    pub last: u32,
}

/// The sequences that the encoder computes for a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    pub sequences: Vec<Vec<u32>>,
    /// True if a text was cut at the encoder's context.
    pub is_cut: bool,
}

/// The prediction of a metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Higher is better.
    pub score: f64,
    /// The scores that it consists of, by COMET's names; empty where it is the only one.
    pub parts: Vec<(&'static str, f64)>,
    /// Errors in the translation; empty of a metric without word tags.
    pub spans: Vec<TaggedSpan>,
}

/// Weights of the inputs with source, with reference and with both in XCOMET's score, and that of its spans.
const SCORE_WEIGHTS: [f64; 4] = [0.12, 0.33, 0.33, 0.22];

/// Weights of the probabilities of word tags for the three inputs.
const TAG_WEIGHTS: [f64; 3] = [0.1667, 0.3333, 0.5];

/// Names of the scores for the three inputs.
const PARTS: [&str; 3] = ["src_scores", "ref_scores", "unified_scores"];

/// The head of a metric, loaded.
pub struct Metric {
    settings: Settings,
    /// Positions of one sequence.
    context: usize,
    mix: Mix,
    estimator: FeedForward,
    tags: Option<Linear>,
    /// The depths of all states that are read, ascending.
    depths: Vec<u32>,
}

impl Metric {
    /// The head of a checkpoint; `None` without `hparams.yaml`.
    ///
    /// # Errors
    /// Tensors that are missing or do not fit the settings.
    pub fn load(weights: &Weights) -> Result<Option<Self>> {
        let Some(settings) = weights.metric() else { return Ok(None) };
        let (config, settings) = (weights.config(), settings.clone());
        let mix = Mix::load(weights, &settings)?;
        let n_features = settings.class.n_features() * config.hidden;
        let estimator = FeedForward::load(weights, &settings, n_features)?;
        let load_tags = |tags: &WordTags| {
            if tags.layer > config.n_layers {
                return Err(
                    settings.bad("word_layer", format!("is {}, of {} layers", tags.layer, config.n_layers))
                );
            }
            load_linear(weights, "hidden2tag", [tags.labels.len() + 1, config.hidden])
        };
        let tags = settings.word_tags.as_ref().map(load_tags).transpose()?;
        let of_tags = settings.word_tags.as_ref().map(|tags| tags.layer as u32);
        let mut depths: Vec<u32> = mix.depths().chain(of_tags).collect();
        depths.sort_unstable();
        depths.dedup();
        Ok(Some(Self { context: config.context, settings, mix, estimator, tags, depths }))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// After how many layers states are read, ascending; 0 is the embeddings.
    pub fn depths(&self) -> &[u32] {
        &self.depths
    }

    /// The sequences of a segment. A text has at most four tokens less than the context, and what joined
    /// texts have beyond the context is cut, with their last special token.
    ///
    /// # Errors
    /// The text that the metric cannot do without.
    pub fn inputs(&self, texts: &Texts<'_>, delimiters: Delimiters) -> Result<Inputs, Field> {
        let mut is_cut = false;
        let longest = match self.settings.class {
            Class::Sentinel(_) => self.context.saturating_sub(2),
            _ => self.context.saturating_sub(4),
        };
        let mut sequence = |fields: &[Field]| {
            let mut ids = vec![delimiters.first];
            for (i, field) in fields.iter().enumerate() {
                let tokens = texts.get(*field).ok_or(*field)?;
                is_cut |= tokens.ids.len() > longest;
                ids.extend([delimiters.last, delimiters.last].iter().filter(|_| i > 0));
                ids.extend(tokens.ids.iter().take(longest));
            }
            ids.push(delimiters.last);
            is_cut |= ids.len() > self.context;
            ids.truncate(self.context);
            Ok(ids)
        };
        let has_both = texts.source.is_some() && texts.reference.is_some();
        let sequences = self.settings.class.sequences(has_both);
        let sequences = sequences.iter().map(|fields| sequence(fields)).collect::<Result<_, Field>>()?;
        Ok(Inputs { sequences, is_cut })
    }

    /// The prediction from the states of each sequence of [`Self::inputs`], after each of [`Self::depths`].
    ///
    /// Shape: `[sequences][depths][tokens * hidden]`.
    pub fn predict(&self, states: &[&[Vec<f32>]], translation: &Tokens) -> Prediction {
        let embedded: Vec<Vec<f64>> =
            states.iter().map(|layers| self.mix.embedding(&self.depths, layers)).collect();
        let (class, estimate) = (self.settings.class, |features: &[f64]| self.estimator.apply(features));
        if !class.joins_texts() {
            return Prediction { score: estimate(&class.features(&embedded)), ..Prediction::default() };
        }
        let scores: Vec<f64> = embedded.iter().map(|embedding| estimate(embedding)).collect();
        let spans = self.spans(states, translation);
        let mut parts: Vec<(&str, f64)> = match scores.len() {
            1 => Vec::new(),
            _ => PARTS.into_iter().zip(scores.iter().copied()).collect(),
        };
        if class != Class::Xcomet {
            return Prediction { score: scores.iter().sum::<f64>() / scores.len() as f64, parts, spans };
        }
        let of_spans = spans::score(&spans);
        let capped = scores.iter().map(|score| score.min(1.0));
        let score = match &scores[..] {
            [_] => capped.sum::<f64>() * SCORE_WEIGHTS[..3].iter().sum::<f64>(),
            _ => capped.zip(SCORE_WEIGHTS).map(|(score, weight)| score * weight).sum(),
        };
        if parts.is_empty() {
            parts.push((PARTS[0], scores[0].min(1.0)));
        }
        parts.push(("mqm_scores", of_spans));
        Prediction { score: score + SCORE_WEIGHTS[3] * of_spans, parts, spans }
    }

    /// The error spans by the word tags, whose probabilities are averaged over the sequences.
    fn spans(&self, states: &[&[Vec<f32>]], translation: &Tokens) -> Vec<TaggedSpan> {
        let (Some(linear), Some(tags)) = (&self.tags, &self.settings.word_tags) else { return Vec::new() };
        let depth = self.depths.iter().position(|depth| *depth as usize == tags.layer).unwrap_or(0);
        let weights = if states.len() == 1 { &[1.0][..] } else { &TAG_WEIGHTS };
        // With the special token before and behind the translation, and what is left of it when it was cut.
        let n_tokens = translation.ids.len().min(self.context.saturating_sub(4)) + 2;
        let mut probabilities = vec![vec![0.0; tags.labels.len() + 1]; n_tokens];
        for (layers, weight) in states.iter().zip(weights) {
            let rows = layers[depth].chunks_exact(linear.n_inputs());
            for (row, sum) in rows.zip(&mut probabilities) {
                let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
                let of_row = mix::softmax(&linear.apply(&row));
                sum.iter_mut().zip(of_row).for_each(|(sum, p)| *sum += weight * p);
            }
        }
        spans::decode(&probabilities, &translation.ranges, &tags.labels)
    }
}
