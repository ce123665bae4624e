//! The integration binary: one module per room.

mod model;
