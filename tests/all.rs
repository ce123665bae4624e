//! The one integration binary: whole commands and whole runs, against scripted models.

#[path = "all/read.rs"]
mod read;
#[path = "all/run.rs"]
mod run;
#[path = "all/score.rs"]
mod score;
#[path = "all/tiny_judge.rs"]
mod tiny_judge;
