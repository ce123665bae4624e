//! Whether a text has any error at all, decided by a threshold instead of greedily: the log-odds of an answer without
//! errors, against what was fitted on rated translations (`tribunal calibrate`). Which errors there are, and how many
//! more, is still the model's to write.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::errors::Layout;
use crate::{
    Error, Materials, Model, Panel, Preset, Role, Settings, Stage,
    llm::{Chat, Form, Weighed},
    method::{Calls, Method},
    segment::Segment,
    setup::{self, Choice, Options},
};

/// The question that it asks: an end and a beginning are weighed.
pub const DECIDE: Stage = Stage::new("decide");

/// The option of methods that can decide so.
pub const OPTION: Choice = Choice {
    name: "threshold",
    values: &["none", "<file>"],
    meaning: "decide whether there is any error by thresholds that `tribunal calibrate` has fitted",
};

/// Options that change nothing about the question up to the decision.
const LATER: &[&str] = &[OPTION.name, "score", "omissions", "overlap"];

/// A file of thresholds; files can be joined by appending one to the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    pub decision: Vec<Threshold>,
}

/// One threshold with all that it holds for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// `en-de`.
    pub pair: String,
    /// The method with its options and granularity ([`described`]).
    pub judge: String,
    /// The hash of the method's prompts.
    pub prompts: String,
    pub model: String,
    /// The first digits of the hash of the model's weights.
    pub sha256: String,
    /// The first digits of the hash of the rated translations.
    pub data: String,
    /// How many texts it was fitted on, and how many of them raters found without errors.
    pub texts: usize,
    pub without_errors: usize,
    /// The mean of the shares that the threshold decides right, of texts with errors and of those without.
    pub accuracy: f64,
    /// Natural logarithm: a text whose log-odds of no error are above has none.
    pub value: f64,
}

/// The thresholds in force.
pub struct Decision {
    thresholds: Vec<Threshold>,
    hash: String,
}

impl Decision {
    /// Reads the option and the file that it names; `None` where the model decides by itself.
    ///
    /// # Errors
    /// [`setup::Error::Read`]; [`setup::Error::Prompt`] for a file that is none; [`setup::Error::Conflict`] for one that
    /// was fitted with another method, other options or other prompts, and outside `strict`.
    pub fn of(
        method: &Method,
        settings: &Settings,
        options: &Options,
        prompts: &str,
    ) -> Result<Option<Self>, setup::Error> {
        let name = options.get(OPTION.name);
        if name == "none" {
            return Ok(None);
        }
        let conflict = |reason: String| Err(setup::Error::Conflict(reason));
        if settings.preset != Preset::Strict {
            return conflict(
                "`threshold` decides within the layout of `strict`; hint: use preset `strict`".into(),
            );
        }
        let decision = Self::read(Path::new(name))?;
        let judge = described(method, settings, options);
        for fitted in &decision.thresholds {
            let pairs = [("judge", &fitted.judge, judge.as_str()), ("prompts", &fitted.prompts, prompts)];
            if let Some((what, there, here)) = pairs.into_iter().find(|(_, there, here)| there != here) {
                let pair = &fitted.pair;
                return conflict(format!(
                    "the threshold for `{pair}` was fitted with the {what} `{there}`, not `{here}`; hint: fit it again"
                ));
            }
        }
        Ok(Some(decision))
    }

    fn read(path: &Path) -> Result<Self, setup::Error> {
        let text =
            fs::read_to_string(path).map_err(|source| setup::Error::Read { file: path.into(), source })?;
        let thresholds: Thresholds = toml::from_str(&text).map_err(|e| setup::Error::Prompt {
            file: path.display().to_string(),
            reason: format!(
                "it has no thresholds of this kind, {}; hint: `tribunal calibrate --method METHOD` writes them",
                e.message()
            ),
        })?;
        let digest = Sha256::digest(&text);
        let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        Ok(Self { thresholds: thresholds.decision, hash: format!("{hash:08x}") })
    }

    /// The first eight hexadecimal digits of the file's SHA-256.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Checks that thresholds were fitted with these weights.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`].
    pub fn check_model(&self, seated: &Model) -> Result<(), setup::Error> {
        match self.thresholds.iter().find(|fitted| fitted.sha256 != seated.sha256) {
            Some(Threshold { pair, model, sha256, .. }) => Err(setup::Error::Conflict(format!(
                "the threshold for `{pair}` was fitted with `{model}` (sha256 {sha256}), not `{}` ({}); hint: fit it again",
                seated.name, seated.sha256
            ))),
            None => Ok(()),
        }
    }

    /// Checks that there is a threshold for every language pair.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`].
    pub fn check_input(&self, segments: &[Segment]) -> Result<(), setup::Error> {
        let is_missing = |segment: &&Segment| self.value(&pair(segment)).is_none();
        match segments.iter().find(is_missing) {
            Some(segment) => Err(setup::Error::Conflict(format!(
                "there is no threshold for `{}`; hint: fit one with `tribunal calibrate` and append it to the file",
                pair(segment)
            ))),
            None => Ok(()),
        }
    }

    fn value(&self, pair: &str) -> Option<f64> {
        self.thresholds.iter().find(|threshold| threshold.pair == pair).map(|threshold| threshold.value)
    }

    /// The form without errors, or with at least one, as the log-odds say.
    ///
    /// # Errors
    /// What [`log_odds`] returns; [`Error::Failed`] without a threshold for the pair.
    pub fn decide(
        &self,
        panel: &Panel,
        chat: &Chat,
        pair: &str,
        layout: Layout,
        form: Form,
    ) -> Result<Form, Error> {
        let value =
            self.value(pair).ok_or_else(|| Error::Failed(format!("there is no threshold for `{pair}`")))?;
        Ok(restricted(form, log_odds(panel, chat, layout)? <= value))
    }
}

