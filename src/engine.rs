//! The engine room.
