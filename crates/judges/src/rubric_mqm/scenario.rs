//! The ten scenarios of the RUBRIC-MQM paper (Table 2): their names, the scale of their severities, and Table
//! 8's thresholds between minor and major. Their prompts are in [`super::files`].

use crate::mqm::Severity;

/// Addition of a scenario to GEMBA-MQM's prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Gemba,
    /// Definitions of the categories.
    DeepCat,
    /// Extended examples.
    DeepShot,
    DeepCatShot,
    /// A rubric for each step of a scale.
    DeepRubric(Scale),
    /// A sentence that describes a scale.
    DeepQ(Scale),
}

/// The severity's scale: 1 to 4, 8 or 100, higher is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Four,
    Eight,
    Hundred,
}

use Scale::{Eight, Four, Hundred};
use Scenario::{DeepCat, DeepCatShot, DeepQ, DeepRubric, DeepShot, Gemba};

/// The scenarios by name, the paper's own first, each with its name in PromptCUE's files.
pub const NAMES: [(&str, &str, Scenario); 10] = [
    ("deeprubric-100", "DR-100", DeepRubric(Hundred)),
    ("deeprubric-8", "DR-8", DeepRubric(Eight)),
    ("deeprubric-4", "DR-4", DeepRubric(Four)),
    ("deepq-100", "DQ-100", DeepQ(Hundred)),
    ("deepq-8", "DQ-8", DeepQ(Eight)),
    ("deepq-4", "DQ-4", DeepQ(Four)),
    ("deepcatshot", "DCS", DeepCatShot),
    ("deepshot", "DS", DeepShot),
    ("deepcat", "DC", DeepCat),
    ("gemba", "GEMBA", Gemba),
];

impl Scale {
    /// The worst severity.
    pub fn max(self) -> u32 {
        match self {
            Four => 4,
            Eight => 8,
            Hundred => 100,
        }
    }
}

impl Scenario {
    /// The scenario of a full name or of its name in PromptCUE's files, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        NAMES.iter().find(|(long, short, _)| is_it(long) || is_it(short)).map(|(.., scenario)| *scenario)
    }

    /// The name in PromptCUE's files: `DR-100`.
    pub fn short_name(self) -> &'static str {
        NAMES.iter().find(|(.., scenario)| *scenario == self).map_or("", |(_, short, _)| short)
    }

    /// The scale of its severities; `None` for critical, major, minor.
    pub fn scale(self) -> Option<Scale> {
        match self {
            DeepRubric(scale) | DeepQ(scale) => Some(scale),
            Gemba | DeepCat | DeepShot | DeepCatShot => None,
        }
    }

    /// The least points of a major error. Source: Table 8.
    pub fn threshold(self) -> u32 {
        match self {
            DeepRubric(Four) | DeepQ(Four) => 3,
            DeepRubric(Eight) | DeepQ(Eight) => 5,
            DeepRubric(Hundred) => 52,
            DeepQ(Hundred) => 34,
            Gemba | DeepCat | DeepShot | DeepCatShot => 0,
        }
    }

    /// The severity of MQM for these points.
    pub fn severity(self, points: u32) -> Severity {
        if points >= self.threshold() { Severity::Major } else { Severity::Minor }
    }

    /// True if the examples are the extended ones of Table 15.
    pub fn extends_shots(self) -> bool {
        matches!(self, DeepShot | DeepCatShot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_both_names() {
        for (long, short, scenario) in NAMES {
            assert_eq!(Scenario::named(long), Some(scenario));
            assert_eq!(Scenario::named(&short.to_lowercase()), Some(scenario));
            assert_eq!(scenario.short_name(), short);
        }
        assert_eq!(Scenario::named("DR-50"), None);
    }

    #[test]
    fn thresholds_divide_the_scale() {
        assert_eq!(DeepRubric(Hundred).severity(51), Severity::Minor);
        assert_eq!(DeepRubric(Hundred).severity(52), Severity::Major);
        assert_eq!(DeepQ(Hundred).severity(34), Severity::Major);
        assert_eq!(DeepQ(Four).severity(2), Severity::Minor);
        assert_eq!(DeepRubric(Eight).severity(5), Severity::Major);
    }
}
