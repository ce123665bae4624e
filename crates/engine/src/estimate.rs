//! Estimates of a metric: its texts as sequences of tokens, their hidden states, and its head's prediction.
//! The heads themselves are in `tribunal_model`.

use crate::llm::{self, Chat, Estimate, EstimatedSpan, MetricTexts, Reading, Usage};

use super::{
    Engine,
    model::{
        estimator::{self, Estimator},
        metric::{Delimiters, Inputs, Metric, Texts, Tokens},
    },
};

impl Engine {
    /// The estimate of a translation: [`crate::llm::Llm::estimate`].
    pub(super) fn estimate_of(&self, texts: &MetricTexts<'_>) -> Result<Estimate, llm::Error> {
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
        let computed = sequences.iter().map(Vec::len).sum();
        let depths: Vec<usize> = metric.depths().iter().map(|depth| *depth as usize).collect();
        let states = sequences.into_iter().map(|ids| self.encode(ids, &depths));
        let predicted = metric.predict(&states.collect::<Result<Vec<_>, _>>()?, &translation);
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
            usage: Usage { computed, distinct: computed, ..Usage::default() },
        })
    }

    /// The estimate of an alignment of source and translation.
    fn aligned(&self, estimator: &Estimator, texts: &MetricTexts<'_>) -> Result<Estimate, llm::Error> {
        let [translation, source] = [texts.translation, texts.source.unwrap_or_default()];
        let [translation, source] = [self.tokens(translation)?, self.tokens(source)?];
        if translation.ids.is_empty() || source.ids.is_empty() {
            return Err(llm::Error::Engine("source or translation have no tokens".into()));
        }
        let Inputs { sequences, is_cut } = self.pair(&translation, &source)?;
        let computed = sequences.iter().map(Vec::len).sum();
        let depths: Vec<usize> = estimator.depths().iter().map(|depth| *depth as usize).collect();
        let mut states = sequences.into_iter().map(|ids| self.encode(ids, &depths));
        let (Some(first), Some(second)) = (states.next(), states.next()) else { unreachable!("two texts") };
        let estimator::Prediction { score, tags } = estimator.predict(&[first?, second?]);
        if !score.is_finite() {
            return Err(llm::Error::Engine("the estimate is not a number; the weights are damaged".into()));
        }
        let tags = Reading {
            ends: translation.ranges.iter().take(tags.len()).map(|range| range.end).collect(),
            values: tags.into_iter().map(Vec::from).collect(),
        };
        let usage = Usage { computed, distinct: computed, ..Usage::default() };
        Ok(Estimate { score, tags: Some(tags), is_cut, usage, ..Estimate::default() })
    }

    /// The sequences of a translation and its source.
    fn pair(&self, translation: &Tokens, source: &Tokens) -> Result<Inputs, llm::Error> {
        let context = self.loaded.facts.context;
        Ok(Estimator::inputs(translation, source, self.delimiters()?, context))
    }

    /// The number of tokens that the texts of a recorded question take; `None` unless the model is a metric.
    pub(super) fn metric_tokens(&self, chat: &Chat) -> Option<Result<usize, llm::Error>> {
        let texts = MetricTexts::from_chat(chat)?;
        let of_translation = self.tokens(texts.translation);
        let inputs = match (&self.loaded.estimator, &self.loaded.metric) {
            (Some(_), _) => of_translation.and_then(|translation| {
                self.pair(&translation, &self.tokens(texts.source.unwrap_or_default())?)
            }),
            (None, Some(metric)) => of_translation.and_then(|tokens| self.inputs(metric, &texts, &tokens)),
            (None, None) => return None,
        };
        Some(inputs.map(|inputs| inputs.sequences.iter().map(Vec::len).sum()))
    }

    fn inputs(
        &self,
        metric: &Metric,
        texts: &MetricTexts<'_>,
        translation: &Tokens,
    ) -> Result<Inputs, llm::Error> {
        let tokens = |text: Option<&str>| text.map(|text| self.tokens(text)).transpose();
        let (source, reference) = (tokens(texts.source)?, tokens(texts.reference)?);
        let texts = Texts { source: source.as_ref(), translation, reference: reference.as_ref() };
        metric.inputs(&texts, self.delimiters()?).map_err(|field| {
            llm::Error::Engine(format!("the metric needs the {} of the segment", field.name()))
        })
    }

    fn delimiters(&self) -> Result<Delimiters, llm::Error> {
        let id = |name: &str| self.loaded.tokenizer.control_id(name);
        let Some((first, last)) = id("<s>").zip(id("</s>")) else {
            return Err(llm::Error::Engine("the metric's tokenizer lacks `<s>` or `</s>`".into()));
        };
        Ok(Delimiters { first, last })
    }

    /// The tokens of a text, in which the names of control tokens are plain text.
    fn tokens(&self, text: &str) -> Result<Tokens, llm::Error> {
        self.check_bytes(std::iter::once(text))?;
        let spans = self.loaded.tokenizer.encode_spans(text);
        let spans = spans.map_err(|error| llm::Error::Engine(error.to_string()))?;
        let (ids, ranges) = spans.into_iter().unzip();
        Ok(Tokens { ids, ranges })
    }
}
