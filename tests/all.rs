//! The integration tests, one binary; each module is a file of `all/`.

#[path = "all/read.rs"]
mod read;
#[path = "all/run.rs"]
mod run;
#[path = "all/score.rs"]
mod score;
#[path = "all/tiny_judge.rs"]
mod tiny_judge;
