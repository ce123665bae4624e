//! A fit: what the judge knows of its estimator, in the metadata of the estimator's file. The tensors
//! themselves are read by the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use safetensors::SafeTensors;
use serde::Deserialize;
use tribunal_core::digest;

use crate::{
    Model,
    scope::Scope,
    segment::trained::{self, TrainedOn},
    setup,
};

/// The fit that comes with the program.
const BUILT_IN: &[u8] = include_bytes!("../../../../models/fits/multilingual-e5-small.safetensors");

/// The field of the metadata with [`About`].
const ABOUT: &str = "about";

/// The tensor with the first eight bytes of the hash of each text that it was trained on.
const TRAINED_ON: &str = "trained_on";

/// The penalty of a non-translation, beyond which no rater goes. Unit: MQM points.
const WORST: f64 = 25.0;

/// A fit, read.
pub(super) struct Fit {
    pub about: About,
    /// The whole file.
    pub bytes: Arc<[u8]>,
    /// The first digits of its sha256.
    pub hash: String,
    pub trained_on: TrainedOn,
}

/// Data and thresholds of a fit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    /// The encoder's name, and the first digits of the sha256 of its file.
    model: String,
    sha256: String,
    /// The root of the expected penalty, from the estimator's score: offset and slope.
    root: [f64; 2],
    /// The probabilities from which a word is marked, and from which its error is major.
    pub any_from: f64,
    pub major_from: f64,
    /// The language pairs, each with the bytes of the longest sources.
    pairs: BTreeMap<String, usize>,
    domains: BTreeSet<String>,
}

impl Fit {
    /// The fit of the option `fit`: `auto` for the one that comes with the program, else a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not a fit.
    pub fn named(name: &str) -> setup::Result<Self> {
        if name == "auto" {
            return Self::parse("the fit that comes with the program", BUILT_IN.into());
        }
        let bytes = std::fs::read(name);
        let bytes = bytes.map_err(|source| setup::Error::Read { file: Path::new(name).into(), source })?;
        Self::parse(name, bytes.into())
    }

    fn parse(file: &str, bytes: Arc<[u8]>) -> setup::Result<Self> {
        let broken = |reason: String| {
            let hint = "hint: `scripts/tune/qe_train.py` and `qe_fit.py` make such files";
            setup::Error::Prompt {
                file: file.into(),
                reason: format!("it is not a fit for `qe`: {reason}; {hint}"),
            }
        };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| broken(error.to_string()))?;
        let about = header.metadata().as_ref().and_then(|metadata| metadata.get(ABOUT));
        let about = about.ok_or_else(|| broken("its metadata lacks `about`".into()))?;
        let about = serde_json::from_str(about).map_err(|error| broken(error.to_string()))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|error| broken(error.to_string()))?;
        let hashes = tensors.tensor(TRAINED_ON).map_err(|error| broken(error.to_string()))?;
        let (hashes, _) = hashes.data().as_chunks::<{ trained::SHORT / 2 }>();
        let digits = |hash: &[u8; trained::SHORT / 2]| {
            format!("{}{:016x}", trained::VERSION, u64::from_be_bytes(*hash))
        };
        let hash = digest::short(&*bytes);
        let trained_on = TrainedOn::new(format!("the fit {hash}"), hashes.iter().map(digits));
        Ok(Self { about, bytes, hash, trained_on })
    }

    /// The score that raters would give. Unit: MQM points, at most 0.
    pub fn score(&self, estimate: f64) -> f64 {
        let [offset, slope] = self.about.root;
        let root = (offset + slope * estimate).max(0.0);
        0.0 - (root * root).min(WORST)
    }

    /// # Errors
    /// [`setup::Error::Conflict`] for another encoder than the one that it was trained with.
    pub fn check_model(&self, model: &Model) -> setup::Result<()> {
        let hint = "use that model, or choose another method";
        model.check_fitted("qe", [&self.about.model, &self.about.sha256], hint)
    }

    /// The data that it was trained on.
    pub fn scope(&self) -> Scope {
        Scope {
            pairs: self.about.pairs.clone(),
            domains: self.about.domains.clone(),
            elsewhere: "its scores rank translations less reliably there, though better than chance on en-cs, en-hi and en-ja",
        }
    }
}
