//! The integration binary: one module per room.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod beyond;
mod broken;
mod engine;
mod first_light;
mod judges;
mod matmul;
mod meta;
mod meta_cli;
mod model;
mod rate;
mod read;
mod run;
mod score;
mod scripted;
mod thinking;
mod tiny_judge;
