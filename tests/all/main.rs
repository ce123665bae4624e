//! The integration binary: one module per room.

mod meta;
mod model;