/// What a judge has read, with its file of thresholds.
#[must_use]
pub fn signed(materials: Materials, decision: Option<&Decision>) -> Materials {
    match decision {
        Some(decision) => materials.with(OPTION.name, decision.hash()),
        None => materials,
    }
}

/// The calls of a method with one more where it decides by a threshold.
#[must_use]
pub fn calls(calls: Calls, decision: Option<&Decision>) -> Calls {
    let more = usize::from(decision.is_some());
    let Calls { least, typical, most } = calls;
    Calls { least: least + more, typical: typical + more, most: most + more }
}

/// A form of which the list of errors is empty, or is not.
fn restricted(mut form: Form, has_errors: bool) -> Form {
    if let Form::Json { schema, .. } = &mut form
        && let Some(errors) = schema.pointer_mut("/properties/errors")
    {
        errors[if has_errors { "minItems" } else { "maxItems" }] = json!(u8::from(has_errors));
    }
    form
}

/// How much likelier an answer of the strict layout is to end its list of errors at once than to begin an error.
/// Unit: nats; infinite where only one of them is possible.
///
/// # Errors
/// What the model's `weigh` returns; [`Error::Failed`] when it gives neither any probability.
pub fn log_odds(panel: &Panel, chat: &Chat, layout: Layout) -> Result<f64, Error> {
    let chat = Chat { prefill: format!("{}{{\"errors\": [", chat.prefill), ..chat.clone() };
    let none = if layout.quality { "], \"quality_score\": " } else { "]}" };
    let texts = [none.to_owned(), "{\"error_category\": \"".to_owned()];
    let weighed = panel.weigh(Role::Annotator, DECIDE, &chat, &texts)?;
    let [none, some] = [0, 1].map(|at| weighed.get(at).map_or(f64::NEG_INFINITY, Weighed::logprob));
    let odds = none - some;
    if odds.is_nan() {
        let reason = "the model gives no probability to an error, and none to an answer without errors";
        return Err(Error::Failed(reason.into()));
    }
    Ok(odds)
}

/// What a threshold decides, from log-odds and whether raters found no error: the value above which there is none, and
/// the mean of the shares of right decisions in both kinds. `None` where one kind is missing.
///
/// The value lies half-way between two neighbours; of values that are equally good, it is the lowest.
///
/// ```
/// use tribunal_judges::answers::decision::fit;
/// let rated = [(-3.0, false), (-2.0, false), (-1.0, true), (0.0, false), (1.0, true)];
/// let (value, accuracy) = fit(&rated).unwrap();
/// assert_eq!(value, -1.5);
/// assert!((accuracy - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
/// assert_eq!(fit(&[(1.0, true)]), None);
/// ```
#[must_use]
pub fn fit(rated: &[(f64, bool)]) -> Option<(f64, f64)> {
    let mut sorted = rated.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n_without = sorted.iter().filter(|(_, is_without)| *is_without).count();
    let n_with = sorted.len() - n_without;
    if n_with == 0 || n_without == 0 {
        return None;
    }
    let mut best: Option<(f64, f64)> = None;
    let (mut below_with, mut below_without) = (0, 0);
    for pair in sorted.windows(2) {
        let ((low, is_without), (high, _)) = (pair[0], pair[1]);
        below_without += usize::from(is_without);
        below_with += usize::from(!is_without);
        let right = [(below_with, n_with), (n_without - below_without, n_without)];
        let accuracy = right.iter().map(|(right, of)| *right as f64 / *of as f64).sum::<f64>() / 2.0;
        let value = low + (high - low) / 2.0;
        if low < high && value.is_finite() && best.is_none_or(|(_, known)| accuracy > known) {
            best = Some((value, accuracy));
        }
    }
    best
}

/// A method with all that changes its question up to the decision: `fsp:shots=3,explain=on,granularity=doc`.
#[must_use]
pub fn described(method: &Method, settings: &Settings, options: &Options) -> String {
    let counts = method.options.iter().filter(|choice| !LATER.contains(&choice.name));
    let granularity = settings.granularity.unwrap_or(method.granularities[0]);
    let values = counts.map(|choice| format!("{}={}", choice.name, options.in_force(choice, settings)));
    let values: Vec<String> = values.chain([format!("granularity={granularity}")]).collect();
    format!("{}:{}", method.name, values.join(","))
}

/// The language pair of a segment as files name it.
#[must_use]
pub fn pair(segment: &Segment) -> String {
    format!("{}-{}", segment.src_lang, segment.tgt_lang)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_parts_both_kinds_as_well_as_can_be() {
        let rated = |odds: &[(f64, bool)]| fit(odds);
        assert_eq!(rated(&[(0.0, false), (4.0, true)]), Some((2.0, 1.0)));
        assert_eq!(rated(&[(4.0, true), (0.0, false)]), Some((2.0, 1.0)), "in any order");
        // Where no value parts them, none does better than chance.
        assert_eq!(rated(&[(1.0, true), (1.0, false)]), None);
        assert_eq!(
            rated(&[(f64::NEG_INFINITY, false), (0.0, true), (2.0, true), (3.0, false)]),
            Some((1.0, 0.5))
        );
    }

    #[test]
    fn a_form_is_left_with_errors_or_without() {
        let schema = json!({"properties": {"errors": {"type": "array", "maxItems": 10}}});
        let items = |has_errors| match restricted(Form::json(schema.clone()), has_errors) {
            Form::Json { schema, .. } => schema["properties"]["errors"].to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(items(true), r#"{"type":"array","maxItems":10,"minItems":1}"#);
        assert_eq!(items(false), r#"{"type":"array","maxItems":0}"#);
    }
}
