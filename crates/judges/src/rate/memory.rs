//! RATE's memory of a source: answers of the search agent, an anchor for each score, and the effect of a
//! comparison with an anchor on a tentative score (Appendix B). No model is called here.

use std::collections::BTreeMap;

use serde::Serialize;

/// One answer of the search agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    pub query: String,
    pub answer: String,
}

/// Knowledge and anchors of one source.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    notes: Vec<Note>,
    /// A translation for each score, in halves.
    anchors: BTreeMap<i64, String>,
    /// A first comparison has brought the two synthetic anchors.
    initialized: bool,
}

/// A translation that represents a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Anchor {
    pub score: f64,
    pub text: String,
}

/// The result of one pairwise question for the translation under judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Win,
    Tie,
    Lose,
}

/// Result of both orders of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// Win and win.
    CandidateWins,
    /// Win and tie.
    CandidateNarrowlyWins,
    /// Tie and tie, or win and lose.
    Tie,
    /// Lose and tie.
    CandidateNarrowlyLoses,
    /// Lose and lose.
    CandidateLoses,
}

impl Memory {
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// All answers so far, one a line; empty when there are none.
    pub fn log(&self) -> String {
        self.notes
            .iter()
            .map(|note| format!("{}: {}", note.query, note.answer))
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub fn note(&mut self, query: &str, answer: &str) {
        self.notes.push(Note { query: query.into(), answer: answer.into() });
    }

    pub fn is_initialized(&self) -> bool {
        self.initialized
    }

    /// Takes the two synthetic anchors of a cold start; a translation with their score stays.
    pub fn initialize(&mut self, low: String, high: String) {
        self.anchors.entry(halves(1.0)).or_insert(low);
        self.anchors.entry(halves(4.0)).or_insert(high);
        self.initialized = true;
    }

    /// Makes a finished translation the anchor of its score; an empty one is none.
    pub fn set_anchor(&mut self, score: f64, text: &str) {
        if !text.trim().is_empty() {
            self.anchors.insert(halves(score), text.to_owned());
        }
    }

    /// The anchor with the nearest score, the lower one of two.
    pub fn nearest(&self, score: f64) -> Option<Anchor> {
        let target = halves(score);
        let nearest = self.anchors.iter().min_by_key(|(at, _)| ((*at - target).abs(), **at));
        nearest.map(|(at, text)| Anchor { score: *at as f64 / 2.0, text: text.clone() })
    }
}

/// A score in halves.
pub fn halves(score: f64) -> i64 {
    (score * 2.0).round() as i64
}

impl Scenario {
    /// The five scenarios of Appendix B.
    pub fn between(first: Outcome, second: Outcome) -> Self {
        use Outcome::{Lose, Tie, Win};
        match (first, second) {
            (Win, Win) => Self::CandidateWins,
            (Win, Tie) | (Tie, Win) => Self::CandidateNarrowlyWins,
            (Tie, Tie) | (Win, Lose) | (Lose, Win) => Self::Tie,
            (Lose, Tie) | (Tie, Lose) => Self::CandidateNarrowlyLoses,
            (Lose, Lose) => Self::CandidateLoses,
        }
    }

    /// The shift of a score in this scenario.
    fn shift(self) -> f64 {
        match self {
            Self::CandidateWins => 1.0,
            Self::CandidateNarrowlyWins => 0.5,
            Self::Tie => 0.0,
            Self::CandidateNarrowlyLoses => -0.5,
            Self::CandidateLoses => -1.0,
        }
    }

    /// The score after a comparison with an anchor, within 0 to 4. A candidate that is better than its anchor
    /// keeps a score above the anchor's.
    ///
    /// Source: Appendix B.
    pub fn calibrate(self, tentative: f64, anchor: f64) -> f64 {
        match self {
            Self::CandidateWins | Self::CandidateNarrowlyWins if tentative > anchor => tentative,
            scenario => (tentative + scenario.shift()).clamp(0.0, 4.0),
        }
    }
}

/// The advice to the core agent: `upgrade`, `downgrade`, `adjust` (by a half) or `confirm`.
pub fn advice(tentative: f64, suggested: f64) -> &'static str {
    match halves(suggested) - halves(tentative) {
        0 => "confirm",
        -1 | 1 => "adjust",
        2.. => "upgrade",
        _ => "downgrade",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn five_scenarios() {
        use Outcome::{Lose, Tie, Win};
        let mut table = String::new();
        for (first, second) in [(Win, Win), (Tie, Win), (Tie, Tie), (Lose, Win), (Lose, Tie), (Lose, Lose)] {
            let scenario = Scenario::between(first, second);
            assert_eq!(scenario, Scenario::between(second, first), "the orders are equal");
            for tentative in [1.0, 2.0, 3.0] {
                let moved = scenario.calibrate(tentative, 2.0);
                writeln!(table, "{scenario:?} {tentative} -> {moved} {}", advice(tentative, moved)).unwrap();
            }
        }
        insta::assert_snapshot!(table, @"
        CandidateWins 1 -> 2 upgrade
        CandidateWins 2 -> 3 upgrade
        CandidateWins 3 -> 3 confirm
        CandidateNarrowlyWins 1 -> 1.5 adjust
        CandidateNarrowlyWins 2 -> 2.5 adjust
        CandidateNarrowlyWins 3 -> 3 confirm
        Tie 1 -> 1 confirm
        Tie 2 -> 2 confirm
        Tie 3 -> 3 confirm
        Tie 1 -> 1 confirm
        Tie 2 -> 2 confirm
        Tie 3 -> 3 confirm
        CandidateNarrowlyLoses 1 -> 0.5 adjust
        CandidateNarrowlyLoses 2 -> 1.5 adjust
        CandidateNarrowlyLoses 3 -> 2.5 adjust
        CandidateLoses 1 -> 0 downgrade
        CandidateLoses 2 -> 1 downgrade
        CandidateLoses 3 -> 2 downgrade
        ");
        assert_eq!(Scenario::CandidateWins.calibrate(4.0, 4.0).to_bits(), 4f64.to_bits());
        assert_eq!(Scenario::CandidateLoses.calibrate(0.0, 0.0).to_bits(), 0f64.to_bits());
    }

    #[test]
    fn anchors() {
        let mut memory = Memory::default();
        assert_eq!(memory.nearest(2.0), None);
        memory.set_anchor(4.0, "real");
        memory.set_anchor(3.0, " ");
        assert!(!memory.is_initialized());
        memory.initialize("low".into(), "high".into());
        let nearest = |score| memory.nearest(score).map(|a| (a.score.to_string(), a.text)).unwrap();
        assert_eq!(nearest(0.0), ("1".into(), "low".into()));
        assert_eq!(nearest(2.5), ("1".into(), "low".into()), "the lower of two");
        assert_eq!(nearest(3.0), ("4".into(), "real".into()), "a real translation is not replaced");
        memory.set_anchor(3.5, "better");
        assert_eq!(memory.nearest(3.0).unwrap().text, "better");
    }
}
