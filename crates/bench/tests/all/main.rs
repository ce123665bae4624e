//! The benchmarks' program as a whole. What it measures is tested in the library.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cuda;
mod machine;
