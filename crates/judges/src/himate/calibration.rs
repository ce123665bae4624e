//! HiMATE's stage-transition thresholds (Appendix D): fitted for each model, language pair and subtype,
//! written to a file and read from it. No model is called here.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tribunal_core::{digest, files};

use super::Options;
use crate::{
    Error, Model, Result,
    segment::{Segment, trained::TrainedOn},
    setup,
};

/// The percentile that the paper takes.
pub const PERCENTILE: f64 = 60.0;

/// A file of thresholds; files can be joined by appending one to the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    pub threshold: Vec<Threshold>,
}

/// One threshold with the settings that it holds for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// `en-de`.
    pub pair: String,
    /// The subtype's path, such as `accuracy/addition`; empty for all those that have no threshold of their
    /// own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subtype: String,
    pub model: String,
    /// The first digits of the hash of the model's weights.
    pub sha256: String,
    pub preset: String,
    /// The hash of the method's prompts.
    pub prompts: String,
    /// `sum` or `mean`.
    pub confidence: String,
    /// `weighed` or `asked`.
    #[serde(default)]
    pub comparison: String,
    /// In 0..=100.
    pub percentile: f64,
    /// Numbers of segments and comparisons that it was fitted on.
    pub segments: usize,
    pub answers: usize,
    /// Natural logarithm: answers whose confidence is at most this are discussed.
    pub value: f64,
    /// The first 16 digits of each hash of every source that it was fitted on (`segment::trained`); empty in
    /// files of older versions, whose sources are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

impl Thresholds {
    /// Reads a file: its thresholds and the first eight hexadecimal digits of its SHA-256.
    ///
    /// # Errors
    /// [`setup::Error::Read`]; [`setup::Error::Prompt`] when it is not a calibration.
    pub fn read(path: &Path) -> setup::Result<(Self, String)> {
        let text =
            files::text::read(path).map_err(|source| setup::Error::Read { file: path.into(), source })?;
        let calibration = toml::from_str(&text).map_err(|e| setup::Error::Prompt {
            file: path.display().to_string(),
            reason: format!(
                "it is not a calibration, {}; hint: `tribunal calibrate` writes one",
                e.message()
            ),
        })?;
        Ok((calibration, digest::short(&text)))
    }

    /// The file's text.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The threshold for a subtype in a segment's language pair, or the one for all subtypes.
    pub fn for_subtype(&self, segment: &Segment, subtype: &str) -> Option<f64> {
        let pair = pair(segment);
        let of = |subtype: &str| self.threshold.iter().find(|t| t.pair == pair && t.subtype == subtype);
        of(subtype).or_else(|| of("")).map(|threshold| threshold.value)
    }
}

/// Greatest confidence at which an answer is discussed.
pub(super) enum Limit {
    /// This probability.
    Probability(f64),
    /// The fitted thresholds, and the hash of the file.
    Fitted(Thresholds, String),
}

impl Limit {
    /// Reads the options.
    ///
    /// # Errors
    /// [`setup::Error::Value`] for a threshold above 1, and the errors of [`Thresholds::read`].
    pub fn of(options: &Options) -> setup::Result<Self> {
        if let Some(file) = options.calibration.as_deref() {
            let (calibration, hash) = Thresholds::read(Path::new(file))?;
            return Ok(Self::Fitted(calibration, hash));
        }
        Ok(Self::Probability(probability(options)?))
    }

    /// Checks that thresholds were fitted with the settings in force: preset, prompts, confidence,
    /// comparison, in this order.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`].
    pub fn check(&self, ours: &[(&str, &str); 4]) -> setup::Result<()> {
        let Self::Fitted(calibration, _) = self else { return Ok(()) };
        for fitted in &calibration.threshold {
            let theirs = [&fitted.preset, &fitted.prompts, &fitted.confidence, &fitted.comparison];
            if let Some(((name, computed), recorded)) =
                ours.iter().zip(theirs).find(|((_, computed), recorded)| computed != recorded)
            {
                return Err(setup::Error::Conflict(format!(
                    "the calibration for `{}` was fitted with {name} `{recorded}`, not `{computed}`; hint: fit it again",
                    fitted.pair
                )));
            }
        }
        Ok(())
    }

    /// Checks that thresholds were fitted with these weights.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`].
    pub fn check_model(&self, seated: &Model) -> setup::Result<()> {
        let Self::Fitted(calibration, _) = self else { return Ok(()) };
        let Model { name: model, sha256: present } = seated;
        match calibration.threshold.iter().find(|fitted| fitted.sha256 != *present) {
            Some(fitted) => Err(setup::Error::Conflict(format!(
                "the calibration for `{}` was fitted with `{}` (sha256 {}), not `{model}` ({present}); hint: fit it again",
                fitted.pair, fitted.model, fitted.sha256
            ))),
            None => Ok(()),
        }
    }

    /// The source texts that thresholds were fitted on.
    pub fn trained_on(&self) -> Option<TrainedOn> {
        let Self::Fitted(calibration, hash) = self else { return None };
        let sources = calibration.threshold.iter().flat_map(|fitted| fitted.sources.iter().cloned());
        Some(TrainedOn::new(format!("the calibration {hash}"), sources))
    }

    /// The hash of the calibration file.
    pub fn calibration(&self) -> Option<&str> {
        if let Self::Fitted(_, hash) = self { Some(hash) } else { None }
    }

    /// The log-probability up to which a subtype's answers are discussed.
    ///
    /// # Errors
    /// [`Error::Failed`] when nothing was fitted for the segment's language pair.
    pub fn for_subtype(&self, segment: &Segment, subtype: &str) -> Result<f64> {
        match self {
            Self::Probability(probability) => Ok(probability.ln()),
            Self::Fitted(calibration, _) => calibration.for_subtype(segment, subtype).ok_or_else(|| {
                Error::Failed(format!("the calibration has no threshold for `{}`", pair(segment)))
            }),
        }
    }
}

/// The option `threshold`.
///
/// # Errors
/// [`setup::Error::Value`] unless it is from 0 to 1.
pub fn probability(options: &Options) -> setup::Result<f64> {
    Some(*options.threshold).filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| setup::Error::Value {
        option: "option `threshold`".into(),
        value: options.threshold.text.clone(),
        known: "a probability from 0 to 1".into(),
    })
}

/// The language pair of a segment as in files.
pub fn pair(segment: &Segment) -> String {
    format!("{}-{}", segment.src_lang, segment.tgt_lang)
}

/// The value below which `percent` of the values lie, interpolated between neighbours as numpy does; `None`
/// without values.
///
/// ```
/// use tribunal_judges::himate::calibration::percentile;
/// let confidences = [-4.0, -1.0, -3.0, -2.0, -5.0, -0.0];
/// assert_eq!(percentile(&confidences, 60.0), Some(-2.0));
/// assert_eq!(percentile(&confidences, 50.0), Some(-2.5));
/// assert_eq!(percentile(&[], 60.0), None);
/// ```
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = percent.clamp(0.0, 100.0) / 100.0 * (sorted.len().checked_sub(1)? as f64);
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}
