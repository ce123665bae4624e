//! Statistics against values of the reference implementations.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod meta;
#[path = "../../../testing/src/real.rs"]
mod real;
mod suspicions;
mod system_scores;
mod wmt26;
