//! Description of a method: its name, its stages and roles, its options. The methods themselves are listed in
//! [`super::registry`].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Judge, Reads,
    scale::{Scale, ScaleOf},
    setup::{self, GivenOptions, Granularity, OptionSpec, Preset, Settings, SharedOptions, names},
};
use crate::{mqm::weights, signature::Signature};

/// Metadata of a method, shown by `tribunal methods show`. Those of a method in a file borrow from it.
#[derive(Clone, Copy, Debug)]
pub struct Method<'m> {
    pub name: &'m str,
    pub summary: &'m str,
    pub citation: &'m str,
    /// The papers that the citation names, by their keys in [`super::bibliography`].
    pub papers: &'static [&'static str],
    /// All stages of its calls, in order.
    pub stages: &'static [Stage],
    /// The roles of its models.
    pub roles: &'m [Role],
    pub calls: Calls,
    /// Mean tokens of an answer, and more for each 1,000 bytes of source and translation, by
    /// Qwen2.5-Coder-1.5B on WMT23 (`scripts/answer_lengths.py`); the first alone is the mean over texts of
    /// 986 bytes. 0 where nothing is generated, `None` where no run was recorded or that judge found no
    /// error.
    pub answer_tokens: Option<[usize; 2]>,
    /// The scale of scores.
    pub scale: Scale,
    /// Other scales, by options; the first whose options are all in force holds.
    pub scales: &'static [ScaleOf],
    /// Known blind spots, shown with its verdicts; `None` if not evaluated.
    pub blind_spots: Option<&'static str>,
    pub system_means: SystemMeans,
    /// Published scores beside human ones, with the command that compares them; `None` where the pages of
    /// documentation have such a comparison, or none was made.
    pub measured: Option<&'static str>,
    /// Relation of the marked errors to the score, if it is not their sum, and the meaning of their
    /// confidence.
    pub marks: Option<&'static str>,
    /// The least confidence of a mark that text reports show; those below are counted.
    pub shows_from: f64,
    /// The granularities of its prompts, the default first.
    pub granularities: &'static [Granularity],
    pub presets: &'static [Preset],
    /// The severity weights that it uses by default; `None` when it weighs nothing.
    pub weights: Option<&'m str>,
    pub options: &'static [OptionSpec],
    /// The options that it shares with all methods whose models generate answers; empty where its own models
    /// do not, or where it has options of its own for the same purpose.
    pub common: &'static [OptionSpec],
    /// The fields of a segment that it requires besides the source.
    pub reads: Reads,
    /// The output of its models that its scores come from.
    pub output: Output,
    pub(super) build: Build,
}

impl Method<'static> {
    /// The fields that most methods share, for a method whose judges are built by `build`: one role,
    /// segments, all presets, penalties without weights of its own. Name, summary, citation, stages, scale
    /// and options have to be given.
    pub(super) const fn with(build: Build) -> Self {
        Self {
            name: "",
            summary: "",
            citation: "",
            papers: &[],
            stages: &[],
            roles: &[Role::Annotator],
            calls: Calls::exactly(1),
            answer_tokens: None,
            scale: Scale::PENALTY,
            scales: &[],
            blind_spots: None,
            system_means: SystemMeans::Rank,
            measured: None,
            marks: None,
            shows_from: 0.5,
            granularities: &[Granularity::Seg],
            presets: &[Preset::Paper, Preset::Code, Preset::Strict],
            weights: None,
            options: &[],
            common: SharedOptions::CHOICES,
            reads: Reads::Translations,
            output: Output::Text,
            build,
        }
    }
}

impl Method<'_> {
    /// True if its verdicts mark errors, so that a translation may be free of them.
    pub fn marks_errors(&self) -> bool {
        self.weights.is_some() || self.scale.sums_errors()
    }

    /// Its scales with the options of each.
    pub fn scales(&self) -> String {
        let weights = self.weights.and_then(|name| weights::signed(name).ok());
        let default = self.scale.signed(&Signature::new(), weights.as_deref());
        let mut all = vec![default.to_string()];
        for (options, scale) in
            self.scales.iter().filter(|(_, scale)| scale.to_string() != default.to_string())
        {
            let options = options.iter().map(|(name, values)| format!("{name}={}", values.join("|")));
            let options = options.collect::<Vec<_>>().join(", ");
            let options = if options.is_empty() { "other options".to_owned() } else { options };
            all.push(format!("with {options}: {scale}"));
        }
        all.join("; ")
    }

    /// The meaning of its scores and marks, the scale first, as sentences without full stops.
    pub fn about(&self, scale: Scale) -> Vec<String> {
        let marks = self.marks.map(|sentence| format!("{}: {sentence}", self.name));
        std::iter::once(format!("scale: {scale}")).chain(marks).collect()
    }

    /// The known blind spot, shown before the scores, as a sentence without a full stop; `None` if there is
    /// none.
    pub fn caution(&self) -> Option<String> {
        self.blind_spots.map(|sentence| format!("{}: {sentence}", self.name))
    }

    /// True if systems may be ordered by their mean scores.
    pub fn ranks_systems(&self) -> bool {
        self.system_means == SystemMeans::Rank
    }

    /// Its own options, then the common ones.
    pub fn all_options(&self) -> Vec<OptionSpec> {
        [self.options, self.common].concat()
    }

    /// Reads `option=value,...` against the method's options.
    ///
    /// # Errors
    /// Those of [`GivenOptions::parse`].
    pub fn parse_options(&self, text: &str) -> setup::Result<GivenOptions> {
        GivenOptions::parse(self.name, &self.all_options(), text)
    }
}

