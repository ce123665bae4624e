//! The ten scenarios of the RUBRIC-MQM paper (Table 2): which slots of the prompt are filled, which scale the
//! severity has, and where Table 8 divides minor from major. It renders nothing.

use crate::{judges::prompt::File, mqm::Severity};

/// What a prompt adds to GEMBA-MQM.
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

/// The full names, for the option `scenario`.
pub const OPTIONS: &[&str] = &[
    NAMES[0].0, NAMES[1].0, NAMES[2].0, NAMES[3].0, NAMES[4].0, NAMES[5].0, NAMES[6].0, NAMES[7].0,
    NAMES[8].0, NAMES[9].0,
];

const DEFINITIONS: File = File { name: "rubric_mqm/definitions.j2", text: include_str!("definitions.j2") };
const RUBRIC_4: File = File { name: "rubric_mqm/rubric-4.j2", text: include_str!("rubric-4.j2") };
const RUBRIC_8: File = File { name: "rubric_mqm/rubric-8.j2", text: include_str!("rubric-8.j2") };
const RUBRIC_100: File = File { name: "rubric_mqm/rubric-100.j2", text: include_str!("rubric-100.j2") };
const Q_4: File = File { name: "rubric_mqm/q-4.j2", text: include_str!("q-4.j2") };
const Q_8: File = File { name: "rubric_mqm/q-8.j2", text: include_str!("q-8.j2") };
const Q_100: File = File { name: "rubric_mqm/q-100.j2", text: include_str!("q-100.j2") };

impl Scale {
    /// The worst severity.
    #[must_use]
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
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        NAMES.iter().find(|(long, short, _)| is_it(long) || is_it(short)).map(|(.., scenario)| *scenario)
    }

    /// The name in PromptCUE's files: `DR-100`.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        NAMES.iter().find(|(.., scenario)| *scenario == self).map_or("", |(_, short, _)| short)
    }

    /// The scale of its severities; `None` for critical, major, minor.
    #[must_use]
    pub fn scale(self) -> Option<Scale> {
        match self {
            DeepRubric(scale) | DeepQ(scale) => Some(scale),
            Gemba | DeepCat | DeepShot | DeepCatShot => None,
        }
    }

    /// The least points of a major error. Source: Table 8.
    #[must_use]
    pub fn threshold(self) -> u32 {
        match self {
            DeepRubric(Four) | DeepQ(Four) => 3,
            DeepRubric(Eight) | DeepQ(Eight) => 5,
            DeepRubric(Hundred) => 52,
            DeepQ(Hundred) => 34,
            Gemba | DeepCat | DeepShot | DeepCatShot => 0,
        }
    }

    /// What so many points are in the words of MQM.
    #[must_use]
    pub fn severity(self, points: u32) -> Severity {
        if points >= self.threshold() { Severity::Major } else { Severity::Minor }
    }

    /// The definitions of the categories, where the prompt has them.
    #[must_use]
    pub fn definitions(self) -> Option<File> {
        matches!(self, DeepCat | DeepCatShot).then_some(DEFINITIONS)
    }

    /// The rubric, where the prompt has one.
    #[must_use]
    pub fn rubric(self) -> Option<File> {
        match self {
            DeepRubric(Four) => Some(RUBRIC_4),
            DeepRubric(Eight) => Some(RUBRIC_8),
            DeepRubric(Hundred) => Some(RUBRIC_100),
            _ => None,
        }
    }

    /// The sentence about the scale, where the prompt has one.
    #[must_use]
    pub fn continuous(self) -> Option<File> {
        match self {
            DeepQ(Four) => Some(Q_4),
            DeepQ(Eight) => Some(Q_8),
            DeepQ(Hundred) => Some(Q_100),
            _ => None,
        }
    }

    /// Whether the examples are the extended ones of Table 15.
    #[must_use]
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
            let slots = [scenario.definitions(), scenario.rubric(), scenario.continuous()];
            let filled = slots.iter().flatten().count() + usize::from(scenario == DeepShot);
            assert_eq!(filled, usize::from(scenario != Gemba), "{long}: one strategy fills one slot");
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
