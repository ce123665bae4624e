//! The integration binary: one module per room.

mod architecture;
mod model;