/// An output of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Generated answers, which take a model of some size.
    Text,
    /// Log-probabilities of given texts.
    LogProbabilities,
    /// Hidden states.
    States,
    /// The outputs of a score head.
    Head,
    /// The estimate of a metric.
    Estimate,
}

/// Validity of mean scores for comparing systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemMeans {
    /// Systems are ordered by their means and tested against each other.
    Rank,
    /// Measured against human scores, the means do not order systems; [`Method::blind_spots`] has the
    /// finding. Systems keep the order of the input.
    DoNotRank,
}

/// Builds a judge from settings and options.
pub type Build = fn(&Settings, &GivenOptions) -> setup::Result<Judge>;

/// Model calls for one unit of judgement. A retry after an unusable answer does not count, except where the
/// published program itself asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Calls {
    pub least: usize,
    pub typical: usize,
    pub most: usize,
}

impl Calls {
    /// Exactly this many.
    pub const fn exactly(n: usize) -> Self {
        Self { least: n, typical: n, most: n }
    }

    /// One question after the other, this many, as long as each answer can be used.
    pub const fn up_to(n: usize) -> Self {
        Self { least: 1, typical: n, most: n }
    }
}

/// A role of a model in a method. The command line can assign another model to each (`--role ROLE=MODEL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Names errors, or gives a score, in methods with one agent and in the first stage of others.
    Annotator,
    DebaterA,
    DebaterB,
    Checker,
    Reviewer,
    Judge,
    #[serde(rename = "tier-1")]
    Tier1,
    #[serde(rename = "tier-2")]
    Tier2,
    Single,
    Core,
    Evaluator,
    Search,
    Comparer,
    Editor,
}

names!(Role, "a role", {
    Annotator => "annotator",
    DebaterA => "debater-a",
    DebaterB => "debater-b",
    Checker => "checker",
    Reviewer => "reviewer",
    Judge => "judge",
    Tier1 => "tier-1",
    Tier2 => "tier-2",
    Single => "single",
    Core => "core",
    Evaluator => "evaluator",
    Search => "search",
    Comparer => "comparer",
    Editor => "editor",
});

/// A kind of question in a method, such as the debate of M-MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Stage(&'static str);

impl Stage {
    /// A stage of this name, which stands in `calls.jsonl`.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    pub const fn name(self) -> &'static str {
        self.0
    }

    /// A question of this stage about one part of the work: a dimension, a subtype.
    pub fn about(self, part: impl Into<String>) -> Step {
        Step { stage: self, part: Some(part.into()), round: None }
    }

    /// A question of this stage in one round, from 1.
    pub fn round(self, round: usize) -> Step {
        Step::from(self).round(round)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One question's place in a method: `STAGE`, `STAGE/PART`, `STAGE@ROUND` or `STAGE/PART@ROUND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub stage: Stage,
    pub part: Option<String>,
    pub round: Option<usize>,
}

impl Step {
    /// This step in one round, from 1.
    #[must_use]
    pub fn round(self, round: usize) -> Self {
        Self { round: Some(round), ..self }
    }
}

impl From<Stage> for Step {
    fn from(stage: Stage) -> Self {
        Self { stage, part: None, round: None }
    }
}

impl From<&Self> for Step {
    fn from(step: &Self) -> Self {
        step.clone()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stage)?;
        self.part.iter().try_for_each(|part| write!(f, "/{part}"))?;
        self.round.iter().try_for_each(|round| write!(f, "@{round}"))
    }
}

impl Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_by_name() {
        for &role in Role::ALL {
            assert_eq!(role.name().parse::<Role>().unwrap(), role);
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
        assert_eq!("Tier_1".parse::<Role>().unwrap(), Role::Tier1);
        assert!("jugde".parse::<Role>().unwrap_err().to_string().contains("judge"));
    }

    #[test]
    fn steps_are_written_with_part_and_round() {
        const DEBATE: Stage = Stage::new("debate");
        assert_eq!(Step::from(DEBATE).to_string(), "debate");
        assert_eq!(DEBATE.about("style").round(2).to_string(), "debate/style@2");
        assert_eq!(DEBATE.round(3).to_string(), "debate@3");
    }
}
