//! The run room.
