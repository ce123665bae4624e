//! The integration tests, one binary; each module is a file of `all/`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "all/judges.rs"]
mod judges;
#[path = "all/read.rs"]
mod read;
#[path = "all/run.rs"]
mod run;
#[path = "all/score.rs"]
mod score;
#[path = "all/scripted.rs"]
mod scripted;
#[path = "all/tiny_judge.rs"]
mod tiny_judge;
