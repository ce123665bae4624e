//! Estimates of a metric: its texts as sequences of tokens, their hidden states, and its head's prediction.
//! The heads themselves are in `tribunal_model`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use crate::llm::{self, Chat, Estimate, EstimatedSpan, MetricTexts, Reading, Usage};

use super::{
    Engine,
    model::{
        estimator::{self, Estimator},
        metric::{Delimiters, Inputs, Metric, Texts, Tokens},
    },
};

/// Texts whose hidden states are kept. Enough for those that are judged at the same time, with ten
/// translations each.
const N_RECENT: usize = 32;

/// The hidden states of a text, for the first thread that locks it to compute.
type Slot = Arc<Mutex<Option<Arc<Vec<Vec<f32>>>>>>;

/// The hidden states of recent texts, the oldest first.
#[derive(Default)]
pub(super) struct Recent {
    texts: Mutex<VecDeque<(Vec<u32>, Slot)>>,
}

impl Recent {
    fn slot(&self, ids: &[u32]) -> Slot {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = texts.iter().find(|(known, _)| known == ids) {
            return slot.clone();
        }
        if texts.len() == N_RECENT {
            texts.pop_front();
        }
        let slot = Slot::default();
        texts.push_back((ids.to_vec(), slot.clone()));
        slot
    }
}

impl Engine {
    /// The estimate of a translation: [`crate::llm::Llm::estimate`].
    pub(super) fn estimate_of(&self, texts: &MetricTexts<'_>) -> llm::Result<Estimate> {
        if let Some(estimator) = &self.loaded.estimator {
            return self.aligned(estimator, texts);
        }
        let metric = self.loaded.metric.as_ref().ok_or_else(|| {
            llm::Error::Engine(
                "the model is not a metric; hint: the folder of a metric has `hparams.yaml`".into(),
            )
        })?;
        let translation = self.tokens(texts.translation)?;
        let Inputs { sequences, is_cut } = self.inputs(metric, texts, &translation)?;
        let mut usage = Usage::default();
        let of = &*translation.ids;
        let is_shared = |ids: &[u32]| !of.is_empty() && !ids.windows(of.len()).any(|part| part == of);
        let states = sequences.into_iter().map(|ids| {
            if is_shared(&ids) {
                self.shared_states(ids, metric.depths(), &mut usage)
            } else {
                self.own_states(ids, metric.depths(), &mut usage).map(Arc::new)
            }
        });
        let states = states.collect::<Result<Vec<_>, _>>()?;
        let states: Vec<&[Vec<f32>]> = states.iter().map(|layers| &***layers).collect();
        let predicted = metric.predict(&states, &translation);
        if !predicted.score.is_finite() {
            return Err(llm::Error::Engine("the estimate is not a number; the weights are damaged".into()));
        }
        let span = |span: tribunal_model::metric::TaggedSpan| EstimatedSpan {
            start: span.range.start,
            end: span.range.end,
            severity: span.severity,
            confidence: span.confidence,
        };
        Ok(Estimate {
            score: predicted.score,
            parts: predicted.parts.into_iter().map(|(name, score)| (name.to_owned(), score)).collect(),
            spans: predicted.spans.into_iter().map(span).collect(),
            tags: None,
            is_cut,
            usage,
        })
    }

    /// The estimate of an alignment of source and translation.
    fn aligned(&self, estimator: &Estimator, texts: &MetricTexts<'_>) -> llm::Result<Estimate> {
        let [translation, source] = [texts.translation, texts.source.unwrap_or_default()];
        let [translation, source] = [self.tokens(translation)?, self.tokens(source)?];
        if translation.ids.is_empty() || source.ids.is_empty() {
            return Err(llm::Error::Engine("the source or the translation has no tokens".into()));
        }
        let (sequences, is_cut) = self.pair(&translation, &source)?;
        let (mut usage, depths) = (Usage::default(), estimator.depths());
        let [of_translation, of_source] = sequences;
        let of_source = self.shared_states(of_source, depths, &mut usage)?;
        let of_translation = self.own_states(of_translation, depths, &mut usage)?;
        let estimator::Prediction { score, tags } = estimator.predict([&of_translation, &of_source]);
        if !score.is_finite() {
            return Err(llm::Error::Engine("the estimate is not a number; the weights are damaged".into()));
        }
        let tags = Reading {
            ends: translation.ranges.iter().take(tags.len()).map(|range| range.end).collect(),
            values: tags.into_iter().map(Vec::from).collect(),
        };
        Ok(Estimate { score, tags: Some(tags), is_cut, usage, ..Estimate::default() })
    }

