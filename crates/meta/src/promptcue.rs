//! PROMPTCUE: a judge is shown where the error is and has to say what kind it is and how bad. Gold sets, answers,
//! matching and scores. It asks no model: `promptcue run` does.
//!
//! Source: Kim, RUBRIC-MQM, 2025, Section 3 and Appendices B and E.

pub mod answers;
pub mod build;
pub mod describe;
pub mod gold;
pub mod labels;
pub mod perturb;

pub mod plan;
pub mod score;
pub mod words;

pub use answers::{Answer, Found};
pub use gold::Cue;
pub use score::{Report, ScoreOptions};
