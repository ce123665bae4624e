//! The cli room.

pub mod compare;
pub mod meta;
pub mod promptcue;

mod table;
