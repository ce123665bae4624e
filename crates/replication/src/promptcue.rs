//! PROMPTCUE: a judge is given the position of an error and names its category and severity. Gold sets,
//! answers, matching and scores. Models are run by `promptcue run`.
//!
//! Source: Kim, RUBRIC-MQM, 2025, Section 3 and Appendices B and E.

pub mod answers;
pub mod build;
pub mod describe;
pub mod gold;
pub mod labels;
pub mod perturb;

pub mod plan;
pub mod rubric;
pub mod score;
pub mod words;

pub use answers::{Answer, SpanLabels};
pub use gold::Cue;
pub use score::{Report, ScoreOptions};