    /// The hidden states of a text that is read with other translations too, from those of recent ones.
    fn shared_states(
        &self,
        ids: Vec<u32>,
        depths: &[u32],
        usage: &mut Usage,
    ) -> llm::Result<Arc<Vec<Vec<f32>>>> {
        let slot = self.loaded.recent.slot(&ids);
        let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(states) = &*known {
            usage.cached += ids.len();
            return Ok(states.clone());
        }
        let states = Arc::new(self.own_states(ids, depths, usage)?);
        *known = Some(states.clone());
        Ok(states)
    }

    /// The hidden states of a text.
    fn own_states(&self, ids: Vec<u32>, depths: &[u32], usage: &mut Usage) -> llm::Result<Vec<Vec<f32>>> {
        usage.computed += ids.len();
        usage.distinct += ids.len();
        self.encode(ids, &depths.iter().map(|depth| *depth as usize).collect::<Vec<_>>())
    }

    /// The sequences of a translation and its source, and whether one was cut.
    fn pair(&self, translation: &Tokens, source: &Tokens) -> llm::Result<([Vec<u32>; 2], bool)> {
        let context = self.loaded.facts.context;
        Ok(Estimator::inputs(translation, source, self.delimiters()?, context))
    }

    /// The number of tokens that the texts of a recorded question take; `None` unless the model is a metric.
    pub(super) fn metric_tokens(&self, chat: &Chat) -> Option<llm::Result<usize>> {
        if !self.reads_texts() {
            return None;
        }
        let texts = MetricTexts::from_chat(chat)?;
        let sequences = self.tokens(texts.translation).and_then(|translation| {
            if let Some(metric) = &self.loaded.metric {
                return Ok(self.inputs(metric, &texts, &translation)?.sequences);
            }
            let source = self.tokens(texts.source.unwrap_or_default())?;
            Ok(self.pair(&translation, &source)?.0.to_vec())
        });
        Some(sequences.map(|sequences| sequences.iter().map(Vec::len).sum()))
    }

    /// Returns true for a metric or an estimator, whose texts are no prompt.
    pub(super) fn reads_texts(&self) -> bool {
        self.loaded.metric.is_some() || self.loaded.estimator.is_some()
    }

    fn inputs(&self, metric: &Metric, texts: &MetricTexts<'_>, translation: &Tokens) -> llm::Result<Inputs> {
        let tokens = |text: Option<&str>| text.map(|text| self.tokens(text)).transpose();
        let (source, reference) = (tokens(texts.source)?, tokens(texts.reference)?);
        let texts = Texts { source: source.as_ref(), translation, reference: reference.as_ref() };
        metric.inputs(&texts, self.delimiters()?).map_err(|field| {
            llm::Error::Engine(format!("the metric needs the {} of the segment", field.name()))
        })
    }

    fn delimiters(&self) -> llm::Result<Delimiters> {
        let id = |name: &str| self.loaded.tokenizer.control_id(name);
        let Some((first, last)) = id("<s>").zip(id("</s>")) else {
            return Err(llm::Error::Engine("the metric's tokenizer lacks `<s>` or `</s>`".into()));
        };
        Ok(Delimiters { first, last })
    }

    /// The tokens of a text, in which the names of control tokens are plain text.
    fn tokens(&self, text: &str) -> llm::Result<Tokens> {
        self.check_bytes(std::iter::once(text))?;
        let spans = self.loaded.tokenizer.encode_spans(text);
        let spans = spans.map_err(|error| llm::Error::Engine(error.to_string()))?;
        let (ids, ranges) = spans.into_iter().unzip();
        Ok(Tokens { ids, ranges })
    }
}
