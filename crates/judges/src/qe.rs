//! QE: quality estimation by a small encoder that was trained on public ratings. It reads source and
//! translation apart, aligns their tokens, and gives a score and the probability of an error at each token.
//! Nothing is generated, and no reference is read. The model is ours; `scripts/tune/qe_train.py` trains it.
//!
//! Prior work:
//! - Rei et al., "CometKiwi" (WMT 2022): regression on human scores and tags of words from one encoder.
//! - Chen et al., "Enhanced LSTM for Natural Language Inference" (ACL 2017): comparison of aligned tokens.
//! - Wang et al., "Multilingual E5 Text Embeddings" (2024): the encoder.
//!
//! Notes:
//! - The score is the MQM penalty that raters are expected to give, negated. It is not the sum of the errors.
//! - Errors are runs of whole words with a probability of at least a threshold that the fit has; they have no
//!   category (`other`). Beside them stand those of rule-based checks, as in `probe`.
//! - Its fit has the trained part of the encoder, and lists the texts that it was trained on.

mod fit;

use std::sync::Arc;

use super::{
    Error, Judge, Method, Model, NeededHead, Panel, Preset, Protocol, Provenance, Result, Role, Stage,
    Verdict,
    comet::CUT,
    method::Output,
    on_empty,
    probe::{self, spans},
    scale::Scale,
    scope::Scope,
    setup::{self, GivenOptions, Settings, options},
};
use crate::{
    llm::MetricTexts,
    mqm::{self, weights::Weights},
    segment::Segment,
};
use fit::Fit;

/// The stage of its calls.
const ESTIMATE: Stage = Stage::new("estimate");

/// Metadata shown by `tribunal methods show qe`.
pub const METHOD: Method = Method {
    name: "qe",
    summary: "a score and error words from a small encoder trained on public ratings of ten language pairs",
    citation: "ours; after CometKiwi (Rei et al. 2022) and ESIM (Chen et al. 2017)",
    papers: &["rei-etal-2022-cometkiwi", "chen-etal-2017-enhanced"],
    stages: &[ESTIMATE],
    answer_tokens: Some([0, 0]),
    scale: Scale::PREDICTED,
    marks: Some(
        "the score is predicted apart from the marks and is not the sum of their penalties; a mark's `confidence` is the \
         probability that a rater marks its likeliest word",
    ),
    blind_spots: Some(
        "of planted errors it misses about a third of wrong numbers and dates, and a quarter of negations and omitted clauses; \
         do not choose between good systems by its means",
    ),
    // Its marks have passed the threshold of its fit.
    shows_from: 0.0,
    presets: &[Preset::Strict],
    weights: Some("wmt"),
    options: Options::CHOICES,
    common: &[],
    output: Output::Estimate,
    ..Method::with(build)
};

options! {
    /// Options of QE.
    pub struct Options {
        "fit" fit: Option<String> = { "auto" => None, <file> Some },
            "a file of `scripts/tune/qe_train.py` and `qe_fit.py`; auto takes the one that comes with the program";
        "witness" checks: bool = { "on" => true, "off" => false },
            "also mark Chinese characters left in the translation, and words repeated without end; no score depends on it";
    }
}

/// A configured QE judge.
struct Qe {
    fit: Arc<Fit>,
    weights: &'static Weights,
    has_checks: bool,
}

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let options = Options::read(options);
    if settings.shots.is_some() {
        return Err(setup::Error::NoShots);
    }
    if settings.prompts.is_some() {
        return Err(setup::Error::Conflict("`qe` has no prompts to replace".into()));
    }
    let fit = Arc::new(Fit::named(&options.fit.text)?);
    let weights = mqm::weights::find(settings.weights.as_deref().unwrap_or("wmt"))?;
    let provenance = Provenance { prompts: "none".into(), ..Provenance::default() }.with("fit", &fit.hash);
    Ok(Judge {
        trained_on: Some(fit.trained_on.clone()),
        head: Some(NeededHead::Estimator),
        estimator: Some(fit.bytes.clone()),
        shares_sources: true,
        ..Judge::new(provenance, Qe { fit, weights, has_checks: *options.checks })
    })
}

impl Protocol for Qe {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.estimate(panel, segment))
    }

    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        on_empty(METHOD.name, segments).into_iter().collect()
    }

    fn scope(&self) -> Option<Scope> {
        Some(self.fit.scope())
    }

    fn check_models(&self, model_of: &dyn Fn(Role) -> Model) -> setup::Result<()> {
        self.fit.check_model(&model_of(Role::Annotator))
    }
}

impl Qe {
    fn estimate(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let empty = |text: &str| Err(Error::Empty(format!("the {text} is empty")));
        match (segment.source.trim(), segment.hypothesis.trim()) {
            (_, "") => return empty("translation"),
            ("", _) => return empty("source"),
            _ => {}
        }
        let text = &*segment.hypothesis;
        let texts = MetricTexts { source: Some(&segment.source), translation: text, reference: None };
        let estimate = panel.estimate(Role::Annotator, ESTIMATE, &texts)?;
        let broken = || Error::Failed("the estimate has no tags of the translation's tokens".into());
        let tags = estimate.tags.as_ref().ok_or_else(broken)?;
        let chances = tags.values.iter().map(|values| values[..].try_into().ok());
        let chances: Vec<[f64; 2]> = chances.collect::<Option<_>>().ok_or_else(broken)?;
        let words = spans::words(text, &tags.ends, &chances);
        let mut errors = spans::likely(&words, text, self.fit.about.any_from, self.fit.about.major_from);
        self.weights.weigh(&mut errors);
        let verdict = Verdict {
            warning: estimate.is_cut.then(|| CUT.to_owned()),
            ..Verdict::new(self.fit.score(estimate.score), errors)
        };
        let has_checks = self.has_checks;
        Ok(if has_checks { probe::with_checks(verdict, segment, self.weights) } else { verdict })
    }
}
