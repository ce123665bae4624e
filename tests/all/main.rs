//! The integration binary: one module per room.

mod matmul;
mod model;
