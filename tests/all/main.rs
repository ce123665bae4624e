//! The integration binary: one module per room.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod broken;
mod engine;
mod first_light;
mod judges;
mod judges_forms;
mod judges_fsp;
mod judges_one_prompt;
mod judges_rubric;
mod matmul;
mod meta;
mod meta_cli;
mod model;
mod read;
mod run;
mod score;
mod scripted;
mod tiny_judge;
