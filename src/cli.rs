//! The cli room.

pub mod meta;

mod table;
