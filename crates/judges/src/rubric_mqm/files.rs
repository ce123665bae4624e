//! RUBRIC-MQM's prompt files: those of a scenario's prompt in a preset. Nothing is rendered here.
//!
//! `paper` and `strict` have the words of the paper's tables. The tables' scale of 100 ends at 90 with the
//! words of 100; the author's files have both steps, and so has `strict`.

use super::scenario::{
    Scale::{Eight, Four, Hundred},
    Scenario::{self, DeepCat, DeepCatShot, DeepQ, DeepRubric},
};
use crate::{
    prompt::{File, file},
    setup::Preset,
};

/// The files of one scenario in one preset.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    pub system: File,
    pub prompt: File,
    /// The definitions of the categories, where the prompt has them.
    pub definitions: Option<File>,
    /// The rubric, where the prompt has one.
    pub rubric: Option<File>,
    /// The sentence about the scale, where the prompt has one.
    pub continuous: Option<File>,
    pub shots: File,
    /// The layout of an example's answer in free text.
    pub answer: File,
    /// The form of an answer; in `strict` alone.
    pub schema: Option<File>,
}

impl Files {
    /// The files with the words of the paper's tables.
    pub fn of(scenario: Scenario, preset: Preset) -> Self {
        Self {
            system: file!("rubric_mqm/system.j2"),
            prompt: file!("rubric_mqm/prompt.j2"),
            definitions: matches!(scenario, DeepCat | DeepCatShot)
                .then_some(file!("rubric_mqm/definitions.j2")),
            rubric: match scenario {
                DeepRubric(Four) => Some(file!("rubric_mqm/rubric-4.j2")),
                DeepRubric(Eight) => Some(file!("rubric_mqm/rubric-8.j2")),
                DeepRubric(Hundred) if preset == Preset::Paper => {
                    Some(file!("rubric_mqm/rubric-100.paper.j2"))
                }
                DeepRubric(Hundred) => Some(file!("rubric_mqm/rubric-100.j2")),
                _ => None,
            },
            continuous: match scenario {
                DeepQ(Four) => Some(file!("rubric_mqm/q-4.j2")),
                DeepQ(Eight) => Some(file!("rubric_mqm/q-8.j2")),
                DeepQ(Hundred) => Some(file!("rubric_mqm/q-100.j2")),
                _ => None,
            },
            shots: if scenario.extends_shots() {
                file!("rubric_mqm/shots.extended.jsonl")
            } else {
                file!("rubric_mqm/shots.jsonl")
            },
            answer: file!("rubric_mqm/answer.j2"),
            schema: (preset == Preset::Strict).then_some(file!("rubric_mqm/schema.j2")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::scenario::{NAMES, Scenario::DeepShot},
        *,
    };

    #[test]
    fn one_strategy_fills_one_slot() {
        for preset in [Preset::Paper, Preset::Strict] {
            for (name, _, scenario) in NAMES {
                let files = Files::of(scenario, preset);
                let slots = [files.definitions, files.rubric, files.continuous];
                let filled = slots.iter().flatten().count() + usize::from(scenario == DeepShot);
                assert_eq!(filled, usize::from(scenario != Scenario::Gemba), "{name} {preset}");
            }
        }
    }
}
