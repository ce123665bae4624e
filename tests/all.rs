//! The integration tests, one binary.

mod matmul;
