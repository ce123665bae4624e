//! The benchmarks' program as a whole. Its measurements are tested in the library.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cuda;
mod machine;
