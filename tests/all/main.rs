//! The integration binary: one module per room.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod broken;
mod cast;
mod engine;
mod first_light;
mod himate;
mod judges;
mod m_mad;
mod matmul;
mod meta;
mod meta_cli;
mod model;
mod read;
mod run;
mod score;
mod scripted;
mod show;
mod tiny_judge;
